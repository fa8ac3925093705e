"""Claims about fits in the feature space of a kernel: Mercer, kernel ridge regression.

**Mercer.** K = (κ(x_i, x_j)) of a kernel has vᵀKv ≥ 0 for every v. One eigenvector with a value below −n·eps·‖K‖ proves that κ
is no kernel. Rows that show none prove it for themselves only; for all inputs it follows from the rules: linear, polynomial
with coef0 ≥ 0, RBF, Laplace and cosine are kernels, and so are sums, products and positive multiples of kernels.

**Kernel ridge regression** minimises P(f) = ½ Σ s_i (y_i − f(x_i))² + ½ α‖f‖² over the functions of the space;
f = Σ c_i κ(x_i, ·) is best where (K + αS⁻¹)c = y. Every c also gives a lower bound, D(c) = α(cᵀy − ½ cᵀ(K + αS⁻¹)c) ≤ min P,
and with the residual r = y − Kc − αS⁻¹c the two differ by

    P(f) − D(c) = ½ Σ s_i r_i²,          ‖f − f*‖² ≤ 2 (P − D)/α,          |f(x) − f*(x)| ≤ √κ(x, x) ‖f − f*‖

(put y = r + Kc + αS⁻¹c into both). So the residual of the linear system is the gap itself, whatever solver made c.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, statements_true
from lemmata.audit.predict.kernels import grams
from lemmata.audit.predict.rows import refuse_other_rows, whole
from lemmata.audit.reduction.spectra import EIGH

Array = np.ndarray

GAP = 1e-4  # of the least objective: a linear system can be solved that well
DIGITS = 1e-6  # of its terms, to which the system is solved
HALF = 0.5  # of the digits may be lost in solving it


# --- Mercer -----------------------------------------------------------------------------------------------------------


@k.proved(
    "the kernel matrix of up to 300 of these rows is positive semidefinite",
    "ML Mercer's condition",
    needs=(grams.sampled_kernel,),
)
def mercer(fit):
    """An eigenvector with a negative value proves that κ is no inner product; principal blocks of a psd matrix are psd."""
    if grams.kernel_by_rules(fit):
        note = "by the rules that kernels are made by, for all inputs"
        return k.at_least(0, 0, unit="λ_min", note=note)
    found = grams.sampled_kernel(fit)
    some = f"{found.rows:,} of the rows; " if found.rows < fit.data.shape[0] else ""
    advice = "this is no kernel: the objective has no bound and the fit no meaning; use another (poly: coef0 >= 0; not sigmoid)"
    if found.skew > found.noise:
        advice = "a kernel is symmetric: pass (K + K.T) / 2, or the K of the training rows"
        return k.at_most(found.skew, found.noise, advice, unit="|K − Kᵀ|")
    return k.at_least(
        found.least,
        -found.noise,
        advice,
        unit="λ_min / |λ|_max",
        note=f"{some}says nothing of other rows",
    )


# --- kernel ridge regression ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RidgeGap:
    """One column of targets after another: P and the gap at the stated c, relative to the best."""

    primal: Array  # (m,)
    gap: Array  # (m,) ½ Σ s r²
    alpha: Array  # (m,)
    backward: float  # the largest |r_i| over Σ_j |K_ij c_j| + α|c_i|/s_i + |y_i|, or more
    size: float  # the largest √κ(x, x) of the rows


def _problems(fit: k.Fit) -> tuple[Any, Array, Array, Array, Array]:
    """(rows, y, c, weights, α), all of matching shapes; rows that do not count are left out. Raises CannotTell."""
    rows, c = whole(fit.data), np.asarray(fit.dual_coef_, dtype=np.float64)
    n = rows.shape[0]
    refuse_other_rows(len(c), n)
    y = np.asarray(fit.y, dtype=np.float64).reshape(n, -1)
    c = c.reshape(n, -1)
    if c.shape != y.shape:
        raise k.CannotTell(f"dual_coef_ is for {c.shape[1]} targets and y has {y.shape[1]}")
    s = np.ones(n) if fit.weights is None else np.asarray(fit.weights, dtype=np.float64)
    alpha = np.broadcast_to(np.asarray(fit.alpha, dtype=np.float64), (y.shape[1],))
    return rows, y, c, s, alpha


def _cost_of_ridge(fit: k.Fit) -> float:
    n, d = fit.data.shape
    return float(n) ** 2 * grams.cost_of_entry(d + np.size(fit.dual_coef_) / n)


@k.fact(cost=_cost_of_ridge)
def ridge(fit: k.Fit) -> RidgeGap:
    """Measure P and the gap at the stated c. Raises CannotTell."""
    rows, *problem = _problems(fit)
    grams.refuse_lost_digits(fit, rows)
    return _measure(fit, rows, *problem)


def _measure(fit: k.Fit, rows: Any, y: Array, c: Array, s: Array, alpha: Array) -> RidgeGap:
    counts = s > 0
    f = grams.products(fit, rows, rows, c)
    if np.any(c[~counts] != 0):
        raise k.CannotTell("rows of weight 0 have coefficients: fit again without them")
    divided = np.divide(c, s[:, None], out=np.zeros_like(c), where=counts[:, None])
    misfit = y - f
    r = np.where(counts[:, None], misfit - alpha * divided, 0.0)
    primal = 0.5 * s @ misfit**2 + 0.5 * alpha * np.sum(c * f, axis=0)
    gap = 0.5 * s @ r**2
    # Σ_j |K_ij c_j| is at least |f_i|, which is mostly enough
    terms = np.abs(f) + alpha * np.abs(divided) + np.abs(y)
    backward = _largest_share(r, terms)
    if backward > DIGITS:
        for part, K in grams.tiles(fit, rows, rows):
            terms[part] += np.abs(K) @ np.abs(c) - np.abs(f[part])
        backward = _largest_share(r, terms)
    diagonal = grams.diagonal_of(fit, rows)
    return RidgeGap(primal, gap, alpha, backward, math.sqrt(max(float(diagonal.max()), 0.0)))


def _largest_share(r: Array, terms: Array) -> float:
    return float(np.divide(np.abs(r), terms, out=np.zeros_like(r), where=terms > 0).max())


@k.proved(
    "the objective is within 0.01 % of the least possible",
    "ML Kernel regression; duality",
    needs=(ridge, grams.why_no_kernel),
)
def near_optimum(fit):
    """½ Σ s r², r the residual of the linear system, bounds what any other function could gain."""
    found = ridge(fit)
    if why := grams.why_no_kernel(fit):
        return k.unknown(why)
    if np.any(found.alpha <= 0):
        return k.unknown("alpha = 0 asks for interpolation: there is no gap; see well_conditioned")
    best = found.primal - found.gap
    rounded = found.primal <= np.finfo(float).tiny
    shares = np.divide(found.gap, best, out=np.full_like(best, np.inf), where=best > 0)
    share = np.where(rounded, 0.0, shares)
    worst = int(np.argmax(share))
    if share[worst] <= GAP:
        away = float(np.sqrt(2 * found.gap / found.alpha).max()) * found.size
        note = f"no prediction for these rows is off by more than {away:.2g}"
        return k.at_most(share[worst], GAP, unit="gap / least", note=note)
    return _look_further(fit, worst, share[worst])


def _look_further(fit: k.Fit, j: int, share: float) -> k.Evidence:
    """Decide where the gap does not: is there something better? A search's coefficients for one target are measured as well."""
    rows, y, _, s, alpha = _problems(fit)
    c = fit.witness("better_ridge", y[:, j], s, float(alpha[j]))
    above = f"up to {100 * share:.3g} % above the best"
    open_still = k.unknown(f"{above}: the dual coefficients do not tell")
    if c is None or not np.isfinite(c).all():
        return open_still
    found, better = ridge(fit), _measure(fit, rows, y[:, [j]], c[:, None], s, alpha[[j]])
    primal, value = found.primal[j], better.primal[0]
    lower = value - better.gap[0]
    if not grams.believable([primal, value], [primal - found.gap[j], lower]):
        return open_still
    at_best, at_worst = (primal / part - 1 if part > 0 else math.inf for part in (value, lower))
    advice = "the coefficients do not solve (K + alpha I)c = y: pass the training data and weights, or raise alpha"
    if at_worst <= GAP:
        return k.at_most(at_worst, GAP, unit="gap / least", witness={"dual_point": c})
    if at_best > GAP:
        return k.at_most(at_best, GAP, advice, "excess / least", witness={"better_coefficients": c})
    return k.unknown(f"between {100 * at_best:.3g} % and {100 * at_worst:.3g} % above the best")


