"""Multipliers whose bounds are known from dense singular values: of finished and unfinished runs, and of other data."""

from __future__ import annotations

import warnings

import numpy as np

from lemmata.completion import SingularValueThresholding
from lemmata.completion.observed import Observed
from truth.duality import lanczos_only
from truth.harness import Case, problems

MET, REGULARISED, NUCLEAR = 1e-4, 1e-3, 0.05  # as in audit/completion/optimality/nuclear_norm.py


def _proved(model, A):
    """The two relative gaps and the residual, from dense matrices."""
    X, a = model.U_.astype(float) @ model.V_.astype(float).T, A.dense(0.0).astype(float)
    known = ~np.isnan(A.dense())
    Y = np.zeros(A.shape)
    Y[known] = model.dual_
    R = np.where(known, a - X, 0.0)
    sigma, tau = np.linalg.svd(Y, compute_uv=False), model.tau_
    nuclear = np.linalg.norm(X, "nuc") + np.sqrt(min(A.shape)) * np.linalg.norm(R)
    primal = nuclear + np.sum((X + R) ** 2) / (2 * tau)
    dual = (np.sum(Y * a) - 0.5 * np.sum(np.maximum(sigma - tau, 0) ** 2)) / tau
    return (
        np.linalg.norm(R) / np.linalg.norm(a),
        max(1 - dual / primal, 0),
        max(1 - np.sum(Y * a) / sigma[0] / nuclear, 0),
    )


@problems(seeds=20, quick=1)
def thresholding(seed):
    rng = np.random.default_rng(seed)
    k, scale = 1 + seed % 3, (1.0, 1e3, 1e-3)[seed % 3]
    M = scale * rng.normal(size=(30, k)) @ rng.normal(size=(k, 24))
    A = Observed.of(np.where(rng.random(M.shape) < (0.5, 0.8)[seed % 2], M, np.nan))
    settings = {
        "finished": {"max_iter": 300},
        "few steps": {"max_iter": 3},
        "unfinished": {"max_iter": 25},
        "small tau": {"tau": 0.3 * np.linalg.norm(M, 2), "max_iter": 100},
    }
    for label, more in settings.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SingularValueThresholding(random_state=seed, **more).fit(A)
        yield from _cases(label, model, A, seed)
        model.dual_ = rng.permutation(model.dual_)
        yield from _cases(f"{label}, dual_ of other data", model, A, seed)


def _cases(label, model, A, seed):
    names = ("entries_met", "least_regularised", "least_nuclear_norm")
    truths = {
        name: bool(gap <= bound)
        for name, gap, bound in zip(
            names, _proved(model, A), (MET, REGULARISED, NUCLEAR), strict=True
        )
        # Lanczos pays a share of 1e-3 for its bound
        if not 0.9 * bound < gap < 1.1 * bound
    }
    with lanczos_only(seed % 2):
        yield Case(label, model.certify(A, seconds=60), truths, truths)
