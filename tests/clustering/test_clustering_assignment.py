"""Assignment to the nearest centre: kernels and NumPy twins against one row after the other, bounds against none, blocks
against the whole."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from lemmata.clustering.assignment import ClusterSums, Points, labels_of
from lemmata.clustering.frames import FeatureSpread, FramedCenters
from lemmata.clustering.yinyang.bounds import Bounds, CenterGroups, groups_for
from lemmata.core import Blocks, blocks, map_reduce, rounding

DTYPES = [np.float32, np.float64]
COMPILED = [False, True]  # NumPy twins, and kernels
# sizes around the tiles: lines of 8 or 16 rows, sixes of centres, half lines of features
SHAPES = [
    (1, 1, 1),
    (5, 1, 2),
    (15, 3, 4),
    (16, 8, 6),
    (17, 9, 7),
    (33, 17, 12),
    (100, 4, 100),
    (250, 33, 13),
    (70, 2, 1),
]


def made(n, d, k, dtype, seed=0, offset=0.0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) * scale + offset).astype(dtype)
    return X, X[rng.choice(n, k, replace=False)].copy()


def squared_distances(X, C):
    """The slow, obvious way: differences in float64."""
    X, C = np.asarray(X, dtype=np.float64), np.asarray(C, dtype=np.float64)
    return np.stack([((X - c) ** 2).sum(axis=1) for c in C], axis=1)


def row_by_row(X, C, w=None):
    """Labels, counts, sums, cost and worst rows of each cluster, one row after the other."""
    D, w = squared_distances(X, C), np.ones(len(X)) if w is None else w
    labels = D.argmin(axis=1)
    counts, sums, far, farthest = (
        np.zeros(len(C)),
        np.zeros(C.shape),
        np.full(len(C), -1.0),
        np.zeros(len(C), int),
    )
    for i, a in enumerate(labels):
        counts[a] += w[i]
        sums[a] += w[i] * X[i].astype(np.float64)
        if w[i] > 0 and D[i, a] > far[a]:
            far[a], farthest[a] = D[i, a], i
    return labels, counts, sums, float(w @ D.min(axis=1)), far, farthest


def same_sums(one, other):
    """Two ClusterSums agree to the bit."""
    parts = ("counts", "sums", "cost", "far", "farthest")
    return all(
        np.asarray(getattr(one, p)).tobytes() == np.asarray(getattr(other, p)).tobytes()
        for p in parts
    )


# --- one block --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "d", "k"), SHAPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("compiled", COMPILED)
def test_a_pass_gives_what_one_row_after_the_other_gives(n, d, k, dtype, weighted, compiled):
    X, C = made(n, d, k, dtype, seed=n + d)
    C += dtype(0.1)  # otherwise centres are rows
    w = np.random.default_rng(1).integers(0, 3, n).astype(float) if weighted else None
    points = Points.of(X, w, compiled)
    found = points.assign(C)
    labels, counts, sums, cost, far, farthest = row_by_row(X, C, w)
    assert_array_equal(points.labels(C), labels)
    assert_array_equal(found.counts, counts)
    assert_allclose(found.sums, sums, rtol=0, atol=n * np.abs(X).max() * 1e-15 * 4)
    assert found.cost == pytest.approx(cost, rel=rounding(dtype, d))
    if (counts == 0).any():  # worst served rows are for empty clusters
        assert_allclose(found.far, far, rtol=rounding(dtype, d))
        assert_array_equal(found.farthest[far >= 0], X[farthest[far >= 0]])
    else:
        assert (found.far == -1).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [1e3, 1e6, -1e7])
@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("compiled", COMPILED)
def test_an_offset_does_not_eat_the_digits(dtype, offset, seed, compiled):
    X, C = made(400, 6, 9, dtype, seed, offset)
    points = Points.of(X, compiled=compiled)
    found, D = points.assign(C), squared_distances(X, C)
    chosen = D[np.arange(len(X)), points.labels(C)]
    # the products err by 6 products of numbers of the size of the spread, which here is 1 (at 1e7, float32 rows lie on a grid)
    assert (chosen - D.min(axis=1) <= rounding(dtype, 6) * D.max()).all()
    assert found.cost == pytest.approx(D.min(axis=1).sum(), rel=rounding(dtype, 6))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [-490, -100, -60, 60, 100, 490])
@pytest.mark.parametrize("compiled", COMPILED)
def test_a_power_of_two_changes_nothing_but_the_units(dtype, exponent, compiled):
    if dtype == np.float32 and abs(exponent) > 120:
        pytest.skip("no float32 any more")
    X, C = made(200, 5, 8, dtype)
    far_X, far_C = np.ldexp(X, exponent), np.ldexp(C, exponent)
    one, other = Points.of(X, compiled=compiled), Points.of(far_X, compiled=compiled)
    here, there = one.assign(C), other.assign(far_C)
    assert_array_equal(one.labels(C), other.labels(far_C))
    assert there.cost == np.ldexp(here.cost, 2 * exponent)
    assert_array_equal(there.sums, np.ldexp(here.sums, exponent))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compiled", COMPILED)
def test_ties_go_to_the_lowest_number(dtype, kind, compiled):
    C = np.array([[3.0], [1.0], [-1.0], [1.0], [3.0]] * 5, dtype)
    X = np.array([[0.0], [2.0], [1.0], [3.0], [-1.0]], dtype)
    points = Points.of(kind(X), compiled=compiled)
    points.assign(C)
    assert points.labels(C).tolist() == [1, 0, 1, 0, 2]
    if kind is np.asarray and compiled:
        for groups in (1, 3):
            bounds = Bounds(Points.of(X, compiled=True), groups)
            for _ in range(3):
                bounds.assign(C)
                assert bounds.points.labels(C).tolist() == [1, 0, 1, 0, 2]


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=50)
@given(
    n=st.integers(2, 60),
    d=st.integers(1, 6),
    k=st.integers(1, 9),
    seed=st.integers(0, 2**31),
    shift=st.integers(-99, 99),
)
def test_ties_of_whole_numbers_are_ties_wherever_their_mean_lies(dtype, n, d, k, seed, shift):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, (n, d)) + shift
    C = X[rng.integers(n, size=k)]
    nearest = ((X[:, None] - C) ** 2).sum(axis=2).argmin(axis=1)
    X, C = X.astype(dtype), C.astype(dtype)
    for compiled in COMPILED:
        assert_array_equal(Points.of(X, compiled=compiled).labels(C), nearest)
        assert_array_equal(labels_of(X, FramedCenters.around(C, compiled)), nearest)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 1), (40, 7, 5), (90, 30, 33), (64, 100, 17)])
@pytest.mark.parametrize("compiled", COMPILED)
def test_sparse_rows_give_what_dense_rows_give(n, d, k, dtype, compiled):
    rng = np.random.default_rng(n)
    X = np.where(rng.random((n, d)) < 0.3, rng.standard_normal((n, d)), 0).astype(dtype)
    C, w = (X[rng.choice(n, k, replace=False)] + dtype(0.25)).astype(dtype), rng.random(n)
    sparse, dense = Points.of(sp.csr_array(X), w, compiled), Points.of(X, w, compiled)
    one, other = sparse.assign(C), dense.assign(C)
    assert_array_equal(sparse.labels(C), dense.labels(C))
    assert_allclose(one.counts, other.counts, rtol=1e-14)
    assert_allclose(one.sums, other.sums, rtol=0, atol=n * 1e-14)
    # ‖c‖² + Σ x(x − 2c) is a sum of products as large as ‖c‖²
    size = float((X**2).sum() + n * (C**2).sum(axis=1).max())
    assert one.cost == pytest.approx(other.cost, rel=0, abs=rounding(dtype, d) * size)
    assert_array_equal(one.farthest, other.farthest)


def test_rows_may_be_read_only_or_in_columns():
    X, C = made(300, 5, 4, np.float64)
    whole = Points.of(X, compiled=True).assign(C)
    frozen = X.copy()
    frozen.flags.writeable = False
    assert same_sums(Points.of(frozen, compiled=True).assign(C), whole)
    assert same_sums(Points.of(np.asfortranarray(X), compiled=True).assign(C), whole)
    assert_allclose(Points.of(np.asfortranarray(X)).assign(C).sums, whole.sums, rtol=1e-12)


def test_rows_can_be_labelled_without_being_added_up():
    X, C = made(100, 3, 5, np.float32)
    for compiled in COMPILED:
        found = labels_of(X, FramedCenters.around(C, compiled))
        assert_array_equal(found, squared_distances(X, C).argmin(axis=1))


# --- sums over blocks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=20)
@given(cuts=st.lists(st.integers(1, 99), max_size=6, unique=True))
def test_blocks_add_up_to_the_whole(dtype, cuts):
    X, C = made(100, 4, 7, dtype, offset=3)
    w = np.random.default_rng(0).random(100)
    C[3] = 50  # nobody is near it, so that the worst served rows are remembered
    for compiled in COMPILED:
        packed = FramedCenters.around(C, compiled)
        whole, parts = ClusterSums.of(X, w, packed), ClusterSums.none(C)
        for rows, weights in zip(np.split(X, sorted(cuts)), np.split(w, sorted(cuts)), strict=True):
            parts = parts + ClusterSums.of(rows, weights, packed)
        assert_allclose(parts.counts, whole.counts, rtol=1e-14)
        assert_allclose(parts.sums, whole.sums, rtol=1e-14)
        # a product of another shape may round another way
        rel = 1e-14 if dtype == np.float64 else rounding(dtype, 4) if not compiled else 1e-13
        assert parts.cost == pytest.approx(whole.cost, rel=rel)
        assert_array_equal(parts.farthest[whole.far >= 0], whole.farthest[whole.far >= 0])
        assert_allclose(parts.far, whole.far, rtol=rounding(dtype, 4))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("compiled", COMPILED)
def test_the_spread_is_that_of_numpy(weighted, offset, compiled):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 5)) * [1, 2, 3, 0, 1e-3] + offset
    w = rng.integers(0, 3, 1000).astype(float) if weighted else None
    rows = X if w is None else np.repeat(X, w.astype(int), axis=0)
    cuts = [0, 1, 10, 400, 1000]
    total = sum(
        (
            FeatureSpread.of(X[a:b], None if w is None else w[a:b], compiled)
            for a, b in pairwise(cuts)
        ),
        FeatureSpread(),
    )
    assert_allclose(total.mean, rows.mean(axis=0), rtol=1e-14)
    squares = ((rows - rows.mean(axis=0)) ** 2).sum(axis=0)
    # the mean of a block is rounded by eps·offset, beside deviations of 1e-3 in the last feature
    rtol = 1e-12 + 8 * np.finfo(float).eps * offset / 1e-3
    assert_allclose(
        total.squares * 4.0**total.exponent,
        squares,
        rtol=rtol,
        atol=len(rows) * (1e-15 * offset) ** 2,
    )
    sparse = FeatureSpread.of(sp.csr_array(X - offset), w)
    assert_allclose(sparse.squares * 4.0**sparse.exponent, squares, rtol=1e-9, atol=1e-9)
    assert sparse.sparse
    assert not total.sparse


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("compiled", COMPILED)
def test_numbers_that_are_none_are_refused(bad, kind, compiled):
    X = np.ones((20, 3))
    X[7, 1] = bad
    with pytest.raises(ValueError, match="NaN or infinity"):
        Points.of(kind(X), compiled=compiled)


# --- empty clusters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("compiled", COMPILED)
def test_empty_clusters_move_to_the_worst_served_rows_and_the_cost_falls(seed, compiled):
    X, C = made(200, 3, 6, np.float64, seed)
    C[[1, 4]] = 1e3 + np.arange(2)[:, None]  # nobody is near these
    points = Points.of(X, compiled=compiled)
    before = points.assign(C)
    new = before.centers_after(C)
    worst = np.argsort(-before.far)[:2]
    assert_array_equal(new[[1, 4]], before.farthest[worst])
    assert points.assign(new).cost < before.cost


def test_a_worst_row_without_weight_does_not_count():
    X = np.array([[0.0], [1.0], [50.0], [2.0]])
    sums = Points.of(X, np.array([1.0, 1.0, 0.0, 1.0])).assign(np.array([[0.0], [999.0]]))
    assert sums.farthest[0] == 2.0
    assert sums.counts.tolist() == [3.0, 0.0]


def test_where_all_rows_are_served_perfectly_an_empty_cluster_stays():
    X = np.array([[0.0], [1.0], [1.0]])
    C = np.array([[0.0], [1.0], [1.0]])
    assert_array_equal(Points.of(X).assign(C).centers_after(C), C)


# --- few rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_that_move_with_their_rows_are_those_that_are_added_up(kind, weighted):
    X, C = made(500, 6, 8, np.float64)
    w = np.random.default_rng(1).random(500) if weighted else None
    moving, whole = Points.of(kind(X), w), Points.of(kind(X), w)
    before = None
    for step in range(40):
        one, other = moving.assign(C, before), whole.assign(C)
        assert_array_equal(moving.labels(C), whole.labels(C))
        assert_allclose(one.sums, other.sums, rtol=0, atol=1e-13 * 500)
        assert_array_equal(one.counts, other.counts)
        if step == 7:  # another start meanwhile, or a run resumed: the labels are found again
            moving.assign(X[:8])
        before, C = (C, one), one.centers_after(C)


# --- bounds -----------------------------------------------------------------------------------------------------------


def lloyd_steps(X, C, w, groups, steps):
    """Lloyd's steps with and without bounds side by side; how much was looked at in the last one."""
    plain, bounded = Points.of(X, w, compiled=True), Points.of(X, w, compiled=True)
    bounds = Bounds(bounded, groups)
    for _ in range(steps):
        one, other = plain.assign(C), bounds.assign(C)
        assert_array_equal(plain.labels(C), bounded.labels(C))
        assert same_sums(one, other)
        assert plain.moved == bounded.moved
        C = one.centers_after(C)
    return bounds.looked


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("groups", [1, 2, None])
@pytest.mark.parametrize("seed", range(2))
def test_bounds_change_nothing_to_the_bit(dtype, groups, seed):
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(30, 900)), int(rng.integers(1, 40)), int(rng.integers(2, 30))
    X, C = made(n, d, k, dtype, seed, offset=10.0**seed)
    w = rng.random(n) if seed % 2 else None
    lloyd_steps(X, C, w, groups, steps=12)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=40)
