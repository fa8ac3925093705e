"""The API reference: one page per public name, from its docstring, with its claims, counterparts and examples.

Docstrings are numpydoc in plain text: magnitudes |w|, attributes mean_ and products a * b mean themselves. So what Sphinx
gets is written here, escaped, and a docstring cannot break the site.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from lemmata import registry
from tools.site import escape, replace_text
from tools.site.gallery import task_of

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,} *$", re.M)
ENTRY = re.compile(r"^(\*{0,2}\w[^:\n]*?)(?: : (.*))?$")
# methods of scikit-learn's that every estimator has
COMMON = {"get_params", "set_params", "get_metadata_routing", "set_output"}


@dataclass(frozen=True)
class Name:
    """A public name: where one imports it from, and what it stands for."""

    path: str  # lemmata.KMeans, lemmata.trust.evaluate
    value: Any

    @property
    def kind(self) -> str:
        if inspect.isclass(self.value):
            return "class"
        if isinstance(self.value, ModuleType):
            return "module"
        return "function" if callable(self.value) else "data"

    @property
    def doc(self) -> str:
        if self.kind == "data":
            return ""
        return inspect.cleandoc(self.value.__doc__ or "")

    @property
    def summary(self) -> str:
        return " ".join(self.doc.split("\n\n")[0].split())


@cache
def public() -> tuple[Name, ...]:
    """Every public name of `lemmata` and of its packages, each once."""
    found: dict[int, Name] = {}
    for path in (*registry.MODELS, *registry.FUNCTIONS):
        value = getattr(import_module("lemmata"), path)
        found[id(value)] = Name(f"lemmata.{path}", value)
    for package in registry.SUBPACKAGES:
        module = import_module(f"lemmata.{package}")
        for path in getattr(module, "__all__", ()):
            value = getattr(module, path)
            key = (
                id(value) if callable(value) or isinstance(value, ModuleType) else id((path, value))
            )
            found.setdefault(key, Name(f"lemmata.{package}.{path}", value))
    return tuple(found.values())


# --- reading docstrings -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """An entry of a section: the names that it describes, their type, and the lines below."""

    names: tuple[str, ...]
    kind: str
    text: str


def split_sections(doc: str) -> dict[str, str]:
    """The text of a docstring by its sections; what stands before the first is ""."""
    found, at, head = {}, 0, ""
    for match in SECTION.finditer(doc):
        found[head] = doc[at : match.start()].strip("\n")
        at, head = match.end(), match[1]
    return {**found, head: doc[at:].strip("\n")}


def read_entries(text: str) -> list[Entry]:
    """The entries of a section: a line at the margin, and what is indented below it."""
    found: list[Entry] = []
    for block in re.split(r"\n(?=\S)", text):
        head, _, body = block.partition("\n")
        if match := ENTRY.match(head.strip()):
            names = tuple(name.strip().lstrip("*") for name in match[1].split(","))
            found.append(Entry(names, (match[2] or "").strip(), inspect.cleandoc(body)))
    return found


# --- checking docstrings ----------------------------------------------------------------------------------------------


def complain(one: Name) -> list[str]:
    """What a docstring lacks, in the words of numpydoc's checks."""
    if one.kind not in ("class", "function"):
        return []
    doc, found = split_sections(one.doc), []
    first = one.doc.partition("\n")[0]
    if not first:
        return ["no docstring"]
    if not first.rstrip().endswith((".", ":", "?")):
        found.append("the summary does not end on its first line")
    if is_model(one.value):
        listed = [name for each in read_entries(doc.get("Parameters", "")) for name in each.names]
        meant = list(one.value.declared_parameters) or listed
        if listed != meant:
            found.append(f"parameters {listed} are not those of the signature, {meant}")
        for each in read_entries(doc.get("Parameters", "")):
            if not each.kind or ("default" not in each.kind and "optional" not in each.kind):
                found.append(f"{each.names[0]} has no type or no default")
            if len(re.findall(r"\w{2,}", each.text)) < 2:
                found.append(f"{each.names[0]} has no description: {each.text!r}")
        for each in read_entries(doc.get("Attributes", "")):
            if not each.kind and not {"certificate_", "trace_", "stopped_"} & set(each.names):
                found.append(f"attribute {', '.join(each.names)} has no type or shape")
    return found


