"""Half-sweeps whose gain is known by brute force: every row solved again by a slow twin."""

from __future__ import annotations

import warnings

import numpy as np

from lemmata.completion import ALS, SGDFactorization
from lemmata.completion.als.algorithm import stretch
from lemmata.completion.observed import Observed
from truth.factors import KINDS, certify
from truth.harness import Case, problems
from truth.slow_completion import Point, als, counts, half_sweep_gain, planted

FIXED, NEAR = 1e-4, 1e-2  # shares of the objective, as in audit/completion/factors.py


def _clear(gain, bound):
    """Whether a gain is not so near to the bound that rounding decides."""
    return not 0.999 * bound < gain < 1.001 * bound


@problems(seeds=80, quick=2)
def points(seed):
    """Raw factors of every kind, after few and many sweeps, with one row of many spoilt, at other scales."""
    name = list(KINDS)[seed % len(KINDS)]
    kind, k = KINDS[name], 1 + seed % 3
    n, m = (14, 11) if seed % 2 else (300, 12)
    A = (
        counts(seed, n, m)
        if kind.get("implicit")
        else planted(seed, n, m, biases=bool(kind.get("biases")))
    )
    reg = 0.05 if kind.get("weighted") else 0.5
    scale = (
        1.0
        if kind.get("biases") or kind.get("implicit") or kind.get("weighted") == 0.5
        else (1.0, 1e150, 1e-150, 1e3)[seed % 4]
    )
    cases = {}
    for sweeps in (1, 3, 10, 30, 100, 300):
        cases[f"{sweeps} sweeps"], mean = als(A, k, reg, seed=seed, sweeps=sweeps, **kind)
    last = cases["300 sweeps"]
    spoilt = last.U.copy()
    spoilt[seed % n] *= -3
    cases["a row spoilt"] = last._replace(U=spoilt)
    cases["zero"] = Point(*(np.zeros_like(part) for part in last))
    cases["shrunk"] = last._replace(U=1e-5 * last.U, V=1e-5 * last.V)
    for label, at in cases.items():
        gain = half_sweep_gain(A, at, reg, mean=mean, **kind)
        if _clear(gain, FIXED):
            found = certify(A, at, reg, kind, mean, scale)
            yield Case(f"{name}, {label}", found, {"fixed_point": gain <= FIXED}, ["fixed_point"])


def _gain_of(model, A, biases, weighted, own=None):
    at = Point(
        *(np.asarray(x, float) for x in (model.U_, model.V_, model.row_bias_, model.column_bias_))
    )
    more = {"weighted": weighted, "mean": model.mean_, "biases": biases, "own": own}
    return half_sweep_gain(A, at, model.reg_, **more)


@problems(seeds=40, quick=2)
def two_penalties(seed):
    """Factors of the lengths that a λ for rows and one for columns ask for, and factors that one λ asks for."""
    A, k, reg = planted(seed, 14, 11), 1 + seed % 3, 0.5
    ratio = 10 ** np.random.default_rng(seed).uniform(-2, 2)
    for sweeps in (1, 300):
        even, mean = als(A, k, reg, seed=seed, sweeps=sweeps)
        U, V = stretch(even.U, even.V, ratio)
        cases = {"stretched": (even._replace(U=U, V=V), even)}
        U, V = stretch(even.U, even.V, 1 / ratio)
        cases["not stretched"] = even, even._replace(U=U, V=V)  # what it is by one λ
        for label, (at, same) in cases.items():
            gain = half_sweep_gain(A, same, reg, mean=mean)
            if _clear(gain, FIXED):
                found = certify(A, at, reg, {"ratio": ratio}, mean)
                yield Case(f"{label}, {sweeps} sweeps", found, {"fixed_point": gain <= FIXED}, ["fixed_point"])  # fmt: skip


@problems(seeds=16, quick=1)
def fits(seed):
    """Our own fits: ALS and stochastic steps, finished, unfinished, and in single precision."""
    dtype = (np.float64, np.float32)[seed % 2]
    A = Observed.of(planted(seed, 40, 30, noise=0.5, biases=True).dense().astype(dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for steps in (1, 5, 200):
            model = ALS(2, 0.1, random_state=seed, max_iter=steps).fit(A)
            gain = _gain_of(model, A, True, True)
            if _clear(gain, FIXED):
                yield Case(
                    f"ALS, {steps}",
                    model.certify(A),
                    {"fixed_point": gain <= FIXED},
                    ["fixed_point"],
                )
            model = ALS(2, random_state=seed, max_iter=steps).fit(A)
            gain = _gain_of(model, A, True, 0.5, own=3.0)
            if _clear(gain, FIXED):
                truth = {"fixed_point": gain <= FIXED}
                yield Case(f"ALS by rule, {steps}", model.certify(A), truth, truth)
            step = SGDFactorization(2, 0.1, random_state=seed, max_iter=steps, tol=1e-6).fit(A)
            gain = _gain_of(step, A, True, True)
            if _clear(gain, NEAR):
                truth = {"near_fixed_point": gain <= NEAR}
                yield Case(f"SGD, {steps}", step.certify(A), truth, truth)
        positive = Observed.of(np.abs(A.dense()))
        model = ALS(2, 0.1, nonnegative=True, random_state=seed, max_iter=30).fit(positive)
        yield Case(
            "nonnegative",
            model.certify(positive),
            {"nonnegative_factors": True},
            ["nonnegative_factors"],
        )
        model.U_ = model.U_.copy()
        model.U_[seed % 40, seed % 2] = -1e-3
        yield Case(
            "one negative",
            model.certify(positive),
            {"nonnegative_factors": False},
            ["nonnegative_factors"],
        )
