"""Spectra bounded from both sides. The verdicts themselves are counted in truth/low_rank.py."""

import numpy as np
import pytest
import scipy.sparse as sp

from lemmata.audit.completion import low_rank
from lemmata.audit.completion.low_rank import (
    _leading_squares,
    _least_squares,
    _singular_vectors,
    first_order_on_manifold,
)
from lemmata.completion import ImputedSVD, Observed, RankOne
from lemmata.core import Fit


def matrix(seed, n=40, m=30):
    rng = np.random.default_rng(seed)
    return sp.random_array(
        (n, m), density=0.4, rng=rng, format="csr", data_sampler=rng.standard_normal
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [1, 3])
def test_any_columns_bound_the_leading_singular_values_from_both_sides(seed, k):
    F = matrix(seed)
    s, Vt = np.linalg.svd(F.toarray())[1:]
    true = (s[:k] ** 2).sum()
    rng = np.random.default_rng(seed)
    for Q in (Vt[:k].T, Vt[1 : k + 1].T, np.linalg.qr(rng.normal(size=(30, k)))[0],
              np.linalg.qr(Vt[:k].T + 1e-3 * rng.normal(size=(30, k)))[0], Vt[: k - 1].T):  # fmt: skip
        below, above, risk = _leading_squares(F, Q, k)
        assert below <= true * (1 + 1e-12)
        assert above >= true * (1 - 1e-12)
        assert risk == 0
    below, above, _ = _leading_squares(F, Vt[:k].T, k)
    assert above == pytest.approx(below, rel=1e-10)


def test_columns_that_are_almost_right_are_bounded_tightly():
    F = matrix(0) + 20 * sp.csr_array(np.outer(np.ones(40), np.ones(30)) / np.sqrt(1200))
    Q = np.linalg.svd(F.toarray())[2][:1].T
    Q = np.linalg.qr(Q + 1e-5 * np.random.default_rng(0).normal(size=Q.shape))[0]
    below, above, _ = _leading_squares(F.tocsr(), Q, 1)
    assert above / below - 1 < 1e-8  # the square of what is missing


@pytest.mark.parametrize("seed", range(3))
def test_large_matrices_get_the_verdict_of_small_ones(seed, monkeypatch):
    """Lanczos and LAPACK agree where both can be asked."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 40)) + 0.3 * rng.normal(size=(50, 40))
    A[rng.random(A.shape) < 0.4] = np.nan
    best = ImputedSVD(3).fit(A)
    verdicts = {}
    for short in (1000, 10):
        monkeypatch.setattr(low_rank, "SHORT", short)
        monkeypatch.setattr("lemmata.audit.completion.optimality.global_optimum.SHORT", short)
        for label, factor in (("best", 1.0), ("small", 0.9)):
            best.U_ = factor * best.U_
            verdicts[short, label] = best.certify(A)["best_of_filled"].verdict
            best.U_ = best.U_ / factor
    assert verdicts == {(short, label): word for short in (1000, 10)
                        for label, word in (("best", "holds"), ("small", "fails"))}  # fmt: skip


def test_the_leading_pair_found_by_lanczos_is_a_statistical_claim(monkeypatch):
    monkeypatch.setattr(low_rank, "SHORT", 10)
    monkeypatch.setattr("lemmata.audit.completion.optimality.global_optimum.SHORT", 10)
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 50)) + 3 * np.outer(rng.normal(size=60), rng.normal(size=50))
    found = RankOne(random_state=0).fit(A).certify(A)
    for name in ("leading_singular_pair", "left_the_saddle"):
        assert (found[name].verdict, found[name].kind) == ("holds", "statistical"), name


def test_least_squares_of_rows_are_those_of_numpy():
    # a column of a hundredth: its square is still no rounding
    F, V = matrix(1), np.random.default_rng(2).normal(size=(30, 3)) * [1.0, 0.1, 0.01]
    found = _least_squares(F, V)
    for i in range(F.shape[0]):
        here = slice(F.indptr[i], F.indptr[i + 1])
        expected = np.linalg.lstsq(V[F.indices[here]], F.data[here], rcond=None)[0]
        np.testing.assert_allclose(found[i], expected, atol=1e-8)


def test_singular_vectors_leave_out_directions_of_rounding():
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(20, 2)), rng.normal(size=(15, 2))
    P, s, Q = _singular_vectors(np.c_[U, U[:, :1]], np.c_[V, V[:, :1]])
    assert len(s) == 2
    np.testing.assert_allclose((P * s) @ Q.T, U @ V.T + np.outer(U[:, 0], V[:, 0]), atol=1e-12)


def test_a_dominant_first_axis_hides_no_other():
    """σ = (1000, 1): the second factor is wrong, and so is the first-order claim, though 1e-3 of ‖A‖ is all that is left."""
    rng = np.random.default_rng(0)
    P, Q = (np.linalg.qr(rng.normal(size=(size, 2)))[0] for size in (40, 30))
    A = (P * [1000, 1]) @ Q.T
    A[rng.random(A.shape) < 0.3] = np.nan
    for sign, verdict in ((1, "holds"), (-1, "fails")):
        factors = {"U_": P * [1000, sign], "V_": Q}
        assert (
            first_order_on_manifold(Fit(None, Observed.of(A), attributes=factors)).verdict
            == verdict
        )
