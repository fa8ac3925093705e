"""Which transformations preserve the label, data set by data set, and why.

    >>> recipe = for_data("fashion_mnist")
    >>> print(recipe)
    fashion_mnist
      Shift(pixels=2, fill=0.0)                       garments are centred by eye: two pixels off is the same garment
      Flip(probability=0.5, direction='horizontal')   a garment seen in a mirror is the same garment
      without vertical flips                          nobody wears a boot upside down: the test images are upright
      without rotations                               the camera was level: turned images spend capacity on what never comes
      without colour jitter                           a grey level is part of what tells a shirt from a coat

A recipe is itself an augmentation: `recipe(batch, generator)`. Sizes are meant for values in [0, 1]; they were set by
judgement, not tuned on any data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Generator, Tensor

from lemmata.core.store import storable
from lemmata.nets.augmentation.draws import Augmentation, Compose, Sometimes
from lemmata.nets.augmentation.positions import CropResize, Flip, Rotate, Shift
from lemmata.nets.augmentation.values import Blur, ColourDrop, ColourJitter, CutOut, Noise


@storable
@dataclass(frozen=True)
class Recipe:
    """The augmentations that preserve the labels of one data set, those that do not, and the reason for each."""

    data: str
    kept: tuple[tuple[Augmentation, str], ...]
    refused: tuple[tuple[str, str], ...]

    @property
    def augmentation(self) -> Compose:
        return Compose([step for step, _ in self.kept])

    def __call__(self, batch: Tensor, generator: Generator) -> Tensor:
        return self.augmentation(batch, generator)

    def __str__(self) -> str:
        lines = [(str(step), why) for step, why in self.kept]
        lines += [(f"without {what}", why) for what, why in self.refused]
        width = max(len(what) for what, _ in lines) + 2
        return "\n".join([self.data, *(f"  {what:<{width}} {why}" for what, why in lines)])


def _digits(s: float) -> Recipe:
    return Recipe(
        "digits",
        (
            (
                Shift(round(1 * s)),
                "an eighth of these 8 × 8 images; hands write digits off the centre",
            ),
            (Rotate(10 * s), "hands slant by about that much; far from the 180° that make a 6 a 9"),
            (Noise(0.05 * s), "a sixteenth, the step between two grey levels of these scans"),
        ),
        (
            ("flips", "a 2 or a 3 in a mirror is no digit, and a 5 nearly a 2"),
            ("large rotations", "a 6 upside down is a 9"),
            ("cut-out", "a quarter of an 8 × 8 image may hold all that tells a 1 from a 7"),
        ),
    )


def _mnist(s: float) -> Recipe:
    return Recipe(
        "mnist",
        (
            (Shift(round(2 * s)), "digits are centred by mass, to a pixel or two"),
            (Rotate(10 * s), "hands slant by about that much; far from the 180° that make a 6 a 9"),
        ),
        (
            ("flips", "a 2 or a 3 in a mirror is no digit, and a 5 nearly a 2"),
            ("large rotations", "a 6 upside down is a 9"),
        ),
    )


def _fashion_mnist(s: float) -> Recipe:
    return Recipe(
        "fashion_mnist",
        (
            (
                Shift(round(2 * s)),
                "garments are centred by eye: two pixels off is the same garment",
            ),
            (Flip(0.5 * min(s, 1.0)), "a garment seen in a mirror is the same garment"),
        ),
        (
            ("vertical flips", "nobody wears a boot upside down: the test images are upright"),
            ("rotations", "the camera was level: turned images spend capacity on what never comes"),
            ("colour jitter", "a grey level is part of what tells a shirt from a coat"),
        ),
    )


def _olivetti_faces(s: float) -> Recipe:
    return Recipe(
        "olivetti_faces",
        (
            (Shift(round(4 * s)), "faces were cropped by hand: a sixteenth of the side off is the same person"),
            (Flip(0.5 * min(s, 1.0)), "a face is close to its mirror image"),
            (Rotate(10 * s), "people tilt their heads by about that much"),
            (
                CropResize((1 - 0.2 * min(s, 1.0), 1.0), (1.0, 1.0)),
                "nearer to the camera; width over height stays, since it tells people apart",
            ),
            (ColourJitter(min(0.2 * s, 1), min(0.2 * s, 1)), "the light changed between the sittings"),
        ),
        (
            ("vertical flips", "all faces are upright"),
            ("strong blur", "what tells two people apart is fine detail"),
        ),
    )  # fmt: skip


def _spoken_digits(s: float) -> Recipe:
    return Recipe(
        "spoken_digits",
        (
            (Shift(round(800 * s)), "a tenth of a second at 8 kHz: when the word begins is not the word"),
            (ColourJitter(min(0.3 * s, 1), 0.0), "the volume: how loud a digit is said is not which"),
            (Noise(0.005 * s), "a quiet hiss of the microphone"),
            (CutOut(round(400 * s)), "a gap of 50 ms, shorter than any vowel"),
        ),
        (
            ("flips", "speech played backwards is no word"),
            ("crop-resize", "a change of speed changes the pitch, hence the speaker; small ones are harmless"),
        ),
    )  # fmt: skip


RECIPES: dict[str, Callable[[float], Recipe]] = {
    "digits": _digits,
    "mnist": _mnist,
    "fashion_mnist": _fashion_mnist,
    "olivetti_faces": _olivetti_faces,
    "spoken_digits": _spoken_digits,
}


def for_data(name: str, strength: float = 1.0) -> Recipe:
    """The recipe of a data set, by the name of its loader. Strength scales all sizes; at 0 nothing is changed."""
    key = name.replace("-", "_").lower()
    if key not in RECIPES:
        raise ValueError(
            f"no recipe for {name!r}; there are {', '.join(RECIPES)}. For other data compose your own, "
            "e.g. Compose([Shift(2), Flip(0.5)]), from what leaves its labels true."
        )
    if not strength >= 0:
        raise ValueError(
            f"strength={strength}: pass a number >= 0; 0 changes nothing, 1 is the recipe."
        )
    return RECIPES[key](strength)


def for_views(strength: float = 1.0, colour: bool = False) -> Compose:
    """Strong augmentation for two views of one image, as SimCLR and BYOL want it (ML "SimCLR"): stronger than for labels."""
    s = min(strength, 1.0)
    jitter = ColourJitter(0.4 * s, 0.4 * s, 0.4 * s if colour else 0.0, 0.1 * s if colour else 0.0)
    steps: list[Augmentation] = [
        CropResize((1 - 0.7 * s, 1.0), (0.75**s, 0.75**-s)),
        Flip(0.5 * s),
        Sometimes(jitter, 0.8),
        Sometimes(Blur((0.1 * s, 1.0 * s)), 0.5),
    ]
    return Compose([*steps, ColourDrop(0.2 * s)] if colour else steps)