def place_of(value: Any) -> str:
    """The file and line of a class or function."""
    path, line = inspect.getsourcefile(value), inspect.getsourcelines(value)[1]
    return f"{Path(str(path)).relative_to(ROOT)}:{line}"


def is_model(value: Any) -> bool:
    return inspect.isclass(value) and hasattr(value, "declared_parameters")


# --- writing pages ----------------------------------------------------------------------------------------------------


def write_text(text: str, indent: str = "") -> Iterator[str]:
    """Paragraphs, formulas (indented: as they stand), examples (`>>>`), and lists of `name : meaning`."""
    for block in re.split(r"\n\s*\n", text):
        lines = block.rstrip().split("\n")
        if not block.strip():
            continue
        if lines[0].lstrip().startswith(">>>"):
            yield from (indent + line for line in inspect.cleandoc(block).split("\n"))
        elif all(line.startswith("   ") for line in lines):
            yield f"{indent}::"
            yield ""
            yield from (
                f"{indent}    {line}" for line in inspect.cleandoc("\n" + block).split("\n")
            )
        elif all(re.match(r"(\*{0,2}\w[^:]{0,60} : |\s{2,})", line) for line in lines):
            for each in read_entries(block):
                names = ", ".join(f"``{name}``" for name in each.names)
                words = " ".join([each.kind, each.text]).split()
                yield f"{indent}* {names}: {escape(' '.join(words))}"
        elif all(re.match(r"([*-] |\s{2,})", line) for line in lines):
            for item in re.split(r"\n(?=[*-] )", block):
                yield f"{indent}* {escape(' '.join(item[2:].split()))}"
        else:
            yield from (indent + escape(line.strip()) for line in lines)
        yield ""


def write_section(head: str, text: str, indent: str) -> Iterator[str]:
    yield f"{indent}.. rubric:: {head}"
    yield ""
    if head not in ("Parameters", "Attributes", "Returns", "Raises", "Yields"):
        yield from write_text(text, indent)
        return
    for each in read_entries(text):
        names = ", ".join(f"``{name}``" for name in each.names)
        kind = f" : {escape(each.kind)}" if each.kind and each.text else ""
        yield f"{indent}{names}{kind}"
        yield from write_text(each.text or each.kind or "Set by every fit.", indent + "    ")
    yield ""


def write_object(path: str, kind: str, value: Any, indent: str = "") -> Iterator[str]:
    """A class, function or method: its signature, then its docstring."""
    yield f"{indent}.. py:{kind}:: {path}{read_signature(value) if kind != 'data' else ''}"
    yield ""
    doc = inspect.cleandoc(value.__doc__ or "")
    for head, text in split_sections(doc).items():
        inner = indent + "   "
        yield from write_section(head, text, inner) if head else write_text(text, inner)


def read_signature(value: Any) -> str:
    """The arguments and their defaults; types stand in the list of parameters."""
    try:
        found = inspect.signature(value)
    except (ValueError, TypeError):
        return "()"
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in found.parameters.values()]
    text = str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r"<[^<>]*>", "...", text)


