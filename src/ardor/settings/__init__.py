"""Settings: their types and ranges, the sections of a run, presets."""
