"""What theory promises about a principal subspace, checked on the data by plain code.

Everything is recomputed from the rows and public attributes: `components_` (k × d), `mean_` and the numbers that a model
states. So the claims certify scikit-learn's PCA, IncrementalPCA and TruncatedSVD (which centres nothing: its mean is zero) as
well as ours. Facts are measured in spectra.py, what sampling does to them in sampling_error.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.claims import (
    PROVED,
    STATISTICAL,
    Fit,
    at_most,
    claim,
    rounding,
    unknown,
)
from lemmata.audit.reduction.power_method import never_fell, power_rate_kept
from lemmata.audit.reduction.principal_axes import compare_axes, compare_error
from lemmata.audit.reduction.sampling_error import (
    BATCH,
    GROUPS,
    LEVEL,
    Turn,
    in_groups,
    judge_turn,
    turn,
)
from lemmata.audit.reduction.spectra import (
    DENSE,
    Rows,
    Spectrum,
    around,
    scaled_rows,
    scatter,
    spectrum,
)

Array = np.ndarray

DIGITS = 1e-4  # stated numbers are true to four digits: what iterative solvers of other libraries state, and people read


# --- what the attributes have to be -----------------------------------------------------------------------------------


def _disagreements(fit: Fit) -> Iterator[str]:
    k = len(fit.components_)
    if fit.get("n_components_") not in (None, k):
        yield f"n_components_ is {fit.n_components_}, but there are {k} components"
    shares = fit.get("explained_variance_ratio_")
    if shares is not None and np.sum(shares, dtype=np.float64) > 1 + rounding(
        np.asarray(shares).dtype, k
    ):
        yield "the explained shares add up to more than 1"


STATED = {
    "components_": "k d",
    "explained_variance_?": "k | >= 0",
    "explained_variance_ratio_?": "k | >= 0",
    "singular_values_?": "k | >= 0, falling",
    "noise_variance_?": "| >= 0",
    "var_?": "d | >= 0",
}
SOUND = attributes_sound({**STATED, "mean_": "d"}, _disagreements)
SOUND_UNCENTRED = attributes_sound(STATED, _disagreements)


def _statements(fit: Fit) -> Mapping[str, float]:
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
        each = sum(p @ np.square(_dense(block) - rows.mean) for block, p in rows)
        compare("var_", each, DIGITS * each + noise, (unit, unit))
    return found


def _dense(block):
    return block.toarray() if hasattr(block, "toarray") else block


TRUE = statements_true(_statements, needs=(around,))


# --- claims about the result ------------------------------------------------------------------------------------------


@claim("the components are orthonormal", kind=PROVED, source="CIL 1.3.3")
def orthonormal_basis(fit):
    C = np.asarray(fit.components_)
    error = np.abs(C.astype(np.float64) @ C.T.astype(np.float64) - np.eye(len(C))).max()
    advice = "solve in float64, or with an exact solver (svd_solver='covariance_eigh')"
    return at_most(error, rounding(C.dtype, C.shape[1]), advice, unit="|CCᵀ − I|")


@claim(
    "its error is within 1 % of the least that any subspace of this dimension has",
    kind=PROVED,
    source="CIL Thm 1.4.4, Cor. 2.3.5",
    needs=(around, spectrum),
)
def most_variance(fit):
    """The least error is the tail of the spectrum, Σ_{j>k} λ_j (Eckart–Young)."""
    facts = around(fit)
    if facts.total <= facts.noise:
        return unknown("the data does not vary")
    return compare_error(facts.error, facts, spectrum(fit))


@claim(
    "component i is within 1° of the principal axis i, for every i",
    kind=PROVED,
    source="CIL Cor. 1.4.8; Davis & Kahan 1970",
    needs=(around, spectrum),
)
def principal_axes(fit):
    facts = around(fit)
    if facts.total <= facts.noise:
        return unknown("the data does not vary")
    return compare_axes(facts, spectrum(fit))


# --- what another sample would say ------------------------------------------------------------------------------------


def _cost_of_turn(fit: Fit) -> float:
    d, q, size = fit.data.shape[1], len(fit.components_) + 1, float(fit.data.size)
    m = d if d <= DENSE else q
    return 2 * size * q + float(GROUPS) * d * m * q


@claim(
    "sampling turns the subspace by at most 30° on average",
    kind=STATISTICAL,
    confidence=LEVEL,
    source="CIL 1.4.2; Anderson 1963",
    cost=_cost_of_turn,
    needs=(around, spectrum),
)
def subspace_determined(fit):
    """The angle that is expected between this subspace and that of the law the rows came from (see sampling_error.py)."""
    facts, known = around(fit), spectrum(fit)
    k, d = facts.C.shape
    if facts.total <= facts.noise:
        return unknown("the data does not vary")
    if k >= d:
        return unknown("all directions are kept: there is nothing to determine")
    if len(known.values) <= k or known.values[k] <= (d - k) * facts.noise:
        return unknown("no variance is left outside the subspace: nothing tells how it would turn")
    away = "the components are {:.0f}° away from the principal subspace themselves"

    def turn_of(numbers: Array) -> Turn:
        return sampling_turn(scaled_rows(fit), known, k, facts.noise, numbers)

    return judge_turn(fit, facts, known, facts.noise, turn_of, away)


def sampling_turn(rows: Rows, known: Spectrum, k: int, noise: float, numbers: Array) -> Turn:
    """`turn` on the rows of a fit, by one pass: mean_g (x − c) zᵀ of every group, seen from the known axes."""
    q = min(k + 1, known.vectors.shape[1])
    W = known.vectors[:, :q]
    U = known.vectors if known.whole else W  # what is not known lies beyond
    SW = W * known.values[:q] if known.whole else rows.product(W)

    def deviations() -> Iterator[tuple[float, Array, Array]]:
        groups = _group_products(rows, W, numbers)
        while some := list(islice(groups, max(1, BATCH // W.size))):
            shares, D = (np.array(part) for part in zip(*some, strict=True))
            D = D / shares[:, None, None] - SW
            inside = U.T @ D
            beyond = np.zeros((len(D), q))
            if not known.whole:
                beyond = np.maximum(np.sum(D**2, axis=1) - np.sum(inside**2, axis=1), 0)
            yield from zip(shares, inside, beyond, strict=True)

    if known.whole:
        return turn(deviations(), known.values, k, noise)
    return turn(deviations(), known.values[:q], k, noise, known.ceiling)


def _group_products(rows: Rows, W: Array, numbers: Array) -> Iterator[tuple[float, Array]]:
    """The weight and Σ p (x − c)(x − c)ᵀW of each group of consecutive rows."""
    if rows.centred is not None and rows.shares is not None:
        yield from _products_of_few(rows.centred, rows.shares, W, numbers)
        return
    share, M, last, first = 0.0, np.zeros(W.shape), 0, 0
    for block, p in rows:
        here = numbers[first : first + len(p)]
        first += len(p)
        for start, stop in in_groups(here):
            if here[start] != last:
                if share > 0:
                    yield share, M
                share, M, last = 0.0, np.zeros(W.shape), here[start]
            share += float(p[start:stop].sum())
            M = M + scatter(block[start:stop], p[start:stop], rows.centre, W)
    if share > 0:
        yield share, M


def _products_of_few(
    centred: Array, p: Array, W: Array, numbers: Array
) -> Iterator[tuple[float, Array]]:
    """The same where all rows are at hand, centred."""
    weighted = (centred @ W) * p[:, None]
    for start, stop in in_groups(numbers):
        share = float(p[start:stop].sum())
        if share > 0:
            yield share, centred[start:stop].T @ weighted[start:stop]


@claim(
    "no constant added to the reconstruction would lower its error",
    kind=PROVED,
    source="CIL Prop. 1.2.1",
    needs=(scaled_rows,),
)
def affine_part_redundant(fit):
    """The best constant is (I − P)(x̄ − mean_); it vanishes up to rounding if mean_ is the mean of the data."""
    rows = scaled_rows(fit)
    C = np.asarray(fit.components_, dtype=np.float64)
    offset = np.linalg.norm(rows.shift - C.T @ (C @ rows.shift))
    scale = math.sqrt(rows.square)
    bound = 8 * math.sqrt(fit.data.shape[0]) * rows.eps
    advice = "mean_ is not the mean of this data: centre it (PCA instead of a plain SVD), or pass the training data"
    return at_most(
        float(offset) / scale if scale > 0 else 0.0, bound, advice, unit="best offset / scale"
    )


SUBSPACE_CLAIMS = (
    SOUND,
    TRUE,
    orthonormal_basis,
    most_variance,
    principal_axes,
    subspace_determined,
    affine_part_redundant,
)
SVD_CLAIMS = (
    SOUND_UNCENTRED,
    TRUE,
    orthonormal_basis,
    most_variance,
    principal_axes,
    subspace_determined,
)
# of a matrix whose rows are no sample of anything: nothing to say about other draws
MATRIX_CLAIMS = SVD_CLAIMS[:-1]
ITERATIVE_CLAIMS = (*SUBSPACE_CLAIMS, never_fell)
POWER_CLAIMS = (*ITERATIVE_CLAIMS, power_rate_kept)
