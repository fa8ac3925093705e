"""Normalizing flows as estimators (CIL 5.2): maximum likelihood through bijections.

    maximise  Σ_i ln p(x_i),    ln p(x) = ln N(z; 0, I) − Σ_l ln|det J_{F_l}|,    z = F⁻¹(x)                       (5.12)

Columns are standardised first, as the last bijection of the flow: densities are in the units of X.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> t = rng.uniform(0, 3, 1000)
    >>> X = np.column_stack([np.cos(t), np.sin(t)]) + 0.1 * rng.normal(size=(1000, 2))
    >>> flow = NormalizingFlow(max_iter=20, random_state=0).fit(X)
    >>> flow.sample(3).shape, "beats_independent" in flow.certificate_.held
    ((3, 2), True)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp, ndtri
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.generate.flows import FLOW_CLAIMS, MORE_FLOW_CLAIMS, PLANAR_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.parameters import COUNT, KW_ONLY, POSITIVE, choice, parameter
from lemmata.generate.base import DensityModel, Generative
from lemmata.generate.levels import Levels, bits_per_dim, choose_levels, find_levels
from lemmata.nets.estimators.autoencoder import build_filled, typical_scale
from lemmata.registry import require

Array = np.ndarray
Widths = tuple[int, ...]
DEPTHS = {"realnvp": 8, "spline": 4, "planar": 16, "sylvester": 4, "affine": 1, "glow": 8}
UNITS = 8  # of a Sylvester map, where there are as many columns
LEVELS = 3  # at most, of a flow of images: each halves height and width
PIECES = 32  # of a level, in the map of marginals
SMOOTHED = 1e-3  # the share of all levels alike in their shares


class NormalizingFlow(DensityModel, Generative):
    """A density of rows by bijections of a normal one, with exact ln p and samples.

    Maximises Σ ln p(x_i) over the parameters of the bijections, by updates on batches of rows.

    Attributes
    ----------
    module_ : Flow
        The bijections; `module_.forward(z)` and `module_.inverse(x)` give values and ln|det| of every row.
    loss_ : float
        −ln p, the mean over the rows; of more than 2,000, over so many drawn ones.
    test_rows_ : array
        Numbers of the rows that were kept from training and stopping.
    levels_ : array
        The numbers that occur, where it is a model of levels. The density is then that of x + δu, and `score_samples` its
        value at X itself: `bits_per_dim` bounds probabilities.
    input_shape_, history_, n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    recipe: Any = parameter("realnvp", choice(*DEPTHS), list, tuple, before="optimizer").doc("""
        "realnvp" (affine couplings; of images with checkerboards and channels), "glow" (of images:
        actnorm, 1 × 1 convolution, coupling of channels), "spline" (rational-quadratic couplings),
        "planar", "sylvester", "affine" (a full normal density), or a list of modules with forward
        and inverse, from z to x.""")
    _: KW_ONLY
    n_transforms: Any = parameter(None, COUNT, None, before="optimizer").doc("""
        L; None is 8 affine couplings (of images 8 in each level), 4 splines, 16 planar maps, 4
        Sylvester maps, 1 affine map.""")
    widths: Any = parameter((64, 64), tuple, list, before="optimizer").doc("""
        Units, or channels, of the layers of each coupling's network.""")
    partition: str = parameter("auto", choice("auto", "halves", "random"), before="optimizer").doc("""
        The columns that a coupling changes: the two halves in turn, or half of them drawn at
        random; both take images as rows. "auto" is halves, of images checkerboards and
        channels.""")
    levels: Any = parameter("auto", choice("auto"), "array-like", None, before="optimizer").doc("""
        The evenly spaced numbers that may occur (bytes), which are drawn from their cells in
        training. "auto": those of images, where they have any; None: numbers vary
        continuously.""")
    learning_rate: Any = parameter(5e-3, POSITIVE, None)
    schedule: Any = parameter("cosine", str, callable).doc("""
        The rate falls to 0 over `max_iter` epochs; see `NeuralClassifier` for others.""")
    max_iter: int = common.max_iter(100).doc("Epochs at most.")

    claims = FLOW_CLAIMS
    more_claims = MORE_FLOW_CLAIMS
    networks: ClassVar[tuple[str, ...]] = ("recipe",)
    stored: ClassVar[Mapping[str, str | type]] = {**Generative.stored, "levels_?": "l"}

    def _validate_pair(self, X, y, sample_weight=None, reset: bool = True) -> Blocks:
        data = super()._validate_pair(X, y, sample_weight, reset)
        if reset:
            self._forget("levels_")
            auto = isinstance(self.levels, str)
            tables = auto and len(self.input_shape_) < 3
            if self.levels is not None and not tables:
                found = find_levels(data) if auto else choose_levels(self.levels, data)
                if found is not None and found.step is not None:
                    found.require_apart(data.dtype)
                    for rows, _ in data:
                        found.places(rows)
                    self.levels_ = found.values
                elif not auto:
                    raise ValueError(
                        "levels need an even distance, which is the side of their cells."
                    )
        return data

    @property
    def _levels(self) -> Levels | None:
        return Levels(self.levels_) if hasattr(self, "levels_") else None

    def _network(self, data: Blocks | None) -> Any:
        require("torch", "deep", what=type(self).__name__)
        assert data is not None
        classes, shape = self._n_classes, tuple(self.input_shape_)
        images = len(shape) == 3 and self.recipe in ("realnvp", "glow") and self.partition == "auto"
        if self.recipe == "glow" and not images:
            raise ValueError(
                f"recipe='glow' is of images, and rows have shape {shape}: pass images (n, H, W) or (n, C, H, W), or "
                "input_shape=, and partition='auto'."
            )
        mean, scale = self._mean_and_scale(data)
        levels = self._levels
        step = 0.0 if levels is None else float(levels.step or 0.0)
        mean, scale = mean + step / 2, np.sqrt(scale**2 + step**2 / 12)
        if images:
            scale = np.full_like(scale, typical_scale(scale))
        scale = np.where(scale > 0, scale, 1.0)
        widths = tuple(int(width) for width in self.widths)
        if not isinstance(self.recipe, str):
            make = partial(copy.deepcopy, list(self.recipe))
        elif images:
            depth = self.n_transforms or DEPTHS["glow"]
            make = partial(make_image_transforms, self.recipe, shape, depth, widths, classes)
        else:
            depth, random = self.n_transforms or DEPTHS[self.recipe], self.partition == "random"
            partition = "random" if random else "halves"
            make = partial(
                make_transforms, self.recipe, data.shape[1], depth, widths, partition, classes
            )
        size = shape if images else data.shape[1]
        units = {"mean": mean, "scale": scale}
        if images and levels is not None:
            units = self._marginals(data, levels)
        wide = data.dtype == np.float64
        return self._begin_filled(partial(_build, make, size, units, wide, classes, step), {}, data)

    def _marginals(self, data: Blocks, levels: Levels) -> dict[str, Array]:
        """Where each level of each channel begins and ends if its numbers are normal, cut into pieces."""
        channels, K = self.input_shape_[0], len(levels.values)
        counts = np.zeros((channels, K))
        for rows, _ in data:
            for c, part in enumerate(levels.places(rows).reshape(len(rows), channels, -1).swapaxes(0, 1)):  # fmt: skip
                counts[c] += np.bincount(part.ravel(), minlength=K)
        shares = counts / counts.sum(axis=1, keepdims=True)
        shares = ((1 - SMOOTHED) * shares + SMOOTHED / K).repeat(PIECES, axis=1) / PIECES
        below = np.pad(shares.cumsum(axis=1), ((0, 0), (1, 0)))
        below[:, 0], below[:, -1] = below[:, 1] / 8, 1 - shares[:, -1] / 8  # ±∞ otherwise
        wide = np.full(1, levels.step) / PIECES
        return {"start": levels.values[:1], "wide": wide, "knots": ndtri(below)}

    def _loss(self) -> Any:
        return "module"

    def _in_units(self, drawn: Array) -> Array:
        if (levels := self._levels) is None:
            return drawn
        places = np.searchsorted(levels.values[1:], drawn, side="right")
        return levels.values.astype(drawn.dtype)[places]

    def bits_per_dim(self, X, y=None, n_samples: int = 1, random_state: Any = 0) -> float:
        """Bits per number, an upper bound: the mean over rows of −ln(δᵈ/k Σ p(x + δu_i)) / (d ln 2), u_i uniform in the cell.

        Of models of levels, which images of bytes are; continuous numbers have a density, and no bits.

        Parameters
        ----------
        X, y : rows, and their classes for p(x|y)
        n_samples : int, default=1
            k, draws of u; the bound is closer with every draw.
        random_state : int, RandomState or None, default=0
        """
        check_is_fitted(self)
        data, levels = self._validate_pair(X, y, reset=False), self._levels
        if levels is None:
            return float(bits_per_dim(np.zeros(1), 1, None)[0])  # says why not
        rng, first, logs = check_random_state(random_state), 0, []
        seed = np.random.default_rng(rng.randint(2**31))
        for rows, *known in data.triples() if data.targets is not None else data:
            levels.places(rows, first)
            places, first = known[0] if data.targets is not None else None, first + len(rows)
            draws = (levels.dequantise(rows, seed) for _ in range(n_samples))
            each = [self._run_given(cell, places, "log_prob") for cell in draws]
            logs.append(logsumexp(np.array(each, np.float64), axis=0) - math.log(n_samples))
        found = bits_per_dim(np.concatenate(logs), data.shape[1], levels, density=True)
        return float(np.average(found, weights=data.weights))

    def _claims(self) -> tuple[Any, ...]:
        parts = {type(part).__name__ for part in self.module_.modules()}
        return (*self.claims, *PLANAR_CLAIMS) if parts & {"Planar", "Sylvester"} else self.claims


