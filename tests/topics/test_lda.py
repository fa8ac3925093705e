"""LDA as it is used: planted topics are found, new documents are understood and drawn, bad input is named."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from test_lda_gibbs import planted

import lemmata
from lemmata import text
from lemmata.topics import LDA


def overlap(model, phi):
    """The mean probability that topics, matched, have in common with the planted ones."""
    shared = np.minimum(model.topic_word_[:, None], phi[None]).sum(axis=2)
    return shared[linear_sum_assignment(-shared)].mean()


@pytest.mark.parametrize("method", ["gibbs", "batch", "online"])
def test_planted_topics_are_found(method):
    N, _, phi = planted(400, 60, 3, 80)
    with lemmata.config(compile="always"):
        model = LDA(
            3, learning_method=method, batch_size=50, doc_topic_prior="auto", random_state=0,
            max_iter=60 if method == "gibbs" else None,
        ).fit(N)  # fmt: skip
    assert overlap(model, phi) > 0.9
    if method == "gibbs":  # variational inference finds less, as it is known to
        np.testing.assert_allclose(model.doc_topic_prior_, 0.2, rtol=0.25)
    if method != "online":
        np.testing.assert_allclose(model.doc_topic_.sum(axis=1), 1, rtol=1e-9)


@pytest.mark.parametrize("compile", ["never", "always"])
def test_transform_maximises_the_penalised_likelihood(compile):
    """θ_j (Σ_w N_w φ_jw/p_w + α_j/θ_j) = θ_j (N + A) at the only maximum."""
    N, *_ = planted(60, 30, 4, 50)
    model = LDA(4, max_iter=20, doc_topic_prior=[0.1, 0.3, 0.2, 0.5], random_state=0).fit(N)
    new, *_ = planted(20, 30, 4, 40, seed=9)
    new[0] = 0
    with lemmata.config(compile=compile):
        theta = model.transform(sp.csr_array(new))
    alpha = model.doc_topic_prior_
    np.testing.assert_allclose(theta[0], alpha / alpha.sum())
    phi, totals = model.topic_word_, new.sum(axis=1, keepdims=True)
    expected = (alpha + theta * ((new / (theta @ phi)) @ phi.T)) / (alpha.sum() + totals)
    np.testing.assert_allclose(theta, expected, atol=2e-3)
    np.testing.assert_allclose(theta.sum(axis=1), 1)


def test_documents_drawn_follow_the_model():
    N, *_ = planted(100, 20, 3, 50)
    model = LDA(3, max_iter=30, doc_topic_prior=[0.1, 0.6, 1.0], random_state=0).fit(N)
    drawn = model.sample(4000, length=30, random_state=1)
    assert drawn.shape == (4000, 20)
    assert (drawn.sum(axis=1) == 30).all()
    alpha = model.doc_topic_prior_
    expected, seen = (
        alpha / alpha.sum() @ model.topic_word_,
        np.asarray(drawn.mean(axis=0)).ravel() / 30,
    )
    assert np.abs(seen - expected).max() < 0.02
    # a few topics each: θ has variance m(1 − m)/(A + 1)
    again = model.sample(3, length=[0, 5, 9], random_state=1)
    assert again.sum(axis=1).tolist() == [0, 5, 9]
    with pytest.raises(ValueError, match="length is a number of tokens"):
        model.sample(2, length=-1)


def test_draws_of_tiny_priors_are_documents():
    model = LDA(3, max_iter=3, doc_topic_prior=1e-5, random_state=0).fit(planted(20, 8, 3, 20)[0])
    assert (model.sample(50, length=10, random_state=0).sum(axis=1) == 10).all()


def test_seed_words_call_their_topic():
    documents = ["cat dog pet cat", "dog pet cat", "loss risk fit", "fit loss loss risk"] * 5
    counts = text.counts(documents)
    for method in ("gibbs", "batch"):
        model = LDA(
            2,
            learning_method=method,
            seed_words={1: ["cat"], 0: ["loss"]},
            max_iter=30,
            random_state=0,
        ).fit(counts)
        tops = model.top_words(3)
        assert set(tops[1]) == {"cat", "dog", "pet"}
        assert "loss" in tops[0]
        assert model.topic_word_prior_.shape == (2, 6)
    assert model.sample(2, 4, random_state=0).words.tolist() == counts.words.tolist()
    for seeds, message in (
        ({2: ["cat"]}, "topics are numbers 0 … 1"),
        ({0: ["lion"]}, "'lion' is not among the 6 words"),
        ({0: "cat"}, "pass a list of words"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            LDA(2, seed_words=seeds).fit(counts)


def test_bad_input_is_named():
    N, *_ = planted(10, 6, 2, 10)
    for settings, message in (
        ({"doc_topic_prior": [0.1, 0.2, 0.3]}, r"doc_topic_prior has shape \(3,\)"),
        ({"doc_topic_prior": [0.1, -1]}, "doc_topic_prior is finite and > 0"),
        ({"topic_word_prior": np.ones(5)}, r"topic_word_prior has shape \(5,\)"),
        ({"learning_method": "em"}, "learning_method"),
    ):
        with pytest.raises(ValueError, match=message):
            LDA(2, **settings).fit(N)
    for method in ("gibbs", "batch", "online"):
        with pytest.raises(ValueError, match="Negative values"):
            LDA(2, learning_method=method).fit(-N)
        empty = LDA(2, learning_method=method, max_iter=2, random_state=0).fit(np.zeros((3, 4)))
        np.testing.assert_allclose(empty.transform(np.zeros((1, 4))), 0.5)


def test_word_order_in_columns_does_not_matter_for_variational_topics():
    N, *_ = planted(30, 10, 2, 20)
    one = LDA(2, learning_method="batch", random_state=0).fit(N)
    two = LDA(2, learning_method="batch", random_state=0).fit(sp.csc_array(N))
    np.testing.assert_array_equal(one.components_, two.components_)
