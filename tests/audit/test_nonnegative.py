"""Claims about non-negative factors: each holds once and fails once, and no unit, scale or weight changes what they measure."""

import warnings
from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.decomposition import MiniBatchNMF

import lemmata
from lemmata.audit.topics.nmf.facts import Numbers, divergence_of, squares_of
from lemmata.audit.topics.nmf.uniqueness import is_separable, most_moved
from lemmata.completion import Observed
from lemmata.core import Fit
from lemmata.topics import NMF

LOSSES = ("frobenius", "kullback-leibler")


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.gamma(0.5, size=(40, 3)) @ rng.gamma(0.5, size=(3, 16)) + 0.2 * rng.random((40, 16))


def facts(model, data, weights=None):
    blocks = model._validate_rows(data, weights, reset=False)
    numbers = Numbers(Fit(model, blocks, weights=blocks.weights))
    return (divergence_of if numbers.divergence else squares_of)(numbers)


@pytest.mark.parametrize("loss", LOSSES)
def test_neither_units_nor_scales_nor_storage_change_the_residual(X, loss):
    model = NMF(3, beta_loss=loss, init="random", max_iter=5, tol=0.0, random_state=0).fit(X)
    plain = facts(model, X)
    assert plain.columns > 1e-3
    for unit, d in ((1e-140, [1.0, 1.0, 1.0]), (1e140, [1e5, 1.0, 1e-5])):
        other = deepcopy(model)
        other.doc_topic_ = model.doc_topic_ / d * unit
        other.components_ = model.components_ * np.array(d)[:, None]
        moved = facts(other, X * unit)
        assert moved.rows == pytest.approx(plain.rows, rel=1e-8, abs=1e-12)
        assert moved.columns == pytest.approx(plain.columns, rel=1e-8)
    sparse, known = facts(model, sp.csr_array(X)), facts(model, Observed.of(X))
    weighted = facts(model, X, np.full(40, 7.0))
    for one in (sparse, known, weighted):
        assert one.rows == pytest.approx(plain.rows, rel=1e-6, abs=1e-10)
        assert one.columns == pytest.approx(plain.columns, rel=1e-6)
        assert one.error == pytest.approx(plain.error, rel=1e-9)
        assert one.least == pytest.approx(plain.least, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("holes", [False, True])
def test_no_other_amounts_have_less_than_the_bound(X, loss, holes):
    """The lower bound on the error of any W, beside the W that a solver finds."""
    data = np.where(np.random.default_rng(1).random(X.shape) < 0.3, np.nan, X) if holes else X
    model = NMF(3, beta_loss=loss, init="random", max_iter=5, tol=0.0, random_state=0).fit(data)
    best = facts(model, data)
    assert 0.9 * best.error <= best.least <= best.error * (1 + 1e-9)
    rng = np.random.default_rng(0)
    for size in (0.01, 1.0):  # worse W: the bound of each stays below the best error
        other = deepcopy(model)
        other.doc_topic_ = model.doc_topic_ * (1 + size * rng.random(model.doc_topic_.shape))
        assert facts(other, data).least <= best.error * (1 + 1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_penalties_belong_to_the_residual(X, loss):
    """A long penalised run is at rest; the same factors without their penalty in mind are not."""
    model = NMF(3, beta_loss=loss, alpha_W=0.05, alpha_H=0.03, l1_ratio=0.5, tol=1e-10, max_iter=3000,
                init="random", random_state=0).fit(X)  # fmt: skip
    assert "first_order_point" in model.certify(X).held
    assert facts(model, X).columns < 3e-3
    model.set_params(alpha_W=0.0, alpha_H=0.0)
    assert facts(model, X).columns > 10e-3


def test_shears_and_pure_rows():
    W, H = np.vstack([np.eye(3), np.ones((2, 3))]), np.hstack([np.eye(3), np.ones((3, 1))])
    assert is_separable(W, H)
    assert most_moved(W, H)[0] == 0
    G = H.copy()
    G[0] += 0.5 * H[1]  # sums 2, 2, 2 and 3
    moved, (a, b) = most_moved(W, G)
    assert (a, b) == (0, 1)
    # a third of it is taken out, and what is left grows by half: half of the distance between the two
    phi = G / G.sum(axis=1, keepdims=True)
    assert moved == pytest.approx(0.5 * np.abs(phi[0] - H[0] / 2).sum())
    assert not is_separable(W[3:], H)


def test_other_libraries_fits_are_certified(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        good = SklearnNMF(3, max_iter=1000).fit(X)
        poor = SklearnNMF(3, max_iter=1, init="random", random_state=0).fit(X)
        batch = MiniBatchNMF(3, max_iter=200, random_state=0).fit(sp.csr_array(X))
        counts = SklearnNMF(3, beta_loss=1, solver="mu", max_iter=500).fit(X)
        other = SklearnNMF(3, beta_loss="itakura-saito", solver="mu").fit(X)
    assert {"statements_true", "first_order_point", "near_best_rank_k"} <= set(lemmata.certify(good, X).held)  # fmt: skip
    assert "first_order_point" in lemmata.certify(poor, X).failed
    assert "statements_true" in lemmata.certify(batch, sp.csr_array(X)).held
    assert "statements_true" in lemmata.certify(counts, X).held
    good.reconstruction_err_ *= 0.99
    assert "statements_true" in lemmata.certify(good, X).failed
    with pytest.raises(ValueError, match="itakura-saito"):
        lemmata.certify(other, X)


@pytest.mark.parametrize("loss", LOSSES)
def test_coefficients_that_a_search_returns_are_checked(X, loss, monkeypatch):
    """scikit-learn keeps no W: without one nothing can be said of factors, nor with one that is no such W."""
    theirs = SklearnNMF(3, beta_loss=loss, solver="mu", max_iter=500).fit(X)
    with lemmata.config(searches=False):
        without = lemmata.certify(theirs, X)
    rest = {"statements_true", "first_order_point", "factors_determined", "near_best_rank_k"}
    assert rest <= set(without.undecided)
    for lie in (-np.ones((40, 3)), np.full((40, 3), np.nan), np.ones((39, 3))):
        monkeypatch.setattr(Fit, "searches", staticmethod(lambda name, W=lie: lambda *asked: W))
        found = lemmata.certify(theirs, X)
        assert found.undecided == without.undecided
        assert found.broken == []


def test_another_matrix_is_not_certified(X):
    model = NMF(3, random_state=0).fit(X)
    found = model.certify(X[:20])
    assert "statements_true" in found.failed
    assert "first_order_point" in found.undecided


def test_factors_are_determined_by_pure_rows_and_not_where_a_part_holds_another():
    rng = np.random.default_rng(0)
    W, H = rng.gamma(1.0, size=(30, 3)), rng.gamma(1.0, size=(3, 12))
    W[:3], H[:, :3] = np.eye(3), np.eye(3)
    model = NMF(3, max_iter=1, tol=0.0, random_state=0).fit(W @ H)
    model.doc_topic_, model.components_, model.reconstruction_err_ = W, H, 0.0
    assert "factors_determined" in model.certify(W @ H).held
    held = H.copy()
    held[0] = H[0] + 0.5 * H[1]  # part 1 can be taken out of part 0 again
    model.components_ = held
    assert "factors_determined" in model.certify(W @ held).failed
