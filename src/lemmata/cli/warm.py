"""lemmata warm: compile every kernel ahead, by small fits that use it, so that later fits do not wait for it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from lemmata.cli.shell import command


@command
def warm() -> None:
    """Compile the kernels ahead: a few minutes, once."""
    from multiprocessing import get_context

    from lemmata.core.engine import cores

    begin = time.perf_counter()
    with ProcessPoolExecutor(min(cores(), len(USES)), mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(compile_package, name) for name in USES]):
            name, seconds = future.result()
            print(f"compiled: {name} ({seconds:.0f} s)", flush=True)
    print(f"done in {time.perf_counter() - begin:.0f} s; large fits start at once from now on.")


def compile_package(name: str) -> tuple[str, float]:
    """Run everything of one package that has kernels on tiny data; return its name and the seconds it took."""
    import lemmata
    from lemmata.core import engine as compiler

    compiler.be_quiet()  # the user asked for it
    begin = time.perf_counter()
    with lemmata.config(compile="always", certificate=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        USES[name]()
    return name, time.perf_counter() - begin


def _rows(dtype: str) -> Any:
    import numpy as np

    return np.random.default_rng(0).normal(size=(60, 5)).astype(dtype)


def _with_holes(dtype: str) -> Any:
    import numpy as np

    X = _rows(dtype)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    return X


def _clustering() -> None:
    import scipy.sparse as sp

    import lemmata

    for dtype in ("float64", "float32"):
        X = _rows(dtype)
        for rows in (X, sp.csr_array(X)):
            lemmata.KMeans(3).fit(rows).predict(rows)
        lemmata.KMeans(40).fit(X)  # enough centres for the bounds
        lemmata.LightweightCoreset(20).fit(X)


def _mixtures() -> None:
    import lemmata

    for dtype in ("float64", "float32"):
        X, holes = _rows(dtype), _with_holes(dtype)
        for shape in ("full", "tied", "diag", "spherical"):
            mixture = lemmata.GaussianMixture(2, covariance_type=shape)
            mixture.fit(X).predict(X)
            mixture.fit(holes)


def _completion() -> None:
    import lemmata

    for dtype in ("float64", "float32"):
        holes = _with_holes(dtype)
        for options in ({}, {"nonnegative": True}, {"method": "cg"}, {"feedback": "implicit"}):
            als = lemmata.ALS(2, **options)
            als.fit(abs(holes)).recommend([0], n=2)
        lemmata.MeanRatings().fit(holes)


def _factorisations() -> None:
    import lemmata

    for dtype in ("float64", "float32"):
        holes = _with_holes(dtype)
        for optimizer in ("sgd", "adam"):
            sgd = lemmata.SGDFactorization(2, optimizer=optimizer)
            sgd.fit(holes)
        lemmata.SoftImpute().fit(holes)
        lemmata.SingularValueProjection(2).fit(holes)


def _products() -> None:
    import scipy.sparse as sp

    import lemmata

    for dtype in ("float64", "float32"):
        # wide enough for products instead of a covariance
        X = sp.random_array((3000, 3000), density=0.002, format="csr", dtype=dtype, rng=0)
        lemmata.PCA(3, max_iter=20, random_state=0).fit(X).transform(X)


def _predictors() -> None:
    import scipy.sparse as sp

    import lemmata

    for dtype in ("float64", "float32"):
        X = _rows(dtype)
        numbers, classes = X @ X[0], X[:, 0] > X[:, 1]
        for rows in (X, sp.csr_array(X)):
            lemmata.Lasso(0.01).fit(rows, numbers)
            lemmata.LogisticRegression(l1_ratio=1.0).fit(rows, classes)
            lemmata.LinearSVC(method="dual").fit(rows, classes)
        lemmata.SVC().fit(X, classes)
        lemmata.SVR().fit(X, numbers)
        lemmata.NearestNeighbors(n_neighbors=3, algorithm="brute").fit(X).kneighbors(X)


def _embedding() -> None:
    from lemmata.embedding import GloVe, SkipGram

    texts = ["one text about some words", "some more words about one text"]
    for skipgram in (True, False):
        SkipGram(4, min_count=1, sg=skipgram).fit(texts)
    for solver in ("adagrad", "sgd"):
        GloVe(4, min_count=1, solver=solver, epochs=1).fit(texts)


def _dictionaries() -> None:
    import lemmata

    for dtype in ("float64", "float32"):
        X = _rows(dtype)
        lemmata.SparseCoder("dct", n_nonzero=2).fit(X)
        lemmata.DictionaryLearning(3, max_iter=1, tol=0.0).fit(X)


USES: dict[str, Callable[[], None]] = {
    "dictionaries": _dictionaries,
    "clustering": _clustering,
    "mixtures": _mixtures,
    "completion": _completion,
    "factorisations": _factorisations,
    "products": _products,
    "predictors": _predictors,
    "embedding": _embedding,
}
