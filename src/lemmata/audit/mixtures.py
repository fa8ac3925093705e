"""What theory promises about a mixture fitted by EM, checked on the data by plain code.

Everything is recomputed from the rows and public attributes (`weights_`, `means_`, `covariances_`, and the memberships that
`predict_proba` shows), with the densities of plain_mixtures.py. So the claims certify scikit-learn's GaussianMixture as well
as ours. With responsibilities r_ij the bound of EM is (CIL (3.10))

    ℓ ≥ Σ_i Σ_j r_ij [ln π_j + ln p(x_i; θ_j) − ln r_ij],        with equality iff r_ij ∝ π_j p(x_i; θ_j)  (CIL (3.12))

    >>> from sklearn.mixture import GaussianMixture as Theirs
    >>> import lemmata
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 6])
    >>> lemmata.certify(Theirs(2, random_state=0).fit(X), X).failed
    []
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, xlogy

from lemmata.audit.densities import plain_components
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
from lemmata.core.engine import one_blas_thread

Array = np.ndarray
TO_GO = 0.5  # standard errors: an eighth of a nat of log-likelihood, nothing a sample of this size could tell
OWN = 10.0  # variance of its own rows per unit of reg_covar: at most a tenth of a width may come from the safeguard
SOFT = 0.05  # of the rows: two equal Gaussians 3.3 standard deviations apart


@dataclass(frozen=True)
class Audit:
    """The facts that the claims compare, from one plain pass over the data, in float64."""

    n: float  # Σ w
    log_likelihood: float  # Σ_i w_i ln Σ_j π_j p(x_i; θ_j)
    bound: float  # the ELBO at the memberships the model shows
    size: float  # Σ_i w_i Σ_j r_ij |each term of the ELBO|: what its rounding error is relative to
    counts: Array  # (k,) how many rows a component lives on: (Σ_i w_i r_ij)² / Σ_i w_i² r_ij, which is Σ_i r_ij without weights
    doubt: float  # Σ_i w_i (1 − max_j r_ij)
    change: float  # of the parameters in one more EM step, in standard deviations
    to_go: float  # how far the maximum is, in standard errors
    thinnest: float  # variance of the rows of a component in its thinnest direction, over reg_covar; NaN: given
    flat: bool  # whether the data itself lies in a subspace
    alone: float  # log-likelihood of one component fitted to all rows; NaN where that is no closed formula
    n_parameters: tuple[int, int]  # of one component, and of the mixture


def audit(fit: Fit) -> Audit:
    """The facts about a fit, computed once per certificate."""
    if "audit" not in fit.memory:
        # many small matrices: waking threads for each costs more than the work
        with one_blas_thread():
            fit.memory["audit"] = _audit(fit)
    return fit.memory["audit"]


def _audit(fit: Fit) -> Audit:
    parts = plain_components(fit)
    pi = np.asarray(fit.weights_, dtype=np.float64)
    k, unit = len(pi), 1.0 if fit.data.weights is None else float(np.max(fit.data.weights))
    n = log_likelihood = bound = size = doubt = 0.0
    sums, squares = parts.empty(), np.zeros(k)
    for rows, w in _plain(fit.data):
        joint, each, r = _posterior(parts, pi, rows)
        shown = _memberships(fit, rows)
        # ln 0 is met where r = 0 only, unless a membership contradicts the parameters: then the bound is −inf, as it should
        with np.errstate(invalid="ignore"):
            terms = np.where(shown > 0, shown * joint, 0.0), -xlogy(shown, shown)
        n, log_likelihood = n + w.sum(), log_likelihood + w @ each
        bound += w @ (terms[0] + terms[1]).sum(axis=1)
        size += w @ (np.abs(terms[0]) + np.abs(terms[1])).sum(axis=1)
        doubt += w @ (1 - r.max(axis=1))
        sums = parts.add(sums, rows, w[:, None] * r)
        squares += (w / unit) ** 2 @ r
    counts, after = parts.step(sums)
    change = max(float(np.abs(counts / n - pi).max()), parts.distance(after))
    to_go = _standard_errors(
        fit, parts, pi, np.r_[counts - n * pi, parts.pull(sums, after)], after, unit
    )
    effective = (counts / unit) ** 2 / np.maximum(squares, np.finfo(float).tiny)
    thinnest, flat = parts.thinnest(sums)
    free = parts.n_parameters(1), parts.n_parameters(k) + k - 1
    alone = parts.alone(sums)
    return Audit(
        n, log_likelihood, bound, size, effective, doubt, change, to_go, thinnest, flat, alone, free
    )


def _plain(data: Any) -> Iterator[tuple[Array, Array]]:
    """Dense rows and weights in float64; a row of which nothing is known weighs nothing."""
    for rows, w in data:
        rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
        w = np.ones(len(rows)) if w is None else np.asarray(w, dtype=np.float64)
        yield rows, np.where(np.isnan(rows).all(axis=1), 0.0, w)


def _posterior(parts: Any, pi: Array, rows: Array) -> tuple[Array, Array, Array]:
    """ln π_j p(x; θ_j) (n, k), ln p(x) (n,) and the responsibilities (n, k)."""
    with np.errstate(divide="ignore"):
        joint = parts.log_density(rows) + np.log(pi)  # −inf for a component without weight
    each = logsumexp(joint, axis=1)
    return joint, each, np.exp(joint - each[:, None])


def _standard_errors(
    fit: Fit, parts: Any, pi: Array, pull: Array, after: Any, unit: float
) -> float:
    """√(gᵀI⁻¹g): how far the maximum is from θ, in standard errors; half its square is the log-likelihood left to gain.

    g are the derivatives of the log-likelihood along the pieces of the next EM step, and I = Σ_i w_i g_i g_iᵀ estimates
    their information from single rows. Where EM crawls, its step has turned into the slow direction, so that the few pieces
    tell nearly all. Other directions are not looked at: the distance is a lower estimate.
    """
    information = np.zeros((len(pull), len(pull)))
    for rows, w in _plain(fit.data):
        r = _posterior(parts, pi, rows)[2]
        g = np.hstack([r - pi, parts.scores(rows, r, after)])
        information += (g.T * (w / unit)) @ g
    scale = np.sqrt(np.diagonal(information))
    moving = scale > 0
    scale, pull = scale[moving], pull[moving] / unit
    values, Q = np.linalg.eigh(
        information[np.ix_(moving, moving)] / np.multiply.outer(scale, scale)
    )
    # the weights sum to one, so that one direction at least says nothing
    kept = values > len(values) * 1e-12
    return float(
        np.sqrt(unit) * np.linalg.norm((Q.T @ (pull / scale))[kept] / np.sqrt(values[kept]))
    )


def _memberships(fit: Fit, rows: Array) -> Array:
    """What the model says itself; in float64, as its own callers see it."""
    with warnings.catch_warnings():  # blocks carry no names of features
        warnings.filterwarnings("ignore", message=".*valid feature names", category=UserWarning)
        dtype = np.asarray(fit.means_).dtype if fit.has("means_") else rows.dtype
        return np.asarray(fit.model.predict_proba(rows.astype(dtype, copy=False)), dtype=np.float64)


# --- claims -----------------------------------------------------------------------------------------------------------


@claim("the log-likelihood never fell", kind=RULE_OF_THUMB, source="CIL 3.1.3", about="run")
def likelihood_never_fell(fit):
    """The largest fall from one step to the next, relative to the largest log-likelihood of the run.

    What adding ρ = reg_covar to the covariances can cost is allowed for: with S the covariance of an exact M-step, λ its
    spectrum and t = ρ/λ, the expected log-likelihood at S + ρI is below the one at S by ½ Σ [ln(1 + t) − t/(1 + t)] per row
    of the component, and the log-likelihood gains at least as much as the expected one does. A prior (smoothing) counts as
    likelihood.
    """
    losses, columns = fit.trace.objective, fit.trace.extras
    rises = np.diff(losses)
    if "price" in columns:
        rises = rises - columns["price"][1:]
    scale = np.abs(losses).max(initial=0.0)
    fall = rises.max(initial=0.0) / scale if scale > 0 else 0.0
    n = fit.data.shape[0] if fit.data is not None else 1
    advice = "this is rounding: scale the data, or fit in float64"
    return at_most(
        fall, rounding(np.asarray(fit.weights_).dtype, n), unit="largest fall", advice=advice
    )


@claim(
    "the bound is tight: the memberships are the posteriors",
    kind=RULE_OF_THUMB,
    source="CIL (3.12)",
    cost=passes(),
)
def bound_is_tight(fit):
    facts = audit(fit)
    gap = (facts.log_likelihood - facts.bound) / max(facts.size, np.finfo(float).tiny)
    k, d = np.asarray(fit.weights_).shape[0], fit.data.shape[1]
    # a log-density sums d squares of numbers that a triangular solve erred in: d terms again
    slack = rounding(np.asarray(fit.weights_).dtype, fit.data.shape[0] + d * d + k)
    advice = "predict_proba does not belong to the parameters it is shown with: fit anew, in float64 if the data is large"
    return at_most(abs(gap), slack, unit="|ℓ − ELBO| / size", advice=advice)


@claim(
    "the parameters are a fixed point of EM, within their standard errors",
    kind=RULE_OF_THUMB,
    source="CIL (3.13), (3.14)",
    cost=passes(),
)
def fixed_point(fit):
    """How far the maximum that EM climbs to still is, in the errors that parameters have from sampling.

    The size of a step says little: EM crawls where components overlap, and stops at any `tol` long before it arrives.
    """
    facts = audit(fit)
    advice = "EM has not arrived: lower tol, or raise max_iter"
    if np.asarray(fit.weights_).dtype == np.float32:
        advice += "; if that does not help, float32 is too coarse for numbers so far from zero"
    return at_most(
        facts.to_go, TO_GO, unit="standard errors to go", advice=advice,
        note=f"a lower estimate; the next step moves by {facts.change:.1g} standard deviations at most",
    )  # fmt: skip


@claim(
    "no component has collapsed",
    kind=RULE_OF_THUMB,
    source="ML Gaussian Mixture Models",
    cost=passes(),
)
def no_collapsed_component(fit):
    """A component that shrinks onto a point or a plane sends the likelihood to infinity; only reg_covar stops it.

    Measured: the least, over components and directions, of the variance that a component's own rows have, over the floor,
    which is what reg_covar adds (or 1e-8 of the data's variance, if that is more).
    """
    facts = audit(fit)
    if np.isnan(facts.thinnest):
        return unknown("these components have no covariance to estimate")
    advice = "the likelihood is unbounded there: use fewer components or covariance_type='tied', or raise reg_covar"
    if facts.flat:
        advice = "the data itself lies in a plane: drop constant or redundant features (PCA), or raise reg_covar"
    return at_least(facts.thinnest, OWN, unit="variance / floor", advice=advice)


@claim(
    "every component has rows enough for its shape",
    kind=RULE_OF_THUMB,
    source="ML Gaussian Mixture Models",
    cost=passes(),
)
def enough_rows(fit):
    """A covariance of d features has full rank only from d + 1 rows on; a mean needs one."""
    needed = plain_components(fit).rows_needed
    advice = "use fewer components, or covariance_type='diag' or 'tied'"
    return at_least(audit(fit).counts.min(), needed, unit="fewest rows", advice=advice)


@claim(
    "the memberships are clear enough to be read as labels",
    kind=RULE_OF_THUMB,
    source="CIL (3.4)",
    cost=passes(),
)
def memberships_clear(fit):
    """E[1 − max_j r_j(x)] is the share of rows that the best possible labelling gets wrong, if the model is true."""
    facts = audit(fit)
    return at_most(
        facts.doubt / facts.n, SOFT, unit="Bayes error",
        advice="the components overlap: use predict_proba rather than predict, or fewer components",
        note="under the fitted model",
    )  # fmt: skip


@claim(
    "several components are worth their parameters",
    kind=RULE_OF_THUMB,
    source="CIL20 6.4",
    cost=passes(),
)
def worth_its_components(fit):
    """BIC of a single component less BIC of the mixture, in scikit-learn's scale (twice that of the notes)."""
    facts = audit(fit)
    if len(facts.counts) == 1:
        return unknown("there is one component only")
    if np.isnan(facts.alone):
        return unknown("a single component has no closed formula where values are missing")
    one, many = facts.n_parameters
    gain = 2 * (facts.log_likelihood - facts.alone) - (many - one) * np.log(facts.n)
    return at_least(
        gain, 0.0, unit="BIC₁ − BIC", advice="one component explains this data as well: use fewer"
    )


MIXTURE_CLAIMS = (
    likelihood_never_fell,
    bound_is_tight,
    fixed_point,
    no_collapsed_component,
    enough_rows,
    memberships_clear,
    worth_its_components,
)
