"""Factors against offsets: bets on rows, offsets fitted by plain code, and what is no test at all."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lemmata.audit.completion.held_out.offsets import RISK, beats_offsets, offsets_at
from lemmata.audit.kernel.held_out import mean_gain
from lemmata.completion import ALS, MeanRatings, Observed
from lemmata.core import Fit
from truth.beyond_offsets import World


def claim_on(train, test, U, V, **more):
    return beats_offsets(Fit(None, train, test, attributes={"U_": U, "V_": V, **more}))


def verdict_on(world, predicted):
    return world.certificate(predicted)["beats_offsets"].verdict


DRAWS = {  # of mean 0, with what was known beforehand of the least and the most
    "coins": (lambda rng, n: rng.choice([-1.0, 1.0], n), -1.0, 1.0),
    "rare losses": (lambda rng, n: np.where(rng.random(n) < 0.02, -0.98, 0.02), -0.98, 0.02),
    "rows that are not alike": (
        lambda rng, n: np.where(np.arange(n) < n // 3, 0.2, -0.1) + 0.3 * rng.choice([-1, 1], n),
        -0.4,
        0.5,
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_without_a_gain_seldom_show_one(name):
    n = 120
    draw, least, most = DRAWS[name]
    rng = np.random.default_rng(0)
    found = [mean_gain(draw(rng, n), RISK, least, most, alike=False) for _ in range(50)]
    assert sum(gain.lower > 0 for gain in found) <= 50 * RISK
    assert sum(gain.upper < 0 for gain in found) <= 50 * RISK


def test_the_bounds_enclose_the_truth_and_come_close():
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = 0.1 + 0.2 * rng.uniform(-1, 1, 2000)  # the deviation of a mean is 0.0026
        lower, upper = mean_gain(x, RISK, -0.1, 0.3, alike=False)
        assert 0.085 < lower < 0.1 < upper < 0.115


def test_offsets_are_those_of_mean_ratings():
    train, test = World(0, taste=1.0).entries
    model = MeanRatings(reg=3.0).fit(train)
    found = offsets_at(train, train.values - model.mean_, test)
    assert_allclose(found, model.predict(test.rows, test.columns) - model.mean_, rtol=0, atol=1e-6)


def test_the_truth_beats_offsets_and_noise_does_not():
    world = World(0, taste=2.0)
    assert verdict_on(world, world.expected) == "holds"
    assert verdict_on(world, world.plain() + world.rng.normal(size=world.known.shape)) == "fails"
    assert verdict_on(world, world.plain()) == "can't tell"


def test_the_numbers_are_those_of_the_entries():
    world = World(1, taste=2.0)
    found = world.certificate(world.expected)["beats_offsets"]
    rms = [
        np.sqrt(np.mean((x - world.values)[world.held] ** 2)) for x in (world.expected, world.plain())
    ]  # fmt: skip
    assert (
        f"RMSE {rms[0]:.4g} on {world.held.sum():,} entries, {rms[1]:.4g} of offsets" in found.note
    )


def test_entries_of_one_row_are_no_independent_draws():
    """All held-out entries of a row are off by the same. By entries a guess per row would often look better, or worse."""
    wrong = by_entries = 0
    for seed in range(60):
        world = World(seed, taste=0.0, n=30, m=150, density=0.5, noise=0.3, shared=1.0)
        plain, rng = world.plain(), np.random.default_rng(seed)
        x = plain + 0.05 * rng.choice([-1.0, 1.0], (30, 1))
        wrong += verdict_on(world, x) == ("fails" if world.better(x) else "holds")
        gain = ((world.values - plain) ** 2 - (world.values - x) ** 2)[world.held]
        sure = abs(gain.mean()) > 2 * gain.std() / np.sqrt(len(gain))
        by_entries += sure and (gain.mean() > 0) != world.better(x)
    assert wrong <= 60 * RISK
    assert by_entries > 60 * 2 * RISK


def test_fits_are_told_apart_and_offsets_are_not_asked():
    train, test = World(3, taste=3.0, n=300).entries
    model = ALS(5, random_state=0).fit(train)
    assert "beats_offsets" not in [one.name for one in model.certificate_]
    assert "beats_offsets" in model.certify(train, test).held
    of_offsets, more = World(3, taste=0.0, n=300).entries
    noise = ALS(5, 0.001, random_state=0, tol=1e-2).fit(of_offsets)
    assert "beats_offsets" in noise.certify(of_offsets, more).failed
    plain = MeanRatings().fit(train)
    assert "beats_offsets" not in [one.name for one in plain.certify(train, test)]


def test_what_is_no_test_is_none():
    rng = np.random.default_rng(0)
    A = Observed.of(rng.choice([1.0, 2.0, 3.0], (60, 50)))
    train, test = A.split(0.3, seed=0)
    U, V = rng.normal(size=(60, 2)), rng.normal(size=(50, 2))
    assert claim_on(train, None, U, V).verdict == "can't tell"
    assert claim_on(train, test, U, V, feedback="implicit").verdict == "can't tell"
    assert "trained on" in claim_on(train, A, U, V).note
    equal = train.with_values(np.full(train.n_observed, 2.0))
    assert "all equal" in claim_on(equal, test, U, V).note


def test_rows_and_columns_never_seen_are_predicted_by_what_is_known():
    rng = np.random.default_rng(0)
    world = World(4, taste=3.0, n=300)
    train, test = world.entries
    model = ALS(5, random_state=0).fit(train)
    more = rng.integers(300, 310, 40), rng.integers(0, 120, 40), rng.uniform(2, 8, 40)
    pairs = zip((test.rows, test.columns, test.values), more, strict=True)
    larger = Observed.from_triplets(
        *(np.r_[a, b] for a, b in pairs), shape=(310, 120), duplicates="last"
    )
    found = model.certify(train, larger, unknown="baseline")["beats_offsets"]
    assert found.verdict == "holds"
    assert f"{larger.n_observed:,} entries" in found.note
