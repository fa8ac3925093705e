"""Files: one safetensors file with a JSON manifest, written atomically, read without trust.

    >>> import tempfile, pathlib, numpy as np, lemmata
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "digits.lemma"
    >>> model = lemmata.PCA(n_components=2).fit(np.random.default_rng(0).normal(size=(50, 4)))
    >>> lemmata.save(model, path)
    >>> bool((lemmata.load(path).components_ == model.components_).all())
    True

Arrays are safetensors, everything else is JSON in the file's header. Nothing is ever pickled or imported by a name from
a file: models come from the registry, other objects from the classes marked `@storable`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

FORMAT = 1
MAX_HEADER = 64 * 2**20  # bytes of JSON; our largest manifests are a few hundred kilobytes
_STORABLE: dict[str, type] = {}
_GENERATORS = {name: getattr(np.random, name) for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")}
_SPARSE = ("csr", "csc", "coo")

Cls = TypeVar("Cls", bound=type)


class StoreError(ValueError):
    """A file cannot be read as what it should be, or a value cannot be written."""


def storable(cls: Cls) -> Cls:
    """Let files hold instances of a class: a dataclass, or one with `to_fields()` and `from_fields(dict)`.

    `cls.version` (1 if absent) is the version of its field names: rename one, raise it. A class that can still read old
    fields has `upgrade(fields, version) -> fields`.
    """
    if _STORABLE.setdefault(cls.__name__, cls).__qualname__ != cls.__qualname__:
        raise TypeError(f"two storable classes are called {cls.__name__}.")
    _STORABLE[cls.__name__] = cls
    return cls


# --- values <-> JSON and arrays ---------------------------------------------------------------------------------------


def encode(value: Any, arrays: dict[str, np.ndarray], where: str = "value") -> Any:
    """JSON for a value, its arrays put into `arrays`. Tagged dicts {"$": kind, …} stand for what JSON does not have."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$": "float", "value": repr(float(value))}
    if isinstance(value, (np.generic, np.ndarray)):
        return _encode_array(value, arrays, where)
    if isinstance(value, (list, tuple)):
        items = [encode(item, arrays, f"{where}[{i}]") for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"$": "tuple", "items": items}
    if isinstance(value, Mapping):
        pairs = [[encode(k, arrays, where), encode(v, arrays, f"{where}[{k!r}]")] for k, v in value.items()]
        return {"$": "dict", "items": pairs}
    if getattr(value, "format", None) in _SPARSE and hasattr(value, "tocsr"):
        csr = value.tocsr()
        parts = {name: encode(getattr(csr, name), arrays) for name in ("data", "indices", "indptr")}
        return {"$": "sparse", "shape": list(csr.shape), **parts}
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        bits = value.bit_generator if isinstance(value, np.random.Generator) else value._bit_generator
        return {"$": type(value).__name__, "bits": encode(bits.state, arrays)}
    if type(value).__name__ in _STORABLE and type(value) is _STORABLE[type(value).__name__]:
        return _encode_object(value, arrays, where)
    raise StoreError(
        f"{where} is a {type(value).__name__}, which a lemmata file cannot hold; "
        "it holds numbers, text, arrays, lists, dicts and lemmata's own objects."
    )


def _encode_array(value, arrays, where):
    array = np.asarray(value)
    if array.dtype.kind in "US" or (array.dtype == object and all(isinstance(item, str) for item in array.flat)):
        return {
            "$": "text",
            "shape": list(array.shape),
            "object": array.dtype == object,
            "items": array.ravel().tolist(),
        }
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise StoreError(f"{where} is an array of {array.dtype}; a lemmata file holds real numbers and text.")
    key = f"a{len(arrays)}"
    arrays[key] = np.array(array, order="C", dtype=array.dtype.newbyteorder("="), ndmin=1)
    return {"$": "array" if isinstance(value, np.ndarray) and array.ndim else "scalar", "key": key}


