"""Whose a checkpoint is: the parameters of a model, each as a short text to read and a digest to compare.

    >>> from lemmata import Lasso
    >>> owner_of(Lasso(alpha=0.1))["parameters"]["alpha"][0]
    '0.1'
    >>> before, now = (owner_of(Lasso(fit_intercept=b))["parameters"] for b in (True, False))
    >>> differences(before, now)
    ['fit_intercept: True in the checkpoint, False now']

Every parameter belongs to the owner but for those that say when to stop or what is shown of a run. Digests are the same in
every process: no address, no order of a set and no weight that a network begins with is in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from numbers import Integral
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from lemmata.core.certification.showing import one_line
from lemmata.core.files.encoding import digest

STOPPING = ("max_iter", "tol", "time_limit")
NOT_OWNED = ("verbose", "checkpoint")
SHORT = 60  # characters of a value that a message repeats


def owner_of(model: Any) -> dict[str, Any]:
    """The class of a model and its parameters: name -> [text, digest]."""
    parameters = {
        name: [brief(value), _mark(name, value)]
        for name, value in model.get_params(deep=False).items()
        if name not in NOT_OWNED
    }
    return {"model": type(model).__name__, "parameters": parameters}


def _mark(name: str, value: Any) -> str:
    if name == "random_state" and not isinstance(value, Integral):
        return ""  # whatever was drawn first is in the state, and any draw is as good
    if name == "callbacks":  # who watches a run is known by name: what was seen so far may differ
        value = [_name_of(one) for one in value or ()]
    return digest(describe(value))


def differences(
    before: Mapping[str, list[str]], now: Mapping[str, list[str]], names: Iterable[str] = ()
) -> list[str]:
    """Describe each parameter that differs: of those named, or of all that belong to an owner."""
    found = []
    for name in names or sorted({*before, *now} - {*STOPPING}):
        (old, was), (new, mark) = before.get(name, ("absent", "")), now.get(name, ("absent", ""))
        if old == new and was != mark:
            found.append(f"{name}: another {new} now")
        elif was != mark:
            found.append(f"{name}: {old} in the checkpoint, {new} now")
    return found


def brief(value: Any) -> str:
    """A value as a message names it: itself if it is short, else its kind."""
    if isinstance(value, np.ndarray):
        return f"array of {value.dtype}, {value.shape}"
    if isinstance(value, (type, FunctionType, MethodType)):
        return _name_of(value)
    text = one_line(repr(value))
    return text if len(text) <= SHORT and " at 0x" not in text else type(value).__name__


def describe(value: Any, depth: int = 6) -> Any:
    """A value as plain parts that `digest` takes: its name and its parameters; of a function, what it does."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if value is None or isinstance(value, (str, float, bool)):
        return value
    if depth == 0:
        return _name_of(type(value))
    inside = partial(describe, depth=depth - 1)
    if isinstance(value, (tuple, list)):
        return [inside(item) for item in value]
    if isinstance(value, Mapping):
        return [[inside(key), inside(item)] for key, item in value.items()]
    if isinstance(value, (set, frozenset)):
        return sorted(digest(inside(item)) for item in value)
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        array = np.asarray(value)
        return inside(array.tolist()) if array.dtype == object else array
    if hasattr(value, "tocsr"):
        return value
    return [_name_of(value), *map(inside, _parts(value))]


def _parts(value: Any) -> list[Any]:
    """Identify an object among others of its name."""
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or ()]
        return [_code(value.__code__), value.__defaults__, value.__kwdefaults__, held]
    # a network: where its weights begin is in the state of its training
    if hasattr(value, "state_dict") and not isinstance(value, type):
        shapes = [[name, list(one.shape)] for name, one in value.state_dict().items()]
        return [repr(value), shapes, dict(value.named_buffers())]
    if hasattr(value, "__qualname__"):  # a class, or a function that is compiled
        return []
    if hasattr(value, "to_fields"):
        return [value.to_fields()]
    if is_dataclass(value):
        return [{field.name: getattr(value, field.name) for field in fields(value)}]
    if hasattr(value, "__dict__"):
        return [vars(value)]
    text = repr(value)
    return [] if " at 0x" in text else [text]


def _code(code: CodeType) -> list[Any]:
    """Identify a function by what it does, whatever its line and its file."""
    constants = [_code(one) if isinstance(one, CodeType) else one for one in code.co_consts]
    return [code.co_code.hex(), constants, code.co_names]


def _name_of(value: Any) -> str:
    named = value if hasattr(value, "__qualname__") or hasattr(value, "__name__") else type(value)
    return getattr(named, "__qualname__", None) or named.__name__
