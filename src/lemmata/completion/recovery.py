"""Can this matrix be completed at all? What 2.6 of the notes says about k, the entries and the factors, as numbers.

degrees_of_freedom   k(n + m − k): fewer entries never determine a rank-k matrix                            CIL (2.43)
coupon_collector     n·H_n random entries until every row has one                                           CIL (2.45)
coherence            μ of the subspaces: how much a single row or column matters                            CIL (2.47)
sampling_bound       how many random entries suffice                                                        CIL Thm 2.6.1
rank_squared_bound   the same, with fewer logarithms and more coherence                                     CIL20 Thm 3.7
diagnose             all of it for given entries: thin rows, unreachable blocks, the largest rank they can determine

>>> A = np.full((4, 4), np.nan)
>>> A[:2, :2] = A[2:, 2:] = 1.0
>>> found = diagnose(A, k=1)
>>> found.components, found.largest_rank, found.completable
(2, 1, False)
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from lemmata.audit.completion.identifiability.generic_rank import Freedom, freedom
from lemmata.audit.completion.identifiability.known_entries import (
    SEARCH,
    components,
    core,
    core_rank,
    degrees_of_freedom,
    largest_rank,
    pattern,
)
from lemmata.completion.observed import Observed

Array = np.ndarray
BLOCK = 2048  # rows of a projection matrix looked at together: 32 MB
EXAMPLES = 5
# (n + m)k up to which the Jacobian is decomposed to tell which entries are determined
UNKNOWNS = 2000
EULER = 0.5772156649015329


# --- counting ---------------------------------------------------------------------------------------------------------


def coupon_collector(n: int, risk: float | None = None) -> float:
    """Number of draws from n coupons until all were seen: n·H_n on average (CIL (2.45)).

    With a risk δ, enough draws that the chance of missing one is at most δ: n ln(n/δ), since a given coupon is missed t times
    with probability (1 − 1/n)^t ≤ e^(−t/n).
    """
    if n < 1:
        raise ValueError(f"n={n} coupons; pass at least 1.")
    if risk is not None:
        if not 0 < risk < 1:
            raise ValueError(f"risk={risk} is not a probability between 0 and 1.")
        return n * math.log(n / risk)
    if n < 10**6:
        return n * float(np.sum(1.0 / np.arange(1, n + 1)))
    return n * (math.log(n) + EULER) + 0.5  # H_n − ln n − γ = 1/2n − …; the next term is 1/12n²


# --- coherence --------------------------------------------------------------------------------------------------------


class Coherence(NamedTuple):
    """The smallest μ in each condition of CIL (2.47); small is good, and no matrix of rank k is below about 1.

    For n × m matrices (Candès & Tao 2010) n becomes the size of the space: |p_ij − δ_ij k/n| ≤ P√k/n,
    |q_ij − δ_ij k/m| ≤ Q√k/m, |e_ij| ≤ E√k/√(nm).
    """

    P: float  # of the column space
    Q: float  # of the row space
    E: float  # of Σ u_i v_iᵀ
    leverage: float  # μ₀ = max p_ii·n/k, q_jj·m/k, between 1 and max(n, m)/k (Recht 2011)

    @property
    def mu(self) -> float:
        """The μ of Theorem 2.6.1: the largest of the three, at least 1."""
        return max(1.0, self.P, self.Q, self.E)


def coherence(U: Any, V: Any) -> Coherence:
    """μ of the matrix UVᵀ, U: n × k, V: m × k. P, Q and E are looked at block by block, never formed."""
    U, V = (np.asarray(part, dtype=np.float64) for part in (U, V))
    if U.ndim != 2 or V.ndim != 2 or U.shape[1] != V.shape[1]:
        raise ValueError(
            f"the factors have shapes {U.shape} and {V.shape}; pass U (n, k) and V (m, k) with one k."
        )
    (Q_U, R_U), (Q_V, R_V) = np.linalg.qr(U), np.linalg.qr(V)
    W, s, Zt = np.linalg.svd(R_U @ R_V.T)
    k = int((s > max(U.shape[0], V.shape[0]) * np.finfo(float).eps * s.max(initial=0.0)).sum())
    if k == 0:
        raise ValueError("UVᵀ is zero; the zero matrix has no row and column space.")
    left, right = Q_U @ W[:, :k], Q_V @ Zt[:k].T
    (n, m), root = (len(left), len(right)), math.sqrt(k)
    P, top = _projection_coherence(left)
    Q, side = _projection_coherence(right)
    E = _largest_product(left, right) * math.sqrt(n * m) / root
    return Coherence(P, Q, E, max(top * n, side * m) / k)


def _projection_coherence(B: Array) -> tuple[float, float]:
    """μ of the projection BBᵀ and its largest diagonal entry, B (n, k) orthonormal."""
    n, k = B.shape
    diagonal = np.einsum("ik,ik->i", B, B)
    off = max(float(np.abs(diagonal - k / n).max()), _largest_product(B, B, skip_diagonal=True))
    return off * n / math.sqrt(k), float(diagonal.max())


def _largest_product(X: Array, Y: Array, skip_diagonal: bool = False) -> float:
    """max |x_iᵀy_j|. Rows are sorted by length, so that blocks that cannot exceed what was found need no look."""
    rows, columns = (
        np.argsort(-np.einsum("ik,ik->i", part, part), kind="stable") for part in (X, Y)
    )
    X, Y = X[rows], Y[columns]
    x, y = np.linalg.norm(X, axis=1), np.linalg.norm(Y, axis=1)
    best = 0.0
    for a in range(0, len(X), BLOCK):
        if x[a] * y[0] <= best:
            break
        for b in range(a if skip_diagonal else 0, len(Y), BLOCK):  # of a symmetric matrix one half
            if x[a] * y[b] <= best:
                break
            products = np.abs(X[a : a + BLOCK] @ Y[b : b + BLOCK].T)
            if skip_diagonal and a == b:
                np.fill_diagonal(products, 0.0)
            best = max(best, float(products.max(initial=0.0)))
    return best


def sampling_bound(n: int, m: int, k: int, mu: float, C: float = 1.0) -> float:
    """C μ² N k (ln N)⁶ random entries, N = max(n, m), let the nuclear norm recover the matrix (CIL Thm 2.6.1).

    A rule of thumb only: the theorem says that a constant C exists, not which; with C = 1 it exceeds n·m for all but huge
    matrices. `recht_bound` has its constant.
    """
    degrees_of_freedom(n, m, k)
    N = max(n, m)
    return C * mu**2 * N * k * math.log(N) ** 6


def rank_squared_bound(n: int, m: int, k: int, mu: float, C: float = 1.0) -> float:
    """C μ⁴ k² N (ln N)² random entries, N = max(n, m), let the nuclear norm recover the matrix (CIL20 Thm 3.7).

    Below `sampling_bound` while μ²k < ln⁴N; a rule of thumb like it. The notes' typical μ = O(√n) would ask for more than all
    N² entries; of random factors of k ≥ ln N columns it is O(√ln N) (Candès & Tao 2010).
    """
    degrees_of_freedom(n, m, k)
    N = max(n, m)
    return C * mu**4 * k**2 * N * math.log(N) ** 2


def recht_bound(n: int, m: int, k: int, mu: Coherence, beta: float = 2.0) -> tuple[float, float]:
    """Entries that suffice for the nuclear norm, with every constant, and the probability that they do.

    32 max(E², μ₀) k (n + m) β ln²(2N) uniformly random entries, N = max(n, m) and β > 1, recover the matrix with probability at
    least 1 − 6 ln(N) (n + m)^(2−2β) − N^(2−2√β) (Recht 2011, A simpler approach to matrix completion, Theorem 2).
    """
    degrees_of_freedom(n, m, k)
    if not beta > 1:
        raise ValueError(f"beta={beta}; pass a number > 1.")
    N = max(n, m)
    entries = 32 * max(mu.E**2, mu.leverage) * k * (n + m) * beta * math.log(2 * N) ** 2
    failure = 6 * math.log(N) * float(n + m) ** (2 - 2 * beta) + float(N) ** (
        2 - 2 * math.sqrt(beta)
    )
    return entries, max(0.0, 1 - failure)


# --- locally unique? --------------------------------------------------------------------------------------------------


class Completable(NamedTuple):
    """Say what the entries determine of a generic matrix of rank k, up to finitely many choices."""

    dimension: int  # of the matrices of rank k that agree with one on all entries; 0: finitely many
    determined: float  # the share of the unknown entries that take finitely many values


def completable(A: Observed, k: int, rng: int = 0) -> Completable | None:
    """Return the rank of the Jacobian of (U, V) ↦ Π_Ω(UVᵀ) at random factors; None if (n + m)k is too large to decompose it.

    It is the same at almost all factors, and k(n + m − k) if and only if generic matrices of rank k are determined up to
    finitely many choices (Király, Theran & Tomioka 2015). An unknown entry is determined if moves that keep the known ones
    keep it too.
    """
    n, m = A.shape
    if (n + m) * k > UNKNOWNS or k < 1:
        return None
    draw = np.random.default_rng(rng)
    U, V = (
        np.linalg.qr(draw.standard_normal((n, k)))[0],
        np.linalg.qr(draw.standard_normal((m, k)))[0],
    )
    U, V = U * math.sqrt(n), V * math.sqrt(m)
    G = np.zeros((n + m, k, n + m, k))  # JᵀJ; the row of (i, j) in J is v_j at i and u_i at j
    i, j = A.rows, A.columns
    for row, (start, stop) in enumerate(
        zip(A.by_row.indptr[:-1], A.by_row.indptr[1:], strict=True)
    ):
        W = V[j[start:stop]]
        G[row, :, row] = W.T @ W
    for column, (start, stop) in enumerate(
        zip(A.by_column.indptr[:-1], A.by_column.indptr[1:], strict=True)
    ):
        W = U[A.by_column.indices[start:stop]]
        G[n + column, :, n + column] = W.T @ W
    G[i, :, n + j] = V[j][:, :, None] * U[i][:, None, :]
    G[n + j, :, i] = U[i][:, :, None] * V[j][:, None, :]
    values, vectors = np.linalg.eigh(G.reshape((n + m) * k, -1))
    # squares of singular values: 3e-6 of the largest
    null = vectors[:, values <= 1e-11 * max(values[-1], 1.0)]
    moves = null.shape[1] - k * k  # U → UM, V → VM⁻ᵀ moves nothing
    return Completable(max(moves, 0), _share_determined(A, U, V, null) if moves > 0 else 1.0)


def _share_determined(A: Observed, U: Array, V: Array, null: Array) -> float:
    (n, m), k = A.shape, U.shape[1]
    moved = np.zeros((n, m))
    for z in null.T:
        dU, dV = z[: n * k].reshape(n, k), z[n * k :].reshape(m, k)
        moved += (dU @ V.T + U @ dV.T) ** 2
    moved[A.rows, A.columns] = np.nan
    unknown = ~np.isnan(moved)
    return float((moved[unknown] <= 1e-8).mean()) if unknown.any() else 1.0


def freedom_left(A: Observed, k: int, budget: float = SEARCH) -> Freedom | None:
    """Return in how many dimensions generic matrices of rank k can move while the entries stay; None: too expensive."""
    return freedom(pattern(A), k, budget)


# --- everything -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Report of what the entries can and cannot determine. Prints as a report; `to_dict()` for machines."""

    shape: tuple[int, int]
    rank: int
    entries: int
    degrees_of_freedom: int
    largest_rank: int  # that the entries can determine of the whole matrix
    core_rank: int  # and of its densest block
    core: tuple[int, int, int]  # rows, columns and entries of the k-core at this rank
    thin_rows: int  # with fewer than k entries
    thin_columns: int
    empty_rows: int
    empty_columns: int
    examples: tuple[tuple[str, ...], tuple[str, ...]]  # names of the thinnest
    components: int  # that have entries
    component_sizes: tuple[tuple[int, int], ...]  # rows and columns of the largest few
    # generic matrices of this rank are determined up to finitely many choices
    completable: bool | None
    determined: float | None  # the share of unknown entries that are, where that was affordable
    coherence: Coherence | None
    advice: tuple[str, ...]

    @property
    def determined_by_entries(self) -> bool:
        """No necessary condition is broken. It is no promise: see `completable` and the certificate of a fit."""
        whole = self.thin_rows == self.thin_columns == 0 and self.components <= 1
        return whole and self.entries >= self.degrees_of_freedom and self.completable is not False

    def to_dict(self) -> dict[str, Any]:
        content = asdict(self)
        content["coherence"] = (
            None
            if self.coherence is None
            else {**self.coherence._asdict(), "mu": self.coherence.mu}
        )
        return content | {
            "density": self.entries / max(math.prod(self.shape), 1),
            "ok": self.determined_by_entries,
        }

    def __str__(self) -> str:
        (n, m), k = self.shape, self.rank
        enough = "≥" if self.entries >= self.degrees_of_freedom else "<"
        rows, columns, inside = self.core
        lines = [
            f"rank {k} from {self.entries:,} entries of {n:,} × {m:,} ({self.entries / max(n * m, 1):.2%})",
            f"  entries          {self.entries:,} {enough} {self.degrees_of_freedom:,} = k(n + m − k)",
            f"  largest rank     {self.largest_rank} for the whole, {self.core_rank} for its densest block",
            f"  thin rows        {self.thin_rows:,} with fewer than {k} entries ({self.empty_rows:,} empty)"
            f"{_such(self.examples[0])}",
            f"  thin columns     {self.thin_columns:,} with fewer than {k} entries ({self.empty_columns:,} empty)"
            f"{_such(self.examples[1])}",
            f"  without them     {rows:,} × {columns:,} with {inside:,} entries (the {k}-core)",
            f"  components       {self.components:,}{self._sizes()}",
            f"  locally unique   {self._unique()}",
        ]
        if self.coherence is not None:
            c = self.coherence
            lines.append(
                f"  coherence        μ = {c.mu:.3g} (P {c.P:.3g}, Q {c.Q:.3g}, E {c.E:.3g}), leverage {c.leverage:.3g}"
            )
        return "\n".join([*lines, *(f"  → {line}" for line in self.advice)])

    def _sizes(self) -> str:
        if self.components <= 1:
            return ""
        return (
            ": "
            + ", ".join(f"{r:,} × {c:,}" for r, c in self.component_sizes)
            + (" …" if self.components > EXAMPLES else "")
        )

    def _unique(self) -> str:
        if self.completable is None:
            return "not computed: the Jacobian is too large"
        if self.completable:
            return "yes: generic matrices of this rank have finitely many completions"
        if self.determined is None:
            return "no: some unknown entries can move while the known ones stay"
        return (
            f"no: {self.determined:.1%} of the unknown entries are determined, the others can move"
        )


