"""Seeding against exact probabilities, its expected factor, scikit-learn's, and itself on every kind of data."""

import itertools

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2
from sklearn.cluster import kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from lemmata.clustering import _kernels_seeding as kernels
from lemmata.clustering import (
    d2_sampling,
    frames,
    greedy_d2_sampling,
    kmeans_parallel,
    random_rows,
    seeding_factor,
)
from lemmata.clustering.assignment import take_rows
from lemmata.clustering.frames import Coordinates, serve_rows
from lemmata.clustering.seeding import Gains
from lemmata.core import Blocks, blocks

ALL = (d2_sampling, greedy_d2_sampling, kmeans_parallel, random_rows)
LEVEL = 1e-5  # of every test of a distribution: one false alarm in ten thousand runs of this file
SURE = 4.5  # standard errors; beyond them by chance once in 150,000


def squared(X, C):
    """‖x_i − c_j‖², (n, k), by the definition."""
    return ((np.asarray(X, float)[:, None] - np.asarray(C, float)[None]) ** 2).sum(axis=2)


def cost(X, C, w=None):
    return float(
        np.average(squared(X, C).min(axis=1), weights=w) * (len(X) if w is None else np.sum(w))
    )


def planted(n=400, d=5, k=8, seed=0, spread=0.3, dtype=np.float64):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(k, d)) * 5
    return (centers[rng.integers(k, size=n)] + spread * rng.normal(size=(n, d))).astype(dtype)


def literal(X, k, rng, trials=1):
    """D² sampling as it is written down: a pass for every centre."""
    chosen = [rng.integers(len(X))]
    while len(chosen) < k:
        D = squared(X, X[chosen]).min(axis=1)
        candidates = rng.choice(len(X), size=trials, p=D / D.sum())
        costs = [np.minimum(D, squared(X, X[[c]])[:, 0]).sum() for c in candidates]
        chosen.append(candidates[int(np.argmin(costs))])
    return np.array(chosen)


def fits(counts, probabilities):
    """Whether counts agree with probabilities by Pearson's test; outcomes rarer than 5 are taken together."""
    expected = np.sum(counts) * np.asarray(probabilities)
    assert np.all(np.asarray(counts)[expected == 0] == 0)
    rare = expected < 5
    counts = np.append(np.asarray(counts)[~rare], np.sum(np.asarray(counts)[rare]))
    expected = np.append(expected[~rare], expected[rare].sum())
    counts, expected = counts[expected > 0], expected[expected > 0]
    statistic = ((counts - expected) ** 2 / expected).sum()
    return chi2.sf(statistic, len(expected) - 1) > LEVEL


# --- the distribution -------------------------------------------------------------------------------------------------


def sequences(X, w, k):
    """{rows in the order they are chosen: probability}."""
    X, w = np.asarray(X, float), np.asarray(w, float)
    found = {}
    for order in itertools.permutations(range(len(X)), k):
        p = w[order[0]] / w.sum()
        for j in range(1, k):
            masses = w * squared(X, X[list(order[:j])]).min(axis=1)
            p *= masses[order[j]] / masses.sum()
        found[order] = p
    return found


@pytest.mark.parametrize(
    ("weights", "dtype"), [(None, np.float32), ((1.0, 3.0, 0.0, 0.5, 2.0), np.float64)]
)
def test_sequences_of_rows_have_the_probabilities_of_the_definition(weights, dtype):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(5, 2)) * [3, 1]).astype(dtype)
    exact = sequences(X, np.ones(5) if weights is None else weights, 3)
    counts = dict.fromkeys(exact, 0)
    for _ in range(1000):
        _, chosen = d2_sampling(X, 3, rng, weights, return_indices=True)
        counts[tuple(chosen.tolist())] += 1
    assert fits(list(counts.values()), list(exact.values()))


