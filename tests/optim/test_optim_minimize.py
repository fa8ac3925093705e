"""minimize: every method by name, every kind of function, every kind of set, and what a wrong call is told."""

import time

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

import lemmata
from lemmata import optim
from lemmata.optim import (
    METHODS,
    PSD,
    Affine,
    Ball,
    Box,
    Conditions,
    Constant,
    L1Ball,
    LeastAbsolute,
    LeastSquares,
    Logistic,
    PowerDecay,
    Quadratic,
    RankK,
    Rosenbrock,
    Simplex,
    SumOf,
    minimize,
)

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 5)) * [1.0, 2.0, 3.0, 1.0, 0.5]
Y = X @ rng.standard_normal(5) + rng.standard_normal(200)
SQUARES, LOGISTIC = LeastSquares(X, Y, reg=0.1), Logistic(X, Y > 0, reg=0.05)
EXACT = [
    m
    for m in METHODS
    if m not in ("adagrad", "sign", "sgd", "subgradient", "penalty", "augmented_lagrangian")
]


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize(
    "f", [SQUARES, LOGISTIC, lambda w: LOGISTIC(w)], ids=["squares", "logistic", "black box"]
)
def test_every_method_finds_the_minimum_and_its_certificate_says_so(method, f):
    found = minimize(f, np.zeros(5), method)
    truth = scipy_minimize(f, np.zeros(5), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(found.x, truth, atol=2e-4)
    assert found.certificate_.failed == []
    assert found.certificate_.broken == []
    assert {"first_order", "second_order"} <= set(found.certificate_.held)
    assert found.value == f(found.x)[0]
    assert len(found.trace_) == found.n_iter_ + 1
    assert found.trace_.objective[0] == pytest.approx(f(np.zeros(5))[0])


@pytest.mark.parametrize("method", ["gd", "nesterov", "adam", "lbfgs", "newton", "coordinate"])
def test_matrices_are_minimised_in_their_shape(method):
    target = rng.standard_normal((3, 2))
    found = minimize(
        lambda Z: (0.5 * float(np.sum((Z - target) ** 2)), Z - target), np.zeros((3, 2)), method
    )
    assert found.x.shape == (3, 2)
    np.testing.assert_allclose(found.x, target, atol=1e-5)


def test_a_pair_a_function_of_both_and_a_torch_closure_are_one_function():
    torch = pytest.importorskip("torch")
    both = minimize(Rosenbrock(), [-1.2, 1.0], "newton")
    pair = minimize(
        (lambda x: Rosenbrock()(x)[0], lambda x: Rosenbrock()(x)[1]), [-1.2, 1.0], "newton"
    )
    closure = lambda t: (1 - t[0]) ** 2 + 100 * (t[1] - t[0] ** 2) ** 2  # noqa: E731
    tensor = minimize(closure, torch.tensor([-1.2, 1.0], dtype=torch.float64), "newton")
    for found in (pair, tensor):
        np.testing.assert_allclose(found.x, both.x, atol=1e-9)
        assert found.certificate_.failed == []
    single = minimize(closure, torch.tensor([-1.2, 1.0]), "gd", max_iter=50)
    assert single.x.dtype == np.float32


def test_float32_stays_float32():
    f = LeastSquares(X.astype(np.float32), Y.astype(np.float32))
    for method in ("gd", "adam", "lbfgs", "sgd", "coordinate"):
        found = minimize(f, np.zeros(5, np.float32), method, tol=1e-3, max_iter=20)
        assert found.x.dtype == found.gradient.dtype == np.float32
        assert "statements_true" in found.certificate_.held


@pytest.mark.parametrize("line_search", ["armijo", "wolfe"])
def test_gradient_descent_with_a_line_search_needs_no_step_size(line_search):
    found = minimize(LOGISTIC, np.zeros(5), "gd", line_search=line_search)
    assert found.stopped_ in ("small gradient", "finished")
    assert found.certificate_.failed == []


# --- step_size="auto" -------------------------------------------------------------------------------------------------


def test_auto_takes_the_best_constant_step_of_a_quadratic_and_1_over_L_of_a_logistic_loss():
    assert minimize(SQUARES, np.zeros(5), "gd").step_size_ == pytest.approx(
        2 / (SQUARES.L + SQUARES.mu)
    )
    assert minimize(LOGISTIC, np.zeros(5), "gd").step_size_ == pytest.approx(1 / LOGISTIC.L)


@pytest.mark.parametrize("method", ["gd", "heavy_ball", "momentum", "nesterov", "noisy"])
def test_auto_backs_off_where_the_curvature_at_the_start_is_misleading(method):
    """x⁴ is flat where the run begins and steep on the other side of a drop."""
    steep = lambda x: (float((x**4).sum() - x.sum()), 4 * x**3 - 1)  # noqa: E731
    found = minimize(steep, np.full(2, 1e-4), method)
    assert found.value <= -0.94  # −3/4^(4/3)·2 = −0.9449
    assert np.isfinite(found.trace_.objective).all()


# --- sets -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("constraint", [Box(0.0, 0.4), Ball(0.5), Simplex(), L1Ball(0.8)], ids=repr)
@pytest.mark.parametrize("f", [SQUARES, lambda w: SQUARES(w)], ids=["known", "black box"])
def test_projected_descent_solves_convex_problems_and_the_certificate_bounds_the_gap(constraint, f):
    found = minimize(f, np.full(5, 0.2), constraint=constraint)
    assert found.method == "gd"
    assert found.certificate_.failed == []
    assert {"feasible", "projected_gradient_small"} <= set(found.certificate_.held)
    points = [
        constraint(found.x + s * v) for v in rng.standard_normal((50, 5)) for s in (1e-3, 0.1, 1.0)
    ]
    assert min(SQUARES(p)[0] for p in points) >= found.value - 1e-9


def test_an_affine_set_gives_the_solution_of_its_linear_system():
    A, b = rng.standard_normal((2, 5)), rng.standard_normal(2)
    found = minimize(SQUARES, np.zeros(5), constraint=Affine(A, b), tol=1e-9)
    H, g = SQUARES.hessian(found.x), SQUARES(np.zeros(5))[1]
    expected = np.linalg.solve(np.block([[H, A.T], [A, np.zeros((2, 2))]]), np.r_[-g, b])[:5]
    np.testing.assert_allclose(found.x, expected, atol=1e-7)


def test_rank_k_and_psd_projections_find_nearest_matrices():
    M = rng.standard_normal((5, 5))
    f = lambda Z: (0.5 * float(np.sum((Z - M) ** 2)), Z - M)  # noqa: E731
    low = minimize(f, np.zeros((5, 5)), constraint=RankK(2))
    s = np.linalg.svd(M, compute_uv=False)
    assert low.value == pytest.approx(0.5 * np.sum(s[2:] ** 2), rel=1e-6)  # Eckart–Young
    assert "feasible" in low.certificate_.held
    positive = minimize(f, np.zeros((5, 5)), constraint=PSD())
    np.testing.assert_allclose(positive.x, PSD()(M), atol=1e-5)
    assert positive.certificate_.failed == []


def test_conditions_are_met_and_their_multipliers_balance():
    circle = Conditions(equal=lambda x: (np.array([x @ x - 2]), 2 * x[None]))
    f = lambda x: (float(x.sum()), np.ones(2))  # noqa: E731
    found = minimize(f, [-2.0, 0.5], constraint=circle)
    assert found.method == "augmented_lagrangian"
    np.testing.assert_allclose(found.x, [-1.0, -1.0], atol=1e-6)
    assert found.certificate_.failed == []
    rough = minimize(f, [-2.0, 0.5], "penalty", constraint=circle, max_iter=3)
    assert "conditions_met" in rough.certificate_.failed


# --- stochastic and sub-gradient --------------------------------------------------------------------------------------


def test_sgd_comes_close_and_repeats_itself():
    a, b, c = (minimize(LOGISTIC, np.zeros(5), "sgd", random_state=s) for s in (0, 0, 1))
    assert (a.x == b.x).all()
    assert (a.x != c.x).any()
    best = minimize(LOGISTIC, np.zeros(5)).value
    assert a.value - best < 0.01 * best
    assert "robbins_monro" in a.certificate_.held
    averaged = minimize(
        LOGISTIC, np.zeros(5), "sgd", average=True, step_size=PowerDecay(0.5, r=0.51)
    )
    assert averaged.value - best < 0.01 * best


def test_any_optimiser_takes_batches_of_a_sum_of_ones_own():
    f = SumOf(200, lambda w, chosen: LOGISTIC.batch(w, chosen))
    found = minimize(f, np.zeros(5), "adam", batch_size=20, step_size=PowerDecay(0.1, r=0.75))
    assert found.value - minimize(LOGISTIC, np.zeros(5)).value < 1e-3
    np.testing.assert_allclose(f(found.x)[1], LOGISTIC(found.x)[1])


def test_few_rows_make_one_batch():
    few = LeastSquares(X[:7], Y[:7], reg=0.1)
    assert minimize(few, np.zeros(5), "sgd", max_iter=2).n_iter_ == 2


def test_constant_steps_fail_the_conditions_of_robbins_and_monro():
    found = minimize(LOGISTIC, np.zeros(5), "sgd", step_size=Constant(0.1), max_iter=5)
    assert "robbins_monro" in found.certificate_.failed


def test_the_subgradient_method_proves_its_gap_on_a_bounded_set():
    f = LeastAbsolute(np.ones((9, 1)), np.arange(9.0))
    found = minimize(
        f, [8.0], "subgradient", constraint=Box(np.zeros(1), np.full(1, 8.0)), max_iter=4000
    )
    assert found.x == pytest.approx(4.0, abs=0.1)
    assert found.certificate_["subgradient_gap"].kind == "proved"
    true_gap = found.value - np.mean(np.abs(np.arange(9.0) - 4))
    assert true_gap <= found.certificate_["subgradient_gap"].measured
    assert found.average_ is not None


# --- budgets, results -------------------------------------------------------------------------------------------------


def test_budgets_end_runs_where_they_are():
    for method in ("gd", "lbfgs"):
        found = minimize(Rosenbrock(), [-1.2, 1.0], method, time_limit=1e-9)
        assert found.stopped_ == "out of time"
        found = minimize(Rosenbrock(), [-1.2, 1.0], method, max_iter=3)
        assert (found.stopped_, found.n_iter_) == ("max steps", 3)
    seen = []
    minimize(SQUARES, np.zeros(5), "gd", max_iter=4, callbacks=[lambda s: seen.append(s.step)])
    assert seen == [1, 2, 3, 4]


def test_a_start_at_the_minimum_is_the_answer():
    for method in ("gd", "lbfgs", "newton", "adam", "coordinate"):
        found = minimize(Quadratic(np.eye(2)), np.zeros(2), method)
        assert (found.x == 0).all()
        assert found.certificate_.failed == []


def test_ctrl_c_keeps_what_lbfgs_had_reached():
    calls = []

    def f(x):
        calls.append(x)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return Rosenbrock()(x)

    found = minimize(f, [-1.2, 1.0])
    assert found.stopped_ == "interrupted"
    assert found.value < Rosenbrock()(np.array([-1.2, 1.0]))[0]


def test_the_result_reads_well_and_can_be_checked_again():
    found = minimize(SQUARES, np.zeros(5), "gd")
    text = repr(found)
    assert text.startswith("minimum by gd:")
    assert "‖∇f(x)‖" in text
    assert found.certify().not_checked == []
    with lemmata.config(certificate=False):
        quick = minimize(SQUARES, np.zeros(5), "gd")
    assert "second_order" in quick.certificate_.not_checked
    assert found.certificate_.to_json()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: minimize(SQUARES, np.zeros(5), "steepest"), ValueError, "is not known; pass one of"),
        (lambda: minimize(lambda x: 3.0, np.zeros(2)), TypeError, "return \\(value, gradient\\)"),
        (lambda: minimize(lambda x: (3.0, np.zeros(3)), np.zeros(2)), ValueError, "they must agree"),
        (lambda: minimize(lambda x: (np.inf, x), np.zeros(2)), ValueError, "where f is finite"),
        (lambda: minimize(lambda x: (0.0, x * np.nan), np.ones(2)), ValueError, "differentiable"),
        (lambda: minimize(SQUARES, [np.nan] * 5), ValueError, "finite point"),
        (lambda: minimize(SQUARES, []), ValueError, "empty"),
        (lambda: minimize(SQUARES, ["a"]), TypeError, "real numbers"),
        (lambda: minimize(3, np.zeros(2)), TypeError, "pass a function"),
        (lambda: minimize((1, 2, 3), np.zeros(2)), TypeError, "pair"),
        (lambda: minimize(SQUARES, np.zeros(5), "gd", step_size="large"), ValueError, "step_size"),
        (lambda: minimize(SQUARES, np.zeros(5), "gd", step_size=-1.0), ValueError, "out of range"),
        (lambda: minimize(SQUARES, np.zeros(5), "adam", momentum=0.5), TypeError, "it has beta1, beta2, epsilon"),
        (lambda: minimize(SQUARES, np.zeros(5), "newton", momentum=0.5), TypeError, "no options"),
        (lambda: minimize(Rosenbrock(), np.zeros(2), "sgd"), TypeError, "SumOf"),
        (lambda: minimize(SQUARES, np.zeros(5), "sgd", batch_size=999), ValueError, "batch_size <= 200"),
        (lambda: minimize(SQUARES, np.zeros(5), "newton", batch_size=9), ValueError, "takes no batch_size"),
        (lambda: minimize(SQUARES, np.zeros(5), "adam", constraint=Ball()), ValueError, "does not project"),
        (lambda: minimize(SQUARES, np.zeros(5), constraint=3), TypeError, "pass Box, Ball"),
        (lambda: minimize(SQUARES, np.zeros(5), "penalty"), ValueError, "needs constraint=Conditions"),
        (lambda: minimize(SQUARES, np.zeros(5), "adam", line_search="armijo"), ValueError, "method='gd'"),
        (lambda: minimize(SQUARES, np.zeros(5), tol=-1.0), ValueError, "tol"),
        (lambda: minimize(SQUARES, np.zeros(5), "newton", step_size=0.1), ValueError, "its own steps"),
        (lambda: minimize(SQUARES, np.zeros(5), "noisy", step_size=PowerDecay(0.1)), ValueError, "take no schedule"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_told_what_is_accepted(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_names_are_listed_and_imported_on_first_use():
    assert {"minimize", "Simplex", "smoothness", "saddle_point"} <= set(dir(optim))
    for name in optim.__all__:
        assert getattr(optim, name) is not None


def test_a_function_that_uses_its_arrays_again_or_writes_into_its_argument_does_no_harm():
    buffer = np.zeros(5)

    def careless(w):
        value, gradient = LOGISTIC(w)
        buffer[:] = gradient
        w[:] = np.nan
        return np.array([value]), buffer

    for method in ("gd", "lbfgs", "newton", "nesterov", "coordinate"):
        found = minimize(careless, np.zeros(5), method)
        np.testing.assert_allclose(found.x, minimize(LOGISTIC, np.zeros(5)).x, atol=1e-4)
        assert found.certificate_.failed == []


@pytest.mark.parametrize("steps", [4, 1500])
def test_checking_a_slow_function_waits_for_certify(steps):
    """A function that may be slow is called 512 times more, or as often as in the run if that is more."""
    calls, f = [], Rosenbrock()

    def slow(x):
        calls.append(x)
        return f(x)

    x0, last = np.full(30, -1.0), []
    count = [lambda solution: last.append(len(calls))]
    found = minimize(slow, x0, "gd", step_size=5e-4, max_iter=steps, callbacks=count)
    in_run = last[-1]
    assert len(calls) - in_run <= max(512, in_run) + 1  # one for the result
    waits = found.certificate_.not_checked
    assert ("step_below_2_over_L" in waits) == (steps == 4)  # it may take 792 calls
    if waits:
        assert "certify(" in found.certificate_[waits[0]].note
        assert "X" not in found.certificate_[waits[0]].note
    assert found.certify().not_checked == []


def test_no_clock_decides_what_is_checked():
    def pausing(w):
        time.sleep(0.3 if not w.any() and not paused else 0)
        paused.append(True)
        return LOGISTIC(w)

    paused: list[bool] = []
    slow, quick = (minimize(f, np.zeros(5)).certificate_ for f in (pausing, lambda w: LOGISTIC(w)))
    assert slow.to_dict()["claims"] == quick.to_dict()["claims"]
    assert slow.not_checked == []


def test_a_run_that_diverges_keeps_its_last_finite_point_and_says_so():
    with pytest.warns(lemmata.core.Diverged), np.errstate(all="ignore"):
        found = minimize(
            lambda x: (float((x**4).sum()), 4 * x**3), np.full(2, 3.0), "gd", step_size=1.0
        )
    assert found.stopped_ == "diverged"
    assert np.isfinite(found.x).all()
    assert found.certificate_.failed


def test_batches_of_a_torch_loss_are_differentiated_by_autograd():
    torch = pytest.importorskip("torch")
    A, b = torch.tensor(X), torch.tensor((Y > 0).astype(float) * 2 - 1)

    def loss(w, chosen):
        picked = torch.as_tensor(chosen)
        return torch.nn.functional.softplus(-b[picked] * (A[picked] @ w)).mean() + 0.025 * (w @ w)

    start = torch.zeros(5, dtype=torch.float64)
    mine = minimize(LOGISTIC, np.zeros(5), "sgd", step_size=PowerDecay(0.3, 0.6), max_iter=10)
    theirs = minimize(SumOf(200, loss), start, "sgd", step_size=PowerDecay(0.3, 0.6), max_iter=10)
    np.testing.assert_allclose(theirs.x, mine.x, rtol=1e-9)


def test_stochastic_subgradients_come_close_to_the_median_and_claim_no_vanishing_gradient():
    y = np.random.default_rng(5).exponential(size=301)
    f = LeastAbsolute(np.ones((301, 1)), y)
    found = minimize(
        f, [3.0], "sgd", batch_size=1, step_size=PowerDecay(0.5, r=0.6), average=True, max_iter=60
    )
    assert found.x[0] == pytest.approx(np.median(y), abs=0.1)
    assert [item.name for item in found.certificate_] == [
        "attributes_sound",
        "statements_true",
        "robbins_monro",
    ]
    assert found.certificate_.failed == []
