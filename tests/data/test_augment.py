"""Splits, batch-wise augmentation and normalisation."""

import io
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ardor.data import Dataset, Images, Normalise, augment, load, mixed, mixing, stratified
from ardor.data.augment import AUGMENTATIONS
from ardor.errors import ArdorError

ALL = sorted(AUGMENTATIONS)


def drawn(images: Tensor, *names: str, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    return augment(images, names)


def test_parts_are_disjoint_and_hold_every_class_by_its_share() -> None:
    labels = torch.arange(10).repeat_interleave(100)[torch.randperm(1000)]
    train, valid, test = stratified(labels, [0.7, 0.2, 0.1], seed=3)
    assert torch.cat([train, valid, test]).unique().numel() == 1000
    for part, each in ((train, 70), (valid, 20), (test, 10)):
        assert labels[part].bincount().tolist() == [each] * 10
        assert part.equal(part.sort().values)


def test_what_the_fractions_leave_over_is_left_out() -> None:
    first, second = stratified(torch.zeros(50, dtype=torch.int64), [0.5, 0.1], seed=0)
    assert (len(first), len(second)) == (25, 5)
    assert not set(first.tolist()) & set(second.tolist())


def test_a_split_depends_on_the_seed_and_on_nothing_else() -> None:
    labels = torch.arange(4).repeat(25)
    torch.manual_seed(1)
    once = stratified(labels, [0.5, 0.5], seed=7)
    torch.manual_seed(2)
    again, other = stratified(labels, [0.5, 0.5], seed=7), stratified(labels, [0.5, 0.5], seed=8)
    assert all(a.equal(b) for a, b in zip(once, again, strict=True))
    assert not once[0].equal(other[0])


@pytest.mark.parametrize("size", range(3, 30))
def test_no_part_misses_a_class(size: int) -> None:
    labels = torch.tensor([0] * size + [5] * 40)
    parts = stratified(labels, [0.9, 0.05, 0.05], seed=0)
    assert all((labels[part] == 0).any() for part in parts)
    assert sum(len(part) for part in parts) == len(labels)


def test_a_part_of_nothing_is_empty() -> None:
    first, second, third = stratified(torch.tensor([0, 1]), [1.0, 0.0, 0.0], seed=0)
    assert first.tolist() == [0, 1]
    assert len(second) == len(third) == 0
    assert stratified(torch.empty(0, dtype=torch.int64), [0.5], seed=0)[0].dtype == torch.int64


def test_too_few_images_for_the_parts_names_the_class() -> None:
    with pytest.raises(ArdorError, match="class 7 has 1 images; must have at least 2"):
        stratified(torch.tensor([3, 3, 3, 7]), [0.5, 0.5], seed=0)


@pytest.mark.parametrize("fractions", [[0.8, 0.4], [-0.1, 0.5], [float("nan")]])
def test_fractions_that_are_no_shares_are_refused(fractions: list[float]) -> None:
    with pytest.raises(ArdorError, match="must each lie in 0..1"):
        stratified(torch.tensor([0, 0, 0]), fractions, seed=0)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "shape", [(1, 3, 32, 32), (0, 3, 32, 32), (5, 1, 7, 9), (4, 3, 33, 8), (2, 2, 1, 1)]
)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_shape_dtype_and_layout_stay(
    name: str, shape: tuple[int, ...], layout: torch.memory_format, dtype: torch.dtype
) -> None:
    images = torch.randn(shape).to(dtype).contiguous(memory_format=layout)
    before = images.clone()
    changed = drawn(images, name)
    assert changed.shape == images.shape
    assert changed.dtype == dtype
    assert changed.is_contiguous(memory_format=layout)
    assert images.equal(before)


@pytest.mark.parametrize("name", ALL)
def test_draws_come_from_the_global_generator_and_ignore_the_layout(name: str) -> None:
    images = torch.randn(16, 3, 12, 12)
    last = images.contiguous(memory_format=torch.channels_last)
    assert drawn(images, name, seed=4).equal(drawn(last, name, seed=4))
    assert not drawn(images, name, seed=4).equal(drawn(images, name, seed=5))


def test_crop_moves_each_image_by_up_to_an_eighth_and_repeats_its_border() -> None:
    rows = torch.arange(1.0, 17).reshape(1, 1, 16, 1).expand(300, 1, 16, 24)
    columns = torch.arange(1.0, 25).reshape(1, 1, 1, 24).expand(300, 1, 16, 24)
    moved = drawn(torch.cat([rows, columns], 1), "crop")
    down, right = moved[:, 0, 8, 12] - 9, moved[:, 1, 8, 12] - 13
    assert down.unique().tolist() == [-2, -1, 0, 1, 2]
    assert right.unique().tolist() == [-3, -2, -1, 0, 1, 2, 3]
    i = int((down == 2).nonzero()[0])
    assert moved[i, 0, :, 12].tolist() == [*range(3, 17), 16, 16]


