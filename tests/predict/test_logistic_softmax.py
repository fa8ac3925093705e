"""More than two classes: the minimum of scikit-learn's best solver, over penalties of eight orders of magnitude."""

import warnings

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as Reference
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lemmata import LogisticRegression

REAL = {"digits": load_digits, "wine": load_wine, "iris": load_iris}
SETS = [f"digits {how}" for how in (5, 15, 30, "scaled")]
SETS += [f"{kind} {how}" for kind in ("wine", "iris") for how in ("raw", "scaled")]
PENALTIES = 10.0 ** np.arange(-4, 5)


def rows(name):
    """Real data, raw, scaled, or so many principal components of the scaled columns; planted clusters with a seed."""
    kind, how = name.split()
    if kind == "planted":
        return planted(int(how))
    X, y = REAL[kind](return_X_y=True)
    X = X if how == "raw" else StandardScaler().fit_transform(X)
    return (PCA(int(how), svd_solver="full").fit_transform(X) if how.isdigit() else X), y


def planted(seed, n=200, k=8, d=10):
    """Clusters with Cauchy's tails: rows far out are saturated while others still move, so that full Newton steps overshoot."""
    rng = np.random.default_rng(seed)
    centres, y = rng.standard_normal((k, d)), np.arange(n) % k
    return 3 * centres[y] + rng.standard_cauchy((n, d)), y


def objective(model, X, y, C):
    scores = log_softmax(X @ model.coef_.T + model.intercept_, axis=1)
    return -C * scores[np.arange(len(y)), y].sum() + 0.5 * np.sum(model.coef_**2)


def excess(X, y, C):
    """How far the objective is above the better of scikit-learn's two, relative to it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        ours = LogisticRegression(C=C, tol=1e-10).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they may end at max_iter, or in a failed line search
        theirs = [
            Reference(C=C, tol=1e-10, max_iter=10_000, solver=solver).fit(X, y)
            for solver in ("lbfgs", "newton-cg")
        ]
    return objective(ours, X, y, C) / min(objective(model, X, y, C) for model in theirs) - 1


@pytest.mark.parametrize(
    ("name", "C"),
    [("digits 5", 1.0), ("digits 15", 1.0), ("wine raw", 1e-2), ("iris raw", 1e4)]
    + [(f"planted {seed}", C) for seed in (2,) for C in (1e-2, 1.0)],
)
def test_the_minimum_is_that_of_the_better_peer(name, C):
    assert excess(*rows(name), C) <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS + [f"planted {seed}" for seed in range(20)])
def test_the_minimum_is_that_of_the_better_peer_at_every_penalty(name):
    X, y = rows(name)
    assert max(excess(X, y, C) for C in PENALTIES) <= 1e-6


def test_the_digits_tutorial_comes_back():
    """scikit-learn's "Pipelining": scale, project, classify, and choose C; every fit arrives."""
    X, y = load_digits(return_X_y=True)
    grid = {"logisticregression__C": [1e-4, 0.05, 1e4]}
    pipe = make_pipeline(StandardScaler(), PCA(15), LogisticRegression())
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        search = GridSearchCV(pipe, grid, cv=2).fit(X, y)
    assert search.best_estimator_[-1].certificate_.failed == []
    # weights almost 0 and almost free tell fewer rows apart than those between
    scores = search.cv_results_["mean_test_score"]
    assert 0.5 < scores[[0, -1]].max() < search.best_score_
