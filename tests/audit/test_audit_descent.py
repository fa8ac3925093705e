"""Each claim about descent holds where it should and fails where it should; proofs are claimed only where a formula gives L."""

import copy

import numpy as np
import pytest
from scipy.optimize import OptimizeResult
from scipy.optimize import minimize as scipy_minimize

from lemmata import optim
from lemmata.audit.optim import smoothness
from lemmata.audit.optim.descent import DESCENT_CLAIMS, MINIMISER_CLAIMS
from lemmata.core import Trace

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 4)) * [1.0, 2.0, 0.5, 1.0]
Y = X @ np.ones(4) + rng.standard_normal(80)
KNOWN = {
    "quadratic": optim.Quadratic(X.T @ X / 80, b=np.ones(4)),
    "squares": optim.LeastSquares(X, Y),
    "logistic": optim.Logistic(X, Y > 0, reg=0.1),
}
RUN = ("step_below_2_over_L", "enough_decrease", "rate_kept", "critical_in_time")


def changed(result, rows=None, **changes):
    result = copy.copy(result)
    for name, value in changes.items():
        setattr(result, name, value)
    if rows is not None:
        trace = Trace()
        columns = {**result.trace_.extras, "objective": result.trace_.objective, **rows}
        values = columns.pop("objective")
        for t, value in enumerate(values):
            trace.append(value, 0.0, {name: column[t] for name, column in columns.items()})
        result.trace_ = trace
    return result


