"""Functions that are convex by construction, at any size and place, and functions with a dent whose depth is known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lemmata.optim import search_nonconvexity
from truth.harness import Case, problems


@problems(seeds=40, quick=2)
def functions(seed: int) -> Iterator[Case]:
    """Sums of squares, logistic losses and distances, rounded to float32 or not; then with a wave or a product."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 8))
    A, b = rng.normal(size=(10, d)), rng.normal(size=10)
    size, place = 10.0 ** rng.integers(-3, 4), 10.0 ** rng.integers(0, 5) * (seed % 3 == 0)
    points = size * rng.uniform(-2, 2, (60, d)) + place

    def convex(w):
        z = A @ (w - place) / size - b
        return float((z**2).sum() + np.logaddexp(0, z).sum() + np.abs(z).max())

    def coarse(w):
        return float(np.float32(convex(w)))

    def dented(w):
        return convex(w) + 30 * float(np.cos(4 * (w[0] - place) / size))

    for label, f, truth in (("convex", convex, True), ("a wave", dented, False)):
        found = search_nonconvexity(f, points, tries=300, random_state=seed).certificate_
        assert found is not None
        yield Case(label, found, {"chord_above": truth}, easy=() if truth else ("chord_above",))
    if seed % 2:  # steps of float32 are dents, though tiny ones
        found = search_nonconvexity(coarse, points, tries=100, random_state=seed).certificate_
        assert found is not None
        yield Case("in float32", found, {"chord_above": False})
