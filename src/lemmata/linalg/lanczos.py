"""Block Lanczos: the k largest or smallest eigenvalues of a symmetric operator, from products with it alone.

    A [Q₁ … Q_j] = [Q₁ … Q_j] T + Q_{j+1} C            QᵀQ = I,  T = QᵀAQ,  span Q = the Krylov space of Q₁   (CIL (1.6))

Each step multiplies A with the newest block, removes from the product what lies in the basis and appends the rest. The
eigenpairs (θ, s) of the small T give the Ritz pairs (θ, x = Qs); of all bases of a subspace they are the best guess
(Rayleigh–Ritz), and since Ax − θx = Q_{j+1} C s, every one has an error bound without a further product:

    some eigenvalue λ of A has  |θ − λ| ≤ ‖C s‖

(CIL (1.7) lacks a factor and subtracts from the wrong vector: it should read v_{k+1} ← v_{k+1} − ⟨v_j, v_{k+1}⟩ v_j.)

The bound says that an eigenvalue is near, not how often it counts: from one vector (block=1) a Krylov space holds one
eigenvector of each eigenvalue. Take block ≥ the multiplicity you expect. Growing a space can only raise its k largest Ritz
values (Cauchy's interlacing), so the objective, −Σθ for the top and Σθ for the bottom, never rises, whatever the signs.

    >>> found = lanczos(np.diag(np.arange(1.0, 101.0)), k=3, rng=0)
    >>> found.values.round(6), bool((found.residuals < 1e-8).all())
    (array([100.,  99.,  98.]), True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from lemmata.core.engine import one_blas_thread, run_tasks
from lemmata.core.loop import MaxSteps, Stopped, run
from lemmata.core.runs.trace import Trace
from lemmata.core.store import storable
from lemmata.linalg import _checks as checks
from lemmata.linalg._checks import count

Array = np.ndarray
ROWS = 4096  # of the basis that a task works on: with 64 columns a megabyte of float32, which stays in the cache
ALONE = 2**20  # numbers of a basis below which one thread is done before a second one has begun
COLUMNS_TOGETHER = 64  # columns: narrow blocks are kept together, so that removing 200 vectors takes 4 products and not 200


@storable
@dataclass(frozen=True)
class LanczosState:
    """A Krylov basis, A restricted to it, and the block that it grows by next."""

    version = 1
    layout: ClassVar = {
        "T": "m m",
        "next": "r b",
        "coupling": "b m",
        "values": "k",
        "bounds": "k >=0",
    }

    basis: tuple[Array, ...]  # Q in pieces (d, ·), in the float type of A
    T: Array  # (m, m) QᵀAQ
    next: Array  # (d, b) Q_{j+1}; no columns once Q is all of R^d
    coupling: Array  # (b, m) C
    values: Array  # (k,) the Ritz values wanted, best first
    bounds: Array  # (k,) ‖C s‖
    scale: float  # the largest |θ| of all: ‖A‖ as far as it is seen
    products: int  # with A, so far; with the seed it gives each draw its own random numbers
    seed: int

    @property
    def dim(self) -> int:
        return len(self.T)


# --- orthogonal blocks ------------------------------------------------------------------------------------------------


def _share(work: Callable[[int], None], count: int, numbers: int) -> None:
    """work(0), …, work(count − 1), on all cores if they look at enough numbers; BLAS has one thread here (see `lanczos`)."""
    if numbers < ALONE:
        for task in range(count):
            work(task)
    else:
        run_tasks(work, count)


def _outside(basis: tuple[Array, ...], W: Array) -> Array:
    """W minus its part in the span of the basis: its coordinates piece by piece, then the difference row by row."""
    numbers, coordinates = sum(Q.size for Q in basis), [W[:0]] * len(basis)

    def project(piece: int) -> None:
        coordinates[piece] = basis[piece].T @ W

    _share(project, len(basis), numbers)
    out = W.copy()

    def subtract(task: int) -> None:
        here = slice(task * ROWS, (task + 1) * ROWS)
        for Q, C in zip(basis, coordinates, strict=True):
            out[here] -= Q[here] @ C

    _share(subtract, -(-len(W) // ROWS), numbers)
    return out


def _largest_overlap(basis: tuple[Array, ...], Y: Array) -> float:
    return max(float(np.abs(Q.T @ Y).max(initial=0.0)) for Q in basis)


def _cholesky_qr(W: Array, smallest: float) -> tuple[Array, Array] | None:
    """W = QR with R from the Cholesky factor of WᵀW, at the speed of matrix products; None if W is too ill-conditioned.

    A condition number κ leaves |QᵀQ − I| ≈ eps·κ²: up to κ = 1e5 a second round makes Q orthonormal to rounding.
    The Gram matrix is summed in float64 also for a float32 W, where κ² would exceed 1/eps at once.
    """
    W64 = W.astype(np.float64, copy=False)
    G = W64.T @ W64
    eigenvalues = np.linalg.eigvalsh(G)
    if not eigenvalues[0] > max(1e-10 * eigenvalues[-1], smallest**2):
        return None
    R = np.linalg.cholesky(G).T
    return W @ np.linalg.inv(R).astype(W.dtype), R


def _qr(W: Array, smallest: float, room: int, key: tuple[int, ...]) -> tuple[Array, Array]:
    """Q (d, r) with linearly independent unit columns and R (r, b) with W = QR, r = min(b, room).

    Directions of W no longer than `smallest` are rounding errors: the Krylov space is invariant there (breakdown). Random
    ones take their place, with zeros in R, so that what a small start block cannot reach is found nevertheless.
    """
    b = W.shape[1]
    done = _cholesky_qr(W, smallest) if b <= room else None
    if done is not None:
        return done
    Q, R, order = scipy.linalg.qr(W, mode="economic", pivoting=True)
    r = min(b, room)
    Q, R = np.ascontiguousarray(Q[:, :r]), R[:r].astype(np.float64)
    dead = np.abs(np.diag(R)) <= smallest
    if dead.any():
        draws = np.random.default_rng(key).standard_normal((len(W), int(dead.sum())))
        Q[:, dead] = draws / np.sqrt(len(W))
        R[dead] = 0.0
    return Q, R[:, np.argsort(order)]


# --- the algorithm ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LanczosAlgorithm:
    """One step is one product of A with a block, and matrix products with the basis.

    Parameters
    ----------
    k : int
        Number of eigenvalues.
    block : int, default=1
        b, the columns multiplied at once. More find repeated eigenvalues, and a product with 50 columns costs far less than
        50 products; fewer need fewer columns in all.
    which : "top" or "bottom", default="top"
        The largest or the smallest eigenvalues (with their signs).
    reorthogonalise : "full" or "selective", default="full"
        The recurrence makes a new block orthogonal to the two before it, in exact arithmetic to all. "full" then removes the
        whole basis from it once more; "selective" only if the overlap with the basis, measured in every step, exceeds eps^¾,
        for half of the work. T is then still right to eps (Simon 1984 needs √eps), the bounds to a few eps^¾·‖A‖: A Q_i may
        have that much in directions where the recurrence assumes nothing.
    max_dim : int, optional
        Columns of the basis, at which it is condensed to its best Ritz vectors (thick restart; Wu & Simon 2000), so that memory
        stays bounded. max(200, 2k + 12b) if not given; at least k + b.
    tol : float, default=1e-10
        Finished when the bound of every value is at most tol times the largest |θ|.
    """

    k: int
    block: int = 1
    which: str = "top"
    reorthogonalise: str = "full"
    max_dim: int | None = None
    tol: float = 1e-10

    hint = "scale A: its products leave the finite numbers"

    def check_state(self, state: LanczosState, A: Any) -> None:
        """ValueError where the pieces of a basis from a file do not make one."""
        shapes = [np.shape(piece) for piece in state.basis]
        if any(len(shape) != 2 or shape[0] != len(state.next) for shape in shapes):
            raise ValueError(f"a basis of shapes {shapes}, next to {state.next.shape}.")
        if sum(shape[1] for shape in shapes) != state.dim:
            raise ValueError(f"a basis of shapes {shapes} for {state.dim} vectors.")
        if not all(np.isfinite(piece).all() for piece in state.basis):
            raise ValueError("its basis is not all finite numbers.")

    def init(self, A: Any, rng: np.random.Generator) -> LanczosState:
        """A random block, grown until its Krylov space has k dimensions: the first state with k Ritz pairs."""
        A = checks.as_square(A)
        self._check(A.shape[0])
        b, seed = min(self.block, A.shape[0]), int(rng.integers(2**62))
        Q = rng.standard_normal((A.shape[0], b)).astype(checks.float_type(A))
        for _ in range(2):
            Q = _qr(Q, 0.0, A.shape[0], (seed, 0))[0]
        T, C, none = np.zeros((0, 0)), np.zeros((b, 0)), np.zeros(0)
        state = LanczosState((), T, Q, C, none, none, 0.0, 0, seed)
        while state.dim < self.k:
            state = self._grow(state, A)
        return state

    def _check(self, n: int) -> None:
        count(self.k, n)
        checks.positive(self.tol, "tol")
        count(self.block, name="block")  # one wider than A is cut
        if self.which not in ("top", "bottom"):
            raise ValueError(f"which={self.which!r} is not accepted; pass 'top' or 'bottom'.")
        if self.reorthogonalise not in ("full", "selective"):
            raise ValueError(
                f"reorthogonalise={self.reorthogonalise!r} is not accepted; pass 'full' or 'selective'."
            )
        least = self.k + self.block
        if self.max_dim is not None and count(self.max_dim, name="max_dim") < min(n, least):
            raise ValueError(
                f"max_dim={self.max_dim} leaves no room to grow; pass at least k + block = {least}."
            )

    def step(self, state: LanczosState, A: Any) -> LanczosState:
        if state.next.shape[1] == 0:
            return state
        if state.dim + state.next.shape[1] > self._limit:
            state = self._condense(state)
        return self._grow(state, A)

    @property
    def _limit(self) -> int:
        return self.max_dim or max(200, 2 * self.k + 12 * self.block)

    def _grow(self, state: LanczosState, A: Any) -> LanczosState:
        Q, C = state.next, state.coupling
        W = checks.product(A, Q)
        H = (Q.T @ W).astype(np.float64)
        T = np.ascontiguousarray(np.block([[state.T, C.T], [C, (H + H.T) / 2]]))
        theta, S = self._ritz(T)
        scale = float(np.abs(theta).max())
        Y, B = self._next_block(state, W, H, scale)
        coupling = np.hstack([np.zeros((len(B), state.dim)), B])
        k = min(self.k, len(T))
        return LanczosState(
            basis=_append_block(state.basis, Q),
            T=T,
            next=Y,
            coupling=coupling,
            values=theta[:k],
            bounds=checks.norm(coupling @ S[:, :k], axis=0),
            scale=scale,
            products=state.products + 1,
            seed=state.seed,
        )

    def _ritz(self, T: Array) -> tuple[Array, Array]:
        """All eigenpairs of T, the wanted end first."""
        theta, S = np.linalg.eigh(T)
        return (theta[::-1], S[:, ::-1]) if self.which == "top" else (theta, S)

    def _next_block(
        self, state: LanczosState, W: Array, H: Array, scale: float
    ) -> tuple[Array, Array]:
        """Y, B: W = (a part in the basis) + YB, with Y orthonormal and orthogonal to the basis.

        Remove, QR, and again: dividing by a small R magnifies what the first removal left over. Where the second round
        shortened a direction by half (it was mostly rounding error, or a random one far from orthogonal), another is due.
        """
        basis = (*state.basis, state.next)
        eps = float(np.finfo(W.dtype).eps)
        room = len(W) - state.dim - state.next.shape[1]
        if room == 0:
            return W[:, :0], np.zeros((0, W.shape[1]))
        key = (state.seed, state.products + 1)
        Y, B = _qr(self._without_neighbours(state, W, H), eps * scale, room, (*key, 0))
        for again in (1, 2, 3):
            if self.reorthogonalise == "full" or _largest_overlap(basis, Y) > eps**0.75:
                Y = _outside(basis, Y)
            Y, R = _qr(Y, eps, room, (*key, again))
            B = R @ B
            if np.linalg.norm(R, -2) > 0.5:
                break
        return Y, B

    @staticmethod
    def _without_neighbours(state: LanczosState, W: Array, H: Array) -> Array:
        """The three-term recurrence: W − Q_{j−1}Cᵀ − Q_j H. After a restart all kept vectors are neighbours."""
        W, start = W - state.next @ H.astype(W.dtype), 0
        for Q in state.basis:
            C = state.coupling[:, start : start + Q.shape[1]].astype(W.dtype)
            if C.any():
                W -= Q @ C.T
            start += Q.shape[1]
        return W

    def _condense(self, state: LanczosState) -> LanczosState:
        """The same recurrence on the best Ritz vectors alone: k and half of what max_dim leaves free."""
        theta, S = self._ritz(state.T)
        p = self.k + max(0, self._limit - self.k - self.block) // 2
        basis, coupling = (_multiply_basis(state.basis, S[:, :p]),), state.coupling @ S[:, :p]
        return replace(state, basis=basis, T=np.diag(theta[:p]), coupling=coupling)

    def finished(self, state: LanczosState) -> bool:
        return state.next.shape[1] == 0 or bool((state.bounds <= self.tol * state.scale).all())

    def objective(self, state: LanczosState) -> float:
        total = float(state.values.sum())
        return -total if self.which == "top" else total

    def extras(self, state: LanczosState) -> dict[str, float]:
        return {"residual": float(state.bounds.max()), "dim": float(state.dim)}

    def attributes(self, state: LanczosState) -> dict[str, Array]:
        S = self._ritz(state.T)[1][:, : self.k]
        vectors = _multiply_basis(state.basis, S)
        # "selective" left overlaps of up to eps^¾
        vectors = _qr(vectors, 0.0, len(vectors), (0,))[0]
        return {"values": state.values, "vectors": vectors}


def _append_block(basis: tuple[Array, ...], Q: Array) -> tuple[Array, ...]:
    """The basis with a block more; earlier pieces are shared, only a last, narrow one is copied."""
    if basis and basis[-1].shape[1] + Q.shape[1] <= COLUMNS_TOGETHER:
        return (*basis[:-1], np.ascontiguousarray(np.hstack([basis[-1], Q])))
    return (*basis, Q)


def _multiply_basis(basis: tuple[Array, ...], S: Array) -> Array:
    """QS."""
    edges = np.cumsum([0, *(Q.shape[1] for Q in basis)])
    S = S.astype(basis[0].dtype)
    out = np.zeros((len(basis[0]), S.shape[1]), S.dtype)

    def combine(task: int) -> None:
        here = slice(task * ROWS, (task + 1) * ROWS)
        for Q, start, stop in zip(basis, edges[:-1], edges[1:], strict=True):
            out[here] += Q[here] @ S[start:stop]

    _share(combine, -(-len(out) // ROWS), sum(Q.size for Q in basis))
    return out


@dataclass(frozen=True)
class LanczosResult:
    """Result of `lanczos`, best first: descending for the top, ascending for the bottom."""

    values: Array  # (k,)
    vectors: Array  # (d, k) orthonormal
    residuals: Array  # (k,) ‖Ax − θx‖, measured: an eigenvalue lies within it of θ, up to the rounding of a product with A
    trace: Trace
    stopped: str

    @property
    def converged(self) -> bool:
        return self.stopped == Stopped.FINISHED


def lanczos(
    A: Any,
    k: int,
    *,
    which: str = "top",
    block: int = 1,
    tol: float = 1e-10,
    max_iter: int = 1000,
    max_dim: int | None = None,
    rng: int | np.random.Generator | None = None,
    reorthogonalise: str = "full",
) -> LanczosResult:
    """The k largest or smallest eigenvalues of a symmetric A and their eigenvectors, from products with A.

    The parameters are those of `LanczosAlgorithm`; max_iter counts products with a block, after the first k/block of them.
    """
    A, rng = checks.as_square(A), np.random.default_rng(rng)
    checks.check_symmetric(A, rng)
    algorithm = LanczosAlgorithm(k, block, which, reorthogonalise, max_dim, tol)
    with one_blas_thread():
        solution = run(algorithm, A, stop=MaxSteps(max_iter), rng=rng)
    values, vectors = solution.attributes["values"], solution.attributes["vectors"]
    residuals = checks.residual_norms(A, values, vectors)
    return LanczosResult(values, vectors, residuals, solution.trace, str(solution.stopped))