@pytest.mark.parametrize("seed", range(1))
def test_a_wrong_distribution_would_be_noticed(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5, 2)) * [3, 1]
    exact = sequences(X, np.ones(5), 3)
    counts = dict.fromkeys(exact, 0)
    for _ in range(1000):
        counts[tuple(rng.permutation(5)[:3].tolist())] += 1
    assert not fits(list(counts.values()), list(exact.values()))


@pytest.mark.parametrize("seed", range(1))
def test_greedy_choices_have_the_probabilities_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    X, trials = rng.normal(size=(6, 2)) * [3, 1], 3
    exact = np.zeros((6, 6))
    for first in range(6):
        D = squared(X, X[[first]])[:, 0]
        after = np.array([np.minimum(D, squared(X, X[[c]])[:, 0]).sum() for c in range(6)])
        # the best of three is row j if none of them is better and not all are worse
        order = np.argsort(after)
        tail = np.cumsum((D / D.sum())[order][::-1])[::-1]
        exact[first, order] = (tail**trials - np.append(tail[1:], 0) ** trials) / 6
    counts = np.zeros((6, 6))
    for _ in range(1200):
        _, chosen = greedy_d2_sampling(X, 2, rng, n_local_trials=trials, return_indices=True)
        counts[tuple(chosen)] += 1
    assert fits(counts.ravel(), exact.ravel())


@pytest.mark.parametrize("trials", [1, 4])
@pytest.mark.parametrize("seed", range(1))
def test_pools_of_proposals_cost_what_a_pass_per_centre_costs(trials, seed):
    """Many centres, so that pools are large and proposals are refused: the mean cost is that of the literal method."""
    X, rng = planted(seed=seed, n=300, k=25), np.random.default_rng(seed)
    ours = [cost(X, greedy_d2_sampling(X, 25, rng, n_local_trials=trials)) for _ in range(60)]
    plain = [cost(X, X[literal(X, 25, rng, trials)]) for _ in range(60)]
    error = np.sqrt((np.var(ours) + np.var(plain)) / 60)
    assert abs(np.mean(ours) - np.mean(plain)) < SURE * error


@pytest.mark.parametrize("seed", range(1))
def test_the_greedy_variant_costs_what_scikit_learns_costs(seed):
    X = planted(seed=seed, n=500, d=8, k=20, spread=1.5)
    ours = [cost(X, greedy_d2_sampling(X, 20, s)) for s in range(100)]
    theirs = [cost(X, kmeans_plusplus(X, 20, random_state=s)[0]) for s in range(100)]
    assert abs(np.mean(ours) - np.mean(theirs)) < SURE * np.sqrt(
        (np.var(ours) + np.var(theirs)) / 100
    )


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("method", [d2_sampling, random_rows, kmeans_parallel])
def test_a_weight_is_a_repetition(method, seed):
    """The values of two chosen rows, weighted or repeated, are equally distributed."""
    rng = np.random.default_rng(seed)
    X, times = rng.normal(size=(4, 2)), np.array([1, 3, 2, 1])
    tables = np.zeros((2, 4, 4))
    for _ in range(300):
        for table, (rows, w, names) in enumerate(
            [
                (X, times, np.arange(4)),
                (np.repeat(X, times, axis=0), None, np.repeat(np.arange(4), times)),
            ]
        ):
            _, chosen = method(rows, 2, rng, w, return_indices=True)
            tables[(table, *names[chosen])] += 1
    # different rows may be equal where they are repeated, so only the first is comparable
    if method is random_rows:
        tables = tables.sum(axis=2, keepdims=True)
    both = tables.sum(axis=0)
    statistic = ((tables - both / 2) ** 2 / np.maximum(both / 2, 1e-300)).sum()
    assert chi2.sf(statistic, np.count_nonzero(both) - 1) > LEVEL


@pytest.mark.parametrize("method", ALL)
def test_rows_of_weight_zero_are_never_chosen(method):
    X = planted(n=40, k=4)
    weights = np.r_[np.zeros(15), np.ones(10), np.zeros(15)]
    for seed in range(20):
        _, chosen = method(X, 8, seed, weights, return_indices=True)
        assert weights[chosen].all()


