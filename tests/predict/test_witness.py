"""Searches for witnesses of linear predictors: what they find is in the domain, and better than where they began."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lemmata
from lemmata.audit.kernel.duality_gap import DesignRows, Risk, feasible, point
from lemmata.audit.kernel.losses import (
    AbsoluteLoss,
    HingeLoss,
    LogisticLoss,
    SoftmaxLoss,
    SquaredHingeLoss,
    SquaredLoss,
    loss_named,
)
from lemmata.core import Blocks, rounding
from lemmata.predict.witness import better_weights, dual_points
from lemmata.predict.witness.better_weights import KNOWN, feature_sign, search
from lemmata.predict.witness.dual_points import (
    HuberAtScale,
    _shrink,
    best_shift,
    feasible_slopes,
    vertex_slopes,
)


def problem(loss, X, y, l1=0.0, l2=0.0, free=True, at=0.0, positive=False):
    """A risk on rows, and weights that are all `at`."""
    n, d = X.shape
    joint = isinstance(loss, SoftmaxLoss)
    m = int(y.max()) + 1 if joint else 1
    penalties = (np.full((d, 1), float(x)) for x in (l1, l2))
    targets = y if joint else y[:, None]
    rows = DesignRows(Blocks.of(X))
    risk = Risk(rows, targets, np.ones((n, 1)), loss, *penalties, free, positive, (), m)
    return risk, point(risk, np.full((d, m), float(at)), np.zeros(m))


def rows(seed=0, n=60, d=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X[:, 0] + rng.standard_normal(n)


# --- dual points ------------------------------------------------------------------------------------------------------

LOSSES = [
    SquaredLoss(),
    HuberAtScale(delta=0.7),
    LogisticLoss(),
    SquaredHingeLoss(),
    loss_named("modified_huber"),
    SoftmaxLoss(),
]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_best_intercept_balances_the_slopes(loss):
    X, y = rows()
    y = np.digitize(y, [-0.5, 0.5]) if isinstance(loss, SoftmaxLoss) else y
    y = np.sign(y) if loss.margin else y
    risk, at = problem(loss, X, y, at=0.5)
    u = risk.slopes(at.f + best_shift(risk, at.f))
    assert (np.abs(u.sum(axis=0)) < 1e-12 * np.abs(u).sum(axis=0)).all()


def test_a_newton_step_of_the_intercepts_that_raises_the_risk_is_halved():
    """Scores that are far too large for one class: p(1 − p) is next to 0 there, and the whole step goes far beyond."""
    X, y = rows()
    risk, at = problem(SoftmaxLoss(), X, np.digitize(y, [-0.5, 0.5]))
    f = at.f + np.array([0.0, 6.0, 0.0])
    p = np.exp(f - np.log(np.exp(f).sum(axis=1, keepdims=True)))
    H = np.diag(p.sum(axis=0)) - p.T @ p
    gradient = risk.slopes(f).sum(axis=0)
    whole = np.append(0.0, np.linalg.solve(H[1:, 1:], -gradient[1:]))
    assert risk.losses(f + whole)[0] > 2 * risk.losses(f)[0]
    u = risk.slopes(f + best_shift(risk, f))
    assert np.abs(u.sum(axis=0)).max() < 1e-12 * np.abs(u).sum()


@pytest.mark.parametrize(
    "loss", [SquaredLoss(), AbsoluteLoss(), LogisticLoss(), HingeLoss(), SoftmaxLoss()]
)
def test_slopes_are_made_feasible_where_nothing_penalises_a_column(loss):
    X, y = rows()
    y = np.digitize(y, [-0.5, 0.5]) if isinstance(loss, SoftmaxLoss) else y
    y = np.sign(y) if loss.margin else y
    risk, at = problem(loss, X, y, at=0.3)
    for U in dual_points.dual_points(None, risk, at):
        found, V, missed = feasible(risk, U, at)
        assert_allclose(found, U, atol=1e-12)  # nothing is left to do
        assert_allclose(X.T @ U, 0, atol=1e-11)
        assert missed < 1e-10
        assert not V.any()


def test_a_dual_point_that_cannot_be_made_feasible_is_given_up():
    """Absolute loss without a penalty and no row between the caps: nothing may move, so only u = 0 is left."""
    X, y = rows(n=20)
    risk, _ = problem(AbsoluteLoss(), X, y, free=False)
    assert not feasible_slopes(None, risk, np.sign(y)[:, None]).any()


def test_a_vertex_of_least_absolute_deviations_names_its_slopes():
    X, y = rows()
    model = lemmata.RobustRegression(loss="absolute").fit(X, y)
    risk, _ = problem(AbsoluteLoss(), X, y)
    at = point(risk, model.coef_[:, None], np.atleast_1d(model.intercept_))
    u = vertex_slopes(risk, at)
    assert np.abs(u).max() <= 1
    assert_allclose(X.T @ u, 0, atol=1e-8)


def test_a_factor_brings_slopes_into_the_domain():
    y = np.array([1.0, -1.0])
    assert _shrink(LogisticLoss(), y, np.array([-2.0, 0.5])) == 0.5
    assert _shrink(LogisticLoss(), y, np.array([0.1, 0.5])) == 0.0  # on the wrong side: none helps
    assert _shrink(HuberAtScale(delta=0.5), y, np.array([-2.0, 0.5])) == 0.25
    assert _shrink(SquaredLoss(), y, np.array([9.0, 9.0])) == 1.0


# --- better weights ---------------------------------------------------------------------------------------------------


def test_a_newton_step_that_raises_the_objective_is_halved():
    """Weights so large that the losses are flat: the whole step goes beyond the other side."""
    X, y = rows()
    risk, at = problem(LogisticLoss(), X, np.sign(y), l2=0.01, free=False, at=4.0)
    p = 1 / (1 + np.exp(-at.f[:, 0]))
    gradient = X.T @ risk.slopes(at.f)[:, 0] + 0.01 * at.W[:, 0]
    H = (X * (p * (1 - p))[:, None]).T @ X + 0.01 * np.eye(4)
    whole = point(risk, at.W - np.linalg.solve(H, gradient)[:, None], at.b)
    start = risk.value(at.W, at.f)[0]
    assert risk.value(whole.W, whole.f)[0] > start
    found = search(risk, at, np.inf, 0.0, np.inf)
    assert 0 < start - found.value <= found.gap <= KNOWN * (start - found.value)


def test_a_direction_along_which_the_objective_only_rises_is_refused():
    X, y = rows()
    risk, at = problem(SquaredLoss(), X, y, l2=1.0, free=False)
    found = better_weights.SearchResult(at, float(risk.value(at.W, at.f)[0]), np.inf)
    one = better_weights._Search(risk, at, found, 0.0, np.inf)
    smooth, all_of_them = better_weights._Rounded(risk, 0.0), np.arange(4)
    uphill = X.T @ risk.slopes(at.f)
    assert one._along(uphill, X, all_of_them, smooth, found.value) is None
    down = one._along(-1e3 * uphill, X, all_of_them, smooth, found.value)
    assert down is not None
    assert risk.value(down.W, down.f)[0] < found.value


@pytest.mark.parametrize(
    "loss", [SquaredLoss(), AbsoluteLoss(), LogisticLoss(), HingeLoss(), SquaredHingeLoss()]
)
def test_what_is_found_closes_the_gap(loss):
    X, y = rows()
    y = np.sign(y) if loss.margin else y
    risk, at = problem(loss, X, y, l1=0.5, l2=0.5, at=1.0)
    found = search(risk, at, np.inf, 0.0, 1e9)
    before = risk.value(at.W, at.f)[0]
    gain, slack = before - found.value, rounding(np.float64, len(y)) * before
    assert 0 < gain <= found.gap + slack  # two sums over rows
    assert found.gap <= KNOWN * gain  # where a search ends
    W, b, U = better_weights.better_weights(None, risk, at, np.inf, 0.0, 1e9)
    assert_allclose(risk.value(W, point(risk, W, b).f)[0], found.value, rtol=1e-12)
    assert U.shape == at.f.shape


def test_feature_sign_search_solves_small_lassos_exactly():
    rng = np.random.default_rng(0)
    for seed in range(20):
        d = 2 + seed % 7
        A = rng.standard_normal((d + 3, d))
        H, q, l1 = A.T @ A, 3 * rng.standard_normal(d), np.abs(rng.standard_normal(d))
        l1[0] = 0.0
        bound = np.full(d, seed % 2 == 1)
        x = feature_sign(H, q, l1, bound, np.maximum(rng.standard_normal(d), 0))
        slope = H @ x + q
        if seed % 2:
            assert x.min() >= 0
            assert (slope + l1).min() > -1e-9
            assert_allclose((slope + l1)[x > 0], 0, atol=1e-9)
        else:
            assert_allclose((slope + l1 * np.sign(x))[x != 0], 0, atol=1e-9)
            assert (np.abs(slope) - l1)[x == 0].max(initial=-1) < 1e-9
