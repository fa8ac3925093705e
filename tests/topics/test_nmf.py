"""NMF: no step raises the objective, kernel and twin agree, blocks, sparse and weights are one fit, parts are found again."""

from dataclasses import fields, make_dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, nnls
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.feature_extraction.text import TfidfTransformer

import lemmata
from lemmata.core.files.encoding import digest
from lemmata.topics import NMF, PLSA
from lemmata.topics.nmf import _twins, divergence
from lemmata.topics.nmf.squares import PUSH, FactorPenalty, SquaresState

LOSSES = ("frobenius", "kullback-leibler")


def planted(n=60, m=30, k=3, noise=0.05, seed=0):
    """Parts with columns and rows to themselves, and a little noise."""
    rng = np.random.default_rng(seed)
    W, H = rng.gamma(0.5, size=(n, k)), rng.gamma(0.5, size=(k, m))
    W[:k], H[:, :k] = np.eye(k), np.eye(k)
    return W @ H + noise * rng.random((n, m)), W, H


def objective(X, W, H, loss="frobenius", weights=None):
    s = np.ones(len(X)) if weights is None else weights
    known, P = ~np.isnan(X), np.maximum(W @ H, 1e-300)
    x = np.where(known, X, 0)
    if loss == "frobenius":
        terms = 0.5 * (x - P) ** 2
    else:
        terms = x * np.log(np.where(x > 0, x, 1) / P) - x + P
    return float(s @ np.where(known, terms, 0).sum(axis=1))


