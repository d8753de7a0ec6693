"""Ardor and what people use instead: the same images, the same CPU seconds, the same tests."""
