"""Logistic solvers whose full step is refused by how the problem is made, and fits that stop before they arrive."""

import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from test_logistic import drawn

from lemmata import LogisticRegression
from lemmata.core import Blocks, MaxSteps, run
from lemmata.predict.logistic import _twins, newton, thin
from lemmata.predict.logistic import problem as problem_module
from lemmata.predict.logistic.l1 import (
    ProxNewtonAlgorithm,
    WorkingSetAlgorithm,
    _polish_into,
    lasso_of,
)
from lemmata.predict.logistic.lbfgs import LBFGSAlgorithm
from lemmata.predict.logistic.newton import NewtonAlgorithm
from lemmata.predict.logistic.problem import LinearProblem, NearOptimum
from lemmata.predict.logistic.surrogates import (
    LogisticSurrogate,
    SoftmaxSurrogate,
    SquaredHingeSurrogate,
)

# --- steps that are refused -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Watched(LinearProblem):
    """A problem that writes down the objective of every point it is asked for."""

    tried: list = field(default_factory=list)

    def at(self, W, *rest, **options):
        found = super().at(W, *rest, **options)
        self.tried.append(found.loss)
        return found


def saturated(loss, x, y, lasso=0.0):
    """One feature without an intercept: of rows that are all ones the minimum is where shares are probabilities."""
    X = np.asarray(x, float)[:, None]
    free = np.zeros(1)
    problem = LinearProblem.of(Blocks.of(X).with_targets(np.asarray(y)), loss, free, free + lasso, False)  # fmt: skip
    return Watched(problem.data, loss, free, free + lasso, False)


def refused_step(algorithm, problem, stop=1e-12):
    """Run, after a look at the first step: it tried a point worse than where it began, took none of those, and moved all."""
    first = run(algorithm, problem, stop=MaxSteps(1))
    assert not problem.loss.coupled or (algorithm.start != first.state.W).all()
    before, after = first.trace.last(back=1), first.trace.last()
    assert max(problem.tried) > before > after
    return run(algorithm, problem, stop=NearOptimum(stop) | MaxSteps(100))


ONES, COUNTS = np.ones(8), np.repeat([0, 1, 2], [1, 2, 5])


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_newton_halves_a_step_out_of_saturation_and_moves_every_class(first, small, monkeypatch):
    """Where one class is all but certain the curvature is e⁻¹⁰ of what it is ahead: the full step is thousands too long."""
    monkeypatch.setattr(problem_module, "SMALL", problem_module.SMALL if small else 0)
    start = np.zeros((3, 1))
    start[first] = 10.0 if first < 2 else -10.0
    found = refused_step(NewtonAlgorithm(start), saturated(SoftmaxSurrogate(3), ONES, COUNTS))
    odds = found.state.W[:, 0] - found.state.W[0, 0]
    assert_allclose(odds, np.log([1, 2, 5]), rtol=1e-9, atol=1e-9)
    assert found.stopped == "small gradient"


def test_newton_halves_the_step_of_one_problem_and_not_of_the_other():
    """Two classes against the rest, solved side by side: the second begins at its minimum and stays there."""
    problem = saturated(LogisticSurrogate(2), ONES, np.repeat([0, 1], [2, 6]))
    start = np.array([[10.0], [np.log(3)]])
    found = refused_step(NewtonAlgorithm(start), problem)
    assert_allclose(found.state.W[:, 0], [-np.log(3), np.log(3)], rtol=1e-9)


def test_a_squared_hinge_halves_its_step():
    """At w = 5 one row of 101 has a loss, and the least of that alone, w = −1, is worse for all the others."""
    problem = saturated(SquaredHingeSurrogate(), np.ones(101), np.repeat([0, 1], [1, 100]))
    found = refused_step(NewtonAlgorithm(np.array([[5.0]])), problem)
    assert_allclose(found.state.W, 99 / 101, rtol=1e-9)  # 100(1 − w) = 1 + w


