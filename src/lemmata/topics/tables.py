"""Topics as tables: in a terminal, in a notebook, and as columns for a data frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import combinations
from typing import Any, NamedTuple

from lemmata.core.certification.showing import one_line, printable

WIDTH = 110  # characters of a line of the table of words in several topics


class TopicRow(NamedTuple):
    """A topic; None where the model does not know."""

    topic: int
    share: float | None
    documents: int | None
    coherence: float | None
    words: tuple[str, ...]


class TopicTable(Sequence):
    """One row per topic, the largest first."""

    def __init__(self, rows: Sequence[TopicRow], measure: str | None = None):
        self.rows, self.measure = tuple(rows), measure

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns, ready for pandas.DataFrame."""
        return {name: [getattr(row, name) for row in self.rows] for name in TopicRow._fields}

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """The names of the columns that there are, and the text of every cell."""
        kept = [
            name
            for name in TopicRow._fields
            if any(getattr(row, name) is not None for row in self.rows)
        ]
        heads = [str(self.measure) if name == "coherence" else name for name in kept]
        return heads, [[_text(name, getattr(row, name)) for name in kept] for row in self.rows]

    def __str__(self) -> str:
        heads, rows = self._cells()
        columns = list(zip(heads, *rows, strict=True))
        widths = [max(map(len, column)) for column in columns]
        lines = [
            "  ".join(
                cell.ljust(width) if head == "words" else cell.rjust(width)
                for head, cell, width in zip(heads, line, widths, strict=True)
            ).rstrip()
            for line in (heads, *rows)
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def __rich__(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        heads, rows = self._cells()
        table = Table(box=None, pad_edge=False)
        for head in heads:
            table.add_column(Text(head), justify="left" if head == "words" else "right")
        for row in rows:
            table.add_row(*map(Text, row))
        return table

    def _repr_html_(self) -> str:
        heads, rows = self._cells()
        lines = "".join(
            "<tr>"
            + "".join(
                f'<td style="text-align:{"left" if head == "words" else "right"}">{escape(cell)}</td>'
                for head, cell in zip(heads, row, strict=True)
            )
            + "</tr>"
            for row in rows
        )
        return f"<table><tr>{''.join(f'<th>{escape(h)}</th>' for h in heads)}</tr>{lines}</table>"


def _text(name: str, value: Any) -> str:
    """A cell; words are whatever their authors wrote, so nothing in them may steer a terminal."""
    if value is None or value != value:  # NaN: its words are not in the documents
        return "–"
    if name == "share":
        return f"{100 * value:.0f} %" if value >= 0.1 else f"{100 * value:.1f} %"
    if name == "coherence":
        return f"{value + 0.0:.2f}".replace("-0.00", "0.00")
    if name == "words":
        return " ".join(one_line(str(word)) for word in value)
    return f"{value:,}"


class SharedWord(NamedTuple):
    """A word, the topics that have it among their likeliest, and how likely it is in each, the likeliest first."""

    word: str
    topics: tuple[int, ...]
    probabilities: tuple[float, ...]


class SharedWords(Sequence):
    """Words of several topics; printed like CIL Table 3.1, a column per meaning with the word in capitals."""

    def __init__(self, words: Sequence[SharedWord], tops: Sequence[Sequence[str]]):
        self.words, self.tops = tuple(words), tops

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: Any) -> Any:
        return self.words[index]

    def __iter__(self) -> Iterator[SharedWord]:
        return iter(self.words)

    def _columns(self) -> list[list[str]]:
        """Below “word 1”, “word 2”, …: its topics' words."""
        return [
            [f"“{one_line(found.word)} {number}”", f"topic {topic}"]
            + [one_line(word.upper() if word == found.word else word) for word in self.tops[topic]]
            for found in self.words
            for number, topic in enumerate(found.topics, 1)
        ]

    def __str__(self) -> str:
        if not self.words:
            return "no word is among the likeliest of two topics"
        lines: list[list[list[str]]] = [[]]
        for column in self._columns():
            wide = sum(max(map(len, one)) + 2 for one in (*lines[-1], column))
            if lines[-1] and wide > WIDTH:
                lines.append([])
            lines[-1].append(column)
        return "\n\n".join(map(_side_by_side, lines))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.words:
            return f"<p>{self}</p>"
        tables = []
        for found in self.words:
            columns = zip(*(self.tops[topic] for topic in found.topics), strict=False)
            heads = "".join(f"<th>topic {topic}</th>" for topic in found.topics)
            rows = "".join(
                "<tr>" + "".join(_html_cell(word, found.word) for word in row) + "</tr>"
                for row in columns
            )
            caption = f"<caption>{escape(printable(found.word))}</caption>"
            tables.append(
                f'<table style="display:inline-table">{caption}<tr>{heads}</tr>{rows}</table>'
            )
        return " ".join(tables)


def _html_cell(word: str, marked: str) -> str:
    text = escape(printable(word))
    return f"<td><b>{text}</b></td>" if word == marked else f"<td>{text}</td>"


def _side_by_side(columns: Sequence[Sequence[str]]) -> str:
    longest = max(map(len, columns))
    filled = [[*column, *[""] * (longest - len(column))] for column in columns]
    widths = [max(map(len, column)) for column in filled]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*filled, strict=True)
    )
    return "\n".join(lines)


def shared_words(
    tops: Sequence[Sequence[str]], probability: Callable[[int, str], float]
) -> SharedWords:
    """Words that stand in several of these lists, one list per topic.

    A word comes early if it is likely in two topics with otherwise different words:
    max over pairs of its topics a, b of   min(p(w|a), p(w|b)) · (1 − share of words that the lists of a and b have in common).
    """
    homes: dict[str, list[int]] = {}
    for topic, words in enumerate(tops):
        for word in words:
            homes.setdefault(word, []).append(topic)
    found = []
    for word, topics in homes.items():
        if len(topics) < 2:
            continue
        p = {topic: float(probability(topic, word)) for topic in topics}
        score = max(
            min(p[a], p[b]) * (1 - (len({*tops[a]} & {*tops[b]}) - 1) / len(tops[a]))
            for a, b in combinations(topics, 2)
        )
        order = tuple(sorted(topics, key=lambda topic: (-p[topic], topic)))
        found.append((-score, word, SharedWord(word, order, tuple(p[z] for z in order))))
    return SharedWords([one for _, _, one in sorted(found)], tops)
