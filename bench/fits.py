"""The seconds of a few fits, small and large: what a change moved.

./run bench fits                                              this tree
PYTHONPATH=/other/src .venv/bin/python -m bench fits          another one, with the same dependencies
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris

import lemmata
from lemmata.completion import Observed


def fits() -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """What is fitted, how often, and the fit."""
    rng = np.random.default_rng(0)
    iris, digits = load_iris().data, load_digits().data
    yield "PCA iris", 50, lambda: lemmata.PCA(2).fit(iris)
    yield "PCA digits", 30, lambda: lemmata.PCA(10).fit(digits)
    yield "KMeans digits", 15, lambda: lemmata.KMeans(10, random_state=0).fit(digits)
    yield "GaussianMixture iris", 15, lambda: lemmata.GaussianMixture(3, random_state=0).fit(iris)
    X = (rng.standard_normal((200_000, 64)) * np.linspace(3, 1, 64)).astype(np.float32)
    yield "PCA 200k × 64", 5, lambda: lemmata.PCA(10).fit(X)
    C = 6 * rng.standard_normal((20, 32))
    B = C[rng.integers(20, size=200_000)] + rng.standard_normal((200_000, 32))
    B = B.astype(np.float32)
    steps = {"random_state": 0, "tol": 0}
    yield "KMeans 200k × 32, 20 steps", 3, lambda: lemmata.KMeans(20, max_iter=20, **steps).fit(B)
    diag = lemmata.GaussianMixture(8, covariance_type="diag", max_iter=10, **steps)
    yield "GaussianMixture 200k × 32 diag, 10 steps", 2, lambda: diag.fit(B)
    full = lemmata.GaussianMixture(8, max_iter=5, **steps)
    yield "GaussianMixture 100k × 32 full, 5 steps", 2, lambda: full.fit(B[:100_000])
    S = sp.random_array((50_000, 10_000), density=0.004, format="csr", dtype=np.float32, rng=rng)
    yield "PCA sparse 50k × 10k, 2M entries", 2, lambda: lemmata.PCA(10, random_state=0).fit(S)
    million = Observed.of(lemmata.data.movielens_1m())
    yield "ALS 1M, 10 sweeps", 2, lambda: lemmata.ALS(20, max_iter=10, **steps).fit(million)
    ratings = Observed.of(lemmata.data.movielens_small())
    yield "ALS MovieLens small, defaults", 3, lambda: lemmata.ALS(random_state=0).fit(ratings)


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"fits of {lemmata.__file__}, the best of several:")
    for name, times, fit in fits():
        seconds = []
        for _ in range(times):
            begin = time.perf_counter()
            fit()
            seconds.append(time.perf_counter() - begin)
        print(f"  {name:42} {1e3 * min(seconds):9.1f} ms", flush=True)
