"""Objectives with known constants: gradients by differences, L and μ by sampling, and what is measured of other functions."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from lemmata.audit.optim import smoothness as audit
from lemmata.core import Fit
from lemmata.optim import (
    LeastAbsolute,
    LeastSquares,
    Logistic,
    Quadratic,
    Rosenbrock,
    condition_number,
    hessian,
    pl_constant,
    smoothness,
)

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 4)) * [1.0, 3.0, 0.3, 2.0] + 0.5
Y = X @ np.array([1.0, -1.0, 2.0, 0.0]) + rng.standard_normal(60)
H = X.T @ X / 60
SMOOTH = {
    "quadratic": Quadratic(H, b=np.arange(4.0), c=3.0),
    "indefinite": Quadratic(H - 2 * np.eye(4)),
    "squares": LeastSquares(X, Y),
    "ridge": LeastSquares(X, Y, reg=0.3),
    "sparse": LeastSquares(sp.csr_matrix(X), Y, reg=0.3),
    "logistic": Logistic(X, Y > 0, reg=0.1),
    "rosenbrock": Rosenbrock(),
}


@pytest.mark.parametrize("f", SMOOTH.values(), ids=SMOOTH)
def test_gradients_and_hessians_are_those_of_the_values(f):
    for seed in range(3):
        x, h = np.random.default_rng(seed).standard_normal(4), 1e-5
        E = h * np.eye(4)
        value, gradient = f(x)
        slopes = [(f(x + e)[0] - f(x - e)[0]) / (2 * h) for e in E]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)
        columns = [(f(x + e)[1] - f(x - e)[1]) / (2 * h) for e in E]
        np.testing.assert_allclose(hessian(f, x), columns, rtol=1e-5, atol=1e-5)
        theirs = audit.evaluate(f, x)  # by the audit's own formula
        assert theirs.value == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(theirs.gradient, gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["quadratic", "indefinite", "squares", "ridge", "sparse", "logistic"]
)
def test_L_bounds_every_curvature_and_mu_is_below_every_one(name):
    f = SMOOTH[name]
    values = [
        np.linalg.eigvalsh(f.hessian(3 * np.random.default_rng(s).standard_normal(4)))
        for s in range(20)
    ]
    assert max(np.abs(v).max() for v in values) <= f.L * (1 + 1e-12)
    assert min(v[0] for v in values) >= f.mu - 1e-12
    assert np.abs(audit.eigenvalues(f)).max() == pytest.approx(f.L, rel=1e-12)


def test_the_L_of_logistic_regression_is_attained_where_every_margin_is_zero():
    f = SMOOTH["logistic"]
    assert np.linalg.eigvalsh(f.hessian(np.zeros(4)))[-1] == pytest.approx(f.L)


@pytest.mark.parametrize("name", ["quadratic", "squares", "ridge", "sparse"])
def test_the_minimum_is_the_minimum(name):
    f = SMOOTH[name]
    x = np.linalg.lstsq(f.hessian(np.zeros(4)), -f(np.zeros(4))[1], rcond=None)[0]
    assert f.minimum == pytest.approx(f(x)[0], rel=1e-12)


def test_quadratics_without_a_minimum_say_so():
    assert SMOOTH["indefinite"].minimum == -np.inf
    assert Quadratic(np.diag([1.0, 0.0]), b=[0.0, 1.0]).minimum == -np.inf


def test_power_iteration_finds_the_curvature_at_a_point_from_below():
    for seed in range(5):
        x = np.random.default_rng(seed).standard_normal(4)
        true = np.abs(np.linalg.eigvalsh(Rosenbrock().hessian(x))).max()
        found = smoothness(Rosenbrock(), x, tol=1e-6, max_iter=500)
        assert found == pytest.approx(true, rel=1e-3)
        assert smoothness(Rosenbrock(), x, max_iter=3) <= true * (1 + 1e-6)
        # the audit measures by code of its own
        assert audit.power_iteration(Rosenbrock(), x, np.ones(4), 60)[0] <= true * (1 + 1e-6)
    assert smoothness(SMOOTH["logistic"]) == SMOOTH["logistic"].L
    with pytest.raises(ValueError, match=r"smoothness\(f, x\)"):
        smoothness(Rosenbrock())


def test_the_lowest_curvature_of_many_numbers_is_that_of_the_whole_hessian():
    """Beyond 200 numbers Lanczos finds it from differences of gradients, also where it is a thousandth of the largest."""
    values = np.r_[-1e-3, np.geomspace(1e-3, 1, 399)]
    f = Quadratic(np.diag(values))
    found = audit.lowest_curvature(Fit(SimpleNamespace(x=np.ones(400), objective_=lambda x: f(x))))
    # Ritz values err by the square of what the direction does
    assert found.value == pytest.approx(-1e-3, abs=1e-7)
    assert found.largest == pytest.approx(1.0, abs=1e-7)
    assert abs(found.direction[0]) == pytest.approx(1, abs=1e-3)


def test_the_pl_constant_bounds_the_ratio_at_every_point_and_is_attained():
    flat = Quadratic(
        np.diag([0.0, 2.0, 5.0])
    )  # not strongly convex, but PL with its least positive eigenvalue
    for f, mu in (
        (flat, 2.0),
        (LeastSquares(X[:3], Y[:3]), None),
        (SMOOTH["ridge"], SMOOTH["ridge"].mu),
    ):
        known = pl_constant(f)
        if mu is not None:
            assert known == pytest.approx(mu)
        d = 3 if f is flat else 4
        points = np.random.default_rng(1).standard_normal((200, d))
        seen = pl_constant(f, points, minimum=f.minimum)
        assert known <= seen * (1 + 1e-9)
    assert pl_constant(flat, [np.array([7.0, 1.0, 0.0])]) == pytest.approx(2.0)
    assert pl_constant(SMOOTH["indefinite"]) == 0.0
    with pytest.raises(ValueError, match="pass points"):
        pl_constant(lambda x: (0.0, x))


def test_condition_numbers():
    assert condition_number(Quadratic(np.diag([1.0, 10.0]))) == pytest.approx(10)
    assert condition_number(Logistic(X, Y > 0)) == np.inf
    measured = condition_number(Rosenbrock(), np.ones(2))
    assert measured == pytest.approx(np.linalg.cond(Rosenbrock().hessian(np.ones(2))), rel=1e-5)
    black_box = lambda x: Rosenbrock()(x)  # noqa: E731  (differences of gradients)
    assert condition_number(black_box, np.ones(2)) == pytest.approx(measured, rel=1e-4)


def test_the_minimum_of_the_absolute_loss_is_a_median():
    y = np.array([1.0, 5.0, 2.0, 9.0, 2.5])
    f = LeastAbsolute(np.ones((5, 1)), y)
    grid = np.linspace(0, 10, 2001)
    assert grid[np.argmin([f(np.array([w]))[0] for w in grid])] == pytest.approx(np.median(y))
    for seed in range(5):  # f(u) ≥ f(w) + gᵀ(u − w): the notes' sign would fail here
        w, u = np.random.default_rng(seed).normal(3, 3, (2, 1))
        value, g = f(w)
        assert f(u)[0] >= value + g @ (u - w) - 1e-12


@pytest.mark.parametrize(
    "f", [LeastSquares(X, Y, 0.1), Logistic(X, Y > 0, 0.1), LeastAbsolute(X, Y)], ids=str
)
def test_batches_average_to_the_whole(f):
    w = np.random.default_rng(4).standard_normal(4)
    parts = [f.batch(w, rows) for rows in np.arange(60).reshape(6, 10)]
    value, gradient = f(w)
    assert np.mean([part[0] for part in parts]) == pytest.approx(value)
    np.testing.assert_allclose(np.mean([part[1] for part in parts], axis=0), gradient)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quadratic(np.array([[1.0, 2.0], [0.0, 1.0]])), "not symmetric"),
        (lambda: Quadratic(np.ones((2, 3))), "square"),
        (lambda: LeastSquares(X, Y[:-1]), "n targets"),
        (lambda: LeastSquares(X * np.nan, Y), "NaN"),
        (lambda: LeastSquares(X, Y, reg=-1.0), "reg"),
        (lambda: Logistic(X, np.zeros(60)), "1 different value"),
    ],
)
def test_bad_problems_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_curvatures_of_torch_closures():
    torch = pytest.importorskip("torch")
    closure = lambda t: (1 - t[0]) ** 2 + 100 * (t[1] - t[0] ** 2) ** 2  # noqa: E731
    ones = torch.ones(2, dtype=torch.float64)
    assert smoothness(closure, ones, tol=1e-6) == pytest.approx(1001.6, rel=1e-3)
    assert condition_number(closure, ones) == pytest.approx(2508, rel=1e-3)
