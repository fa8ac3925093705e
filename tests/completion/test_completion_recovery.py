"""Recovery: degrees of freedom, coupons, coherence, bounds, and the diagnosis of patterns, against brute force."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from lemmata.audit.completion.identifiability.known_entries import (
    components,
    core,
    core_rank,
    degrees_of_freedom,
    largest_rank,
)
from lemmata.completion import Observed, recovery
from lemmata.completion.recovery import (
    coherence,
    completable,
    coupon_collector,
    diagnose,
    rank_squared_bound,
    recht_bound,
    sampling_bound,
)

MASKS = arrays(bool, st.tuples(st.integers(1, 7), st.integers(1, 7)))


def pattern(mask):
    return Observed.of(np.where(mask, 1.0, np.nan))


# --- counting ---------------------------------------------------------------------------------------------------------


def test_degrees_of_freedom_are_the_rank_of_the_jacobian_of_all_entries():
    rng = np.random.default_rng(0)
    for n, m, k in ((5, 5, 2), (6, 3, 3), (4, 7, 1)):
        U, V = rng.normal(size=(n, k)), rng.normal(size=(m, k))
        # d vec(UVᵀ) / d(U, V), columns in some order
        J = np.hstack([np.kron(np.eye(n), V), np.kron(U, np.eye(m))])
        assert np.linalg.matrix_rank(J) == degrees_of_freedom(n, m, k)
    assert degrees_of_freedom(9, 9, 4) == 2 * 9 * 4 - 16  # CIL (2.43)
    with pytest.raises(ValueError, match="0 ≤ k ≤ 3"):
        degrees_of_freedom(5, 3, 4)


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0, 1))
def test_the_largest_rank_is_the_largest(n, m, share):
    entries = round(share * n * m)
    k = largest_rank(n, m, entries)
    allowed = [r for r in range(min(n, m) + 1) if r * (n + m - r) <= entries]
    assert k == max(allowed)


def test_coupons_take_n_harmonic_draws():
    assert coupon_collector(1) == 1.0
    assert_allclose(coupon_collector(3), 3 * (1 + 1 / 2 + 1 / 3))
    n = 10**6  # where the sum gives way to its expansion
    assert_allclose(coupon_collector(n), n * np.sum(1 / np.arange(1, n + 1)), rtol=1e-12)
    rng = np.random.default_rng(0)
    missing = [
        len(np.unique(rng.integers(0, 50, math.ceil(coupon_collector(50, risk=0.1))))) < 50
        for _ in range(400)
    ]
    assert np.mean(missing) <= 0.1 + 3 * math.sqrt(0.09 / 400)
    for bad in ({"n": 0}, {"n": 5, "risk": 1.5}):
        with pytest.raises(ValueError, match=r"pass|probability"):
            coupon_collector(**bad)


# --- coherence --------------------------------------------------------------------------------------------------------


def dense_coherence(X, k):
    """μ from the definition, with P, Q and E as matrices."""
    (n, m), (U, _, Vt) = X.shape, np.linalg.svd(X)
    U, V = U[:, :k], Vt[:k].T
    P, Q, E = U @ U.T, V @ V.T, U @ V.T
    of = [np.abs(M - k / len(M) * np.eye(len(M))).max() * len(M) / math.sqrt(k) for M in (P, Q)]
    leverage = max(P.diagonal().max() * n, Q.diagonal().max() * m) / k
    return of[0], of[1], np.abs(E).max() * math.sqrt(n * m / k), leverage


@pytest.mark.parametrize("block", [3, 2048])
@pytest.mark.parametrize(("n", "m", "k"), [(9, 7, 2), (5, 12, 3), (8, 8, 1)])
def test_coherence_is_its_definition(monkeypatch, block, n, m, k):
    monkeypatch.setattr(recovery, "BLOCK", block)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        U, V = rng.standard_t(2, size=(n, k)), rng.normal(size=(m, k))
        found = coherence(U, V)
        assert_allclose(found, dense_coherence(U @ V.T, k), rtol=1e-9)
        M = rng.normal(size=(k, k))
        # of UVᵀ, not of U and V
        assert_allclose(coherence(U @ M, V @ np.linalg.inv(M).T), found, rtol=1e-7)


def test_flat_vectors_are_incoherent_and_a_single_entry_is_as_coherent_as_can_be():
    flat = coherence(np.ones((20, 1)), np.ones((10, 1)))
    assert_allclose(flat, (1, 1, 1, 1), rtol=1e-12)
    spike = coherence(np.eye(20)[:, :1], np.eye(10)[:, :1])  # CIL 2.6.3: u = e_i, v = e_j
    assert_allclose(spike, (19, 9, math.sqrt(200), 20), rtol=1e-12)
    assert spike.mu == 19


def test_a_zero_factor_does_not_count_and_a_zero_matrix_is_refused():
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(9, 2)), rng.normal(size=(8, 2))
    padded = coherence(np.c_[U, np.zeros(9)], np.c_[V, np.ones(8)])
    assert_allclose(padded, coherence(U, V), rtol=1e-9)
    with pytest.raises(ValueError, match="zero"):
        coherence(np.zeros((4, 1)), np.ones((3, 1)))
    with pytest.raises(ValueError, match="one k"):
        coherence(np.ones((4, 2)), np.ones((3, 1)))


def test_bounds_are_their_formulas():
    assert_allclose(
        sampling_bound(100, 80, 3, mu=2.0, C=0.5), 0.5 * 4 * 100 * 3 * math.log(100) ** 6
    )
    assert_allclose(
        rank_squared_bound(80, 100, 3, mu=2.0, C=0.5), 0.5 * 16 * 9 * 100 * math.log(100) ** 2
    )
    mu = recovery.Coherence(1.0, 1.0, 1.5, 2.0)
    entries, chance = recht_bound(1000, 500, 2, mu, beta=2.0)
    assert_allclose(entries, 32 * 2.25 * 2 * 1500 * 2 * math.log(2000) ** 2)
    assert_allclose(chance, 1 - 6 * math.log(1000) * 1500.0**-2 - 1000.0 ** (2 - 2 * math.sqrt(2)))
    assert recht_bound(1000, 500, 2, mu, beta=3.0)[1] > chance
    with pytest.raises(ValueError, match="beta"):
        recht_bound(10, 10, 1, mu, beta=1.0)


# --- patterns ---------------------------------------------------------------------------------------------------------


def flood(mask):
    """Components by flooding."""
    n, m = mask.shape
    left, pieces = set(range(n + m)), []
    while left:
        piece, new = set(), {left.pop()}
        while new:
            piece |= new
            new = {n + j for i in new if i < n for j in np.flatnonzero(mask[i])} | {
                i for j in new if j >= n for i in np.flatnonzero(mask[:, j - n])
            }
            new -= piece
        left -= piece
        pieces.append(piece)
    return pieces


@settings(max_examples=60)
@given(MASKS)
def test_components_are_those_found_by_flooding(mask):
    pieces, label = components(pattern(mask))
    found = flood(mask)
    expected = [piece for piece in found if len(piece) > 1]
    assert pieces == len(expected)
    for piece in expected:
        assert len({label[i] for i in piece}) == 1
    assert all(label[i] == -1 for piece in found if len(piece) == 1 for i in piece)


def pruned(mask, k):
    """The k-core by removing one row or column at a time."""
    rows, columns = np.ones(len(mask), bool), np.ones(mask.shape[1], bool)
    while True:
        inside = mask & rows[:, None] & columns
        thin = (
            np.flatnonzero(rows & (inside.sum(1) < k)),
            np.flatnonzero(columns & (inside.sum(0) < k)),
        )
        if len(thin[0]):
            rows[thin[0][0]] = False
        elif len(thin[1]):
            columns[thin[1][0]] = False
        else:
            return rows, columns, int(inside.sum())


@settings(max_examples=60)
@given(MASKS, st.integers(1, 4))
def test_the_core_is_what_pruning_leaves_whatever_the_order(mask, k):
    found = core(pattern(mask), k)
    rows, columns, entries = pruned(mask, k)
    np.testing.assert_array_equal(found.rows, rows)
    np.testing.assert_array_equal(found.columns, columns)
    assert found.entries == entries
    again = core(pattern(mask), k, within=core(pattern(mask), max(1, k - 1)))
    np.testing.assert_array_equal(again.rows, rows)
    assert again.entries == entries


@settings(max_examples=60)
@given(MASKS)
def test_the_core_rank_is_the_largest_that_will_do(mask):
    A = pattern(mask)
    fits = [k for k in range(1, min(mask.shape) + 1) if core(A, k).determines(k)]
    assert core_rank(A) == max(fits, default=0)
    assert fits == list(range(1, len(fits) + 1))  # if k will do, k − 1 will


@settings(max_examples=60)
@given(MASKS)
def test_rank_one_is_determined_within_components_and_nowhere_else(mask):
    """Of uvᵀ each component has one free scale: n + m − #components equations are independent."""
    pieces = flood(mask)
    found = completable(pattern(mask), 1)
    assert found.dimension == len(pieces) - 1
    n, m = mask.shape
    same = np.array(
        [[any(i in p and n + j in p for p in pieces) for j in range(m)] for i in range(n)]
    )
    unknown = ~mask
    expected = same[unknown].mean() if unknown.any() else 1.0
    assert_allclose(found.determined, expected if len(pieces) > 1 else 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_completable_is_the_rank_of_the_jacobian(seed):
    rng = np.random.default_rng(seed)
    n, m, k = 9, 8, 2
    mask = rng.random((n, m)) < (0.4, 0.5, 0.6, 0.8)[seed]
    U, V = rng.normal(size=(n, k)), rng.normal(size=(m, k))
    J = np.hstack(
        [
            np.kron(np.eye(n), V),
            (U[:, None, None, :] * np.eye(m)[None, :, :, None]).reshape(n * m, m * k),
        ]
    )
    rank = np.linalg.matrix_rank(J[mask.ravel()])
    assert completable(pattern(mask), k).dimension == degrees_of_freedom(n, m, k) - rank
    assert completable(pattern(np.ones((n, m), bool)), k) == (0, 1.0)


def test_a_large_pattern_is_left_alone():
    assert completable(pattern(np.ones((40, 40), bool)), 30) is None


# --- the diagnosis ----------------------------------------------------------------------------------------------------


def test_a_diagnosis_names_what_is_thin_and_what_is_cut_off():
    rows, columns = ["ann", "ann", "bob", "bob", "cid"], ["x", "y", "x", "y", "z"]
    found = diagnose(Observed.from_labels(rows, columns, np.arange(5.0)), k=2)
    assert (found.thin_rows, found.thin_columns, found.components) == (1, 1, 2)
    assert found.examples == (("cid",), ("z",))
    assert found.core == (2, 2, 4)
    assert found.completable is False
    assert not found.determined_by_entries
    text = str(found)
    for word in ("such as cid", "such as z", "2: 2 × 2, 1 × 1", "→", "k(n + m − k)"):
        assert word in text
    content = json.loads(json.dumps(found.to_dict()))
    assert content["components"] == 2
    assert content["ok"] is False


def test_a_good_pattern_gets_no_advice():
    rng = np.random.default_rng(0)
    found = diagnose(np.where(rng.random((20, 15)) < 0.8, 1.0, np.nan), k=2)
    assert found.completable
    assert found.determined_by_entries
    assert found.advice == ()
    assert "yes" in str(found)


def test_factors_bring_their_coherence():
    U, V = np.eye(30)[:, :1], np.eye(20)[:, :1]
    found = diagnose(np.ones((30, 20)), 1, U, V)
    assert found.coherence.leverage == pytest.approx(30)
    assert any("of their own" in line for line in found.advice)
    assert json.loads(json.dumps(found.to_dict()))["coherence"]["mu"] == pytest.approx(29)
    flat = diagnose(np.ones((30, 20)), 1, np.ones((30, 1)), np.ones((20, 1)))
    assert flat.advice == ()


@settings(max_examples=40)
@given(MASKS, st.integers(0, 7))
def test_any_pattern_can_be_diagnosed_and_printed(mask, k):
    A = pattern(mask)
    if k > min(mask.shape):
        with pytest.raises(ValueError, match="no rank"):
            diagnose(A, k)
        return
    found = diagnose(A, k)
    assert str(found)
    json.dumps(found.to_dict())
    # locally unique needs enough entries, one component, and k entries per row and column
    if found.completable:
        assert found.entries >= found.degrees_of_freedom
        assert k == 0 or (
            found.components == 1 and found.thin_rows == 0 and found.thin_columns == 0
        )
