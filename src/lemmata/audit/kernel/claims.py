"""A theorem is a claim: a sentence, its kind, a measured number, a bound, and what to do if it fails.

    @claim("the basis is orthonormal", kind=PROVED, source="CIL 1.3.3")
    def orthonormal(fit):
        U = fit.components_
        return at_most(np.abs(U @ U.T - np.eye(len(U))).max(), rounding(U.dtype, terms=U.shape[1]), advice="…")

Comparing the two numbers decides: *holds* or *fails*. A claim that lacks its input is undecided (*can't tell*), one whose
check stumbles is *broken*, one put off is *not checked*. Its kind says how strong it is: *proved* (a theorem, checked to
rounding), *statistical* (true with a stated confidence) or a *rule of thumb* (a threshold that we chose).

A claim about the "result" recomputes from data and public attributes, so it certifies fits of other libraries too; one about
the "run" reads the trace. What a check costs is counted in work, not in seconds, so that a certificate says the same
everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar

HOLDS, FAILS, UNDECIDED = "holds", "fails", "can't tell"
BROKEN, NOT_CHECKED = "broken", "not checked"
VERDICTS = (HOLDS, FAILS, UNDECIDED, BROKEN, NOT_CHECKED)

PROVED, STATISTICAL, RULE_OF_THUMB = "proved", "statistical", "rule of thumb"
KINDS = (PROVED, STATISTICAL, RULE_OF_THUMB)

PER_SECOND = 1e9  # multiplications (and additions) that plain NumPy makes in a second, roughly
PRODUCTS = 16  # multiplications of a matrix product in the time of one of a plain pass, on one core
LEAST_BUDGET = 0.5 * PER_SECOND  # what all checks may cost, however quick the fit was


NO_TRACE = "no trace of the run"  # why a claim about the run can't tell


class NoData(LookupError):
    """A check asked for the data, and there is none: the claim has to wait for `certify(X)`."""


class CannotTell(Exception):
    """A check, or a fact that it needs, found out why it cannot decide: the claim is undecided, and says so."""


# --- evidence ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """The finding of a claim: a measured number, how it should compare with a bound, advice if it does not."""

    measured: float = math.nan
    relation: str = ""  # "≤", "≥", or "": there is nothing to compare, so the claim is undecided
    bound: float = math.nan
    advice: str = ""
    unit: str = ""  # what the measured number is: "|UᵀU − I|", "gap"
    note: str = ""  # said whatever the verdict: the limits of the claim, or why it can't tell
    kind: str = ""  # if it is not that of the claim: a bound proved here, sampled there
    confidence: float = math.nan  # of statistical evidence, if it is not that of the claim
    witness: Mapping[str, Any] = field(default_factory=dict)  # what the verdict rests on, by name

    @property
    def verdict(self) -> str:
        return _verdict(self.measured, self.relation, self.bound)


def at_most(
    measured: float,
    bound: float,
    advice: str = "",
    unit: str = "",
    note: str = "",
    *,
    kind: str = "",
    confidence: float = math.nan,
    witness: Mapping[str, Any] | None = None,
) -> Evidence:
    """Holds if measured ≤ bound; broken if either is NaN."""
    numbers = float(measured), "≤", float(bound)
    return Evidence(*numbers, advice, unit, note, kind, confidence, witness or {})


def at_least(
    measured: float,
    bound: float,
    advice: str = "",
    unit: str = "",
    note: str = "",
    *,
    kind: str = "",
    confidence: float = math.nan,
    witness: Mapping[str, Any] | None = None,
) -> Evidence:
    """Holds if measured ≥ bound; broken if either is NaN."""
    numbers = float(measured), "≥", float(bound)
    return Evidence(*numbers, advice, unit, note, kind, confidence, witness or {})


def unknown(why: str, measured: float = math.nan, unit: str = "") -> Evidence:
    """Undecided, with the reason, and with what was measured all the same."""
    return Evidence(measured=float(measured), unit=unit, note=why)


def _verdict(measured: float, relation: str, bound: float) -> str:
    """The one place where numbers become a verdict."""
    if not relation:
        return UNDECIDED
    if math.isnan(measured) or math.isnan(bound):
        return BROKEN
    return HOLDS if (measured <= bound if relation == "≤" else measured >= bound) else FAILS


def rounding(dtype: Any, terms: float = 1) -> float:
    """The relative error that sums of `terms` products may have gathered in a float type, for comparing with exact theory.

    8·√terms·eps: rounding errors of alternating sign grow like √terms (Higham & Mary 2019: at most λ√n·u with probability
    1 − 2exp(−λ²/2), so 8 leaves nothing to chance), not like the worst case terms·eps, in which no claim could fail.
    """
    import numpy as np  # only here: the words of this file are shown by commands that wait for no numbers

    dtype = np.dtype(dtype)
    eps = np.finfo(dtype if dtype.kind == "f" else np.float64).eps
    return float(8 * math.sqrt(max(terms, 1)) * eps)


# --- what is checked --------------------------------------------------------------------------------------------------


class Fit:
    """A fit as claims see it: the model's public attributes, its parameters, the data, and the trace if there is one.

    `fit.components_` is the model's attribute (or what an adapter gives for another library's), `fit.data` the rows as
    Blocks, `fit.weights` their weights or None, `fit.trace` and `fit.stopped` the run. A check that searches may spend
    `fit.work` (multiplications): what is left of the budget.
    """

    # who searches: a name to a function, or to None where nobody does. Set by core; the kernel knows no solver
    searches: ClassVar[Callable[[str], Callable[..., Any] | None]] = staticmethod(lambda name: None)

    def __init__(
        self, model, data=None, y=None, weights=None, trace=None, stopped=None, attributes=None
    ):
        self.model, self._data, self.y, self.weights = model, data, y, weights
        self.trace = trace  # a core.trace.Trace, or None
        self.stopped = stopped
        self.work = math.inf
        self._attributes: Mapping[str, Any] = attributes or {}
        self.facts: dict[Fact, tuple[Any, Exception | None]] = {}  # what was computed, or why not

    @property
    def data(self) -> Any:
        if self._data is None:
            raise NoData("run certify(X) for it")
        return self._data

    @property
    def has_data(self) -> bool:
        return self._data is not None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_attributes", "_data"):
            raise AttributeError(name)
        if name in self._attributes:
            return self._attributes[name]
        return getattr(self.model, name)

    def has(self, name: str) -> bool:
        return name in self._attributes or hasattr(self.model, name)

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute or parameter that some fits do not have."""
        if name in self._attributes:
            return self._attributes[name]
        return getattr(self.model, name, default)

    def witness(self, name: str, *arguments: Any) -> Any:
        """Return what a search outside of the trusted base found, to be checked and never believed; None if nothing."""
        search = type(self).searches(name)
        return None if search is None else search(self, *arguments)


