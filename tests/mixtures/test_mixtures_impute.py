"""impute: conditional means and draws of what is not known, against closed forms and brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris

import lemmata
from lemmata import GaussianMixture
from tests.planted_mixtures import clusters

KINDS = ("full", "tied", "diag", "spherical", "unit")


def with_holes(X, share=0.3, seed=0):
    X = np.array(X)
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def fitted(kind="full", X=None, **options):
    X = clusters(distance=3.0) if X is None else X
    return GaussianMixture(3, covariance_type=kind, random_state=0, **options).fit(X)


def conditional(model, x):
    """E[x | x_o] and Cov[x_m | x_o] of one row by brute force: SciPy's densities and plain formulas."""
    o, d = ~np.isnan(x), len(x)
    m, covs = ~o, model.covariances_
    each, means, seconds = [], [], []
    for j in range(len(model.weights_)):
        C = {"full": lambda j=j: covs[j], "tied": lambda: covs}.get(
            model.covariance_type, lambda j=j: np.diag(np.broadcast_to(covs[j], d))
        )()
        mu = model.means_[j]
        log = multivariate_normal(mu[o], C[np.ix_(o, o)]).logpdf(x[o]) if o.any() else 0.0
        gain = C[np.ix_(m, o)] @ np.linalg.inv(C[np.ix_(o, o)])
        mean = mu[m] + gain @ (x[o] - mu[o])
        each.append(np.log(model.weights_[j]) + log)
        means.append(mean)
        seconds.append(C[np.ix_(m, m)] - gain @ C[np.ix_(o, m)] + np.outer(mean, mean))
    r = np.exp(np.array(each) - np.logaddexp.reduce(each))
    mean = r @ means
    return mean, np.tensordot(r, seconds, axes=1) - np.outer(mean, mean)


def test_one_gaussian_has_a_closed_form():
    model = GaussianMixture(means_init=[[1.0, 2.0]], weights_init=[1.0], max_iter=1, tol=0)
    X = np.random.default_rng(0).multivariate_normal([1, 2], [[1, 0.5], [0.5, 2]], 300)
    model.fit(X)
    C, (a, b) = model.covariances_[0], model.means_[0]
    filled = model.impute(np.array([[3.0, np.nan], [np.nan, 0.0]]))
    assert_allclose(filled[0], [3, b + C[0, 1] / C[0, 0] * (3 - a)], rtol=1e-12)
    assert_allclose(filled[1], [a + C[0, 1] / C[1, 1] * (0 - b), 0], rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_means_are_those_of_brute_force_and_known_values_stay(kind):
    model, rows = fitted(kind), with_holes(clusters(n=40, distance=3.0, seed=1))
    rows[3] = np.nan
    filled, known = model.impute(rows), ~np.isnan(rows)
    assert_array_equal(filled[known], rows[known])
    for x, guess in zip(rows, filled, strict=True):
        assert_allclose(guess[np.isnan(x)], conditional(model, x)[0], rtol=1e-9, atol=1e-9)
    assert_allclose(
        filled[3], model.weights_ @ model.means_, rtol=1e-12
    )  # nothing known: the mean of the mixture
    assert_array_equal(model.impute(rows[known.all(axis=1)]), rows[known.all(axis=1)])


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_draws_have_the_conditional_mean_and_covariance(kind):
    model, rows = fitted(kind), np.array([[0.5, np.nan, np.nan], [np.nan, 1.0, -1.0], [np.nan] * 3])
    draws = model.impute(rows, draws=5_000, random_state=1)
    assert draws.shape == (5_000, 3, 3)
    for x, drawn in zip(rows, draws.transpose(1, 0, 2), strict=True):
        gone = np.isnan(x)
        mean, cov = conditional(model, x)
        error = np.sqrt(np.diag(cov) / len(drawn))
        assert (np.abs(drawn[:, gone].mean(axis=0) - mean) < 5 * error).all()
        assert_allclose(np.atleast_2d(np.cov(drawn[:, gone].T)), cov, atol=0.1 * np.abs(cov).max())
        assert (drawn[:, ~gone] == x[~gone]).all()


@pytest.mark.parametrize("kind", ["full", "spherical"])
def test_planted_values_are_recovered_better_than_by_the_mean_of_the_column(kind):
    X = load_iris().data
    holes = with_holes(X[::2], 0.2)
    model = fitted(kind, holes)
    for whole, rows in (
        (X[::2], holes),
        (X[1::2], with_holes(X[1::2], 0.2, seed=1)),
    ):  # fitted to, and not
        gone = np.isnan(rows)
        by_mixture = np.square(model.impute(rows) - whole)[gone].mean()
        by_column = np.square(np.nanmean(holes, axis=0) - whole)[gone].mean()
        assert by_mixture < 0.35 * by_column


def test_blocks_single_precision_and_seeds():
    model, rows = fitted(), with_holes(clusters(n=70, distance=3.0, seed=2))
    whole, parts = model.impute(rows), np.array_split(rows, 7)
    assert_allclose(model.impute(parts), whole, rtol=1e-12)
    draws = model.impute(rows, draws=2, random_state=3)
    assert_allclose(model.impute(parts, draws=2, random_state=3), draws, rtol=1e-9, atol=1e-9)
    assert not np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws, model.impute(rows, draws=2, random_state=4))
    assert_array_equal(
        model.impute(rows, draws=2), model.impute(rows, draws=2)
    )  # the model's own random_state
    single = fitted(X=clusters(distance=3.0).astype(np.float32)).impute(rows.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(single, whole, rtol=1e-3, atol=1e-3)


def test_dask_arrays_stay_lazy():
    da = pytest.importorskip("dask.array")
    model, rows = fitted(), with_holes(clusters(n=70, distance=3.0, seed=2))
    lazy = model.impute(da.from_array(rows, chunks=(20, 3)))
    assert hasattr(lazy, "compute")
    assert_allclose(lazy.compute(), model.impute(rows), rtol=1e-12)


@pytest.mark.parametrize("draws", [0, -1, 1.5, True, "many"])
def test_draws_that_make_no_sense_are_refused(draws):
    with pytest.raises(ValueError, match="draws="):
        fitted().impute(np.zeros((2, 3)), draws=draws)


def test_nothing_is_imputed_before_a_fit():
    with pytest.raises(Exception, match="not fitted"):
        lemmata.GaussianMixture().impute(np.zeros((2, 3)))
