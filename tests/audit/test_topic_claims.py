"""Claims about topic models with a prior: each holds once and fails once, ours and other libraries'."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import LatentDirichletAllocation

import lemmata
from lemmata import text
from lemmata.audit.topics.runs import chains_agree, r_hat
from lemmata.audit.topics.stated import variational_bound
from lemmata.core import Fit
from lemmata.topics import LDA, PLSA, perplexity, unigram


def planted(seed=0, n=260, m=30, k=3, length=50, alpha=0.3):
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(m, 0.15), k)
    N = rng.multinomial(length, rng.dirichlet(np.full(k, alpha), n) @ phi).astype(float)
    return N[:160], N[160:], phi


N, TEST, PHI = planted()


@pytest.fixture(scope="module")
def gibbs():
    return LDA(3, max_iter=80, n_chains=2, random_state=0).fit(N)


@pytest.fixture(scope="module")
def batch():
    return LDA(3, learning_method="batch", max_iter=60, tol=0.0, random_state=0).fit(N)


def test_at_most_six_claims_stand_in_the_certificate_of_a_fit(gibbs, batch):
    assert len(gibbs.certificate_) == len(batch.certificate_) == 6
    assert "chains_agree" in [one.name for one in gibbs.certificate_]
    assert "bound_never_fell" in batch.certificate_.held
    assert gibbs.certificate_.broken == batch.certificate_.broken == []


def test_a_good_fit_keeps_what_theory_promises(gibbs, batch):
    for model in (gibbs, batch):
        found = model.certify(N, X_test=TEST)
        expected = {"attributes_sound", "statements_true", "documents_fitted", "topics_distinct"}
        assert {*expected, "topics_supported", "beats_unigram"} <= set(found.held), found
        assert "beats_unigram" in model.certify(N).undecided
    assert not hasattr(gibbs, "X_test")


def test_the_bound_is_recomputed_and_below_the_likelihood(batch):
    """L is the stated bound to rounding, and below ln p(w) of the same topics as the filters find it."""
    bound, tokens = variational_bound(Fit(batch, batch._validate_rows(N, reset=False)))
    assert bound == pytest.approx(batch.lower_bound_, rel=1e-9)
    assert tokens == N.sum()
    whole = perplexity(batch, N)
    assert bound < whole.log_likelihood < bound + 0.1 * tokens  # a bound, and a close one


def test_altered_numbers_are_found_out(batch, monkeypatch):
    for name, value in (
        ("lower_bound_", batch.lower_bound_ * 0.999),
        ("components_", np.roll(batch.components_, 1, axis=1)),
        ("doc_topic_", np.roll(batch.doc_topic_, 1, axis=0)),
        ("topic_word_prior_", batch.topic_word_prior_ * 2),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(batch, name, value)
            assert "statements_true" in batch.certify(N).failed, name


def test_documents_of_others_fail_and_other_documents_are_no_answer(gibbs, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(gibbs, "doc_topic_", np.roll(gibbs.doc_topic_, 1, axis=0))
        assert "documents_fitted" in gibbs.certify(N).failed
    few = gibbs.certify(N[:50])
    assert "statements_true" in few.failed
    assert "documents_fitted" in few.undecided


def test_mixtures_off_the_simplex_are_unsound(gibbs, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(gibbs, "doc_topic_", gibbs.doc_topic_ * 1.01)
        assert gibbs.certify(N).failed == ["attributes_sound"]
    with monkeypatch.context() as patch:
        patch.setattr(gibbs, "topic_word_prior_", -1.0)
        assert gibbs.certify(N).failed == ["attributes_sound"]


LIES = (lambda theta: 2 * theta, lambda theta: theta[:5], lambda theta: theta + np.nan)


@pytest.mark.parametrize("lie", LIES, ids=["too much", "other documents", "NaN"])
def test_mixtures_that_a_search_returns_are_checked(gibbs, monkeypatch, lie):
    """Mixtures of other documents fail by better ones; who finds none, or makes them up, shows nothing."""
    monkeypatch.setattr(gibbs, "doc_topic_", gibbs.doc_topic_[::-1].copy())
    found = gibbs.certify(N)
    assert "documents_fitted" in found.failed
    assert found["documents_fitted"].witness["mixtures"].shape == (len(N), 3)
    with lemmata.config(searches=False):
        assert "documents_fitted" in gibbs.certify(N).undecided
    searches = staticmethod(lambda name: lambda fit, facts, theta, *rest: lie(theta))
    monkeypatch.setattr(Fit, "searches", searches)
    assert "documents_fitted" in gibbs.certify(N).undecided


def test_weights_count_documents_twice(batch):
    weights = np.where(np.arange(len(N)) < 40, 2.0, 1.0)
    model = LDA(3, learning_method="batch", max_iter=20, tol=0.0, random_state=0)
    model.fit(N, sample_weight=weights)
    assert "statements_true" in model.certify(N, sample_weight=weights).held
    assert "statements_true" in model.certify(N).failed
    assert "statements_true" in batch.certify([N[:70], N[70:]]).held


# --- chains -----------------------------------------------------------------------------------------------------------


def test_r_hat_is_one_for_one_mode_and_large_for_several():
    rng = np.random.default_rng(0)
    chains = rng.standard_normal((4, 200)) - 1e6
    assert 0.99 < r_hat(chains) < 1.02
    assert r_hat(chains + np.arange(4)[:, None]) == pytest.approx(
        np.sqrt(1 + 1.25 * 8 / 7), rel=0.1
    )
    assert r_hat(chains + np.linspace(0, 5, 200)) > 1.3  # both halves climb
    assert r_hat(np.ones((2, 50)) * [[1], [2]]) == np.inf
    assert np.isnan(r_hat(np.ones((2, 50))))


def test_chains_are_judged_where_there_are_enough(gibbs, monkeypatch):
    rng = np.random.default_rng(1)
    for chains, verdict in (
        (rng.standard_normal((2, 60)), "holds"),
        (rng.standard_normal((2, 60)) + np.array([[0], [9]]), "fails"),
        (rng.standard_normal((2, 10)), "can't tell"),
        (rng.standard_normal((1, 60)), "can't tell"),
        (np.ones((2, 60)), "can't tell"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(gibbs, "chain_log_likelihoods_", chains)
            assert gibbs.certify(N)["chains_agree"].verdict == verdict


def test_slow_chains_of_one_mode_are_rarely_called_apart(gibbs, monkeypatch):
    """Passes that forget a tenth of the one before: 60 runs of two chains, at most two of which fail."""
    rng, failed = np.random.default_rng(2), 0
    for _ in range(60):
        chains = rng.standard_normal((2, 100))
        for t in range(1, 100):
            chains[:, t] = 0.9 * chains[:, t - 1] + np.sqrt(0.19) * chains[:, t]
        with monkeypatch.context() as patch:
            patch.setattr(gibbs, "chain_log_likelihoods_", chains)
            failed += chains_agree(Fit(gibbs)).verdict == "fails"
    assert failed <= 2


# --- held-out documents -----------------------------------------------------------------------------------------------


def test_topics_of_other_words_lose_against_the_unigram(gibbs, monkeypatch):
    with monkeypatch.context() as patch:
        order = np.random.default_rng(0).permutation(N.shape[1])
        patch.setattr(gibbs, "components_", gibbs.components_[:, order])
        found = gibbs.certify(N, X_test=TEST)["beats_unigram"]
    assert found.verdict == "fails"
    assert "of the unigram" in found.note


def test_documents_that_were_fitted_to_are_no_test(gibbs):
    assert "trained on" in gibbs.certify(N, X_test=N)["beats_unigram"].note
    assert gibbs.certify(N, X_test=N)["beats_unigram"].verdict == "can't tell"
    assert gibbs.certify(N, X_test=TEST[:5])["beats_unigram"].verdict == "can't tell"


def test_a_word_that_no_topic_knows_costs_everything(gibbs, monkeypatch):
    seen, hidden = N.copy(), TEST.copy()
    hidden[3, 7] += 1
    components = gibbs.components_.copy()
    components[:, 7] = 0
    with monkeypatch.context() as patch:
        patch.setattr(gibbs, "components_", components)
        found = gibbs.certify(seen, X_test=hidden)["beats_unigram"]
    assert (found.verdict, found.measured) == ("fails", -np.inf)


def test_half_counts_are_undecided_not_broken():
    model = LDA(2, learning_method="batch", max_iter=5, tol=0.0, random_state=0).fit(N / 2)
    assert model.certify(N / 2, X_test=TEST / 2)["beats_unigram"].verdict == "can't tell"


def test_the_unigram_is_hard_to_beat():
    """It is better than add-one and than bare frequencies, on documents that it was not made from."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(500, 0.1))
    train, test = rng.multinomial(2000, p, size=1), rng.multinomial(2000, p, size=1)
    u = unigram(train)[0][0]
    add_one = (train[0] + 1) / (train.sum() + 500)
    assert test[0] @ np.log(u) > test[0] @ np.log(add_one)
    assert u.sum() == pytest.approx(1)
    assert u.min() > 0


