"""Held-out entries: bets that bound the gain over the mean, and what is no test at all."""

import numpy as np
import pytest

from lemmata.audit.completion.held_out.error import RISK, entries_unseen, held_out_error
from lemmata.audit.kernel.held_out import mean_gain
from lemmata.completion import Observed
from lemmata.core import Fit


def claim_on(train, test, U, V, **more):
    return held_out_error(Fit(None, train, test, attributes={"U_": U, "V_": V, **more}))


def split(n=1500, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    U, V = rng.uniform(0, 1, size=(80, 1)), rng.uniform(0, 1, size=(70, 1))
    A = Observed.of(U @ V.T + noise * rng.uniform(-1, 1, size=(80, 70)))
    return (*A.split(n / A.n_observed, seed=seed), U, V)


DRAWS = {
    "fair coin": lambda rng, n: rng.choice([-1.0, 1.0], n),
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "rare loss": lambda rng, n: np.where(rng.random(n) < 0.01, -0.99, 0.01),
    "rare gain": lambda rng, n: np.where(rng.random(n) < 0.01, 0.99, -0.01),
    "small": lambda rng, n: np.clip(0.05 * rng.normal(size=n), -1, 1),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("n", [60, 600])
def test_draws_without_a_gain_seldom_show_one(name, n):
    rng = np.random.default_rng(0)
    shown = sum(mean_gain(DRAWS[name](rng, n), RISK).lower > 0 for _ in range(150))
    assert shown <= 150 * RISK


def test_the_bound_lies_below_the_truth_and_comes_close():
    rng = np.random.default_rng(0)
    bounds = np.array(
        [
            mean_gain(np.clip(0.1 + 0.2 * rng.normal(size=2000), -1, 1), RISK).lower
            for _ in range(100)
        ]
    )
    assert (bounds < 0.1).mean() >= 1 - RISK
    assert bounds.min() > 0.07  # the standard deviation of a mean is 0.0045


def test_good_factors_beat_the_mean_and_bad_ones_do_not():
    train, test, U, V = split(noise=0.02)
    found = claim_on(train, test, U, V)
    assert found.verdict == "holds"
    rmse = np.sqrt(np.mean(((U @ V.T)[test.rows, test.columns] - test.values) ** 2))
    assert f"RMSE {rmse:.4g}" in found.note
    assert claim_on(train, test, -5 * U, V).verdict == "fails"


def test_predictions_are_not_clipped_to_the_range():
    rng = np.random.default_rng(0)
    A = Observed.of(rng.choice([-1.0, 1.0], (60, 50)))
    train, test = A.split(0.3, seed=0)
    found = claim_on(train, test, 1000 * np.ones((60, 1)), np.ones((50, 1)))
    assert found.verdict == "fails"
    assert "errors beyond the range 2" in found.note


def test_entries_that_were_trained_on_are_no_test():
    train, test, U, V = split()
    assert claim_on(train, train, U, V).verdict == "can't tell"
    found = entries_unseen(Fit(None, train, train, attributes={"U_": U, "V_": V}))
    assert (found.verdict, found.kind, found.measured) == ("fails", "proved", train.n_observed)
    assert entries_unseen(Fit(None, train, test, attributes={"U_": U, "V_": V})).verdict == "holds"
    both = Observed.from_triplets(
        np.r_[test.rows, train.rows[:3]], np.r_[test.columns, train.columns[:3]],
        np.r_[test.values, train.values[:3]], train.shape,
    )  # fmt: skip
    assert "3 of these" in claim_on(train, both, U, V).note


def test_few_entries_cannot_tell_and_say_how_many_might():
    train, test, U, V = split(n=20, noise=0.02)
    found = claim_on(train, test, U, V)
    assert found.verdict == "can't tell"
    assert "20 entries" in found.note
    assert "might do" in found.note


def test_a_few_wild_errors_outweigh_a_gain_that_is_capped():
    train, test, U, V = split(noise=0.02)
    U = U.copy()
    U[5] = 1e4
    found = claim_on(train, test, U, V)
    assert found.verdict == "can't tell"
    assert "no bound exists" in found.note


def test_what_is_missing_is_named():
    train, test, U, V = split(n=100)
    assert "certify(train, test)" in claim_on(train, None, U, V).note
    assert "preferences" in claim_on(train, test, U, V, feedback="implicit").note
    assert claim_on(train, Observed.of(np.ones((3, 3))), U, V).verdict == "can't tell"
    flat = train.with_values(np.ones(train.n_observed))
    assert "no range" in claim_on(flat, test, U, V).note


@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_units_do_not_matter(scale):
    train, test, U, V = split(noise=0.02)
    one = claim_on(train, test, U, V)
    root = np.sqrt(scale)
    far = [part.with_values(scale * part.values) for part in (train, test)]
    other = claim_on(*far, root * U, root * V)
    assert other.verdict == one.verdict
    assert other.measured == pytest.approx(one.measured, rel=1e-5)


def test_offsets_and_scales_belong_to_the_prediction():
    rng = np.random.default_rng(0)
    (n, m), U, V = (40, 30), rng.normal(size=(40, 2)), rng.normal(size=(30, 2))
    s, t, b, c = (rng.uniform(0.5, 2, size) for size in (n, m, n, m))
    A = 3 + b[:, None] + c + s[:, None] * t * (U @ V.T)
    train, test = Observed.of(A + 0.1 * rng.normal(size=(n, m))).split(0.5, seed=0)
    parts = {"mean_": 3.0, "row_bias_": b, "column_bias_": c, "row_scale_": s, "column_scale_": t}
    found = claim_on(train, test, U, V, **parts)
    assert found.verdict == "holds"
    rmse = np.sqrt(np.mean((A[test.rows, test.columns] - test.values) ** 2))
    assert f"RMSE {rmse:.4g}" in found.note
