"""A theorem is a claim: a sentence, a measured number, a bound, and what to do if it fails.

    @claim("the basis is orthonormal", source="CIL 1.3.3")
    def orthonormal(fit):
        U = fit.components_
        return at_most(np.abs(U @ U.T - np.eye(len(U))).max(), rounding(U.dtype, terms=U.shape[1]), advice="…")

Comparing the two numbers decides: *holds*, *fails*, or *can't tell* where they could not be had. A claim about the
"result" recomputes from data and public attributes, so it certifies fits of other libraries too; one about the "run" reads
the trace.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np

from lemmata.core.store import storable

HOLDS, FAILS, UNKNOWN = "holds", "fails", "can't tell"
WIDEST = 48  # characters of the column of numbers


class NotCertified(RuntimeError):
    """Raised by `Certificate.require()` when a claim does not hold."""


@dataclass(frozen=True)
class Evidence:
    """What a claim found: a measured number, how it should compare with a bound, advice if it does not."""

    verdict: str
    measured: float = math.nan
    relation: str = ""
    bound: float = math.nan
    advice: str = ""
    unit: str = ""  # what the measured number is: "|UᵀU − I|", "gap"
    note: str = ""  # said whatever the verdict: the limits of the claim, or why it can't tell


def at_most(measured: float, bound: float, advice: str = "", unit: str = "", note: str = "") -> Evidence:
    """Holds if measured ≤ bound; can't tell if either is NaN."""
    return _compared(float(measured), "≤", float(bound), advice, unit, note)


def at_least(measured: float, bound: float, advice: str = "", unit: str = "", note: str = "") -> Evidence:
    """Holds if measured ≥ bound; can't tell if either is NaN."""
    return _compared(float(measured), "≥", float(bound), advice, unit, note)


def unknown(why: str) -> Evidence:
    """Neither holds nor fails, with the reason."""
    return Evidence(UNKNOWN, note=why)


def _compared(measured, relation, bound, advice, unit, note):
    verdict = _verdict(measured, relation, bound)
    if verdict == UNKNOWN and not note:
        note = f"{'what was measured' if math.isnan(measured) else 'the bound'} is not a number"
    return Evidence(verdict, measured, relation, bound, advice, unit, note)


def _verdict(measured: float, relation: str, bound: float) -> str:
    """The one place where numbers become a verdict."""
    if math.isnan(measured) or math.isnan(bound):
        return UNKNOWN
    return HOLDS if (measured <= bound if relation == "≤" else measured >= bound) else FAILS


def rounding(dtype: Any, terms: float = 1) -> float:
    """The relative error that sums of `terms` products may have gathered in a float type, for comparing with exact theory.

    8·√terms·eps: rounding errors of alternating sign grow like √terms (Higham & Mary 2019: at most λ√n·u with probability
    1 − 2exp(−λ²/2), so 8 leaves nothing to chance), not like the worst case terms·eps, in which no claim could fail.
    """
    dtype = np.dtype(dtype)
    eps = np.finfo(dtype if dtype.kind == "f" else np.float64).eps
    return float(8 * math.sqrt(max(terms, 1)) * eps)


# --- what is checked --------------------------------------------------------------------------------------------------


class Fit:
    """What a claim may look at: the model's public attributes, its parameters, the data, and the trace if there is one.

    `fit.components_` is the model's attribute (or what an adapter gives for another library's), `fit.data` the rows as
    Blocks, `fit.weights` their weights or None, `fit.trace` and `fit.stopped` the run.
    """

    def __init__(self, model, data=None, y=None, weights=None, trace=None, stopped=None, attributes=None):
        self.model, self.data, self.y, self.weights = model, data, y, weights
        self.trace, self.stopped = trace, stopped
        self._attributes: Mapping[str, Any] = attributes or {}
        self.memory: dict[str, Any] = {}  # where claims keep what several of them need

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_attributes":
            raise AttributeError(name)
        if name in self._attributes:
            return self._attributes[name]
        return getattr(self.model, name)

    def has(self, name: str) -> bool:
        return name in self._attributes or hasattr(self.model, name)


