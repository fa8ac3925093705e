"""What theory promises about a fit, and whether it was kept: the claims (claims.py), checked one by one.

    certificate = check((attributes_sound, orthonormal, …), Fit(model, data), "PCA  1,797 × 64", work=1e9)
    certificate.holds, certificate.failed, certificate["orthonormal"].measured

Cheap claims come first, until the budget is spent; what is left is *not checked*. The budget counts work, not seconds, so
that a certificate says the same everywhere.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from lemmata import registry
from lemmata.audit.kernel.claims import (
    BROKEN,
    FAILS,
    HOLDS,
    KINDS,
    LEAST_BUDGET,
    NOT_CHECKED,
    PER_SECOND,
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
from lemmata.core.engine import searches_allowed
from lemmata.core.runs.trace import Trace
from lemmata.core.store import storable

__all__ = [
    "BROKEN", "FAILS", "HOLDS", "KINDS", "LEAST_BUDGET", "NOT_CHECKED", "PROVED", "RULE_OF_THUMB", "STATISTICAL",
    "UNDECIDED", "VERDICTS", "Certificate", "Claim", "Evidence", "Fit", "NoData", "NotCertified", "Statement", "at_least",
    "at_most", "budget", "check", "claim", "free", "passes", "rounding", "unknown",
]  # fmt: skip

storable(Claim)  # files hold it; the kernel of the trusted base knows no files

TIMES_THE_FIT = (
    5  # what `certify(X)` may cost, as a multiple of the fit, if that is more than LEAST_BUDGET
)
SOUND = "attributes_sound"  # the first claim of every certificate: where it fails, no other can be checked
INTERRUPTED = "interrupted"  # the note of claims that Ctrl-C left unchecked
LARGE = 2**20  # bytes of a witness that is not written to files


class NotCertified(RuntimeError):
    """Raised by `Certificate.require()` when a claim does not hold."""


@storable
@dataclass(frozen=True)
class Certificate:
    """What theory promises about a fit and whether it was kept. Iterates over its claims; prints, shows, turns to JSON."""

    version = 2

    title: str
    claims: tuple[Claim, ...]
    stopped: str = ""
    data: str = ""  # a fingerprint of what the claims were checked on
    versions: str = ""  # of the libraries that checked
    skipped: str = ""  # parts of a composite model that nothing was checked about
    trace: Trace | None = field(default=None, compare=False)

    def __post_init__(self):
        if not isinstance(self.claims, tuple) or not all(
            isinstance(item, Claim) for item in self.claims
        ):
            raise ValueError("a certificate holds a tuple of claims and nothing else.")
        texts = (self.title, self.stopped, self.data, self.versions, self.skipped)
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("the title of a certificate and why the run stopped are texts.")
        if not isinstance(self.trace, Trace | None):
            raise ValueError("the trace of a certificate is a Trace.")

    @classmethod
    def upgrade(cls, fields: dict[str, Any], version: int) -> dict[str, Any]:
        """Version 1 did not say what it was checked on."""
        return {**fields, "data": "", "versions": "", "skipped": "", "trace": None}

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

        Without names: unless every claim was checked, and none fails or is broken. Undecided claims pass, but for
        ``strict=True``.
        """
        wanted = [self[name] for name in names] if names else list(self)
        accepted = (HOLDS,) if names or strict else (HOLDS, UNDECIDED)
        missing = [item for item in wanted if item.verdict not in accepted]
        if missing:
            lines = [f"{item.name}: {item.verdict} ({item.numbers})" for item in missing]
            calls = [_call_in(item.note) for item in missing if item.verdict == NOT_CHECKED]
            if any(calls):
                # the longest call has the largest budget
                lines.append(f"To check the rest: model.{max(calls, key=len)}.require()")
            raise NotCertified(
                f"{self.title}: {len(missing)} claim(s) do not hold.\n  " + "\n  ".join(lines)
            )
        return self

    # --- showing it (core/certification/showing.py, core/certification/report.py) ---

    @property
    def counts(self) -> str:
        """How many claims came out how: 2 hold, 1 fails, 1 not checked."""
        words = {HOLDS: ("holds", "hold"), FAILS: ("fails", "fail")}
        parts = []
        for verdict in VERDICTS:
            n = len(self._names_of(verdict))
            if n:
                parts.append(f"{n} {words.get(verdict, (verdict, verdict))[n > 1]}")
        return ", ".join(parts)

    def __str__(self) -> str:
        from lemmata.core.certification.showing import as_text

        return as_text(self)

    __repr__ = __str__

    def __rich_console__(self, console, options):
        from lemmata.core.certification.showing import as_rich

        yield as_rich(self, options.max_width)

    def _repr_html_(self) -> str:
        from lemmata.core.certification.showing import as_html

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
        told |= {"versions": self.versions, "skipped": self.skipped}
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


