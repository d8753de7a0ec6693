"""The sampled Gauss-Newton diagonal in weights, which all images share."""

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from ardor.bayes.curvature import sampled_diagonal

DRAWS = 300


def exact(net: nn.Module, images: Tensor) -> list[Tensor]:
    """sum over images of J^T (diag p - p p^T) J, its diagonal in every weight."""
    weights = dict(net.named_parameters())
    rows = jacrev(lambda given: functional_call(net, given, (images,)))(weights)
    p = net(images).detach().softmax(-1)
    middle = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    each = [row.flatten(2) for row in rows.values()]
    found = [torch.einsum("niw,nij,njw->w", row, middle, row) for row in each]
    return [one.view_as(w) for one, w in zip(found, weights.values(), strict=True)]


def test_its_mean_over_many_draws_is_the_exact_diagonal() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3)).double()
    images = 2 * torch.randn(5, 1, 4, 4).double()
    expected = torch.cat([each.flatten() for each in exact(net, images)]).detach()
    weights = list(net.parameters())
    drawn = torch.stack(
        [
            torch.cat([each.flatten() for each in sampled_diagonal(net(images), weights, 1)])
            for _ in range(DRAWS)
        ]
    )
    error = drawn.std(0) / DRAWS**0.5
    assert ((drawn.mean(0) - expected).abs() < 5 * error).all()
    assert float((error / expected).median()) < 0.2  # or it would tell nothing


def test_weights_that_are_not_read_bend_nothing() -> None:
    read, other = nn.Linear(4, 3), nn.Linear(4, 3)
    found = sampled_diagonal(read(torch.randn(2, 4)), [read.weight, other.weight], 1)
    assert found[0].any()
    assert not found[1].any()
