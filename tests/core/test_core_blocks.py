"""Whatever the data comes as, it is one sequence of row blocks with the same numbers."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

from lemmata.core import Blocks, blocks
from lemmata.core.blocks import is_stream, rows_per_block

da = pytest.importorskip("dask.array")


@pytest.fixture
def small_blocks(monkeypatch):
    """Many blocks from little data."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    monkeypatch.setattr(blocks, "MIN_ROWS", 7)
    monkeypatch.setattr(blocks, "MAX_ROWS", 7)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(60, 3))


class Stream:
    """A re-iterable of blocks; `later` replaces the blocks from the second pass on."""

    def __init__(self, parts, later=None):
        self.parts, self.later, self.passes = parts, later, 0

    def __iter__(self):
        self.passes += 1
        yield from self.parts if self.later is None or self.passes == 1 else self.later


def joined(data):
    """All the rows, and all the weights if there are any."""
    pairs = []
    for rows, weights in data:
        assert weights is None or len(weights) == rows.shape[0]
        pairs.append((rows, weights))
    rows, weights = zip(*pairs, strict=True)
    whole = np.vstack([part.toarray() if sp.issparse(part) else part for part in rows])
    return whole, None if weights[0] is None else np.concatenate(weights)


def forms(X, folder):
    """The same matrix as everything the library takes."""
    X.astype(X.dtype).tofile(folder / "x.bin")
    mapped = np.memmap(folder / "x.bin", dtype=X.dtype, mode="r", shape=X.shape)
    return {
        "C order": X,
        "F order": np.asfortranarray(X),
        "a view": np.repeat(X, 2, axis=0)[::2],
        "csr": sp.csr_array(X),
        "csc": sp.csc_array(X),
        "csr matrix": sp.csr_matrix(X),
        "memmap": mapped,
        "list of blocks": np.array_split(X, 4),
        "list of sparse blocks": [sp.csr_array(part) for part in np.array_split(X, 4)],
        "stream": Stream([X[:1], X[1:1], X[1:]]),
        "dask": da.from_array(X, chunks=(13, 2)),
        "dask, one chunk": da.from_array(X, chunks=-1),
    }


