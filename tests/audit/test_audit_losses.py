"""Losses against their definitions: slopes by differences, conjugates by brute force, excesses that are never negative."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import xlogy

from lemmata.audit.kernel.losses import (
    AbsoluteLoss,
    HingeLoss,
    LogisticLoss,
    SoftmaxLoss,
    SquaredHingeLoss,
    SquaredLoss,
    loss_named,
)
from lemmata.predict.witness.dual_points import HuberAtScale, curvature

LOSSES = [
    SquaredLoss(),
    HuberAtScale(delta=0.7),
    AbsoluteLoss(),
    LogisticLoss(),
    HingeLoss(),
    SquaredHingeLoss(),
    loss_named("modified_huber"),
]
NAMES = [loss.name for loss in LOSSES]


def conjugate(loss, y, a):
    """ℓ*(a) by its formula, for a in the domain."""
    p = -y * a
    return {
        "squared": 0.5 * a**2 + a * y,
        "huber": 0.5 * a**2 + a * y,
        "absolute": a * y,
        "logistic": xlogy(p, p) + xlogy(1 - p, 1 - p),
        "hinge": -p,
        "squared_hinge": 0.25 * p**2 - p,
        "modified_huber": 0.25 * p**2 - p,
    }[loss.name]


def targets(loss, rng, n):
    return np.sign(rng.standard_normal(n)) if loss.margin else rng.standard_normal(n)


@pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
def test_slopes_are_those_of_the_value(loss):
    rng = np.random.default_rng(0)
    y, f, h = targets(loss, rng, 400), 2 * rng.standard_normal(400), 1e-6
    slope = (loss.value(y, f + h) - loss.value(y, f - h)) / (2 * h)
    kinks = np.abs(slope - loss.slope(y, f)) > 1e-5  # a difference across a kink is no slope
    assert kinks.mean() < 0.01
    if loss.smooth:
        found = (loss.slope(y, f + h) - loss.slope(y, f - h)) / (2 * h)
        assert (np.abs(found - curvature(loss, y, f)) < 1e-5).mean() > 0.98
        assert found.max() <= loss.curved + 1e-6


@pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
def test_the_conjugate_is_the_largest_af_minus_the_loss(loss):
    rng = np.random.default_rng(1)
    y = targets(loss, rng, 30)
    a = loss.clip(y, rng.standard_normal(30))
    grid = np.linspace(-40, 40, 80_001)
    best = np.array([(a_ * grid - loss.value(y_, grid)).max() for a_, y_ in zip(a, y, strict=True)])
    assert_allclose(conjugate(loss, y, a), best, atol=2e-3)
    outside = -y * (loss.steepest + 1) if loss.margin else np.full(30, loss.steepest + 1)
    if np.isfinite(loss.steepest):  # there a·f − ℓ(f) grows for ever
        ends = np.array([np.diff(outside[0] * grid - loss.value(y[0], grid))[[0, -1]]])
        assert ends[0, 0] < 0 or ends[0, 1] > 0
        assert_allclose(loss.clip(y, outside), -y * loss.steepest if loss.margin else loss.steepest)


@pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
def test_the_excess_is_value_plus_conjugate_minus_product(loss):
    rng = np.random.default_rng(2)
    y, f = targets(loss, rng, 500), 3 * rng.standard_normal(500)
    a = loss.clip(y, 2 * rng.standard_normal(500))
    excess = loss.excess(y, f, a)
    assert_allclose(excess, loss.value(y, f) + conjugate(loss, y, a) - a * f, atol=1e-12)
    assert excess.min() >= 0
    assert_allclose(loss.excess(y, f, loss.slope(y, f)), 0, atol=1e-12)


@given(st.floats(-800, 800), st.sampled_from([-1.0, 1.0]), st.floats(0, 1))
def test_the_logistic_excess_is_finite_at_any_score(f, y, p):
    found = LogisticLoss().excess(np.array([y]), np.array([f]), np.array([-y * p]))
    assert np.isfinite(found).all()
    assert found.min() >= 0


def test_the_excess_of_softmax_is_a_divergence():
    rng = np.random.default_rng(3)
    y, f, g = rng.integers(0, 4, 50), rng.standard_normal((50, 4)), rng.standard_normal((50, 4))
    a = SoftmaxLoss.slope(y, g)
    assert_allclose(a.sum(axis=1), 0, atol=1e-15)
    q = a + np.eye(4)[y]
    direct = SoftmaxLoss.value(y, f) + xlogy(q, q).sum(axis=1) - (a * f).sum(axis=1)
    assert_allclose(SoftmaxLoss.excess(y, f, a), direct, atol=1e-12)
    assert_allclose(SoftmaxLoss.excess(y, f, SoftmaxLoss.slope(y, f)), 0, atol=1e-14)
    assert_allclose(SoftmaxLoss.clip(y, a), a, atol=0)
    moved = SoftmaxLoss.clip(y, a - 1) + np.eye(4)[y]  # a distribution again
    assert moved.min() >= 0
    assert_allclose(moved.sum(axis=1), 1, rtol=1e-12)


def test_two_classes_of_softmax_are_logistic():
    rng = np.random.default_rng(4)
    f, y = rng.standard_normal(50), rng.integers(0, 2, 50)
    pair = np.column_stack([np.zeros(50), f])
    assert_allclose(SoftmaxLoss.value(y, pair), LogisticLoss().value(2.0 * y - 1, f), rtol=1e-12)


@pytest.mark.parametrize("loss", [one for one in LOSSES if one.name != "huber"], ids=str)
def test_no_constant_is_better_than_the_best_one(loss):
    rng = np.random.default_rng(5)
    y = np.column_stack([targets(loss, rng, 41), np.ones(41)])
    s = rng.random((41, 2))
    t = loss.best_constant(y, s)
    least = (s * loss.value(y, t + np.zeros_like(y))).sum(axis=0)
    for other in np.linspace(-5, 5, 2001):
        assert ((s * loss.value(y, other + np.zeros_like(y))).sum(axis=0) >= least - 1e-12).all()


def test_an_unknown_loss_is_refused_by_name():
    with pytest.raises(ValueError, match=r"loss='poisson' is not known.*hinge"):
        loss_named("poisson")
