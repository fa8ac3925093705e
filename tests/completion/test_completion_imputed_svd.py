"""SVD of a filled matrix against Eckart–Young, and the warning of CIL 2.3.4 as numbers."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from lemmata import ImputedSVD
from lemmata.completion import Observed
from lemmata.completion.baselines.imputed_svd import FILLS, Filled
from lemmata.completion.centring import centre

SEEDS = range(2)


def planted(seed=0, n=50, m=40, rank=2, share=0.5, noise=0.0, dtype=np.float64):
    """A matrix of low rank, and the same with holes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m))
    known = rng.random((n, m)) < share
    return X.astype(dtype), np.where(known, X + noise * rng.normal(size=(n, m)), np.nan).astype(
        dtype
    )


def filled(A, fill):
    """The dense twin: the matrix with the fill, and the fill alone, straight from the definition."""
    data = Observed.of(A)
    offsets = centre(data, FILLS[fill])
    base = offsets.mean + offsets.rows[:, None] + offsets.columns
    return np.where(np.isnan(A), base, A), base


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("shape", [(50, 40), (30, 60)])
def test_the_fit_is_the_truncated_svd_of_the_filled_matrix(fill, shape):
    for seed in SEEDS:
        _, A = planted(seed, *shape, share=0.3, noise=0.5)
        F, base = filled(A, fill)
        P, s, Qt = np.linalg.svd(F - base)
        model = ImputedSVD(3, fill=fill, random_state=seed, tol=1e-12).fit(A)
        assert_allclose(model.singular_values_, s[:3], rtol=1e-10)
        assert_allclose(
            model.complete(keep_known=False), base + (P[:, :3] * s[:3]) @ Qt[:3], atol=1e-6
        )
        assert "best_of_filled" in model.certificate_.held


def test_means_fill_as_they_should():
    A = np.array([[1.0, np.nan, 3.0], [5.0, 7.0, np.nan]])
    assert_allclose(filled(A, "rows")[0], [[1, 2, 3], [5, 7, 6]])
    assert_allclose(filled(A, "columns")[0], [[1, 7, 3], [5, 7, 3]])
    assert_allclose(filled(A, "global")[0], [[1, 4, 3], [5, 7, 4]])
    assert_allclose(filled(A, "zero")[0], [[1, 0, 3], [5, 7, 0]])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_matrix_known_everywhere_is_approximated_best(seed):
    X, _ = planted(seed)
    noisy = X + 0.3 * np.random.default_rng(seed).normal(size=X.shape)
    model = ImputedSVD(2, fill="zero", random_state=seed).fit(noisy)
    s = np.linalg.svd(noisy, compute_uv=False)
    rest = noisy - model.complete(keep_known=False)
    assert (rest**2).sum() == pytest.approx((s[2:] ** 2).sum(), rel=1e-9)
    assert model.certificate_.failed == []
    assert model.certificate_["not_pulled_to_the_fill"].measured == pytest.approx(1, abs=1e-9)


# --- the warning ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_the_strength_is_about_the_share_of_known_entries(share):
    """Π_Ω X ≈ pX for a spread-out X: predictions come out p times too small.

    The k(n + m) numbers of the factors also meet that share of the fluctuations of |Ω| entries around pX, on the known entries
    only, which makes s smaller and the strength larger by a multiple of k(n + m)/|Ω|.
    """
    found, overfit = [], 2 * 600 / (share * 300 * 300)
    for seed in SEEDS:
        X, A = planted(seed, 300, 300, share=share)
        model = ImputedSVD(2, fill="zero", random_state=seed).fit(A)
        found.append(model.certify(A)["not_pulled_to_the_fill"].measured)
        shrunk = np.vdot(model.complete(keep_known=False), X) / np.vdot(X, X)
        assert shrunk == pytest.approx(share, rel=0.05 + overfit)
    assert share * 0.95 <= np.mean(found) <= share * (1 + 3 * overfit)


def test_many_factors_reproduce_the_fill_and_fail_as_well():
    _, A = planted(0, share=0.5)
    model = ImputedSVD(40, fill="zero").fit(A)
    assert np.abs(model.complete(keep_known=False)[np.isnan(A)]).max() < 1e-6
    found = model.certify(A)
    assert found["not_pulled_to_the_fill"].measured < 1e-3
    assert "not_pulled_to_the_fill" in found.failed


