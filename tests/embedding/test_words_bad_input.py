"""Texts that no vectors can be learnt from, words nobody has seen, lines of ten megabytes: named, or taken as they are."""

import numpy as np
import pytest
import scipy.sparse as sp

import lemmata
from lemmata import text
from lemmata.embedding import PMI, CoOccurrence, GloVe, SkipGram
from lemmata.text import Vocabulary

MODELS = (SkipGram, PMI, GloVe)
TEXTS = ["the cat and the dog", "the dog and the cat sat", "a cat on the mat"] * 4


def small(cls, **more):
    return cls(2, **{"min_count": 1, "random_state": 0, **more})


@pytest.fixture(params=MODELS, ids=lambda cls: cls.__name__)
def model(request):
    with lemmata.config(certificate=False):
        yield small(request.param)


def test_a_vocabulary_of_one_word_is_refused(model):
    with pytest.raises(ValueError, match="only one word of 6 tokens occurs min_count=1 times"):
        model.fit([["echo", "echo", "echo"]] * 2)
    with pytest.raises(ValueError, match="no word of 64 tokens occurs min_count=100 times"):
        model.set_params(min_count=100).fit([one.split() for one in TEXTS])
    assert not hasattr(model, "embedding_")


def test_words_without_neighbours_are_refused(model):
    lonely = [["cat"], ["dog"], [], ["cat"]]
    with pytest.raises(ValueError, match="no word has a neighbour"):
        model.fit(lonely)
    with pytest.raises(ValueError, match="no word has a neighbour"):
        model.fit(text.encode(lonely))
    assert not hasattr(model, "embedding_")


def test_words_never_seen_are_named(model):
    model.fit(TEXTS)
    with pytest.raises(KeyError, match="zebra"):
        model.vectors_.nearest("zebra")
    with pytest.raises(KeyError, match="zebra"):
        model.vectors_.similarity("cat", "zebra")


@pytest.mark.parametrize("model", [small(SkipGram), small(PMI)], ids=["SkipGram", "PMI"])
def test_other_texts_are_read_over_the_known_words_only(model):
    found = model.fit(TEXTS)._validate_rows(["zebra cat", "zebra"], reset=False)
    assert list(found.vocabulary) == list(model.feature_names_in_)
    assert (found.n_tokens, found.n_dropped) == (1, 2)


def test_a_line_of_ten_megabytes_is_learnt_from(model, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("the cat saw the dog " * 520_000)
    if isinstance(model, SkipGram):
        model.set_params(epochs=1, negative=1, window=1, sample=1e-6)
    model.fit(text.read(path))
    assert model.counts_.sum() == 2_600_000
    assert np.isfinite(model.embedding_).all()


def test_a_file_that_shrinks_between_two_looks_is_noticed(model, tmp_path, monkeypatch):
    """Nobody truncates it while we hold a line: what the system said its size was is no longer there."""
    import os

    path = tmp_path / "log.txt"
    path.write_text("the cat saw the dog\n" * 1000)
    size = os.path.getsize
    monkeypatch.setattr("lemmata.text.reading.os.path.getsize", lambda one: size(one) + 5000)
    with pytest.raises(text.UnreadableText, match="shrank from 25,000 to 20,000 bytes"):
        model.fit(text.read(path))
    assert not hasattr(model, "embedding_")


def test_more_numbers_than_words_are_refused_by_a_factorisation():
    with pytest.raises(ValueError, match=r"vector_size=9 for 9 words.*vector_size <= 8"):
        PMI(9, min_count=1).fit([[*"abcdefghi"]] * 3)


def test_negative_counts_are_refused():
    with pytest.raises(ValueError, match="the word 'cat' has the count -3"):
        Vocabulary.from_counts({"dog": 2, "cat": -3})
    words = Vocabulary.of([["a", "b"]])
    counts = sp.csr_array(np.array([[0.0, -1.0], [-1.0, 0.0]]))
    with pytest.raises(ValueError, match=r"negative|>= 0|> 0"):
        small(GloVe).fit(CoOccurrence(words, counts))
