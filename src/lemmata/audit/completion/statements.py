"""Statements of a completed matrix about itself: factors of matching shapes, and numbers that are those of the data.

`problem_of(fit)` is the objective at a fit (factored_objective.py), from its public attributes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lemmata.audit.completion.factored_objective import Factored
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.claims import Fit, fact, free, rounding

Array = np.ndarray
SIDES, OFFSETS = ("row", "column"), ("bias", "scale")


@fact(cost=free)  # claims count their own passes over the entries
def problem_of(fit: Fit) -> Factored:
    """Return the objective at the fit, in units of the largest entry."""
    names = ("reg", "reg_ratio", "ridge", "bias_reg", "mean", "confidence_offset")
    terms = {name: fit.get(f"{name}_") for name in names}
    terms |= {f"{side}_{what}": fit.get(f"{side}_{what}_") for side in SIDES for what in OFFSETS}
    powers = {"weighted": fit.get("weighted_reg_"), "weighted_bias": fit.get("weighted_bias_reg_")}
    terms |= {"feedback": str(fit.get("feedback", "explicit")), "alpha": fit.get("alpha"), **powers}
    terms["biased"] = bool(fit.get("biases", False)) and not implicit(fit)
    return Factored.of(fit.data, fit.U_, fit.V_, **terms).normalise()


def implicit(fit: Fit) -> bool:
    return fit.get("feedback", "explicit") == "implicit"


def per_factor(times: float) -> Callable[[Fit], float]:
    """Return the cost of so many passes over the entries, each with all factors.

    Finding an entry's row and column takes as long as eight factors (here and elsewhere: measured on MovieLens).
    """
    return lambda fit: times * fit.data.n_observed * (np.shape(fit.U_)[1] + 8)


def precision(fit: Fit) -> Any:
    """The coarser of the float types of the factors and of the entries."""
    floats = [t for t in (np.asarray(fit.U_).dtype, fit.data.dtype) if t.kind == "f"]
    return max(floats, key=lambda t: np.finfo(t).eps, default=np.float64)


# --- sound and true ---------------------------------------------------------------------------------------------------

FACTORS = {
    "U_": "n k",
    "V_": "d k",
    "mean_?": "",
    "row_bias_?": "n",
    "column_bias_?": "d",
    "row_scale_?": "n >0",
    "column_scale_?": "d >0",
    "reg_? ridge_? bias_reg_? loss_?": ">=0",
    "reg_ratio_?": ">0",
    "weighted_reg_? weighted_bias_reg_?": ">=0 <=1",
    "rank_?": "int >=0",
    "singular_values_?": "k >=0 falling",
    "dual_?": "e",
    "tau_? step_size_? radius_?": ">0",
    "alpha? confidence_offset_?": ">=0",
}


def _misfits(fit: Fit) -> Iterator[str]:
    """Yield what is wrong beyond shapes and ranges."""
    rank, k = fit.get("rank_"), np.shape(fit.U_)[1]
    if rank is not None and rank != k:
        yield f"rank_ is {rank}, but there are {k} factors"
    if implicit(fit) and not float(fit.get("alpha", 1.0)) > 0:  # where it is not used others have 0
        yield "alpha should be > 0"
    dual = fit.get("dual_")
    if dual is not None and fit.has_data and len(dual) != fit.data.n_observed:
        yield f"dual_ has {len(dual)} numbers for {fit.data.n_observed} known entries"


def factor_statements(fit: Fit) -> dict[str, float]:
    """Return how far loss_, singular_values_ and the offsets are from those of the data, in units of rounding."""
    problem, found = problem_of(fit), {**dict(offset_statements(fit)), **dict(run_statements(fit))}
    if fit.has("loss_"):
        found["loss_"] = loss_error(problem, float(fit.loss_), precision(fit))
    if fit.has("radius_"):
        stated, asked = float(fit.radius_) / problem.unit, fit.get("radius")
        side = np.sqrt(problem.size / max(len(problem.target), 1)) * np.sqrt(np.prod(problem.shape))
        expected = (side or 1.0 / problem.unit) if asked is None else float(asked) / problem.unit
        tolerance = rounding(precision(fit), terms=max(fit.data.n_observed, 1))
        found["radius_"] = discrepancy(stated, expected, expected, tolerance)
    if fit.has("ridge_"):
        stated, asked = float(fit.ridge_), float(fit.get("ridge") or 0.0)
        found["ridge_"] = discrepancy(stated, asked, asked, rounding(np.float64))
    if fit.has("singular_values_"):
        values = singular_values(problem.at.U, problem.at.V)
        shown = np.asarray(fit.singular_values_, np.float64) / problem.unit
        tolerance = rounding(precision(fit), terms=max(problem.shape))
        found["singular_values_"] = discrepancy(shown, values, values.max(initial=0.0), tolerance)
    return found


def loss_error(problem: Factored, stated: float, dtype: Any) -> float:
    """Return how far a stated objective is from that of the problem, in units of rounding.

    Residuals err by eps·√k·|a| each, so the sum of their squares by that times ‖r‖, and the rest by its own rounding.
    """
    size = np.sqrt(problem.size) + np.sqrt(2 * problem.penalty)
    error = np.sqrt(2 * problem.objective)
    tolerance = rounding(dtype, terms=problem.rank + 1)
    scale = error * (error + size) + tolerance * size**2
    return discrepancy(stated / problem.unit / problem.unit, problem.objective, scale, tolerance)


def singular_values(U: Array, V: Array) -> Array:
    """Singular values of UVᵀ, as many as there are factors: those of the product of the two triangles of QR."""
    if not U.shape[1]:
        return np.zeros(0)
    left, right = (np.asarray(np.linalg.qr(part, mode="r")) for part in (U, V))
    values = np.linalg.svd(left @ right.T, compute_uv=False)
    return np.pad(values, (0, U.shape[1] - len(values)))


def offset_statements(fit: Fit) -> Iterator[tuple[str, float]]:
    """Errors of what centring removed, as the parameter `centre` defines it; with `biases`, of μ alone."""
    how, A = fit.get("centre"), fit.data
    values = A.values.astype(np.float64)
    size = float(np.abs(values).max(initial=0.0)) or 1.0
    values, tolerance = values / size, rounding(precision(fit), terms=max(A.n_observed, 1))
    w = np.ones(len(values)) if A.weights is None else A.weights / float(A.weights.mean())
    mean, wide = ((w @ x) / max(len(x), 1) for x in (values, np.abs(values)))
    yield from _scale_statements(fit, how, sums := _Sums(A, values), size, tolerance)
    if how is None:
        if fit.get("biases", False) and not implicit(fit) and fit.has("mean_"):
            yield "mean_", discrepancy(float(fit.mean_) / size, mean, wide, tolerance)
        return
    damping = float(fit.get("centre_reg", 0.0) or 0.0)
    damped = damping > 0 and how != "none"
    expected = mean if how in ("global", "both") or damped else 0.0
    yield "mean_", discrepancy(float(fit.mean_) / size, expected, wide, tolerance)
    b, c = (np.asarray(x, np.float64) / size for x in (fit.row_bias_, fit.column_bias_))
    if how == "both":
        off = sums.imbalance(float(fit.mean_) / size, b, c, tolerance, damping)
        yield "row_bias_, column_bias_", off
    else:
        for name, stated, side in (("row_bias_", b, "rows"), ("column_bias_", c, "columns")):
            counts, means = sums.of(side), np.zeros(len(stated))
            if how.endswith(side):
                means = sums.of(side, values - expected) / np.maximum(counts + damping, 1)
            terms = sums.means(side, np.abs(values)) + abs(expected)
            yield name, discrepancy(stated, means, terms, tolerance)


def _scale_statements(
    fit: Fit, how: str | None, sums: _Sums, size: float, tolerance: float
) -> Iterator[tuple[str, float]]:
    """Standard deviations where z-scores were asked for, otherwise ones."""
    for side in SIDES:
        # the ones of an adapter for another library's fit state nothing
        if getattr(fit.model, f"{side}_scale_", None) is None:
            continue
        stated = np.asarray(fit.get(f"{side}_scale_"), np.float64)
        scored = how == f"zscore {side}s"
        deviations = sums.deviations(f"{side}s", size) if scored else np.ones(len(stated))
        yield f"{side}_scale_", discrepancy(stated, deviations, deviations, tolerance)


def run_statements(fit: Fit) -> Iterator[tuple[str, float]]:
    """Attributes that say how the run ended, against its trace: the λ that SoftImpute came down to, the last step length."""
    for name, column in (("reg_", "level"), ("step_size_", "step_size")):
        if fit.has(name) and fit.trace is not None and column in fit.trace:
            last = fit.trace.last(column)
            yield name, discrepancy(float(fit.get(name)), last, abs(last), rounding(np.float64))


class _Sums:
    """Sums over the known entries of rows and of columns."""

    def __init__(self, A: Any, values: Array):
        self.values = values
        self.at = {"rows": A.rows, "columns": A.columns}
        self.sizes = dict(zip(("rows", "columns"), A.shape, strict=True))

    def of(self, side: str, x: Array | None = None) -> Array:
        return np.bincount(self.at[side], x, minlength=self.sizes[side])

    def means(self, side: str, x: Array | None = None) -> Array:
        return self.of(side, self.values if x is None else x) / np.maximum(self.of(side), 1)

    def deviations(self, side: str, unit: float) -> Array:
        """In this unit; 1 where there is one value or none."""
        centred = self.values - self.means(side)[self.at[side]]
        found = unit * np.sqrt(self.means(side, centred**2))
        low, high = np.full((2, self.sizes[side]), [[np.inf], [-np.inf]])
        np.minimum.at(low, self.at[side], self.values)
        np.maximum.at(high, self.at[side], self.values)
        return np.where(high > low, found, 1.0)

    def imbalance(
        self, mean: float, b: Array, c: Array, tolerance: float, damping: float = 0.0
    ) -> float:
        """The best b and c leave residuals that sum to λb over every row and λc over every column; λ: the damping."""
        i, j = self.at["rows"], self.at["columns"]
        rest = self.values - mean - b[i] - c[j]
        size = np.abs(self.values) + abs(mean) + np.abs(b)[i] + np.abs(c)[j]
        worst = []
        for side, own in zip(self.at, (b, c), strict=True):
            terms = self.of(side, size) + damping * np.abs(own)
            # a solver stops at 1e-12 of all sums together, which may be much for a short row
            allowed = tolerance * terms + 1e-10 * np.linalg.norm(terms)
            worst.append(np.abs(self.of(side, rest) - damping * own) / allowed)
        return max(float(np.nan_to_num(part, nan=np.inf).max(initial=0.0)) for part in worst)


FACTORS_SOUND = attributes_sound(FACTORS, _misfits)
FACTORS_TRUE = statements_true(factor_statements, cost=per_factor(5))
SOUND = (FACTORS_SOUND, FACTORS_TRUE)