# --- the promise ------------------------------------------------------------------------------------------------------


def optimum(X, k):
    """The least cost over all partitions of a handful of rows."""
    best = np.inf
    for labels in itertools.product([0], *[range(k)] * (len(X) - 1)):
        best = min(
            best,
            sum(
                ((P - P.mean(axis=0)) ** 2).sum()
                for j in range(k)
                if len(P := X[np.array(labels) == j])
            ),
        )
    return best


@pytest.mark.parametrize("seed", range(2))
def test_the_expected_cost_is_within_the_factor_of_the_optimum(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8, 2)) + 4 * rng.integers(3, size=(8, 1))
    best = optimum(X, 3)
    for method in (d2_sampling, greedy_d2_sampling, kmeans_parallel):
        costs = [cost(X, method(X, 3, rng)) for _ in range(200)]
        assert np.mean(costs) <= seeding_factor(3) * best


def test_random_rows_have_no_such_factor():
    rng = np.random.default_rng(0)
    X = np.r_[
        rng.normal(size=(300, 2)), rng.normal(size=(3, 2)) + 1e3, rng.normal(size=(3, 2)) - 1e3
    ]
    means = np.array([X[:300].mean(axis=0), X[300:303].mean(axis=0), X[303:].mean(axis=0)])
    factor = seeding_factor(3) * cost(X, means)  # at least as large as with the optimum
    assert np.mean([cost(X, random_rows(X, 3, s)) for s in range(50)]) > factor
    assert np.mean([cost(X, d2_sampling(X, 3, s)) for s in range(50)]) <= factor


def test_the_factor_is_that_of_the_theorem():
    assert seeding_factor(1) == 16
    assert seeding_factor(100) == pytest.approx(8 * (np.log(100) + 2))


