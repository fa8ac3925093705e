"""Claims decide by comparing two numbers; checks keep to a budget, and certificates say what was and what was not checked."""

import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lemmata
from lemmata.audit.kernel.claims import fact
from lemmata.core import (
    PROVED,
    RULE_OF_THUMB,
    STATISTICAL,
    Blocks,
    Certificate,
    Claim,
    Fit,
    NotCertified,
    Statement,
    Stopped,
    Trace,
    at_least,
    at_most,
    check,
    claim,
    passes,
    rounding,
    store,
    unknown,
)
from lemmata.core.certificate import (
    BROKEN,
    FAILS,
    HOLDS,
    LEAST_BUDGET,
    NOT_CHECKED,
    UNDECIDED,
)
from lemmata.core.certification.checking import budget

INF, NAN = math.inf, math.nan


@claim("the number is small", kind=PROVED, source="CIL 1.1")
def small(fit):
    return at_most(fit.number_, 1.0, advice="make it smaller", unit="|x|")


@claim("the run never rose", kind=PROVED, source="CIL 1.2", about="run")
def never_rose(fit):
    return at_most(fit.trace.largest_rise, rounding(np.float64))


@claim("a dear truth", kind=STATISTICAL, confidence=0.99, source="CIL 1.3", cost=passes(10))
def dear(fit):
    return at_least(fit.number_, 0.0, note="for this sample only")


class Toy:
    certify = None  # as our models have it

    def __init__(self, number=0.5):
        self.number_ = number


DATA = Blocks.of(np.ones((5, 3)))  # 15 numbers, so `dear` costs 150


def certificate(number=0.5, *, trace=None, work=INF, data=DATA, stopped="settled, 3 steps"):
    fit = Fit(Toy(number), data, trace=trace, stopped=stopped)
    return check([small, never_rose, dear], fit, "Toy  5 × 3", work=work)


def made(name, evidence=None, cost=None, kind=PROVED, error=None):
    """A statement that finds this evidence, or raises this error, at this cost."""

    def found(fit):
        if error is not None:
            raise error
        return at_most(0, 1) if evidence is None else evidence

    price = cost if callable(cost) else (lambda fit: cost or 0.0)
    return Statement(name, f"{name} is so", kind, "S 1", found, cost=price)


# --- verdicts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        (at_most(1, 2), HOLDS),
        (at_most(2, 2), HOLDS),
        (at_most(np.nextafter(2, 3), 2), FAILS),
        (at_most(-INF, INF), HOLDS),
        (at_most(INF, 1), FAILS),
        (at_most(INF, INF), HOLDS),
        (at_most(NAN, 1), BROKEN),
        (at_most(1, NAN), BROKEN),
        (at_least(2, 2), HOLDS),
        (at_least(1, 2), FAILS),
        (at_least(-INF, 0), FAILS),
        (at_least(NAN, NAN), BROKEN),
        (at_most(np.float32(1), np.int64(2)), HOLDS),
        (unknown("because"), UNDECIDED),
        (unknown("because", measured=3.0), UNDECIDED),
    ],
)
def test_comparing_the_two_numbers_decides(evidence, verdict):
    assert evidence.verdict == verdict
    assert small.claim(evidence).verdict == verdict


@given(st.floats(), st.floats())
def test_at_most_and_at_least_are_mirror_images(a, b):
    assert at_most(a, b).verdict == at_least(b, a).verdict
    assert (at_most(a, b).verdict == BROKEN) == (math.isnan(a) or math.isnan(b))


def test_a_missing_number_is_broken_and_says_which():
    assert small.claim(at_most(NAN, 1)).note == "what was measured is not a number"
    assert small.claim(at_most(1, NAN)).note == "the bound is not a number"
    assert small.claim(at_most(1, NAN, note="no bound is known")).note == "no bound is known"


def claim_of(**changes):
    fields = {
        "name": "a",
        "sentence": "b",
        "source": "c",
        "kind": PROVED,
        "confidence": NAN,
        "state": "",
    }
    fields |= {"measured": 1.0, "relation": "≤", "bound": 2.0, "advice": "", "unit": "", "note": ""}
    return Claim(**fields | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"relation": "<<"},
        {"sentence": 3},
        {"kind": "certain"},
        {"state": "holds"},
        {"state": None},
        {"confidence": 1.5},
        {"confidence": -0.1},
    ],
)
def test_what_is_no_claim_is_refused(changes):
    with pytest.raises(ValueError, match="not a claim"):
        claim_of(**changes)


