"""Penalised linear fits whose distance from the best is known: a slow reference solver says what the least objective is.

The reference shares nothing with the checks: the objective is written out here once more, ℓ1 as w = p − q with p, q ≥ 0, and
minimised by SciPy's L-BFGS-B to the last digits (the hinge by its dual in a box, the absolute loss by a linear programme).
Cases within a tenth of the bound are left out: there the reference itself would have to be exact.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import (
    ElasticNet,
    HuberRegressor,
    QuantileRegressor,
    Ridge,
)

import lemmata
from truth.harness import Case, problems

NEAR, LEAST = 1e-3, 1e-3
Array = np.ndarray


def tampered(model, **changes):
    model = copy.deepcopy(model)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def quiet(fit: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit()


# --- the reference ----------------------------------------------------------------------------------------------------


class Reference:
    """min Σ s ℓ(Xw + b) + l1‖w‖₁ + ½ l2‖w‖², one output; `bias`: the intercept is one more penalised column of this value."""

    def __init__(self, X, y, s, loss, l1=0.0, l2=0.0, intercept=True, bias=None, positive=False):
        X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
        self.X = X if bias is None else np.column_stack([X, np.full(len(X), bias)])
        self.y, self.s, self.loss, self.l1, self.l2 = y, s, loss, l1, l2
        self.b, self.positive = intercept and bias is None, positive

    def risk(self, f):
        if self.loss == "squared":
            return self.s @ (0.5 * (f - self.y) ** 2), self.s * (f - self.y)
        m = self.y * f
        if self.loss == "logistic":
            return self.s @ np.logaddexp(0, -m), -self.s * self.y * expit(-m)
        z = np.maximum(1 - m, 0)
        if self.loss == "squared_hinge":
            return self.s @ z**2, -2 * self.s * self.y * z
        return self.s @ z, None

    def value(self, w, b=0.0):
        return self.risk(self.X @ w + b)[0] + self.l1 * np.abs(w).sum() + 0.5 * self.l2 * w @ w

    def least(self, start) -> float:
        if self.loss == "hinge":
            return self._hinge_dual()
        d = self.X.shape[1]
        # columns of length 1, so that the reference does not stall
        size = np.sqrt((self.X**2).sum(axis=0)) + 1e-12
        Z = self.X / size

        def function(v):
            w, b = v[:d] - v[d : 2 * d], v[2 * d] if self.b else 0.0
            value, u = self.risk(Z @ w + b)
            g = Z.T @ u + self.l2 * w / size**2
            value += (
                0.5 * self.l2 * (w / size) @ (w / size)
                + self.l1 * ((v[:d] + v[d : 2 * d]) / size).sum()
            )
            slope = np.r_[g + self.l1 / size, -g + self.l1 / size]
            return value, np.r_[slope, u.sum()] if self.b else slope

        first = start[: len(size)] * size
        best = np.r_[np.maximum(first, 0), np.maximum(-first, 0), [0.0] * self.b]
        bounds = (
            [(0, None)] * d + [(0, 0) if self.positive else (0, None)] * d + [(None, None)] * self.b
        )
        for _ in range(6):
            best = minimize(
                function,
                best,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={
                    "maxiter": 20_000,
                    "maxfun": 40_000,
                    "ftol": 1e-16,
                    "gtol": 1e-13,
                    "maxcor": 50,
                },
            ).x
        return float(function(best)[0])

    def _hinge_dual(self) -> float:
        """max Σα − ‖Xᵀ(αy)‖²/2λ₂ over 0 ≤ α ≤ s."""
        A = self.X * self.y[:, None] / np.sqrt(self.l2)

        def function(a):
            w = A.T @ a
            return 0.5 * w @ w - a.sum(), A @ w - 1

        a = np.minimum(self.s, 0.5)
        for _ in range(6):
            a = minimize(
                function,
                a,
                jac=True,
                method="L-BFGS-B",
                bounds=[(0, t) for t in self.s],
                options={
                    "maxiter": 20_000,
                    "maxfun": 40_000,
                    "ftol": 1e-16,
                    "gtol": 1e-12,
                    "maxcor": 50,
                },
            ).x
        return -float(function(a)[0])

    def null(self) -> float:
        if not self.b:
            return float(self.risk(np.zeros(len(self.X)))[0])
        return float(
            minimize(lambda t: self.risk(np.full(len(self.X), t[0]))[0], [0.0], tol=1e-12).fun
        )


def is_near(value: float, least: float, null: float) -> bool | None:
    """The truth of near_optimum; None within a tenth of the bound."""
    share = (value - least) / max(least, LEAST * null)
    return None if 0.9 * NEAR < share < 1.1 * NEAR else bool(share <= NEAR)


def case(label: str, model, X, y, w, truth: bool | None, **more) -> Iterator[Case]:
    if truth is not None:
        found = lemmata.certify(model, X, y, w, seconds=20)
        yield Case(
            label,
            found,
            {"near_optimum": truth, "attributes_sound": True, **more},
            easy=("near_optimum",),
        )


def rows(seed: int, n: int = 120, d: int = 12, spread: float = 1.0):
    """Correlated columns of different units, with a few that matter; weights on every third seed."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ (np.eye(d) + 0.4 * rng.standard_normal((d, d)))
    X = X * np.exp(spread * rng.standard_normal(d)) + rng.standard_normal(d)
    score = X[:, :3] @ (rng.standard_normal(3) / X[:, :3].std(axis=0))
    w = rng.integers(0, 4, n) + 0.0 if seed % 3 == 2 else None
    return X, score, w, rng


