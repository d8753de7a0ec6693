"""What each cell of NAS-Bench-201 reaches, and searches measured by it."""
