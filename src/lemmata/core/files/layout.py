"""What an array from a file must look like: a specification in a few words, and the comparison with it.

    "k d"           numbers with two axes; a letter is the same size wherever it stands in one file
    ""              one number
    "k >=0 <=1"     … all of them within a range (>=, <=, >, < and a number)
    "n int"         whole numbers, by their dtype
    "d text"        words
    "n bool"        truth values
    "c labels"      words or numbers: the classes of a classifier
    "k d nan"       NaN is allowed; otherwise every number is finite
    "k any"         infinities too
    "n d sparse"    an array or a sparse matrix
    "d | m d"       one or the other, by the number of axes

>>> check_stored("weights_", np.array([0.5, 0.5]), "k >=0 <=1", {})
>>> check_stored("means_", np.array([[0.5, np.nan]]), "k d", {"k": 1})
Traceback (most recent call last):
ValueError: means_ contains NaN: the first in row 0, column 1 (counted from 0)...

A storable class, the state of an algorithm among them, says the same of its fields in `layout`, by which a file is checked
before anything is computed from it: compiled code does not look where it reads.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.validation import refuse_nonfinite

Spec = str | type
RANGES: dict[str, Callable[[Any, float], Any]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
KINDS = {
    "text": ("OU", "text"),
    "int": ("iu", "whole numbers"),
    "bool": ("b", "truth values"),
    "labels": ("OUbiuf", "text or numbers"),
}
MARKS = (*KINDS, "nan", "any", "sparse")


def check_stored(name: str, value: Any, spec: Spec, letters: dict[str, int]) -> None:
    """Raise ValueError unless a value is what its specification says; `letters` remembers the sizes seen so far."""
    if isinstance(spec, type):
        if not isinstance(value, spec):
            raise ValueError(f"{name} is a {type(value).__name__}, not a {spec.__name__}.")
        if isinstance(value, np.ndarray):  # of a shape that the model itself looks at
            _check_numbers(name, value, set())
        elif sp.issparse(value):
            _check_numbers(name, value.data, set())  # type: ignore[attr-defined]
        check_layout(value, letters, name)
        return
    if "|" in spec:
        spec = _alternative(spec, np.ndim(value))
    axes, marks, ranges = _parse(spec)
    if "labels" in marks and isinstance(value, list):  # one array for each thing that is predicted
        for one in value:
            check_stored(name, one, spec, {})
        return
    if not axes:
        _check_number(name, value, marks)
    else:
        _check_array(name, value, spec, axes, marks, letters)
    for relation, bound in ranges:
        numbers = np.asarray(value)
        if not RANGES[relation](numbers[~np.isnan(numbers)], bound).all():
            raise ValueError(f"{name} holds numbers that are not {relation} {bound:g}.")


def _alternative(spec: str, axes: int) -> str:
    """The one of several specifications that has so many axes; the first if none has."""
    options = spec.split("|")
    return next((one for one in options if len(_parse(one)[0]) == axes), options[0])


def _parse(spec: str) -> tuple[list[str], set[str], list[tuple[str, float]]]:
    """The axes, the marks and the ranges that a specification names."""
    ranges = [(found[1], float(found[2])) for found in re.finditer(r"([<>]=?)(\S+)", spec)]
    words = [word for word in spec.split() if word[0] not in "<>"]
    return [w for w in words if w not in MARKS], {w for w in words if w in MARKS}, ranges


def _check_number(name: str, value: Any, marks: set[str]) -> None:
    kind = Integral if "int" in marks else Real
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, kind):
        wanted = "a whole number" if "int" in marks else "a number"
        raise ValueError(f"{name} is a {type(value).__name__}, not {wanted}.")
    if isinstance(value, Integral):
        return
    if math.isnan(value) and not marks & {"nan", "any"}:
        raise ValueError(f"{name} is NaN.")
    if math.isinf(value) and "any" not in marks:
        raise ValueError(f"{name} is infinite.")


def _check_array(name, value, spec, axes, marks, letters):
    stored = value.data if "sparse" in marks and sp.issparse(value) else value
    if not isinstance(stored, np.ndarray) or len(value.shape) != len(axes):
        raise ValueError(f"{name} is not an array with {len(axes)} axes ({spec.strip()}).")
    _check_numbers(name, stored, marks)
    for letter, size in zip(axes, value.shape, strict=True):
        if letters.setdefault(letter, size) != size:
            raise ValueError(
                f"{name} has shape {value.shape}, but {letter} = {letters[letter]} elsewhere."
            )


def _check_numbers(name: str, value: np.ndarray, marks: set[str]) -> None:
    kinds, wanted = next((KINDS[mark] for mark in KINDS if mark in marks), ("iuf", "numbers"))
    if value.dtype.kind not in kinds:
        raise ValueError(f"{name} is an array of {value.dtype}, not of {wanted}.")
    if value.dtype.kind == "f" and "any" not in marks and value.size:
        rows = value if value.ndim == 2 else value.reshape(len(value) if value.ndim else 1, -1)
        refuse_nonfinite(rows, allow_nan="nan" in marks, what=name)


def check_layout(value: Any, letters: dict[str, int], name: str = "") -> None:
    """Compare the fields of an object with the `layout` of its class, if it has one, and of the objects in them."""
    layout: Mapping[str, Spec] = getattr(type(value), "layout", {})
    name = name or type(value).__name__
    for field, spec in layout.items():
        item = getattr(value, field.removesuffix("?"))
        if item is not None or not field.endswith("?"):
            check_stored(f"{name}.{field.removesuffix('?')}", item, spec, letters)
    if is_dataclass(value) and not isinstance(value, type):
        for inner in fields(value):
            if inner.name not in layout and inner.name + "?" not in layout:
                _check_inside(getattr(value, inner.name), letters, f"{name}.{inner.name}")


def _check_inside(item: Any, letters: dict[str, int], name: str) -> None:
    """Objects within tuples and lists as well; those share only the sizes of the data (n, d) with one another."""
    if isinstance(item, (tuple, list)):
        for one in item:
            _check_inside(one, {key: letters[key] for key in "nd" if key in letters}, name)
    elif is_dataclass(item):
        check_layout(item, letters, name)