def _such(names: tuple[str, ...]) -> str:
    return f", such as {', '.join(names)}" if names else ""


def diagnose(
    observed: Any, k: int, U: Any = None, V: Any = None, *, feedback: str = "explicit"
) -> Diagnosis:
    """Say what these entries can determine of a rank-k matrix, before any fit; with factors U and V also their coherence.

    Parameters
    ----------
    observed : Observed, or what Observed.of takes
    k : int
        The rank in question.
    U, V : arrays (n, k) and (m, k), optional
        Factors of a fit.
    feedback : {"explicit", "implicit"}, default="explicit"
        "implicit": entries are counts and every cell is fitted, the missing ones as weak zeros.
    """
    if feedback not in ("explicit", "implicit"):
        raise ValueError(f"feedback={feedback!r} is not accepted; pass 'explicit' or 'implicit'.")
    if feedback == "implicit":
        from lemmata.completion.als.implicit import diagnose_implicit

        return diagnose_implicit(observed, k)
    A = Observed.of(observed)
    n, m = A.shape
    freedom = degrees_of_freedom(n, m, k)
    counts, labels = (A.row_counts, A.column_counts), (A.row_labels, A.column_labels)
    thin = [np.flatnonzero(part < k) for part in counts]
    pieces, label = components(A)
    inside, unique = core(A, k), completable(A, k)
    free = freedom_left(A, k) if k else None
    content: dict[str, Any] = {
        "shape": (n, m),
        "rank": int(k),
        "entries": A.n_observed,
        "degrees_of_freedom": freedom,
        "largest_rank": largest_rank(n, m, A.n_observed),
        "core_rank": core_rank(A),
        "core": (int(inside.rows.sum()), int(inside.columns.sum()), inside.entries),
        "thin_rows": len(thin[0]),
        "thin_columns": len(thin[1]),
        "empty_rows": int((counts[0] == 0).sum()),
        "empty_columns": int((counts[1] == 0).sum()),
        "examples": tuple(_names(*parts) for parts in zip(thin, counts, labels, strict=True)),
        "components": int(pieces),
        "component_sizes": _component_sizes(label, n),
        "completable": None if free is None else free.directions == 0,
        "determined": None if unique is None else unique.determined,
        "coherence": None if U is None or V is None else coherence(U, V),
    }
    return Diagnosis(**content, advice=_advice(content))


