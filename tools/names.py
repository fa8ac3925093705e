"""Housekeeping of src/lemmata in figures: names, docstrings, folders, files, parameters, levels.

    python -m tools.names              the figures
    python -m tools.names --list       and the places behind them, to work on
    python -m tools.names --in nets    of one package only

Static but for the levels, which import every model. tests/test_house.py holds what must stay true.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import lemmata
from lemmata import registry

SOURCE = Path(lemmata.__path__[0])
ENTRIES, LINES, PARAMETERS = 14, 450, 12  # at most: of a folder, of a file, of a function

# Participles that do not end in -ed. Words that are verbs as well (cut, read, split, spread, run, set, put, fit) are left out.
IRREGULAR = re.compile(
    "begun|shown|taken|told|given|known|found|kept|met|sent|made|drawn|built|held|seen|written|grown|chosen|driven|bound"
    "|fitted|left|lost|meant|spent|swept|learnt|hidden|risen|thrown|frozen|broken|spoken|forgotten|fallen"
)
VERBS = re.compile("seed|need|feed|speed|embed|proceed|exceed")  # and nouns that end in -ed
PROTOCOL = frozenset(("finished", "restored"))  # methods of every algorithm and of stored states
OPENINGS = frozenset(("What", "How", "Of"))


def files(package: str = "") -> list[Path]:
    return sorted((SOURCE / package).rglob("*.py"))


@dataclass(frozen=True)
class Definition:
    """A class, a function or a module, as the counts below need it."""

    name: str  # "" of a module
    line: int
    kind: type
    opening: str  # the first words of its docstring
    parameters: int = 0
    is_property: bool = False


@cache
def scan(path: Path) -> tuple[list[Definition], list[str]]:
    """The definitions in a file, and its uses of `__dict__` and `vars(self)`: each file is parsed once."""
    found, carried = [], []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append(_describe(node))
        elif (isinstance(node, ast.Attribute) and node.attr == "__dict__") or (
            isinstance(node, ast.Call) and ast.unparse(node.func) == "vars" and _is_self(node.args)
        ):
            carried.append(f"{place(path, node.lineno)} {ast.unparse(node)}")
    return found, carried


def _describe(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
) -> Definition:
    name, line = getattr(node, "name", ""), getattr(node, "lineno", 1)
    opening = " ".join((ast.get_docstring(node) or "").split()[:9])
    if isinstance(node, (ast.Module, ast.ClassDef)):
        return Definition(name, line, type(node), opening)
    count = len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
    decorators = map(ast.unparse, node.decorator_list)
    is_property = any("property" in one for one in decorators)
    return Definition(name, line, ast.FunctionDef, opening, count, is_property)


def _is_self(arguments: list[ast.expr]) -> bool:
    return [ast.unparse(one) for one in arguments] == ["self"]


def functions(package: str) -> Iterator[tuple[Path, Definition]]:
    for path in files(package):
        yield from ((path, one) for one in scan(path)[0] if one.kind is ast.FunctionDef)


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(SOURCE)}:{line}"


def is_participle(name: str) -> bool:
    word = name.strip("_")
    regular = word.endswith("ed") and not VERBS.fullmatch(word)
    return "_" not in word and word not in PROTOCOL and (regular or bool(IRREGULAR.fullmatch(word)))


def repeated_classes(package: str = "") -> list[str]:
    """Names that several files give to a class, with their places."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in files():
        for one in scan(path)[0]:
            if one.kind is ast.ClassDef:
                found[one.name].append(place(path, one.line))
    several = {name: at for name, at in found.items() if len({one.split(":")[0] for one in at}) > 1}
    return [
        f"{name}: {', '.join(at)}"
        for name, at in several.items()
        if any(one.startswith(package) for one in at)
    ]


def participles(package: str = "") -> list[str]:
    """Functions named by a bare participle, but for properties."""
    return [
        f"{place(path, one.line)} {one.name}"
        for path, one in functions(package)
        if is_participle(one.name) and not one.is_property
    ]


def clumsy_docstrings(package: str = "") -> list[str]:
    """Docstrings that begin with a noun clause instead of a verb or a noun."""
    return [
        f"{place(path, one.line)} {one.opening}"
        for path in files(package)
        for one in scan(path)[0]
        if one.opening and one.opening.split()[0].strip(",.:") in OPENINGS
    ]


def crowded_folders(package: str = "") -> list[str]:
    """Folders below src/lemmata with too many entries."""
    folders = [one for one in (SOURCE / package).rglob("*") if one.is_dir()] + [SOURCE / package]
    sizes = {
        one: len({at.name for at in one.iterdir()} - {"__init__.py", "__pycache__"})
        for one in folders
        if one != SOURCE and one.name != "__pycache__"
    }
    return [f"{one.relative_to(SOURCE)} {n}" for one, n in sizes.items() if n > ENTRIES]


def long_files(package: str = "") -> list[str]:
    sizes = {path: len(path.read_text().splitlines()) for path in files(package)}
    return [f"{path.relative_to(SOURCE)} {n}" for path, n in sizes.items() if n > LINES]


def wide_functions(package: str = "") -> list[str]:
    """Functions with too many parameters, but for constructors, kernels and commands."""
    return [
        f"{place(path, one.line)} {one.name} {one.parameters}"
        for path, one in functions(package)
        if "_kernels" not in path.name and "_twins" not in path.name and "cli" not in path.parts
        if one.name != "__init__" and one.parameters > PARAMETERS
    ]


def carried_attributes(package: str = "") -> list[str]:
    """Uses of `__dict__` and `vars(self)`, which carry an argument from one method to the next."""
    return [use for path in files(package) for use in scan(path)[1]]


def deep_models(most: int = 3) -> list[str]:
    """Models with more classes of ours between them and scikit-learn's base, mixins not counted apart."""
    found = []
    for name in registry.MODELS:
        cls, between = registry.model_class(name), 0
        while cls.__module__.startswith("lemmata."):
            cls = next(one for one in cls.__mro__[1:] if hasattr(one, "get_params"))
            between += cls.__module__.startswith("lemmata.")
        if between > most:
            found.append(f"{name} {between}")
    return found


def fmt_skips() -> int:
    return sum(path.read_text().count("# fmt: skip") for path in files())


TABLE = {
    "class names with two meanings": repeated_classes,
    "participles as functions": participles,
    "docstrings that begin with What, How, Of": clumsy_docstrings,
    f"folders with more than {ENTRIES} entries": crowded_folders,
    f"files over {LINES} lines": long_files,
    f"functions with more than {PARAMETERS} parameters": wide_functions,
    "uses of __dict__ and vars(self)": carried_attributes,
}


def print_figures(package: str = "", places: bool = False) -> None:
    for title, count_places in TABLE.items():
        found = count_places(package)
        print(f"{title:44}{len(found):8,}")
        if places:
            print(*(f"    {line}" for line in found), sep="\n")
    if not package:
        print(f"{'models more than 3 levels deep':44}{len(deep := deep_models()):8,}", *deep[:9])
    lines = sum(len(path.read_text().splitlines()) for path in files(package))
    print(f"{'lines':44}{lines:8,}\n{'# fmt: skip':44}{fmt_skips():8,}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.names", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the places as well")
    parser.add_argument("--in", dest="package", default="", help="a folder below src/lemmata")
    asked = parser.parse_args()
    print_figures(asked.package, asked.list)


if __name__ == "__main__":
    main()
