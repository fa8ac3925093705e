"""Sparse codes and dictionaries against scikit-learn: batch OMP, ℓ1 codes, and online learning to the same objective.

./run bench dictionaries

Patches of a photograph that comes with scikit-learn, their means taken away. Every system may use all cores. Quality is minus
the mean objective per row, judged by one function; of online learning with ℓ1 codes to a duality gap of 1e-8.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.decomposition import MiniBatchDictionaryLearning, SparseCoder
from sklearn.feature_extraction.image import extract_patches_2d
from sklearn.linear_model import orthogonal_mp_gram

import lemmata
from bench.helpers.harness import compare
from lemmata.reduction.sparse_coding import fista, random_dictionary


def patches(side: int, n: int, seed: int = 0) -> np.ndarray:
    """Grey patches, numbers from −1 to 1, mean 0 and of contrast near 1."""
    grey = load_sample_image("china.jpg").mean(axis=2) / 255
    X = extract_patches_2d(grey, (side, side), max_patches=n, random_state=seed)
    X = X.reshape(len(X), -1)
    X = X - X.mean(axis=1, keepdims=True)
    return X / X.std()


def squared_error(X, Z, D) -> float:
    return float(((X - Z @ D) ** 2).sum() / len(X))


def pursuit(side: int, k: int, s: int, n: int, dtype=np.float64) -> None:
    """Codes of s atoms, signals against a dictionary of patches."""
    X = patches(side, n).astype(dtype)
    D = random_dictionary(side * side, k, random_state=0, dtype=dtype)
    ours = lemmata.SparseCoder(D, n_nonzero=s)
    theirs = SparseCoder(D, transform_algorithm="omp", transform_n_nonzero_coefs=s, n_jobs=2)
    compare(
        f"OMP: {n:,} rows of {side * side}, {k} atoms, {s} a row, {np.dtype(dtype).name}",
        {
            "lemmata SparseCoder": lambda: ours.transform(X),
            "scikit-learn SparseCoder": lambda: theirs.transform(X),
            "scikit-learn orthogonal_mp_gram": lambda: (
                orthogonal_mp_gram(D @ D.T, D @ X.T, n_nonzero_coefs=s).T
            ),
        },
        lambda Z: -squared_error(X, Z, D),
        ours="lemmata SparseCoder",
        target=10,
        rounds=3,
    )


def penalised(side: int, k: int, alpha: float, n: int) -> None:
    """ℓ1 codes to the gap that scikit-learn's coordinate descent stops at."""
    X, D = patches(side, n), random_dictionary(side * side, k, random_state=0)
    ours = lemmata.SparseCoder(D, method="lasso_cd", alpha=alpha, tol=1e-4)
    systems = {"lemmata": lambda: ours.transform(X)}
    for how in ("lasso_cd", "lasso_lars"):
        theirs = SparseCoder(D, transform_algorithm=how, transform_alpha=alpha, n_jobs=2)
        systems[f"scikit-learn {how}"] = lambda theirs=theirs: theirs.transform(X)
    compare(
        f"ℓ1 codes: {n:,} rows of {side * side}, {k} atoms, alpha {alpha}",
        systems,
        lambda Z: -(0.5 * squared_error(X, Z, D) + alpha * float(np.abs(Z).sum() / len(X))),
        rounds=3,
    )


def objective(X, D, alpha: float) -> float:
    """Mean ½‖x − zD‖² + α‖z‖₁ at the best codes; atoms made unit, which only long ones need."""
    D = D / np.maximum(np.linalg.norm(D, axis=1, keepdims=True), 1)
    Z = fista.codes(X, D, fista.L1("lasso_cd", alpha, tol=1e-8))
    return 0.5 * squared_error(X, Z, D) + alpha * float(np.abs(Z).sum() / len(X))


def online(side: int, k: int, alpha: float, n: int, passes: int = 2) -> None:
    """The same number of passes over the rows in batches of 256."""
    X = patches(side, n)
    ours = lemmata.DictionaryLearning(k, alpha=alpha, max_iter=passes, tol=0.0, random_state=0)
    systems = {"lemmata": lambda: ours.fit(X)}
    for how in ("lars", "cd"):
        theirs = MiniBatchDictionaryLearning(
            k, alpha=alpha, max_iter=passes, batch_size=256, fit_algorithm=how, random_state=0, n_jobs=2,
            tol=0.0, max_no_improvement=None,
        )  # fmt: skip
        systems[f"scikit-learn {how}"] = lambda theirs=theirs: theirs.fit(X)
    compare(
        f"online learning: {passes} passes over {n:,} rows of {side * side}, {k} atoms, alpha {alpha}",
        systems,
        lambda model: -objective(X, model.components_, alpha),
        target=2,
        rounds=2,
    )


def main() -> None:
    pursuit(8, 256, 8, 3_000)
    pursuit(8, 256, 8, 3_000, np.float32)
    pursuit(16, 1024, 16, 1_000)
    penalised(8, 256, 1.0, 600)
    online(8, 128, 1.0, 2_000)
