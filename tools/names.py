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


def definitions(path: Path) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    yield from (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds))


def place(path: Path, node: ast.AST | None = None) -> str:
    return f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 1)}"


def is_participle(name: str) -> bool:
    word = name.strip("_")
    regular = word.endswith("ed") and not VERBS.fullmatch(word)
    return "_" not in word and word not in PROTOCOL and (regular or bool(IRREGULAR.fullmatch(word)))


def repeated_classes(package: str = "") -> list[str]:
    """Names that several files give to a class, with their places."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in files():
        for node in definitions(path):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(place(path, node))
    several = {name: at for name, at in found.items() if len({one.split(":")[0] for one in at}) > 1}
    return [
        f"{name}: {', '.join(at)}"
        for name, at in several.items()
        if any(one.startswith(package) for one in at)
    ]


def participles(package: str = "") -> list[str]:
    """Functions named by a bare participle, but for properties."""
    return [
        f"{place(path, node)} {node.name}"
        for path in files(package)
        for node in definitions(path)
        if not isinstance(node, ast.ClassDef) and is_participle(node.name)
        if not any("property" in ast.unparse(one) for one in node.decorator_list)
    ]


def clumsy_docstrings(package: str = "") -> list[str]:
    """Docstrings that begin with a noun clause instead of a verb or a noun."""
    found = []
    for path in files(package):
        module = ast.parse(path.read_text())
        for node in (module, *definitions(path)):
            words = (ast.get_docstring(node) or "").split()
            if words and words[0].strip(",.:") in OPENINGS:
                found.append(f"{place(path, node)} {' '.join(words[:9])}")
    return found


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
        f"{place(path, node)} {node.name} {n}"
        for path in files(package)
        if "_kernels" not in path.name and "_twins" not in path.name and "cli" not in path.parts
        for node in definitions(path)
        if not isinstance(node, ast.ClassDef) and node.name != "__init__"
        if (n := len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])) > PARAMETERS
    ]


def carried_attributes(package: str = "") -> list[str]:
    """Uses of `__dict__` and `vars(self)`, which carry an argument from one method to the next."""
    return [
        f"{place(path, node)} {ast.unparse(node)}"
        for path in files(package)
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Attribute) and node.attr == "__dict__")
        or (isinstance(node, ast.Call) and ast.unparse(node) == "vars(self)")
    ]


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
