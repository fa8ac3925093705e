"""Each claim about k-means holds where it should and fails where it should, on fits of scikit-learn."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans, MiniBatchKMeans

import lemmata
from lemmata.audit.clustering import kmeans as partitions
from lemmata.audit.clustering.kmeans import KMEANS_CLAIMS, fixed_point, found_again, separated
from lemmata.audit.clustering.kmeans_refits import Refits, refit_work
from lemmata.audit.clustering.nearest_centres import purse
from lemmata.core import Blocks, Fit, Trace, check

RESULT = [statement.name for statement in KMEANS_CLAIMS if statement.about == "result"]
GRID = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]) * 12.0


@pytest.fixture(autouse=True)
def little_work(monkeypatch):
    monkeypatch.setattr(partitions, "WORK", 3e8)


def blobs(n=3000, seed=0, centers=GRID):
    rng = np.random.default_rng(seed)
    return centers[rng.integers(len(centers), size=n)] + rng.standard_normal((n, centers.shape[1]))


def certified(model, X, weights=None, trace=None, claims=KMEANS_CLAIMS):
    data = Blocks.of(X)
    data = data if weights is None else data.weighted(np.asarray(weights, dtype=float))
    return check(claims, Fit(model, data, None, data.weights, trace), type(model).__name__)


def broken(model, **changes):
    model = copy.deepcopy(model)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def fitted(X, k=6, seed=0, **more):
    return KMeans(k, n_init=10, random_state=seed).fit(X, **more)


@pytest.mark.parametrize("seed", range(3))
def test_a_healthy_fit_keeps_every_promise(seed):
    X = blobs(seed=seed)
    found = certified(fitted(X, seed=seed), X)
    assert found.held == RESULT
    assert found.undecided == ["never_rose"]
    assert found["certified_near_optimum"].measured < 0.01


def test_float32_sparse_and_streamed_rows_are_certified_alike():
    X = blobs()
    single = X.astype(np.float32)
    sparse = sp.csr_array(X)
    assert certified(fitted(single), single).held == RESULT
    assert certified(fitted(sparse), sparse).held == RESULT
    assert certified(fitted(X), [X[:1000], X[1000:]]).held == RESULT


@pytest.mark.parametrize(("scale", "shift"), [(1e-150, 0.0), (1e150, 0.0), (1.0, 1e7)])
def test_far_huge_and_tiny_data_is_certified_alike(scale, shift):
    X = blobs() * scale + shift
    unit = fitted(blobs())
    C = unit.cluster_centers_ * scale + shift
    model = broken(unit, cluster_centers_=C, inertia_=((X - C[unit.labels_]) ** 2).sum())
    assert certified(model, X).held == RESULT


def test_weights_are_those_of_the_fit():
    X = blobs(1500)
    w = np.random.default_rng(1).integers(0, 5, 1500)
    found = certified(fitted(X, sample_weight=w), X, w)
    assert found.held == RESULT
    # the means and the cost of other rows
    wrong = certified(fitted(X, sample_weight=w), X, claims=KMEANS_CLAIMS[:5]).failed
    assert {"fixed_point", "statements_true"} <= set(wrong)


@pytest.mark.parametrize("seed", range(3))
def test_mini_batches_do_not_end_at_a_fixed_point(seed):
    X = np.random.default_rng(seed).normal(size=(5000, 5))
    hasty = MiniBatchKMeans(8, random_state=seed, n_init=1).fit(X)
    found = certified(hasty, X, claims=(fixed_point,))
    assert "fixed_point" in found.failed
    assert found["fixed_point"].measured == pytest.approx(
        1 - one_step(hasty, X) / cost(hasty, X), rel=0.5
    )


def cost(model, X):
    return -model.score(X)


def one_step(model, X):
    """The cost after the centres moved to the means, rows staying where they are."""
    labels = model.predict(X)
    return sum(
        ((X[labels == c] - X[labels == c].mean(axis=0)) ** 2).sum() for c in np.unique(labels)
    )


def test_wrong_labels_are_noticed():
    X = blobs()
    model = fitted(X)
    labels = model.labels_.copy()
    labels[7] = (labels[7] + 1) % 6
    found = certified(broken(model, labels_=labels), X, claims=KMEANS_CLAIMS[:5])
    assert found.failed == ["statements_true"]
    assert "labels_ is not that of this data" in found["statements_true"].advice


def test_labels_of_other_rows_contradict_a_fit_and_missing_ones_do_not():
    X = blobs()
    model = fitted(X)
    short = certified(broken(model, labels_=model.labels_[:10]), X, claims=KMEANS_CLAIMS[:5])
    assert short.failed == ["statements_true"]
    del model.labels_
    assert certified(model, X, claims=KMEANS_CLAIMS[:5]).failed == []


@pytest.mark.parametrize("kind", [MiniBatchKMeans, lemmata.KMeans])
def test_after_batches_labels_are_those_of_the_last_one(kind):
    X = blobs(900)
    model = kind(6, random_state=0)
    for batch in np.split(X, 3):
        model.partial_fit(batch)
    last, other, whole = (
        certified(model, rows, claims=KMEANS_CLAIMS[:2])["statements_true"] for rows in (X[600:], X[:300], X)
    )  # fmt: skip
    assert last.verdict == "holds"
    for found in (other, whole):
        assert found.verdict == "can't tell"
        assert "last batch" in found.note


def test_a_bad_start_fails_the_gap_and_is_not_found_again():
    X = blobs()
    start = np.vstack(
        [GRID[0] - 0.1, GRID[0] + 0.1, GRID[1], GRID[2], GRID[3], GRID[4:].mean(axis=0)]
    )
    stuck = KMeans(6, init=start, n_init=1).fit(X)
    found = certified(stuck, X)
    assert {"certified_near_optimum", "found_again"} <= set(found.failed)
    assert "separated" not in found.held
    assert found["certified_near_optimum"].measured > 1
    assert "fixed_point" in found.held


@pytest.mark.parametrize("d", [1, 2])
def test_even_noise_has_no_separate_clusters_and_its_gap_is_not_decided(d):
    for seed in range(2):
        X = np.random.default_rng(seed).random((2000, d))
        found = certified(fitted(X, 8 if d == 2 else 3, seed), X)
        assert "separated" not in found.held
        assert "fixed_point" in found.held
        if d == 1:  # its three thirds are found again, but nothing lies between them
            assert "separated" in found.failed
        if d == 2:
            gap = found["certified_near_optimum"]
            assert gap.verdict == "can't tell"
            assert gap.numbers.startswith(f"within {gap.measured:.0%} (sampled, 99%); restarts ")
            assert len(gap.numbers) <= 48  # it stands beside the claim
            assert gap.measured > 0.05
            assert "found_again" in found.failed


@pytest.mark.parametrize("shape", [(20, 50), (60, 400), (300, 30)])
def test_few_rows_of_noise_in_many_dimensions_are_not_taken_for_clusters(shape):
    """Their means lie apart by chance: on these rows, and on no others."""
    for seed in range(8):
        X = np.random.default_rng(seed).standard_normal(shape)
        assert certified(fitted(X, 3, seed), X, claims=(separated, found_again)).held == []


def test_clusters_in_many_dimensions_are_still_apart():
    for n, verdict in ((30, "can't tell"), (300, "holds")):
        X = np.random.default_rng(0).standard_normal((n, 50))
        X[::2, 0] += 12
        found = certified(fitted(X, 2), X, claims=(separated, found_again))
        assert {claim.verdict for claim in found} == {verdict}


def test_what_is_found_again_is_counted_on_rows_that_neither_fit_has_seen():
    """Every row alone: fitted rows are always their own cluster again, others never."""
    X, search = np.random.default_rng(0).standard_normal((120, 40)), Fit(None).witness
    found = Refits.of(X, np.ones(120), X[:20], 3, search)
    assert found.surely.max() < 0.75
    assert Refits.of(X[:30], np.ones(30), X[:20], 3, search) is None


def test_without_searches_every_claim_still_ends_in_a_verdict():
    X = blobs()
    with lemmata.config(searches=False):
        found = certified(fitted(X), X)
        start = np.vstack([GRID[0] + 0.1, GRID[0], GRID[1:4], GRID[4:].mean(axis=0)[None]])
        stuck = certified(KMeans(6, init=start, n_init=1).fit(X), X)
    assert found.broken == found.failed == stuck.broken == []
    assert "certified_near_optimum" in found.held  # by the bound from separated centres
    assert "certified_near_optimum" in stuck.undecided
    assert {"found_again", "separated"} <= set(found.undecided)


def shows(monkeypatch, name, result):
    plain = Fit.searches
    monkeypatch.setattr(
        Fit, "searches", staticmethod(lambda asked: result if asked == name else plain(asked))
    )


@pytest.mark.parametrize(
    "centers",
    [GRID[:5, :1], np.full((6, 2), np.nan), np.vstack([GRID, GRID + 1]), "none", GRID * 100],
)
def test_centres_that_are_none_or_worse_prove_nothing(monkeypatch, centers):
    """A search that errs, or that shows more centres than the model has, does not make a good fit fail."""
    shows(monkeypatch, "better_centers", lambda fit, *_: centers)
    X = blobs()
    assert certified(fitted(X), X)["certified_near_optimum"].verdict == "holds"


def test_better_centres_are_shown_with_the_verdict_that_rests_on_them():
    X = blobs()
    start = np.vstack([GRID[0] + 0.1, GRID[0], GRID[1:4], GRID[4:].mean(axis=0)[None]])
    stuck = KMeans(6, init=start, n_init=1).fit(X)
    found = certified(stuck, X)["certified_near_optimum"]
    C = found.witness["cluster_centers"]
    theirs = ((X[:, None] - C) ** 2).sum(axis=2).min(axis=1).sum()
    assert cost(stuck, X) / theirs - 1 == pytest.approx(found.measured, rel=1e-6)


def test_centres_that_were_not_fitted_to_a_part_are_no_fits_to_it(monkeypatch):
    """The model's own centres always agree with each other; but one step on a part costs it less."""
    X = np.random.default_rng(0).random((2000, 2))
    model = fitted(X, 8)
    shows(monkeypatch, "refit_centers", lambda fit, X, w, starts, number: starts)
    found = certified(model, X, claims=(found_again, separated))
    assert {claim.note for claim in found} == {"no search fitted parts of the rows"}


