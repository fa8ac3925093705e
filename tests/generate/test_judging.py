"""Samples, whoever drew them: the measures against closed forms, the claims where they hold and fail, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm

import lemmata
from lemmata.core.certificate import FAILS, HOLDS, UNDECIDED
from lemmata.generate import (
    Samples,
    classifier_score,
    compare_frechet,
    cross_play,
    frechet_distance,
    kernel_test,
    overlap,
)


@pytest.fixture(scope="module")
def tables():
    """Training rows, new rows and honest samples of three far modes, with their modes."""
    rng = np.random.default_rng(0)
    modes = rng.integers(0, 3, (3, 800))
    return np.array([[0, 0], [6, 0], [0, 6]])[modes] + rng.normal(size=(3, 800, 2)), modes


def test_frechet_distance_is_the_formula_with_a_matrix_root():
    rng = np.random.default_rng(1)
    A, B = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 5)), rng.normal(size=(80, 5)) + 1
    P, Q = np.cov(A.T), np.cov(B.T)
    shift = np.square(A.mean(0) - B.mean(0)).sum()
    expected = shift + np.trace(P + Q - 2 * sqrtm(P @ Q).real)
    assert frechet_distance(A, B) == pytest.approx(expected, rel=1e-8)
    assert frechet_distance(A, A + 3) == pytest.approx(45, rel=1e-9)
    # fewer rows than columns: covariances without full rank
    assert frechet_distance(A[:3], A[:3]) == pytest.approx(0, abs=1e-9)


def test_a_frechet_distance_stands_next_to_that_of_data(tables):
    (X, new, drawn), _ = tables
    honest, shifted = (compare_frechet(S, X, new) for S in (drawn, drawn + 1))
    assert honest.data == shifted.data == frechet_distance(X, new)  # as many rows: all of them
    assert honest.ratio == honest.samples / honest.data
    # means are off by (1, 1), each by 0.15 more or less
    assert shifted.samples > 1 > honest.samples
    doubled = compare_frechet(drawn[:400], X, new, features=lambda rows: 2 * rows)
    half = np.sort(np.random.default_rng(0).permutation(800)[:400])
    assert doubled.data == pytest.approx(4 * frechet_distance(X[half], new))
    assert doubled.samples == pytest.approx(4 * frechet_distance(drawn[:400], new))


def test_overlap_of_a_table_with_itself_is_whole_and_with_another_place_none():
    X = np.random.default_rng(2).normal(size=(100, 3))
    whole = overlap(X, X)
    assert (whole.precision, whole.recall, whole.coverage) == (1, 1, 1)
    assert tuple(overlap(X + 50, X)) == (0, 0, 0, 0)
    # one sample, repeated: all of them are inside, nearly nothing is covered
    point = overlap(np.repeat(X[:1], 100, axis=0) + 1e-9 * X, X)
    assert point.precision == 1
    assert point.recall < 0.05
    assert point.coverage < 0.2


def test_kernel_test_is_right_at_its_level_and_sees_a_shift():
    rng = np.random.default_rng(3)
    ps = np.array([kernel_test(*rng.normal(size=(2, 40, 2)), shuffles=99).p for _ in range(60)])
    assert (ps <= 0.05).sum() <= 9  # 3 expected; 10 or more has a chance of 1e-3
    assert (ps <= 0.5).sum() >= 15  # 30 expected
    assert kernel_test(rng.normal(size=(80, 2)) + 1, rng.normal(size=(60, 2))).p == 1 / 500


def test_honest_samples_hold_every_claim(tables):
    (X, new, drawn), (y, new_y, drawn_y) = tables
    found = lemmata.certify(Samples(drawn, drawn_y), X, y, X_test=new, y_test=new_y)
    assert found.held[-4:] == ["passes_for_data", "modes_covered", "not_copied", "classes_obeyed"]
    score = classifier_score(drawn, new)
    assert score.low < 0.5 < score.high < 0.6


@pytest.mark.parametrize(
    ("claim", "spoil"),
    [
        ("passes_for_data", lambda X, S: 1.5 * S),
        ("modes_covered", lambda X, S: S[S[:, 0] < 3]),
        ("not_copied", lambda X, S: np.concatenate([S[:400], X[:400]])),
    ],
    ids=["stretched", "a mode missing", "half of them copied"],
)
def test_each_claim_fails_where_it_should(tables, claim, spoil):
    X, new, drawn = tables[0]
    found = lemmata.certify(Samples(spoil(X, drawn)), X, X_test=new)
    assert found[claim].verdict == FAILS
    assert found[claim].advice


def test_classes_asked_for_in_vain(tables):
    (X, new, drawn), (y, new_y, _) = tables
    asked = np.random.default_rng(4).integers(0, 3, len(drawn))
    found = lemmata.certify(Samples(drawn, asked), X, y, X_test=new, y_test=new_y)
    assert found["classes_obeyed"].verdict == FAILS


def test_without_new_rows_or_searches_or_with_nan_nothing_is_claimed(tables):
    X, new, drawn = tables[0]
    names = ("passes_for_data", "modes_covered", "not_copied")
    for seen in (None, X[:300] + 1e-12):
        found = lemmata.certify(Samples(drawn), X, X_test=seen)
        assert [found[name].verdict for name in names] == [UNDECIDED] * 3
    found = lemmata.certify(Samples(np.where(drawn > 6, np.nan, drawn)), X, X_test=new)
    assert found.failed == ["attributes_sound"]
    assert not found.held
    with lemmata.config(searches=False):
        found = lemmata.certify(Samples(drawn), X, X_test=new)
    assert [found[name].verdict for name in names] == [UNDECIDED, UNDECIDED, HOLDS]


def test_cross_play_counts_whom_each_discriminator_takes_for_data():
    S = {"low": np.full((10, 1), -1.0), "mixed": np.array([[1.0]] * 3 + [[-1.0]] * 7)}
    found = cross_play(S, {"positive": lambda x: x, "all": lambda x: 0 * x + 1})
    assert found == {"low": {"positive": 0, "all": 1}, "mixed": {"positive": 0.3, "all": 1}}


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda X: Samples(X[0]), r"samples: shape \(2,\) of float64; pass numbers"),
        (lambda X: Samples(X, X[:5, 0]), r"classes have shape \(5,\) for 800 samples"),
        (lambda X: lemmata.certify(Samples(X[:, :1]), X), "samples: 1 numbers a row, X has 2"),
        (lambda X: lemmata.certify(Samples(255 * X), X), "bring both to one unit"),
        (lambda X: lemmata.certify(Samples(X), X, X[:9, 0]), r"y has shape \(9,\) for 800 rows"),
        (lambda X: lemmata.certify(Samples(X), X, X_test=X * np.nan), "X_test holds numbers that"),
        (lambda X: frechet_distance(X, X[:, :1]), "2 and 1 numbers a row"),
        (lambda X: overlap(X, X, k=800), "k=800 with 800 samples"),
    ],
)
def test_bad_input_says_what_was_found(tables, act, message):
    with pytest.raises(ValueError, match=message):
        act(tables[0][0])
