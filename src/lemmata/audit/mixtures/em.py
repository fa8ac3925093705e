"""Claims about a mixture fitted by EM, checked on the data by plain code.

Everything is recomputed from the rows and public attributes (`weights_`, `means_`, `covariances_`, and the memberships that
`predict_proba` shows), with the densities of gaussians.py and the plain EM of em_steps.py. So the claims certify
scikit-learn's GaussianMixture as well as ours. With responsibilities r_ij the bound of EM is (CIL (3.10))

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
from typing import Any

import numpy as np
from scipy.special import xlogy

from lemmata.audit.clustering.nearest_centres import eps_of, one_blas_thread
from lemmata.audit.kernel.attributes import (
    attributes_sound,
    discrepancy,
    never_rose,
    statements_true,
)
from lemmata.audit.kernel.claims import CannotTell, Fit, at_most, proved, rounding
from lemmata.audit.mixtures import refits
from lemmata.audit.mixtures.climbs import fixed_point, no_ascent_nearby
from lemmata.audit.mixtures.em_steps import Reading, facts_of, pass_work, posterior
from lemmata.audit.mixtures.gaussians import SHAPES, kind_of
from lemmata.audit.mixtures.shapes import enough_rows, no_collapsed_component

Array = np.ndarray
BATCHES = "batches"  # why stepwise EM stops
NOT_PROMISED = "stepwise EM promises no such thing: a batch may be less likely than the one before"


# --- attributes -------------------------------------------------------------------------------------------------------


def _unsound(fit: Fit) -> Iterator[str]:
    """Problems of parameters beyond shapes that letters can describe."""
    k, d = len(fit.weights_), int(fit.get("n_features_in_", 0)) or None
    if fit.has("covariances_"):
        yield from _unsound_gaussians(fit, k, np.shape(fit.means_)[1])
    elif fit.has("probabilities_"):
        p = np.asarray(fit.probabilities_, dtype=np.float64)
        sizes = np.asarray(fit.n_categories_ if fit.has("n_categories_") else [p.shape[1]])
        other = d is not None and fit.has("n_categories_") and len(sizes) != d
        if sizes.sum() != p.shape[1] or other:
            yield f"probabilities_ has {p.shape[1]} columns, not those of n_categories_"
        elif fit.family_.name != "Bernoulli":
            sums = np.add.reduceat(p, np.cumsum(sizes) - sizes, axis=1)
            if np.abs(sums - 1).max() > rounding(fit.probabilities_.dtype, p.shape[1]):
                yield "probabilities_ do not sum to 1"


def _unsound_gaussians(fit: Fit, k: int, d: int) -> Iterator[str]:
    kind = kind_of(fit)
    shape = tuple({"k": k, "d": d}[axis] for axis in SHAPES[kind])
    for name in ("covariances_", "precisions_", "precisions_cholesky_"):
        A = np.asarray(fit.get(name, np.nan))
        if A.shape != shape:
            yield f"{name} has shape {A.shape}, not {shape} as covariance_type={kind!r} has it"
            return
        if A.dtype.kind not in "fiu" or not np.isfinite(A).all():
            yield f"{name} has numbers that are not finite"
            return
        if len(SHAPES[kind]) < 2 or SHAPES[kind][-2:] != "dd":
            if not (A > 0).all():
                yield f"{name} should be > 0"
        elif name == "covariances_":
            yield from _indefinite(np.asarray(A, np.float64), fit)


def _indefinite(A: Array, fit: Fit) -> Iterator[str]:
    """Whether covariances are not symmetric or, in units of their own diagonal, not positive definite.

    E[xxᵀ] − μμᵀ, as scikit-learn has it for tied ones, is symmetric up to eps·(μ/σ)².
    """
    far = np.abs(np.asarray(fit.means_, np.float64)).max(axis=0)
    for j, C in enumerate(A[None] if A.ndim == 2 else A):
        diagonal = np.diagonal(C)
        if not (diagonal > 0).all():
            yield f"covariances_[{j}] has variances that are not > 0"
            continue
        root = np.sqrt(diagonal)
        R = C / root / root[:, None]
        shift = 1 + float((far / root).max()) ** 2
        slack = rounding(np.asarray(fit.covariances_).dtype, len(C)) * shift
        if np.abs(R - R.T).max() > min(slack, 1e-2):
            yield f"covariances_[{j}] is not symmetric"
            continue
        try:
            np.linalg.cholesky(R)
        except np.linalg.LinAlgError:
            yield f"covariances_[{j}] is not positive definite"


SOUND = attributes_sound(
    {
        "weights_": "k >=0 sum=1",
        "means_?": "k d",
        "rates_?": "k d >=0",
        "probabilities_?": "k m >=0 <=1",
        "n_categories_?": "d >0 int",
        "lower_bound_?": "",
    },
    _unsound,
)


# --- what the model states --------------------------------------------------------------------------------------------


def _errors(fit: Fit) -> dict[str, float]:
    """Every number that a mixture states, as its library defines it, in units of the rounding it may have.

    Ours: `lower_bound_` is the mean log-likelihood of the parameters shown. scikit-learn's: that of the E-step before the last
    M-step, so that the likelihood of the parameters shown is at least that (less the price of reg_covar), and, as the fit
    says to have converged, not far above. `lower_bounds_` ends with it; `converged_`: its last change is below tol.
    """
    found = _inverse_errors(fit) if fit.has("covariances_") else {}
    if fit.get("stopped_") == BATCHES or not fit.has("lower_bound_"):
        return found  # stepwise EM states the likelihood of a batch that is gone
    facts = facts_of(fit)
    # rows in float32 are not quite those of a fit in float64
    eps = eps_of(np.asarray(fit.weights_).dtype, fit.data.dtype)
    stated, true = float(fit.lower_bound_), facts.log_likelihood / facts.weight
    error = eps * np.sqrt(facts.n) * facts.grain / facts.weight
    if fit.has("stepwise_"):  # ours
        found["lower_bound_"] = discrepancy(stated, true, error, 8.0)
    else:
        found["lower_bound_"] = _one_step_before(fit, stated, true, 8 * error + _price(fit, facts))
    bounds = np.asarray(fit.get("lower_bounds_", ()), dtype=np.float64)
    if len(bounds):
        found["lower_bounds_"] = discrepancy(stated, bounds[-1], abs(stated), rounding(np.float64))
    # what stops a run of ours is decided in the trace, with the prior
    if len(bounds) > 1 and fit.has("converged_") and fit.has("tol") and not fit.has("stepwise_"):
        settled = abs(bounds[-1] - bounds[-2]) < fit.tol
        found["converged_"] = 0.0 if bool(fit.converged_) == bool(settled) else np.inf
    return found


def _one_step_before(fit: Fit, stated: float, true: float, slack: float) -> float:
    """A likelihood one step before the one shown: at most it, and not much less where steps have become small."""
    if stated > true + slack:
        return (stated - true) / max(slack, np.finfo(float).tiny)
    near = 100 * float(fit.get("tol", np.inf)) if fit.get("converged_", False) else np.inf
    return (true - stated) / (near + slack) if np.isfinite(near) else 0.0


def _price(fit: Fit, facts: Any) -> float:
    """The likelihood that reg_covar may cost: ½ Σ π_j Σ_λ [ln(1 + t) − t/(1 + t)], t = ρ/λ; see LIKELIHOOD_NEVER_FELL."""
    parts = facts.parts
    if not getattr(parts, "estimated", False) or not parts.reg.any():
        return 0.0
    if parts.covariances.ndim == 3:
        # in units in which ρ is the identity
        root = np.sqrt(parts.reg)
        t = 1 / np.maximum(np.linalg.eigvalsh(parts.covariances / root / root[:, None]) - 1, 1e-12)
    else:
        t = 1 / np.maximum(parts.covariances / parts.reg - 1, 1e-12)
    return float(0.5 * parts.pi @ (np.log1p(t) - t / (1 + t)).sum(axis=1))


def _inverse_errors(fit: Fit) -> dict[str, float]:
    """The distances of ΣΛ and PᵀΣP from the identity; an inverse errs by eps·cond(Σ), in units of the diagonal."""
    given = fit.covariances_, fit.precisions_, fit.precisions_cholesky_
    dtype, names = np.asarray(fit.covariances_).dtype, ("precisions_", "precisions_cholesky_")
    C, precision, P = (np.asarray(A, np.float64) for A in given)
    if SHAPES[kind_of(fit)][-2:] != "dd":
        with np.errstate(over="ignore", invalid="ignore"):
            products = precision * C, P * np.sqrt(C)
        errors = [discrepancy(x, np.ones_like(x), 1.0, rounding(dtype)) for x in products]
        return dict(zip(names, errors, strict=True))
    d = C.shape[-1]
    root = np.sqrt(np.einsum("...aa->...a", C))
    R = C / root[..., None] / root[..., None, :]
    condition = np.linalg.cond(R).max() if d > 1 else 1.0
    scaled = precision * root[..., None] * root[..., None, :]
    Q = P * root[..., None]
    crooked = float(np.abs(R - np.swapaxes(R, -1, -2)).max())
    slack = min((rounding(dtype, d) + crooked) * float(condition), 0.1)
    eye = np.broadcast_to(np.eye(d), R.shape)
    products = R @ scaled, np.swapaxes(Q, -1, -2) @ R @ Q
    return {name: discrepancy(x, eye, 1.0, slack) for name, x in zip(names, products, strict=True)}


TRUE = statements_true(_errors, needs=(facts_of,))


# --- the run ----------------------------------------------------------------------------------------------------------


def _rounding_of_steps(fit: Fit) -> float:
    if fit.get("stopped_") == BATCHES:
        raise CannotTell(NOT_PROMISED)
    return rounding(np.asarray(fit.weights_).dtype, fit.data.shape[0] if fit.has_data else 1)


# What adding ρ = reg_covar to the covariances can cost is allowed for: with S the covariance of an exact M-step, λ its
# spectrum and t = ρ/λ, the expected log-likelihood at S + ρI is below the one at S by ½ Σ [ln(1 + t) − t/(1 + t)] per row
# of the component, and the log-likelihood gains at least as much as the expected one does. A prior (smoothing) counts as
# likelihood.
LIKELIHOOD_NEVER_FELL = never_rose(
    "the log-likelihood never fell",
    "CIL 3.1.3",
    _rounding_of_steps,
    "this is rounding: scale the data, or fit in float64",
    name="likelihood_never_fell",
    unit="largest fall",
    price="price",
)


# --- the E-step -------------------------------------------------------------------------------------------------------


def _shown_memberships(fit: Fit, x: Array) -> Array:
    """The memberships that the model gives itself, of rows in the type that it computes in."""
    with warnings.catch_warnings():  # slices carry no names of features
        warnings.filterwarnings("ignore", message=".*valid feature names", category=UserWarning)
        x = x.astype(np.asarray(fit.weights_).dtype, copy=False)
        return np.asarray(fit.model.predict_proba(x), dtype=np.float64)


@proved(
    "the bound is tight: the memberships are the posteriors",
    "CIL (3.12)",
    needs=(facts_of,),
    cost=lambda fit: 2 * pass_work(fit),
)
def bound_is_tight(fit):
    """ℓ − ELBO at the memberships that predict_proba shows, which is Σ KL(shown ‖ posterior); relative to its rounding."""
    facts = facts_of(fit)
    gap = 0.0
    with one_blas_thread():
        for x, w in Reading(fit.data, facts.parts.k, np.asarray(fit.weights_).dtype):
            joint = facts.parts.joint(x)
            each, _ = posterior(joint)
            shown = _shown_memberships(fit, x)
            # ln 0 occurs where r = 0 only, unless a membership contradicts the parameters: then the bound is −inf
            with np.errstate(invalid="ignore"):
                terms = np.where(shown > 0, shown * (joint - each[:, None]), 0.0) - xlogy(
                    shown, shown
                )
            counts = (w > 0) & np.isfinite(each)
            gap -= float(w[counts] @ terms[counts].sum(axis=1))
    k, d = facts.parts.k, fit.data.shape[1]
    # a log-density sums d squares of numbers that a triangular solve erred in: d terms again
    slack = rounding(np.asarray(fit.weights_).dtype, facts.n + d * d + k)
    advice = "predict_proba does not belong to the parameters it is shown with: fit it again, in float64 if the data is large"
    return at_most(abs(gap) / max(facts.grain, 1e-300), slack, advice, "|ℓ − ELBO| / size")


# --- counts and codes ------------------------------------------------------------------------------------------------


@proved("every row has a positive probability", "CIL (3.5)", needs=(facts_of,))
def every_row_possible(fit):
    """Number of rows with ln p(x) = −∞: something in them has probability 0 under every component that has a weight."""
    advice = "the log-likelihood of these rows is −∞: fit with smoothing > 0, or drop them"
    return at_most(facts_of(fit).impossible, 0, unit="impossible rows", advice=advice)


MIXTURE_CLAIMS = (
    SOUND, TRUE, fixed_point, LIKELIHOOD_NEVER_FELL, bound_is_tight, no_ascent_nearby, enough_rows,
    no_collapsed_component, refits.memberships_clear, refits.worth_its_components, refits.fresh_rows_as_likely,
)  # fmt: skip
COUNT_MIXTURE_CLAIMS = (*MIXTURE_CLAIMS, every_row_possible)
