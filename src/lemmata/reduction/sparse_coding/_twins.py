"""The kernels of sparse coding in NumPy, over all signals at once: what they are tested against, and what small data uses.

The twin of coordinate descent is FISTA (fista.py): the same problem, the same stopping rule, no loop over coordinates.

`pursue` works on the signals themselves, not on Gram matrices: it also takes rows with holes, whose atoms are different ones.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def pursue(
    X: Array, D: Array, most: int, target: float, dependent: float, known: Array | None = None
) -> tuple[Array, Array]:
    """OMP with unit atoms: (index, value), each (n, most); unused places are −1 and 0.

    known : (n, d) bool, optional
        Which entries of X are known; atoms then count by what they are on those.
    """
    (n, d), k, eps = X.shape, len(D), np.finfo(X.dtype).eps
    R = X.copy() if known is None else np.where(known, X, 0)
    lengths = None if known is None else np.sqrt(known.astype(X.dtype) @ (D * D).T)
    Q = np.zeros((n, most, d), X.dtype)
    L = np.zeros((n, most, most), X.dtype)
    L[:] = np.eye(most, dtype=X.dtype)
    y = np.zeros((n, most), X.dtype)
    index = np.full((n, most), -1)
    floor = 8 * np.sqrt(d) * eps * np.sqrt(np.einsum("ij,ij->i", R, R))
    alive = np.arange(n)
    used = np.zeros((n, k), bool)
    for s in range(most):
        left = np.einsum("ij,ij->i", R[alive], R[alive])
        if target > 0:
            alive = alive[left > target]
        h = R[alive] @ D.T
        if lengths is not None:
            short = lengths[alive] <= np.sqrt(dependent)  # nothing of these atoms is seen
            h = np.where(short, 0, h / np.where(short, 1, lengths[alive]))
        h[used[alive]] = 0
        j = np.abs(h).argmax(axis=1) if k else np.zeros(len(alive), int)
        clear = np.abs(h[np.arange(len(j)), j]) > floor[alive]
        alive, j = alive[clear], j[clear]
        atom = D[j] if known is None else np.where(known[alive], D[j], 0)
        size = np.einsum("ij,ij->i", atom, atom)
        for _ in range(2):  # the second time removes what rounding left
            w = np.einsum("isj,ij->is", Q[alive, :s], atom)
            atom = atom - np.einsum("is,isj->ij", w, Q[alive, :s])
            L[alive, s, :s] += w
        length = np.sqrt(np.einsum("ij,ij->i", atom, atom))
        free = length**2 > dependent * size
        L[alive[~free], s, :s] = 0
        alive, j, atom, length = alive[free], j[free], atom[free], length[free]
        if len(alive) == 0:
            break
        q = atom / length[:, None]
        Q[alive, s], L[alive, s, s] = q, length
        y[alive, s] = np.einsum("ij,ij->i", q, R[alive])
        R[alive] -= y[alive, s, None] * q
        index[alive, s], used[alive, j] = j, True
    value = np.linalg.solve(L.transpose(0, 2, 1), y[..., None])[..., 0] if most else y
    return index, value


def soft(x: Array, alpha: float, positive: bool) -> Array:
    """argmin_z ½(z − x)² + α|z|, over z ≥ 0 if `positive`."""
    if positive:
        return np.maximum(x - alpha, 0)
    return np.sign(x) * np.maximum(np.abs(x) - alpha, 0)


def gaps(
    Z: Array, C: Array, H: Array, squares: Array, alpha: float, positive: bool = False
) -> Array:
    """P − D of each row, for P(z) = ½‖x − zD‖² + α‖z‖₁: how far z is from the least, at most.

    From C = XDᵀ and H = RDᵀ: the dual point is the residual, scaled until no atom correlates with it by more than α.
    """
    ZC = np.einsum("ij,ij->i", Z, C)
    rr = np.maximum(squares - ZC - np.einsum("ij,ij->i", Z, H), 0)
    xr = squares - ZC
    top = (H if positive else np.abs(H)).max(axis=1, initial=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.where(rr > 0, xr / np.where(rr > 0, rr, 1), 1)
        scale = np.maximum(np.minimum(best, np.where(top > 0, alpha / top, np.inf)), 0)
    primal = 0.5 * rr + alpha * np.abs(Z).sum(axis=1)
    return primal - scale * xr + 0.5 * scale**2 * rr


def improve_atoms_into(D: Array, A: Array, B: Array, least: float) -> None:
    """One sweep over the atoms D, as in _kernels.py."""
    for j in np.flatnonzero(np.diag(A) > least):
        u = B[j] - A[j] @ D + A[j, j] * D[j]
        length = np.sqrt(u @ u)
        if length > 0:
            D[j] = u / length
