"""The exact path of a Gram problem, event by event."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import lars_path

from lemmata.predict.lasso import _twins
from lemmata.predict.lasso.homotopy import Piece, at_zero, follow
from tests.predict.test_lasso import regression


def gram(n, d, seed=0, noise=5.0):
    X, y = regression(n, d, seed, noise=noise)
    Z, t = (X - X.mean(0)) / np.sqrt(n), (y - y.mean()) / np.sqrt(n)
    return Z, t, Z.T @ Z, Z.T @ t


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("shape", [(60, 20), (40, 200)])
def test_the_end_of_the_path_is_optimal(shape, ridge, positive):
    for seed in range(5):
        _, t, G, q = gram(*shape, seed)
        for share in (0.5, 0.05, 0.005):
            l1 = share * np.abs(q).max() * np.random.default_rng(seed).uniform(0.5, 2, len(q))
            l2 = np.full(len(q), ridge * l1.mean())
            w, _ = follow(G, q, l1, l2, positive, 5000)
            yy = float(t @ t)
            assert abs(_twins.gap_of(q, w, q - G @ w, l1, l2, yy, positive)[1]) <= 1e-10 * yy


def test_events_are_those_of_lars():
    Z, t, G, q = gram(50, 30, 1)
    alphas, _, coefs = lars_path(Z, t, method="lasso")
    n = len(t)  # lars_path divides by it once more
    for alpha, w in zip(alphas[:-1] * n, coefs.T, strict=False):
        ours, _ = follow(G, q, np.full(30, alpha), np.zeros(30), False, 1000)
        assert_allclose(ours, w, atol=1e-8)


def test_a_path_can_begin_at_any_of_its_solutions():
    _, _, G, q = gram(40, 120, 2)
    l1, l2 = np.full(120, 0.01 * np.abs(q).max()), np.zeros(120)
    whole, all_events = follow(G, q, l1, l2, False, 5000)
    middle, _ = follow(G, q, 5 * l1, l2, False, 5000)
    S = np.flatnonzero(middle)
    rest, fewer = follow(
        G, q, l1, l2, False, 5000, Piece(S.tolist(), np.sign(middle[S]).tolist(), 5.0)
    )
    assert_allclose(rest, whole, atol=1e-9)
    assert fewer < all_events


def test_dependent_columns_and_budgets_leave_a_usable_start():
    _, _, G, q = gram(30, 10)
    twice = np.r_[np.arange(10), np.arange(10)]
    G, q = G[np.ix_(twice, twice)], q[twice]
    l1 = np.full(20, 0.01 * np.abs(q).max())
    w, _ = follow(G, q, l1, np.zeros(20), False, 500)
    assert np.isfinite(w).all()
    early, events = follow(G, q, l1, np.zeros(20), False, 3)
    assert events == 3
    assert np.count_nonzero(early) <= 3


def test_nothing_happens_from_lambda_max_on():
    _, _, G, q = gram(30, 10)
    l1 = np.full(10, np.abs(q).max())
    assert at_zero(q, l1, False).t == 1.0
    assert not follow(G, q, l1, np.zeros(10), False, 10)[0].any()
