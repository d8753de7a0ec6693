"""Loops that can be stopped anywhere, the objective, and the training of a network."""
