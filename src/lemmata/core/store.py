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

import glob
import hashlib
import json
import math
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

FORMAT = 1
MAX_HEADER = 64 * 2**20  # bytes of JSON; our largest manifests are a few hundred kilobytes
MAX_TEXT = 2**28  # characters of a text array, padding included
_STORABLE: dict[str, type] = {}
_GENERATORS = {
    name: getattr(np.random, name) for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
}

Cls = TypeVar("Cls", bound=type)


class StoreError(ValueError):
    """A file cannot be read as what it should be, or a value cannot be written."""


def storable(cls: Cls) -> Cls:
    """Let files hold instances of a class: a dataclass, or one with `to_fields()` and `from_fields(dict)`.

    `cls.version` (1 if absent) is the version of its field names: rename one, raise it. A class that can still read old
    fields has `upgrade(fields, version) -> fields`.
    """
    known = _STORABLE.get(cls.__name__, cls)
    # the same twice: a module reloaded
    if (known.__module__, known.__qualname__) != (
        cls.__module__,
        cls.__qualname__,
    ):
        raise TypeError(
            f"two storable classes are called {cls.__name__}: in {known.__module__} and {cls.__module__}."
        )
    _STORABLE[cls.__name__] = cls
    return cls


# --- values <-> JSON and arrays ---------------------------------------------------------------------------------------


def encode(value: Any, arrays: dict[str, np.ndarray], where: str = "value") -> Any:
    """JSON for a value, its arrays put into `arrays`. Tagged dicts {"$": kind, …} stand for what JSON does not have."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)  # a word of an enumeration is text in a file
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
        pairs = [
            [encode(k, arrays, where), encode(v, arrays, f"{where}[{k!r}]")]
            for k, v in value.items()
        ]
        return {"$": "dict", "items": pairs}
    if hasattr(value, "tocsr") and hasattr(value, "nnz"):
        return _encode_sparse(value, arrays, where)
    if isinstance(value, (np.random.RandomState, np.random.Generator, np.random.SeedSequence)):
        return _encode_random(value, arrays, where)
    if type(value).__name__ in _STORABLE and type(value) is _STORABLE[type(value).__name__]:
        return _encode_object(value, arrays, where)
    raise StoreError(
        f"{where} is a {type(value).__name__}, which a lemmata file cannot hold; "
        "it holds numbers, text, arrays, lists, dicts and lemmata's own objects."
    )


def _encode_array(value, arrays, where):
    array = np.asarray(value)
    if array.dtype.kind == "U" or (
        array.dtype == object and all(isinstance(item, str) for item in array.flat)
    ):
        items, shape = array.ravel().tolist(), list(array.shape)
        return {"$": "text", "shape": shape, "object": array.dtype == object, "items": items}
    if (
        array.dtype.kind not in "biuf"
        or array.dtype.itemsize > 8
        or isinstance(value, np.ma.MaskedArray)
    ):
        kind = (
            "a masked array"
            if isinstance(value, np.ma.MaskedArray)
            else f"an array of {array.dtype}"
        )
        raise StoreError(f"{where} is {kind}; a lemmata file holds real numbers and text.")
    array = np.array(array, dtype=array.dtype.newbyteorder("="), order="K")
    columns = array.flags.f_contiguous and not array.flags.c_contiguous
    key = f"a{len(arrays)}"
    arrays[key] = np.ascontiguousarray(array.T) if columns else np.asarray(array, order="C")
    kind = "array" if isinstance(value, np.ndarray) else "scalar"
    # the order of an array decides how BLAS sums over it: a state that lost it would not resume to the bit
    return {"$": kind, "key": key, "order": "F"} if columns else {"$": kind, "key": key}


def _encode_sparse(value, arrays, where):
    value = value if value.format in ("csr", "csc") else value.tocsr()
    parts = {
        name: encode(getattr(value, name), arrays, f"{where}.{name}")
        for name in ("data", "indices", "indptr")
    }
    return {
        "$": "sparse",
        "class": type(value).__name__,
        "shape": [int(size) for size in value.shape],
        **parts,
    }


def _encode_random(value, arrays, where):
    if isinstance(value, np.random.SeedSequence):
        return {"$": "SeedSequence", "state": encode(value.state, arrays, where)}
    if isinstance(value, np.random.RandomState):
        return {"$": "RandomState", "state": encode(value.get_state(legacy=False), arrays, where)}
    bits, seeds = value.bit_generator, value.bit_generator.seed_seq
    seeds = seeds if isinstance(seeds, np.random.SeedSequence) else None  # what spawn() draws from
    return {
        "$": "Generator",
        "state": encode(bits.state, arrays, where),
        "seeds": encode(seeds, arrays, where),
    }


def _encode_object(value, arrays, where):
    content = (
        value.to_fields()
        if hasattr(value, "to_fields")
        else {f.name: getattr(value, f.name) for f in fields(value)}
    )
    return {
        "$": "object",
        "class": type(value).__name__,
        "version": getattr(value, "version", 1),
        "fields": {name: encode(item, arrays, f"{where}.{name}") for name, item in content.items()},
    }


def decode(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The value that `encode` was given: equal to it, of the same dtype (in native byte order) and memory order.

    A NumPy float64 comes back as a float, sparse matrices in other formats than CSC as CSR.
    """
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
        raise StoreError(
            f"{value['class']} has version {found!r}, this lemmata reads up to {known}; upgrade lemmata."
        )
    content = {name: decode(item, arrays) for name, item in value["fields"].items()}
    if found < known:
        if not hasattr(cls, "upgrade"):
            raise StoreError(
                f"{value['class']} has version {found}, this lemmata reads {known}; fit the model again."
            )
        content = cls.upgrade(content, found)
    if hasattr(cls, "from_fields"):
        return cls.from_fields(content)
    if is_dataclass(cls) and set(content) != {field.name for field in fields(cls)}:
        raise StoreError(f"the fields of {value['class']} are not those of its version {known}.")
    return cls(**content)


