"""Whether rows were trained on: test rows looked for among training rows, as a whole.

Rows may repeat by chance. How often, the training rows tell by themselves: the share of them that have a twin, as high as it
may be (Clopper–Pearson). More equal rows than that are no chance; and where some column has another number in every row, one is
enough (a rule of thumb: such numbers do not repeat).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import binom

from lemmata.audit.concentration import clopper_pearson
from lemmata.core.certificate import RULE_OF_THUMB, STATISTICAL, Evidence, at_most, unknown

Array = np.ndarray

CHANCE = 1e-3  # of so many repeated rows, below which they are no coincidence
SOME = 20  # rows without a repetition from which on a column is taken never to repeat
SEEN = "these rows were trained on: they say nothing about new ones"


def row_keys(X: Any, single: bool = False) -> Array:
    """One key per row: equal rows have equal keys. single : compare as float32."""
    if sp.issparse(X):
        X = sp.csr_array(X, dtype=np.float32 if single else np.float64)
        X.sum_duplicates()
        X.eliminate_zeros()
        cut = [slice(a, b) for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
        return np.array([hash((X.indices[part].tobytes(), X.data[part].tobytes())) for part in cut])
    rows = np.asarray(X)
    if rows.dtype.kind in "fiub":
        rows = rows.reshape(len(rows), -1).astype(np.float32 if single else np.float64)
        rows = np.ascontiguousarray(np.where(rows == 0, 0, rows))  # −0 equals 0
        return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    return np.array([hash(repr(row)) for row in rows.tolist()])


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
    single = np.float32 in [getattr(part, "dtype", None) for part in (found.rows, found.test)]
    known, keys = row_keys(found.rows, single), row_keys(found.test, single)
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
