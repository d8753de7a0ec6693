"""Probability: divergences, draws and curvature, as pure functions of tensors."""
