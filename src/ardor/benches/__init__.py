"""Benches that come with Ardor: a grid of runs in a TOML file each, and that of speed in Python."""
