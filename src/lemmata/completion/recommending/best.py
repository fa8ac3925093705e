"""The n best of many products, exactly: all scores of a block of users are one matrix product, of which each row keeps n."""

from __future__ import annotations

import numpy as np

from lemmata.completion.observed import Entries
from lemmata.core.engine import pick, worth_compiling

Array = np.ndarray

BLOCK_BYTES = 64 * 2**20  # of scores at a time
# Scores of all users together. NumPy takes 8 ns for each, the kernel 3 (610 × 9,724 to 3,000 × 5,500, rank 20): up to a quarter
# of a second here, where the kernel would save a tenth and first has to be compiled.
WORTH_COMPILING = 2**25
TWIN_SCORES = 2**20  # at a time without kernels: where all are equal, all of them are sorted


def best(
    P: Array, Q: Array, n: int, seen: Entries | None = None, who: Array | None = None
) -> tuple[Array, Array]:
    """Positions (b, n) and scores (b, n) of the n largest p_iᵀq_j of each row of P Qᵀ, best first, ties by position.

    seen, who : row i leaves out the columns that row who[i] of `seen` lists; none if who[i] is −1

    >>> best(np.array([[1.0], [-1.0]]), np.array([[2.0], [0.0], [3.0]]), n=2)[0]
    array([[2, 0], [1, 0]])
    """
    (b, k), m = P.shape, len(Q)
    compiled = worth_compiling(b * m, above=WORTH_COMPILING)
    best_into = pick(compiled, "lemmata.completion.recommending").best_into
    n = min(n, m)
    places, scores = np.empty((b, n), np.int64), np.empty((b, n))
    if not b or not n:
        return places, scores
    P, Q = np.ascontiguousarray(P), np.ascontiguousarray(Q)
    if seen is None or who is None:
        seen, who = (
            Entries(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0)),
            np.full(b, -1),
        )
    # a k-term product errs by at most (k/2)·eps·‖p‖‖q‖ on each side of a comparison; k·eps each leaves margin
    longest = np.sqrt(np.einsum("jk,jk->j", Q, Q, dtype=np.float64).max())
    slack = (
        2
        * k
        * np.finfo(Q.dtype).eps
        * longest
        * np.sqrt(np.einsum("ik,ik->i", P, P, dtype=np.float64))
    )
    rows = max((BLOCK_BYTES // Q.itemsize if compiled else TWIN_SCORES) // m, 1)
    approx = np.empty((min(rows, b), m), Q.dtype)
    for start in range(0, b, rows):
        here = slice(start, min(start + rows, b))
        block = np.matmul(P[here], Q.T, out=approx[: here.stop - start])
        best_into(scores[here], places[here], block, P[here], Q, slack[here], *seen[:2], who[here])
    return places, scores
