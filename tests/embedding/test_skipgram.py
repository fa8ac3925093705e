"""SkipGram: planted structure is found, the optimum of negative sampling is reached, runs repeat and resume."""

import numpy as np
import pytest

import lemmata
from lemmata import text
from lemmata.embedding import SkipGram
from lemmata.embedding.skipgram.algorithm import SkipGramAlgorithm
from lemmata.embedding.windows.sampling import noise


def topical(n=150, topics=3, words=6, length=8, seed=0):
    """Sentences of one topic each; word "t2w5" belongs to topic 2."""
    rng = np.random.default_rng(seed)
    return [
        [f"t{t}w{i}" for i in rng.integers(0, words, length)] for t in rng.integers(0, topics, n)
    ]


def same_topic(vectors, k=5):
    """The share of the k nearest words that have the word's own topic."""
    hits = [near[1] == word[1] for word in vectors.words for near, _ in vectors.nearest(word, k)]
    return np.mean(hits)


SMALL = {
    "vector_size": 8,
    "min_count": 1,
    "sample": 0,
    "alpha": 0.05,
    "epochs": 10,
    "random_state": 0,
}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"objective": "nce", "biases": "clamped"},
        {"negatives_per": "window", "biases": True},
        {"negatives_per": "occurrence"},
        {"sg": False, "alpha": 0.2},
        {"tied": True},
        {"shrink_windows": False, "sample": 0.01},
    ],
    ids=str,
)
@pytest.mark.parametrize("compile", ["never", "always"])
def test_words_of_one_topic_are_found_together(settings, compile):
    with lemmata.config(compile=compile):
        model = SkipGram(**{**SMALL, **settings}).fit(topical())
    # 5 of the other 17 words have the topic: chance is 0.29
    assert same_topic(model.vectors_) > 0.95
    assert model.trace_.objective[-1] < model.trace_.objective[0]
    assert model.loss_ == model.trace_.objective[-1]
    assert len(model.trace_) == 11


@pytest.mark.parametrize("compile", ["never", "always"])
def test_the_first_loss_is_that_of_guessing(compile):
    with lemmata.config(compile=compile):
        model = SkipGram(**{**SMALL, "epochs": 1, "negative": 4}).fit(topical(50))
    assert model.trace_.objective[0] == pytest.approx(5 * np.log(2), rel=1e-5)


@pytest.mark.parametrize(
    ("per", "objective"),
    [("pair", "negative"), ("window", "negative"), ("occurrence", "negative"), ("pair", "nce"), ("window", "nce")],
)  # fmt: skip
def test_scores_reach_the_optimum_of_their_objective(per, objective):
    """Of negative sampling ln[N_vw / (r N_w q_v)], N_w the pairs of w; per occurrence, its occurrences.

    Of noise contrastive estimation ln N_vw/N_w, the softmax's, normalised. Full rank: nothing stands in the way.
    """
    rng = np.random.default_rng(3)
    chain = rng.dirichlet(np.full(5, 2.0), 5)
    words = [0]
    for _ in range(6000):
        words.append(int(rng.choice(5, p=chain[words[-1]])))
    sentences = [[f"w{i}" for i in words[at : at + 1000]] for at in range(0, 6000, 1000)]
    model = SkipGram(
        vector_size=6, window=1, min_count=1, sample=0, negative=2, negatives_per=per, epochs=40, alpha=0.05, min_alpha=1e-3,
        biases=True, shrink_windows=False, random_state=0, objective=objective,
    )  # fmt: skip
    with lemmata.config(compile="always"):
        model.fit(sentences)
    encoded = text.encode(sentences)
    N = np.zeros((5, 5))
    for ids in encoded.sentences():
        np.add.at(N, (ids[:-1], ids[1:]), 1)
        np.add.at(N, (ids[1:], ids[:-1]), 1)
    times = encoded.vocabulary.counts if per == "occurrence" else N.sum(axis=1)
    best = np.log(N / (2 * times[:, None] * noise(encoded.vocabulary.counts, 0.75)))
    scores = model.embedding_ @ model.context_embedding_.T + model.biases_
    # the last steps are noisy: their spread is some γ times a score
    if objective == "nce":
        log_p = np.log(N / N.sum(axis=1, keepdims=True))
        assert np.abs(scores - log_p).max() < 0.1
        assert np.abs(np.log(np.exp(scores).sum(axis=1))).max() < 0.05
        assert {"pairs_learned", "beats_frequencies"} <= set(model.certify(sentences).held)
    else:
        assert np.abs(scores - best).max() < 0.1
    p = N / N.sum()
    entropy = -(p * np.log(1 / (1 + np.exp(-best)))).sum()
    if per == "pair":
        q = noise(encoded.vocabulary.counts, 0.75)
        entropy -= 2 * (p.sum(axis=1)[:, None] * q * np.log(1 / (1 + np.exp(best)))).sum()
        assert model.loss_ == pytest.approx(entropy, rel=0.02)


