"""Networks in files: the name of a class, what it was built with, and its weights. Never a pickle, never an import by a
name in a file.

Classes are looked up among the public names of `lemmata.nets`; a class of your own is passed to whoever reads the file:

    lemmata.load("shirts.lemma", net=MyNet)
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from lemmata.core.encoding import storable

HOMES = (
    "lemmata.nets",
    "lemmata.nets.augmentation",
    "lemmata.nets.training.losses",
    "lemmata.nets.training.schedules",
    "lemmata.optim.schedules",
)


@storable
@dataclass(frozen=True)
class Network:
    """A module as data."""

    name: str  # of its class
    config: (
        dict[str, Any] | None
    )  # what the class is called with; None for a class that does not say
    tensors: dict[str, np.ndarray]

    @classmethod
    def of(cls, module: Any) -> Network:
        from lemmata.nets.training.machine import arrays_of

        config = getattr(module, "config", None)
        plain = isinstance(config, dict) and ours(type(module))
        return cls(type(module).__name__, dict(config) if plain else None, arrays_of(module))  # type: ignore[arg-type]

    def build(self, made: Any = None) -> Any:
        """The module: of a class of ours, or `made`, a module of a class of somebody else's, given these weights."""
        from lemmata.lazy import require
        from lemmata.nets.training.machine import load_arrays
        from lemmata.nets.training.seeding import own_draws

        torch = require("torch", "deep", what="this model")
        if made is None:
            found = find(self.name)
            if self.config is None or not _is_network(found, torch):
                raise ValueError(
                    f"its network is of the class {self.name}, which is not one of lemmata's: "
                    f"pass it, lemmata.load(path, net={self.name})."
                )
            _refuse_huge(self.config, sum(array.size for array in self.tensors.values()))
            with own_draws():
                made = found(**self.config)
        for name, array in self.tensors.items():
            if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
                raise ValueError(f"its weights {name!r} are not all finite numbers.")
        wide = any(array.dtype == np.float64 for array in self.tensors.values())
        made = made.to(torch.float64 if wide else torch.float32)
        load_arrays(made, self.tensors)
        return made.eval()


@storable
@dataclass(frozen=True)
class Named:
    """A class, a function or an object of a parameter, by its name; objects of ours with their fields."""

    name: str
    fields: dict[str, Any] | None = None


def _is_network(found: Any, torch: Any) -> bool:
    return isinstance(found, type) and issubclass(found, torch.nn.Module)


def ours(cls: Any) -> bool:
    return isinstance(cls, type) and find(cls.__name__) is cls


def find(name: str) -> Any:
    """A public class of ours by its name; None if there is none."""
    from importlib import import_module

    for home in HOMES:
        module = import_module(home)
        public = getattr(module, "__all__", None) or [
            key for key, value in vars(module).items() if getattr(value, "__module__", "") == home
        ]
        if name in public and isinstance(found := getattr(module, name), type):
            return found
    return None


def _refuse_huge(config: dict[str, Any], size: int) -> None:
    """A file must not make us build a network that is out of proportion to its weights."""
    for value in config.values():
        for number in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(number, int) and number > max(4096, size):
                raise ValueError(
                    f"its network is said to have {number:,} of something, and {size:,} weights."
                )


def to_stored(value: Any) -> Any:
    """A parameter as a file can hold it."""
    if hasattr(value, "state_dict") and not isinstance(value, type):
        return Network.of(value)
    if isinstance(value, type) or (callable(value) and not is_dataclass(value)):
        return Named(getattr(value, "__name__", type(value).__name__))
    if is_dataclass(value) and ours(type(value)):
        return Named(
            type(value).__name__, {f.name: to_stored(getattr(value, f.name)) for f in fields(value)}
        )
    if isinstance(value, (tuple, list)):
        return type(value)(to_stored(item) for item in value)
    return value


def from_stored(value: Any, parameter: str) -> Any:
    """The parameter again; ValueError where only whoever wrote the file has it."""
    if isinstance(value, Network):
        return value.build()
    if isinstance(value, Named):
        found = find(value.name)
        if found is None:
            raise ValueError(
                f"its {parameter} is {value.name}, which is not lemmata's: pass it, "
                f"lemmata.load(path, {parameter}={value.name})."
            )
        if value.fields is None:
            return found
        return found(**{name: from_stored(item, parameter) for name, item in value.fields.items()})
    if isinstance(value, (tuple, list)):
        return type(value)(from_stored(item, parameter) for item in value)
    return value
