"""A run: its folder, its settings, and the stages from images to a report."""
