"""The house in figures: the trusted base and the lines that each claim reaches, names, folders, files, journeys.

    python -m tools.house              the figures, with those of tools.names and tools.journeys
    python -m tools.house --claims     and one line per claim
    house.reach(statement).lines       of one claim, or of its name ("robust.near_optimum"); house.figures() for all

Lines are lines of code as `ruff format` leaves them, without docstrings, comments and blank lines. The reach of a claim is
static: names are followed through globals, imports (those inside functions too) and attributes of modules; a class counts
whole, a constant by its statement, imports count nothing, and what is fetched by a text (`getattr`, a witness) is not followed.
What every claim shares, the modules that define SHARED, is counted once and not per claim.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from statistics import median
from types import ModuleType

from lemmata import audit
from lemmata.core.certificate import PROVED, Statement
from tools import names

AUDIT = Path(audit.__path__[0])
SOURCE = AUDIT.parent  # src/lemmata
# from the bottom to the top; folders that are named nowhere here come last
FLOORS = ("core", "audit", "linalg", "optim", "reduction", "completion", "clustering", "mixtures", "text", "topics",
          "embedding", "predict", "nets", "language", "selfsup", "generate", "trust", "data", "atlas", "cli")  # fmt: skip
PACKAGES = sorted(
    (path.parent.name for path in SOURCE.glob("*/__init__.py")),
    key=lambda name: (FLOORS.index(name) if name in FLOORS else len(FLOORS), name),
)
FACADE = "lemmata.core.certificate"  # where claims import from
SHARED = ("claim", "Statement", "Claim", "Evidence", "Fit", "at_most", "at_least", "unknown")

Place = tuple["Source", str]  # a name, and the file that defines it
Found = dict[Path, set[int]]  # files and numbers of their lines


# --- lines ------------------------------------------------------------------------------------------------------------


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def code_lines(path: Path) -> frozenset[int]:
    """The numbers of the lines with code on them."""
    quiet = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type not in quiet and token.type != tokenize.ENDMARKER:
            found.update(range(token.start[0], token.end[0] + 1))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(parse(path)):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            found.difference_update(_span(node.body[0]))
    return frozenset(found)


def _span(node: ast.stmt | ast.expr) -> range:
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
    return range(first, (node.end_lineno or first) + 1)


def count_lines(paths: Iterable[Path]) -> int:
    return sum(len(code_lines(path)) for path in paths)


# --- names ------------------------------------------------------------------------------------------------------------


class Source:
    """A module of ours as a text: its statements by the names they bind, and its imports."""

    def __init__(self, name: str, path: Path):
        self.name, self.path, self.tree = name, path, parse(path)
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, tuple[str, str]] = {}  # bound name: module, name in it or ""
        for node in _flat(self.tree.body):
            self.imports |= _imported(node)
            for bound in _bound(node):
                self.definitions.setdefault(bound, []).append(node)

    def find(self, name: str) -> Source | Place | None:
        """The definition of a global name, here or where it is imported from."""
        if name in self.definitions:
            return self, name
        return follow(*self.imports[name]) if name in self.imports else None

    @cached_property
    def neighbours(self) -> set[Source]:
        """The modules of ours that this one imports, inside functions too."""
        pairs = [pair for node in ast.walk(self.tree) for pair in _imported(node).values()]
        found = [source(f"{module}.{name}") or source(module) for module, name in pairs]
        return {one for one in found if one is not None}


def _flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those under `if` and `try` among them."""
    for node in body:
        if isinstance(node, (ast.If, ast.Try)):
            handlers = [one for handler in getattr(node, "handlers", ()) for one in handler.body]
            yield from _flat([*node.body, *handlers, *node.orelse])
        else:
            yield node


def _imported(node: ast.AST) -> dict[str, tuple[str, str]]:
    if isinstance(node, ast.ImportFrom):
        return {one.asname or one.name: (node.module or "", one.name) for one in node.names}
    names = node.names if isinstance(node, ast.Import) else ()
    plain = {first: (first, "") for one in names if (first := one.name.split(".")[0])}
    return {one.asname: (one.name, "") for one in names if one.asname} or plain


