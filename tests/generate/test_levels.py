"""Levels: which numbers may occur, and how many bits they take."""

import numpy as np
import pytest

from lemmata.generate.levels import Levels, bits_per_dim, choose_levels, find_levels


def rows_of(values, n=40, d=6, seed=0):
    return np.random.default_rng(seed).choice(np.asarray(values), size=(n, d))


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([0, 1], [0, 1]),
        ([0, 3, 4, 9], range(10)),  # the gaps of an even spacing are filled
        (np.float32([0, 7, 9, 255]) / 255, np.arange(256) / 255),
        ([0, 1, np.pi], [0, 1, np.pi]),  # no even spacing
        ([5.0], [5.0]),
    ],
)
def test_levels_are_found(values, found):
    levels = find_levels(rows_of(values))
    np.testing.assert_allclose(levels.values, found, atol=1e-6)
    places = levels.places(rows_of(values, seed=1))
    np.testing.assert_allclose(levels.values[places], rows_of(values, seed=1), atol=1e-6)


def test_continuous_numbers_have_none_and_are_refused_bits():
    X = np.random.default_rng(0).normal(size=(40, 5))
    assert find_levels(X) is None
    assert find_levels(np.random.default_rng(0).normal(size=(400, 5))) is None
    with pytest.raises(ValueError, match=r"varies continuously. Pass levels=16"):
        choose_levels("auto", X)
    with pytest.raises(ValueError, match="no bits to count"):
        bits_per_dim(np.zeros(3), 5, None)
    rounded = choose_levels(4, X)
    assert (np.bincount(rounded.places(X).ravel(), minlength=4) > 0).all()
    assert rounded.places(np.array([[-99.0, 99.0]])).tolist() == [[0, 3]]


def test_numbers_outside_are_named_with_their_place():
    levels = choose_levels(range(17), None)
    with pytest.raises(
        ValueError, match=r"X\[12, 1\] is 17, .* 17 levels from 0 to 16 \(nor are 1"
    ):
        levels.places(np.array([[1.0, 2], [3, 4], [0, 17], [0.5, 3]]), first=10)


def test_a_type_that_merges_levels_is_refused():
    levels = Levels(1e6 + np.arange(4.0))
    levels.require_apart(np.float64)
    with pytest.raises(ValueError, match="1000000 and 1000001 are too close for float32"):
        levels.require_apart(np.float32)


def test_the_bits_of_a_density_bound_those_of_its_cells():
    """p = N(0, 1) in cells of width δ: E ln p(x + δu) + ln δ ≤ ln P(cell), equal up to δ², in any units."""
    from scipy.stats import norm

    rng, levels = np.random.default_rng(0), Levels(np.arange(-16, 17) / 4)
    x = np.repeat(levels.values[4:-4], 4000)[:, None]
    u = levels.dequantise(x, rng)
    assert ((u >= x) & (u < x + 0.25)).all()
    bound = bits_per_dim(norm.logpdf(u[:, 0]), 1, levels, density=True).mean()
    true = bits_per_dim(np.log(norm.cdf(x + 0.25) - norm.cdf(x))[:, 0], 1, levels).mean()
    assert true <= bound <= true + 0.02
    scaled = Levels(levels.values * 7)
    assert bits_per_dim(norm.logpdf(u[:, 0]) - np.log(7), 1, scaled, density=True).mean() == pytest.approx(bound)  # fmt: skip
