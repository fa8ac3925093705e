"""The claims about neighbours: facts they rest on, and fits of both libraries that they tell apart."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn import neighbors as sk
from sklearn.datasets import load_digits, load_iris

import lemmata
from lemmata import KernelSmoother, KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors
from lemmata.audit.predict.neighbours.knn import intrinsic_dimension
from lemmata.audit.predict.neighbours.labels import groups_of
from lemmata.audit.predict.neighbours.nearest_rows import ask, first_in_order
from lemmata.core import Blocks, Fit


def asked(X, k=5):
    return ask(Fit(NearestNeighbors(n_neighbors=k).fit(X), Blocks.of(X)))


def test_brute_force_finds_the_neighbours_block_by_block():
    X = np.random.default_rng(0).integers(0, 4, (700, 3)).astype(float)
    fit = Fit(NearestNeighbors().fit(X), Blocks.of([X[:200], X[200:550], X[550:]]))
    found = ask(fit)
    D = cdist(X[found.numbers], X)
    order = np.argsort(D, axis=1, kind="stable")[:, : found.rows.shape[1]]
    np.testing.assert_array_equal(found.rows, order)
    np.testing.assert_allclose(found.distances * found.scale, np.take_along_axis(D, order, axis=1))


@pytest.mark.parametrize("m", [1, 2, 5])
def test_the_dimension_is_that_of_what_rows_were_drawn_from(m):
    rng = np.random.default_rng(m)
    turn = np.linalg.qr(rng.standard_normal((30, 30)))[0][:m]
    X = rng.uniform(size=(3000, m)) @ turn
    assert intrinsic_dimension(asked(X)) == pytest.approx(m, rel=0.15)


def test_equal_rows_are_found_in_dense_and_sparse_rows():
    import scipy.sparse as sp

    X = np.array([[0.0, 1.0], [2.0, 0.0], [-0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    for rows in (X, sp.csr_array(X)):
        groups = groups_of(Fit(None, Blocks.of(rows)))
        assert groups[0] == groups[2]
        assert groups[1] == groups[3]
        assert len(set(groups)) == 3


@pytest.mark.parametrize("library", [lemmata, sk])
def test_healthy_fits_of_both_libraries_hold(library):
    X, y = load_iris(return_X_y=True)
    for model, target in (
        (library.KNeighborsClassifier(), y),
        (library.KNeighborsClassifier(3, weights="distance"), y),
        (library.KNeighborsRegressor(7), X[:, 3] + y),
        (library.NearestNeighbors(), None),
    ):
        found = lemmata.certify(model.fit(X, target), X, target)
        assert found.failed in ([], ["equal_rows_agree"])
        assert not (found.broken)
        assert not (found.not_checked)
        assert found.undecided in ([], ["classes_can_win"])  # weighted by distance


@pytest.mark.parametrize("library", [lemmata, sk])
def test_targets_say_nothing_about_a_search_that_predicts_nothing(library):
    X, y = load_iris(return_X_y=True)
    model = library.NearestNeighbors().fit(X)
    for target in (y, y.astype(str), X[:, 3]):
        assert lemmata.certify(model, X, target).claims == lemmata.certify(model, X).claims


def test_a_search_that_leaves_rows_out_is_noticed():
    X = load_digits().data
    model = sk.NearestNeighbors().fit(X)
    search = sk.NearestNeighbors().fit(X[: len(X) // 2])  # knows half of them
    model.kneighbors = search.kneighbors
    found = lemmata.certify(model, X)["neighbours_exact"]
    assert found.verdict == "fails"
    assert "approximate" in found.advice


def test_what_is_rarely_wrong_is_neither_proved_nor_refuted():
    """Five per cent of the answers wrong: the sample cannot tell."""
    X = np.random.default_rng(0).standard_normal((3000, 4))
    model = sk.NearestNeighbors().fit(X)
    exact = model.kneighbors

    def kneighbors(Q, k):
        distances, rows = exact(Q, k + 1)
        wrong = np.arange(len(Q)) % 20 == 0
        return np.where(wrong[:, None], distances[:, 1:], distances[:, :-1]), np.where(
            wrong[:, None], rows[:, 1:], rows[:, :-1]
        )

    model.kneighbors = kneighbors
    assert lemmata.certify(model, X)["neighbours_exact"].verdict == "can't tell"


def test_the_floor_is_what_no_model_beats():
    X = np.repeat(np.arange(10.0)[:, None], 4, axis=0)
    y = np.tile([0, 0, 0, 1], 10)
    found = KNeighborsClassifier(3).fit(X, y).certify(X, y)["equal_rows_agree"]
    assert found.verdict == "fails"
    assert found.measured == pytest.approx(0.25)
    numbers = X[:, 0] + np.tile([-1.0, 1.0], 20)
    found = KNeighborsRegressor(3).fit(X, numbers).certify(X, numbers)["equal_rows_agree"]
    assert found.measured == pytest.approx(1 / numbers.var())


def test_predictions_of_another_target_are_noticed_without_private_attributes():
    X, y = load_digits(return_X_y=True)
    model = sk.KNeighborsClassifier().fit(X, np.roll(y, 1))
    assert "statements_true" in lemmata.certify(model, X, y).failed
    assert (
        "statements_true"
        in lemmata.certify(sk.KNeighborsRegressor().fit(X, np.roll(y, 1)), X, y).failed
    )


def test_metrics_that_are_functions_are_left_undecided():
    X, y = load_iris(return_X_y=True)
    model = KNeighborsClassifier(metric=lambda a, b: np.abs(a - b).sum()).fit(X, y)
    found = model.certify(X, y)
    assert not (found.failed)
    assert not (found.broken)
    assert {"neighbours_exact", "leave_one_out"} <= set(found.undecided)


def test_a_smoother_chosen_on_noise_gains_nothing_by_the_choice():
    """Twenty bandwidths, the best of them chosen by the error that is tested: shuffles choose too."""
    held = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
        held += "leave_one_out" in KernelSmoother().fit(X, y).certify(X, y).held
    assert held <= 1


def test_rows_named_beyond_the_ties_that_were_listed_are_measured():
    X = np.repeat(np.random.default_rng(0).standard_normal((4, 2)), 100, axis=0)
    for model in (
        sk.NearestNeighbors(n_neighbors=3).fit(X),
        NearestNeighbors(n_neighbors=3).fit(X),
    ):
        assert lemmata.certify(model, X)["neighbours_exact"].verdict == "holds"
        search = model.kneighbors

        def far(queries, k, search=search):
            return search(queries, k)[0], np.argsort(-cdist(queries, X), axis=1)[:, :k]

        model.kneighbors = far  # true distances, and rows that are elsewhere
        assert lemmata.certify(model, X)["neighbours_exact"].verdict == "fails"


@pytest.mark.parametrize("largest", [3, 10**6])
def test_the_first_of_equal_distances_come_first(largest):
    numbers = np.random.default_rng(0).integers(0, largest, size=(40, 30)).astype(float)
    numbers[::3, ::4] = np.nan
    for count in (1, 7, 30):
        expected = np.argsort(numbers, axis=1, kind="stable")[:, :count]
        np.testing.assert_array_equal(first_in_order(numbers, count), expected)