@pytest.mark.parametrize("algorithm", [ProxNewtonAlgorithm, WorkingSetAlgorithm])
def test_a_lasso_halves_its_step(algorithm):
    """Of 8 rows 6 say yes; the minimum is where 8σ(w) = 6 − lasso."""
    problem = saturated(LogisticSurrogate(), ONES, np.repeat([0, 1], [2, 6]), lasso=1.0)
    found = refused_step(algorithm(np.array([[-10.0]])), problem)
    assert_allclose(found.state.W, np.log(5 / 3), rtol=1e-6)
    problem = saturated(SoftmaxSurrogate(3), ONES, COUNTS, lasso=1e-9)
    found = refused_step(algorithm(np.array([[0.0], [10.0], [0.0]])), problem)
    odds = found.state.W[:, 0] - found.state.W[0, 0]
    assert_allclose(odds, np.log([1, 2, 5]), atol=1e-6)


@pytest.mark.parametrize(
    "loss", [LogisticSurrogate(), SoftmaxSurrogate(2)], ids=["logistic", "softmax"]
)
def test_lbfgs_halves_its_step(loss):
    """The first curvature is that of the share of a class, 5 in 1000; the rows that have the feature are half of each."""
    x = np.repeat([0.0, 1.0], [990, 10])
    y = np.append(np.zeros(990, int), np.arange(10) % 2)
    start = np.array([[3.0]]) if loss.m == 1 else np.array([[0.0], [3.0]])
    found = refused_step(LBFGSAlgorithm(start), saturated(loss, x, y))
    assert_allclose(found.state.W[-1] - (found.state.W[0] if loss.m > 1 else 0.0), 0, atol=1e-9)


def test_the_system_of_a_lasso_refuses_to_pass_a_weight_that_becomes_zero():
    """q = (−10, 10) from z = (0.01, 0.01): with z₁ held at 0 all of it leads uphill, and a thousandth of it does not.

    The model is rᵀs + ½sᵀHs + Σ lasso(|z + s| − |z|), and q its minimiser as long as no sign changes.
    """
    H, lasso = np.array([[1.0, 0.99], [0.99, 1.0]]), np.full(2, 0.5)
    z, q = np.full(2, 0.01), np.array([-10.0, 10.0])
    g = -H @ q - lasso * np.sign(z)
    new, r = z.copy(), g.copy()
    assert _polish_into(new, r, H, lasso)
    assert_allclose(new, [0.0, 0.02], rtol=1e-9)
    assert_allclose(r, g + H @ (new - z), rtol=1e-12)
    found = lasso_of(H, g, z, lasso, _twins.sweep_into, tol=1e-12)
    slope = g + H @ (found - z)
    held = np.maximum(np.abs(slope) - lasso, 0)
    assert np.where(found == 0, held, np.abs(slope + np.sign(found) * lasso)).max() < 1e-9


# --- runs that did not arrive -----------------------------------------------------------------------------------------


def test_a_fit_that_finds_no_better_weights_says_how_much_is_left(monkeypatch):
    """A search that refuses every step, as one that looks at the wrong classes does."""
    X, y = drawn(k=3)

    def refuse(data, point, p, decrement, order=1):
        return point, np.zeros(data.m, dtype=bool)

    monkeypatch.setattr(newton, "search_line", refuse)
    with pytest.warns(ConvergenceWarning, match=r"no better weights .* > tol=1e-04") as caught:
        model = LogisticRegression().fit(X, y)
    left = max(model.trace_.last("gradient"), model.trace_.last("gap"))
    assert f"with {left:.1e} >" in str(caught[0].message)
    assert model.stopped_ == "finished"


def test_a_fit_that_runs_out_of_time_says_how_much_is_left():
    X, y = drawn(k=3)
    with pytest.warns(ConvergenceWarning, match=r"time_limit=1e-09 .* > tol=1e-04"):
        LogisticRegression(time_limit=1e-9).fit(X, y)


