"""Gibbs sampling of LDA: draws follow the formula, chains have the exact distribution, blocks of a round are apart."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import gammaln
from scipy.stats import chisquare

import lemmata
from lemmata.core import Blocks, Checkpoint, MaxSteps, run
from lemmata.topics import LDA
from lemmata.topics.lda.gibbs import GibbsAlgorithm
from lemmata.topics.lda.tokens import Tokens

TINY = np.array([[2.0, 1, 0, 0], [0, 1, 2, 0]])  # nobody writes the last word


def tokens_of(counts, k, compile="never", parts=None):
    with lemmata.config(compile=compile):
        return Tokens(Blocks.of(np.asarray(counts, float)), k, 1, parts)


def log_joint(tokens, topics, alpha, beta):
    """ln p(w, z) as gibbs.py writes it; beta is (m, k)."""
    k = len(alpha)
    documents, words = tokens.count(np.asarray(topics), k)
    found = 0.0
    for counts, prior in [(row, alpha) for row in documents] + list(
        zip(words.T, beta.T, strict=True)
    ):
        found += gammaln(prior.sum()) - gammaln(counts.sum() + prior.sum())
        found += (gammaln(counts + prior) - gammaln(prior)).sum()
    return found


def planted(n, m, k, length, seed=0):
    rng = np.random.default_rng(seed)
    theta, phi = rng.dirichlet(np.full(k, 0.2), n), rng.dirichlet(np.full(m, 0.1), k)
    return rng.multinomial(length, theta @ phi).astype(float), theta, phi


def test_a_draw_has_the_probabilities_of_the_formula():
    from lemmata.topics.lda import _kernels_gibbs as kernels

    k, m, rng = 21, 5, np.random.default_rng(0)
    tokens = tokens_of([[3, 2, 4, 0, 9], [9, 5, 0, 1, 7]], k, "always")
    topics = rng.integers(k, size=len(tokens)).astype(np.int16)
    documents, words = tokens.count(topics, k)
    alpha, beta, t = rng.uniform(0.05, 2, k), rng.uniform(0.01, 1, (m, k)), 4
    d, w, old = tokens.documents[t], tokens.words[t], topics[t]
    documents[d, old] -= 1
    words[w, old] -= 1
    p = (documents[d] + alpha) * (words[w] + beta[w]) / (words.sum(axis=0) + beta.sum(axis=0))
    documents[d, old] += 1
    words[w, old] += 1
    drawn, totals = np.empty(8_000, int), words.sum(axis=0) + beta.sum(axis=0)
    for seed in range(len(drawn)):
        one = topics[t : t + 1].copy()
        D = kernels._with_prior(documents[d : d + 1], np.float32(alpha)[None])
        W, (inverse, *room) = kernels._with_prior(words, np.float32(beta)), kernels._buffers(2)
        kernels.sample_block(
            one, tokens.words[t : t + 1], np.array([0, 1]), D, W, inverse, totals.copy(), *room, np.uint64(k),
            np.uint64(seed * 7919),
        )  # fmt: skip
        drawn[seed] = one[0]
    assert chisquare(np.bincount(drawn, minlength=k), p / p.sum() * len(drawn)).pvalue > 1e-4


@pytest.mark.parametrize("compile", ["never", "always"])
def test_chains_have_the_exact_distribution(compile):
    """How often two tokens share a topic, against the sum over all 2^6 assignments."""
    tokens, alpha, beta = tokens_of(TINY, 2, compile), np.array([0.4, 0.9]), np.full((4, 2), 0.3)
    every = list(product(range(2), repeat=len(tokens)))
    p = np.exp([log_joint(tokens, z, alpha, beta) for z in every])
    p /= p.sum()
    shared = np.array([[z[0] == z[i] for i in range(1, len(tokens))] for z in every], float)
    algorithm, passes = GibbsAlgorithm(tuple(alpha), beta[:1]), 3000
    state = algorithm.init(tokens, np.random.default_rng(1))
    seen = np.empty((passes, len(tokens) - 1))
    for t in range(passes):
        state = algorithm.step(state, tokens)
        seen[t] = state.topics[0] == state.topics[1:]
    batches = seen.reshape(50, -1, seen.shape[1]).mean(
        axis=1
    )  # long enough to be nearly independent
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    assert (np.abs(seen.mean(axis=0) - p @ shared) < 5 * error).all()


@pytest.mark.parametrize("compile", ["never", "always"])
def test_counts_and_loss_are_those_of_the_topics(compile):
    N, *_ = planted(40, 30, 3, 20)
    N[5] = 0  # an empty document
    k, rng = 18, np.random.default_rng(0)
    tokens = tokens_of(N, k, compile, parts=4 if compile == "always" else 1)
    alpha, beta = rng.uniform(0.05, 1, k), rng.uniform(0.01, 1, (30, k))
    algorithm = GibbsAlgorithm(tuple(alpha), beta)
    state = algorithm.init(tokens, rng)
    for _ in range(3):
        before = state.topics.copy(), state.words.copy()
        after = algorithm.step(state, tokens)
        assert np.array_equal(before[0], state.topics)
        assert np.array_equal(before[1], state.words)
        state = after
    documents, words = tokens.count(state.topics, k)
    np.testing.assert_array_equal(state.documents, documents)
    np.testing.assert_array_equal(state.words, words)
    assert state.loss == pytest.approx(-log_joint(tokens, state.topics, alpha, beta), rel=1e-10)


def test_averages_weigh_late_passes_more():
    tokens = tokens_of(TINY, 2)
    algorithm = GibbsAlgorithm((0.5, 0.5), np.full((1, 2), 0.1))
    state, rows = algorithm.init(tokens, np.random.default_rng(0)), []
    for _ in range(6):
        state = algorithm.step(state, tokens)
        rows.append(state.words)
    weights = np.array([np.prod(np.arange(t, t + 8.0)) for t in range(1, 7)])
    mean = np.tensordot(weights / weights.sum(), rows, axes=1)
    np.testing.assert_allclose(state.mean_words, mean, atol=1e-5)


@given(arrays(np.int64, (9, 7), elements=st.integers(0, 4)), st.integers(1, 5))
def test_blocks_of_a_round_share_neither_documents_nor_words(counts, parts):
    tokens = tokens_of(counts, 2, parts=parts)
    found = np.zeros_like(counts)
    np.add.at(found, (tokens.documents, tokens.words), 1)
    np.testing.assert_array_equal(found, counts)
    for shift in range(parts):
        mine = [tokens.blocks[a][(a + shift) % parts] for a in range(parts)]
        for what in (tokens.documents, tokens.words):
            sets = [set(what[one.start : one.stop].tolist()) for one in mine]
            assert sum(map(len, sets)) == len(set().union(*sets))
    for one in (block for row in tokens.blocks for block in row):
        inside = np.repeat(np.arange(one.first, one.last), np.diff(one.indptr))
        np.testing.assert_array_equal(tokens.documents[one.start : one.stop], inside)


def test_bits_do_not_depend_on_threads(monkeypatch):
    N, *_ = planted(60, 30, 3, 30)
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        tokens = tokens_of(N, 5, "always", parts=4)
        algorithm = GibbsAlgorithm((0.1,) * 5, np.full((1, 5), 0.01), learn=True)
        found.append(run(algorithm, tokens, stop=MaxSteps(12), rng=0).state)
    np.testing.assert_array_equal(found[0].topics, found[1].topics)
    np.testing.assert_array_equal(found[0].alpha, found[1].alpha)
    assert found[0].loss == found[1].loss


@pytest.mark.parametrize("compile", ["never", "always"])
def test_a_run_resumed_is_the_run_never_stopped(tmp_path, compile):
    N, *_ = planted(30, 20, 3, 20)
    tokens, path = tokens_of(N, 3, compile), tmp_path / "lda.ckpt"
    algorithm = GibbsAlgorithm((0.1,) * 3, np.full((1, 3), 0.01), learn=True)
    whole = run(algorithm, tokens, stop=MaxSteps(15), rng=0).state
    run(algorithm, tokens, stop=MaxSteps(6), rng=0, callbacks=[Checkpoint(path)])
    parts = run(algorithm, tokens, stop=MaxSteps(15), rng=0, callbacks=[Checkpoint(path)]).state
    for name in ("topics", "mean_words", "mean_documents", "alpha"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


def test_chains_are_kept_for_their_agreement():
    N, *_ = planted(50, 30, 3, 30)
    model = LDA(3, n_chains=3, max_iter=20, random_state=0).fit(N)
    chains = model.chain_log_likelihoods_
    assert chains.shape == (3, 10)
    assert len({*chains[:, -1]}) == 3
    assert -model.trace_.last() == chains[:, -1].max()
    assert LDA(3, max_iter=20, random_state=0).fit(N).chain_log_likelihoods_.shape == (1, 10)


def test_whole_numbers_are_asked_for():
    with pytest.raises(ValueError, match=r'whole numbers for learning_method="gibbs".*found 0\.5'):
        LDA(2).fit([[1.0, 0.5], [2.0, 1.0]])
    with pytest.raises(ValueError, match="sample weights are whole numbers"):
        LDA(2).fit([[1.0, 3], [2.0, 1.0]], sample_weight=[1, 0.5])
    with pytest.raises(ValueError, match="counts up to 16,777,216"):
        LDA(2).fit([[2.0**25, 1.0]])


def test_weight_two_is_the_document_twice():
    N, *_ = planted(12, 10, 2, 15)
    weights = np.arange(12) % 3
    model = LDA(2, max_iter=8, random_state=0).fit(N, sample_weight=weights)
    twice = LDA(2, max_iter=8, random_state=0).fit(np.repeat(N, weights, axis=0))
    np.testing.assert_array_equal(model.components_, twice.components_)
    assert model.doc_topic_.shape == (12, 2)
