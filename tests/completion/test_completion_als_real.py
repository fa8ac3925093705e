"""ALS on MovieLens, where it is at hand, and on the noiseless problem of the issue."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from lemmata import ALS, data
from lemmata.completion import Observed


def ratings(loader):
    try:
        return Observed.of(loader())
    except data.DataNotFound as error:
        pytest.skip(str(error))


def rmse(A, seed, **parameters):
    train, test = A.split(0.1, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return -ALS(**{"random_state": 0, "tol": 1e-4, **parameters}).fit(train).score(test)


@pytest.mark.parametrize("weighting", ["counts", "plain"])
def test_a_noiseless_matrix_of_rank_10_is_recovered_from_a_fifth_of_its_entries(weighting):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(2000, 10)) @ rng.normal(size=(10, 2000))
    known = rng.random(A.shape) < 0.2
    given = {
        "biases": False,
        "reg": 1e-6 if weighting == "counts" else 1e-4,
        "reg_weighting": weighting,
        "tol": 1e-9,
    }
    model = ALS(10, **given, random_state=0).fit(np.where(known, A, np.nan))
    error = (model.complete(keep_known=False) - A)[~known]
    assert np.linalg.norm(error) < 1e-5 * np.linalg.norm(A[~known])
    assert model.certificate_.failed == []


def test_movielens_small_is_predicted_to_0_870():
    A = ratings(data.movielens_small)
    assert np.mean([rmse(A, seed, rank=32, reg=0.12) for seed in range(2)]) <= 0.870


def test_the_defaults_are_good_on_movielens_small():
    A = ratings(data.movielens_small)
    assert rmse(A, 0, tol=1e-5) <= 0.870


@pytest.mark.slow
def test_what_auto_chooses_on_movielens_small_is_near_the_best_of_a_grid():
    A = ratings(data.movielens_small)
    grid = [rmse(A, 0, rank=rank, reg=reg) for rank in (32, 64) for reg in (0.08, 0.1, 0.12, 0.15)]
    assert rmse(A, 0, rank="auto", reg="auto") <= min(grid) + 0.002


@pytest.mark.slow
def test_movielens_1m_is_predicted_to_0_848():
    A = ratings(data.movielens_1m)
    assert np.mean([rmse(A, seed, rank=32, reg=0.067) for seed in range(5)]) <= 0.848


@pytest.mark.slow
def test_what_auto_chooses_on_movielens_1m_is_near_the_best_of_a_grid():
    A = ratings(data.movielens_1m)
    grid = [rmse(A, 0, rank=rank, reg=reg) for rank in (32, 64) for reg in (0.055, 0.067, 0.08)]
    assert rmse(A, 0, rank="auto", reg="auto") <= min(grid) + 0.002


@pytest.mark.slow
def test_as_good_as_cmfrec_on_films_that_were_rated():
    """The best of a few λ on either side, chosen on the test entries, same splits, mean over them.

    Only films with a training entry count: cmfrec 3.5 predicts the others (4 %) with an error of 1.6, worse than any constant,
    and the comparison over all films (0.848 against 0.880) would say nothing of the factors. Where the films are known both
    minimise one objective and differ by where they stop: in the fourth digit.
    """
    cmfrec = pytest.importorskip("cmfrec")
    import scipy.sparse as sp

    A, regs, ours, theirs = ratings(data.movielens_small), (0.1, 0.12, 0.15), [], []
    for seed in range(3):
        train, test = A.split(0.1, seed=seed)
        rated = test.select(train.column_counts[test.columns] > 0)
        X = sp.coo_matrix((train.values, (train.rows, train.columns)), train.shape)
        given = {"scale_lam": True, "niter": 30, "verbose": False, "nthreads": 2, "random_state": 1}
        foreign = (
            cmfrec.CMF(k=32, lambda_=reg, **given).fit(X).predict(rated.rows, rated.columns)
            for reg in regs
        )
        theirs.append(min(float(np.sqrt(np.mean((p - rated.values) ** 2))) for p in foreign))
        ours.append(
            min(-ALS(32, reg, random_state=0, tol=1e-4).fit(train).score(rated) for reg in regs)
        )
    assert np.mean(ours) <= np.mean(theirs) + 1e-3
