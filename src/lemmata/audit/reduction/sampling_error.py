"""The angle by which sampling alone turns principal axes: what another sample of the same size would change.

To first order axis i leaves its place along axis j by ⟨u_i, (Ŝ − S)u_j⟩/(λ_i − λ_j). How much the means of z_i z_j vary is seen
on GROUPS consecutive parts of the rows of equal weight, so it needs no normal law, no fourth moments and no independent rows,
only that what rows have in common does not reach much further than a twentieth of them:

    v_ij = variance of the mean of z_i z_j = G/(G − 1) Σ_g p_g² (mean_g z_i z_j − λ_i [i = j])²
    E sin²∠ ≈ Σ v_ij/((λ_i − λ_j)² − 8 v_ij)         (over i ≤ k < j: the subspace; over j ≠ i: axis i)

The 8 v takes off what sampling adds to the square of a gap: 4 times the variances of (z_i² − z_j²)/2 and of z_i z_j, which are
equal where the eigenvalues are. Where they are, there is no gap, and yet every sample shows one; so it is tested first. With
equal eigenvalues ((ŝ_ii − ŝ_jj)/2, ŝ_ij) is a vector around 0 of the same variance V in both coordinates, and half the sample's
gap is its length in any basis: (gap/2)²/V is 2 F with 2 and 2(G − 1) degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
from scipy.special import fdtri, gammaincinv

from lemmata.audit.kernel.claims import RULE_OF_THUMB, Evidence, Fit, at_most, unknown
from lemmata.audit.reduction import spectra
from lemmata.audit.reduction.principal_axes import own_angle

Array = np.ndarray

GROUPS = 20
BATCH = 2**21  # numbers that wait to be squared together
ANGLE = 30.0  # degrees; beyond it a quarter of the variance that an axis shows may belong to others
LEVEL = 0.99  # of the test for a gap, and of the bound on the expected angle


def group_numbers(n: int, weights: Array | None) -> Array:
    """Which of GROUPS consecutive parts of equal weight each row belongs to: that of the middle of its weight."""
    if weights is None:
        middle = (np.arange(n) + 0.5) / n
    else:
        shares = np.asarray(weights, dtype=np.float64) / np.sum(weights, dtype=np.float64)
        middle = np.cumsum(shares) - shares / 2
    return np.minimum((middle * GROUPS).astype(int), GROUPS - 1)


@dataclass(frozen=True)
class Turn:
    """Effect of sampling on the axes 1 … k and on their span, in degrees."""

    least: float  # by which the worst single axis is expected to leave the subspace, gaps being what they seem
    most: float  # a bound of the expected angle of the subspace, at LEVEL
    axes: Array  # (k,) the same for each axis
    shown: Array  # (k,) whether the gap between axis i and i + 1 is more than chance at LEVEL


def turn(
    groups: Iterable[tuple[float, Array, Array]],
    values: Array,
    k: int,
    noise: float,
    ceiling: float | None = None,
) -> Turn:
    """Measure how far sampling turns k axes.

    groups : for each its share; its deviations mean_g(z_j z_i) − λ_i [i = j] (m × q, q = k + 1 leading axes, or k if there is
        no further one); and (q,) the sum of squares of those along directions beyond the m
    values : (m,) eigenvalues, descending; where not all directions are among the m, those beyond k are known from below
    noise : what rounding puts into an eigenvalue
    ceiling : a bound on the eigenvalues beyond k, if not all directions are among the m
    """
    q = min(k + 1, len(values))
    highest = (
        values if ceiling is None else np.append(values[:k], np.full(len(values) - k, ceiling))
    )
    gaps = np.abs(highest[:, None] - highest[:q])
    gaps[k:, :k] = np.maximum(highest[:k] - highest[k:, None], 0)
    gaps[gaps <= noise] = 0.0
    beyond = np.maximum(values[:q] - highest[-1], 0)
    V, lumped, tested = np.zeros((len(values), q)), np.zeros(q), np.zeros(q - 1)
    parts = []  # (groups, 1 + k) what each gives to the sums of the span and of each axis
    for D2, L, tests in _batches(groups):
        V, lumped, tested = V + D2.sum(axis=0), lumped + L.sum(axis=0), tested + tests.sum(axis=0)
        weighted, rest = _over(D2, gaps**2), _over(L, beyond**2)
        weighted[:, np.arange(q), np.arange(q)] = 0.0
        of_span = weighted[:, k:, :k].sum(axis=(1, 2)) + rest[:, :k].sum(axis=1)
        of_axes = weighted[:, :, :k].sum(axis=1) + rest[:, :k]
        parts.append(np.column_stack([of_span, of_axes]))
    margins = _margins(np.concatenate(parts))
    terms = _over(V, np.maximum(gaps**2 - 8 * V, 0))
    np.fill_diagonal(terms, 0.0)
    rest = _over(lumped, np.maximum(beyond**2 - 8 * lumped, 0))
    seeming = np.maximum(values[:k] - values[k:, None], 0)
    leaving = _over(V[k:, :k], np.where(seeming > noise, seeming, 0) ** 2).sum(axis=0)
    span = terms[k:, :k].sum() + rest[:k].sum()
    axes = terms[:, :k].sum(axis=0) + rest[:k]
    return Turn(
        float(_degrees(leaving.max())),
        float(_degrees(span * margins[0])),
        _degrees(axes * margins[1:]),
        _gaps_shown(highest, tested, noise, k),
    )


def _batches(groups: Iterable[tuple[float, Array, Array]]) -> Iterator[tuple[Array, Array, Array]]:
    """Yield what each group adds to the variances of the means, in batches: along known axes, beyond them, and for the test."""
    waiting: list[tuple[float, Array, Array]] = []
    for number, group in enumerate(groups, start=1):
        waiting.append(group)
        if number < GROUPS and (len(waiting) + 1) * group[1].size <= BATCH:
            continue
        shares, D, L = (np.array(part) for part in zip(*waiting, strict=True))
        p2 = shares**2 * GROUPS / (GROUPS - 1)
        diagonals = np.diagonal(D, axis1=1, axis2=2)
        apart, across = np.diff(diagonals, axis=1) / 2, np.diagonal(D, 1, axis1=1, axis2=2)
        yield p2[:, None, None] * D**2, p2[:, None] * L, p2[:, None] * (apart**2 + across**2) / 2
        waiting = []


def _over(above: Array, below: Array) -> Array:
    """above/below; infinite over 0, and 0 where there is nothing above."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above > 0, above / below, 0.0)


