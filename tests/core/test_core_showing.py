"""Certificates say the same on every kind of paper: a wide table, a narrow terminal, a notebook, a page of its own."""

import base64
import math
import os
import re
import unicodedata
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from test_core_certificate import DATA, INF, NAN, Toy, certificate, dear, made, never_rose, small

from lemmata.core import (
    PROVED,
    Blocks,
    Certificate,
    Fit,
    Trace,
    at_least,
    at_most,
    check,
    claim,
    unknown,
)
from lemmata.core.certificate import as_text
from lemmata.core.certification.checking import SAMPLED, describe_data, describe_versions
from lemmata.core.certification.report import as_line, page
from lemmata.core.certification.showing import UNPRINTABLE, one_line, printable, shorten

# --- text -------------------------------------------------------------------------------------------------------------


def test_the_printed_certificate_is_a_table():
    lines = as_text(certificate(2.5), 120).splitlines()
    assert lines == [
        "Toy  5 × 3            1 holds, 1 fails · stopped: settled, 3 steps",
        "  fails  small  the number is small  |x| 2.5 > 1  proved",
        "         → make it smaller",
        "  holds  dear   a dear truth         2.5 ≥ 0      statistical 99 %",
        "         (for this sample only)",
    ]


def test_what_fails_comes_first_then_the_main_claim_then_the_rest_and_one_line_of_what_was_not_checked():
    """What holds always, or had nothing to look at, is not shown; the list of claims keeps all."""
    sound, stated, other = made("attributes_sound"), made("statements_true"), made("other")
    main, late, huge = made("main"), made("late", at_most(2, 1)), made("huge", cost=3e9)
    statements = [sound, stated, never_rose, other, main, late, huge, made("more", cost=2e6)]
    found = check(statements, Fit(Toy(), DATA, y=np.ones(5)), "T", work=1)
    found = replace(found, main="main")
    lines = str(found).splitlines()
    assert lines[0].endswith(" 4 hold, 1 fails, 2 not checked")
    assert [line.split()[1] for line in lines[1:-1]] == ["late", "main", "other"]
    assert lines[-1] == "  not checked: huge, more; run model.certify(X, y, seconds=4)"
    assert [item.name for item in found] == [one.name for one in statements]
    assert found.undecided == ["never_rose"]
    shown = read(found._repr_html_()).text
    assert shown.index("late") < shown.index("main is") < shown.index("other")
    assert "not checked: huge, more; run model.certify(X, y, seconds=4)" in shown
    assert "statements_true" not in shown
    assert "statements_true" in read(page(found)).text
    for broken in (
        made("statements_true", at_most(2, 1)),
        made("attributes_sound", error=ValueError()),
    ):
        shown = str(check([other, broken], Fit(Toy(), DATA), "T"))
        assert shown.splitlines()[1].split()[1] == broken.name
    assert "not checked: statements_true" in str(
        check([sound, made("statements_true", cost=9)], Fit(Toy(), DATA), "T", work=1)
    )


def test_explain_prints_all_there_is_to_say_about_a_claim(capsys):
    replace(certificate(2.5), main="small").explain("small")
    told = capsys.readouterr().out
    words = ("small", "(the main claim of this model)", "proved", "CIL 1.1", "fails", "|x| 2.5 > 1")
    assert all(word in told for word in (*words, "make it smaller"))
    with pytest.raises(KeyError, match="no claim 'large'"):
        certificate().explain("large")


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        ([made("a")], "1 holds"),
        ([made("a"), made("b")], "2 hold"),
        ([made("a", at_most(2, 1)), made("b", at_most(2, 1))], "2 fail"),
        (
            [made("a", unknown("?")), made("b", error=ValueError()), made("c", cost=9)],
            "1 can't tell, 1 broken, 1 not checked",
        ),
        ([], ""),
    ],
)
def test_the_first_line_counts_verdicts(statements, words):
    found = check(statements, Fit(Toy(), DATA), "T", work=1)
    assert found.counts == words
    assert str(found).splitlines()[0].split("  ")[-1].strip() in (words, "T")


def test_an_empty_certificate_prints_its_title():
    assert str(Certificate("Toy", ())) == "Toy"
    assert str(Certificate("Toy", (), "settled")) == "Toy  stopped: settled"


