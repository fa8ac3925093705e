"""Claims decide by comparing two numbers, and certificates say so on every kind of paper."""

import json
import math
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core import (
    Certificate,
    Claim,
    Fit,
    NotCertified,
    Trace,
    at_least,
    at_most,
    claim,
    rounding,
    unknown,
)
from lemmata.core.certificate import FAILS, HOLDS, UNKNOWN, check

INF, NAN = math.inf, math.nan


@claim("the number is small", source="CIL 1.1")
def small(fit):
    return at_most(fit.number_, 1.0, advice="make it smaller", unit="|x|")


@claim("the run never rose", source="CIL 1.2", about="run")
def never_rose(fit):
    return at_most(fit.trace.largest_rise, rounding(np.float64))


@claim("a costly truth", source="CIL 1.3", costly=True)
def costly(fit):
    return at_least(fit.number_, 0.0, note="for this sample only")


class Toy:
    def __init__(self, number=0.5):
        self.number_ = number


def certificate(number=0.5, *, trace=None, put_off=False, stopped="settled, 3 steps"):
    fit = Fit(Toy(number), trace=trace, stopped=stopped)
    return check([small, never_rose, costly], fit, "Toy  5 × 3", costly=not put_off)


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
        (at_most(NAN, 1), UNKNOWN),
        (at_most(1, NAN), UNKNOWN),
        (at_least(2, 2), HOLDS),
        (at_least(1, 2), FAILS),
        (at_least(-INF, 0), FAILS),
        (at_least(NAN, NAN), UNKNOWN),
        (at_most(np.float32(1), np.int64(2)), HOLDS),
        (unknown("because"), UNKNOWN),
    ],
)
def test_comparing_the_two_numbers_decides(evidence, verdict):
    assert evidence.verdict == verdict


@given(st.floats(), st.floats())
def test_at_most_and_at_least_are_mirror_images(a, b):
    assert at_most(a, b).verdict == at_least(b, a).verdict
    assert (at_most(a, b).verdict == UNKNOWN) == (math.isnan(a) or math.isnan(b))


def test_a_missing_number_says_which():
    assert at_most(NAN, 1).note == "what was measured is not a number"
    assert at_most(1, NAN).note == "the bound is not a number"


def test_a_claim_cannot_contradict_its_own_numbers():
    with pytest.raises(ValueError, match="'holds' against its own numbers"):
        Claim("a", "a", "s", HOLDS, 2.0, "≤", 1.0, "", "", "")
    with pytest.raises(ValueError, match="against its own numbers"):
        Claim("a", "a", "s", "certainly", 1.0, "≤", 2.0, "", "", "")
    with pytest.raises(ValueError, match="not a claim"):
        Claim("a", "a", "s", HOLDS, 1.0, "<<", 2.0, "", "", "")
    with pytest.raises(ValueError, match="not a claim"):
        Claim("a", 3, "s", HOLDS, 1.0, "≤", 2.0, "", "", "")


def test_a_claim_is_about_the_result_or_the_run():
    with pytest.raises(
        ValueError, match="about='luck': a claim is about the 'result' or the 'run'"
    ):
        claim("x", source="y", about="luck")


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
        worst = max(
            worst, abs(float(np.add.reduce(x * y)) - math.fsum(products)) / np.abs(products).sum()
        )
    assert worst <= rounding(dtype, terms)


# --- checking ---------------------------------------------------------------------------------------------------------


def test_claims_are_grouped_by_verdict():
    trace = Trace()
    trace.append(1.0, 0.0)
    kept = certificate(trace=trace)
    assert (kept.holds, kept.failed, kept.unknown) == (["small", "never_rose", "costly"], [], [])
    broken = certificate(-2.0, trace=trace)
    assert (broken.holds, broken.failed, broken.unknown) == (
        ["small", "never_rose"],
        ["costly"],
        [],
    )
    assert [item.name for item in broken] == ["small", "never_rose", "costly"]
    assert len(broken) == 3


def test_a_claim_about_the_run_cannot_tell_without_a_trace():
    item = certificate()["never_rose"]
    assert (item.verdict, item.note) == (UNKNOWN, "no trace of the run")


def test_a_costly_claim_is_put_off_in_words_that_say_what_to_do():
    item = certificate(put_off=True)["costly"]
    assert (item.verdict, item.numbers) == (UNKNOWN, "run certify(X) for it")


def test_a_check_that_stumbles_cannot_tell_and_says_why():
    @claim("broken", source="none")
    def broken(fit):
        return at_most(fit.no_such_attribute_, 1)

    item = broken(Fit(Toy()))
    assert item.verdict == UNKNOWN
    assert "AttributeError" in item.note
    assert "no_such_attribute_" in item.note


def test_unknown_names_list_the_known_ones():
    with pytest.raises(KeyError, match="no claim 'large'; there are small, never_rose, costly"):
        certificate()["large"]


def test_require_raises_on_failure_or_on_any_named_claim_that_does_not_hold():
    good, bad = certificate(), certificate(-2.0)
    assert good.require() is good  # can't tell is not a failure …
    with pytest.raises(NotCertified, match="never_rose: can't tell"):
        good.require("small", "never_rose")  # … unless the claim is asked for
    assert bad.require("small") is bad
    with pytest.raises(
        NotCertified, match=r"Toy  5 × 3: 1 claim\(s\) do not hold\.\n  costly: fails \(-2 < 0\)"
    ):
        bad.require()
    with pytest.raises(KeyError):
        bad.require("smal")


