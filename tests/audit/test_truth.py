"""A small part of `./run truth`: planted problems with a known answer, and the count of wrong verdicts."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # truth/ stands beside tests/

from truth.harness import HEADER, Tally, count, rows, suites

SUITES = suites()


@pytest.mark.parametrize("suite", SUITES, ids=[suite.name for suite in SUITES])
def test_no_claim_is_wrong_more_often_than_it_says(suite):
    for tally in count([suite], quick=True):
        assert not tally.complaints, (tally.claim, tally.complaints, tally.wrong[:5])


def tally(kind="proved", confidence=float("nan"), **verdicts):
    """A row with so many cases of each verdict: no_holds=2 are two false holds."""
    row = Tally("subject.claim", kind, confidence)
    for words, times in verdicts.items():
        truth, _, verdict = words.partition("_")
        for seed in range(times):
            row.add(f"seed {seed}", VERDICTS[verdict], truth == "yes", easy=True)
    return row


VERDICTS = {
    "holds": "holds",
    "fails": "fails",
    "unknown": "can't tell",
    "broken": "broken",
    "late": "not checked",
}


def test_one_wrong_proof_is_too_many():
    assert tally(yes_holds=50, no_fails=50).complaints == []
    assert tally(yes_holds=50, no_fails=49, no_holds=1).complaints == ["1 false holds of a proof"]
    assert tally(yes_holds=49, yes_fails=1, no_fails=50).complaints == ["1 false fails of a proof"]


def test_statistical_claims_may_err_as_often_as_they_say():
    assert tally("statistical", 0.99, yes_holds=100, no_fails=297, no_holds=3).complaints == []
    (words,) = tally("statistical", 0.99, yes_holds=100, no_fails=285, no_holds=15).complaints
    assert words == "15 false holds in 300 at confidence 0.99"
    assert tally("statistical", yes_holds=1).complaints == [
        "statistical, but at no stated confidence"
    ]


def test_rules_of_thumb_are_counted_not_judged():
    row = tally("rule of thumb", yes_holds=90, yes_fails=10, no_fails=10)
    assert (row.complaints, row.remark) == ([], "above 1 %")
    assert tally("rule of thumb", yes_holds=100, no_fails=100).remark == ""


def test_what_breaks_or_shirks_easy_cases_is_complained_about():
    assert tally(yes_holds=9, yes_broken=1).complaints == ["1 broken or not checked"]
    assert tally(yes_holds=9, yes_late=1).complaints == ["1 broken or not checked"]
    assert tally(yes_holds=9, yes_unknown=1).complaints == []
    (words,) = tally(yes_holds=8, yes_unknown=2).complaints
    assert words == "can't tell in 2 of 10 easy cases"


def test_the_table_has_a_row_per_claim():
    row = tally("statistical", 0.99, yes_holds=3, no_fails=2, no_unknown=1)
    assert rows([row]) == [
        (
            "subject.claim",
            "statistical 99 %",
            "3",
            "0",
            "3",
            "0",
            "6",
            "1",
            "can't tell in 1 of 6 easy cases",
        )
    ]
    assert len(HEADER) == len(rows([row])[0])
    assert row.wrong == ["seed 0: can't tell, but the truth is no"]
