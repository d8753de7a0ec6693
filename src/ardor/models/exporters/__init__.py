"""Exporters: one file each, found by name."""