def make_transforms(
    recipe: str, size: int, depth: int, widths: Widths, partition: str = "halves", classes: int = 0
) -> list[Any]:
    """The bijections of a recipe, from z to x."""
    from lemmata.generate.flows.couplings import AffineCoupling, SplineCoupling
    from lemmata.generate.flows.transforms import AffineMap, Planar, Sylvester

    if recipe in ("realnvp", "spline"):
        kind = AffineCoupling if recipe == "realnvp" else SplineCoupling
        return [kind(size, widths, turn, partition, n_classes=classes) for turn in range(depth)]
    if recipe == "planar":
        return [Planar(size) for _ in range(depth)]
    if recipe == "sylvester":
        return [Sylvester(size, min(UNITS, size)) for _ in range(depth)]
    return [AffineMap(size) for _ in range(depth)]


def make_image_transforms(
    recipe: str,
    shape: tuple[int, ...],
    depth: int,
    widths: Widths,
    classes: int = 0,
    level: int = 1,
) -> list[Any]:
    """Levels of a flow of images, each on squares of 2 × 2 pixels and, below the first, half of the channels, from z to x."""
    from lemmata.generate.flows.couplings import AffineCoupling, Split, Squeezed
    from lemmata.generate.flows.transforms import ActNorm, Conv1x1

    channels, height, width = shape
    if level == 1 and (height % 2 or width % 2):
        raise ValueError(
            f"images of {height} × {width} pixels cannot be cut into squares of 2 × 2: pad them to even sides."
        )
    below = 2 * channels, height // 2, width // 2
    deeper = level < LEVELS and below[1] % 2 == 0 and below[2] % 2 == 0
    parts: list[Any] = []
    if deeper:
        parts = [Split(make_image_transforms(recipe, below, depth, widths, classes, level + 1))]
    for turn in range(depth):
        if recipe == "glow":
            coupling = AffineCoupling(4 * channels, widths, 0, "halves", True, classes)
            parts += [coupling, Conv1x1(4 * channels), ActNorm(4 * channels)]
        else:
            partition = "checkerboard" if turn >= depth // 2 else "halves"
            coupling = AffineCoupling(4 * channels, widths, turn, partition, True, classes)
            parts += [coupling, ActNorm(4 * channels)]
    return [Squeezed(parts)]


def _build(make: Any, size: Any, units: dict[str, Array], wide: bool, classes: int, step: float):
    from lemmata.generate.flows.flow import Flow, Marginals, Standardisation, StandardNormal
    from lemmata.generate.flows.transforms import ClassAffine

    kind: Any = partial(Standardisation, size)
    if "knots" in units:
        channels, knots = units["knots"].shape
        kind = partial(Marginals, channels, knots - 1)
    last = build_filled(kind, units, wide)
    if "scale" in units and not math.isfinite(float(last.scale.log().sum())):
        raise ValueError("the rows are too large or too small for float32: pass float64.")
    first = [ClassAffine(np.atleast_1d(size).tolist(), classes)] if classes else []
    return Flow([*first, *make(), last], StandardNormal(size), classes, step)
