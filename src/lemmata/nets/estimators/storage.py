"""Networks in files: the name of a class, the arguments it was built with, and its weights. Never a pickle, never an import
by a name in a file.

Classes are looked up among the public names of HOMES; a class of your own is passed when the file is read:

    lemmata.load("shirts.lemma", net=MyNet)

It is then called with the numbers and names that the file has for it. A network of ours is built without memory first, and
compared with the weights in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from typing import Any

import numpy as np

from lemmata.core.files.encoding import storable
from lemmata.registry import require

# of no use to a fitted model: absent where a file cannot hold them
ONLY_FOR_TRAINING = ("augment", "callbacks")
HOMES = (
    *(
        f"lemmata.generate{part}"
        for part in ("", ".series", ".pixels", ".flows", ".vae", ".gan", ".diffusion")
    ),
    "lemmata.language",
    "lemmata.selfsup",
    "lemmata.nets",
    "lemmata.nets.augmentation",
    "lemmata.nets.training.losses",
    "lemmata.nets.training.optimisers",
    "lemmata.optim.schedules",
)


@storable
@dataclass(frozen=True)
class Network:
    """A module as data."""

    name: str  # of its class
    config: dict[str, Any] | None  # arguments of the class; None where it has no `config`
    tensors: dict[str, np.ndarray]

    @classmethod
    def of(cls, module: Any) -> Network:
        from lemmata.nets.training.trainer import arrays_of

        return cls(type(module).__name__, _config_of(module), arrays_of(module))

    def build(self, module: Any = None) -> Any:
        """A network of ours with these weights; `module` is used instead, where the class is not ours."""
        from lemmata.nets.training.devices import own_draws
        from lemmata.nets.training.trainer import check_arrays, load_arrays

        torch = require("torch", "deep", what="this model")
        if module is None:
            size = sum(array.size for array in self.tensors.values())
            # without numbers first: a small file may ask for any number of them
            with torch.device("meta"), _few_parts(len(self.tensors)):
                check_arrays(self._construct(size), self.tensors)
            with own_draws():
                module = self._construct(size)
        for name, array in self.tensors.items():
            if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
                raise ValueError(f"its weights {name!r} are not all finite numbers.")
        wide = any(array.dtype == np.float64 for array in self.tensors.values())
        module = module.to(torch.float64 if wide else torch.float32)
        load_arrays(module, self.tensors)
        return module.eval()

    def _construct(self, size: int) -> Any:
        """The module without its weights, of which the file has so many; ValueError unless it is ours and no larger."""
        import torch

        found = find_class(self.name)
        if self.config is None or not _is_network(found, torch):
            raise ValueError(
                f"its network is of the class {self.name}, which is not one of lemmata's: "
                f"pass it, lemmata.load(path, net={self.name})."
            )
        refuse_huge(self.config, size)
        module = found(**{name: _from_config(value, size) for name, value in self.config.items()})
        if sum(tensor.numel() for tensor in module.state_dict().values()) > size:
            raise ValueError(f"its {self.name} has more weights than the {size:,} of the file.")
        return module


@storable
@dataclass(frozen=True)
class Named:
    """A class, a function or an object of a parameter, by its name; objects of ours with their fields."""

    name: str
    fields: dict[str, Any] | None = None


def _config_of(module: Any) -> dict[str, Any] | None:
    """The arguments of a network of ours, modules among them by theirs (weights are those of the whole); or None."""
    config = getattr(module, "config", None)
    if not isinstance(config, dict) or not is_ours(type(module)):
        return None
    return {name: _to_config(value) for name, value in config.items()}


def _to_config(value: Any) -> Any:
    if hasattr(value, "state_dict") and not isinstance(value, type):
        return Network(type(value).__name__, _config_of(value), {})
    if isinstance(value, (tuple, list)):
        return type(value)(map(_to_config, value))
    return Named(value.__name__) if isinstance(value, type) else value


def _from_config(value: Any, size: int) -> Any:
    if isinstance(value, Network):
        return value._construct(size)
    if isinstance(value, (tuple, list)):
        return type(value)(_from_config(item, size) for item in value)
    return from_stored(value, "net")


def _is_network(found: Any, torch: Any) -> bool:
    return isinstance(found, type) and issubclass(found, torch.nn.Module)


def is_ours(cls: Any) -> bool:
    return isinstance(cls, type) and find_class(cls.__name__) is cls


def find_class(name: str) -> Any:
    """A public class of ours by its name; None if there is none."""
    for home in HOMES:
        if not _exists(home):
            continue
        module = import_module(home)
        public = getattr(module, "__all__", None) or [
            key for key, value in vars(module).items() if getattr(value, "__module__", "") == home
        ]
        if name in public and isinstance(found := getattr(module, name), type):
            return found
    return None


@cache
def _exists(home: str) -> bool:
    """Whether there is such a package here."""
    outer, _, _ = home.rpartition(".")
    return (outer == "lemmata" or _exists(outer)) and find_spec(home) is not None


def refuse_huge(config: dict[str, Any], size: int) -> None:
    """Raise ValueError for arguments that are out of proportion to the stored weights, or neither numbers nor names."""
    for name, value in config.items():
        parts = value if isinstance(value, (tuple, list)) else (value,)
        if len(parts) > max(64, size):
            raise ValueError(f"{name} of its network has {len(parts):,} parts.")
        for number in parts:
            if isinstance(number, (list, tuple)):
                refuse_huge({name: number}, size)
            elif not isinstance(number, (int, float, str, type(None), Network, Named)):
                kind = type(number).__name__
                raise ValueError(f"{name} of its network is a {kind}, not a number or a name.")
            if isinstance(number, int) and number > max(4096, size):
                raise ValueError(f"its network has a size of {number:,} and only {size:,} weights.")


@contextmanager
def _few_parts(tensors: int) -> Iterator[None]:
    """Networks that are built inside have no more parts than so many tensors explain."""
    from torch.nn.modules import module

    seen = count()

    def watch(owner: Any, name: str, part: Any) -> None:
        if next(seen) > 256 + 64 * tensors:  # activations and containers have no tensors
            raise ValueError(f"its network has more parts than {tensors} stored arrays explain.")

    hook = module.register_module_module_registration_hook(watch)
    try:
        yield
    finally:
        hook.remove()


def to_stored(value: Any) -> Any:
    """Convert a parameter to what a file can hold."""
    if hasattr(value, "state_dict") and not isinstance(value, type):
        return Network.of(value)
    if isinstance(value, type) or (callable(value) and not is_dataclass(value)):
        return Named(getattr(value, "__name__", type(value).__name__))
    if is_dataclass(value) and is_ours(type(value)):
        parts = {field.name: to_stored(getattr(value, field.name)) for field in fields(value)}
        return Named(type(value).__name__, parts)
    if isinstance(value, (tuple, list)):
        return type(value)(to_stored(item) for item in value)
    return value


def from_stored(value: Any, parameter: str, networks: tuple[str, ...] = ("net",)) -> Any:
    """Convert it back; ValueError where it is a class or function that is not ours."""
    if isinstance(value, Network) and parameter in networks:
        return value.build()
    if isinstance(value, Network):  # a loss with weights, say: it is somebody's own
        value = Named(value.name, {})
    if isinstance(value, Named):
        found = find_class(value.name)
        if found is None or (value.fields is not None and not is_dataclass(found)):
            raise ValueError(
                f"its {parameter} is {value.name}, which is not lemmata's: pass it, "
                f"lemmata.load(path, {parameter}={value.name})."
            )
        if value.fields is None:
            return found
        return found(**{name: from_stored(item, parameter) for name, item in value.fields.items()})
    if isinstance(value, (tuple, list)):
        return type(value)(from_stored(item, parameter, networks) for item in value)
    return value


def restore_parameters(
    parameters: dict[str, Any], networks: tuple[str, ...] = ("net",)
) -> dict[str, Any]:
    """The parameters of a file, some of them networks; those that only training needs are None where they are not ours."""
    found = {}
    for name, value in parameters.items():
        try:
            found[name] = from_stored(value, name, networks)
        except ValueError:
            if name not in ONLY_FOR_TRAINING:
                raise
            found[name] = None
    return found


# --- the network of a parameter ---------------------------------------------------------------------------------------


def network_class(net: Any) -> Any:
    """The class, or the function that makes a network, of the parameter `net`: a class, its name, or None."""
    import torch

    if net is None:
        from lemmata.nets.estimators.networks import FeedForward

        return FeedForward
    cls = find_class(net) if isinstance(net, str) else net
    if isinstance(net, str) and not _is_network(cls, torch):
        raise ValueError(
            f"net={net!r} is not the name of a network of lemmata.nets; pass its class."
        )
    if not callable(cls):
        raise TypeError(
            f"net is a {type(cls).__name__}; pass a torch.nn.Module, a class of them, or None."
        )
    return cls


def build_network(
    cls: Any, input_shape: tuple[int, ...], n_outputs: int, options: dict[str, Any]
) -> Any:
    try:
        return cls(input_shape, n_outputs, **options)
    except (TypeError, IndexError, RuntimeError) as error:
        raise ValueError(
            f"net was called as {getattr(cls, '__name__', cls)}({input_shape}, {n_outputs}, {options or ''}…): {error}."
        ) from error
