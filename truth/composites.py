"""Pipelines and searches: the last step, or the best model, is certified on what reaches it; whole, altered, drifting."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
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
    yes = dict.fromkeys(("attributes_sound", "statements_true", "most_variance"), True)
    yield Case("whole", lemmata.certify(pipe, X), yes, easy=yes)
    drifts = make_pipeline(Drifting(), kind(2)).fit(X)
    changes = {
        "the scaler's mean": altered(pipe, lambda one: np.add(one[0].mean_, 1, out=one[0].mean_)),
        "the scaler's scale": altered(pipe, lambda one: np.divide(one[0].scale_, 2, out=one[0].scale_)),
        "a step that drifts": drifts,
        "the stated variances": altered(pipe, lambda one: np.multiply(
            one[-1].explained_variance_, 1.01, out=one[-1].explained_variance_)),
    }  # fmt: skip
    no = {"statements_true": False}
    for label, other in changes.items():
        yield Case(label, lemmata.certify(other, X), no, easy=no)


@problems(seeds=20, quick=1)
def searches(seed: int) -> Iterator[Case]:
    """Ridge regressions that a search chose: as they are, with scores made up (which say nothing of the model), and altered."""
    rng = np.random.default_rng(seed)
    X, name = rng.standard_normal((80, 4)), "near_optimum"
    y = X @ [1.0, -1.0, 0.5, 0.0] + rng.standard_normal(80)
    kind = (Ridge, lemmata.Ridge)[seed % 2]
    search = GridSearchCV(kind(), {"alpha": [0.1, 1.0, 10.0]}, cv=3).fit(X, y)
    yield Case("whole", lemmata.certify(search, X, y), {name: True}, easy=(name,))
    made_up = altered(search, lambda one: setattr(one, "best_score_", 1e9))
    yield Case("scores made up", lemmata.certify(made_up, X, y), {name: True}, easy=(name,))
    moved = 1.5 * search.best_estimator_.coef_
    other = altered(search, lambda one: setattr(one.best_estimator_, "coef_", moved))
    yield Case("other weights", lemmata.certify(other, X, y), {name: False}, easy=(name,))
