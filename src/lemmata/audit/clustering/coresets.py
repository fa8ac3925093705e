"""Claims about a coreset: that it is drawn from this data, and keeps weights and costs.

    φ_X(Q) = Σ w_i d(x_i, Q)²,      φ_C(Q) = Σ over the coreset, with its weights                        (CIL20 6.2.3)

Everything is recomputed from the rows, `points_` and `weights_`, and what `coreset_` states of the data: its number of rows and
its `spread` (total weight W, mean μ, φ_X(μ)). A row is drawn with probability p_i = ½ w_i/W + ½ w_i d(x_i, μ)²/φ_X(μ) and gets
the weight w_i/(m p_i), so that sums over m draws are means of m independent numbers, and Bernstein's inequality says how far
they may stray. Whether costs are kept is not left to a bound: it is measured on all rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.audit.clustering.nearest_centres import (
    TINY,
    Frame,
    are_centers,
    eps_of,
    squared_distances,
    squares_of,
)
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.claims import (
    PRODUCTS,
    Fit,
    at_most,
    fact,
    proved,
    rounding,
    statistical,
    unknown,
)
from lemmata.core.blocks import Blocks

Array = np.ndarray
SETS, CENTERS = 4, 8  # how many sets of how many centres are tried
ENOUGH = 0.1  # what costs may be off by if the user asked for a size rather than an epsilon
ROUNDING = 1e-9  # of sums in float64: all that may differ where nothing was drawn
NOT_ITS_DATA = "this coreset was not drawn from this data: fit it again"
TOO_SMALL = "draw more rows: raise size, or lower epsilon"


# --- the claims that begin every certificate --------------------------------------------------------------------------


def _unsound(fit: Fit) -> Iterator[str]:
    points, core = fit.points_, fit.coreset_
    d = fit.get("n_features_in_", points.shape[1])
    if points.ndim != 2 or points.shape != (len(fit.weights_), d):
        yield f"points_ has shape {points.shape} for {len(fit.weights_)} weights and {d} features"
    elif not np.isfinite(points.data if sp.issparse(points) else points).all():
        yield "points_ has numbers that are not finite"
    spread = core.spread
    if np.shape(spread.mean) != (d,) or not np.isfinite(spread.mean).all():
        yield "coreset_.spread.mean is not one number per feature"
    if not (0 < spread.weight < math.inf and 0 <= spread.total < math.inf):
        yield f"coreset_.spread has weight {spread.weight:g} and cost {spread.total:g}"
    if core.rows < 1 or any(m < 1 for m in core.draws):
        yield f"coreset_ has {core.rows} rows and draws {core.draws}"


SOUND = attributes_sound({"weights_": "m >0"}, _unsound)


@dataclass(frozen=True)
class Truth:
    """Weight, mean and φ(μ) of the rows, in the units of a frame; and how large they are as they stand."""

    frame: Frame
    weight: float
    mean: Array  # (d,)
    total: float  # Σ w‖x − μ‖² = Σ w‖x‖² − W‖μ‖²
    sets: list[Array]  # of random rows as centres
    costs: Array  # φ(Q) of each
    squares: float  # Σ w‖x‖², of the rows as they stand
    eps: float  # the coarser rounding of rows and points
    mixed: bool  # they are of different precision

    @property
    def is_zero(self) -> bool:
        """Whether φ(μ) is no more than rounding: all rows are equal."""
        return self.total <= (8 * self.eps) ** 2 * self.squares

    @property
    def slack(self) -> float:
        """The relative rounding of a cost: rows of another precision have moved by eps‖x‖, the cost by 2√(Eφ) + E."""
        total = self.total if self.mixed and not self.is_zero else math.inf
        E = 4 * self.eps**2 * self.squares / total
        return ROUNDING + 2 * math.sqrt(E) + E


def _passes(count: float, centers: int = 1):
    """Return the cost of so many plain passes with so many centres."""

    def cost(fit: Fit) -> float:
        n, d = fit.data.shape
        share = fit.data.size / (n * d) if fit.data.sparse else 1.0
        products = 2.0 * centers * d * share / PRODUCTS
        return count * n * (products + 5.0 * d * share + 3.0 * centers + 50)

    return cost


@fact(cost=_passes(1, SETS * CENTERS))
def truth(fit: Fit) -> Truth:
    """Read the rows once, with the costs of sets of rows drawn at random as centres."""
    frame, rng = Frame.of(fit.data), np.random.default_rng(0)
    some = np.arange(fit.data.shape[0]) if fit.weights is None else np.flatnonzero(fit.weights)
    k = min(CENTERS, len(some))
    index = np.stack([rng.choice(some, k, replace=False) for _ in range(SETS)])
    sets = list(frame.take(fit.data, index.ravel()).reshape(SETS, k, -1))
    weight, square, sums, costs = 0.0, 0.0, np.zeros(fit.data.shape[1]), np.zeros(SETS)
    for X, w in frame.slices(fit.data):
        lengths = squares_of(X)
        weight, sums = weight + float(w.sum()), sums + w @ X
        square, costs = square + float(w @ lengths), costs + _cost_slice(X, w, lengths, sets)
    mean = sums / weight
    total = max(square - weight * float(mean @ mean), 0.0)
    # of the rows as they stand
    squares = total + weight * float(np.square(frame.origin / frame.scale + mean).sum())
    eps = [eps_of(dtype) for dtype in (fit.data.dtype, fit.points_.dtype)]
    return Truth(frame, weight, mean, total, sets, costs, squares, max(eps), eps[0] != eps[1])


def _errors(fit: Fit) -> Mapping[str, float]:
    true, spread, n = truth(fit), fit.coreset_.spread, fit.data.shape[0]
    # sums are in float64; only rows of another precision than those of the fit have moved
    dtype = np.float32 if true.mixed else np.float64
    E = 4 * true.eps**2 * true.squares if true.mixed else 0.0
    allowed = 2 * math.sqrt(E * true.total) + E + TINY  # as in `Truth.slack`
    allowed += rounding(np.float64, n * fit.data.shape[1]) * (true.total + true.squares)
    total = true.frame.cost_inside(spread.total)
    scale = float(np.abs(true.frame.origin / true.frame.scale).max() + np.abs(true.mean).max() + 1)
    return {
        "rows": discrepancy(fit.coreset_.rows, n, 1.0, 0.5),
        "weight": discrepancy(spread.weight / true.frame.heavy, true.weight, true.weight, rounding(np.float64, n)),
        "mean": discrepancy(true.frame.inside(spread.mean), true.mean, scale, rounding(dtype, n)),
        "cost of the mean": abs(total - true.total) / allowed,
    }  # fmt: skip


TRUE = statements_true(_errors, needs=(truth,))


# --- the draws --------------------------------------------------------------------------------------------------------


def bernstein(m: int, log: float, variance: float, largest: float) -> float:
    """t with 2 exp(−m t²/(2 variance + ⅔ largest t)) = 2 exp(−log): what a mean of m draws does not stray beyond."""
    linear = 2 * largest * log / 3
    return (linear + math.sqrt(linear**2 + 8 * m * variance * log)) / (2 * m)


def strays(fit: Fit, variance: float = 1.0) -> float:
    """The largest error of a mean of draws with |Z − 1| ≤ 1, over all drawings in succession, with probability 1 − δ.

    variance : of Z at the only drawing; 1 is the most it can be, and what is taken if there were several
    """
    draws, error = fit.coreset_.draws, 0.0
    for m in draws:
        log = math.log(2 * len(draws) / fit.delta)
        error += bernstein(m, log, variance if len(draws) == 1 else 1.0, 1.0) * (1 + error)
    return error


@statistical(
    "the weights add up to those of the data, up to the error of so many draws",
    "CIL20 6.2.3",
    confidence=0.95,
)
def total_weight_kept(fit):
    """A draw's share w/(pW) of all weight has mean 1, is at most 2, and so varies by at most 1."""
    weight = fit.data.total_weight if fit.has_data else fit.coreset_.spread.weight
    found = float(np.sum(fit.weights_, dtype=np.float64))
    error, bound = abs(found / weight - 1), strays(fit) + ROUNDING
    return at_most(error, bound, NOT_ITS_DATA, "relative error", confidence=1 - fit.delta)


