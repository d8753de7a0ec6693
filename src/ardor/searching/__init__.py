"""The search: one loop for every method, from a space and images to an architecture."""
