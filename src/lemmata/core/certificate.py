"""A certificate: the claims about a fit, each with its verdict, and how they read as text.

    PCA  1,797 × 64 → 10, …                               7 hold, 1 fails · stopped: finished, 1 step
      holds  orthonormal_basis  the axes are orthonormal    |CCᵀ − I| 2e-15 ≤ 1e-13   proved

What fails comes first, then the main claim of the model, then the rest; what was not checked is one line with one command.
Models import from here all that claims are made of (audit/kernel/claims.py); certification/checking.py checks them.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

import numpy as np

from lemmata.audit.kernel.claims import (
    BROKEN,
    FAILS,
    HOLDS,
    KINDS,
    LEAST_BUDGET,
    NO_TRACE,
    NOT_CHECKED,
    PROVED,
    RULE_OF_THUMB,
    STATISTICAL,
    UNDECIDED,
    VERDICTS,
    Claim,
    Evidence,
    Fit,
    NoData,
    Statement,
    at_least,
    at_most,
    claim,
    free,
    passes,
    rounding,
    unknown,
)  # fmt: skip
from lemmata.core.certification.showing import one_line, printable
from lemmata.core.runs.trace import Trace
from lemmata.core.store import storable

__all__ = [
    "BROKEN", "FAILS", "HOLDS", "KINDS", "LEAST_BUDGET", "NOT_CHECKED", "PROVED", "RULE_OF_THUMB", "STATISTICAL",
    "UNDECIDED", "VERDICTS", "Certificate", "Claim", "Evidence", "Fit", "NoData", "NotCertified", "Statement", "at_least",
    "at_most", "claim", "free", "passes", "rounding", "unknown",
]  # fmt: skip

storable(Claim)  # files hold it; the kernel of the trusted base knows no files

INTERRUPTED = "interrupted"  # the note of claims that Ctrl-C left unchecked
LARGE = 2**20  # bytes of a witness that is not written to files
# begin every certificate; shown where they do not hold
ALWAYS = ("attributes_sound", "statements_true")


class NotCertified(RuntimeError):
    """Raised by `Certificate.require()` when a claim does not hold."""


@storable
@dataclass(frozen=True)
class Certificate:
    """The promises about a fit, and whether they were kept. Iterates over its claims; prints, shows, turns to JSON."""

    version = 3

    title: str
    claims: tuple[Claim, ...]
    stopped: str = ""
    data: str = ""  # a fingerprint of what the claims were checked on
    versions: str = ""  # of the libraries that checked
    skipped: str = ""  # parts of a composite model that nothing was checked about
    trace: Trace | None = field(default=None, compare=False)
    main: str = ""  # the name of the claim that a reader asks about first: is it optimal, does it beat a constant?

    def __post_init__(self):
        if not isinstance(self.claims, tuple) or not all(
            isinstance(item, Claim) for item in self.claims
        ):
            raise ValueError("a certificate holds a tuple of claims and nothing else.")
        texts = (self.title, self.stopped, self.data, self.versions, self.skipped, self.main)
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("the title of a certificate and why the run stopped are texts.")
        if not isinstance(self.trace, Trace | None):
            raise ValueError("the trace of a certificate is a Trace.")

    @classmethod
    def upgrade(cls, fields: dict[str, Any], version: int) -> dict[str, Any]:
        """Version 1 did not say what it was checked on, version 2 not which claim is the main one."""
        if version > 1:
            return {**fields, "main": ""}
        return {**fields, "data": "", "versions": "", "skipped": "", "trace": None, "main": ""}

    # --- reading it ---

    def __iter__(self) -> Iterator[Claim]:
        return iter(self.claims)

    def __len__(self) -> int:
        return len(self.claims)

    def __bool__(self) -> bool:
        return self.holds

    def __getitem__(self, key: str | int) -> Claim:
        """A claim by its name or its place."""
        if not isinstance(key, str):
            return self.claims[key]
        for item in self.claims:
            if item.name == key:
                return item
        raise KeyError(f"no claim {key!r}; there are {', '.join(item.name for item in self)}.")

    def _names_of(self, verdict: str) -> list[str]:
        return [item.name for item in self.claims if item.verdict == verdict]

    @property
    def holds(self) -> bool:
        """Whether `require()` would pass: every claim was checked, and none fails or is broken."""
        return not (self.failed or self.broken or self.not_checked)

    @property
    def held(self) -> list[str]:
        """The names of the claims that hold."""
        return self._names_of(HOLDS)

    @property
    def failed(self) -> list[str]:
        """The names of the claims that fail."""
        return self._names_of(FAILS)

    @property
    def undecided(self) -> list[str]:
        """The names of the claims that lacked what would decide them."""
        return self._names_of(UNDECIDED)

    @property
    def broken(self) -> list[str]:
        """The names of the claims whose check stumbled."""
        return self._names_of(BROKEN)

    @property
    def not_checked(self) -> list[str]:
        """The names of the claims that were put off; `certify(X)` checks them."""
        return self._names_of(NOT_CHECKED)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the checking."""
        return any(item.state == NOT_CHECKED and item.note == INTERRUPTED for item in self)

    def require(self, *names: str, strict: bool = False) -> Certificate:
        """Raise NotCertified unless the named claims hold. Returns the certificate.

        Without names: unless every claim was checked, and none fails or is broken. Undecided claims pass, and so do parts
        that were skipped, but for ``strict=True``.
        """
        wanted = [self[name] for name in names] if names else list(self)
        accepted = (HOLDS,) if names or strict else (HOLDS, UNDECIDED)
        missing = [item for item in wanted if item.verdict not in accepted]
        skipped = self.skipped if strict else ""
        if missing or skipped:
            lines = [f"{item.name}: {item.verdict} ({item.numbers})" for item in missing]
            call = _call_for(missing)
            lines += [f"To check the rest: {call}.require()"] if call else []
            lines += [f"skipped: {skipped}"] if skipped else []
            raise NotCertified(
                f"{self.title}: {len(missing)} claim(s) do not hold.\n  " + "\n  ".join(lines)
            )
        return self

    # --- showing it (in colour and as HTML: core/certification/report.py) ---

    @property
    def counts(self) -> str:
        """The number of claims by verdict: 2 hold, 1 fails, 1 not checked; without those that had nothing to look at."""
        words = {HOLDS: ("holds", "hold"), FAILS: ("fails", "fail")}
        found = [item.verdict for item in self if item.verdict != UNDECIDED or not _is_silent(item)]
        parts = []
        for verdict in VERDICTS:
            n = found.count(verdict)
            if n:
                parts.append(f"{n} {words.get(verdict, (verdict, verdict))[n > 1]}")
        return ", ".join(parts)

    def __str__(self) -> str:
        return as_text(self)

    __repr__ = __str__

    def explain(self, name: str) -> None:
        """Print all there is to say about a claim: how strong it is, where it comes from, the numbers, limits and advice."""
        item = self[name]
        parts = {
            "claim": f"{item.sentence}{' (the main claim of this model)' if name == self.main else ''}",
            "kind": item.strength, "source": item.source, "verdict": item.verdict, "numbers": item.numbers,
            "note": "" if item.note == item.numbers else item.note, "advice": item.advice,
            "rests on": ", ".join(item.witness),
        }  # fmt: skip
        lines = [one_line(name)]
        for word, text in parts.items():
            lines += _wrap(text, find_width(), " " * 11, f"  {word:<9}") if text else []
        print(printable("\n".join(lines)))

    def __rich_console__(self, console, options):
        from lemmata.core.certification.report import as_rich

        yield as_rich(self, options.max_width)

    def _repr_html_(self) -> str:
        from lemmata.core.certification.report import as_html

        return as_html(self)

    def report(self, path: Any) -> None:
        """Write one self-contained page: the claims, the trace and other pictures, the data, the versions, the date."""
        from lemmata.core.certification.report import write_report

        write_report(self, path)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists; a number that is missing or infinite is None."""
        claims = []
        for item in self:
            fields = {"name": item.name, "verdict": item.verdict, **asdict(item)}
            del fields["state"], fields["witness"]
            claims.append(
                {
                    name: value if not isinstance(value, float) or math.isfinite(value) else None
                    for name, value in fields.items()
                }
            )
        told = {"holds": self.holds, "stopped": self.stopped, "data": self.data}
        told |= {"versions": self.versions, "skipped": self.skipped, "main": self.main}
        return {"title": self.title, **told, "claims": claims}

    def for_file(self) -> Certificate:
        """Return what `lemmata.save` writes: without the trace, which the model has, and without large witnesses."""
        claims = (replace(item, witness=_small(item.witness)) for item in self)
        return replace(self, claims=tuple(claims), trace=None)

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)


def _small(witness: dict[str, Any]) -> dict[str, Any]:
    """Return a witness if it has less than a megabyte."""
    return witness if sum(np.asarray(value).nbytes for value in witness.values()) < LARGE else {}


def _call_for(claims: Any) -> str:
    """The one call that would check all of these claims that were put off; "" if none would."""
    found = (re.fullmatch(r"run (certify\(.*\)) for it", item.note) for item in claims)
    call = max(
        (one[1] for one in found if one), key=len, default=""
    )  # the longest has the largest budget
    return f"{'lemmata' if call.startswith('certify(model') else 'model'}.{call}" if call else ""


# --- what is shown, in which order ------------------------------------------------------------------------------------


def _is_silent(item: Claim) -> bool:
    """Whether a claim says nothing worth a line: it always holds, or it had nothing to look at."""
    if item.name.rpartition("__")[2] in ALWAYS:
        return item.verdict in (HOLDS, UNDECIDED)
    return item.verdict == UNDECIDED and item.note == NO_TRACE


def readable(certificate: Any) -> list[Claim]:
    """Return the claims that are shown: what fails or is broken, then the main one, then the rest."""
    shown = [item for item in certificate if item.verdict != NOT_CHECKED and not _is_silent(item)]
    return sorted(
        shown, key=lambda item: (item.verdict not in (FAILS, BROKEN), item.name != certificate.main)
    )


def describe_unchecked(certificate: Any) -> list[str]:
    """Name what was put off, with the one call that checks it; what no call would check, with the reason."""
    waiting = [item for item in certificate if item.verdict == NOT_CHECKED]
    waiting.sort(key=lambda item: item.name != certificate.main)
    call = _call_for(waiting)
    groups: dict[str, list[str]] = {}
    for item in waiting:
        reason = f"; run {call}" if _call_for([item]) else f" ({item.note})" if item.note else ""
        groups.setdefault(reason, []).append(item.name)
    return [f"not checked: {', '.join(names)}{reason}" for reason, names in groups.items()]


# --- as a table of text -----------------------------------------------------------------------------------------------

WIDEST = 48  # characters of the column of numbers; a longer reason goes below its claim
NARROWEST = 40  # a terminal that says less is not believed
USUAL = 80  # columns where there is no terminal
GLUE = "\N{NO-BREAK SPACE}"


def find_width() -> int:
    """Return the width of the terminal that is printed to; of files and pipes the usual one."""
    return get_terminal_size().columns if sys.stdout.isatty() else USUAL


def as_text(certificate: Any, width: float | None = None) -> str:
    """The certificate as a table; if that is wider than `width`, with each claim folded below its name.

    Control characters, which a title may quote from the user's data, are written out.
    """
    width = max(find_width() if width is None else width, NARROWEST)
    claims = readable(certificate)
    rows = [_cells(item) for item in claims]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)] or [0]
    whole, margin = 2 * len(wide) + sum(wide), wide[0] + 4
    table = whole <= width
    lines = _headline(certificate, whole if table else width, width)
    for item, row in zip(claims, rows, strict=True):
        if table:
            cells = (f"{cell:<{size}}" for cell, size in zip(row, wide, strict=True))
            lines.append("  " + "  ".join(cells).rstrip())
            more = (
                item.remarks if row[3] or not item.numbers else [*item.remarks, f"({item.numbers})"]
            )
        else:
            verdict = f"  {item.verdict:<{margin - 2}}"
            lines += _wrap(f"{item.name} [{item.strength}]", width, " " * margin, verdict)
            told = f"{item.sentence}: {item.numbers}" if item.numbers else item.sentence
            more = [told, *item.remarks]
        for text in more:
            lines += _wrap(text, width, " " * margin)
    for text in _endings(certificate):
        lines += _wrap(text, width, "    ", "  ")
    return "\n".join(map(_clean, lines))


def _endings(certificate: Any) -> list[str]:
    """The lines below the claims: what was not checked, and what was skipped."""
    skipped = [f"skipped: {certificate.skipped}"] if certificate.skipped else []
    return describe_unchecked(certificate) + skipped


def _cells(item: Claim) -> tuple[str, ...]:
    numbers = item.numbers if len(item.numbers) <= WIDEST else ""
    cells = (item.verdict, item.name, item.sentence, numbers, item.strength)
    return tuple(map(_clean, cells))


def _clean(text: str) -> str:
    """Text on one line with control characters written out; most text has none."""
    return text if text.isprintable() else one_line(text)


def summary_of(certificate: Any) -> str:
    """The count of verdicts, and why the run stopped."""
    told = [certificate.counts] if certificate.claims else []
    stopped = _clean(certificate.stopped)
    return " · ".join(told + ([f"stopped: {stopped}"] if stopped else []))


def _headline(certificate: Any, whole: float, width: float) -> list[str]:
    """The title on the left and the summary on the right of a table this wide; below it where both do not fit."""
    title, summary = _clean(certificate.title), summary_of(certificate)
    both = len(title) + 2 + len(summary)
    if both <= width:
        right = int(max(whole if math.isfinite(whole) else both, both)) - len(title) - 2
        return [f"{title}  {summary:>{right}}" if summary else title]
    first = [title] if len(title) <= width else _wrap(title, width)
    return first + (_wrap(summary, width, "  ") if summary else [])


def _wrap(text: str, width: float, indent: str = "", first: str | None = None) -> list[str]:
    """Lines of at most this width, the first begun by `first`; neither long words nor comparisons are cut."""
    text = re.sub(r" ([≤≥<>]) ", f"{GLUE}\\1{GLUE}", " ".join(text.split()))
    text = re.sub(r"(?<=\d) %", f"{GLUE}%", text)
    lines = wrap(
        text, int(min(width, 10**6)), initial_indent=indent if first is None else first, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace(GLUE, " ") for line in lines]


# --- searches for witnesses -------------------------------------------------------------------------------------------
#
# A search is a function of a Fit in `<package>/witness.py`, outside of the trusted base, with the fastest solver we have. What
# it returns is checked by the claim that asked and never believed. With `lemmata.config(searches=False)` a claim that needs one
# says *can't tell* at worst, and certifying another library's fit loads no solver of ours.

# what a claim asks for by `fit.witness(name)`: the module that has the function of that name
WITNESSES: dict[str, str] = {
    name: f"lemmata.{module}"
    for module, names in {
        "trust.fair.witness": "better_rules guess_group",
        "trust.robust.witness": "attack_by_gradients input_gradients",
        "completion.witness": "lowest_on_line further_factor singular_triplets",
        "topics.witness": "better_mixtures coefficients fitted_mixtures",
        "nets.witness": "better_network_weights linear_baseline",
        "generate.witness": "draw_rows mode_centres sort_by_class tell_apart",
        "predict.svm.witness": "better_machine better_ridge",
        "reduction.sparse_coding.witness": "better_codes other_codes atoms_of_another_start",
        "predict.witness.better_weights": "better_huber_fit better_weights",
        "predict.witness.dual_points": "dual_points feasible_slopes",
        "predict.witness.separation": "separating_direction",
        "clustering.witness": "better_centers coreset_centers merge_rows multipliers refit_centers subset_plan",
        "mixtures.witness": "climb_by_leaps climb_from_nudges fewer_components fresh_mixtures refit_mixture",
    }.items()
    for name in names.split()
}


def find_search(name: str) -> Callable[..., Any] | None:
    """Return the search of this name, imported now; None where searches are switched off."""
    from lemmata.core.engine import searches_allowed

    if not searches_allowed():
        return None
    return getattr(import_module(WITNESSES[name]), name)


Fit.searches = staticmethod(find_search)  # the kernel of the trusted base knows nobody who searches
