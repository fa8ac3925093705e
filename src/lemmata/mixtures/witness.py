"""Searches for what claims about mixtures ask for: more likely components, fits to parts of the rows, fewer components.

Nothing that is found here is trusted: it is shown as one row of parameters (`vector`), from which the audit makes components
that are a mixture, and computes likelihoods by its own plain densities. Searching badly makes claims undecided, or finds less.

Functions take components of `audit/mixtures/` and rows as slices with their weights.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from lemmata.audit.mixtures.em_steps import Rows, expect, posterior

Array = np.ndarray


def climb(parts: Any, rows: Rows, steps: int) -> tuple[list[float], Any]:
    """The objective before and after each of some EM steps, and where they lead; LinAlgError where a component collapses."""
    value, sums = expect(parts, rows)
    values = [value]
    for _ in range(steps):
        parts = parts.step(sums)
        value, sums = expect(parts, rows)
        values.append(value)
    return values, parts


# --- higher -----------------------------------------------------------------------------------------------------------


def climb_by_leaps(fit: Any, parts: Any, rows: Rows, cycles: int) -> Array:
    """Return where EM in leaps gets to (SQUAREM, Varadhan & Roland 2008).

    Two steps θ₀ → θ₁ → θ₂, with r = θ₁ − θ₀ and v = (θ₂ − θ₁) − r, tell the slow direction; θ₀ − 2αr + α²v with
    α = −‖r‖/‖v‖ goes along it, and is kept if it is more likely than θ₂ (which is α = −1).
    """
    _, sums = expect(parts, rows)
    for _ in range(cycles):
        one = parts.step(sums)
        two = one.step(expect(one, rows)[1])
        value, sums = expect(two, rows)
        far = _leap(parts, one, two)
        parts = two
        if far is not None:
            value_far, sums_far = expect(far, rows)
            if value_far > value:
                parts, sums = far, sums_far
    return parts.vector()


def _leap(parts: Any, one: Any, two: Any) -> Any:
    """The components at the end of a leap, of half of it, …, or None where there is nothing beyond the second step."""
    a, b, c = (at.vector() for at in (parts, one, two))
    r, v = b - a, c - 2 * b + a
    bend = float(np.linalg.norm(v))
    alpha = -min(float(np.linalg.norm(r)) / bend, 1e6) if bend > 0 else -1.0
    for _ in range(4):
        if not alpha < -1.01:
            return None
        try:
            return two.of_vector(a - 2 * alpha * r + alpha**2 * v)
        except np.linalg.LinAlgError:
            alpha = (alpha - 1) / 2
    return None


def climb_from_nudges(
    fit: Any, parts: Any, rows: Rows, nudges: int, by: float, steps: int
) -> tuple[Array, bool] | None:
    """Return the most likely components that EM reaches from random points nearby, and whether it still gained more and more.

    by : standard deviations of a component; None where all of them collapse
    """
    best, vector, growing = -np.inf, None, False
    for seed in range(nudges):
        at = nudge(parts, np.random.default_rng(seed), by)
        try:
            values, reached = _climb_and_record(at, rows, steps)
        except np.linalg.LinAlgError:
            continue  # a collapse is for another claim
        growing = growing or grows(values)
        if max(values[1:]) > best:
            best, vector = max(values[1:]), reached
    return None if vector is None else (vector, growing)


def _climb_and_record(parts: Any, rows: Rows, steps: int) -> tuple[list[float], Array]:
    """Return the objective along EM, four times as many steps where it has only begun to climb, and its best components."""
    value, sums = expect(parts, rows)
    values, best, vector = [value], -np.inf, parts.vector()
    while len(values) <= steps or (len(values) <= 4 * steps and grows(values)):
        for _ in range(steps):
            parts = parts.step(sums)
            value, sums = expect(parts, rows)
            values.append(value)
            if value > best:
                best, vector = value, parts.vector()
    return values, vector


def nudge(parts: Any, rng: np.random.Generator, by: float) -> Any:
    """Move the means at random, by so many standard deviations in each direction; values that count towards each other."""
    if not hasattr(parts, "means"):
        mixed = rng.dirichlet(np.ones(parts.k), parts.k) @ parts.values  # possible, zeros included
        return parts.with_parameters(parts.pi, (1 - by) * parts.values + by * mixed)
    if parts.covariances.ndim == 3:
        steps = np.array([L @ rng.standard_normal(parts.d) for L in parts.factors])
    else:
        steps = np.sqrt(parts.covariances) * rng.standard_normal((parts.k, parts.d))
    return parts.with_parameters(parts.pi, parts.means + by * steps * parts.unit, parts.covariances)


def grows(values: list[float]) -> bool:
    """Whether steps gain more and more, as on the way out of a saddle; on the way back to a top they gain less and less."""
    gains = np.diff(values)
    noise = 8 * np.finfo(float).eps * np.abs(values).max()
    return bool(len(gains) > 4 and gains[-1] > noise and gains[-1] > gains[-4])


# --- other rows, fewer components -------------------------------------------------------------------------------------


def refit_mixture(fit: Any, parts: Any, rows: Rows, steps: int) -> Array:
    """Return where EM on some of the rows gets to from the model."""
    return climb(parts, rows, steps)[1].vector()


def fresh_mixtures(
    fit: Any, parts: Any, rows: list[tuple[Array, Array]], starts: int, steps: int
) -> list[Array]:
    """Return where EM gets to from groups of rows: each row to the nearest of k random ones, far apart (k-means++)."""
    (x, w), rng, found = rows[0], np.random.default_rng(0), []
    deviation = np.nanstd(x, axis=0)
    scaled = np.nan_to_num((x - np.nanmean(x, axis=0)) / np.where(deviation > 0, deviation, 1.0))
    for _ in range(starts):
        distances = np.full((len(x), parts.k), np.inf)
        for j in range(parts.k):
            nearest = distances.min(axis=1) * w if j and distances.min(axis=1).any() else w
            seed_row = scaled[rng.choice(len(x), p=nearest / nearest.sum())]
            distances[:, j] = np.square(scaled - seed_row).sum(axis=1)
        groups = np.eye(parts.k)[distances.argmin(axis=1)]
        sums = parts.empty()
        parts.add(sums, x, w[:, None] * groups)
        try:
            found.append(climb(parts.step(sums), rows, steps)[1].vector())
        except np.linalg.LinAlgError:
            continue  # a start that collapses is none
    return found


def fewer_components(
    fit: Any, parts: Any, half: list[tuple[Array, Array]], pairs: int, trial: int, steps: int
) -> Array:
    """Return the best mixture with one component fewer that EM finds from merged pairs: those that share most of their rows."""
    x, w = half[0]
    r = posterior(parts.joint(x))[1]
    shared = (r.T * w) @ r / np.maximum(r.T @ w, np.finfo(float).tiny)[:, None]
    order = sorted(
        combinations(range(parts.k), 2), key=lambda ab: -max(shared[ab], shared[ab[::-1]])
    )
    trials = [climb(parts.merge(a, b), half, trial) for a, b in order[:pairs]]
    best = max(trials, key=lambda one: one[0][-1])[1]
    return climb(best, half, steps)[1].vector()
