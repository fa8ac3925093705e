"""Algorithms of their own shape: mini-batches, sub-gradients, searches, Newton, coordinates, noise, games, multipliers."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import linprog

from lemmata.core import Checkpoint, MaxSteps, Never, SmallGradient, run
from lemmata.optim import (
    LBFGS,
    SGD,
    Adam,
    BackoffDescent,
    Ball,
    Conditions,
    CoordinateDescent,
    Lagrangian,
    LeastAbsolute,
    LeastSquares,
    LineSearchDescent,
    Logistic,
    MultiplierDescent,
    NoisyDescent,
    PowerDecay,
    Quadratic,
    Rosenbrock,
    Simplex,
    StochasticDescent,
    SubgradientDescent,
    armijo,
    gap_bound,
    newton_descent,
    saddle_point,
    wolfe,
)

SEEDS = range(2)


def rows(seed, n=120, d=4, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + noise * rng.standard_normal(n)


# --- mini-batches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_robbins_monro_steps_reach_the_minimum_that_constant_steps_tremble_about(seed):
    f = LeastSquares(*rows(seed))
    gaps = {}
    for name, step in {"constant": 0.2, "decaying": PowerDecay(0.2, r=0.75)}.items():
        descent = StochasticDescent(f, SGD(step), np.zeros(4), batch_size=4)
        gaps[name] = run(descent, None, stop=MaxSteps(150), rng=seed).trace.last() - f.minimum
    assert gaps["decaying"] < 0.05 * gaps["constant"]


def test_the_mean_of_the_iterates_is_closer_than_the_last_one():
    f = LeastSquares(*rows(0))
    last, mean = (
        run(
            StochasticDescent(f, SGD(0.1), np.zeros(4), 4, average=a),
            None,
            stop=MaxSteps(60),
            rng=0,
        )
        for a in (False, True)
    )
    assert mean.trace.last() - f.minimum < 0.2 * (last.trace.last() - f.minimum)


def test_a_batch_of_all_rows_is_gradient_descent():
    f = Logistic(*(part if part.ndim == 2 else part > 0 for part in rows(1)), reg=0.1)
    stochastic = run(
        StochasticDescent(f, SGD(0.5), np.zeros(4), 120), None, stop=MaxSteps(30), rng=0
    )
    w = np.zeros(4)
    for _ in range(30):
        w = w - 0.5 * f(w)[1]
    np.testing.assert_allclose(stochastic.state.x, w, rtol=1e-10)


@pytest.mark.parametrize("average", [False, True])
def test_a_stochastic_run_that_was_stopped_goes_on_bit_for_bit(tmp_path, average):
    X, y = rows(2)

    @dataclasses.dataclass(frozen=True)
    class Sum:
        """Fields tell whose checkpoint it is."""

        X: np.ndarray
        y: np.ndarray

        @property
        def n_terms(self):
            return len(self.y)

        def batch(self, w, chosen):
            return LeastSquares(self.X[chosen], self.y[chosen])(w)

        def __call__(self, w):
            return LeastSquares(self.X, self.y)(w)

    algorithm = StochasticDescent(Sum(X, y), Adam(PowerDecay(0.1, 0.5)), np.zeros(4), 7, average)
    whole = run(algorithm, None, stop=MaxSteps(9), rng=3)
    path = tmp_path / "sgd.ckpt"
    run(algorithm, None, stop=MaxSteps(4), rng=3, callbacks=[Checkpoint(path, every=1)])
    resumed = run(algorithm, None, stop=MaxSteps(9), rng=3, callbacks=[Checkpoint(path, every=1)])
    assert (resumed.state.x == whole.state.x).all()
    assert (resumed.trace.objective == whole.trace.objective).all()
    other = run(algorithm, None, stop=MaxSteps(9), rng=4)
    assert (other.state.x != whole.state.x).any()


# --- sub-gradients ----------------------------------------------------------------------------------------------------


def least_absolute(X, y):
    """The minimum of mean |y − Xw| by a linear programme: w free, u ≥ |y − Xw|."""
    n, d = X.shape
    cost = np.r_[np.zeros(d), np.full(n, 1 / n)]
    A = np.block([[X, -np.eye(n)], [-X, -np.eye(n)]])
    found = linprog(cost, A_ub=A, b_ub=np.r_[y, -y], bounds=[(None, None)] * d + [(0, None)] * n)
    return found.fun, found.x[:d]


@pytest.mark.parametrize("seed", SEEDS)
def test_best_and_average_stay_within_the_bound_at_every_step_and_it_falls_like_1_over_root_t(seed):
    X, y = rows(seed)
    f = LeastAbsolute(X, y)
    minimum, w = least_absolute(X, y)
    radius = 1.5 * np.linalg.norm(w)
    descent = SubgradientDescent(f, np.zeros(4), PowerDecay(radius, r=0.5), Ball(radius))
    state, bounds = descent.init(None, None), []
    for t in range(1, 401):
        state = descent.step(state, None)
        bounds.append(gap_bound(state, np.linalg.norm(w)))  # ‖x₀ − x*‖ = ‖w‖
        if t % 20 == 0:
            assert state.best_loss - minimum <= bounds[-1] + 1e-12
            assert f(state.average)[0] - minimum <= bounds[-1] + 1e-12
    assert bounds[399] < 0.7 * bounds[99]  # 1/√t: half, but for the log t of ηₜ ∝ 1/√t
    assert state.best_loss - minimum < 0.02


def test_a_subgradient_step_may_rise_but_the_best_value_never_does():
    f = LeastAbsolute(*rows(0))
    solution = run(SubgradientDescent(f, np.zeros(4), 0.5), None, stop=MaxSteps(100))
    assert (np.diff(solution.trace.extras["current"]) > 0).any()
    assert (np.diff(solution.trace.objective) <= 0).all()


# --- searches and second order ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_searches_return_steps_that_meet_their_conditions(seed):
    rng = np.random.default_rng(seed)
    x = 2 * rng.standard_normal(3)
    f = Rosenbrock()
    value, g = f(x)
    p = (
        -g * rng.uniform(0.1, 3, 3) * 10.0 ** rng.integers(-4, 1)
    )  # any direction of descent, of any length
    a = armijo(f, x, p)
    assert 0 < a.step <= 1
    assert a.value <= value + 1e-4 * a.step * (g @ p)
    w = wolfe(f, x, p)
    assert w.value <= value + 1e-4 * w.step * (g @ p)
    assert w.gradient @ p >= 0.9 * (g @ p)
    np.testing.assert_allclose(w.point, x + w.step * p)


def test_a_search_uphill_is_refused_and_one_at_a_minimum_ends():
    f, x = Quadratic(np.eye(2)), np.ones(2)
    with pytest.raises(ValueError, match="direction of descent"):
        armijo(f, x, f(x)[1])
    assert armijo(f, np.zeros(2), np.zeros(2)).step == 0
    assert wolfe(f, np.zeros(2), np.zeros(2)).step == 0


@pytest.mark.parametrize("search", ["armijo", "wolfe"])
def test_line_searches_never_raise_f_and_reach_the_minimum(search):
    f = Quadratic(np.diag([1.0, 30.0, 200.0]), b=np.ones(3))
    solution = run(
        LineSearchDescent(f, np.zeros(3), search), None, stop=SmallGradient(1e-6) | MaxSteps(5000)
    )
    assert solution.trace.largest_rise == 0
    assert solution.trace.last() == pytest.approx(f.minimum, abs=1e-10)


def test_back_off_keeps_the_promise_of_4_38_from_a_guess_that_is_far_too_bold():
    f = Rosenbrock()
    solution = run(
        BackoffDescent(f, np.array([-1.2, 1.0]), curvature=1e-3), None, stop=MaxSteps(300)
    )
    values, eta = solution.trace.objective, solution.trace.extras["step_size"][1:]
    norms = solution.trace.extras["gradient"][:-1]
    assert (values[:-1] - values[1:] >= 0.5 * eta * norms**2 * (1 - 1e-9)).all()


def test_back_off_on_a_set_projects_every_point():
    f = Quadratic(np.diag([1.0, 5.0, 2.0]), b=np.array([3.0, -1.0, 0.0]))
    solution = run(BackoffDescent(f, np.full(3, 9.0), 0.01, Simplex()), None, stop=MaxSteps(200))
    x = solution.state.x
    assert x.sum() == pytest.approx(1)
    np.testing.assert_allclose(x, Simplex()(x - 0.1 * f(x)[1]), atol=1e-8)


def test_newton_takes_one_step_on_a_quadratic_and_squares_the_error_near_a_minimum():
    f = Quadratic(np.diag([1.0, 1e6]), b=np.ones(2))
    assert (
        run(newton_descent(f, np.full(2, 5.0)), None, stop=SmallGradient(1e-8) | MaxSteps(9)).step
        == 1
    )
    X, y = rows(0)
    g = Logistic(X, y > 0, reg=0.1)
    solution = run(newton_descent(g, np.zeros(4)), None, stop=SmallGradient(1e-13) | MaxSteps(20))
    norms = solution.trace.extras["gradient"]
    assert norms[-1] <= 1e-13
    late = norms[(norms < 0.05) & (norms > 1e-7)]
    assert (norms[np.searchsorted(-norms, -late) + 1] <= 10 * late**2).all()


def test_damped_newton_descends_where_the_hessian_is_indefinite():
    f = Quadratic(np.diag([1.0, -1.0]))
    state = run(newton_descent(f, np.array([1.0, 0.1])), None, stop=MaxSteps(3)).state
    assert state.loss < f(np.array([1.0, 0.1]))[0]


@pytest.mark.parametrize(
    "f", [LeastSquares(*rows(0), 0.1), Logistic(rows(0)[0], rows(0)[1] > 0, 0.1)], ids=str
)
def test_coordinate_descent_agrees_with_newton_with_and_without_knowledge_of_the_columns(f):
    best = run(
        newton_descent(f, np.zeros(4)), None, stop=SmallGradient(1e-11) | MaxSteps(20)
    ).state.x
    for function in (f, lambda w: f(w)):  # the second is a black box
        stop = SmallGradient(1e-9) | MaxSteps(500)
        found = run(CoordinateDescent(function, np.zeros(4)), None, stop=stop)
        assert found.stopped == "small gradient"
        assert found.trace.largest_rise <= 1e-14
        np.testing.assert_allclose(found.state.x, best, atol=1e-7)


# --- saddle points that one wants to leave ----------------------------------------------------------------------------


def monkey(x):
    """¼(x₀² − 1)² + ½ Σ xᵢ²: a strict saddle at 0, minima at (±1, 0, …)."""
    value = 0.25 * (x[0] ** 2 - 1) ** 2 + 0.5 * float(x[1:] @ x[1:])
    return float(value), np.r_[x[0] * (x[0] ** 2 - 1), x[1:]]


@pytest.mark.parametrize("seed", range(10))
def test_noise_leaves_the_saddle_at_which_gradient_descent_stays(seed):
    start = np.r_[0.0, np.full(9, 0.5)]
    w = start.copy()
    for _ in range(2000):
        w = w - 0.3 * monkey(w)[1]
    assert monkey(w)[0] == pytest.approx(
        0.25
    )  # the saddle: nothing ever pushed the first coordinate
    noisy = NoisyDescent(monkey, start, 0.3, threshold=1e-6)
    found = run(noisy, None, stop=MaxSteps(3000), rng=seed)
    assert found.stopped == "finished"
    assert found.state.loss == pytest.approx(0.0, abs=1e-9)


def test_a_noisy_run_repeats_itself_and_stays_at_a_minimum():
    noisy = NoisyDescent(Quadratic(np.eye(3)), np.ones(3), 0.5, threshold=1e-6)
    a, b = (run(noisy, None, stop=MaxSteps(500), rng=1) for _ in range(2))
    assert (a.state.x == b.state.x).all()
    assert a.stopped == "finished"
    assert np.linalg.norm(a.state.x) <= 1e-5


# --- saddle points that one wants to find -----------------------------------------------------------------------------


def bilinear(x, y):
    return float(x @ y), y, x


def test_on_the_bilinear_game_steps_drift_circle_or_converge_by_their_formulas():
    eta, T = 0.2, 300
    start = np.array([1.0]), np.array([0.5])
    runs = {
        m: saddle_point(bilinear, *start, method=m, step_size=eta, max_iter=T, tol=0.0)
        for m in ("synchronous", "alternating", "extragradient")
    }
    r0 = np.hypot(1.0, 0.5)
    size = {m: float(np.hypot(r.x, r.y)[0]) for m, r in runs.items()}
    assert size["synchronous"] == pytest.approx(r0 * (1 + eta**2) ** (T / 2))
    assert size["extragradient"] == pytest.approx(r0 * (1 - eta**2 + eta**4) ** (T / 2))
    # the alternating map has determinant 1 and leaves x² + y² − ηxy alone
    (x0, y0), (x, y) = (1.0, 0.5), (runs["alternating"].x[0], runs["alternating"].y[0])
    assert x**2 + y**2 - eta * x * y == pytest.approx(x0**2 + y0**2 - eta * x0 * y0)
    verdicts = {m: r.certificate_["approaches"].verdict for m, r in runs.items()}
    assert verdicts == {"synchronous": "fails", "alternating": "fails", "extragradient": "holds"}


def test_extragradient_solves_a_lagrangian():
    f = Quadratic(np.diag([1.0, 3.0]), b=np.array([1.0, 1.0]))
    A, b = np.array([[1.0, 1.0]]), np.array([2.0])
    game = Lagrangian(f, lambda x: (A @ x - b, A))
    found = saddle_point(game, np.zeros(2), np.zeros(1), step_size=0.2, tol=1e-9)
    kkt = np.block([[f.H, A.T], [A, np.zeros((1, 1))]])
    expected = np.linalg.solve(kkt, np.r_[f.b, b])
    np.testing.assert_allclose(np.r_[found.x, found.y], expected, atol=1e-7)
    assert found.certificate_.failed == []
    assert "extragradient" in repr(found)


def test_games_with_other_slopes_or_methods_are_refused():
    with pytest.raises(ValueError, match="slopes of shapes"):
        saddle_point(lambda x, y: (0.0, np.zeros(3), y), np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="extragradient, alternating, synchronous"):
        saddle_point(bilinear, np.ones(1), np.ones(1), method="leapfrog")


# --- conditions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_multipliers_solve_a_quadratic_programme_and_penalties_come_within_1_over_rho(seed):
    rng = np.random.default_rng(seed)
    f = Quadratic(np.diag(rng.uniform(1, 4, 4)), b=rng.standard_normal(4))
    A, b = rng.standard_normal((2, 4)), rng.standard_normal(2)
    expected = np.linalg.solve(np.block([[f.H, A.T], [A, np.zeros((2, 2))]]), np.r_[f.b, b])
    conditions = Conditions(equal=lambda x: (A @ x - b, A))
    state = run(MultiplierDescent(f, np.zeros(4), conditions), None, stop=MaxSteps(15)).state
    np.testing.assert_allclose(np.r_[state.x, state.equal_multipliers], expected, atol=1e-6)
    penalty = MultiplierDescent(f, np.zeros(4), conditions, multipliers=False, rho=10.0)
    errors = []
    current = penalty.init(None, None)
    for _ in range(3):  # ρ = 10, 100, 1000
        current = penalty.step(current, None)
        errors.append(np.linalg.norm(current.x - expected[:4]))
    ratios = np.array(errors[:-1]) / errors[1:]
    assert ((ratios > 6) & (ratios < 11)).all()
    # ρh(x) estimates the multipliers
    np.testing.assert_allclose(current.equal_multipliers, expected[4:], rtol=0.05, atol=0.02)


def test_inequalities_are_active_where_they_bind_and_free_where_they_do_not():
    f = Quadratic(np.eye(2), b=np.array([2.0, -1.0]))  # least at (2, −1)
    conditions = Conditions(at_most=lambda x: (x - 1, np.eye(2)))  # x ≤ 1: binds the first alone
    state = run(MultiplierDescent(f, np.zeros(2), conditions), None, stop=MaxSteps(12)).state
    np.testing.assert_allclose(state.x, [1.0, -1.0], atol=1e-7)
    np.testing.assert_allclose(state.at_most_multipliers, [1.0, 0.0], atol=1e-6)


def test_conditions_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match="asks for nothing"):
        Conditions()
    wrong = Conditions(equal=lambda x: (np.zeros(2), np.zeros((2, 5))))
    with pytest.raises(ValueError, match="Jacobian of shape"):
        wrong.values(np.zeros(3))


def wide_bowl(x, steep=100.0):
    """100 Σ√(1 + x²), least at 0: Newton's step from x leads to −x³, a gradient step of 1 from 3 to −92."""
    root = np.sqrt(1 + x**2)
    return float(steep * root.sum()), steep * x / root


@pytest.mark.parametrize(
    ("method", "start"),
    [
        (LineSearchDescent, 3.0),
        (lambda f, x: LineSearchDescent(f, x, "wolfe"), 3.0),
        (lambda f, x: BackoffDescent(f, x, curvature=1e-3), 3.0),
        (lambda f, x: newton_descent(wide_bowl, x, f), 3.0),
        (lambda f, x: LBFGS(f, x, tol=1e-8), 0.3),  # SciPy's first step has length 1
    ],
    ids=["armijo", "wolfe", "back-off", "newton", "lbfgs"],
)
def test_a_first_step_that_is_too_long_is_refused_and_the_minimum_is_reached(method, start):
    tried = []

    def watched(x):
        tried.append(wide_bowl(x)[0])
        return wide_bowl(x)

    algorithm = method(watched, np.full(2, start))
    first = run(algorithm, None, stop=MaxSteps(1))
    assert max(tried) > tried[0] > first.state.loss
    stop = Never() if isinstance(algorithm, LBFGS) else SmallGradient(1e-7) | MaxSteps(200)
    found = run(algorithm, None, stop=stop)
    assert found.trace.largest_rise == 0
    assert np.abs(found.state.x).max() < 1e-8
