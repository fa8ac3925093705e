"""Variational LDA: the bound never falls and stays below ln p(w), kernel and twin agree, as does scikit-learn."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp, psi
from sklearn.decomposition import LatentDirichletAllocation
from test_lda_gibbs import TINY, planted

import lemmata
from lemmata.core import Blocks, MaxSteps, run
from lemmata.topics import LDA
from lemmata.topics.lda.documents import DocumentParts
from lemmata.topics.lda.priors import learn_doc_topic_prior
from lemmata.topics.lda.variational import (
    VariationalAlgorithm,
    best_prior,
    first_gamma,
    inverse_digamma,
)


def documents_of(N, k, compile="never"):
    with lemmata.config(compile=compile):
        return DocumentParts(Blocks.of(sp.csr_array(N)), k, 1)


@settings(max_examples=12)
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
    """ln p(w | φ, α) by the sum over all assignments of topics to the tokens of each document."""
    alpha = np.array([0.4, 0.9])
    model = LDA(
        2, learning_method="batch", doc_topic_prior=alpha, topic_word_prior=0.3, random_state=0
    )
    model.fit(TINY)
    exact = 0.0
    for row in TINY.astype(int):
        words, logs = np.repeat(np.arange(4), row), []
        for z in product(range(2), repeat=len(words)):
            counts = np.bincount(z, minlength=2)
            prior = gammaln(counts + alpha).sum() - gammaln(alpha).sum()
            prior += gammaln(alpha.sum()) - gammaln(alpha.sum() + len(words))
            logs.append(prior + np.log(model.topic_word_[list(z), words]).sum())
        exact += logsumexp(logs)
    assert exact - 1 < model.lower_bound_ < exact


def test_a_step_is_that_of_the_formulas():
    """L as variational.py writes it, from the public attributes, and φ from q."""
    N, *_ = planted(30, 12, 3, 25)
    rng = np.random.default_rng(0)
    alpha, beta = rng.uniform(0.1, 1, 3), rng.uniform(0.01, 1, (12, 3))
    state = run(
        VariationalAlgorithm(tuple(alpha), beta), documents_of(N, 3), stop=MaxSteps(2), rng=0
    ).state
    gamma, phi = state.gamma, state.lam / state.lam.sum(axis=0)
    logs = psi(gamma) - psi(gamma.sum(axis=1, keepdims=True))
    p = np.exp(logs)[:, None, :] * phi[None]  # (n, m, k)
    q = p / p.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(state.words, (N[:, :, None] * q).sum(axis=0), rtol=1e-10)
    bound = (N * np.log(p.sum(axis=2))).sum() + 30 * (gammaln(alpha.sum()) - gammaln(alpha).sum())
    bound += (gammaln(gamma) + (alpha - gamma) * logs).sum() - gammaln(gamma.sum(axis=1)).sum()
    assert state.bound == pytest.approx(bound, rel=1e-12)
    assert state.loss == pytest.approx(-bound - (beta * np.log(phi)).sum(), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_kernel_and_twin_agree(dtype):
    N, *_ = planted(50, 40, 3, 30)
    N[7] = 0
    rng, k = np.random.default_rng(0), 19
    weights, beta = rng.uniform(0, 2, 50), rng.uniform(0.01, 1, (40, k))
    algorithm, found = VariationalAlgorithm(tuple(rng.uniform(0.02, 1, k)), beta), []
    for compile in ("never", "always"):
        data = DocumentParts(
            Blocks.of(sp.csr_array(N.astype(dtype)), weights), k, 1, compiled=compile == "always"
        )
        found.append(run(algorithm, data, stop=MaxSteps(3), rng=0).state)
    close = 1e-9 if dtype is np.float64 else 1e-3
    for name in ("gamma", "lam", "words"):
        one, two = (getattr(state, name) for state in found)
        assert one.dtype == two.dtype == dtype
        np.testing.assert_allclose(one, two, rtol=close, atol=close)
    assert found[0].loss == pytest.approx(found[1].loss, rel=close / 100)


@pytest.mark.parametrize("compile", [False, True])
def test_scikit_learn_finds_the_same_documents(compile):
    """γ of the same topics; scikit-learn's φ are exp(E ln φ), which here are set to φ."""
    N, *_ = planted(60, 30, 3, 40)
    phi = np.random.default_rng(1).dirichlet(np.full(30, 0.1), 3)
    peer = LatentDirichletAllocation(
        3, doc_topic_prior=0.3, max_iter=1, mean_change_tol=1e-10, max_doc_update_iter=1000, random_state=0
    ).fit(N)  # fmt: skip
    peer.exp_dirichlet_component_ = phi
    data, alpha = DocumentParts(Blocks.of(sp.csr_array(N)), 3, 1, compiled=compile), np.full(3, 0.3)
    start = first_gamma(N.sum(axis=1), alpha, np.float64)
    gamma, *_ = data.kernels.expect(sp.csr_array(N), None, start, phi.T.copy(), alpha, 1000, 1e-10)
    # its ψ is an approximation
    np.testing.assert_allclose(gamma, peer._unnormalized_transform(N), rtol=1e-5, atol=1e-5)


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
    assert not hasattr(LDA(3), "partial_fit")


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
    start = rng.gamma(100.0, 0.01, size=(12, 2)) + 0.05
    expected = (1 - rate) * start.sum() + rate * (0.05 * 24 + tokens)
    assert model.components_.sum() == pytest.approx(expected, rel=1e-10)


def test_words_that_come_late_are_learnt():
    early, late = np.float32([[5, 5, 0, 0], [4, 6, 0, 0]]), np.float32([[0, 0, 5, 5], [0, 0, 6, 4]])
    model = LDA(2, learning_method="online", random_state=0, learning_offset=1.0, total_samples=4)
    for _ in range(30):
        model.partial_fit(early)
    for _ in range(60):
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