@dataclass(frozen=True)
class Statement:
    """A claim not yet checked. Calling it with a Fit gives the Claim."""

    name: str
    sentence: str
    source: str
    check: Callable[[Fit], Evidence]
    about: str = "result"
    costly: bool = False

    def __call__(self, fit: Fit) -> Claim:
        if self.about == "run" and fit.trace is None:
            return self.with_evidence(unknown("no trace of the run"))
        try:
            evidence = self.check(fit)
        except Exception as error:  # a check that stumbles must not cost anybody a long fit
            evidence = unknown(f"the check itself failed with {type(error).__name__}: {error}")
        return self.with_evidence(evidence)

    def put_off(self) -> Claim:
        """The claim as it stands in `certificate_` before anybody paid for checking it."""
        return self.with_evidence(unknown("run certify(X) for it"))

    def with_evidence(self, evidence: Evidence) -> Claim:
        return Claim(self.name, self.sentence, self.source, **asdict(evidence))


def claim(sentence: str, *, source: str, about: str = "result", costly: bool = False) -> Callable[..., Statement]:
    """Turn a function of a Fit that returns `at_most(…)`, `at_least(…)` or `unknown(…)` into a claim.

    about : "result" (recomputed from data and public attributes) or "run" (reads the trace)
    costly : needs passes over the data; `fit` leaves it to `certify(X)` unless the data is small
    """
    if about not in ("result", "run"):
        raise ValueError(f"about={about!r}: a claim is about the 'result' or the 'run'.")

    def decorate(function: Callable[[Fit], Evidence]) -> Statement:
        return Statement(function.__name__, sentence, source, function, about, costly)

    return decorate


# --- what was found ---------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class Claim:
    """A claim that was checked."""

    version = 1

    name: str
    sentence: str
    source: str
    verdict: str
    measured: float
    relation: str
    bound: float
    advice: str
    unit: str
    note: str

    def __post_init__(self):
        texts = (self.name, self.sentence, self.source, self.relation, self.advice, self.unit, self.note)
        if not all(isinstance(text, str) for text in texts) or self.relation not in ("≤", "≥", ""):
            raise ValueError("not a claim: its texts are of the wrong kind.")
        object.__setattr__(self, "measured", float(self.measured))
        object.__setattr__(self, "bound", float(self.bound))
        if self.verdict != _verdict(self.measured, self.relation, self.bound):
            raise ValueError(f"the claim {self.name} says {self.verdict!r} against its own numbers.")

    @property
    def numbers(self) -> str:
        """The comparison as people write it: |grad| 2.1e-07 ≤ 1e-05. A failed one shows the true relation."""
        if math.isnan(self.measured) or math.isnan(self.bound):
            return self.note if self.verdict == UNKNOWN else ""
        true = self.relation if self.verdict != FAILS else {"≤": ">", "≥": "<"}[self.relation]
        digits = 3
        while _number(self.measured, digits) == _number(self.bound, digits) and self.measured != self.bound:
            digits += 1  # 0.9996 < 0.9999 is news, 1 < 1 is a riddle
        return f"{self.unit} {_number(self.measured, digits)} {true} {_number(self.bound, digits)}".strip()

    @property
    def remarks(self) -> list[str]:
        """What is said besides the numbers: advice if the claim fails, its limits whatever the verdict."""
        advice = [f"→ {self.advice}"] if self.verdict == FAILS and self.advice else []
        return advice + ([f"({self.note})"] if self.note and self.note != self.numbers else [])


def _number(value: float, digits: int = 3) -> str:
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.{digits}g}"


