"""The bound for one nearest neighbour: derived, kept on planted laws, refuted where c or L* are wrong."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.spatial import KDTree
from sklearn.datasets import load_breast_cancer

from lemmata.trust import SmoothClasses, neighbour_bound
from lemmata.trust.bounds import bound_distance, count_rows


@pytest.mark.parametrize("d", [1, 2, 3, 8, 40])
def test_the_bound_of_the_distance_lies_between_the_truth_and_that_of_the_notes(d):
    rng = np.random.default_rng(d)
    for n in (1, 10, 1000):
        X = rng.random((n, d))
        apart = KDTree(X).query(rng.random((200, d)))[0]
        bound = bound_distance(n, d)
        assert apart.mean() <= bound <= math.sqrt(d)
        assert bound <= (1 / math.e + 2) * math.sqrt(d) * n ** (-1 / (d + 1)) + 1e-12


@pytest.mark.parametrize(("d", "distance"), [(1, 0.01), (2, 0.05), (3, 0.3), (10, 1.0), (30, 5.0)])
def test_the_rows_that_are_needed_are_the_fewest(d, distance):
    n = count_rows(distance, d)
    assert bound_distance(n, d) <= distance * (1 + 1e-9)
    assert n == 1 or bound_distance(0.99 * n, d) > distance


def test_ten_times_as_many_columns_take_a_power_of_ten_more_rows():
    assert count_rows(0.1, 1) < 500
    assert count_rows(0.1, 10) > 1e15
    assert math.isinf(count_rows(0.1, 300))


def test_the_wave_has_the_constant_and_the_risk_of_its_formulas():
    law = SmoothClasses(d=3, waves=2, contrast=0.7)
    x = np.linspace(0, 1, 4001)
    eta = law.posterior(np.column_stack([x, x, x]))[:, 1]
    assert np.abs(np.diff(eta)).max() / (x[1] - x[0]) == pytest.approx(law.lipschitz, rel=1e-4)
    least = quad(lambda t: min(p := 0.5 * (1 + 0.7 * np.sin(2 * np.pi * t)), 1 - p), 0, 1)[0]
    assert law.risk() == (pytest.approx(least, abs=1e-6), 0.0)
    X, y = law.sample(20_000, rng=0)
    assert np.mean(law.bayes().predict(X) != y) == pytest.approx(least, abs=0.02)


def test_true_constants_are_kept_and_wrong_ones_refuted():
    law = SmoothClasses(d=2)
    X, y = law.sample(2000, rng=1)
    c, best = law.lipschitz, law.risk()[0]
    found = neighbour_bound(X, y, lipschitz=c, bayes_risk=best, box=(0, 1))
    assert found.certificate_.held == ["error_within_bound"]
    assert found.least_lipschitz < c
    assert found.error <= 2 * best + c * found.distance
    assert found.bound < found.notes_bound
    assert "1,270,053 rows" in str(found)
    slow = neighbour_bound(X, y, lipschitz=c / 50, bayes_risk=best / 3, box=(0, 1))
    assert "error_within_bound" in slow.certificate_.failed
    assert (
        "enough_rows_for_bound"
        in neighbour_bound(X, y, lipschitz=0.1, box=(0, 1)).certificate_.held
    )


def test_without_a_constant_rows_say_what_it_is_at_least():
    found = neighbour_bound(*load_breast_cancer(return_X_y=True))
    claim = found.certificate_["enough_rows_for_bound"]
    assert (claim.verdict, claim.kind) == ("fails", "statistical")
    assert found.rows_needed > 1e50
    assert "at least" in str(found)
    coins = np.random.default_rng(0)
    found = neighbour_bound(coins.random((500, 2)), coins.integers(2, size=500))
    assert found.certificate_.undecided == ["error_within_bound", "enough_rows_for_bound"]


def test_copies_are_no_draws():
    X, y = (np.repeat(part, 10, axis=0) for part in SmoothClasses().sample(100, rng=0))
    found = neighbour_bound(X, y, lipschitz=1e-3, bayes_risk=0.01)
    assert "copies" in found.certificate_["error_within_bound"].note


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lipschitz": -1}, "pass a number >= 0"),
        ({"bayes_risk": 0.7}, "0 to 0.5"),
        ({"excess": 0}, "between 0 and 1"),
        ({"box": (0, 0.5)}, "outside"),
        ({"y": np.zeros(50)}, "1 classes"),
        ({"X": np.full((50, 2), np.nan)}, "NaN"),
        ({"X": np.ones((9, 2)), "y": np.arange(9)}, "40 or more"),
    ],
)
def test_bad_input_of_the_bound(options, message):
    X, y = SmoothClasses().sample(50, rng=0)
    given = {"X": X, "y": y} | options
    with pytest.raises(ValueError, match=message):
        neighbour_bound(given.pop("X"), given.pop("y"), **given)
