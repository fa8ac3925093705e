"""Slow, obvious twins for planted completions: ALS row by row over a dense matrix, and the convex problem by proximal steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lemmata.completion.observed import Observed

Array = np.ndarray


class Point(NamedTuple):
    """Factors and biases."""

    U: Array
    V: Array
    b: Array
    c: Array


def planted(seed, n=14, m=11, k=2, density=0.6, noise=0.3, biases=False) -> Observed:
    """Known entries of a matrix of rank k with noise (and offsets)."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, k)) @ rng.normal(size=(k, m)) + noise * rng.normal(size=(n, m))
    if biases:
        A += 2 + rng.normal(size=(n, 1)) + rng.normal(size=m)
    return Observed.of(np.where(rng.random((n, m)) < density, A, np.nan))


def counts(seed, n=14, m=11) -> Observed:
    rng = np.random.default_rng(seed)
    C = rng.poisson(0.5, size=(n, m)).astype(float)
    return Observed.of(np.where(C > 0, C, np.nan))


def penalties(A, reg, weighted):
    """λ times a power of the number of entries: 0 or False, ½, 1 or True."""
    return [reg * c.astype(float) ** float(weighted) for c in (A.row_counts, A.column_counts)]


def bias_penalties(A, reg, weighted, own=None):
    """The same for biases, or `own` for all of them."""
    return penalties(A, reg, weighted) if own is None else penalties(A, own, 0)


def weights_and_targets(A, mean=0.0, implicit=False, alpha=1.0, offset=1.0):
    known, a = ~np.isnan(A.dense()), A.dense(0.0).astype(float)
    if implicit:
        return np.where(known, offset + alpha * a, 1.0), (a > 0).astype(float)
    return known.astype(float), np.where(known, a - mean, 0.0)


def objective(
    A, at, reg, weighted=False, mean=0.0, implicit=False, alpha=1.0, offset=1.0, own=None
) -> float:
    """F from its formula, dense."""
    U, V, b, c = at
    w, a = weights_and_targets(A, mean, implicit, alpha, offset)
    (r, s), (p, q) = penalties(A, reg, weighted), bias_penalties(A, reg, weighted, own)
    penalty = r @ (U**2).sum(1) + s @ (V**2).sum(1) + p @ b**2 + q @ c**2
    return 0.5 * np.sum(w * (a - U @ V.T - b[:, None] - c) ** 2) + 0.5 * penalty


def als(
    A, k, reg, *, weighted=False, biases=False, sweeps=1500, seed=0, implicit=False, alpha=1.0, offset=1.0, start=None,
    own=None,
):  # fmt: skip
    """Factors, biases and mean by plain alternating least squares, as any other library might."""
    rng = np.random.default_rng(seed)
    n, m = A.shape
    mean = A.values.mean() if biases else 0.0
    w, a = weights_and_targets(A, mean, implicit, alpha, offset)
    (r, s), (p, q) = penalties(A, reg, weighted), bias_penalties(A, reg, weighted, own)
    U, V, *offsets = start or (rng.normal(size=(n, k)), rng.normal(size=(m, k)))
    b, c = offsets or (np.zeros(n), np.zeros(m))
    for _ in range(sweeps):
        last = V
        U, b = half_sweep(a - c, w, V, r, biases, p)
        V, c = half_sweep((a - b[:, None]).T, w.T, U, s, biases, q)
        if np.abs(V - last).max() < 1e-13:
            break
    return Point(U, V, b, c), mean


def half_sweep(a, w, V, reg, biases, bias_reg):
    """The best rows for V: one ridge regression each."""
    Z = np.column_stack([V, np.ones(len(V))]) if biases else V
    p = Z.shape[1]
    G = (w @ (Z[:, :, None] * Z[:, None, :]).reshape(-1, p * p)).reshape(-1, p, p)
    G += reg[:, None, None] * np.eye(p)
    if biases:
        G[:, -1, -1] += bias_reg - reg
    G[~G.any(axis=(1, 2))] = np.eye(p)
    X = np.linalg.solve(G, ((w * a) @ Z)[:, :, None])[:, :, 0]
    return (X[:, :-1], X[:, -1]) if biases else (X, np.zeros(len(X)))


