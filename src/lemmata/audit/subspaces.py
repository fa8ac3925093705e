"""What theory promises about a principal subspace, checked on the data by plain code.

Everything is recomputed from the rows and three public attributes: `components_` (k × d), `mean_` and `singular_values_`. So
the claims certify scikit-learn's PCA, IncrementalPCA and TruncatedSVD (whose mean is taken to be zero) as well as ours. None
of this code is used by a solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from lemmata.audit.runs import power_rate_kept
from lemmata.core.certificate import (
    RULE_OF_THUMB,
    Fit,
    at_least,
    at_most,
    claim,
    passes,
    rounding,
    unknown,
)

DENSE_SPECTRUM = 3000  # features up to which the whole spectrum is computed; beyond it, the leading part by ARPACK
SHARE_OF_OPTIMUM = 0.999
AXIS_ERROR = 0.01
TAIL_ERROR = 1e-4  # of the variance: below it nobody would act, and iterative solvers of other libraries stop there
ANGLE = 30.0  # degrees; beyond it half of what an axis says may be sampling noise


@dataclass(frozen=True)
class Audit:
    """The facts that the claims compare, each from one plain pass over the data, in float64."""

    n: float
    mean: np.ndarray  # of the data, not of the model
    total: float  # Σ w‖x − mean_‖²
    error: float  # Σ w‖x − mean_ − P(x − mean_)‖², P = CᵀC with the model's components
    axes: np.ndarray  # (k,) scatter along each component
    residuals: np.ndarray  # (k,) ‖S c − θ c‖, S the scatter about the model's mean
    eigenvalues: np.ndarray  # of S, descending: all of them, or the k + 1 largest if d is large


def audit(fit: Fit) -> Audit:
    """The facts about a fit, computed once per certificate."""
    if "audit" not in fit.memory:
        fit.memory["audit"] = _audit(fit)
    return fit.memory["audit"]


def _audit(fit: Fit) -> Audit:
    C = np.asarray(fit.components_, dtype=np.float64)
    mean = np.asarray(fit.mean_, dtype=np.float64)
    k, d = C.shape
    forming = d <= DENSE_SPECTRUM
    n, total, sums, S = 0.0, 0.0, np.zeros(d), np.zeros((d, d) if forming else (d, k))
    for rows, weights in fit.data:
        w = np.ones(rows.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
        n += w.sum()
        sums += w @ rows
        if sp.issparse(rows):
            rows = rows.astype(np.float64)
            squares = rows.multiply(rows).sum(axis=1) - 2 * (rows @ mean) + mean @ mean
            total += w @ np.asarray(squares).ravel()
            S += _sparse_scatter(rows, w, mean) if forming else _sparse_scatter(rows, w, mean, C.T)
        else:
            centred = rows - mean
            total += w @ np.einsum("ij,ij->i", centred, centred)
            S += (centred.T * w) @ (centred if forming else centred @ C.T)
    SC = S @ C.T if forming else S
    axes = np.einsum("kd,dk->k", C, SC)
    # ‖y − CᵀCy‖² = ‖y‖² − 2 yᵀCᵀCy + yᵀCᵀ(CCᵀ)Cy: orthonormality is not taken for granted
    error = total - 2 * axes.sum() + np.einsum("ij,ij->", C @ C.T, C @ SC)
    residuals = np.linalg.norm(SC - C.T * (axes / np.einsum("kd,kd->k", C, C)), axis=0)
    known = np.linalg.eigvalsh(S)[::-1] if forming else _leading(fit, mean, k)
    return Audit(n, sums / n, float(total), float(error), axes, residuals, known)


def _sparse_scatter(rows, w, mean, V=None):
    """Σ w(x−μ)(x−μ)ᵀV of sparse rows (V = I if not given), without centring them in memory."""
    if V is None:
        sums = w @ rows
        gram = (rows.T @ rows.multiply(w[:, None]).tocsr()).toarray()
        return gram - np.outer(sums, mean) - np.outer(mean, sums) + w.sum() * np.outer(mean, mean)
    projected = rows @ V - mean @ V
    return rows.T @ (projected * w[:, None]) - np.outer(mean, w @ projected)


def _leading(fit: Fit, mean, k):
    """The k + 1 largest eigenvalues of the scatter about `mean`, by ARPACK on products with the data."""
    d = len(mean)

    def product(v):
        V = v.reshape(d, -1).astype(np.float64)
        out = np.zeros_like(V)
        for rows, weights in fit.data:
            w = np.ones(rows.shape[0]) if weights is None else weights
            if sp.issparse(rows):
                out += _sparse_scatter(rows, w, mean, V)
            else:
                centred = rows - mean
                out += centred.T @ ((centred @ V) * w[:, None])
        return out

    operator = LinearOperator((d, d), matvec=product, matmat=product, dtype=np.float64)
    rng = np.random.default_rng(0)
    return np.sort(
        eigsh(
            operator,
            min(k + 1, d - 1),
            v0=rng.standard_normal(d),
            tol=1e-6,
            return_eigenvectors=False,
        )
    )[::-1]


# --- claims -----------------------------------------------------------------------------------------------------------


@claim("the components are orthonormal", kind=RULE_OF_THUMB, source="CIL 1.3.3")
def orthonormal_basis(fit):
    C = np.asarray(fit.components_)
    error = np.abs(C.astype(np.float64) @ C.T.astype(np.float64) - np.eye(len(C))).max()
    return at_most(
        error,
        rounding(C.dtype, C.shape[1]),
        unit="|CCᵀ − I|",
        advice="solve in float64, or with solver='eigh'",
    )


@claim(
    "the error is the tail of the spectrum",
    kind=RULE_OF_THUMB,
    source="CIL Cor. 2.3.5",
    cost=passes(),
)
def error_is_spectral_tail(fit):
    facts = audit(fit)
    if facts.total <= 0:
        return unknown("the data does not vary")
    tail = facts.total - np.sum(np.asarray(fit.singular_values_, dtype=np.float64) ** 2)
    gap = abs(facts.error - tail) / facts.total
    # eigenvalues err by eps·λ₁ each, sums over n rows by √n·eps
    bound = max(TAIL_ERROR, rounding(np.asarray(fit.components_).dtype, facts.n + len(facts.axes)))
    return at_most(
        gap,
        bound,
        unit="|error − tail| / total",
        advice="singular_values_ are not those of this data: fit anew",
    )


@claim(
    "no subspace of this dimension keeps more variance",
    kind=RULE_OF_THUMB,
    source="CIL Thm 1.4.4",
    cost=passes(),
)
def most_variance(fit):
    facts = audit(fit)
    best = facts.eigenvalues[: len(facts.axes)].sum()
    if best <= 0:
        return unknown("the data does not vary")
    captured = facts.total - facts.error
    advice = "the solver has not converged: lower tol, raise max_iter, or use solver='eigh'"
    return at_least(captured / best, SHARE_OF_OPTIMUM, unit="share of the optimum", advice=advice)


@claim(
    "each component is a principal axis", kind=RULE_OF_THUMB, source="CIL Cor. 1.4.8", cost=passes()
)
def principal_axes(fit):
    facts = audit(fit)
    if facts.eigenvalues[0] <= 0:
        return unknown("the data does not vary")
    worst = facts.residuals.max() / facts.eigenvalues[0]
    advice = (
        "the basis is turned within its subspace, or not converged: lower tol, or use solver='eigh'"
    )
    return at_most(worst, AXIS_ERROR, unit="|Sc − θc| / λ₁", advice=advice)


@claim("the sample determines the subspace", kind=RULE_OF_THUMB, source="CIL 1.4.2", cost=passes())
def subspace_determined(fit):
    """The angle that sampling alone puts between this subspace and that of the law the rows came from.

    First-order perturbation theory (Anderson 1963): E‖sin Θ‖² ≈ (1/n) Σ_{i≤k<j} λ_i λ_j / (λ_i − λ_j)², which explodes as the
    gap λ_k − λ_{k+1} closes.
    """
    facts = audit(fit)
    k, d = len(facts.axes), len(facts.mean)
    if k >= d:
        return at_most(
            0.0,
            ANGLE,
            unit="expected angle°",
            note="all directions are kept, nothing is left to determine",
        )
    if facts.eigenvalues[0] <= 0 or len(facts.eigenvalues) <= k:
        return unknown("the data does not vary, or the next eigenvalue is out of reach")
    low, high = _sampling_angles(facts, k)
    if low <= ANGLE < high:
        return unknown(
            f"between {low:.0f}° and {high:.0f}°, as the eigenvalues beyond k + 1 are not known"
        )
    return at_most(
        min(high, 90.0) if high <= ANGLE else low,
        ANGLE,
        unit="expected angle°",
        advice=f"λ_{k} and λ_{k + 1} are too close for {facts.n:,.0f} rows: choose k at a larger gap, or do not read the axes",
        note="expected for Gaussian rows with this spectrum, to first order; heavy tails make it larger",
    )


def _sampling_angles(facts: Audit, k: int) -> tuple[float, float]:
    """Bounds on the expected angle in degrees: eigenvalues that are not known lie somewhere between 0 and λ_{k+1}."""
    inner, outer = facts.eigenvalues[:k, None], facts.eigenvalues[None, k:]
    rest = max(facts.total - facts.eigenvalues.sum(), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        known = np.nan_to_num(
            inner * outer / np.maximum(inner - outer, 0) ** 2, nan=0.0, posinf=np.inf
        ).sum()
        thin = (rest / inner).sum() if rest > 0 else 0.0  # λ_iλ_j/(λ_i − λ_j)² ≥ λ_j/λ_i
        lumped = (
            (inner * rest / np.maximum(inner - outer[:, :1], 0) ** 2).sum() if rest > 0 else 0.0
        )
    low, high = (
        np.degrees(np.arcsin(min(np.sqrt((known + more) / facts.n), 1.0)))
        for more in (thin, lumped)
    )
    return float(low), float(high)


@claim(
    "it explains more than a random basis does on average",
    kind=RULE_OF_THUMB,
    source="CIL Ex. 1.2",
    cost=passes(),
)
def beats_random_basis(fit):
    """A uniformly random k-dimensional subspace captures k/d of the scatter on average, whatever the spectrum."""
    facts = audit(fit)
    if facts.total <= 0:
        return unknown("the data does not vary")
    share = (facts.total - facts.error) / facts.total
    average = len(facts.axes) / len(facts.mean)
    slack = rounding(np.asarray(fit.components_).dtype, facts.n)
    return at_least(
        share + slack, average, unit="share", advice="these are not leading directions: fit anew"
    )


@claim(
    "centring made the affine part redundant",
    kind=RULE_OF_THUMB,
    source="CIL Prop. 1.2.1",
    cost=passes(),
)
def affine_part_redundant(fit):
    """The best constant to add to a reconstruction is (I − P)(x̄ − mean_); it vanishes if mean_ is the mean of the data."""
    facts = audit(fit)
    C = np.asarray(fit.components_, dtype=np.float64)
    shift = facts.mean - np.asarray(fit.mean_, dtype=np.float64)
    offset = np.linalg.norm(shift - C.T @ (C @ shift))
    scale = np.sqrt(facts.total / facts.n) + np.linalg.norm(facts.mean)
    bound = rounding(np.asarray(fit.components_).dtype, facts.n)
    advice = "mean_ is not the mean of this data: centre it (use PCA instead of a plain SVD), or fit anew"
    return at_most(
        offset / scale if scale > 0 else 0.0, bound, unit="best offset / scale", advice=advice
    )


@claim("the captured variance never fell", kind=RULE_OF_THUMB, source="CIL 1.5", about="run")
def never_fell(fit):
    terms = len(fit.mean_)
    return at_most(
        fit.trace.largest_rise,
        rounding(np.asarray(fit.components_).dtype, terms),
        unit="largest fall",
    )


SUBSPACE_CLAIMS = (
    orthonormal_basis,
    error_is_spectral_tail,
    most_variance,
    principal_axes,
    subspace_determined,
    beats_random_basis,
    affine_part_redundant,
)
ITERATIVE_CLAIMS = (*SUBSPACE_CLAIMS, never_fell)
POWER_CLAIMS = (*ITERATIVE_CLAIMS, power_rate_kept)