def test_a_claim_cannot_contradict_its_own_numbers():
    assert claim_of(measured=2.5).verdict == FAILS  # there is no field to say otherwise
    assert claim_of(measured=2.5, state=NOT_CHECKED).verdict == NOT_CHECKED


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"about": "luck"}, "about='luck': a claim is about the 'result' or the 'run'"),
        ({"kind": "certain"}, "kind='certain': a claim is proved, statistical or a rule of thumb"),
    ],
)
def test_a_claim_says_what_it_is_about_and_how_strong_it_is(options, message):
    with pytest.raises(ValueError, match=message):
        claim("x", source="y", **{"kind": PROVED, **options})


def test_kinds_are_those_of_the_claim_unless_the_evidence_says_otherwise():
    item = dear.claim(at_most(1, 2))
    assert (item.kind, item.confidence, item.strength) == (STATISTICAL, 0.99, "statistical 99 %")
    item = dear.claim(at_most(1, 2, kind=PROVED))
    assert (item.kind, item.strength) == (PROVED, "proved")
    assert math.isnan(item.confidence)
    item = small.claim(at_least(2, 1, kind=STATISTICAL, confidence=0.999999))
    assert item.strength == "statistical 99.9999 %"
    assert small.claim(at_most(1, 2, kind=RULE_OF_THUMB)).strength == "rule of thumb"


