"""What a fit of a linear predictor set out to minimise, from its public parameters, and its weights as one `Point`.

    objective_of(fit, words)  ->  Objective(loss="squared", l1=α, mean="weight")     in scikit-learn's words for each family
    problem_of(words)(fit)    ->  (Risk, Point): that objective on these rows, and the weights of the fit

An adapter of another library's fit gives its `objective` itself (foreign.py); everything else follows scikit-learn:

    Ridge, LinearRegression      ½ Σ sᵢ rᵢ² + ½ α‖w‖²
    Lasso, ElasticNet            Σ sᵢ rᵢ² / 2Σs + α Σⱼ pⱼ (ρ|wⱼ| + ½(1 − ρ) wⱼ²)
    LogisticRegression           C Σ sᵢ ℓᵢ + ρ‖w‖₁ + ½(1 − ρ)‖w‖²                 (liblinear: the intercept is penalised too)
    LinearSVC                    C Σ sᵢ ℓᵢ + ½‖w‖² + ½(b/c)²,  or ‖w‖₁ + |b/c|           (one problem per class)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lemmata.audit.kernel.claims import Fact, Fit, fact
from lemmata.audit.kernel.duality_gap import Point, Risk, Rows, point
from lemmata.audit.kernel.losses import Softmax, loss_named

Array = np.ndarray
PLAIN = 1e60  # beyond it (or below its inverse) numbers are scaled before anything is squared


@dataclass(frozen=True)
class Objective:
    """A penalised risk in words: loss, penalties, what divides the sum, who pays for the intercept."""

    loss: str
    l1: Any = 0.0  # a number, or one per column, or (columns, outputs)
    l2: Any = 0.0
    C: float = 1.0  # times the sum of losses
    mean: str = ""  # what that sum is divided by: "" (nothing), "weight" (Σs) or "rows" (n)
    # "free", "none", or "penalised", as one more weight of a column of `constant`
    intercept: str = "free"
    constant: float = 1.0
    positive: bool = False
    class_weight: Any = None
    balanced_by_weight: bool = True  # whether "balanced" counts rows by their weights
    # one-vs-rest: whether only the class itself gets its class weight
    rest_weighs_one: bool = False
    epsilon: float = math.nan  # of Huber's loss
    outputs: tuple[str, ...] = ()  # the names of several fits of one target: a path


def objective_of(fit: Fit, words: Callable[[Fit], Objective]) -> Objective:
    """What a fit minimised: an adapter says it, or its parameters in the words of its family."""
    return fit.objective if fit.has("objective") else words(fit)


def coefficients(fit: Fit) -> tuple[Array, Array]:
    """coef_, with a row per output where there are several, and intercept_; of a path, an output per penalty."""
    if fit.has("coef_"):
        return np.asarray(fit.coef_), np.asarray(fit.intercept_)
    return np.asarray(fit.coefs_).T, np.ravel(fit.intercepts_)


def outputs(fit: Fit) -> int:
    return len(np.atleast_2d(coefficients(fit)[0]))


@cache
def problem_of(words: Callable[[Fit], Objective]) -> Fact:
    """The fact: the objective of a fit on its data as a Risk, and its weights as a Point."""

    @fact(cost=lambda fit: float(fit.data.size) * (outputs(fit) + 1))
    def problem(fit: Fit) -> tuple[Risk, Point]:
        return make_problem(fit, objective_of(fit, words))

    return problem


def make_problem(fit: Fit, words: Objective) -> tuple[Risk, Point]:
    coef, intercept = (np.asarray(x, dtype=np.float64) for x in coefficients(fit))
    W = np.atleast_2d(coef).T.copy()
    b = np.zeros(W.shape[1]) + np.ravel(intercept)
    constant = words.constant if words.intercept == "penalised" else None
    y, s, loss, names = _targets(fit, words, W.shape[1])
    l1, l2 = (_per_column(x, W.shape) for x in (words.l1, words.l2))
    scale, unit = _scale(fit), 1.0
    if loss.name == "squared" and y.dtype.kind == "f":
        unit = _unit(np.abs(y).max(initial=0.0))
    y = y / unit if unit != 1.0 else y
    of_constant = l1[-1:] / unit, l2[-1:]  # its column is not divided by anything
    if scale != 1.0 or unit != 1.0:
        W, b = W * scale / unit, b / unit
        l1, l2 = l1 / scale / unit, l2 / scale / scale
    if constant is not None:
        W = np.vstack([W, b / constant])
        l1, l2 = (np.vstack(pair) for pair in zip((l1, l2), of_constant, strict=True))
        b = np.zeros_like(b)
    rows, free = Rows(fit.data, constant, scale), words.intercept == "free"
    risk = Risk(rows, y, s, loss, l1, l2, free, words.positive, names, W.shape[1], unit)
    return risk, point(risk, W, b)


def _per_column(x: Any, shape: tuple[int, ...]) -> Array:
    """A penalty as (columns, 1) or (columns, outputs)."""
    x = np.asarray(x, dtype=np.float64)
    if x.ndim == 2:
        return np.array(np.broadcast_to(x, shape))
    return np.array(np.broadcast_to(x.reshape(-1, 1), (shape[0], 1)))


def _scale(fit: Fit) -> float:
    largest = 0.0
    for rows, _ in fit.data:
        values = rows.data if hasattr(rows, "tocsr") else rows
        largest = max(largest, abs(float(values.max(initial=0.0))), abs(float(values.min(initial=0.0))))  # fmt: skip
    return _unit(largest)


def _unit(largest: float) -> float:
    """1, or the power of two nearest to numbers whose squares would overflow or vanish."""
    if largest == 0 or 1 / PLAIN <= largest <= PLAIN:
        return 1.0
    return math.ldexp(1.0, math.frexp(largest)[1])


def _targets(fit: Fit, words: Objective, outputs: int) -> tuple[Array, Array, Any, tuple[str, ...]]:
    """Targets (n, m), weights (n, m) or (n, 1), the loss, and the names of the outputs."""
    n = fit.data.shape[0]
    own = fit.get("row_weights_") if fit.weights is None else fit.weights  # what an adapter found
    weights = np.ones(n) if own is None else np.asarray(own, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"the fit knows {len(weights):,} rows and their weights; these are {n:,}.")
    y = np.asarray(fit.y)
    if fit.has("classes_"):
        return _classes(fit, words, outputs, y, weights)
    numbers = {} if math.isnan(words.epsilon) else {"epsilon": words.epsilon}
    s = _shares(words, weights, weights)[:, None]
    y = y.astype(np.float64).reshape(n, -1)
    if words.outputs:  # one target, and a fit of it for each of several penalties
        y = np.tile(y, (1, len(words.outputs)))
    return y, s, loss_named(words.loss, **numbers), words.outputs


def _shares(words: Objective, s: Array, weights: Array) -> Array:
    if words.mean == "weight":
        return words.C * (s / weights.sum())
    return words.C * (s / len(s)) if words.mean == "rows" else words.C * s


def _classes(
    fit: Fit, words: Objective, outputs: int, y: Array, weights: Array
) -> tuple[Array, Array, Any, tuple[str, ...]]:
    classes = np.asarray(fit.classes_)
    k = len(classes)
    factors = _class_factors(words, classes, y, weights)
    by_row = factors[y] * weights
    if outputs == 1:
        signs = np.where(y == 1, 1.0, -1.0)[:, None]
        return signs, _shares(words, by_row, weights)[:, None], loss_named(words.loss), ()
    if words.loss == "softmax":
        return y, _shares(words, by_row, weights)[:, None], Softmax(), ()
    own = y[:, None] == np.arange(k)
    s = np.where(own, factors, 1.0) * weights[:, None] if words.rest_weighs_one else by_row[:, None]
    names = tuple(f"class {label}" for label in classes.tolist())
    return np.where(own, 1.0, -1.0), _shares(words, s, weights), loss_named(words.loss), names


def _class_factors(words: Objective, classes: Array, y: Array, weights: Array) -> Array:
    """n/(k·count) for "balanced", what a dict says otherwise, 1 for what it does not name."""
    chosen = words.class_weight
    if chosen is None:
        return np.ones(len(classes))
    if isinstance(chosen, str):
        counts = np.bincount(y, weights if words.balanced_by_weight else None, len(classes))
        return counts.sum() / (len(classes) * np.where(counts > 0, counts, np.inf))
    return np.array([float(chosen.get(label, 1.0)) for label in classes.tolist()])


# --- in the words of each family --------------------------------------------------------------------------------------


def _intercept(fit: Fit) -> str:
    return "free" if fit.get("fit_intercept", True) else "none"


def least_squares_words(fit: Fit) -> Objective:
    return Objective("squared", intercept=_intercept(fit), positive=bool(fit.get("positive", False)))  # fmt: skip


def ridge_words(fit: Fit) -> Objective:
    """α, or one per output: λ₂ of (columns, outputs)."""
    alpha = np.asarray(fit.get("alpha_", fit.get("alpha")), dtype=np.float64)
    l2 = float(alpha) if alpha.size == 1 else np.tile(alpha, (np.shape(fit.coef_)[-1], 1))
    return Objective("squared", l2=l2, intercept=_intercept(fit), positive=bool(fit.get("positive", False)))  # fmt: skip


def lasso_words(fit: Fit) -> Objective:
    alpha, ratio = fit.get("alpha_", fit.get("alpha")), fit.get("l1_ratio_", fit.get("l1_ratio", 1.0))  # fmt: skip
    factors = fit.get("penalty_factor")
    p = 1.0 if factors is None else np.asarray(factors, dtype=np.float64)
    return Objective(
        "squared", l1=alpha * ratio * p, l2=alpha * (1 - ratio) * p, mean="weight", intercept=_intercept(fit),
        positive=bool(fit.get("positive", False)),
    )  # fmt: skip


def path_words(fit: Fit) -> Objective:
    """Every penalty of a path as one more output."""
    alphas, ratio = np.ravel(fit.alphas_).astype(np.float64), float(fit.get("l1_ratio", 1.0))
    factors = fit.get("penalty_factor")
    p = np.ones(len(fit.coefs_)) if factors is None else np.asarray(factors, dtype=np.float64)
    l1, l2 = (np.multiply.outer(p, alphas * share) for share in (ratio, 1 - ratio))
    return Objective(
        "squared", l1=l1, l2=l2, mean="weight", intercept=_intercept(fit), positive=bool(fit.get("positive", False)),
        outputs=tuple(f"alpha={alpha:.3g}" for alpha in alphas),
    )  # fmt: skip


def logistic_words(fit: Fit) -> Objective:
    """scikit-learn's `penalty` is going: None means C = ∞, "l1" and "l2" a ratio of 1 and 0."""
    penalty, C, ratio = fit.get("penalty", "deprecated"), float(fit.C), fit.get("l1_ratio") or 0.0
    ratio = {"l1": 1.0, "l2": 0.0}.get(penalty, ratio) if penalty is not None else 0.0
    bare = penalty is None or penalty == "none" or math.isinf(C)
    intercept = _intercept(fit)
    if intercept == "free" and fit.get("solver") == "liblinear":
        intercept = "penalised"
    loss = "logistic" if np.atleast_2d(fit.coef_).shape[0] == 1 else "softmax"
    return Objective(
        loss, l1=0.0 if bare else ratio, l2=0.0 if bare else 1.0 - ratio, C=1.0 if bare else C, intercept=intercept,
        constant=float(fit.get("intercept_scaling", 1.0)), class_weight=fit.get("class_weight"),
    )  # fmt: skip


def linear_svc_words(fit: Fit) -> Objective:
    intercept = _intercept(fit)
    if intercept == "free" and fit.get("penalise_intercept", True):
        intercept = "penalised"
    lasso = fit.get("penalty", "l2") == "l1"
    return Objective(
        fit.get("loss", "squared_hinge"), l1=float(lasso), l2=float(not lasso), C=float(fit.C), intercept=intercept,
        constant=float(fit.get("intercept_scaling", 1.0)), class_weight=fit.get("class_weight"), rest_weighs_one=True,
    )  # fmt: skip