@storable
@dataclass(frozen=True)
class Certificate:
    """What theory promises about a fit and whether it was kept. Iterates over its claims; prints, shows, turns to JSON."""

    version = 1

    title: str
    claims: tuple[Claim, ...]
    stopped: str = ""

    def __post_init__(self):
        if not isinstance(self.claims, tuple) or not all(isinstance(item, Claim) for item in self.claims):
            raise ValueError("a certificate holds a tuple of claims and nothing else.")
        if not isinstance(self.title, str) or not isinstance(self.stopped, str):
            raise ValueError("the title of a certificate and why the run stopped are texts.")

    def __iter__(self) -> Iterator[Claim]:
        return iter(self.claims)

    def __len__(self) -> int:
        return len(self.claims)

    def __getitem__(self, name: str) -> Claim:
        for item in self.claims:
            if item.name == name:
                return item
        raise KeyError(f"no claim {name!r}; there are {', '.join(item.name for item in self.claims)}.")

    def _named(self, verdict: str) -> list[str]:
        return [item.name for item in self.claims if item.verdict == verdict]

    @property
    def holds(self) -> list[str]:
        """The names of the claims that hold."""
        return self._named(HOLDS)

    @property
    def failed(self) -> list[str]:
        """The names of the claims that fail."""
        return self._named(FAILS)

    @property
    def unknown(self) -> list[str]:
        """The names of the claims that could not be decided."""
        return self._named(UNKNOWN)

    def require(self, *names: str) -> Certificate:
        """Raise NotCertified unless the named claims hold; without names, if any claim fails. Returns the certificate."""
        wanted = [self[name] for name in names] if names else [item for item in self if item.verdict == FAILS]
        broken = [item for item in wanted if item.verdict != HOLDS]
        if broken:
            lines = [f"{item.name}: {item.verdict} ({item.numbers or item.note})" for item in broken]
            raise NotCertified(f"{self.title}: {len(broken)} claim(s) do not hold.\n  " + "\n  ".join(lines))
        return self

    def __str__(self) -> str:
        rows, remarks = [], []
        for item in self:
            fits = len(item.numbers) <= WIDEST  # a long reason goes below its claim, as a remark
            rows.append([item.verdict, item.sentence, item.numbers if fits else "", item.source])
            remarks.append(item.remarks if fits else [*item.remarks, f"({item.numbers})"])
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)] or [0]
        wide[0] = len(UNKNOWN)  # certificates under one another line up
        lines = [self._headline(width=sum(wide) + 2 * len(wide))]
        for row, more in zip(rows, remarks, strict=True):
            cells = (f"{cell:<{width}}" for cell, width in zip(row, wide, strict=True))
            lines.append("  " + "  ".join(cells).rstrip())
            lines.extend(" " * (wide[0] + 4) + " ".join(remark.split()) for remark in more)
        return "\n".join(lines)

    def _headline(self, width: int) -> str:
        """The title on the left, why the run stopped on the right of a table this wide."""
        if not self.stopped:
            return self.title
        stopped = f"stopped: {self.stopped}"
        return f"{self.title}  {stopped:>{max(width - len(self.title) - 2, 0)}}"

    __repr__ = __str__

    def __rich__(self):
        from rich.text import Text

        text = Text(str(self))
        colours = {HOLDS: "green", FAILS: "bold red", UNKNOWN: "yellow"}
        for verdict, colour in colours.items():
            text.highlight_regex(rf"(?m)^  {verdict}", colour)
        text.highlight_regex(r"(?m)^ +→.*$", "red")
        text.highlight_regex(r"(?m)^ +\(.*\)$", "dim")
        return text

    def _repr_html_(self) -> str:
        colours = {HOLDS: "#00664b", FAILS: "#a33d00", UNKNOWN: "#6b6b6b"}
        marks = {HOLDS: "✓", FAILS: "✗", UNKNOWN: "?"}
        rows = []
        for item in self:
            extra = "".join(f"<br><small>{escape(remark)}</small>" for remark in item.remarks)
            rows.append(
                f'<tr><td style="color:{colours[item.verdict]};white-space:nowrap">{marks[item.verdict]} {item.verdict}</td>'
                f'<td style="text-align:left">{escape(item.sentence)}{extra}</td>'
                f"<td>{escape(item.numbers)}</td><td>{escape(item.source)}</td></tr>"
            )
        stopped = f" <small>stopped: {escape(self.stopped)}</small>" if self.stopped else ""
        return f"<table><caption><b>{escape(self.title)}</b>{stopped}</caption><tbody>{''.join(rows)}</tbody></table>"

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists; a number that is missing or infinite is None."""
        claims = [
            {k: v if not isinstance(v, float) or math.isfinite(v) else None for k, v in asdict(item).items()}
            for item in self
        ]
        return {"title": self.title, "stopped": self.stopped, "claims": claims}

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)


def check(statements: Iterable[Statement], fit: Fit, title: str, *, costly: bool = True) -> Certificate:
    """Check claims on a fit. Costly ones are put off unless asked for, or unless there is no data to check them on."""
    claims = []
    for statement in statements:
        if statement.costly and not costly:
            claims.append(statement.put_off())
        else:
            claims.append(statement(fit))
    return Certificate(title, tuple(claims), fit.stopped or "")
