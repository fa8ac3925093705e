"""A certificate on paper: a table of text, folded where a terminal is narrow, in colour, and as HTML for a notebook.

PCA  1,797 × 64 → 10, …                                      7 hold, 1 fails · stopped: finished, 1 step
  holds        orthonormal_basis  the axes are orthonormal    |CCᵀ − I| 2e-15 ≤ 1e-13   proved   CIL 1.3.3
"""

from __future__ import annotations

import math
import re
from html import escape
from textwrap import wrap
from typing import Any

from lemmata.audit.kernel.claims import (
    BROKEN,
    FAILS,
    HOLDS,
    NOT_CHECKED,
    UNDECIDED,
    VERDICTS,
    Claim,
)

WIDEST = 48  # characters of the column of numbers; a longer reason goes below its claim
MARGIN = (
    max(map(len, VERDICTS)) + 4
)  # where names begin, so that certificates under one another line up
NARROWEST = 40  # a terminal that says less is not believed
GLUE = "\N{NO-BREAK SPACE}"
COLOURS = {
    HOLDS: "green",
    FAILS: "bold red",
    UNDECIDED: "yellow",
    BROKEN: "bold red",
    NOT_CHECKED: "dim",
}
MARKS = {HOLDS: "✓", FAILS: "✗", UNDECIDED: "?", BROKEN: "!", NOT_CHECKED: "–"}


def as_text(certificate: Any, width: float = math.inf) -> str:
    """The certificate as a table; if that is wider than `width`, with each claim folded below its name.

    Control characters, which a title may quote from the user's data, are written out.
    """
    rows = [_cells(item) for item in certificate]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)] or [0]
    wide[0] = MARGIN - 4
    if 2 * len(wide) + sum(wide) > width:
        return _fold(certificate, max(int(width), NARROWEST))
    lines = [_headline(certificate, 2 * len(wide) + sum(wide))]
    for item, row in zip(certificate, rows, strict=True):
        cells = (f"{cell:<{size}}" for cell, size in zip(row, wide, strict=True))
        lines.append("  " + "  ".join(cells).rstrip())
        more = item.remarks if row[3] or not item.numbers else [*item.remarks, f"({item.numbers})"]
        lines.extend(" " * MARGIN + " ".join(remark.split()) for remark in more)
    if certificate.skipped:
        lines.append(f"  skipped: {one_line(certificate.skipped)}")
    return printable("\n".join(lines))


def _cells(item: Claim) -> tuple[str, ...]:
    numbers = item.numbers if len(item.numbers) <= WIDEST else ""
    cells = (item.verdict, item.name, item.sentence, numbers, item.strength, item.source)
    return tuple(map(one_line, cells))


def _summary(certificate: Any) -> str:
    """The count of verdicts, and why the run stopped."""
    told = [certificate.counts] if certificate.claims else []
    stopped = one_line(certificate.stopped)
    return " · ".join(told + ([f"stopped: {stopped}"] if stopped else []))


def _headline(certificate: Any, width: int) -> str:
    """The title on the left, the summary on the right of a table this wide."""
    title, summary = one_line(certificate.title), _summary(certificate)
    return f"{title}  {summary:>{max(width - len(title) - 2, 0)}}" if summary else title


def _fold(certificate: Any, width: int) -> str:
    """Each claim below its name: the sentence with its numbers, then remarks, broken at spaces."""
    title, summary = one_line(certificate.title), _summary(certificate)
    fits = len(title) + 2 + len(summary) <= width
    lines = [f"{title}  {summary:>{width - len(title) - 2}}"] if fits else _wrap(title, width)
    if summary and not fits:
        lines += _wrap(summary, width, "  ")
    for item in certificate:
        verdict = f"  {item.verdict:<{MARGIN - 2}}"
        lines += _wrap(
            f"{item.name} [{item.strength}, {item.source}]", width, " " * MARGIN, verdict
        )
        told = f"{item.sentence}: {item.numbers}" if item.numbers else item.sentence
        for text in (told, *item.remarks):
            lines += _wrap(text, width, " " * MARGIN)
    if certificate.skipped:
        lines += _wrap(f"skipped: {certificate.skipped}", width, "  ")
    return printable("\n".join(lines))