# --- suites -----------------------------------------------------------------------------------------------------------


@problems(seeds=60, quick=2)
def lasso_fits(seed):
    """Lasso and elastic net of scikit-learn and ours, converged and stopped early, changed, and judged at another penalty."""
    X, score, w, rng = rows(seed, n=[120, 40][seed % 2], d=[12, 60][seed % 2])
    y = score + rng.standard_normal(len(X)) + 3
    s = np.ones(len(X)) if w is None else w
    centred = y - s @ y / s.sum()
    ratio, positive = [1.0, 0.5, 0.9][seed % 3], seed % 5 == 4
    largest = np.abs((X - s @ X / s.sum()).T @ (s * centred)).max() / s.sum() / ratio
    alpha = largest * [0.5, 0.1, 0.01][seed // 2 % 3]
    if seed % 4 == 3:
        X = sp.csr_array(np.where(rng.random(X.shape) < 0.3, X, 0.0))
    kinds = [ElasticNet, lemmata.ElasticNet][seed % 2]
    settings = {"alpha": alpha, "l1_ratio": ratio, "positive": positive}
    ref = Reference(
        X, y, s / s.sum(), "squared", alpha * ratio, alpha * (1 - ratio), positive=positive
    )
    good = quiet(lambda: kinds(**settings, tol=1e-8, max_iter=50_000).fit(X, y, sample_weight=w))
    least, null = ref.least(good.coef_), ref.null()

    def truth(model, problem=ref, best=None):
        return is_near(
            problem.value(np.asarray(model.coef_), model.intercept_),
            least if best is None else best,
            null,
        )

    yield from case("converged", good, X, y, w, truth(good))
    for steps in (1, 2, 4):
        early = quiet(
            lambda steps=steps: ElasticNet(**settings, max_iter=steps).fit(X, y, sample_weight=w)
        )
        yield from case(f"{steps} sweeps", early, X, y, w, truth(early))
    for size in (1e-3, 0.01, 0.1):
        other = tampered(good, coef_=good.coef_ * (1 + size * rng.random(len(good.coef_))))
        yield from case(f"weights up to {size:g} off", other, X, y, w, truth(other))
    other = tampered(good, intercept_=good.intercept_ + 0.2 * np.abs(centred).mean())
    yield from case("another intercept", other, X, y, w, truth(other))
    twice = Reference(
        X, y, s / s.sum(), "squared", 2 * alpha * ratio, 2 * alpha * (1 - ratio), positive=positive
    )
    other = tampered(good, alpha=2 * alpha)
    yield from case(
        "twice the penalty", other, X, y, w, truth(other, twice, twice.least(good.coef_))
    )
    if w is not None:
        plain = Reference(
            X,
            y,
            np.full(len(y), 1 / len(y)),
            "squared",
            alpha * ratio,
            alpha * (1 - ratio),
            positive=positive,
        )
        yield from case(
            "without its weights", good, X, y, None, truth(good, plain, plain.least(good.coef_))
        )


@problems(seeds=40, quick=2)
def ridge_fits(seed):
    """Ridge by exact and by hurried solvers, over fourteen orders of the penalty, in both float types."""
    X, score, w, rng = rows(100 + seed, n=[80, 30][seed % 2], d=[10, 50][seed % 2])
    y = score + rng.standard_normal(len(X)) + 3
    s = np.ones(len(X)) if w is None else w
    alpha = 10.0 ** rng.uniform(-6, 4)
    single = seed % 4 == 1
    Z, t = (X.astype(np.float32), y.astype(np.float32)) if single else (X, y)
    root = np.sqrt(s)
    Xc, yc = np.float64(Z) - s @ np.float64(Z) / s.sum(), t - s @ t / s.sum()
    A = np.vstack([Xc * root[:, None], np.sqrt(alpha) * np.eye(X.shape[1])])
    best = np.linalg.lstsq(A, np.r_[yc * root, np.zeros(X.shape[1])], rcond=None)[0]
    ref = Reference(Z, t, s, "squared", 0.0, alpha)
    b = float(s @ (t - np.float64(Z) @ best) / s.sum())
    least, null = ref.value(best, b), ref.null()
    solver = ["svd", "cholesky", "lsqr"][seed % 3]
    models = {
        solver: Ridge(alpha, solver=solver, tol=1e-10),
        "ours": lemmata.Ridge(alpha),
        "sag, 2 passes": Ridge(alpha, solver="sag", max_iter=2, random_state=seed),
        "conjugate gradients, 2 steps": Ridge(alpha, solver="sparse_cg", max_iter=2),
    }
    for label, model in models.items():
        model = quiet(lambda model=model: model.fit(Z, t, sample_weight=w))
        value = ref.value(np.float64(model.coef_), float(model.intercept_))
        yield from case(label, model, Z, t, w, is_near(value, least, null))
    for size in (1e-3, 0.03, 0.3):
        other = tampered(
            models["ours"],
            coef_=models["ours"].coef_ * np.asarray(1 + size * rng.random(len(best)), Z.dtype),
        )
        value = ref.value(np.float64(other.coef_), float(other.intercept_))
        yield from case(f"weights up to {size:g} off", other, Z, t, w, is_near(value, least, null))


@problems(seeds=30, quick=1)
def robust_fits(seed):
    """Huber's regression with its scale and least absolute deviations, with outliers; early and changed."""
    X, score, w, rng = rows(400 + seed, n=100, d=5, spread=0.5)
    y = score + rng.standard_t(2, len(X)) + 3
    s = np.ones(len(X)) if w is None else w
    alpha, epsilon = [1e-4, 1.0, 0.0][seed % 3], [1.35, 2.0][seed % 2]

    def value(coef, b, sigma):
        z = np.abs(y - X @ coef - b) / sigma
        H = np.where(z < epsilon, z**2, 2 * epsilon * z - epsilon**2)
        return s @ (sigma * (1 + H)) + alpha * coef @ coef

    good = HuberRegressor(epsilon=epsilon, alpha=alpha, tol=1e-10, max_iter=20_000)
    good = quiet(lambda: good.fit(X, y, sample_weight=w))
    size = X.std(axis=0)
    best = np.r_[good.coef_ * size, good.intercept_, np.log(good.scale_)]
    for _ in range(8):
        best = minimize(
            lambda v: value(v[:5] / size, v[5], np.exp(v[6])),
            best,
            method="BFGS",
            options={"gtol": 1e-10},
        ).x
    least = value(best[:5] / size, best[5], np.exp(best[6]))
    null = s @ np.abs(y - np.median(y)) * 2
    early = HuberRegressor(epsilon=epsilon, alpha=alpha, max_iter=2)
    early = quiet(lambda: early.fit(X, y, sample_weight=w))
    ours = lemmata.RobustRegression(epsilon=epsilon, alpha=alpha).fit(X, y, sample_weight=w)
    for label, model in {"converged": good, "2 steps": early, "ours": ours}.items():
        found = value(model.coef_, model.intercept_, model.scale_)
        yield from case(label, model, X, y, w, is_near(found, least, null))
        other = tampered(model, scale_=model.scale_ * 1.5)
        found = value(other.coef_, other.intercept_, other.scale_)
        yield from case(
            f"{label}, another scale",
            other,
            X,
            y,
            w,
            is_near(found, least, null),
            statements_true=False,
        )
    exact = quiet(lambda: QuantileRegressor(quantile=0.5, alpha=0.0).fit(X, y, sample_weight=w))
    least = s @ np.abs(y - exact.predict(X))
    null = s @ np.abs(y - np.median(y))
    model = lemmata.RobustRegression(loss="absolute").fit(X, y, sample_weight=w)
    for change in (0.0, 0.02, 0.3):
        coef = model.coef_ * (1 + change * rng.random(5))
        found = s @ np.abs(y - X @ coef - model.intercept_)
        yield from case(
            f"absolute, up to {change:g} off",
            tampered(model, coef_=coef),
            X,
            y,
            w,
            is_near(found, least, null),
        )
