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

from lemmata.audit.kernel.claims import PROVED, RULE_OF_THUMB, Fit, at_least, claim, unknown
from lemmata.audit.mixtures.em_steps import (
    RIDGELESS,
    Facts,
    affordable,
    expect,
    facts_of,
    known_components,
    one_thread,
    pass_work,
    posterior,
)

Array = np.ndarray
LEFT = 0.01  # of a width, if its weightiest row is taken away
RIDGE = (
    0.1  # of the own variance in some direction: above, the ridge may be what keeps a component up
)
RIDGELESS_STEPS = 30


@claim(
    "every component lives on at least as many rows as its shape needs",
    kind=PROVED,
    source="ML Gaussian Mixture Models",
    needs=(facts_of,),
)
def enough_rows(fit):
    """(Σ w r)²/Σ w² r, against d + 1 for a covariance of d features, two for a variance, one for a mean. Necessary only."""
    facts = facts_of(fit)
    # memberships sum to whole numbers of rows up to rounding
    fewest = float(facts.counts.min()) * (1 + 1e-9)
    advice = "use fewer components, or covariance_type='diag' or 'tied'"
    return at_least(fewest, facts.parts.rows_needed, unit="fewest rows", advice=advice)


def _propped(parts: Any) -> bool:
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
    """Two passes; more where EM has to go on without reg_covar."""
    parts = known_components(fit)
    if not parts.estimated:
        return 0.0
    if facts_of in fit.facts and _has_no_width(facts_of(fit), _eps(fit)):
        return 2 * pass_work(fit)
    return (2 + (_ridgeless_steps(fit) + 2) * _propped(parts)) * pass_work(fit)


def _ridgeless_steps(fit: Fit) -> int:
    """As many as there is work for."""
    return int(min(RIDGELESS_STEPS, affordable(fit, RIDGELESS) / pass_work(fit)))


def _has_no_width(facts: Facts, eps: float) -> bool:
    return any(factor is None for factor in facts.parts.scatter_factors(facts.sums, eps))


def _eps(fit: Fit) -> float:
    """What the rows are rounded to."""
    return float(np.finfo(fit.data.dtype if fit.data.dtype.kind == "f" else np.float64).eps)


@claim(
    "no component has collapsed: none owes its width to one row or to reg_covar",
    kind=RULE_OF_THUMB,
    source="ML Gaussian Mixture Models; Day 1969",
    needs=(facts_of,),
    cost=_shape_work,
)
def no_collapsed_component(fit):
    """The least share of a width, over components and directions, that is left without the row that makes most of it.

    Where reg_covar is more than a tenth of a component's own variance, EM first goes on without it: what collapses then was
    held up by reg_covar alone.
    """
    facts = facts_of(fit)
    if not facts.parts.estimated:
        return unknown("these components have no covariance to estimate")
    eps = _eps(fit)
    with one_thread():
        left = width_left(facts.parts, facts.sums, facts, eps)
        if left >= LEFT and _propped(facts.parts):
            steps = _ridgeless_steps(fit)
            left = min(left, _ridgeless(facts, eps, steps))
            if left >= LEFT and steps < RIDGELESS_STEPS:
                return unknown(
                    "too little work allowed to go on without reg_covar: pass seconds=… to certify"
                )
        flat = _flat(facts, eps)
    advice = "the likelihood is unbounded there: use fewer components or covariance_type='tied', or drop the rows it sits on"
    if flat:
        advice = "the data itself lies in a plane: drop constant or redundant features (PCA), or raise reg_covar"
    return at_least(left, LEFT, unit="width left without a row", advice=advice)


def width_left(parts: Any, sums: list[Array], facts: Facts, eps: float) -> float:
    """min over rows and components of 1 − h/(1 − r/N); 0 where a component has no width at all."""
    factors = parts.scatter_factors(sums, eps)
    if any(factor is None for factor in factors):
        return 0.0
    least, N = 1.0, np.maximum(sums[0], np.finfo(float).tiny)
    for x, w in facts.rows:
        r = w[:, None] * posterior(parts.joint(x))[1]
        h = parts.leverages(x, r, sums, factors)
        others = np.maximum(1 - r / N, 0.0)
        # a row alone in a component of a tied covariance is at its mean: it makes no width
        share = np.where(h > 0, h / np.maximum(others, np.finfo(float).tiny), 0.0)
        if parts.kind == "tied":
            share = np.where(others > 1e-9, share, 0.0).sum(axis=1, keepdims=True)
        least = min(least, float((1 - share).min(initial=1.0)))
    return max(least, 0.0)


def _ridgeless(facts: Facts, eps: float, steps: int) -> float:
    """What is left of the widths after some steps of EM without reg_covar."""
    parts, sums = facts.parts.without_ridge(), facts.sums
    try:
        for _ in range(steps):
            parts = parts.step(sums)
            sums = expect(parts, facts.rows)[1]
            if any(factor is None for factor in parts.scatter_factors(sums, eps)):
                return 0.0
        return width_left(parts, sums, facts, eps)
    except np.linalg.LinAlgError:
        return 0.0


def _flat(facts: Facts, eps: float) -> bool:
    """Whether all rows together lie in a plane, or share a value: then no mixture of them could do better."""
    one = facts.parts
    while one.k > 1:
        one = one.merged(0, one.k - 1)
    try:
        sums = expect(one, facts.rows)[1]
        return any(factor is None for factor in one.scatter_factors(sums, eps))
    except np.linalg.LinAlgError:
        return True