def _wrap(text: str, width: int, indent: str = "", first: str | None = None) -> list[str]:
    """Lines of at most this width, the first begun by `first`; neither long words nor comparisons are cut."""
    text = re.sub(r" ([≤≥<>]) ", f"{GLUE}\\1{GLUE}", " ".join(text.split()))
    lines = wrap(
        text, width, initial_indent=indent if first is None else first, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace(GLUE, " ") for line in lines]


def as_rich(certificate: Any, width: float):
    """The text of the certificate, its verdicts and advice in colour."""
    from rich.text import Text

    text = Text(as_text(certificate, width), no_wrap=True, overflow="ignore")
    for verdict, colour in COLOURS.items():
        text.highlight_regex(rf"(?m)^  {re.escape(verdict)}(?=  )", colour)
    text.highlight_regex(rf"(?m)^ {{{MARGIN}}}→.*$", "red")
    text.highlight_regex(rf"(?m)^ {{{MARGIN}}}\(.*\)$", "dim")
    return text


# Only marks have colours, with a contrast above 4.3 to 1 on white and on black alike; words have that of the page around them,
# since a notebook does not say whether it is dark.
ON_ANY_GROUND = {HOLDS: "#008558", FAILS: "#d6472b", BROKEN: "#d6472b"}


def as_html(certificate: Any) -> str:
    """A table for a notebook, dark or light. Everything is escaped: titles and reasons may quote the user's data."""
    left = 'style="text-align:left"'
    rows = []
    for item in certificate:
        extra = "".join(f"<br><small>{_html(remark)}</small>" for remark in item.remarks)
        rows.append(
            f'<tr><td style="text-align:left;white-space:nowrap">{_mark(item.verdict)} '
            f"{_html(item.verdict)}</td><td {left}><code>{_html(item.name)}</code></td>"
            f"<td {left}>{_html(item.sentence)}{extra}</td><td {left}>{_html(item.numbers)}</td>"
            f'<td style="text-align:left;white-space:nowrap">{_html(item.strength)}</td>'
            f"<td {left}>{_html(item.source)}</td></tr>"
        )
    caption = f"<b>{_html(certificate.title)}</b> <small>{_html(_summary(certificate))}</small>"
    if certificate.skipped:
        caption += f"<br><small>skipped: {_html(certificate.skipped)}</small>"
    return (
        f'<table><caption style="color:inherit;text-align:left">{caption}</caption>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _mark(verdict: str) -> str:
    return f'<span style="color:{ON_ANY_GROUND.get(verdict, "inherit")}">{MARKS[verdict]}</span>'


def _html(text: str) -> str:
    return escape(printable(text))


def as_line(certificate: Any) -> str:
    """The verdict in one line of HTML, for the box in which scikit-learn shows an estimator."""
    verdict = HOLDS if certificate.holds else FAILS if certificate.failed else UNDECIDED
    summary = _html(_summary(certificate))
    failing = ", ".join(f"<code>{_html(name)}</code>" for name in certificate.failed)
    return (
        f'<div style="font-size:90%">{_mark(verdict)} certificate: {summary}'
        f"{f' (fails: {failing})' if failing else ''}</div>"
    )


# --- text on a terminal -----------------------------------------------------------------------------------------------
#
# Labels, column names, file names and titles of certificates are whatever their authors wrote. Escape sequences in them could
# move the cursor, rename the window or hide a line; the characters that begin them, and those that turn the direction of
# writing, are shown as Python writes them.

# C0 but for tab and newline, DEL and C1, and what turns or breaks a line: bidirectional controls, line and paragraph separators
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]"
)
LONGEST = 1200  # characters of a message: some 12 lines


def printable(text: str) -> str:
    """Return text with every control character written out; tabs and newlines stay.

    >>> print(printable("a\\x1b[2Jb\\x9b31m"))
    a\\x1b[2Jb\\x9b31m
    """
    return UNPRINTABLE.sub(_write_out, text)


def _write_out(found: re.Match) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def one_line(text: str) -> str:
    """Text that cannot begin a line of its own."""
    return printable(" ".join(text.split()) if "\n" in text or "\t" in text else text)


def shorten(text: str, most: int = LONGEST) -> str:
    """Return text cut in the middle: its subject stands at its beginning, the advice at its end.

    >>> shorten("x" * 1000, most=21)
    'xxxxxxxxxx…xxxxxxxxxx'
    """
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"