@statistical(
    "the cost of the mean is kept, up to the error of so many draws",
    "CIL20 6.2.3",
    confidence=0.95,
    needs=(truth,),
    cost=_passes(1),
)
def cost_of_mean_kept(fit):
    """A draw's share of φ(μ) has mean 1 and is at most 2 as well; its variance Σ w d⁴/(p φ²) − 1 is that of the data."""
    true = truth(fit)
    found = float(_costs(_coreset(fit), [true.mean[None]], true.frame)[0])
    unit, sure = "relative error", 1 - fit.delta
    if true.is_zero:
        error = found / max(true.squares, TINY)
        return at_most(error, (8 * true.eps) ** 2, NOT_ITS_DATA, unit, confidence=sure)
    bound = strays(fit, _variance(fit, true)) + true.slack
    return at_most(abs(found / true.total - 1), bound, NOT_ITS_DATA, unit, confidence=sure)


def _variance(fit: Fit, true: Truth) -> float:
    """The variance of a draw's share w d²/(pφ) of φ(μ): with s = W d²/φ it is the weighted mean of 2s²/(1 + s), less 1."""
    total = 0.0
    for X, w in true.frame.slices(fit.data):
        s = squared_distances(X, true.mean[None]).ravel() * (true.weight / true.total)
        total += float(w @ (2 * s * s / (1 + s)))
    return min(max(total / true.weight - 1, 0.0), 1.0)