def half_sweep_gain(
    A,
    at,
    reg,
    *,
    weighted=False,
    mean=0.0,
    biases=False,
    implicit=False,
    alpha=1.0,
    offset=1.0,
    own=None,
):
    """What solving the rows, or the columns, exactly would gain: the larger share of the loss and the side's own penalty."""
    more = {
        "weighted": weighted,
        "mean": mean,
        "implicit": implicit,
        "alpha": alpha,
        "offset": offset,
        "own": own,
    }
    w, a = weights_and_targets(A, mean, implicit, alpha, offset)
    U, V, b, c = at
    (r, s), (x, y) = penalties(A, reg, weighted), bias_penalties(A, reg, weighted, own)
    now, zero = objective(A, at, reg, **more), Point(0 * U, 0 * V, 0 * b, 0 * c)
    P, p = half_sweep(a - c, w, V, r, biases, x)
    Q, q = half_sweep((a - b[:, None]).T, w.T, U, s, biases, y)
    shares = []
    for better, other in (
        (Point(P, V, p, c), zero._replace(V=V, c=c)),
        (Point(U, Q, b, q), zero._replace(U=U, b=b)),
    ):
        # the penalty of the side that stays
        stays = objective(A, other, reg, **more) - 0.5 * np.sum(
            w * (a - other.b[:, None] - other.c) ** 2
        )
        shares.append((now - objective(A, better, reg, **more)) / (now - stays))
    return max(shares)


def convex_optimum(A, reg, *, weighted=False, biases=False, steps=2000, ridge=0.0) -> float:
    """min ½‖Π_Ω(A − μ − b1ᵀ − 1cᵀ − X)‖² + ‖α^½ X β^½‖_* + ½Σα b² + ½Σβ c² by accelerated proximal gradient, restarted.

    In Z = α^½ X β^½ (and √α b, √β c) the penalty is ‖Z‖_* + ½(‖·‖² + ‖·‖²) and the gradient of the loss is Lipschitz.
    ridge: γ of ½γ‖X‖², where nothing is weighted.
    """
    mean, on = (A.values.mean(), 1.0) if biases else (0.0, 0.0)
    known, a = weights_and_targets(A, mean)
    r, s = (1 / np.sqrt(np.where(p > 0, p, 1.0)) for p in penalties(A, reg, weighted))
    n, m = A.shape
    wide = on * (r.max() ** 2 * m + s.max() ** 2 * n)
    L = max((r[:, None] ** 2 * s**2).max() + wide, 1e-12) * 1.0001
    own = ridge * r[0] ** 2 * s[0] ** 2

    def value(Z, b, c):
        rest = known * (a - r[:, None] * Z * s - on * (r[:, None] * b[:, None] + s * c))
        penalty = np.linalg.norm(Z, "nuc") + 0.5 * own * np.sum(Z**2) + 0.5 * on * (b @ b + c @ c)
        return 0.5 * np.sum(rest**2) + penalty, rest

    def prox(Z, b, c):
        P, sigma, Q = np.linalg.svd(Z, full_matrices=False)
        shrunk = np.maximum(sigma - 1 / L, 0) / (1 + own / L)
        return (P * shrunk) @ Q, on * b / (1 + 1 / L), on * c / (1 + 1 / L)

    x = y = (np.zeros((n, m)), np.zeros(n), np.zeros(m))
    best, t = value(*x)[0], 1.0
    for _ in range(steps):
        _, rest = value(*y)
        slope = (-r[:, None] * rest * s, -on * r * rest.sum(1), -on * s * rest.sum(0))
        new = prox(*(p - g / L for p, g in zip(y, slope, strict=True)))
        now = value(*new)[0]
        if now > best:
            y, t = x, 1.0  # momentum overshot: restart
            continue
        done, best = best - now < 1e-15 * best, now
        tt = (1 + np.sqrt(1 + 4 * t * t)) / 2
        y, x, t = tuple(p + (t - 1) / tt * (p - q) for p, q in zip(new, x, strict=True)), new, tt
        if done:
            break
    return best
