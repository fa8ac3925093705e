"""Support vector machines whose optimum is known: solved again to eight digits, and judged by formulas written out here."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC, SVR

import lemmata
from lemmata.predict.kernels import RBF, Polynomial
from truth.harness import Case, problems

WITHIN = 1.01  # "within 1 %"
MOVED = "a vector moved"
SWAPPED = "predicts by another kernel"


def clouds(n: int, classes: int, seed: int, apart: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping clouds, the classes of unequal size."""
    rng = np.random.default_rng(seed)
    centres = apart * rng.standard_normal((classes, 3))
    y = np.sort(rng.choice(classes, size=n, p=np.arange(1, classes + 1) / sum(range(classes + 1))))
    y[:classes] = np.arange(classes)
    order = rng.permutation(n)
    return (centres[y] + rng.standard_normal((n, 3)))[order], y[order]


def curve(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    return X, 3 * np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n)


def kernel_of(model: Any, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    if model.kernel == "linear":
        return A @ B.T
    if model.kernel == "poly":
        return (model.gamma * A @ B.T + model.coef0) ** model.degree
    return np.exp(-model.gamma * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def quiet(model: Any, X: Any, y: np.ndarray, weights: np.ndarray | None = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y, sample_weight=weights)


def tampered(model: Any, **changes: Any) -> Any:
    model = copy.deepcopy(model)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def hinge_objectives(model: Any, X: np.ndarray, y: np.ndarray, C: np.ndarray) -> list[float]:
    """½‖w‖² + Σ C (1 − y f)₊ of every pair, from support_vectors_, dual_coef_, intercept_."""
    k, S = len(model.classes_), model.support_vectors_
    S = S.toarray() if sp.issparse(S) else S
    coef = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    ends = np.r_[0, np.cumsum(model.n_support_)]
    found, at = [], 0
    for i in range(k):
        for j in range(i + 1, k):
            ours = np.r_[ends[i] : ends[i + 1], ends[j] : ends[j + 1]]
            beta = np.r_[coef[j - 1, ends[i] : ends[i + 1]], coef[i, ends[j] : ends[j + 1]]]
            pair = (y == i) | (y == j)
            f = kernel_of(model, X[pair], S[ours]) @ beta + model.intercept_[at]
            sign = np.where(y[pair] == (1 if k == 2 else i), 1, -1)
            norm = beta @ kernel_of(model, S[ours], S[ours]) @ beta
            found.append(0.5 * norm + C[pair] @ np.maximum(1 - sign * f, 0))
            at += 1
    return found


def is_feasible(model: Any, y: np.ndarray, C: np.ndarray) -> bool:
    """Every α in its box and the two sides in balance, to 1e-6; nothing planted here is near that."""
    k, support = len(model.classes_), model.support_
    for i in range(k):
        for j in range(i + 1, k):
            of_i, of_j = y[support] == i, y[support] == j
            sign = -1 if k == 2 else 1  # of class i
            above, below = sign * model.dual_coef_[j - 1, of_i], -sign * model.dual_coef_[i, of_j]
            for alpha, box in ((above, C[support[of_i]]), (below, C[support[of_j]])):
                if alpha.min(initial=0) < -1e-6 or (alpha > box * (1 + 1e-6)).any():
                    return False
            if abs(above.sum() - below.sum()) > 1e-6 * (above.sum() + below.sum()):
                return False
    return True


def healthy(kind: Any, settings: dict[str, Any], seed: int) -> Any:
    """Ours and scikit-learn's in turn, once ours is there."""
    ours = getattr(lemmata, kind.__name__, None) if seed % 2 else None
    return (ours or kind)(**settings)


SETTINGS: tuple[dict[str, Any], ...] = (
    {"kernel": "rbf", "gamma": 0.3, "C": 1.0},
    {"kernel": "linear", "gamma": 1.0, "C": 0.5},
    {"kernel": "poly", "gamma": 0.4, "C": 2.0, "degree": 2, "coef0": 1.0},
    {"kernel": "rbf", "gamma": 2.0, "C": 50.0},
)


def broken_machines(model: Any, early: Any) -> Iterator[tuple[str, Any, dict[str, bool]]]:
    """Fits with one thing wrong, and what is then true besides the optimum."""
    sound = {"attributes_sound": True, "statements_true": True}
    only_sound = {"attributes_sound": True}  # the intercept may or may not be that of these numbers
    yield "as it is", model, {**sound, "feasible": True, "slackness": True}
    yield "stopped early", early, {**sound, "feasible": True}
    yield (
        "another intercept",
        tampered(model, intercept_=model.intercept_ + 0.7),
        {**sound, "statements_true": False, "feasible": True, "slackness": False},
    )
    yield "half the C", tampered(model, C=model.C / 2), only_sound
    one = model.dual_coef_.copy()
    one[0, 0] *= -1
    yield "a sign turned", tampered(model, dual_coef_=one), only_sound
    yield "larger coefficients", tampered(model, dual_coef_=1.3 * model.dual_coef_), only_sound
    yield (
        "a NaN",
        tampered(model, dual_coef_=model.dual_coef_ * np.nan),
        {"attributes_sound": False},
    )
    yield "a vector too few", tampered(model, support_=model.support_[1:]), {"attributes_sound": False}  # fmt: skip
    moved = model.support_vectors_.copy()
    moved[0] += 0.5
    yield MOVED, tampered(model, support_vectors_=moved), {**sound, "statements_true": False}  # fmt: skip
    if hasattr(model, "kernel_"):
        status = {**sound, "statements_true": False}
        # no optimality is violated by ten times tol, and to say so is not open to rounding
        yield "another status", tampered(model, tol=10 * model.tol, fit_status_=1), status
        for kernel in (RBF(40.0), Polynomial(3, model.gamma, model.coef0)):
            other = tampered(model, kernel_=kernel)
            yield SWAPPED, other, {**sound, "statements_true": False, "near_optimum": False}


@problems(seeds=40, quick=2)
def classifiers(seed):
    """Two to four classes, four kernels, weights of rows and classes; healthy, stopped early and tampered with."""
    X, y = clouds(90, 2 + seed % 3, seed)
    settings = SETTINGS[seed % 4]
    weights = np.random.default_rng(seed).integers(1, 4, 90) / 2.0 if seed % 5 == 1 else None
    factors = {0: 2.0, 1: 0.5} if seed % 5 == 2 else None
    settings = {**settings, "class_weight": factors}
    model = quiet(healthy(SVC, settings, seed), X, y, weights)
    early = quiet(SVC(**settings, max_iter=3), X, y, weights)
    best = quiet(SVC(**settings, tol=1e-8), X, y, weights)
    s = np.ones(90) if weights is None else weights
    s = s if factors is None else s * np.array([factors.get(one, 1.0) for one in y])
    for label, one, truths in broken_machines(model, early):
        easy = set(truths)
        if truths["attributes_sound"] and label not in (MOVED, SWAPPED):
            C = one.C * s
            least = hinge_objectives(
                best if one.C == best.C else quiet(SVC(**{**settings, "C": one.C}, tol=1e-8), X, y, weights), X, y, C,
            )  # fmt: skip
            values = hinge_objectives(one, X, y, C)
            excess = max(a / b for a, b in zip(values, least, strict=True))
            truths = truths | {"near_optimum": excess <= WITHIN, "feasible": is_feasible(one, y, C)}
            if not 0.98 < (excess - 1) / (WITHIN - 1) < 1.02:
                easy.add("near_optimum")
        yield Case(label, lemmata.certify(one, X, y, sample_weight=weights), truths, easy=easy)


@problems(seeds=12, quick=1)
def weightless(seed):
    """Coefficients of rows whose weight is said to be 0: no fit with these weights has them."""
    X, y = clouds(80, 2 + seed % 2, seed)
    model = lemmata.SVC(C=1.0).fit(X, y)
    weights = np.ones(80)
    weights[model.support_[: 1 + seed % 3]] = 0.0
    no = {"feasible": False}
    yield Case("said to be 0", lemmata.certify(model, X, y, weights), no, easy=no)
    one = lemmata.SVC(C=1.0).fit(X, y, sample_weight=weights)
    yes = {"feasible": True, "near_optimum": True, "slackness": True}
    yield Case("fitted so", lemmata.certify(one, X, y, weights), yes, easy=yes)


def tube_objective(model: Any, X: np.ndarray, y: np.ndarray, C: np.ndarray) -> float:
    beta, S = model.dual_coef_[0], model.support_vectors_
    f = kernel_of(model, X, S) @ beta + model.intercept_[0]
    norm = beta @ kernel_of(model, S, S) @ beta
    return float(0.5 * norm + C @ np.maximum(np.abs(y - f) - model.epsilon, 0))


@problems(seeds=24, quick=2)
def regressors(seed):
    """ε-insensitive regression, likewise."""
    X, y = curve(90, seed)
    settings = {**SETTINGS[seed % 4], "epsilon": [0.1, 0.5, 0.0][seed % 3]}
    weights = np.random.default_rng(seed).integers(1, 4, 90) / 2.0 if seed % 5 == 1 else None
    model = quiet(healthy(SVR, settings, seed), X, y, weights)
    early = quiet(SVR(**settings, max_iter=3), X, y, weights)
    s = np.ones(90) if weights is None else weights
    for label, one, truths in broken_machines(model, early):
        if label == "another intercept":  # a tube may leave it open where no β is inside its box
            truths = {"attributes_sound": True}
        easy = set(truths)
        if truths["attributes_sound"] and label not in (MOVED, SWAPPED):
            best = quiet(SVR(**{**settings, "C": one.C}, tol=1e-8), X, y, weights)
            value, least = (tube_objective(part, X, y, one.C * s) for part in (one, best))
            beta, box = one.dual_coef_[0], one.C * s[one.support_]
            inside = np.abs(beta) <= box * (1 + 1e-6)
            balanced = abs(beta.sum()) <= 1e-6 * np.abs(beta).sum()
            feasible = bool(inside.all() and balanced)
            truths = truths | {"near_optimum": value <= WITHIN * least, "feasible": feasible}
            easy.add("near_optimum")
        yield Case(label, lemmata.certify(one, X, y, sample_weight=weights), truths, easy=easy)


@problems(seeds=12, quick=1)
def loose_tolerances(seed):
    """Machines stopped at every stage: on the way the excess passes 1 %, and no verdict may be on the wrong side."""
    X, y = clouds(300, 2, seed, apart=1.0)
    settings = SETTINGS[seed % 4]
    best = hinge_objectives(quiet(SVC(**settings, tol=1e-8), X, y), X, y, np.full(300, settings["C"]))[0]  # fmt: skip
    for steps in (1, 10, 30, 60, 100, 150, 200, 300, 500, 1000):
        model = quiet(SVC(**settings, max_iter=steps), X, y)
        value = hinge_objectives(model, X, y, np.full(300, settings["C"]))[0]
        truths = {"near_optimum": value <= WITHIN * best}
        yield Case(f"{steps} steps", lemmata.certify(model, X, y), truths)


@problems(seeds=12, quick=1)
def no_kernels(seed):
    """Sigmoid and other functions that are no kernels; K given, callable and sparse rows; many and few support vectors."""
    X, y = clouds(120, 2 + seed % 2, seed)
    yes = {"mercer": True, "near_optimum": True, "statements_true": True, "feasible": True}
    sigmoid = SVC(kernel="sigmoid", gamma=0.5, coef0=-1.0).fit(X, y)
    yield Case("sigmoid", lemmata.certify(sigmoid, X, y), {"mercer": False}, easy=("mercer",))
    negative = SVC(kernel="poly", degree=2, coef0=-5.0, gamma=1.0, max_iter=5000)
    negative = lemmata.certify(quiet(negative, X, y), X, y)
    yield Case("poly, coef0 < 0", negative, {"mercer": False}, easy=("mercer",))
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    given = SVC(kernel="precomputed").fit(K, y)
    yield Case("K given", lemmata.certify(given, K, y), yes, easy=yes)
    skew = K + 0.01 * np.triu(np.ones_like(K), 1)
    yield Case("K not symmetric", lemmata.certify(given, skew, y), {"mercer": False}, easy=("mercer",))  # fmt: skip
    asked = SVC(kernel=linear_of_matrices).fit(X, y)
    yield Case("a function", lemmata.certify(asked, X, y), yes, easy=yes)
    rows = sp.csr_matrix(np.where(np.abs(X) > 0.5, X, 0))
    sparse = SVC(C=2.0).fit(rows, y)
    yield Case("sparse rows", lemmata.certify(sparse, rows, y), yes, easy=yes)
    name = "few_support_vectors"
    far, two = clouds(100, 2, seed, apart=1.0)
    far[two == 1] += 6
    few, many = SVC(kernel="linear").fit(far, two), SVC(gamma=50.0).fit(X, y)
    yield Case("far apart", lemmata.certify(few, far, two), {name: True}, easy=(name,))
    shown = lemmata.certify(many, X, y)
    assert "scale the columns" not in shown[name].advice  # they have one scale
    yield Case("each row alone", shown, {name: False}, easy=(name,))
    wide = X * np.r_[1e-2, np.full(X.shape[1] - 1, 30.0)]
    shown = lemmata.certify(SVC(gamma=1.0).fit(wide, y), wide, y)
    assert "scale the columns" in shown[name].advice
    yield Case("columns of two scales", shown, {name: False}, easy=(name,))


def linear_of_matrices(A, B):
    return A @ B.T