# --- costs ------------------------------------------------------------------------------------------------------------


def _coreset(fit: Fit) -> Blocks:
    return Blocks.of(fit.points_, np.asarray(fit.weights_, np.float64))


def _costs(data: Blocks, sets: list[Array], frame: Frame) -> Array:
    """φ(Q) for several sets of centres Q, one pass, in the units of the frame."""
    return sum(
        (_cost_slice(X, w, squares_of(X), sets) for X, w in frame.slices(data)), np.zeros(len(sets))
    )


def _cost_slice(X: Any, w: Array, lengths: Array, sets: list[Array]) -> Array:
    """Σ w min_c ‖x − c‖² over some rows, for each set; ‖x‖² is known."""
    starts, C = np.cumsum([0, *map(len, sets[:-1])]), np.concatenate(sets)
    D = np.asarray(X @ (-2 * C.T)).T if sp.issparse(X) else (-2 * C) @ X.T
    D += np.einsum("ij,ij->i", C, C)[:, None]
    nearest = np.minimum.reduceat(D, starts, axis=0)
    nearest += lengths
    return np.maximum(nearest, 0.0, out=nearest) @ w


@proved(
    "with random rows as centres, costs are right to ε times the mean of theirs and that of one centre",
    "CIL20 6.2.3",
    needs=(truth,),
)
def costs_kept(fit):
    """Measured on all rows, for sets that know nothing of the coreset; ε is what was asked for, or a tenth."""
    true = truth(fit)
    found = _costs(_coreset(fit), true.sets, true.frame)
    least = (8 * true.eps) ** 2 * true.squares  # below it a cost is zero
    allowed = np.maximum(0.5 * (true.costs + true.total), max(least, TINY))
    error = float((np.abs(found - true.costs) / allowed).max())
    asked = "epsilon" if fit.epsilon else "a tenth"
    note = f"{SETS} sets of {len(true.sets[0])} rows; ε is {asked}"
    return at_most(error, (fit.epsilon or ENOUGH) + true.slack, TOO_SMALL, "error", note)


def _own_cost(fit: Fit) -> float:
    k = fit.n_clusters or CENTERS
    # ten steps of scikit-learn's, and 10 ms to begin
    return _passes(1, k)(fit) + 5.0 * fit.points_.shape[0] * fit.points_.shape[1] * k + 1e7


@proved(
    "with centres fitted to the coreset, costs are kept within ε φ(Q)",
    "CIL20 (6.4)",
    needs=(truth,),
    cost=_own_cost,
)
def own_costs_kept(fit):
    """Measured for the centres that a search shows, whatever they are: what a user of the coreset relies on.

    Not promised: these centres know the coreset, and (6.4) is stronger than it is.
    """
    true = truth(fit)
    k = min(fit.n_clusters or CENTERS, len(fit.weights_))
    slices = [X for X, _ in true.frame.slices(_coreset(fit))]
    points = sp.vstack(slices, format="csr") if sp.issparse(slices[0]) else np.concatenate(slices)
    weights = np.asarray(fit.weights_, np.float64) / np.max(fit.weights_)
    centers = fit.witness("coreset_centers", points, weights, k)
    if not are_centers(centers, k, points.shape[1]):
        return unknown("no search looked for centres")
    exact, found = (_costs(X, [centers], true.frame)[0] for X in (fit.data, _coreset(fit)))
    least = (8 * true.eps) ** 2 * true.squares
    error = 0.0 if max(found, exact) <= least else abs(found - exact) / max(exact, least)
    asked = "epsilon" if fit.epsilon else "a tenth"
    note = f"{k} centres; ε is {asked}, theory would add ε/2 φ(mean)"
    bound, shown = (fit.epsilon or ENOUGH) + true.slack, true.frame.outside(centers)
    return at_most(error, bound, TOO_SMALL, "relative error", note, witness={"centers": shown})


CORESET_CLAIMS = (SOUND, TRUE, costs_kept, total_weight_kept, cost_of_mean_kept, own_costs_kept)
