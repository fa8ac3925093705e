"""Spectra with a knee and without, and factors in noise of known number; the rule's dimension, one less and one more."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lemmata import PCA
from lemmata.audit.reduction.pca import KNEE_CLAIMS, PARALLEL_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Fit
from lemmata.core.certification.checking import check
from truth.harness import Case, problems


def rows_of(rng: np.random.Generator, variances: np.ndarray, n: int) -> np.ndarray:
    """Rows whose covariance has exactly these eigenvalues."""
    d = len(variances)
    Q = np.linalg.qr(np.column_stack([np.ones(n), rng.standard_normal((n, d))]))[0][:, 1:]
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return Q * np.sqrt(n * variances) @ turn.T + rng.standard_normal(d)


def certify(claims, X, k):
    return check(claims, Fit(PCA(k).fit(X), Blocks.of(X)), "PCA")


@problems(seeds=60, quick=2)
def knees(seed: int) -> Iterator[Case]:
    """A plateau of large variances and one of small ones, both with a slope; or a fall that is even."""
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(8, 25)), int(rng.integers(60, 200))
    k = int(rng.integers(2, d // 2))
    steep = np.r_[np.linspace(20, 15, k), np.linspace(rng.uniform(0.1, 2), 0.05, d - k)]
    even = np.linspace(20, 1, d) * rng.uniform(0.99, 1.01, d)
    for label, variances in (("a knee", steep), ("even", np.sort(even)[::-1])):
        X = rows_of(rng, variances, n)
        for kept in (k - 1, k, k + 1):
            truth = {"knee_clear": label == "a knee" and kept == k}
            yield Case(f"{label}, {kept - k:+d}", certify(KNEE_CLAIMS, X, kept), truth, list(truth))


@problems(seeds=60, quick=2)
def factors_in_noise(seed: int) -> Iterator[Case]:
    """k factors six times as long as noise may be, (1 + √(d/n))², in noise of one variance; and noise alone."""
    rng = np.random.default_rng(seed)
    d, n, k = int(rng.integers(6, 30)), int(rng.integers(150, 500)), int(rng.integers(1, 4))
    edge = (1 + np.sqrt(d / n)) ** 2
    axes = np.linalg.qr(rng.standard_normal((d, k)))[0]
    noise = rng.standard_normal((n, d))
    X = noise + rng.standard_normal((n, k)) * np.sqrt(6 * edge * rng.uniform(1, 3, k)) @ axes.T
    for kept in (k, k + 1, *([k - 1] if k > 1 else [])):
        truth = {"above_chance": kept == k}
        yield Case(f"{kept - k:+d}", certify(PARALLEL_CLAIMS, X, kept), truth, list(truth))
    found = certify(
        PARALLEL_CLAIMS, noise, 3
    )  # the third of noise is never that of more than noise
    yield Case("noise", found, {"above_chance": False}, ["above_chance"])
