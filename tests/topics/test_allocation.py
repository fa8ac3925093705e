"""LatentDirichletAllocation beside scikit-learn's: the same bound on the same documents, and topics as good."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.decomposition import LatentDirichletAllocation as TheirLDA

import lemmata


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.1), 3)
    return np.array([rng.multinomial(40, rng.dirichlet([0.3] * 3) @ topics) for _ in range(150)])


@pytest.mark.parametrize("method", ["batch", "online"])
def test_documents_are_as_likely_as_under_scikit_learns(counts, method):
    settings = {"n_components": 3, "learning_method": method, "random_state": 0}
    ours = lemmata.LatentDirichletAllocation(**settings).fit(counts)
    other = TheirLDA(**settings).fit(counts)
    assert ours.perplexity(counts) < 1.03 * other.perplexity(counts)
    assert ours.n_iter_ == other.n_iter_ == 10
    assert not {"statements_true", "attributes_sound"} & set(ours.certify(counts).failed)
    assert ours.exp_dirichlet_component_.shape == other.exp_dirichlet_component_.shape


def test_the_bound_is_below_the_probability_and_near_it(counts):
    ours = lemmata.LatentDirichletAllocation(3, random_state=0).fit(counts)
    estimate = lemmata.topics.perplexity(ours, counts, random_state=0)
    assert estimate.log_likelihood > ours.score(counts)
    assert ours.perplexity(counts) < 1.05 * float(estimate)
    sparse = scipy.sparse.csr_array(counts)
    assert ours.score(sparse) == pytest.approx(ours.score(counts))


def test_batches_go_on_where_they_were(counts):
    model = lemmata.LatentDirichletAllocation(3, random_state=0, total_samples=150)
    for _ in range(10):
        for part in np.split(counts, 3):
            model.partial_fit(part)
    whole = lemmata.LatentDirichletAllocation(3, random_state=0).fit(counts)
    assert model.perplexity(counts) < 1.1 * whole.perplexity(counts)
