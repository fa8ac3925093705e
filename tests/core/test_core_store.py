"""Files: everything comes back as it went in, and nothing that was tampered with comes back at all."""

import copy
import errno
import io
import json
import math
import os
import pickle
import random
import resource
import stat
import struct
import time
from dataclasses import dataclass, make_dataclass

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import scipy.sparse as sp
from core_toys import DATA, Halving, same_value
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as safetensors_bytes

import lemmata
from lemmata.core import (
    Checkpoint,
    MaxSteps,
    Restarts,
    StoreError,
    Trace,
    run,
    storable,
    store,
)
from lemmata.core.files import encoding


def through_a_file(value):
    arrays = {}
    encoded = store.encode({"value": value}, arrays)
    manifest = {"format": store.FORMAT, "kind": "test", "library": "0", "content": encoded}
    return store.read_from(io.BytesIO(signed(manifest, arrays)), "test")["value"]


def signed(manifest, arrays):
    """A file with the right hash, whatever it holds: what an attacker would make."""
    manifest = {key: value for key, value in manifest.items() if key != "hash"}
    manifest["hash"] = store.hash_of(manifest, arrays)
    return safetensors_bytes(arrays, metadata={"lemmata": json.dumps(manifest)})


# --- round trips ------------------------------------------------------------------------------------------------------