def test_crop_moves_small_images_by_parts_of_a_pixel_up_to_an_eighth() -> None:
    rows = torch.arange(1.0, 9).reshape(1, 1, 8, 1).expand(300, 1, 8, 12)
    columns = torch.arange(1.0, 13).reshape(1, 1, 1, 12).expand(300, 1, 8, 12)
    moved = drawn(torch.cat([rows, columns], 1), "crop")
    for found, most in ((moved[:, 0, 4, 6] - 5, 1.0), (moved[:, 1, 4, 6] - 7, 1.5)):
        assert 0.9 * most < found.max() <= most + 1e-5
        assert -most - 1e-5 <= found.min() < -0.9 * most
        assert abs(found.mean()) < 0.2 * most
        assert len(found.round(decimals=3).unique()) > 100
    assert moved[:, 0].max() == 8  # beyond the border it is repeated


def test_flip_mirrors_half_of_the_images_whole() -> None:
    images = torch.randn(2000, 2, 3, 5)
    changed = drawn(images, "flip")
    mirrored = (changed == images.flip(3)).flatten(1).all(1)
    same = (changed == images).flatten(1).all(1)
    assert (mirrored ^ same).all()
    assert 0.45 < mirrored.float().mean() < 0.55


def test_zoom_shows_a_part_of_each_image_of_its_shape_and_size() -> None:
    rows = torch.arange(1.0, 33).reshape(1, 1, 32, 1).expand(2000, 1, 32, 64)
    columns = torch.arange(1.0, 65).reshape(1, 1, 1, 64).expand(2000, 1, 32, 64)
    near = drawn(torch.cat([rows, columns], 1), "zoom")
    tall = (near[:, 0, 24, 0] - near[:, 0, 8, 0]) / 16  # far from the border, where it is repeated
    wide = (near[:, 1, 0, 48] - near[:, 1, 0, 16]) / 32
    assert torch.allclose(tall, wide, atol=1e-5)
    assert 0.4 <= wide.square().min() < 0.42
    assert 0.98 < wide.square().max() <= 1.00001
    assert abs(float(wide.square().mean()) - 0.7) < 0.02
    assert near[:, 0].min() >= 1
    assert near[:, 0].max() <= 32
    aside = near[:, 1, 0, 32] - 33
    assert aside.min() < -8
    assert aside.max() > 8


def test_zoom_interpolates_between_the_four_nearest_pixels() -> None:
    images = torch.randn(20, 1, 9, 9)
    near = drawn(images, "zoom", seed=3)
    torch.manual_seed(3)
    sides = (0.4 + 0.6 * torch.rand(20)).sqrt()
    middles = ((1 - sides) * (2 * torch.rand(2, 20) - 1)).T
    for i, (image, s, (x, y)) in enumerate(zip(images, sides, middles, strict=True)):
        steps = torch.arange(9) * 2 / 9 - 8 / 9  # the middles of pixels, from -1 to 1
        column, row = ((9 * (s * steps + c + 1) - 1) / 2 for c in (x, y))
        # A pixel counts by how near it is: hats of width 2 around each.
        across = (1 - (column.clamp(0, 8)[:, None] - torch.arange(9)).abs()).clamp_min(0)
        down = (1 - (row.clamp(0, 8)[:, None] - torch.arange(9)).abs()).clamp_min(0)
        assert torch.allclose(near[i, 0], down @ image[0] @ across.T, atol=1e-4)


def test_brightness_is_one_factor_for_each_image() -> None:
    images = torch.randn(500, 3, 4, 4)
    factors = drawn(images, "brightness") / images
    each = factors[:, 0, 0, 0]
    assert torch.allclose(factors, each[:, None, None, None].expand_as(factors), atol=1e-4)
    assert 0.8 <= each.min() < 0.81
    assert 1.19 < each.max() <= 1.2001


def test_erase_puts_one_rectangle_of_noise_into_half_of_the_images() -> None:
    changed = drawn(torch.full((4000, 1, 32, 32), 9.0), "erase")
    erased = changed[:, 0] != 9
    touched = erased.flatten(1).any(1)
    assert 0.47 < touched.float().mean() < 0.53
    erased, values = erased[touched], changed[:, 0][touched]
    tall, wide = erased.any(2).sum(1), erased.any(1).sum(1)
    area = erased.flatten(1).sum(1)
    assert area.equal(tall * wide)  # a full rectangle
    share, aspect = area / 1024, tall / wide
    assert 0.015 < share.min() < 0.03
    assert 0.38 < share.max() < 0.42
    assert 0.25 < aspect.min() < 0.4
    assert 2.7 < aspect.max() < 4
    assert abs(float(values[erased].mean())) < 0.01
    assert abs(float(values[erased].std()) - 1) < 0.01
    assert erased.any(0).all()  # every place is reached


def test_erase_leaves_out_what_does_not_fit() -> None:
    flat = torch.full((100, 1, 1, 16), 9.0)
    assert drawn(flat, "erase").equal(flat)
    erased = drawn(torch.full((500, 1, 8, 32), 9.0), "erase")[:, 0] != 9
    tall, wide = erased.any(2).sum(1), erased.any(1).sum(1)
    assert erased.flatten(1).sum(1).equal(tall * wide)
    assert tall.max() < 8
    assert wide.max() < 32


