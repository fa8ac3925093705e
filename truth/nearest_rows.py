"""Waves on the unit cube, whose Lipschitz constant and Bayes risk are formulas, and both stated right and wrong."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lemmata.trust import SmoothClasses, neighbour_bound
from lemmata.trust.bounds import bound_distance
from truth.harness import Case, problems


@problems(seeds=200, quick=2)
def waves(seed: int) -> Iterator[Case]:
    """No classifier errs less than L*: with c = 0 and less than L*/2 stated, the bound is broken whatever neighbours do."""
    rng = np.random.default_rng(seed)
    d, contrast = int(rng.integers(1, 4)), float(rng.uniform(0.1, 0.9))
    law = SmoothClasses(d, int(rng.integers(1, 3)), contrast)
    n, excess = int(rng.integers(300, 1500)), float(rng.uniform(0.02, 0.9))
    X, y = law.sample(n, rng)
    c, best = law.lipschitz, law.risk()[0]
    enough = c * bound_distance(n, d) <= excess
    options = {"excess": excess, "box": (0, 1)}
    for label, told, truths in (
        ("true", {"lipschitz": c, "bayes_risk": best}, (True, enough)),
        ("no slope", {"lipschitz": 0.0, "bayes_risk": 0.49 * best}, (False, True)),
        ("slope not known", {"bayes_risk": best}, (None, enough)),
    ):
        found = neighbour_bound(X, y, **told, **options).certificate_
        assert found is not None
        names = ("error_within_bound", "enough_rows_for_bound")
        known = {
            name: truth for name, truth in zip(names, truths, strict=True) if truth is not None
        }
        yield Case(label, found, known)