def test_rounding_grows_with_the_root_of_the_terms_and_the_eps_of_the_type():
    assert rounding(np.float64) == 8 * np.finfo(np.float64).eps
    assert rounding(np.float32, terms=100) == pytest.approx(80 * np.finfo(np.float32).eps)
    assert rounding(np.int64) == rounding(float) == rounding(np.float64, terms=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("terms", [10, 1000, 100_000])
def test_rounding_covers_the_errors_of_real_sums(dtype, terms):
    """The error of a sum of random products, relative to the sum of their sizes, stays below it on every seed."""
    worst = 0.0
    for seed in range(20):
        x, y = np.random.default_rng(seed).standard_normal((2, terms)).astype(dtype)
        products = x.astype(np.float64) * y.astype(np.float64)
        error = abs(float(np.add.reduce(x * y)) - math.fsum(products))
        worst = max(worst, error / np.abs(products).sum())
    assert worst <= rounding(dtype, terms)


# --- reading it -------------------------------------------------------------------------------------------------------


def test_claims_are_grouped_by_verdict():
    trace = Trace()
    trace.append(1.0, 0.0)
    kept = certificate(trace=trace)
    assert kept.held == ["small", "never_rose", "dear"]
    assert kept.failed == kept.undecided == kept.broken == kept.not_checked == []
    failed = certificate(-2.0, trace=trace)
    assert (failed.held, failed.failed) == (["small", "never_rose"], ["dear"])
    assert [item.name for item in failed] == ["small", "never_rose", "dear"]
    assert len(failed) == 3
    mixed = check(
        [made("a", unknown("?")), made("b", error=KeyError("x")), made("c", cost=9)],
        Fit(Toy()),
        "T",
        work=1,
    )
    assert (mixed.undecided, mixed.broken, mixed.not_checked) == (["a"], ["b"], ["c"])


def test_claims_are_found_by_name_and_by_place():
    found = certificate()
    assert found["small"] is found[0]
    assert found[-1] is found["dear"]
    with pytest.raises(KeyError, match="no claim 'large'; there are small, never_rose, dear"):
        found["large"]
    with pytest.raises(IndexError):
        found[3]


@pytest.mark.parametrize(
    ("statement", "holds", "strictly"),
    [
        (made("a"), True, True),
        (made("a", unknown("no trace")), True, False),
        (made("a", at_most(2, 1)), False, False),
        (made("a", at_most(NAN, 1)), False, False),
        (made("a", error=ValueError("x")), False, False),
        (made("a", cost=10), False, False),
    ],
)
def test_holds_is_what_require_would_say(statement, holds, strictly):
    found = check([made("first"), statement], Fit(Toy(), DATA), "T", work=1)
    assert found.holds is holds
    assert bool(found) is holds
    for strict, passes_ in ((False, holds), (True, strictly)):
        if passes_:
            assert found.require(strict=strict) is found
        else:
            with pytest.raises(NotCertified, match=r"T: 1 claim\(s\) do not hold\.\n  a: "):
                found.require(strict=strict)


def test_require_names_what_is_missing_and_the_call_that_helps():
    with pytest.raises(NotCertified) as caught:
        certificate(2.5, work=1).require()
    assert str(caught.value).splitlines() == [
        "Toy  5 × 3: 2 claim(s) do not hold.",
        "  small: fails (|x| 2.5 > 1)",
        "  dear: not checked (run certify(X) for it)",
        "  To check the rest: model.certify(X).require()",
    ]
    foreign = check([made("a", cost=1e8)], Fit(object(), DATA, y=np.ones(5)), "T", work=1)
    with pytest.raises(NotCertified, match=r"check the rest: lemmata.certify\(model, X, y\).req"):
        foreign.require()
    huge = check([made("a", cost=2e9), made("b", cost=1e9)], Fit(Toy(), DATA), "T", work=1)
    with pytest.raises(NotCertified, match=r"model.certify\(X, seconds=3\).require\(\)"):
        huge.require()
    with pytest.raises(NotCertified) as caught:  # nothing helps against numbers that are no numbers
        check([attributes_unsound, made("a")], Fit(Toy(), DATA), "T").require()
    assert "To check the rest" not in str(caught.value)


def test_a_named_claim_has_to_hold():
    good = certificate()
    assert good.require("small", "dear") is good
    with pytest.raises(NotCertified, match="never_rose: can't tell"):
        good.require("small", "never_rose")
    bad = certificate(-2.0)
    assert bad.require("small") is bad
    with pytest.raises(KeyError):
        bad.require("smal")


def test_a_certificate_holds_claims_and_nothing_else():
    for title, claims, stopped in (
        ("a", ("claim",), ""),
        ("a", [], ""),
        (3, (), ""),
        ("a", (), None),
    ):
        with pytest.raises(ValueError, match="certificate"):
            Certificate(title, claims, stopped)
    for more in ({"data": 3}, {"versions": None}, {"skipped": ()}, {"trace": "trace"}):
        with pytest.raises(ValueError, match="certificate"):
            Certificate("a", (), **more)


# --- what a check sees ------------------------------------------------------------------------------------------------


def test_a_fit_shows_the_adapters_attributes_first_and_then_the_models():
    fit = Fit(Toy(3.0), attributes={"other_": 4})
    assert (fit.number_, fit.other_) == (3.0, 4)
    assert fit.has("number_")
    assert fit.has("other_")
    assert not fit.has("none_")
    assert not hasattr(fit, "none_")
    assert (fit.get("none_"), fit.get("none_", 7), fit.get("number_", 7)) == (None, 7, 3.0)
    assert Fit(Toy(3.0), attributes={"number_": 5}).number_ == 5


def test_a_claim_about_the_run_cannot_tell_without_a_trace():
    item = certificate()["never_rose"]
    assert (item.verdict, item.note) == (UNDECIDED, "no trace of the run")


def test_a_claim_that_asks_for_data_that_is_not_there_waits():
    # says that it costs nothing, and reads all the same
    @claim("it reads", kind=PROVED, source="s")
    def reads(fit):
        return at_most(fit.data.shape[0], 10)

    for work, waiting in ((100.0, ["reads", "dear"]), (INF, ["reads"])):
        found = check([reads, small, dear], Fit(Toy()), "T", work=work)
        assert found.not_checked == waiting
        assert {found[name].note for name in found.not_checked} == {"run certify(X) for it"}
        assert found["small"].verdict == HOLDS
        assert found.data == ""


def test_a_check_that_stumbles_is_broken_and_says_why():
    @claim("broken", kind=PROVED, source="none")
    def stumbles(fit):
        return at_most(fit.no_such_attribute_, 1)

    item = stumbles(Fit(Toy()))
    assert item.verdict == BROKEN
    assert "AttributeError" in item.note
    assert "no_such_attribute_" in item.note


attributes_unsound = Statement(
    "attributes_sound", "sound", PROVED, "s", lambda fit: at_most(2, 0, note="components_ is NaN")
)


def test_where_the_attributes_are_unsound_nothing_else_is_checked():
    broken = Statement("attributes_sound", "sound", PROVED, "s", lambda fit: at_most(NAN, 0))
    for first, word in ((attributes_unsound, "fails"), (broken, "broken")):
        found = check([made("cheap"), made("dear", cost=5), first], Fit(Toy(), DATA), "T")
        assert found["attributes_sound"].verdict == word
        assert found.not_checked == ["cheap", "dear"]
        assert found["cheap"].note == f"attributes_sound {word}"
        assert not found


# --- the budget -------------------------------------------------------------------------------------------------------


def order_of(*statements, work=INF, seconds=None, fit=None):
    told = []
    found = check(
        statements, fit or Fit(Toy(), DATA), "T", work=work, seconds=seconds, progress=told.append
    )
    return told, found


def test_cheap_claims_come_first_and_the_rest_is_not_checked():
    statements = [made("c", cost=30), made("a", cost=1), made("b", cost=10), made("free")]
    told, found = order_of(*statements, work=20)
    assert told == ["free", "a", "b"]
    assert found.not_checked == ["c"]
    assert [item.name for item in found] == [
        "c",
        "a",
        "b",
        "free",
    ]  # shown in the order of the tuple
    told, found = order_of(*statements, work=41)
    assert told == ["free", "a", "b", "c"]


def test_attributes_are_looked_at_whatever_the_budget():
    sound = Statement(
        "attributes_sound", "s", PROVED, "s", lambda fit: at_most(0, 0), cost=lambda fit: 1e30
    )
    told, found = order_of(made("free"), sound, made("a", cost=1), work=0)
    assert told[0] == "attributes_sound"
    assert found.held == ["free", "attributes_sound"]
    told, found = order_of(sound, made("a", cost=1), seconds=0)
    assert told == ["attributes_sound"]


def test_a_fact_that_one_check_paid_for_is_free_for_others():
    two_passes = fact(cost=passes(2))(lambda fit: 1)
    both = [
        Statement(
            name, "s", PROVED, "s", lambda fit: at_most(two_passes(fit), 1), needs=(two_passes,)
        )
        for name in ("a", "b")
    ]
    told, found = order_of(*both, work=30)  # 2 × 15 once, not twice
    assert told == ["a", "b"]
    assert found.holds


def test_costs_that_are_no_numbers_do_no_harm():
    def bad(fit):
        raise KeyError("no such thing")

    statements = [
        made("nan", cost=lambda fit: NAN),
        made("negative", cost=-1e9),
        made("bad", cost=bad),
        made("a", cost=5),
    ]
    told, found = order_of(*statements, work=5)
    assert sorted(told) == ["a", "bad", "nan", "negative"]  # all but `a` count as nothing
    told, found = order_of(*statements, work=4)
    assert found.not_checked == ["a"]
    told, found = order_of(made("never", cost=INF), made("a", cost=5), work=10)
    assert found["never"].note == "too expensive on this data"
    told, found = order_of(made("never", cost=INF), made("a", cost=5), made("b", cost=6))
    assert told == ["a", "b", "never"]  # no budget at all


def test_a_search_is_told_what_is_left():
    left = []

    def search(fit):
        left.append(fit.work)
        return at_most(0, 1)

    statements = [Statement(n, "s", PROVED, "s", search, cost=lambda fit: 10.0) for n in "ab"]
    check(statements, Fit(Toy(), DATA), "T", work=25)
    assert left == [25, 15]


def test_a_claim_put_off_names_the_call_that_is_enough_for_it():
    statements = [made("a", cost=1e8), made("b", cost=6e8), made("c", cost=3e9)]
    fit = Fit(Toy(), DATA)
    notes = {item.name: item.note for item in check(statements, fit, "T", work=0)}
    assert notes["a"] == "run certify(X) for it"  # 0.1 of the 0.5 s that certify has at least
    assert notes["b"] == "run certify(X, seconds=1) for it"  # 0.7 s with the one before it
    assert notes["c"] == "run certify(X, seconds=4) for it"
    notes = {item.name: item.note for item in check(statements, fit, "T", work=0, usual=1e9)}
    assert notes["b"] == "run certify(X) for it"
    # what was not enough is not proposed again, on however slow a machine
    assert (
        check([made("a", cost=9e8)], fit, "T", seconds=0.5)[0].note
        == "run certify(X, seconds=1) for it"
    )


def test_seconds_end_the_checking_where_they_are_over(monkeypatch):
    now = [0.0]

    def take_long(fit):
        now[0] += 0.06
        return at_most(0, 1)

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    slow = [Statement(n, "s", PROVED, "s", take_long, cost=lambda fit: 1e6) for n in "abcdefgh"]
    told, found = order_of(*slow, seconds=0.1)
    assert len(told) == 2
    assert len(found.not_checked) == 6
    assert found[7].note == "run certify(X) for it"  # whose 0.5 s of work are enough for all eight
    for seconds in (-1, NAN):
        with pytest.raises(ValueError, match="seconds"):
            check([small], Fit(Toy(), DATA), "T", seconds=seconds)


def test_ctrl_c_ends_the_checking_and_keeps_what_was_checked():
    statements = [made("a"), made("b", cost=1, error=KeyboardInterrupt()), made("c", cost=2)]
    found = check(statements, Fit(Toy(), DATA), "T")
    assert (found.held, found.not_checked) == (["a"], ["b", "c"])
    assert {found["b"].note, found["c"].note} == {"interrupted"}
    assert found.interrupted
    assert not found.holds
    assert not certificate(work=1).interrupted

    def price(fit):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # who holds the key down means it
        check([made("a", cost=price)], Fit(Toy(), DATA), "T")


def test_the_default_budget_is_five_times_the_fit_or_half_a_second():
    fit = Fit(Toy(), DATA)
    assert budget(lambda fit: 1e9, fit) == 5e9
    for work in (0.0, NAN, -1.0):
        assert budget(lambda fit, work=work: work, fit) == LEAST_BUDGET
    assert budget(lambda fit: fit.data.size, Fit(Toy())) == LEAST_BUDGET  # no data
    assert budget(lambda fit: fit.nothing_.shape, fit) == LEAST_BUDGET  # spoilt attributes


# --- files ------------------------------------------------------------------------------------------------------------


def test_json_is_json_even_where_numbers_are_not():
    def no_constants(name):
        raise AssertionError(name)

    content = json.loads(certificate(INF).to_json(), parse_constant=no_constants)
    assert content == certificate(INF).to_dict()
    assert [item["verdict"] for item in content["claims"]] == ["fails", "can't tell", "holds"]
    assert [item["kind"] for item in content["claims"]] == [PROVED, PROVED, STATISTICAL]
    assert content["claims"][2]["confidence"] == 0.99
    assert content["claims"][0]["measured"] is None
    assert content["stopped"] == "settled, 3 steps"
    assert content["holds"] is False
    assert content["data"].startswith("5 × 3 float64, digest ")
    assert content["versions"].startswith("lemmata ")
    assert "×" in certificate().to_json(indent=2)


def test_a_certificate_survives_a_file_and_a_pickle(tmp_path):
    trace = Trace()
    trace.append(3.0, 0.1)
    kept = certificate(INF, trace=trace, work=3)
    store.write(tmp_path / "c", "test", {"c": kept})
    for back in (store.read(tmp_path / "c", "test")["c"], pickle.loads(pickle.dumps(kept))):
        assert back == kept
        assert str(back) == str(kept)
        assert back.to_json() == kept.to_json()
        assert back.trace.objective.tolist() == [3.0]


VERSION_1 = {
    "name": "a",
    "sentence": "b",
    "source": "c",
    "advice": "",
    "unit": "",
    "measured": NAN,
    "bound": NAN,
}


@pytest.mark.parametrize(
    ("old", "verdict"),
    [
        ({"verdict": "holds", "measured": 1.0, "relation": "≤", "bound": 2.0}, HOLDS),
        ({"verdict": "fails", "measured": 3.0, "relation": "≤", "bound": 2.0}, FAILS),
        ({"verdict": "can't tell", "note": "no trace of the run"}, UNDECIDED),
        ({"verdict": "can't tell", "note": "run certify(X) for it"}, NOT_CHECKED),
        ({"verdict": "can't tell", "note": "the check itself failed: KeyError: 'x'"}, BROKEN),
        (
            {
                "verdict": "can't tell",
                "relation": "≤",
                "bound": 2.0,
                "note": "what was measured is not a number",
            },
            BROKEN,
        ),
        (
            {
                "verdict": "can't tell",
                "relation": "≤",
                "measured": 1.0,
                "note": "the bound is not a number",
            },
            BROKEN,
        ),
    ],
)
def test_claims_of_version_1_keep_what_they_said_and_promise_no_more(old, verdict):
    item = Claim(**Claim.upgrade({**VERSION_1, "relation": "", "note": "", **old}, 1))
    assert (item.verdict, item.kind) == (verdict, RULE_OF_THUMB)


def test_a_model_saved_with_a_certificate_of_version_1_is_read():
    model = lemmata.load(Path(__file__).with_name("core_version_1.lemma"))
    kept = model.certificate_
    assert kept.held == ["orthonormal_basis"]
    assert len(kept.not_checked) == 6
    assert {item.kind for item in kept} == {RULE_OF_THUMB}
    assert model.stopped_ is Stopped.FINISHED
    assert kept.trace is model.trace_
