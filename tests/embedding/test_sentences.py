"""Sentences as vectors: means, SIF, vectors trained for averaging, and what may be passed in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lemmata
from lemmata.audit.embedding.sentence_vectors import frequencies_alone, loss_of_targets
from lemmata.core import Fit
from lemmata.embedding import PMI, SentenceEmbedding, SentenceVectors, WordVectors
from lemmata.embedding.sentences._twins import list_targets
from lemmata.embedding.sentences.training import SentenceAlgorithm, SentenceState, SentenceText
from lemmata.text import encode

WORDS = WordVectors([f"w{i}" for i in range(8)], np.random.default_rng(0).normal(size=(8, 5)) + 1)


def texts_of(n=60, seed=0):
    """Texts of known words, of which w0 is everywhere, and of some that have no vector."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(10, (n, 6), p=[0.4, *[0.6 / 9] * 9])
    return [" ".join(f"w{i}" for i in row) for row in drawn]


def topical(n=300, seed=0, topics=4):
    """Short texts of one topic each: a text shares few words with others of its topic; runs of three are of one topic."""
    rng = np.random.default_rng(seed)
    of = np.repeat(rng.integers(topics, size=n // 3), 3)
    texts = [
        " ".join(
            [
                *(f"t{t}w{i}" for i in rng.integers(25, size=5)),
                *(f"the{i}" for i in rng.integers(4, size=4)),
            ]
        )
        for t in of
    ]
    return texts, of


# --- means and SIF ----------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 11), max_size=7), min_size=1, max_size=6))
def test_a_mean_is_the_mean_of_known_words_whatever_the_text(rows):
    model = SentenceVectors(WORDS, method="mean").fit([["w0"]])
    found = model.transform([[f"w{i}" for i in row] for row in rows])
    for vector, row in zip(found, rows, strict=True):
        known = [i for i in row if i < 8]
        wanted = WORDS.matrix[known].mean(axis=0) if known else np.zeros(5)
        assert_allclose(vector, wanted, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_removed", [0, 1, 2])
def test_sif_is_what_its_formula_says(dtype, n_removed):
    words = WordVectors(WORDS.words, WORDS.matrix.astype(dtype))
    texts = texts_of()
    model = SentenceVectors(words, a=0.05, n_removed=n_removed).fit(texts)
    rows = [[int(word[1:]) for word in text.split() if word in WORDS] for text in texts]
    counts = np.bincount(np.concatenate(rows), minlength=8)
    weights = 0.05 / (0.05 + counts / counts.sum())
    S = np.array([(weights[row, None] * WORDS.matrix[row]).mean(axis=0) for row in rows])
    if n_removed:
        svd = TruncatedSVD(n_removed, algorithm="arpack", random_state=0).fit(S)
        S = S - S @ svd.components_.T @ svd.components_
        assert_allclose(model.singular_values_, svd.singular_values_, rtol=1e-4)
    found = model.transform(texts)
    assert found.dtype == dtype
    assert_allclose(found, S, atol=1e-5 if dtype == np.float32 else 1e-10)
    certificate = model.certify(texts)
    assert certificate.failed == []
    assert ("directions_removed" in certificate.held) == (n_removed > 0)


def test_texts_without_known_words_are_zeros_and_are_told():
    texts = [*texts_of(50), "unknown words", ""]
    model = SentenceVectors(WORDS).fit(texts)
    assert model.n_empty_ == 2
    assert not model.transform(texts)[-2:].any()
    assert "texts_known" in model.certificate_.failed
    assert "texts_known" in SentenceVectors(WORDS).fit(texts_of(50)).certificate_.held


def test_altered_models_fail_their_claims():
    texts = texts_of()
    model = SentenceVectors(WORDS, a=0.05).fit(texts)
    model.components_ = 1.01 * model.components_
    assert {"directions_removed", "statements_true"} <= set(model.certify(texts).failed)
    model = SentenceVectors(WORDS, a=0.05).fit(texts)
    rng = np.random.default_rng(0)
    other = model.components_ + 0.05 * rng.normal(size=(1, 5))
    model.components_ = other / np.linalg.norm(other)
    failed = model.certify(texts).failed
    assert "largest_removed" in failed
    assert "directions_removed" not in failed
    assert "statements_true" in SentenceVectors(WORDS).fit(texts).certify(texts_of(seed=1)).failed


def test_a_sentence_longer_than_any_block_is_one_row():
    long = " ".join(["w1"] * 12_000 + ["w2"] * 12_000)
    found = SentenceVectors(WORDS, method="mean").fit(texts_of()).transform([long, "w3"])
    assert_allclose(found, [(WORDS["w1"] + WORDS["w2"]) / 2, WORDS["w3"]], atol=1e-9)


def test_it_is_a_transformer_in_pipelines_and_searches():
    texts, y = topical()
    model = SentenceVectors(PMI(8, min_count=1, random_state=0))
    pipeline = make_pipeline(model, StandardScaler(), LogisticRegression())
    assert cross_val_score(pipeline, texts, y, cv=3).mean() > 0.9  # by chance 0.25
    names = model.fit(texts).get_feature_names_out()
    assert names.tolist() == [f"sentencevectors{i}" for i in range(8)]
    assert clone(model).get_params()["words__vector_size"] == 8
    near = model.nearest(texts[0], texts[3:], 3)
    assert all(text[:2] == texts[0][:2] for text, _ in near)
    assert near[0][1] >= near[-1][1]
    assert model.nearest("t0w1", []) == []


def test_a_saved_model_keeps_given_vectors(tmp_path):
    model = SentenceVectors(WORDS).fit(texts_of())
    lemmata.save(model, tmp_path / "s.lemma")
    back = lemmata.load(tmp_path / "s.lemma")
    assert (back.transform(texts_of()) == model.transform(texts_of())).all()
    assert (back.fit(texts_of(seed=1)).components_ == model.fit(texts_of(seed=1)).components_).all()


# --- trained for averaging --------------------------------------------------------------------------------------------


def by_hand(state, data, targets, negative, rate):
    """One pass of single steps, as the docstring of the kernels writes them; noise has all its mass on word 0."""
    X, Z = state.vectors.astype(float), state.outputs.astype(float)
    texts = [one.tolist() for one in data.text.sentences()]
    for s, ids in enumerate(texts):
        if targets == "words":
            pairs = [(w, [j for j in range(len(ids)) if j != t]) for t, w in enumerate(ids)]
        else:
            near = [texts[o] for o in (s - 1, s + 1) if 0 <= o < len(texts)]
            pairs = [(w, list(range(len(ids)))) for other in near for w in other]
        if len(ids) < 1 + (targets == "words"):
            continue
        moved = X[ids].copy()
        mean = moved.mean(
            axis=0
        )  # neighbours: the mean is moved by all targets and shared out at the end
        for w, inputs in pairs:
            h = moved[inputs].mean(axis=0) if targets == "words" else mean
            outs = np.array([w] + [0] * negative)
            labels = np.array([1.0] + [0.0] * negative)
            g = rate * (labels - 1 / (1 + np.exp(-Z[outs] @ h)))
            change = np.zeros_like(h)
            for j, v in enumerate(outs):  # a word drawn twice is met as its first step left it
                change += g[j] * Z[v]
                Z[v] = Z[v] + g[j] * h
            if targets == "words":
                moved[inputs] += change / len(inputs)
            else:
                mean = mean + change
        if targets == "neighbours":
            moved += (mean - X[ids].mean(axis=0)) / len(ids)
        X[ids] = moved
    return X, Z


@pytest.mark.parametrize("targets", ["words", "neighbours"])
def test_a_pass_of_the_kernels_is_the_single_steps_of_its_formula(targets):
    rng = np.random.default_rng(0)
    # words once in a sentence, and word 0, which all negatives are, in none
    rows = [rng.choice(np.arange(1, 12), size, replace=False) for size in (5, 1, 4, 7, 0, 6)]
    text = encode([["zero"] * 30, *([f"w{i}" for i in row] for row in rows)])
    text = text.encode([[f"w{i}" for i in row] for row in rows])
    counts = np.ones(len(text.vocabulary), np.int64)
    counts[0] = 10**9
    data = SentenceText(text, counts, sample=0.0, ns_exponent=10.0)
    k = 6
    state = SentenceState(
        rng.normal(size=(len(counts), k)).astype(np.float32), rng.normal(size=(len(counts), k)).astype(np.float32), 0, 5, 0.0,
    )  # fmt: skip
    algorithm = SentenceAlgorithm(k, 1, targets, 2, alpha=0.3, min_alpha=0.3)
    with lemmata.config(compile="always"):
        there = algorithm.step(state, data)
    X, Z = by_hand(state, data, targets, 2, 0.3)
    assert_allclose(there.vectors, X, atol=2e-4)  # σ comes from a table
    assert_allclose(there.outputs, Z, atol=2e-4)


def test_which_words_predict_a_target_by_brute_force():
    rng = np.random.default_rng(0)
    sentence = np.sort(rng.integers(7, size=20))
    words = rng.integers(50, size=20)
    for shift in (-1, 0, 1):
        found = list_targets(words, sentence, 7, shift)
        wanted = []
        for t in range(20):
            inputs = [words[j] for j in range(20) if sentence[j] == sentence[t] + shift and j != t]
            wanted += [(words[t], inputs)] if inputs else []
        ends = np.cumsum(found.sizes)[:-1]
        listed = [part.tolist() for part in np.split(found.context, ends)]
        assert list(zip(found.centre.tolist(), listed, strict=True)) == wanted


@pytest.mark.parametrize("compiled", ["never", "always"])
@pytest.mark.parametrize("targets", ["words", "neighbours"])
def test_training_lowers_the_loss_below_frequencies_and_groups_topics(targets, compiled):
    texts, y = topical(600)
    with lemmata.config(compile=compiled):
        model = SentenceEmbedding(
            12, targets, min_count=1, epochs=12, sample=0.01, random_state=0
        ).fit(texts)
    found = model.certify(texts)
    assert found.failed == []
    assert {"loss_fell", "beats_frequencies"} <= set(found.held)
    rows = model.transform(texts)
    half = LogisticRegression(C=100).fit(rows[:300], y[:300])
    assert half.score(rows[300:], y[300:]) > 0.9  # by chance 0.25


@pytest.mark.parametrize("targets", ["words", "neighbours"])
def test_the_audit_measures_the_loss_that_training_states(targets):
    """Where nothing is dropped the two differ by the draw of negatives alone."""
    texts, _ = topical(300)
    settings = {"min_count": 1, "epochs": 4, "random_state": 0}
    for sample, share in ((0, 0.02), (0.01, 0.05)):
        model = SentenceEmbedding(8, targets, sample=sample, **settings).fit(texts)
        loss, n = loss_of_targets(Fit(model, encode(texts, min_count=1)))
        assert n > 1000
        assert_allclose(loss, model.loss_, rtol=share)


def test_nothing_to_learn_is_told():
    rng = np.random.default_rng(0)
    noise = [[f"w{i}" for i in rng.integers(40, size=6)] for _ in range(150)]
    for options in ({"epochs": 1, "alpha": 1e-4, "min_alpha": 1e-4}, {"epochs": 5}):
        model = SentenceEmbedding(6, min_count=1, random_state=0, **options).fit(noise)
        assert "beats_frequencies" in model.certify(noise).failed


def test_the_loss_of_frequencies_is_the_least_that_scores_of_words_reach():
    from scipy.optimize import minimize

    counts = np.array([50, 20, 7, 7, 1])
    p = counts / counts.sum()
    keep = np.minimum(1, np.sqrt(0.05 / p) + 0.05 / p)
    p, q = p * keep / (p * keep).sum(), counts**0.75 / (counts**0.75).sum()

    def loss(s):
        return float(p @ np.logaddexp(0, -s) + 3 * q @ np.logaddexp(0, s))

    assert_allclose(
        frequencies_alone(counts, 0.05, 0.75, 3), minimize(loss, np.zeros(5)).fun, atol=1e-8
    )


def test_an_empty_text_parts_documents():
    """Words aa and bb are only ever in sentences beside each other, but for an empty one in between."""
    aa, bb, cc, dd = (f"{letter * 2} {letter * 2}" for letter in "abcd")
    together = [aa, bb, "", cc, dd, ""] * 60
    apart = [aa, "", bb, "", cc, "", dd, ""] * 60
    settings = {"min_count": 1, "epochs": 5, "sample": 0, "random_state": 0}
    learnt = SentenceEmbedding(4, "neighbours", **settings).fit(together)
    assert learnt.loss_ < 0.8 * learnt.trace_.objective[0]
    nothing = SentenceEmbedding(4, "neighbours", **settings).fit(apart)
    assert nothing.loss_ == nothing.trace_.objective[0] == 0  # no target


# --- doors ------------------------------------------------------------------------------------------------------------


def test_bad_input_is_named():
    texts = texts_of()
    with pytest.raises(TypeError, match="words is a int"):
        SentenceVectors(7).fit(texts)
    with pytest.raises(ValueError, match="none of 2 words has a vector"):
        SentenceVectors(WORDS).fit(["other words"])
    with pytest.raises(ValueError, match="the texts are empty"):
        SentenceVectors(WORDS).fit(["", ""])
    with pytest.raises(ValueError, match="n_removed=6 directions of 5"):
        SentenceVectors(WORDS, n_removed=6).fit(texts)
    with pytest.raises(ValueError, match="method"):
        SentenceVectors(WORDS, method="median").fit(texts)
    with pytest.raises(ValueError, match="'a'"):
        SentenceVectors(WORDS, a=0.0).fit(texts)
    with pytest.raises(ValueError, match="min_alpha=1 exceeds"):
        SentenceEmbedding(min_alpha=1, min_count=1).fit(texts)
    with pytest.raises(ValueError, match="targets"):
        SentenceEmbedding(targets="letters").fit(texts)
    model = SentenceVectors(WORDS).fit(texts)
    with pytest.raises(TypeError, match="document 0 is a int"):
        model.transform([3])
    with pytest.raises(ValueError, match="n=0"):
        model.nearest("w1", texts, 0)
    assert model.transform([]).shape == (0, 5)
