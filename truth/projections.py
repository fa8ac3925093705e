"""Matrices that project, orthogonally, obliquely or not at all. Truth: how they were made."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lemmata.linalg import Projection
from lemmata.linalg.projections import certify_projection
from truth.harness import Case, problems

BOTH = ("idempotent", "self_adjoint")


def say(twice: bool, symmetric: bool) -> dict[str, bool]:
    return {"idempotent": twice, "self_adjoint": symmetric}


@problems(seeds=60, quick=2)
def matrices(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 120))
    k = int(rng.integers(1, n))
    dtype = (np.float64, np.float32)[seed % 2]
    V, W = rng.normal(size=(2, n, k))
    U = np.linalg.qr(V)[0]
    orthogonal = (U @ U.T).astype(dtype)
    yield Case("orthogonal", certify_projection(orthogonal), say(True, True), BOTH)
    yield Case("ours", certify_projection(Projection.onto(V)), say(True, True), BOTH)
    yield Case("all", certify_projection(np.eye(n, dtype=dtype)), say(True, True), BOTH)
    yield Case("nothing", certify_projection(np.zeros((n, n), dtype)), say(True, True), BOTH)
    # along the null space of Wᵀ, which is not the complement of V; skewed little enough for its rounding to be known
    oblique = U @ np.linalg.solve((U + 0.3 * W / np.sqrt(n)).T @ U, (U + 0.3 * W / np.sqrt(n)).T)
    yield Case("oblique", certify_projection(oblique), say(True, False), BOTH)


@problems(seeds=60, quick=1)
def changed_matrices(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 120))
    k = int(rng.integers(1, n))
    U = np.linalg.qr(rng.normal(size=(n, k)))[0]
    P, S = U @ U.T, rng.normal(size=(n, n))
    size = 10.0 ** rng.uniform(-6, -1)
    yield Case("scaled", certify_projection((1 + size) * P), say(False, True), BOTH)
    yield Case("reflected", certify_projection(np.eye(n) - 2 * P), say(False, True), BOTH)
    yield Case("symmetric noise", certify_projection(P + size * (S + S.T)), say(False, True), BOTH)
    yield Case("noise", certify_projection(P + size * S), say(False, False), BOTH)
    for scale in (1e-5, 1e150, 1e200):
        yield Case(
            f"{scale:g} × ones", certify_projection(scale * np.ones((n, n))), say(False, True), BOTH
        )
        yield Case(f"{scale:g} × noise", certify_projection(scale * S), say(False, False), BOTH)
