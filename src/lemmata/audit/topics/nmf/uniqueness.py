"""Uniqueness of two non-negative factors with their product, up to order and scale.

All factorisations of rank k of WH are WT and T⁻¹H. **Another one exists** wherever a shear keeps both signs: h_a −
εh_b ≥ 0 with w_b + εw_a in return (the support of h_a contains that of h_b), or w_b − δw_a ≥ 0 with h_a + δh_b. It is
a witness that is easy to check. **None exists** where for every component some row of W is zero except for it and some
column of H is, too (the separability of Donoho & Stodden 2003 on both sides): with a row e_z of W the rows of T are
those of some W ≥ 0, so T ≥ 0; with a column e_z of H, T⁻¹ ≥ 0; and a matrix that is ≥ 0 like its inverse only orders
and scales. In between (supports "sufficiently scattered") it is NP-hard to check.
"""

from __future__ import annotations

import numpy as np

from lemmata.audit.kernel.claims import Evidence, at_most, unknown

Array = np.ndarray
MOVED = 0.01  # of a component that may go elsewhere for "determined"


def judge_unique(
    W: Array, H: Array, *, unit: str, advice: str, shear: str, alone: str, between: str
) -> Evidence:
    """Return the verdict on whether W and H are the only factors ≥ 0 of their product.

    shear, alone, between : said where components a and b show another one, where none can be, and where it is undecided
    """
    moved, (a, b) = most_moved(W, H)
    if moved > MOVED:
        pair = {"components": np.array([a, b])}
        return at_most(moved, MOVED, advice, unit, shear.format(a=a, b=b), witness=pair)
    if is_separable(W, H):
        return at_most(moved, MOVED, advice, unit, alone)
    return unknown(between, moved, unit)


def most_moved(W: Array, H: Array) -> tuple[float, tuple[int, int]]:
    """The largest share of a component that can go elsewhere without any change of WH or of a sign, and the pair."""
    sums = H.sum(axis=1)
    phi = H / np.where(sums > 0, sums, 1)[:, None]
    theta = W * np.where(sums > 0, sums, 1)
    best: tuple[float, tuple[int, int]] = (0.0, (0, 0))
    for a in range(len(phi)):
        apart = 0.5 * np.abs(phi - phi[a]).sum(axis=1)  # from every other
        epsilon = _largest_multiples(phi[a], phi)  # φ_a − εφ_b ≥ 0
        part = np.minimum(epsilon, 1 - 1e-16)
        taken = np.where(epsilon < 1, part / (1 - part) * apart, 1.0)
        delta = _largest_multiples_of(theta[:, a], theta)  # θ_b − δθ_a ≥ 0: φ_a becomes φ_a + δφ_b
        part = np.minimum(delta, 1e300)
        given = part / (1 + part) * apart
        moved = np.minimum(np.maximum(taken, given), 1.0)
        moved[a] = 0.0
        b = int(moved.argmax())
        best = max(best, (float(moved[b]), (a, b)))
    return best


def _largest_multiples(x: Array, rows: Array) -> Array:
    """The largest c with x − c·y ≥ 0, for every row y."""
    with np.errstate(over="ignore"):  # numbers that a solver has left near 0
        ratios = np.where(rows > 0, x / np.where(rows > 0, rows, 1), np.inf)
    return ratios.min(axis=1, initial=np.inf)


def _largest_multiples_of(x: Array, columns: Array) -> Array:
    """The largest c with y − c·x ≥ 0, for every column y."""
    there = x > 0
    with np.errstate(over="ignore"):
        return (columns[there] / x[there, None]).min(axis=0, initial=np.inf)


def is_separable(W: Array, H: Array) -> bool:
    """Return whether every component has a row of W and a column of H that are zero except for it, so that both have rank k."""
    return _units(W) and _units(H.T)


def _units(rows: Array) -> bool:
    """Return whether for every column some row is zero except for it."""
    alone = rows[(rows > 0).sum(axis=1) == 1]
    return bool((alone > 0).any(axis=0).all()) if len(alone) else False
