"""Learning from a teacher: what counts how much, and that it helps where labels are few."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from conftest import stopping_at

from ardor.architecture import Architecture
from ardor.data import UNLABELLED, Images, Taught, joined, mixed
from ardor.errors import Interrupted
from ardor.methods.random import Random
from ardor.runtime.device import Runtime
from ardor.settings.sections import TrainConfig
from ardor.spaces.cells import Cells
from ardor.training.objective import Batch, likelihood, objective, targets_of, truth
from ardor.training.train import train

SPACE = Cells(image=(1, 8, 8), classes=2, layout="NR", states=2, channels=4, auxiliary=True)
PLAIN = TrainConfig(batch=16, rate=0.01, augment=(), variational=False, validation=0.0)


@pytest.fixture
def architecture() -> Architecture:
    return SPACE.strongest({c.name: torch.rand(1, 1, len(c.options)) for c in SPACE.choices})


def greys(count: int, seed: int = 0, *, share: float = 0.5) -> Images:
    """Images of two classes that differ a little in brightness, with a teacher that knows all."""
    draws = torch.Generator().manual_seed(seed)
    light = torch.rand(count, 1, 1, 1, generator=draws) * 200
    noise = torch.rand(count, 1, 8, 8, generator=draws) * 55
    sure = 0.1 * (light.flatten() - 100)
    answers = torch.stack([-sure, sure], 1).log_softmax(1)
    labels = (sure > 0).long()
    return Images((light + noise).to(torch.uint8), labels, Taught(answers, 2.0, share))


def without_labels(images: Images) -> Images:
    return replace(images, labels=torch.full_like(images.labels, UNLABELLED))


def trained(
    architecture: Architecture,
    images: Images,
    folder: Path,
    unlabelled: Images | None = None,
    runtime: Runtime | None = None,
    **changes: object,
) -> torch.nn.Module:
    config = PLAIN.model_copy(update=changes)
    runtime = runtime or Runtime.start("cpu", 0)
    model = train(
        architecture,
        images,
        ("dark", "bright"),
        config,
        run=folder,
        runtime=runtime,
        unlabelled=unlabelled,
    )
    return model.eval()


def right(model: torch.nn.Module, images: Images) -> float:
    return (model.probabilities(images.pixels).argmax(1) == images.labels).float().mean().item()


def test_two_labels_a_class_and_a_teacher_are_worth_many_labels(
    architecture: Architecture, tmp_path: Path
) -> None:
    some, more, new = greys(60), without_labels(greys(200, 1)), greys(500, 2)
    darkest = some.pixels.float().mean((1, 2, 3)).argsort()
    of_each = [darkest[some.labels[darkest] == label][:2] for label in (0, 1)]
    few = some[torch.cat(of_each)]
    # As many steps: one of four images in an epoch, and twelve.
    alone = trained(architecture, replace(few, taught=None), tmp_path / "alone", epochs=36)
    helped = trained(architecture, few, tmp_path / "helped", more, epochs=3)
    assert right(helped, new) > 0.93
    assert right(helped, new) > right(alone, new) + 0.05


def test_a_loss_is_shared_by_label_and_teacher_and_unlabelled_images_weigh_as_much() -> None:
    images = joined([greys(3, share=0.3), without_labels(greys(2, 1, share=0.3))])
    net = SPACE.build(Random(SPACE).draw(1)[0])  # in training, as it has its auxiliary head
    pixels, own = images.pixels.float(), images.taught
    found = likelihood(
        net,
        Batch(pixels, targets_of(images), 5, own.temperature),
        {},
        smoothing=0.2,
        auxiliary_weight=0.4,
    )
    heads = []
    for logits in net.heads(pixels):
        nll = F.cross_entropy(logits[:3], images.labels[:3], reduction="sum", label_smoothing=0.2)
        p, q = (logits / 2).log_softmax(1), (own.answers / 2).softmax(1)
        apart = 4 * (q * (q.log() - p)).sum(1) * torch.tensor([0.3, 0.3, 0.3, 1.0, 1.0])
        heads.append((0.7 * nll / 5, apart.sum() / 5))
    assert found["nll"].item() == pytest.approx(heads[0][0].item(), rel=1e-4)
    assert found["teacher"].item() == pytest.approx(heads[0][1].item(), rel=1e-4)
    assert found["auxiliary"].item() == pytest.approx(0.4 * sum(heads[1]).item(), rel=1e-4)
    terms = objective(found, {}, dataset_size=5).terms
    assert terms["loss"] == pytest.approx(sum(terms[n] for n in ("nll", "teacher", "auxiliary")))


def test_what_is_right_for_an_unlabelled_image_is_what_the_teacher_says() -> None:
    images = joined([greys(4), without_labels(greys(4, 1))])
    wrong = replace(images.taught, answers=images.taught.answers.flip(1))
    labels = torch.cat([greys(4).labels, 1 - greys(4, 1).labels])
    assert truth(targets_of(replace(images, taught=wrong))).equal(labels)


def test_mixed_images_have_mixed_answers() -> None:
    images = joined([greys(6), without_labels(greys(6, 1))])
    targets = targets_of(images)
    pixels, shares = mixed(images.pixels.float(), targets, 2, 1.0)
    assert torch.allclose(shares.sum((1, 2)), torch.ones(12))
    assert not shares.equal(targets)
    assert torch.allclose(shares.mean(0), targets.mean(0))
    assert pixels.shape == images.pixels.shape


@pytest.mark.parametrize("parts", [2, 3])
def test_a_batch_in_parts_has_the_gradient_of_the_whole(parts: int) -> None:
    images = joined([greys(5), without_labels(greys(6, 1))])
    net = SPACE.build(Random(SPACE).draw(1)[0]).double().eval()
    batch = Batch(images.pixels.double() / 99, targets_of(images).double(), 11, 2.0)
    found = []
    for count in (1, parts):
        fit = likelihood(net, batch, {}, smoothing=0.1, auxiliary_weight=0.4, micro_batches=count)
        total = objective(fit, {}, dataset_size=11).total
        found.append((total, *torch.autograd.grad(total, [*net.parameters()], allow_unused=True)))
    for whole, part in zip(*found, strict=True):
        assert (whole is None) == (part is None)
        assert whole is None or torch.allclose(whole, part, rtol=1e-8, atol=1e-12)


def test_a_teacher_without_a_share_says_nothing_of_labelled_images(
    architecture: Architecture, tmp_path: Path
) -> None:
    images = greys(32, share=0.0)
    silent = trained(architecture, images, tmp_path / "silent", epochs=1).state_dict()
    none = trained(architecture, replace(images, taught=None), tmp_path / "none", epochs=1)
    for name, weight in none.state_dict().items():
        assert torch.allclose(silent[name], weight, atol=1e-4), name


def test_a_training_that_was_stopped_ends_with_the_same_weights(
    architecture: Architecture, tmp_path: Path
) -> None:
    images, more = greys(20), without_labels(greys(30, 1))
    changes = {"epochs": 2, "mixup": 0.3, "augment": ("crop",), "average": 0.9, "validation": 0.2}
    whole = trained(architecture, images, tmp_path / "whole", more, **changes)
    with pytest.raises(Interrupted):
        trained(architecture, images, tmp_path / "cut", more, stopping_at(4), **changes)
    resumed = trained(architecture, images, tmp_path / "cut", more, **changes)
    for name, weight in whole.state_dict().items():
        assert weight.equal(resumed.state_dict()[name]), name


def test_held_out_images_have_labels_and_the_log_says_how_far_the_teacher_is(
    architecture: Architecture, tmp_path: Path
) -> None:
    trained(
        architecture, greys(40), tmp_path, without_labels(greys(40, 1)), epochs=6, validation=0.5
    )
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["held_out"]["nll"] < lines[0]["held_out"]["nll"]
    assert lines[-1]["train"]["teacher"] < lines[0]["train"]["teacher"]