@k.proved(
    "the coefficients solve (K + αI)c = y, to six digits of its terms",
    "ML Kernel regression; Oettli & Prager 1964",
    needs=(ridge,),
)
def solves_system(fit):
    """They are the exact solution of a system whose entries differ from this one by at most that share."""
    dtype = np.asarray(fit.dual_coef_).dtype
    coarse = dtype if dtype.kind == "f" else np.dtype(np.float64)
    bound = max(DIGITS, k.rounding(coarse, fit.data.shape[0]))
    advice = "pass the training data, its weights and the alpha of the fit, or fit again"
    return k.at_most(ridge(fit).backward, bound, advice, unit="share of the terms left over")


def _cost_of_condition(fit: k.Fit) -> float:
    n, d = fit.data.shape
    return EIGH * float(n) ** 3 + float(n) ** 2 * d if n <= grams.SOLVE else float(n) * d


@k.proved(
    "solving (K + αI)c = y loses at most half of the digits",
    "ML Kernel regression; condition number",
    cost=_cost_of_condition,
    needs=(grams.why_no_kernel,),
)
def well_conditioned(fit):
    """κ(K + αS⁻¹) ≤ 1/√eps: the coefficients are right to as many digits as are left."""
    rows, _, c, s, alpha = _problems(fit)
    n, smallest = len(c), float(alpha.min())
    dtype = np.asarray(fit.dual_coef_).dtype
    bound = float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps) ** -HALF
    counts = s > 0
    ridges = smallest / s[counts]
    advice = "raise alpha, or lower gamma: small changes of y change the coefficients by as much as their size"
    why = grams.why_no_kernel(fit)
    # λ_max ≤ tr K, and the least is at least that of the ridge
    trace = math.inf if why else float(grams.diagonal_of(fit, rows).sum())
    above = (trace + float(ridges.max())) / max(float(ridges.min()), np.finfo(float).tiny)
    if above <= bound:
        return k.at_most(above, bound, unit="condition number ≤")
    if n <= grams.SOLVE:
        K = grams.gram(fit, rows, rows)[np.ix_(counts, counts)]
        values = np.linalg.eigvalsh((K + K.T) / 2 + np.diag(ridges))
        noise = len(values) * float(np.finfo(float).eps) * float(np.abs(values).max())
        least = float(np.abs(values).min())
        condition = float(np.abs(values).max()) / max(least, noise / n, np.finfo(float).tiny)
        return k.at_most(condition, bound, advice, unit="condition number")
    if why:
        return k.unknown(why)
    return k.unknown(f"between 1 and {above:.2g}: {n:,} rows are too many for all eigenvalues")


