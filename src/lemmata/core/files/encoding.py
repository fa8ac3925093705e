"""Values as JSON and arrays, and back: what files are made of.

    >>> import numpy as np
    >>> arrays = {}
    >>> encode({"a": (1, np.ones(2))}, arrays)
    {'$': 'dict', 'items': [['a', {'$': 'tuple', 'items': [1, {'$': 'array', 'key': 'a0'}]}]]}
    >>> decode(_, arrays)
    {'a': (1, array([1., 1.]))}

Nothing is ever pickled or imported by a name from a file: objects come from the classes marked `@storable`. What comes back is
as large as what was read, within a factor: every array is used once, and text is not padded beyond measure.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from lemmata.core.files.layout import check_layout, check_types

# characters of padding that any array of texts may have; beyond, as many as 16 times its text
PADDING = 2**24
_STORABLE: dict[str, type] = {}
_GENERATORS = {
    name: getattr(np.random, name) for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
}

Cls = TypeVar("Cls", bound=type)


class StoreError(ValueError):
    """A file cannot be read as what it should be, or a value cannot be written."""


def stored_name(cls: type) -> str:
    """The name of a class in files and checkpoints: its own, or `stored_name` where it was renamed."""
    return vars(cls).get("stored_name", cls.__name__)


def storable(cls: Cls) -> Cls:
    """Let files hold instances of a class: a dataclass, or one with `to_fields()` and `from_fields(dict)`.

    `cls.version` (1 if absent) is the version of its field names: rename one, raise it. A class that can still read old
    fields has `upgrade(fields, version) -> fields`. `cls.layout` says what its arrays look like (core/files/layout.py).
    """
    name = stored_name(cls)
    known = _STORABLE.get(name, cls)
    # the same twice: a module reloaded
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TypeError(
            f"two storable classes are called {name}: in {known.__module__} and {cls.__module__}."
        )
    _STORABLE[name] = cls
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
    if type(value) is _STORABLE.get(stored_name(type(value))):
        return _encode_object(value, arrays, where)
    raise StoreError(
        f"{where} is a {type(value).__name__}, which a lemmata file cannot hold; "
        "it holds numbers, text, arrays, lists, dicts and lemmata's own objects."
    )


def _encode_array(value, arrays, where):
    array = np.asarray(value)
    texts = array.dtype == object and all(isinstance(item, str) for item in array.flat)
    if texts or array.dtype.kind == "U":
        return _encode_text(array, arrays)
    masked = isinstance(value, np.ma.MaskedArray)
    if masked or array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        kind = "a masked array" if masked else f"an array of {array.dtype}"
        raise StoreError(f"{where} is {kind}; a lemmata file holds real numbers and text.")
    array = np.array(array, dtype=array.dtype.newbyteorder("="), order="K")
    columns = array.flags.f_contiguous and not array.flags.c_contiguous
    key = f"a{len(arrays)}"
    arrays[key] = np.ascontiguousarray(array.T) if columns else np.asarray(array, order="C")
    kind = "array" if isinstance(value, np.ndarray) else "scalar"
    # the order of an array decides how BLAS sums over it: a state that lost it would not resume to the bit
    return {"$": kind, "key": key, "order": "F"} if columns else {"$": kind, "key": key}


def _encode_text(array, arrays):
    """UTF-8 bytes one after the other, and where each text ends: a list in JSON would take ten times as long."""
    texts = [text.encode("utf-8", "surrogatepass") for text in array.ravel().tolist()]
    text, ends = f"a{len(arrays)}", f"a{len(arrays) + 1}"
    arrays[text] = np.frombuffer(b"".join(texts), dtype=np.uint8)
    arrays[ends] = np.cumsum([len(text) for text in texts], dtype=np.int64)
    shape, is_object = list(array.shape), array.dtype == object
    return {"$": "text", "shape": shape, "object": is_object, "text": text, "ends": ends}


def _encode_sparse(value, arrays, where):
    value = value if value.format in ("csr", "csc") else value.tocsr()
    found = {"$": "sparse", "class": type(value).__name__, "shape": [*map(int, value.shape)]}
    for name in ("data", "indices", "indptr"):
        found[name] = encode(getattr(value, name), arrays, f"{where}.{name}")
    return found


def _encode_random(value, arrays, where):
    if isinstance(value, np.random.SeedSequence):
        return {"$": "SeedSequence", "state": encode(value.state, arrays, where)}
    if isinstance(value, np.random.RandomState):
        return {"$": "RandomState", "state": encode(value.get_state(legacy=False), arrays, where)}
    bits, seeds = value.bit_generator, value.bit_generator.seed_seq
    seeds = seeds if isinstance(seeds, np.random.SeedSequence) else None  # what spawn() draws from
    state, seeds = (encode(part, arrays, where) for part in (bits.state, seeds))
    return {"$": "Generator", "state": state, "seeds": seeds}


def _encode_object(value, arrays, where):
    if hasattr(value, "to_fields"):
        content = value.to_fields()
    else:
        content = {one.name: getattr(value, one.name) for one in fields(value)}
    inside = {name: encode(item, arrays, f"{where}.{name}") for name, item in content.items()}
    name, version = stored_name(type(value)), getattr(value, "version", 1)
    return {"$": "object", "class": name, "version": version, "fields": inside}


_room: ContextVar[int | None] = ContextVar("room", default=None)  # bytes of the file that is read


@contextmanager
def reading(size: int) -> Iterator[None]:
    """Around the decoding of a file of so many bytes."""
    mark = _room.set(size)
    try:
        yield
    finally:
        _room.reset(mark)


def check_room(n_bytes: float, what: str) -> None:
    """Refuse to make something out of a file that is out of proportion to it: 64 MB and 16 times its size are fine.

    For classes whose `from_fields` makes more than it is given, such as one pointer per column of a matrix that a file
    claims to be 10⁹ wide. Outside of files nothing is refused.
    """
    size = _room.get()
    if size is not None and n_bytes > 2**26 + 16 * size:
        raise StoreError(f"{what} would take {n_bytes / 1e6:,.0f} MB, the file has {size:,} bytes.")


def decode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The value that `encode` was given: equal to it, of the same dtype (in native byte order) and memory order.

    Takes the arrays out of `arrays`: a file that names one twice is refused, since each mention may become a copy. A NumPy
    float64 comes back as a float, sparse matrices in other formats than CSC as CSR.
    """
    if isinstance(value, list):
        return [decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    decoder = _DECODERS.get(value.get("$"))
    if decoder is None:
        raise StoreError(f"the manifest holds a value of unknown kind {value.get('$')!r}.")
    return decoder(value, arrays)


def _import_part(name: Any) -> type | None:
    """Import a class that models take as a parameter, where it does not come with their module."""
    from lemmata import registry

    if name in registry.PARTS:
        import_module(registry.PARTS[name])
    return _STORABLE.get(name)


def _decode_object(value, arrays):
    cls = _STORABLE.get(value["class"]) or _import_part(value["class"])
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
        made = cls.from_fields(content)
    else:
        if is_dataclass(cls) and set(content) != {field.name for field in fields(cls)}:
            raise StoreError(f"the fields of {value['class']} are not those of version {known}.")
        made = cls(**content)
    if is_dataclass(made):
        check_types(made)
    check_layout(made, {})
    return made


def _take(key, arrays):
    """An array of the file, which nobody else gets."""
    if key not in arrays:
        raise StoreError(f"the array {str(key)[:40]!r} is not there, or is named twice.")
    return arrays.pop(key)


def _decode_array(value, arrays):
    array = _take(value["key"], arrays)
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


# What the state of a bit generator holds: whole numbers below a bound, or arrays of such. NumPy believes whatever it is given,
# and a position beyond the end of its key is read from whatever lies there.
WORD, LONG, HUGE = 2**32, 2**64, 2**128
_KEPT = {"has_uint32": 2, "uinteger": WORD}
STATES: dict[str, dict[str, Any]] = {
    "MT19937": {"state": {"key": (624, "uint32"), "pos": 625}},
    "PCG64": {"state": {"state": HUGE, "inc": HUGE}, **_KEPT},
    "PCG64DXSM": {"state": {"state": HUGE, "inc": HUGE}, **_KEPT},
    "Philox": {
        "state": {"counter": (4, "uint64"), "key": (2, "uint64")}, "buffer": (4, "uint64"), "buffer_pos": 5, **_KEPT,
    },
    "SFC64": {"state": {"state": (4, "uint64")}, **_KEPT},
}  # fmt: skip


def _check_bits(found: Any, wanted: Any, where: str) -> None:
    """Compare the state of a bit generator with what there may be in it."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict) or not set(wanted) <= set(found):
            raise StoreError(f"{where} of a random generator is not complete.")
        for name, inner in wanted.items():
            _check_bits(found[name], inner, name)
    elif isinstance(wanted, tuple):
        size, dtype = wanted
        if not isinstance(found, np.ndarray) or found.shape != (size,) or found.dtype != dtype:
            raise StoreError(f"{where} of a random generator is not {wanted[0]} × {wanted[1]}.")
    elif isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < wanted:
        raise StoreError(f"{where} of a random generator is not within 0 … {wanted - 1}.")


def _decode_random(value, arrays):
    state = decode(value["state"], arrays)
    if value["$"] == "SeedSequence":
        words = (state["entropy"], state["spawn_key"])
        # SeedSequence mixes every number in, one after the other
        if not 4 <= state["pool_size"] <= 64 or any(len(np.atleast_1d(one)) > 256 for one in words):
            raise StoreError("a seed sequence has an impossible pool, or too many numbers.")
        return np.random.SeedSequence(**state)
    seeds = decode(value.get("seeds"), arrays)
    name = state["bit_generator"]
    _check_bits(state, STATES[name], "the state")
    bits = _GENERATORS[name](0 if seeds is None else seeds)
    if value["$"] == "RandomState":
        _check_bits(state, {"has_gauss": 2}, "the state")
        random = np.random.RandomState(bits)
        random.set_state(state)
        return random
    bits.state = state
    return np.random.Generator(bits)


def _decode_text(value, arrays):
    items = _texts(value, arrays)
    # NumPy gives every item the room of the longest; texts that differ wildly in length are objects
    padded, text = len(items) * max(map(len, items), default=0), sum(map(len, items))
    plain = not value["object"] and padded <= PADDING + 16 * text
    if plain:
        return np.array(items, dtype=np.str_).reshape(value["shape"])
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(value["shape"])


def _texts(value, arrays) -> list[str]:
    if "items" in value:  # format 1
        if not all(isinstance(item, str) for item in value["items"]):
            raise StoreError("a text array holds something that is not text.")
        return value["items"]
    text, ends = (_take(value[name], arrays) for name in ("text", "ends"))
    for part, dtype in ((text, np.uint8), (ends, np.int64)):
        if part.dtype != dtype or part.ndim != 1:
            raise StoreError("the parts of a text array are of the wrong kind.")
    steps = np.diff(ends, prepend=0)
    if (steps < 0).any() or (ends[-1] if len(ends) else 0) != len(text):
        raise StoreError("the parts of a text array do not fit together.")
    raw, cuts = text.tobytes(), [0, *ends.tolist()]
    return [raw[start:stop].decode("utf-8", "surrogatepass") for start, stop in pairwise(cuts)]


_DECODERS: dict[Any, Callable[[dict, dict[str, np.ndarray]], Any]] = {
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
        name = type(value).__name__
        names = [one.name for one in fields(value)]
        parts = [[one, digest(getattr(value, one), f"{name}.{one}")] for one in names]
        content: Any = [stored_name(type(value)), parts]
    elif isinstance(value, (list, tuple)):
        content = [type(value).__name__, [digest(item, where) for item in value]]
    elif isinstance(value, Mapping):
        pairs = [[digest(k, where), digest(v, f"{where}[{k!r}]")] for k, v in value.items()]
        content = ["dict", pairs]
    else:
        content = encode(value, arrays, where)
    return hash_of(content, arrays)[:16]


def hash_of(content: Any, arrays: Mapping[str, np.ndarray]) -> str:
    sha = hashlib.sha256(json_of(content))
    for key in sorted(arrays):
        array = arrays[key]
        sha.update(f"{key} {array.dtype.str} {array.shape}".encode())
        sha.update(np.ascontiguousarray(array).data if array.size else b"")
    return sha.hexdigest()


def json_of(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
