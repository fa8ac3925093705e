"""Runs of descent whose constants, gaps and curvatures are known: by an SVD, by construction, or by a formula here."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import minimize as scipy_minimize

from lemmata import optim
from lemmata.core.runs.trace import Trace
from truth.harness import Case, problems

RUN = ("step_below_2_over_L", "enough_decrease", "rate_kept", "critical_in_time")
END = ("attributes_sound", "statements_true", "gradient_matches", "first_order", "second_order")


def tampered(result: Any, rows: dict[str, np.ndarray] | None = None, **changes: Any) -> Any:
    """A copy with other attributes, and with other columns in its trace."""
    result = copy.copy(result)
    for name, value in changes.items():
        setattr(result, name, value)
    if rows:
        trace, columns = (
            Trace(),
            {**result.trace_.extras, "objective": result.trace_.objective, **rows},
        )
        values = columns.pop("objective")
        for t in range(len(values)):
            trace.append(values[t], 0.0, {name: column[t] for name, column in columns.items()})
        result.trace_ = trace
    return result


def planted(seed: int) -> tuple[Any, np.ndarray, float, float]:
    """An objective, a start, and its true L and f*, by ways of their own."""
    rng = np.random.default_rng(seed)
    d, kind = int(rng.integers(2, 9)), seed % 3
    scale = 10.0 ** rng.integers(-2, 3)
    if kind == 0:
        values = np.r_[1.0, rng.uniform(1, 40, d - 1)] * scale
        Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
        H, x = (Q * values) @ Q.T, rng.standard_normal(d)
        H = (H + H.T) / 2
        return (
            optim.Quadratic(H, b=H @ x),
            x + rng.standard_normal(d),
            values.max(),
            -0.5 * x @ H @ x,
        )
    X = rng.standard_normal((40 + d, d)) * rng.uniform(0.3, 3, d) * math.sqrt(scale)
    y = X @ rng.standard_normal(d) + rng.standard_normal(len(X)) * math.sqrt(scale)
    top = np.linalg.svd(X, compute_uv=False)[0] ** 2 / len(X)
    w = rng.standard_normal(d)
    if kind == 1:
        residual = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
        return optim.LeastSquares(X, y), w, top, 0.5 * np.mean(residual**2)
    reg = 0.05 * top
    f = optim.Logistic(X, y > 0, reg=reg)
    best = scipy_minimize(f, np.zeros(d), jac=True, method="BFGS", options={"gtol": 1e-11})
    return f, w / math.sqrt(scale), top / 4 + reg, best.fun


def steps_promised(
    f: Any, L: float, f_star: float, eta: float, start: np.ndarray, tol: float
) -> float:
    return (f(start)[0] - f_star) / (eta * (1 - L * eta / 2) * tol**2)


@problems(seeds=45, quick=1)
def known_formulas(seed) -> Iterator[Case]:
    """Gradient descent on quadratics, least squares and logistic losses: short and long steps, healthy and tampered with."""
    f, start, L, f_star = planted(seed)
    size = float(np.linalg.norm(f(start)[1]))
    tol = 1e-5 * size
    for times in (0.5, 1.0, 1.7):
        healthy = optim.minimize(f, start, "gd", step_size=times / L, tol=tol, max_iter=4000)
        reached = healthy.stopped_ == "small gradient"
        truths = dict.fromkeys(RUN[:3], True) | dict.fromkeys(END, True)
        truths |= {"critical_in_time": True, "first_order": reached}
        easy = [name for name in truths if name != "critical_in_time" or reached]
        yield Case(
            f"step {times}/L",
            healthy.certify(),
            truths if reached else {k: truths[k] for k in easy},
            easy,
        )
    long = optim.minimize(f, start, "gd", step_size=2.3 / L, tol=tol, max_iter=6)
    yield Case(
        "step 2.3/L", long.certify(), {"step_below_2_over_L": False, "first_order": False}, RUN[:1]
    )
    short = optim.minimize(f, start, "gd", step_size=1 / L, tol=tol, max_iter=3)
    yield Case(
        "stopped early",
        short.certify(),
        {"first_order": False, "statements_true": True},
        ("first_order",),
    )
    run = optim.minimize(f, start, "gd", step_size=1 / L, tol=tol, max_iter=4000)
    values = run.trace_.objective
    raised = values.copy()
    raised[1] = values[0]  # a step that gained nothing, though its gradient is largest
    found = tampered(run, {"objective": raised}).certify()
    yield Case(
        "a step without decrease",
        found,
        {"enough_decrease": False, "statements_true": True},
        RUN[1:2],
    )
    slow = np.repeat(values, 40)  # forty steps for each
    columns = {"objective": slow, **{n: np.repeat(c, 40) for n, c in run.trace_.extras.items()}}
    gap0 = values[0] - f_star
    mu = _least_curvature(f)
    rate = 1 - mu / L
    t = np.arange(1, len(slow))
    kept = bool(
        ((slow[1:] - f_star) <= rate**t * gap0 * (1 + 1e-6) + 1e-12 * abs(values).max()).all()
    )
    columns["step_size"][1:] = 1 / L
    yield Case("every step forty times", tampered(run, columns).certify(), {"rate_kept": kept}, ())
    coarse = 0.5 * size
    most = steps_promised(f, L, f_star, 1 / L, start, coarse)
    stuck = np.full(int(2 * most) + 20, values[-1])
    stuck[: min(len(values), len(stuck))] = values[: len(stuck)]
    rows = {
        "objective": stuck,
        "gradient": np.full(len(stuck), size),
        "step_size": np.full(len(stuck), 1 / L),
    }
    rows |= {"residual": np.full(len(stuck), size)}
    late = tampered(run, rows, tol=coarse, x=run.x).certify()
    yield Case("a gradient that stays", late, {"critical_in_time": False}, ("critical_in_time",))
    yield Case(
        "another value",
        tampered(run, value=run.value + 1e-6 * abs(values[0])).certify(),
        {"statements_true": False},
    )
    yield Case(
        "another gradient",
        tampered(run, gradient=run.gradient + tol).certify(),
        {"statements_true": False},
    )
    yield Case("a NaN", tampered(run, x=run.x * np.nan).certify(), {"attributes_sound": False})


def _least_curvature(f: Any) -> float:
    name, facts = f.structure
    if name == "quadratic":
        return float(np.linalg.eigvalsh(facts["H"])[0])
    if name == "logistic":
        return float(facts["reg"])
    s = np.linalg.svd(facts["X"], compute_uv=False)
    return float(s[-1] ** 2 / len(facts["X"]))


# --- functions that are only called -----------------------------------------------------------------------------------


class Valley:
    """Σ cosh-like bowls: ½Σaᵢxᵢ² + Σ log cosh xᵢ, so that curvatures lie between aᵢ and aᵢ + 1; `wrong` spoils the gradient."""

    def __init__(self, a: np.ndarray, wrong: float = 0.0):
        self.a, self.wrong = a, wrong

    def __call__(self, x):
        value = 0.5 * float(self.a @ x**2) + float(np.logaddexp(x, -x).sum())
        g = self.a * x + np.tanh(x)
        return value, g * (1 + self.wrong * np.arange(len(x)))


class _Bounded(Valley):
    """A valley that knows its minimum: d·log 2 at 0."""

    @property
    def minimum(self) -> float:
        return len(self.a) * math.log(2.0)


class Ridge:
    """½x² with a ridge of curvature k and width w at c on the way: ½kw² log(1 + ((x − c)/w)²)."""

    def __init__(self, c: float, k: float, w: float):
        self.c, self.k, self.w = c, k, w

    def __call__(self, x):
        u = (x[0] - self.c) / self.w
        value = 0.5 * x[0] ** 2 + 0.5 * self.k * self.w**2 * math.log1p(u**2)
        return float(value), np.array([x[0] + self.k * self.w * u / (1 + u**2)])

    def steepest(self, low: float, high: float) -> float:
        u = (np.linspace(low, high, 20001) - self.c) / self.w
        return float(np.abs(1 + self.k * (1 - u**2) / (1 + u**2) ** 2).max())


@problems(seeds=40, quick=1)
def ridges(seed) -> Iterator[Case]:
    """A steep place between flat ones: what L is on the way, against what two points and the steps themselves show of it."""
    rng = np.random.default_rng(700 + seed)
    c = float(rng.uniform(1, 2))
    w = float(rng.uniform(0.1, 0.4))
    f = Ridge(c, k=float(rng.uniform(0.2, 1.8)) * c / w, w=w)
    for eta in (0.02, 0.1, 0.5):
        passed: list[float] = [3.0]
        note = lambda solution: passed.append(float(solution.state.params[0][0]))  # noqa: B023, E731
        run = optim.minimize(f, [3.0], "gd", step_size=eta, max_iter=3000, callbacks=[note])
        true = eta * f.steepest(min(passed), max(passed)) < 2
        yield Case(
            f"step {eta}", run.certify(), {"step_below_2_over_L": true, "gradient_matches": True}
        )


@problems(seeds=40, quick=1)
def black_boxes(seed) -> Iterator[Case]:
    """The same claims where L is measured at two points, and a gradient that is wrong in one coordinate."""
    rng = np.random.default_rng(500 + seed)
    a = rng.uniform(0.2, 10, int(rng.integers(2, 7)))
    f, start = Valley(a), 0.3 * rng.standard_normal(len(a))
    L = a.max() + 1  # at 0, where runs end
    for times in (0.3, 1.0, 1.6):
        run = optim.minimize(f, start, "gd", step_size=times / L, tol=1e-7)
        truths = dict.fromkeys([*RUN[:3], *END], True)
        easy = ("step_below_2_over_L", "first_order", "second_order", "gradient_matches")
        yield Case(f"step {times}/L", run.certify(), truths, easy)
    long = optim.minimize(f, start, "gd", step_size=2.6 / L, tol=1e-9, max_iter=8)
    yield Case("step 2.6/L", long.certify(), {"step_below_2_over_L": False, "first_order": False})
    run = optim.minimize(f, start, "gd", step_size=1 / L, tol=1e-7)
    values = run.trace_.objective
    lazy = np.r_[values[:1], values[:1], values[2:]]
    yield Case(
        "a step without decrease",
        tampered(run, {"objective": lazy}).certify(),
        {"enough_decrease": False},
    )
    slow = {name: np.repeat(c, 5) for name, c in {**run.trace_.extras, "objective": values}.items()}
    slow["step_size"][1:] = 1 / L
    yield Case("every step five times", tampered(run, slow).certify(), {"rate_kept": False})
    auto = optim.minimize(f, start, "gd")
    most = 2 * 4 * L * (values[0] - values[-1]) / 1.0**2  # steps are at least 1/2L
    stays = {name: np.full(int(most) + 50, c[-1]) for name, c in auto.trace_.extras.items()}
    stays |= {"gradient": np.full(int(most) + 50, 2.0), "step_size": np.full(int(most) + 50, 1 / L)}
    stays["objective"] = np.r_[values[0], np.full(int(most) + 49, auto.value)]
    f_known = _Bounded(a)  # with a lower bound of its own, so that the steps can be counted
    counted = tampered(auto, stays, tol=1.0, objective_=f_known).certify()
    yield Case("a gradient that stays", counted, {"critical_in_time": False})
    yield Case(
        "auto",
        auto.certify(),
        dict.fromkeys(["enough_decrease", "critical_in_time", *END], True),
        END,
    )
    for method in ("lbfgs", "newton", "adam", "coordinate", "nesterov"):
        run = optim.minimize(f, start, method)
        yield Case(method, run.certify(), dict.fromkeys(END, True), END)
        wrong = optim.minimize(Valley(a, wrong=0.1), start, method, max_iter=20)
        yield Case(
            f"{method}, wrong gradient",
            wrong.certify(),
            {"gradient_matches": False},
            ("gradient_matches",),
        )
    theirs = scipy_minimize(f, start, jac=True, method="BFGS", options={"gtol": 1e-8})
    point = dict.fromkeys([*END, "saddle_escaped"], True)
    yield Case("SciPy's", optim.certify_minimum(f, theirs), point, point)
    theirs.fun += 1e-3
    yield Case("SciPy's, tampered", optim.certify_minimum(f, theirs), {"statements_true": False})
    early = scipy_minimize(f, start, jac=True, method="BFGS", options={"maxiter": 1})
    yield Case(
        "SciPy's, stopped",
        optim.certify_minimum(f, early),
        {"first_order": False},
        ("first_order",),
    )


# --- saddle points ----------------------------------------------------------------------------------------------------


class Double:
    """¼(x₀² − 1)²·h + ½Σcᵢxᵢ², i ≥ 1: a strict saddle at 0 of height h/4, minima at (±1, 0, …)."""

    def __init__(self, h: float, c: np.ndarray):
        self.h, self.c = h, c

    def __call__(self, x):
        value = 0.25 * self.h * (x[0] ** 2 - 1) ** 2 + 0.5 * float(self.c @ x[1:] ** 2)
        return float(value), np.r_[self.h * x[0] * (x[0] ** 2 - 1), self.c * x[1:]]


@problems(seeds=40, quick=1)
def saddles(seed) -> Iterator[Case]:
    """A double well from its saddle, with noise and without, and indefinite quadratics whose Hessian is a formula."""
    rng = np.random.default_rng(900 + seed)
    f = Double(rng.uniform(0.5, 3), rng.uniform(0.5, 5, int(rng.integers(1, 6))))
    start = np.r_[0.0, rng.standard_normal(len(f.c))]
    stays = optim.minimize(f, start, "gd", tol=1e-7)
    point = optim.certify_minimum(f, stays.x)
    yield Case(
        "gd stays", stays.certify(), {"first_order": True, "second_order": False}, ("second_order",)
    )
    yield Case(
        "the saddle", point, {"saddle_escaped": False, "second_order": False}, ("saddle_escaped",)
    )
    noisy = optim.minimize(f, start, "noisy", tol=1e-6, max_iter=20_000, random_state=seed)
    left = abs(noisy.x[0]) > 0.99
    yield Case(
        "noise",
        noisy.certify(),
        dict.fromkeys(["saddle_escaped", "second_order"], left),
        ("second_order",),
    )
    values = np.r_[-rng.uniform(0.01, 1), rng.uniform(0.5, 3, 3)]
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    H = (Q * values) @ Q.T
    found = optim.certify_minimum(optim.Quadratic((H + H.T) / 2), np.zeros(4))
    yield Case(
        "indefinite",
        found,
        {"first_order": True, "second_order": False, "saddle_escaped": False},
        END[3:],
    )
    H = (Q * np.abs(values)) @ Q.T
    found = optim.certify_minimum(optim.Quadratic((H + H.T) / 2), np.zeros(4))
    yield Case(
        "definite",
        found,
        {"first_order": True, "second_order": True, "saddle_escaped": True},
        END[3:],
    )


# --- steps that shrink ------------------------------------------------------------------------------------------------


class Custom:
    """A schedule whose formula the audit does not know."""

    def __init__(self, r: float):
        self.exponent, self.r = r, r

    def __call__(self, t: int) -> float:
        return 0.1 / (3.0 + t) ** self.r


@problems(seeds=12, quick=1)
def schedules(seed) -> Iterator[Case]:
    """Σηₜ = ∞ and Σηₜ² < ∞: for t^−r exactly if ½ < r ≤ 1."""
    rng = np.random.default_rng(1300 + seed)
    X = rng.standard_normal((40, 3))
    f = optim.LeastSquares(X, X @ rng.standard_normal(3) + rng.standard_normal(40))
    r = float(rng.uniform(0.55, 0.99))
    cases: list[tuple[Any, bool]] = [
        (optim.PowerDecay(0.1, r), True),
        (optim.PowerDecay(0.1, 1.0, delay=30.0), True),
        (optim.PowerDecay(0.1, 0.5), False),
        (optim.PowerDecay(0.1, r - 0.5), False),
        (optim.PowerDecay(0.1, r + 0.5), False),
        (optim.InverseDecay(0.1, 0.01), True),
        (optim.InverseDecay(0.1, 0.0), False),
        (optim.StepDecay(0.1, 0.5, 10), False),
        (optim.Cosine(0.1, 100), False),
        (0.1, False),
        (Custom(r), True),
        (Custom(0.4), False),
        (Custom(1.3), False),
    ]
    for schedule, true in cases:
        run = optim.minimize(f, np.zeros(3), "sgd", step_size=schedule, batch_size=8, max_iter=4)
        name = ("robbins_monro",)
        yield Case(repr(schedule)[:40], run.certify(), {"robbins_monro": true}, name)


# --- kinks, sets, conditions, games -----------------------------------------------------------------------------------


@problems(seeds=20, quick=1)
def kinks(seed) -> Iterator[Case]:
    """Medians on an interval: the gap is known, and the bound is computed here by another run of the formula."""
    rng = np.random.default_rng(1700 + seed)
    y = rng.uniform(0, 10, 2 * int(rng.integers(3, 20)) + 1)
    f, middle = optim.LeastAbsolute(np.ones((len(y), 1)), y), float(np.median(y))
    best = float(np.mean(np.abs(y - middle)))
    for width, eta0, steps in ((10.0, 3.0, 20), (10.0, 3.0, 1500), (0.5, 0.25, 1500)):
        low, high = middle - 0.7 * width, middle + 0.3 * width
        box, schedule = optim.Box(np.full(1, low), np.full(1, high)), optim.PowerDecay(eta0, 0.5)
        run = optim.minimize(
            f, [high], "subgradient", step_size=schedule, constraint=box, max_iter=steps
        )
        x, sums, squares = high, 0.0, 0.0
        for t in range(steps):
            g, eta = float(np.sign(x - y).mean()), eta0 / math.sqrt(1 + t)
            sums, squares = sums + eta, squares + eta**2 * g**2
            x = min(max(x - eta * g, low), high)
        bound = min((width**2 + squares) / (2 * sums), run.value)  # f ≥ 0
        true = bound <= max(1e-6, 0.01 * run.value)
        assert run.value - best <= bound + 1e-12
        truths = {
            "subgradient_gap": true,
            "feasible": True,
            "statements_true": True,
            "attributes_sound": True,
        }
        yield Case(f"width {width}, {steps} steps", run.certify(), truths, truths)
    off = tampered(run, x=run.x + 20.0)
    yield Case(
        "outside", off.certify(), {"feasible": False, "statements_true": False}, ("feasible",)
    )


@problems(seeds=30, quick=1)
def sets(seed) -> Iterator[Case]:
    """Quadratics on six sets: solved, stopped early, moved along and out of the set."""
    rng = np.random.default_rng(2100 + seed)
    d = 5
    X, y = rng.standard_normal((30, d)), 3 * rng.standard_normal(30)
    f = optim.LeastSquares(X, y, reg=0.2)
    A = rng.standard_normal((2, d))
    choices = [
        optim.Box(-0.2, 0.3),
        optim.Ball(0.3),
        optim.Simplex(),
        optim.L1Ball(0.4),
        optim.Affine(A, A @ y[:d]),
    ]
    for chosen in choices:
        name, start = type(chosen).__name__, rng.standard_normal(d)
        run = optim.minimize(f, start, constraint=chosen, tol=1e-7)
        steps = ("step_below_2_over_L", "enough_decrease", "critical_in_time")
        good = dict.fromkeys(["feasible", "projected_gradient_small", *END[:3], *steps], True)
        yield Case(
            name, run.certify(), good, ("feasible", "projected_gradient_small", "enough_decrease")
        )
        moved = chosen(run.x + 0.1 * rng.standard_normal(d))
        residual = np.linalg.norm(moved - chosen(moved - 0.01 * f(moved)[1])) / 0.01
        truths = {"feasible": True, "projected_gradient_small": bool(residual <= 1e-7)}
        yield Case(
            f"{name}, moved",
            optim.certify_minimum(f, moved, constraint=chosen, tol=1e-7),
            truths,
            truths,
        )
        out = run.x + 1e-3 * rng.standard_normal(d)
        inside = np.linalg.norm(out - chosen(out)) < 1e-12
        found = optim.certify_minimum(f, out, constraint=chosen)
        yield Case(f"{name}, off", found, {"feasible": bool(inside)}, ("feasible",))
    M = rng.standard_normal((4, 4))
    near = lambda Z: (0.5 * float(np.sum((Z - M) ** 2)), Z - M)  # noqa: E731
    for chosen in (optim.RankK(2), optim.PSD()):
        run = optim.minimize(near, np.zeros((4, 4)), constraint=chosen)
        good = dict.fromkeys(["feasible", "projected_gradient_small"], True)
        yield Case(type(chosen).__name__, run.certify(), good, good)
        found = optim.certify_minimum(near, M, constraint=chosen)
        yield Case(f"{type(chosen).__name__}, off", found, {"feasible": False}, ("feasible",))


@problems(seeds=20, quick=1)
def conditions(seed) -> Iterator[Case]:
    """Equations and inequalities around a quadratic: multipliers by a linear system, then spoiled."""
    rng = np.random.default_rng(2500 + seed)
    f = optim.Quadratic(np.diag(rng.uniform(1, 4, 4)), b=rng.standard_normal(4))
    A, b = rng.standard_normal((1, 4)), rng.standard_normal(1)
    asked = optim.Conditions(
        equal=lambda x: (A @ x - b, A), at_most=lambda x: (x[:1] - 0.1, np.eye(4)[:1])
    )
    run = optim.minimize(f, np.zeros(4), constraint=asked, tol=1e-6)
    good = dict.fromkeys(["conditions_met", "multipliers_balance", *END[:3]], True)
    yield Case("solved", run.certify(), good, good)
    lam, nu = run.multipliers_
    spoiled = tampered(run, multipliers_=(lam + 0.1, nu)).certify()
    yield Case(
        "other multipliers", spoiled, {"multipliers_balance": False}, ("multipliers_balance",)
    )
    moved = tampered(run, x=run.x + 0.01 * A[0], value=f(run.x + 0.01 * A[0])[0]).certify()
    yield Case("moved off", moved, {"conditions_met": False}, ("conditions_met",))
    rough = optim.minimize(f, np.full(4, 3.0), "penalty", constraint=asked, max_iter=2)
    off = abs(float((A @ rough.x - b)[0])) > 1e-6 or rough.x[0] > 0.1 + 1e-6
    yield Case("two penalties", rough.certify(), {"conditions_met": not off}, ("conditions_met",))


@problems(seeds=20, quick=1)
def games(seed) -> Iterator[Case]:
    """Bilinear and strongly convex–concave games: who drifts, who circles, who arrives."""
    rng = np.random.default_rng(2900 + seed)
    d, B = 3, np.linalg.qr(rng.standard_normal((3, 3)))[0] * rng.uniform(0.5, 1.5)
    strength = 0.0 if seed % 2 else float(rng.uniform(0.3, 1))
    start = rng.standard_normal(d), rng.standard_normal(d)

    def game(x, y):
        value = float(x @ B @ y) + 0.5 * strength * (float(x @ x) - float(y @ y))
        return value, B @ y + strength * x, B.T @ x - strength * y

    for method in ("extragradient", "alternating", "synchronous"):
        found = optim.saddle_point(
            game, *start, method=method, step_size=0.2, max_iter=900, tol=1e-6
        )
        _, slope_x, slope_y = game(found.x, found.y)
        reached = bool(np.hypot(np.linalg.norm(slope_x), np.linalg.norm(slope_y)) <= 1e-6)
        arrives = strength > 0 or method == "extragradient"
        truths = {
            "saddle_point_reached": reached,
            "approaches": arrives,
            "statements_true": True,
            "attributes_sound": True,
        }
        yield Case(f"{method}, strength {strength:.2g}", found.certificate_, truths, truths)
        other = tampered(found, value=1.01 * found.value + 1.0)
        yield Case(
            f"{method}, tampered", other.certify(), {"statements_true": False}, ("statements_true",)
        )
        gone = tampered(found, value=math.nan)
        yield Case(
            f"{method}, NaN", gone.certify(), {"attributes_sound": False}, ("attributes_sound",)
        )
