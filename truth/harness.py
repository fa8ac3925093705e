"""Planted problems, the truth of each by construction or brute force, and the count of wrong verdicts.

    @problems(seeds=40, quick=2)
    def rotated_axes(seed):
        X, model = …                                          # scikit-learn's PCA, its axes turned by 45°
        yield Case("turned 45°", lemmata.certify(model, X), {"principal_axes": False, "orthonormal_basis": True})

A case says of some claims whether what users read in them is true. `easy` names claims that have no excuse there: can't tell is
counted against them. The module is the subject: the claim above is `subspaces.principal_axes` in the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from scipy.stats import binom

from lemmata.core.certificate import (
    BROKEN,
    FAILS,
    HOLDS,
    NOT_CHECKED,
    PROVED,
    RULE_OF_THUMB,
    STATISTICAL,
    Certificate,
)

UNLIKELY = 1e-3  # a count of errors this improbable at the stated confidence contradicts it
AIM = 0.01  # of the cases: what rules of thumb should stay below
UNDECIDED_ON_EASY = 0.1  # of the easy cases

_SUITES: list[Suite] = []
_quick: list[bool] = []  # whether the problems being made are those of `./run test`


def size(full: int, quick: int) -> int:
    """Return a size of a problem: the first in `./run truth`, the second in `./run test`."""
    return quick if _quick else full


@dataclass(frozen=True)
class Case:
    """A fit whose truth is known: the certificate it got, and which claims are true of it."""

    label: str
    certificate: Certificate
    truths: Mapping[str, bool]
    easy: Collection[str] = ()  # claims that should be decided here


@dataclass(frozen=True)
class Suite:
    """A family of problems: one call per seed gives its cases."""

    make: Callable[[int], Iterator[Case]]
    seeds: int  # in `./run truth`
    quick: int  # in `./run test`

    @property
    def subject(self) -> str:
        return self.make.__module__.rpartition(".")[2]

    @property
    def name(self) -> str:
        return f"{self.subject}.{self.make.__name__}"


def problems(seeds: int, quick: int = 1) -> Callable[[Callable[[int], Iterator[Case]]], Suite]:
    """Register a generator of cases."""

    def decorate(make: Callable[[int], Iterator[Case]]) -> Suite:
        suite = Suite(make, seeds, quick)
        _SUITES.append(suite)
        return suite

    return decorate


def suites() -> list[Suite]:
    """All families of problems, by subject."""
    from importlib import import_module
    from pkgutil import iter_modules

    import truth

    for module in iter_modules(truth.__path__):
        if module.name not in ("harness", "__main__"):
            import_module(f"truth.{module.name}")
    return sorted(_SUITES, key=lambda suite: suite.subject)


@dataclass
class Tally:
    """Verdicts on one claim, of one kind, counted against the truth."""

    claim: str
    kind: str
    confidence: float = math.nan
    no: int = 0
    false_holds: int = 0
    yes: int = 0
    false_fails: int = 0
    easy: int = 0
    undecided: int = 0  # of the easy ones
    stumbled: int = 0  # broken, or not checked
    wrong: list[str] = field(default_factory=list)  # which cases

    def add(self, label: str, verdict: str, truth: bool, easy: bool) -> None:
        self.yes, self.no = self.yes + truth, self.no + (not truth)
        wrong = (verdict == HOLDS and not truth) or (verdict == FAILS and truth)
        self.false_holds += wrong and not truth
        self.false_fails += wrong and truth
        self.easy += easy
        lost = easy and verdict not in (HOLDS, FAILS)
        self.undecided += lost
        stumbled = verdict in (BROKEN, NOT_CHECKED)
        self.stumbled += stumbled
        if wrong or lost or stumbled:
            self.wrong.append(f"{label}: {verdict}, but the truth is {'yes' if truth else 'no'}")

    @property
    def complaints(self) -> list[str]:
        """Which limits are exceeded."""
        found = [f"{self.stumbled} broken or not checked"] if self.stumbled else []
        if self.kind == STATISTICAL and math.isnan(self.confidence):
            found.append("statistical, but at no stated confidence")
        if self.undecided > UNDECIDED_ON_EASY * self.easy:
            found.append(f"can't tell in {self.undecided} of {self.easy} easy cases")
        for what, errors, cases in (
            ("false holds", self.false_holds, self.no),
            ("false fails", self.false_fails, self.yes),
        ):
            if self.kind == PROVED and errors:
                found.append(f"{errors} {what} of a proof")
            if self.kind == STATISTICAL and errors and not math.isnan(self.confidence):
                chance = float(binom.sf(errors - 1, cases, 1 - self.confidence))
                if not chance >= UNLIKELY:
                    found.append(f"{errors} {what} in {cases} at confidence {self.confidence:.6g}")
        return found

    @property
    def remark(self) -> str:
        if self.kind != RULE_OF_THUMB:
            return ""
        rates = [self.false_holds / max(self.no, 1), self.false_fails / max(self.yes, 1)]
        return "above 1 %" if max(rates) > AIM else ""


def count(
    chosen: list[Suite], quick: bool = False, seeds: int | None = None, progress=None
) -> list[Tally]:
    """Run suites and count, one row per claim and kind of evidence."""
    tallies: dict[tuple[str, str], Tally] = {}
    _quick[:] = [True] if quick else []
    for suite in chosen:
        if progress is not None:
            progress(suite.name)
        for seed in range(seeds or (suite.quick if quick else suite.seeds)):
            for case in suite.make(seed):
                for name, truth in case.truths.items():
                    found = case.certificate[name]
                    key = f"{suite.subject}.{name}", found.kind
                    tally = tallies.setdefault(key, Tally(*key))
                    if not math.isnan(found.confidence):  # the least of those stated
                        known = tally.confidence
                        tally.confidence = (
                            found.confidence if math.isnan(known) else min(known, found.confidence)
                        )
                    label = f"{suite.make.__name__}, seed {seed}, {case.label}"
                    tally.add(label, found.verdict, bool(truth), name in case.easy)
    return [tallies[key] for key in sorted(tallies)]


HEADER = (
    "claim", "kind", "truth is no", "false holds", "truth is yes", "false fails", "easy", "can't tell", "",
)  # fmt: skip


def rows(tallies: list[Tally]) -> list[tuple[str, ...]]:
    """The table as texts."""
    found = []
    for one in tallies:
        kind = one.kind
        if not math.isnan(one.confidence):
            kind += f" {100 * one.confidence:.6g} %"
        numbers = (one.no, one.false_holds, one.yes, one.false_fails, one.easy, one.undecided)
        last = "; ".join(one.complaints) or one.remark
        found.append((one.claim, kind, *map(str, numbers), last))
    return found
