"""Centring: means over what is known, z-scores, and offsets of rows and columns together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from lemmata.completion import Observed, centring
from lemmata.completion.centring import HOW, Offsets, biases, centre

MATRICES = arrays(
    np.float64,
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
    elements=st.one_of(st.just(np.nan), st.integers(-50, 50).map(lambda tenth: tenth / 10)),
)
NOISE = 64 * np.finfo(float).eps


def random_matrix(n=40, m=25, density=0.3, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    A = 3 + rng.normal(size=(n, 1)) + rng.normal(size=m) + 0.5 * rng.normal(size=(n, m))
    return np.where(rng.random((n, m)) < density, A, np.nan).astype(dtype)


def mean_or(values, otherwise):
    return values.mean() if len(values) else otherwise


@settings(max_examples=60)
@given(MATRICES)
def test_means_and_deviations_are_those_of_the_notes(A):
    observed, known = Observed.of(A), [row[~np.isnan(row)] for row in A]
    for how in ("rows", "zscore rows"):
        offsets = centre(observed, how)
        assert_allclose(offsets.rows, [mean_or(row, 0.0) for row in known], atol=NOISE)
        assert offsets.mean == 0
        assert not offsets.columns.any()
    scales = [row.std() if len(set(row)) > 1 else 1.0 for row in known]
    assert_allclose(offsets.row_scale, scales, rtol=1e-12)
    assert_array_equal(offsets.column_scale, 1)
    everything = centre(observed, "global")
    assert everything.mean == pytest.approx(mean_or(A[~np.isnan(A)], 0.0), abs=NOISE * 50)
    assert not everything.rows.any()
    assert not everything.columns.any()


@settings(max_examples=40)
@given(MATRICES, st.sampled_from(["rows", "zscore rows"]), st.sampled_from([0.0, 0.7]))
def test_columns_are_the_rows_of_the_transposed(A, how, reg):
    rows, columns = (
        centre(Observed.of(A.T), how, reg),
        centre(Observed.of(A), how.replace("rows", "columns"), reg),
    )
    for part, other in zip(vars(rows.T).values(), vars(columns).values(), strict=True):
        assert_array_equal(part, other)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_removed_can_be_put_back(how, dtype):
    A = Observed.of(random_matrix(dtype=dtype))
    offsets = centre(A, how, 0.5 if how == "both" else 0.0)
    assert {
        part.dtype
        for part in (offsets.rows, offsets.columns, offsets.row_scale, offsets.column_scale)
    } == {np.dtype(dtype)}
    left = offsets.remove_from(A)
    assert left.dtype == dtype
    i, j = A.rows, A.columns
    back = offsets.at(i, j) + offsets.scale_at(i, j) * left.values
    assert_allclose(back, A.values, atol=16 * np.finfo(dtype).eps * np.abs(A.values).max())
    assert_array_equal(left.columns, A.columns)


def test_standardised_rows_have_mean_zero_and_variance_one():
    left = centre(A := Observed.of(random_matrix()), "zscore rows").remove_from(A)
    for start, end in zip(left.by_row.indptr[:-1], left.by_row.indptr[1:], strict=True):
        row = left.values[start:end]
        if len(row) > 1:
            assert abs(row.mean()) < 1e-13
            assert row.std() == pytest.approx(1, rel=1e-13)


def test_a_constant_row_has_scale_one_however_it_rounds():
    A = Observed.of(np.vstack([np.full((1, 7), 0.1), np.full((1, 7), 1 / 3), np.arange(7.0)[None]]))
    assert_array_equal(centre(A, "zscore rows").row_scale[:2], 1)
    assert np.abs(centre(A, "zscore rows").remove_from(A).values[:14]).max() < 1e-15


# --- rows and columns together ----------------------------------------------------------------------------------------


def normal_equations(A, offsets, reg):
    """The gradient of ½Σ(a − μ − b − c)² + ½λ(‖b‖² + ‖c‖²), by plain NumPy."""
    e = np.nan_to_num(A - offsets.mean - offsets.rows[:, None] - offsets.columns)
    return np.hstack([reg * offsets.rows - e.sum(axis=1), reg * offsets.columns - e.sum(axis=0)])


@settings(max_examples=60)
@given(MATRICES, st.sampled_from([0.0, 1e-3, 1.0, 30.0]))
def test_the_gradient_vanishes_at_both(A, reg):
    offsets = centre(Observed.of(A), "both", reg)
    scale = np.nan_to_num(np.abs(A)).sum() + 1e-300
    assert np.abs(normal_equations(A, offsets, reg)).max() <= 1e-11 * scale


@pytest.mark.parametrize("reg", [0.0, 0.1, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_both_are_the_least_squares_solution(reg, seed):
    A = random_matrix(seed=seed)
    (n, m), (i, j) = A.shape, np.nonzero(~np.isnan(A))
    offsets = centre(Observed.of(A), "both", reg)
    X = np.zeros((len(i) + n + m, n + m))
    X[np.arange(len(i)), i] = X[np.arange(len(i)), n + j] = 1
    X[len(i) :] = np.sqrt(reg) * np.eye(n + m)
    y = np.concatenate([A[i, j] - A[i, j].mean(), np.zeros(n + m)])
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    assert_allclose(
        (X @ np.concatenate([offsets.rows, offsets.columns]))[: len(i)],
        (X @ best)[: len(i)],
        atol=1e-9,
    )
    if reg:
        assert_allclose(np.concatenate([offsets.rows, offsets.columns]), best, atol=1e-10)


def test_an_additive_matrix_is_met_exactly():
    rng = np.random.default_rng(0)
    b, c = rng.normal(size=50), rng.normal(size=30)
    A = np.where(rng.random((50, 30)) < 0.3, b[:, None] + c, np.nan)
    assert np.abs(centre(O := Observed.of(A), "both").remove_from(O).values).max() < 1e-10


def test_without_reg_the_columns_average_zero_in_each_connected_part():
    A = np.full((9, 7), np.nan)
    rng = np.random.default_rng(0)
    # a row and a column stay empty
    A[:4, :3], A[4:8, 3:6] = (
        rng.normal(size=(4, 3)),
        10 + rng.normal(size=(4, 3)),
    )
    offsets = centre(Observed.of(A), "both")
    assert abs(offsets.columns[:3].mean()) < 1e-12
    assert abs(offsets.columns[3:6].mean()) < 1e-12
    assert offsets.rows[8] == offsets.columns[6] == 0
    assert_allclose(offsets.mean + offsets.rows[:4], A[:4, :3].mean(axis=1), atol=1e-12)


def test_a_long_chain_is_solved_too():
    """Each row shares one column with the next: the slowest graph there is for an iterative method."""
    n = 400
    rows, columns = np.repeat(np.arange(n), 2), np.r_[0, np.repeat(np.arange(1, n), 2), n]
    values = np.random.default_rng(0).normal(size=2 * n)
    A = Observed.from_triplets(rows, columns, values)
    left = centre(A, "both").remove_from(A)
    for entries in (left.by_row, left.by_column):
        assert np.abs(centring.sum_values(entries)).max() < 1e-8


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1)])
@pytest.mark.parametrize("reg", [0.0, 2.0])
def test_equal_entries_leave_nothing_to_explain(shape, reg):
    offsets = centre(Observed.of(np.full(shape, 0.1)), "both", reg)
    assert np.abs(np.hstack([offsets.rows, offsets.columns])).max() < 1e-15
    assert offsets.mean == pytest.approx(0.1)


def test_reg_draws_the_means_of_few_entries_to_the_mean_of_all():
    A = Observed.of(np.array([[5.0, 5.0, 5.0, 5.0], [1.0, np.nan, np.nan, np.nan]]))
    plain, drawn = biases(A, columns=False), biases(A, columns=False, reg=1.0)
    assert plain[0] == drawn[0] == 4.2
    assert_allclose(plain[1], [0.8, -3.2])
    assert_allclose(drawn[1], [3.2 / 5, -3.2 / 2])
    assert_array_equal(centre(A, "rows", 1.0).rows, drawn[1])


def test_an_empty_matrix_has_no_offsets():
    A = Observed.of(np.full((3, 2), np.nan))
    for how in HOW:
        offsets = centre(A, how)
        for part, zero in zip(
            vars(offsets).values(), vars(Offsets.zero((3, 2), float)).values(), strict=True
        ):
            assert_array_equal(part, zero)


@pytest.mark.parametrize("block", [1, 3, 7, 1000])
def test_sums_do_not_depend_on_the_blocks(monkeypatch, block):
    A = Observed.of(random_matrix(density=0.1))
    expected = [centring.sum_values(A.by_row), centring.sum_others(A.by_row, np.arange(25.0))]
    monkeypatch.setattr(centring, "BLOCK", block)
    assert_array_equal(centring.sum_values(A.by_row), expected[0])
    assert_array_equal(centring.sum_others(A.by_row, np.arange(25.0)), expected[1])
    assert_allclose(expected[0], np.nansum(A.dense(), axis=1), atol=1e-13)
    assert_allclose(
        expected[1], np.nansum(np.where(np.isnan(A.dense()), np.nan, np.arange(25.0)), axis=1)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sideways",), "pass one of none, global"),
        (("both", -1), "number >= 0"),
        (("both", np.nan), "number >= 0"),
    ],
)
def test_unknown_centring_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        centre(Observed.of(np.ones((2, 2))), *arguments)