DTYPES = st.sampled_from(["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(np.dtype(dtype), SHAPES))
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats() | st.text(max_size=20)
    | st.sampled_from([np.float32(1.5), np.int8(-3), np.bool_(True), np.float16(np.inf)])
)  # fmt: skip
KEYS = st.text(max_size=5) | st.integers() | st.tuples(st.integers(), st.text(max_size=3))
VALUES = st.recursive(
    SCALARS | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
@settings(max_examples=120)
def test_nested_values_come_back_as_they_went_in(value):
    assert same_value(through_a_file(value), value)


@given(ARRAYS, st.sampled_from(["C", "F"]))
@settings(max_examples=100)
def test_arrays_keep_dtype_shape_and_memory_order(array, order):
    array = np.asarray(array, order=order)
    back = through_a_file(array)
    assert isinstance(back, np.ndarray)
    assert same_value(back, array)
    assert (back.flags.c_contiguous, back.flags.f_contiguous) == (
        array.flags.c_contiguous,
        array.flags.f_contiguous,
    )
    assert back.flags.writeable


def test_views_and_foreign_byte_orders_come_back_as_plain_native_arrays():
    X = np.arange(24.0).reshape(4, 6)
    for view in (
        X[::2, ::-1],
        X[:, 1:3],
        X.T[1:4],
        X.astype(">f8"),
        X.astype(">i4"),
        np.broadcast_to(1.0, (2, 3)),
    ):
        back = through_a_file(view)
        np.testing.assert_array_equal(back, view)
        assert back.dtype == view.dtype.newbyteorder("=")


@given(
    hnp.arrays(hnp.unicode_string_dtypes(max_len=6) | st.just(np.dtype("U4")), SHAPES),
    st.booleans(),
)
@settings(max_examples=50)
def test_arrays_of_text_come_back(array, as_object):
    array = array.astype(object) if as_object else array
    back = through_a_file(array)
    assert back.shape == array.shape
    assert back.dtype.kind == array.dtype.kind
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("cls", [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix])
@pytest.mark.parametrize("shape", [(0, 3), (5, 4), (3, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, bool])
def test_sparse_matrices_come_back_in_their_own_class(cls, shape, dtype):
    matrix = cls(sp.random_array(shape, density=0.4, rng=0).astype(dtype))
    back = through_a_file(matrix)
    assert type(back) is cls
    assert (back.shape, back.dtype) == (matrix.shape, matrix.dtype)
    np.testing.assert_array_equal(back.toarray(), matrix.toarray())


def test_other_sparse_formats_come_back_as_csr():
    matrix = sp.coo_array(np.eye(3))
    assert (through_a_file(matrix) != matrix.tocsr()).nnz == 0


@pytest.mark.parametrize("bits", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_generators_go_on_where_they_were(bits):
    rng = np.random.Generator(getattr(np.random, bits)(5))
    rng.standard_normal(7)
    rng.integers(10, dtype=np.int32)  # leaves half a word behind
    back = through_a_file(rng)
    np.testing.assert_array_equal(
        back.integers(10, size=5, dtype=np.int32), rng.integers(10, size=5, dtype=np.int32)
    )
    np.testing.assert_array_equal(back.random(9), rng.random(9))
    children = zip(back.spawn(2), rng.spawn(2), strict=True)
    assert all(one.integers(2**60) == other.integers(2**60) for one, other in children)


def test_old_random_states_keep_the_gaussian_they_have_in_stock():
    rng = np.random.RandomState(3)
    rng.randn()  # makes two and keeps one
    back = through_a_file(rng)
    np.testing.assert_array_equal(back.randn(5), rng.randn(5))


def test_seed_sequences_go_on_spawning():
    seeds = np.random.SeedSequence(7, spawn_key=(1,))
    seeds.spawn(2)
    back = through_a_file(seeds)
    assert (
        back.spawn(1)[0].generate_state(3).tolist() == seeds.spawn(1)[0].generate_state(3).tolist()
    )


def test_traces_and_states_come_back():
    solution = run(Restarts(Halving(), n=2, stop=MaxSteps(3)), DATA, stop=MaxSteps(6), rng=0)
    assert same_value(through_a_file(solution.state), solution.state)
    np.testing.assert_array_equal(through_a_file(solution.trace).seconds, solution.trace.seconds)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (len, "builtin_function_or_method"),
        (1j, "complex"),
        (np.array([1j]), "complex128"),
        (np.array([1, "a"], dtype=object), "object"),
        (np.array([b"a"]), "S1"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "datetime64"),
        (np.zeros(2, dtype="f4,i4"), "f4"),
        (np.longdouble(1.5), "longdouble|float128"),
        (np.ma.masked_equal([1, 2], 2), "masked array"),
        (b"bytes", "bytes"),
        ({1, 2}, "set"),
        (sp.csr_array(np.array([[1j]])), "complex128"),
        (object(), "object"),
        (Halving(), "Halving"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_by_its_place_and_kind(value, named):
    with pytest.raises(StoreError, match=rf"here\['deep'\]\[1\].*{named}.* file .*holds? "):
        store.encode({"deep": [0, value]}, {}, "here")


# --- objects and versions ---------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class StoreToy:
    version = 3

    a: int
    b: int

    @classmethod
    def upgrade(cls, fields, version):
        return {"a": fields["a"], "b": fields.get("b", version)}


def an_object(**changes):
    content = {
        "$": "object",
        "class": "StoreToy",
        "version": 3,
        "fields": {"a": 1, "b": 2},
        **changes,
    }
    return store.decode(content, {})


def test_old_versions_are_upgraded_and_newer_ones_refused():
    assert an_object() == StoreToy(1, 2)
    assert an_object(version=2, fields={"a": 1}) == StoreToy(1, 2)
    with pytest.raises(
        StoreError, match="StoreToy has version 4, this lemmata reads up to 3; upgrade lemmata"
    ):
        an_object(version=4)
    with pytest.raises(StoreError, match="are not those of version"):
        an_object(fields={"a": 1, "c": 2})
    with pytest.raises(StoreError, match=r"unknown class 'os\.system'"):
        an_object(**{"class": "os.system"})


def test_an_old_version_without_an_upgrade_is_refused(monkeypatch):
    monkeypatch.setattr(Trace, "version", 2)
    with pytest.raises(
        StoreError, match="Trace has version 1, this lemmata reads 2; fit the model again"
    ):
        store.decode({"$": "object", "class": "Trace", "version": 1, "fields": {}}, {})


def test_a_renamed_class_keeps_its_name_in_files_and_checkpoints(monkeypatch):
    before = storable(make_dataclass("StoredBefore", [("x", int)], frozen=True))
    written, mark = store.encode(before(3), {}), store.digest(before(3))
    monkeypatch.delitem(encoding._STORABLE, "StoredBefore")
    names = {"stored_name": "StoredBefore"}
    since = make_dataclass("RenamedSince", [("x", int)], frozen=True, namespace=names)
    monkeypatch.setitem(encoding._STORABLE, "StoredBefore", storable(since))
    assert (store.encode(since(3), {}), store.digest(since(3))) == (written, mark)
    assert store.decode(written, {}) == since(3)


def test_two_storable_classes_of_one_name_are_our_own_slip():
    with pytest.raises(TypeError, match="two storable classes are called StoreToy"):
        storable(type("StoreToy", (), {"__module__": "elsewhere"}))


def test_the_digest_follows_the_content():
    same = store.digest([Halving(0.5), {"a": (1, 2)}])
    assert same == store.digest([Halving(0.5), {"a": (1, 2)}])
    others = (
        [Halving(0.25), {"a": (1, 2)}],
        [Halving(0.5), {"a": [1, 2]}],
        (Halving(0.5), {"a": (1, 2)}),
    )
    assert len({same, *map(store.digest, others)}) == 4


# --- writing ----------------------------------------------------------------------------------------------------------


def files(folder):
    return sorted(file.name for file in folder.iterdir())


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a"
    store.write(path, "test", {"x": 1})
    old = path.read_bytes()

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="a could not be written: No space left on device") as caught:
        store.write(path, "test", {"x": 2})
    assert caught.value.errno == errno.ENOSPC

    def interrupted(handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.write(path, "test", {"x": 3})
    monkeypatch.undo()
    assert path.read_bytes() == old
    assert files(tmp_path) == ["a"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_really_full_disk_is_reported(tmp_path, monkeypatch):
    real = open
    monkeypatch.setattr(
        "builtins.open", lambda name, mode="r": real("/dev/full" if mode == "wb" else name, mode)
    )
    with pytest.raises(OSError, match="could not be written: No space left"):
        store.write(tmp_path / "a", "test", {"x": 1})
    assert files(tmp_path) == []


def test_the_content_is_on_the_disk_before_it_has_its_name_and_the_name_after(
    tmp_path, monkeypatch
):
    events, fsync, replace = [], os.fsync, os.replace

    def noted_fsync(handle):
        events.append("fsync folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "fsync file")
        fsync(handle)

    def noted_replace(source, target):
        events.append("rename")
        # a rename across disks is not atomic
        assert os.path.dirname(source) == os.path.dirname(target)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    store.write(tmp_path / "a", "test", {"x": 1})
    assert events == ["fsync file", "rename", "fsync folder"]


def test_impossible_places_are_named(tmp_path, monkeypatch):
    with pytest.raises(IsADirectoryError, match="is a folder; give the file a name in it"):
        store.write(tmp_path, "test", {})
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere for a"):
        store.write(tmp_path / "nowhere" / "a", "test", {})
    real = open

    def read_only(name, mode="r"):
        if mode == "wb":
            raise PermissionError(errno.EACCES, "Permission denied", str(name))
        return real(name, mode)

    # root may write anywhere, so the system cannot be asked to refuse
    monkeypatch.setattr("builtins.open", read_only)
    with pytest.raises(PermissionError, match="a could not be written: Permission denied"):
        store.write(tmp_path / "a", "test", {})


def test_a_link_keeps_pointing_at_the_new_content(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store.write(tmp_path / "link", "test", {"x": 1})
    assert (tmp_path / "link").is_symlink()
    assert store.read(tmp_path / "real", "test") == {"x": 1}


# --- files of other kinds ---------------------------------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
OTHERS = {
    "empty": b"",
    "short": b"abc",
    "png": PNG,
    "csv": b"a,b\n1,2\n" * 100,
    "pickle": pickle.dumps({"a": np.arange(100)}),
    "json": b'{"format": 1, "kind": "model"}',
    "zeros": bytes(1000),
    "plain safetensors": safetensors_bytes({"a": np.arange(3.0)}),
    "safetensors with other metadata": safetensors_bytes(
        {"a": np.arange(3.0)}, metadata={"format": "pt"}
    ),
    "huge header": struct.pack("<Q", 2**63) + bytes(100),
    "no object": struct.pack("<Q", 4) + b"null",
    "numbers as metadata": struct.pack("<Q", 20) + b'{"__metadata__":[1]}',
    "deep": struct.pack("<Q", 200_000) + b"[" * 200_000,
}


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
def test_files_of_other_kinds_are_refused_by_name(tmp_path, content):
    path = tmp_path / "thing"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"thing: this is .*not a lemmata model"):
        lemmata.load(path)


def test_a_folder_a_device_and_nothing_at_all_are_refused(tmp_path):
    with pytest.raises(StoreError, match="is a folder, not a lemmata model"):
        lemmata.load(tmp_path)
    with pytest.raises(StoreError, match="is no regular file"):
        lemmata.load("/dev/zero")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing"):
        lemmata.load(tmp_path / "nothing")


def test_a_checkpoint_is_not_a_model_and_a_newer_format_asks_for_an_upgrade(tmp_path):
    run(Halving(), DATA, stop=MaxSteps(1), callbacks=[Checkpoint(tmp_path / "c")], rng=0)
    with pytest.raises(StoreError, match="this is a lemmata checkpoint, not a model"):
        lemmata.load(tmp_path / "c")
    newer = signed({"format": 3, "kind": "model", "library": "9.0", "content": None}, {})
    (tmp_path / "n").write_bytes(newer)
    with pytest.raises(
        StoreError, match=r"written in format 3 by lemmata 9\.0, .*up to 2; upgrade lemmata"
    ):
        lemmata.load(tmp_path / "n")


# --- models -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    X = np.random.default_rng(0).normal(size=(30, 4)) * [4.0, 3.0, 2.0, 1.0]
    return lemmata.PCA(n_components=2, random_state=0).fit(X)


def test_only_our_own_models_are_saved(tmp_path, model):
    class PCA(lemmata.PCA):
        pass

    for other in (PCA(), {"a": 1}, object()):
        with pytest.raises(TypeError, match="save takes lemmata's own models"):
            lemmata.save(other, tmp_path / "a")
    with pytest.raises(Exception, match="not fitted"):
        lemmata.save(lemmata.PCA(), tmp_path / "a")
    assert files(tmp_path) == []


def content_of(model):
    return {
        "class": type(model).__name__,
        "parameters": model.get_params(deep=False),
        "attributes": model.stored_attributes(),
    }


class Shadow:
    """What lemmata.load does with a file, without the file."""

    def __init__(self, folder):
        self.path = folder / "model"

    def load(self, content):
        store.write(self.path, "model", content)
        return lemmata.load(self.path)


HOSTILE = {
    "unknown class": lambda c: c.update({"class": "Model"}),
    "a path": lambda c: c.update({"class": "../../x"}),
    "a function": lambda c: c.update({"class": "os.system"}),
    "a function of ours": lambda c: c.update({"class": "load"}),
    "no class": lambda c: c.pop("class"),
    "a class that is a list": lambda c: c.update({"class": ["PCA"]}),
    "a class that is a dict": lambda c: c.update({"class": {"a": 1}}),
    "no parameters": lambda c: c.pop("parameters"),
    "parameters that are a list": lambda c: c.update(parameters=[1]),
    "an unknown parameter": lambda c: c["parameters"].update(shell="rm"),
    "a parameter named by a number": lambda c: c["parameters"].update({3: 4}),
    "NaN as a parameter": lambda c: c["parameters"].update(tol=math.nan),
    "a parameter of the wrong type": lambda c: c["parameters"].update(n_components="many"),
    "a parameter out of range": lambda c: c["parameters"].update(max_iter=-1),
    "no attributes": lambda c: c.pop("attributes"),
    "attributes that are text": lambda c: c.update(attributes="none"),
    "an attribute that shadows a method": lambda c: c["attributes"].update(transform=1),
    "a private attribute": lambda c: c["attributes"].update(__class__=1),
    "a missing attribute": lambda c: c["attributes"].pop("components_"),
    "the wrong number of features": lambda c: c["attributes"].update(n_features_in_=5),
    "an infinite number of features": lambda c: c["attributes"].update(n_features_in_=math.inf),
    "the wrong number of components": lambda c: c["attributes"].update(components_=np.ones((3, 4))),
    "components that are a vector": lambda c: c["attributes"].update(components_=np.ones(8)),
    "components that are a list": lambda c: c["attributes"].update(components_=[[1.0] * 4] * 2),
    "components that are text": lambda c: c["attributes"].update(components_=np.full((2, 4), "a")),
    "a mean of the wrong length": lambda c: c["attributes"].update(mean_=np.ones(3)),
    "a certificate that is text": lambda c: c["attributes"].update(certificate_="trust me"),
    "a trace that is a list": lambda c: c["attributes"].update(trace_=[1, 2]),
    "a reason that is a number": lambda c: c["attributes"].update(stopped_=3),
}


@pytest.mark.parametrize("tamper", HOSTILE.values(), ids=HOSTILE)
def test_hostile_contents_with_a_right_hash_are_refused(tmp_path, model, tamper):
    content = content_of(model)
    tamper(content)
    with pytest.raises(StoreError, match="model"):
        Shadow(tmp_path).load(content)


def test_an_untampered_content_loads(tmp_path, model):
    back = Shadow(tmp_path).load(content_of(model))
    np.testing.assert_array_equal(back.components_, model.components_)
    assert str(back.certificate_) == str(model.certificate_)


def test_a_certificate_cannot_contradict_its_numbers(model):
    """There is no verdict to forge in a file: the numbers give it. What puts a claim off can only weaken it."""
    arrays = {}
    encoded = store.encode(model.certificate_, arrays)
    claim = encoded["fields"]["claims"]["items"][0]["fields"]
    assert "verdict" not in claim
    claim["measured"] = 2 * claim["bound"] + 1
    name = claim["name"]
    assert store.decode(encoded, dict(arrays)).failed[0] == name
    for state in ("holds", "fails", 1):
        claim["state"] = state
        with pytest.raises(ValueError, match="not a claim"):
            store.decode(encoded, dict(arrays))


# --- ten thousand mutated files ---------------------------------------------------------------------------------------


def seeds_of_mutation(tmp_path, model):
    """A model, a checkpoint and a file with one of everything, each with its kind."""
    lemmata.save(model, tmp_path / "m")
    restarts = Restarts(Halving(), n=2, stop=MaxSteps(2))
    run(restarts, DATA, stop=MaxSteps(4), callbacks=[Checkpoint(tmp_path / "c")], rng=0)
    everything = {
        "numbers": [1, -2.5, math.nan, None, True, (1, 2)],
        "arrays": [
            np.arange(6.0).reshape(2, 3, order="F"),
            np.zeros((0, 2), np.int8),
            np.float32(2),
        ],
        "text": np.array(["a", "bc"]),
        "sparse": sp.random_array((4, 3), density=0.5, rng=0, format="csr"),
        "random": [np.random.default_rng(0), np.random.RandomState(0), np.random.SeedSequence(1)],
    }
    store.write(tmp_path / "e", "everything", everything)
    return [
        ((tmp_path / name).read_bytes(), kind)
        for name, kind in (("m", "model"), ("c", "checkpoint"), ("e", "everything"))
    ]


def mutated_bytes(raw, dice):
    """Flip, cut, insert, repeat or overwrite; as likely in the header as in the arrays behind it."""
    header = 8 + int.from_bytes(raw[:8], "little")
    at = (
        dice.randrange(8)
        if dice.random() < 0.1
        else dice.randrange(header if dice.random() < 0.6 else len(raw))
    )
    kind = dice.randrange(20)
    if kind == 4:  # harmless: the same header, spaced out
        spaced = json.dumps(json.loads(raw[8:header]), indent=dice.randrange(1, 9)).encode()
        return struct.pack("<Q", len(spaced)) + spaced + raw[header:]
    kind = kind % 5
    if kind == 0:
        return raw[:at] + bytes([raw[at] ^ (1 << dice.randrange(8))]) + raw[at + 1 :]
    if kind == 1:
        return raw[:at]
    if kind == 2:
        return raw[:at] + dice.randbytes(dice.randrange(1, 9)) + raw[at:]
    if kind == 3:
        return raw[:at] + raw[at + dice.randrange(1, 64) :]
    other = dice.randrange(len(raw))
    return raw[:at] + raw[other : other + 16] + raw[at + 16 :]


NASTY = [
    None, True, -1, 0, 1, 2**63, 10**400, 1.5, "", "../../x", "os.system", "a0", "a99", "\ud800", [], {}, [[]], {"$": None},
    {"$": "object", "class": "Model", "version": 1, "fields": {}}, {"$": "array", "key": "a0"}, {"$": "float", "value": "1"},
    {"$": "tuple", "items": 3}, {"$": "dict", "items": [[[], 1]]}, {"$": "dict", "items": [1]}, {"$": []},
    {"$": "text", "shape": [10**12], "object": False, "items": ["a"]},
    {"$": "text", "shape": [9001], "object": False, "items": ["a" * 40_000, *["a"] * 9000]},
    {"$": "sparse", "class": "csr_array", "shape": [10**12, 10**12], "data": {"$": "array", "key": "a0"},
     "indices": {"$": "array", "key": "a0"}, "indptr": {"$": "array", "key": "a0"}},
    {"$": "SeedSequence", "state": {"$": "dict", "items": [["entropy", 1], ["pool_size", 10**10]]}},
    {"$": "Generator", "state": {"$": "dict", "items": [["bit_generator", "os"]]}},
]  # fmt: skip


def places(value, found):
    """Every (container, key) in a JSON value."""
    for key, item in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        found.append((value, key))
        places(item, found)
    return found


def mutated_content(manifest, arrays, dice):
    """Change a few places of the manifest or the arrays and sign the result, as an attacker would."""
    manifest, arrays = json.loads(json.dumps(manifest)), dict(arrays)
    for _ in range(dice.choice([1, 1, 1, 2, 4])):
        container, key = dice.choice(places(manifest, []))
        action = dice.randrange(5)
        if action == 0 and isinstance(container, dict):
            container[dice.choice(["../../x", "$", "class", "__init__", "a"])] = container.pop(key)
        elif action == 1:
            del container[key]
        elif action == 2 and arrays:
            name = dice.choice(sorted(arrays))
            array = np.atleast_1d(arrays[name])
            shapes = [
                array[:0],
                array.reshape(-1)[:1],
                array[None],
                array.astype(np.int8),
                array[::-1],
            ]
            arrays[name] = np.ascontiguousarray(dice.choice(shapes))
        else:
            container[key] = copy.deepcopy(dice.choice(NASTY))
    try:
        return signed(manifest, arrays)
    except ValueError:  # the attacker's own tool refuses 2**63 or NaN here
        return b""


def unsigned(manifest):
    return {key: value for key, value in manifest.items() if key != "hash"}


def test_ten_thousand_mutated_files_load_equal_or_raise_a_clear_error(tmp_path, model):
    """Never another exception, never a hang, never much memory."""
    seeds = seeds_of_mutation(tmp_path, model)
    originals = [store.encode(store.read_from(io.BytesIO(raw), kind), {}) for raw, kind in seeds]
    dice, refused, accepted = random.Random(0), 0, 0
    for round_ in range(15_000):
        which = round_ % len(seeds)
        raw, kind = seeds[which]
        try:
            value = store.read_from(io.BytesIO(mutated_bytes(raw, dice)), kind)
        except StoreError:
            refused += 1
            continue
        accepted += 1
        assert store.encode(value, {}) == originals[which]
    assert refused > 12_000
    assert accepted > 100  # white space in the header, for one


def test_thousands_of_signed_hostile_files_never_surprise(tmp_path, model):
    from safetensors.numpy import load as arrays_of

    seeds = seeds_of_mutation(tmp_path, model)
    dice, refused, path = random.Random(1), 0, tmp_path / "hostile"
    parsed = []
    for raw, kind in seeds:
        size = int.from_bytes(raw[:8], "little")
        parsed.append(
            (
                json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["lemmata"]),
                arrays_of(raw),
                kind,
            )
        )
    before, slowest = peak_memory(), 0.0
    for round_ in range(1000):
        manifest, arrays, kind = parsed[round_ % len(parsed)]
        path.write_bytes(mutated_content(manifest, arrays, dice))
        began = time.process_time()  # of this process, however busy the machine is
        try:
            back = lemmata.load(path) if kind == "model" else store.read(path, kind)
        except StoreError:
            refused += 1
        else:
            if kind == "model":
                use(back)
        slowest = max(slowest, time.process_time() - began)
    assert refused > 500
    assert peak_memory() - before < 200e6
    assert slowest < 5.0


def peak_memory():
    """Bytes, of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def use(model):
    """A model that loads can be used: it transforms or says in a ValueError why not, and its certificate prints."""
    str(model.certificate_)
    model.certificate_._repr_html_()
    repr(model.trace_)
    repr(model)
    assert isinstance(model, lemmata.PCA)


def test_claimed_sizes_are_compared_with_the_file_before_anything_is_allocated(tmp_path):
    header = {"a0": {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 2**43]}}
    manifest = {"format": 1, "kind": "model", "content": {"$": "array", "key": "a0"}}
    header["__metadata__"] = {"lemmata": json.dumps(manifest)}
    text = json.dumps(header).encode()
    with pytest.raises(StoreError, match="damaged or truncated"):
        store.read_from(io.BytesIO(struct.pack("<Q", len(text)) + text + bytes(64)), "model")
