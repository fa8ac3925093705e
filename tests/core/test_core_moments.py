"""Moments add up: any split of any rows, in any grouping, is the whole within rounding."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata.core import Moments, rounding, store


def exactly(X, weights=None):
    """Count, mean and scatter by the book, in the widest float there is."""
    X = np.asarray(X, dtype=np.longdouble)
    w = (
        np.ones(len(X), dtype=np.longdouble)
        if weights is None
        else np.asarray(weights, dtype=np.longdouble)
    )
    mean = (w[:, None] * X).sum(axis=0) / w.sum()
    return float(w.sum()), mean, (w[:, None] * (X - mean)).T @ (X - mean)


def agree(ours, theirs, scale, dtype=np.float64, terms=1):
    """Both moments agree within the rounding of sums of `terms` numbers as large as `scale`."""
    n, mean, scatter = theirs
    tolerance = 8 * rounding(dtype, terms)
    assert ours.n == pytest.approx(n, rel=1e-12)
    np.testing.assert_allclose(
        np.asarray(ours.mean, dtype=np.longdouble), mean, atol=tolerance * scale, rtol=0
    )
    least = tolerance * max(n, 1) * scale**2 + np.finfo(float).tiny  # squares may underflow
    np.testing.assert_allclose(ours.scatter, scatter.astype(float), atol=least, rtol=0)


ROWS = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 30), st.integers(1, 4)),
    elements=st.floats(-1e6, 1e6, allow_subnormal=False),
)


@given(ROWS, st.lists(st.integers(0, 30), max_size=5), st.booleans(), st.data())
@settings(max_examples=150)
def test_any_split_of_any_rows_is_the_whole(X, cuts, weighted, data):
    weights = (
        data.draw(hnp.arrays(np.float64, len(X), elements=st.floats(0.125, 8.0)))
        if weighted
        else None
    )
    cuts = sorted(min(cut, len(X)) for cut in cuts)
    parts = zip([0, *cuts], [*cuts, len(X)], strict=True)
    total = sum(
        (Moments.of(X[a:b], None if weights is None else weights[a:b]) for a, b in parts), Moments()
    )
    agree(total, exactly(X, weights), np.abs(X).max(), terms=len(X))


@given(ROWS, st.data())
@settings(max_examples=60)
def test_addition_is_associative_and_commutative_within_rounding(X, data):
    a, b = sorted(data.draw(st.tuples(st.integers(0, len(X)), st.integers(0, len(X)))))
    one, two, three = Moments.of(X[:a]), Moments.of(X[a:b]), Moments.of(X[b:])
    whole, scale = exactly(X), np.abs(X).max()
    for total in ((one + two) + three, one + (two + three), (three + one) + two):
        agree(total, whole, scale, terms=len(X))


@given(ROWS)
@settings(max_examples=30)
def test_the_empty_sum_changes_nothing(X):
    moments = Moments.of(X)
    assert moments + Moments() is moments
    assert Moments() + moments is moments
    assert Moments.of(X[:0]).n == 0
    assert Moments.of(X, np.zeros(len(X))).n == 0
    assert (Moments() + Moments()).n == 0


@given(ROWS, st.data())
@settings(max_examples=60)
def test_a_weight_counts_its_row_that_many_times(X, data):
    times = data.draw(hnp.arrays(np.int64, len(X), elements=st.integers(0, 4)))
    if times.sum() == 0:
        times[0] = 1
    repeated = exactly(np.repeat(X, times, axis=0))
    agree(Moments.of(X, times.astype(float)), repeated, np.abs(X).max(), terms=times.sum())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, -1e6])
@pytest.mark.parametrize("seed", range(3))
def test_a_huge_offset_costs_no_accuracy(dtype, offset, weighted, seed):
    """Compared with the exact moments of the numbers as stored, the covariance errs by rounding of the spread alone."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(2000, 4)) + offset).astype(dtype)
    weights = rng.uniform(0.5, 2.0, size=2000) if weighted else None
    n, mean, scatter = exactly(X, weights)
    parts = np.array_split(np.arange(2000), 7)
    total = sum(
        (Moments.of(X[i], None if weights is None else weights[i]) for i in parts), Moments()
    )
    tolerance = rounding(dtype, terms=2000) * 8
    np.testing.assert_allclose(total.scatter / n, (scatter / n).astype(float), atol=tolerance)
    np.testing.assert_allclose(total.mean, mean.astype(float), atol=tolerance, rtol=1e-15)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_sparse_rows_have_the_moments_of_the_dense_ones(offset):
    X = sp.random_array((500, 5), density=0.3, rng=0).toarray()
    X[:, 2] += offset  # a full column far from zero
    w = np.linspace(0.5, 2, 500)
    for weights in (None, w):
        n, mean, scatter = exactly(X, weights)
        ours = Moments.of(sp.csr_array(X), weights)
        np.testing.assert_allclose(ours.mean, mean.astype(float), rtol=1e-14)
        np.testing.assert_allclose(
            ours.scatter / n, (scatter / n).astype(float), atol=rounding(float, 500) * 8
        )


def test_a_constant_column_has_no_scatter():
    for dtype in (np.float32, np.float64):
        X = np.full((100, 2), 0.1, dtype=dtype)
        assert np.abs(Moments.of(X).scatter).max() <= 100 * (np.finfo(dtype).eps * 0.1) ** 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("weighted", [False, True])
def test_nan_and_infinity_are_refused(dtype, bad, weighted):
    X = np.ones((5, 2), dtype=dtype)
    X[3, 1] = bad
    with pytest.raises(ValueError, match="Input contains NaN or infinity"):
        Moments.of(X, np.ones(5) if weighted else None)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_numbers_whose_squares_leave_the_finite_ones_are_refused(make):
    for X in (
        np.array([[1e25, 1], [-1e25, 2]], dtype=np.float32),
        np.array([[1e200, 1], [-1e200, 2]]),
    ):
        if sp.issparse(make(X)) and X.dtype == np.float32:
            continue  # sparse rows are squared in float64
        with (
            np.errstate(over="ignore", invalid="ignore"),
            pytest.raises(ValueError, match="too large"),
        ):
            Moments.of(make(X))


def test_covariance_is_numpys():
    X = np.random.default_rng(0).normal(size=(50, 3))
    np.testing.assert_allclose(Moments.of(X).covariance, np.cov(X.T), rtol=1e-12)
    np.testing.assert_array_equal(Moments.of(X[:1]).covariance, np.zeros((3, 3)))


def test_moments_survive_a_file_to_the_bit(tmp_path):
    moments = Moments.of(np.random.default_rng(0).normal(size=(50, 3)))
    store.write(tmp_path / "m", "test", {"m": moments})
    back = store.read(tmp_path / "m", "test")["m"]
    assert (back.n, back.mean.tobytes(), back.scatter.tobytes()) == (
        50,
        moments.mean.tobytes(),
        moments.scatter.tobytes(),
    )
