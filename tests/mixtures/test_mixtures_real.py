"""Clusters and mixtures on real data: pictures, houses, census bits and newsgroups. Skipped where the data is not."""

import numpy as np
import pytest
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as SklearnMixture

import lemmata
from lemmata import data
from lemmata.mixtures import Multinomial


def real(loader, *arguments):
    try:
        return loader(*arguments)
    except data.DataNotFound as error:
        pytest.skip(str(error).splitlines()[0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_k_means_of_pictures_is_scikit_learns():
    X = real(data.fashion_mnist, "test").X[:3000]
    start = X[np.random.default_rng(0).choice(len(X), 10, replace=False)]
    ours = lemmata.KMeans(10, init=start, max_iter=12, tol=0).fit(X)
    theirs = SklearnKMeans(10, init=start, n_init=1, max_iter=12, tol=0).fit(X)
    # a row at a border may be rounded to either side, and centres a hair apart then move others: near, not the same bits
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-4)
    assert adjusted_rand_score(ours.labels_, theirs.labels_) > 0.99


def test_a_gaussian_mixture_of_houses_is_scikit_learns():
    X = real(data.california_housing).X[::3]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    start = {
        "weights_init": np.full(5, 0.2),
        "means_init": X[:: len(X) // 5][:5],
        "precisions_init": np.stack([np.eye(8)] * 5),
    }
    ours = lemmata.GaussianMixture(5, max_iter=50, tol=1e-4, **start).fit(X)
    # which looks at tol before its M-step
    theirs = SklearnMixture(5, max_iter=51, tol=1e-4, **start).fit(X)
    assert ours.score(X) == pytest.approx(theirs.score(X), abs=2e-3)
    assert "likelihood_never_fell" not in ours.certificate_.failed


def test_missing_census_numbers_are_guessed_better_by_a_mixture_than_by_means():
    """Held-out log-likelihood of rows with holes: a mixture knows that features go together, independent means do not."""
    X = real(data.california_housing).X[:3000]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    mixed = lemmata.GaussianMixture(4, random_state=0).fit(holes[:2000])
    alone = lemmata.GaussianMixture(1, covariance_type="diag").fit(holes[:2000])
    assert mixed.score(holes[2000:]) > alone.score(holes[2000:]) + 1


def test_census_bits_and_newsgroups_have_mixtures_of_their_own_family():
    bits = real(data.a9a, "test").X[::3]
    model = lemmata.Mixture(6, "bernoulli", random_state=0).fit(bits)
    assert "likelihood_never_fell" not in model.certificate_.failed
    assert model.score(bits) > lemmata.Mixture(1, "bernoulli").fit(bits).score(bits)
    posts = real(data.newsgroups, "test")
    # two groups that talk of other things
    few = np.flatnonzero(np.isin(posts.y, np.unique(posts.y)[[0, 9]]))
    counts = CountVectorizer(max_features=2000, stop_words="english").fit_transform(
        [posts.texts[i] for i in few]
    )
    topics = lemmata.Mixture(2, Multinomial(smoothing=0.1), n_init=4, random_state=0).fit(
        counts.astype(float)
    )
    assert adjusted_rand_score(np.asarray(posts.y)[few], topics.predict(counts.astype(float))) > 0.5


@pytest.mark.slow  # test_mixtures_small.py asks it of iris and wine, plateaus included
@pytest.mark.parametrize("seed", [7])
def test_defaults_arrive_on_raw_digits(seed):
    """A fifth of the pixels hardly vary, so EM crosses one plateau after the other: steps of 1e-3 nats between leaps of two."""
    X = load_digits().data
    model = lemmata.GaussianMixture(10, random_state=seed).fit(X)
    assert model.stopped_ == "settled"
    assert model.certify(X)["fixed_point"].verdict == "holds"