@dataclass(frozen=True, eq=False)
class Fact:
    """Something that several claims need of a fit: computed once, whichever asks first, and priced until it is.

    @fact(cost=passes(2))
    def nearest(fit): …

    Calling it with a Fit gives its value. An exception is remembered too, and raised for everybody who asks.
    """

    compute: Callable[[Fit], Any]
    cost: Callable[[Fit], float]
    needs: tuple[Fact, ...] = ()

    def __call__(self, fit: Fit) -> Any:
        if self not in fit.facts:
            try:
                fit.facts[self] = self.compute(fit), None
            except Exception as error:
                fit.facts[self] = None, error
        value, failure = fit.facts[self]
        if failure is not None:
            raise failure
        return value


def fact(
    cost: Callable[[Fit], float], needs: tuple[Fact, ...] = ()
) -> Callable[[Callable[[Fit], Any]], Fact]:
    """Turn a function of a Fit into a Fact.

    cost : multiplications that it takes, without those of the facts that it needs
    """
    return lambda compute: Fact(compute, cost, needs)


def price_of(fit: Fit, cost: Callable[[Fit], float], needs: tuple[Fact, ...]) -> float:
    """Return what something costs on this fit, with every fact that it needs and that is not there yet, once."""
    missing: dict[Fact, None] = {}
    waiting = list(needs)
    while waiting:
        one = waiting.pop()
        if one not in fit.facts and one not in missing:
            missing[one] = None
            waiting += one.needs
    return cost(fit) + sum(one.cost(fit) for one in missing)


