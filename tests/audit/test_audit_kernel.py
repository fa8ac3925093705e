"""The kernel of the trusted base: facts are computed and paid for once, witnesses travel, bounds hold as they say."""

import numpy as np
import pytest

import lemmata
from lemmata.audit.kernel.attributes import never_rose
from lemmata.audit.kernel.claims import (
    PROVED,
    STATISTICAL,
    CannotTell,
    Fit,
    at_least,
    at_most,
    claim,
    fact,
)
from lemmata.audit.kernel.concentration import mean_of_unlike_at_least
from lemmata.audit.kernel.held_out import beats, mean_gain
from lemmata.core import Trace, check
from lemmata.core.certificate import WITNESSES


class Toy:
    pass


def test_a_fact_is_computed_once_and_paid_for_by_the_first_claim_that_needs_it():
    asked = []

    @fact(cost=lambda fit: 100.0)
    def base(fit):
        asked.append("base")
        return 1

    @fact(cost=lambda fit: 10.0, needs=(base,))
    def above(fit):
        asked.append("above")
        return base(fit) + 1

    @claim("one", kind=PROVED, source="s", needs=(base, above), cost=lambda fit: 1.0)
    def one(fit):
        return at_most(above(fit), 2)

    @claim("two", kind=PROVED, source="s", needs=(above,))
    def two(fit):
        return at_most(above(fit), 0)

    fit = Fit(Toy())
    assert (one.price(fit), two.price(fit)) == (111, 110)
    found = check((one, two), fit, "T")
    assert (found.held, found.failed, asked) == (["one"], ["two"], ["above", "base"])
    assert (one.price(fit), two.price(fit)) == (1, 0)
    # a budget that pays for the facts once is enough for both
    assert check((one, two), Fit(Toy()), "T", work=111).not_checked == []
    assert check((one, two), Fit(Toy()), "T", work=109).not_checked == ["one", "two"]


def test_why_a_fact_could_not_be_computed_is_remembered():
    tries = []

    @fact(cost=lambda fit: 1.0)
    def broken(fit):
        tries.append(1)
        raise ArithmeticError("no such number")

    @claim("s", kind=PROVED, source="s", needs=(broken,))
    def asks(fit):
        return at_most(broken(fit), 0)

    fit = Fit(Toy())
    for _ in range(2):
        found = asks(fit)
        assert (found.verdict, "no such number" in found.note) == ("broken", True)
    assert len(tries) == 1


def test_a_fact_that_cannot_be_had_leaves_its_claims_undecided():
    @fact(cost=lambda fit: 1.0)
    def missing(fit):
        raise CannotTell("there are too many rows")

    @claim("s", kind=PROVED, source="s", needs=(missing,))
    def asks(fit):
        return at_most(missing(fit), 0)

    fit = Fit(Toy())
    for _ in range(2):
        found = asks(fit)
        assert (found.verdict, found.note) == ("can't tell", "there are too many rows")


def test_a_witness_is_asked_of_a_search_that_can_be_switched_off(monkeypatch):
    monkeypatch.setattr(
        Fit, "searches", staticmethod(lambda name: lambda fit, x: (name, fit.model, x))
    )
    assert Fit(3).witness("better_weights", 4) == ("better_weights", 3, 4)
    monkeypatch.undo()
    monkeypatch.setitem(WITNESSES, "sqrt", "math")
    assert Fit(3).searches("sqrt")(4.0) == 2
    with lemmata.config(searches=False):
        assert Fit(3).witness("sqrt") is None
    with pytest.raises(TypeError, match="searches='no'"), lemmata.config(searches="no"):
        pass


