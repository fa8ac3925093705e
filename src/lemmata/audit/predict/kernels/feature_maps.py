"""Claims about explicit features φ(x) with φ(x)ᵀφ(y) ≈ κ(x, y): Nyström and random cosines.

**Nyström.** φ(x) = N κ(L, x) with landmarks L and N = K_LL^−½ reproduces κ between landmarks, and K − ΦΦᵀ ⪰ 0 on all rows: the
Gram matrix of what the features of the landmarks do not span. So its largest eigenvalue is at most its trace,

    ‖K − ΦΦᵀ‖₂ ≤ tr(K − ΦΦᵀ) = Σ κ(x_i, x_i) − ‖φ(x_i)‖²

**Random cosines.** φ(x) = √(2/D) cos(Wᵀx + b) with the columns of W drawn from N(0, 2γI) and b uniform has the mean
E φ(x)ᵀφ(y) = exp(−γ‖x − y‖²), an average of D numbers of variance at most 3/2: the error of an entry is about 1/√D.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.special import chdtri

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.concentration import betting
from lemmata.audit.predict.kernels import grams
from lemmata.audit.predict.kernels.kernel_matrices import is_given
from lemmata.audit.predict.kernels.kernel_ridge import mercer
from lemmata.audit.predict.rows import dense, evenly_spread, whole

Array = np.ndarray

EXACT = 1e-6  # of the largest entry, to which landmarks are reproduced
MISSED = 0.1  # of the trace
DRAWN = 1000  # rows from which the trace is estimated, where all of them cost too much
RISK = 0.01  # that the estimate does not hold
ERROR = 0.1  # of κ(x, x) = 1, by which random features may be off
SAMPLE = 300  # rows whose kernel is compared with its features
LEVEL = 0.999  # of the test that the frequencies have the right spread


# --- Nyström ----------------------------------------------------------------------------------------------------------


def _landmarks(fit: k.Fit, rows: Any) -> Array:
    """The numbers of the rows that are landmarks. Raises CannotTell."""
    chosen = np.asarray(fit.component_indices_).astype(int)
    if len(chosen) and not 0 <= chosen.min() <= chosen.max() < rows.shape[0]:
        raise k.CannotTell(f"a landmark is row {chosen.max():,} and there are {rows.shape[0]:,}")
    return chosen


def _features(fit: k.Fit, rows: Any) -> Array:
    """φ of rows, by definition."""
    N = np.asarray(fit.normalization_, dtype=np.float64)
    if is_given(fit):
        return dense(rows)[:, np.asarray(fit.component_indices_).astype(int)] @ N.T
    return grams.products(fit, rows, fit.components_, N.T)


def _cost_of_landmarks(fit: k.Fit) -> float:
    q = len(np.asarray(fit.component_indices_))
    return float(q) ** 2 * grams.cost_of_entry(fit.data.shape[1] + 2 * q)


@k.proved(
    "the features give the kernel between landmarks, to six digits",
    "Williams & Seeger 2001",
    cost=_cost_of_landmarks,
    needs=(grams.why_no_kernel,),
)
def exact_on_landmarks(fit):
    """NᵀN is the inverse of K_LL where that has one: K_LL Nᵀ N K_LL = K_LL."""
    rows = whole(fit.data)
    chosen = _landmarks(fit, rows)
    Phi, K = _features(fit, rows[chosen]), grams.gram_among(fit, rows, chosen, chosen)
    if why := grams.why_no_kernel(fit):
        return k.unknown(why)
    coarse = np.asarray(fit.normalization_).dtype
    bound = max(EXACT, math.sqrt(k.rounding(coarse, len(K))) if coarse == np.float32 else 0.0)
    largest = float(np.abs(K).max()) or 1.0
    advice = "normalization_ is not K_LL^(-1/2): pass the training data, or fit again"
    return k.at_most(float(np.abs(Phi @ Phi.T - K).max()) / largest, bound, advice, unit="error")


def _cost_of_trace(fit: k.Fit, rows: int | None = None) -> float:
    """The features of so many rows (of all), and κ(x, x) of all."""
    n, d = fit.data.shape
    q = len(np.asarray(fit.component_indices_))
    each = float(q) * grams.cost_of_entry(d + q)
    return (
        (n if rows is None else min(n, rows)) * each + grams.cost_of_diagonal(fit) + float(q) ** 3
    )


@k.proved(
    "the features miss at most 10 % of the kernel's trace on these rows",
    "Drineas & Mahoney 2005",
    cost=lambda fit: _cost_of_trace(fit, DRAWN),
    needs=(grams.why_no_kernel,),
)
def little_missed(fit):
    """tr(K − ΦΦᵀ)/tr K; what is left out is positive semidefinite, so the trace bounds its eigenvalues.

    Of more rows than the budget is for, from DRAWN of them: row i with probability κ_ii/tr K, so that |κ_ii − ‖φ_i‖²|/κ_ii has
    the share as its mean. With c = ‖N K_LL Nᵀ‖ it lies between 0 and max(1, c − 1), for NᵀN ≼ c K_LL⁻¹ and ‖φ_i‖² ≤ c κ_ii.
    """
    rows = whole(fit.data)
    _landmarks(fit, rows)
    if why := grams.why_no_kernel(fit):
        return k.unknown(why)
    diagonal = grams.diagonal_of(fit, rows)
    trace = float(diagonal.sum())
    if trace <= 0:
        return k.unknown("the kernel is zero on these rows")
    advice, unit = "more landmarks: raise n_components (or lower gamma)", "share of tr K"
    if rows.shape[0] <= DRAWN or _cost_of_trace(fit) <= fit.work:
        missed = np.abs(diagonal - np.square(_features(fit, rows)).sum(axis=1))
        return k.at_most(float(missed.sum()) / trace, MISSED, advice, unit)
    drawn = np.random.default_rng(0).choice(len(diagonal), DRAWN, p=diagonal / trace)
    shares = np.abs(1 - np.square(_features(fit, rows[drawn])).sum(axis=1) / diagonal[drawn])
    low, high = betting(shares, RISK, 0.0, max(1.0, _stretch(fit, rows) - 1))
    note = f"{DRAWN:,} rows drawn at random: between {100 * low:.3g} and {100 * high:.3g} %"
    if low <= MISSED < high:
        return k.unknown(note, float(shares.mean()), unit)
    measured, sure = high if high <= MISSED else low, 1 - RISK
    return k.at_most(measured, MISSED, advice, unit, note, kind=k.STATISTICAL, confidence=sure)


def _stretch(fit: k.Fit, rows: Any) -> float:
    """‖N K_LL Nᵀ‖, 1 where N is the root of the inverse; by how much more than κ(x, x) a ‖φ(x)‖² can be."""
    chosen, N = _landmarks(fit, rows), np.asarray(fit.normalization_, dtype=np.float64)
    K = grams.gram_among(fit, rows, chosen, chosen)
    return float(np.linalg.eigvalsh(N @ K @ N.T)[-1])


def _compare_statements(fit: k.Fit) -> Mapping[str, float]:
    """components_ : the rows that component_indices_ names; gamma_ : the one asked for; normalization_ : the sign of a root."""
    rows = whole(fit.data)
    chosen = np.asarray(fit.component_indices_).astype(int)
    if chosen.max(initial=0) >= rows.shape[0]:
        return {"component_indices_": math.inf}
    if is_given(fit):
        return {"component_indices_": discrepancy(len(np.unique(chosen)), len(chosen), 1.0, 0.5)}
    found = {"components_": grams.difference(fit.components_, rows[chosen])}
    found |= grams.kernel_stated(fit, rows)
    try:
        K = grams.gram(fit, rows[chosen], rows[chosen])
    except k.CannotTell:
        return found
    # N K_LL is the root of K_LL, whose trace is not negative; −N would turn every feature around
    turned = float(np.sum(np.asarray(fit.normalization_, dtype=np.float64) * K.T)) < 0
    return found | {"normalization_": math.inf if turned else 0.0}


def _wrong_landmarks(fit: k.Fit) -> Iterator[str]:
    q = len(np.asarray(fit.component_indices_))
    if not is_given(fit) and fit.components_.shape[0] != q:
        yield f"components_ has {fit.components_.shape[0]} rows, not {q}"


SHAPES = {"component_indices_": "q >=0 int", "normalization_": "q q", "gamma_?": ""}
SOUND = attributes_sound(SHAPES, _wrong_landmarks)
TRUE = statements_true(
    _compare_statements, lambda fit: _cost_of_landmarks(fit) + float(fit.data.size)
)
NYSTROEM_CLAIMS = (SOUND, TRUE, little_missed, exact_on_landmarks, mercer)


# --- random cosines ---------------------------------------------------------------------------------------------------


def _cost_of_comparing(fit: k.Fit) -> float:
    """The kernel of a sample, that of its features, and their cosines."""
    (d, features), m = np.shape(fit.random_weights_), min(fit.data.shape[0], SAMPLE)
    return m * (2 * m * grams.cost_of_entry(d + features) + 20.0 * features)


@k.proved(
    "the features give the kernel of up to 300 rows to 0.1, in the root mean square over pairs",
    "Rahimi & Recht 2007",
    cost=_cost_of_comparing,
)
def near_kernel(fit):
    """The difference is measured, pair by pair."""
    X = dense(whole(fit.data)[evenly_spread(fit.data.shape[0], SAMPLE)])
    W, b = (np.asarray(part, np.float64) for part in (fit.random_weights_, fit.random_offset_))
    Phi = math.sqrt(2 / len(b)) * np.cos(X @ W + b)
    square = (X**2).sum(axis=1)
    K = np.exp(-float(fit.gamma_) * np.maximum(square[:, None] + square - 2 * X @ X.T, 0))
    rms = math.sqrt(float(np.mean((Phi @ Phi.T - K) ** 2)))
    advice = "more features: the error falls like 1/√n_components"
    note = f"the largest is {float(np.abs(Phi @ Phi.T - K).max()):.2g}"
    return k.at_most(rms, ERROR, advice, unit="error", note=note)


@k.statistical(
    "the frequencies have the spread of the kernel's law, 2γ",
    "Rahimi & Recht 2007",
    cost=lambda fit: float(np.size(fit.random_weights_)),
    confidence=LEVEL,
)
def right_frequencies(fit):
    """Σ w²/2γ over the dD draws is χ² with as many degrees of freedom: within the two-sided quantiles."""
    W = np.asarray(fit.random_weights_, dtype=np.float64)
    gamma = float(fit.gamma_)
    if gamma <= 0:
        return k.unknown("gamma is 0: the kernel is constant")
    found = float((W**2).sum()) / (2 * gamma)
    low, high = chdtri(W.size, 1 - (1 - LEVEL) / 2), chdtri(W.size, (1 - LEVEL) / 2)
    middle, half = (low + high) / 2, (high - low) / 2
    advice = "they are not draws for this gamma: fit again"
    return k.at_most(abs(found - middle) / W.size, half / W.size, advice, unit="|Σw²/2γdD − 1|")


def _gamma_alone(fit: k.Fit) -> Mapping[str, float]:
    """gamma_ : the one asked for, and offsets within a turn."""
    b = np.asarray(fit.random_offset_, dtype=np.float64)
    outside = max(float(-b.min()), float(b.max()) - 2 * math.pi, 0.0)
    true = grams.gamma_of(fit.gamma, whole(fit.data))
    return {
        "gamma_": discrepancy(fit.gamma_, true, abs(true) or 1.0, 1e-6),
        "offsets within a turn": discrepancy(outside, 0.0, 1.0, 1e-6),
    }


SOUND_WEIGHTS = attributes_sound({"random_weights_": "d D", "random_offset_": "D", "gamma_": ">=0"})
RANDOM_FEATURE_CLAIMS = (
    SOUND_WEIGHTS,
    statements_true(_gamma_alone),
    near_kernel,
    right_frequencies,
)
