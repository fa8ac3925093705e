"""Slow, obvious twins: the factored objective by loops over a dense matrix, ALS row by row, and the convex problem."""

import numpy as np

from lemmata.audit.factored import Factored, Factors
from lemmata.completion.observed import Observed


def planted(seed, n=14, m=11, k=2, density=0.6, noise=0.3, biases=False):
    """Known entries of a matrix of rank k with noise (and offsets)."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, k)) @ rng.normal(size=(k, m)) + noise * rng.normal(size=(n, m))
    if biases:
        A += 2 + rng.normal(size=(n, 1)) + rng.normal(size=m)
    return Observed.of(np.where(rng.random((n, m)) < density, A, np.nan))


def counts(seed, n=14, m=11):
    rng = np.random.default_rng(seed)
    C = rng.poisson(0.5, size=(n, m)).astype(float)
    return Observed.of(np.where(C > 0, C, np.nan))


def penalties(A, reg, weighted):
    return [reg * (c if weighted else np.ones(len(c))) for c in (A.row_counts, A.column_counts)]


def objective(A, at, reg, weighted=False, mean=0.0, implicit=False, alpha=1.0, offset=1.0):
    """F from its formula, dense."""
    U, V, b, c = at
    X = U @ V.T + b[:, None] + c
    a, known = A.dense(0.0) - mean, ~np.isnan(A.dense())
    if implicit:
        w, a = np.where(known, offset + alpha * A.dense(0.0), 1.0), (A.dense(0.0) > 0).astype(float)
    else:
        w = known.astype(float)
    r, s = penalties(A, reg, weighted)
    penalty = r @ (U**2).sum(1) + s @ (V**2).sum(1) + r @ b**2 + s @ c**2
    return 0.5 * np.sum(w * (a - X) ** 2) + 0.5 * penalty


def als(
    A,
    k,
    reg,
    *,
    weighted=False,
    biases=False,
    sweeps=1500,
    seed=0,
    implicit=False,
    alpha=1.0,
    start=None,
):
    """Factors, biases and mean by plain alternating least squares, as any other library might."""
    rng = np.random.default_rng(seed)
    n, m = A.shape
    dense, mean = A.dense(), A.values.mean() if biases else 0.0
    known = ~np.isnan(dense)
    a = (
        (known & (np.nan_to_num(dense) > 0)).astype(float)
        if implicit
        else np.nan_to_num(dense - mean)
    )
    w = np.where(known, 1 + alpha * np.nan_to_num(dense), 1.0) if implicit else known.astype(float)
    r, s = penalties(A, reg, weighted)
    U, V = (rng.normal(size=(size, k)) for size in (n, m)) if start is None else start
    b, c = np.zeros(n), np.zeros(m)
    for _ in range(sweeps):
        last = V
        U, b = _half(a - c, w, V, r, biases)
        V, c = _half((a - b[:, None]).T, w.T, U, s, biases)
        if np.abs(V - last).max() < 1e-13:
            break
    return Factors(U, V, b, c), mean


def _half(a, w, V, reg, biases):
    Z = np.column_stack([V, np.ones(len(V))]) if biases else V
    p = Z.shape[1]
    G = (w @ (Z[:, :, None] * Z[:, None, :]).reshape(-1, p * p)).reshape(-1, p, p) + reg[
        :, None, None
    ] * np.eye(p)
    dead = ~G.any(axis=(1, 2))
    G[dead] = np.eye(p)
    X = np.linalg.solve(G, ((w * a) @ Z)[:, :, None])[:, :, 0]
    return (X[:, :-1], X[:, -1]) if biases else (X, np.zeros(len(X)))


def convex_optimum(A, reg, *, weighted=False, biases=False, steps=2000):
    """min ½‖Π_Ω(A − μ − b1ᵀ − 1cᵀ − X)‖² + ‖α^½ X β^½‖_* + ½Σα b² + ½Σβ c² by accelerated proximal gradient, restarted.

    In Z = α^½ X β^½ (and √α b, √β c) the penalty is ‖Z‖_* + ½(‖·‖² + ‖·‖²) and the gradient of the loss is Lipschitz.
    """
    dense, mean = A.dense(), A.values.mean() if biases else 0.0
    known = ~np.isnan(dense)
    a = np.where(known, dense - mean, 0.0)
    r, s = (1 / np.sqrt(np.where(p > 0, p, 1.0)) for p in penalties(A, reg, weighted))
    n, m = A.shape
    on = 1.0 if biases else 0.0
    L = (
        max((r[:, None] ** 2 * s**2).max() + on * (r.max() ** 2 * m + s.max() ** 2 * n), 1e-12)
        * 1.0001
    )

    def value(Z, b, c):
        res = known * (a - r[:, None] * Z * s - on * (r[:, None] * b[:, None] + s * c))
        return 0.5 * np.sum(res**2) + np.linalg.norm(Z, "nuc") + 0.5 * on * (b @ b + c @ c), res

    def prox(Z, b, c):
        P, sig, Q = np.linalg.svd(Z, full_matrices=False)
        return (P * np.maximum(sig - 1 / L, 0)) @ Q, on * b / (1 + 1 / L), on * c / (1 + 1 / L)

    x = y = (np.zeros((n, m)), np.zeros(n), np.zeros(m))
    best, t = value(*x)[0], 1.0
    for _ in range(steps):
        _, res = value(*y)
        grad = (-r[:, None] * res * s, -on * r * res.sum(1), -on * s * res.sum(0))
        new = prox(*(p - g / L for p, g in zip(y, grad, strict=True)))
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


def at(A, factors, reg, **kw):
    """A Factored problem at these factors."""
    biased = kw.pop("biased", False)
    return Factored.of(
        A,
        factors.U,
        factors.V,
        reg=reg,
        row_bias=factors.b,
        column_bias=factors.c,
        biased=biased,
        **kw,
    )


def dense_hessian(problem):
    """H by products with unit directions."""
    from lemmata.audit.curvature import as_direction, as_vector

    (n, m), p = problem.shape, problem.rank + problem.biased
    return np.column_stack(
        [as_vector(problem, problem.curve(as_direction(problem, e))) for e in np.eye((n + m) * p)]
    )
