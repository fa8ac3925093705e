"""Non-negative factors. Truth: known factors, dense formulas written out again, altered models, other libraries' fits."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import deepcopy

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.decomposition import MiniBatchNMF

import lemmata
from lemmata.completion import Observed
from lemmata.core.runs.trace import Trace
from lemmata.topics import NMF
from truth.harness import Case, problems

LOSSES = ("frobenius", "kullback-leibler")


def planted(seed: int, n=50, m=24, k=3, noise=0.1, own=False) -> tuple[np.ndarray, ...]:
    """Noisy products of known factors; `own`: every component has a row and a column to itself."""
    rng = np.random.default_rng(seed)
    W, H = rng.gamma(0.5, size=(n, k)), rng.gamma(0.5, size=(k, m))
    if own:
        W[:k], H[:, :k] = np.diag(rng.random(k) + 0.5), np.diag(rng.random(k) + 0.5)
    return W @ H + noise * rng.random((n, m)), W, H


def quietly(model, X, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, **more)


def unrest(X, W, H, loss) -> float:
    """min(factor, slope) of both factors, by dense formulas; NaN: not known."""
    known = ~np.isnan(X)
    x, P = np.where(known, X, 0.0), W @ H
    worst = 0.0
    for factor, slopes, curves in (
        (W, lambda R: R @ H.T, known @ (H**2).T),
        (H.T, lambda R: R.T @ W, known.T @ W**2),
    ):
        if loss == "frobenius":
            g = slopes(np.where(known, P - x, 0))
            step = np.minimum(factor, np.where(curves > 0, g / np.where(curves > 0, curves, 1), factor))  # fmt: skip
            worst = max(worst, float(np.sqrt((curves * step**2).sum() / (x**2).sum())))
        else:
            sums = slopes(known.astype(float))
            up = slopes(np.where(x > 0, x / np.maximum(P, 1e-300), 0.0))
            gamma = 1 - np.where(sums > 0, up / np.where(sums > 0, sums, 1), 1.0)
            u = factor * sums
            totals = x.sum(axis=1) if factor is W else x.sum(axis=0)
            t = np.maximum(totals, u.sum(axis=1))[:, None]
            worst = max(worst, float(np.abs(np.minimum(u, t * gamma)).max(axis=1).sum() / x.sum()))
    return worst


def clearly(value: float, bound: float, truth: dict) -> dict:
    """The truth, but for values so near the bound that another formula may round to its other side."""
    return {} if abs(value / bound - 1) < 1e-6 else truth


@problems(seeds=20, quick=1)
def fits_of_ours(seed: int) -> Iterator[Case]:
    X, *_ = planted(seed)
    holes = np.where(np.random.default_rng(seed).random(X.shape) < 0.2, np.nan, X)
    narrow, weights = X.astype(np.float32), np.arange(len(X)) % 3
    for loss in LOSSES:
        for label, data, more in (
            ("dense", X, {}),
            ("sparse", sp.csr_array(np.where(X > 0.3, X, 0)), {}),
            ("holes", holes, {}),
            ("entries", Observed.of(holes), {}),
            ("float32", narrow, {}),
            ("weights", X, {"sample_weight": weights}),
        ):
            for steps in (1, 200) if label in ("dense", "holes") else (40,):
                model = NMF(3, beta_loss=loss, init="random", max_iter=steps, tol=1e-7)
                quietly(model.set_params(random_state=seed), data, **more)
                truth = {"attributes_sound": True, "statements_true": True, "never_rose": True}
                if label in ("dense", "holes"):
                    value = unrest(data, model.doc_topic_, model.components_, loss)
                    truth |= clearly(value, 0.01, {"first_order_point": value <= 0.01})
                yield Case(f"{loss}, {label}, {steps} steps", model.certify(data, **more), truth, tuple(truth))  # fmt: skip


@problems(seeds=20, quick=1)
def altered_fits(seed: int) -> Iterator[Case]:
    X, *_ = planted(seed)
    for loss in LOSSES:
        model = quietly(NMF(3, beta_loss=loss, max_iter=300, tol=1e-8, random_state=seed), X)

        def altered(label, truth, model=model, loss=loss, **changed):
            one = deepcopy(model)
            for name, value in changed.items():
                setattr(one, name, value)
            return Case(f"{loss}, {label}", one.certify(X), truth, tuple(truth))

        W, H = model.doc_topic_, model.components_
        less, false = 0.999 * model.reconstruction_err_, {"statements_true": False}
        yield altered("error 0.1 % off", false, reconstruction_err_=less)
        rolled = np.roll(W, 1, axis=0)
        value = unrest(X, rolled, H, loss)
        both = {**false, "first_order_point": value <= 0.01}
        yield altered("another row's W", both, doc_topic_=rolled)
        yield altered("H 1 % larger", {"statements_true": False}, components_=1.01 * H)
        yield altered("another k", {"attributes_sound": False}, n_components_=len(H) + 1)
        flipped = H.copy()
        flipped[0, H[0].argmax()] *= -1
        yield altered("a negative part", {"attributes_sound": False}, components_=flipped)
        trace = Trace()
        for value in (3.0, 2.0, 2.001, 1.9):
            trace.append(value * float((X**2).sum()), 0.0)
        yield altered("a run that rose", {"never_rose": False}, trace_=trace)
        # another unit, and another scale of the components: nothing changes
        d = np.array([1e3, 1.0, 1e-3])
        moved = deepcopy(model)
        moved.doc_topic_, moved.components_ = W / d * 1e120, H * d[:, None]
        moved.reconstruction_err_ *= 1e120 if loss == "frobenius" else 1e60
        yield Case(f"{loss}, units", moved.certify(X * 1e120),
                   {"statements_true": True, "attributes_sound": True, "first_order_point": unrest(X, W, H, loss) <= 0.01},
                   ("statements_true", "first_order_point"))  # fmt: skip


@problems(seeds=25, quick=1)
def clipped_runs(seed: int) -> Iterator[Case]:
    """Projected ALS: its own trace is the truth, measured against the squares of the data."""
    rng = np.random.default_rng(seed)
    for label, X in (("noise", rng.random((30, 16))), ("parts", planted(seed, noise=0.0)[0])):
        model = quietly(NMF(5 if label == "noise" else 3, solver="projected-als", init="random",
                            max_iter=30, tol=0.0, random_state=seed), X)  # fmt: skip
        rise = np.diff(model.trace_.objective).max() / (X**2).sum()
        truth = {"never_rose": rise <= 1e-10, "statements_true": True}
        if not 1e-14 < rise < 1e-10:
            yield Case(label, model.certify(X), truth, tuple(truth))


@problems(seeds=25, quick=1)
def known_factors(seed: int) -> Iterator[Case]:
    """`factors_determined` is true by construction where every component has a row and a column to itself."""
    X, W, H = planted(seed, noise=0.0, own=True)
    model = quietly(NMF(3, max_iter=1, tol=0.0, random_state=seed), X)
    rng = np.random.default_rng(seed)

    def known(W, H) -> NMF:
        one = deepcopy(model)
        one.doc_topic_, one.components_ = W, H
        one.reconstruction_err_ = float(np.linalg.norm(X - W @ H))
        return one

    own = {"factors_determined": True, "statements_true": True, "near_best_rank_k": True}
    yield Case("rows and columns of their own", known(W, H).certify(X), own, tuple(own))
    d = rng.random(3) * 100 + 0.01
    order = rng.permutation(3)
    yield Case("scaled and renamed", known((W / d)[:, order], (H * d[:, None])[order]).certify(X), own, tuple(own))  # fmt: skip
    inside = {"factors_determined": False, "statements_true": True}
    G, U = H.copy(), W.copy()
    G[0] += 0.3 * H[1]  # a part within a part: it can be taken out again
    U[:, 1] += 0.3 * W[:, 0]  # amounts of a part within those of another
    for label, left, right in (("a part within a part", W, G), ("amounts within amounts", U, H)):
        one, data = known(left, right), left @ right
        one.reconstruction_err_ = 0.0
        yield Case(label, one.certify(data), inside, tuple(inside))
    spread = W + 0.2 * W.mean()
    truth = {"factors_determined": False}
    yield Case("every row of every part", known(spread, H).certify(X), truth, tuple(truth))


CROSS = np.array(
    [[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 1]], float
)  # rank 3, of non-negative rank 4


@problems(seeds=20, quick=1)
def beside_the_best_of_any_sign(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    X, *_ = planted(seed)
    crossed = np.kron(CROSS, rng.random((6, 3)) + 0.5)
    for label, data, k in (
        ("parts", X, 3),
        ("crossed", crossed, 3),
        ("noise", rng.random((40, 20)), 8),
    ):
        for steps in (1, 150):
            model = quietly(
                NMF(k, init="random", max_iter=steps, tol=1e-8, random_state=seed), data
            )
            tail = float((np.linalg.svd(data, compute_uv=False)[k:] ** 2).sum())
            error = float(((data - model.doc_topic_ @ model.components_) ** 2).sum())
            lost = (error - tail) / float((data**2).sum())
            truth = clearly(lost, 0.05, {"near_best_rank_k": lost <= 0.05})
            yield Case(f"{label}, {steps} steps", model.certify(data), truth, tuple(truth))
            wide = sp.csr_array(data.T)  # more columns than rows, and sparse
            other = quietly(
                NMF(k, init="random", max_iter=steps, tol=1e-8, random_state=seed), wide
            )
            error = float(((data.T - other.doc_topic_ @ other.components_) ** 2).sum())
            lost = (error - tail) / float((data**2).sum())
            truth = clearly(lost, 0.05, {"near_best_rank_k": lost <= 0.05})
            yield Case(f"{label}, {steps} steps, wide", other.certify(wide), truth, tuple(truth))


@problems(seeds=8, quick=1)
def fits_of_scikit_learn(seed: int) -> Iterator[Case]:
    """W is gone; what is checked of the error is that no W does better than it says."""
    X, *_ = planted(seed)
    for loss in LOSSES:
        solver = "mu" if loss == "kullback-leibler" else "cd"
        for label, model in (
            ("NMF", SklearnNMF(3, beta_loss=loss, solver=solver, max_iter=300, init="random", random_state=seed)),
            ("two steps", SklearnNMF(3, beta_loss=loss, solver=solver, max_iter=2, init="random", random_state=seed)),
            ("MiniBatchNMF", MiniBatchNMF(3, beta_loss=loss, random_state=seed, max_iter=100)),
        ):  # fmt: skip
            fitted = quietly(model, X)
            W, H = best_rows(X, fitted.components_, loss), fitted.components_
            value = unrest(X, W, H, loss)
            truth = {"attributes_sound": True, "statements_true": True}
            if abs(value / 0.01 - 1) > 0.05:  # W is solved for twice, each to its own precision
                truth["first_order_point"] = value <= 0.01
            yield Case(f"{loss}, {label}", lemmata.certify(fitted, X), truth, tuple(truth))
            fitted.reconstruction_err_ *= 0.5
            false = {"statements_true": False}
            yield Case(f"{loss}, {label}, half the error", lemmata.certify(fitted, X), false, tuple(false))  # fmt: skip


def best_rows(X, H, loss):
    """W ≥ 0 for these components, by SciPy's NNLS, or by very many multiplicative steps."""
    from scipy.optimize import nnls

    if loss == "frobenius":
        return np.array([nnls(H.T, row)[0] for row in X])
    W, sums = np.ones((len(X), len(H))), H.sum(axis=1)
    for _ in range(2000):
        W *= (X / np.maximum(W @ H, 1e-300)) @ H.T / np.where(sums > 0, sums, 1)
    return W