@pytest.mark.parametrize("f", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("times", [0.3, 1.0, 1.9])
def test_every_promise_is_kept_and_proved_where_a_formula_gives_L(f, times):
    found = optim.minimize(f, np.ones(4), "gd", step_size=times / f.L).certify()
    assert found.held == [claim.name for claim in DESCENT_CLAIMS]
    assert {found[name].kind for name in (*RUN, "first_order", "second_order")} == {"proved"}


@pytest.mark.parametrize("f", KNOWN.values(), ids=KNOWN)
def test_of_a_function_that_is_only_called_nothing_is_called_proved_but_definitions(f):
    found = optim.minimize(lambda w: f(w), np.ones(4), "gd", step_size=1 / f.L).certify()
    assert found.failed == []
    proved = [item.name for item in found if item.kind == "proved" and item.verdict == "holds"]
    assert proved == ["attributes_sound", "statements_true"]
    stated = type("Stated", (), {"L": f.L, "__call__": lambda self, w: f(w)})()
    found = optim.minimize(stated, np.ones(4), "gd").certify()
    assert found["step_below_2_over_L"].kind == "rule of thumb"  # nobody checked that L


def test_a_formula_that_the_function_does_not_follow_is_noticed():
    """`structure` says one quadratic, the calls another: what is stated is then not true of the formula."""

    class Liar(optim.Quadratic):
        def __call__(self, x):
            value, gradient = super().__call__(x)
            return 1.01 * value, 1.01 * gradient

    liar = Liar(KNOWN["quadratic"].H, b=np.ones(4))
    found = optim.minimize(liar, np.ones(4), "gd").certify()
    assert "statements_true" in found.failed


@pytest.mark.parametrize("f", KNOWN.values(), ids=KNOWN)
def test_a_step_beyond_2_over_L_fails(f):
    found = optim.minimize(f, np.ones(4), "gd", step_size=2.01 / f.L, max_iter=5).certify()
    assert {"step_below_2_over_L", "first_order"} <= set(found.failed)
    assert {"enough_decrease", "rate_kept", "critical_in_time"} <= set(found.undecided)


def test_the_rate_of_the_best_constant_step_is_that_of_4_35_and_is_nearly_attained():
    f = KNOWN["quadratic"]
    kappa = f.L / f.mu
    worst = np.linalg.eigh(f.H)[1][:, [0, -1]].sum(axis=1)  # both ends of the spectrum
    start = np.linalg.solve(f.H, f.b) + worst
    item = optim.minimize(f, start, "gd").certify()["rate_kept"]
    assert item.bound == pytest.approx(((kappa - 1) / (kappa + 1)) ** 2, rel=1e-6)
    assert item.measured == pytest.approx(item.bound, rel=1e-3)
    f = KNOWN["logistic"]
    item = optim.minimize(f, np.ones(4), "gd").certify()["rate_kept"]
    assert item.bound == pytest.approx(1 - f.mu / f.L, rel=1e-6)  # Theorem 4.3.2


def test_a_flat_quadratic_keeps_the_rate_of_its_least_positive_eigenvalue():
    f = optim.Quadratic(np.diag([0.0, 1.0, 4.0]))
    item = optim.minimize(f, np.ones(3), "gd", step_size=1 / f.L).certify()["rate_kept"]
    assert item.verdict == "holds"
    assert item.bound == pytest.approx((1 - 1 / 4) ** 2)


def test_traces_that_tell_another_story_fail():
    f = KNOWN["squares"]
    run = optim.minimize(f, np.ones(4), "gd", step_size=1 / f.L)
    values = run.trace_.objective
    lazy = values.copy()
    lazy[1] = lazy[0]
    assert "enough_decrease" in changed(run, {"objective": lazy}).certify().failed
    slow = {name: np.repeat(column, 30) for name, column in run.trace_.extras.items()}
    slow |= {"objective": np.repeat(values, 30)}
    slow["step_size"][1:] = 1 / f.L
    assert "rate_kept" in changed(run, slow).certify().failed
    other = values.copy()
    other[-1] += 1e-6
    assert "statements_true" in changed(run, {"objective": other}).certify().failed


def test_theorem_431_counts_steps():
    f = KNOWN["squares"]
    run = optim.minimize(f, 5 * np.ones(4), "gd", step_size=1 / f.L, tol=0.5)
    item = run.certify()["critical_in_time"]
    assert item.verdict == "holds"
    assert item.measured == run.n_iter_
    assert item.bound <= 2 * f.L * (run.trace_.objective[0] - f.minimum) / 0.5**2 + 1.001
    early = optim.minimize(f, 5 * np.ones(4), "gd", step_size=1 / f.L, tol=1e-8, max_iter=3)
    assert "critical_in_time" in early.certify().undecided


def test_stated_numbers_and_shapes_are_checked():
    run = optim.minimize(KNOWN["logistic"], np.ones(4))
    assert run.certify().held == [claim.name for claim in MINIMISER_CLAIMS]
    assert "statements_true" in changed(run, value=run.value * 1.001).certify().failed
    assert "statements_true" in changed(run, gradient=run.gradient + 1e-3).certify().failed
    for wrong in ({"x": run.x * np.nan}, {"gradient": run.gradient[:3]}, {"value": np.inf}):
        assert "attributes_sound" in changed(run, **wrong).certify().failed


@pytest.mark.parametrize("size", [1e-100, 1e-6, 1.0, 1e6, 1e100])
def test_the_unit_of_f_changes_no_verdict_about_the_run(size):
    f = optim.Quadratic(size * KNOWN["quadratic"].H, b=size * np.ones(4))
    run = optim.minimize(f, np.ones(4), "gd", tol=1e-6 * size)
    assert run.certify().held == [claim.name for claim in DESCENT_CLAIMS]


def test_a_wrong_gradient_is_named():
    f = KNOWN["logistic"]
    found = optim.minimize(lambda w: (f(w)[0], 1.001 * f(w)[1]), np.ones(4)).certify()
    assert "gradient_matches" in found.failed
    assert "torch closure" in found["gradient_matches"].advice


def test_a_saddle_is_a_saddle_with_a_witness():
    def f(x):
        return float(x[0] ** 4 / 4 - x[0] ** 2 / 2 + x[1] ** 2 / 2), np.array(
            [x[0] ** 3 - x[0], x[1]]
        )

    stays = optim.minimize(f, [0.0, 1.0], "gd").certify()
    assert "second_order" in stays.failed
    point = optim.certify_minimum(f, [0.0, 0.0])
    assert point["saddle_escaped"].verdict == "fails"
    assert point["saddle_escaped"].kind == "proved"  # a lower point was found
    assert optim.minimize(f, [0.0, 1.0], "noisy").certify().failed == []


def test_many_numbers_are_examined_by_products_alone():
    a = np.linspace(1, 30, 400)
    a[7] = -2.0
    bowl = lambda x: (0.5 * float(a @ x**2), a * x)  # noqa: E731
    found = optim.certify_minimum(bowl, np.zeros(400))
    assert found["second_order"].measured == pytest.approx(-2 / 30, rel=0.02)
    assert {"second_order", "saddle_escaped"} <= set(found.failed)


def test_results_of_scipy_are_certified():
    f = KNOWN["logistic"]
    theirs = scipy_minimize(
        f, np.ones(4), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 0}
    )
    assert optim.certify_minimum(f, theirs).failed == []
    loose = scipy_minimize(f, np.ones(4), jac=True, method="L-BFGS-B", options={"maxiter": 2})
    assert "first_order" in optim.certify_minimum(f, loose).failed
    wrong = OptimizeResult(x=theirs.x, fun=0.0, jac=theirs.jac)
    assert "statements_true" in optim.certify_minimum(f, wrong).failed
    on_box = scipy_minimize(
        f, np.full(4, 0.1), jac=True, bounds=[(0, 0.2)] * 4, options={"gtol": 1e-10, "ftol": 0}
    )
    found = optim.certify_minimum(f, on_box.x, constraint=optim.Box(0.0, 0.2))
    assert found.failed == []
    assert "f − f* ≤" in found["projected_gradient_small"].note


