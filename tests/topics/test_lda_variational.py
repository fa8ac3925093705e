"""Variational LDA: the bound never falls and stays below ln p(w), kernel and twin agree, scikit-learn states the same bound."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp, psi
from sklearn.decomposition import LatentDirichletAllocation
from test_lda_gibbs import TINY, log_joint, planted, tokens_of

import lemmata
from lemmata.core.blocks import Blocks
from lemmata.core.loop import MaxSteps, run
from lemmata.topics import LDA
from lemmata.topics.lda.documents import Documents
from lemmata.topics.lda.priors import learn_doc_topic_prior
from lemmata.topics.lda.variational import VariationalAlgorithm, best_prior, inverse_digamma


def documents_of(N, k, compile="never"):
    with lemmata.config(compile=compile):
        return Documents(Blocks.of(sp.csr_array(N)), k, 1)


@given(st.integers(0, 2**31), st.booleans())
def test_the_bound_never_falls(seed, learn):
    N, *_ = planted(15, 10, 3, 20, seed)
    N[3] = 0
    rng = np.random.default_rng(seed)
    algorithm = VariationalAlgorithm(
        tuple(rng.uniform(0.01, 1, 3)), rng.uniform(0.01, 1, (10, 3)), learn
    )
    trace = run(algorithm, documents_of(N, 3), stop=MaxSteps(12), rng=seed).trace
    assert trace.largest_rise < 1e-12


def test_the_bound_is_below_the_likelihood():
    """ln p(w) by the sum over all 2^6 assignments of topics."""
    tokens, alpha, beta = tokens_of(TINY, 2), np.array([0.4, 0.9]), np.full((4, 2), 0.3)
    every = product(range(2), repeat=len(tokens))
    exact = logsumexp([log_joint(tokens, z, alpha, beta) for z in every])
    model = LDA(
        2, learning_method="batch", doc_topic_prior=alpha, topic_word_prior=0.3, random_state=0, tol=1e-10
    ).fit(TINY)  # fmt: skip
    assert exact - 3 < model.lower_bound_ < exact


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_kernel_and_twin_agree(dtype):
    N, *_ = planted(50, 40, 3, 30)
    N[7] = 0
    rng, k = np.random.default_rng(0), 19
    weights, beta = rng.uniform(0, 2, 50), rng.uniform(0.01, 1, (40, k))
    algorithm, found = VariationalAlgorithm(tuple(rng.uniform(0.02, 1, k)), beta), []
    for compile in ("never", "always"):
        data = Documents(
            Blocks.of(sp.csr_array(N.astype(dtype)), weights), k, 1, compiled=compile == "always"
        )
        found.append(run(algorithm, data, stop=MaxSteps(3), rng=0).state)
    close = 1e-9 if dtype is np.float64 else 1e-3
    for name in ("gamma", "lam", "words"):
        one, two = (getattr(state, name) for state in found)
        assert one.dtype == two.dtype == dtype
        np.testing.assert_allclose(one, two, rtol=close, atol=close)
    assert found[0].loss == pytest.approx(found[1].loss, rel=close / 100)


def test_scikit_learn_states_the_same_bound():
    N, *_ = planted(60, 30, 3, 40)
    model = LDA(
        3, learning_method="batch", random_state=0, doc_topic_prior=0.3, topic_word_prior=0.2
    )
    model.fit(N)
    peer = LatentDirichletAllocation(3, doc_topic_prior=0.3, topic_word_prior=0.2, max_iter=1).fit(
        N
    )
    peer.components_ = model.components_
    logs = psi(model.components_) - psi(model.components_.sum(axis=1, keepdims=True))
    peer.exp_dirichlet_component_ = np.exp(logs)
    gamma = model.doc_topic_ * (N.sum(axis=1, keepdims=True) + 3 * 0.3)  # Σ_j γ_dj = N_d + A
    assert model.lower_bound_ == pytest.approx(peer._approx_bound(N, gamma, False), rel=1e-10)


def test_weight_two_is_the_document_twice():
    N, *_ = planted(20, 12, 2, 15)
    weights = np.arange(20) % 3
    one = LDA(2, learning_method="batch", random_state=0).fit(N, sample_weight=weights)
    two = LDA(2, learning_method="batch", random_state=0).fit(np.repeat(N, weights, axis=0))
    np.testing.assert_allclose(one.components_, two.components_, rtol=1e-8)
    assert one.lower_bound_ == pytest.approx(two.lower_bound_, rel=1e-12)


# --- online -----------------------------------------------------------------------------------------------------------


def test_batches_one_by_one_are_a_pass_over_them():
    N, *_ = planted(90, 20, 3, 25)
    blocks = [N[:30], N[30:70], N[70:]]
    settings = {
        "learning_method": "online",
        "batch_size": 25,
        "random_state": 0,
        "total_samples": 90,
    }
    whole = LDA(3, max_iter=1, **settings).fit(blocks)
    parts = LDA(3, **settings)
    for block in blocks:
        parts.partial_fit(block)
    np.testing.assert_array_equal(whole.components_, parts.components_)
    assert parts.stopped_ == "batches"
    assert len(parts.trace_) == 3
    with pytest.raises(ValueError, match="partial_fit goes on with"):
        LDA(3).partial_fit(N)


def test_a_batch_moves_topics_by_its_rate():
    """λ ← (1 − ρ) λ + ρ (β + D/|B| Σ N q): all documents as the first batch, at rate (τ₀ + 1)^−κ."""
    N, *_ = planted(30, 12, 2, 25)
    settings = {
        "learning_method": "online",
        "random_state": 3,
        "learning_decay": 0.6,
        "learning_offset": 4.0,
    }
    model = LDA(2, max_iter=1, **settings).fit(N)
    rate, tokens = 5.0**-0.6, N.sum()
    rng = np.random.default_rng(3)
    start = rng.gamma(100.0, 0.01, size=(12, 2)) + 0.01
    expected = (1 - rate) * start.sum() + rate * (0.01 * 24 + tokens)
    assert model.components_.sum() == pytest.approx(expected, rel=1e-10)


def test_words_that_come_late_are_learnt():
    """exp(ψ(0.01)) is 1e-44, less than float32 has: a word's topics are compared with each other instead."""
    early, late = np.float32([[5, 5, 0, 0], [4, 6, 0, 0]]), np.float32([[0, 0, 5, 5], [0, 0, 6, 4]])
    model = LDA(2, learning_method="online", random_state=0, learning_offset=1.0, total_samples=4)
    for _ in range(30):
        model.partial_fit(early)
    for _ in range(200):
        model.partial_fit(late)
        model.partial_fit(early)
    theta = model.transform(np.concatenate([early, late]))
    assert theta[0].argmax() != theta[2].argmax()
    assert theta.max(axis=1).min() > 0.9
    assert model.components_.dtype == np.float32