@pytest.mark.parametrize("shrink", [True, False])
def test_the_exact_softmax_reaches_the_entropy_of_the_counts(shrink):
    """With as many numbers as words nothing but N_vw/N_w is the optimum (3.46), and the loss is its conditional entropy."""
    sentences = topical(40, topics=2, words=3)
    model = SkipGram(
        vector_size=6, window=2, objective="softmax", min_count=1, epochs=10, biases=True, shrink_windows=shrink,
        random_state=0,
    ).fit(sentences)  # fmt: skip
    encoded, N = text.encode(sentences), np.zeros((6, 6))
    for ids in encoded.sentences():
        for distance, share in ((1, 1.0), (2, 0.5 if shrink else 1.0)):
            np.add.at(N, (ids[:-distance], ids[distance:]), share)
            np.add.at(N, (ids[distance:], ids[:-distance]), share)
    p = N / N.sum(axis=1, keepdims=True)
    entropy = -(N[N > 0] * np.log(p[N > 0])).sum() / N.sum()
    assert entropy - 1e-6 <= model.loss_ <= entropy + 2e-3
    assert model.trace_.largest_rise == 0
    tied = SkipGram(4, 2, objective="softmax", min_count=1, tied=True, random_state=0).fit(
        sentences
    )
    assert tied.loss_ >= entropy
    assert same_topic(tied.vectors_, 2) == 1


def test_the_softmax_of_many_words_is_refused():
    with pytest.raises(Exception, match="4,096 at most"):
        SkipGram(2, objective="softmax", min_count=1).fit([[f"w{i}" for i in range(5000)]])


def with_threads(monkeypatch, threads, **settings):
    monkeypatch.setenv("LEMMATA_THREADS", str(threads))
    with lemmata.config(compile="always"):
        return SkipGram(**{**SMALL, "epochs": 3, **settings}).fit(topical(2000))


@pytest.mark.parametrize("sg", [True, False])
def test_deterministic_vectors_do_not_depend_on_threads(monkeypatch, sg):
    one = with_threads(monkeypatch, 1, deterministic=True, sg=sg)
    many = with_threads(monkeypatch, 4, deterministic=True, sg=sg)
    assert one.embedding_.tobytes() == many.embedding_.tobytes()
    assert one.trace_.objective.tobytes() == many.trace_.objective.tobytes()
    free = with_threads(monkeypatch, 4, sg=sg)
    # four threads that write the same 18 words: rows are lost now and then, but nine tenths of what can be learnt is
    first = one.trace_.objective[0]
    assert free.loss_ - one.loss_ < 0.1 * (first - one.loss_)
    assert same_topic(free.vectors_) > 0.95
    alone = with_threads(monkeypatch, 1, sg=sg)
    assert alone.embedding_.tobytes() == one.embedding_.tobytes()


@pytest.mark.parametrize("compile", ["never", "always"])
def test_a_run_resumed_is_the_run_never_stopped(tmp_path, compile):
    settings = {**SMALL, "deterministic": True, "epochs": 4}
    with lemmata.config(compile=compile):
        whole = SkipGram(**settings).fit(topical(200))
        path = tmp_path / "c"
        SkipGram(**settings, checkpoint=path, tol=0.9).fit(topical(200))
        resumed = SkipGram(**settings, checkpoint=path).fit(topical(200))
        assert resumed.embedding_.tobytes() == whole.embedding_.tobytes()
        with pytest.raises(ValueError, match="belongs to another"):
            SkipGram(**settings, checkpoint=path).fit(topical(201))