@pytest.mark.parametrize("options", [{}, {"solver": "lbfgs"}, {"l1_ratio": 1.0}])
@pytest.mark.parametrize("k", [2, 3])
def test_what_rounding_leaves_is_no_news(options, k):
    """A tol that no sum of floats can reach: the run ends where nothing can be seen to fall, and is silent."""
    X, y = drawn(k=k, noise=3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = LogisticRegression(tol=1e-30, max_iter=1000, **options).fit(X, y)
    assert model.stopped_ == "finished"


# --- thin sparse rows -------------------------------------------------------------------------------------------------


def thin_problem(loss, scales=1.0, seed=0):
    """2,000 rows of 120 columns, 3 % filled, of the classes of `loss`, the first of them rare."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((2000, 120), density=0.03, format="csr", rng=rng)
    X = (X * scales).tocsr()
    c = rng.integers(0, max(loss.m, 2), 2000) * (rng.random(2000) < 0.9)
    data = Blocks.of(X, rng.uniform(0.5, 2.0, 2000)).with_targets(c.astype(float))
    ridge = np.append(np.full(120, 0.3), 0.0)
    return LinearProblem.of(data, loss, ridge, np.zeros(121), True)


THIN = [LogisticSurrogate(), SquaredHingeSurrogate(3), SoftmaxSurrogate(3)]


@pytest.mark.parametrize("loss", THIN, ids=lambda loss: type(loss).__name__)
def test_directions_of_thin_rows_are_those_of_their_hessian(loss, monkeypatch):
    problem = thin_problem(loss)
    W = np.random.default_rng(1).normal(size=(loss.m, 121)) * 0.3
    point = problem.at(W, 2)
    monkeypatch.setattr(thin, "ENOUGH", 1e-9)
    F = problem.thin.scores(W)
    p, decrement, P = thin.solve_by_products(problem.thin, F, point.gradient, problem.ridge)
    assert_allclose(P, problem.thin.scores(p), atol=1e-12 * np.abs(P).max())
    q, expected = newton.directions(point.hessian, point.gradient, problem)
    if loss.coupled:  # the same number added to all intercepts changes nothing
        p[:, -1] -= p[:, -1].mean()
        q[:, -1] -= q[:, -1].mean()
    assert np.linalg.norm(p - q) < 1e-6 * np.linalg.norm(q)
    assert_allclose(decrement, expected, rtol=1e-7)


@pytest.mark.parametrize("products", [100, 1])
@pytest.mark.parametrize("loss", THIN, ids=lambda loss: type(loss).__name__)
def test_thin_rows_have_the_minimum_of_dense_ones(loss, products, monkeypatch):
    """With one product a direction, none suffices: Hessians take over."""
    monkeypatch.setattr(thin, "MOST", products)
    problem = thin_problem(loss, scales=np.geomspace(0.1, 10, 120))
    dense = replace(problem, data=Blocks.of(problem.data.source.toarray(), problem.data.weights))
    found, expected = (run(NewtonAlgorithm(), p, stop=NearOptimum(1e-11)) for p in (problem, dense))
    assert found.state.single == (products > 1)
    assert_allclose(found.state.point.loss, expected.state.point.loss, rtol=1e-12)


@pytest.mark.parametrize("loss", THIN[:2], ids=lambda loss: type(loss).__name__)
def test_a_step_along_thin_rows_is_as_long_as_is_best(loss):
    """Newton's method in t from t = 1, against the parabola that differences of the objective give."""
    problem = thin_problem(loss)
    rng = np.random.default_rng(2)
    W, p = rng.normal(size=(2, loss.m, 121)) * 0.1
    rows, shrunk = problem.thin, problem.ridge * p
    penalty = -np.vecdot(shrunk, W - p), np.vecdot(shrunk, p)
    t = rows.lengths(rows.scores(W), rows.scores(p), penalty)
    h = 1e-4
    low, mid, high = (problem.at(W - s * p).losses for s in (1 - h, 1.0, 1 + h))
    expected = 1 - ((high - low) / (2 * h)) / ((high - 2 * mid + low) / h**2)
    assert_allclose(t, np.clip(expected, *thin.LENGTHS), rtol=1e-3)
