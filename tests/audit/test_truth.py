"""A small part of `./run truth`: planted problems with a known answer, and the count of wrong verdicts."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # truth/ stands beside tests/

from truth.harness import count, suites

SUITES = suites()


@pytest.mark.parametrize("suite", SUITES, ids=[suite.name for suite in SUITES])
def test_no_claim_is_wrong_more_often_than_it_says(suite):
    for tally in count([suite], quick=True):
        assert not tally.complaints, (tally.claim, tally.complaints, tally.wrong[:5])
