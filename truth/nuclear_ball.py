"""Matrices in a ball of the nuclear norm whose distance from the best is known from a long run, early, late and tampered."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from lemmata.completion import NuclearBall, SoftImpute
from truth.harness import Case, problems


@problems(seeds=40, quick=1)
def radii(seed: int) -> Iterator[Case]:
    """The optimum of a radius is that of a penalty, whose value SoftImpute finds to 1e-12; fits after few and many steps."""
    rng = np.random.default_rng(seed)
    n, m, k = int(rng.integers(15, 40)), int(rng.integers(10, 30)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, k)) @ rng.standard_normal((k, m)) + 0.3 * rng.standard_normal(
        (n, m)
    )
    A = np.where(rng.random((n, m)) < 0.6, X, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reg = float(rng.uniform(0.5, 3))
        soft = SoftImpute(reg, centre="none", tol=1e-13, max_iter=3000, random_state=0).fit(A)
        radius = float(soft.singular_values_.sum())
        least = soft.trace_.last() - soft.reg_ * radius
        for steps in (1, 5, 300):
            model = NuclearBall(radius, max_iter=steps, tol=1e-4, random_state=seed).fit(A)
            truth = {"in_ball": True}
            off = model.loss_ / least - 1
            if not 0.005 < off < 0.02:
                truth["least_in_ball"] = off <= 0.01
            yield Case(f"{steps} steps", model.certify(A), truth, ["in_ball"])
        U, known = model.U_, ~np.isnan(A)
        for share in (0.9, 0.6):
            model.U_ = share * U
            off = 0.5 * float(np.sum((A - model.U_ @ model.V_.T)[known] ** 2)) / least - 1
            truth = {"in_ball": True, "least_in_ball": off <= 0.01}
            yield Case(f"{share} times as long", model.certify(A), truth, ["in_ball"])
        model.U_ = U * 1.01
        yield Case("too long", model.certify(A), {"in_ball": False}, ["in_ball"])