def _gaps_shown(values: Array, V: Array, noise: float, k: int) -> Array:
    """Whether λ_i > λ_{i+1} beyond what sampling does to equal ones, i = 1 … k; the last of all has no next."""
    gaps = values[: len(V)] - values[1 : len(V) + 1]
    shown = (gaps > noise) & (gaps**2 / 4 > 2 * fdtri(2, 2 * (GROUPS - 1), LEVEL) * V)
    return np.append(shown, True)[:k]


def _margins(parts: Array) -> Array:
    """By how much expectations may exceed their estimates, sums of parts (groups, ·) of which each group gave one.

    A sum of squares with n degrees of freedom has a relative variance of 2/n: n is read off the groups, many for many
    directions and light tails, few where a single group gave it all.
    """
    totals = parts.sum(axis=0)
    known = (totals > 0) & (totals < np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(known, parts / totals, 1 / GROUPS)
    variance = GROUPS / (GROUPS - 1) * np.sum((shares - 1 / GROUPS) ** 2, axis=0)
    freedom = 2 / np.maximum(variance, 1e-6)
    # over the quantile of χ²
    return np.where(known, freedom / (2 * gammaincinv(freedom / 2, 1 - LEVEL)), 1.0)


def _degrees(square: Array | float) -> Array:
    """The angle: sin 2θ = 2·√square, which is exact in two dimensions, and what Davis and Kahan's sin 2Θ theorem bounds."""
    sine = 2 * np.sqrt(np.minimum(square, 0.25))
    return np.where(np.less(square, 0.25), np.degrees(np.arcsin(sine)) / 2, 90.0)


# --- rows of a fit ----------------------------------------------------------------------------------------------------


def turn_of_rows(fit: Fit, known: spectra.Spectrum, k: int, numbers: Array) -> Turn:
    """`turn` on the rows of a fit, by one pass: mean_g (x − c) zᵀ of every group, seen from the known axes."""
    rows, noise = spectra.scaled_rows(fit), spectra.around(fit).noise
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


def _group_products(
    rows: spectra.ScaledRows, W: Array, numbers: Array
) -> Iterator[tuple[float, Array]]:
    """The weight and Σ p (x − c)(x − c)ᵀW of each group of consecutive rows, those of equal numbers."""
    if rows.centred is not None and rows.shares is not None:
        weighted = (rows.centred @ W) * rows.shares[:, None]
        for start, stop in stretches(numbers):
            share = float(rows.shares[start:stop].sum())
            if share > 0:
                yield share, rows.centred[start:stop].T @ weighted[start:stop]
        return
    share, M, last, first = 0.0, np.zeros(W.shape), 0, 0
    for block, p in rows:
        here = numbers[first : first + len(p)]
        first += len(p)
        for start, stop in stretches(here):
            if here[start] != last:
                if share > 0:
                    yield share, M
                share, M, last = 0.0, np.zeros(W.shape), here[start]
            share += float(p[start:stop].sum())
            M = M + spectra.scatter(block[start:stop], p[start:stop], rows.centre, W)
    if share > 0:
        yield share, M


def stretches(numbers: Array) -> Iterator[tuple[int, int]]:
    """Start and stop of the stretches of equal numbers."""
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    return ((start, stop) for start, stop in pairwise(edges) if stop > start)


# --- the verdict ------------------------------------------------------------------------------------------------------


def judge_turn(
    fit: Fit,
    facts: spectra.Around,
    known: spectra.Spectrum,
    noise: float,
    turn_of: Callable[[Array], Turn],
    when_away: str,
) -> Evidence:
    """Holds: a gap is shown, and the expected angle is small with confidence. Fails (a rule of thumb): its estimate is not.

    noise : what rounding puts into an eigenvalue
    turn_of : from the group of each row to what sampling does
    when_away : said where the vectors are not those of the subspace themselves
    """
    n, k = fit.data.shape[0], len(facts.C)
    numbers = group_numbers(n, fit.weights)
    counted = numbers if fit.weights is None else numbers[np.asarray(fit.weights) > 0]
    count = int(np.count_nonzero(np.bincount(counted, minlength=GROUPS)))
    if count < GROUPS:
        return unknown(f"needs {GROUPS} consecutive parts of equal weight, not {count}")
    if known.values[k - 1] - known.values[k] <= noise:
        # the rows themselves do not say which directions are the first k
        advice = f"λ_{k} and λ_{k + 1} are equal: choose another k, or do not read the axes"
        return at_most(90.0, ANGLE, advice, unit="angle°", kind=RULE_OF_THUMB)
    own = own_angle(facts, known)
    if own > ANGLE:
        return unknown(when_away.format(own))
    found = turn_of(numbers)
    note = _one_by_one(found)
    advice = f"λ_{k} and λ_{k + 1} are too close for {n:,} rows: choose k at a larger gap, or do not read the axes"
    if found.shown[k - 1] and found.most + own <= ANGLE:
        return at_most(found.most + own, ANGLE, advice, unit="angle°", note=note)
    if found.least + own > ANGLE:
        measured = min(found.least + own, 90.0)
        return at_most(measured, ANGLE, advice, unit="angle°", note=note, kind=RULE_OF_THUMB)
    gap = "" if found.shown[k - 1] else f"the gap between λ_{k} and λ_{k + 1} may be chance; "
    return unknown(f"{gap}between {found.least:.0f}° and {found.most:.0f}°")


def _one_by_one(found: Turn) -> str:
    """Which axes may be read on their own."""
    before = np.append(True, found.shown[:-1])  # the gap on its other side
    good = (found.axes <= ANGLE) & found.shown & before
    if good.all():
        return "and so is each axis"
    i = int(np.argmin(good))
    apart = found.shown[i] and before[i] and found.axes[i] < 90
    alone = "" if not i else "axis 1 too; " if i == 1 else f"axes 1 to {i} one by one too; "
    return f"{alone}axis {i + 1} may turn by {f'{found.axes[i]:.0f}°' if apart else 'any angle'}"
