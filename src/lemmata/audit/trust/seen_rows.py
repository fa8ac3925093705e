"""Whether rows were trained on: test rows looked for among training rows, as a whole.

Rows may repeat by chance. How often, the training rows tell by themselves: the share of them that have a twin, as high as it
may be (Clopper–Pearson). More equal rows than that are no chance; and where some column has another number in every row, one is
enough (a rule of thumb: such numbers do not repeat).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import binom

from lemmata.audit.kernel.claims import RULE_OF_THUMB, STATISTICAL, Evidence, at_most, unknown
from lemmata.audit.kernel.concentration import clopper_pearson

Array = np.ndarray

CHANCE = 1e-3  # of so many repeated rows, below which they are no coincidence
COPIES = 0.01  # of the rows that may be copies of others
FEW = 5  # different rows from which on copies are looked for
SOME = 20  # rows without a repetition from which on a column is taken never to repeat
SEEN = "these rows were trained on: they say nothing about new ones"


def row_keys(*tables: Any) -> list[Array]:
    """One key per row of each table: equal rows have equal keys, whatever form each table has.

    Numbers are compared in the coarsest float type of any table: a row that went through float32 is the same row.
    """
    tables = tuple(X if sp.issparse(X) or hasattr(X, "dtypes") else np.asarray(X) for X in tables)
    types = [
        np.dtype(one) for X in tables for one in getattr(X, "dtypes", [getattr(X, "dtype", None)])
    ]
    floats = [one for one in types if one.kind == "f"]
    coarse = min(floats, default=np.dtype(np.float64), key=lambda one: one.itemsize)
    if all(one.kind in "fiub" for one in types):
        keys = _sparse_keys if any(map(sp.issparse, tables)) else _dense_keys
        return [keys(X, coarse) for X in tables]
    rows = (X.toarray() if sp.issparse(X) else np.asarray(X, dtype=object) for X in tables)
    return [_digests(_words(row).encode() for row in X.tolist()) for X in rows]


def _dense_keys(rows: Any, dtype: Any) -> Array:
    rows = np.asarray(rows).reshape(len(rows), -1).astype(dtype)
    rows = np.ascontiguousarray(np.where(rows == 0, 0, rows).astype(dtype))  # −0 equals 0
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()


def _sparse_keys(X: Any, dtype: Any) -> Array:
    # SciPy has no sparse float16: its numbers are rounded to it, and kept as float32
    kept = np.promote_types(dtype, np.float32)
    X = sp.csr_array(X if sp.issparse(X) else np.asarray(X), dtype=kept, copy=True)
    X.data = X.data.astype(dtype).astype(X.dtype)
    X.sum_duplicates()
    X.eliminate_zeros()
    at, cuts = X.indices.astype(np.int64), zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return _digests(at[a:b].tobytes() + X.data[a:b].tobytes() for a, b in cuts)


def _digests(texts: Iterable[bytes]) -> Array:
    """A hash of 128 bits for each text, so that equal ones mean equal texts."""
    whole = b"".join(hashlib.blake2b(text, digest_size=16).digest() for text in texts)
    return np.frombuffer(whole, dtype="V16")


def _words(row: Any) -> str:
    """A row of anything as text; 1, 1.0 and True are one number."""
    cells = row if isinstance(row, list) else [row]
    return repr([float(x) if isinstance(x, int | float | np.number) else x for x in cells])


def copies(X: Any) -> int:
    """Count the rows that repeat an earlier one, where some column has finer numbers than would repeat by chance; else 0.

    A rule of thumb: among the different rows no two share the number in that column, and most of these numbers have more
    than three decimals.
    """
    (keys,) = row_keys(X)
    _, first = np.unique(keys, return_index=True)
    if len(first) == len(keys) or sp.issparse(X):
        return 0
    columns = np.asarray(X).reshape(len(keys), -1)[first]
    if columns.dtype.kind != "f" or len(columns) < FEW:
        return 0
    with np.errstate(invalid="ignore", over="ignore"):
        fine = (np.mod(1000 * columns.astype(np.float64), 1) > 1e-6).mean(axis=0) > 0.5
    alone = any(len(np.unique(columns[:, j])) == len(columns) for j in np.flatnonzero(fine))
    return len(keys) - len(first) if alone else 0


def why_copies(X: Any, n: int) -> str:
    """Why these rows are fewer draws than rows; empty where few of them are copies."""
    again = copies(X)
    if again <= COPIES * n:
        return ""
    return f"{again:,} of {n:,} rows are copies of others, and no draws of their own: pass each row once"


@dataclass(frozen=True)
class Memory:
    """Rows that a model was trained on, all of them or some, and the test rows in the same form."""

    rows: Any
    test: Any
    what: str
    all: bool


def memory_of(model: Any, X: Any, train: Any) -> Memory | None:
    """The training rows as they were given, or as the model keeps them (neighbours, kernels, support vectors)."""
    if train is not None:
        return Memory(train, X, "the training rows", True)
    steps = getattr(model, "steps", None)
    if steps is not None:  # what reaches the last step of a pipeline
        model, X = model[-1], model[:-1].transform(X) if len(model) > 1 else X
    for name in ("_fit_X", "X_fit_", "X_train_"):
        if (rows := getattr(model, name, None)) is not None and _is_table(rows, X):
            return Memory(rows, X, f"the {rows.shape[0]:,} rows that the model keeps", True)
    if (rows := getattr(model, "support_vectors_", None)) is not None and _is_table(rows, X):
        return Memory(rows, X, f"the {rows.shape[0]:,} support vectors", False)
    return None


def _is_table(rows: Any, X: Any) -> bool:
    wide = np.shape(X)[1] if len(np.shape(X)) == 2 else getattr(X, "shape", (0, 0))[-1]
    return len(getattr(rows, "shape", ())) == 2 and rows.shape[0] > 0 and rows.shape[1] == wide


def judge_seen(found: Memory) -> Evidence:
    """No test row equals a training row. Where some do: more than chance would have it, or numbers that do not repeat, or open.

    Chance is what training rows do among themselves: the share of them that have a twin, as high as it may be.
    """
    known, keys = row_keys(found.rows, found.test)
    seen, n = int(np.isin(keys, known).sum()), len(keys)
    advice = f"{seen:,} of {n:,} rows are among {found.what}: test on rows that were held out"
    if not seen:
        return at_most(0, 0, unit="trained on")
    counts = np.unique(known, return_counts=True)[1]
    expected = clopper_pearson(int(counts[counts > 1].sum()), len(known), CHANCE)[1]
    if binom.sf(seen - 1, n, expected) < CHANCE:
        return at_most(seen / n, expected, advice, unit="share trained on", kind=STATISTICAL,
                       confidence=1 - CHANCE)  # fmt: skip
    if _never_repeats(found.rows):
        return at_most(seen, 0, advice, unit="trained on", kind=RULE_OF_THUMB)
    return unknown(
        f"{seen:,} of {n:,} rows equal training rows, by chance or because they were trained on"
    )


def _never_repeats(rows: Any) -> bool:
    """Whether some column has another number in every row: what equals such a row is that row."""
    if sp.issparse(rows) or len(rows) < SOME:
        return False
    columns = np.asarray(rows).reshape(len(rows), -1)
    if columns.dtype.kind not in "fiu":
        return False
    return any(len(np.unique(columns[:, j])) == len(columns) for j in range(columns.shape[1]))
