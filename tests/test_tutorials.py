"""Eighteen tutorials of scikit-learn, told again in a few lines: with the import changed, the scores stay.

Each function takes `find`, which gives a class by its name, from lemmata or from scikit-learn, and returns numbers (or arrays)
that a reader of the tutorial would look at. Both are run; they have to agree within what the table at the end says.
"""

import warnings

import numpy as np
import pytest
from sklearn import datasets
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import all_estimators

import lemmata

THEIRS = dict(all_estimators())
DIGITS = datasets.load_digits(return_X_y=True)
IRIS = datasets.load_iris(return_X_y=True)
DIABETES = datasets.load_diabetes(return_X_y=True)
TEXTS = [
    *(f"the {a} and the {b} sleep in the garden" for a in ("cat", "dog") for b in ("bird", "fish")),
    *(f"a {a} with {b} rises on the market" for a in ("stock", "bond") for b in ("profit", "debt")),
] * 6  # fmt: skip
TOPICS = np.repeat([0, 1], 4).tolist() * 6


def recognising_digits_by_hand(find):
    X, y = DIGITS
    train, test, t, u = train_test_split(X, y, test_size=0.5, shuffle=False)
    return find("SVC")(gamma=0.001).fit(train, t).score(test, u)


def grid_search_over_machines(find):
    X, y = IRIS
    grid = {"C": [0.1, 1, 10], "gamma": [0.01, 0.1]}
    search = GridSearchCV(find("SVC")(), grid, cv=3).fit(X, y)
    return search.best_score_, search.best_params_["C"], search.best_params_["gamma"]


def axes_of_iris(find):
    X, _ = IRIS
    model = find("PCA")(n_components=2).fit(X)
    return model.explained_variance_ratio_, np.abs(model.transform(X))


def chaining_pca_and_logistic_regression(find):
    X, y = DIGITS
    steps = StandardScaler(), find("PCA")(20), find("LogisticRegression")(max_iter=1000)
    return cross_val_score(make_pipeline(*steps), X[:900], y[:900], cv=3)


def circles_by_kernel_pca(find):
    X, y = datasets.make_circles(300, factor=0.3, noise=0.05, random_state=0)
    model = find("KernelPCA")(4, kernel="rbf", gamma=10)
    return (
        find("LogisticRegression")(C=100)
        .fit(model.fit_transform(X), y)
        .score(model.transform(X), y)
    )


def clustering_digits(find):
    X, y = DIGITS
    model = find("KMeans")(10, n_init=4, random_state=0).fit(X[:800])
    return model.inertia_, adjusted_rand_score(y[:800], model.labels_)


def choosing_a_mixture(find):
    X, _ = datasets.make_blobs(400, centers=3, random_state=3)
    settings = [(k, kind) for kind in ("full", "diag") for k in (1, 2, 3, 4)]
    make = find("GaussianMixture")
    found = [
        make(k, covariance_type=c, n_init=3, random_state=0).fit(X).bic(X) for k, c in settings
    ]
    return settings[int(np.argmin(found))][0], min(found)


def sparse_signals(find):
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(80, 150)), np.zeros(150)
    w[:8] = 3 * rng.normal(size=8)
    y = X @ w + 0.1 * rng.normal(size=80)
    lasso = find("Lasso")(alpha=0.1).fit(X[:50], y[:50])
    net = find("ElasticNet")(alpha=0.1, l1_ratio=0.7).fit(X[:50], y[:50])
    return lasso.score(X[50:], y[50:]), net.score(X[50:], y[50:]), (lasso.coef_ != 0).sum()


def choosing_alpha(find):
    X, y = DIABETES
    model = make_pipeline(StandardScaler(), find("LassoCV")(cv=5)).fit(X, y)
    return np.log(model[-1].alpha_), model.score(X, y)


def ridge_weights_of_the_hilbert_matrix(find):
    X = 1.0 / (np.arange(1, 11) + np.arange(0, 10)[:, None])
    alphas = np.logspace(-8, -2, 12)
    make = find("Ridge")
    return np.array([make(alpha=a, fit_intercept=False).fit(X, np.ones(10)).coef_ for a in alphas])


def outliers_and_a_line(find):
    X, y = datasets.make_regression(80, 1, noise=4.0, bias=100.0, random_state=0)
    X[:5], y[:5] = X[:5] + 4, y[:5] - 300
    robust = find("HuberRegressor")(alpha=0.0, epsilon=1.35).fit(X, y)
    return robust.coef_, robust.intercept_, find("Ridge")(alpha=0.0).fit(X, y).coef_