# --- checking ---------------------------------------------------------------------------------------------------------


def budget(work: Callable[[Fit], float], fit: Fit) -> float:
    """Multiplications that `certify(X)` may spend: a multiple of what the fit took, as `work` counts it."""
    try:
        took = float(work(fit))
    except (
        Exception
    ):  # there is no data, or the attributes are not what they should be: a claim says so
        took = 0.0
    return max(LEAST_BUDGET, TIMES_THE_FIT * took)  # in this order, NaN is the least


def check(
    statements: Iterable[Statement],
    fit: Fit,
    title: str,
    *,
    work: float = math.inf,
    seconds: float | None = None,
    usual: float = LEAST_BUDGET,
    progress: Callable[[str], Any] | None = None,
) -> Certificate:
    """Check claims on a fit, the cheap ones first, until the budget is spent; the rest is *not checked*.

    Parameters
    ----------
    work : float
        Multiplications that all checks together may take. `attributes_sound` is checked whatever it is.
    seconds : float, optional
        A budget in time instead: no check begins that would take longer than what is left of it.
    usual : float
        What `certify(X)` may spend, to name the call that would check the rest.
    progress : callable, optional
        Is told the name of every claim before it is checked.

    Ctrl-C ends the checking, not the program: what was checked stays checked.
    """
    if seconds is not None and not seconds >= 0:
        raise ValueError(f"seconds={seconds!r}: pass a number >= 0.")
    statements = tuple(statements)
    end = math.inf if seconds is None else time.perf_counter() + seconds
    found: dict[str, Claim] = {}
    waiting, spent, stop, data = list(statements), 0.0, "", ""
    prices: dict[str, float] = {}
    known = -1
    try:
        while waiting and not stop:
            # a fact that one check asked for is free for others, so prices are asked again
            if len(fit.facts) != known:
                known = len(fit.facts)
                prices = {one.name: one.price(fit) for one in waiting}
            one = min(waiting, key=lambda one: (one.name != SOUND, prices[one.name]))
            price = prices[one.name]
            left = work - spent if seconds is None else (end - time.perf_counter()) * PER_SECOND
            if one.name != SOUND and price > max(left, 0.0):
                break  # the others cost no less
            fit.work = left
            if progress is not None:
                progress(one.name)
            found[one.name] = one(fit)
            waiting.remove(one)
            spent += price
            if one.name == SOUND and found[SOUND].verdict in (FAILS, BROKEN):
                stop = f"{SOUND} {found[SOUND].verdict}"
        data = describe_data(fit.data) if fit.has_data else ""
    except KeyboardInterrupt:
        stop = INTERRUPTED
    for one in sorted(waiting, key=lambda one: one.price(fit)):
        spent += one.price(fit)
        found[one.name] = one.put_off(stop or _call_for(spent, usual, seconds, fit.has_data))
    claims = tuple(found[statement.name] for statement in statements)
    return Certificate(title, claims, fit.stopped or "", data, describe_versions(), trace=fit.trace)


def _call_for(work: float, usual: float, seconds: float | None, has_data: bool) -> str:
    """The call that would do this much work."""
    if work <= usual or not has_data:
        return "run certify(X) for it"
    if math.isinf(work):
        return "too expensive on this data"
    more = max(math.ceil(work / PER_SECOND), math.ceil(2 * (seconds or 0)))
    return f"run certify(X, seconds={more}) for it"


def _call_in(note: str) -> str:
    """The call that a claim put off names, "" if it names none."""
    named = note.startswith("run certify(") and note.endswith(" for it")
    return note.removeprefix("run ").removesuffix(" for it") if named else ""


# --- data and versions ------------------------------------------------------------------------------------------------
#
#     1,797 × 64 float64, digest 5d2f0e6c1b7a9348 of 32 evenly spaced rows
#
# A certificate must not cost a pass over the data, so the digest is one of evenly spaced rows or entries where the data is
# larger than SAMPLED, and says so. It distinguishes data that differ everywhere (scaled, sorted, another split).

