"""The exact path of a small Gram problem, event by event: what LARS follows, for any l1 and l2.

    w(t) = argmin ½wᵀGw − qᵀw + t Σ l1_j|w_j| + ½ Σ l2_j w_j²,        from the t at which w = 0 down to t = 1

While the signs s of w do not change, w is linear in t, and so is h = q − Gw:

    w_S(t) = a − t b,   (G_SS + diag l2_S) [a, b] = [q_S, l1_S∘s_S];      h(t) = (q − G_·S a) + t G_·S b

An event ends a piece: a coordinate of S becomes 0 and leaves, or |h_j| = t l1_j outside of S, and j enters. Where coordinate
descent needs thousands of sweeps (many columns, few rows, small λ), there are only some hundred events.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv

Array = np.ndarray
LARGEST = 500  # coordinates: |S|³/3 multiplications per event
ROUNDING = 1e-12  # of t: λ_max itself, computed in another order, gives w = 0
SLACK = 1e-9  # of t: events that rounding puts in the past
PARALLEL = 1e-10  # |l1_j − (G_·S b)_j| over l1_j: a column that moves with its bound never meets it


class Piece(NamedTuple):
    """Where a piece of the path begins: the coordinates that are not 0, their signs, and t."""

    S: list[int]
    signs: list[float]
    t: float


def at_zero(q: Array, l1: Array, positive: bool) -> Piece:
    """The first piece: one column enters."""
    size = q if positive else np.abs(q)
    first = int(np.argmax(size / l1))
    return Piece([first], [1.0 if q[first] > 0 else -1.0], float(size[first] / l1[first]))


def follow(
    G: Array, q: Array, l1: Array, l2: Array, positive: bool, most: int, start: Piece | None = None
) -> tuple[Array, int]:
    """w(1), or the last w(t) reached where columns are dependent or `most` events have passed; and how many there were.

    start : where to begin if not at w = 0; its w has to be a solution, otherwise what is returned is only near one
    """
    S, signs, t = start or at_zero(q, l1, positive)
    w, left, events = np.zeros(len(q)), -1, 0
    if t <= 1 + ROUNDING and start is None:
        return w, 0
    S, signs = list(S), list(signs)
    while events < most and len(S) <= LARGEST:
        events += 1
        a, b, failed = _line(G, q, l1, l2, S, signs)
        if failed:
            break
        columns = G[:, S]
        leaves, out = _first_to_leave(a, b, t)
        c, e = q - columns @ a, columns @ b
        enters, j, sign = _first_to_enter(c, e, l1, S, left, t, positive)
        now = max(leaves, enters, 1.0)
        w[:] = 0.0
        w[S] = a - now * b
        if now <= 1.0:
            break
        t, left = now, -1
        if leaves >= enters:
            w[S[out]] = 0.0
            left = S.pop(out)
            signs.pop(out)
            if not S:
                break
        else:
            S.append(j)
            signs.append(sign)
    if S:
        w[S] = np.where(w[S] * np.array(signs) > 0, w[S], 0.0)
    return w, events


def _line(G, q, l1, l2, S, signs):
    """a and b of this piece."""
    A = G[np.ix_(S, S)]
    A.flat[:: len(S) + 1] += l2[S]
    _, ab, failed = dposv(A, np.stack([q[S], l1[S] * signs], axis=1))
    return ab[:, 0], ab[:, 1], failed or not np.isfinite(ab).all()


def _first_to_leave(a: Array, b: Array, t: float) -> tuple[float, int]:
    """The largest t′ < t at which some w = a − t′b is 0, and whose."""
    with np.errstate(divide="ignore", invalid="ignore"):
        zero = a / b
    zero = np.where((zero < t * (1 - SLACK)) & (zero > 0), zero, -np.inf)
    out = int(np.argmax(zero))
    return float(zero[out]), out


def _first_to_enter(c, e, l1, S, left, t, positive) -> tuple[float, int, float]:
    """The largest t′ ≤ t at which |c_j + t′e_j| = t′l1_j outside of S, whose, and with which sign."""
    best = (-np.inf, -1, 1.0)
    for sign in (1.0,) if positive else (1.0, -1.0):
        gap = l1 - sign * e
        with np.errstate(divide="ignore", invalid="ignore"):
            meet = sign * c / gap
        meet = np.where((meet <= t * (1 + SLACK)) & (gap > PARALLEL * l1), meet, -np.inf)
        meet[S] = -np.inf
        if left >= 0:
            meet[left] = -np.inf
        j = int(np.argmax(meet))
        if meet[j] > best[0]:
            best = (float(min(meet[j], t)), j, sign)
    return best
