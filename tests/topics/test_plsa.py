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
from lemmata.topics.plsa.em import PLSAAlgorithm, normalise


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
    return normalise(weighted.sum(axis=1), 1), normalise(weighted.sum(axis=0), 0)


def loglik(N, theta, phi):
    seen = N > 0
    return float((N[seen] * np.log((theta @ phi.T)[seen])).sum())


@pytest.mark.parametrize("compile", ["never", "always"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_step_is_that_of_the_notes(compile, dtype):
    N, *_ = planted(n=40, m=30, length=50)
    with lemmata.config(compile=compile):
        model = PLSA(3)
        data = model._validate_rows(sp.csr_array(N.astype(dtype)))
        algorithm, corpus = PLSAAlgorithm(3), model._problem(data)
        state = algorithm.init(corpus, np.random.default_rng(0))
        after = algorithm.step(state, corpus)
    theta, phi = dense_step(N, state.theta.astype(float), state.phi.astype(float))
    close = 1e-12 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(after.theta, theta, atol=close)
    np.testing.assert_allclose(after.phi, phi, atol=close)
    assert after.loss == pytest.approx(-loglik(N, theta, phi), rel=close)
    assert after.theta.dtype == dtype


@settings(max_examples=40)
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
    theta = normalise(W * sizes, 1)
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


def test_batches_teach_what_the_whole_would():
    """A tenth fitted, the rest in batches: most of what the tenth lacks on new text, beside a fit to all, is made up."""
    rng = np.random.default_rng(0)
    theta, phi = rng.dirichlet(np.full(3, 0.2), 460), rng.dirichlet(np.full(60, 0.1), 3)
    N = rng.multinomial(50, theta @ phi).astype(float)
    train, test = N[:400], N[400:]

    def perplexity(model):
        p = (model.transform(test) @ model.components_)[test > 0]
        return np.exp(-(test[test > 0] * np.log(np.maximum(p, 1e-9))).sum() / test.sum())

    model = PLSA(3, random_state=0).partial_fit(train[:40])
    start = perplexity(model)
    for first in range(40, 400, 40):
        model.partial_fit(train[first : first + 40])
    whole = PLSA(3, random_state=0).fit(train)
    assert perplexity(model) - perplexity(whole) < 0.5 * (start - perplexity(whole))
    assert model.stopped_ == "batches"
    assert model.n_iter_ == 9
    assert model.topic_tokens_.sum() == pytest.approx(train.sum())
    assert model.doc_topic_.shape == (40, 3)
    assert "likelihood_never_fell" not in [claim.name for claim in model.certificate_]
    found = model.certify(train[360:])  # what it states is true of the last batch
    assert {"attributes_sound", "statements_true", "documents_fitted"} <= set(found.held)


def test_a_batch_brings_new_words():
    """Word 3 is new: whatever topic its document has made it."""
    model = PLSA(2, random_state=0).fit([[5.0, 5, 0, 0], [0, 0, 9, 0]])
    z = int(model.components_[:, 2].argmax())
    model.partial_fit([[0, 0, 5.0, 5.0], [0, 0, 0, 0]])
    assert model.components_[z, 3] > 0.1
    assert model.components_[1 - z, 3] < 1e-3
    assert np.isfinite(model.log_likelihood_)
    before = model.components_.copy()
    model.partial_fit(np.zeros((2, 4)))  # nothing to learn
    np.testing.assert_array_equal(model.components_, before)
    np.testing.assert_allclose(model.doc_topic_, 0.5)


def test_batches_keep_the_type_and_the_words(tmp_path):
    counts = text.counts(["cat dog cat", "dog cat pet", "loss risk fit", "fit loss loss"])
    model = PLSA(2, random_state=0).partial_fit(counts)
    model.partial_fit(model.encode(["a cat and a risk"]))
    lemmata.save(model, tmp_path / "m.lemma")
    back = lemmata.load(tmp_path / "m.lemma").partial_fit(model.encode(["pets and cats"]))
    assert back.top_words(1) == model.top_words(1)
    assert back.n_iter_ == 2
    single = PLSA(2, random_state=0).fit(counts.matrix.astype(np.float32))
    assert single.partial_fit(counts.matrix.astype(float)).components_.dtype == np.float32
    with pytest.raises(ValueError, match="over other words"):
        model.partial_fit(text.counts(["other words"]))
    with pytest.raises(ValueError, match="there are 2 topics to continue from"):
        model.set_params(n_components=3).partial_fit(counts)


def test_files_larger_than_memory_are_the_same_fit(tmp_path):
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(["cat", "dog", "loss", "risk"], 6)) for _ in range(30)]
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines) + "\n")
    counts = text.counts(lines)
    fit = PLSA(2, max_iter=20, tol=0.0, random_state=0).fit
    whole, parts = fit(counts), fit(counts.blocks(text.read(path), size=7))
    np.testing.assert_allclose(parts.components_, whole.components_, rtol=1e-10)
    assert parts.top_words(4) == whole.top_words(4)
    assert parts.tokenizer_ == whole.tokenizer_
    listed = fit([counts.encode(lines[:9]), counts.encode(lines[9:])])
    np.testing.assert_allclose(listed.components_, whole.components_, rtol=1e-10)
    with pytest.raises(ValueError, match="block 1 is not made of counts over the words"):
        fit([counts, text.counts(["other words"])])
    with pytest.raises(TypeError, match="read only once"):
        counts.blocks(line for line in lines)
    with pytest.raises(ValueError, match="size=0"):
        counts.blocks(lines, size=0)