FORMS = [
    "C order", "F order", "a view", "csr", "csc", "csr matrix", "memmap", "list of blocks", "list of sparse blocks", "stream",
    "dask", "dask, one chunk",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_rows_twice(tmp_path, small_blocks, X, form, dtype):
    X = X.astype(dtype)
    data = Blocks.of(forms(X, tmp_path)[form])
    assert (data.shape, data.dtype) == (X.shape, dtype)
    for _ in range(2):
        for rows, weights in data:
            assert rows.dtype == dtype
            assert weights is None
            assert sp.issparse(rows) or type(rows) is np.ndarray
        np.testing.assert_array_equal(joined(data)[0], X)
    assert data.total_weight == 60


@pytest.mark.parametrize("form", FORMS)
def test_weights_are_cut_where_the_rows_are(tmp_path, small_blocks, X, form):
    weights = np.arange(60.0)
    data = Blocks.of(forms(X, tmp_path)[form], weights)
    for rows, part in data:
        assert len(part) == rows.shape[0]
    np.testing.assert_array_equal(joined(data)[1], weights)
    assert data.total_weight == weights.sum()


@pytest.mark.parametrize("form", FORMS)
def test_the_fingerprint_knows_content_and_weights(tmp_path, small_blocks, X, form):
    changed, weights = X.copy(), np.ones(60)
    changed[31, 1] += 1e-9
    mark = Blocks.of(forms(X, tmp_path)[form]).fingerprint()
    assert mark == Blocks.of(forms(X.copy(), tmp_path)[form]).fingerprint()
    others = [
        Blocks.of(forms(changed, tmp_path)[form]).fingerprint(),
        Blocks.of(forms(X, tmp_path)[form], weights).fingerprint(),
        Blocks.of(forms(X, tmp_path)[form], 2 * weights).fingerprint(),
    ]
    assert len({mark, *others}) == 4


def test_blocks_of_blocks_are_the_same_blocks(X):
    data = Blocks.of(X)
    assert Blocks.of(data) is data


def test_the_cuts_depend_on_the_shape_alone_and_cover_every_row():
    for n, d in [(1, 1), (10, 3), (70_000, 2), (1_000_000, 500), (5, 100_000), (3000, 3000)]:
        step = rows_per_block(n, d, 8)
        assert 1 <= step <= blocks.MAX_ROWS
        assert -(-n // step) >= 1


# --- mapped files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def mapped_file(tmp_path):
    """A file of 64 × 1024 doubles behind a header of 100 bytes, and its content."""
    content = np.random.default_rng(1).normal(size=(64, 1024))
    (tmp_path / "x.bin").write_bytes(bytes(100) + content.tobytes())
    return tmp_path / "x.bin", content


@pytest.fixture
def eight_rows(monkeypatch):
    monkeypatch.setattr(blocks, "rows_per_block", lambda n, d, itemsize: 8)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_reading_a_mapped_file_leaves_it_and_the_users_changes_alone(mapped_file, eight_rows, mode):
    path, content = mapped_file
    mapped = np.memmap(path, dtype=float, mode=mode, offset=100, shape=content.shape)
    expected = content.copy()
    if mode != "r":
        mapped[::3] += 1.0  # not flushed to the file
        expected[::3] += 1.0
    for _ in range(2):
        np.testing.assert_array_equal(joined(Blocks.of(mapped))[0], expected)
    np.testing.assert_array_equal(mapped, expected)
    on_disk = np.frombuffer(path.read_bytes()[100:]).reshape(content.shape)
    np.testing.assert_array_equal(on_disk, content if mode == "c" else expected)


@pytest.mark.parametrize(
    "cut",
    [
        lambda X: X[5:41],
        lambda X: X[::2],
        lambda X: X[:, 3:900],
        lambda X: X[::-1],
        lambda X: X.T,
        lambda X: X[[3, 1, 2]],
        lambda X: X.copy(),
        lambda X: X[X[:, 0] > 0],
        lambda X: X + 1,
    ],
)
@pytest.mark.parametrize("mode", ["r", "c"])
def test_parts_and_copies_of_mapped_files_are_read_right(mapped_file, eight_rows, cut, mode):
    path, content = mapped_file
    part = cut(np.memmap(path, dtype=float, mode=mode, offset=100, shape=content.shape))
    np.testing.assert_array_equal(joined(Blocks.of(part))[0], cut(content))
    np.testing.assert_array_equal(np.asarray(part), cut(content))


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="needs Linux's /proc")
def test_the_pages_of_a_mapped_file_do_not_pile_up(tmp_path):
    shape = (64 * 1024, 128)  # 64 MB, 8 blocks
    np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=float, shape=shape)[:] = 1.0
    data = Blocks.of(np.load(tmp_path / "x.npy", mmap_mode="r"))
    before, highest = mapped_bytes(tmp_path / "x.npy"), 0
    for rows, _ in data:
        rows.sum()
        highest = max(highest, mapped_bytes(tmp_path / "x.npy"))
    assert before == 0
    assert highest < 0.9 * 64 * 2**20
    assert mapped_bytes(tmp_path / "x.npy") < 2**20


