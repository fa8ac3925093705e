"""Diagnosis of counts of clicks and plays: every cell of the matrix is fitted, the missing ones as weak zeros.

    minimise  Σ over all i, j of (1 + α a_ij) ([a_ij > 0] − u_iᵀv_j)²  + …

So nothing is left open by the pattern of entries: n·m cells against k(n + m − k) degrees of freedom. What may be missing is
anything to learn from: rows and columns without a single count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.completion.observed import Observed
from lemmata.completion.recovery import Diagnosis, degrees_of_freedom
from lemmata.core.loop import warn_user

EXAMPLES = 5  # rows or columns named in a report
# of the sum of all counts in the largest tenth; planted counts: raw ones lose a tenth of NDCG above, 3 % below
HEAVY = 0.5


def warn_of_heavy_tails(counts: np.ndarray) -> None:
    """Warn where the largest tenth of the counts has most of their sum."""
    n, total = len(counts), float(np.sum(counts, dtype=np.float64))
    tenth = n // 10
    if not tenth or not total > 0:
        return
    largest = np.partition(counts, n - tenth)[n - tenth :]
    share = float(np.sum(largest, dtype=np.float64)) / total
    if share > HEAVY:
        warn_user(
            f"a tenth of the counts makes up {share:.0%} of their sum, so that a few of them decide the fit; pass "
            "np.log1p(counts): recommendations from such counts are usually better by their logarithms.",
            UserWarning,
        )


@dataclass(frozen=True, eq=False)
class ImplicitDiagnosis(Diagnosis):
    """The same report where all cells count; `entries` are the cells, `counts` those with something in them."""

    counts: int = 0

    def __str__(self) -> str:
        (n, m), k = self.shape, self.rank
        lines = [
            f"rank {k} from all {self.entries:,} cells of {n:,} × {m:,}: implicit feedback",
            f"  counts           {self.counts:,} ({self.counts / max(self.entries, 1):.2%}); the other cells are weak zeros",
            f"  cells            {self.entries:,} {'≥' if self.entries >= self.degrees_of_freedom else '<'} "
            f"{self.degrees_of_freedom:,} = k(n + m − k)",
            f"  without counts   {self._without('row', self.empty_rows, self.examples[0])}",
            f"                   {self._without('column', self.empty_columns, self.examples[1])}",
        ]
        return "\n".join([*lines, *(f"  → {line}" for line in self.advice)])

    @staticmethod
    def _without(what: str, number: int, names: tuple[str, ...]) -> str:
        return f"{number:,} {what}s" + (f", such as {', '.join(names)}" if names else "")


def diagnose_implicit(observed: Any, k: int) -> ImplicitDiagnosis:
    """Say what counts can determine of factors of rank k, before any fit with feedback="implicit".

    observed : Observed, or what Observed.of takes; known zeros are no counts
    """
    A = Observed.of(observed)
    A = A.select(A.values > 0)
    n, m = A.shape
    empty = [np.flatnonzero(part == 0) for part in (A.row_counts, A.column_counts)]
    names = tuple(
        tuple(str(labels.names[i]) if labels is not None else str(i) for i in part[:EXAMPLES])
        for part, labels in zip(empty, (A.row_labels, A.column_labels), strict=True)
    )
    advice = [
        "all cells count, so their pattern leaves nothing open; whether the lists are any good is for certify(train, test)"
    ]
    if len(empty[0]):
        advice.append("users without counts are recommended what is popular")
    if len(empty[1]):
        advice.append("items without counts are recommended to nobody")
    return ImplicitDiagnosis(
        shape=(n, m),
        rank=int(k),
        entries=math.prod((n, m)),
        degrees_of_freedom=degrees_of_freedom(n, m, k),
        largest_rank=min(n, m),
        core_rank=min(n, m),
        core=(n, m, n * m),
        thin_rows=0,
        thin_columns=0,
        empty_rows=len(empty[0]),
        empty_columns=len(empty[1]),
        examples=(names[0], names[1]),
        components=1,
        component_sizes=((n, m),),
        completable=True,
        determined=1.0,
        coherence=None,
        advice=tuple(advice),
        counts=A.n_observed,
    )