def test_with_less_work_a_claim_decides_less_but_never_otherwise():
    rng = np.random.default_rng(0)
    for X, k in ((blobs(2000), 6), (rng.random((400, 2)), 3)):
        model = fitted(X, k)
        seen = {}
        for work in (2e7, 2e8, 6e8):
            fit = Fit(model, Blocks.of(X))
            for claim in check(KMEANS_CLAIMS, fit, "", work=work):
                if claim.verdict in ("holds", "fails"):
                    assert seen.setdefault(claim.name, claim.verdict) == claim.verdict
            assert sum(purse(fit).spent.values()) <= 1.2 * work
        assert len(seen) >= 5


def test_an_empty_cluster_is_noticed():
    X = blobs()
    model = fitted(X)
    centers = np.vstack([model.cluster_centers_[:-1], [[1e4, 1e4]]])
    for labels in (None, model.labels_):  # whatever the labels say
        found = certified(
            broken(model, cluster_centers_=centers, labels_=labels), X, claims=KMEANS_CLAIMS[:7]
        )
        assert "no_empty_cluster" in found.failed
        assert found["no_empty_cluster"].measured == 5


def test_a_rising_cost_is_noticed():
    X = blobs(500)
    for losses, verdict in (([3.0, 2.0, 1.0], "holds"), ([3.0, 1.0, 2.0], "fails")):
        trace = Trace()
        for loss in losses:
            trace.append(loss, 0.0)
        found = certified(fitted(X), X, trace=trace, claims=KMEANS_CLAIMS[:6])
        assert found["never_rose"].verdict == verdict


def test_duplicated_rows_and_a_single_cluster_raise_nothing():
    X = np.repeat(np.array([[0.0, 1.0], [5.0, 5.0]]), 50, axis=0)
    found = certified(fitted(X, 2), X)
    assert {"fixed_point", "no_steps_left", "certified_near_optimum", "found_again"} <= set(
        found.held
    )
    one = certified(fitted(blobs(300), 1), blobs(300))
    assert {"fixed_point", "certified_near_optimum"} <= set(one.held)
    assert found.broken == one.broken == []


def test_refits_cost_as_much_more_as_there_are_rows_columns_and_clusters():
    to_begin = refit_work(0, 1, 1)
    one = refit_work(1, 1, 1) - to_begin
    assert refit_work(1000, 3, 8) - to_begin == pytest.approx(1000 * 3 * 8 * one)