def kernel_ridge_beside_svr(find):
    rng = np.random.RandomState(0)
    X = 5 * rng.rand(150, 1)
    y = np.sin(X).ravel()
    y[::5] += 3 * (0.5 - rng.rand(30))
    ridge = find("KernelRidge")(kernel="rbf", gamma=0.3, alpha=0.1).fit(X, y)
    machine = find("SVR")(kernel="rbf", C=10.0, gamma=0.3).fit(X, y)
    grid = np.linspace(0, 5, 50)[:, None]
    return ridge.predict(grid), machine.predict(grid)


def nearest_neighbours_of_iris(find):
    X, y = IRIS
    make = find("KNeighborsClassifier")
    return [
        cross_val_score(make(15, weights=w), X[:, :2], y).mean() for w in ("uniform", "distance")
    ]


def multinomial_beside_one_vs_rest(find):
    X, y = datasets.make_blobs(300, centers=[[-5, 0], [0, 1.5], [5, -1]], random_state=40)
    model = find("LogisticRegression")(tol=1e-8).fit(X @ [[0.4, 0.2], [-0.4, 1.2]], y)
    return model.coef_, model.predict_proba(X @ [[0.4, 0.2], [-0.4, 1.2]])


def topics_of_texts(find):
    counts = CountVectorizer(stop_words="english").fit_transform(TEXTS)
    lda = find("LatentDirichletAllocation")(2, random_state=0, max_iter=20).fit(counts)
    nmf = find("NMF")(2, init="nndsvda", random_state=0, max_iter=500)
    parts = nmf.fit_transform(TfidfVectorizer(stop_words="english").fit_transform(TEXTS))
    groups = [W.argmax(axis=1) for W in (lda.transform(counts), parts)]
    return [adjusted_rand_score(TOPICS, group) for group in groups]


def classifying_texts(find):
    makers = find("RidgeClassifier")(), find("SGDClassifier")(random_state=0), find("LinearSVC")()
    models = [make_pipeline(TfidfVectorizer(), one).fit(TEXTS[:24], TOPICS[:24]) for one in makers]
    return [model.score(TEXTS, TOPICS) for model in models]


def columns_of_several_kinds(find):
    import pandas as pd

    X, y = DIABETES
    frame = pd.DataFrame(X[:, :3], columns=["age", "sex", "bmi"])
    frame["sex"] = np.where(frame["sex"] > 0, "f", "m")
    columns = make_column_transformer(
        (StandardScaler(), ["age", "bmi"]), (OneHotEncoder(drop="first"), ["sex"])
    )
    model = make_pipeline(columns, find("LogisticRegression")()).fit(frame, y > 140)
    return model.predict_proba(frame)


def approximating_a_kernel(find):
    X, y = DIGITS
    X = X / 16 - (X / 16).mean(axis=0)
    features = find("Nystroem")(gamma=0.2, n_components=150, random_state=1)
    model = make_pipeline(features, find("LinearSVC")()).fit(X[:900], y[:900])
    return model.score(X[900:], y[900:])


# each with how far its numbers may be from scikit-learn's
TUTORIALS = {
    recognising_digits_by_hand: 0.002,
    grid_search_over_machines: 1e-9,
    axes_of_iris: 1e-9,
    chaining_pca_and_logistic_regression: 0.01,
    circles_by_kernel_pca: 1e-9,
    clustering_digits: {"rtol": 0.03, "atol": 0.1},
    choosing_a_mixture: {"rtol": 1e-3},
    sparse_signals: 0.01,
    choosing_alpha: 0.02,
    ridge_weights_of_the_hilbert_matrix: {"rtol": 1e-4, "atol": 1e-3},
    outliers_and_a_line: {"rtol": 1e-3},
    kernel_ridge_beside_svr: 0.01,
    nearest_neighbours_of_iris: 0.01,
    multinomial_beside_one_vs_rest: 1e-3,
    topics_of_texts: 1e-9,
    classifying_texts: 1e-9,
    columns_of_several_kinds: 1e-3,
    approximating_a_kernel: 0.03,
}


def flat(found):
    parts = found if isinstance(found, list | tuple) else [found]
    return np.concatenate([np.ravel(np.asarray(part, dtype=float)) for part in parts])


def test_there_are_eighteen():
    assert len(TUTORIALS) == 18


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda one: one.__name__)
def test_the_import_is_all_that_changes(tutorial):
    allowed = TUTORIALS[tutorial]
    allowed = allowed if isinstance(allowed, dict) else {"atol": allowed, "rtol": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = tutorial(lambda name: getattr(lemmata, name))
        theirs = tutorial(THEIRS.__getitem__)
    np.testing.assert_allclose(flat(ours), flat(theirs), **allowed)