def mapped_bytes(path):
    """How much of a file is in this process's memory."""
    total, inside = 0, False
    for line in open("/proc/self/smaps"):  # noqa: SIM115
        if "-" in line.split()[0] and ":" not in line.split()[0]:
            inside = line.rstrip().endswith(str(path))
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "once",
    [
        lambda X: (part for part in [X]),
        lambda X: iter([X]),
        lambda X: map(np.asarray, [X]),
        lambda X: zip([X]),
    ],
)
def test_what_can_be_read_only_once_is_refused(X, once):
    stream = once(X)
    assert is_stream(stream)
    with pytest.raises(
        TypeError,
        match="can be read only once and a fit needs several passes; pass a list of blocks",
    ):
        Blocks.of(stream)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "the stream of blocks is empty"),
        ([np.ones((2, 3)), np.ones((2, 4))], "a block has 4 features, the blocks before it have 3"),
        ([np.ones(3)], r"a block has shape \(3,\); pass two-dimensional ones"),
        ([5], r"a block has shape \(\); pass two-dimensional ones"),
        ([np.ones((2, 2, 2))], "pass two-dimensional ones"),
        ([np.array([["a", "b"]])], "blocks hold real numbers"),
        ([np.ones((2, 2), dtype=complex)], "blocks hold real numbers"),
        ([np.ones((2, 2), dtype=object)], "blocks hold real numbers"),
        ([np.array([[1.0, np.nan]])], "contains NaN: the first in row 0, column 1"),
        ([np.array([[1.0, -np.inf]])], "contains infinity: the first in row 0, column 1"),
        ([np.array([[np.inf, -np.inf]], dtype=np.float32)], "contains infinity: .* column 0"),
        ([np.ones((4, 2)), sp.csr_array([[0.0, np.nan]])], "contains NaN: .* row 4, column 1"),
    ],
)
def test_streams_that_are_no_matrix_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        Blocks.of(Stream(parts))


def test_finite_numbers_too_large_to_add_up_are_finite():
    huge = np.full((4, 2), 1.7e308)
    np.testing.assert_array_equal(joined(Blocks.of([huge, huge]))[0], np.full((8, 2), 1.7e308))


@pytest.mark.parametrize(
    "later",
    [
        lambda X: [X[:30]],
        lambda X: [],
        lambda X: [X, X],
        lambda X: [X, X[:1]],
        lambda X: [X[:, :2]],
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_stream_that_does_not_repeat_itself_is_refused(X, later, weighted):
    data = Blocks.of(Stream([X], later=later(X)), np.ones(60) if weighted else None)
    with pytest.raises(ValueError, match=r"it has to repeat itself|a block has 2 features"):
        joined(data)


def test_integer_and_mixed_blocks_become_floats_of_the_widest_kind():
    data = Blocks.of([np.ones((2, 2), dtype=np.float32), np.ones((1, 2), dtype=np.int8)])
    assert {rows.dtype for rows, _ in data} == {np.dtype(np.float64)} == {data.dtype}
    data = Blocks.of([np.ones((2, 2), dtype=np.float32), np.ones((1, 2), dtype=np.float32)])
    assert {rows.dtype for rows, _ in data} == {np.dtype(np.float32)} == {data.dtype}


def test_lists_of_numbers_and_frames_are_no_streams(X):
    import pandas as pd

    for thing in (
        [[1, 2], [3, 4]],
        [],
        "text",
        {"a": 1},
        X,
        pd.DataFrame(X),
        sp.csr_array(X),
        da.from_array(X),
    ):
        assert not is_stream(thing)
    assert is_stream([X, X])
    assert is_stream([pd.DataFrame(X)])


# --- dask -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool, np.float16])
def test_dask_arrays_of_other_numbers_become_floats(dtype):
    X = (np.arange(12).reshape(6, 2) % 2).astype(dtype)
    data = Blocks.of(da.from_array(X, chunks=(4, 1)))
    assert data.dtype == np.float64
    for rows, _ in data:
        assert rows.dtype == np.float64
    np.testing.assert_array_equal(joined(data)[0], X)


def test_dask_arrays_that_are_no_matrix_are_refused(X):
    lazy = da.from_array(X, chunks=(13, -1))
    with pytest.raises(ValueError, match="the dask array has 1 dimensions; a matrix has two"):
        Blocks.of(lazy[:, 0])
    with pytest.raises(
        ValueError, match=r"chunks of unknown size: call X\.compute_chunk_sizes\(\)"
    ):
        Blocks.of(lazy[lazy[:, 0] > 0])
    with pytest.raises(ValueError, match="blocks hold real numbers"):
        joined(Blocks.of(lazy.astype(complex)))
    with pytest.raises(ValueError, match="NaN: the first in row 20, column 1"):
        joined(Blocks.of(da.where(lazy == lazy[20, 1], np.nan, lazy)))
