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


def easy(truth: dict[str, bool]) -> tuple[str, ...]:
    """All of them; but where blocks are joined by too little, bounds on the share that is determined decide nothing."""
    return ALL if truth["locally_unique"] else ALL[:-1]


def certificate(
    mask: np.ndarray, k: int, biases: bool = False, dtype=np.float64, scale=1.0
) -> Certificate:
    """Of any factors of rank k: these claims do not look at values."""
    values = scale * np.random.default_rng(0).normal(size=mask.shape)
    A = Observed.of(np.where(mask, values, np.nan).astype(dtype))
    factors = {"U_": np.ones((len(mask), k)), "V_": np.ones((mask.shape[1], k)), "biases": biases}
    return check(IDENTIFIABLE_CLAIMS, Fit(None, A, attributes=factors), "pattern")


def truths(mask: np.ndarray, k: int, biases: bool = False) -> dict[str, bool]:
    n, m = mask.shape
    asked = np.where(mask, 0, np.outer(mask.sum(1), mask.sum(0)))  # how often each cell is
    thick = np.outer(mask.sum(1) >= k, mask.sum(0) >= k)
    pieces = islands(mask)
    return {
        "enough_entries": mask.sum() >= k * (n + m - k),
        "enough_per_row_and_column": asked[thick].sum() >= 0.5 * asked.sum(),
        "connected_observations": len(pieces) <= 1,
        "locally_unique": share_determined(pieces, asked, k, biases) >= 0.5,
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


def share_determined(pieces: list[np.ndarray], asked: np.ndarray, k: int, biases: bool) -> float:
    """Return the share of predictions inside islands that no move of U, V and biases changes while known entries stay."""
    fixed, total = 0.0, 0.0
    for piece in pieces:
        rows, columns = piece.any(1), piece.any(0)
        weights = asked[rows][:, columns]
        mask = piece[rows][:, columns]
        (n, m), rng = mask.shape, np.random.default_rng(7)
        U, V = rng.normal(size=(n, k)), rng.normal(size=(m, k))
        if biases:
            U, V = np.c_[U, np.ones(n)], np.c_[V, np.ones(m)]
        p = U.shape[1]
        by_U = np.kron(np.eye(n), V)
        by_V = (U[:, None, None, :] * np.eye(m)[None, :, :, None]).reshape(n * m, m * p)
        J = np.hstack([by_U, by_V])
        _, values, Z = np.linalg.svd(J[mask.ravel()])
        moves = Z[int((values > 1e-9 * values[0]).sum()) :]
        still = (np.abs(J @ moves.T).max(axis=1, initial=0.0) < 1e-7).reshape(n, m)
        weights = np.where(mask, 0, weights)  # what is known is no prediction
        fixed, total = fixed + weights[still].sum(), total + weights.sum()
    return fixed / total if total else 1.0


@problems(seeds=150, quick=1)
def random_patterns(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    n, m = rng.integers(5, 14, 2)
    k = int(rng.integers(1, 4))
    mask = rng.random((n, m)) < rng.uniform(0.3, 0.9)
    mask[0, 0] = True
    for biases in (False, True):
        truth, shown = truths(mask, k, biases), certificate(mask, k, biases)
        yield Case(f"rank {k}, biases {biases}", shown, truth, easy(truth))


@problems(seeds=30, quick=1)
def blocks_and_bridges(seed: int) -> Iterator[Case]:
    """Two full blocks that share s columns: determined if and only if s ≥ k; a bridge of single entries does not do."""
    rng = np.random.default_rng(seed)
    k, half = int(rng.integers(1, 4)), int(rng.integers(6, 12))
    for shared in (0, k - 1, k, k + 1):
        mask = np.zeros((2 * half, 2 * half - shared), bool)
        mask[:half, :half] = mask[half:, half - shared :] = True
        truth = truths(mask, k)
        assert truth["locally_unique"] == (shared >= k or shared == 0)  # apart: two full matrices
        yield Case(f"{shared} shared, rank {k}", certificate(mask, k), truth, easy(truth))
    mask = np.zeros((2 * half, 2 * half), bool)
    mask[:half, :half] = mask[half:, half:] = True
    places = rng.permutation(half * half)[: k * k]
    for bridges in range(1, k * k + 1):
        mask[places[bridges - 1] // half, half + places[bridges - 1] % half] = True
        truth = truths(mask, k)
        dtype, scale = ((np.float32, 1.0), (np.float64, 1e150), (np.float64, 1e-150))[bridges % 3]
        shown = certificate(mask, k, dtype=dtype, scale=scale)
        yield Case(f"{bridges} bridges, rank {k}", shown, truth, easy(truth))


@problems(seeds=12, quick=1)
def empty_and_thin(seed: int) -> Iterator[Case]:
    """A dense block with a thin fringe is still determined; one with a fringe of most predictions is not."""
    rng = np.random.default_rng(seed)
    mask = rng.random((40, 30)) < 0.5
    k = 2
    fringe = np.zeros((50, 40), bool)
    fringe[:40, :30] = mask
    fringe[40:45, 0] = True  # one entry each
    truth = truths(fringe, k)
    assert truth["connected_observations"]
    assert truth["enough_per_row_and_column"]
    yield Case("a fringe", certificate(fringe, k), truth, ALL)
    wide = np.zeros((130, 10), bool)
    wide[:12] = mask[:12, :10]
    wide[12:, 0] = wide[:12, 0] = True  # most entries are of rows that have no other
    truth = truths(wide, k)
    assert not truth["enough_per_row_and_column"]
    assert not truth["locally_unique"]
    yield Case("mostly fringe", certificate(wide, k), truth, ALL)


@problems(seeds=6, quick=1)
def larger_patterns(seed: int) -> Iterator[Case]:
    """Some hundred rows, where the answer comes from a block that grows, from peeling, or from the whole Jacobian."""
    rng = np.random.default_rng(seed)
    k, share = ((2, 0.1), (3, 0.12), (4, 0.15), (5, 0.3), (3, 0.06), (2, 0.05))[seed % 6]
    mask = rng.random((60, 50)) < share
    truth = truths(mask, k)
    yield Case(f"{share:.0%} known, rank {k}", certificate(mask, k), truth, easy(truth))
    popular = rng.random((120, 60)) < np.outer(
        *(1 / np.arange(1, size + 1) ** 0.4 for size in (120, 60))
    )
    truth = truths(popular, k)
    yield Case(f"popular columns, rank {k}", certificate(popular, k), truth, easy(truth))


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
        truth = truths(mask, 2, biases)
        yield Case(type(model).__name__, shown, truth, easy(truth))
