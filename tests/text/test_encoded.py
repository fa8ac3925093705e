"""Texts as numbers of words: any cut into blocks, in memory or on disk, says the same."""

import gzip
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata import text
from lemmata.text import encoded
from lemmata.text.encoded import encode_over

SENTENCES = st.lists(st.lists(st.sampled_from(["a", "b", "c", "d", "ff"]), max_size=8), max_size=12)


def decoded(found):
    return [[found.vocabulary.words[i] for i in ids] for ids in found.sentences()]


@settings(max_examples=60)
@given(SENTENCES.filter(len), st.integers(1, 3))
def test_what_is_encoded_can_be_read_back(sentences, min_count):
    found = text.encode(sentences, min_count=min_count)
    counts = Counter(word for sentence in sentences for word in sentence)
    kept = {word for word, count in counts.items() if count >= min_count}
    assert decoded(found) == [[w for w in sentence if w in kept] for sentence in sentences]
    assert dict(zip(found.vocabulary, found.vocabulary.counts.tolist(), strict=True)) == {
        word: counts[word] for word in kept
    }
    assert found.n_dropped == sum(counts.values()) - found.n_tokens
    assert list(found.vocabulary.counts) == sorted(found.vocabulary.counts, reverse=True)


@pytest.mark.parametrize("in_memory", [0, 20, 10**6])
def test_blocks_in_memory_and_in_a_file_say_the_same(monkeypatch, in_memory):
    rng = np.random.default_rng(0)
    sentences = [list(rng.choice(list("abcdefgh"), rng.integers(0, 30))) for _ in range(50)]
    whole = text.encode(sentences, min_count=2)
    monkeypatch.setattr(encoded, "BLOCK", 37)
    monkeypatch.setattr(encoded, "IN_MEMORY", in_memory)
    parts = text.encode(sentences, min_count=2)
    assert len(parts.blocks) > 1
    assert (parts.blocks[-1].spill is not None) == (in_memory < 10**6)
    assert decoded(parts) == decoded(whole)
    assert parts.vocabulary == whole.vocabulary
    other = encode_over(whole.vocabulary, [["h", "nowhere", "a"], []])
    assert decoded(other) == [["h", "a"], []]
    assert other.n_dropped == 1


def test_files_iterators_and_lists_of_texts_are_one_text(tmp_path):
    lines = ["The cat sat.", "", "A cat, a CAT!"]
    path = tmp_path / "t.txt.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    expected = decoded(text.encode(lines))
    assert expected == [["the", "cat", "sat"], [], ["cat", "cat"]]
    for source in (path, text.read(path), iter(lines), (line for line in lines)):
        assert decoded(text.encode(source)) == expected
    words = [line.split() for line in lines]
    assert decoded(text.encode(iter(words))) == words


def test_a_line_of_ten_megabytes_is_cut():
    found = text.encode(["word " * 2**21])
    lengths = [len(ids) for ids in found.sentences()]
    assert max(lengths) == lengths[0] == encoded.LONGEST
    assert sum(lengths) == 2**21


def test_a_text_over_other_words_drops_what_they_do_not_have():
    found = text.encode([["a", "b", "a", "c"]])
    over = found.over(text.Vocabulary.of([["c", "a", "c", "z"]]))
    assert decoded(over) == [["a", "a", "c"]]
    assert over.n_dropped == 1
    assert dict(zip(over.vocabulary, over.vocabulary.counts.tolist(), strict=True)) == {
        "c": 1, "a": 2, "z": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ("one text", "documents is one text"),
        ([["a", "b"], "c d"], "sentence 1 is a str"),
        ([["a", "b"], ["c", 3]], "words are texts"),
        ([["a", "b"], ["c", ["d"]]], "words are texts"),
        (["a b", 7], "document 1 is a int"),
        (3, "documents is a int"),
    ],
)
def test_what_is_no_text_is_named(documents, message):
    with pytest.raises(TypeError, match=message):
        text.encode(documents)
