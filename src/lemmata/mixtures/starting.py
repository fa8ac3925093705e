"""Where EM starts: π and θ from centres, random memberships, or what a user gives.

A start has `begin(family, k, data, rough, rng) -> (π, θ)`, where `rough` is what the family's survey found: one component for
all rows. All but `Given` are an M-step from memberships.

    >>> from lemmata.mixtures.gaussians import SphericalGaussian
    >>> X = np.array([[0.0], [2.0], [10.0], [12.0]])
    >>> family = SphericalGaussian(reg_covar=0.0)
    >>> data = Blocks.of(X)
    >>> weights, params = Centres(np.array([[0.0], [9.0]])).begin(family, 2, data, family.survey(data), None)
    >>> weights, params.means.ravel(), params.covariances
    (array([0.5, 0.5]), array([ 1., 11.]), array([1., 1.]))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce
from lemmata.mixtures.expectation import EStepSums, Family, finer, maximisation

Array = np.ndarray
Start = tuple[Array, Any]  # π and θ
SEEDINGS = ("k-means++", "random_from_data")


class Beside(NamedTuple):
    """The weights and other numbers beside the rows of a block."""

    weights: Array | None
    numbers: Array | None  # (rows, …)
    start: int  # where the block begins


@dataclass(frozen=True)
class _Sliced:
    """Weights and other numbers of all rows. Blocks cut it as they cut weights, so threads and clusters get their parts."""

    weights: Array | None
    numbers: Array | None

    def __getitem__(self, rows: slice) -> Beside:
        weights, numbers = (
            None if column is None else column[rows] for column in (self.weights, self.numbers)
        )
        return Beside(weights, numbers, rows.start)


def from_memberships(
    family: Family,
    k: int,
    data: Blocks,
    rough: Any,
    respond: Callable[[Any, Any], Array],
    numbers: Array | None = None,
) -> tuple[Array, Any]:
    """An M-step from responsibilities respond(rows, beside), where `beside` has what belongs to the rows.

    Where clusters lie so far apart that sums about the rough mean lose digits, they are taken again about the means found.
    """
    compiled = family.compiles(data, k)
    data = finer(data.weighted(cast(Any, _Sliced(data.weights, numbers))), k)
    while True:
        found = map_reduce(partial(_block, family, rough, respond, compiled), data, EStepSums())
        closer = family.closer(found.stats, rough)
        if closer is None:
            return maximisation(family, found.stats)
        rough = closer


def _block(
    family: Family, rough: Any, respond: Callable, compiled: bool, rows: Any, beside: Beside
) -> EStepSums:
    R = respond(rows, beside)
    return EStepSums(family.statistics(rows, beside.weights, R, rough, compiled))


@dataclass(frozen=True)
class RandomMemberships:
    """Uniform random numbers, divided by their sum in every row. All components then start near one another."""

    def begin(self, family: Family, k: int, data: Blocks, rough: Any, rng: Any) -> Start:
        draw = partial(_random, k, int(rng.integers(2**63)))
        return from_memberships(family, k, data, rough, draw)


def _random(k: int, seed: int, rows: Any, beside: Any) -> Array:
    """Seeded by where the block begins, so that it does not matter who draws it, or when."""
    R = 1 - np.random.default_rng([seed, beside.start]).random((rows.shape[0], k))  # in (0, 1]
    return R / R.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Centres:
    """Every row belongs to the nearest of k centres (k, d), by what is known of the row."""

    centres: Array

    def begin(self, family: Family, k: int, data: Blocks, rough: Any, rng: Any) -> Start:
        C = np.asarray(self.centres, dtype=np.float64)
        if C.shape != (k, data.shape[1]):
            raise ValueError(
                f"centres have shape {C.shape}; they are {k} components × {data.shape[1]} features."
            )
        return from_memberships(family, k, data, rough, partial(_nearest, C))


def _nearest(centres: Array, rows: Any, beside: Any) -> Array:
    rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
    unknown = np.isnan(rows)
    holes, distances = unknown.any(), np.empty((len(rows), len(centres)))
    for j, centre in enumerate(centres):
        delta = rows - centre
        if holes:
            delta[unknown] = 0
        distances[:, j] = np.einsum("ia,ia->i", delta, delta)
    return np.eye(len(centres))[distances.argmin(axis=1)]


@dataclass(frozen=True)
class Seeds:
    """Centres drawn from the rows: far from one another ("k-means++") or anyhow ("random_from_data")."""

    method: str = "k-means++"

    def __post_init__(self):
        if self.method not in SEEDINGS:
            raise ValueError(
                f"method={self.method!r}: seeds are drawn by {' or '.join(map(repr, SEEDINGS))}."
            )

    def begin(self, family: Family, k: int, data: Blocks, rough: Any, rng: Any) -> Start:
        from lemmata.clustering.seeding import d2_sampling, random_rows

        draw = d2_sampling if self.method == "k-means++" else random_rows
        return Centres(draw(fill_missing(data, rough), k, rng)).begin(family, k, data, rough, rng)


def fill_missing(data: Blocks, rough: Any) -> Blocks:
    """The data with NaN replaced by the mean of its feature, block by block; the data itself where there are none.

    Rows of which nothing is known weigh nothing: they would all lie on the mean and ask for a centre there.
    """
    means = getattr(rough, "means", None)
    if means is None:
        return data
    holes, known = False, []
    for rows, _ in data:
        gone = np.isnan(rows)
        holes = holes or bool(gone.any())
        known.append(~gone.all(axis=1))
    if not holes:
        return data

    counts, weights = np.concatenate(known), data.weights
    if not counts.all():
        weights = counts * (1.0 if weights is None else weights)

    def cut():
        for rows, _ in data:
            yield np.where(np.isnan(rows), means[0], rows).astype(data.dtype)

    if data.n_blocks == 1:
        return Blocks.of(next(cut()), weights)
    return Blocks(cut, data.shape, data.dtype, weights, None, data.n_blocks)


@dataclass(frozen=True)
class Known:
    """π and θ as they are: where another fit ended."""

    weights: Array
    params: Any

    def begin(self, family: Family, k: int, data: Blocks, rough: Any, rng: Any) -> Start:
        return self.weights, self.params


@dataclass(frozen=True)
class Given:
    """A user's start: π and some or all parameters by name; the others come from another start."""

    weights: Array | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    otherwise: Any = field(default_factory=RandomMemberships)

    def begin(self, family: Family, k: int, data: Blocks, rough: Any, rng: Any) -> Start:
        weights, params = None if self.weights is None else self._check_weights(k), rough
        # something is left to find
        if weights is None or set(self.parameters) != set(family.givable):
            found, params = self.otherwise.begin(family, k, data, rough, rng)
            weights = found if weights is None else weights
        return weights, family.with_given(
            params, k, **self.parameters
        ) if self.parameters else params

    def _check_weights(self, k: int) -> Array:
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.shape != (k,) or not (weights >= 0).all() or not np.isclose(weights.sum(), 1):
            raise ValueError(f"initial weights are {k} numbers >= 0 that sum to 1; got {weights}.")
        return weights / weights.sum()