@pytest.mark.parametrize(
    "constraint", [optim.Box(0.0, 0.3), optim.Ball(0.4), optim.Simplex(), optim.L1Ball(0.5)]
)
def test_the_bound_of_the_gap_in_the_note_is_a_bound(constraint):
    f = KNOWN["squares"]
    best = optim.minimize(f, np.full(4, 0.1), constraint=constraint, tol=1e-10).value
    rough = optim.minimize(f, np.full(4, 0.1), constraint=constraint, max_iter=3)
    note = rough.certify()["projected_gradient_small"].note
    assert rough.value - best <= float(note.split("≤")[1]) * 1.01


def test_outside_of_a_set_and_away_from_its_minimum_fail():
    f, box = KNOWN["squares"], optim.Box(0.0, 0.3)
    run = optim.minimize(f, np.full(4, 0.1), constraint=box)
    assert "feasible" in changed(run, x=run.x + 1e-9).certify().failed
    assert (
        "projected_gradient_small"
        in optim.certify_minimum(f, np.full(4, 0.1), constraint=box).failed
    )


def test_schedules_are_judged_by_their_formula_once_the_run_kept_to_it():
    f = KNOWN["squares"]
    judged = {}
    for r in (0.5, 0.51, 1.0, 1.01):
        run = optim.minimize(f, np.zeros(4), "sgd", step_size=optim.PowerDecay(0.1, r), max_iter=3)
        judged[r] = run.certify()["robbins_monro"].verdict
    assert judged == {0.5: "fails", 0.51: "holds", 1.0: "holds", 1.01: "fails"}
    steps = run.trace_.extras["step_size"] * 2
    assert "robbins_monro" in changed(run, {"step_size": steps}).certify().undecided


def test_the_formulas_of_the_audit_give_the_constants_that_sampling_finds():
    for f in KNOWN.values():
        values = smoothness.eigenvalues(f)
        x, y = rng.standard_normal((2, 200, 4))
        ratios = [
            np.linalg.norm(f(a)[1] - f(b)[1]) / np.linalg.norm(a - b)
            for a, b in zip(x, y, strict=True)
        ]
        assert max(ratios) <= values[-1] * (1 + 1e-12)
    assert smoothness.eigenvalues(optim.Rosenbrock()) is None


def test_a_barely_negative_eigenvalue_of_a_formula_is_a_saddle_all_the_same():
    f = optim.Quadratic(np.diag([1.0, -1e-9]))
    found = optim.certify_minimum(f, np.zeros(2))
    assert {"second_order", "saddle_escaped"} <= set(found.failed)
    assert found["second_order"].kind == "proved"


def test_float32_points_are_held_to_tol_not_to_their_rounding():
    f = optim.LeastSquares(1e3 * X, 1e3 * Y)
    x = np.linalg.lstsq(X, Y, rcond=None)[0].astype(np.float32)
    found = optim.certify_minimum(f, x, tol=1e-6)
    assert np.linalg.norm(f(x.astype(float))[1]) > 1e-4
    assert "first_order" in found.failed