@given(
    n=st.integers(2, 120), d=st.integers(1, 5), k=st.integers(2, 25), groups=st.sampled_from([1, 3, None]),
    seed=st.integers(0, 2**31),
)  # fmt: skip
def test_bounds_change_nothing_on_grids_full_of_ties(dtype, n, d, k, groups, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, d)).astype(dtype)
    C = rng.integers(0, 5, (k, d)).astype(dtype) / 2
    lloyd_steps(X, C, rng.integers(0, 2, n).astype(float) if seed % 2 else None, groups, steps=6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bounds_hold_whatever_happens_between_two_passes(dtype):
    X, C = made(600, 6, 20, dtype)
    points, rng = Points.of(X, compiled=True), np.random.default_rng(1)
    bounds = Bounds(points, 3)
    for turn in range(30):
        where = C if turn % 5 else X[rng.choice(600, 20, replace=False)]  # a restart now and then
        if turn % 7 == 3:
            points.assign(X[:20])  # labels of somebody else
        if turn % 7 == 5:
            points.columns()  # a pass that never ended
        found = bounds.assign(where)
        assert same_sums(found, Points.of(X, compiled=True).assign(where))
        C = found.centers_after(where)
    assert same_sums(
        bounds.assign(C[:7]), Points.of(X, compiled=True).assign(C[:7])
    )  # another number of centres


@pytest.mark.parametrize("dtype", DTYPES)
def test_bounds_skip_nearly_everything_when_centres_hardly_move(dtype):
    rng = np.random.default_rng(0)
    centers = 10 * rng.standard_normal((40, 8))
    X = (centers[rng.integers(40, size=4000)] + rng.standard_normal((4000, 8))).astype(dtype)
    for groups in (1, None):
        assert lloyd_steps(X, centers.astype(dtype), None, groups, steps=4) < 0.01


def test_bounds_and_labels_take_a_seventh_of_the_data_at_most():
    for d, itemsize in ((32, 4), (128, 4), (16, 8), (1000, 8)):
        for k in (2, 100, 1000):
            assert (
                4 + 2 * groups_for(k, d, itemsize) <= d * itemsize / 7
                or groups_for(k, d, itemsize) == 1
            )


@pytest.mark.parametrize("k", [1, 5, 6, 7, 40, 100])
@pytest.mark.parametrize("groups", [1, 3, 8])
def test_every_centre_is_in_one_group_of_whole_sixes(k, groups):
    C = np.random.default_rng(0).standard_normal((k, 3))
    layout = CenterGroups.of(C, groups)
    assert sorted(layout.order[layout.order >= 0]) == list(range(k))
    assert len(layout.cuts) - 1 <= groups
    for g, (a, b) in enumerate(pairwise(layout.cuts)):
        members = layout.order[6 * a : 6 * b]
        assert (layout.group_of[members[members >= 0]] == g).all()
        assert (np.diff(members[members >= 0]) > 0).all()  # ties go to the lowest number


def test_bounds_refuse_what_they_cannot_keep():
    with pytest.raises(ValueError, match="algorithm='lloyd'"):
        Bounds(Points.of(sp.csr_array(np.eye(4))))


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("compiled", COMPILED)
def test_the_sums_do_not_depend_on_threads(dtype, kind, compiled, monkeypatch):
    monkeypatch.setattr(blocks, "rows_per_block", lambda n, d, itemsize: 97)
    monkeypatch.setattr(blocks, "MAX_ROWS", 97)
    X, C = made(1500, 10, 17, dtype)
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        points = Points.of(kind(X), compiled=compiled)
        found.append((points.assign(C), points.labels(C)))
        if kind is np.asarray and compiled:
            bounds = Bounds(Points.of(X, compiled=True), 2)
            bounds.assign(C * dtype(1.1))
            assert same_sums(bounds.assign(C), found[0][0])
    assert all(
        same_sums(sums, found[0][0]) and (labels == found[0][1]).all() for sums, labels in found
    )


def test_one_pass_is_a_sum_over_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "rows_per_block", lambda n, d, itemsize: 64)
    X, C = made(400, 3, 5, np.float64)
    points = Points.of(X)
    packed = points.frame_centers(C)
    total = map_reduce(
        lambda rows, w: ClusterSums.of(rows, w, packed), Blocks.of(X), ClusterSums.none(C)
    )
    assert same_sums(total, points.assign(C))
