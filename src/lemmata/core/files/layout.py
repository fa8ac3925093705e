"""Values from a file against their shapes, in the words of audit/kernel/attributes.py.

>>> check_stored("weights_", np.array([0.5, 0.5]), "k >=0 <=1", {})
>>> check_stored("means_", np.array([[0.5, np.nan]]), "k d", {"k": 1})
Traceback (most recent call last):
ValueError: means_ contains NaN: the first in row 0, column 1 (counted from 0)...

A storable class, the state of an algorithm among them, has a table of its fields in `layout`, by which a file is checked
before anything is computed from it: compiled code does not look where it reads. Fields are of the types that they are
declared with. Data and algorithms say the sizes that only they know in `sizes`, the rest in `check_state(state, data)`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp

from lemmata.audit.kernel.attributes import Shape, entries, parse, shape_for
from lemmata.core.validation import refuse_malformed, refuse_nonfinite

COUNTS = frozenset(("seed", "steps", "epoch", "epochs", "passes", "batches", "updates", "count"))
Spec = str | type | tuple[str, ...]  # a tuple: arrays one after the other, or none of them
KINDS = {
    "text": ("OU", "text"),
    "int": ("iu", "whole numbers"),
    "float": ("f", "float32 or float64"),
    "bool": ("b", "truth values"),
    "labels": ("OUbiuf", "text or numbers"),
    "numbers": ("iuf", "numbers"),
}


def checked_attributes(
    attributes: dict[str, Any], shapes: Mapping[str, tuple[str | type, bool]]
) -> dict[str, Any]:
    """Return the attributes of a model in a file, in the order of their shapes, each checked; True: may be absent."""
    if stray := set(attributes) - set(shapes):
        raise ValueError(f"unknown attribute {sorted(map(str, stray))[0]!r}.")
    letters: dict[str, int] = {}
    found = {}
    for name, (spec, optional) in shapes.items():
        if name in attributes:
            found[name] = attributes[name]
            check_stored(name, found[name], spec, letters)
            if name == "n_features_in_":
                letters["d"] = operator.index(found[name])
        elif not optional:
            raise ValueError(f"the attribute {name} is missing.")
    return found


def check_stored(name: str, value: Any, spec: Spec, letters: dict[str, int]) -> None:
    """Raise ValueError unless a value is what its specification says; `letters` remembers the sizes seen so far."""
    if isinstance(spec, tuple):
        if not isinstance(value, tuple) or len(value) not in (0, len(spec)):
            raise ValueError(f"{name} is not a tuple of {len(spec)} arrays.")
        for i, (one, wanted) in enumerate(zip(value, spec, strict=False)):
            check_stored(f"{name}[{i}]", one, wanted, letters)
        return
    if isinstance(spec, type):
        if not isinstance(value, spec):
            raise ValueError(f"{name} is a {type(value).__name__}, not a {spec.__name__}.")
        if isinstance(value, np.ndarray):  # of a shape that the model itself looks at
            _check_numbers(name, value, ("numbers",))
        elif sp.issparse(value):
            _check_numbers(name, value.data, ("numbers",))  # type: ignore[attr-defined]
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
    numbers = np.asarray(value.data if sp.issparse(value) else value)
    for rule in shape.violations(numbers, letters):
        raise ValueError(f"{name} holds numbers that are not {rule}.")


def _check_number(name: str, value: Any, marks: Collection[str]) -> None:
    kind = Integral if "int" in marks else Real
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, kind):
        wanted = "a whole number" if "int" in marks else "a number"
        raise ValueError(f"{name} is a {type(value).__name__}, not {wanted}.")
    if isinstance(value, Integral):
        if abs(int(value)) >= 2**64:  # Python's alone: NumPy would take it for an object
            raise ValueError(f"{name} is a whole number of more than 64 bits.")
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
        elsewhere = f"{letter} = {letters[letter]} elsewhere"
        raise ValueError(f"{name} has shape {value.shape}, but {elsewhere}.")


def _check_numbers(name: str, value: np.ndarray, marks: Collection[str]) -> None:
    kinds, wanted = next((KINDS[mark] for mark in KINDS if mark in marks), KINDS["float"])
    half = value.dtype.kind == "f" and value.dtype.itemsize < 4  # no kernel takes them
    places = "int" in marks and value.dtype == np.uint64  # nor do those fit an int64
    if value.dtype.kind not in kinds or half or places:
        raise ValueError(f"{name} is an array of {value.dtype}, not of {wanted}.")
    if value.dtype.kind == "f" and "any" not in marks and value.size:
        rows = value if value.ndim == 2 else value.reshape(len(value) if value.ndim else 1, -1)
        refuse_nonfinite(rows, allow_nan="nan" in marks, what=name)


def check_layout(value: Any, letters: dict[str, int], name: str = "") -> None:
    """Compare the fields of an object with the `layout` of its class, if it has one, and of the objects in them."""
    table: Mapping[str, Spec] = getattr(type(value), "layout", {})
    layout, name, run = entries(table), name or type(value).__name__, {"n", "d", *letters}
    for field, (spec, optional) in layout.items():
        item = getattr(value, field)
        if item is not None or not optional:
            check_stored(f"{name}.{field}", item, spec, letters)
    if is_dataclass(value) and not isinstance(value, type):
        for inner in fields(value):
            if inner.name not in layout:
                _check_inside(getattr(value, inner.name), letters, run, f"{name}.{inner.name}")


def _check_inside(item: Any, letters: dict[str, int], run: set[str], name: str) -> None:
    """Objects within tuples and lists as well; those share only the sizes of the run with one another."""
    if isinstance(item, (tuple, list)):
        for one in item:
            _check_inside(one, {key: letters[key] for key in run & {*letters}}, run, name)
    elif is_dataclass(item):
        check_layout(item, letters, name)


def bounding_letters(table: Mapping[str, Spec]) -> set[str]:
    """The letters whose sizes bound numbers of a table: such a bound says nothing until its letter is known."""
    texts = [spec for spec in table.values() if isinstance(spec, str)]
    words = [word for text in texts for shape in parse(text) for word in shape.words]
    return {word[-1] for word in words if word[0] in "<>" and word[-1].isalpha()}


# --- the state of a run -----------------------------------------------------------------------------------------------


def check_state(algorithm: Any, state: Any, data: Any) -> None:
    """Raise ValueError unless a state from a file is one that this algorithm could have come to with this data."""
    wanted = _hints(type(algorithm).init).get("return", Any)
    if not _is_of(state, wanted):
        raise ValueError(f"the state is a {type(state).__name__}, not a {_name(wanted)}.")
    shape = getattr(data, "shape", ())
    letters = dict(zip("nd", shape, strict=True)) if len(shape) == 2 else {}
    letters |= getattr(data, "sizes", {}) | getattr(algorithm, "sizes", {})
    check_layout(state, letters)
    if unknown := bounding_letters(getattr(type(state), "layout", {})) - set(letters):
        raise TypeError(f"nobody knows the size {min(unknown)} that bounds numbers of the state.")
    if hasattr(algorithm, "check_state"):
        algorithm.check_state(state, data)


def check_alike(first: Any, *others: Any) -> None:
    """Raise ValueError unless all are tuples of arrays of the same shapes, the others of finite floats, as they come from a
    file: weights, gradients, memory of an optimiser.
    """
    shapes = [[np.shape(one) for one in arrays] for arrays in (first, *others)]
    for other in shapes[1:]:
        if other != shapes[0]:
            raise ValueError(f"arrays of shapes {shapes[0]} and {other} belong together.")
    for one in (array for arrays in others for array in arrays):
        _check_numbers("an array", np.asarray(one), ())


# --- types ------------------------------------------------------------------------------------------------------------


@cache
def _hints(annotated: Any) -> dict[str, Any]:
    try:
        return get_type_hints(annotated)
    except NameError:  # a name that only type checkers import
        return {}


def check_types(value: Any) -> None:
    """Raise ValueError unless the fields of a dataclass are of the types that they are declared with."""
    cls: Any = type(value)
    for field in fields(value):
        hint, item = _hints(cls).get(field.name, Any), getattr(value, field.name, cls)
        if not _is_of(item, hint):
            kind = type(item).__name__
            raise ValueError(f"{type(value).__name__}.{field.name} is a {kind}, not {_name(hint)}.")
        if field.name in COUNTS and hint is int and item < 0:
            raise ValueError(f"{type(value).__name__}.{field.name} is {item}, not >= 0.")


def _is_of(value: Any, hint: Any) -> bool:
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_is_of(value, one) for one in inside)
    if origin in (tuple, dict) and not isinstance(value, origin):
        return False
    if origin is tuple:
        kinds = inside[:1] * len(value) if inside[-1] is ... else inside
        return len(value) == len(kinds) and all(map(_is_of, value, kinds))
    if origin is dict:
        return all(_is_of(key, inside[0]) and _is_of(one, inside[1]) for key, one in value.items())
    if hint in (int, float):  # True is 1 for Python, and NumPy's numbers are none
        kind = Integral if hint is int else Real
        whole = not isinstance(value, Integral) or abs(int(value)) < 2**64  # of the machine
        return isinstance(value, kind) and whole and not isinstance(value, (bool, np.bool_))
    if hint is bool:
        return isinstance(value, (bool, np.bool_))
    plain = isinstance(hint, type) and origin is None and not getattr(hint, "_is_protocol", False)
    return isinstance(value, hint) if plain else True


def _name(hint: Any) -> str:
    return getattr(hint, "__name__", str(hint))
