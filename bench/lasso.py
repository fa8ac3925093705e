"""Lasso against scikit-learn, celer and skglm: whole paths and one λ, dense and sparse, to the same duality gap; small data.

./run bench lasso

Quality is −log10 of the largest duality gap relative to ‖y‖²/2n, over ten λ's of the path.

LassoCV and ElasticNetCV on 1,000 × 60: 500 problems of some 40 µs each, one guess of signs and one system of equations by
NumPy; to load kernels takes longer than such a fit.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import sklearn.linear_model as sk
from sklearn.datasets import load_diabetes

import lemmata
from bench.helpers.harness import compare, milliseconds, run_quietly
from lemmata.predict.lasso.estimator import Lasso
from lemmata.predict.lasso.path import lasso_path

TOL = 1e-6
# scikit-learn's rule is a gap of tol·‖y‖²/n, twice the unit here; celer's misses it by up to 3.4 on sparse columns
LEAST_QUALITY = 5.4


def dense(n=10_000, d=5_000, nonzero=100, seed=0):
    """Columns that correlate with their neighbours by ½, a sparse truth, signal to noise 3; centred."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d), dtype=np.float32).astype(np.float64)
    for j in range(1, d):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    w = np.zeros(d)
    w[rng.choice(d, nonzero, replace=False)] = rng.standard_normal(nonzero)
    y = X @ w
    y += rng.standard_normal(n) * y.std() / 3
    return np.asfortranarray(X - X.mean(0)), y - y.mean()


def words(n=10_000, d=5_000, per_row=50, nonzero=100, seed=0):
    """Sparse columns whose frequencies follow Zipf's law, as words do."""
    rng = np.random.default_rng(seed)
    column = np.minimum(np.exp(rng.random(n * per_row) * np.log(d)).astype(np.int64), d) - 1
    rows = np.repeat(np.arange(n), per_row)
    X = sp.coo_matrix((rng.random(n * per_row), (rows, column)), (n, d)).tocsc()
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    w = np.zeros(d)
    w[rng.choice(d // 4, nonzero, replace=False)] = rng.standard_normal(nonzero)
    y = X @ w
    y += rng.standard_normal(n) * y.std() / 3
    return X, y - y.mean()


def digits_of_gap(X, y, alphas, coefs):
    """−log10 of the largest relative gap, from a dual point that is the scaled residual."""
    n, worst = len(y), 1e-16
    for j in np.unique(np.linspace(0, len(alphas) - 1, 10).astype(int)):
        a, w = alphas[j], coefs[:, j]
        r = y - X @ w
        primal = r @ r / (2 * n) + a * np.abs(w).sum()
        theta = r / max(n * a, np.abs(X.T @ r).max())
        dual = (y @ y) / (2 * n) - n * a * a / 2 * np.sum((theta - y / (n * a)) ** 2)
        worst = max(worst, (primal - dual) / (y @ y / (2 * n)))
    return -np.log10(worst)


def paths(name, X, y, alphas, target):
    """50 λ's down to λ_max / 100."""
    from celer import celer_path
    from skglm import Lasso as SkglmLasso

    systems = {
        "lemmata": lambda: lasso_path(X, y, alphas=alphas, tol=TOL)[1],
        "scikit-learn": lambda: sk.lasso_path(
            X, y, alphas=alphas, precompute="auto" if not sp.issparse(X) else False, tol=TOL, max_iter=10_000
        )[1],
        "celer": lambda: celer_path(X, y, "lasso", alphas=alphas, tol=TOL)[1],
        "skglm": lambda: SkglmLasso(fit_intercept=False, tol=TOL).path(X, y, alphas)[1],
    }  # fmt: skip
    compare(
        f"Lasso path, {name}, 50 λ's to 0.01 λ_max", systems, lambda c: digits_of_gap(X, y, alphas, c),
        target=target, least_quality=LEAST_QUALITY, rounds=3,
    )  # fmt: skip


def one(name, X, y, alpha, target):
    """One λ from nothing, with the certificate of our fit."""
    from celer import Lasso as CelerLasso
    from skglm import Lasso as SkglmLasso

    fixed = {"alpha": alpha, "fit_intercept": False, "tol": TOL}
    systems = {
        "lemmata": lambda: Lasso(**fixed).fit(X, y).coef_,
        "scikit-learn": lambda: sk.Lasso(**fixed, max_iter=10_000).fit(X, y).coef_,
        "celer": lambda: CelerLasso(**fixed).fit(X, y).coef_,
        "skglm": lambda: SkglmLasso(**fixed).fit(X, y).coef_,
    }
    compare(
        f"Lasso, {name}, one λ = 0.05 λ_max",
        systems,
        lambda w: digits_of_gap(X, y, np.array([alpha]), np.asarray(w).reshape(-1, 1)),
        target=target,
        least_quality=LEAST_QUALITY,
    )


def cross_validated(model, n, d, nonzero, target):
    """Five folds of 100 λ's; quality is minus the least mean error found, as a share of the largest."""
    X, y = dense(n, d, nonzero=nonzero)
    systems = {
        "lemmata": lambda: getattr(lemmata, model)(cv=5).fit(X, y),
        "scikit-learn": lambda: getattr(sk, model)(cv=5, n_jobs=2).fit(X, y),
        "scikit-learn, one job": lambda: getattr(sk, model)(cv=5).fit(X, y),
    }

    def least(fit):
        mean = fit.mse_path_.mean(axis=1)
        return -mean.min() / mean.max()

    compare(f"{model}, {n:,} × {d:,}, 5 folds × 100 λ's", systems, least, target=target, rounds=3)


def small():
    """Diabetes, warm, by the best of one second; the limit is 1.2 times scikit-learn's, without the certificate."""
    X, y = load_diabetes(return_X_y=True)
    pairs = {
        "Lasso alpha=1": (lambda: Lasso(1.0).fit(X, y), lambda: sk.Lasso(1.0).fit(X, y)),
        "Lasso alpha=0.01": (lambda: Lasso(0.01).fit(X, y), lambda: sk.Lasso(0.01).fit(X, y)),
        "LassoCV": (lambda: lemmata.LassoCV().fit(X, y), lambda: sk.LassoCV().fit(X, y)),
        "lasso_path": (lambda: lasso_path(X, y), lambda: sk.lasso_path(X, y)),
    }
    print("diabetes, 442 × 10, warm, the best of one second (limit 1.2x without the certificate)")
    for name, (ours, theirs) in pairs.items():

        def bare(ours=ours):
            with lemmata.config(certificate=False):
                ours()

        t = run_quietly(
            lambda o=ours, p=theirs, b=bare: milliseconds({"peer": p, "bare": b, "ours": o})
        )
        print(
            f"  {name:<20} scikit-learn {t['peer']:7.2f} ms   lemmata {t['bare']:7.2f} ms "
            f"{t['bare'] / t['peer']:5.2f}x   certified {t['ours']:7.2f} ms"
        )
    print(flush=True)


def main() -> None:
    small()
    for name, make, target in (
        ("dense 10,000 × 5,000", dense, 1.5),
        ("sparse 10,000 × 5,000, 0.4M entries", words, 3.0),
    ):
        X, y = make()
        largest = float(np.abs(X.T @ y).max() / len(y))
        one(name, X, y, 0.05 * largest, target=2.0)
        paths(name, X, y, largest * np.geomspace(1, 1e-2, 50), target)
    for model in ("LassoCV", "ElasticNetCV"):
        cross_validated(model, 1_000, 60, 20, target=1.0)
        cross_validated(model, 2_000, 1_000, 30, target=1.5)


if __name__ == "__main__":
    main()
