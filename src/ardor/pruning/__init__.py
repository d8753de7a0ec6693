"""Nets in, smaller nets out: weights that are only noise, channels that do nothing."""
