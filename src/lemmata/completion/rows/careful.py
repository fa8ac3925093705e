"""Rows whose normal equations are singular, or nearly: by singular values, which square nothing.

    min ½‖a − Xw‖² + ½ wᵀΛw          the shortest w where it is not unique

Rows come in stacks of about the same length, filled up with zeros.
"""

from __future__ import annotations

import numpy as np

from lemmata.completion.rows._twins import RowProblems

Array = np.ndarray

STACK = 2**22  # numbers in one stack of dense rows


def solve_carefully(rows: RowProblems) -> tuple[Array, Array]:
    """W and the losses, in float64; singular values below the rounding of V and the values are nothing."""
    counts, n, d = rows.counts, len(rows.reg), rows.unknowns
    W, losses = np.zeros((n, d)), np.zeros(n)
    # a row is filled up with zeros to a power of 2
    sizes = 2 ** np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64)
    for size in np.unique(sizes).tolist():
        same = np.flatnonzero(sizes == size)
        for some in np.array_split(same, -(-len(same) * size * d // STACK)):
            stack = _implicit_stack if rows.implicit else _explicit_stack
            W[some], losses[some] = stack(rows, some, size)
    return W, losses


def _gather(rows: RowProblems, some: Array, size: int) -> tuple[Array, Array, Array, Array]:
    """Where a stack has entries, their places, factors v_j and values; 0 elsewhere."""
    indptr, indices, values = rows.entries
    inside = np.arange(size) < rows.counts[some, None]
    places = np.where(inside, indptr[some, None] + np.arange(size), 0)
    X = np.where(inside[..., None], rows.V[indices[places]], 0)
    return inside, places, X, np.where(inside, values[places], 0)


def _explicit_stack(rows: RowProblems, some: Array, size: int) -> tuple[Array, Array]:
    inside, places, X, a = _gather(rows, some, size)
    if rows.shift is not None:
        a = np.where(inside, a - rows.shift[rows.entries.indices[places]], 0)
    if rows.bias:
        X = np.concatenate([X, inside[..., None]], axis=2)
    if rows.entries.weights is not None:
        root = np.sqrt(rows.entries.weights[places])  # X and a are 0 where nothing is inside
        X, a = root[..., None] * X, root * a
    return _ridge_stack(X, a, rows.ridge[some], rows.eps)


def _ridge_stack(X: Array, a: Array, ridge: Array, eps: float) -> tuple[Array, Array]:
    """min ½‖a − Xw‖² + ½ wᵀΛw for every item of a stack, Λ diagonal; the shortest w where it is not unique.

    The penalty is d more equations √Λ w = 0: squaring nothing, this keeps the digits that normal equations lose.
    """
    finite = np.isfinite(X).all(axis=(1, 2)) & np.isfinite(a).all(axis=1)
    more = np.sqrt(ridge)[:, :, None] * np.eye(ridge.shape[1])
    X = np.concatenate([np.where(finite[:, None, None], X, 0), more], axis=1)
    a = np.concatenate([a, np.zeros_like(ridge)], axis=1)
    P, s, Qt = np.linalg.svd(X, full_matrices=False)
    keep = s > eps * max(X.shape[1:]) * s[:, :1]  # the others are rounding
    c = np.where(keep, 1 / np.where(keep, s, 1), 0) * np.einsum("rni,rn->ri", P, a)
    w = np.where(finite[:, None], np.einsum("ri,rij->rj", c, Qt), np.nan)
    left = a - np.einsum("rnj,rj->rn", X, w)
    return w, 0.5 * (left**2).sum(axis=1)


def _implicit_stack(rows: RowProblems, some: Array, size: int) -> tuple[Array, Array]:
    """The same for implicit feedback, by the eigenvalues of G + Σ (c − 1) v vᵀ + λI."""
    _, _, X, a = _gather(rows, some, size)
    gram, reg = rows.gram, rows.reg[some]
    assert gram is not None
    assert rows.alpha is not None
    finite = np.isfinite(X).all(axis=(1, 2)) & np.isfinite(a).all(axis=1) & np.isfinite(gram).all()
    X, gram = np.where(finite[:, None, None], X, 0), np.where(np.isfinite(gram), gram, 0)
    more, liked = rows.alpha * np.abs(a), a > 0
    M = gram + np.einsum("rn,rni,rnj->rij", more, X, X) + reg[:, None, None] * np.eye(len(gram))
    b = np.einsum("rn,rni->ri", (1 + more) * liked, X)
    e, Q = np.linalg.eigh(M)
    keep = e > rows.eps * len(gram) * e[:, -1:]
    c = np.where(keep, np.einsum("rij,ri->rj", Q, b) / np.where(keep, e, 1), 0)
    w = np.where(finite[:, None], np.einsum("rij,rj->ri", Q, c), np.nan)
    constant = ((1 + more) * liked).sum(axis=1)
    return w, 0.5 * (constant - 2 * (w * b).sum(axis=1) + np.einsum("ri,rij,rj->r", w, M, w))
