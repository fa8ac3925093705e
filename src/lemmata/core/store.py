"""Files: one safetensors file with a JSON manifest, written atomically, read without trust.

    >>> import tempfile, pathlib, numpy as np, lemmata
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "digits.lemma"
    >>> model = lemmata.PCA(n_components=2).fit(np.random.default_rng(0).normal(size=(50, 4)))
    >>> lemmata.save(model, path)
    >>> bool((lemmata.load(path).components_ == model.components_).all())
    True

Arrays are safetensors, everything else is JSON in the file's header (files/encoding.py). A file is measured before it is read,
so that reading it takes memory of the order of its size, whatever it claims.
"""

from __future__ import annotations

import glob
import json
import os
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lemmata.core.files.encoding import (
    StoreError,
    check_room,
    decode,
    digest,
    encode,
    hash_of,
    json_of,
    reading,
    storable,
)

__all__ = [
    "FORMAT", "StoreError", "check_room", "decode", "digest", "encode", "load", "read", "read_from", "remove_leftovers",
    "save", "storable", "write", "write_atomically",
]  # fmt: skip

FORMAT = 2  # 1 held texts in the manifest
MAX_HEADER = 16 * 2**20  # bytes; a thousand restarts under way need half of one megabyte
# lists and dicts in a header: each costs hundreds of bytes, and three in the file
MAX_PARTS = 2**20
NOT_STORED = ("checkpoint",)  # parameters that are places on the machine of whoever saved the model


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
    manifest["hash"] = hash_of(manifest, arrays)
    raw = to_bytes(arrays, metadata={"lemmata": json_of(manifest).decode()})
    # what could not be read is not written
    _check_header(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    write_atomically(Path(path), raw)


def write_atomically(path: Path, content: bytes) -> None:
    """Put bytes at a path: a temporary file beside it, flushed to the disk, then renamed over it."""
    path = Path(os.path.realpath(path))  # a link stays a link to the new content
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the file a name in it.")
    _refuse_special(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for {path.name}; make it first.")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _refuse_special(path)  # somebody may have been quicker
        os.replace(temporary, path)
    except NotRegular:
        temporary.unlink(missing_ok=True)
        raise
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


class NotRegular(OSError):
    """Raised where a path names a pipe or a device."""


def _refuse_special(path: Path) -> None:
    """Only regular files are replaced: renaming over a device or a pipe would remove it."""
    if path.exists() and not path.is_file():
        raise NotRegular(f"{path} is no regular file; give the file a name of its own.")


def remove_leftovers(path: Path) -> None:
    """Delete the temporary files that killed writers of this path left behind. Nobody may be writing it right now."""
    path = Path(os.path.realpath(path))
    for found in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        found.unlink(missing_ok=True)


def read(path: Any, kind: str, without: Collection[str] = ()) -> dict[str, Any]:
    """The content of a file of a kind, `without` some parameters; StoreError says what is wrong with any other file."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no regular file"
        raise StoreError(f"{path} is {what}, not a lemmata {kind}.")
    with open(path, "rb") as file:
        try:
            return read_from(file, kind, without)
        except StoreError as error:
            raise StoreError(f"{path}: {error}") from error.__cause__


def read_from(file: BinaryIO, kind: str, without: Collection[str] = ()) -> dict[str, Any]:
    """`read` for an open binary file."""
    try:
        return _read(file, kind, without)
    except (StoreError, OSError):
        raise
    except (
        Exception
    ) as error:  # hostile bytes can trip any layer below; every such file gets the same answer
        raise StoreError(
            f"this is damaged or not a lemmata {kind} ({type(error).__name__}: {error})."
        ) from error


def _read(file: BinaryIO, kind: str, without: Collection[str]) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    size = int.from_bytes(file.read(8), "little")
    if length < 8 or not 2 <= size <= length - 8:
        raise StoreError(f"this is not a lemmata {kind}: it is truncated or of another format.")
    if size > MAX_HEADER:
        raise StoreError(f"this is not a lemmata {kind}: its header has {size:,} bytes.")
    # the rest of a large file is read only if this part is in order and says that there is so much
    header = _header(file.read(size), kind)
    manifest = _manifest(header, kind)
    _check_length(header, length - 8 - size)
    file.seek(0)
    try:
        arrays = from_bytes(file.read(length))
    except SafetensorError as error:
        raise StoreError(f"the arrays are damaged or truncated ({error}).") from error
    if manifest.pop("hash", None) != hash_of(manifest, arrays):
        raise StoreError("the content does not match its hash: the file was altered or damaged.")
    if kind == "model":
        _import_model(manifest.get("content"))
        _leave_out(manifest.get("content"), without)
    with reading(length):
        content = decode(manifest.get("content"), arrays)
    if not isinstance(content, dict):
        raise StoreError("the manifest holds no content.")
    return content


def _check_header(raw: bytes) -> None:
    """Refuse a header that would take far more memory than its size suggests: every list and dict costs hundreds of bytes."""
    parts = raw.count(b"[") + raw.count(b"{")
    if len(raw) > MAX_HEADER or parts > MAX_PARTS:
        raise StoreError(
            f"the header has {len(raw):,} bytes and {parts:,} parts; a file holds up to {MAX_HEADER:,} and {MAX_PARTS:,}."
        )


def _header(raw: bytes, kind: str) -> dict[str, Any]:
    _check_header(raw)
    header = json.loads(raw)
    if not isinstance(header, dict):
        raise StoreError(f"this is not a lemmata {kind}: its header is no safetensors header.")
    return header


def _check_length(header: dict[str, Any], found: int) -> None:
    """Compare the bytes behind the header with what the arrays need, before they are read."""
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    needed = max(ends, default=0)
    if not isinstance(needed, int) or needed != found:
        raise StoreError(
            f"the arrays are damaged or truncated: they need {needed:,} bytes, the file has {found:,} for them."
        )


def _import_model(content: Any) -> None:
    """Import the module of a model in the registry: it brings the storable classes that the model's attributes are of."""
    from lemmata import registry

    for pair in content.get("items", ()) if isinstance(content, dict) else ():
        if isinstance(pair, list) and pair[:1] == ["class"] and pair[-1] in list(registry.MODELS):
            registry.model_class(pair[-1])


def _leave_out(content: Any, names: Collection[str]) -> None:
    """Parameters that the reader has passed are not made out of the file."""
    for pair in content.get("items", ()) if names and isinstance(content, dict) else ():
        if pair[0] == "parameters" and isinstance(pair[1], dict):
            pair[1]["items"] = [one for one in pair[1]["items"] if one[0] not in names]


def _manifest(header: dict[str, Any], kind: str) -> dict[str, Any]:
    """The manifest in a safetensors header, if this lemmata can read it."""
    text = (header.get("__metadata__") or {}).get("lemmata")
    if not isinstance(text, str):
        raise StoreError(f"this is a safetensors file, not a lemmata {kind}: it has no manifest.")
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
        "parameters": _without_places(_parameters_of(model)),
        "attributes": model.stored_attributes(),
    }
    write(path, "model", content)


def load(path: Any, **given: Any) -> Any:
    """The model in a file written by `save`.

    given : parameters that a file cannot hold, such as a class of yours that a network is of: ``load(path, net=MyNet)``;
        it is called with the numbers and names in the file. What is given is not read from the file.
    """
    from lemmata import registry

    content = read(path, "model", without=given)
    name = content.get("class")
    if not isinstance(name, str) or name not in registry.MODELS:
        raise StoreError(
            f"{path} holds a model of unknown class {name!r}; known are {', '.join(registry.MODELS)}."
        )
    try:
        parameters = {**_without_places(content["parameters"]), **given}
        return registry.model_class(name).restored(parameters, content["attributes"])
    except Exception as error:
        raise StoreError(f"{path} does not hold a usable {name}: {error}") from error


def _parameters_of(model: Any) -> dict[str, Any]:
    """Parameters as a file holds them: as they are, or as the model says."""
    stored = getattr(model, "stored_parameters", None)
    return stored() if stored is not None else model.get_params(deep=False)


def _without_places(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters but for paths: a file must not say where the next fit writes."""
    return {name: value for name, value in parameters.items() if name not in NOT_STORED}