# --- other libraries --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs():
    return LatentDirichletAllocation(3, max_iter=20, random_state=0, doc_topic_prior=0.3).fit(N)


def test_scikit_learns_fit_gets_its_first_honest_perplexity(theirs):
    found = lemmata.certify(theirs, N, X_test=TEST)
    assert {"statements_true", "topics_supported", "topics_distinct", "beats_unigram"} <= set(
        found.held
    )
    honest = perplexity(theirs, TEST)
    assert honest.perplexity + 4 * honest.standard_error < theirs.perplexity(
        TEST
    )  # theirs is a bound
    phi = theirs.components_ / theirs.components_.sum(axis=1, keepdims=True)
    assert perplexity((phi, 0.3), TEST).log_likelihood == honest.log_likelihood


def test_without_searches_nothing_is_said_of_mixtures_that_nobody_stated(theirs):
    with lemmata.config(searches=False):
        found = lemmata.certify(theirs, N)
    assert "topics_supported" in found.undecided
    assert found.broken == []


def test_poor_mixtures_do_not_tell_what_topics_live_on(theirs, monkeypatch):
    """Every document in the same mixture is a mixture, of 160 documents for each topic, and far from the best."""
    poor = np.full((len(N), 3), 1 / 3)
    assert "topics_supported" in lemmata.certify(theirs, N).held
    monkeypatch.setattr(Fit, "searches", staticmethod(lambda name: lambda fit: poor))
    assert "topics_supported" in lemmata.certify(theirs, N).undecided


