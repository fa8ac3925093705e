"""Ritz pairs whose residuals are computed densely: whole spaces, small ones, tampered values and other matrices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from lemmata.audit.optim.krylov import ARNOLDI_CLAIMS
from lemmata.core.certificate import Fit
from lemmata.core.certification.checking import check
from lemmata.linalg import arnoldi
from truth.harness import Case, problems


@problems(seeds=60, quick=2)
def ritz_pairs(seed: int) -> Iterator[Case]:
    """Random matrices of any size; the residual of A as numpy multiplies it is the truth."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 40))
    A = rng.normal(size=(n, n)) * 10.0 ** rng.integers(-3, 4)
    A = A + A.T if seed % 3 == 0 else A
    for label, m in (("whole", n), ("small", max(n // 3, 1))):
        found = arnoldi(A, m, rng=seed)
        cases = {
            label: found,
            f"{label}, a value moved": replace(found, values=found.values * (1 + 1e-3)),
            f"{label}, residuals halved": replace(found, residuals=found.residuals / 2),
            f"{label}, another matrix": replace(found, A=A + 1e-3 * np.abs(A).max() * np.eye(n)),
        }
        for name, one in cases.items():
            X = one.vectors / np.linalg.norm(one.vectors, axis=0)
            true = np.linalg.norm(one.A @ X - X * one.values, axis=0)
            size = np.linalg.norm(A, 2)
            off = np.abs(true - one.residuals).max() / size
            truth = {}
            if not 1e-14 < off < 1e-9:
                truth["residuals_stated"] = off <= 1e-14
            if not 1e-10 < true.max() / size < 1e-6:
                truth["eigenpairs_close"] = true.max() <= 1e-10 * size
            yield Case(name, check(ARNOLDI_CLAIMS, Fit(one), "arnoldi"), truth, list(truth))
