"""Exact nearest neighbours against faiss, scikit-learn and SciPy's tree; classification of small data, from nothing to answers.

./run bench knn
"""

from __future__ import annotations

import importlib.util

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from sklearn import neighbors as sk
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

import lemmata
from bench.helpers.blobs import blobs
from bench.helpers.harness import compare, milliseconds

ROWS, QUERIES, K = 100_000, 10_000, 10


def recall(X, Q, k):
    """The share of answers of the first 200 queries that are as near as the true k nearest."""
    some = Q[:200].astype(np.float64)
    true = np.sort(cdist(some, X.astype(np.float64)), axis=1)[:, :k]

    def quality(rows):
        found = np.linalg.norm(X[rows[:200]].astype(np.float64) - some[:, None], axis=2)
        return float((found <= true[:, -1:] * (1 + 1e-9)).mean())

    return quality


def flat(X, Q, k):
    import faiss

    faiss.omp_set_num_threads(2)
    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)
    return index.search(Q, k)[1]


def ours(X, Q, k):
    with lemmata.config(certificate=False):
        return lemmata.NearestNeighbors(n_neighbors=k).fit(X).kneighbors(Q, return_distance=False)


def many_features(shapes=((32, K), (128, K), (32, 100)), rounds=5):
    """Blobs of float32, against comparing with all rows."""
    for d, k in shapes:
        rows = blobs(ROWS + QUERIES, d, 50).astype(np.float32)
        X, Q = np.ascontiguousarray(rows[:ROWS]), np.ascontiguousarray(rows[ROWS:])
        systems = {"lemmata": lambda X=X, Q=Q, k=k: ours(X, Q, k)}
        if importlib.util.find_spec("faiss"):
            systems["faiss IndexFlatL2"] = lambda X=X, Q=Q, k=k: flat(X, Q, k)
        theirs = sk.NearestNeighbors(n_neighbors=k, algorithm="brute", n_jobs=2)
        systems["scikit-learn brute"] = lambda X=X, Q=Q, m=theirs: m.fit(X).kneighbors(
            Q, return_distance=False
        )
        title = f"k-NN, {ROWS:,} × {d} float32, {QUERIES:,} queries, k = {k}; quality: recall"
        compare(title, systems, recall(X, Q, k), target=1.5, least_quality=0.999, rounds=rounds)


def few_features(d=3, rounds=5):
    """Uniform rows in three dimensions, against the tree itself."""
    rng = np.random.default_rng(0)
    X, Q = rng.uniform(size=(ROWS, d)), rng.uniform(size=(QUERIES, d))
    theirs = sk.NearestNeighbors(n_neighbors=K, algorithm="kd_tree", n_jobs=2)
    systems = {
        "lemmata": lambda: ours(X, Q, K),
        "SciPy cKDTree": lambda: cKDTree(X).query(Q, K, workers=2)[1],
        "scikit-learn kd_tree": lambda: theirs.fit(X).kneighbors(Q, return_distance=False),
    }
    title = f"k-NN, {ROWS:,} × {d} float64, {QUERIES:,} queries, k = {K}; quality: recall"
    compare(title, systems, recall(X, Q, K), target=1.5, least_quality=0.999, rounds=rounds)


def small():
    """Fit and predict of small data, without the certificate and with it."""
    print(
        "fit and predict, milliseconds: scikit-learn, lemmata without and with its certificate (limit 1.2x without)"
    )
    for load in (load_iris, load_wine, load_diabetes, load_breast_cancer, load_digits):
        X, y = load(return_X_y=True)
        name = "KNeighborsRegressor" if load is load_diabetes else "KNeighborsClassifier"
        theirs, mine = getattr(sk, name), getattr(lemmata, name)

        def bare(X=X, y=y, mine=mine):
            with lemmata.config(certificate=False):
                mine().fit(X, y).predict(X)

        found = milliseconds(
            {
                "peer": lambda X=X, y=y, m=theirs: m().fit(X, y).predict(X),
                "bare": bare,
                "ours": lambda X=X, y=y, m=mine: m().fit(X, y).predict(X),
            }
        )
        ratio = found["bare"] / found["peer"]
        over = "   over" if ratio > 1.2 else ""
        print(
            f"  {load.__name__[5:]:<15}{found['peer']:8.2f}{found['bare']:8.2f}{ratio:7.2f}x{found['ours']:8.2f}{over}"
        )
    print(flush=True)


def main() -> None:
    many_features()
    few_features()
    small()
