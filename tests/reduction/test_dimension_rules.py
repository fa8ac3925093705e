"""How many components: by the knee of the spectrum, and by what noise of the same size reaches."""

import numpy as np
import pytest

from lemmata import PCA, certify
from lemmata.data import digits
from lemmata.reduction.dimension import count_above_noise, draw_noise, find_knee


def factors(n=300, d=20, k=3, seed=0):
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(d, k)))[0]
    return 6 * rng.normal(size=(n, k)) @ axes.T + rng.normal(size=(n, d))


@pytest.mark.parametrize("rule", ["knee", "parallel"])
@pytest.mark.parametrize("solver", ["auto", "svd", "eigh"])
@pytest.mark.parametrize("shape", [(300, 20), (40, 60)])
def test_factors_in_noise_are_counted(rule, solver, shape):
    X = factors(*shape)
    model = PCA(rule, svd_solver=solver).fit(X)
    assert model.n_components_ == 3
    name = {"knee": "knee_clear", "parallel": "above_chance"}[rule]
    claim = model.certify(X)[name]
    assert claim.verdict == "holds"
    assert "3" in claim.note
    assert PCA(rule, svd_solver=solver).fit(1e3 * X).n_components_ == 3


def test_weights_count_rows():
    X, w = factors(150), np.arange(150) % 3 + 1
    weighted = PCA("parallel").fit(X, sample_weight=w)
    assert weighted.n_components_ == PCA("parallel").fit(np.repeat(X, w, axis=0)).n_components_


def test_noise_has_no_dimension_and_the_certificate_says_so():
    X = np.random.default_rng(0).normal(size=(200, 10))
    for rule, name in (("knee", "knee_clear"), ("parallel", "above_chance")):
        assert name in PCA(rule).fit(X).certify(X).failed


@pytest.mark.parametrize(("m", "d"), [(50, 8), (5, 8)])
def test_a_triangle_draws_the_eigenvalues_of_rows(m, d):
    """E tr S = mΣσ², E tr S² = m(m + 1)Σσ⁴ + m(Σσ²)²: the moments of Wishart's law."""
    rng, own = np.random.default_rng(0), np.linspace(1, 3, d)
    drawn = np.array([draw_noise(own, m, rng) for _ in range(4000)])
    assert drawn.sum(axis=1).mean() == pytest.approx(m * own.sum(), rel=0.01)
    squares = m * (m + 1) * (own**2).sum() + m * own.sum() ** 2
    assert (drawn**2).sum(axis=1).mean() == pytest.approx(squares, rel=0.03)


def test_noise_passes_for_a_component_in_one_case_of_twenty():
    rng, found = np.random.default_rng(0), 0
    for _ in range(300):
        Z = rng.normal(size=(40, 5))
        S = Z.T @ Z
        found += np.linalg.eigvalsh(S)[-1] > max(
            draw_noise(np.ones(5), 40, rng)[0] for _ in range(19)
        )
    assert found / 300 == pytest.approx(1 / 20, abs=0.05)
    assert count_above_noise(np.array([900.0, 50, 40, 30]), np.full(4, 255.0), 60) == 1


KNEES = [([9, 8, 7, 1, 1, 1], 3), ([9, 1, 1], 1), ([3, 2, 1], 1), ([2, 2], 1), ([5], 1)]


@pytest.mark.parametrize(("values", "k"), KNEES)
def test_the_knee_is_the_point_farthest_below_the_line(values, k):
    assert find_knee(np.array(values, float)) == k


def test_solvers_of_leading_parts_know_no_rule():
    with pytest.raises(ValueError, match="whole spectrum"):
        PCA("knee", svd_solver="lanczos").fit(factors())


def test_the_digits_have_a_dozen_dimensions_or_fewer():
    X = digits().X
    knee, parallel = PCA("knee").fit(X), PCA("parallel").fit(X)
    assert 3 <= parallel.n_components_ <= knee.n_components_ <= 15
    assert "knee_clear" in certify(knee, X).held
