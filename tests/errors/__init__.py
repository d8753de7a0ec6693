"""A user who does everything wrong: one line of what, one of the way out, and nothing harmed."""
