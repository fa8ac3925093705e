"""First-order conditions, paths, chosen penalties and outliers of linear fits, each written out here once more."""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from sklearn.linear_model import ElasticNet, HuberRegressor, LassoCV, LogisticRegression, Ridge
from sklearn.svm import LinearSVC

import lemmata
from truth.harness import Case, problems
from truth.penalised import quiet, rows, tampered

SLOPE = 5e-4


def slope_error(X, u, null, w, s, l1, l2, intercept=True) -> float:
    """The largest miss of the optimality conditions, over ‖xⱼ‖ times the slopes of a constant prediction; by plain loops.

    With an intercept the columns are those without their means.
    """
    size = np.sqrt((s * null**2).sum())
    found = [abs((s * u).sum()) / (np.sqrt(s.sum()) * size)] if intercept else []
    X = X - s @ X / s.sum() if intercept else X
    for j in range(X.shape[1]):
        g = (s * u * X[:, j]).sum() + l2 * w[j]
        miss = abs(g + l1 * np.sign(w[j])) if w[j] != 0 else max(abs(g) - l1, 0)
        found.append(miss / (np.sqrt((s * X[:, j] ** 2).sum()) * size))
    return max(found)


def _case(label, model, X, y, w, error):
    if not 0.9 * SLOPE < error < 1.1 * SLOPE:
        truths = {"first_order_point": bool(error <= SLOPE)}
        yield Case(label, lemmata.certify(model, X, y, w), truths, easy=truths)


@problems(seeds=40, quick=1)
def slopes(seed):
    """Ridge, elastic net and logistic regression: converged, hurried, and with weights one part in 10⁴ to 10 off."""
    X, score, w, rng = rows(500 + seed, n=100, d=6)
    s = np.ones(len(X)) if w is None else w
    y = score + rng.standard_normal(len(X))
    alpha = 0.3 * np.abs(X.T @ (y - y.mean())).max() / len(y) * 10.0 ** rng.uniform(-2, 0)
    labels = (score - np.median(score) + rng.logistic(size=len(X)) > 0).astype(int)
    sign = 2.0 * labels - 1
    p = s @ labels / s.sum()
    C = 10.0 ** rng.uniform(-2, 1)
    models = {
        "ridge": (Ridge(alpha), y),
        "net": (ElasticNet(alpha, l1_ratio=0.7, tol=1e-9, max_iter=50_000), y),
        "net, 2 sweeps": (ElasticNet(alpha, l1_ratio=0.7, max_iter=2), y),
        "logistic": (LogisticRegression(C=C, tol=1e-9, max_iter=5000), labels),
        "logistic, 5 steps": (LogisticRegression(C=C, max_iter=5), labels),
    }
    for label, (model, target) in models.items():
        model = quiet(lambda model=model, target=target: model.fit(X, target, sample_weight=w))
        for change in (0.0, 1e-4, 1e-2, 0.1):
            other = tampered(model, coef_=model.coef_ * (1 + change * rng.random(6)))
            coef, b = np.ravel(other.coef_), float(np.ravel(other.intercept_)[0])
            f = X @ coef + b
            if "logistic" in label:
                u, null = -sign * expit(-sign * f), p - labels
                error = slope_error(X, u, null, coef, C * s, 0.0, 1.0)
            else:
                null = s @ y / s.sum() - y
                share, l1, l2 = (s, 0.0, alpha) if label == "ridge" else (s / s.sum(), 0.7 * alpha, 0.3 * alpha)  # fmt: skip
                error = slope_error(X, f - y, null, coef, share, l1, l2)
            yield from _case(f"{label}, {change:g} off", other, X, target, w, error)


@problems(seeds=30, quick=1)
def far_columns(seed):
    """Columns whose means are up to 10⁹ times their deviations: converged fits, and weights that are a tenth or all off."""
    rng = np.random.default_rng(1000 + seed)
    X = rng.standard_normal((80, 3)) + 10.0 ** (seed % 10) * np.array([1.0, -0.3, 0.0])
    Z = X - X.mean(axis=0)
    y = Z @ [1.0, 0.5, -1.0] + 0.3 * rng.standard_normal(80)
    inner = Ridge(0.1).fit(Z, y)  # the same problem, with nothing to round
    for share in (1.0, 0.9, 0.0):
        coef = share * inner.coef_
        model = Ridge(0.1).fit(Z, y)
        model.coef_, model.intercept_ = coef, float(y.mean() - X.mean(axis=0) @ coef)
        truths = {"first_order_point": share == 1.0, "near_optimum": share == 1.0}
        yield Case(f"{share:g} of the weights", lemmata.certify(model, X, y), truths, easy=truths)