@pytest.mark.parametrize("seed", range(2))
def test_far_clusters_each_get_a_centre(seed):
    """A cluster is missed with probability below (its share of the potential): 1e-12 here."""
    X = np.repeat(np.eye(6) * 1e6, 30, axis=0) + np.random.default_rng(seed).normal(size=(180, 6))
    for method in (d2_sampling, greedy_d2_sampling, kmeans_parallel):
        _, chosen = method(X, 6, seed, return_indices=True)
        assert sorted(chosen // 30) == list(range(6))


# --- all kinds of data ------------------------------------------------------------------------------------------------


class Rereadable:
    def __init__(self, X, parts):
        self.X, self.parts, self.passes = X, parts, 0

    def __iter__(self):
        self.passes += 1
        yield from np.array_split(self.X, self.parts)


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_container_gives_the_same_rows(method, weighted, tmp_path):
    X = planted(n=300, seed=3)
    X[np.abs(X) < 0.5] = 0
    weights = np.random.default_rng(0).random(300) if weighted else None
    np.save(tmp_path / "X.npy", X)
    containers = {
        "memmap": np.load(tmp_path / "X.npy", mmap_mode="r"),
        "blocks": Blocks.of(X),
        "list of blocks": list(np.array_split(X, 5)),
        "stream": Rereadable(X, 7),
        "dask": da.from_array(X, chunks=(70, 2)),
        "csr": sp.csr_array(X),
        "csc matrix": sp.csc_matrix(X),
        "sparse blocks": [sp.csr_array(X[:100]), sp.csr_array(X[100:])],
        "mixed blocks": [X[:100], sp.csr_array(X[100:])],
        "an empty block": [X[:0], X],
        "fortran": np.asfortranarray(X),
        "every other row": np.repeat(X, 2, axis=0)[::2],
    }
    for seed in range(1):
        centers, chosen = method(X, 12, seed, weights, return_indices=True)
        assert_array_equal(centers, X[chosen])
        for name, data in containers.items():
            there, rows = method(data, 12, seed, weights, return_indices=True)
            assert_array_equal(rows, chosen, err_msg=name)
            assert_array_equal(there, centers, err_msg=name)


@pytest.mark.parametrize("method", ALL)
def test_small_blocks_and_threads_change_nothing(method, monkeypatch):
    X = planted(n=500, seed=1, dtype=np.float32)
    whole = method(X, 20, 0, return_indices=True)[1]
    monkeypatch.setattr(blocks, "rows_per_block", lambda n, d, itemsize: 37)
    for threads in ("1", "8"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        assert_array_equal(method(X, 20, 0, return_indices=True)[1], whole)


def test_a_stream_is_read_far_less_often_than_there_are_centres():
    stream = Rereadable(planted(n=2000, k=128), 4)
    d2_sampling(stream, 128, 0)
    # the literal method: 128 passes for distances, and 128 that fetch a row
    assert stream.passes < 128 / 2


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_centres_are_rows_in_the_dtype_of_the_data(method, dtype):
    X = planted(dtype=dtype)
    centers, chosen = method(X, 7, 0, return_indices=True)
    assert centers.dtype == dtype
    assert_array_equal(centers, X[chosen])
    assert_array_equal(method(X, 7, 0), centers)
    assert len(set(chosen.tolist())) == 7


@pytest.mark.parametrize("method", ALL)
def test_integers_are_numbers_too(method):
    X = np.arange(30).reshape(10, 3) ** 2 % 17
    assert_array_equal(method(X, 4, 0), method(X.astype(float), 4, 0))
    assert_array_equal(method(X.tolist(), 4, 0), method(X.astype(float), 4, 0))


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("power", [-500, -100, 100, 500])
def test_the_unit_does_not_matter(method, power):
    X = planted(n=60)
    for seed in range(3):
        same = method(X, 6, seed, return_indices=True)[1]
        assert_array_equal(method(np.ldexp(X, power), 6, seed, return_indices=True)[1], same)
        assert_array_equal(
            method(sp.csr_array(np.ldexp(X, power)), 6, seed, return_indices=True)[1], same
        )


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize(("dtype", "shift"), [(np.float32, 2.0**20), (np.float64, 2.0**48)])
def test_the_origin_does_not_matter(method, dtype, shift):
    # whole numbers, so that the shift loses none of their digits
    X = np.round(planted(n=80, spread=2)).astype(dtype)
    for seed in range(3):
        same = method(X, 6, seed, return_indices=True)[1]
        assert_array_equal(method(X + dtype(shift), 6, seed, return_indices=True)[1], same)


@pytest.mark.parametrize("method", [d2_sampling, greedy_d2_sampling, kmeans_parallel])
def test_structure_far_below_the_size_of_the_data_is_seen(method):
    """Two groups 2e5 apart in float32, whose squared distance swamps those inside a group: 1e-8 of it, below its eps."""
    rng = np.random.default_rng(0)
    spots = np.array([[i, j] for i in range(5) for j in range(2)]) * 8.0
    X = np.repeat(np.r_[spots, spots + 2.0**17], 20, axis=0)
    X = (X + rng.integers(-1, 2, size=X.shape) / 64).astype(np.float32)
    costs = []
    for seed in range(10):
        _, chosen = method(X, 20, seed, return_indices=True)
        costs.append(cost(X, X[chosen]))
        exact = squared(X, X[chosen]).min(axis=1)
        D = serve_rows(X, X[chosen], Coordinates(X.mean(axis=0)))[0]
        assert_allclose(D, exact, rtol=1e-5)
    assert np.mean(costs) <= seeding_factor(20) * cost(X, X[::20])


# --- too few rows, bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [d2_sampling, greedy_d2_sampling, kmeans_parallel])
@pytest.mark.parametrize("sparse", [False, True])
def test_with_fewer_different_rows_than_centres_each_is_chosen_and_some_repeat(method, sparse):
    X = np.repeat([[0.0, 0.0], [1.0, 2.0], [3.0, 0.1]], 4, axis=0) + 0.1
    data = sp.csr_array(X) if sparse else X
    for seed in range(5):
        with pytest.warns(ConvergenceWarning, match="only 3 different rows"):
            centers = method(data, 7, seed)
        assert len(np.unique(centers[:3], axis=0)) == len(np.unique(centers, axis=0)) == 3
    with pytest.warns(ConvergenceWarning, match="only 1 different rows"):
        assert_array_equal(method(np.ones((5, 2)), 3, 0), np.ones((3, 2)))


def test_too_few_positive_weights_repeat_rows():
    X = planted(n=10)
    for method in ALL:
        with pytest.warns(ConvergenceWarning, match="only 2 different rows"):
            _, chosen = method(X, 4, 0, np.r_[0, 1, np.zeros(7), 2], return_indices=True)
        assert set(chosen) == {1, 9}


@pytest.mark.parametrize("method", ALL)
def test_all_rows_are_chosen_where_k_is_their_number(method):
    X = planted(n=30)
    assert sorted(method(X, 30, 0, return_indices=True)[1]) == list(range(30))
    assert_array_equal(method(X[:1], 1, 0), X[:1])


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda X: (X, 0, 0), "k=0"),
        (lambda X: (X, 41, 0), "k=41"),
        (lambda X: (X, 2.5, 0), "k=2.5"),
        (lambda X: (X[0], 1, 0), "2D"),
        (lambda X: (X * 1j, 2, 0), "Complex"),
        (lambda X: (X[:, :0], 2, 0), "feature"),
        (lambda X: ([X[:, :0], X[:, :0]], 2, 0), "feature"),
        (lambda X: (X[:0], 2, 0), "sample"),
        (lambda X: (X, 2, 0, np.ones(39)), "weights of shape"),
        (lambda X: (X, 2, 0, -np.ones(40)), "weights from -1 to -1"),
        (lambda X: (X, 2, 0, np.zeros(40)), "weights from 0 to 0"),
        (lambda X: (X, 2, 0, np.full(40, np.nan)), "weights from nan"),
        (lambda X: ((part for part in [X]), 2, 0), "only once"),
    ],
)
def test_impossible_wishes_are_refused(method, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        method(*arguments(planted(n=40)))


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_a_number_is_refused(method, bad, tmp_path):
    X = planted(n=40)
    X[7, 2] = bad
    np.save(tmp_path / "X.npy", X)
    for data in (X, sp.csr_array(X), [X[:10], X[10:]], np.load(tmp_path / "X.npy", mmap_mode="r")):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            method(data, 40, 0)


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, bool, np.int8, object])
def test_numbers_of_any_type_are_read_as_floats(method, dtype):
    X = np.random.default_rng(0).integers(0, 9, (40, 3)).astype(dtype)
    assert_array_equal(method(X, 3, 0), method(X.astype(np.float64), 3, 0))


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize(("dtype", "scale"), [(np.float64, 2.0**-1030), (np.float32, 2.0**-130)])
def test_numbers_below_the_normal_floats_are_drawn_like_others(method, dtype, scale):
    X = np.random.default_rng(0).integers(-30, 30, (40, 3)).astype(dtype)
    assert_array_equal(method(X * dtype(scale), 5, 0), method(X, 5, 0) * dtype(scale))