def _disagreements(fit: k.Fit) -> Iterator[str]:
    rows, n = fit.get("X_fit_"), len(np.asarray(fit.dual_coef_))
    if rows is None or getattr(rows, "ndim", 0) != 2 or rows.shape[0] != n:
        yield f"X_fit_ does not have the {n:,} rows of dual_coef_"
    elif not np.isfinite((rows.data if sp.issparse(rows) else np.asarray(rows)).sum()):
        yield "X_fit_ has numbers that are not finite"
    c = np.asarray(fit.dual_coef_)
    if c.dtype.kind != "f" or c.ndim not in (1, 2):
        yield f"dual_coef_ has shape {c.shape} and holds {c.dtype}"
    elif not np.isfinite(c).all():
        yield f"dual_coef_ has {int((~np.isfinite(c)).sum())} numbers that are not finite"
    if np.any(np.asarray(fit.alpha, dtype=np.float64) < 0):
        yield "alpha is negative"


def _statements(fit: k.Fit) -> Mapping[str, float]:
    """X_fit_: the rows; γ: the one asked for; dual_coef_: one row of coefficients per row."""
    rows = whole(fit.data)
    return {**grams.kernel_stated(fit, rows), "X_fit_": grams.difference(fit.X_fit_, rows)}


SOUND, TRUE = attributes_sound({"gamma_?": ""}, _disagreements), statements_true(_statements)
KERNEL_RIDGE_CLAIMS = (SOUND, TRUE, near_optimum, solves_system, well_conditioned, mercer)
