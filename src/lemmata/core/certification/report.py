"""A certificate in colour on a terminal, as HTML in a notebook, and as one page that needs nothing else: claims, pictures,
the data and the versions they were checked with.

    model.certify(X).report("digits.html")

Pictures are embedded as SVG, styles are inline, no script runs (the page itself forbids it), and everything is escaped.
"""

from __future__ import annotations

import base64
import io
import math
import re
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.certificate import (
    BROKEN,
    FAILS,
    HOLDS,
    NOT_CHECKED,
    UNDECIDED,
    Claim,
    as_text,
    describe_unchecked,
    readable,
    summary_of,
)
from lemmata.core.certification.pictures import BLUE, GREY, RED, figure
from lemmata.core.certification.showing import printable
from lemmata.core.runs.trace import Trace
from lemmata.core.store import write_atomically

MOST_POINTS = 2000  # of a drawn curve: more than a screen has
EXTREME = 1e6  # ratios beyond it are drawn at the edge

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } caption { text-align: left; margin-bottom: .6rem; }
td { border-top: 1px solid #8888; padding: .35rem .6rem; vertical-align: top; }
code { font: 13px ui-monospace, monospace; } small, figcaption, dt { opacity: .8; } img { background: #fff; }
figure { display: inline-block; margin: 1rem 1rem 0 0; } dt { float: left; width: 7rem; } dd { margin-left: 7.5rem; }
"""

KINDS_EXPLAINED = (
    "<b>proved</b>: a theorem, checked to rounding. <b>statistical</b>: true with the stated confidence. "
    "<b>rule of thumb</b>: a threshold that was chosen; no proof."
)


# --- in colour, and as HTML -------------------------------------------------------------------------------------------

COLOURS = {
    HOLDS: "green",
    FAILS: "bold red",
    UNDECIDED: "yellow",
    BROKEN: "bold red",
    NOT_CHECKED: "dim",
}
MARKS = {HOLDS: "✓", FAILS: "✗", UNDECIDED: "?", BROKEN: "!", NOT_CHECKED: "–"}


def as_rich(certificate: Any, width: float):
    """The text of the certificate, its verdicts and advice in colour."""
    from rich.text import Text

    text = Text(as_text(certificate, width), no_wrap=True, overflow="ignore")
    for verdict, colour in COLOURS.items():
        text.highlight_regex(rf"(?m)^  {re.escape(verdict)}(?=  )", colour)
    text.highlight_regex(r"(?m)^  not checked: .*$", "dim")
    text.highlight_regex(r"(?m)^ {9,14}→.*$", "red")
    text.highlight_regex(r"(?m)^ {9,14}\(.*\)$", "dim")
    return text


# Only marks have colours, with a contrast above 4.3 to 1 on white and on black alike; words have that of the page around them,
# since a notebook does not say whether it is dark.
ON_ANY_GROUND = {HOLDS: "#008558", FAILS: "#d6472b", BROKEN: "#d6472b"}


def as_html(certificate: Any, whole: bool = False) -> str:
    """A table for a notebook, dark or light, of what is worth a line, or of every claim.

    Everything is escaped: titles and reasons may quote the user's data.
    """
    left = 'style="text-align:left"'
    rows, shown = [], readable(certificate)
    endings = [] if whole else describe_unchecked(certificate)
    if whole:
        names = {item.name for item in shown}
        shown += [item for item in certificate if item.name not in names]
    for item in shown:
        extra = "".join(f"<br><small>{_html(remark)}</small>" for remark in item.remarks)
        rows.append(
            f'<tr><td style="text-align:left;white-space:nowrap">{_mark(item.verdict)} '
            f"{_html(item.verdict)}</td><td {left}><code>{_html(item.name)}</code></td>"
            f"<td {left}>{_html(item.sentence)}{extra}</td><td {left}>{_html(item.numbers)}</td>"
            f'<td style="text-align:left;white-space:nowrap">{_html(item.strength)}</td>'
            f"<td {left}>{_html(item.source)}</td></tr>"
        )
    caption = f"<b>{_html(certificate.title)}</b> <small>{_html(summary_of(certificate))}</small>"
    endings += [f"skipped: {certificate.skipped}"] if certificate.skipped else []
    caption += "".join(f"<br><small>{_html(text)}</small>" for text in endings)
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
    summary = _html(summary_of(certificate))
    failing = ", ".join(f"<code>{_html(name)}</code>" for name in certificate.failed)
    return (
        f'<div style="font-size:90%">{_mark(verdict)} certificate: {summary}'
        f"{f' (fails: {failing})' if failing else ''}</div>"
    )


# --- as a page --------------------------------------------------------------------------------------------------------


def write_report(certificate: Any, path: Any) -> None:
    """Write the page: whole or not at all."""
    write_atomically(Path(path), page(certificate).encode())


def page(certificate: Any) -> str:
    """The page as text."""
    facts = {
        "verdict": "holds" if certificate.holds else "does not hold",
        "stopped": certificate.stopped,
        "data": certificate.data,
        "checked by": certificate.versions,
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    told = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(printable(fact))}</dd>"
        for name, fact in facts.items()
        if fact
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
        f"<title>{escape(printable(certificate.title))}</title><style>{STYLE}</style></head><body>"
        f"<h1>Certificate</h1>{as_html(certificate, whole=True)}<p><small>{KINDS_EXPLAINED}</small></p>"
        f"{_picture_of_trace(certificate.trace)}{_picture_of_margins(readable(certificate))}"
        f"<h2>Where it comes from</h2><dl>{told}</dl></body></html>\n"
    )


# --- pictures ---------------------------------------------------------------------------------------------------------


def _picture_of_trace(trace: Trace | None) -> str:
    """The objective, step by step; of long runs every so many steps."""
    if trace is None or len(trace) < 2:
        return ""
    drawing, ax = figure()
    places = np.unique(np.linspace(0, len(trace) - 1, MOST_POINTS).astype(int))
    values = trace.objective[places]
    ax.plot(places, values, color=BLUE, marker="o" if len(places) < 40 else None, markersize=3)
    if values.min() > 0 and values.max() > 10 * values.min():
        ax.set_yscale("log")
    ax.set(xlabel="step", ylabel="objective")
    words = f"The run: {len(trace) - 1:,} steps, {trace.elapsed:.3g} s, objective {trace.last():.6g} at its end."
    return _embed(drawing, words)


def _picture_of_margins(claims: list[Claim]) -> str:
    """The distance of each decided claim from its bound, where both are positive, so that their ratio says it."""
    shown = [
        item for item in claims
        if item.verdict in (HOLDS, FAILS) and item.measured > 0 and 0 < item.bound < math.inf
    ]  # fmt: skip
    if not shown:
        return ""
    ratios = [
        item.measured / item.bound if item.relation == "≤" else item.bound / item.measured for item in shown
    ]  # fmt: skip
    drawing, ax = figure(size=(5.2, 0.9 + 0.28 * len(shown)))
    colours = [BLUE if item.verdict == HOLDS else RED for item in shown]
    ax.scatter(np.clip(ratios, 1 / EXTREME, EXTREME), range(len(shown)), c=colours, zorder=2)
    ax.axvline(1, color=GREY, linewidth=1, zorder=1)
    ax.set(
        xscale="log",
        ylim=(len(shown) - 0.5, -0.5),
        xlabel="measured, as a share of what is allowed",
    )
    ax.set_yticks(range(len(shown)), [printable(item.name) for item in shown], parse_math=False)
    return _embed(
        drawing, "How near each verdict was: left of the line a claim holds, right of it it fails."
    )


def _embed(drawing: Any, words: str) -> str:
    content = io.BytesIO()
    drawing.savefig(content, format="svg", metadata={"Date": None})
    code = base64.b64encode(content.getvalue()).decode()
    return (
        f'<figure><img alt="{escape(words)}" src="data:image/svg+xml;base64,{code}">'
        f"<figcaption>{escape(words)}</figcaption></figure>"
    )
