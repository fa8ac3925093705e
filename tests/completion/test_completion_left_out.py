"""The unit of ridges: how far entries lie from offsets that have not seen them."""

import numpy as np
import pytest

from lemmata.completion import Observed
from lemmata.completion.centring import BIAS_REG, biases, residual_deviation


def sparse_ratings(seed=0, n=300, m=200, per_row=3):
    """Few entries per row: offsets and noise of deviation 1."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, 1)) + rng.normal(size=m) + rng.normal(size=(n, m))
    return Observed.of(np.where(rng.random((n, m)) < per_row / m, A, np.nan))


@pytest.mark.parametrize("seed", range(3))
def test_it_is_near_the_error_of_offsets_fitted_without_the_entry(seed):
    A = sparse_ratings(seed, n=60, m=40)
    dense, squares = A.dense(), []
    for i, j, a in zip(A.rows, A.columns, A.values, strict=True):
        without = dense.copy()
        without[i, j] = np.nan
        mean, b, c = biases(Observed.of(without), reg=BIAS_REG)
        squares.append((a - mean - b[i] - c[j]) ** 2)
    truth = np.sqrt(np.mean(squares))
    mean, b, c = biases(A, reg=BIAS_REG)
    seen = np.sqrt(np.mean((A.values - mean - b[A.rows] - c[A.columns]) ** 2))
    found = residual_deviation(A)
    assert abs(found / truth - 1) < 0.05
    assert abs(found / truth - 1) < 0.5 * abs(seen / truth - 1)


def test_it_has_the_unit_of_the_data():
    A = sparse_ratings()
    assert residual_deviation(A.with_values(10 * A.values)) == pytest.approx(
        10 * residual_deviation(A), rel=1e-10
    )


def test_it_is_the_formula_written_entry_by_entry():
    A = sparse_ratings()
    rows = np.r_[
        A.rows, A.rows + A.shape[0]
    ]  # the same matrix below itself: the same shares of columns twice as often
    twice = Observed.from_triplets(rows, np.r_[A.columns, A.columns], np.r_[A.values, A.values])
    mean, b, c = biases(twice, reg=BIAS_REG)
    h = 1 / (twice.row_counts + BIAS_REG), 1 / (twice.column_counts + BIAS_REG)
    e = twice.values - mean - b[twice.rows] - c[twice.columns]
    e /= 1 - h[0][twice.rows] - h[1][twice.columns]
    assert residual_deviation(twice) == pytest.approx(np.sqrt(np.mean(e**2)), rel=1e-10)