SAMPLED = 2**14  # bytes that are read: some twenty microseconds, 1 % of the quickest fits


def describe_data(data: Any) -> str:
    """Shape, type, weights and a digest of rows (Blocks) or entries (of a sparse or partly known matrix)."""
    if not hasattr(data, "shape"):
        return ""
    n, m = data.shape
    parts = [f"{n:,} × {m:,} {data.dtype}"]
    weights = getattr(data, "weights", None)
    if weights is not None:
        parts.append(f"weights of sum {float(np.sum(weights, dtype=np.float64)):.6g}")
    parts.append(_digest(data, weights))
    targets = getattr(data, "targets", None)
    if targets is not None:
        places = _choose_evenly(len(targets), targets.itemsize * targets[:1].size)
        parts.append(f"targets {_hash([targets[places]])}")
    return ", ".join(parts)


def _digest(data: Any, weights: np.ndarray | None) -> str:
    source = getattr(data, "source", None)
    if isinstance(source, np.ndarray):
        places = _choose_evenly(len(source), source.shape[1] * source.itemsize)
        arrays = [_narrow(source[places]), *([] if weights is None else [weights[places]])]
        told = "all rows" if len(places) == len(source) else f"{len(places):,} evenly spaced rows"
        return f"digest {_hash(arrays)} of {told}"
    entries = _entries(data, source)
    if entries is None:
        return "a stream of rows, no digest"
    places = _choose_evenly(len(entries[0]), sum(part.itemsize for part in entries))
    arrays = [part[places] for part in entries]
    if weights is not None:
        arrays.append(weights[_choose_evenly(len(weights), weights.itemsize)])
    told = f"{len(places):,} evenly spaced ones of " if len(places) < len(entries[0]) else ""
    return f"digest {_hash(arrays)} of {told}{len(entries[0]):,} entries"


def _entries(data: Any, source: Any) -> tuple[np.ndarray, ...] | None:
    """Columns and values of a sparse matrix, or of one whose other entries are not known; None for a stream."""
    if hasattr(source, "indptr"):
        return source.indices, source.data
    order = getattr(data, "by_row", ())
    arrays = tuple(part for part in order if isinstance(part, np.ndarray))[1:]
    return arrays if len(arrays) == 2 and len(arrays[0]) == len(arrays[1]) else None


def _choose_evenly(count: int, size: int) -> np.ndarray:
    """As many evenly spaced places as SAMPLED bytes allow."""
    return np.linspace(0, count - 1, num=min(count, max(SAMPLED // max(size, 1), 1))).astype(
        np.intp
    )


def _narrow(rows: np.ndarray) -> np.ndarray:
    """Of rows so long that one alone exceeds SAMPLED, evenly spaced columns."""
    return rows[:, _choose_evenly(rows.shape[1], rows.itemsize)] if rows.nbytes > SAMPLED else rows


def _hash(arrays: list[np.ndarray]) -> str:
    found = hashlib.blake2b(digest_size=8)
    for array in arrays:
        found.update(f"{array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data if array.size else b"")
    return found.hexdigest()


@lru_cache(maxsize=1)
def describe_versions() -> str:
    """lemmata 0.1.0, numpy …, scipy …, scikit-learn …, python …"""
    from importlib.metadata import version

    import scipy

    from lemmata import __version__

    numbers = {"lemmata": __version__, "numpy": np.__version__, "scipy": scipy.__version__}
    numbers |= {"scikit-learn": version("scikit-learn"), "python": platform.python_version()}
    return ", ".join(f"{name} {number}" for name, number in numbers.items())


# --- searches for witnesses -------------------------------------------------------------------------------------------
#
# A search is a function of a Fit in `<package>/witness.py`, outside of the trusted base, with the fastest solver we have. What
# it returns is checked by the claim that asked and never believed. With `lemmata.config(searches=False)` a claim that needs one
# says *can't tell* at worst, and certifying another library's fit loads no solver of ours.


def find_search(name: str) -> Callable[..., Any] | None:
    """Return the search of this name, imported now; None where searches are switched off."""
    if not searches_allowed():
        return None
    return getattr(import_module(registry.WITNESSES[name]), name)


Fit.searches = staticmethod(find_search)  # the kernel of the trusted base knows nobody who searches
