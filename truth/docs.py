"""docs/audit.md and what it is made of: every claim of the trusted base, beside how often it was wrong on planted problems.

    python -m truth.docs                     write the generated parts of docs/ again (./run py -m truth.docs)
    python -m truth.docs --run SUBJECT…      run these suites first, and store their counts in truth/measured.csv

The counts are stored: one line per claim, suite and kind of evidence, with the commit at which it was measured. Sentences,
kinds and sizes are read from the code.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, wraps
from importlib import import_module
from inspect import getmodule, ismodule
from multiprocessing import get_context
from pathlib import Path
from pkgutil import walk_packages

from lemmata import audit, registry
from lemmata.core.certificate import Certificate, Statement
from lemmata.core.certification.explaining import CERTIFIERS
from tools import house, tables
from truth.harness import Suite, Tally, count, suites

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "lemmata"
PAGE = ROOT / "docs" / "audit.md"
CORE = ROOT / "docs" / "core.md"
README = ROOT / "README.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
STORED = ROOT / "truth" / "measured.csv"


# --- every claim ------------------------------------------------------------------------------------------------------


@dataclass
class Listed:
    """A claim of the trusted base: its statement, the module that defines it, and whose certificates it stands in."""

    home: str  # the audit module
    statement: Statement
    models: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        one = self.statement
        return (
            one.kind if math.isnan(one.confidence) else f"{one.kind} {100 * one.confidence:.6g} %"
        )


def home_of(statement: Statement) -> str:
    """The audit module in which a claim is written."""
    return statement.check.__module__.removeprefix("lemmata.audit.")


@cache
def listed() -> tuple[Listed, ...]:
    """The claims of every tuple of claims in audit/, by module and in the order in which certificates show them."""
    found: dict[tuple[str, str, str], Listed] = {}
    for module in walk_packages(audit.__path__, "lemmata.audit."):
        for name, value in vars(import_module(module.name)).items():
            # adapters name a tuple by a text; properties of networks are looked up by name
            if not (name.isupper() and name.endswith("_CLAIMS")) or isinstance(value, str):
                continue
            for statement in value:
                key = home_of(statement), statement.name, statement.sentence
                one = found.setdefault(key, Listed(key[0], statement))
                one.models += [who for who in owners(value) if who not in one.models]
    return tuple(sorted(found.values(), key=lambda one: one.home))


def owners(claims: tuple[Statement, ...]) -> list[str]:
    """Whose certificates hold this tuple: the models in whose modules (or those of their bases) it is known by name.

    A model may leave a certificate to a module that it imports: what that one knows counts as well.
    """
    found = [name for name in registry.MODELS if id(claims) in _known_to(name)]
    found += [what for where, what in CERTIFIERS.items() if id(claims) in _known_in(_import(where))]
    return found


@cache
def _known_to(name: str) -> set[int]:
    """Everything that is known by name in the modules of a model, by its identity."""
    own = {getmodule(cls) for cls in registry.model_class(name).__mro__}
    imported = {one for module in own for one in _values(module) if ismodule(one)}
    ours = {one for one in imported if one.__name__.startswith("lemmata.")}
    return set().union(*(_known_in(module) for module in own | ours))


def _known_in(module) -> set[int]:
    return {id(value) for value in _values(module)}


def _values(module) -> list:
    return [] if module is None else list(vars(module).values())


def _import(name: str):
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None


# --- a stored run -----------------------------------------------------------------------------------------------------


@dataclass
class Measured:
    """What one suite found out about one claim, for one kind of evidence."""

    home: str
    claim: str
    suite: str
    kind: str
    confidence: float
    no: int
    false_holds: int
    yes: int
    false_fails: int
    easy: int
    undecided: int
    stumbled: int
    commit: str = (
        ""  # at which it was measured, + where files differed from it; "" before this was noted
    )

    def __post_init__(self):
        for one in fields(self):  # a file holds texts
            convert = {"int": int, "float": float, "str": str}[str(one.type)]
            setattr(self, one.name, convert(getattr(self, one.name)))


def measure(chosen: Iterable[Suite], jobs: int = 1) -> int:
    """Run suites, each with all of its seeds, several side by side; store each when it is done. How many raised.

    A suite that ends its process takes along what ran beside or waited: those run again, each in a process of its own.
    """
    chosen, raised, lost = list(chosen), 0, []
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(_measure_one, suite.name): suite for suite in chosen}
        for done in as_completed(waiting):
            name, error = waiting[done].name, done.exception()
            if isinstance(error, BrokenProcessPool) and len(chosen) > 1:
                lost.append(waiting[done])
            elif error is not None:
                raised += 1
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            else:  # read at the last moment: others may have stored theirs in the meantime
                write([*(row for row in read() if row.suite != name), *done.result()])
    return raised + sum(measure([suite]) for suite in lost)


@cache
def commit() -> str:
    """The commit of this tree, with + where files differ from it (but for the stored counts)."""
    ask = ("git", "-C", str(ROOT))
    head = subprocess.run([*ask, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True)
    other = [*ask, "status", "--porcelain", "--", "src", "truth/*.py"]
    changed = subprocess.run(other, capture_output=True, text=True).stdout
    return head.stdout.strip() + "+" * bool(changed)


def _measure_one(name: str) -> list[Measured]:
    begin, work, found = time.perf_counter(), time.process_time(), []
    (suite,) = (one for one in suites() if one.name == name)
    homes: dict[str, str] = {}
    for tally in count([_watched(suite, homes)]):
        claim = tally.claim.rpartition(".")[2]
        numbers = {
            one.name: getattr(tally, one.name)
            for one in fields(Measured)
            if one.name not in ("home", "claim", "suite", "commit")
        }
        row = Measured(home=homes[claim], claim=claim, suite=name, **numbers, commit=commit())
        found.append(row)
    seconds, work = time.perf_counter() - begin, time.process_time() - work
    print(f"{name}: {seconds:.0f} s, {work:.0f} of CPU", file=sys.stderr, flush=True)
    return found


def _watched(suite: Suite, homes: dict[str, str]) -> Suite:
    """The same suite, which also notes the module of each claim: names repeat (every loop has a `fixed_point`)."""

    @wraps(suite.make)
    def make(seed: int):
        for case in suite.make(seed):
            for name in case.truths:
                if name not in homes:
                    homes[name] = _home(case.certificate, name, suite.subject)
            yield case

    return replace(suite, make=make)


def _home(certificate: Certificate, name: str, subject: str) -> str:
    """The module of a claim in a certificate; where several have its words, the one whose models the title names."""
    same = [one for one in listed() if one.statement.name == name]
    worded = [one for one in same if one.statement.sentence == certificate[name].sentence]
    models = _models_named(set(certificate.title.split()))
    titled = [one for one in worded or same if models & set(one.models)]
    homes = [one.home for one in titled or worded or same] or [subject]
    # a certificate without a title: the module that is called like the subject
    return max(
        homes, key=lambda home: (home == subject, home.startswith(subject.removesuffix("s")))
    )


def _models_named(words: set[str]) -> set[str]:
    """Our models of which a title speaks, by their own names or by those of their counterparts."""
    return {
        name
        for name, entry in registry.MODELS.items()
        if words & {name, *(foreign.rpartition(".")[2] for foreign in entry.counterparts)}
    }


def read() -> list[Measured]:
    if not STORED.exists():
        return []
    with STORED.open(newline="") as file:
        return [Measured(**row) for row in csv.DictReader(file)]


def write(rows: Iterable[Measured]) -> None:
    ordered = sorted(rows, key=lambda row: (row.home, row.claim, row.suite, row.kind))
    with STORED.open("w", newline="") as file:
        table = csv.DictWriter(file, [one.name for one in fields(Measured)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in ordered)


# --- how much there is to read ----------------------------------------------------------------------------------------

KERNEL, CLAIMS, REST = "the kernel", "the claims", "what these import"


@cache
def trusted_files() -> dict[str, list[Path]]:
    """The files of ours that are loaded with audit/, by part. A fresh interpreter says which: this one has loaded more."""
    names = [module.name for module in walk_packages(audit.__path__, "lemmata.audit.")]
    code = (
        f"import sys\nfor name in {names!r}: __import__(name)\n"
        "print(*sorted(m.__file__ for n, m in sys.modules.items() if n.startswith('lemmata.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    parts: dict[str, list[Path]] = {KERNEL: [], CLAIMS: [], REST: []}
    for path in map(Path, done.stdout.split()):
        where = path.relative_to(SOURCE)
        if where.parts[0] == "audit":
            parts[KERNEL if where.parts[1] == "kernel" else CLAIMS].append(path)
        elif where.name != "__init__.py":
            parts[REST].append(path)
    return parts


def sizes() -> Iterator[tuple[str, int, int]]:
    """(part, lines, lines of code) of what one has to believe."""
    for part, paths in trusted_files().items():
        lines = sum(len(path.read_text().splitlines()) for path in paths)
        yield part, lines, house.count_lines(paths)


# --- the page ---------------------------------------------------------------------------------------------------------


def size_table() -> str:
    rows = []
    for part, lines, code in sizes():
        names = [str(path.relative_to(SOURCE)) for path in trusted_files()[part]]
        shown = {KERNEL: ["audit/kernel/"], CLAIMS: ["audit/"]}.get(part, names)
        rows.append(
            f"| {part} | {', '.join(f'`{name}`' for name in shown)} | {lines:,} | {code:,} |"
        )
    return "\n".join(["| part | files | lines | of code |", "|---|---|---|---|", *rows])


def reach_table() -> str:
    """What one reads to believe one claim, and what besides."""
    found = house.figures()
    rows = (
        ("one claim, median of all", "lines of a claim, median"),
        ("the proved claim that needs most", "lines of a proved claim, worst"),
        ("what every claim shares: claim, evidence, verdict, `Fit`", "lines shared by all claims"),
        ("reached besides, outside of audit: containers of data", "lines reached besides"),
        ("in files that these import, also inside of functions", "lines of files imported besides"),
    )
    shown = [f"| {what} | {found[name]:,.0f} |" for what, name in rows]
    return "\n".join(["| to believe | lines of code |", "|---|---|", *shown])


def claim_tables(measured: list[Measured]) -> str:
    """One table per module of audit/."""
    parts = []
    for home in dict.fromkeys(one.home for one in listed()):
        rows = [row for one in listed() if one.home == home for row in _rows(one, measured)]
        parts += [f"### {home}", "", f"{_first_line(home)}", "", HEADER, RULE, *rows, ""]
    return "\n".join(parts).rstrip()


HEADER = (
    "| claim | what it says | kind | source | to read | in the certificates of "
    "| truth is no: false holds | truth is yes: false fails | easy: can't tell |"
)
RULE = "|" + "---|" * 9
MANY = 9  # models whose names would fill the table


def _first_line(home: str) -> str:
    """What the module says of itself, in one sentence."""
    said = (import_module(f"lemmata.audit.{home}").__doc__ or "").strip()
    return " ".join(said.split("\n\n")[0].split())


def _rows(one: Listed, measured: list[Measured]) -> Iterator[str]:
    """A row per kind of evidence that was met; the first one says what the claim is."""
    statement = one.statement
    mine = [row for row in measured if (row.home, row.claim) == (one.home, statement.name)]
    names = ", ".join(f"`{name}`" for name in one.models)
    who = names if len(one.models) <= MANY else f"{len(one.models)} models"
    about = " *(run)*" if statement.about == "run" else ""
    read = house.reach(statement)
    size = f"{read.lines} lines in {read.files} file{'s' if read.files > 1 else ''}"
    name = f"`{statement.name}`{about}"
    cells = [name, statement.sentence, one.kind, statement.source, size, who]
    kinds = sorted({row.kind for row in mine}, key=lambda kind: (kind != statement.kind, kind))
    for kind in kinds or [""]:
        same = [row for row in mine if row.kind == kind]
        if kind and kind != statement.kind:
            cells[2] = _strength(same)
        yield "| " + " | ".join([*map(_cell, cells), *_counts(same)]) + " |"
        cells = [""] * len(cells)


def _strength(rows: list[Measured]) -> str:
    known = [row.confidence for row in rows if not math.isnan(row.confidence)]
    return f"{rows[0].kind} {100 * min(known):.6g} %" if known else rows[0].kind


def _counts(rows: list[Measured]) -> list[str]:
    if not rows:
        return ["not yet", "not yet", ""]
    no, yes, easy = (sum(getattr(row, name) for row in rows) for name in ("no", "yes", "easy"))
    holds, fails = sum(row.false_holds for row in rows), sum(row.false_fails for row in rows)
    undecided = sum(row.undecided for row in rows)
    return [
        f"{holds} of {no:,}{_where(rows, 'no')}",
        f"{fails} of {yes:,}{_where(rows, 'yes')}",
        f"{undecided} of {easy:,}" if easy else "",
    ]


def _where(rows: list[Measured], truth: str) -> str:
    """The suites with the most such cases."""
    seen = sorted(
        (row for row in rows if getattr(row, truth)), key=lambda row: -getattr(row, truth)
    )
    names = list(dict.fromkeys(row.suite for row in seen))
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f" ({', '.join(names[:2])}{more})" if names else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def summary(measured: list[Measured]) -> str:
    """How often claims of each kind were wrong, over all suites."""
    rows = [
        "| kind | truth is no | false holds | truth is yes | false fails |",
        "|---|---|---|---|---|",
    ]
    for kind in ("proved", "statistical", "rule of thumb"):
        same = [row for row in measured if row.kind == kind]
        no, holds, yes, fails = (
            sum(getattr(row, name) for row in same)
            for name in ("no", "false_holds", "yes", "false_fails")
        )
        rows.append(f"| {kind} | {no:,} | {holds:,} | {yes:,} | {fails:,} |")
    return "\n".join(rows)


def count_proofs(measured: list[Measured]) -> str:
    """README's sentence about claims that are proved."""
    same = [row for row in measured if row.kind == "proved"]
    cases, wrong = (
        sum(row.no + row.yes for row in same),
        sum(row.false_holds + row.false_fails for row in same),
    )
    return f"{cases:,} planted verdicts of proofs: {wrong} wrong"


