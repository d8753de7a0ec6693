"""The accuracies of all cells of NAS-Bench-201, and searches measured by them."""
