"""What a certificate costs beside its fit: ours and scikit-learn's, on real data. The limit: five fits, or half a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn import cluster, decomposition, mixture

import lemmata
from bench.helpers.harness import run_quietly
from bench.helpers.ratings import movielens

TIMES_THE_FIT, LEAST_SECONDS = 5, 0.5


def fits() -> Iterator[tuple[str, Any, Any]]:
    """(title, a model, the data it is fitted to and certified on)."""
    digits = lemmata.data.digits().X
    many = np.repeat(digits, 30, axis=0) + np.random.default_rng(0).normal(
        size=(30 * len(digits), 64)
    )
    for name, X in (("digits 1,797 × 64", digits), ("digits 53,910 × 64", many)):
        for model in (
            lemmata.PCA(10),
            decomposition.PCA(10),
            lemmata.KMeans(10, n_init=3, random_state=0),
            cluster.KMeans(10, n_init=3, random_state=0),
            lemmata.GaussianMixture(5, covariance_type="diag", random_state=0),
            mixture.GaussianMixture(5, covariance_type="diag", random_state=0),
        ):
            yield f"{type(model).__module__.split('.')[0]} {type(model).__name__}, {name}", model, X
    ratings = movielens("small")
    if ratings is None:
        return
    for model in (lemmata.ALS(8, random_state=0), lemmata.SoftImpute(20.0, random_state=0)):
        yield f"lemmata {type(model).__name__}, MovieLens small", model, ratings


def clock(function: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = run_quietly(function)
    return time.perf_counter() - begin, result


def main() -> None:
    print(f"  {'fit':<56}{'fit':>9}{'certify':>11}{'ratio':>9}   verdicts")
    for title, model, X in fits():
        clock(lambda model=model, X=X: model.fit(X))  # compilers, page faults, caches
        fitted, _ = clock(lambda model=model, X=X: model.fit(X))
        seconds, found = clock(lambda model=model, X=X: lemmata.certify(model, X))
        dear = seconds > max(TIMES_THE_FIT * fitted, LEAST_SECONDS)
        note = "   over the limit" if dear else ""
        print(
            f"  {title:<56}{fitted:8.3f} s{seconds:9.3f} s{seconds / fitted:8.1f}x   {found.counts}{note}",
            flush=True,
        )
    print()