# --- updates ---


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [1, 5, 9])
def test_the_kernel_sweeps_as_its_twin_does(dtype, k):
    from lemmata.topics.nmf import _kernels

    rng = np.random.default_rng(0)
    V = rng.random((20, k)).astype(dtype)
    V[:, k // 2] = 0  # a component that nobody uses
    W, P = rng.random((37, k)).astype(dtype), rng.normal(size=(37, k)).astype(dtype)
    P[:, k // 2] = 0
    G = V.T @ V
    inverse = 1 / np.maximum(np.diag(G), 1e-30).astype(dtype)
    ours = _kernels.sweep_rows(W, P, G, inverse, 3)
    theirs = _twins.sweep_rows(W, P, G, inverse, 3)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9 if dtype is np.float64 else 2e-3, atol=1e-5)
    assert ours.dtype == dtype


@given(
    st.integers(0, 2**31),
    st.sampled_from(["hals", "mu"]),
    st.sampled_from(LOSSES),
    st.booleans(),
    st.sampled_from([0.0, 0.3]),
)
def test_the_objective_never_rises(seed, solver, loss, holes, alpha):
    if loss == "kullback-leibler":
        solver = "mu"
    rng = np.random.default_rng(seed)
    X = rng.gamma(0.7, size=(12, 7)) * (rng.random((12, 7)) < 0.8)
    X[3], X[:, 2] = 0, 0
    if holes:
        X[rng.random(X.shape) < 0.3] = np.nan
    model = NMF(3, solver=solver, beta_loss=loss, alpha_W=alpha / 7, alpha_H=alpha / 12, l1_ratio=0.5,
                max_iter=15, tol=0.0, init="random", random_state=0).fit(X)  # fmt: skip
    assert np.diff(model.trace_.objective).max() <= 1e-12 * model.trace_.objective[0] + 1e-300
    W, H = model.doc_topic_, model.components_
    assert (W >= 0).all()
    assert (H >= 0).all()
    penalty = 0.5 * alpha * (W.sum() + H.sum()) + 0.25 * alpha * ((W**2).sum() + (H**2).sum())
    error = objective(X, W, H, loss)
    assert model.reconstruction_err_ == pytest.approx(np.sqrt(2 * error), rel=1e-6, abs=1e-6)
    assert error + penalty <= model.trace_.objective[-1] * (1 + 1e-9) + 1e-12
    assert "never_rose" not in model.certify(X).failed


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_of_a_state_is_that_of_its_factors(loss):
    X, *_ = planted()
    weights = np.arange(60) % 3 + 0.5
    model = NMF(3, beta_loss=loss, random_state=0, init="random")
    data = model._validate_rows(X, weights)
    algorithm, table = model._algorithm(data), model._problem(data)
    state = algorithm.init(table, np.random.default_rng(0))
    for _ in range(3):
        assert state.loss == pytest.approx(
            objective(X, state.W, state.V.T, loss, weights), rel=1e-9
        )
        state = algorithm.step(state, table)


def test_clipped_least_squares_may_rise_and_says_so():
    """Clipping is no projection in the metric of the problem (CIL 3.2.6 does not say so)."""
    for seed in range(3):  # overlapping components: no structure to find in noise
        X = np.random.default_rng(seed).random((40, 20))
        model = NMF(6, solver="projected-als", init="random", max_iter=30, tol=0.0, random_state=seed).fit(X)  # fmt: skip
        assert np.diff(model.trace_.objective).max() > 1e-6 * model.trace_.objective[0]
        assert "never_rose" in model.certify(X).failed
    calm = planted(noise=0.0)[0]
    steady = NMF(3, solver="projected-als", init="nndsvda", random_state=0).fit(calm)
    assert "never_rose" in steady.certify(calm).held


# --- agreement ---


@pytest.mark.parametrize("solver", ["hals", "mu"])
def test_as_good_as_scikit_learn(solver):
    X, *_ = planted(n=80, m=40, k=5, noise=0.3)
    theirs = SklearnNMF(5, solver="cd", max_iter=1000, tol=1e-6).fit(X).reconstruction_err_
    ours = NMF(5, solver=solver, max_iter=500, tol=1e-8).fit(X).reconstruction_err_
    assert ours <= theirs * 1.01


def test_scikit_learns_penalties_mean_the_same():
    X, *_ = planted(noise=0.3)
    settings = {
        "alpha_W": 0.02,
        "alpha_H": 0.01,
        "l1_ratio": 0.4,
        "max_iter": 5000,
        "init": "custom",
    }
    rng = np.random.default_rng(0)
    start = {"W": rng.random((60, 3)) + 0.1, "H": rng.random((3, 30)) + 0.1}
    theirs = SklearnNMF(3, tol=1e-10, **settings)
    W = theirs.fit_transform(X, **start)
    ours = NMF(3, tol=1e-12, **settings).fit(X, **start)
    np.testing.assert_allclose(
        ours.doc_topic_ @ ours.components_, W @ theirs.components_, atol=1e-4 * X.max()
    )
    np.testing.assert_allclose(ours.transform(X), ours.doc_topic_, atol=1e-6)
    assert ours.reconstruction_err_ == pytest.approx(theirs.reconstruction_err_, rel=1e-5)


def test_the_divergence_is_plsa_by_another_name():
    """Scaled to one, its factors are mixtures and topics; pLSA's own step then has nothing left to do (CIL 3.2.5)."""
    rng = np.random.default_rng(0)
    N = rng.poisson(planted(n=50, m=25)[0] * 10).astype(float)
    nmf = NMF(3, beta_loss="kullback-leibler", init="random", tol=1e-8, max_iter=1000, random_state=0).fit(N)  # fmt: skip
    plsa = PLSA(3, tol=1e-8, max_iter=1000, random_state=0).fit(N)
    assert nmf.reconstruction_err_**2 / 2 == pytest.approx(
        float((N[N > 0] * np.log(N[N > 0] / np.repeat(N.sum(axis=1), (N > 0).sum(axis=1)))).sum())
        - plsa.log_likelihood_,
        rel=1e-2,
    )
    sizes = nmf.components_.sum(axis=1)
    theta = nmf.doc_topic_ * sizes
    np.testing.assert_allclose(theta.sum(axis=1), N.sum(axis=1), rtol=1e-6)  # totals are kept


def test_planted_parts_are_found_again():
    X, _, H = planted(noise=0.0)
    model = NMF(3, tol=1e-14, max_iter=1500).fit(X)
    found = model.components_ / np.linalg.norm(model.components_, axis=1, keepdims=True)
    true = H / np.linalg.norm(H, axis=1, keepdims=True)
    rows, columns = linear_sum_assignment(-found @ true.T)
    assert (found @ true.T)[rows, columns].min() > 0.999
    assert model.reconstruction_err_ < 1e-3 * np.linalg.norm(X)


def test_transform_is_scipys_nnls():
    X, *_ = planted(noise=0.5)
    model = NMF(3, random_state=0).fit(X[:40])
    for compiled in ("never", "always"):
        with lemmata.config(compile=compiled):
            W = model.transform(X[40:])
        for row, w in zip(X[40:], W, strict=True):
            np.testing.assert_allclose(w, nnls(model.components_.T, row)[0], atol=1e-7)
    np.testing.assert_allclose(model.inverse_transform(W), W @ model.components_)
    with pytest.raises(ValueError, match="amounts of 3 components"):
        model.inverse_transform(W[:, :2])


# --- one fit ---


@pytest.mark.parametrize("loss", LOSSES)
def test_sparse_dense_blocks_and_kernels_are_one_fit(loss):
    X = planted(n=70)[0] * (np.random.default_rng(0).random((70, 30)) < 0.5)
    fit = NMF(3, beta_loss=loss, max_iter=15, tol=0.0, random_state=0).fit
    whole = fit(X).components_
    np.testing.assert_allclose(fit(sp.csr_array(X)).components_, whole, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fit([X[:20], X[20:]]).components_, whole, rtol=1e-6, atol=1e-9)
    blocks = [sp.csr_array(X[:20]), sp.csr_array(X[20:])]
    np.testing.assert_allclose(fit(blocks).components_, whole, rtol=1e-6, atol=1e-9)
    stored = sp.csr_array(X)
    stored.data[::7] = 0  # zeros that are stored are zeros
    np.testing.assert_allclose(fit(stored).components_, fit(stored.toarray()).components_, rtol=1e-6, atol=1e-9)  # fmt: skip
    with lemmata.config(compile="always"):
        np.testing.assert_allclose(fit(sp.csr_array(X)).components_, whole, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(fit(X).components_, whole, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_weight_two_is_the_row_twice_and_weight_zero_is_no_row(loss, alpha):
    X, *_ = planted(n=30, noise=0.3)
    weights = np.arange(30) % 3
    settings = {"beta_loss": loss, "max_iter": 20, "tol": 0.0, "init": "random", "random_state": 0,
                "alpha_W": alpha, "l1_ratio": 0.5}  # fmt: skip
    weighted = NMF(3, **settings).fit(X, sample_weight=weights)
    repeated = NMF(3, **settings).fit(np.repeat(X, weights, axis=0))
    # where the start of H draws its size from the mean of all rows
    np.testing.assert_allclose(weighted.components_, repeated.components_, rtol=1e-6, atol=1e-9)
    assert weighted.reconstruction_err_ == pytest.approx(repeated.reconstruction_err_, rel=1e-6)
    assert weighted.certify(X, sample_weight=weights)["statements_true"].verdict == "holds"


def test_the_bits_do_not_depend_on_threads(monkeypatch):
    X = planted(n=3000, m=40)[0]
    for data in (X, sp.csr_array(np.where(X > 0.3, X, 0))):
        found = []
        for threads in ("1", "4"):
            monkeypatch.setenv("LEMMATA_THREADS", threads)
            with lemmata.config(compile="always"):
                found.append(NMF(4, max_iter=5, tol=0.0).fit(data).components_)
        assert np.array_equal(*found)


@pytest.mark.parametrize("init", ["nndsvd", "nndsvda", "nndsvdar", "random"])
def test_starts_are_non_negative_and_in_the_unit_of_the_data(init):
    X, *_ = planted()
    X[5] = 0
    for data in (X, sp.csr_array(X)):
        found = []
        for unit in (1.0, 1e6):
            model = NMF(3, init=init)
            blocks = model._validate_rows(data * unit)
            algorithm, table = model._algorithm(blocks), model._problem(blocks)
            W, V = algorithm.start(table, np.random.default_rng(0))
            assert (W >= 0).all()
            assert (V >= 0).all()
            found.append(W @ V.T / unit)
        np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-9)
        if (
            init == "nndsvd"
        ):  # the largest singular pair of numbers ≥ 0 is ≥ 0: nothing of it is lost
            u, s, vt = np.linalg.svd(X)
            np.testing.assert_allclose(
                np.outer(W[:, 0], V[:, 0]) / 1e6, s[0] * np.outer(u[:, 0], vt[0]), atol=1e-6
            )


# --- input ---


def test_bad_input_is_named():
    X, *_ = planted()
    with pytest.raises(ValueError, match=r"Negative values.*NMF.*-1"):
        NMF(2).fit(-np.eye(3))
    with pytest.raises(ValueError, match=r"Negative values"):
        NMF(2).fit(np.array([[np.nan, 1.0], [-1.0, 2.0]]))
    with pytest.raises(ValueError, match=r"sparse.*Observed"):
        NMF(2).fit(sp.csr_array(np.array([[np.nan, 1.0], [1.0, 2.0]])))
    with pytest.raises(ValueError, match="n_components=31 exceeds the smaller side"):
        NMF(31).fit(X)
    with pytest.raises(ValueError, match="solver='hals' minimises squares"):
        NMF(3, solver="hals", beta_loss="kullback-leibler").fit(X)
    with pytest.raises(ValueError, match=r"pass W of shape \(60, 3\)"):
        NMF(3, init="custom").fit(X)
    with pytest.raises(ValueError, match=r"H has shape \(30, 3\)"):
        NMF(3, init="custom").fit(X, W=np.ones((60, 3)), H=np.ones((30, 3)))
    with pytest.raises(ValueError, match="below 0"):
        NMF(3, init="custom").fit(X, W=-np.ones((60, 3)), H=np.ones((3, 30)))
    with pytest.warns(UserWarning, match="cannot leave"):
        NMF(3, init="nndsvd", solver="mu", max_iter=1, tol=0.0).fit(X)


def test_rows_and_columns_of_zeros_and_matrices_of_zeros_are_fitted():
    X, *_ = planted(noise=0.0)
    X[4], X[:, 9] = 0, 0
    for loss in LOSSES:
        model = NMF(3, beta_loss=loss, max_iter=30, tol=0.0).fit(X)
        assert model.doc_topic_[4].max() == 0
        assert model.components_[:, 9].max() <= 1e-12
        empty = NMF(2, beta_loss=loss, max_iter=3, tol=0.0).fit(np.zeros((5, 4)))
        assert empty.reconstruction_err_ == 0
        assert np.isfinite(empty.components_).all()
        assert not empty.certify(np.zeros((5, 4))).broken


def test_checkpoints_know_the_penalty_by_its_old_name():
    names = [field.name for field in fields(FactorPenalty)]
    old = make_dataclass("Penalty", names, frozen=True)
    assert digest(FactorPenalty(1.0, 0.5, 0.0, 2.0)) == digest(old(1.0, 0.5, 0.0, 2.0))


def test_defaults_reach_the_error_of_scikit_learn_on_tfidf():
    counts = np.random.default_rng(0).poisson(0.3 * _gamma_product(300, 120, 6))
    X = sp.csr_array(TfidfTransformer().fit_transform(counts))
    ours, theirs = (kind(6, init="nndsvda", random_state=0).fit(X) for kind in (NMF, SklearnNMF))
    assert ours.reconstruction_err_ <= theirs.reconstruction_err_ * (1 + 1e-4)
    assert ours.n_iter_ < theirs.n_iter_ / 2  # passes over the data


def _gamma_product(n, m, k):
    rng = np.random.default_rng(1)
    return rng.gamma(0.3, size=(n, k)) @ rng.gamma(0.3, size=(k, m))


def test_states_without_a_push_are_read():
    V = np.ones((3, 2))
    old = {"W": np.ones((4, 2)), "V": V, "loss": 1.0}
    state = SquaresState(**SquaresState.upgrade(old, 1))
    assert (state.before is V, state.push) == (True, PUSH)


def test_longer_steps_of_the_divergence_are_ahead_and_never_rise(monkeypatch):
    X = planted(noise=0.3)[0]
    settings = {"beta_loss": "kullback-leibler", "tol": 0.0, "random_state": 0}
    longer = NMF(4, max_iter=20, **settings).fit(X).trace_.objective
    monkeypatch.setattr(divergence, "GAMMA", 1.0)
    plain = NMF(4, max_iter=20, **settings).fit(X).trace_.objective
    assert longer[-1] < plain[-1]
    assert np.diff(longer).max() <= 0