def free(fit: Fit) -> float:
    """The cost of a claim that looks at the attributes alone, or at counts that are there already."""
    return 0.0


def passes(times: float = 1.0) -> Callable[[Fit], float]:
    """The cost of a claim or a fact that reads the data so many times."""

    def cost(fit: Fit) -> float:
        return times * float(getattr(fit.data, "n_observed", None) or fit.data.size)

    return cost


@dataclass(frozen=True)
class Statement:
    """A claim not yet checked. Calling it with a Fit gives the Claim."""

    name: str
    sentence: str
    kind: str
    source: str
    check: Callable[[Fit], Evidence]
    about: str = "result"
    cost: Callable[[Fit], float] = free
    confidence: float = math.nan
    needs: tuple[Fact, ...] = ()
    shapes: Mapping[str, str] = field(default_factory=dict, compare=False)  # of `attributes_sound`

    def __call__(self, fit: Fit) -> Claim:
        if self.about == "run" and fit.trace is None:
            return self.claim(unknown(NO_TRACE))
        try:
            return self.claim(self.check(fit))
        except NoData as error:
            return self.put_off(str(error))
        except CannotTell as reason:
            return self.claim(unknown(str(reason)))
        except Exception as error:  # an exception in a check must not lose the fit
            why = f"the check failed with {type(error).__name__}: {error}"
            return self.claim(unknown(why), state=BROKEN)

    def put_off(self, why: str) -> Claim:
        """The claim as it stands before anybody paid for checking it."""
        return self.claim(unknown(why), state=NOT_CHECKED)

    def claim(self, found: Evidence, state: str = "") -> Claim:
        kind = found.kind or self.kind
        confidence = self.confidence if math.isnan(found.confidence) else found.confidence
        if kind != STATISTICAL:
            confidence = math.nan
        if not state and found.verdict == BROKEN:
            what = "what was measured" if math.isnan(found.measured) else "the bound"
            found = replace(found, note=found.note or f"{what} is not a number")
        return Claim(
            self.name,
            self.sentence,
            self.source,
            kind,
            confidence,
            state,
            found.measured,
            found.relation,
            found.bound,
            found.advice,
            found.unit,
            found.note,
            dict(found.witness),
        )

    def price(self, fit: Fit) -> float:
        """The cost of the check; 0 where it cannot be told, since the check will then stumble at once."""
        try:
            cost = float(price_of(fit, self.cost, self.needs))
        except NoData:
            return math.inf
        except Exception:
            return 0.0
        return max(0.0, cost)  # in this order, NaN is 0


def claim(
    sentence: str,
    source: str,
    *,
    kind: str,
    about: str = "result",
    cost: Callable[[Fit], float] = free,
    confidence: float = math.nan,
    needs: tuple[Fact, ...] = (),
) -> Callable[..., Statement]:
    """Turn a function of a Fit that returns `at_most(…)`, `at_least(…)` or `unknown(…)` into a claim.

    kind : PROVED, STATISTICAL (with its confidence) or RULE_OF_THUMB
    about : "result" (recomputed from data and public attributes) or "run" (reads the trace)
    needs : the facts that it asks for; each is paid for once, by the first claim that needs it
    cost : how many multiplications the check takes besides; what is expensive waits for `certify(X)`
    """
    if about not in ("result", "run"):
        raise ValueError(f"about={about!r}: a claim is about the 'result' or the 'run'.")
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r}: a claim is {', '.join(KINDS[:-1])} or a {KINDS[-1]}.")

    def decorate(function: Callable[[Fit], Evidence]) -> Statement:
        name = function.__name__
        return Statement(name, sentence, kind, source, function, about, cost, confidence, needs)

    return decorate


