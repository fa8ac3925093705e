"""Coherence: that of gensim where gensim counts windows right, of a plain count everywhere; it adds up over blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata import text
from lemmata.topics.coherence import WindowCounts, coherence, diversity

LETTERS = list("abcdefghij")
MEASURES = {"npmi": "c_npmi", "c_v": "c_v", "u_mass": "u_mass"}


def drawn(n=80, longest=30, seed=0, repeats=True):
    """Lists of letters; the early ones are frequent."""
    rng = np.random.default_rng(seed)
    p = 1 / np.arange(1, 11)
    sizes = rng.integers(0, longest if repeats else 11, n)
    return [rng.choice(LETTERS, size=s, p=p / p.sum(), replace=repeats).tolist() for s in sizes]


def gensims(topics, documents, measure, window=None):
    from gensim.corpora import Dictionary
    from gensim.models import CoherenceModel

    dictionary = Dictionary([LETTERS, *documents])
    corpus = [dictionary.doc2bow(document) for document in documents]
    model = CoherenceModel(
        topics=topics, texts=documents, corpus=corpus, dictionary=dictionary,
        coherence=MEASURES[measure], window_size=window, processes=1, topn=max(map(len, topics)),
    )  # fmt: skip
    return model.get_coherence_per_topic()


TOPICS = [list("abcd"), list("hgfe"), list("ajb")]


@pytest.mark.parametrize("measure", MEASURES)
def test_it_is_gensims_where_documents_are_windows(measure):
    pytest.importorskip("gensim")
    documents = drawn()
    found = coherence(TOPICS, documents, measure, window=0)
    window = None if measure == "u_mass" else 110
    np.testing.assert_allclose(found, gensims(TOPICS, documents, measure, window), rtol=1e-9)
    counts = text.counts([" ".join(d) for d in documents], token_pattern=r"\w")
    np.testing.assert_allclose(coherence(TOPICS, counts, measure), found, rtol=1e-12)


@pytest.mark.parametrize("measure", ["npmi", "c_v"])
def test_it_is_gensims_in_windows_that_hold_no_word_twice(measure):
    pytest.importorskip("gensim")
    documents = drawn(repeats=False)
    found = coherence(TOPICS, documents, measure, window=4)
    np.testing.assert_allclose(found, gensims(TOPICS, documents, measure, 4), rtol=1e-9)


def test_gensim_loses_words_that_stand_twice_in_a_window():
    """Of "a a x" and "a x b" the first window still holds an a when the first a has left: gensim says that it does not."""
    pytest.importorskip("gensim")
    documents = [["a", "a", "x", "b"], ["b"]]
    ours = coherence([["a", "b"]], documents, "npmi", window=3)[0]
    both, a, b = 1 / 3, 2 / 3, 2 / 3  # of the windows aax, axb, b
    assert ours == pytest.approx(np.log(both / (a * b)) / -np.log(both), rel=1e-9)
    assert gensims([["a", "b"]], documents, "npmi", 3)[0] < ours - 0.1


@given(st.lists(st.lists(st.sampled_from("abcx"), max_size=12), min_size=1), st.integers(1, 14))
def test_windows_are_counted_as_they_stand(documents, size):
    number = {"a": 0, "b": 1, "c": 2, "x": -1}
    texts = [np.array([number[word] for word in document], int) for document in documents]
    windows = [t[i : i + size] for t in texts for i in range(max(len(t) - size, 0) + 1)]
    there = np.array([[word in window for word in range(3)] for window in windows], float)
    found = WindowCounts.in_windows(texts, 3, size)
    assert found.windows == len(windows)
    np.testing.assert_array_equal(found.pairs, there.T @ there)
    half = len(texts) // 2
    parts = [
        WindowCounts.in_windows(part, 3, size) for part in (texts[:half], texts[half:]) if part
    ]
    total = sum(parts, WindowCounts())
    assert total.windows == found.windows
    np.testing.assert_array_equal(total.pairs, found.pairs)


def test_blocks_of_texts_are_read_one_by_one(monkeypatch, tmp_path):
    lines = [" ".join(document) for document in drawn()]
    tokenizer = text.Tokenizer(token_pattern=r"\w")
    whole = coherence(TOPICS, lines, tokenizer=tokenizer)
    monkeypatch.setattr("lemmata.topics.coherence.BATCH", 7)
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines) + "\n")
    in_blocks = coherence(TOPICS, text.read(path), tokenizer=tokenizer)
    np.testing.assert_allclose(in_blocks, whole, rtol=1e-12)


def test_planted_topics_are_more_coherent_than_shuffled_ones():
    rng = np.random.default_rng(0)
    topics = [[f"w{topic}{i}" for i in range(6)] for topic in range(4)]
    texts = [rng.choice(topics[rng.integers(4)], 15).tolist() for _ in range(200)]
    mixed = [[topics[(t + i) % 4][i] for i in range(6)] for t in range(4)]
    for measure in MEASURES:
        good, bad = (coherence(one, texts, measure) for one in (topics, mixed))
        assert good.min() > bad.max(), measure


def test_words_that_never_occur_say_nothing():
    texts = ["cat dog", "dog cat", "bird"]
    topics = [["cat", "dog", "unicorn"], ["unicorn", "dragon"]]
    for measure in MEASURES:
        found = coherence(topics, texts, measure)
        assert found[0] == coherence([["cat", "dog"]], texts, measure)[0]
        assert np.isnan(found[1])


def test_diversity_is_the_share_of_different_words():
    assert diversity([["a", "b"], ["c", "d"]]) == 1
    assert diversity([["a", "b"]] * 4) == 0.25
    with pytest.raises(ValueError, match="no topics"):
        diversity([])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([["a"]], ["a b"]), "topic 0 has 1 words"),
        (([["a", "b"]], ["a b"], "cosine"), "known are 'npmi'"),
        (([["a", "b"]], []), "no documents"),
        (([["a", "b"]], "a b"), "one text"),
        (([["a", "b"]], [1, 2]), "text"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        coherence(*arguments)


def test_windows_need_an_order():
    counts = text.counts(["cat dog", "dog"])
    with pytest.raises(ValueError, match="order of words"):
        coherence([["cat", "dog"]], counts, window=5)
    with pytest.raises(ValueError, match="u_mass counts documents"):
        coherence([["cat", "dog"]], ["cat dog"], "u_mass", window=5)
    with pytest.raises(ValueError, match="window=-1"):
        coherence([["cat", "dog"]], ["cat dog"], window=-1)
