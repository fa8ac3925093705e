"""Linear classifiers whose distance from the best is known, by the reference solver of truth/penalised.py."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC

import lemmata
from truth.harness import Case, problems
from truth.penalised import Reference, case, is_near, quiet, rows, tampered


@problems(seeds=40)
def classifiers(seed):
    """Logistic regression, linear SVM and SGD of two classes: every penalty, whoever pays for the intercept; early, changed."""
    X, score, w, rng = rows(200 + seed, n=150, d=8, spread=[0.0, 1.5][seed % 2])
    y = np.where(score - np.median(score) + 0.7 * rng.logistic(size=len(X)) > 0, 1, -1)
    C = 10.0 ** rng.uniform(-2, 2)
    weights = {-1: 2.0, 1: 0.5} if seed % 2 else None
    s = (np.ones(len(X)) if w is None else w) * (
        1.0 if weights is None else np.where(y > 0, 0.5, 2.0)
    )
    shared = {"C": C, "class_weight": weights}
    models = {
        "lbfgs": (LogisticRegression(**shared, tol=1e-8, max_iter=5000), "logistic", 0.0, None),
        "lbfgs, 3 steps": (LogisticRegression(**shared, max_iter=3), "logistic", 0.0, None),
        "newton": (
            LogisticRegression(**shared, solver="newton-cholesky", tol=1e-8),
            "logistic",
            0.0,
            None,
        ),
        "liblinear": (
            LogisticRegression(
                **shared, solver="liblinear", tol=1e-8, max_iter=5000, intercept_scaling=2.0
            ),
            "logistic",
            0.0,
            2.0,
        ),
        "liblinear, l1": (
            LogisticRegression(**shared, solver="liblinear", l1_ratio=1.0, tol=1e-8, max_iter=5000),
            "logistic",
            1.0,
            1.0,
        ),
        "saga, 2 passes": (
            LogisticRegression(
                **shared, solver="saga", l1_ratio=1.0, max_iter=2, random_state=seed
            ),
            "logistic",
            1.0,
            None,
        ),
        "ours": (lemmata.LogisticRegression(**shared), "logistic", 0.0, None),
        "ours, l1": (lemmata.LogisticRegression(**shared, l1_ratio=1.0), "logistic", 1.0, None),
        "svm": (
            LinearSVC(**shared, dual=False, tol=1e-8, max_iter=20_000),
            "squared_hinge",
            0.0,
            1.0,
        ),
        "svm, dual, 2 passes": (
            LinearSVC(**shared, dual=True, max_iter=2, random_state=seed),
            "squared_hinge",
            0.0,
            1.0,
        ),
        "svm, hinge": (
            LinearSVC(**shared, loss="hinge", tol=1e-8, max_iter=200_000, random_state=seed),
            "hinge",
            0.0,
            1.0,
        ),
        "svm, hinge, 3 passes": (
            LinearSVC(**shared, loss="hinge", max_iter=3, random_state=seed),
            "hinge",
            0.0,
            1.0,
        ),
    }
    for label, (model, loss, ratio, bias) in models.items():
        if label == "saga, 2 passes" and seed % 4:
            continue
        model = quiet(lambda model=model: model.fit(X, y, sample_weight=w))
        ref = Reference(X, y, C * s, loss, ratio, 1.0 - ratio, bias=bias)
        yield from _classifier_cases(label, model, ref, bias, X, y, w, rng)
    alpha = 1 / (C * len(X))
    for loss, name in (("log_loss", "logistic"), ("squared_hinge", "squared_hinge")):
        sgd = SGDClassifier(
            loss=loss, alpha=alpha, class_weight=weights, average=bool(seed % 2), random_state=seed
        )
        sgd = quiet(lambda sgd=sgd: sgd.fit(X, y, sample_weight=w))
        ref = Reference(X, y, s / len(X), name, 0.0, alpha)
        yield from _classifier_cases(f"sgd, {loss}", sgd, ref, None, X, y, w, rng)


def _classifier_cases(label, model, ref, bias, X, y, w, rng):
    least = null = np.nan
    for size in (0.0, 0.3):
        coef = model.coef_ * (1 + size * rng.random(model.coef_.shape))
        other = tampered(model, coef_=coef) if size else model
        weights, b = np.float64(coef[0]), float(np.ravel(model.intercept_)[0])
        if bias is not None:
            weights, b = np.r_[weights, b / bias], 0.0
        if not size:
            # a fit that diverged is no place to start from
            start = weights if ref.value(weights, b) < ref.value(0 * weights) else 0 * weights
            least, null = ref.least(start), ref.null()
        value = ref.value(weights, b)
        yield from case(
            label if not size else f"{label}, changed", other, X, y, w, is_near(value, least, null)
        )


@problems(seeds=20, quick=1)
def several_classes(seed):
    """Softmax regression: converged, stopped early and changed, with and without weights."""
    X, _, w, rng = rows(300 + seed, n=150, d=5, spread=[0.0, 1.5][seed % 2])
    k = 3 + seed % 2
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.argmax(Z @ rng.standard_normal((5, k)) + 1.5 * rng.gumbel(size=(150, k)), axis=1)
    C = 10.0 ** rng.uniform(-2, 2)
    s = C * (np.ones(150) if w is None else w)
    own = np.eye(k)[y]

    def value(W, b):
        f = X @ W.T + b
        return s @ (logsumexp(f, axis=1) - (f * own).sum(axis=1)) + 0.5 * (W * W).sum()

    size = X.std(axis=0)

    def function(v):
        W, b = v[: 5 * k].reshape(k, 5) / size, v[5 * k :]
        f = X @ W.T + b
        U = s[:, None] * (np.exp(f - logsumexp(f, axis=1, keepdims=True)) - own)
        return value(W, b), np.r_[((U.T @ X + W) / size).ravel(), U.sum(axis=0)]

    best = np.zeros(6 * k)
    for _ in range(4):
        best = minimize(
            function,
            best,
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": 20_000,
                "maxfun": 40_000,
                "ftol": 1e-16,
                "gtol": 1e-12,
                "maxcor": 40,
            },
        ).x
    least = function(best)[0]
    shares = np.array([s[y == c].sum() for c in range(k)]) / s.sum()
    null = -s.sum() * (shares[shares > 0] @ np.log(shares[shares > 0]))
    models = {
        "lbfgs": LogisticRegression(C=C, tol=1e-8, max_iter=5000),
        "3 steps": LogisticRegression(C=C, max_iter=3),
        "ours": lemmata.LogisticRegression(C=C),
    }
    for label, model in models.items():
        model = quiet(lambda model=model: model.fit(X, y, sample_weight=w))
        yield from case(
            label, model, X, y, w, is_near(value(model.coef_, model.intercept_), least, null)
        )
        other = tampered(model, coef_=model.coef_ * (1 + 0.3 * rng.random(model.coef_.shape)))
        yield from case(
            f"{label}, changed",
            other,
            X,
            y,
            w,
            is_near(value(other.coef_, other.intercept_), least, null),
        )


@problems(seeds=24, quick=1)
def near_copies(seed):
    """Without a penalty: two columns that differ by 10⁻³ to 10⁻¹⁰ of what the classes depend on."""
    rng = np.random.default_rng(2000 + seed)
    size, n, k = 10.0 ** -(3 + seed % 8), [150, 600][seed % 2], 2 + seed % 2
    x, z = rng.standard_normal((2, n))
    y = np.digitize(z + rng.standard_normal(n), [0.0] if k == 2 else [-0.5, 0.5])
    X = np.column_stack([x, x + size * z])
    same = np.column_stack([x, (X[:, 1] - x) / size])  # the same predictions are possible

    def objective(model, rows):
        return -np.log(model.predict_proba(rows)[np.arange(n), y]).sum()

    least = objective(quiet(lambda: LogisticRegression(C=np.inf, tol=1e-9).fit(same, y)), same)
    for library in (LogisticRegression, lemmata.LogisticRegression):
        model = quiet(lambda library=library: library(C=np.inf).fit(X, y))
        excess = objective(model, X) / least - 1
        if not 5e-4 < excess < 2e-3:
            found = lemmata.certify(model, X, y)
            yield Case(f"{library.__module__}, {size:g}", found, {"near_optimum": excess <= 1e-3})
