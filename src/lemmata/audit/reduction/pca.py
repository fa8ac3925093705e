"""Claims about a principal subspace, checked on the data by plain code.

Everything is recomputed from the rows and public attributes: `components_` (k × d), `mean_` and the numbers that a model
states. So the claims certify scikit-learn's PCA, IncrementalPCA and TruncatedSVD (which centres nothing: its mean is zero) as
well as ours. Facts are measured in spectra.py, what sampling does to them in sampling_error.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import (
    attributes_sound,
    discrepancy,
    never_rose,
    statements_true,
)
from lemmata.audit.kernel.claims import (
    Fit,
    at_most,
    proved,
    rounding,
    rule_of_thumb,
    statistical,
    unknown,
)
from lemmata.audit.reduction.kept_moments import principal
from lemmata.audit.reduction.principal_axes import compare_axes, compare_error, compare_offset
from lemmata.audit.reduction.sampling_error import GROUPS, LEVEL, judge_turn, turn_of_rows
from lemmata.audit.reduction.spectra import (
    DENSE,
    around,
    both,
    scaled_rows,
    spectrum,
    whole_scatter,
)
from lemmata.core.runs.trace import decay_rate

Array = np.ndarray

DIGITS = 1e-4  # stated numbers are true to four digits: what iterative solvers of other libraries state, and people read


# --- what the attributes have to be -----------------------------------------------------------------------------------


def _disagreements(fit: Fit) -> Iterator[str]:
    k = len(fit.components_)
    if fit.get("n_components_") not in (None, k):
        yield f"n_components_ is {fit.n_components_}, but there are {k} components"
    shares = fit.get("explained_variance_ratio_")
    shares = np.zeros(0) if shares is None else np.asarray(shares)
    if np.sum(shares, dtype=np.float64) > 1 + rounding(shares.dtype, k):
        yield "the explained shares add up to more than 1"


STATED = {
    "components_": "k d",
    "explained_variance_? explained_variance_ratio_?": "k >=0",
    "singular_values_?": "k >=0 falling",
    "noise_variance_?": ">=0",
    "var_?": "d >=0",
}
SOUND = attributes_sound({**STATED, "mean_": "d"}, _disagreements)
SOUND_UNCENTRED = attributes_sound(STATED, _disagreements)


def subspace_statements(fit: Fit) -> Mapping[str, float]:
    """Each stated number against its definition in scikit-learn: what the transformed rows, (x − mean_)Cᵀ, show.

    explained_variance_ : their variances, of n − 1 degrees of freedom (TruncatedSVD: of n)
    explained_variance_ratio_ : shares of the variance of all features
    singular_values_ : their lengths
    noise_variance_ : the mean variance of the min(n, d) − k directions left out, n the total weight of the rows
    var_ (IncrementalPCA) : the variance of each feature, over n

    IncrementalPCA forgets what its components leave out of a batch: where that matters, its numbers are not those of the data.
    """
    rows, facts = scaled_rows(fit), around(fit)
    (n, d), weight = fit.data.shape, fit.data.total_weight
    centred = hasattr(fit.model, "mean_")  # TruncatedSVD does not
    freedom = (weight - 1) / weight if centred else 1.0
    about_centre = np.diagonal(facts.inner)
    along = np.maximum(about_centre - (facts.C @ rows.shift) ** 2, 0)
    total = max(facts.total - float(rows.shift @ rows.shift), 0.0)
    own = rounding(np.asarray(fit.components_).dtype, max(n, d))
    noise = facts.noise + own * (total if centred else rows.square)
    lengths = np.sqrt(along if centred else about_centre)
    # weights are repetitions: the rows count `weight` in all
    outside, left = max(total - along.sum(), 0.0), max(min(weight, d) - len(along), 0)
    found: dict[str, float] = {}

    def compare(name: str, true, tolerance, scales=()) -> None:
        """Stated numbers in units of the data, and tolerance in those of `scaled_rows`."""
        stated = fit.get(name)
        if stated is not None:
            stated = np.asarray(stated, dtype=np.float64)
            for scale in scales:
                stated = stated / scale
            found[name] = discrepancy(stated, true, tolerance, 1.0)

    unit = rows.scale
    if centred:
        error = 8 * math.sqrt(n) * rows.eps * math.sqrt(rows.square)
        compare("mean_", rows.mean, error, (unit,))
    compare(
        "explained_variance_", along / freedom, (DIGITS * along + noise) / freedom, (unit, unit)
    )
    if total > noise:
        compare("explained_variance_ratio_", along / total, (DIGITS * along + noise) / total)
    slack = DIGITS * lengths + noise / np.maximum(lengths, math.sqrt(noise))
    compare("singular_values_", lengths, slack, (unit, math.sqrt(weight)))
    share = 1 / left if left else 0.0
    tolerance = (DIGITS * outside + noise) * (share or 1.0) / freedom
    compare("noise_variance_", outside * share / freedom, tolerance, (unit, unit))
    for name in ("n_samples_", "n_samples_seen_"):
        compare(name, n, 1e-6)  # a count is exact
    if fit.get("var_") is not None:
        dense = ((B.toarray() if hasattr(B, "toarray") else B, p) for B, p in rows)
        each = sum(p @ np.square(B - rows.mean) for B, p in dense)
        compare("var_", each, DIGITS * each + noise, (unit, unit))
    return found


TRUE = statements_true(subspace_statements, needs=(around,))


# --- claims about the result ------------------------------------------------------------------------------------------


@proved("the components are orthonormal", "CIL 1.3.3")
def orthonormal_basis(fit):
    C = np.asarray(fit.components_)
    error = np.abs(C.astype(np.float64) @ C.T.astype(np.float64) - np.eye(len(C))).max()
    advice = "solve in float64, or with an exact solver (svd_solver='covariance_eigh')"
    return at_most(error, rounding(C.dtype, C.shape[1]), advice, unit="|CCᵀ − I|")


@proved(
    "its error is within 1 % of the least that any subspace of this dimension has",
    "CIL Thm 1.4.4, Cor. 2.3.5",
    needs=(principal,),
)
def most_variance(fit):
    """The least error is the tail of the spectrum, Σ_{j>k} λ_j (Eckart–Young)."""
    facts, known = principal(fit)
    return compare_error(facts.error, facts, known)


@proved(
    "component i is within 1° of the principal axis i, for every i",
    "CIL Cor. 1.4.8; Davis & Kahan 1970",
    needs=(principal,),
)
def principal_axes(fit):
    return compare_axes(*principal(fit))


# --- what another sample would say ------------------------------------------------------------------------------------


def _cost_of_turn(fit: Fit) -> float:
    d, q, size = fit.data.shape[1], len(fit.components_) + 1, float(fit.data.size)
    m = d if d <= DENSE else q
    return 2 * size * q + float(GROUPS) * d * m * q


@statistical(
    "sampling turns the subspace by at most 30° on average",
    "CIL 1.4.2; Anderson 1963",
    confidence=LEVEL,
    cost=_cost_of_turn,
    needs=(both,),
)
def subspace_determined(fit):
    """The angle that is expected between this subspace and that of the law the rows came from (see sampling_error.py)."""
    facts, known = both(fit)
    k, d = facts.C.shape
    if k >= d:
        return unknown("all directions are kept: there is nothing to determine")
    if len(known.values) <= k or known.values[k] <= (d - k) * facts.noise:
        return unknown("no variance is left outside the subspace: nothing tells how it would turn")
    away = "the components are {:.0f}° away from the principal subspace themselves"
    turn_of = partial(turn_of_rows, fit, known, k)
    return judge_turn(fit, facts, known, facts.noise, turn_of, away)


@proved(
    "no constant added to the reconstruction would lower its error",
    "CIL Prop. 1.2.1",
    needs=(scaled_rows,),
)
def affine_part_redundant(fit):
    """The best constant is (I − P)(x̄ − mean_); it vanishes up to rounding if mean_ is the mean of the data."""
    rows = scaled_rows(fit)
    C = np.asarray(fit.components_, dtype=np.float64)
    offset = float(np.linalg.norm(rows.shift - C.T @ (C @ rows.shift)))
    advice = "mean_ is not the mean of this data: centre it (PCA instead of a plain SVD), or pass the training data"
    return compare_offset(rows, offset, 1.0, advice)


# --- runs of the power method -----------------------------------------------------------------------------------------

# a rate fitted to a finite number of steps still holds traces of the faster modes
RATE_SLACK = 0.05

# the objective is minus the captured variance: for a positive semidefinite S no step of these solvers can lower it
never_fell = never_rose(
    "the captured variance never fell",
    "CIL 1.5",
    lambda fit: rounding(fit.components_.dtype, fit.components_.shape[1]),
    "rounding or a step of its own spoiled the run: solve in float64, or with solver='eigh'",
    name="never_fell",
    unit="largest fall",
)


@rule_of_thumb("the power method kept its predicted rate", "CIL Prop. 1.5.1", about="run")
def power_rate_kept(fit):
    """The angle to the first axis shrinks by λ₂/λ₁ per step; the largest excess of the measured rate over it."""
    values = np.asarray(fit.singular_values_, dtype=np.float64) ** 2
    residual, vector = fit.trace.extras["residual"], fit.trace.extras["vector"]
    excesses = []
    for j in range(min(int(vector.max()) + 1, len(values) - 1)):
        rate = decay_rate(np.log(residual[(vector == j) & (residual > 0)]))
        if np.isfinite(rate):
            excesses.append(rate - values[j + 1] / values[j])
    if not excesses:
        return unknown("needs two components and a few steps for each")
    advice = "the start was unlucky or rounding dominates: try again"
    return at_most(max(excesses), RATE_SLACK, advice, unit="measured − λ₂/λ₁")


# --- the number of components, where a rule chose it -------------------------------------------------------------------
#
# knee        the variance after the last component lies far below the line from the first variance to the last
# parallel    the last component varies more than that of rows with independent columns, the next one does not
#
# Both are rules of thumb: a knee is a matter of taste, and the noise of parallel analysis is normal and has all variance.

BEND = 0.3  # below the line, in a unit square; ten variances of which each is half of the one before bend by 0.54
CLOSE = 1e-6  # of two bends that are as good as equal
DRAWS = 19  # the largest of them is passed by one draw of noise in twenty


def _variances(fit: claims.Fit) -> tuple[Array, int]:
    """Return the variances of which none is 0 for want of rows, and the number of components."""
    found, kept = spectrum(fit), len(np.asarray(fit.components_))
    if not found.whole:
        raise claims.CannotTell("too many features to know all variances")
    n, d = fit.data.shape
    values = np.maximum(found.values[: max(min(n - 1, d), 1)], 0.0)
    if kept >= len(values):
        raise claims.CannotTell("all directions are kept: there is no next one")
    return values, kept


@claims.rule_of_thumb(
    "the spectrum has a knee, after the last component", "CIL20 2.3.2", needs=(spectrum,)
)
def knee_clear(fit):
    """Measure how far the first variance that is left out lies below the line from the first to the last, which are 1 apart."""
    values, kept = _variances(fit)
    fall = values[0] - values[-1]
    if fall <= claims.rounding(np.float64, len(values)) * values[0]:
        return claims.unknown("all variances are equal: there is no line to be below of")
    below = 1 - np.linspace(0, 1, len(values)) - (values - values[-1]) / fall
    first, best = float(below[kept]), int(below.argmax())
    note = f"variance {kept} is {values[kept - 1]:.3g}, the next {values[kept]:.3g}"
    least, advice = BEND, "the spectrum falls evenly: use 'parallel', or a share of the variance"
    if below[best] > first + CLOSE:
        least = float(below[best])
        advice = f"the farthest point is number {best + 1}: n_components={max(best, 1)}"
    return claims.at_least(first, least, advice, "below the line", note)


@claims.rule_of_thumb(
    f"its last component varies more than in {DRAWS} draws of rows with independent columns, the next one does not",
    "Horn 1965",
    cost=lambda fit: (DRAWS + 1.0) * float(fit.data.shape[1]) ** 3,
    needs=(spectrum, whole_scatter),
)
def above_chance(fit):
    """The least of λ_k / noise_k and noise_{k+1} / λ_{k+1}, the noise being the largest of all draws."""
    values, kept = _variances(fit)
    n = float(fit.data.total_weight)
    freedom = round(n) - 1
    own, rng = np.diagonal(whole_scatter(fit)) * n / freedom, np.random.default_rng(0)
    noise = np.max([_draw(own, freedom, rng) for _ in range(DRAWS)], axis=0)[: len(values)] / n
    ratios = values / np.maximum(noise, np.finfo(float).tiny)
    note = f"component {kept} has {ratios[kept - 1]:.3g} of the noise, the next {ratios[kept]:.3g}"
    above = ratios > 1
    right = int(np.argmin(above)) if not above.all() else len(above)
    advice = (
        f"as many as vary more than noise: {right}" if right else "nothing varies more than noise"
    )
    inverse = 1 / max(float(ratios[kept]), np.finfo(float).tiny)
    return claims.at_least(
        min(float(ratios[:kept].min()), inverse), 1.0, advice, "times the noise, or less", note
    )


def _draw(variances: Array, freedom: int, rng: np.random.Generator) -> Array:
    """Return the eigenvalues of a scatter of independent normal columns with these variances, by Bartlett's triangle."""
    d = len(variances)
    A = rng.standard_normal((d, min(freedom, d)))
    if freedom >= d:
        A = np.tril(A, -1) + np.diag(np.sqrt(rng.chisquare(freedom - np.arange(d))))
    return np.linalg.svd(np.sqrt(variances)[:, None] * A, compute_uv=False) ** 2


# of a matrix whose rows are no sample of anything: nothing to say about other draws
MATRIX_CLAIMS = (SOUND_UNCENTRED, TRUE, most_variance, principal_axes, orthonormal_basis)
SVD_CLAIMS = (*MATRIX_CLAIMS, subspace_determined)
SUBSPACE_CLAIMS = (SOUND, *SVD_CLAIMS[1:], affine_part_redundant)
ITERATIVE_CLAIMS = (*SUBSPACE_CLAIMS, never_fell)
POWER_CLAIMS = (*ITERATIVE_CLAIMS, power_rate_kept)
KNEE_CLAIMS = (*SUBSPACE_CLAIMS, knee_clear)
PARALLEL_CLAIMS = (*SUBSPACE_CLAIMS, above_chance)