def test_other_parameters_are_checked():
    X = planted(n=40)
    with pytest.raises(ValueError, match="n_local_trials=0"):
        greedy_d2_sampling(X, 3, 0, n_local_trials=0)
    with pytest.raises(ValueError, match="oversampling=-1"):
        kmeans_parallel(X, 3, 0, oversampling=-1)
    with pytest.raises(ValueError, match="rounds=0"):
        kmeans_parallel(X, 3, 0, rounds=0)


def test_huge_weights_do_not_overflow():
    X = planted(n=40)
    weights = np.random.default_rng(0).random(40)
    for method in ALL:
        assert_array_equal(method(X, 5, 1, weights * 2.0**1000), method(X, 5, 1, weights))


def test_too_few_draws_of_kmeans_parallel_are_made_up_for():
    X = planted(n=100)
    for seed in range(5):
        _, chosen = kmeans_parallel(X, 20, seed, oversampling=1, rounds=1, return_indices=True)
        assert len(set(chosen.tolist())) == 20


# --- kernels and their slow twins -------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    X=arrays(
        np.float64, st.tuples(st.integers(1, 70), st.integers(1, 4)), elements=st.floats(-1e6, 1e6)
    ),
    data=st.data(),
)
def test_distances_of_arbitrary_rows_are_those_of_the_definition(X, data):
    rows = data.draw(st.lists(st.integers(0, len(X) - 1), min_size=1, max_size=5))
    exact = squared(X, X[rows])
    least = exact.min(axis=1)
    for form in (X, sp.csr_array(X)):
        for origin in (None, X.mean(axis=0)):
            D, nearest = serve_rows(form, X[rows], Coordinates(origin))
            # A coordinate less the origin errs by eps/2·|x − o| ≤ eps·max|x|, the difference of two rows with four of them by
            # moved = 4·eps·max|x|, and a squared distance by moved·(2·distance + moved); the nearest of two by twice that.
            # Besides, the digits that products keep (three quarters), and numbers below 2e-308 end in steps of 5e-324.
            moved = 4 * np.finfo(float).eps * np.abs(X).max() if origin is not None else 0.0
            for found, off in ((D, moved), (exact[np.arange(len(X)), nearest], 2 * moved)):
                slack = 1e-9 * least + off * (2 * np.sqrt(least) + off) + 2e-323
                assert (np.abs(found - least) <= slack).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("pieces", [1, 2**18])