def _decode_array(value, arrays):
    array = arrays[value["key"]]
    array = array.T if value.get("order") == "F" else array
    return array if value["$"] == "array" else array[()]


def _decode_sparse(value, arrays):
    import scipy.sparse as sp

    classes = {
        cls.__name__: cls for cls in (sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix)
    }
    parts = tuple(decode(value[name], arrays) for name in ("data", "indices", "indptr"))
    if not all(isinstance(part, np.ndarray) for part in parts) or any(
        part.dtype.kind != "i" for part in parts[1:]
    ):
        raise StoreError("the parts of a sparse matrix are of the wrong kind.")
    matrix = classes[value["class"]](parts, shape=tuple(value["shape"]))
    matrix.check_format(full_check=True)
    return matrix


def _decode_random(value, arrays):
    state = decode(value["state"], arrays)
    if value["$"] == "SeedSequence":
        if not 4 <= state["pool_size"] <= 64:
            raise StoreError("a seed sequence has an impossible pool.")
        return np.random.SeedSequence(**state)
    seeds = decode(value.get("seeds"), arrays)
    bits = _GENERATORS[state["bit_generator"]](0 if seeds is None else seeds)
    if value["$"] == "RandomState":
        random = np.random.RandomState(bits)
        random.set_state(state)
        return random
    bits.state = state
    return np.random.Generator(bits)


def _decode_text(value, arrays):
    items = value["items"]
    if not all(isinstance(item, str) for item in items):
        raise StoreError("a text array holds something that is not text.")
    if value["object"]:
        return np.array(items, dtype=object).reshape(value["shape"])
    # NumPy gives every item the room of the longest
    if len(items) * max(map(len, items), default=0) > MAX_TEXT:
        raise StoreError("a text array is too large.")
    return np.array(items, dtype=np.str_).reshape(value["shape"])


_DECODERS: dict[Any, Callable[[dict, Mapping[str, np.ndarray]], Any]] = {
    "float": lambda v, a: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[v["value"]],
    "array": _decode_array,
    "scalar": _decode_array,
    "tuple": lambda v, a: tuple(decode(item, a) for item in v["items"]),
    "dict": lambda v, a: {decode(k, a): decode(item, a) for k, item in v["items"]},
    "text": _decode_text,
    "sparse": _decode_sparse,
    "RandomState": _decode_random,
    "Generator": _decode_random,
    "SeedSequence": _decode_random,
    "object": _decode_object,
}


def digest(value: Any, where: str = "value") -> str:
    """A short hash of a value's content; of a dataclass, its fields, marked storable or not."""
    arrays: dict[str, np.ndarray] = {}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: getattr(value, f.name) for f in fields(value)}
        content: Any = [
            type(value).__name__,
            [[k, digest(v, f"{type(value).__name__}.{k}")] for k, v in parts.items()],
        ]
    elif isinstance(value, (list, tuple)):
        content = [type(value).__name__, [digest(item, where) for item in value]]
    elif isinstance(value, Mapping):
        content = [
            "dict",
            [[digest(k, where), digest(v, f"{where}[{k!r}]")] for k, v in value.items()],
        ]
    else:
        content = encode(value, arrays, where)
    return _hash(content, arrays)[:16]


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
    manifest = {
        "format": FORMAT,
        "kind": kind,
        "library": __version__,
        "content": encode(content, arrays, kind),
    }
    manifest["hash"] = _hash(manifest, arrays)
    write_atomically(Path(path), to_bytes(arrays, metadata={"lemmata": _json(manifest).decode()}))


