"""Neighbours whose truth is known: rows and targets planted, searches that leave rows out, models tampered with."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
from sklearn import neighbors as sklearn

import lemmata
from lemmata import KernelSmoother, KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors
from truth.harness import Case, problems


def blobs(n: int, seed: int, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Three clusters, and which one each row is from."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    centres = np.zeros((3, d))
    centres[1, 0], centres[2, 1] = 5, 7
    return centres[y] + rng.standard_normal((n, d)), y


def tampered(model, **changes):
    model = copy.deepcopy(model)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def without_nearest(model):
    """A search that never finds the nearest row."""
    model = copy.deepcopy(model)
    search = model.kneighbors

    def kneighbors(X=None, n_neighbors=None, return_distance=True):
        distances, rows = search(X, n_neighbors + 1)
        return distances[:, 1:], rows[:, 1:]

    model.kneighbors = kneighbors
    return model


def with_far_rows(model, X):
    """A search that states the right distances, and names rows that are farthest away."""
    model = copy.deepcopy(model)
    search = model.kneighbors

    def kneighbors(queries=None, n_neighbors=None, return_distance=True):
        distances, rows = search(queries, n_neighbors)
        apart = np.abs(X[None] - np.asarray(queries)[:, None]).sum(axis=2)
        return distances, np.argsort(-apart, axis=1)[:, : rows.shape[1]]

    model.kneighbors = kneighbors
    return model


SEARCH = ("attributes_sound", "statements_true", "neighbours_exact")
SIZES = {
    "float64": (np.float64, 1.0),
    "float32": (np.float32, 1.0),
    "1e150": (np.float64, 1e150),
    "1e-150": (np.float64, 1e-150),
}


def broken(model, X, y) -> Iterator[tuple[str, object, dict[str, bool]]]:
    """Fits with one thing wrong; y None: they predict nothing."""
    yes = dict.fromkeys(SEARCH, True)
    yield "as it is", model, yes
    if y is None or not hasattr(model, "X_fit_"):
        yield "never the nearest", without_nearest(model), {"neighbours_exact": False}
    moved = np.ascontiguousarray(X[::-1])
    if not hasattr(model, "X_fit_"):
        other = model.fit(moved) if y is None else model.fit(moved, y)
        yield "other rows", other, {"attributes_sound": True, "neighbours_exact": False}
        return
    false = {"attributes_sound": True, "statements_true": False}
    yield "other rows", tampered(model, X_fit_=moved), {**false, "neighbours_exact": False}
    one = X.copy()
    one[len(X) // 2] = X[0] + X[1]
    yield "one other row", tampered(model, X_fit_=one), false
    few = {"statements_true": False} if y is None else {"attributes_sound": False}
    yield "a row too few", tampered(model, X_fit_=X[1:]), few
    spoilt = X.copy()
    spoilt[3, 0] = np.nan
    yield "a NaN", tampered(model, X_fit_=spoilt), {"attributes_sound": False}
    if y is not None:
        changed = model.y_fit_.copy()
        changed[5] = changed[model.y_fit_ != changed[5]][0]
        yield "another target", tampered(model, y_fit_=changed), {**false, "neighbours_exact": True}
        if hasattr(model, "classes_"):
            yield (
                "a class too many",
                tampered(model, y_fit_=model.y_fit_ + 1),
                {"attributes_sound": False},
            )


@problems(seeds=12, quick=1)
def copies(seed):
    """More equal rows than a list of neighbours holds: any of them is right, and a row elsewhere is not."""
    rng = np.random.default_rng(300 + seed)
    X = np.repeat(rng.standard_normal((4, 3)), 60, axis=0)[rng.permutation(240)]
    for library in (lemmata, sklearn):
        model = library.NearestNeighbors(n_neighbors=3).fit(X)
        yes = {"neighbours_exact": True}
        yield Case(library.__name__, lemmata.certify(model, X), yes, easy=yes)
        liar = with_far_rows(model, X)
        no = {"neighbours_exact": False}
        yield Case(f"{library.__name__}, far rows", lemmata.certify(liar, X), no, easy=no)


@problems(seeds=24)
def fits(seed):
    """Both libraries, all models, both float types, scales of 1e±150, weights by distance, other metrics; and tampered with."""
    dtype, size = list(SIZES.values())[seed % 4]
    X, y = blobs([90, 420][seed % 2], seed, d=[3, 12][seed // 2 % 2])
    X = (X * size).astype(dtype)
    target = y + 0.1 * np.random.default_rng([seed, 1]).standard_normal(len(y))
    settings = {"n_neighbors": [1, 5, 8][seed % 3], "algorithm": ["auto", "brute"][seed // 3 % 2]}
    settings["metric"] = ["euclidean", "manhattan", "cosine"][seed % 3 if seed % 4 < 2 else 0]
    voting = {**settings, "weights": ["distance", "uniform"][(seed + seed // 2) % 2]}
    if settings["metric"] == "cosine":
        voting["algorithm"] = settings["algorithm"] = "brute"
    for library in (lemmata, sklearn):
        if library is sklearn and size != 1.0:
            continue  # its squares overflow there
        models = {
            "neighbours": (library.NearestNeighbors(**settings).fit(X), None),
            "classes": (library.KNeighborsClassifier(**voting).fit(X, y), y),
            "numbers": (library.KNeighborsRegressor(**voting).fit(X, target), target),
        }
        for name, (model, answers) in models.items():
            for label, one, truths in broken(model, X, answers):
                found = lemmata.certify(one, X, answers)
                yield Case(f"{library.__name__}, {name}, {label}", found, truths, easy=truths)


@problems(seeds=60, quick=2)
def targets(seed):
    """Targets that follow the rows, and targets that have nothing to do with them: noise, few rows, ties, unequal classes."""
    rng = np.random.default_rng([seed, 1])  # not the draws of the rows
    X, y = blobs([60, 400][seed % 2], seed)
    name = "leave_one_out"
    cls = [KNeighborsClassifier, sklearn.KNeighborsClassifier][seed % 2]
    model = cls(5).fit(X, y)
    yield Case("clusters", lemmata.certify(model, X, y), {name: True}, easy=(name,))
    noise = rng.integers(0, 3, len(y))
    model = cls(5).fit(X, noise)
    yield Case("noise", lemmata.certify(model, X, noise), {name: False}, easy=(name,))
    rare = np.arange(len(y)) % 10 == 0
    rng.shuffle(rare)
    model = cls(3, weights="distance").fit(X, rare)
    yield Case("rare noise", lemmata.certify(model, X, rare), {name: False}, easy=(name,))
    grid = rng.integers(0, 9, (len(y), 2)).astype(float)  # many equal rows
    model = cls(5).fit(grid, noise)
    yield Case("ties", lemmata.certify(model, grid, noise), {name: False}, easy=(name,))
    copied, again = np.vstack([X, X]), np.concatenate([noise, noise])
    found = lemmata.certify(cls(1).fit(copied, again), copied, again)
    yield Case("noise, every record twice", found, {name: False}, easy=(name,))
    wave, random = np.sin(X[:, 0]) + 0.3 * X[:, 1], rng.standard_normal(len(y))
    cls = [KNeighborsRegressor, sklearn.KNeighborsRegressor][seed % 2]
    for label, target, truth in (("a wave", wave, True), ("noise", random, False)):
        found = lemmata.certify(cls(5).fit(X, target), X, target)
        yield Case(f"numbers, {label}", found, {name: truth}, easy=(name,))
        found = KernelSmoother().fit(X, target).certify(X, target)
        yield Case(f"smoother, {label}", found, {name: truth}, easy=(name,))
        twice = np.concatenate([target, target])
        found = KernelSmoother().fit(copied, twice).certify(copied, twice)
        yield Case(f"smoother, {label}, every record twice", found, {name: truth}, easy=(name,))


@problems(seeds=30)
def dimensions(seed):
    """Sets of few dimensions in many features, and noise that fills all of them."""
    rng = np.random.default_rng(seed)
    n, names = [200, 600][seed % 2], ("neighbourhoods_local", "distances_differ")
    turn = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    flat = rng.uniform(size=(n, 2)) @ turn[:2]
    angle = rng.uniform(0, 6, n)
    curve = np.stack([np.cos(angle), np.sin(angle), angle], axis=1) @ turn[:3]
    full = rng.standard_normal((n, 60))
    for label, X, truth in (
        ("a plane", flat, True),
        ("a curve", curve, True),
        ("noise", full, False),
    ):
        model = [NearestNeighbors, sklearn.NearestNeighbors][seed % 2](n_neighbors=5).fit(X)
        yield Case(label, lemmata.certify(model, X), dict.fromkeys(names, truth), easy=names)
    model = NearestNeighbors(n_neighbors=n).fit(flat)
    yield Case("all are neighbours", model.certify(flat), {"neighbourhoods_local": False})


@problems(seeds=24, quick=2)
def labels(seed):
    """Equal rows that disagree, classes too small to win, classes that win by number; each with its opposite."""
    rng = np.random.default_rng([seed, 1])
    X, y = blobs(120, seed)
    cls = [KNeighborsClassifier, sklearn.KNeighborsClassifier][seed % 2]
    yes = dict.fromkeys(("equal_rows_agree", "classes_can_win", "no_class_dominates"), True)
    yield Case("apart", lemmata.certify(cls(5).fit(X, y), X, y), yes, easy=yes)
    twice, same = np.vstack([X, X[:7]]), np.concatenate([y, y[:7]])
    found = lemmata.certify(cls(5).fit(twice, same), twice, same)
    yield Case("equal and agreed", found, {"equal_rows_agree": True}, easy=("equal_rows_agree",))
    other = same.copy()
    other[-1] = (y[6] + 1) % 3
    found = lemmata.certify(cls(5).fit(twice, other), twice, other)
    yield Case("one disagrees", found, {"equal_rows_agree": False}, easy=("equal_rows_agree",))
    signed = np.vstack([np.zeros((1, 4)), -np.zeros((1, 4)), X])
    first = np.concatenate([[0, 1], y])
    found = lemmata.certify(cls(5).fit(signed, first), signed, first)
    yield Case("0 and -0", found, {"equal_rows_agree": False}, easy=("equal_rows_agree",))
    few = np.where(np.arange(120) < 3, 1, 0)
    found = lemmata.certify(cls(9).fit(X, few), X, few)
    no = {"classes_can_win": False, "no_class_dominates": False}
    yield Case("three rows of 120", found, no, easy=no)
    found = lemmata.certify(cls(5).fit(X, few), X, few)
    yield Case("three rows, k = 5", found, {"classes_can_win": True, "no_class_dominates": False})
    numbers = rng.standard_normal(127)
    cls = [KNeighborsRegressor, sklearn.KNeighborsRegressor][seed % 2]
    found = lemmata.certify(cls(5).fit(twice, numbers), twice, numbers)
    yield Case("numbers disagree", found, {"equal_rows_agree": False}, easy=("equal_rows_agree",))
    numbers[-7:] = numbers[:7]
    found = lemmata.certify(cls(5).fit(twice, numbers), twice, numbers)
    yield Case("numbers agree", found, {"equal_rows_agree": True}, easy=("equal_rows_agree",))


@problems(seeds=16)
def smoothers(seed):
    """Bandwidths that were chosen, too large and too small; statements tampered with; weights."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 6, (150, 1))
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.standard_normal(150)
    kernel = ["gaussian", "epanechnikov", "tricube", "biweight", "boxcar"][seed % 5]
    weights = None if seed % 2 else rng.integers(0, 4, 150).astype(float)
    model = KernelSmoother(kernel).fit(x, y, weights)
    yes = (
        "attributes_sound",
        "statements_true",
        "leave_one_out",
        "smooths_locally",
        "averages_several",
        "bandwidth_inside",
    )
    yield Case("chosen", model.certify(x, y, weights), dict.fromkeys(yes, True), easy=yes)
    no = {"statements_true": False}
    for label, changes in (
        ("another bandwidth", {"bandwidth_": model.bandwidth_ * 1.5}),
        ("another target", {"y_fit_": np.where(np.arange(150) == 75, y + 1, y)}),
        ("other rows", {"X_fit_": x[::-1].copy()}),
        ("other errors", {"loo_errors_": model.loo_errors_ * 1.1}),
    ):
        yield Case(label, tampered(model, **changes).certify(x, y, weights), no, easy=no)
    noise = rng.standard_normal(150)
    found = KernelSmoother(kernel).fit(x, noise).certify(x, noise)
    yield Case("targets that are noise", found, {"leave_one_out": False}, easy=("leave_one_out",))
    at = int(np.argmin(model.loo_errors_))
    cut = {"bandwidths_": model.bandwidths_[at:], "loo_errors_": model.loo_errors_[at:]}
    found = tampered(model, **cut).certify(x, y, weights)
    yield Case("at the end", found, {"bandwidth_inside": False}, easy=("bandwidth_inside",))
    wide = KernelSmoother(kernel, bandwidth=1e3).fit(x, y)
    yield Case("too wide", wide.certify(x, y), {"smooths_locally": False, "averages_several": True})
    narrow = KernelSmoother(kernel, bandwidth=1e-6).fit(x, y)
    yield Case(
        "too narrow", narrow.certify(x, y), {"smooths_locally": True, "averages_several": False}
    )