# --- α ----------------------------------------------------------------------------------------------------------------


def dirichlet_counts(alpha, n, length, seed=0):
    rng = np.random.default_rng(seed)
    return rng.multinomial(length, rng.dirichlet(alpha, n)).astype(float)


def test_the_fixed_point_finds_alpha_and_never_lowers_the_likelihood():
    true = np.array([0.1, 0.4, 1.5])
    counts = dirichlet_counts(true, 3000, 60)

    def likelihood(alpha):
        A, N = alpha.sum(), counts.sum(axis=1)
        each = (gammaln(counts + alpha) - gammaln(alpha)).sum(axis=1)
        return float((gammaln(A) - gammaln(N + A) + each).sum())

    alpha, values = np.ones(3), []
    for _ in range(40):
        values.append(likelihood(alpha))
        alpha = learn_doc_topic_prior(counts, alpha)
    assert (np.diff(values) > -1e-9 * abs(values[0])).all()
    np.testing.assert_allclose(alpha, true, rtol=0.1)


def test_variational_alpha_solves_its_equation():
    gamma = np.random.default_rng(0).gamma(1.0, size=(200, 4)) + 0.05
    alpha = np.full(4, 0.5)
    for _ in range(50):
        alpha = best_prior(gamma, None, alpha)
    mean = (psi(gamma) - psi(gamma.sum(axis=1, keepdims=True))).mean(axis=0)
    np.testing.assert_allclose(psi(alpha) - psi(alpha.sum()), mean, atol=1e-8)
    y = np.array([-1e4, -50.0, -2.22, 0, 3, 10])
    np.testing.assert_allclose(psi(inverse_digamma(y)), y, rtol=1e-9, atol=1e-9)