def write_atomically(path: Path, content: bytes) -> None:
    """Put bytes at a path: a temporary file beside it, flushed to the disk, then renamed over it."""
    path = Path(os.path.realpath(path))  # a link stays a link to the new content
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the file a name in it.")
    if path.exists() and not path.is_file():  # renaming over a device or a pipe would remove it
        raise OSError(f"{path} is no regular file; give the file a name of its own.")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {path.parent} to write {path.name} to; make it first."
        )
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise type(error)(error.errno, f"{path} could not be written: {error.strerror}") from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # the rename itself must reach the disk
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_leftovers(path: Path) -> None:
    """Delete the temporary files that killed writers of this path left behind. Nobody may be writing it right now."""
    path = Path(os.path.realpath(path))
    for found in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        found.unlink(missing_ok=True)


def read(path: Any, kind: str) -> dict[str, Any]:
    """The content of a file of a kind; StoreError says what is wrong with any other file."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no regular file"
        raise StoreError(f"{path} is {what}, not a lemmata {kind}.")
    with open(path, "rb") as file:
        try:
            return read_from(file, kind)
        except StoreError as error:
            raise StoreError(f"{path}: {error}") from error.__cause__


def read_from(file: BinaryIO, kind: str) -> dict[str, Any]:
    """`read` for an open binary file."""
    try:
        return _read(file, kind)
    except (StoreError, OSError):
        raise
    except (
        Exception
    ) as error:  # hostile bytes can trip any layer below; every such file gets the same answer
        raise StoreError(
            f"this is damaged or not a lemmata {kind} ({type(error).__name__}: {error})."
        ) from error


def _read(file: BinaryIO, kind: str) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    size = int.from_bytes(file.read(8), "little")
    if length < 8 or not 2 <= size <= min(length - 8, MAX_HEADER):
        raise StoreError(f"this is not a lemmata {kind}: it is truncated or of another format.")
    # the rest of a large file is read only if this part is in order
    manifest = _manifest(file.read(size), kind)
    file.seek(0)
    try:
        arrays = from_bytes(file.read())
    except SafetensorError as error:
        raise StoreError(f"the arrays are damaged or truncated ({error}).") from error
    if manifest.pop("hash", None) != _hash(manifest, arrays):
        raise StoreError("the content does not match its hash: the file was altered or damaged.")
    if kind == "model":
        _import_model(manifest.get("content"))
    content = decode(manifest.get("content"), arrays)
    if not isinstance(content, dict):
        raise StoreError("the manifest holds no content.")
    return content


def _import_model(content: Any) -> None:
    """Import the module of a model in the registry: it brings the storable classes that the model's attributes are of."""
    from lemmata import registry

    for pair in content.get("items", ()) if isinstance(content, dict) else ():
        if isinstance(pair, list) and pair[:1] == ["class"] and pair[-1] in list(registry.MODELS):
            registry.model_class(pair[-1])


def _manifest(raw: bytes, kind: str) -> dict[str, Any]:
    """The manifest in a safetensors header, if this lemmata can read it."""
    header = json.loads(raw)
    text = (header.get("__metadata__") or {}).get("lemmata") if isinstance(header, dict) else None
    if not isinstance(text, str):
        raise StoreError(
            f"this is a safetensors file, but not a lemmata {kind}: it has no manifest."
        )
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
    return manifest


# --- models -----------------------------------------------------------------------------------------------------------


def save(model: Any, path: Any) -> None:
    """Write a fitted lemmata model to one file, atomically; `load` gives it back with its certificate."""
    from lemmata import registry

    name = type(model).__name__
    if name not in registry.MODELS or type(model) is not registry.model_class(name):
        raise TypeError(
            f"save takes lemmata's own models ({', '.join(registry.MODELS)}), not a {name}."
        )
    content = {
        "class": name,
        "parameters": model.get_params(deep=False),
        "attributes": model.stored_attributes(),
    }
    write(path, "model", content)


def load(path: Any) -> Any:
    """The model in a file written by `save`."""
    from lemmata import registry

    content = read(path, "model")
    name = content.get("class")
    if not isinstance(name, str) or name not in registry.MODELS:
        raise StoreError(
            f"{path} holds a model of unknown class {name!r}; known are {', '.join(registry.MODELS)}."
        )
    try:
        return registry.model_class(name).restored(content["parameters"], content["attributes"])
    except Exception as error:
        raise StoreError(f"{path} does not hold a usable {name}: {error}") from error
