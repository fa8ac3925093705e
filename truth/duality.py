"""Distances to the best matrix of any rank, known from a long convex solve: of factors, and of soft-impute."""

from __future__ import annotations

import warnings
from contextlib import contextmanager

import numpy as np

from lemmata.audit.completion.optimality import global_optimum as duality
from lemmata.audit.completion.optimality import nuclear_norm as multipliers
from lemmata.completion import SoftImpute
from lemmata.completion.observed import Observed
from truth.factors import KINDS, certify, value
from truth.harness import Case, problems
from truth.slow_completion import als, convex_optimum, planted

OPTIMUM, CONVEX = (
    0.01,
    0.001,
)  # shares of the objective, as in audit/completion/optimality/global_optimum.py


@contextmanager
def lanczos_only(on):
    """Whether small matrices go the way of large ones, so that verdicts are statistical."""
    before = duality.SHORT
    duality.SHORT = multipliers.SHORT = 0 if on else before
    try:
        yield
    finally:
        duality.SHORT = multipliers.SHORT = before


@problems(seeds=80, quick=4)
def factors(seed):
    """Few and many factors, converged and not, by LAPACK and by Lanczos."""
    name = list(KINDS)[seed % 4]  # the slow convex solver knows no implicit feedback
    kind = KINDS[name]
    A = planted(seed, 10, 8, noise=0.5, biases=bool(kind.get("biases")))
    reg, k = (
        (0.1, 0.3)[seed % 3 == 0] * (1 if kind.get("weighted") else 5),
        (8, 1, 4, 2)[(seed + seed // 4) % 4],
    )
    least = convex_optimum(A, reg, **kind)
    scale = 1.0 if kind.get("biases") else (1.0, 1e150, 1e-150)[seed % 3]
    for sweeps in (2, 20, 1000):
        at, mean = als(A, k, reg, seed=seed, sweeps=sweeps, **kind)
        gap = 1 - least / value(A, at, reg, kind, mean)
        if 0.95 * OPTIMUM < gap < 1.05 * OPTIMUM:
            continue
        with lanczos_only(seed % 2):
            found = certify(A, at, reg, kind, mean, scale)
        easy = [] if OPTIMUM / 2 < gap < 2 * OPTIMUM else ["global_optimum"]
        yield Case(
            f"{name}, rank {k}, {sweeps} sweeps", found, {"global_optimum": gap <= OPTIMUM}, easy
        )


@problems(seeds=20, quick=1)
def soft_impute(seed):
    """Our solver: finished, stopped early, cut by max_rank, tampered with; soft-impute's own objective by brute force."""
    dtype = (np.float64, np.float32)[seed % 4 == 3]
    A = Observed.of(planted(seed, 24, 20, k=3, noise=0.2, density=0.7).dense().astype(dtype))
    reg, ridge = (0.3, 1.5)[seed % 2], (0.0, 0.0, 0.5, 3.0)[seed // 2 % 4]
    fits = {
        "finished": SoftImpute(reg, centre="none", random_state=seed, tol=1e-9),
        "stopped early": SoftImpute(reg, centre="none", random_state=seed, max_iter=12),
        "loose": SoftImpute(reg, centre="none", random_state=seed, tol=1e-2),
        "cut to 1": SoftImpute(reg, centre="none", max_rank=1, random_state=seed),
        "cut to 3": SoftImpute(reg, centre="none", max_rank=3, random_state=seed),
        "room": SoftImpute(reg, centre="none", max_rank=19, random_state=seed),
    }
    optimum = None
    for label, model in fits.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.set_params(ridge=ridge).fit(A)
        if label == "finished":
            optimum, full = convex_optimum(A, reg, steps=6000, ridge=ridge), model.U_.shape[1]
        yield from _soft_case(label, model, A, optimum if model.reg_ == reg else None, full, seed)
    model = fits["finished"]
    for factor in (1.01, 1.3):
        model.U_ = factor * model.U_
        yield from _soft_case(f"times {factor}", model, A, optimum, full, seed)
    if ridge:
        model.fit(A).ridge_ = 0.0
        yield from _soft_case(
            "without its γ", model, A, convex_optimum(A, reg, steps=6000), full, seed
        )


def _soft_case(label, model, A, optimum, full, seed):
    truths, easy = {}, []
    U, V = model.U_.astype(float), model.V_.astype(float)
    X = U @ V.T
    if optimum is not None:
        # the claims read U and V as factors: half the sum of squares is their nuclear norm only where they are balanced
        now = 0.5 * np.nansum((A.dense() - X) ** 2) + 0.5 * model.reg_ * (
            np.sum(U**2) + np.sum(V**2)
        )
        now += 0.5 * model.ridge_ * np.sum(X**2)
        gap = 1 - optimum / now
        if not CONVEX / 2 < gap < 2 * CONVEX:
            truths["least_penalised"] = gap <= CONVEX
            easy = ["least_penalised"]
    limit = model.max_rank
    if limit is None or model.U_.shape[1] < limit:
        truths["rank_not_cut"] = True
        easy = [*easy, "rank_not_cut"]
    elif full > limit and optimum is not None:
        truths["rank_not_cut"] = False
    with lanczos_only(seed % 2):
        yield Case(label, model.certify(A, seconds=60), truths, easy)
