"""pLSA: EM never lowers the likelihood, kernel and twin agree, order and blocks do not matter, planted topics are found."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import NMF

import lemmata
from lemmata import text
from lemmata.topics import PLSA
from lemmata.topics.plsa import _twins
from lemmata.topics.plsa.em import PLSAAlgorithm, normalised


def planted(n=300, m=60, k=3, length=200, seed=0):
    """Counts of documents drawn from topics that share few words."""
    rng = np.random.default_rng(seed)
    theta, phi = rng.dirichlet(np.full(k, 0.2), n), rng.dirichlet(np.full(m, 0.1), k)
    return rng.multinomial(length, theta @ phi).astype(float), theta, phi


def dense_step(N, theta, phi):
    """EM as CIL 3.2.3 writes it, with q_dwz stored."""
    q = theta[:, None, :] * phi[None]  # (n, m, k)
    total = q.sum(axis=2, keepdims=True)
    q /= np.where(total > 0, total, 1)  # a word that nobody wrote has no probability
    weighted = N[:, :, None] * q
    return normalised(weighted.sum(axis=1), 1), normalised(weighted.sum(axis=0), 0)


def loglik(N, theta, phi):
    seen = N > 0
    return float((N[seen] * np.log((theta @ phi.T)[seen])).sum())


@pytest.mark.parametrize("compile", ["never", "always"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_step_is_that_of_the_notes(compile, dtype):
    N, *_ = planted(n=40, m=30, length=50)
    with lemmata.config(compile=compile):
        model = PLSA(3)
        data = model._validated(sp.csr_array(N.astype(dtype)))
        algorithm, corpus = PLSAAlgorithm(3), model._problem(data)
        state = algorithm.init(corpus, np.random.default_rng(0))
        after = algorithm.step(state, corpus)
    theta, phi = dense_step(N, state.theta.astype(float), state.phi.astype(float))
    close = 1e-12 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(after.theta, theta, atol=close)
    np.testing.assert_allclose(after.phi, phi, atol=close)
    assert after.loss == pytest.approx(-loglik(N, theta, phi), rel=close)
    assert after.theta.dtype == dtype


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([1.0, 0.6]))
def test_the_likelihood_never_falls_tempered_or_not(seed, temper):
    N, *_ = planted(n=20, m=12, length=30, seed=seed)
    N[3] = 0  # an empty document
    model = PLSA(3, temper=temper, max_iter=15, tol=0.0, random_state=0).fit(N)
    assert model.trace_.largest_rise <= 1e-12
    assert "likelihood_never_fell" in model.certificate_.held
    np.testing.assert_allclose(model.doc_topic_.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(model.components_.sum(axis=1), 1, rtol=1e-12)
    assert np.isfinite(model.log_likelihood_)


def test_planted_topics_are_found():
    N, theta, phi = planted(n=600, length=400)
    model = PLSA(3, tol=1e-8, max_iter=2000, random_state=0).fit(N)
    apart = 0.5 * np.abs(model.components_[:, None] - phi[None]).sum(axis=2)
    rows, columns = linear_sum_assignment(apart)
    assert apart[rows, columns].max() < 0.05
    assert np.abs(model.doc_topic_[:, rows] - theta[:, columns]).mean() < 0.03
    assert model.certify(N).failed == []


def test_it_is_kl_factorisation_by_another_name():
    """Scaled to one, the factors of KL-NMF are mixtures and topics, and both criteria agree (CIL 3.2.5)."""
    N, *_ = planted(n=80, m=30, length=100)
    nmf = NMF(
        3,
        beta_loss="kullback-leibler",
        solver="mu",
        init="random",
        random_state=0,
        max_iter=3000,
        tol=1e-9,
    )
    W = nmf.fit_transform(N)
    sizes = nmf.components_.sum(axis=1)
    theta = normalised(W * sizes, 1)
    theirs = loglik(N, theta, (nmf.components_ / sizes[:, None]).T)
    ours = max(
        PLSA(3, tol=1e-9, max_iter=3000, random_state=seed).fit(N).log_likelihood_
        for seed in range(3)
    )
    assert ours == pytest.approx(theirs, rel=1e-3)
    one = dense_step(N, theta, (nmf.components_ / sizes[:, None]).T)  # nothing is left for EM to do
    assert theirs <= loglik(N, *one) <= theirs + 1e-4 * abs(theirs)


def test_sparse_dense_blocks_and_weights_are_one_fit():
    N, *_ = planted(n=50, m=20, length=40)
    fit = PLSA(3, max_iter=20, tol=0.0, random_state=0).fit
    whole = fit(N).log_likelihood_
    assert fit(sp.csr_array(N)).log_likelihood_ == pytest.approx(whole, rel=1e-12)
    assert fit([N[:20], N[20:]]).log_likelihood_ == pytest.approx(whole, rel=1e-12)
    stored = sp.csr_array(N)
    stored.data[::7] = 0  # zeros that are stored say nothing
    cleaned = stored.copy()
    cleaned.eliminate_zeros()
    assert fit(stored).log_likelihood_ == pytest.approx(fit(cleaned).log_likelihood_, rel=1e-12)
    weights = np.where(np.arange(50) < 10, 2.0, 1.0)
    twice = PLSA(3, tol=1e-9, max_iter=500, random_state=0).fit(N, sample_weight=weights)
    assert twice.log_likelihood_ == pytest.approx(
        loglik(N * weights[:, None], twice.doc_topic_, twice.components_.T)
    )


def test_the_bits_do_not_depend_on_threads(monkeypatch):
    N = sp.csr_array(planted(n=400, m=50, length=100)[0])
    found = []
    for threads in ("1", "4"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        found.append(PLSA(4, max_iter=5, tol=0.0, random_state=0).fit(N).components_)
    assert np.array_equal(*found)


@pytest.mark.parametrize("compile", ["never", "always"])
def test_new_documents_get_their_best_mixture(compile):
    """Fold-in maximises a concave function: no topic's slope may exceed the document's length by more than the tolerance."""
    N, *_ = planted(n=200, m=40, length=100)
    with lemmata.config(compile=compile):
        model = PLSA(3, random_state=0).fit(N[:150])
        theta = model.transform(N[150:])
    np.testing.assert_allclose(theta.sum(axis=1), 1, rtol=1e-9)
    p = theta @ model.components_
    slopes = (np.where(p > 0, N[150:] / np.where(p > 0, p, 1), 0) @ model.components_.T) / 100
    assert slopes.max() <= 1 + 2e-4


def test_documents_without_known_words_are_uniform():
    model = PLSA(2, random_state=0).fit(np.array([[3.0, 1.0, 0.0], [0.0, 2.0, 0.0]]))
    theta = model.transform(np.array([[0.0, 0.0, 5.0], [0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(theta, 0.5)


def test_words_come_along_with_counts(tmp_path):
    counts = text.counts(["cat dog cat", "dog cat pet", "loss risk fit", "fit loss loss"])
    model = PLSA(2, random_state=0).fit(counts)
    assert sorted(map(sorted, model.top_words(2))) == [["cat", "dog"], ["fit", "loss"]]
    lemmata.save(model, tmp_path / "m.lemma")
    back = lemmata.load(tmp_path / "m.lemma")
    assert back.top_words(3) == model.top_words(3)
    np.testing.assert_array_equal(back.transform(counts), model.transform(counts))
    with pytest.raises(ValueError, match="over other words"):
        model.transform(text.counts(["quite other words"]))
    other = counts.encode(["a cat and a dog and a zebra"])
    assert model.transform(other).shape == (1, 2)


def test_bare_numbers_have_no_words():
    model = PLSA(2, random_state=0).fit(np.eye(3) + 1)
    with pytest.raises(ValueError, match="knows no words"):
        model.top_words()
    assert model.top_words(1, vocabulary=["a", "b", "c"])[0][0] in "abc"
    with pytest.raises(ValueError, match="2 words, the model 3 columns"):
        model.top_words(1, vocabulary=["a", "b"])


def test_negative_counts_are_refused():
    with pytest.raises(ValueError, match=r"Negative values.*-1"):
        PLSA(2).fit(np.array([[1.0, -1.0]]))
    with pytest.raises(ValueError, match=r"Negative values"):
        PLSA(2).fit(sp.csr_array(np.array([[1.0, -1.0]])))


def test_the_twin_makes_products_in_pieces(monkeypatch):
    rng = np.random.default_rng(0)
    theta, phi = rng.random((5, 3)), rng.random((7, 3))
    rows, columns = rng.integers(5, size=40), rng.integers(7, size=40)
    whole = _twins.products(rows, columns, theta, phi)
    monkeypatch.setattr(_twins, "CHUNK", 6)
    np.testing.assert_array_equal(_twins.products(rows, columns, theta, phi), whole)
    np.testing.assert_allclose(whole, (theta @ phi.T)[rows, columns])


def test_claims_about_topics_hold_and_fail():
    N, *_ = planted(n=120, m=30, length=100)
    good = PLSA(3, tol=1e-8, max_iter=1000, random_state=0).fit(N)
    held = good.certify(N).held
    assert {"statements_true", "documents_fitted", "topics_supported", "topics_distinct"} <= set(
        held
    )
    good.doc_topic_ = np.roll(good.doc_topic_, 1, axis=0)  # everybody has the neighbour's mixture
    assert {"statements_true", "documents_fitted"} <= set(good.certify(N).failed)
    good.components_ = np.stack([good.components_[0]] * 3)
    assert {"topics_distinct", "topics_determined"} <= set(good.certify(N).failed)