def test_training_goes_on_with_new_words():
    model = SkipGram(**SMALL).fit(topical())
    before = model.vectors_["t0w1"]
    new = [[word.replace("t2", "t3") for word in sentence] for sentence in topical(seed=1)]
    model.partial_fit(new)
    assert len(model.vectors_) == 24
    assert same_topic(model.vectors_) > 0.9
    assert not np.array_equal(model.vectors_["t0w1"], before)
    both = text.encode(topical()).vocabulary + text.encode(new).vocabulary
    assert list(model.feature_names_in_) == list(both)
    assert np.array_equal(model.counts_, both.counts)
    first = SkipGram(**SMALL).partial_fit(topical())
    assert np.array_equal(first.embedding_, SkipGram(**SMALL).fit(topical()).embedding_)
    with pytest.raises(ValueError, match="min_count"):
        model.set_params(min_count=5).partial_fit([["nobody", "knows", "these"]])
    assert len(model.vectors_) == 24


def test_an_early_stop_needs_less_than_all_epochs():
    model = SkipGram(**{**SMALL, "epochs": 50, "tol": 0.02}).fit(topical())
    assert model.n_iter_ < 50
    assert model.stopped_ == "settled"


def test_texts_files_and_encoded_text_give_the_same_vectors(tmp_path):
    lines = [" ".join(words) for words in topical(40)]
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines))
    expected = SkipGram(**{**SMALL, "epochs": 1}).fit(lines).embedding_
    for source in (path, text.read(path), iter(lines), text.encode(lines), topical(40)):
        assert np.array_equal(SkipGram(**{**SMALL, "epochs": 1}).fit(source).embedding_, expected)


def test_a_model_is_saved_with_its_words(tmp_path):
    model = SkipGram(**{**SMALL, "epochs": 2}).fit(topical(100))
    lemmata.save(model, tmp_path / "v.lemma")
    back = lemmata.load(tmp_path / "v.lemma")
    assert back.vectors_.nearest("t0w1") == model.vectors_.nearest("t0w1")
    assert str(back.certificate_) == str(model.certificate_)
    assert str(back.certify(topical(100))) == str(model.certify(topical(100)))
    assert back.certify(topical(100))["statements_true"].verdict == "holds"
    assert back.certify(topical(99))["statements_true"].verdict == "fails"
    model.fit(topical(100, seed=5))
    assert not np.array_equal(model.vectors_["t0w1"], back.vectors_["t0w1"])


def test_a_learning_rate_far_too_large_is_told_and_crashes_nothing():
    with lemmata.config(compile="always"), pytest.warns(RuntimeWarning, match="lower alpha"):
        model = SkipGram(**{**SMALL, "alpha": 1e25}).fit(topical(50))
    assert np.isfinite(model.embedding_).all()
    with lemmata.config(compile="never"):  # batches bound the steps of a word, and the loss tells
        model = SkipGram(**{**SMALL, "alpha": 1e25}).fit(topical(50))
    assert "loss_fell" in model.certificate_.failed
    assert np.isfinite(model.embedding_).all()


@pytest.mark.parametrize(
    ("documents", "settings", "message"),
    [
        (["word word word"], {}, "two words"),
        (["aa bb cc dd"], {"min_count": 5}, "min_count"),
        (topical(3), {"alpha": 0.01, "min_alpha": 0.1}, "min_alpha"),
        (topical(3), {"negatives_per": "word"}, "negatives_per"),
        (topical(3), {"sg": False, "tied": True}, "tied"),
        (topical(3), {"sg": False, "objective": "softmax"}, "softmax"),
        (topical(3), {"objective": "nce"}, "biases"),
        (
            topical(3),
            {"objective": "nce", "biases": True, "negatives_per": "occurrence"},
            "per='pair'",
        ),
    ],
)
def test_bad_input_is_refused_and_nothing_is_half_fitted(documents, settings, message):
    model = SkipGram(**{**SMALL, **settings})
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(documents)
    assert vars(model) == before


def test_bytes_that_are_no_text_are_named(tmp_path):
    path = tmp_path / "t.txt"
    path.write_bytes(b"good words\nb\xe4d words\n")
    with pytest.raises(ValueError, match=r"byte 0xe4 at position 12 \(line 2\)"):
        SkipGram(**SMALL).fit(path)


def test_a_step_leaves_its_state_alone():
    model = SkipGram(**SMALL)
    encoded = text.encode(topical(50))
    algorithm = SkipGramAlgorithm(4, 3)
    data = model._problem_with(encoded, encoded.vocabulary.counts)
    state = algorithm.init(data, np.random.default_rng(0))
    copy = state.vectors.copy(), state.outputs.copy()
    algorithm.step(state, data)
    assert np.array_equal(state.vectors, copy[0])
    assert np.array_equal(state.outputs, copy[1])
