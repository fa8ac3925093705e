"""Lower bounds on the k-means optimum stay below it, and come close where clusters are apart."""

import math
import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from lemmata.audit.clustering import kmeans_bounds
from lemmata.audit.clustering.kmeans_bounds import WeakDual, weak_dual
from lemmata.audit.clustering.nearest_centres import Frame, Partition
from lemmata.audit.clustering.separation_bound import separation_bound
from lemmata.clustering import certified_gap, lower_bounds, witness
from lemmata.clustering.witness import closed_form
from lemmata.core import Blocks
from lemmata.core.blocks import open_rows

# --- one bound at a time ----------------------------------------------------------------------------------------------


def dual_bounds(X, k, labels, weights=None, steps=0):
    """Bounds on the cost of every partition of a few rows into k clusters: of the closed form, and step by step."""
    w = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=np.float64)
    X, labels, w = np.asarray(X, dtype=np.float64)[w > 0], np.asarray(labels)[w > 0], w[w > 0]
    return witness.ascend(WeakDual(X, w, k), labels, steps) if len(X) > k else [0.0]


def dual_bound(*arguments, **more):
    return dual_bounds(*arguments, **more)[-1]


def spectral_lower_bound(data, k, weights=None):
    data = open_rows(data, weights)
    if not k <= data.shape[1] <= kmeans_bounds.FORMED:
        return 0.0
    frame = Frame.of(data)
    return frame.cost_outside(
        kmeans_bounds.spectral_bound(kmeans_bounds.moments_of(data, frame), k)
    )


def separation_lower_bound(data, centers, weights=None):
    data, centers = lower_bounds._open(data, centers, weights)
    if data.shape[1] > kmeans_bounds.FORMED:
        return 0.0
    found = Partition.of(data, centers)
    moments = kmeans_bounds.moments_of(data, found.frame)
    return found.frame.cost_outside(separation_bound(data, found, moments))


def monte_carlo_lower_bound(
    data, k, rng, confidence=0.99, subsets=None, size=None, centers=None, weights=None, work=None
):
    if centers is None:
        data = open_rows(data, weights)
    else:
        data, centers = lower_bounds._open(data, centers, weights)
    frame, alpha = Frame.of(data, centers), 1 - confidence
    start = None if centers is None else frame.inside(centers)
    work = lower_bounds.WORK if work is None else work

    def plan(draw):
        if subsets is not None:
            return size or witness.LARGEST, subsets, 8
        return witness.subset_plan(None, draw, k, start, alpha, np.inf, work, size)

    search = lower_bounds._search
    bound = kmeans_bounds.monte_carlo_bound(data, frame, k, rng, alpha, start, search, plan)
    return frame.cost_outside(bound)