def test_long_or_broken_reasons_go_on_one_line_below_their_claim():
    @claim("broken", kind=PROVED, source="S 1")
    def broken(fit):
        return unknown("a reason that\n is much too long for a column of numbers in a table")

    lines = as_text(check([broken, small], Fit(Toy()), "T"), 120).splitlines()
    assert lines[1].split() == ["can't", "tell", "broken", "broken", "proved"]
    assert lines[2].strip() == "(a reason that is much too long for a column of numbers in a table)"
    assert max(map(len, lines)) < 100


def test_what_was_skipped_is_said():
    found = Certificate(
        "T", tuple(certificate()), skipped="scaler (StandardScaler: not the last step)"
    )
    assert str(found).splitlines()[-1] == "  skipped: scaler (StandardScaler: not the last step)"
    assert "skipped: scaler" in as_text(found, width=40)
    assert "skipped: scaler" in found._repr_html_()


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
    assert small.claim(evidence).numbers == text


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_two_different_numbers_never_print_alike(a, b):
    left, _, right = small.claim(at_most(a, b)).numbers.removeprefix("|x|").split()
    assert (left == right) == (a == b)


# --- terminals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_gets_every_word_within_its_width(width):
    found = certificate(2.5, work=1)
    lines = as_text(found, width).splitlines()
    assert max(map(len, lines)) <= width
    told = " ".join(" ".join(lines).split())
    item = found["small"]
    if width < 60:  # folded
        assert f"{item.verdict} {item.name} [{item.strength}] {item.sentence}:" in told
    assert "not checked: dear; run model.certify(X)" in told
    assert item.numbers in told
    assert found.counts in told
    assert "→ make it smaller" in told
    assert "2.5 > 1" in "\n".join(lines)  # a comparison is not broken in two


def test_a_wide_terminal_gets_the_table():
    found = certificate(2.5)
    table = as_text(found, 200)
    wide = max(map(len, table.splitlines()))
    assert as_text(found, wide) == table
    assert as_text(found, wide - 1) != table
    assert (
        max(map(len, as_text(found, 1).splitlines())) <= 40
    )  # nobody's terminal is one column wide


@pytest.mark.parametrize("width", [60, 200])
def test_rich_colours_the_verdicts_and_changes_no_text(width):
    from rich.console import Console

    found = check(
        [small, made("a", unknown("?")), dear, made("b", error=ValueError()), made("c", cost=1e9)],
        Fit(Toy(2.5), DATA),
        "T",
        work=1e6,
    )
    console = Console(width=width, file=open(os.devnull, "w"), record=True, force_terminal=True)  # noqa: SIM115
    console.print(found)
    assert [line.rstrip() for line in console.export_text(clear=False).splitlines()] == [
        line.rstrip() for line in as_text(found, width).splitlines()
    ]
    (text,) = found.__rich_console__(console, console.options)
    styles = {text.plain[span.start : span.end].strip(): str(span.style) for span in text.spans}
    assert styles["fails"] == styles["broken"] == "bold red"
    assert styles["can't tell"] == "yellow"
    assert styles["holds"] == "green"
    assert styles["not checked: c; run model.certify(X, seconds=2)"] == "dim"
    assert styles["→ make it smaller"] == "red"


# --- HTML -------------------------------------------------------------------------------------------------------------


