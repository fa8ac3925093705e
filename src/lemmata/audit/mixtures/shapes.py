"""Whether the rows determine the shape of every component of a mixture.

A component that shrinks onto a point or a plane sends the likelihood to infinity; only reg_covar stops it. So the width that
counts is that of the rows themselves, S = Σ_i r_i δ_i δ_iᵀ without the ridge. The leverage h_i = r_i δ_iᵀS⁻¹δ_i of a row is its
share of S in the direction where it matters most, in no unit. Without row i the mean moves too, and of S is left

    det(S without i) / det S = 1 − h_i / (1 − r_i/N),            which is also what is left of the width along S⁻¹δ_i.

With d + 1 rows it is 0 for each of them; with many it is near 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from lemmata.audit.clustering.nearest_centres import eps_of, one_blas_thread
from lemmata.audit.kernel.claims import Fit, at_least, proved, rule_of_thumb, unknown
from lemmata.audit.mixtures import em_steps
from lemmata.audit.mixtures.em_steps import FitFacts, facts_of, pass_work
from lemmata.audit.mixtures.gaussians import EPS, observed_patterns, outer

Array = np.ndarray
LEFT = 0.01  # of a width, if its weightiest row is taken away
# of the own variance in some direction: above, the ridge may be what keeps a component up
RIDGE = 0.1
RIDGELESS_STEPS = 30
TOO_LITTLE = "too little work allowed to continue without reg_covar: pass seconds=… to certify"


@proved(
    "every component has at least as many rows as its shape needs",
    "ML Gaussian Mixture Models",
    needs=(facts_of,),
)
def enough_rows(fit):
    """(Σ w r)²/Σ w² r, against d + 1 for a covariance of d features, two for a variance, one for a mean. Necessary only."""
    facts = facts_of(fit)
    # memberships sum to whole numbers of rows up to rounding
    fewest = float(facts.counts.min()) * (1 + 1e-9)
    advice = "use fewer components, or covariance_type='diag' or 'tied'"
    return at_least(fewest, facts.parts.rows_needed, unit="fewest rows", advice=advice)


def _leans_on_ridge(parts: Any) -> bool:
    """Whether reg_covar is more than a tenth of what is left without it, in some direction of some component."""
    if not parts.reg.any():
        return False
    ridge = parts.reg * (1 + 1 / RIDGE)
    if parts.covariances.ndim == 2:
        return bool((parts.covariances < ridge).any())
    root = np.sqrt(ridge)
    least = np.linalg.eigvalsh(parts.covariances / root / root[:, None])[:, 0]
    return bool((least < 1).any())


def _shape_work(fit: Fit) -> float:
    """Two passes; more where EM has to continue without reg_covar."""
    parts = em_steps.known_components(fit)
    if not parts.estimated:
        return 0.0
    if facts_of in fit.facts and _has_no_width(
        facts_of(fit).parts, facts_of(fit).sums, eps_of(fit.data.dtype)
    ):
        return 2 * pass_work(fit)
    return (2 + (_ridgeless_steps(fit) + 2) * _leans_on_ridge(parts)) * pass_work(fit)


def _ridgeless_steps(fit: Fit) -> int:
    """As many as there is work for."""
    return int(min(RIDGELESS_STEPS, em_steps.affordable(fit, em_steps.RIDGELESS) / pass_work(fit)))


def _has_no_width(parts: Any, sums: list[Array], eps: float) -> bool:
    return any(factor is None for factor in scatter_factors(parts, sums, eps))


@rule_of_thumb(
    "no component has collapsed: none owes its width to one row or to reg_covar",
    "ML Gaussian Mixture Models; Day 1969",
    needs=(facts_of,),
    cost=_shape_work,
)
def no_collapsed_component(fit):
    """The least share of a width, over components and directions, that is left without the row that makes most of it.

    Where reg_covar is more than a tenth of a component's own variance, EM first continues without it: what collapses then was
    held up by reg_covar alone.
    """
    facts = facts_of(fit)
    if not facts.parts.estimated:
        return unknown("these components have no covariance to estimate")
    eps = eps_of(fit.data.dtype)
    with one_blas_thread():
        left = width_left(facts.parts, facts.sums, facts, eps)
        if left >= LEFT and _leans_on_ridge(facts.parts):
            steps = _ridgeless_steps(fit)
            left = min(left, _ridgeless(facts, eps, steps))
            if left >= LEFT and steps < RIDGELESS_STEPS:
                return unknown(TOO_LITTLE)
        flat = _flat(facts, eps)
    advice = "the likelihood is unbounded there: use fewer components or covariance_type='tied', or drop the rows it sits on"
    if flat:
        advice = "the data itself lies in a plane: drop constant or redundant features (PCA), or raise reg_covar"
    return at_least(left, LEFT, unit="width left without a row", advice=advice)


def width_left(parts: Any, sums: list[Array], facts: FitFacts, eps: float) -> float:
    """min over rows and components of 1 − h/(1 − r/N); 0 where a component has no width at all."""
    factors = scatter_factors(parts, sums, eps)
    if any(factor is None for factor in factors):
        return 0.0
    least, N = 1.0, np.maximum(sums[0], np.finfo(float).tiny)
    for x, w in facts.rows:
        r = w[:, None] * em_steps.posterior(parts.joint(x))[1]
        h = leverages(parts, x, r, sums, factors)
        others = np.maximum(1 - r / N, 0.0)
        # a row alone in a component of a tied covariance is at its mean: it makes no width
        share = np.where(h > 0, h / np.maximum(others, np.finfo(float).tiny), 0.0)
        if parts.kind == "tied":
            share = np.where(others > 1e-9, share, 0.0).sum(axis=1, keepdims=True)
        least = min(least, float((1 - share).min(initial=1.0)))
    return max(least, 0.0)


def _ridgeless(facts: FitFacts, eps: float, steps: int) -> float:
    """The share of the widths that is left after some steps of EM without reg_covar."""
    parts, sums = facts.parts.without_ridge(), facts.sums
    try:
        for _ in range(steps):
            parts = parts.step(sums)
            sums = em_steps.expect(parts, facts.rows)[1]
            if _has_no_width(parts, sums, eps):
                return 0.0
        return width_left(parts, sums, facts, eps)
    except np.linalg.LinAlgError:
        return 0.0


def _flat(facts: FitFacts, eps: float) -> bool:
    """Whether all rows together lie in a plane, or share a value: then no mixture of them could do better."""
    one = em_steps.merge_all(facts.parts)
    try:
        return _has_no_width(one, em_steps.expect(one, facts.rows)[1], eps)
    except np.linalg.LinAlgError:
        return True


# --- what single rows do to a shape -----------------------------------------------------------------------------------


def scatter_factors(parts: Any, sums: list[Array], eps: float) -> list[Any]:
    """Return what the leverages of rows are computed with, for every own scatter; None where it is flat, up to rounding."""
    dense = parts.covariances.ndim == 3
    return (_dense_scatter_factors if dense else _axis_scatter_factors)(parts, sums, eps)


def leverages(parts: Any, rows: Array, r: Array, sums: list[Array], factors: list) -> Array:
    """Return r δᵀS⁻¹δ, (n, k): the share of its component's width, in the worst direction, that each row makes."""
    dense = parts.covariances.ndim == 3
    return (_dense_leverages if dense else _axis_leverages)(parts, rows, r, sums, factors)


