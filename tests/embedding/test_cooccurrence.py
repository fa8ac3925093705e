"""CoOccurrence: what a double loop counts, by kernel or NumPy, in one piece or in blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import lemmata
from lemmata.embedding import CoOccurrence
from lemmata.embedding.windows import table
from lemmata.embedding.windows.cooccurrence import weights_of
from lemmata.text import encode

SENTENCES = st.lists(st.lists(st.sampled_from("abcde"), max_size=9), min_size=1, max_size=6)


def by_hand(sentences, words, window, weighting, symmetric):
    g, place = weights_of(window, weighting), {word: i for i, word in enumerate(words)}
    N = np.zeros((len(place),) * 2)
    for sentence in sentences:
        for s, w in enumerate(sentence):
            for t, v in enumerate(sentence):
                if 1 <= t - s <= window or (symmetric and 1 <= s - t <= window):
                    N[place[w], place[v]] += g[abs(t - s) - 1]
    return N


@settings(max_examples=60)
@given(SENTENCES, st.integers(1, 4), st.sampled_from(["flat", "harmonic", "linear"]), st.booleans())
@pytest.mark.parametrize("compile_", ["always", "never"])
def test_pairs_are_those_of_a_double_loop(compile_, sentences, window, weighting, symmetric):
    text = encode(sentences)
    with lemmata.config(compile=compile_):
        found = CoOccurrence.of(text, window, weighting, symmetric)
    wanted = by_hand(sentences, list(text.vocabulary), window, weighting, symmetric)
    assert_allclose(found.matrix.toarray(), wanted, rtol=1e-12)


def test_counts_of_parts_add_up_to_those_of_the_whole():
    first, second = [["x", "y", "x"], ["y", "z"]], [["z", "new", "x"]]
    whole = CoOccurrence.of(encode(first + second), 2)
    parts = CoOccurrence() + CoOccurrence.of(encode(first), 2) + CoOccurrence.of(encode(second), 2)
    assert parts.vocabulary == whole.vocabulary
    assert_array_equal(parts.matrix.toarray(), whole.matrix.toarray())
    with pytest.raises(ValueError, match="two ways"):
        whole + CoOccurrence.of(encode(first), 3)


@settings(max_examples=20)
@given(SENTENCES, st.booleans(), st.integers(1, 4))
def test_a_table_says_the_same_for_any_slices_and_threads(sentences, symmetric, threads):
    """Every sum is added up in the order of the text: even the last bits of thirds and fifths agree."""
    text, g = encode(sentences), weights_of(5, "harmonic")
    found = []
    for count, dealt in ((1, 2**20), (threads, 7)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LEMMATA_THREADS", str(count))
            patch.setattr(table, "DEALT", dealt)
            patch.setattr(table, "FIRST", 2)
            pairs = table.PairTable(len(text.vocabulary), symmetric)
            for ids, starts in text:
                pairs.add(ids, starts, g)
            assert pairs.n_pairs <= 0.75 * pairs.nbytes / 16
            found.append(pairs.matrix())
            assert pairs.n_pairs == 0
    one, other = found
    for part in ("data", "indices", "indptr"):
        assert_array_equal(getattr(one, part), getattr(other, part))
    other.has_canonical_format = False
    other.has_sorted_indices = False
    other.sum_duplicates()  # nothing to sort, and nothing to add up
    assert_array_equal(one.indices, other.indices)


def test_more_words_than_keys_can_hold_are_refused():
    with pytest.raises(ValueError, match="100,000,000 words"):
        table.PairTable(10**8, True)


def test_a_table_grows_without_losing_a_pair():
    rng = np.random.default_rng(0)
    sentences = [[f"w{i}" for i in rng.integers(3000, size=400)] for _ in range(600)]
    text = encode(sentences)
    with lemmata.config(compile="always"):
        found = CoOccurrence.of(text, 4)
    assert found.matrix.nnz > 8 * table.FIRST * 256  # every table has grown, several times
    assert found.matrix.sum() == 2 * 600 * (4 * 400 - (1 + 2 + 3 + 4))


def test_a_wrong_window_is_named():
    with pytest.raises(ValueError, match="window=0"):
        CoOccurrence.of(encode(["a b"], token_pattern=None), 0)
    with pytest.raises(ValueError, match="window=1001: pass an int from 1 to 1000"):
        CoOccurrence.of(encode(["a b"], token_pattern=None), 1001)
    with pytest.raises(ValueError, match="weighting='flet'"):
        CoOccurrence.of(encode(["a b"], token_pattern=None), 2, "flet")
