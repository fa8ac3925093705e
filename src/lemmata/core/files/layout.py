"""Values from a file against their shapes, in the words of audit/kernel/attributes.py.

>>> check_stored("weights_", np.array([0.5, 0.5]), "k >=0 <=1", {})
>>> check_stored("means_", np.array([[0.5, np.nan]]), "k d", {"k": 1})
Traceback (most recent call last):
ValueError: means_ contains NaN: the first in row 0, column 1 (counted from 0)...

A storable class, the state of an algorithm among them, has a table of its fields in `layout`, by which a file is checked
before anything is computed from it: compiled code does not look where it reads.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.audit.kernel.attributes import Shape, entries, shape_for
from lemmata.core.validation import refuse_malformed, refuse_nonfinite

Spec = str | type
KINDS = {
    "text": ("OU", "text"),
    "int": ("iu", "whole numbers"),
    "float": ("f", "float32 or float64"),
    "bool": ("b", "truth values"),
    "labels": ("OUbiuf", "text or numbers"),
}


def check_stored(name: str, value: Any, spec: Spec, letters: dict[str, int]) -> None:
    """Raise ValueError unless a value is what its specification says; `letters` remembers the sizes seen so far."""
    if isinstance(spec, type):
        if not isinstance(value, spec):
            raise ValueError(f"{name} is a {type(value).__name__}, not a {spec.__name__}.")
        if isinstance(value, np.ndarray):  # of a shape that the model itself looks at
            _check_numbers(name, value, ())
        elif sp.issparse(value):
            _check_numbers(name, value.data, ())  # type: ignore[attr-defined]
        check_layout(value, letters, name)
        return
    shape = shape_for(spec, value)
    if "labels" in shape.words and isinstance(value, list):
        for one in value:  # one array for each thing that is predicted
            check_stored(name, one, spec, {})
        return
    if not shape.axes:
        _check_number(name, value, shape.words)
    else:
        _check_array(name, value, shape, letters)
    for rule in shape.violations(np.asarray(value.data if sp.issparse(value) else value)):
        raise ValueError(f"{name} holds numbers that are not {rule}.")


def _check_number(name: str, value: Any, marks: Collection[str]) -> None:
    kind = Integral if "int" in marks else Real
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, kind):
        wanted = "a whole number" if "int" in marks else "a number"
        raise ValueError(f"{name} is a {type(value).__name__}, not {wanted}.")
    if isinstance(value, Integral):
        return
    if math.isnan(value) and "nan" not in marks and "any" not in marks:
        raise ValueError(f"{name} is NaN.")
    if math.isinf(value) and "any" not in marks:
        raise ValueError(f"{name} is infinite.")


def _check_array(name: str, value: Any, shape: Shape, letters: dict[str, int]) -> None:
    stored = value.data if "sparse" in shape.words and sp.issparse(value) else value
    if not isinstance(stored, np.ndarray) or not shape.describes(value.shape):
        raise ValueError(f"{name} is not an array with {len(shape.axes)} axes ({shape}).")
    _check_numbers(name, stored, shape.words)
    refuse_malformed(value, name)
    if letter := shape.other_size(value.shape, letters):
        raise ValueError(
            f"{name} has shape {value.shape}, but {letter} = {letters[letter]} elsewhere."
        )


def _check_numbers(name: str, value: np.ndarray, marks: Collection[str]) -> None:
    kinds, wanted = next((KINDS[mark] for mark in KINDS if mark in marks), ("iuf", "numbers"))
    half = "float" in marks and value.dtype.itemsize < 4
    if value.dtype.kind not in kinds or half:
        raise ValueError(f"{name} is an array of {value.dtype}, not of {wanted}.")
    if value.dtype.kind == "f" and "any" not in marks and value.size:
        rows = value if value.ndim == 2 else value.reshape(len(value) if value.ndim else 1, -1)
        refuse_nonfinite(rows, allow_nan="nan" in marks, what=name)


def check_layout(value: Any, letters: dict[str, int], name: str = "") -> None:
    """Compare the fields of an object with the `layout` of its class, if it has one, and of the objects in them."""
    table: Mapping[str, Spec] = getattr(type(value), "layout", {})
    layout, name = entries(table), name or type(value).__name__
    for field, (spec, optional) in layout.items():
        item = getattr(value, field)
        if item is not None or not optional:
            check_stored(f"{name}.{field}", item, spec, letters)
    if is_dataclass(value) and not isinstance(value, type):
        for inner in fields(value):
            if inner.name not in layout:
                _check_inside(getattr(value, inner.name), letters, f"{name}.{inner.name}")


def _check_inside(item: Any, letters: dict[str, int], name: str) -> None:
    """Objects within tuples and lists as well; those share only the sizes of the data (n, d) with one another."""
    if isinstance(item, (tuple, list)):
        for one in item:
            _check_inside(one, {key: letters[key] for key in "nd" if key in letters}, name)
    elif is_dataclass(item):
        check_layout(item, letters, name)
