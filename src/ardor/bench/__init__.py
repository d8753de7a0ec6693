"""Benches that come with Ardor: a grid of runs in a TOML file each, others in Python."""
