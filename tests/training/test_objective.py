"""Gradients of the gates against brute force: one step ahead; curvature, statistics frozen."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from ardor.bayes import Gates
from ardor.layers.variational import Variational, VariationalConv2d
from ardor.methods.random import Random
from ardor.searching.gate_gradients import (
    GateCurvature,
    frozen_statistics,
    moved,
    unrolled_gradients_,
)
from ardor.settings.sections import Fitting
from ardor.spaces.cells import Cells
from ardor.training.objective import Batch, Loss, likelihood, objective
from ardor.training.optimise import held, set_gradients_, weight_optimiser

SPACE = Cells(image=(1, 6, 6), classes=3, layout="NN", states=1, channels=2, ops="seven")


def test_second_order_gradients_are_those_of_the_step_ahead() -> None:
    torch.manual_seed(0)
    w, a = (nn.Parameter(torch.randn(4, dtype=torch.double)) for _ in range(2))
    x, y, u, v = (torch.randn(4, 4, dtype=torch.double) for _ in range(4))
    velocity, rate, momentum, decay = torch.randn(4, dtype=torch.double), 0.05, 0.9, 0.01

    def training(w: Tensor, a: Tensor) -> Tensor:
        return (torch.sin(x @ w) * (u @ a)).square().mean()

    def held_out(w: Tensor, a: Tensor) -> Tensor:
        return (torch.tanh(y @ w) + (v @ a)).square().mean()

    (slope,) = torch.autograd.grad(training(w, a), w, create_graph=True)
    ahead = w - rate * (slope + decay * w + momentum * velocity)
    (exact,) = torch.autograd.grad(held_out(ahead, a), a)
    before = w.detach().clone()
    unrolled_gradients_(
        [a],
        [w],
        lambda: Loss(training(w, a), {}),
        lambda: Loss(held_out(w, a), {}),
        [velocity],
        rate=rate,
        momentum=momentum,
        decay=decay,
    )
    (first,) = torch.autograd.grad(held_out(w, a), a)
    assert torch.allclose(a.grad, exact, rtol=1e-3, atol=1e-6)
    assert not torch.allclose(first, exact, rtol=1e-2)
    assert torch.equal(w, before)


def test_weights_are_put_back_even_after_an_error() -> None:
    w = nn.Parameter(torch.ones(3))
    with pytest.raises(RuntimeError), moved([w], [torch.ones(3)], 0.1):
        raise RuntimeError
    assert torch.equal(w.detach(), torch.ones(3))


def test_the_objective_divides_penalties_by_the_images_once() -> None:
    fit = {"nll": torch.tensor(2.0), "auxiliary": torch.tensor(0.5), "accuracy": torch.ones(())}
    loss = objective(fit, {"kl": torch.tensor(50.0)}, dataset_size=100)
    assert loss.total.item() == pytest.approx(3.0)
    assert loss.terms == {"loss": 3.0, "nll": 2.0, "auxiliary": 0.5, "kl": 0.5, "accuracy": 1.0}


def test_the_kl_of_a_net_bends_with_every_mean_and_every_variance() -> None:
    net = SPACE.build(conv=VariationalConv2d).double()
    layers = [module for module in net.modules() if isinstance(module, Variational)]
    assert net.kl().item() == pytest.approx(sum(layer.kl().item() for layer in layers))
    for parameter in [p for layer in layers for p in (layer.weight, layer.log_var)]:
        (slope,) = torch.autograd.grad(net.kl(), parameter, allow_unused=True)
        assert slope is not None
        ahead = 1e-5 * slope / slope.norm()
        with moved([parameter], [ahead], 1.0):
            after = net.kl().item()
        with moved([parameter], [ahead], -1.0):
            before = net.kl().item()
        assert after - before == pytest.approx(2e-5 * slope.norm().item(), rel=1e-3)


@pytest.mark.parametrize("head", ["nll", "auxiliary"])
def test_the_likelihood_smooths_labels_and_weighs_the_auxiliary_head(head: str) -> None:
    space = replace(SPACE, layout="R", auxiliary=True)
    net = space.build(Random(space).draw(1)[0])
    images, labels = torch.randn(5, *space.image), torch.tensor([0, 1, 2, 0, 1])
    logits = dict(zip(("nll", "auxiliary"), net.heads(images), strict=True))[head]
    found = likelihood(net, Batch(images, labels, 5), {}, smoothing=0.3, auxiliary_weight=0.4)
    share = 0.7 * nn.functional.one_hot(labels, 3) + 0.1
    nll = -(share * logits.log_softmax(1)).sum(1).mean().item()
    assert found[head].item() == pytest.approx(nll * (0.4 if head == "auxiliary" else 1.0))


def small_net() -> tuple[Random, nn.Module, Batch, Gates]:
    gates = {c.name: torch.rand(c.copies, 1, len(c.options)) for c in SPACE.choices}
    batch = Batch(torch.randn(5, *SPACE.image), torch.tensor([0, 1, 2, 0, 1]), dataset_size=50)
    return Random(SPACE), SPACE.build(), batch, gates


def test_curvature_is_the_full_jacobians_for_the_whole_data_set() -> None:
    method, net, batch, gates = small_net()
    found = GateCurvature(net, method.space.choices, lambda: [batch])(gates)
    with frozen_statistics(net, [(batch.images, gates)]):
        p = net(batch.images, gates).softmax(-1)
        hessian = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
        for name in gates:
            jacobian = torch.autograd.functional.jacobian(
                lambda g, name=name: net(batch.images, {**gates, name: g}), gates[name]
            ).flatten(2)
            full = torch.einsum("bci,bcd,bdi->i", jacobian, hessian, jacobian) * 50 / 5
            assert torch.allclose(found[name].flatten(), full, rtol=1e-3, atol=1e-6)


def test_refitting_leaves_the_net_as_it_was() -> None:
    method, net, batch, gates = small_net()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    net.train()
    GateCurvature(net, method.space.choices, lambda: [batch])(gates)
    after = net.state_dict()
    assert set(after) == set(before)
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert all(module.training for module in net.modules())


def test_frozen_statistics_make_images_independent() -> None:
    _, net, batch, gates = small_net()
    with frozen_statistics(net, [(batch.images, gates)]):
        together = net(batch.images, gates)
        alone = torch.cat([net(image[None], gates) for image in batch.images])
    assert torch.allclose(together, alone, atol=1e-5)


def test_parameters_that_are_held_get_no_gradient_and_learn_again_afterwards() -> None:
    weight, gate = (nn.Parameter(torch.tensor([2.0])) for _ in range(2))
    with held([weight]):
        product = (weight * gate).sum()
    slope, nothing = torch.autograd.grad(product, [gate, weight], allow_unused=True)
    assert (slope.item(), nothing) == (2.0, None)
    set_gradients_([weight], (weight * gate).sum())
    assert weight.grad.item() == 2.0


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_weights_move_by_their_own_gradients_whatever_their_layout(optimiser: str) -> None:
    config, found = Fitting(optimiser=optimiser, rate=0.1, weight_decay=0.0), []
    for layout in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(0)
        conv = nn.Conv2d(4, 4, (1, 7), bias=False).to(memory_format=layout)
        steps = weight_optimiser(conv, config)
        for size in (1.0, -2.0):
            conv.weight.grad = size * torch.arange(-56.0, 56.0).reshape(4, 4, 1, 7)
            steps.step()
        found.append(conv.weight.detach().contiguous())
    assert torch.equal(*found)