def test_cutout_clears_a_square_of_half_the_side_clipped_at_the_border() -> None:
    changed = drawn(torch.ones(3000, 3, 32, 32), "cutout")
    cleared = changed[:, 0] == 0
    assert changed.eq(changed[:, :1]).all()
    tall, wide = cleared.any(2).sum(1), cleared.any(1).sum(1)
    assert cleared.flatten(1).sum(1).equal(tall * wide)
    assert (int(tall.max()), int(tall.min())) == (16, 8)
    assert (int(wide.max()), int(wide.min())) == (16, 8)
    assert cleared.float().mean(0).min() > 0


def test_changes_are_made_in_the_order_of_their_names() -> None:
    images = torch.ones(64, 1, 8, 8)
    assert drawn(images, "crop", "cutout").mean() < drawn(images, "crop").mean()
    assert augment(images, []) is images


def test_an_unknown_augmentation_is_answered_with_the_nearest() -> None:
    with pytest.raises(ArdorError, match="unknown augmentation 'flp'") as caught:
        augment(torch.zeros(1, 1, 8, 8), ["crop", "flp"])
    assert "flip" in caught.value.hint


def test_normalised_training_images_have_mean_0_and_deviation_1() -> None:
    pixels = torch.randint(0, 256, (50, 3, 6, 5), dtype=torch.uint8)
    pixels[:, 1] = pixels[:, 1] // 4
    images = Images(pixels, torch.zeros(50, dtype=torch.int64))
    layer = Normalise.of(images)
    result = layer(pixels)
    twin = pixels.double()
    torch.testing.assert_close(layer.mean.flatten(), twin.mean((0, 2, 3)).float())
    torch.testing.assert_close(layer.std.flatten(), twin.std((0, 2, 3), correction=0).float())
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(layer(pixels.float()), result)
    torch.testing.assert_close(layer(pixels.double()), result)


def test_a_channel_that_never_changes_is_only_centred() -> None:
    images = Images(torch.full((4, 1, 8, 8), 77, dtype=torch.uint8), torch.zeros(4).long())
    assert Normalise.of(images)(images.pixels).abs().max() == 0


def test_normalise_needs_images() -> None:
    with pytest.raises(ArdorError, match="no images"):
        Normalise.of(Images(torch.empty(0, 1, 8, 8, dtype=torch.uint8), torch.empty(0).long()))


def test_normalise_is_kept_with_the_weights() -> None:
    layer = Normalise(torch.tensor([10.0, 20.0, 30.0]), torch.tensor([1.0, 2.0, 3.0]))
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = Normalise(torch.zeros(3), torch.ones(3))
    other.load_state_dict(torch.load(file, weights_only=True))
    pixels = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    assert other(pixels).equal(layer(pixels))


def test_images_are_taken_by_index_and_checked() -> None:
    images = Images(torch.arange(5, dtype=torch.uint8).reshape(5, 1, 1, 1), torch.arange(5))
    part = images[torch.tensor([4, 0])]
    assert part.labels.tolist() == [4, 0] == part.pixels.flatten().tolist()
    assert len(part) == 2
    with pytest.raises(ArdorError, match="must be torch.uint8"):
        Images(torch.zeros(2, 1, 4, 4), torch.zeros(2).long())
    with pytest.raises(ArdorError, match="one for each image"):
        Images(images.pixels, torch.zeros(4).long())


def test_the_built_in_digits_are_split_by_the_seed() -> None:
    once, again, other = load("digits"), load("digits"), load("digits", seed=1)
    assert isinstance(once, Dataset)
    assert once.shape == (1, 8, 8)
    assert once.classes == tuple("0123456789")
    assert (len(once.train), len(once.test)) == (1438, 359)
    assert int(once.train.pixels.max()) == 255
    assert once.test.labels.bincount().min() >= 34
    assert once.train.pixels.equal(again.train.pixels)
    assert not once.test.pixels.equal(other.test.pixels)
    assert once.notes == ("test: 20 % of each class, held out",)


def test_a_folder_called_like_a_built_in_set_is_reached_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load("digits").name == "digits"
    with pytest.raises(ArdorError, match="no images found in"):
        load("./digits")


def test_mixed_images_have_the_same_shares_as_their_labels() -> None:
    labels = torch.arange(6)
    images = F.one_hot(labels, 6).float().reshape(6, 1, 2, 3)
    torch.manual_seed(1)
    pictures, shares = mixed(images, labels, 6, 1.0)
    assert torch.allclose(pictures.flatten(1), shares)
    assert torch.allclose(shares.sum(1), torch.ones(6))
    assert ((shares > 0).sum(1) <= 2).all()
    assert not torch.equal(pictures, images)


def test_few_images_seen_often_are_mixed_strongly_and_many_not_at_all() -> None:
    assert mixing(500, 600) == 1.0
    assert mixing(50, 6000) == mixing(170, 50_000) == 0.0
    assert 0 < mixing(190, 6000) < mixing(380, 6000) < 1
