"""GloVe's steps in NumPy: what the kernels do, for counts too few to wait for a compiler.

The pairs (w, v) with v = w + r, modulo the number of words and after both were renumbered at random, share no word on either
side: their steps, one after the other, are the same as all at once. So an epoch is a round for every r, each of them one line
of NumPy per formula, and still makes single steps as the kernels do, in another order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

Array = np.ndarray


def rounds(rows: Array, columns: Array, v: int, rng: np.random.Generator) -> Iterator[Array]:
    """The pairs in sets that share no row and no column."""
    row, column = rng.permutation(v), rng.permutation(v)
    shift = (column[columns] - row[rows]) % v
    order = np.argsort(shift, kind="stable")
    edges = np.flatnonzero(np.diff(shift[order])) + 1
    yield from np.split(order, edges)


def descend(
    rows: Array, columns: Array, logs: Array, weights: Array, parts: list[Array], mean: float, rate: float, adaptive: bool,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """One step for every pair, in place; `parts` are ζ, z, b, c and, of adaptive steps, the sums of each."""
    U, V, b, c = parts[:4]
    offset, length = np.float32(mean), np.float32(rate)
    for here in rounds(rows, columns, len(U), rng):
        i, j = rows[here], columns[here]
        u, v = U[i], V[j]
        g = weights[here] * (np.einsum("ek,ek->e", u, v) + b[i] + c[j] + offset - logs[here])
        slopes = (g[:, None] * v, g[:, None] * u, g, g)
        for part, (own, at, slope) in enumerate(
            zip((U, V, b, c), (i, j, i, j), slopes, strict=True)
        ):
            if adaptive:
                sums = parts[4 + part]
                sums[at] += slope * slope
                own[at] -= slope / np.sqrt(sums[at])
            else:
                own[at] -= length * slope


def squares(
    rows: Array, columns: Array, logs: Array, weights: Array, parts: list[Array], mean: float
) -> float:
    """Σ f e², in double precision."""
    U, V, b, c = parts[:4]
    total, at_once = 0.0, max(1, 2**21 // U.shape[1])
    for start in range(0, len(rows), at_once):
        here = slice(start, start + at_once)
        i, j = rows[here], columns[here]
        e = np.einsum("ek,ek->e", U[i], V[j]) + b[i] + c[j] + np.float32(mean) - logs[here]
        total += float(weights[here].astype(np.float64) @ np.square(e, dtype=np.float64))
    return total
