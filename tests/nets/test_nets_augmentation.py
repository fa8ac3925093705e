"""Augmentations are exact where they can be, random only by their generator, and the identity at strength 0."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata.core.files.encoding import decode, encode
from lemmata.nets.augmentation import (
    Blur,
    ColourDrop,
    ColourJitter,
    Compose,
    CropResize,
    CutOut,
    Flip,
    Noise,
    QuarterTurn,
    Rotate,
    Shift,
    Sobel,
    Sometimes,
    blur_by,
    crop_to,
    cut_out_at,
    find_edges,
    for_data,
    for_views,
    rotate_by,
    shift_by,
    to_grey,
    turn_hue,
    turn_quarters,
)
from lemmata.nets.estimators.storage import from_stored, to_stored

ALL = (
    Shift(3),
    Flip(0.5),
    Flip(0.5, "vertical"),
    Rotate(20),
    CropResize(),
    CutOut(4),
    Noise(0.1),
    Blur((0.2, 1.5)),
    ColourJitter(0.3, 0.3, 0.3, 0.1),
    ColourDrop(0.5),
    Sobel(0.5),
    Sometimes(Noise(0.1)),
    Compose([Shift(1), Flip()]),
    for_views(colour=True),
)
NOTHING = (
    Shift(0),
    Flip(0.0),
    Rotate(0.0),
    CropResize((1.0, 1.0), (1.0, 1.0)),
    CutOut(0),
    Noise(0.0),
    Blur((0.0, 0.0)),
    ColourJitter(0.0, 0.0),
    ColourDrop(0.0),
    Sobel(0.0),
    QuarterTurn(0.0),
    Sometimes(Noise(), 0.0),
    Compose(),
    *(for_data(name, strength=0) for name in ("digits", "fashion_mnist", "olivetti_faces")),
)
ids = {"ids": repr}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(*shape: int, seed: int = 0, dtype=torch.float64) -> torch.Tensor:
    return torch.rand(*shape, generator=generator(seed), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("augmentation", ALL, **ids)
def test_the_generator_alone_decides(augmentation, dtype):
    batch = images(6, 3, 12, 10, dtype=dtype)
    before, kept = torch.get_rng_state(), batch.clone()
    first, second = (augmentation(batch, generator(5)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, augmentation(batch, generator(6)))
    assert first.dtype == dtype
    assert first.shape == batch.shape
    assert torch.equal(batch, kept)
    assert torch.equal(torch.get_rng_state(), before)
    # one image drawn once is not all images drawn alike
    same = augmentation(batch[:1].expand(16, -1, -1, -1), generator(1))
    assert any(not torch.equal(same[0], other) for other in same[1:])


@pytest.mark.parametrize("augmentation", ALL, **ids)
def test_gradients_are_those_of_finite_differences(augmentation):
    batch = images(2, 3, 5, 4).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: augmentation(x, generator(2)), (batch,), fast_mode=True
    )


@pytest.mark.parametrize("augmentation", ALL, **ids)
def test_float32_follows_float64_and_files_hold_them(augmentation):
    batch = images(5, 3, 9, 9)
    if "Noise" not in repr(
        augmentation
    ):  # normal numbers of the two types come from different streams
        wide, narrow = (augmentation(x, generator(3)) for x in (batch, batch.float()))
        torch.testing.assert_close(narrow.double(), wide, atol=2e-5, rtol=0)
    arrays: dict[str, np.ndarray] = {}
    assert decode(encode(augmentation, arrays), arrays) == augmentation
    assert from_stored(to_stored(augmentation), "augment") == augmentation


@pytest.mark.parametrize("augmentation", NOTHING, **ids)
def test_strength_zero_is_the_identity(augmentation):
    batch = images(3, 1, 7, 7)
    assert augmentation(batch, generator()) is batch


@given(st.integers(-9, 9), st.integers(-9, 9), st.floats(-2, 2), st.integers(1, 3))
@settings(max_examples=60)
def test_a_shift_is_a_roll_with_padding(down, right, fill, channels):
    batch = images(2, channels, 7, 5)
    moved = shift_by(batch, [torch.tensor([down, 0]), torch.tensor([right, 0])], fill)
    wide = torch.nn.functional.pad(batch, (12, 12, 12, 12), value=fill)
    rolled = wide.roll((down, right), dims=(2, 3))[:, :, 12:19, 12:17]
    assert torch.equal(moved[0], rolled[0])
    assert torch.equal(moved[1], batch[1])


def test_all_shifts_are_equally_likely():
    batch = torch.zeros(4000, 1, 5, 5)
    batch[:, 0, 2, 2] = 1
    where = Shift(1)(batch, generator()).flatten(1).argmax(dim=1)
    counts = torch.bincount(where, minlength=25).view(5, 5)
    assert counts.sum() == counts[1:4, 1:4].sum() == 4000
    deviation = math.sqrt(4000 / 9 * 8 / 9)
    assert (counts[1:4, 1:4] - 4000 / 9).abs().max() < 4.5 * deviation  # 9 tests at 7e-6 each


@pytest.mark.parametrize("direction", ["horizontal", "vertical"])
def test_flipping_twice_is_the_identity(direction):
    batch, flip = images(4, 2, 5, 6), Flip(1.0, direction)
    once = flip(batch, generator())
    assert torch.equal(once, batch.flip(-1 if direction == "horizontal" else -2))
    assert torch.equal(flip(once, generator()), batch)


def test_a_quarter_turn_is_rot90():
    batch = images(4, 2, 9, 9)
    turned = rotate_by(batch, torch.tensor([90.0, 180.0, 270.0, 0.0]))
    for b, quarters in enumerate((1, 2, 3, 0)):
        torch.testing.assert_close(turned[b], batch[b].rot90(quarters, (1, 2)), atol=1e-12, rtol=0)
    for b, quarters in enumerate((1, 2, 3, 4)):
        exact = turn_quarters(batch, torch.tensor([1, 2, 3, 4]))[b]
        assert torch.equal(exact, batch[b].rot90(quarters, (1, 2)))
    one = images(1, 1, 9, 9).expand(4000, -1, -1, -1)
    found = QuarterTurn()(one, generator())
    shares = [
        float((found == one[0].rot90(k, (1, 2))).all((1, 2, 3)).double().mean()) for k in range(4)
    ]
    np.testing.assert_allclose(shares, 0.25, atol=4 * math.sqrt(0.25 * 0.75 / 4000))


def test_edges_are_slopes():
    rows, columns = torch.meshgrid(torch.arange(7.0), torch.arange(9.0), indexing="ij")
    plane = (0.3 * rows - 0.4 * columns).expand(2, 3, -1, -1)
    torch.testing.assert_close(find_edges(plane)[..., 1:-1, 1:-1], torch.full((2, 3, 5, 7), 0.5))
    assert float(find_edges(torch.ones(1, 1, 4, 4)).max()) == 0


def test_a_rotation_turns_oblong_images_without_stretching():
    rows, columns = torch.meshgrid(torch.arange(21.0), torch.arange(11.0), indexing="ij")
    disc = (((rows - 10) ** 2 + (columns - 5) ** 2) < 14).double()[None, None]
    inner = rotate_by(disc, torch.tensor([90.0]))
    torch.testing.assert_close(inner, disc, atol=1e-12, rtol=0)
    # a row of 11 cannot hold what was a column of 21: the ends are filled
    filled = rotate_by(disc, torch.tensor([90.0]), fill=-3.0)[0, 0]
    assert (filled[:5] == -3).all()
    assert (filled[5:-5] >= -1e-12).all()


def test_a_crop_of_a_linear_image_is_linear():
    """Bilinear resampling is exact on linear functions away from the border."""
    ramp = torch.arange(12.0, dtype=torch.float64).expand(1, 1, 12, 12)
    sides, centre = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.25, 0.0]])
    found = crop_to(ramp, centre, sides)
    # columns 6 … 12 seen with half a pixel per pixel: centres at 6 + (j + ½)/2 − ½
    expected = (6 + (torch.arange(12.0, dtype=torch.float64) + 0.5) / 2 - 0.5).clamp(max=11)
    torch.testing.assert_close(found[0, 0, 6, :11], expected[:11])
    torch.testing.assert_close(crop_to(ramp, centre * 0, sides * 0 + 1), ramp)


@given(st.integers(1, 6), st.integers(0, 50))
@settings(max_examples=25)
def test_cut_out_blanks_exactly_its_square(size, seed):
    cut = CutOut(size, fill=-1.0)(images(8, 2, 6, 9), generator(seed))
    gone = cut == -1
    assert (gone.sum(dim=(2, 3)) == size**2).all()
    assert (gone.any(dim=2).sum(dim=2) == size).all()
    starts = [torch.tensor([0]), torch.tensor([2])]
    assert torch.equal(
        cut_out_at(torch.ones(1, 1, 3, 4), starts, 2)[0, 0],
        torch.tensor([[1.0, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]]),
    )


def test_noise_has_its_deviation():
    noise = Noise(0.1)(torch.zeros(50, 1, 40, 40, dtype=torch.float64), generator())
    n = noise.numel()
    assert abs(float(noise.std()) - 0.1) < 5 * 0.1 / math.sqrt(2 * n)
    assert abs(float(noise.mean())) < 5 * 0.1 / math.sqrt(n)


def test_a_blur_keeps_constants_and_agrees_with_scipy():
    from scipy.ndimage import gaussian_filter

    batch = images(2, 1, 15, 13)
    blurred = blur_by(batch, torch.tensor([1.2, 0.0]), radius=4)
    expected = gaussian_filter(batch[0, 0].numpy(), 1.2, mode="nearest", radius=4)
    np.testing.assert_allclose(blurred[0, 0].numpy(), expected, atol=1e-12)
    assert torch.equal(blurred[1], batch[1])
    flat = torch.full((3, 2, 6, 6), 0.7, dtype=torch.float64)
    torch.testing.assert_close(Blur((0.5, 2))(flat, generator()), flat)


def test_colours_change_as_defined():
    batch = images(64, 3, 4, 4)
    grey = to_grey(batch)
    brighter = ColourJitter(0.3, 0)(batch, generator())
    factor = brighter / batch
    torch.testing.assert_close(factor, factor[:, :1, :1, :1].expand_as(factor))
    assert 0.7 <= float(factor.min()) < 0.75
    assert 1.25 < float(factor.max()) <= 1.3
    flatter = ColourJitter(0, 0.5)(batch, generator())
    torch.testing.assert_close(to_grey(flatter).mean((1, 2, 3)), grey.mean((1, 2, 3)))
    torch.testing.assert_close(to_grey(ColourJitter(0, 0, 0.9)(batch, generator())), grey)
    one = grey[:5]
    assert torch.equal(ColourJitter(0, 0, 0.9, 0.4)(one, generator()), one)
    assert torch.equal(ColourDrop(1.0)(batch, generator()), grey.expand_as(batch))
    third = turn_hue(batch, torch.full((64,), 1 / 3))
    torch.testing.assert_close(third, batch.roll(1, dims=1))  # red becomes green, green blue


def test_sequences_are_shifted_flipped_cut_and_blurred():
    batch = images(4, 1, 50)
    for augmentation in (
        Shift(9),
        Flip(),
        CutOut(6),
        Noise(),
        Blur(),
        ColourJitter(),
        CropResize(),
    ):
        assert augmentation(batch, generator()).shape == batch.shape
    assert torch.equal(shift_by(batch, [torch.tensor([3, 0, 0, 0])])[0, 0, 3:], batch[0, 0, :-3])
    half = crop_to(batch, torch.zeros(4, 2), torch.tensor([[0.5, 1.0]]).expand(4, 2))
    torch.testing.assert_close(half[:, :, 24:26].mean(), batch[:, :, 24:26].mean())


def test_recipes_name_their_reasons():
    for name in ("digits", "mnist", "fashion_mnist", "olivetti_faces"):
        recipe = for_data(name)
        assert all(len(why) > 20 for _, why in (*recipe.kept, *recipe.refused))
        assert recipe(images(4, 1, 28, 28), generator()).shape == (4, 1, 28, 28)
    assert not any(isinstance(step, Flip) for step, _ in for_data("digits").kept)
    assert any(isinstance(step, Flip) for step, _ in for_data("fashion-mnist").kept)
    assert for_data("spoken_digits")(images(3, 1, 8000), generator()).shape == (3, 1, 8000)


def test_a_mirror_changes_what_digits_are_and_the_recipe_does_not():
    """A nearest-centre rule trained on upright digits: what a label-preserving transformation may cost it, and a mirror."""
    from sklearn.datasets import load_digits
    from sklearn.neighbors import KNeighborsClassifier

    data = load_digits()
    X = torch.from_numpy(data.images[:, None] / 16)
    half = len(X) // 2
    recipe = for_data("digits")
    grown = torch.cat([X[:half], *(recipe(X[:half], generator(s)) for s in range(4))])
    rule = KNeighborsClassifier(1).fit(grown.flatten(1).numpy(), np.tile(data.target[:half], 5))

    def accuracy(batch):
        return rule.score(batch.flatten(1).numpy(), data.target[half:])

    upright, augmented = accuracy(X[half:]), accuracy(recipe(X[half:], generator(9)))
    mirrored = accuracy(X[half:].flip(-1))
    assert upright > 0.95
    assert augmented > 0.9
    assert mirrored < 0.6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Shift(2)(torch.zeros(4, 28, 28, 1, 1), generator()), "channel axis"),
        (lambda: Rotate(5)(torch.zeros(4, 28, 28), generator()), r"\(B, C, H, W\)"),
        (lambda: Noise()(torch.zeros(4, 1, 2, 2, dtype=torch.uint8), generator()), "/ 255"),
        (lambda: CutOut(9)(torch.zeros(1, 1, 8, 8), generator()), "size <= 8"),
        (lambda: ColourJitter(0, 0, 0.1)(torch.zeros(1, 4, 8, 8), generator()), "3 channels"),
        (lambda: QuarterTurn()(torch.zeros(1, 1, 8, 9), generator()), "square images"),
        (lambda: ColourDrop()(torch.zeros(1, 4, 8, 8), generator()), "3 channels"),
        (lambda: Flip(1.5), "within 0 … 1"),
        (lambda: Shift(-1), ">= 0"),
        (lambda: Flip(direction="left"), "horizontal"),
        (lambda: CropResize((0.0, 1.0)), "shares of the area"),
        (lambda: Blur((2.0, 1.0)), "low <= high"),
        (lambda: for_data("cifar"), "fashion_mnist"),
        (lambda: for_data("digits", -1), "strength"),
    ],
)
def test_bad_input_is_answered(call, message):
    with pytest.raises(ValueError, match=message):
        call()