proved = partial(claim, kind=PROVED)
statistical = partial(claim, kind=STATISTICAL)
rule_of_thumb = partial(claim, kind=RULE_OF_THUMB)


# --- what was found ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """A claim that was checked, or why it was not."""

    version = 3

    name: str
    sentence: str
    source: str
    kind: str
    confidence: float  # of statistical claims
    state: str  # "": the numbers decide; or "broken", "not checked"
    measured: float
    relation: str
    bound: float
    advice: str
    unit: str
    note: str
    # what the verdict rests on, by name: a dual point, a direction, better weights. Not kept in files where it is large
    witness: dict[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self):
        texts = (self.name, self.sentence, self.source, self.advice, self.unit, self.note)
        words = self.kind in KINDS and self.state in ("", BROKEN, NOT_CHECKED)
        named = isinstance(self.witness, dict) and all(isinstance(key, str) for key in self.witness)
        if not all(isinstance(text, str) for text in texts) or not words or not named:
            raise ValueError("not a claim: its texts are of the wrong kind.")
        if self.relation not in ("≤", "≥", ""):
            raise ValueError(f"not a claim: {self.relation!r} compares nothing.")
        for name in ("measured", "bound", "confidence"):
            value = float(getattr(self, name))
            # one NaN for all, so that a claim equals itself read from a file
            object.__setattr__(self, name, math.nan if math.isnan(value) else value)
        if self.confidence < 0 or self.confidence > 1:
            raise ValueError(f"not a claim: a confidence of {self.confidence:g}.")

    def __reduce__(self):
        """A pickle is read by the constructor, like a file."""
        return Claim, tuple(getattr(self, field.name) for field in fields(self))

    @classmethod
    def upgrade(cls, fields: dict[str, Any], version: int) -> dict[str, Any]:
        """Version 2 had no witness; version 1 no kinds, and one word, with its reason in the note, for all undecided."""
        fields = {**fields, "witness": {}}
        if version > 1:
            return fields
        verdict, note = fields.pop("verdict", ""), str(fields.get("note", ""))
        state = ""
        if verdict == UNDECIDED:
            fields["relation"] = ""
            if note.startswith("run certify"):
                state = NOT_CHECKED
            elif note.startswith("the check itself failed") or note.endswith("is not a number"):
                state = BROKEN
        return {**fields, "kind": RULE_OF_THUMB, "confidence": math.nan, "state": state}

    @property
    def verdict(self) -> str:
        return self.state or _verdict(self.measured, self.relation, self.bound)

    @property
    def strength(self) -> str:
        """The kind as it is shown: a statistical one with its confidence."""
        if math.isnan(self.confidence):
            return self.kind
        return f"{self.kind} {100 * self.confidence:.6g} %"

    @property
    def numbers(self) -> str:
        """The comparison as people write it: |grad| 2.1e-07 ≤ 1e-05. A failed one shows the true relation."""
        if self.verdict not in (HOLDS, FAILS):
            return self.note
        true = self.relation if self.verdict == HOLDS else {"≤": ">", "≥": "<"}[self.relation]
        left, right = _apart(self.measured, self.bound)
        return f"{self.unit} {left} {true} {right}".strip()

    @property
    def remarks(self) -> list[str]:
        """Remarks besides the numbers: advice if the claim fails, its limits whatever the verdict."""
        advice = [f"→ {self.advice}"] if self.verdict == FAILS and self.advice else []
        return advice + ([f"({self.note})"] if self.note and self.note != self.numbers else [])


def _apart(a: float, b: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to tell them apart: 0.9996 < 0.9999 is news, 1 < 1 is a riddle."""
    digits = 3
    while _number(a, digits) == _number(b, digits) and a != b:
        digits += 1
    return _number(a, digits), _number(b, digits)


def _number(value: float, digits: int = 3) -> str:
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.{digits}g}"