def test_the_best_multiple_on_known_entries_is_the_energy_over_its_known_part():
    """s = ⟨x, x̂⟩_Ω / ‖Π_Ω x̂‖² with ⟨x, x̂⟩_Ω = ‖x̂‖², as x̂ is a part of the SVD of x."""
    for seed in SEEDS:
        _, A = planted(seed, share=0.3)
        model = ImputedSVD(2, fill="zero", tol=1e-12).fit(A)
        fit, known = model.complete(keep_known=False), ~np.isnan(A)
        assert np.vdot(A[known], fit[known]) == pytest.approx(np.vdot(fit, fit), rel=1e-8)


def test_entries_equal_to_their_fill_pull_nothing():
    model = ImputedSVD(1, fill="global").fit(np.where(np.eye(4) == 1, np.nan, 2.5))
    assert_allclose(model.complete(), 2.5)
    assert "not_pulled_to_the_fill" in model.certificate_.held


def test_lanczos_stopped_early_fails_to_be_the_best():
    rng = np.random.default_rng(0)
    A = np.where(rng.random((120, 100)) < 0.5, rng.normal(size=(120, 100)), np.nan)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = ImputedSVD(5, max_iter=1, random_state=0).fit(A)
    assert "best_of_filled" in model.certify(A).failed


def test_another_matrix_of_rank_k_fails_to_be_the_best():
    _, A = planted(0, noise=0.5)
    model = ImputedSVD(2).fit(A)
    model.U_ = model.U_ * 1.1
    assert "best_of_filled" in model.certify(A).failed


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(15_000, 900), (900, 15_000)])
def test_nothing_of_the_size_of_the_matrix_is_made(shape):
    """Dense, the matrix has 13.5 million entries: 108 MB. The known 50,000 and the factors take a few."""
    rng = np.random.default_rng(0)
    X = sp.random_array(shape, density=50_000 / (shape[0] * shape[1]), rng=rng, format="csr")
    # kernels are compiled before memory is watched
    ImputedSVD(3, random_state=0).fit(planted(0)[1])
    data = Observed.of(X)
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ImputedSVD(3, max_iter=15, random_state=0).fit(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * shape[0] * shape[1] / 4


def test_the_operator_is_the_gram_matrix_of_the_smaller_side():
    for shape in ((9, 5), (5, 9)):
        X = np.random.default_rng(0).normal(size=shape)
        S = Filled.of(Observed.of(X))
        G = X.T @ X if shape[0] > shape[1] else X @ X.T
        assert S.shape == G.shape == (5, 5)
        assert_allclose(S @ np.eye(5), G, atol=1e-12)
        assert_allclose(S @ np.ones(5), G.sum(axis=1), atol=1e-12)


# --- as a model -------------------------------------------------------------------------------------------------------


def test_the_factors_are_balanced_and_do_not_depend_on_the_seed():
    _, A = planted(0, noise=0.5)
    one, other = (ImputedSVD(3, random_state=seed, tol=1e-12).fit(A) for seed in (0, 1))
    assert_allclose(one.U_.T @ one.U_, np.diag(one.singular_values_), atol=1e-8)
    assert_allclose(one.V_.T @ one.V_, np.diag(one.singular_values_), atol=1e-8)
    assert_allclose(one.U_, other.U_, atol=1e-6)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_arbitrary_entries_give_the_dense_answer(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 8, size=2)
    A = rng.normal(size=(n, m)) * 10.0 ** rng.uniform(-6, 6)
    A[rng.random((n, m)) < 0.4] = np.nan
    A[0, 0] = 1.0 if np.isnan(A).all() else A[0, 0]
    k = int(rng.integers(1, min(n, m) + 1))
    model = ImputedSVD(k, fill="rows", random_state=0, tol=1e-12).fit(A)
    F, base = filled(A, "rows")
    s = np.linalg.svd(F - base, compute_uv=False)
    assert_allclose(model.singular_values_, s[:k], atol=1e-7 * max(s[0], 1e-300))
    assert not model.certificate_.broken
    assert "best_of_filled" in model.certificate_.held


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 5}, "rank <= 4"),
    ],
)
def test_impossible_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        ImputedSVD(**{"rank": 2, **parameters}).fit(np.ones((6, 4)))
