"""docs/atlas.md has every numbered figure, table, example and exercise of the notes, and is the page of today."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # tools/ stands next to tests/

from lemmata import atlas
from tools.site import figures
from tools.tables import ATLAS

# how many of a kind each chapter of the notes has; CIL24 numbers its figures without chapters
NUMBERED = {
    ("CIL", "Fig."): {1: 1, 2: 3, 3: 14, 4: 8, 5: 14},
    ("CIL", "Table"): {3: 1},
    ("CIL", "Example"): {1: 5, 4: 1, 5: 1},
    ("CIL", "Ex."): {1: 5, 2: 6},
    ("CIL20", "Fig."): {1: 3, 2: 3, 4: 8, 5: 7, 6: 8, 7: 4},
    ("CIL20", "Table"): {10: 1},
}


def test_no_numbered_item_of_the_notes_is_left_out():
    wanted = {
        (notes, f"{kind} {chapter}.{i}")
        for (notes, kind), counts in NUMBERED.items()
        for chapter, n in counts.items()
        for i in range(1, n + 1)
    } | {("CIL24", f"Fig. {i}") for i in range(1, 8)}
    items = figures.read()
    listed = [(item.notes, item.place) for item in items]
    assert len(set(listed)) == len(listed)
    numbered = {
        (notes, place)
        for notes, place in listed
        if re.match("Fig|Table|Ex", place) and notes != "ML"
    }
    assert numbered == wanted
    assert sum(item.notes == "ML" for item in items) >= 60


def test_every_item_has_entries_that_exist_or_a_reason():
    known = atlas.entries()
    for item in figures.read():
        assert bool(item.drawn) != bool(item.reason), item
        assert set(item.drawn) <= set(known), item
        assert item.about


def places_in(source):
    """The numbered items that a source names: ("CIL20", "Fig. 4.3") … of "CIL20 Fig. 4.3–4.6, (4.14); CIL (3.9)"."""
    notes = ""
    for found in re.finditer(
        r"\b(CIL20|CIL24|CIL|ML)\b|(Fig\.|Table|Example|Ex\.) (\d[\d., –]*)", source
    ):
        if found[1]:
            notes = found[1]
            continue
        for token in found[3].strip(" ,").split(", "):
            whole = re.fullmatch(r"(\d+(?:\.\d+)?)(?:–(\d+\.\d+))?", token)
            if not whole:  # a section, as 3.1.5
                continue
            first, last = whole.groups()
            chapter, _, i = first.partition(".")
            if notes == "CIL24":
                yield notes, f"{found[2]} {first}"
            elif i:
                end = int(last.partition(".")[2]) if last else int(i)
                yield from ((notes, f"{found[2]} {chapter}.{j}") for j in range(int(i), end + 1))


def test_an_entry_whose_source_is_a_figure_stands_at_that_figure():
    items = {(item.notes, item.place): item for item in figures.read()}
    for id, entry in atlas.entries().items():
        for place in places_in(entry.source):
            if place in items:
                assert id in (*items[place].drawn, *items[place].reason.split()), (id, place)


def test_the_page_is_that_of_today():
    assert ATLAS.read_text() == figures.write_page(), "run: python -m tools.tables"
