"""A network with all it needs to predict; its scores, sizes, card and exports."""
