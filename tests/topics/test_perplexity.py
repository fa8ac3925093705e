"""Held-out perplexity: the filter and completion equal enumeration, and enumeration equals the sum over all topics."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from lemmata import text, topics
from lemmata.audit.topics.documents import Documents
from lemmata.audit.topics.left_to_right import average, left_to_right
from lemmata.mixtures import Mixture
from lemmata.topics import PLSA, perplexity, unigram
from lemmata.topics.enumeration import enumerate_topics
from lemmata.topics.held_out import Perplexity, counts_in, prefix_lengths, prefixes


def planted(seed=0, n=5, m=6, k=3, length=7, spread=0.5, alpha=(0.3, 0.5, 1.0)):
    rng = np.random.default_rng(seed)
    phi, alpha = rng.dirichlet(np.full(m, spread), k), np.resize(np.asarray(alpha), k)
    return rng.multinomial(length, rng.dirichlet(alpha, n) @ phi), phi, alpha


def by_definition(words, phi, alpha):
    """Σ over all kᵀ sequences of topics."""
    total = 0.0
    for z in product(range(len(phi)), repeat=len(words)):
        n = np.bincount(z, minlength=len(phi))
        prior = gammaln(alpha.sum()) - gammaln(alpha.sum() + len(words))
        prior += (gammaln(alpha + n) - gammaln(alpha)).sum()
        total += np.exp(prior) * np.prod(phi[list(z), words])
    return np.log(total)


def test_enumeration_is_the_sum_over_all_topics_of_all_words():
    N, phi, alpha = planted()
    documents = Documents.of(N)
    expected = [by_definition(documents[d], phi, alpha) for d in range(len(N))]
    np.testing.assert_allclose(enumerate_topics(documents, phi, alpha), expected, rtol=1e-12)


@settings(max_examples=25)
@given(
    st.integers(1, 4),
    st.lists(st.integers(0, 4), min_size=4, max_size=4),
    st.floats(0.01, 20),
    st.integers(0, 999),
)
def test_probabilities_of_all_next_words_add_up(k, counts, alpha, seed):
    """Σ_w p(document, w) = p(document), for any model: a filter or a sum that loses probability shows."""
    phi = np.random.default_rng(seed).dirichlet(np.full(4, 0.4), k)
    with_one_more = np.array(counts) + np.eye(4, dtype=int)
    logs = perplexity((phi, alpha), with_one_more, method="exact").log_likelihoods
    alone = perplexity((phi, alpha), [counts], method="exact").log_likelihoods[0]
    assert np.exp(logs).sum() == pytest.approx(np.exp(alone), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("moves", [0, 1])
@pytest.mark.parametrize("particles", [1, 3])
def test_the_filter_is_unbiased(guided, moves, particles):
    """The mean of p̂/p over 3,000 filters is 1 within four of its standard errors (each document, each variant)."""
    N, phi, alpha = planted(seed=3)
    N[0] = [1, 0, 0, 0, 0, 1]  # of different lengths: some end before others
    documents = Documents.of(N)
    logs = left_to_right(
        documents, phi, alpha, particles=particles, runs=3000, moves=moves, seed=1, guided=guided
    )
    ratios = np.exp(logs - enumerate_topics(documents, phi, alpha)[:, None])
    error = ratios.std(axis=1) / np.sqrt(ratios.shape[1])
    assert (np.abs(ratios.mean(axis=1) - 1) < 4 * error + 1e-9).all()
    assert (logs.mean(axis=1) <= enumerate_topics(documents, phi, alpha) + 1e-9).all()  # Jensen


def test_the_variants_without_weights_would_be_biased():
    """The test above can fail: particles that are never chosen by weight, averaged at every word, are off by a tenth."""
    N, phi, alpha = planted(seed=3)
    words = Documents.of(N)[1]
    rng, logs = np.random.default_rng(0), []
    for _ in range(2000):
        counts, total = np.tile(alpha, (3, 1)), 0.0
        for t, w in enumerate(words):
            scores = counts * phi[:, w]
            total += np.log(scores.sum(axis=1).mean() / (alpha.sum() + t))
            ends = scores.cumsum(axis=1) / scores.sum(axis=1, keepdims=True)
            counts[np.arange(3), (ends < rng.random((3, 1))).sum(axis=1)] += 1
        logs.append(total)
    ratios = np.exp(np.array(logs) - by_definition(words, phi, alpha))
    assert abs(ratios.mean() - 1) > 4 * ratios.std() / np.sqrt(len(ratios))


@pytest.mark.parametrize("method", ["left-to-right", "completion"])
def test_estimates_equal_enumeration_within_their_standard_errors(method):
    """Sixty documents, six seeds: the total is off by a few standard errors, and the errors are not made large."""
    N, phi, alpha = planted(seed=1, n=60, m=12, length=14)
    deviations = []
    for seed in range(6):
        found = perplexity((phi, alpha), N, method=method, random_state=seed)
        documents = Documents.of(N, seed)
        exact = enumerate_topics(documents, phi, alpha)
        if method == "completion":
            exact = exact - enumerate_topics(
                prefixes(documents, prefix_lengths(documents, 0.5)), phi, alpha
            )
            assert found.n_tokens == 60 * 7
        nats = found.standard_error / found.perplexity * found.n_tokens
        assert nats < 0.05 * found.n_tokens
        deviations.append((found.log_likelihood - exact.sum()) / nats)
    assert max(map(abs, deviations)) < 4.5
    assert 0.2 < np.sqrt(np.mean(np.square(deviations))) < 2.2


def test_completion_and_whole_documents_are_told_apart():
    N, phi, alpha = planted(n=20, length=20, m=12)
    whole = perplexity((phi, alpha), N)
    completion = perplexity((phi, alpha), N, method="completion")
    assert (whole.quantity, completion.quantity) == ("p(w)", "p(w² | w¹)")
    assert completion.n_tokens < whole.n_tokens
    assert float(whole) == whole.perplexity
    assert "± " in repr(whole)


def test_long_documents_and_many_topics_agree_with_four_times_the_particles():
    N, phi, alpha = planted(seed=2, n=10, m=300, k=30, length=120, spread=0.1, alpha=(0.1,))
    few = perplexity((phi, alpha), N, particles=10, runs=4)
    many = perplexity((phi, alpha), N, particles=80, runs=4, random_state=1)
    unsure = np.hypot(few.standard_error, many.standard_error)
    assert abs(few.perplexity - many.perplexity) < 4 * unsure + 2 * few.bias
    assert few.standard_error < 0.01 * few.perplexity


def test_the_unigram_is_a_model_of_one_topic_and_smoothed_by_itself():
    N, phi, alpha = planted(seed=4, n=40, length=30)
    u, one = unigram(N)
    found = perplexity((u, one), N)
    assert found.log_likelihood == pytest.approx(float((N @ np.log(u[0])).sum()))
    assert (
        perplexity((u, one), 300 * N).n_tokens == 300 * N.sum()
    )  # long documents cost nothing here
    assert not found.variances.any()
    rare = np.array([[5, 1, 0]])
    assert 0 < unigram(rare)[0][0, 2] < unigram(rare)[0][0, 1] < unigram(rare)[0][0, 0]
    assert perplexity((phi, alpha), N).perplexity < found.perplexity  # there are topics


def test_one_topic_per_document_is_summed_up():
    N = planted(seed=5, n=30, length=25)[0].astype(float)
    mixture = Mixture(2, family="multinomial", random_state=0).fit(N)
    p = mixture.probabilities_
    expected = np.log(
        sum(
            w * np.exp(N @ np.log(np.maximum(row, 1e-300)))
            for w, row in zip(mixture.weights_, p, strict=True)
        )
    )
    found = perplexity(mixture, N)
    np.testing.assert_allclose(found.log_likelihoods, expected, rtol=1e-9)
    rest = N.sum(axis=1) - prefix_lengths(Documents.of(N), 0.5)
    assert perplexity(mixture, N, method="completion").n_tokens == rest.sum()
    with pytest.raises(TypeError, match="no model of words"):
        perplexity(Mixture(2, family="poisson", random_state=0).fit(N), N)


def test_plsa_has_no_probability_of_new_documents_but_completes_them():
    N = planted(seed=6, n=80, m=8, length=40)[0]
    model = PLSA(2, random_state=0).fit(N[:60])
    with pytest.raises(ValueError, match='method="completion"'):
        perplexity(model, N[60:])
    found = perplexity(model, N[60:], method="completion")
    assert 1 < found.perplexity < 8
    documents = Documents.of(N[60:])
    first = prefix_lengths(documents, 0.5)
    begun = counts_in(prefixes(documents, first)).toarray()
    p = model.transform(begun) @ model.topic_word_
    rest = N[60:] - begun
    logs = np.where(rest > 0, rest * np.log(np.where(rest > 0, p, 1)), 0).sum(axis=1)
    np.testing.assert_allclose(found.log_likelihoods, logs, rtol=1e-9)


def test_counts_bring_their_words_and_other_forms_say_the_same():
    documents = ["cat dog cat", "dog cat pet", "loss risk fit", "fit loss loss"] * 5
    counts = text.counts(documents)
    model = PLSA(2, random_state=0).fit(counts)
    assert perplexity(model, counts, method="completion").n_tokens == 20
    phi, alpha = model.topic_word_, np.full(2, 0.5)
    found = perplexity((phi, alpha), counts)
    for X in (counts.matrix, counts.matrix.toarray(), counts.matrix.toarray().tolist()):
        assert perplexity((phi, alpha), X).log_likelihood == found.log_likelihood


def test_words_without_probability_make_perplexity_infinite_not_wrong():
    phi = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])
    for method in ("left-to-right", "exact", "completion"):
        found = perplexity((phi, 1.0), [[3, 1, 0], [1, 1, 2], [0, 0, 0]], method=method)
        assert np.isinf(found.perplexity)
        np.testing.assert_array_equal(np.isfinite(found.log_likelihoods), [True, False, True])


def test_smoothing_gives_every_word_a_chance():
    phi, N = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]]), [[3, 1, 0], [1, 1, 2]]
    found = perplexity((phi, 1.0), N, method="exact", smoothing=0.1)
    expected = perplexity((0.9 * phi + 0.1 / 3, 1.0), N, method="exact")
    assert found.log_likelihood == expected.log_likelihood > -np.inf


def test_documents_without_words_have_probability_one():
    N, phi, alpha = planted()
    N[2] = 0
    for method in ("left-to-right", "exact", "completion"):
        assert perplexity((phi, alpha), N, method=method).log_likelihoods[2] == 0
    assert perplexity((phi, alpha), np.zeros((1, 6))).perplexity == 1


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ([[0.5, 1, 0, 0, 0, 0]], "occurs 0.5 times"),
        ([[-1, 1, 0, 0, 0, 0]], "least count is -1"),
        ([[np.nan, 1, 0, 0, 0, 0]], "NaN"),
        ([[1, 1]], r"2 words \(columns\), the topics 6"),
    ],
)
def test_counts_that_are_none_are_refused(X, words):
    _, phi, alpha = planted()
    with pytest.raises(ValueError, match=words):
        perplexity((phi, alpha), np.array(X))
    with pytest.raises(ValueError, match=words):
        perplexity((phi, alpha), sp.csr_array(np.array(X)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "harmonic"}, "'left-to-right', 'completion', 'exact'"),
        ({"particles": 0}, "particles=0"),
        ({"runs": 1}, "runs=1"),
        ({"observed": 1.0}, "observed=1.0"),
        ({"smoothing": 1}, "smoothing=1"),
        ({"random_state": None}, "random_state=None"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, words):
    N, phi, alpha = planted()
    with pytest.raises(ValueError, match=words):
        perplexity((phi, alpha), N, **options)


def test_models_that_are_none_are_refused():
    N, phi, alpha = planted()
    with pytest.raises(ValueError, match="sums to 2"):
        perplexity((2 * phi, alpha), N)
    with pytest.raises(ValueError, match="alpha"):
        perplexity((phi, alpha * 0), N)
    with pytest.raises(TypeError, match="states no topics"):
        perplexity(object(), N)
    with pytest.raises(ValueError, match="fewer topics or shorter documents"):
        perplexity((phi, alpha), 200 * N, method="exact")


def test_averages_over_runs_are_of_probabilities():
    logs = np.log(np.array([[0.2, 0.4], [0.5, 0.5]]))
    mean, variance = average(logs)
    np.testing.assert_allclose(np.exp(mean), [0.3, 0.5])
    assert variance[0] > variance[1] == 0


def test_what_is_low_on_average_is_stated_and_cancels_in_a_quotient():
    """Each ln p̂ is low by half its variance: of ln p̂(w) − ln p̂(w¹) by half the difference, and chance adds up."""
    logs, ones, tokens = np.array([-6.0, -4.0]), np.ones(2), np.array([2, 3])
    whole = Perplexity("p(w)", "", logs, 0.2 * ones, tokens)
    assert whole.perplexity == pytest.approx(np.exp(2))
    assert whole.bias == pytest.approx(np.exp(2) * 0.2 / 5)
    quotient = Perplexity("p(w² | w¹)", "", logs, 0.3 * ones, tokens, 0.1 * ones)
    assert quotient.bias == pytest.approx(np.exp(2) * 0.1 / 5)
    assert quotient.standard_error == pytest.approx(np.exp(2) * np.sqrt(0.6) / 5)


def test_the_public_names():
    assert {"perplexity", "unigram"} <= set(dir(topics))


def test_an_infinite_perplexity_says_why_and_its_advice_helps():
    rng = np.random.default_rng(0)
    train, test = rng.poisson(0.5, (40, 30)), rng.poisson(0.5, (10, 30))
    train[:, 5], test[:3, 5] = 0, 3  # a word that the topics do not know
    model = PLSA(3, random_state=0).fit(train)
    found = perplexity(model, test, method="completion")
    assert np.isinf(float(found))
    assert "smoothing=0.01" in str(found)
    assert (found.standard_error, found.bias) == (np.inf, 0.0)
    helped = perplexity(model, test, method="completion", smoothing=0.01)
    assert np.isfinite(float(helped))
    assert "smoothing" not in str(helped)
