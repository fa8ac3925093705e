"""Trees of clusters: SciPy's and scikit-learn's merges, brute force, what the claims about them notice, and drawing."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.cluster import hierarchy
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn import cluster
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

import lemmata
from lemmata import AgglomerativeClustering
from lemmata.audit.clustering import trees

LINKAGES = ("ward", "complete", "average", "single")
X = np.random.default_rng(0).normal(size=(60, 3))


def distance_of_clusters(A, B, linkage):
    D = cdist(A, B)
    if linkage == "ward":
        n, m = len(A), len(B)
        return np.sqrt(2 * n * m / (n + m)) * np.linalg.norm(A.mean(axis=0) - B.mean(axis=0))
    return {"single": D.min, "complete": D.max, "average": D.mean}[linkage]()


@pytest.mark.parametrize("linkage", LINKAGES)
def test_merges_are_those_of_brute_force(linkage):
    rows = X[:20]
    groups, heights = [[i] for i in range(len(rows))], []
    while len(groups) > 1:
        pairs = [(i, j) for i in range(len(groups)) for j in range(i)]
        far = [distance_of_clusters(rows[groups[i]], rows[groups[j]], linkage) for i, j in pairs]
        i, j = pairs[int(np.argmin(far))]
        heights.append(min(far))
        groups[j] += groups.pop(i)
    model = AgglomerativeClustering(4, linkage=linkage).fit(rows)
    assert_allclose(model.distances_, heights, rtol=1e-12)
    found = trees.make_merges(pdist(rows), model.children_, linkage)
    assert_allclose(found.heights, heights, rtol=1e-10)
    assert_allclose(found.least, heights, rtol=1e-10)


@pytest.mark.parametrize("linkage", LINKAGES)
def test_clusters_are_those_of_scikit_learn(linkage):
    for rows in (X, load_iris().data):
        ours = AgglomerativeClustering(5, linkage=linkage).fit(rows)
        theirs = cluster.AgglomerativeClustering(5, linkage=linkage, compute_distances=True).fit(
            rows
        )
        assert_allclose(np.sort(ours.distances_), np.sort(theirs.distances_), rtol=1e-7)
        if rows is X:  # without ties
            assert adjusted_rand_score(ours.labels_, theirs.labels_) == 1
        for certificate in (lemmata.certify(theirs, rows), ours.certify(rows)):
            assert certificate["merges_closest"].verdict == "holds"
            assert certificate["heights_rise"].verdict == "holds"
            assert ("heights_span" in certificate.held) == (linkage == "single")


def test_a_cut_undoes_the_last_merges_and_numbers_clusters_by_their_first_rows():
    model = AgglomerativeClustering(4).fit(X)
    for k in (1, 2, 7, 60):
        labels = model.cut(k)
        first = [int(np.flatnonzero(labels == c)[0]) for c in range(k)]
        assert len(np.unique(labels)) == k
        assert first == sorted(first)
        assert adjusted_rand_score(labels, trees.cut(model.children_, k)) == 1
    with pytest.raises(ValueError, match="from 1 to 60"):
        model.cut(61)


def test_a_threshold_cuts_at_a_height():
    whole = AgglomerativeClustering(linkage="average").fit(X)
    height = 0.5 * (whole.distances_[-6] + whole.distances_[-5])
    model = AgglomerativeClustering(None, linkage="average", distance_threshold=height).fit(X)
    theirs = cluster.AgglomerativeClustering(
        None, linkage="average", distance_threshold=height
    ).fit(X)
    assert model.n_clusters_ == theirs.n_clusters_ == 6
    assert adjusted_rand_score(model.labels_, theirs.labels_) == 1


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("manhattan", "cityblock"),
        ("cosine", "cosine"),
        ("precomputed", "cityblock"),
        (lambda a, b: abs(a - b).max(), "chebyshev"),
    ],
)
def test_other_distances(metric, name):
    known = pdist(X, name)
    rows = squareform(known) if metric == "precomputed" else X
    model = AgglomerativeClustering(3, metric=metric, linkage="complete").fit(rows)
    assert_allclose(model.distances_, hierarchy.linkage(known, "complete")[:, 2])
    assert model.certify(rows)["merges_closest"].verdict == "holds"


def test_trees_of_scipy_are_certified():
    Z = hierarchy.linkage(X, "average")
    assert AgglomerativeClustering.from_linkage(Z, "average").certify(X)["merges_closest"].verdict == "holds"  # fmt: skip
    other = AgglomerativeClustering.from_linkage(Z, "complete").certify(X)
    assert {"merges_closest", "statements_true"} <= {*other.failed}
    centroids = hierarchy.linkage(np.eye(3)[:, :2] * [1, 0.9], "centroid")
    assert_allclose(AgglomerativeClustering.from_linkage(centroids, "average").linkage_matrix_, centroids)  # fmt: skip


def test_what_is_no_tree_or_another_tree_fails():
    for change, claim in (
        (
            lambda model: model.children_.__setitem__((3, 0), model.children_[4, 0]),
            "statements_true",
        ),
        (lambda model: model.distances_.__setitem__(30, model.distances_[31]), "statements_true"),
        (lambda model: model.labels_.__setitem__(0, 1 - model.labels_[0]), "statements_true"),
    ):
        model = AgglomerativeClustering(2).fit(X)
        change(model)
        assert claim in model.certify(X).failed


def test_a_merge_that_passes_over_a_closer_pair_fails():
    model = AgglomerativeClustering(2, linkage="single").fit(X)
    leaf = [t for t in range(20) if (model.children_[t] < 60).all()]
    i, j = leaf[0], leaf[-1]
    model.children_[[i, j]] = model.children_[[j, i]]
    found = model.certify(X)
    assert {"merges_closest", "heights_rise"} & {*found.failed}
    assert not found.holds


def test_clusters_of_noise_are_not_stable_and_clouds_far_apart_are():
    rng = np.random.default_rng(1)
    noise = rng.uniform(size=(300, 5))
    clouds = rng.normal(size=(300, 5)) + 20 * rng.integers(4, size=300)[:, None]
    assert "cut_stable" in AgglomerativeClustering(6).fit(noise).certify(noise).failed
    found = AgglomerativeClustering(4).fit(clouds).certify(clouds)
    assert "cut_stable" in found.held
    guess = AgglomerativeClustering(9).fit(clouds).certify(clouds)["cut_stable"]
    assert "most stable: 4 clusters" in guess.note or "most stable: 2" in guess.note


@pytest.mark.parametrize(
    ("parameters", "rows", "message"),
    [
        ({"linkage": "ward", "metric": "manhattan"}, X, "Ward can only work with euclidean"),
        ({"n_clusters": 61}, X, "there are 60 rows"),
        ({"n_clusters": None}, X, "Exactly one of n_clusters and distance_threshold"),
        ({"distance_threshold": 1.0}, X, "Exactly one of n_clusters and distance_threshold"),
        ({"metric": "cosine", "linkage": "average"}, np.zeros((5, 3)), "a row of zeros has no direction"),
        ({"metric": "precomputed", "linkage": "average"}, X, "must be a square matrix"),
        ({"metric": "precomputed", "linkage": "average"}, X[:3] - 9, "takes distances >= 0"),
        ({}, np.broadcast_to(np.zeros(1), (70_000, 1)), "GB of distances"),
        ({"linkage": "centroid"}, X, "linkage"),
    ],
)  # fmt: skip
def test_bad_input_is_answered_in_words(parameters, rows, message):
    with pytest.raises(ValueError, match=message):
        AgglomerativeClustering(**parameters).fit(rows)


def test_the_drawing_shows_the_cut():
    model = AgglomerativeClustering(3, linkage="average").fit(load_iris().data)
    (ax,) = model.plot().axes
    texts = [one.get_text() for one in ax.texts]
    assert texts == ["3 clusters"]
    assert len(ax.get_xticklabels()) == 30
    (ax,) = AgglomerativeClustering(2).fit(X[:12]).plot(labels=list("abcdefghijkl")).axes
    assert sorted(one.get_text() for one in ax.get_xticklabels()) == list("abcdefghijkl")
