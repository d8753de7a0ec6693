"""Probability: divergences, draws and curvature, as pure functions of tensors."""

from collections.abc import Mapping

from torch import Tensor

# Choice -> (copies | 1, batch | 1, options); an absent choice is left open.
Gates = Mapping[str, Tensor]
