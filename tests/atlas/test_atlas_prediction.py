"""The pictures of prediction notice when what they show is not so."""

import numpy as np
import pytest

from lemmata.atlas import NotShown
from lemmata.atlas.prediction import fairness, generalisation, linear, robustness


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "make",
    [
        generalisation.curse,
        linear.robust_losses,
        linear.extreme_points,
        linear.balls,
        linear.support_vectors,
        fairness.careless_hiring,
        fairness.roc_hulls,
        fairness.two_reports,
        robustness.two_risks,
    ],
)
def test_other_draws_show_the_same(make, seed):
    make(seed)


def test_a_model_without_a_choice_of_k_is_noticed(monkeypatch):
    from lemmata import KNeighborsRegressor

    monkeypatch.setattr(generalisation, "KNeighborsRegressor", lambda k: KNeighborsRegressor(5))
    monkeypatch.setattr(generalisation, "bias_variance", few_repeats(generalisation.bias_variance))
    with pytest.raises(NotShown):
        generalisation.split_error()


def few_repeats(split):
    return lambda model, law, **options: split(model, law, **{**options, "repeats": 10})


def test_a_square_is_not_robust(monkeypatch):
    from lemmata import LinearRegression

    monkeypatch.setattr(linear, "RobustRegression", lambda **_: LinearRegression())
    with pytest.raises(NotShown, match="line of the good points"):
        linear.robust_losses()


def test_a_ridge_has_no_corners(monkeypatch):
    from lemmata import Ridge

    monkeypatch.setattr(linear, "Lasso", lambda a, **options: Ridge(400 * a, **options))
    with pytest.raises(NotShown):
        linear.balls()


def test_the_numbers_of_the_notes():
    """r = 0.63 and 0.52 at d = 10; the second formula as printed gives 0.76."""
    assert pytest.approx(0.63, abs=0.005) == 0.01**0.1
    assert pytest.approx(0.52, abs=0.005) == (1 - 2 ** (-1 / 500)) ** 0.1
    assert pytest.approx(0.76, abs=0.005) == (1 - 2**-0.1) ** 0.1
    draws = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 500, 10))
    inside = (2 * np.abs(draws).max(axis=2).min(axis=1) <= 0.52).mean()
    assert inside == pytest.approx(0.5, abs=0.1)
