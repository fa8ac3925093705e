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

from lemmata.audit.generate.flows import FLOW_CLAIMS, MORE_FLOW_CLAIMS, PLANAR_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.parameters import COUNT, KW_ONLY, POSITIVE, choice, parameter
from lemmata.generate.base import DensityModel, Generative
from lemmata.registry import require

Array = np.ndarray
DEPTHS = {"realnvp": 8, "spline": 4, "planar": 16, "sylvester": 4, "affine": 1}
UNITS = 8  # of a Sylvester map, where there are as many columns


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
    input_shape_, history_, n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    recipe: Any = parameter("realnvp", choice(*DEPTHS), list, tuple, before="optimizer").doc("""
        "realnvp" (affine couplings), "spline" (rational-quadratic couplings), "planar",
        "sylvester", "affine" (a full normal density), or a list of modules with forward and
        inverse, from z to x.""")
    _: KW_ONLY
    n_transforms: Any = parameter(
        None, COUNT, None, before="optimizer"
    ).doc("""
        L; None is 8 affine couplings, 4 splines, 16 planar maps, 4 Sylvester maps, 1 affine map.""")
    widths: Any = parameter((64, 64), tuple, list, before="optimizer").doc("""
        Units of the layers of each coupling's network.""")
    partition: str = parameter("halves", choice("halves", "random"), before="optimizer").doc("""
        The columns that a coupling changes: the two halves in turn, or half of them drawn at
        random.""")
    learning_rate: Any = parameter(5e-3, POSITIVE, None)
    schedule: Any = parameter("cosine", str, callable).doc("""
        The rate falls to 0 over `max_iter` epochs; see `NeuralClassifier` for others.""")
    max_iter: int = common.max_iter(100).doc("Epochs.")

    claims = FLOW_CLAIMS
    more_claims = MORE_FLOW_CLAIMS
    networks: ClassVar[tuple[str, ...]] = ("recipe",)
    stored: ClassVar[Mapping[str, str | type]] = Generative.stored

    def _network(self, data: Blocks | None) -> Any:
        require("torch", "deep", what=type(self).__name__)
        assert data is not None
        mean, scale = self._mean_and_scale(data)
        if isinstance(self.recipe, str):
            widths = tuple(int(width) for width in self.widths)
            depth = self.n_transforms or DEPTHS[self.recipe]
            shuffle = self.partition == "random"
            make = partial(make_transforms, self.recipe, data.shape[1], depth, widths, shuffle)
        else:
            make = partial(copy.deepcopy, list(self.recipe))
        return self._begin_with(partial(_build, make, mean, scale, data.dtype))

    def _loss(self) -> Any:
        return "module"

    def _claims(self) -> tuple[Any, ...]:
        parts = {type(part).__name__ for part in self.module_.modules()}
        return (*self.claims, *PLANAR_CLAIMS) if parts & {"Planar", "Sylvester"} else self.claims


def make_transforms(
    recipe: str, size: int, depth: int, widths: tuple[int, ...], shuffle: bool = False
) -> list[Any]:
    """The bijections of a recipe, from z to x."""
    from lemmata.generate.flows.couplings import AffineCoupling, SplineCoupling
    from lemmata.generate.flows.transforms import AffineMap, Planar, Sylvester

    if recipe == "realnvp":
        return [AffineCoupling(size, widths, turn, shuffle) for turn in range(depth)]
    if recipe == "spline":
        return [SplineCoupling(size, widths, turn, shuffle) for turn in range(depth)]
    if recipe == "planar":
        return [Planar(size) for _ in range(depth)]
    if recipe == "sylvester":
        return [Sylvester(size, min(UNITS, size)) for _ in range(depth)]
    return [AffineMap(size) for _ in range(depth)]


def _build(make: Any, mean: Array, scale: Array, dtype: Any) -> Any:
    import torch

    from lemmata.generate.flows.flow import Flow, Standardisation, StandardNormal

    unit = Standardisation(len(mean))
    net = Flow([*make(), unit], StandardNormal(len(mean)))
    if np.dtype(dtype) == np.float64:
        net = net.double()  # before mean and scale are set: 1e150 is no float32
    unit.mean.copy_(torch.from_numpy(mean))
    unit.scale.copy_(torch.from_numpy(scale))
    if not math.isfinite(float(unit.scale.log().sum())):
        raise ValueError("the rows are too large or too small for float32: pass float64.")
    return net