def _encode_object(value, arrays, where):
    content = (
        value.to_fields() if hasattr(value, "to_fields") else {f.name: getattr(value, f.name) for f in fields(value)}
    )
    return {
        "$": "object",
        "class": type(value).__name__,
        "version": getattr(value, "version", 1),
        "fields": {name: encode(item, arrays, f"{where}.{name}") for name, item in content.items()},
    }


def decode(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The value that `encode` was given."""
    if isinstance(value, list):
        return [decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    decoder = _DECODERS.get(value.get("$"))
    if decoder is None:
        raise StoreError(f"the manifest holds a value of unknown kind {value.get('$')!r}.")
    return decoder(value, arrays)


def _decode_object(value, arrays):
    cls = _STORABLE.get(value["class"])
    if cls is None:
        raise StoreError(f"the file holds an object of unknown class {value['class']!r}.")
    known, found = getattr(cls, "version", 1), value["version"]
    if not isinstance(found, int) or found > known:
        raise StoreError(f"{value['class']} has version {found!r}, this lemmata reads up to {known}; upgrade lemmata.")
    content = {name: decode(item, arrays) for name, item in value["fields"].items()}
    if found < known:
        if not hasattr(cls, "upgrade"):
            raise StoreError(f"{value['class']} has version {found}, this lemmata reads {known}; fit the model anew.")
        content = cls.upgrade(content, found)
    if hasattr(cls, "from_fields"):
        return cls.from_fields(content)
    if is_dataclass(cls) and set(content) != {field.name for field in fields(cls)}:
        raise StoreError(f"the fields of {value['class']} are not those of its version {known}.")
    return cls(**content)


def _decode_sparse(value, arrays):
    import scipy.sparse as sp

    data, indices, indptr = (decode(value[name], arrays) for name in ("data", "indices", "indptr"))
    matrix = sp.csr_array((data, indices, indptr), shape=tuple(value["shape"]))
    matrix.check_format(full_check=True)
    return matrix


def _decode_random(value, arrays):
    state = decode(value["bits"], arrays)
    bits = _GENERATORS[state["bit_generator"]]()
    bits.state = state
    return (np.random.RandomState if value["$"] == "RandomState" else np.random.Generator)(bits)


def _decode_text(value, arrays):
    if not all(isinstance(item, str) for item in value["items"]):
        raise StoreError("a text array holds something that is not text.")
    return np.array(value["items"], dtype=object if value["object"] else None).reshape(value["shape"])


_DECODERS: dict[Any, Callable[[dict, Mapping[str, np.ndarray]], Any]] = {
    "float": lambda v, a: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[v["value"]],
    "array": lambda v, a: a[v["key"]],
    "scalar": lambda v, a: a[v["key"]].reshape(())[()],
    "tuple": lambda v, a: tuple(decode(item, a) for item in v["items"]),
    "dict": lambda v, a: {decode(k, a): decode(item, a) for k, item in v["items"]},
    "text": _decode_text,
    "sparse": _decode_sparse,
    "RandomState": _decode_random,
    "Generator": _decode_random,
    "object": _decode_object,
}


def digest(value: Any) -> str:
    """A short hash of a value's content; of a dataclass, its fields, marked storable or not."""
    if is_dataclass(value) and not isinstance(value, type):
        inner = {f.name: digest(getattr(value, f.name)) for f in fields(value)}
        return _hash({"class": type(value).__name__, "fields": inner}, {})[:16]
    arrays: dict[str, np.ndarray] = {}
    return _hash(encode(value, arrays), arrays)[:16]


def _hash(content: Any, arrays: Mapping[str, np.ndarray]) -> str:
    sha = hashlib.sha256(_json(content))
    for key in sorted(arrays):
        array = arrays[key]
        sha.update(f"{key} {array.dtype.str} {array.shape}".encode())
        sha.update(np.ascontiguousarray(array).data if array.size else b"")
    return sha.hexdigest()


def _json(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


# --- files ------------------------------------------------------------------------------------------------------------


def write(path: Any, kind: str, content: dict[str, Any]) -> None:
    """Write a file of a kind ("model", "checkpoint"): whole or not at all."""
    from safetensors.numpy import save as to_bytes

    from lemmata import __version__

    arrays: dict[str, np.ndarray] = {}
    manifest = {"format": FORMAT, "kind": kind, "library": __version__, "content": encode(content, arrays, kind)}
    manifest["hash"] = _hash(manifest, arrays)
    write_atomically(Path(path), to_bytes(arrays, metadata={"lemmata": _json(manifest).decode()}))


def write_atomically(path: Path, content: bytes) -> None:
    """Put bytes at a path: a temporary file beside it, flushed to the disk, then renamed over it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # the rename itself must reach the disk
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(path: Any, kind: str) -> dict[str, Any]:
    """The content of a file of a kind; StoreError says what is wrong with any other file."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    if path.is_dir():
        raise StoreError(f"{path} is a folder, not a lemmata {kind}.")
    try:
        return _read(path, kind)
    except StoreError as error:
        raise StoreError(f"{path}: {error}") from error.__cause__
    except OSError:
        raise
    except Exception as error:  # hostile bytes can trip any layer below; every such file gets the same answer
        raise StoreError(f"{path} is damaged or not a lemmata {kind} ({type(error).__name__}: {error}).") from error


def _read(path: Path, kind: str) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or not 2 <= size <= min(len(raw) - 8, MAX_HEADER):
        raise StoreError(f"this is not a lemmata {kind}: it is truncated or of another format.")
    header = json.loads(raw[8 : 8 + size])
    text = (header.get("__metadata__") or {}).get("lemmata") if isinstance(header, dict) else None
    if not isinstance(text, str):
        raise StoreError(f"this is a safetensors file, but not a lemmata {kind}: it has no manifest.")
    manifest = json.loads(text)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise StoreError("the manifest names no format.")
    if manifest["format"] > FORMAT:
        raise StoreError(
            f"written in format {manifest['format']} by lemmata {manifest.get('library')}, "
            f"this lemmata reads formats up to {FORMAT}; upgrade lemmata."
        )
    if manifest.get("kind") != kind:
        raise StoreError(f"this is a lemmata {manifest.get('kind')}, not a {kind}.")
    try:
        arrays = from_bytes(raw)
    except SafetensorError as error:
        raise StoreError(f"the arrays are damaged or truncated ({error}).") from error
    if manifest.pop("hash", None) != _hash(manifest, arrays):
        raise StoreError("the content does not match its hash: the file was altered or damaged.")
    content = decode(manifest.get("content"), arrays)
    if not isinstance(content, dict):
        raise StoreError("the manifest holds no content.")
    return content


# --- models -----------------------------------------------------------------------------------------------------------


def save(model: Any, path: Any) -> None:
    """Write a fitted lemmata model to one file, atomically; `load` gives it back with its certificate."""
    from lemmata import registry

    name = type(model).__name__
    if name not in registry.MODELS or type(model) is not registry.model_class(name):
        raise TypeError(f"save takes lemmata's own models ({', '.join(registry.MODELS)}), not a {name}.")
    content = {"class": name, "parameters": model.get_params(deep=False), "attributes": model.stored_attributes()}
    write(path, "model", content)


def load(path: Any) -> Any:
    """The model in a file written by `save`."""
    from lemmata import registry

    content = read(path, "model")
    name = content.get("class")
    if name not in registry.MODELS:
        raise StoreError(f"{path} holds a model of unknown class {name!r}; known are {', '.join(registry.MODELS)}.")
    try:
        return registry.model_class(name).restored(content["parameters"], content["attributes"])
    except Exception as error:
        raise StoreError(f"{path} does not hold a usable {name}: {error}") from error