def test_a_fit_shows_the_adapters_attributes_first_and_then_the_models():
    fit = Fit(Toy(3.0), attributes={"other_": 4})
    assert (fit.number_, fit.other_) == (3.0, 4)
    assert fit.has("number_")
    assert fit.has("other_")
    assert not fit.has("none_")
    assert not hasattr(fit, "none_")
    assert Fit(Toy(3.0), attributes={"number_": 5}).number_ == 5


def test_a_certificate_holds_claims_and_nothing_else():
    for title, claims, stopped in (
        ("a", ("claim",), ""),
        ("a", [], ""),
        (3, (), ""),
        ("a", (), None),
    ):
        with pytest.raises(ValueError, match="certificate"):
            Certificate(title, claims, stopped)


# --- on paper ---------------------------------------------------------------------------------------------------------


def test_the_printed_certificate_is_a_table():
    lines = str(certificate(2.5)).splitlines()
    assert lines[0].startswith("Toy  5 × 3  ")
    assert lines[0].endswith("stopped: settled, 3 steps")
    rows = [line for line in lines[1:] if line[2] != " "]
    assert {row.index("CIL") for row in rows} == {rows[0].index("CIL")}
    assert lines[1] == "  fails       the number is small  |x| 2.5 > 1          CIL 1.1"
    assert lines[2] == "              → make it smaller"
    assert lines[3] == "  can't tell  the run never rose   no trace of the run  CIL 1.2"
    assert lines[5] == "              (for this sample only)"
    assert len(lines[0]) == max(map(len, rows))


def test_an_empty_certificate_prints_its_title():
    assert str(Certificate("Toy", ())) == "Toy"
    assert str(Certificate("Toy", (), "settled")) == "Toy  stopped: settled"


def test_long_or_broken_reasons_go_on_one_line_below_their_claim():
    @claim("broken", source="S 1")
    def broken(fit):
        return unknown("a reason that\n is much too long for a column of numbers in a table")

    lines = str(check([broken, small], Fit(Toy()), "T")).splitlines()
    assert lines[1].split() == ["can't", "tell", "broken", "S", "1"]
    assert lines[2].strip() == "(a reason that is much too long for a column of numbers in a table)"
    assert max(map(len, lines)) < 100


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        (at_least(90_752, 206_280), "90,752 < 206,280"),
        (at_most(2.1e-7, 1e-5, unit="|grad|"), "|grad| 2.1e-07 ≤ 1e-05"),
        (at_least(0.99961, 0.9999), "0.9996 < 0.9999"),
        (at_least(0.99999, 0.99999), "1 ≥ 1"),
        (at_most(INF, 1), "inf > 1"),
        (at_most(1e300, 1e301), "1e+300 ≤ 1e+301"),
        (at_most(1 / 3, 0.0), "0.333 > 0"),
        (at_most(NAN, 1), "what was measured is not a number"),
        (at_most(-1234.0, 0), "-1,234 ≤ 0"),
    ],
)
def test_numbers_are_written_as_people_write_them_and_differ_where_they_differ(evidence, text):
    assert small.with_evidence(evidence).numbers == text


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_two_different_numbers_never_print_alike(a, b):
    left, _, right = small.with_evidence(at_most(a, b)).numbers.split()
    assert (left == right) == (a == b)


class Balanced(HTMLParser):
    """Checks that tags close in order and collects the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags = [], "", set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_notebook_shows_a_table_in_which_nothing_is_markup_that_should_be_text():
    @claim("<b>x</b> & y", source="<script>alert(1)</script>")
    def hostile(fit):
        return at_most(2, 1, advice="<i>now</i>", unit="<u>", note="'\"&<p>")

    page = Balanced()
    page.feed(check([hostile, small, never_rose], Fit(Toy(), stopped="<s>"), "<h1>T")._repr_html_())
    assert page.open == []
    assert page.tags == {"table", "caption", "b", "small", "tbody", "tr", "td", "br"}
    for text in (
        "<b>x</b> & y",
        "<script>",
        "→ <i>now</i>",
        "<u> 2 > 1",
        "'\"&<p>",
        "<h1>T",
        "stopped: <s>",
        "✗ fails",
        "✓ holds",
    ):
        assert text in page.text
    assert page.text.count("no trace of the run") == 1


def test_json_is_json_even_where_numbers_are_not():
    def no_constants(name):
        raise AssertionError(name)

    content = json.loads(certificate(INF).to_json(), parse_constant=no_constants)
    assert content == certificate(INF).to_dict()
    assert [item["verdict"] for item in content["claims"]] == ["fails", "can't tell", "holds"]
    assert content["claims"][0]["measured"] is None
    assert content["stopped"] == "settled, 3 steps"
    assert "×" in certificate().to_json(indent=2)


def test_rich_colours_the_verdicts_and_changes_no_text():
    text = certificate(2.5).__rich__()
    assert text.plain == str(certificate(2.5))
    styles = {text.plain[span.start : span.end].strip(): str(span.style) for span in text.spans}
    assert styles["fails"] == "bold red"
    assert styles["can't tell"] == "yellow"
    assert styles["holds"] == "green"
    assert styles["→ make it smaller"] == "red"


def test_a_certificate_survives_a_file(tmp_path):
    from lemmata.core import store

    kept = certificate(INF)
    store.write(tmp_path / "c", "test", {"c": kept})
    back = store.read(tmp_path / "c", "test")["c"]
    assert str(back) == str(kept)
    assert back.to_json() == kept.to_json()
