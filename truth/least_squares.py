"""Least squares on columns whose rank, condition and influential rows are known by construction or by leaving rows out."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV

import lemmata
from truth.harness import Case, problems


def tampered(model, **changes):
    model = copy.deepcopy(model)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def planted(seed: int, n: int = 60, d: int = 6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.exp(rng.standard_normal(d)) + 3 * rng.standard_normal(d)
    y = X @ rng.standard_normal(d) + rng.standard_normal(n) * 2
    w = rng.integers(0, 4, n) + 0.5 if seed % 3 == 2 else None
    return X, y, w, rng


def correlation(model, X, y, w, intercept=True) -> float:
    """The largest |cos| of a column (without its mean, and of the constant) with the residuals, by plain loops."""
    s = np.ones(len(y)) if w is None else w
    X = np.asarray(X, dtype=np.float64)
    r = y - X @ np.float64(model.coef_) - float(model.intercept_)
    X = X - s @ X / s.sum() if intercept else X
    columns = [*X.T, np.ones(len(y))] if intercept else list(X.T)
    return max(abs(s @ (x * r)) / np.sqrt((s @ x**2) * (s @ r**2)) for x in columns)


@problems(seeds=60, quick=2)
def fits(seed):
    """Ours and scikit-learn's, dense and sparse, in both float types; changed, judged without weights, told wrong numbers."""
    X, y, w, rng = planted(seed)
    y = np.column_stack([y, rng.standard_normal(len(y))]) if seed % 5 == 4 else y
    if seed % 4 == 1:
        X, y = X.astype(np.float32), y.astype(np.float32)
    kind = [LinearRegression, lemmata.LinearRegression][seed % 2]
    model = kind().fit(X, y, sample_weight=w)
    yes = {"attributes_sound": True, "statements_true": True, "normal_equations": True}
    yes |= {"weights_determined": True, "minimum_norm": True}
    rows = sp.csr_array(X) if seed % 6 == 5 else X
    yield Case("as it is", lemmata.certify(model, rows, y, w), yes, easy=yes)
    if y.ndim == 1:
        for size in (1e-2, 1e-6):
            other = tampered(
                model, coef_=model.coef_ * (1 + size * rng.random(X.shape[1])).astype(X.dtype)
            )
            true = correlation(other, X, np.float64(y), w)
            if not 0.9e-4 < true < 1.1e-4 and not (X.dtype == np.float32 and size < 1e-3):
                yield Case(
                    f"weights {size:g} off",
                    lemmata.certify(other, X, y, w),
                    {"normal_equations": bool(true <= 1e-4)},
                    easy=("normal_equations",),
                )
    other = tampered(model, intercept_=model.intercept_ + 1)
    yield Case("another intercept", lemmata.certify(other, X, y, w), {"normal_equations": False})
    if w is not None:
        yield Case("without its weights", lemmata.certify(model, X, y), {"normal_equations": False})
    for name, value in {"singular_": model.singular_ * 1.01, "rank_": model.rank_ - 1}.items():
        found = lemmata.certify(tampered(model, **{name: value}), X, y, w)
        yield Case(f"another {name}", found, {"statements_true": False}, easy=("statements_true",))
    broken = model.coef_.copy()
    broken.flat[0] = np.nan
    for label, value in {"NaN": broken, "a weight too few": model.coef_[..., :-1]}.items():
        yield Case(
            label,
            lemmata.certify(tampered(model, coef_=value), X, y, w),
            {"attributes_sound": False},
        )


@problems(seeds=60, quick=2)
def ranks(seed):
    """Columns that are copies, sums or constant, more columns than rows, and columns that only look alike."""
    X, y, w, rng = planted(1000 + seed)
    kinds = {
        "independent": (X, True),
        "a copy": (np.column_stack([X, X[:, 0]]), False),
        "a sum": (np.column_stack([X, X[:, 0] - 2 * X[:, 1]]), False),
        "a constant": (np.column_stack([X, np.full(len(X), 7.0)]), False),
        "three copies": (np.column_stack([X, X[:, :3] * 5]), False),
        "alike": (np.column_stack([X, X[:, 0] + 1e-5 * rng.standard_normal(len(X))]), True),
        "more columns than rows": (rng.standard_normal((len(X), len(X) + 5)), False),
    }
    for label, (Z, determined) in kinds.items():
        kind = [LinearRegression, lemmata.LinearRegression][seed % 2]
        model = kind().fit(Z, y, sample_weight=w)
        truths = {"weights_determined": determined, "minimum_norm": True}
        condition = np.linalg.cond(_scaled(Z, w)) if determined else np.inf
        if not 90 < condition < 110:
            truths["well_conditioned"] = bool(condition <= 100)
        found = lemmata.certify(model, Z, y, w)
        yield Case(label, found, truths, easy=("weights_determined", "minimum_norm"))
        if label in ("a copy", "three copies"):
            along = np.zeros(Z.shape[1])
            along[0], along[X.shape[1]] = (1.0, -1.0) if label == "a copy" else (5.0, -1.0)
            other = tampered(model, coef_=model.coef_ + along * 0.1 * np.abs(model.coef_).max())
            found = lemmata.certify(other, Z, y, w)
            yield Case(
                f"{label}, longer weights", found, {"minimum_norm": False, "normal_equations": True}
            )