def test_gains_are_what_lies_below_the_distances_of_now(dtype, seed, pieces, monkeypatch):
    rng = np.random.default_rng(seed)
    Y, P = rng.normal(size=(100, 6)).astype(dtype), rng.normal(size=(9, 6)).astype(dtype)
    P[0] = Y[3]
    D = rng.uniform(0, 12, size=100).astype(dtype)
    monkeypatch.setattr(frames, "PIECE", pieces)
    gains = Gains.of(Y, D, P, Coordinates(None))
    starts, rows, entries = gains.starts, gains.rows, gains.values
    exact = squared(Y, P).T
    clear = np.abs(exact - D) > 1e-4  # what is equal up to rounding may go either way
    for p in range(9):
        mine, kept = slice(*starts[p : p + 2]), np.zeros(100, bool)
        kept[rows[mine]] = True
        assert_array_equal(kept[clear[p]], (exact[p] < D)[clear[p]])
        assert_allclose(entries[mine], exact[p][kept], rtol=1e-4)
    assert 0 in entries[: starts[1]]

    for weights in (np.empty(0), rng.random(100)):
        removed = np.zeros(3)
        kernels.gains_of(removed, starts, rows, entries, D, weights, np.array([0, 4, 8]))
        w = weights if len(weights) else 1
        assert_allclose(
            removed, [(w * np.maximum(D - exact[p], 0)).sum() for p in (0, 4, 8)], rtol=1e-4
        )
    lower = D.copy()
    kernels.lower_into(lower, rows[starts[4] : starts[5]], entries[starts[4] : starts[5]])
    assert_allclose(lower, np.minimum(D, exact[4]), rtol=1e-4)


def test_rows_come_in_the_order_they_are_asked_for():
    X = planted(n=30)
    wanted = [7, 29, 0, 7, 12]
    for data in (
        X,
        [X[:8], X[8:8], X[8:]],
        sp.csr_array(X),
        [sp.csr_array(X[:9]), sp.csr_array(X[9:])],
    ):
        assert_array_equal(take_rows(Blocks.of(data), wanted), X[wanted])
