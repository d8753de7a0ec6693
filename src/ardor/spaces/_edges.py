"""Sets of operations that differ from edge to edge.

S1 of Zela et al. 2020 ("Understanding and Robustifying Differentiable Architecture Search"): the
space of DARTS, in cells of four states, after the least important operation of an edge was removed
again and again. It has many good cells, and DARTS still ends in skip connections.
"""

from collections.abc import Mapping

STATES = 4  # of the cells that these are for

S1 = {
    "normal/0>2": ("skip_connect", "dil_conv_3x3"),
    "normal/1>2": ("skip_connect", "dil_conv_5x5"),
    "normal/0>3": ("skip_connect", "dil_conv_5x5"),
    "normal/1>3": ("skip_connect", "sep_conv_3x3"),
    "normal/2>3": ("skip_connect", "dil_conv_3x3"),
    "normal/0>4": ("max_pool_3x3", "skip_connect"),
    "normal/1>4": ("skip_connect", "sep_conv_3x3"),
    "normal/2>4": ("skip_connect", "sep_conv_3x3"),
    "normal/3>4": ("skip_connect", "dil_conv_3x3"),
    "normal/0>5": ("skip_connect", "sep_conv_3x3"),
    "normal/1>5": ("max_pool_3x3", "skip_connect"),
    "normal/2>5": ("skip_connect", "dil_conv_3x3"),
    "normal/3>5": ("dil_conv_3x3", "dil_conv_5x5"),
    "normal/4>5": ("dil_conv_3x3", "dil_conv_5x5"),
    "reduce/0>2": ("max_pool_3x3", "avg_pool_3x3"),
    "reduce/1>2": ("max_pool_3x3", "dil_conv_3x3"),
    "reduce/0>3": ("max_pool_3x3", "avg_pool_3x3"),
    "reduce/1>3": ("max_pool_3x3", "avg_pool_3x3"),
    "reduce/2>3": ("skip_connect", "dil_conv_5x5"),
    "reduce/0>4": ("max_pool_3x3", "avg_pool_3x3"),
    "reduce/1>4": ("max_pool_3x3", "sep_conv_3x3"),
    "reduce/2>4": ("skip_connect", "dil_conv_3x3"),
    "reduce/3>4": ("skip_connect", "dil_conv_5x5"),
    "reduce/0>5": ("max_pool_3x3", "avg_pool_3x3"),
    "reduce/1>5": ("max_pool_3x3", "avg_pool_3x3"),
    "reduce/2>5": ("skip_connect", "dil_conv_5x5"),
    "reduce/3>5": ("skip_connect", "dil_conv_5x5"),
    "reduce/4>5": ("skip_connect", "dil_conv_5x5"),
}

BY_EDGE: Mapping[str, Mapping[str, tuple[str, ...]]] = {"s1": S1}
