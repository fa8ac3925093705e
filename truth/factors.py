"""Factors whose truth is known: converged, on the way, shrunk, padded with zeros, of another λ; and tampered fits."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np

from lemmata.audit.completion.factors import EXPLICIT_CLAIMS, factor_claims
from lemmata.completion import ALS, SGDFactorization, SingularValueThresholding, SoftImpute
from lemmata.completion.certifying import certify_factors
from lemmata.completion.observed import Observed
from lemmata.core.certificate import Fit
from lemmata.core.certification.checking import check
from lemmata.core.runs.trace import Trace
from truth.harness import Case, problems
from truth.slow_completion import Point, als, counts, objective, planted

KINDS = {
    "plain": {},
    "weighted": {"weighted": True},
    "biased": {"biases": True},
    "weighted, biased": {"weighted": True, "biases": True},
    "implicit": {"implicit": True, "alpha": 2.0},
    "root": {"weighted": 0.5},
    "root, own": {"weighted": 0.5, "biases": True, "own": 2.0},  # what reg=None does
    "plain, own": {"biases": True, "own": 0.3},
}
CLEAR = 0.01  # a curvature that no threshold of 1e-3 can mistake


def certify(A, at, reg, kind, mean=0.0, scale=1.0):
    """The certificate of raw factors, of data `scale` times as large."""
    if "own" in kind or "ratio" in kind or kind.get("weighted") == 0.5:
        return _certify_attributes(A, at, reg, kind, mean)
    more = {
        "weighted": kind.get("weighted", False),
        "biases": kind.get("biases", False),
        "mean": mean,
    }
    if kind.get("biases"):
        more |= {"row_bias": at.b, "column_bias": at.c}
    if kind.get("implicit"):
        more = {"feedback": "implicit", "alpha": kind["alpha"]}
    data, root = A.with_values(A.values * scale), np.sqrt(scale)
    return certify_factors(data, at.U * root, at.V * root, reg * scale, **more)


def _certify_attributes(A, at, reg, kind, mean):
    """The certificate of a model that has these public attributes, as one from a file would."""
    attributes = {
        "U_": at.U, "V_": at.V, "mean_": mean, "row_bias_": at.b, "column_bias_": at.c, "reg_": reg,
        "weighted_reg_": float(kind.get("weighted", 0)), "biases": kind.get("biases", False),
        "reg_ratio_": kind.get("ratio", 1.0),
    }  # fmt: skip
    if "own" in kind:
        attributes |= {"bias_reg_": kind["own"], "weighted_bias_reg_": 0.0}
    fit = Fit(SimpleNamespace(), A, attributes=attributes)
    return check(factor_claims(False, False), fit, "attributes")


def value(A, at, reg, kind, mean):
    more = {"weighted": kind.get("weighted", False), "mean": mean, "own": kind.get("own")}
    if kind.get("implicit"):
        more = {"implicit": True, "alpha": kind["alpha"]}
    return objective(A, at, reg, **more)


def smallest_curvature(A, at, reg, kind, mean):
    """Of the Hessian by differences of F, in units of its diagonal blocks, gauge directions lifted: all dense."""
    (n, m), k = A.shape, at.U.shape[1]
    biased = bool(kind.get("biases"))

    def point(y):
        U, V, b, c = np.split(y, np.cumsum([n * k, m * k, n * biased]))
        zero = np.zeros(n), np.zeros(m)
        return Point(U.reshape(n, k), V.reshape(m, k), *((b, c) if biased else zero))

    x = np.concatenate([part.ravel() for part in (at if biased else at[:2])])
    # F is a polynomial of degree 4 on lines, so second differences of step h err by h²/12·F⁗; h = 1e-3 leaves 1e-7
    h, size = 1e-3, len(x)
    E = h * np.eye(size)
    F = {}

    def f(y):
        return value(A, point(y), reg, kind, mean)

    here = f(x)
    for i in range(size):
        F[i] = f(x + E[i]), f(x - E[i])
    H = np.empty((size, size))
    for i in range(size):
        H[i, i] = (F[i][0] - 2 * here + F[i][1]) / h**2
        for j in range(i):
            both = (
                f(x + E[i] + E[j])
                - F[i][0]
                - F[j][0]
                + 2 * here
                - F[i][1]
                - F[j][1]
                + f(x - E[i] - E[j])
            )
            H[i, j] = H[j, i] = both / (2 * h**2)
    blocks = [np.arange(i * k, (i + 1) * k) for i in range(n + m)]
    if biased:
        blocks = [np.r_[block, (n + m) * k + i] for i, block in enumerate(blocks)]
    L = np.zeros_like(H)
    for block in blocks:
        L[np.ix_(block, block)] = np.linalg.cholesky(H[np.ix_(block, block)])
    scaled = np.linalg.solve(L, np.linalg.solve(L, H).T)
    gauge = []
    for i in range(k):
        for j in range(i):
            M = np.zeros((k, k))
            M[i, j], M[j, i] = 1.0, -1.0
            moved = np.concatenate(
                [(at.U @ M).ravel(), (at.V @ M).ravel(), np.zeros((n + m) * biased)]
            )
            gauge.append(L.T @ moved)
    if gauge:
        P, s, _ = np.linalg.svd(np.column_stack(gauge), full_matrices=False)
        P = P[:, s > 1e-9 * max(s.max(), 1e-300)]
        scaled = scaled + 4 * P @ P.T
    return float(np.linalg.eigvalsh((scaled + scaled.T) / 2)[0])


@problems(seeds=64)
def points(seed):
    """Stationary? What further sweeps from there would gain. A minimum? The dense Hessian."""
    rng = np.random.default_rng(seed)
    name = list(KINDS)[seed % len(KINDS)]
    kind, k = KINDS[name], 1 + seed % 3
    n, m = int(rng.integers(7, 11)), int(rng.integers(6, 9))
    A = counts(seed, n, m) if kind.get("implicit") else planted(
        seed, n, m, density=0.8, noise=(0.1, 0.5)[seed % 2], biases=bool(kind.get("biases"))
    )  # fmt: skip
    reg = (0.1, 0.5)[seed % 4 // 2] * (0.3 if kind.get("weighted") else 1)
    scale = (
        1.0
        if kind.get("biases") or kind.get("implicit") or kind.get("weighted") == 0.5
        else (1.0, 1e150, 1e-150, 1e3)[seed % 4]
    )
    best, mean = als(A, k, reg, seed=seed, **kind)
    early, _ = als(A, k, reg, seed=seed, sweeps=1 + seed % 4, **kind)
    less, _ = als(A, max(k - 1, 1), reg, seed=seed, **kind)
    wide = ((0, 0), (0, k - less.U.shape[1]))
    R = np.linalg.qr(rng.normal(size=(k, k)))[0]
    noise = best._replace(U=best.U * (1 + 0.05 * rng.normal(size=best.U.shape)))
    cases = {
        "converged": best,
        "turned": best._replace(U=best.U @ R, V=best.V @ R),
        "early": early,
        "shrunk": best._replace(U=1e-6 * best.U, V=1e-6 * best.V),
        "U shrunk": best._replace(U=1e-3 * best.U),
        "zero": Point(*(np.zeros_like(part) for part in best)),
        "a factor lacks": less._replace(U=np.pad(less.U, wide), V=np.pad(less.V, wide)),
        "perturbed": noise,
        "single precision": Point(*(part.astype(np.float32).astype(float) for part in best)),
    }
    for label, at in cases.items():
        yield from _judge(f"{name}, {label}", A, at, reg, kind, mean, scale)
    yield from _judge(f"{name}, other λ", A, best, 2 * reg, kind, mean, scale)


def _judge(label, A, at, reg, kind, mean, scale):
    now = value(A, at, reg, kind, mean)
    further, _ = als(A, at.U.shape[1], reg, start=at, sweeps=30, **kind)
    gained = 1 - value(A, further, reg, kind, mean) / now
    truths = {}
    if gained < 1e-6 or gained > 1e-2:
        truths["first_order_point"] = gained < 1e-6
    easy = list(truths)
    if gained < 1e-9:
        curvature = smallest_curvature(A, at, reg, kind, mean)
        if curvature > -2e-4 or curvature < -5e-3:
            truths["second_order_minimum"] = curvature > -2e-4
            easy += ["second_order_minimum"] if abs(curvature) > CLEAR else []
    yield Case(label, certify(A, at, reg, kind, mean, scale), truths, easy)


# --- what a fit states ------------------------------------------------------------------------------------------------


def _models(seed, dtype):
    """Fits of every model that states something, and their data."""
    centre = ("none", "global", "rows", "columns", "both", "zscore rows", "zscore columns")[
        seed % 7
    ]
    A = planted(seed, 30, 24, noise=0.2, biases=True)
    A = Observed.of(A.dense().astype(dtype))
    counted = Observed.of(np.abs(A.dense()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield "ALS", ALS(3, 0.1, random_state=seed).fit(A), A
        yield "ALS, by rule", ALS(3, random_state=seed).fit(A), A
        yield (
            "ALS, no biases",
            ALS(3, 1.0, biases=False, reg_weighting="plain", random_state=seed).fit(A),
            A,
        )
        yield (
            "ALS, implicit",
            ALS(2, 0.1, feedback="implicit", random_state=seed).fit(counted),
            counted,
        )
        yield "ALS, unfinished", ALS(3, 0.1, max_iter=2, random_state=seed).fit(A), A
        yield "SGD", SGDFactorization(3, 0.1, random_state=seed, max_iter=20).fit(A), A
        yield f"SoftImpute, {centre}", SoftImpute(1.0, centre=centre, random_state=seed).fit(A), A
        yield (
            "SVT",
            SingularValueThresholding(centre=centre, max_iter=60, random_state=seed).fit(A),
            A,
        )


@problems(seeds=14, quick=1)
def stated(seed):
    """Honest fits, and the same with one number changed by 1 % or a little more."""
    dtype = (np.float64, np.float32)[seed % 2]
    for label, model, A in _models(seed, dtype):
        both = {"attributes_sound": True, "statements_true": True}
        yield Case(label, model.certify(A, seconds=60), both, both)
        single = Observed.of(A.dense().astype(np.float32))
        yield Case(f"{label}, float32 rows", model.certify(single, seconds=60), both, both)
        other = Observed.of(np.where(np.isnan(A.dense()), np.nan, np.roll(A.dense(0.0), 1, axis=0)))
        if hasattr(model, "loss_"):
            found = model.certify(other, seconds=60)
            yield Case(
                f"{label}, other data", found, {"statements_true": False}, ["statements_true"]
            )
        for name in ("loss_", "singular_values_", "row_scale_", "reg_", "bias_reg_", "dual_"):
            if not hasattr(model, name) or (name == "reg_" and not hasattr(model, "loss_")):
                continue
            if name == "bias_reg_" and not np.any(model.row_bias_):
                continue  # nothing depends on it
            before = getattr(model, name)
            changed = np.array(before, dtype=float)
            changed.reshape(-1)[
                seed % max(changed.size, 1) :: 7 if name != "singular_values_" else 99
            ] *= 1.02
            if name == "singular_values_":
                changed = np.maximum.accumulate(changed[::-1])[::-1]  # it has to stay in order
            setattr(model, name, changed if changed.ndim else float(changed))
            certificate = model.certify(A, seconds=60)
            yield Case(
                f"{label}, {name} changed",
                certificate,
                {"statements_true": False},
                ["statements_true"],
            )
            setattr(model, name, before)


@problems(seeds=10, quick=1)
def unsound(seed):
    """Attributes that no fit can have."""
    A = planted(seed, 20, 15, biases=True)
    rng = np.random.default_rng(seed)

    def spoil(model, name, change):
        array = np.array(getattr(model, name), dtype=float)
        change(array.reshape(-1), int(rng.integers(max(array.size, 1))))
        setattr(model, name, array if array.ndim else float(array))

    def put(number):
        def change(flat, at):
            flat[at] = number

        return change

    ways = [
        ("U_", put(np.nan)), ("V_", put(np.inf)), ("row_bias_", put(-np.inf)), ("loss_", put(-1.0)),
        ("row_scale_", put(0.0)), ("mean_", put(np.nan)), ("rank_", put(5)), ("reg_", put(-0.1)),
        ("bias_reg_", put(-1.0)), ("weighted_bias_reg_", put(2.0)), ("weighted_reg_", put(1.5)),
    ]  # fmt: skip
    for name, change in ways:
        model = ALS(2, 0.1, random_state=seed, max_iter=5, tol=0).fit(A)
        yield Case("honest", model.certify(A), {"attributes_sound": True}, ["attributes_sound"])
        spoil(model, name, change)
        yield Case(
            f"{name} spoilt", model.certify(A), {"attributes_sound": False}, ["attributes_sound"]
        )
    model.U_ = model.U_[:-1]
    yield Case("a row lost", model.certify(A), {"attributes_sound": False}, ["attributes_sound"])


@problems(seeds=40, quick=1)
def runs(seed):
    """Traces that only fall, and traces with one rise of a share of what they fell."""
    A, rng = planted(seed), np.random.default_rng(seed)
    at, _ = als(A, 2, 0.3, sweeps=3)
    falling = np.sort(rng.random(20))[::-1] * 10.0 ** rng.integers(-100, 100)
    for label, rises in (("falls", False), ("rises", True)):
        losses, trace = falling.copy(), Trace()
        if rises:
            losses[10] = losses[9] + 10.0 ** rng.integers(-10, 0) * losses[0]
        for loss in losses:
            trace.append(loss, 0.0)
        attributes = {
            "U_": at.U,
            "V_": at.V,
            "row_bias_": at.b,
            "column_bias_": at.c,
            "mean_": 0.0,
            "reg_": 0.3,
        }
        fit = Fit(SimpleNamespace(), A, trace=trace, attributes=attributes)
        never_rose = [claim for claim in EXPLICIT_CLAIMS if claim.name == "never_rose"]
        yield Case(
            label, check(never_rose, fit, "a run"), {"never_rose": not rises}, ["never_rose"]
        )


@problems(seeds=20, quick=1)
def schedules(seed):
    """Runs with steps γ/(1 + t)^p: their noise dies out if and only if p > ½ (Robbins & Monro)."""
    A = planted(seed, 20, 15)
    for decay in (0.0, 0.3, 0.45, 0.55, 0.75, 1.0):
        model = SGDFactorization(
            2, 0.1, learning_rate=0.02, decay=decay, max_iter=5 + seed, tol=0, random_state=seed
        ).fit(A)
        truth = {"steps_shrink": decay > 0.5}
        yield Case(f"decay {decay}", model.certificate_, truth, truth)