def methods_of(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods that lemmata defines, in the order of their names."""
    for name in sorted(vars_of(cls)):
        value = inspect.getattr_static(cls, name)
        function = getattr(value, "__func__", value)
        ours = getattr(function, "__module__", "") or ""
        if inspect.isfunction(function) and ours.startswith("lemmata") and function.__doc__:
            yield name, function


def vars_of(cls: type) -> set[str]:
    skipped = COMMON | {name for name in dir(cls) if re.match(r"set_\w+_request$", name)}
    return {name for name in dir(cls) if not name.startswith("_")} - skipped


def write_page(one: Name) -> str:
    """The page of a public name."""
    lines = [one.path, "=" * len(one.path), ""]
    if one.kind == "module":
        lines += [*write_text(one.doc)]
        for name in getattr(one.value, "__all__", ()):
            value = getattr(one.value, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                kind = "class" if inspect.isclass(value) else "function"
                lines += [*write_object(f"{one.path}.{name}", kind, value)]
        return "\n".join(lines) + "\n"
    lines += [*write_object(one.path, one.kind, one.value)]
    if one.kind == "class":
        for name, function in methods_of(one.value):
            lines += [*write_object(name, "method", function, "   ")]
    name = one.path.rpartition(".")[2]
    if one.path == f"lemmata.{name}" and name in registry.MODELS:
        lines += [*write_claims(name), *write_counterparts(name)]
    return "\n".join([*lines, *write_examples(name)]) + "\n"


def write_claims(name: str) -> Iterator[str]:
    """The claims of a model's certificate, with how often each was wrong on planted cases."""
    from lemmata.core.certification.explaining import advice_of
    from truth import docs

    measured = docs.read()
    mine = [one for one in docs.listed() if name in one.models]
    if not mine:
        return
    yield from ("Claims", "------", "", ".. list-table::", "   :header-rows: 1", "")
    yield "   * - claim"
    yield from ("     - what it says, and what to do where it fails", "     - kind, theorem")
    yield "     - wrong on planted cases"
    for one in mine:
        rows = [r for r in measured if (r.home, r.claim) == (one.home, one.statement.name)]
        cases = sum(row.no + row.yes for row in rows)
        wrong = sum(row.false_holds + row.false_fails for row in rows)
        yield f"   * - ``{one.statement.name}``"
        advice = "; or ".join(escape(text) for text in advice_of(one.statement)[:2])
        yield f"     - {escape(one.statement.sentence)}{'. → ' * bool(advice)}{advice}"
        yield f"     - {one.kind}; {escape(one.statement.source)}"
        yield f"     - {wrong} of {cases:,}" if rows else "     - not yet counted"
    yield ""
    yield ":doc:`All claims </audit>` have their planted suites and how much there is to read."
    yield ""


def write_counterparts(name: str) -> Iterator[str]:
    if theirs := registry.MODELS[name].counterparts:
        yield from ("Counterparts", "------------", "")
        yield "``lemmata.certify`` checks fits of these as well: "
        yield ", ".join(f"``{path}``" for path in theirs) + "."
        yield ":doc:`What differs </from-scikit-learn>`."
        yield ""


@cache
def example_texts() -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted((ROOT / "examples").glob("*.py"))}


def write_examples(name: str) -> Iterator[str]:
    """Links to the examples that use a name."""
    users = [stem for stem, text in example_texts().items() if re.search(rf"\b{name}\b", text)]
    if users:
        yield from ("Examples", "--------", "")
        yield from (f"* :doc:`/gallery/{task_of(stem)}/{stem}`" for stem in users)
        yield ""


def write_reference(folder: Path) -> None:
    """Write a page per public name into a folder, and an index by package."""
    folder.mkdir(parents=True, exist_ok=True)
    groups: dict[str, list[Name]] = {}
    for one in public():
        groups.setdefault(one.path.rpartition(".")[0], []).append(one)
        replace_text(folder / f"{one.path}.rst", write_page(one))
    lines = ["API reference", "=============", ""]
    for package, names in sorted(groups.items()):
        lines += [package, "-" * len(package), "", ".. list-table::", "   :widths: 35 65", ""]
        for one in sorted(names, key=lambda each: each.path):
            summary = escape(one.summary.partition(". ")[0][:160]) or "A constant."
            lines += [
                f"   * - :doc:`{one.path.rpartition('.')[2]} <{one.path}>`",
                f"     - {summary}",
            ]
        lines += [""]
    lines += [".. toctree::", "   :hidden:", "", *(f"   {one.path}" for one in public())]
    replace_text(folder / "index.rst", "\n".join(lines) + "\n")
    kept = {"index.rst", *(f"{one.path}.rst" for one in public())}
    for path in folder.glob("*.rst"):
        if path.name not in kept:
            path.unlink()
