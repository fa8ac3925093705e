"""Linear regression: agreement with scikit-learn, sums that add up, rank, units, and bad input."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression as Theirs

import lemmata
from lemmata import LinearRegression
from lemmata.predict.least_squares.normal_equations import NormalEquations


def problem(n=80, d=6, m=None, seed=0, centre=2.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + centre
    w = rng.normal(size=(d, m or 1))
    Y = X @ w + 0.3 * rng.normal(size=(n, m or 1)) + 1
    return X, Y if m else Y[:, 0], rng.random(n)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("shape", [(80, 6), (6, 20)])
def test_weights_are_those_of_scikit_learn(shape, positive, intercept):
    X, Y, s = problem(*shape, m=2)
    for weights in (None, s):
        for y in (Y, Y[:, 0]):
            options = {"fit_intercept": intercept, "positive": positive}
            ours, theirs = (M(**options).fit(X, y, weights) for M in (LinearRegression, Theirs))
            assert ours.coef_.shape == theirs.coef_.shape
            if positive and shape[0] < shape[1]:  # several w ≥ 0 are best
                assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-9)
                continue
            assert_allclose(ours.coef_, theirs.coef_, atol=1e-10)
            assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-9)
            if not positive:
                assert ours.rank_ == theirs.rank_
                assert_allclose(ours.singular_, theirs.singular_, rtol=1e-8, atol=1e-9)


def test_sparse_rows_memmaps_streams_and_batches_give_the_same_weights(tmp_path):
    X, y, s = problem(900, 7)
    X[np.random.default_rng(1).random(X.shape) < 0.5] = 0
    whole = LinearRegression().fit(X, y, s)
    mapped = np.memmap(tmp_path / "X", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    blocks = np.array_split(X, 5)
    batches = LinearRegression()
    for rows in np.array_split(np.random.default_rng(0).permutation(900), 4):
        batches.partial_fit(X[rows], y[rows], s[rows])
    for other in (
        LinearRegression().fit(sp.csr_array(X), y, s),
        LinearRegression().fit(mapped, y, s),
        LinearRegression().fit(blocks, y, s),
        batches,
    ):
        assert_allclose(other.coef_, whole.coef_, rtol=1e-10)
        assert_allclose(other.intercept_, whole.intercept_, rtol=1e-10)
        assert_allclose(other.residual_squares_, whole.residual_squares_, rtol=1e-10)
    assert batches.n_samples_ == 900
    assert_allclose(batches.predict(X), whole.predict(X))


def test_dask_arrays_are_blocks_too():
    da = pytest.importorskip("dask.array")
    X, y, s = problem(300, 5)
    whole = LinearRegression().fit(X, y, s)
    assert_allclose(
        LinearRegression().fit(da.from_array(X, chunks=(70, 5)), y, s).coef_,
        whole.coef_,
        rtol=1e-10,
    )


@settings(max_examples=50)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(0, 10))
def test_sums_of_blocks_are_the_sum_of_all(sizes, seed):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    X, y, s = (
        rng.normal(size=(n, 3)) + 5,
        rng.normal(size=(n, 2)),
        rng.integers(0, 3, n).astype(float),
    )
    cuts = np.cumsum(sizes)[:-1]
    parts = zip(np.split(X, cuts), np.split(y, cuts), np.split(s, cuts), strict=True)
    total = sum((NormalEquations.of(*part) for part in parts), NormalEquations())
    whole = NormalEquations.of(X, y, s)
    assert total.count == whole.count
    for name in ("cross", "y_mean", "y_scatter"):
        assert_allclose(getattr(total, name), getattr(whole, name), rtol=1e-9, atol=1e-9)


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_residuals_are_orthogonal_to_the_columns(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 30)), int(rng.integers(1, 12))
    X = rng.integers(-3, 4, (n, d)).astype(
        float
    )  # collinear, constant and duplicated columns among them
    y = rng.normal(size=n)
    model = LinearRegression().fit(X, y)
    r = y - model.predict(X)
    assert np.abs((X - X.mean(0)).T @ r).max() < 1e-10 * (1 + np.abs(X).sum())
    assert abs(r.sum()) < 1e-10 * n
    assert model.rank_ == np.linalg.matrix_rank(X - X.mean(0), tol=1e-8)
    shortest = np.linalg.lstsq(X - X.mean(0), y - y.mean(), rcond=1e-10)[0]
    assert_allclose(model.coef_, shortest, atol=1e-8)


def test_ill_conditioned_columns_keep_their_digits():
    """Columns at 1e-4 radians: κ² = 1e9, where normal equations alone would keep seven digits."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(500, 4))
    X = np.column_stack([base, base @ np.ones(4) + 1e-4 * rng.normal(size=500)])
    w = np.array([1.0, -1.0, 2.0, 0.5, 3.0])
    model = LinearRegression().fit(X, X @ w)
    assert model.solver_ == "normal"
    assert_allclose(model.coef_, w, rtol=1e-11)
    assert LinearRegression().fit([*np.array_split(X, 3)], X @ w).coef_ == pytest.approx(
        w, rel=1e-9
    )


