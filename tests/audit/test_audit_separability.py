"""Whether maximum-likelihood weights exist: both witnesses, their verification, and what is left undecided."""

import contextlib

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression

from lemmata import certify
from lemmata.audit.kernel.claims import CannotTell
from lemmata.audit.predict.linear.separability import overlap_shown, rows_apart, separate
from lemmata.core import Fit

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def signed(X, y):
    return np.column_stack([X, np.ones(len(X))]) * np.where(y > 0, 1.0, -1.0)[:, None]


def crossed():
    """Four points of two classes that cross: (±1, ±1) by the sign of the product."""
    X = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    return X, np.array([1, 1, 0, 0])


def test_crossed_classes_have_weights_and_shown_so_by_equal_multipliers():
    A = signed(*crossed())
    assert overlap_shown(A, np.ones(4))
    assert not overlap_shown(A, np.array([1.0, 1.0, 1.0, 0.0]))  # multipliers have to be positive
    assert separate(Fit(None), A, np.ones(4)) == (0, None)


def test_multipliers_far_from_balance_show_nothing_by_themselves():
    A = signed(*crossed())
    u = np.array([1.0, 1.0, 1e-3, 1e-3])
    assert not overlap_shown(A, u)
    assert separate(Fit(None), A, u) == (0, None)  # the programme finds better ones


def test_one_point_on_the_plane_still_separates():
    """Quasi-separation: Aw ≥ 0 with zeros is enough, and whole numbers leave no doubt about the zeros."""
    X = np.array([[0.0], [0.0], [1.0], [2.0]])
    y = np.array([0, 1, 1, 1])
    apart, direction = separate(Fit(None), signed(X, y), np.ones(4))
    assert apart == 2
    assert (signed(X, y) @ direction >= 0).all()


def test_a_direction_that_rounding_alone_separates_is_left_open():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = rng.integers(0, 2, 40)
    almost = np.column_stack([X, X[:, 0] + 3e-15 * (2 * y - 1) * np.abs(X[:, 0])])
    with contextlib.suppress(CannotTell):
        assert separate(Fit(None), signed(almost, y), np.full(40, 0.5))[0] > 0


def test_margins_near_zero_are_counted_in_fractions():
    A = np.array([[1.0, 0.1], [1.0, -0.1]])
    assert rows_apart(A, np.array([0.1, 1.0])) == 1  # 0.1 − 0.1 is 0, exactly
    assert rows_apart(A, np.array([0.1, 1.0 + 2**-52])) == 0  # a unit in the last place beyond
    assert rows_apart(A, np.array([1.0, 0.0])) == 2
    assert rows_apart(A, np.array([0.0, 1.0])) == 0
    assert rows_apart(A, np.zeros(2)) == 0


def test_known_data_sets():
    X, y = load_iris(return_X_y=True)
    free = LogisticRegression(C=np.inf, max_iter=5000)
    two = y < 2  # setosa stands apart
    assert "weights_exist" in certify(free.fit(X[two], y[two]), X[two], y[two]).failed
    rest = y > 0
    assert "weights_exist" in certify(free.fit(X[rest], y[rest]), X[rest], y[rest]).held
    found = certify(free.fit(X, y), X, y)["weights_exist"]
    assert found.verdict == "fails"
    assert 0 < found.measured < 300
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    found = certify(free.fit(X, y), X, y)["weights_exist"]
    assert found.verdict == "fails"
    assert found.measured == len(X)


def test_a_penalty_settles_it_at_no_cost():
    X, y = load_iris(return_X_y=True)
    found = certify(LogisticRegression().fit(X, y), X, y)["weights_exist"]
    assert found.verdict == "holds"
    assert "penalty" in found.note


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_units_and_copies_of_columns_change_nothing(scale):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = (X[:, 0] + rng.logistic(size=60) > 0).astype(int)
    X = np.column_stack([X, X[:, 1]]) * np.array([scale, 1.0, 1.0, 1.0])
    assert separate(Fit(None), signed(X, y), np.full(60, 0.5)) == (0, None)
    apart = (X[:, 0] > 0).astype(int)
    assert separate(Fit(None), signed(X, apart), np.full(60, 0.5))[0] == 60


@pytest.mark.parametrize("classes", [2, 3])
def test_one_class_alone_pushes_a_free_intercept_for_ever(classes):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((120, 3)), np.arange(120) % classes
    for settings in ({"sample_weight": (y > 0) * 1.0}, {}):
        factors = None if settings else {0: 0.0}
        model = LogisticRegression(class_weight=factors).fit(X, y, **settings)
        assert certify(model, X, y, **settings)["weights_exist"].verdict == "fails"
        flat = LogisticRegression(class_weight=factors, fit_intercept=False).fit(X, y, **settings)
        assert certify(flat, X, y, **settings)["weights_exist"].verdict == "holds"
