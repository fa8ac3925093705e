"""Balls in boxes: projections and worst cases against a generic solver, draws, validation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from lemmata.trust import Ball

NORMS = (math.inf, 2, 1)


def solve(objective, slope, x, ball):
    """Minimise over δ = p − q ≥ 0 with a solver that knows nothing of balls; return (value, δ)."""
    d = len(x)
    room = np.r_[ball.high - x, x - ball.low]
    if ball.norm == math.inf:
        limits = []
    elif ball.norm == 2:
        limits = [{"type": "ineq", "fun": lambda u: ball.eps**2 - np.sum((u[:d] - u[d:]) ** 2),
                   "jac": lambda u: np.r_[-2 * (u[:d] - u[d:]), 2 * (u[:d] - u[d:])]}]  # fmt: skip
    else:
        limits = [{"type": "ineq", "fun": lambda u: ball.eps - u.sum(), "jac": lambda u: -np.ones(2 * d)}]  # fmt: skip
    most = np.minimum(room, ball.eps)
    found = minimize(
        lambda u: objective(u[:d] - u[d:]), np.zeros(2 * d), method="SLSQP", constraints=limits,
        jac=lambda u: np.r_[slope(u[:d] - u[d:]), -slope(u[:d] - u[d:])], bounds=list(zip(np.zeros(2 * d), most, strict=True)),
        options={"ftol": 1e-14, "maxiter": 400},
    )  # fmt: skip
    return found.fun, found.x[:d] - found.x[d:]


@st.composite
def problems(draw):
    d = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ball = Ball(draw(st.floats(0.05, 2.0)), norm=draw(st.sampled_from(NORMS)))
    x = np.where(rng.random(d) < 0.2, rng.integers(0, 2, d), rng.random(d))  # some at the border
    v = rng.standard_normal(d) * draw(st.sampled_from((0.1, 1.0, 10.0)))
    return ball, x, np.where(rng.random(d) < 0.1, 0, v)


@given(problems())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_projections_are_legal_and_no_solver_finds_a_nearer_point(problem):
    ball, x, v = problem
    z = ball.project((x + v)[None], x[None])[0]
    assert ball.measure((z - x)[None])[0] <= ball.eps * (1 + 1e-12)
    assert (z >= 0).all()
    assert (z <= 1).all()
    value, _ = solve(lambda d: np.sum((d - v) ** 2), lambda d: 2 * (d - v), x, ball)
    assert np.sum((z - x - v) ** 2) <= value + 1e-7 * (1 + value)


@given(problems())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_best_step_is_legal_and_no_solver_finds_a_better_one(problem):
    ball, x, g = problem
    delta = ball.maximise(g[None], x[None])[0]
    assert ball.measure(delta[None])[0] <= ball.eps * (1 + 1e-12)
    assert (x + delta >= -1e-15).all()
    assert (x + delta <= 1 + 1e-15).all()
    value, _ = solve(lambda d: -g @ d, lambda d: -g, x, ball)
    assert g @ delta >= -value - 1e-7 * (1 + abs(value))


@pytest.mark.parametrize("norm", NORMS)
def test_without_a_box_the_best_step_is_worth_eps_times_the_dual_norm(norm):
    g = np.random.default_rng(0).standard_normal((5, 30))
    ball = Ball(0.7, norm=norm, low=None, high=None)
    gained = np.sum(g * ball.maximise(g, np.zeros_like(g)), axis=1)
    np.testing.assert_allclose(gained, 0.7 * np.linalg.norm(g, ord=ball.dual, axis=1), rtol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_projecting_keeps_points_of_the_ball_and_the_dtype(norm, dtype):
    rng = np.random.default_rng(1)
    X, ball = rng.random((40, 50)).astype(dtype), Ball(0.5, norm=norm)
    Z = ball.draw(X, rng)
    assert Z.dtype == dtype
    assert (ball.measure(Z - X) <= 0.5 * (1 + 1e-6)).all()
    np.testing.assert_array_equal(ball.project(Z, X), np.clip(X + (Z - X), 0, 1))
    once = ball.project(X + rng.standard_normal(X.shape).astype(dtype), X)
    tolerance = 1e-6 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(ball.project(once, X), once, atol=tolerance)
    assert once.dtype == dtype
    assert (ball.measure(once - X) <= 0.5 * (1 + tolerance * 10)).all()


@pytest.mark.parametrize(("norm", "d", "mean"), [(math.inf, 1, 0.5), (2, 3, 0.75), (1, 4, 0.8)])
def test_draws_fill_the_ball_evenly(norm, d, mean):
    ball = Ball(1.0, norm=norm, low=None, high=None)
    length = ball.measure(ball.draw(np.zeros((20_000, d)), np.random.default_rng(0)))
    deviation = math.sqrt(d / (d + 2) - mean**2)  # E r = d/(d + 1), E r² = d/(d + 2)
    assert abs(length.mean() - mean) < 5 * deviation / math.sqrt(20_000)


@pytest.mark.parametrize("norm", [2, 1])
def test_a_step_has_length_one_and_leaves_coordinates_at_the_border_alone(norm):
    G, Z = np.array([[3.0, -2.0, 1e-200]]), np.array([[1.0, 0.5, 0.5]])
    step = Ball(1.0, norm=norm).steer(G, Z)
    assert step[0, 0] == 0
    assert step[0, 1] < 0
    np.testing.assert_allclose(np.linalg.norm(step, ord=norm, axis=1), 1)
    assert not Ball(1.0, norm=norm).steer(np.zeros((1, 3)), Z).any()


def test_each_feature_may_have_its_own_box():
    ball = Ball(5.0, low=[0, -10], high=[1, 10])
    X = np.array([[0.5, 0.0]])
    np.testing.assert_array_equal(ball.project(X + 100, X), [[1.0, 5.0]])
    assert ball == Ball(5, "inf", (0.0, -10.0), (1.0, 10.0))
    assert ball.with_eps(2).low == ball.low
    with pytest.raises(ValueError, match="2 features, X has 3"):
        ball.check_rows(np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eps": -0.1}, "finite number >= 0"), ({"eps": math.nan}, "finite number >= 0"), ({"eps": "0.1"}, "finite number"),
        ({"eps": 0.1, "norm": 3}, "pass inf, 2 or 1"), ({"eps": 0.1, "norm": "l3"}, "pass inf, 2 or 1"),
        ({"eps": 0.1, "low": 1, "high": 0}, "empty"), ({"eps": 0.1, "low": math.nan}, "pass a number"),
    ],
)  # fmt: skip
def test_bad_balls_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Ball(**arguments)


def test_rows_outside_of_the_box_or_in_other_units_are_refused():
    from scipy.sparse import csr_matrix

    pixels = np.arange(256.0).reshape(2, 128)
    with pytest.raises(ValueError, match=r"runs from 0 to 255, outside of the box from 0 to 1"):
        Ball(8 / 255).check_rows(pixels)
    with pytest.raises(ValueError, match="more than the whole box"):
        Ball(8).check_rows(pixels / 255)
    with pytest.raises(ValueError, match="more than the whole box"):
        Ball(12, norm=2).check_rows(pixels / 255)  # √128 = 11.3
    with pytest.warns(UserWarning, match="whole numbers"):
        Ball(8 / 255, high=255).check_rows(pixels)
    with pytest.raises(TypeError, match=r"toarray"):
        Ball(0.1).check_rows(csr_matrix(pixels / 255))
    with pytest.raises(ValueError, match="NaN"):
        Ball(0.1).check_rows(np.full((1, 2), np.nan))
    with pytest.raises(ValueError, match="at least one row"):
        Ball(0.1).check_rows(np.zeros((0, 2)))
