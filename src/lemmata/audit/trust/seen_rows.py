"""Whether rows were trained on: test rows looked for among training rows, as a whole.

Rows may repeat by chance. How often, the training rows tell by themselves: the share of them that have a twin, as high as it
may be (Clopper–Pearson). More equal rows than that are no chance; and where several columns have another number in every row,
one is enough (a rule of thumb: columns are taken as independent). Rows of numbers that equal none may still lie nearer to
training rows than these do to each other (near_rows.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import binom, poisson

from lemmata.audit.kernel import claims
from lemmata.audit.kernel.concentration import clopper_pearson
from lemmata.audit.trust.near_rows import columns_alike, find_near, rewrite

Array = np.ndarray

CHANCE = 1e-3  # of so many repeated rows, below which they are no coincidence
COPIES = 0.01  # of the rows that may be copies of others, or of training rows
FEW = 5  # different rows from which on copies are looked for
BEYOND = 5.0  # times as many equal pairs of rows as independent columns have
SOME = 20  # rows without a repetition, from which on they tell how seldom a column repeats
SEEN = "these rows were trained on: they say nothing about new ones"
OTHER_FORM = "in other units, or in another order? Pass train= in the form of the test rows"


def row_keys(*tables: Any) -> list[Array]:
    """One key per row of each table: equal rows have equal keys, whatever form each table has.

    Numbers are compared in the coarsest float type of any table: a row that went through float32 is the same row.
    """
    tables = tuple(X if sp.issparse(X) or hasattr(X, "dtypes") else np.asarray(X) for X in tables)
    types = [
        one if isinstance(one, np.dtype) else np.dtype(object)  # words and categories of pandas
        for X in tables
        for one in getattr(X, "dtypes", [getattr(X, "dtype", None)])
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
    """Count the rows that repeat an earlier one, where that is no chance; else 0.

    A rule of thumb: some column has finer numbers than would repeat by chance (among the different rows no two share the
    number there, and most of these numbers have more than three decimals); or most of the different rows occur more than
    once, and there are five times as many pairs of equal rows as if the columns were independent of each other.
    """
    (keys,) = row_keys(X)
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    again = len(keys) - len(first)
    if not again or len(first) < FEW:
        return 0
    if not sp.issparse(X):
        columns = np.asarray(X).reshape(len(keys), -1)[first]
        if columns.dtype.kind == "f" and _is_fine(columns):
            return again
    often = 2 * (counts > 1).sum() > len(counts)
    return again if often and _pairs(counts) > BEYOND * _independent_pairs(X) else 0


def _is_fine(columns: Array) -> bool:
    """Whether some column has another number, of more than three decimals, in every row."""
    with np.errstate(invalid="ignore", over="ignore"):
        fine = (np.mod(1000 * columns.astype(np.float64), 1) > 1e-6).mean(axis=0) > 0.5
    return any(len(np.unique(columns[:, j])) == len(columns) for j in np.flatnonzero(fine))


def _pairs(counts: Array) -> float:
    """The share of pairs of rows that are equal, from how often each row occurs."""
    n = float(counts.sum())
    return float((counts * (counts - 1.0)).sum() / (n * (n - 1)))


def _independent_pairs(X: Any) -> float:
    """The share of pairs of rows that would be equal if columns were independent: the product of those of the columns."""
    share = 1.0
    X = sp.csc_array(X) if sp.issparse(X) else np.asarray(X).reshape(np.shape(X)[0], -1)
    for j in range(X.shape[1]):
        column = X[:, [j]].toarray() if sp.issparse(X) else X[:, [j]]
        share *= _pairs(np.unique(row_keys(column)[0], return_counts=True)[1])
        if share == 0:
            break
    return share


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
    # columns of both have one order and one unit, since they are parts of one table
    same_form: bool = True


def memory_of(model: Any, X: Any, train: Any) -> Memory | None:
    """The training rows as they were given, or as the model keeps them (neighbours, kernels, support vectors)."""
    if train is not None:
        return Memory(train, X, "the training rows", True, same_form=False)
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


def judge_seen(found: Memory) -> claims.Evidence:
    """At most 1 % of the test rows equal a training row, or nearly. Where more do: beyond chance, or open.

    Tables that were given apart may have columns in another order or other units. Rows that are found when that is undone
    were trained on; and columns that are distributed otherwise than in training are left out, since they may be meant.
    """
    rows, names = found.rows, [getattr(X, "columns", None) for X in (found.rows, found.test)]
    if names[0] is not None and names[1] is not None and set(names[0]) == set(names[1]):
        rows = rows[list(names[1])]
    tables = _numbers(rows, found.test)
    if tables is not None and tables[0].shape[1] != tables[1].shape[1]:
        wide, here = (X.shape[1] for X in tables)
        return claims.unknown(f"{wide} columns in training, {here} here: {OTHER_FORM}")
    judged = _judge(rows, found.test, found.what)
    if found.same_form or tables is None or judged.verdict == claims.FAILS:
        return judged
    if any(map(sp.issparse, tables)):
        return judged
    train, test = (X.astype(np.float64) for X in tables)
    for rows, others in rewrite(train, test):
        other = _judge(rows, others, found.what)
        if other.verdict == claims.FAILS and other.kind == claims.STATISTICAL:
            return replace(other, note="in another order of columns, or in other units")
    alike = columns_alike(train, test)
    if not alike.mean() > 0.5:
        few = f"{len(alike) - alike.sum()} of {len(alike)} columns are"
        return claims.unknown(f"{few} distributed otherwise than in training: {OTHER_FORM}")
    return judged if alike.all() else _judge(train[:, alike], test[:, alike], found.what)


def require_unseen(found: Memory) -> None:
    """Raise CannotTell unless these rows are shown to be new."""
    judged = judge_seen(found)
    if judged.verdict != claims.HOLDS:
        raise claims.CannotTell(SEEN if judged.verdict == claims.FAILS else judged.note)


def _judge(rows: Any, test: Any, what: str) -> claims.Evidence:
    """Chance is what training rows do among themselves: the share of them that have a twin, as high as it may be."""
    known, keys = row_keys(rows, test)
    # each test row once, however often it was passed
    keys, new = np.unique(keys, return_index=True)
    seen, n = int(np.isin(keys, known).sum()), len(keys)
    advice = f"{seen:,} of {n:,} rows are among {what}: test on rows that were held out"
    _, first, counts = np.unique(known, return_index=True, return_counts=True)
    expected = clopper_pearson(int(counts[counts > 1].sum()), len(known), CHANCE)[1]
    if binom.sf(seen - 1, n, expected) < CHANCE:
        return claims.at_most(seen / n, expected, advice, unit="share trained on", kind=claims.STATISTICAL,
                       confidence=1 - CHANCE)  # fmt: skip
    share, note, near = seen / n, "equality was looked at", None
    if numbers := _numbers(rows, test):
        near = find_near(numbers[0][first], counts, numbers[1][new])
    if near is not None and near.too_near:
        advice = f"they lie nearer to {what} than those lie to each other: test on held-out rows"
        return claims.at_most(
            near.share, near.allowed, advice, "share too near", kind=claims.STATISTICAL
        )
    if seen and poisson.sf(seen - 1, _expected_by_chance(rows, n)) < CHANCE:
        return claims.at_most(seen, 0, advice, unit="trained on", kind=claims.RULE_OF_THUMB)
    if near is not None:
        share = max(share, near.nearly / near.rows)
        note = f"distances of {near.rows:,} rows" if near.rows < n else ""
    elif numbers and not seen:
        return claims.unknown("too few training rows to tell what is near to one")
    if share <= COPIES:
        return claims.at_most(share, COPIES, unit="share of nearly equal rows", note=note)
    return claims.unknown(
        f"{share:.1%} of {n:,} rows equal training rows, or nearly: by chance, or because they were trained on"
    )


def _numbers(*tables: Any) -> list[Any] | None:
    """Tables of numbers, sparse or as two-dimensional arrays; None if they are something else."""
    found = [sp.csr_array(X) if sp.issparse(X) else np.asarray(X) for X in tables]
    if any(X.dtype.kind not in "fiub" for X in found):
        return None
    return [X if sp.issparse(X) else X.reshape(len(X), -1) for X in found]


def _expected_by_chance(rows: Any, n: int) -> float:
    """How many of n other rows may equal one of these by chance, by the columns in which these never repeat; ∞ without such.

    Of N rows, N²/2 pairs without a repetition leave a chance of at most 2 ln(1/CHANCE)/N² for a pair to agree in a column. A
    row that agrees in one column is no rare thing among many (numbers rounded to six decimals); in several, it is that row.
    """
    if sp.issparse(rows) or (N := len(rows)) < SOME:
        return np.inf
    columns = np.asarray(rows).reshape(N, -1)
    if columns.dtype.kind not in "fiu":
        return np.inf
    unique = sum(len(np.unique(columns[:, j])) == N for j in range(columns.shape[1]))
    return n * N * (2 * np.log(1 / CHANCE) / N**2) ** unique if unique else np.inf
