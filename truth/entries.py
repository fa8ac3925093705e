"""Patterns of known entries. Truth: counts by loops, and the rank of the Jacobian by a dense SVD at a random point."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lemmata.audit.completion.identifiability.known_entries import IDENTIFIABLE_CLAIMS
from lemmata.completion import ALS, Observed, SingularValueProjection
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from truth.harness import Case, problems

ALL = tuple(claim.name for claim in IDENTIFIABLE_CLAIMS)


def certificate(
    mask: np.ndarray, k: int, biases: bool = False, dtype=np.float64, scale=1.0
) -> Certificate:
    """Of any factors of rank k: these claims do not look at values."""
    values = scale * np.random.default_rng(0).normal(size=mask.shape)
    A = Observed.of(np.where(mask, values, np.nan).astype(dtype))
    factors = {"U_": np.ones((len(mask), k)), "V_": np.ones((mask.shape[1], k)), "biases": biases}
    return check(IDENTIFIABLE_CLAIMS, Fit(None, A, attributes=factors), "pattern")


def truths(mask: np.ndarray, k: int, biases: bool = False) -> dict[str, bool]:
    (n, m), counts = mask.shape, np.r_[mask.sum(1), mask.sum(0)]
    pieces = islands(mask)
    r = min(k + biases, n, m)
    return {
        "enough_entries": mask.sum() >= k * (n + m - k),
        "enough_per_row_and_column": counts.min() >= k,
        "connected_observations": len(pieces) <= 1,
        "locally_unique": unique(mask, pieces, k, biases, r),
    }


def islands(mask: np.ndarray) -> list[np.ndarray]:
    """The entries of each connected component, as masks, by flooding."""
    left, found = mask.copy(), []
    while left.any():
        piece = np.zeros_like(mask)
        piece[np.unravel_index(left.argmax(), mask.shape)] = True
        while True:
            wider = mask & (piece.any(1)[:, None] | piece.any(0))
            if (wider == piece).all():
                break
            piece = wider
        found.append(piece)
        left &= ~piece
    return found


def unique(mask: np.ndarray, pieces: list[np.ndarray], k: int, biases: bool, r: int) -> bool:
    """Whether the r-core is not empty, and its part of every island has the Jacobian's full rank."""
    core = mask.copy()
    while True:
        thin = core & ((core.sum(1) < r)[:, None] | (core.sum(0) < r))
        if not thin.any():
            break
        core &= ~thin
    if not core.any():
        return False
    return all(rigid(core & piece, k, biases) for piece in pieces if (core & piece).any())


def rigid(mask: np.ndarray, k: int, biases: bool) -> bool:
    """Whether the known entries move with everything that moves the matrix UVᵀ (+ b1ᵀ + 1cᵀ): equal ranks of the Jacobian."""
    mask = mask[mask.any(1)][:, mask.any(0)]
    (n, m), rng = mask.shape, np.random.default_rng(7)
    U, V = rng.normal(size=(n, k)), rng.normal(size=(m, k))
    if biases:
        U, V = np.c_[U, np.ones(n)], np.c_[V, np.ones(m)]
    p = U.shape[1]
    by_U = np.kron(np.eye(n), V)
    by_V = (U[:, None, None, :] * np.eye(m)[None, :, :, None]).reshape(n * m, m * p)
    J = np.hstack([by_U, by_V])
    return np.linalg.matrix_rank(J[mask.ravel()]) == np.linalg.matrix_rank(J)


@problems(seeds=150, quick=8)
def random_patterns(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    n, m = rng.integers(5, 14, 2)
    k = int(rng.integers(1, 4))
    mask = rng.random((n, m)) < rng.uniform(0.3, 0.9)
    mask[0, 0] = True
    for biases in (False, True):
        yield Case(
            f"rank {k}, biases {biases}", certificate(mask, k, biases), truths(mask, k, biases), ALL
        )


@problems(seeds=30, quick=2)
def blocks_and_bridges(seed: int) -> Iterator[Case]:
    """Two full blocks that share s columns: determined if and only if s ≥ k; a bridge of single entries does not do."""
    rng = np.random.default_rng(seed)
    k, half = int(rng.integers(1, 4)), int(rng.integers(6, 12))
    for shared in (0, k - 1, k, k + 1):
        mask = np.zeros((2 * half, 2 * half - shared), bool)
        mask[:half, :half] = mask[half:, half - shared :] = True
        truth = (
            shared >= k or shared == 0
        )  # without a shared column they are two matrices, each determined
        yield Case(f"{shared} shared, rank {k}", certificate(mask, k), {"locally_unique": truth,
                   "connected_observations": shared > 0, "enough_entries": True,
                   "enough_per_row_and_column": True}, ALL)  # fmt: skip
    mask = np.zeros((2 * half, 2 * half), bool)
    mask[:half, :half] = mask[half:, half:] = True
    places = rng.permutation(half * half)[: k * k]
    for bridges in range(1, k * k + 1):
        mask[places[bridges - 1] // half, half + places[bridges - 1] % half] = True
        held = {"locally_unique": rigid(mask, k, False), "connected_observations": True}
        dtype, scale = ((np.float32, 1.0), (np.float64, 1e150), (np.float64, 1e-150))[bridges % 3]
        shown = certificate(mask, k, dtype=dtype, scale=scale)
        yield Case(f"{bridges} bridges, rank {k}", shown, held, tuple(held))


@problems(seeds=12, quick=1)
def empty_and_thin(seed: int) -> Iterator[Case]:
    """Rows without entries fail one claim and no other; a dense block with a thin fringe is still determined."""
    rng = np.random.default_rng(seed)
    mask = rng.random((40, 30)) < 0.5
    k = 2
    fringe = np.zeros((50, 40), bool)
    fringe[:40, :30] = mask
    fringe[40:45, 0] = True  # one entry each
    truth = truths(fringe, k)
    assert truth["connected_observations"]
    assert not truth["enough_per_row_and_column"]
    yield Case("a fringe", certificate(fringe, k), truth, ALL)


@problems(seeds=6, quick=1)
def larger_patterns(seed: int) -> Iterator[Case]:
    """Some hundred rows, where the answer comes from a block that grows, from peeling, or from the whole Jacobian."""
    rng = np.random.default_rng(seed)
    k, share = ((2, 0.1), (3, 0.12), (4, 0.15), (5, 0.3), (3, 0.06), (2, 0.05))[seed % 6]
    mask = rng.random((60, 50)) < share
    yield Case(f"{share:.0%} known, rank {k}", certificate(mask, k), truths(mask, k), ALL)
    popular = rng.random((120, 60)) < np.outer(
        *(1 / np.arange(1, size + 1) ** 0.4 for size in (120, 60))
    )
    yield Case(f"popular columns, rank {k}", certificate(popular, k), truths(popular, k), ALL)


@problems(seeds=6, quick=1)
def fitted_models(seed: int) -> Iterator[Case]:
    """The claims as fits show them, ours with and without biases."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(16, 2)) @ rng.normal(size=(2, 14)) + 1
    mask = rng.random(A.shape) < (0.25, 0.6)[seed % 2]
    mask[:, 0] = mask[0] = True
    X = np.where(mask, A, np.nan)
    for model, biases in (
        (SingularValueProjection(2, max_iter=30, tol=0), False),
        (ALS(2, max_iter=20, tol=0), True),
    ):
        shown = model.fit(X).certify(X)
        yield Case(type(model).__name__, shown, truths(mask, 2, biases), ALL)