def sections() -> dict[str, str]:
    """The generated parts of the page by their names."""
    measured = read()
    return {
        "sizes": size_table(),
        "reach": reach_table(),
        "summary": summary(measured),
        "claims": claim_tables(measured),
    }


def fill(page: str, parts: dict[str, str]) -> str:
    """The page with its generated parts replaced: what stands between `<!-- name -->` and `<!-- /name -->`."""
    for name, text in parts.items():
        pattern = rf"(<!-- {name}\b[^\n]*-->\n).*?(<!-- /{name} -->)"
        page, done = re.subn(pattern, lambda m, t=text: f"{m[1]}{t}\n{m[2]}", page, flags=re.S)
        if done != 1:
            raise ValueError(f"the page has {done} places for {name!r}.")
    return page


def untested() -> list[str]:
    """Claims that no suite has seen both true and false."""
    seen: dict[tuple[str, str], list[int]] = {}
    for row in read():
        both = seen.setdefault((row.home, row.claim), [0, 0])
        both[0], both[1] = both[0] + row.yes, both[1] + row.no
    return [
        f"{one.home}.{one.statement.name}"
        for one in listed()
        if not all(seen.get((one.home, one.statement.name), [0, 0]))
    ]


def complaints(measured: list[Measured]) -> list[str]:
    """Where the stored counts exceed the limits of the harness."""
    tallies: dict[tuple[str, str], Tally] = {}
    for row in measured:
        name = f"{row.home}.{row.claim}"
        tally = tallies.setdefault((name, row.kind), Tally(name, row.kind, row.confidence))
        tally.confidence = min(tally.confidence, row.confidence)
        for what in ("no", "false_holds", "yes", "false_fails", "easy", "undecided", "stumbled"):
            setattr(tally, what, getattr(tally, what) + getattr(row, what))
    return [f"{one.claim}: {text}" for one in tallies.values() for text in one.complaints]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m truth.docs", description=__doc__)
    parser.add_argument(
        "--run", nargs="*", metavar="SUBJECT", help="run suites first; all without names"
    )
    parser.add_argument("--jobs", type=int, default=1, help="suites side by side")
    asked = parser.parse_args()
    raised = 0
    if asked.run is not None:
        chosen = [
            one for one in suites() if not asked.run or {one.subject, one.name} & set(asked.run)
        ]
        raised = measure(chosen, asked.jobs)
        exist = {one.name for one in suites()}
        write(row for row in read() if row.suite in exist)
    PAGE.write_text(fill(PAGE.read_text(), sections()))
    ARCHITECTURE.write_text(fill(ARCHITECTURE.read_text(), {"house": house.packages()}))
    CORE.write_text(fill(CORE.read_text(), {"tol": tables.tolerances()}))
    stated = r"[\d,]+ planted verdicts of proofs: \d+ wrong"
    README.write_text(re.sub(stated, count_proofs(read()), README.read_text()))
    commits = sorted({row.commit or "unknown" for row in read()})
    print(f"measured at {len(commits)} commits: {', '.join(commits)}")
    for text in [*complaints(read()), *(f"{name}: no yes and no" for name in untested())]:
        print(text)
    return 1 if raised else 0


if __name__ == "__main__":
    sys.exit(main())
