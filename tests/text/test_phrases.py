"""Phrases: pairs that stand together far more often than chance become words."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata import text
from lemmata.text import encoded, join_phrases


def decoded(found):
    return [[found.vocabulary.words[i] for i in ids] for ids in found.sentences()]


def joined_slowly(sentences, min_count, threshold):
    """One token after the other."""
    words = [w for s in sentences for w in s]
    pairs = [(a, b) for s in sentences for a, b in pairwise(s)]
    chosen = {
        (a, b)
        for a, b in set(pairs)
        if (pairs.count((a, b)) - min_count) * (len(words) / (words.count(a) * words.count(b)))
        > threshold
    }
    out = []
    for s in sentences:
        row, i = [], 0
        while i < len(s):
            if i + 1 < len(s) and (s[i], s[i + 1]) in chosen:
                row.append(f"{s[i]}_{s[i + 1]}")
                i += 2
            else:
                row.append(s[i])
                i += 1
        out.append(row)
    return out


@settings(max_examples=80)
@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=9), min_size=1, max_size=10)
)
def test_joining_equals_the_slow_twin(sentences):
    if not any(sentences):
        return
    found = join_phrases(text.encode(sentences), min_count=1, threshold=0.7)
    assert decoded(found) == joined_slowly(sentences, 1, 0.7)
    counts = np.bincount(np.concatenate(list(found.sentences())), minlength=len(found.vocabulary))
    assert np.array_equal(counts, found.vocabulary.counts)
    assert list(counts) == sorted(counts, reverse=True)


def test_planted_phrases_are_found_in_blocks_and_in_files(monkeypatch):
    rng = np.random.default_rng(0)
    sentences = []
    for _ in range(400):
        words = [f"w{i}" for i in rng.integers(0, 50, 10)]
        at = int(rng.integers(0, 9))
        sentences.append([*words[:at], "new", "york", *words[at:]])
    whole = join_phrases(text.encode(sentences), threshold=5)
    monkeypatch.setattr(encoded, "BLOCK", 100)
    monkeypatch.setattr(encoded, "IN_MEMORY", 1000)
    parts = join_phrases(text.encode(sentences), threshold=5)
    assert whole.vocabulary == parts.vocabulary
    assert decoded(whole) == decoded(parts)
    assert [word for word in whole.vocabulary if "_" in word] == ["new_york"]
    assert "york" not in whole.vocabulary
    with pytest.raises(ValueError, match="threshold"):
        join_phrases(whole, threshold=0)