@problems(seeds=30, quick=1)
def far_classes(seed):
    """Classes by columns at 10³ to 10⁶, their intercept penalised or left out: solved, and after one step of a solver."""
    rng = np.random.default_rng(1100 + seed)
    Z = rng.standard_normal((120, 4))
    y = (Z @ [1.0, 0.5, -1.0, 0.3] + 0.5 * rng.standard_normal(120) > 0).astype(int)
    X, intercept = Z + 10.0 ** (3 + seed % 4), bool(seed % 3)
    shared = {"fit_intercept": intercept, "max_iter": 1}
    for label, model in {
        "svm": LinearSVC(dual=False, **shared),
        "liblinear": LogisticRegression(solver="liblinear", **shared),
        "ours": lemmata.LinearSVC(**shared),
    }.items():
        model = quiet(lambda model=model: model.fit(X, y))
        if model.score(X, y) < 0.8:  # of some 0.9
            yield Case(f"{label}, a step", lemmata.certify(model, X, y), {"first_order_point": False})  # fmt: skip
    model = lemmata.LinearSVC(fit_intercept=intercept, tol=1e-10).fit(X, y)
    yes = {"first_order_point": True}
    yield Case("solved", lemmata.certify(model, X, y), yes, easy=yes if seed % 4 < 2 else ())


@problems(seeds=24, quick=1)
def constant_columns(seed):
    """Logistic regression with one more column, constant or nearly so: solved; and paid for twice, by its weight and by b."""
    X, score, w, rng = rows(1200 + seed, n=150, d=4, spread=0.3)
    X = X - X.mean(axis=0)
    y = (score - np.median(score) + rng.logistic(size=len(X)) > 0).astype(int)
    size = 10.0 ** rng.uniform(-1, 2)
    column = size * (1 + [0.0, 1e-6, 1e-3][seed % 3] * rng.standard_normal(len(X)))
    X = np.column_stack([X / X.std(axis=0), column])
    for label, model in {
        "lbfgs": LogisticRegression(tol=1e-9, max_iter=10_000),
        "newton": LogisticRegression(solver="newton-cholesky"),
        "liblinear": LogisticRegression(solver="liblinear", tol=1e-9, max_iter=10_000),
        "ours": lemmata.LogisticRegression(),
    }.items():
        model = quiet(lambda model=model: model.fit(X, y, sample_weight=w))
        yes, no = {"first_order_point": True}, {"first_order_point": False}
        yield Case(label, lemmata.certify(model, X, y, w), yes, easy=yes)
        coef, more = model.coef_.copy(), 3.0 + 3.0 / size
        coef[0, -1] += more
        twice = tampered(model, coef_=coef, intercept_=model.intercept_ - more * size)
        yield Case(f"{label}, twice", lemmata.certify(twice, X, y, w), no, easy=no)


@problems(seeds=30, quick=1)
def paths(seed):
    """Our Lasso paths as they are, and with one of their fits changed."""
    X, score, w, rng = rows(600 + seed, n=80, d=10)
    y = score + rng.standard_normal(len(X))
    path = lemmata.LassoPath(tol=1e-8).fit(X, y, sample_weight=w)
    yes = {"path_near_optimum": True, "path_first_order": True, "statements_true": True}
    yield Case("as it is", path.certify(X, y, w), yes, easy=yes)
    no = dict.fromkeys(("path_near_optimum", "path_first_order"), False)
    at = path.coefs_.shape[1] - 1 - seed % 20
    changed = path.coefs_.copy()
    changed[:, at] = 2 * changed[:, at] + 0.1
    yield Case("another fit", tampered(path, coefs_=changed).certify(X, y, w), no, easy=no)
    moved = path.intercepts_.copy()
    moved[at] += y.std()
    yield Case("another intercept", tampered(path, intercepts_=moved).certify(X, y, w), no, easy=no)
    twice = tampered(path, alphas_=path.alphas_ * 2.0)
    yield Case("twice the penalties", twice.certify(X, y, w), {"path_first_order": False})
    small = tampered(path, coefs_=changed, dual_gaps_=path.dual_gaps_)
    yield Case("gaps of another fit", small.certify(X, y, w), {"statements_true": False})


