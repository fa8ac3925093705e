"""Codes: OMP and ℓ1, against scikit-learn, brute force, theory and their own slow twins."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.decomposition import SparseCoder as TheirCoder
from sklearn.linear_model import orthogonal_mp_gram

from lemmata import SparseCoder
from lemmata.reduction.sparse_coding import (
    coherence,
    dct_dictionary,
    fista,
    haar_dictionary,
    omp,
    random_dictionary,
    recover,
)

L1 = ("ista", "fista", "lasso_cd", "lasso_lars")


def signals(n=40, d=16, k=30, seed=0, dtype=np.float64):
    D = random_dictionary(d, k, random_state=seed, dtype=dtype)
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype), D


# --- OMP --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [True, False])
def test_omp_is_scikit_learns(compiled):
    X, D = signals()
    theirs = orthogonal_mp_gram(D @ D.T, D @ X.T, n_nonzero_coefs=5).T
    assert_allclose(omp.pursue(X, D, 5, compiled=compiled).dense(30), theirs, atol=1e-12)


SLOW32 = [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)]  # to compile takes 6 s


@pytest.mark.parametrize("dtype", SLOW32)
def test_the_kernel_of_omp_and_its_twin_agree(dtype):
    X, D = signals(n=70, dtype=dtype)
    X[3], X[4] = 0, D[7]
    for most, target in ((4, 0.0), (16, 3.0), (30, 0.0)):
        one = omp.pursue(X, D, most, target, compiled=True)
        two = omp.pursue(X, D, most, target, compiled=False)
        assert one.value.dtype == dtype
        assert not one.dense(30)[3].any()
        if target == 0:
            assert_allclose(one.dense(30)[4], np.eye(30)[7], atol=1e-5)
        error = np.abs(one.rebuilt(D) - two.rebuilt(D)).max()
        assert error <= 1e3 * np.finfo(dtype).eps
        if most < 16:
            assert (np.sort(one.index) == np.sort(two.index)).all()


@pytest.mark.parametrize("compiled", [True, False])
def test_a_target_is_reached_with_as_few_atoms_as_omp_needs(compiled):
    X, D = signals(n=30)
    Z = omp.pursue(X, D, 16, target=2.0, compiled=compiled).dense(30)
    errors = ((X - Z @ D) ** 2).sum(axis=1)
    assert (errors <= 2.0 * (1 + 1e-9)).all()
    for x, s in zip(X, np.count_nonzero(Z, axis=1), strict=True):
        if s > 0:
            fewer = (
                omp.pursue(x[None], D, int(s) - 1, compiled=False).dense(30) if s > 1 else 0 * Z[:1]
            )
            assert ((x - fewer @ D) ** 2).sum() > 2.0


def test_lengths_of_atoms_do_not_change_the_choice():
    X, D = signals()
    lengths = np.random.default_rng(1).uniform(0.1, 10, 30)[:, None]
    one, other = omp.pursue(X, D, 4), omp.pursue(X, lengths * D, 4)
    assert (one.index == other.index).all()
    assert_allclose(one.rebuilt(D), other.rebuilt(lengths * D), atol=1e-10)


def test_holes_are_left_out_as_if_the_row_were_shorter():
    X, D = signals(n=12)
    X[:, [2, 5]] = np.nan
    seen = np.setdiff1d(np.arange(16), [2, 5])
    Z = omp.pursue(X, D, 3).dense(30)
    assert_allclose(Z, omp.pursue(X[:, seen], D[:, seen], 3).dense(30), atol=1e-10)


@given(seed=st.integers(0, 10**6), s=st.integers(1, 2))
@settings(max_examples=20)
def test_below_the_coherence_bound_omp_finds_the_code_that_made_the_row(seed, s):
    """s < ½(1 + 1/μ): Donoho & Elad 2003, Tropp 2004."""
    rng = np.random.default_rng(seed)
    D = np.concatenate([np.eye(32), dct_dictionary(32)])  # μ = √(2/32)
    assert s < 0.5 * (1 + 1 / coherence(D))
    z = np.zeros(64)
    z[rng.choice(64, s, replace=False)] = rng.uniform(0.5, 2, s) * rng.choice([-1, 1], s)
    assert_allclose(omp.pursue((z @ D)[None], D, s).dense(64)[0], z, atol=1e-10)


# --- ℓ1 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", L1)
@pytest.mark.parametrize("positive", [False, True])
def test_l1_codes_are_scikit_learns(solver, positive):
    X, D = signals(n=15)
    how = fista.L1(solver, 0.5, tol=1e-10, max_iter=20_000, positive=positive)
    theirs = TheirCoder(
        D, transform_algorithm="lasso_cd", transform_alpha=0.5, transform_max_iter=20_000,
        positive_code=positive,
    )  # fmt: skip
    Z = fista.codes(X, D, how)
    assert_allclose(Z, theirs.transform(X), atol=2e-3)  # scikit-learn stops at a gap of 1e-4
    assert (Z >= 0).all() or not positive


def gap(x, z, D, alpha):
    """Weak duality, row by row: P(z) − D(cr)."""
    r = x - z @ D
    c = min(alpha / np.abs(D @ r).max(), x @ r / (r @ r))
    return 0.5 * r @ r + alpha * np.abs(z).sum() - (c * x @ r - 0.5 * c * c * r @ r)


@pytest.mark.parametrize("solver", ["fista", "lasso_cd"])
@pytest.mark.parametrize("dtype", SLOW32)
def test_l1_codes_stop_at_the_duality_gap_they_promise(solver, dtype):
    X, D = signals(n=30, dtype=dtype)
    for compiled in (True, False):
        Z = fista.codes(X, D, fista.L1(solver, 0.3, tol=1e-4), compiled=compiled)
        assert Z.dtype == dtype
        worst = max(
            gap(*(a.astype(float) for a in pair), D.astype(float), 0.3) / (pair[0] @ pair[0])
            for pair in zip(X, Z, strict=True)
        )
        assert worst <= 0.5e-4 * (1 + 1e-2)


def test_a_step_of_ista_never_raises_the_objective():
    X, D = signals(n=20)
    losses = []
    for steps in range(1, 12):
        Z = fista.codes(X, D, fista.L1("ista", 0.2, tol=0.0, max_iter=steps))
        losses.append(0.5 * ((X - Z @ D) ** 2).sum(axis=1) + 0.2 * np.abs(Z).sum(axis=1))
    assert (np.diff(losses, axis=0) <= 1e-12).all()


def test_fista_is_ahead_of_istas_own_bound():
    """P(z_t) − min ≤ 2L‖z*‖²/(t + 1)² for FISTA without restarts; restarts only help here."""
    X, D = signals(n=10)
    best = fista.codes(X, D, fista.L1("lasso_cd", 0.1, tol=1e-13))
    P = lambda Z: 0.5 * ((X - Z @ D) ** 2).sum(axis=1) + 0.1 * np.abs(Z).sum(axis=1)  # noqa: E731
    L = fista.largest_curvature(D)
    for t in (5, 20, 60):
        Z = fista.codes(X, D, fista.L1("fista", 0.1, tol=0.0, max_iter=t))
        assert (P(Z) - P(best) <= 2 * L * (best**2).sum(axis=1) / (t + 1) ** 2 + 1e-12).all()


def test_holes_in_l1_codes_are_those_of_shorter_rows():
    X, D = signals(n=6)
    X[:, 3] = np.nan
    seen = np.delete(np.arange(16), 3)
    for solver in ("fista", "lasso_cd"):
        how = fista.L1(solver, 0.3, tol=1e-12, max_iter=50_000)
        assert_allclose(fista.codes(X, D, how), fista.codes(X[:, seen], D[:, seen], how), atol=1e-4)


# --- SparseCoder ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "tolerance"),
    [
        ({"transform_n_nonzero_coefs": 4}, 1e-10),
        ({}, 1e-10),
        ({"transform_algorithm": "threshold", "transform_alpha": 0.5}, 1e-10),
        ({"transform_algorithm": "lars", "transform_n_nonzero_coefs": 3}, 1e-8),
        ({"transform_algorithm": "lasso_lars", "transform_alpha": 0.5}, 1e-8),
        ({"transform_n_nonzero_coefs": 4, "split_sign": True}, 1e-10),
    ],
)
def test_changing_the_import_is_enough(theirs, tolerance):
    X, D = signals()
    one, other = SparseCoder(D, **theirs), TheirCoder(D, **theirs)
    assert_allclose(one.transform(X), other.transform(X), atol=tolerance)
    again = one.fit(X).inverse_transform(one.transform(X))
    assert_allclose(again, other.inverse_transform(other.transform(X)), atol=1e-7)


def test_short_names_stand_for_scikit_learns():
    X, D = signals()
    short = SparseCoder(D, method="fista", alpha=0.5).transform(X)
    long = SparseCoder(D, transform_algorithm="fista", transform_alpha=0.5).transform(X)
    assert (short == long).all()
    with pytest.raises(ValueError, match="two names for one thing"):
        SparseCoder(D, alpha=0.5, transform_alpha=0.6).fit(X)


def test_codes_scale_with_rows_however_large():
    X, D = signals(n=5)
    for factor in (1e-140, 1e140):
        Z = SparseCoder(D, n_nonzero=3).transform(factor * X)
        assert_allclose(Z / factor, SparseCoder(D, n_nonzero=3).transform(X), rtol=1e-9)


def bad_dictionaries():
    D = random_dictionary(16, 5, random_state=0)
    zero, double = D.copy(), D.copy()
    zero[2], double[4] = 0, -3 * D[1]
    return {"atom 2 .* is zero": zero, "atoms 1 and 4|atoms 4 and 1": double, "16 features|15 features": D[:, :15],
            "NaN": np.where(D[1, 1] == D, np.nan, D)}  # fmt: skip


@pytest.mark.parametrize("message", bad_dictionaries())
def test_bad_dictionaries_are_refused(message):
    X, _ = signals()
    with pytest.raises(ValueError, match=message):
        SparseCoder(bad_dictionaries()[message]).fit(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_nonzero": 31}, "31 atoms of 30"),
        ({"method": "fista", "alpha": 0.0}, "alpha"),
        ({"method": "fista", "alpha": -1.0}, "alpha"),
        ({"method": "fista", "n_nonzero": 3}, "takes alpha"),
        ({"positive_code": True}, "positive_code"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    X, D = signals()
    with pytest.raises(ValueError, match=message):
        SparseCoder(D, **parameters).fit(X)


def test_bad_rows_are_refused():
    X, D = signals()
    for bad, message in (
        (X[:0], "sample"),
        (X[:, :9], "features"),
        (np.where(X > 2, np.inf, X), "infinity"),
    ):
        with pytest.raises(ValueError, match=message):
            SparseCoder(D).transform(bad)
    with pytest.raises(ValueError, match="missing values"):
        SparseCoder(D, method="threshold", alpha=1.0).transform(np.where(X > 2, np.nan, X))
    with pytest.raises(ValueError, match="codes of 16 numbers for 30"):
        SparseCoder(D).fit(X).inverse_transform(X)


# --- dictionaries and recovery ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 7, 16])
def test_named_dictionaries_are_orthonormal_bases(d):
    for D in (dct_dictionary(d), haar_dictionary(d)):
        assert_allclose(D @ D.T, np.eye(d), atol=1e-12)
    assert dct_dictionary((d, 3)).shape == (3 * d, 3 * d)
    assert_allclose(np.linalg.norm(dct_dictionary((d, 3), 5 * d), axis=1), 1)


@pytest.mark.parametrize("d", [3, 8])
def test_more_cosines_than_features_reach_no_less_than_welchs_bound(d):
    k = 2 * d
    D = dct_dictionary(d, k)
    assert D.shape == (k, d)
    assert np.sqrt((k - d) / (d * (k - 1))) <= coherence(D) < 1


def test_a_vector_is_recovered_from_few_measurements_and_proved_to_be_the_only_one():
    A = np.concatenate([np.eye(60), dct_dictionary(60)]).T  # 60 measurements of 120 numbers
    x = np.zeros(120)
    x[10], x[80] = 1.0, -2.0
    for method in ("omp", "l1"):
        found = recover(A, A @ x, method=method)
        assert_allclose(found.x, x, atol=1e-8)
        assert found.support.tolist() == [10, 80]
        assert found.residual < 1e-12
        assert {"unique_sparsest", "exact_recovery"} <= set(found.certificate.held)


def test_too_few_measurements_are_not_called_unique():
    rng = np.random.default_rng(0)
    A, x = rng.normal(size=(4, 12)), np.zeros(12)
    x[:4] = 1
    found = recover(A, A @ x, n_nonzero=4)
    # any four columns give y exactly
    assert "unique_sparsest" in found.certificate.failed
    assert min(np.linalg.cond(A[:, list(S)]) for S in itertools.combinations(range(12), 4)) < np.inf


def test_recover_says_what_does_not_fit():
    A = np.eye(3)
    for arguments, message in (
        ({"y": np.ones(4)}, "measurements"), ({"method": "magic"}, "omp"), ({"noise": -1}, "noise"),
        ({"method": "l1", "n_nonzero": 9}, "n_nonzero"), ({"A": A[:, [0, 0, 1]]}, "same"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            recover(**{"A": A, "y": np.ones(3), **arguments})
    assert not recover(A, np.zeros(3)).x.any()
