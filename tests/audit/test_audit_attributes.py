"""The two claims that begin every certificate: sound attributes, and statements that are true of the data."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lemmata.audit.kernel.attributes import (
    KINDS,
    LAWS,
    Shape,
    attributes_sound,
    discrepancy,
    entries,
    parse,
    shape_for,
    statements_true,
)
from lemmata.core import PROVED, Blocks, Fit, check
from lemmata.core.certificate import BROKEN, FAILS, HOLDS, UNDECIDED

SPEC = {
    "components_": "k d",
    "mean_": "d",
    "variance_": "k >=0 falling",
    "weights_?": "k >0 <=1 sum=1",
    "labels_?": "n int >=0",
    "noise_": "",
}
SOUND = attributes_sound(SPEC)
DATA = Blocks.of(np.ones((5, 3)))


def fitted(**changes):
    attributes = {
        "components_": np.eye(2, 3),
        "mean_": np.zeros(3, np.float32),
        "variance_": np.array([2.0, 1.0]),
        "weights_": np.array([0.25, 0.75]),
        "labels_": np.array([0, 1, 1, 0, 1]),
        "noise_": 0.5,
    }
    return SimpleNamespace(**{**attributes, **changes})


def soundness(data=DATA, **changes):
    return SOUND(Fit(fitted(**changes), data))


def test_sound_attributes_hold_with_and_without_data():
    for data in (DATA, None):
        item = soundness(data)
        assert (item.name, item.kind, item.verdict) == ("attributes_sound", PROVED, HOLDS)
        assert item.numbers == "unsound 0 ≤ 0"
    assert soundness(weights_=None, labels_=None).verdict == HOLDS
    assert soundness(variance_=np.array([1.0, 1.0 + 1e-16])).verdict == HOLDS  # rounding
    assert soundness(variance_=np.zeros(2)).verdict == HOLDS
    assert (
        soundness(labels_=np.array([0, 1])).verdict == HOLDS
    )  # of other rows: not for this claim to say
    for dtype in (np.float32, np.float64):
        weights = np.full(2, 0.5, dtype)
        assert soundness(weights_=weights).verdict == HOLDS


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"components_": np.full((2, 3), np.nan)}, "components_ has 6 numbers that are not finite"),
        ({"mean_": np.array([0, np.inf, 0])}, "mean_ has 1 numbers that are not finite"),
        ({"noise_": math.nan}, "noise_ has 1 numbers"),
        ({"noise_": None}, "noise_ is missing"),
        ({"noise_": np.zeros(1)}, r"noise_ has shape \(1,\), not \(\)"),
        ({"components_": np.eye(2, 4)}, r"components_ has shape \(2, 4\), but d = 3"),
        ({"components_": np.zeros(6)}, r"components_ has shape \(6,\), not \(k d\)"),
        ({"variance_": np.ones(3)}, r"variance_ has shape \(3,\), but k = 2"),
        ({"variance_": np.array([1.0, -1e-9])}, "variance_ should be >= 0"),
        ({"variance_": np.array([1.0, 2.0])}, "variance_ should be falling"),
        ({"weights_": np.array([0.0, 1.0])}, "weights_ should be > 0"),
        ({"weights_": np.array([0.5, 1.5])}, "weights_ should be <= 1; weights_ should be sum 1"),
        ({"weights_": np.array([0.5, 0.5 + 1e-9])}, "weights_ should be sum 1"),
        ({"labels_": np.array([0, 0.5, 1, 1, 1])}, "labels_ should be whole"),
        ({"labels_": np.array([0, -1, 1, 1, 1])}, "labels_ should be >= 0"),
        ({"mean_": np.array(["a", "b", "c"])}, "mean_ holds <U1, not numbers"),
        ({"mean_": np.zeros(3, complex)}, "mean_ holds complex128, not numbers"),
        ({"components_": "components"}, "components_ holds <U10, not numbers"),
    ],
)
def test_what_is_wrong_is_named(changes, words):
    import re

    item = soundness(**changes)
    assert item.verdict == FAILS
    assert re.search(words, item.note), item.note
    assert item.remarks[0] == "→ do not use this model; fit it again"


def test_many_faults_are_counted():
    broken = soundness(mean_=None, components_=None, variance_=None, noise_=None)
    assert broken.measured == 4
    assert broken.note.endswith("; and 1 more")


def test_a_family_may_look_further():
    def more(fit):
        if fit.noise_ > fit.variance_.min():
            yield "noise_ exceeds the variances"

    statement = attributes_sound(SPEC, more)
    assert statement(Fit(fitted())).verdict == HOLDS
    assert statement(Fit(fitted(noise_=3.0))).note == "noise_ exceeds the variances"
    assert (
        statement(Fit(fitted(noise_=None))).note == "noise_ is missing"
    )  # `more` is not asked then
    stumbling = attributes_sound(SPEC, lambda fit: iter([1 / 0]))
    assert stumbling(Fit(fitted())).verdict == BROKEN


def test_an_unsound_model_stops_the_certificate():
    true = statements_true(lambda fit: {"noise_": 0.0})
    found = check([SOUND, true], Fit(fitted(noise_=math.nan), DATA), "T")
    assert (found.failed, found.not_checked) == (["attributes_sound"], ["statements_true"])


# --- shapes -----------------------------------------------------------------------------------------------------------

AXES = st.one_of(
    st.from_regex("[A-Za-z]{1,8}", fullmatch=True).filter(lambda word: word not in (*KINDS, *LAWS)),
    st.integers(0, 10**9 - 1).map(str),
)
BOUNDS = st.one_of(st.integers(-(10**9) + 1, 10**9 - 1), st.sampled_from(["0.5", "-1.25"]))
RANGES = st.builds("{}{}".format, st.sampled_from([">=", "<=", ">", "<"]), BOUNDS)
SHAPES = st.builds(
    Shape,
    st.lists(AXES, max_size=4).map(tuple),
    st.lists(st.one_of(st.sampled_from([*KINDS, *LAWS]), RANGES), max_size=4).map(tuple),
)


@given(st.lists(SHAPES, min_size=1, max_size=3))
def test_a_shape_is_read_as_it_was_written(shapes):
    assert parse(" | ".join(map(str, shapes))) == tuple(shapes)
    assert parse("|".join(f"  {one} " for one in shapes)) == tuple(shapes)


@given(st.one_of(st.text(), st.text("kd2 |<>=.-+01einftasu?_,", max_size=20)))
def test_any_text_is_a_shape_that_comes_back_or_is_refused(text):
    try:
        shapes = parse(text)
    except ValueError:
        return
    assert parse(" | ".join(map(str, shapes))) == shapes
    for one in shapes:
        list(one.violations(np.zeros(3), dict.fromkeys(one.axes, 1)))  # every rule can be applied


@pytest.mark.parametrize(
    "text", ["k,d", "k d >= 0", ">=xy", ">=", "<=nan", ">1e5", "=1", "sum=2", "k? d", ">=0 k", "k_"]
)
def test_what_is_no_shape_is_refused(text):
    with pytest.raises(ValueError, match="is no shape"):
        parse(text)


def test_numbers_are_sizes_and_letters_agree():
    pairs, sizes = shape_for("p 2 int", np.zeros((5, 2))), {"k": 3}
    assert pairs.describes((5, 2))
    assert not pairs.describes((5, 3))
    assert not pairs.describes((5,))
    assert pairs.other_size((5, 2), sizes) is None
    assert sizes["p"] == 5
    assert parse("p k")[0].other_size((5, 4), sizes) == "k"
    assert shape_for("d | m d", np.zeros((2, 3))).axes == ("m", "d")
    assert shape_for("d | m d", 0.0).axes == ("d",)  # the first if none fits


def test_names_share_a_line_of_a_table_and_the_later_line_counts():
    table = {"U_ V_?": "n k", "loss_": ">=0"} | {"V_": "d k"}
    assert entries(table) == {"U_": ("n k", False), "V_": ("d k", False), "loss_": (">=0", False)}


# --- statements -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "verdict", "named"),
    [
        ({"a_": 0.2, "b_": 1.0}, HOLDS, "checked a_, b_"),
        ({"a_": 0.2, "b_": 1.01}, FAILS, "b_ is not that of this data"),
        ({"a_": math.nan, "b_": 5.0}, FAILS, "a_ is not that of this data"),
        ({"a_": math.inf, "b_": 5.0}, FAILS, "a_ is not that of this data"),
        ({}, UNDECIDED, "states no number"),
    ],
)
def test_the_worst_statement_decides(found, verdict, named):
    item = statements_true(lambda fit: found)(Fit(fitted(), DATA))
    assert (item.name, item.kind, item.verdict) == ("statements_true", PROVED, verdict)
    assert named in item.note + item.advice


def test_the_discrepancy_is_in_units_of_what_rounding_may_do():
    assert discrepancy(1.0, 1.0, 1.0, 1e-12) == 0
    assert discrepancy([1.0, 2.0], [1.0, 2.0 + 4e-12], 1.0, 1e-12) == pytest.approx(4, rel=1e-3)
    assert discrepancy([1.0, 2.0], [1.0, 2.0 + 4e-12], [1.0, 100.0], 1e-12) == pytest.approx(
        0.04, rel=1e-3
    )
    assert discrepancy(np.float32(0.1), 0.1, 1.0, 1e-6) < 1
    assert discrepancy([], [], 1.0, 1e-12) == 0
    assert discrepancy(0.0, 0.0, 0.0, 1e-12) == 0  # a zero stated as a zero


@pytest.mark.parametrize(
    ("stated", "true", "scale"),
    [
        ([1.0], [1.0, 1.0], 1.0),
        ([1.0, math.nan], [1.0, 1.0], 1.0),
        ([1.0], [math.nan], 1.0),
        ([math.inf], [math.inf], 1.0),
        ([1.0], [1.0], math.inf),  # nothing is known where anything would do
        ([1.0], [1.0], math.nan),
        ([1e-300], [0.0], 0.0),
    ],
)
def test_what_cannot_be_compared_is_infinitely_wrong(stated, true, scale):
    assert discrepancy(stated, true, scale, 1e-12) == math.inf


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.integers(-300, 300))
def test_the_discrepancy_does_not_depend_on_the_unit(a, b, exponent):
    unit, size = 2.0**exponent, max(abs(a), abs(b))
    # scaling by a power of two is exact but for underflow, by 5e-324: 5e-324 / (1e-9·size) < 1e-6 from 5e-309 on
    assume(size == 0 or size * unit >= 1e-308)
    plain = discrepancy(a, b, size, 1e-9)
    assert discrepancy(
        a * unit, b * unit, max(abs(a * unit), abs(b * unit)), 1e-9
    ) == pytest.approx(plain, rel=1e-6, abs=1e-6)
