"""The public surface of a class: its parameters, methods and attributes, read from its signature and from a fit.

Those of other libraries are kept in tools/peers.json with the version they were read from, so that the table of
docs/from-scikit-learn.md can be made and tested where Surprise or cmfrec is not installed.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier

STORED = Path(__file__).with_name("peers.json")
REQUIRED = "required"
REST = "**"  # a method that takes further arguments by name
DISTRIBUTIONS = {"sklearn": "scikit-learn", "surprise": "scikit-surprise"}


@dataclass(frozen=True)
class Surface:
    """What a user of a class can write. Defaults as text; attributes with their shapes on data of 60 rows."""

    version: str
    positional: list[str]  # parameters that need no name, in order
    parameters: dict[str, str]  # name -> default
    methods: dict[str, list[str]]  # name -> arguments
    attributes: dict[str, str]  # name -> shape
    strict: bool = True  # changing the import has to be enough: the order of arguments counts too


def read_surface(cls: type, fitted: Any) -> Surface:
    signature = inspect.signature(cls.__init__)
    parameters = [p for name, p in signature.parameters.items() if name != "self"]
    return Surface(
        version_of(cls.__module__.partition(".")[0]),
        [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD],
        {
            p.name: default_of(p)
            for p in parameters
            if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        },
        dict(sorted(methods_of(cls).items())),
        dict(sorted(attributes_of(fitted, {p.name for p in parameters}).items())),
        cls.__module__.startswith("sklearn"),
    )


def version_of(package: str) -> str:
    try:
        return metadata.version(DISTRIBUTIONS.get(package, package))
    except metadata.PackageNotFoundError:
        return ""


def default_of(parameter: inspect.Parameter) -> str:
    value = parameter.default
    if value is parameter.empty:
        return REQUIRED
    return getattr(value, "__name__", repr(value))


def methods_of(cls: type) -> dict[str, list[str]]:
    """Public methods and their arguments; set_…_request follow from those, and are left out."""
    found = {}
    for name in dir(cls):
        if name.startswith("_") or (name.startswith("set_") and name.endswith("_request")):
            continue
        try:
            value = getattr(cls, name)
        except AttributeError:
            continue
        if callable(value):
            found[name] = arguments_of(value)
    return found


def arguments_of(method: Callable) -> list[str]:
    try:
        names = inspect.signature(method).parameters
    except (TypeError, ValueError):  # compiled, without a signature
        return []
    return [
        REST if p.kind == p.VAR_KEYWORD else name for name, p in names.items() if name != "self"
    ]


def attributes_of(fitted: Any, parameters: set[str]) -> dict[str, str]:
    """Public attributes of a fitted model that are neither parameters nor methods, with the shapes of arrays."""
    found = {}
    known = {
        *vars(fitted),
        *(n for n in dir(type(fitted)) if isinstance(_static(type(fitted), n), property)),
    }
    by_underscore = type(fitted).__module__.startswith(("sklearn", "lemmata", "cmfrec"))
    for name in known - parameters:
        if name.startswith("_") or (by_underscore and not name.endswith("_")):
            continue
        try:
            value = getattr(fitted, name)
        except (AttributeError, NotImplementedError):
            continue
        if not callable(value):
            found[name] = str(np.shape(value)) if isinstance(value, np.ndarray) else ""
    return found


def _static(cls: type, name: str) -> Any:
    try:
        return inspect.getattr_static(cls, name)
    except AttributeError:
        return None


# --- fits -------------------------------------------------------------------------------------------------------------

ROWS = np.random.default_rng(0).gamma(2.0, size=(60, 6))
ATOMS = np.eye(6)  # a dictionary for those rows
NUMBERS = ROWS @ [3.0, -2.0, 1.0, 0.0, 0.0, 0.5] + np.random.default_rng(3).normal(size=60)
CLASSES = np.digitize(NUMBERS, np.quantile(NUMBERS, [1 / 3, 2 / 3]))
USERS, ITEMS = np.divmod(np.flatnonzero(np.random.default_rng(1).random(600) < 0.5), 15)  # 40 × 15
STARS = np.random.default_rng(2).integers(1, 6, size=len(USERS)).astype(float)


def class_of(path: str) -> type:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def fit(path: str, **parameters: Any) -> Any:
    """A fit of the class to small data of the kind that its library takes."""
    cls, library = class_of(path), path.partition(".")[0]
    how = {"surprise": _fit_surprise, "cmfrec": _fit_cmfrec, "implicit": _fit_implicit}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if library in how:
            return how[library](cls, parameters)
        if path.startswith("lemmata.completion"):
            from lemmata.completion.observed import Observed

            ratings = Observed.from_triplets(USERS, ITEMS, STARS, (40, 15))
            return cls(**parameters).fit(ratings)
        model = cls(**parameters)
        return model.fit(ROWS, CLASSES if is_classifier(model) else NUMBERS)


def _fit_surprise(cls: type, parameters: dict[str, Any]) -> Any:
    import pandas as pd
    from surprise import Dataset, Reader

    frame = pd.DataFrame({"user": USERS, "item": ITEMS, "rating": STARS})
    data = Dataset.load_from_df(frame, Reader(rating_scale=(1, 5))).build_full_trainset()
    return cls(**parameters).fit(data)


def _fit_cmfrec(cls: type, parameters: dict[str, Any]) -> Any:
    from scipy.sparse import coo_array

    return cls(**parameters).fit(coo_array((STARS, (USERS, ITEMS)), shape=(40, 15)))


def _fit_implicit(cls: type, parameters: dict[str, Any]) -> Any:
    from scipy.sparse import csr_matrix

    model = cls(**parameters)
    model.fit(csr_matrix((STARS, (USERS, ITEMS)), shape=(40, 15)), show_progress=False)
    return model


# --- the stored facts -------------------------------------------------------------------------------------------------


def read_peers() -> dict[str, Surface]:
    return {path: Surface(**facts) for path, facts in json.loads(STORED.read_text()).items()}


def write_peers(peers: dict[str, Surface]) -> None:
    STORED.write_text(
        json.dumps({path: asdict(peers[path]) for path in sorted(peers)}, indent=1) + "\n"
    )
