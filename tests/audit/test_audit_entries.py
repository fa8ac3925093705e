"""What a pattern of known entries says: counts, components, and the exact rank of the Jacobian against brute force."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lemmata.audit.completion.identifiability.generic_rank import (
    DOUBT,
    _kernel,
    elimination_cost,
    freedom,
    peel,
    rank_modulo,
)
from lemmata.audit.completion.identifiability.known_entries import (
    IDENTIFIABLE_CLAIMS,
    locally_unique,
)
from lemmata.completion import Observed
from lemmata.completion.recovery import completable
from lemmata.core import Fit, check

MASKS = arrays(bool, st.tuples(st.integers(2, 9), st.integers(2, 9)))


def certificate(A, k, work=np.inf, **more):
    factors = {"U_": np.ones((A.shape[0], k)), "V_": np.ones((A.shape[1], k)), **more}
    return check(IDENTIFIABLE_CLAIMS, Fit(None, A, attributes=factors), "pattern", work=work)


def observed(mask):
    return Observed.of(np.where(mask, 1.0, np.nan))


@settings(max_examples=40)
@given(MASKS, st.integers(1, 3))
def test_freedom_is_the_dimension_that_a_dense_decomposition_finds(mask, k):
    k = min(k, *mask.shape)
    dense, exact = completable(observed(mask), k), freedom(sp.csr_array(mask.astype(float)), k)
    assert (exact.directions == 0) == (dense.dimension == 0)
    assert exact.directions <= dense.dimension
    if exact.doubt:
        assert exact.doubt <= DOUBT
        assert exact.directions == dense.dimension


@pytest.mark.parametrize("seed", range(4))
def test_the_kernel_of_what_peeling_leaves_is_that_of_the_whole_less_what_it_took(seed):
    rng = np.random.default_rng(seed)
    mask, k = rng.random((14, 11)) < 0.5, 2
    rest = peel(sp.csr_array(mask.astype(float)), k)
    whole = completable(observed(mask), k).dimension + k * k
    assert _kernel(rest.pattern, k, rng)[0] + rest.loose == whole
    assert min(rest.pattern.sum(1).min(), rest.pattern.sum(0).min()) > k


@pytest.mark.parametrize(("n", "rank"), [(40, 40), (150, 97), (300, 131)])
def test_the_rank_modulo_a_prime_is_that_of_the_integers(n, rank):
    rng = np.random.default_rng(n)
    p = 4194319
    M = rng.integers(0, 50, (n, rank)) @ rng.integers(0, 50, (rank, n))
    if rank > 100:
        M[:, ::3] = 0  # columns without a pivot
        rank = int(np.linalg.matrix_rank(M.astype(float)))
    assert rank_modulo((M % p).astype(float), p) == rank


def test_a_block_grows_to_a_matrix_far_too_large_to_eliminate():
    mask = sp.csr_array(np.ones((900, 700)))
    assert elimination_cost(mask, 8) > 1e10
    assert freedom(mask, 8, budget=1e9) == (0, 0.0)


def test_what_is_too_dear_is_not_told_and_more_work_tells_it():
    rng = np.random.default_rng(0)
    mask = rng.random((80, 70)) < 0.17
    assert freedom(sp.csr_array(mask.astype(float)), 4, budget=1e3) is None
    A = observed(mask)
    assert "locally_unique" in certificate(A, 4, work=1e5).not_checked
    assert "locally_unique" in certificate(A, 4).held


def test_two_blocks_and_a_bridge_have_entries_enough_but_many_completions():
    mask = np.zeros((40, 40), bool)
    mask[:20, :20] = mask[20:, 20:] = mask[0, 20] = True
    found = certificate(observed(mask), 2)
    assert found.undecided == ["locally_unique"]
    note = found["locally_unique"].note
    assert "3 free directions" in note  # 2² moves of one block, less one entry
    mask[:2, 20:] = True  # two whole rows of the other block
    assert certificate(observed(mask), 2).holds


def test_biases_count_as_one_factor_more():
    """Two blocks that share one column: a rank-one matrix is determined, offsets beside it are not."""
    mask = np.zeros((12, 11), bool)
    mask[:6, :6] = mask[6:, 5:] = True
    assert certificate(observed(mask), 1)["locally_unique"].verdict == "holds"
    biased = certificate(observed(mask), 1, biases=True)["locally_unique"]
    assert biased.verdict == "can't tell"
    assert "one for the biases" in biased.note


def test_too_few_entries_thin_rows_and_islands_fail_one_claim_each():
    whole = observed(np.ones((6, 6), bool))
    assert certificate(whole, 2).holds
    A = np.zeros((6, 6), bool)
    A[:3, :3] = A[3:, 3:] = True
    A = observed(A)
    assert certificate(A, 1).failed == ["connected_observations"]
    assert certificate(A, 1)["connected_observations"].measured == 2
    few = certificate(A, 3, reg_=0.0)["enough_entries"]
    assert (few.verdict, few.measured, few.bound) == ("fails", 18, 27)
    assert "rank to 1" in few.advice
    thin = certificate(A, 4)["enough_per_row_and_column"]
    assert (thin.verdict, thin.measured, thin.bound) == ("fails", 0, 0.5)
    assert "6 rows and 6 columns" in thin.note


def test_few_thin_rows_are_counted_and_many_fail_by_their_share_of_predictions():
    mask = np.ones((30, 20), bool)
    mask[::2, ::2] = False
    mask[2] = False
    found = certificate(observed(mask), 2)
    assert found.holds
    assert "1 of them none" in found["enough_per_row_and_column"].note
    assert "without 1 rows" in found["locally_unique"].note
    thin = np.zeros((600, 20), bool)
    thin[:30] = mask
    thin[np.arange(30, 600), np.arange(570) % 20] = True  # rows of one entry, more than half of all
    found = certificate(observed(thin), 2)
    assert {"enough_per_row_and_column", "locally_unique"} <= set(found.failed)
    share = found["enough_per_row_and_column"].measured
    asked = np.where(thin, 0, np.outer(thin.sum(1), thin.sum(0)))
    assert share == pytest.approx(asked[thin.sum(1) > 1].sum() / asked.sum())


def test_with_reg_nothing_says_lower_the_rank():
    A = observed(np.eye(8, dtype=bool) | np.eye(8, k=1, dtype=bool))
    for reg, word in ((0.0, "lower the rank"), (0.1, "reg decides")):
        found = certificate(A, 3, reg_=reg)
        advice = [found[name].advice for name in ("enough_entries", "locally_unique")]
        assert all(word in text for text in advice), advice
        assert not any("raise rank" in claim.advice for claim in found)


def test_without_factors_there_is_nothing_to_be_unique():
    fit = Fit(None, observed(np.ones((3, 3), bool)), attributes={"U_": np.ones((3, 0))})
    assert locally_unique(fit).verdict == "can't tell"
