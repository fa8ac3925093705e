"""Plain Lanczos against LAPACK, and how often its error bar is wrong."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lemmata.audit.kernel.lanczos import RISK, largest_eigenvalue, missed_share, products_for


def symmetric(n, seed, positive=False):
    B = np.random.default_rng(seed).normal(size=(n, n))
    return B @ B.T if positive else B + B.T


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(0, 999), st.floats(-100, 100))
def test_with_as_many_products_as_dimensions_both_ends_are_those_of_lapack(n, seed, scale):
    A = 10.0**scale * symmetric(n, seed)
    expected, size = np.linalg.eigvalsh(A), np.abs(A).max()
    found = largest_eigenvalue(lambda x: A @ x, n, most=100)
    assert_allclose([found.lowest, found.value], expected[[0, -1]], atol=1e-11 * n * size)
    assert found.largest_excess() == found.largest_excess(positive=True) == 0
    assert_allclose(A @ found.vector, found.value * found.vector, atol=1e-9 * n * size)


@pytest.mark.parametrize(
    "values", [[3.0] * 5 + [1.0] * 5, [0.0] * 8, [-1.0] * 4, [2.0, 0, 0, 0, 0]]
)
def test_an_invariant_space_is_left_by_another_random_vector(values):
    found = largest_eigenvalue(lambda x: np.array(values) * x, len(values), most=20)
    assert_allclose([found.lowest, found.value], [min(values), max(values)], atol=1e-13)
    assert_allclose(np.linalg.norm(found.vector), 1.0)


@pytest.mark.parametrize("products", [5, 20, 60])
def test_the_value_is_a_rayleigh_quotient_near_an_eigenvalue(products):
    A = symmetric(150, 0)
    found = largest_eigenvalue(lambda x: A @ x, 150, most=products)
    assert found.products == products
    assert_allclose(found.vector @ A @ found.vector, found.value, rtol=1e-12)
    assert np.abs(np.linalg.eigvalsh(A) - found.value).min() <= found.residual * (1 + 1e-9)


def spectra(n):
    """An even one, one with a cluster at the top, one with a lonely top, one that is nearly hidden."""
    yield np.linspace(0, 1, n)
    yield np.r_[np.linspace(0, 0.9, n - 20), np.linspace(0.999, 1, 20)]
    yield np.r_[np.linspace(0, 0.1, n - 1), 1.0]
    yield np.r_[np.full(n - 1, 0.95), 1.0]


@pytest.mark.parametrize("products", [8, 30])
def test_the_largest_eigenvalue_lies_within_the_error_bar(products):
    """4 spectra × 10 starts: RISK is 1e-4 each, so that none may be outside; the same shifted, where A is not positive."""
    n = 200
    for values in spectra(n):
        for rng in range(10):
            for shift in (0.0, -0.7):
                found = largest_eigenvalue(
                    partial(np.multiply, values + shift), n, most=products, rng=rng
                )
                top = values.max() + shift
                assert found.value <= top + 1e-12
                assert found.value + found.largest_excess(positive=shift == 0) >= top - 1e-12


def test_the_theorem_gives_shares_and_products_that_belong_together():
    for size in (10, 10**6):
        for share in (0.1, 1e-3):
            q = products_for(share, size)
            assert missed_share(q, size) <= share < missed_share(q - 1, size)
    # 1.648 √N e^(−√ε(2q−1)) at its ε is the risk
    epsilon = missed_share(40, 100)
    assert 1.648 * 10 * np.exp(-np.sqrt(epsilon) * 79) == pytest.approx(RISK)


def test_it_stops_when_that_is_enough():
    found = largest_eigenvalue(
        lambda x: np.linspace(0, 1, 300) * x, 300, most=200, enough=lambda now: now.value > 0.9
    )
    assert found.products < 50
