"""Data that every installation has: the digits of scikit-learn, and the docstrings of the scientific stack as texts."""

from __future__ import annotations

import ast
import functools
import inspect
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lemmata.data.dataset import Dataset
from lemmata.data.locate import DataNotFound


def digits() -> Dataset:
    """1,797 handwritten digits of 8 × 8 pixels with values 0–16, as float64 rows.

    >>> digits()
    digits: 1,797 × 64 float64, 10 classes...
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return Dataset(
        name="digits",
        X=bunch.data,
        y=bunch.target,
        names=tuple("0123456789"),
        features=tuple(bunch.feature_names),
        image=(8, 8),
        description="Handwritten digits, 8 × 8 pixels of 0–16, in 10 nearly balanced classes.",
        source="UCI Optical Recognition of Handwritten Digits (test part), as shipped with scikit-learn",
        terms="CC BY 4.0 (UCI)",
    )


# --- docstrings -------------------------------------------------------------------------------------------------------

PACKAGES = ("numpy", "python", "scipy", "sklearn")  # "python" is the standard library

# tests, and bundled copies of other projects
SKIPPED = frozenset({
    "__pycache__", "_external", "_vendor", "array_api_compat", "array_api_extra", "dist-packages", "distutils", "ensurepip",
    "externals", "idlelib", "lib2to3", "pydoc_data", "site-packages", "test", "tests", "turtledemo",
})  # fmt: skip

# A triple-quoted string that opens a file, or the block below a line that ends in a colon. A parser is exact but takes ten
# times as long over these 30 MB of source; they disagree on 1 of 7,838 docstrings.
DOCSTRING = re.compile(
    r"""
    (?: \A | :[ \t]*(?:\#[^\n]*)?\n )
    (?: [ \t]* (?:\#[^\n]*)? \n )* [ \t]*           # blank lines and comments
    ( [rRuU]? (\"\"\"|\'\'\') .*? (?<!\\) \2 )
    """,
    re.VERBOSE | re.DOTALL,
)
OPENS_BLOCK = re.compile(r"\s*(?:async\s+)?(?:def|class)\b|.*(?:\)|\]|->)")  # not a key of a dict


@functools.cache
def docstrings(min_length: int = 200) -> Dataset:
    """The docstrings of numpy, scipy, scikit-learn and the standard library as texts labelled by package.

    Read from the source files, which are neither imported nor run. Sorted by package, file and place; of equal texts only
    the first is kept. The corpus depends on the installed versions, which `source` names.

    Parameters
    ----------
    min_length : int, default=200
        Characters that a docstring needs to count as a document.
    """
    texts: dict[str, int] = {}  # text -> label; a dict keeps the order and drops repetitions
    for label, package in enumerate(PACKAGES):
        for path in _source_files(package):
            for text in docstrings_in(
                path.read_text(encoding="utf-8", errors="replace"), min_length
            ):
                texts.setdefault(text, label)
    if not texts:
        raise DataNotFound(
            "no docstrings were found: the packages are installed without their source files."
        )
    return Dataset(
        name="docstrings",
        texts=tuple(texts),
        y=np.fromiter(texts.values(), dtype=np.int64),
        names=PACKAGES,
        description=f"Docstrings of at least {min_length} characters, labelled by package.",
        source=", ".join(_version(package) for package in PACKAGES),
        terms="BSD-3-Clause (numpy, scipy, scikit-learn), PSF licence (python)",
    )


def docstrings_in(source: str, min_length: int = 0) -> Iterator[str]:
    """The docstrings in the source text of a module that are long enough, in order, indentation removed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes in other people's strings
        for found in DOCSTRING.finditer(source):
            line = source[source.rfind("\n", 0, found.start()) + 1 : found.start()]
            if len(found[1]) < min_length or (found.start() > 0 and not OPENS_BLOCK.match(line)):
                continue
            try:
                text = inspect.cleandoc(ast.literal_eval(found[1]))
            except (SyntaxError, ValueError):
                continue  # not a string after all: quotes inside another string
            if len(text) >= min_length:
                yield text


def _source_files(package: str) -> Iterator[Path]:
    for folder, inner, names in os.walk(_folder(package)):
        inner[:] = sorted(set(inner) - SKIPPED)
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))


def _folder(package: str) -> str:
    import importlib.util
    import sysconfig

    if package == "python":
        return sysconfig.get_paths()["stdlib"]
    spec = importlib.util.find_spec(package)  # finds a top-level package without importing it
    return (spec.submodule_search_locations or [""])[0] if spec else ""


def _version(package: str) -> str:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    if package == "python":
        return f"Python {platform.python_version()}"
    try:
        return f"{package} {version('scikit-learn' if package == 'sklearn' else package)}"
    except PackageNotFoundError:
        return package