class Balanced(HTMLParser):
    """Checks that tags close in order and collects the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags, self.sources = [], "", set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.sources += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("br", "meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@claim("<b>x</b> & y", kind=PROVED, source="<script>alert(1)</script>")
def hostile(fit):
    return at_most(2, 1, advice="<i>now</i>", unit="<u>", note="'\"&<p>")


HOSTILE = (
    "<b>x</b> & y",
    "<script>",
    "→ <i>now</i>",
    "<u> 2 > 1",
    "'\"&<p>",
    "<h1>T",
    "stopped: <s>",
    "✗ fails",
    "✓ holds",
)


def read(text):
    page = Balanced()
    page.feed(text)
    assert page.open == []
    return page


def test_a_notebook_shows_a_table_in_which_nothing_is_markup_that_should_be_text():
    found = check([hostile, small, never_rose], Fit(Toy(), stopped="<s>"), "<h1>T")
    shown = read(page(found))
    assert shown.text.count("no trace of the run") == 1
    shown = read(found._repr_html_())
    parts = {"table", "caption", "b", "small", "tbody", "tr", "td", "br", "code", "span"}
    assert shown.tags == parts
    assert all(text in shown.text for text in HOSTILE)
    assert "proved" in shown.text


def contrast(one, two):
    """The ratio that the WCAG asks to be 4.5 for text and 3 for marks."""
    parts = [[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in (one, two)]
    linear = [
        [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in c] for c in parts
    ]
    low, high = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in linear)
    return (high + 0.05) / (low + 0.05)


def test_a_notebook_table_can_be_read_on_dark_and_on_light():
    """Words have the colour of the page; marks one that stands out on every ground."""
    found = check([hostile, small, never_rose], Fit(Toy(2.5), stopped="x"), "T")
    for html in (found._repr_html_(), as_line(found)):
        for colour, inside in re.findall(r"color:(#\w{6})[^>]*>([^<]*)<", html):
            assert inside in "✓✗!"
            for ground in ("#ffffff", "#f7f7f7", "#1e1e1e", "#111111", "#000000"):
                assert contrast(colour, ground) > 3
        assert "background" not in html


def test_the_verdict_fits_into_one_line_for_the_box_of_an_estimator():
    shown = read(as_line(check([hostile, small], Fit(Toy(2.5), stopped="<s>"), "T")))
    assert shown.tags == {"div", "span", "code"}
    assert "✗ certificate: 2 fail · stopped: <s> (fails: hostile, small)" in shown.text
    assert "✓ certificate: 1 holds" in read(as_line(check([small], Fit(Toy()), "T"))).text


EVIL = "a\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\nholds b\r\x00\x7f"


def test_no_control_character_reaches_a_terminal_or_a_page(tmp_path):

    claims = tuple(
        replace(item, name=EVIL, sentence=EVIL, source=EVIL, advice=EVIL, note=EVIL, unit=EVIL)
        for item in check([small, never_rose], Fit(Toy(2.5)), "T")
    )
    found = Certificate(EVIL, claims, EVIL, EVIL, EVIL, EVIL)
    found.report(tmp_path / "a.html")
    texts = (str(found), repr(found), as_text(found, 60), found._repr_html_(), as_line(found))
    for text in (*texts, (tmp_path / "a.html").read_text()):
        assert not UNPRINTABLE.search(text)
    assert not any(line.startswith("holds b") for line in str(found).splitlines())
    assert r"\x1b[2J\x9b31m\u202e" in str(found)


@given(st.text())
def test_printable_text_has_no_control_characters_and_other_text_stays(text):
    shown = printable(text)
    assert not any(unicodedata.category(c) == "Cc" and c not in "\t\n" for c in shown)
    assert printable(shown) == shown
    if text.isprintable():
        assert shown == text
    assert "\n" not in one_line(text)
    assert len(shorten(text, 9)) <= 9


def long_run(steps):
    trace = Trace()
    for step in range(steps):
        trace.append(10.0 ** -(step % 5) + 1 / (step + 1), 0.01 * step)
    return trace


def test_a_report_is_one_page_that_needs_nothing_else(tmp_path):
    fit = Fit(Toy(2.5), DATA, trace=long_run(30), stopped="settled, 29 steps")
    found = check([small, never_rose, dear], fit, "Toy  5 × 3")
    found.report(tmp_path / "a.html")
    shown = read((tmp_path / "a.html").read_text())
    for text in (
        "Toy  5 × 3",
        "→ make it smaller",
        "statistical 99 %",
        "a threshold that was chosen",
        "29 steps",
    ):
        assert text in shown.text
    assert describe_data(DATA) in shown.text
    assert describe_versions() in shown.text
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC", shown.text)
    assert "does not hold" in shown.text
    assert len(shown.sources) == 2  # the run, and how near each verdict was
    for source in shown.sources:
        kind, _, code = source.partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert ET.fromstring(base64.b64decode(code)).tag.endswith("svg")
    assert not re.search(
        r"(?:src|href)=\"(?!data:)|url\(|@import|<script", (tmp_path / "a.html").read_text()
    )
    assert os.listdir(tmp_path) == ["a.html"]


def test_a_report_escapes_everything():
    found = check([hostile, small, never_rose], Fit(Toy(), stopped="<s>"), "<h1>T")
    shown = read(page(found))
    assert "script" not in shown.tags
    assert "i" not in shown.tags
    assert all(text in shown.text for text in HOSTILE)


def test_names_that_look_like_formulas_are_drawn_as_they_are():
    named = made("a$_{$", at_most(1, 2))
    assert page(check([named], Fit(Toy()), "T")).count("<img") == 1


def test_a_report_of_a_long_run_stays_small_and_one_without_a_run_has_no_picture_of_it():
    found = check([small], Fit(Toy(), trace=long_run(100_000)), "T")
    assert len(page(found)) < 500_000
    assert page(Certificate("T", ())).count("<img") == 0
    # zero, infinite and negative numbers have no place on a scale of ratios
    odd = [
        made(str(i), at_most(*pair))
        for i, pair in enumerate([(0, 1), (1, INF), (-1, 2), (INF, 3), (1, 0)])
    ]
    assert page(check(odd, Fit(Toy()), "T")).count("<img") == 1


def test_a_report_never_replaces_a_device_or_a_pipe_and_is_whole_or_not_there(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        certificate().report(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        certificate().report("/dev/null")
    with pytest.raises(IsADirectoryError, match="give the file a name"):
        certificate().report(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        certificate().report(tmp_path / "no" / "a.html")
    assert os.listdir(tmp_path) == ["pipe"]


# --- where it comes from ----------------------------------------------------------------------------------------------


def test_the_fingerprint_tells_data_apart_and_is_that_of_every_container(tmp_path):
    X = np.random.default_rng(0).normal(size=(5000, 20))
    X.tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", dtype=float, mode="r", shape=X.shape)
    mark = describe_data(Blocks.of(X))
    assert re.fullmatch(r"5,000 × 20 float64, digest [0-9a-f]{16} of 102 evenly spaced rows", mark)
    assert (
        describe_data(Blocks.of(mapped)) == describe_data(Blocks.of(np.asfortranarray(X))) == mark
    )
    others = [X + 1e-9, X[::-1], X[:, ::-1], X * 2, X.astype(np.float32), X[:-1]]
    assert len({mark, *(describe_data(Blocks.of(other)) for other in others)}) == 7
    weighted = describe_data(Blocks.of(X).weighted(np.arange(5000.0)))
    assert "weights of sum 1.24975e+07" in weighted
    assert weighted != describe_data(Blocks.of(X).weighted(np.arange(5000.0)[::-1]))
    labelled = describe_data(Blocks.of(X).with_targets(np.arange(5000)))
    assert labelled.startswith(mark)
    assert labelled != describe_data(Blocks.of(X).with_targets(np.arange(5000)[::-1]))
    assert describe_data(Blocks.of(X[:50])).endswith("of all rows")


def test_sparse_rows_streams_and_long_rows_have_fingerprints_too():
    X = np.random.default_rng(0).normal(size=(50, 40)) * (
        np.random.default_rng(1).random((50, 40)) < 0.1
    )
    sparse = sp.csr_array(X)
    assert describe_data(Blocks.of(sparse)).endswith(f" of {sparse.nnz} entries")
    moved = sp.csr_array(X[:, ::-1])
    assert describe_data(Blocks.of(sparse)) != describe_data(Blocks.of(moved))
    assert (
        describe_data(Blocks.of([X[:7], X[7:]])) == "50 × 40 float64, a stream of rows, no digest"
    )
    wide = np.ones((3, SAMPLED))
    assert describe_data(Blocks.of(wide)).endswith("of 1 evenly spaced rows")
    assert describe_data(Blocks.of(np.empty((0, 3)))).startswith("0 × 3 float64")


def test_partly_known_matrices_have_fingerprints():
    from lemmata.completion import Observed

    X = np.random.default_rng(0).normal(size=(30, 20))
    X[np.random.default_rng(1).random(X.shape) < 0.5] = np.nan
    observed = Observed.of(X)
    mark = describe_data(observed)
    assert mark.startswith("30 × 20 float64, digest ")
    assert mark.endswith(f" of {observed.n_observed} entries")
    assert mark != describe_data(observed.with_values(observed.values + 1))


def test_versions_are_named():
    assert re.fullmatch(
        r"lemmata \S+, numpy \S+, scipy \S+, scikit-learn \S+, python \S+", describe_versions()
    )
    assert math.isfinite(len(describe_versions()))
