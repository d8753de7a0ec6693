"""Compiled code for the sums of a supernet, and what it is called through."""