def test_a_dask_array_is_the_same_fit():
    array = pytest.importorskip("dask.array")
    N, *_ = planted(n=40, m=20, length=40)
    fit = PLSA(3, max_iter=10, tol=0.0, random_state=0).fit
    found = fit(array.from_array(N, chunks=(15, 20)))
    np.testing.assert_allclose(found.components_, fit(N).components_, rtol=1e-10)


@settings(max_examples=20)
@given(st.data())
def test_the_order_of_words_never_changes_a_fit(data):
    words = st.lists(st.sampled_from(["cat", "dog", "loss", "risk", "fit"]), min_size=1, max_size=8)
    documents = data.draw(st.lists(words, min_size=3, max_size=6))
    shuffled = [data.draw(st.permutations(words)) for words in documents]
    found = []
    for texts in (documents, shuffled):
        counts = text.counts([" ".join(words) for words in texts])
        k = min(2, *counts.shape)
        found.append(PLSA(k, max_iter=5, tol=0.0, random_state=0).fit(counts))
    np.testing.assert_array_equal(found[0].components_, found[1].components_)
    np.testing.assert_array_equal(found[0].doc_topic_, found[1].doc_topic_)


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
    with pytest.raises(ValueError, match="numbers without words"):
        model.top_words()
    assert model.top_words(1, vocabulary=["a", "b", "c"])[0][0] in "abc"
    with pytest.raises(ValueError, match="2 words, the model 3 columns"):
        model.top_words(1, vocabulary=["a", "b"])


def test_negative_counts_are_refused():
    with pytest.raises(ValueError, match=r"Negative values.*-1"):
        PLSA(2).fit(np.array([[1.0, -1.0]]))
    with pytest.raises(ValueError, match=r"Negative values"):
        PLSA(2).fit(sp.csr_array(np.array([[1.0, -1.0]])))


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "no documents"),
        (["", "  "], "hold no word"),
        (["a b c"], "hold no word"),  # the pattern wants two letters
        (["the and of"], "hold no word"),
        ("one text", "one text; pass a list"),
        (["text", 3], "document 1 is a int, not a text"),
        (["text", None], "document 1 is a NoneType"),
        (["text", float("nan")], "document 1 is NaN, a missing text"),
        (["text", b"bytes"], "document 1 is a bytes"),
        (7, "documents is a int"),
    ],
)
def test_documents_that_cannot_be_counted_are_named(documents, message):
    with pytest.raises((ValueError, TypeError), match=message):
        text.counts(documents, stop_words="english")


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((0, 3)), "0 sample"),
        (np.zeros((3, 0)), "0 feature"),
        (np.ones((2, 5)), "n_components=3 exceeds the smaller side of 2 documents × 5 words"),
        (np.ones((5, 2)), "exceeds the smaller side of 5 documents × 2 words"),
        (np.array([[1.0, np.nan, 1.0]] * 3), "NaN"),
        (np.array([[1.0, np.inf, 1.0]] * 3), "infinity"),
        (sp.csr_array([[1.0, np.nan, 1.0]] * 3), "NaN"),
        (["a text", "another"], "lemmata.text.counts"),
        (None, "None|array"),
    ],
)
def test_counts_that_cannot_be_fitted_are_named(X, message):
    with pytest.raises((ValueError, TypeError), match=message):
        PLSA(3).fit(X)


def test_empty_documents_and_words_do_no_harm():
    """A document without words gets the uniform mixture, a word that nobody uses no probability; neither changes the rest."""
    N, *_ = planted(n=20, m=8, length=30)
    padded = np.zeros((22, 9))
    padded[1:21, :8] = N
    fit = PLSA(3, max_iter=30, tol=0.0, random_state=0).fit
    model = fit(padded)
    np.testing.assert_allclose(model.doc_topic_[[0, 21]], 1 / 3)
    assert (model.components_[:, 8] == 0).all()
    assert model.log_likelihood_ == pytest.approx(
        loglik(N, model.doc_topic_[1:21], model.components_[:, :8].T)
    )
    nothing = fit(np.zeros((4, 3)))  # no word at all: every topic is as good as any other
    np.testing.assert_allclose(nothing.components_, 1 / 3)
    assert nothing.log_likelihood_ == 0
    assert "broken" not in {claim.verdict for claim in nothing.certify(np.zeros((4, 3)))}


def test_one_huge_document_and_fractions():
    """Ten million words of one document beside short ones; counts need not be whole."""
    N, *_ = planted(n=20, m=12, length=30)
    N[0] *= 1e6 / 3.3
    for dtype in (np.float64, np.float32):
        model = PLSA(2, random_state=0).fit(N.astype(dtype))
        assert "likelihood_never_fell" in model.certificate_.held
        np.testing.assert_allclose(model.doc_topic_.sum(axis=1), 1, rtol=1e-5)
    long = text.counts([" ".join(["cat", "dog"] * 200_000), "loss risk"])
    assert long.n_tokens == 400_002
    model = PLSA(2, random_state=0).fit(long)
    assert model.topic_tokens_.sum() == pytest.approx(400_002)
    assert {"statements_true", "documents_fitted"} <= set(model.certify(long).held)


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
