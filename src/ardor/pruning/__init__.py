"""Nets made smaller: weights that are only noise become zero, channels without effect go."""