@problems(seeds=30, quick=1)
def far_columns(seed):
    """Columns far from 0: fits as they are, half of their weights, and sums of columns that rounding hides."""
    rng = np.random.default_rng(2000 + seed)
    far = 10.0 ** (seed % 9)
    X = rng.standard_normal((60, 3)) + far * np.array([1.0, 0.0, 0.3])
    y = X[:, 0] - far + rng.standard_normal(60)
    model = [LinearRegression, lemmata.LinearRegression][seed % 2]().fit(X, y)
    yes = {"normal_equations": True, "weights_determined": True}
    yield Case("as it is", lemmata.certify(model, X, y), yes, easy=yes)
    half = model.coef_ / 2
    other = tampered(model, coef_=half, intercept_=float(y.mean() - X.mean(axis=0) @ half))
    yield Case("half", lemmata.certify(other, X, y), {"normal_equations": False}, easy=("normal_equations",))  # fmt: skip
    sums = np.column_stack([X, X[:, 0] + X[:, 1]])  # to the rounding of numbers of this size
    found = lemmata.certify(LinearRegression().fit(sums, y), sums, y)
    yield Case("a sum", found, {"weights_determined": False})


def _scaled(Z, w):
    s = np.ones(len(Z)) if w is None else w
    C = (Z - s @ Z / s.sum()) * np.sqrt(s)[:, None]
    return C / np.linalg.norm(C, axis=0)


@problems(seeds=40, quick=1)
def influence(seed):
    """Cook's distances by leaving out each row in turn, with and without a row far out."""
    X, y, _, _ = planted(2000 + seed, n=40, d=4)
    for label in ("as drawn", "one row far out"):
        if label != "as drawn":
            X, y = X.copy(), y.copy()
            X[7] = X.mean(axis=0) + 6 * X.std(axis=0)
            y[7] += 40
        model = LinearRegression().fit(X, y)
        A = np.column_stack([X, np.ones(len(X))])
        full = np.r_[model.coef_, model.intercept_]
        spread = np.square(y - A @ full).sum() / (len(X) - 5)
        cook = []
        for i in range(len(X)):
            rest = np.delete(np.arange(len(X)), i)
            moved = A @ (full - np.linalg.lstsq(A[rest], y[rest], rcond=None)[0])
            cook.append(moved @ moved / (5 * spread))
        found = lemmata.certify(model, X, y)
        if not 0.95 < max(cook) < 1.05:
            yield Case(
                label, found, {"no_row_dominates": bool(max(cook) <= 1)}, easy=("no_row_dominates",)
            )


@problems(seeds=30, quick=1)
def chosen_penalties(seed):
    """RidgeCV, ours and scikit-learn's: leave-one-out scores by leaving out, grids that end too early, wrong statements."""
    X, y, _, rng = planted(3000 + seed, n=30, d=4)
    y = y * 0 + rng.standard_normal(len(y)) + 0.3 * X[:, 0] / X[:, 0].std()
    grid = np.logspace(-4, 5, 10) if seed % 2 else np.logspace(4, 6, 5)
    kind = [RidgeCV, lemmata.RidgeCV][seed // 2 % 2]
    model = kind(alphas=grid).fit(X, y)
    errors = []
    for alpha in grid:
        left = [
            (y[i] - Ridge(alpha).fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[i : i + 1])[0])
            for i in range(len(X))
        ]
        errors.append(np.mean(np.square(left)))
    at = int(np.argmin(errors))
    truths = {"statements_true": True, "alpha_inside": 0 < at < len(grid) - 1, "near_optimum": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield Case("as it is", lemmata.certify(model, X, y), truths, easy=truths)
        for name, value in {
            "best_score_": model.best_score_ * 1.01,
            "alpha_": model.alpha_ * 1.3,
        }.items():
            found = lemmata.certify(tampered(model, **{name: value}), X, y)
            yield Case(
                f"another {name}", found, {"statements_true": False}, easy=("statements_true",)
            )
