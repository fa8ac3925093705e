"""The trusted base stays as small as it says: entries, the kernel, and what one reads to believe a claim (tools/house.py)."""

import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2]))  # tools/ stands beside tests/

from lemmata.audit.kernel.claims import PROVED
from tools import house


def test_the_top_folder_has_an_entry_for_each_package_and_little_else():
    assert len(house.entries()) <= 14


def test_the_kernel_can_be_read_in_an_afternoon():
    assert house.count_lines((house.AUDIT / "kernel").rglob("*.py")) <= 1500
    for path in (house.AUDIT / "kernel").rglob("*.py"):
        assert "fmt: skip" not in path.read_text(), path.name


def test_no_folder_of_the_audit_is_crowded():
    for folder in [house.AUDIT, *(path.parent for path in house.AUDIT.rglob("__init__.py"))]:
        entries = {path.name for path in folder.iterdir()} - {"__init__.py", "__pycache__"}
        assert len(entries) <= (14 if folder == house.AUDIT else 12), folder


def test_a_proved_claim_rests_on_at_most_700_lines():
    proved = {name for name, one in house.claims().items() if one.kind == PROVED}
    long = {name: one.lines for name, one in house.reaches().items() if name in proved}
    assert {name: lines for name, lines in long.items() if lines > 700} == {}


def test_half_of_the_claims_rest_on_150_lines():
    assert median(one.lines for one in house.reaches().values()) <= 150
