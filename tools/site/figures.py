"""docs/atlas.md: figures, tables, examples and exercises of the notes, each with the entry that draws it or the reason.

What draws what stands in figures.txt, a line each: the item, what it is about, and entries, or "- " and a reason.
Entries that stand nowhere there draw a theorem or a method.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lemmata import atlas

FILE = Path(__file__).parent / "figures.txt"
NOTES = ("CIL", "CIL20", "CIL24", "ML")


class Item(NamedTuple):
    """A figure, table, example, exercise or section of the notes; `drawn` are entries of the atlas, or none for a reason."""

    notes: str
    place: str
    about: str
    drawn: tuple[str, ...]
    reason: str


def read() -> list[Item]:
    """The lines of figures.txt."""
    items = []
    for line in FILE.read_text().splitlines():
        source, about, drawn = (part.strip() for part in line.split(" | "))
        notes, _, place = source.partition(" ")
        reason = drawn.removeprefix("- ") if drawn.startswith("- ") else ""
        items.append(Item(notes, place, about, () if reason else tuple(drawn.split()), reason))
    return items


def write_page() -> str:
    """The page docs/atlas.md."""
    items, entries = read(), atlas.entries()
    drawn = sum(bool(item.drawn) for item in items)
    begin = f"""\
# The notes, item by item

{len(items)} figures, tables, examples, exercises and sections of the [notes](sources.md): {drawn} are drawn by an entry of the
atlas, {len(items) - drawn} are not, for the reason given. `lemmata atlas ID` draws an entry again and asserts what it shows;
`lemmata atlas --all` draws all {len(entries)} of them, with the seconds of each. Sections are listed where they have a picture,
or should have one. Parameters are those that an entry takes, with their bounds, as
`lemmata atlas step-size --set gamma=1.9`, or `atlas.entries()["step-size"].perform(gamma=1.9)`.
"""
    return "\n".join([begin, *_tables(items), *_others(items, entries)]) + "\n"


def _tables(items: list[Item]) -> Iterator[str]:
    for notes in NOTES:
        yield f"## {notes}\n\n| in the notes | about | drawn by |\n|---|---|---|"
        for item in items:
            if item.notes == notes:
                links = ", ".join(map(_link, item.drawn)) or item.reason
                yield f"| {item.place} | {item.about} | {links} |"
        yield ""


def _others(items: list[Item], entries: dict[str, atlas.AtlasEntry]) -> Iterator[str]:
    named = {id for item in items for id in item.drawn}
    yield "## Every entry\n\n| entry | shows | source | parameters |\n|---|---|---|---|"
    for id, entry in entries.items():
        bounds = ", ".join(f"{one.name} {one.low:g} to {one.high:g}" for one in entry.parameters)
        mark = "" if id in named else " ·"
        yield f"| {_link(id)}{mark} | {entry.title} | {entry.source} | {bounds} |"
    yield "\nEntries with a dot draw a theorem or a method that has no figure in the notes."


def _link(id: str) -> str:
    return f"[{id}](images/{id}.png)"