@problems(seeds=20, quick=1)
def chosen_lasso(seed):
    """LassoCV, ours and scikit-learn's: the best of its path or not, inside of it or at its end."""
    X, score, _, rng = rows(700 + seed, n=80, d=6)
    y = score + rng.standard_normal(len(X))
    kind = [LassoCV, lemmata.LassoCV][seed % 2]
    model = quiet(lambda: kind(cv=4, alphas=25).fit(X, y))
    means = model.mse_path_.mean(axis=1)
    best = int(np.argmin(means))
    truths = {
        "alpha_best": True,
        "statements_true": True,
        "alpha_inside": 0 < best < len(means) - 1,
    }
    yield Case("as it is", lemmata.certify(model, X, y), truths, easy=truths)
    worst = tampered(model, alpha_=float(model.alphas_[int(np.argmax(means))]))
    yield Case(
        "the worst", lemmata.certify(worst, X, y), {"alpha_best": False}, easy=("alpha_best",)
    )
    between = tampered(model, alpha_=float(model.alpha_) * 1.05)
    yield Case("none of them", lemmata.certify(between, X, y), {"alpha_best": False, "statements_true": False})  # fmt: skip
    ends = quiet(lambda: kind(cv=4, alphas=model.alpha_ * np.array([9.0, 3.0, 1.0])).fit(X, y))
    if ends.alpha_ == ends.alphas_[-1]:
        yield Case("a short grid", lemmata.certify(ends, X, y), {"alpha_inside": False, "alpha_best": True})  # fmt: skip


@problems(seeds=30, quick=1)
def outliers(seed):
    """Two laws in one table: a minority, or a majority, beyond the reach of the loss. Tukey's first-order point."""
    X, score, _, rng = rows(800 + seed, n=120, d=3, spread=0.3)
    y = score + 0.5 * rng.standard_normal(len(X))
    few = y + 60.0 * (np.arange(len(y)) % 10 == 0)
    for label, target in {"none": y, "a tenth": few}.items():
        for model in (HuberRegressor(max_iter=1000), lemmata.RobustRegression(loss="tukey")):
            model = quiet(lambda model=model, target=target: model.fit(X, target))
            truths = {"outliers_are_few": True, "statements_true": True}
            tukey = not isinstance(model, HuberRegressor)
            if tukey:
                truths["first_order_point"] = True
            yield Case(f"{label}, {type(model).__name__}", lemmata.certify(model, X, target), truths, easy=truths)  # fmt: skip
            # a scale ten times too small calls most rows outliers
            narrow = tampered(model, scale_=model.scale_ / 20)
            r = np.abs(target - model.predict(X))
            width = 4.685 if tukey else 1.35
            share = float(np.mean(r > width * narrow.scale_))
            told = {"statements_true": False}
            if not 0.45 < share < 0.55:
                told["outliers_are_few"] = share <= 0.5
            yield Case(f"{label}, a narrow scale", lemmata.certify(narrow, X, target), told)
            if tukey:
                off = tampered(model, coef_=model.coef_ * 1.2 + 0.1)
                yield Case(f"{label}, changed", lemmata.certify(off, X, target), {"first_order_point": False})  # fmt: skip


@problems(seeds=20, quick=1)
def spans(seed):
    """Ridge with fewer rows than columns: weights in the span of the rows, and with a part beside it."""
    rng = np.random.default_rng(900 + seed)
    n, d = int(rng.integers(5, 20)), 30
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    model = Ridge(10.0 ** rng.uniform(-3, 2)).fit(X, y)
    beside = np.linalg.svd(X)[2][-1] * np.linalg.norm(model.coef_)
    for size in (0.0, 1e-4, 0.1):
        other = tampered(model, coef_=model.coef_ + size * beside)
        truths = {"representer": size == 0}
        yield Case(f"{size:g} beside", lemmata.certify(other, X, y), truths, easy=truths)
