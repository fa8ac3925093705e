"""Ridge, its leave-one-out path and least squares beside scikit-learn: ./run bench ridge

Quality is minus log10 of the gradient norm relative to that at w = 0 (larger is better), so that rows are compared at equal
accuracy. Sparse least squares: a step of ours and one of LSQR are the same two products of SciPy (400,000 entries in 0.25 and
0.35 ms, 16 GB/s, one core), four fifths of the time, so that neither can be much faster at the same digits. Ours stops at 7, as
the claim normal_equations asks for; scikit-learn's default stops at 6 and is shown, its tol=1e-7 at 7 and counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import linear_model
from sklearn.datasets import load_diabetes, load_wine

import lemmata
from bench.helpers.harness import compare, milliseconds


def correlated(n: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    """AR(1) columns with correlation ½, a sparse truth, signal to noise 3; stored by columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d), dtype=np.float32).astype(np.float64)
    for j in range(1, d):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    w = np.where(rng.random(d) < 100 / d, rng.standard_normal(d), 0.0)
    y = X @ w
    y += rng.standard_normal(n) * y.std() / 3
    return np.asfortranarray(X - X.mean(0)), y - y.mean()


def accuracy(X: Any, y: Any, alpha: float) -> Callable[[Any], float]:
    first = np.linalg.norm(X.T @ (y - y.mean()))

    def digits(model: Any) -> float:
        r = y - model.predict(X)
        return -float(np.log10(np.linalg.norm(X.T @ r - alpha * model.coef_) / first + 1e-17))

    return digits


def bare(make: Callable[[], Any], X: Any, y: Any) -> Callable[[], Any]:
    def fit() -> Any:
        with lemmata.config(certificate=False):
            return make().fit(X, y)

    return fit


def ridge(n: int = 10_000, d: int = 5_000) -> None:
    X, y = correlated(n, d)
    options: dict[str, Any] = {"fit_intercept": False}
    systems: dict[str, Callable[[], Any]] = {
        "lemmata lsqr": bare(
            lambda: lemmata.Ridge(100.0, solver="lsqr", tol=1e-6, **options), X, y
        ),
        "lemmata": bare(lambda: lemmata.Ridge(100.0, **options), X, y),
        "scikit-learn lsqr": lambda: linear_model.Ridge(
            100.0, solver="lsqr", tol=1e-6, **options
        ).fit(X, y),
        "scikit-learn cholesky": lambda: linear_model.Ridge(
            100.0, solver="cholesky", **options
        ).fit(X, y),
    }
    compare(
        f"ridge {n:,} × {d:,}, alpha = 100; quality: digits of the gradient", systems, accuracy(X, y, 100.0),
        ours="lemmata lsqr", target=1.3, rounds=3,
    )  # fmt: skip


def path(n: int, d: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) + np.sqrt(d) * rng.normal(size=n)
    alphas = np.geomspace(1e-2, 1e4, 50)
    systems = {
        "lemmata": bare(lambda: lemmata.RidgeCV(alphas), X, y),
        "scikit-learn": lambda: linear_model.RidgeCV(alphas).fit(X, y),
    }
    compare(
        f"leave-one-out path, 50 alphas, {n:,} × {d:,}; quality: the score of the best", systems,
        lambda model: float(model.best_score_), target=3, rounds=3,
    )  # fmt: skip


def least_squares(X: Any, y: Any, name: str) -> None:
    systems = {
        "lemmata": bare(lemmata.LinearRegression, X, y),
        "scikit-learn": lambda: linear_model.LinearRegression().fit(X, y),
    }
    least = -np.inf
    if sp.issparse(X):
        systems["scikit-learn, tol=1e-7"] = lambda: linear_model.LinearRegression(tol=1e-7).fit(
            X, y
        )
        least = 6.5
    compare(
        f"least squares, {name}; quality: digits of the gradient",
        systems,
        accuracy(X, y, 0.0),
        target=1,
        least_quality=least,
    )


def small_row(model: str, name: str, X: Any, y: Any) -> str:
    ours, theirs = getattr(lemmata, model), getattr(linear_model, model)
    fits = {
        "peer": lambda: theirs().fit(X, y),
        "bare": bare(ours, X, y),
        "ours": lambda: ours().fit(X, y),
    }
    t = milliseconds(fits)
    return (
        f"  {model + ' ' + name:28} scikit-learn {t['peer']:.2f} ms   lemmata {t['bare']:.2f} ms "
        f"({t['bare'] / t['peer']:.2f}x)   certified {t['ours']:.2f} ms"
    )


def small() -> None:
    print("small fits, warm, the best of one second; limit 1.2x without the certificate")
    for name, load in (("diabetes", load_diabetes), ("wine", load_wine)):
        for model in ("LinearRegression", "Ridge", "RidgeCV"):
            print(small_row(model, name, *load(return_X_y=True)), flush=True)
    print(flush=True)


def main() -> None:
    ridge()
    for shape in ((5_000, 500), (20_000, 100), (500, 5_000)):
        path(*shape)
    rng = np.random.default_rng(1)
    for n, d in ((100_000, 20), (10_000, 500)):
        X = rng.normal(size=(n, d))
        least_squares(X, X @ rng.normal(size=d) + rng.normal(size=n), f"{n:,} × {d:,}")
    X = sp.random_array((10_000, 5_000), density=0.008, format="csr", rng=rng)
    least_squares(
        X,
        X @ rng.normal(size=5_000) + rng.normal(size=10_000),
        f"10,000 × 5,000 sparse, {X.nnz:,} entries",
    )
    small()


if __name__ == "__main__":
    main()