def _bound(node: ast.AST) -> set[str]:
    """The names that a statement binds, without those inside of functions and classes."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Store) else set()
    inner = () if isinstance(node, ast.Lambda) else ast.iter_child_nodes(node)
    return set().union(*map(_bound, inner))


@cache
def source(name: str) -> Source | None:
    """A module of ours by its name; None for what is no module or not ours."""
    first, *rest = name.split(".")
    path = SOURCE.joinpath(*rest)
    for file in (path / "__init__.py", path.with_suffix(".py")):
        if first == "lemmata" and file.is_file():
            return Source(name, file)
    return None


def follow(module: str, name: str) -> Source | Place | None:
    """What `from module import name` means; the module itself where there is no name."""
    outer, inner = source(module), source(f"{module}.{name}") if name else None
    return outer.find(name) if outer and name and not inner else inner or outer


def named(node: ast.AST, home: Source) -> set[Place]:
    """The definitions of ours that a piece of code names. Locals hide globals, in each method of a class apart."""
    if isinstance(node, ast.ClassDef):
        return set().union(*(named(one, home) for one in ast.iter_child_nodes(node)))
    local: dict[str, Source | Place | None] = {}
    inside = list(ast.walk(node))
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        local = dict.fromkeys(set().union(*map(_bound, node.body)))
        local |= {one.arg: None for one in inside if isinstance(one, ast.arg)}
        for one in inside:
            local |= {name: follow(*where) for name, where in _imported(one).items()}

    def target(node: ast.AST) -> Source | Place | None:
        if isinstance(node, ast.Name):
            return local[node.id] if node.id in local else home.find(node.id)
        if isinstance(node, ast.Attribute) and isinstance(base := target(node.value), Source):
            return follow(base.name, node.attr)
        return None

    return {place for one in inside if isinstance(place := target(one), tuple)}


@cache
def references(place: Place) -> frozenset[Place]:
    home, name = place
    return frozenset(set().union(*(named(node, home) for node in home.definitions[name])))


def closure(places: Iterable[Place], but: frozenset[Source] = frozenset()) -> Found:
    """The lines of all definitions that can be reached from these, but for those in some modules."""
    seen: set[Place] = set()
    lines: Found = {}
    waiting = list(places)
    while waiting:
        home, name = place = waiting.pop()
        if place not in seen and home not in but:
            seen.add(place)
            waiting += references(place)
            for node in home.definitions[name]:
                lines.setdefault(home.path, set()).update(code_lines(home.path) & {*_span(node)})
    return lines


# --- claims -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reach:
    """The lines that a claim rests on, without what all claims share."""

    everywhere: Found

    @property
    def audit(self) -> Found:
        return {path: at for path, at in self.everywhere.items() if path.is_relative_to(AUDIT)}

    @property
    def lines(self) -> int:
        return sum(map(len, self.audit.values()))

    @property
    def files(self) -> int:
        return len(self.audit)


@cache
def shared() -> frozenset[Source]:
    """The modules that say what a claim, evidence, a verdict and a Fit are."""
    return frozenset(
        place[0] for name in SHARED if isinstance(place := follow(FACADE, name), tuple)
    )


@cache
def _modules() -> tuple[ModuleType, ...]:
    names = [one.name for one in walk_packages(audit.__path__, "lemmata.audit.")]
    return (audit, *map(import_module, names))


@cache
def _calls() -> dict[int, tuple[Source, ast.stmt | ast.expr, str]]:
    """Where factories are called: {id of the claim: module, the statement or the element of a tuple, its name}."""
    found: dict[int, tuple[Source, ast.stmt | ast.expr, str]] = {}
    for module in _modules():
        home = source(module.__name__)
        assert home is not None
        for name, nodes in home.definitions.items():
            made, written = vars(module).get(name), getattr(nodes[-1], "value", None)
            if isinstance(made, Statement) and isinstance(written, ast.Call):
                found[id(made)] = home, nodes[-1], name
            elif isinstance(made, tuple) and isinstance(written, ast.Tuple):
                for one, element in zip(made, _elements(written, module), strict=True):
                    if isinstance(element, ast.Call):
                        found.setdefault(id(one), (home, element, name))
    return found


def _elements(written: ast.Tuple, module: ModuleType) -> Iterator[ast.expr]:
    """The expression of each element of a tuple, a starred one as often as it has elements."""
    for one in written.elts:
        times = 1
        if isinstance(one, ast.Starred):
            times = len(eval(compile(ast.Expression(one.value), "", "eval"), vars(module)))
        yield from [one] * times


@cache
def claims() -> dict[str, Statement]:
    """Every claim that stands in a module of audit/, by itself or in a tuple, each once: {module.name: claim}."""
    found: dict[str, Statement] = {}
    seen: set[int] = set()
    for module in _modules():
        for bound, value in vars(module).items():
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, Statement) and id(one) not in seen:
                    seen.add(id(one))
                    made = module.__name__ if is_made(one) else one.check.__module__
                    call = _calls().get(id(one))
                    home, at = (call[0].name, call[2]) if call else (made, bound)
                    name = f"{home.removeprefix('lemmata.audit.')}.{one.name}"
                    found[f"{name} of {at}" if name in found else name] = one
    return found


def is_made(claim: Statement) -> bool:
    """Whether a factory made the claim."""
    return id(claim) in _calls() or "." in claim.check.__qualname__


def reach(claim: Statement | str) -> Reach:
    """What one has to read to believe a claim, given what all claims share."""
    claim = claims()[claim] if isinstance(claim, str) else claim
    given = [cell.cell_contents for cell in claim.check.__closure__ or ()]  # to a factory
    places = set()
    for one in (claim.check, *given):
        home = source(getattr(one, "__module__", None) or "")
        name = getattr(one, "__qualname__", "").split(".")[0]
        if home is not None and name in home.definitions:
            places.add((home, name))
    call = _calls().get(id(claim))
    if call:
        places |= named(call[1], call[0])
    found = closure(places, but=shared())
    if call:
        path = call[0].path
        found.setdefault(path, set()).update(code_lines(path) & {*_span(call[1])})
    return Reach(found)


# --- the figures ------------------------------------------------------------------------------------------------------


def entries() -> list[str]:
    """What stands in the top folder of audit/."""
    return sorted({one.name for one in AUDIT.iterdir()} - {"__init__.py", "__pycache__"})


def besides() -> tuple[Found, list[Path]]:
    """Outside audit/ and what is shared: lines that claims or what is shared reach, and files that are imported."""
    seen: set[Source] = set()
    waiting = [*shared(), *(one for module in _modules() if (one := source(module.__name__)))]
    own = list(waiting)
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += one.neighbours
    files = {one.path for one in seen - {*own} if one.path.name != "__init__.py"}
    lines = closure((home, name) for home in own for name in home.definitions)
    return {path: at for path, at in lines.items() if path in files}, sorted(files)


@cache
def reaches() -> dict[str, Reach]:
    """What each claim reaches, those that reach most first."""
    found = {name: reach(one) for name, one in claims().items()}
    return dict(sorted(found.items(), key=lambda pair: -pair[1].lines))


def figures() -> dict[str, float]:
    """The figures by name."""
    found = reaches()
    plain = [found[name].lines for name, one in claims().items() if not is_made(one)]
    proved = [found[name].lines for name, one in claims().items() if one.kind == PROVED]
    lines, files = besides()
    return {
        "entries of audit": len(entries()),
        "lines of audit": count_lines(AUDIT.rglob("*.py")),
        "lines of its kernel": count_lines((AUDIT / "kernel").rglob("*.py")),
        "claims": len(found),
        "lines of a claim, median": median(one.lines for one in found.values()),
        "files of a claim, median": median(one.files for one in found.values()),
        "lines, median without factories": median(plain),
        "lines of a proved claim, worst": max(proved),
        "lines shared by all claims": count_lines(home.path for home in shared()),
        "lines reached besides": sum(map(len, lines.values())),
        "files reached besides": len(lines),
        "lines of files imported besides": count_lines(files),
        "files imported besides": len(files),
    }


def packages() -> str:
    """The packages below src/lemmata with the first sentence of their docstrings, for docs/architecture.md."""
    rows = []
    for name in PACKAGES:
        text = ast.get_docstring(ast.parse((AUDIT.parent / name / "__init__.py").read_text())) or ""
        rows.append(f"    {name + '/':14}{' '.join(text.split(chr(10) * 2)[0].split())}")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.house", description=__doc__)
    parser.add_argument("--claims", action="store_true", help="one line per claim as well")
    asked = parser.parse_args()
    for name, one in reaches().items() if asked.claims else ():
        print(f"{one.lines:6,} lines in {one.files:2} files  {claims()[name].kind:13}  {name}")
    for name, value in figures().items():
        print(f"{name:34}{value:10,.6g}")
    proved = [f"{n} {r.lines:,}" for n, r in reaches().items() if claims()[n].kind == PROVED]
    print("worst proved:", ", ".join(proved[:5]))
    print("shared:", ", ".join(sorted(home.name for home in shared())))
    print("\nnames, folders, files")
    names.print_figures()
    print("\nfiles that a journey enters", flush=True)
    subprocess.run([sys.executable, "-m", "tools.journeys"], check=True)


if __name__ == "__main__":
    main()