def test_scikit_learns_batches_do_not_add_up_and_say_nothing(theirs):
    online = LatentDirichletAllocation(3, learning_method="online", random_state=0).fit(N)
    assert "statements_true" in lemmata.certify(online, N).undecided
    batches = LatentDirichletAllocation(3, random_state=0).partial_fit(N)
    assert "statements_true" in lemmata.certify(batches, N).undecided
    theirs.n_batch_iter_ += 1  # as after a fit and partial_fit
    try:
        assert "statements_true" in lemmata.certify(theirs, N).undecided
    finally:
        theirs.n_batch_iter_ -= 1
    assert "statements_true" in lemmata.certify(theirs, N[:80]).failed


def test_tables_counts_and_blocks_are_one_certificate(theirs):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(N, columns=[f"w{i:02}" for i in range(N.shape[1])])
    named = LatentDirichletAllocation(3, max_iter=2, random_state=0).fit(table)
    assert "statements_true" in lemmata.certify(named, table).held
    for X in (sp.csr_array(N), [N[:50], N[50:]]):
        assert "statements_true" in lemmata.certify(theirs, X).held
    texts = [" ".join(f"w{w:02}" for w in np.repeat(np.arange(30), row.astype(int))) for row in N]
    counts = text.counts(texts, vocabulary=table.columns)
    assert "statements_true" in lemmata.certify(theirs, counts).held


def test_gensims_fit_its_corpus_and_its_words():
    models = pytest.importorskip("gensim.models")
    corpora = pytest.importorskip("gensim.corpora")
    words = [[f"w{w:02}" for w in np.repeat(np.arange(30), row.astype(int))] for row in N]
    dictionary = corpora.Dictionary(words)
    corpus = [dictionary.doc2bow(one) for one in words]
    model = models.LdaModel(
        corpus, 3, id2word=dictionary, passes=10, random_state=0, alpha=[0.3] * 3
    )
    tests = [[f"w{w:02}" for w in np.repeat(np.arange(30), row.astype(int))] for row in TEST]
    unseen = [dictionary.doc2bow(one) for one in tests]
    found = lemmata.certify(model, corpus, X_test=unseen)
    assert {"attributes_sound", "topics_distinct", "beats_unigram"} <= set(found.held)
    honest = perplexity(model, unseen)
    counts = text.counts([" ".join(one) for one in tests])
    assert perplexity(model, tests).log_likelihood == honest.log_likelihood
    assert perplexity(model, counts).n_tokens == honest.n_tokens == TEST.sum()
    with pytest.raises(ValueError, match=r"list of \(word, count\)"):
        perplexity(model, [[1, 2, 3]])
    with pytest.raises(ValueError, match="share no word"):
        perplexity(model, text.counts(["quite other words"]))


def test_tomotopys_fit_and_its_documents():
    tomotopy = pytest.importorskip("tomotopy")
    model = tomotopy.LDAModel(k=3, seed=1, alpha=0.3, min_cf=2)
    words = [[f"w{w:02}" for w in np.repeat(np.arange(30), row.astype(int))] for row in N]
    for one in words:
        model.add_doc(one)
    with pytest.raises(Exception, match=r"no documents|train"):
        lemmata.certify(tomotopy.LDAModel(k=3), words)
    model.train(100, workers=1)
    tests = [[f"w{w:02}" for w in np.repeat(np.arange(30), row.astype(int))] for row in TEST]
    found = lemmata.certify(model, words, X_test=tests)
    assert {"attributes_sound", "statements_true", "topics_distinct", "beats_unigram"} <= set(
        found.held
    )
    assert "statements_true" in lemmata.certify(model, words[:-10]).failed
    assert "statements_true" in lemmata.certify(model, model.docs).held
    counts = text.counts([" ".join(one) for one in words])
    assert "statements_true" in lemmata.certify(model, counts).held
    assert perplexity(model, counts).n_tokens == model.num_words
    with pytest.raises(ValueError, match="one text"):
        perplexity(model, ["w01 w02"])
    other = tomotopy.HDPModel(initial_k=3)  # made from LDAModel, and another model
    with pytest.raises(TypeError, match="another model than LDA"):
        perplexity(other, words)


def test_plsa_and_sparse_counts_take_the_same_claims():
    """The claims that pLSA and LDA share, with and without a prior."""
    model = PLSA(3, random_state=0).fit(N)
    assert {"topics_supported", "topics_distinct", "documents_fitted"} <= set(model.certify(N).held)
    sparse = LDA(3, max_iter=40, random_state=0).fit(sp.csr_array(N))
    found = sparse.certify(sp.csr_array(N), X_test=sp.csr_array(TEST))
    assert {"statements_true", "documents_fitted", "beats_unigram"} <= set(found.held)