def test_small_witnesses_are_saved_with_the_certificate_and_large_ones_are_not(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 4))
    model = lemmata.PCA(2).fit(X)
    small, large = np.arange(3.0), np.zeros(2**18)

    @claim("s", kind=PROVED, source="s")
    def shown(fit):
        return at_most(0, 1, witness={"direction": small, "gap": 0.5})

    @claim("s", kind=PROVED, source="s")
    def too_large(fit):
        return at_most(0, 1, witness={"point": large})

    model.certificate_ = check((shown, too_large), Fit(model), "T")
    assert model.certificate_["too_large"].witness["point"] is large
    lemmata.save(model, tmp_path / "m.lemma")
    back = lemmata.load(tmp_path / "m.lemma").certificate_
    np.testing.assert_array_equal(back["shown"].witness["direction"], small)
    assert back["shown"].witness["gap"] == 0.5
    assert back["too_large"].witness == {}
    assert "witness" not in back.to_dict()["claims"][0]


@pytest.mark.parametrize("shift", [0.0, -0.05])
def test_bounds_of_unlike_draws_are_wrong_at_most_as_often_as_they_say(shift):
    """Bernoulli draws of different means, whose mean is at most 0: a positive lower bound is a mistake."""
    rng = np.random.default_rng(1)
    means = np.linspace(-0.6, 0.6, 60) + shift
    wrong = 0
    for _ in range(150):
        z = np.where(rng.random(60) < (1 + means) / 2, 1.0, -1.0)
        wrong += mean_of_unlike_at_least(z, 0.05, -1, 1) > means.mean()
    assert wrong <= 0.05 * 150
    # and a mean that is there is found
    assert mean_of_unlike_at_least(np.full(100, 0.3), 0.05, -1, 1) > 0.2


def test_a_gain_is_judged_from_both_sides():
    x = np.full(400, 0.2)
    assert beats(mean_gain(x, 0.05), "n", "a").verdict == "holds"
    lost = beats(mean_gain(-x, 0.05, alike=False), "n", "use the mean")
    assert (lost.verdict, lost.advice, lost.unit) == ("fails", "use the mean", "gain at most")
    assert beats(mean_gain(x[:2], 0.05), "n", "a").note == "n: too few to tell"
    assert beats(mean_gain(x, 0.05), "n", "a", uncapped=-1.0).verdict == "can't tell"
    scaled = beats(mean_gain(x, 0.05), "n", "a", scale=10.0)
    assert scaled.measured == pytest.approx(10 * mean_gain(x, 0.05).lower)


def test_a_rise_beyond_rounding_fails_and_one_below_it_does_not():
    def traced(*values):
        trace = Trace()
        for value in values:
            trace.append(value, 0.0)
        return Fit(Toy(), trace=trace)

    one = never_rose("never", "s", lambda fit: 1e-12, needs_steps="no step was made")
    assert (one.name, one.about) == ("never_rose", "run")
    assert one(traced(3.0, 2.0, 2.0)).verdict == "holds"
    assert one(traced(3.0, 2.0, 2.1)).verdict == "fails"
    assert one(traced(3.0, 2.0, 2.0 + 1e-13)).verdict == "holds"
    assert one(traced(3.0)).note == "no step was made"
    assert one(Fit(Toy())).note == "no trace of the run"


def test_a_rise_is_measured_against_the_terms_and_less_its_price():
    def verdict(values, prices, **options):
        trace = Trace()
        for value, price in zip(values, prices, strict=True):
            trace.append(value, 0.0, {"price": price})
        one = never_rose("never", "s", lambda fit: 1e-12, **options)
        return one(Fit(Toy(), trace=trace)).verdict

    nothing = [0.0, 0.0]
    # rows of size 1 that are met to rounding: a rise of 1e-32 is none
    assert verdict([1e-32, 2e-32], nothing) == "fails"
    assert verdict([1e-32, 2e-32], nothing, size=lambda fit: 1.0) == "holds"
    assert verdict([1e-32, 2e-11], nothing, size=lambda fit: 1.0) == "fails"
    assert verdict([1.0, 1.1], [0.0, 0.1], price="price") == "holds"
    assert verdict([1.0, 1.1], [0.1, 0.0], price="price") == "fails"


def test_a_statistical_claim_of_the_kernel_needs_its_confidence():
    @claim("s", kind=STATISTICAL, source="s", confidence=0.95)
    def stated(fit):
        return at_least(1, 0)

    assert stated(Fit(Toy())).strength == "statistical 95 %"
