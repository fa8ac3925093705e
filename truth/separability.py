"""Classes that overlap, are separable, or nearly so, by construction: whether maximum-likelihood weights exist.

Overlap: every row of a set that spans the space stands there twice, once in each class, so any w with Aw ≥ 0 is 0 on them.
Separable: rows on their own side of a plane, a margin away. Half-way: one column that is not 0 in one class only.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

import lemmata
from truth.harness import Case, problems


def planted(seed: int, n: int, d: int, kind: str):
    """Rows and labels 0/1, and whether weights exist."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.exp(rng.standard_normal(d)) + rng.standard_normal(d)
    direction = rng.standard_normal(d) / X.std(axis=0)
    score = (X - X.mean(axis=0)) @ direction
    y = (score + rng.logistic(size=n) > 0).astype(int)
    y[:2] = 0, 1
    if kind == "overlap":
        twice = rng.standard_normal((d + 2, d))
        return (
            np.vstack([X, twice, twice]),
            np.r_[y, np.zeros(d + 2, int), np.ones(d + 2, int)],
            True,
        )
    if (
        kind == "one wrong row"
    ):  # separable but for one row that stands in both classes, and d + 1 more
        y = (score > 0).astype(int)
        twice = rng.standard_normal((d + 2, d)) * 0.1 + X.mean(axis=0)
        return (
            np.vstack([X, twice, twice]),
            np.r_[y, np.zeros(d + 2, int), np.ones(d + 2, int)],
            True,
        )
    if kind == "separable":
        margin = [1e-6, 1e-3, 0.1][seed % 3] * np.abs(score).max()
        far = np.abs(score) > margin
        far[np.argmax(score)] = far[np.argmin(score)] = True
        return X[far], (score[far] > 0).astype(int), False
    if kind == "a column of one class":
        X[:, -1] = (rng.random(n) < 0.3) * (y == 1) * rng.integers(1, 4, n)
        X[np.flatnonzero(y == 1)[0], -1] = 1.0
        return X, y, False
    if kind == "few rows":  # more columns than rows: always separable
        return rng.standard_normal((d, d)), np.arange(d) % 2, False
    raise ValueError(kind)


KINDS = ("overlap", "one wrong row", "separable", "a column of one class", "few rows")


def _fits(X, y, seed, w=None):
    settings: dict[str, dict[str, Any]] = {
        "newton": {"solver": "newton-cholesky"},
        "lbfgs, 5 steps": {"max_iter": 5},
        "lbfgs": {"max_iter": 5000, "tol": 1e-8},
    }
    for label, more in settings.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield label, LogisticRegression(C=np.inf, **more).fit(X, y, sample_weight=w)


@problems(seeds=40)
def two_classes(seed):
    for kind in KINDS:
        X, y, exists = planted(seed, 80, [3, 8][seed % 2], kind)
        X = X * [1.0, 1e-3, 1e4][seed % 3]
        if seed % 4 == 3:
            X = sp.csr_array(X)
        for label, model in _fits(X, y, seed):
            found = lemmata.certify(model, X, y, seconds=20)
            yield Case(
                f"{kind}, {label}", found, {"weights_exist": exists}, easy=("weights_exist",)
            )


@problems(seeds=20, quick=1)
def weights_decide(seed):
    """Rows of weight 0 are not there: what overlaps by them alone is separable."""
    X, y, _ = planted(seed, 60, 4, "separable")
    both = np.vstack([X, X[:8], X[:8]])
    labels = np.r_[y, np.zeros(8, int), np.ones(8, int)]
    for weight in (0.0, 1.0):
        w = np.r_[np.ones(len(X)), np.full(16, weight)]
        for label, model in _fits(both, labels, seed, w):
            found = lemmata.certify(model, both, labels, w, seconds=20)
            yield Case(
                f"weight {weight:g}, {label}",
                found,
                {"weights_exist": weight > 0},
                easy=("weights_exist",),
            )


@problems(seeds=15, quick=1)
def several_classes(seed):
    """Three classes: all overlap; one of them apart from the others; ours and scikit-learn's."""
    rng = np.random.default_rng(seed)
    d, k = 3, 3
    X = rng.standard_normal((90, d))
    y = rng.integers(0, k, 90)
    twice = rng.standard_normal((d + 2, d))
    overlapping = np.vstack([X, *[twice] * k]), np.r_[y, np.repeat(np.arange(k), d + 2)]
    apart = X + 20.0 * (y == 2)[:, None], y
    for label, (rows, labels), exists in (
        ("overlap", overlapping, True),
        ("one apart", apart, False),
    ):
        for name, model in _fits(rows, labels, seed):
            found = lemmata.certify(model, rows, labels, seconds=20)
            yield Case(
                f"{label}, {name}", found, {"weights_exist": exists}, easy=("weights_exist",)
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = lemmata.LogisticRegression(C=np.inf).fit(rows, labels)
        found = ours.certify(rows, labels, seconds=20)
        yield Case(f"{label}, ours", found, {"weights_exist": exists}, easy=("weights_exist",))


@problems(seeds=20, quick=1)
def a_penalty(seed):
    """With a penalty weights exist, whatever the classes do."""
    X, y, _ = planted(seed, 60, 4, KINDS[seed % 4])
    found = lemmata.certify(LogisticRegression(C=1e3, max_iter=5000).fit(X, y), X, y)
    yield Case("penalised", found, {"weights_exist": True}, easy=("weights_exist",))
    w = np.where(y == seed % 2, 0.0, 1.0)  # one class alone pushes a free intercept for ever
    for intercept in (True, False):
        model = LogisticRegression(fit_intercept=intercept).fit(X, y, sample_weight=w)
        found = lemmata.certify(model, X, y, w)
        truths = {"weights_exist": not intercept}
        yield Case(f"one class has weight, intercept {intercept}", found, truths, easy=truths)