def optimum_on_a_line(x, k, w=None):
    """The exact optimum and labels in one dimension: the best partition is into intervals, by dynamic programming."""
    order = np.argsort(x, kind="stable")
    w = np.ones(len(x)) if w is None else np.asarray(w, dtype=float)
    x, w = np.asarray(x, dtype=float)[order] - np.mean(x), w[order]
    W, S, Q = (np.concatenate([[0.0], np.cumsum(v)]) for v in (w, w * x, w * x * x))
    i, j = np.arange(len(x) + 1)[:, None], np.arange(len(x) + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        interval = Q[j] - Q[i] - np.nan_to_num((S[j] - S[i]) ** 2 / (W[j] - W[i]))
    interval = np.where(j > i, np.maximum(interval, 0), np.inf)
    best, cuts = interval[0], []
    for _ in range(k - 1):
        both = best[:, None] + interval
        cuts.append(both.argmin(axis=0))
        best = np.minimum(both.min(axis=0), best)
    labels, stop, c = np.empty(len(x), dtype=int), len(x), len(cuts)
    for cut in reversed(cuts):
        start = min(cut[stop], stop)
        labels[order[start:stop]], stop, c = c, start, c - 1
    labels[order[:stop]] = 0
    return best[-1], labels


def blobs(n, k, d, apart, seed, spread=1.0):
    """Gaussian clusters of unit deviation on a grid in the first two directions, and where they were planted."""
    rng = np.random.default_rng(seed)
    side = math.ceil(math.sqrt(k))
    centers = np.zeros((k, d))
    centers[:, : min(d, 2)] = (
        np.array([[i // side, i % side] for i in range(k)])[:, : min(d, 2)] * apart
    )
    if d == 1:
        centers[:, 0] = np.arange(k) * apart
    labels = rng.integers(k, size=n)
    return centers[labels] + spread * rng.standard_normal((n, d)), centers, labels


def means_of(X, labels):
    return np.stack([X[labels == c].mean(axis=0) for c in np.unique(labels)])


def cost_of(X, centers, w=None):
    D = ((X[:, None] - centers) ** 2).sum(axis=2).min(axis=1)
    return float(D.sum() if w is None else w @ D)


# --- nothing exceeds the optimum --------------------------------------------------------------------------------------


def test_the_dynamic_programme_agrees_with_trying_all_cuts():
    from itertools import combinations

    for seed in range(20):
        x = np.sort(np.random.default_rng(seed).normal(size=8))
        for k in (1, 2, 3):
            parts = (np.split(x, cut) for cut in combinations(range(1, 8), k - 1))
            brute = min(sum(((p - p.mean()) ** 2).sum() for p in split) for split in parts)
            found, labels = optimum_on_a_line(x, k)
            assert found == pytest.approx(brute, rel=1e-9)
            assert cost_of(x[:, None], means_of(x[:, None], labels)) == pytest.approx(
                brute, rel=1e-9
            )


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 8),
    st.integers(9, 40),
    st.sampled_from(["even", "normal", "heavy", "lumps"]),
    st.booleans(),
)
def test_no_bound_exceeds_the_exact_optimum_on_a_line(seed, k, n, law, weighted):
    rng = np.random.default_rng(seed)
    x = {
        "even": rng.random(n),
        "normal": rng.normal(size=n),
        "heavy": rng.standard_t(1.5, size=n),
        "lumps": rng.integers(0, 6, n) * 10.0 + rng.normal(size=n) * 0.1,
    }[law]
    w = rng.integers(1, 5, n).astype(float) if weighted else None
    optimum, labels = optimum_on_a_line(x, k, w)
    X, some = x[:, None], rng.integers(k, size=n)
    allowed = optimum * (1 + 1e-9) + 1e-12 * (x**2).max()
    centers = np.quantile(x, (np.arange(k) + 0.5) / k)[:, None]
    assert spectral_lower_bound(X, k, w) <= allowed
    assert separation_lower_bound(X, centers, w) <= allowed
    for clustering in (labels, some):  # the bound holds whatever clustering it starts from
        assert dual_bound(X, k, clustering, w, steps=3) <= allowed


@pytest.mark.parametrize("d", [2, 3])
def test_no_bound_exceeds_the_best_of_all_partitions_of_a_few_points(d):
    from itertools import product

    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(7, d))
        for k in (2, 3):
            partitions = (np.array(p) for p in product(range(k), repeat=7) if len(set(p)) == k)
            optimum, best = min((cost_of(X, means_of(X, p)), tuple(p)) for p in partitions)
            allowed = optimum * (1 + 1e-9)
            assert spectral_lower_bound(X, k) <= allowed
            assert separation_lower_bound(X, means_of(X, np.array(best))) <= allowed
            assert 0.5 * optimum < dual_bound(X, k, np.array(best), steps=60) <= allowed


@pytest.mark.parametrize("seed", range(24))
def test_the_certified_gap_is_never_wrong_about_all_partitions_of_eight_weighted_points(seed):
    """cost ≤ (1 + gap)·optimum, whatever the centres: the optimum by trying everything."""
    rng = np.random.default_rng(seed)
    n, k, d = 8, int(rng.integers(1, 5)), int(rng.integers(1, 4))
    X = {
        0: rng.normal(size=(n, d)),
        1: 0.3 * rng.normal(size=(n, d)) + 5 * rng.integers(0, 3, (n, 1)),
        2: rng.integers(0, 3, (n, d)).astype(float),
        3: rng.standard_t(1, size=(n, d)),
    }[seed % 4]
    w = rng.random(n) * 10.0 ** rng.integers(-3, 4)
    labels = np.stack(np.meshgrid(*[np.arange(k)] * n, indexing="ij"), axis=-1).reshape(-1, n)
    cost = np.zeros(len(labels))
    for c in range(k):
        W = (labels == c) * w
        with np.errstate(invalid="ignore"):
            cost += np.where(
                W.any(axis=1),
                W @ (X**2).sum(axis=1) - ((W @ X) ** 2).sum(axis=1) / W.sum(axis=1),
                0.0,
            )
    best = labels[cost.argmin()]
    means = [
        np.average(X[best == c], axis=0, weights=w[best == c]) if (best == c).any() else X[0]
        for c in range(k)
    ]
    optimum, size = max(cost.min(), 0.0), w @ (X**2).sum(axis=1)
    for centers in (np.stack(means), X[rng.choice(n, k, replace=False)]):
        found = certified_gap(X, centers, weights=w)
        assert found.lower_bound <= optimum + 1e-12 * size
        assert spectral_lower_bound(X, k, w) <= optimum + 1e-12 * size
        assert separation_lower_bound(X, centers, w) <= optimum + 1e-12 * size


def test_the_repaired_dual_bounds_every_feasible_primal_point():
    """Mixtures of partition matrices are feasible for the relaxation: no N ≥ 0 may prove more than their value."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        n, k, w = 14, int(rng.integers(1, 5)), rng.random(14) + 0.1
        X = rng.normal(size=(n, 3)) * rng.choice([1, 100])
        u = np.sqrt(w)
        A = X * u[:, None]
        N = rng.exponential(size=(n, n)) * rng.choice([0, 0.1, 10]) * (rng.random((n, n)) < 0.5)
        proved, Y = weak_dual(A, u, N, k)
        assert np.trace(Y) == pytest.approx(k)
        np.testing.assert_allclose(Y @ u, u, atol=1e-9)
        for _ in range(5):
            Z = np.zeros((n, n))
            for share in rng.dirichlet(np.ones(3)):
                labels = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
                for c in range(k):
                    part = np.where(labels == c, u, 0)
                    Z += share * np.outer(part, part) / (part @ part)
            assert proved <= (A * A).sum() - (A @ A.T * Z).sum() + 1e-9 * (A * A).sum()


def test_a_negative_multiplier_is_refused():
    with pytest.raises(ValueError, match="negative"):
        weak_dual(np.ones((2, 1)), np.ones(2), np.array([[0.0, -1.0], [-1.0, 0.0]]), 1)
    with pytest.raises(ValueError, match="negative"):
        weak_dual(np.ones((2, 1)), np.ones(2), np.full((2, 2), np.nan), 1)


def test_multipliers_that_a_search_makes_up_prove_nothing_untrue():
    """Whatever is asked for, the best answer stays below the optimum, and shows the multipliers that proved it."""
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(12, 5)), np.arange(12) % 3
    points = WeakDual(X, np.ones(12), 3)
    for size in (0.0, 0.1, 1.0, 100.0):
        points.ask(size * rng.exponential(size=(12, 12)))
    assert 0 < points.best <= cost_of(X, means_of(X, labels))
    assert weak_dual(points.A, points.u, points.multipliers, 3)[0] == points.best


def test_steps_never_lower_the_dense_bound():
    X, _, labels = blobs(120, 4, 2, 4, seed=0)
    path = dual_bounds(X, 4, labels, steps=15)
    assert (np.diff(path) >= 0).all()
    assert path[-1] > path[0]


# --- where the bounds are exact ---------------------------------------------------------------------------------------


def test_one_cluster_is_bounded_by_its_own_scatter():
    X = np.random.default_rng(1).normal(size=(300, 5))
    scatter = ((X - X.mean(axis=0)) ** 2).sum()
    assert spectral_lower_bound(X, 1) == pytest.approx(scatter)
    assert dual_bound(X, 1, np.zeros(300)) == pytest.approx(scatter)


def test_the_spectral_bound_is_the_tail_of_the_spectrum_and_empty_beyond_d():
    X = np.random.default_rng(2).normal(size=(200, 4)) * [5, 3, 2, 1]
    values = np.linalg.eigvalsh((X - X.mean(axis=0)).T @ (X - X.mean(axis=0)))[::-1]
    for k in (1, 2, 3, 4):
        assert spectral_lower_bound(X, k) == pytest.approx(values[k - 1 :].sum())
    assert spectral_lower_bound(X, 5) == 0


def test_the_closed_form_is_tight_for_compact_clusters_far_apart():
    """Discs of radius 1: the theorem of Iguchi et al., no row cut off, so the bound is the cost itself."""
    rng = np.random.default_rng(3)
    centers = np.array([[0, 0], [8, 0], [0, 8], [8, 8.0]])
    angle, radius = rng.random(160) * 2 * np.pi, np.sqrt(rng.random(160))
    labels = np.repeat(np.arange(4), 40)
    X = centers[labels] + np.column_stack([np.cos(angle), np.sin(angle)]) * radius[:, None]
    cost = cost_of(X, means_of(X, labels))
    assert dual_bound(X, 4, labels) == pytest.approx(cost, rel=1e-6)
    assert separation_lower_bound(X, centers) == pytest.approx(cost, rel=1e-6)
    assert (closed_form(X, np.ones(160), labels) >= 0).all()


def test_weights_count_rows():
    X, centers, labels = blobs(150, 3, 2, 12, seed=4)
    w = np.random.default_rng(4).integers(0, 4, 150)
    repeated, again = np.repeat(X, w, axis=0), np.repeat(labels, w)
    assert spectral_lower_bound(X, 2, w) == pytest.approx(spectral_lower_bound(repeated, 2))
    assert separation_lower_bound(X, centers, w) == pytest.approx(
        separation_lower_bound(repeated, centers)
    )
    assert dual_bound(X, 3, labels, w) == pytest.approx(dual_bound(repeated, 3, again), rel=1e-6)


def test_blocks_sparse_rows_and_streams_give_the_bound_of_the_array():
    X, centers, _ = blobs(3000, 5, 3, 12, seed=5)
    for bound in (
        lambda data: spectral_lower_bound(data, 2),
        lambda data: separation_lower_bound(data, centers),
    ):
        whole = bound(X)
        assert bound([X[:1000], X[1000:]]) == pytest.approx(whole, rel=1e-9)
        assert bound(sp.csr_array(X)) == pytest.approx(whole, rel=1e-9)
        assert bound(X.astype(np.float32)) == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize(("scale", "shift"), [(1e-200, 0.0), (1e140, 0.0), (1.0, 1e6), (1e3, -1e9)])
def test_scale_and_origin_do_not_matter(scale, shift):
    X, _, labels = blobs(1500, 4, 2, 12, seed=6)
    there, Y = certified_gap(X, means_of(X, labels)), X * scale + shift
    moved = certified_gap(Y, means_of(Y - shift, labels) + shift)
    # the rows themselves are rounded to eps·shift, which moves the cost by as much relative to their deviation
    assert moved.gap == pytest.approx(
        there.gap, abs=1e-9 + 100 * np.finfo(float).eps * abs(shift) / scale
    )


# --- gaps that can be proved ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "k", "d", "apart"),
    [
        (300, 4, 2, 7),
        (5000, 3, 5, 10),
        (20_000, 5, 2, 10),
        (20_000, 12, 2, 12),
        (20_000, 30, 2, 13),
        (20_000, 50, 2, 13),
        (8000, 20, 20, 13),
    ],
)
def test_the_gap_of_well_separated_clusters_is_proved_below_five_percent_in_seconds(n, k, d, apart):
    for seed in range(2):
        X, _, labels = blobs(n, k, d, apart, seed)
        centers = means_of(X, labels)
        began = time.process_time()
        found = certified_gap(X, centers)
        assert found.gap < 0.05
        assert found.confidence == 1.0
        assert found.lower_bound <= cost_of(X, centers) * (1 + 1e-9)
        assert time.process_time() - began < 10


def test_clusters_of_very_different_sizes_are_proved_as_well():
    rng = np.random.default_rng(0)
    centers, sizes = np.array([[0.0, 0], [15, 0], [0, 15], [40, 40]]), [10_000, 3000, 300, 40]
    X = np.repeat(centers, sizes, axis=0) + rng.standard_normal((sum(sizes), 2))
    assert certified_gap(X, means_of(X, np.repeat(np.arange(4), sizes))).gap < 0.05


def test_closer_clusters_need_the_monte_carlo_bound_and_its_confidence(monkeypatch):
    monkeypatch.setattr(lower_bounds, "WORK", 1.7e9)
    X, _, labels = blobs(20_000, 3, 2, 6, seed=0)
    centers = KMeans(3, init=means_of(X, labels), n_init=1).fit(X).cluster_centers_
    found = certified_gap(X, centers, rng=np.random.default_rng(0))
    assert (found.bound, found.confidence) == ("Monte Carlo", 0.99)
    assert found.gap < 0.05


def test_nothing_much_can_be_proved_about_noise(monkeypatch):
    monkeypatch.setattr(lower_bounds, "WORK", 3e8)
    X = np.random.default_rng(0).random((3000, 2))
    centers = KMeans(6, n_init=3, random_state=0).fit(X).cluster_centers_
    assert 0.05 < certified_gap(X, centers).gap < math.inf


def test_a_local_optimum_has_a_large_gap(monkeypatch):
    """Two centres share a cluster and two clusters a centre, as in CIL20 Fig. 6.2: no bound may call that near the best."""
    monkeypatch.setattr(kmeans_bounds, "MOST_CLUSTERS", 0)  # the separation bound tells
    X, planted, _ = blobs(4000, 4, 2, 14, seed=1)
    start = np.vstack(
        [planted[0] - 0.1, planted[0] + 0.1, planted[1], (planted[2] + planted[3]) / 2]
    )
    stuck = KMeans(4, init=start, n_init=1).fit(X)
    excess = stuck.inertia_ / cost_of(X, planted) - 1
    assert excess > 1
    assert certified_gap(X, stuck.cluster_centers_, guide=planted).gap >= excess * (1 - 1e-9)
    assert certified_gap(X, stuck.cluster_centers_, guide=planted).gap < 1.05 * excess + 0.05


def test_exact_fits_have_no_gap():
    X = np.repeat(np.array([[1e5, 0.1], [1e5, 7.3], [1e5 + 9, 3.3]]), 300, axis=0)
    for dtype in (np.float64, np.float32):
        found = certified_gap(X.astype(dtype), X[::300].astype(dtype))
        assert (found.gap, found.bound) == (0.0, "zero cost")


# --- what goes in -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": np.full((20, 2), np.nan)}, "NaN"),
        ({"data": np.full((20, 2), np.inf)}, "infinity"),
        ({"data": np.ones(20)}, "2D"),
        ({"data": np.ones((0, 2))}, "sample"),
        ({"data": [["a", "b"]] * 20}, "string"),
        ({"centers": np.ones((3, 5))}, "5 features"),
        ({"centers": np.full((3, 2), np.nan)}, "NaN"),
        ({"weights": -np.ones(20)}, "weights from -1"),
        ({"weights": np.zeros(20)}, "weights from 0 to 0"),
        ({"weights": np.ones(19)}, "weights of shape"),
    ],
)
def test_what_cannot_be_bounded_is_refused(change, message):
    X = np.random.default_rng(0).normal(size=(20, 2))
    arguments = {"data": X, "centers": X[:3], "weights": None, **change}
    with pytest.raises(ValueError, match=message):
        certified_gap(**arguments)
    with pytest.raises(ValueError, match=message):
        separation_lower_bound(**arguments)


def test_lists_and_integers_are_data_too():
    X = np.random.default_rng(0).integers(0, 9, (40, 2))
    whole = certified_gap(X.astype(float), X[:3].astype(float)).gap
    for data in (X, X.tolist(), X.astype(np.int8), [X[:10], X[10:]], sp.coo_array(X)):
        assert certified_gap(data, X[:3]).gap == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("n", [200, 900])
@pytest.mark.parametrize("unit", [1e-310, 1e-250, 1e250])
def test_the_unit_of_weights_does_not_matter(n, unit, monkeypatch):
    monkeypatch.setattr(lower_bounds, "WORK", 1e8)
    X, _, labels = blobs(n, 3, 2, 5, seed=1)
    w = np.random.default_rng(1).integers(1, 4, n)
    plain, scaled = (certified_gap(X, means_of(X, labels), weights=w * u) for u in (1.0, unit))
    assert scaled.gap == pytest.approx(plain.gap, rel=1e-6)


def test_wide_rows_take_no_more_room_than_others(monkeypatch):
    """Rows too wide for a scatter matrix: as many as there is room for, and at least 20."""
    monkeypatch.setattr(lower_bounds, "WORK", 1e9)
    monkeypatch.setattr(witness, "ROOM", 2**22)
    drawn = []
    monkeypatch.setattr(
        kmeans_bounds,
        "_draws",
        lambda *a, plain=kmeans_bounds._draws: drawn.append(plain(*a)) or drawn[-1],
    )
    X = sp.random_array((600, 4200), density=0.002, rng=np.random.default_rng(0), format="csr")
    found = certified_gap(X, X[[0, 1]].toarray())
    assert 0 < found.gap < math.inf
    assert max(part.size for part in drawn) <= 20 * 120 * 4200


# --- the Monte Carlo bound --------------------------------------------------------------------------------------------


def test_the_monte_carlo_bound_exceeds_the_optimum_no_more_often_than_it_says():
    """On a line the optimum is known. Few tiny subsets and low confidence make the bound as risky as it gets.

    120 draws at 1 − confidence may fail up to the 99.9 % quantile of the binomial law.
    """
    from scipy.stats import binom

    failures = {0.5: 0, 0.9: 0}
    for seed in range(120):
        rng = np.random.default_rng(seed)
        x = np.concatenate(
            [rng.normal(size=100), 30 + rng.normal(size=20), 60 + 5 * rng.normal(size=8)]
        )
        optimum, labels = optimum_on_a_line(x, 3)
        centers = means_of(x[:, None], labels)
        bound = monte_carlo_lower_bound(
            x[:, None], 3, rng, 0.5, subsets=4, size=30, centers=centers
        )
        for confidence in failures:  # (α ∏ L)^¼, of which only α = 1 − confidence differs
            failures[confidence] += bound * ((1 - confidence) / 0.5) ** 0.25 > optimum
    for confidence, count in failures.items():
        assert count <= binom.ppf(0.999, 120, 1 - confidence)


def test_subsets_underestimate_on_average_as_derived():
    """E[bound of a subset]·W/(s − 1) ≤ optimum, weights included; to four standard errors of the mean."""
    rng = np.random.default_rng(0)
    x, w = (
        np.concatenate([rng.normal(size=60), 9 + rng.normal(size=60)]),
        rng.integers(1, 6, 120).astype(float),
    )
    optimum, labels = optimum_on_a_line(x, 2, w)
    centers = np.array([[np.average(x[labels == c], weights=w[labels == c])] for c in (0, 1)])
    # one subset and hardly any confidence: the dual bound of the subset itself
    logs = [
        monte_carlo_lower_bound(
            x[:, None], 2, rng, 1e-9, subsets=1, size=25, centers=centers, weights=w
        )
        for _ in range(150)
    ]
    assert np.mean(logs) - 4 * np.std(logs) / math.sqrt(150) <= optimum
    assert np.mean(logs) > 0.8 * optimum


def test_the_monte_carlo_bound_needs_no_centres_and_refuses_odd_confidences():
    X, _, labels = blobs(2000, 3, 2, 10, seed=0)
    found = monte_carlo_lower_bound(X, 3, np.random.default_rng(0), subsets=40, size=60)
    assert 0.3 * cost_of(X, means_of(X, labels)) < found < cost_of(X, means_of(X, labels))
    assert monte_carlo_lower_bound(X, 3, np.random.default_rng(0), subsets=40, size=3) == 0
    for confidence in (0, 1, 1.5):
        with pytest.raises(ValueError, match="confidence"):
            certified_gap(X, X[:3], confidence=confidence)


def test_the_partition_is_that_of_the_obvious_loop():
    X, centers, _ = blobs(200, 4, 3, 3, seed=7)
    found = Partition.of(Blocks.of(X), centers, Frame(np.zeros(3)))
    labels = ((X[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    for a in range(4):
        part = X[labels == a]
        assert found.weight[a] == len(part)
        np.testing.assert_allclose(found.means[a], part.mean(axis=0))
        for b in range(4):
            expected = (((part - centers[a]) @ (centers[b] - centers[a])) ** 2).sum()
            assert found.along[a, b] == pytest.approx(expected, abs=1e-9)
    assert found.cost == pytest.approx(cost_of(X, centers))