def _dense_scatter_factors(
    parts: Any, sums: list[Array], eps: float
) -> list[tuple[Array, Array] | None]:
    """Deviations of every own scatter, and its Cholesky factor in units of them."""
    counts, first, second, _ = sums
    # Σ r δδᵀ about the next means, without reg_covar or what is only expected: (k, d, d), or (1, d, d) if tied
    scatters = second - outer(first) / np.where(counts > 0, counts, 1.0)[:, None, None]
    places = np.abs(parts.means) / parts.unit + 1e-3  # distances from zero, in units
    if parts.kind == "tied":
        scatters, counts = scatters.sum(axis=0, keepdims=True), counts.sum(keepdims=True)
        places = places.max(axis=0, keepdims=True)
    squares = np.maximum(np.einsum("jaa->ja", scatters), 0)
    variances = squares / np.where(counts > 0, counts, 1.0)[:, None]
    factors: list[tuple[Array, Array] | None] = []
    for S, v, place in zip(scatters, variances, places, strict=True):
        noise = (8 * eps * place) ** 2
        if not (v > noise).all():
            factors.append(None)
            continue
        scale = np.sqrt(np.diagonal(S))
        R = S / np.multiply.outer(scale, scale)
        least = 8 * parts.d * EPS + float((noise / v).max())
        flat = np.linalg.eigvalsh(R)[0] <= least
        factors.append(None if flat else (scale, cholesky(R, lower=True)))
    return factors


def _dense_leverages(parts: Any, rows: Array, r: Array, sums: list[Array], factors: list) -> Array:
    shift = sums[1] / np.where(sums[0] > 0, sums[0], 1.0)[:, None]
    out = np.zeros((len(rows), parts.k))
    for seen, which in observed_patterns(rows):
        for j in range(parts.k):
            known = factors[0] if parts.kind == "tied" else factors[j]
            if known is None:
                continue
            scale, L = known
            x = (parts.complete(rows[which], seen, j)[0] - shift[j]) / scale
            y = solve_triangular(L, x.T, lower=True, check_finite=False)
            out[which, j] = r[which, j] * np.einsum("di,di->i", y, y)
    return out


def _axis_scatter_factors(parts: Any, sums: list[Array], eps: float) -> list[Array | None]:
    """Σ r δ² about the next means: (d,) for each component, or (1,) where features share their variance."""
    _, first, second, known = sums
    S = np.maximum(second - first**2 / np.where(known > 0, known, 1.0), 0.0)
    places = np.abs(parts.means) / parts.unit + 1e-3
    if parts.kind == "spherical":
        S, known = S.sum(axis=1, keepdims=True), known.sum(axis=1, keepdims=True)
        places = places.max(axis=1, keepdims=True)
    variances = S / np.where(known > 0, known, 1.0)
    wide = np.all(variances > (8 * eps * places) ** 2, axis=1).tolist()
    return [S[j] if wide[j] else None for j in range(parts.k)]


def _axis_leverages(parts: Any, rows: Array, r: Array, sums: list[Array], factors: list) -> Array:
    shift = sums[1] / np.where(sums[3] > 0, sums[3], 1.0)
    out = np.zeros((len(rows), parts.k))
    for j, S in enumerate(factors):
        if S is not None:
            x = np.nan_to_num((rows - parts.means[j]) / parts.unit - shift[j])
            shares = r[:, j, None] * x**2 / S
            out[:, j] = shares.sum(axis=1) if parts.kind == "spherical" else shares.max(axis=1)
    return out
