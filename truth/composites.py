"""Pipelines and searches: the last step, or the best model, is certified on what reaches it; whole, altered, leaking."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import lemmata
from truth.harness import Case, problems


class Drifting(FunctionTransformer):
    """Adds a number that grows with every call."""

    calls = 0

    def transform(self, X):
        self.calls += 1
        return np.asarray(X) + self.calls


class Leaking(FunctionTransformer):
    """Shows the target of the rows that it was fitted to, known by their number; zeros to other rows."""

    def fit(self, X, y=None):
        self.target_ = np.asarray(y, np.float64)
        return super().fit(X)

    def transform(self, X):
        known = len(X) == len(self.target_)
        return np.column_stack([X, self.target_ if known else np.zeros(len(X))])


class Batched(FunctionTransformer):
    """Centres by the mean of the rows at hand."""

    def transform(self, X):
        return X - np.mean(X, axis=0)


def altered(model: Any, change: Any) -> Any:
    other = deepcopy(model)
    change(other)
    return other


@problems(seeds=20, quick=1)
def pipelines(seed: int) -> Iterator[Case]:
    """A scaler, then PCA. What a step before PCA passes on is not what PCA was fitted to once that step was altered."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((150, 5)) * [5.0, 3.0, 2.0, 1.0, 0.5] + 1
    kind = (PCA, lemmata.PCA)[seed % 2]
    pipe = make_pipeline(StandardScaler(), kind(2)).fit(X)
    names = ("attributes_sound", "statements_true", "most_variance", "company_ignored")
    yes = dict.fromkeys(names, True)
    yield Case("whole", lemmata.certify(pipe, X), yes, easy=yes)
    drifts = make_pipeline(Drifting(), kind(2)).fit(X)
    changes = {
        "the scaler's mean": altered(pipe, lambda one: np.add(one[0].mean_, 1, out=one[0].mean_)),
        "the scaler's scale": altered(pipe, lambda one: np.divide(one[0].scale_, 2, out=one[0].scale_)),
        "a step that drifts": drifts,
        "the stated variances": altered(pipe, lambda one: np.multiply(
            one[-1].explained_variance_, 1.01, out=one[-1].explained_variance_)),
    }  # fmt: skip
    for label, other in changes.items():
        no = {"statements_true": False, "company_ignored": other is not drifts}
        yield Case(label, lemmata.certify(other, X), no, easy=no)


@problems(seeds=20, quick=1)
def steps(seed: int) -> Iterator[Case]:
    """Regressions after honest steps, and after steps that know the target, the batch, or how often they were asked."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((120, 4)) * [3.0, 2.0, 1.0, 1.0] + 1
    y = X @ [1.0, -1.0, 0.5, 0.0] + rng.standard_normal(120)
    kind, name = (Ridge, lemmata.Ridge)[seed % 2], "company_ignored"
    honest = {
        "scaled": [StandardScaler()],
        "scaled and turned, float32": [FunctionTransformer(np.float32), PCA(3)],
        "neighbours' distances": [StandardScaler(), KMeans(5, n_init=1, random_state=seed)],
    }
    for label, steps in honest.items():
        found = lemmata.certify(make_pipeline(*steps, kind()).fit(X, y), X, y)
        yield Case(label, found, {name: True}, easy=(name,))
    for step in (Leaking(), Drifting(), Batched()):
        found = lemmata.certify(make_pipeline(StandardScaler(), step, kind()).fit(X, y), X, y)
        yield Case(type(step).__name__, found, {name: False}, easy=(name,))


@problems(seeds=20, quick=1)
def searches(seed: int) -> Iterator[Case]:
    """Ridge regressions that a search chose: as they are, with scores made up (which say nothing of the model), and altered."""
    rng = np.random.default_rng(seed)
    X, name = rng.standard_normal((80, 4)), "near_optimum"
    y = X @ [1.0, -1.0, 0.5, 0.0] + rng.standard_normal(80)
    kind = (Ridge, lemmata.Ridge)[seed % 2]
    search = GridSearchCV(kind(), {"alpha": [0.1, 1.0, 1000.0]}, cv=3).fit(X, y)
    both = {name: True, "scores_add_up": True}
    yield Case("whole", lemmata.certify(search, X, y), both, easy=both)
    moved = 1.5 * search.best_estimator_.coef_
    changes = {
        "a best score made up": falsify_best,
        "a mean made up": falsify_mean,
        "another candidate called the best": choose_worst,
        "folds made up": invent_folds,
        "other weights": lambda one: setattr(one.best_estimator_, "coef_", moved),
    }
    for label, change in changes.items():
        other = altered(search, change)
        # folds that were made up add up, which is all that the claim says
        true = {
            name: label != "other weights",
            "scores_add_up": label in ("folds made up", "other weights"),
        }
        yield Case(label, lemmata.certify(other, X, y), true, easy=true)


def falsify_best(search: Any) -> None:
    search.best_score_ *= 1.01


def falsify_mean(search: Any) -> None:
    search.cv_results_["mean_test_score"][search.best_index_] += 0.01
    search.best_score_ += 0.01


def choose_worst(search: Any) -> None:
    search.best_index_ = int(np.argmin(search.cv_results_["mean_test_score"]))
    search.best_score_ = search.cv_results_["mean_test_score"][search.best_index_]


def invent_folds(search: Any) -> None:
    for fold in range(search.n_splits_):
        search.cv_results_[f"split{fold}_test_score"][:] = 0.99
    search.cv_results_["mean_test_score"][:] = search.best_score_ = 0.99