def _names(thin: Array, counts: Array, labels: Any) -> tuple[str, ...]:
    """The thinnest rows by name."""
    few = thin[np.argsort(counts[thin], kind="stable")[:EXAMPLES]]
    return tuple(str(labels.names[i]) if labels is not None else str(i) for i in few)


def _component_sizes(label: Array, n: int) -> tuple[tuple[int, int], ...]:
    if not len(label):
        return ()
    pieces = int(label.max()) + 1
    rows, columns = (
        np.bincount(part[part >= 0], minlength=pieces) for part in (label[:n], label[n:])
    )
    largest = np.argsort(-(rows + columns), kind="stable")[:EXAMPLES]
    return tuple((int(rows[i]), int(columns[i])) for i in largest)


def _advice(d: dict[str, Any]) -> tuple[str, ...]:
    out, k = [], d["rank"]
    if d["entries"] < d["degrees_of_freedom"]:
        lower = f"lower the rank to {d['largest_rank']} or less, or " if d["largest_rank"] else ""
        out.append(
            f"too few entries for rank {k}, whatever the method: {lower}let reg decide what they leave open"
        )
        if d["core_rank"] >= k:
            out.append(
                f"without thin rows and columns, {d['core'][0]:,} × {d['core'][1]:,} are left, with enough entries"
            )
    elif d["core_rank"] < k:
        out.append(
            f"no block has enough entries for rank {k}; {d['core_rank']} is the most that one can determine"
        )
    if d["thin_rows"] or d["thin_columns"]:
        out.append(
            f"predictions for rows and columns with fewer than {k} entries rest on reg and the offsets"
        )
    if d["components"] > 1:
        out.append(
            "predictions across components are not determined: fit each on its own, or do not rely on them"
        )
    if d["completable"] is False and not out:
        out.append(
            f"the pattern of entries leaves a rank-{k} matrix free to move, though there are enough: lower the rank"
        )
    if d["coherence"] is not None and d["coherence"].leverage * k >= max(d["shape"]) / 2:
        out.append(
            "a few rows or columns carry a factor of their own: its values there cannot be checked by the others"
        )
    return tuple(out)
