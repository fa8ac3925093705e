"""Kernel machines beside LIBSVM (scikit-learn's SVC, SVR) and KernelRidge, to the same tolerance; small data last.

./run bench svm           some three minutes

The quality of a machine is minus its dual objective, recomputed from its coefficients: larger is better.

The first grid of a process stays behind LIBSVM. Of 1.1 s of CPU on breast cancer (81 fits; LIBSVM 0.6) SMO in NumPy takes
0.4, its kernel matrices 0.1, certificates 0.25, folds and scores, which both have, 0.25; with compiled loops 0.6 are left, but
loading numba takes 1.2. Block pivoting in the place of most steps of SMO was tried: not faster in NumPy within a grid, and
slower than compiled steps.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn import kernel_ridge, svm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV

import lemmata
from bench.helpers.harness import compare, memory, milliseconds, reset_peak, run_quietly
from lemmata.predict.kernel_ridge import KernelRidge
from lemmata.predict.svm.estimators import SVC, SVR


def waves(n: int, d: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """The rows of /work/shared/peers/linear.py: a curved boundary, and noise that makes half of them support vectors."""
    rng = np.random.default_rng(5)
    Z = rng.standard_normal((max(n, 12_000), d))
    t = np.sin(Z[:, 0] * 2) + Z[:, 1] * Z[:, 2] + 0.3 * rng.standard_normal(len(Z)) > 0
    return Z[:n], t[:n]


def dual(model: Any, X: np.ndarray) -> float:
    """Σα − ½βᵀKβ, a thousand rows at a time."""
    beta, S = model.dual_coef_.ravel(), X[model.support_]
    gamma = getattr(model, "gamma_", getattr(model, "_gamma", None))
    curved = sum(
        beta[i : i + 1000] @ (rbf_kernel(S[i : i + 1000], S, gamma=gamma) @ beta)
        for i in range(0, len(S), 1000)
    )
    return float(np.abs(beta).sum() - 0.5 * curved)


def _fit(machine: Any, settings: dict[str, Any], X: Any, y: Any) -> Any:
    return machine(**settings).fit(X, y)


def classification() -> None:
    X, y = waves(10_000)
    for C in (1.0, 10.0):
        settings: dict[str, Any] = {"C": C, "cache_size": 1000}
        compare(
            f"SVC 10,000 × 20, rbf, C = {C:g}, tol = 1e-3",
            {
                "lemmata": partial(_fit, SVC, settings, X, y),
                "scikit-learn SVC (LIBSVM)": partial(_fit, svm.SVC, settings, X, y),
            },
            quality=lambda model: dual(model, X),
            target=1.5,
            rounds=3,
        )


def regression() -> None:
    X, _ = waves(6_000)
    y = (
        np.sin(2 * X[:, 0])
        + X[:, 1] * X[:, 2]
        + 0.1 * np.random.default_rng(1).standard_normal(6_000)
    )
    compare(
        "SVR 6,000 × 20, rbf, C = 1, ε = 0.1",
        {
            "lemmata": lambda: SVR(cache_size=1000).fit(X, y),
            "scikit-learn SVR (LIBSVM)": lambda: svm.SVR(cache_size=1000).fit(X, y),
        },
        target=1.5,
        rounds=3,
    )
    compare(
        "KernelRidge 3,000 × 20, rbf",
        {
            "lemmata": lambda: KernelRidge(kernel="rbf").fit(X[:3000], y[:3000]),
            "scikit-learn": lambda: kernel_ridge.KernelRidge(kernel="rbf").fit(X[:3000], y[:3000]),
        },
        rounds=3,
    )


def forty_thousand() -> None:
    """40,000 rows within 1 GB, with the cache of 200 MB that is the default."""
    X, y = waves(40_000)
    base = reset_peak()
    model = SVC().fit(X, y)
    print(
        f"SVC 40,000 × 20, cache_size=200: {model.trace_.elapsed:.1f} s, {model.n_iter_} working sets, "
        f"{len(model.support_):,} support vectors, +{memory('VmHWM') - base:.0f} MB (peak {memory('VmHWM'):.0f} MB)\n"
    )


def small() -> None:
    print(
        "small fits, warm, the best of one second: scikit-learn, lemmata without the certificate, with it"
    )
    sets = {
        "iris": load_iris,
        "wine": load_wine,
        "breast cancer": load_breast_cancer,
        "digits": load_digits,
    }
    for name, load in sets.items():
        X, y = load(return_X_y=True)
        _small_row(f"SVC {name}", X, y, SVC, svm.SVC)
    X, y = load_diabetes(return_X_y=True)
    _small_row("SVR diabetes", X, y, SVR, svm.SVR)
    _small_row("KernelRidge diabetes", X, y, KernelRidge, kernel_ridge.KernelRidge)


def grids() -> None:
    """A search for C and γ on hundreds of rows, with the certificate of every fit."""
    for name, load, ours, theirs in (
        ("SVC breast cancer", load_breast_cancer, SVC, svm.SVC),
        ("SVR diabetes", load_diabetes, SVR, svm.SVR),
    ):
        X, y = load(return_X_y=True)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        grid = {"C": [0.1, 1, 10, 100], "gamma": [0.001, 0.01, 0.1, 1]}
        compare(
            f"grid of 16, five folds: {name}, {X.shape[0]} × {X.shape[1]}",
            {
                "lemmata": partial(_search, ours(), grid, X, y),
                "scikit-learn (LIBSVM)": partial(_search, theirs(), grid, X, y),
            },
            quality=lambda found: found.best_score_,
            rounds=3,
        )


def _search(model: Any, grid: dict[str, Any], X: Any, y: Any) -> Any:
    return run_quietly(lambda: GridSearchCV(model, grid, cv=5).fit(X, y))


def _small_row(name: str, X: Any, y: Any, ours: Any, theirs: Any) -> None:
    def bare() -> None:
        with lemmata.config(certificate=False):
            ours().fit(X, y)

    fits = {"peer": lambda: theirs().fit(X, y), "bare": bare, "certified": lambda: ours().fit(X, y)}
    t = run_quietly(lambda: milliseconds(fits))
    print(
        f"  {name:24}{t['peer']:8.2f} ms{t['bare']:8.2f} ms{t['bare'] / t['peer']:6.2f}x{t['certified']:8.2f} ms",
        flush=True,
    )


def main() -> None:
    classification()
    regression()
    forty_thousand()
    grids()
    small()
