"""Bounds on means of draws cover as often as they say, and rows that were trained on are found."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from lemmata.audit.kernel.concentration import (
    betting,
    clopper_pearson,
    effective_size,
    hoeffding,
    mean_at_least,
    samples_needed,
    union_bound,
)
from lemmata.audit.trust.comparisons import compare_losses
from lemmata.audit.trust.generalisation import interval_of, interval_of_folds
from lemmata.audit.trust.seen_rows import Memory, copies, judge_seen

# --- bounds -----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 400), st.floats(0, 1), st.floats(0.001, 0.5))
@settings(max_examples=60)
def test_clopper_pearson_is_scipys_exact_interval(n, share, delta):
    k = round(share * n)
    theirs = binomtest(k, n).proportion_ci(1 - delta, method="exact")
    np.testing.assert_allclose(clopper_pearson(k, n, delta), (theirs.low, theirs.high), atol=1e-9)


@pytest.mark.parametrize("K", [1, 10])
@pytest.mark.parametrize("eps", [0.2, 0.01])
def test_samples_needed_is_the_least_number_that_does(eps, K):
    n = samples_needed(eps, 0.05, K)
    assert hoeffding(n, union_bound(K)) <= eps < hoeffding(n - 1, union_bound(K))


def coverage(law, mean, n, delta, runs=200):
    """How many of the intervals hold the mean, at most what binomial chance allows."""
    rng = np.random.default_rng(0)
    missed = sum(not low <= mean <= high for low, high in (betting(law(rng, n), delta) for _ in range(runs)))  # fmt: skip
    return binom.sf(missed - 1, runs, delta) > 1e-3


@pytest.mark.parametrize("n", [10, 100])
def test_bets_cover_the_mean_of_any_law_in_their_range(n):
    for law, mean in (
        (lambda rng, n: (rng.random(n) < 0.02).astype(float), 0.02),
        (lambda rng, n: (rng.random(n) < 0.5).astype(float), 0.5),
        (lambda rng, n: rng.beta(0.3, 2.7, n), 0.1),
        (lambda rng, n: 0.6 + 0.01 * rng.uniform(-1, 1, n), 0.6),
    ):
        assert coverage(law, mean, n, 0.1)


def test_bets_are_sharper_than_hoeffding_where_draws_vary_little():
    rng = np.random.default_rng(0)
    low, high = betting(0.3 + 0.02 * rng.standard_normal(500).clip(-2, 2))
    assert high - low < 0.2 * 2 * hoeffding(500)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
@settings(max_examples=60)
def test_an_interval_holds_its_own_average_and_stays_in_the_range(draws):
    low, high = betting(np.array(draws))
    assert 0 <= low <= np.mean(draws) + 1e-9
    assert np.mean(draws) - 1e-9 <= high <= 1
    moved = betting(5 * np.array(draws) - 2, 0.05, -2, 3)
    np.testing.assert_allclose(moved, [5 * low - 2, 5 * high - 2], atol=1e-9)


def test_equal_weights_are_no_weights_and_few_heavy_rows_are_few():
    assert effective_size(np.full(50, 1e-200)) == pytest.approx(50)
    weights = np.r_[np.full(3, 1e6), np.ones(997)]
    assert effective_size(weights) == pytest.approx(3, rel=0.01)
    z = np.zeros(1000)
    assert interval_of(z, (0, 1), 0.05, weights).upper > 0.5 > interval_of(z, (0, 1), 0.05).upper


def test_without_a_range_there_is_no_interval():
    assert "beforehand" in interval_of(np.ones(5), None, 0.05).why
    assert "outside" in interval_of(np.array([0.0, 7.0]), (0, 1), 0.05).why
    assert interval_of(np.array([1.0, np.inf]), (0, 1), 0.05).lower == -np.inf


@pytest.mark.parametrize("delta", [0, 1, -0.1, np.nan])
def test_a_risk_is_between_zero_and_one(delta):
    with pytest.raises(ValueError, match="risk of an error"):
        hoeffding(100, delta)


def test_nothing_can_be_learned_from_no_rows():
    with pytest.raises(ValueError, match="above 0"):
        hoeffding(0)
    with pytest.raises(ValueError, match="successes"):
        clopper_pearson(3, 2)
    assert mean_at_least(np.array([]), 0.05) < 1e-9


# --- choosing ---------------------------------------------------------------------------------------------------------


def test_the_choice_is_within_two_eps_and_mostly_much_nearer():
    rng = np.random.default_rng(0)
    hard = rng.random(400) < 0.2  # rows that all get wrong, but for a few
    L = np.array([hard ^ (rng.random(400) < rate) for rate in (0.0, 0.01, 0.02, 0.3)], dtype=float)
    found = compare_losses(L, (0.0, 1.0), 0.05)
    assert found.chosen == 0
    assert found.behind[3] > 0
    assert found.regret < 0.5 * 2 * found.eps  # they agree on most rows
    np.testing.assert_allclose(compare_losses(3 * L, (0.0, 3.0), 0.05).regret, 3 * found.regret)


def test_an_average_over_folds_is_as_wide_as_one_fold():
    rng = np.random.default_rng(0)
    folds = [(rng.random(40) < 0.3).astype(float) for _ in range(5)]
    found = interval_of_folds(folds, (0.0, 1.0), 0.05)
    assert found.upper - found.mean == pytest.approx(hoeffding(40, 0.05))
    assert interval_of_folds(folds, None, 0.05).why


# --- rows trained on --------------------------------------------------------------------------------------------------


def seen(rows, test):
    return judge_seen(Memory(rows, test, "the training rows", True))


def test_rows_are_found_in_every_form():
    X = np.random.default_rng(0).standard_normal((60, 3))
    forms = [
        lambda A: A,
        lambda A: A.astype(np.float32),
        lambda A: sp.csr_array(np.where(np.abs(A) > 0.3, A, 0)),
        lambda A: np.array([[f"{x:.8f}" for x in row] for row in A], dtype=object),
        lambda A: A.tolist(),
    ]
    for form in forms:
        train, test = form(X[:40]), form(X[40:])
        assert seen(train, test).verdict == "holds"
        assert seen(train, form(X[20:])).verdict == "fails"
    assert seen(X[:40], X[20:].astype(np.float32)).verdict == "fails"  # another float type
    zeros = np.zeros((30, 1))
    assert seen(np.c_[X[:30], zeros], np.c_[X[:30], -zeros]).verdict == "fails"  # −0 is 0


def test_rows_are_found_across_forms():
    X = np.random.default_rng(0).standard_normal((60, 4))
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    forms = [
        X,
        sp.csr_array(X),
        sp.csc_array(X),
        wide,
        pd.DataFrame(X.astype(np.float32)),
        X.astype(np.float16),
        X.tolist(),
    ]
    for train in forms:
        for test in forms:
            assert seen(train, test).verdict == "fails"
    mixed = np.array([[1, "a"], [2, "b"]] * 10, dtype=object)
    floats = np.array([[1.0, "a"], [2.0, "b"]] * 10, dtype=object)
    assert seen(mixed, floats).verdict == "can't tell"  # found, but they repeat among themselves


def test_copies_of_test_rows_are_no_draws_of_their_own():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10, 3))
    rows = np.tile(X, (50, 1))
    assert copies(rows) == 490
    assert copies(X) == 0
    assert copies(rng.integers(0, 4, (500, 2)).astype(float)) == 0  # equal by chance
    assert copies(rng.integers(0, 9, (500, 1)) / 8) == 0
    whole = np.tile(rng.integers(0, 30, (10, 4)), (50, 1))
    assert copies(whole) == copies(sp.csr_array(whole)) == 490
    assert copies(np.eye(10)[rng.integers(0, 10, 500)]) == 0  # one column of ten classes
    assert copies(np.where(rng.random((500, 1)) < 0.1, 3, rng.integers(1, 6, (500, 8)))) == 0


def test_one_copied_row_of_numbers_that_never_repeat_is_enough():
    X = np.random.default_rng(0).standard_normal((60, 3))
    found = seen(X[:40], np.r_[X[40:], X[:1]])
    assert (found.verdict, found.kind) == ("fails", "rule of thumb")


def test_numbers_of_one_column_that_agree_by_chance_are_no_copies():
    """600,000 pairs of which each agrees with probability 3e-7: one in six tables has such a pair."""
    agreed = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, new = rng.standard_normal((1000, 1)).round(6), rng.standard_normal((600, 1)).round(6)
        agreed += np.isin(new, X).any()
        assert seen(X, new).verdict != "fails"
        assert seen(X, np.r_[new, X[:60]]).verdict == "fails"
    assert agreed


@pytest.mark.parametrize(
    "disguise",
    [lambda X: X.round(6), lambda X: X + 1e-12, lambda X: sp.csr_array(X.round(6)), lambda X: X[:30].round(3)],
)  # fmt: skip
def test_rows_that_were_rounded_or_moved_are_found(disguise):
    X = np.random.default_rng(0).standard_normal((120, 4))
    found = seen(X, disguise(X))
    assert (found.verdict, found.kind) == ("fails", "statistical")


def test_rows_in_another_form_are_found_or_left_open():
    rng = np.random.default_rng(0)
    X, other = 5 + rng.standard_normal((2, 150, 4))
    names = list("abcd")

    def apart(train, test):
        return judge_seen(Memory(train, test, "the training rows", True, same_form=False)).verdict

    assert apart(X, other) == "holds"
    assert apart(X[:, ::-1], X[:40]) == "fails"
    assert apart(2.54 * X, X) == "fails"
    assert apart(2.54 * X, other) == "can't tell"
    assert apart(X[:, :3], X) == "can't tell"
    shuffled = pd.DataFrame(X, columns=names)[names[::-1]]
    assert apart(shuffled, pd.DataFrame(X[:9].round(6), columns=names)) == "fails"
    later = np.r_["1", other[:, :3], other[:, 3:] + 9]  # one column moved on: the others tell
    assert apart(X, later) == "holds"


def test_new_rows_from_a_dense_part_are_not_called_near():
    rng = np.random.default_rng(0)
    train = np.where(
        rng.random((400, 1)) < 0.5, rng.random((400, 3)), rng.normal(0, 1e-3, (400, 3))
    )
    assert seen(train, rng.normal(0, 1e-3, (200, 3))).verdict == "holds"


def test_rows_that_repeat_by_chance_prove_nothing():
    rng = np.random.default_rng(0)
    train, test = (rng.integers(0, 3, (n, 3)) for n in (200, 50))
    assert seen(train, test).verdict == "can't tell"