def test_units_of_columns_do_not_decide_the_rank():
    X, y, _ = problem(100, 3)
    units = np.array([1.0, 1e100, 1e-100])
    model, plain = LinearRegression().fit(X * units, y), LinearRegression().fit(X, y)
    assert model.rank_ == 3
    assert_allclose(model.coef_ * units, plain.coef_, rtol=1e-8)


@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_very_large_and_very_small_data_is_fitted(scale):
    X, y, _ = problem(60, 3)
    plain = LinearRegression().fit(X, y)
    assert_allclose(LinearRegression().fit(X * scale, y).coef_ * scale, plain.coef_, rtol=1e-6)
    assert_allclose(LinearRegression().fit(X, y * scale).coef_ / scale, plain.coef_, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e160, 1e-170])
def test_numbers_that_cannot_be_squared_are_refused(scale):
    X, y, _ = problem(60, 3)
    with pytest.raises(ValueError, match=r"too large|whose square is 0"):
        LinearRegression().fit(X * scale, y)


def test_a_constant_column_gets_no_weight_beside_an_intercept():
    X, y, _ = problem(50, 2)
    model = LinearRegression().fit(np.column_stack([X, np.full(50, 0.1)]), y)
    assert model.coef_[2] == 0
    assert model.rank_ == 2
    assert "weights_determined" in model.certificate_.failed


def test_wide_sparse_data_goes_by_conjugate_gradients_to_the_shortest_minimiser():
    rng = np.random.default_rng(0)
    X = sp.random_array((40, 2500), density=0.05, format="csr", rng=rng)
    y = rng.normal(size=40)
    model = LinearRegression().fit(X, y)
    assert model.solver_ == "cg"
    dense = X.toarray()
    shortest = np.linalg.pinv(dense - dense.mean(0)) @ (y - y.mean())
    assert_allclose(model.coef_, shortest, atol=1e-6)


def test_a_model_comes_back_from_its_file(tmp_path):
    X, y, _ = problem()
    model = LinearRegression().fit(X, y)
    lemmata.save(model, tmp_path / "m.lemma")
    back = lemmata.load(tmp_path / "m.lemma")
    assert back.summary() == model.summary()
    assert_allclose(back.partial_fit(X, y).coef_, model.coef_)


def test_a_constant_target_and_a_single_row():
    X, _, _ = problem(20, 3)
    model = LinearRegression().fit(X, np.full(20, 7.0))
    assert_allclose(model.coef_, 0, atol=1e-14)
    assert model.intercept_ == 7
    assert LinearRegression().fit(X[:1], [3.0]).predict(X[:1]) == pytest.approx([3.0])


def test_weights_that_are_all_zero_are_refused():
    X, y, _ = problem(20, 3)
    with pytest.raises(ValueError, match="at least one non-zero"):
        LinearRegression().fit(X, y, np.zeros(20))


def test_partial_fit_needs_sums_to_go_on_from():
    X = sp.random_array((30, 2200), density=0.05, format="csr", rng=np.random.default_rng(0))
    model = LinearRegression().fit(X, np.arange(30.0))
    with pytest.raises(ValueError, match="kept no sums"):
        model.partial_fit(X, np.arange(30.0))


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    X, y, _ = problem(60_000, 30)
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        found.append(LinearRegression().fit(X, y).coef_)
    assert (found[0] == found[1]).all()
