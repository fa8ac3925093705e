"""The best items for a user, items that are alike, and why, from a fitted completion model.

    score_ij = μ + b_i + w_j (c_j + s_i t_j u_iᵀv_j),  w_j = n_j / (n_j + d)       the n largest over what user i has not rated

Predicted ratings alone (d = 0) rank badly: of thousands of items the highest predictions are those of items with a rating or
two, whose offsets and factors follow single opinions. So an item's part counts as far as its n_j ratings carry it: half at
n_j = d (`damping`), which by default is the count of the item of the median rating. What was fitted to implicit feedback
ranks already, and is not damped. Whether a ranking is any good beside mere popularity is for metrics.evaluate to say, and for
certify(train, test).

Why was it recommended? Given b_i, the factors of a user solve a ridge regression on the user's own ratings (CIL (2.36)), so
they are linear in them, and so is the prediction:

    u_i = (V_ΩᵀV_Ω + λ_i I)⁻¹ V_Ωᵀ x,   x_j = (a_ij − μ − b_i − c_j) / (s_i t_j)
    s_i t_l u_iᵀv_l = Σ_{j∈Ω_i} s_i t_l w_j x_j,   w_j = v_lᵀ (V_ΩᵀV_Ω + λ_i I)⁻¹ v_j

Each rating has its term. This holds for biases found jointly with the factors as well: at the joint solution, u_i solves the
equations above with b_i as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lemmata.completion.observed import Entries, Labels, Observed
from lemmata.completion.recommending.results import Explanation, Recommendations
from lemmata.core.engine import worth_compiling

if TYPE_CHECKING:
    from lemmata.completion.base import CompletionModel

Array = np.ndarray

BLOCK_BYTES = 64 * 2**20  # of scores at a time
# Scores of all users together. NumPy takes 8 ns for each, the kernel 3 (610 × 9,724 to 3,000 × 5,500, rank 20): up to a quarter
# of a second here, where the kernel would save a tenth and first has to be compiled.
WORTH_COMPILING = 2**25
TWIN_SCORES = 2**20  # at a time without kernels: where all are equal, all of them are sorted


def _names_at(positions: Array, labels: Labels | None) -> Array:
    """Positions as labels; None where there is no item (−1)."""
    if labels is None:
        return positions
    names = np.asarray(labels.names[positions])  # a single label too
    if (positions < 0).any():
        names = names.astype(object)
        names[positions < 0] = None
    return names


def _among(entries: Entries, columns: Array, m: int) -> Entries:
    """The entries in these columns, at their places among them."""
    place = np.full(m, -1)
    place[columns] = np.arange(len(columns))
    there = place[entries.indices]
    kept = there >= 0
    indptr = np.r_[0, np.cumsum(kept)][entries.indptr].astype(np.int64)
    return Entries(indptr, there[kept].astype(np.int32), entries.values[kept])


def check_number(n: Any) -> int:
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n={n!r} is not a number of items; pass an int >= 1.")
    return int(n)


# --- users and items ---------------------------------------------------------------------------------------------------


class Users(NamedTuple):
    """Some users, of the fit or new: their factors, and where `data` has their ratings."""

    factors: Array  # (b, k)
    bias: Array  # (b,)
    scale: Array  # (b,)
    data: Observed
    places: Array  # (b,) rows of data
    names: Array | None  # None for new users
    single: bool  # one user was asked for, not a list of one

    @property
    def stretched(self) -> Array:
        """p_i = (s_i u_i, 1), so that p_iᵀq_j with q_j = (t_j v_j, c_j) ranks the items."""
        ones = np.ones((len(self.factors), 1), self.factors.dtype)
        return np.hstack([self.factors * self.scale[:, None], ones])


def users_asked_for(model: CompletionModel, users: Any, ratings: Any) -> Users:
    """Return users of the fit by label or position (None: all), or new ones by their ratings."""
    if ratings is not None:
        if users is not None:
            raise ValueError(
                "users and ratings are both given; pass users of the fit, or ratings of new ones."
            )
        data = new_rows(model, ratings)
        factors, bias, scale = model._fold(data)
        single = isinstance(ratings, Mapping)
        return Users(factors, bias, scale, data, np.arange(data.shape[0]), None, single)
    positions = (
        np.arange(len(model.U_)) if users is None else model._positions(users, "row", "error")
    )
    names = _names_at(positions, model.observed_.row_labels)
    return users_at(model, positions.ravel())._replace(names=names, single=positions.ndim == 0)


def users_at(model: CompletionModel, places: Array) -> Users:
    """Users of the fit by position; −1 stands for somebody of whom nothing is known."""
    there = places >= 0
    factors = np.where(there[:, None], model.U_[places], 0).astype(model.U_.dtype)
    bias = np.where(there, model.row_bias_[places], 0).astype(model.U_.dtype)
    scale = np.where(there, model.row_scale_[places], 1).astype(model.U_.dtype)
    return Users(factors, bias, scale, model.observed_, places, None, False)


def new_rows(model: CompletionModel, ratings: Any) -> Observed:
    """Return the entries of new users: a matrix, or a dict {item: rating} of one."""
    if not isinstance(ratings, Mapping):
        return model._entries(ratings, reset=False)
    columns = (
        model._positions(list(ratings), "column", "error") if ratings else np.zeros(0, np.int64)
    )
    values = np.asarray(list(ratings.values()))
    try:
        return Observed.from_triplets(
            np.zeros(len(columns), np.int64), columns, values, (1, len(model.V_))
        )
    except ValueError as error:
        raise ValueError(f"the ratings of the new user: {error}") from None


def candidates(model: CompletionModel, items: Any, exclude: Any, min_count: Any) -> Array | None:
    """The positions of the items that may be recommended, ascending; None for all."""
    if not isinstance(min_count, Integral) or isinstance(min_count, bool) or min_count < 0:
        raise ValueError(f"min_count={min_count!r} is not accepted; pass an int >= 0.")
    if items is None and exclude is None and min_count == 0:
        return None
    kept = model.observed_.column_counts >= min_count
    if items is not None:
        wanted = np.zeros(len(kept), bool)
        wanted[np.atleast_1d(model._positions(items, "column", "error"))] = True
        kept &= wanted
    if exclude is not None:
        kept[np.atleast_1d(model._positions(exclude, "column", "error"))] = False
    return np.flatnonzero(kept)


def usual_damping(model: CompletionModel) -> float:
    """Return the count of the item of the median rating; 0 for implicit feedback."""
    if model._is_implicit():
        return 0.0
    counts = model.observed_.column_counts
    return float(np.median(np.repeat(counts, counts))) if counts.any() else 0.0


def item_weights(model: CompletionModel, damping: float | str) -> Array:
    """w_j of every item."""
    if damping == "auto":
        damping = usual_damping(model)
    if isinstance(damping, bool) or not isinstance(damping, Real) or not 0 <= damping < np.inf:
        raise ValueError(f"damping={damping!r} is not accepted; pass a number >= 0, or 'auto'.")
    counts = model.observed_.column_counts.astype(np.float64)
    d = float(damping)
    return np.ones(len(counts)) if d == 0 else counts / (counts + d)


# --- lists -------------------------------------------------------------------------------------------------------------


def best(
    P: Array, Q: Array, n: int, seen: Entries | None = None, who: Array | None = None
) -> tuple[Array, Array]:
    """Return positions (b, n) and scores (b, n) of the n largest p_iᵀq_j of each row of P Qᵀ, best first, ties by position.

    seen, who : row i leaves out the columns that row who[i] of `seen` lists; none if who[i] is −1

    >>> best(np.array([[1.0], [-1.0]]), np.array([[2.0], [0.0], [3.0]]), n=2)[0]
    array([[2, 0], [1, 0]])
    """
    (b, k), m = P.shape, len(Q)
    compiled = worth_compiling(b * m, above=WORTH_COMPILING)
    best_into: Any = best_in_numpy
    if compiled:
        from lemmata.completion.recommending._kernels import best_into
    n = min(n, m)
    places, scores = np.empty((b, n), np.int64), np.empty((b, n))
    if not b or not n:
        return places, scores
    P, Q = np.ascontiguousarray(P), np.ascontiguousarray(Q)
    if seen is None or who is None:
        seen = Entries(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0))
        who = np.full(b, -1)
    # a k-term product errs by at most (k/2)·eps·‖p‖‖q‖ on each side of a comparison; k·eps each leaves margin
    longest = np.sqrt(np.einsum("jk,jk->j", Q, Q, dtype=np.float64).max())
    lengths = np.sqrt(np.einsum("ik,ik->i", P, P, dtype=np.float64))
    slack = 2 * k * np.finfo(Q.dtype).eps * longest * lengths
    rows = max((BLOCK_BYTES // Q.itemsize if compiled else TWIN_SCORES) // m, 1)
    approx = np.empty((min(rows, b), m), Q.dtype)
    for start in range(0, b, rows):
        here = slice(start, min(start + rows, b))
        block = np.matmul(P[here], Q.T, out=approx[: here.stop - start])
        best_into(scores[here], places[here], block, P[here], Q, slack[here], *seen[:2], who[here])
    return places, scores


def best_in_numpy(scores, places, approx, P, Q, slack, indptr, indices, who) -> None:
    """Fill scores and places (b, n) with the n largest p_iᵀq_j of every row and their j; NaN and −1 where fewer are left.

    Row i leaves out the j that row who[i] of (indptr, indices) lists; nothing if who[i] is −1. Overwrites `approx` there.
    `slack` is twice the rounding error of a row of approx. The twin of the kernel, with the same bits: for data on which
    nobody should wait for a compiler.
    """
    (b, m), n = approx.shape, places.shape[1]
    _leave_out(approx, indptr, indices, who)
    nth = np.partition(approx, m - n, axis=1)[:, m - n].astype(np.float64)
    least = (nth - slack).astype(approx.dtype)
    rows, columns = np.nonzero((approx >= least[:, None]) & (approx > -np.inf))
    exact = np.zeros(len(rows))
    for p, q in zip(P.T, Q.T, strict=True):  # summed factor by factor, as the kernel does
        exact += p[rows].astype(np.float64) * q[columns].astype(np.float64)
    order = np.lexsort((columns, -exact, rows))
    rows, columns, exact = rows[order], columns[order], exact[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, np.arange(b))[rows]
    kept = rank < n
    scores[:], places[:] = np.nan, -1
    scores[rows[kept], rank[kept]], places[rows[kept], rank[kept]] = exact[kept], columns[kept]


def _leave_out(approx, indptr, indices, who) -> None:
    asked = np.flatnonzero(who >= 0)
    starts, counts = indptr[who[asked]], indptr[who[asked] + 1] - indptr[who[asked]]
    rows = np.repeat(asked, counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    approx[rows, indices[np.repeat(starts, counts) + within]] = -np.inf


def best_items(
    model: CompletionModel,
    asked: Users,
    n: int,
    columns: Array | None = None,
    exclude_seen: bool = True,
    w: Array | None = None,
) -> Recommendations:
    """The n best of these columns (None: of all) for each row, ranked with weights w (None: as `damping_` has them)."""
    P, Q = ranking_factors(model, asked, item_weights(model, "auto") if w is None else w)
    seen, who = asked.data.by_row, asked.places if exclude_seen else np.full(len(P), -1)
    if columns is not None:
        Q, seen = Q[columns], _among(seen, columns, len(model.V_))
    places, scores = best(P, Q, n, seen, who)
    if P.shape[1] > model.V_.shape[1] + 1:  # ranked by popularity, which is no prediction
        scores[P[:, -1] > 0] *= 0.0
    if columns is not None and len(columns):
        places = np.where(places >= 0, columns[places], -1)
    scores = scores + (float(model.mean_) + asked.bias.astype(np.float64))[:, None]
    scores, names = scores.astype(model.U_.dtype), _names_at(places, model.observed_.column_labels)
    here: Any = 0 if asked.single else ...
    return Recommendations(
        names[here], scores[here], places[here], of=None if asked.names is None else asked.names[()]
    )


def ranking_factors(model: CompletionModel, asked: Users, w: Array) -> tuple[Array, Array]:
    """P and Q, so that p_iᵀq_j ranks the items: (s_i u_i, 1) and w_j (t_j v_j, c_j).

    Where nothing tells the items apart (implicit feedback of a user who gave none), popularity does.
    """
    P = asked.stretched
    Q = np.hstack([model.V_ * model.column_scale_[:, None], model.column_bias_[:, None]])
    Q = (Q * w[:, None]).astype(Q.dtype)
    if not model.column_bias_.any():
        idle = ~P[:, :-1].any(axis=1)
        if idle.any():
            counts = model.observed_.column_counts
            P, Q = np.column_stack([P, idle]), np.column_stack([Q, counts])
    return P, Q


def find_similar(
    model: CompletionModel, F: Array, wanted: Any, n: int, side: str, what: str
) -> Recommendations:
    positions, labels = (
        model._positions(wanted, side, "error"),
        getattr(model.observed_, f"{side}_labels"),
    )
    lengths = np.linalg.norm(F, axis=1)
    # factors of length 0 have no direction: nothing is like them
    known = np.flatnonzero(lengths > 0)
    F = F[known] / lengths[known, None]
    where = np.full(len(lengths), -1)
    where[known] = np.arange(len(known))
    rows = where[positions.ravel()]
    n, asked = min(check_number(n), len(lengths)), rows >= 0
    itself = Entries(np.arange(len(known) + 1), np.arange(len(known), dtype=np.int32), np.zeros(0))
    near, cosines = best(F[rows[asked]], F, n, itself, rows[asked])
    places, scores = np.full((len(rows), n), -1), np.full((len(rows), n), np.nan, F.dtype)
    places[asked, : near.shape[1]] = np.where(near < 0, -1, known[near])
    # unit vectors are so up to rounding
    scores[asked, : near.shape[1]] = np.clip(cosines, -1, 1)
    names, here = _names_at(places, labels), 0 if positions.ndim == 0 else ...
    return Recommendations(
        names[here],
        scores[here],
        places[here],
        of=_names_at(positions, labels)[()],
        what=what,
        found="similar",
    )


def explain(model: CompletionModel, user: Any, item: Any, n: int, ratings: Any) -> Explanation:
    """Return which of a user's ratings carried a prediction; see `CompletionModel.explain`."""
    if np.ndim(item) != 0 or np.ndim(user) != 0 or (user is None) == (ratings is None):
        raise ValueError(
            "explain takes one user of the fit (or user=None and the ratings of a new one) and one item."
        )
    row, column = (
        users_asked_for(model, user, ratings),
        int(model._positions(item, "column", "error")),
    )
    if len(row.places) != 1:
        raise ValueError(f"explain takes the ratings of one new user; got {len(row.places)} rows.")
    indptr, indices, values = row.data.by_row
    here = slice(indptr[row.places[0]], indptr[row.places[0] + 1])
    places, given = indices[here], values[here].astype(np.float64)
    u, v = row.factors[0].astype(np.float64), model.V_[column].astype(np.float64)
    offsets = float(model.mean_), float(row.bias[0]), float(model.column_bias_[column])
    scale, scales = float(row.scale[0]), model.column_scale_.astype(np.float64)
    expected = model.mean_ + float(row.bias[0]) + model.column_bias_[places].astype(np.float64)
    weights, targets = _rating_weights(
        model, u, v, places, given, (given - expected) / (scale * scales[places])
    )
    weights = weights * scale * scales[column]
    parts = weights * targets
    order = np.lexsort((places, -np.abs(parts)))
    factors_part = scale * scales[column] * float(u @ v)
    labels = model.observed_.column_labels
    return Explanation(
        user=None if row.names is None else row.names[()],
        item=_names_at(np.asarray(column), labels)[()],
        prediction=sum(offsets) + factors_part,
        mean=offsets[0],
        row_bias=offsets[1],
        column_bias=offsets[2],
        items=_names_at(places[order], labels),
        positions=places[order],
        ratings=given[order],
        weights=weights[order],
        contributions=parts[order],
        remainder=factors_part - float(parts.sum()),
        shown=check_number(n),
    )


def _rating_weights(
    model: CompletionModel, u: Array, v: Array, places: Array, given: Array, x: Array
) -> tuple[Array, Array]:
    """w_j and targets y_j, so that uᵀv = Σ_j w_j y_j over the row's entries, if u solves its least squares; in float64.

    Ratings: y = x, what offsets leave of them. Implicit feedback: y_j = [a_j > 0] with weight c_j = 1 + α|a_j|, and
    u = (VᵀV + V_Ωᵀ(C − I)V_Ω + λI)⁻¹ V_ΩᵀC y.
    """
    V, implicit = model.V_[places].astype(np.float64), model._is_implicit()
    alpha = float(getattr(model, "alpha", 0)) if implicit else 0.0
    trust = 1 + alpha * np.abs(given)
    gram = (V.T * (trust - implicit)) @ V
    if implicit:
        gram += model.V_.T.astype(np.float64) @ model.V_
    # the others are held at 0
    free = u > 0 if getattr(model, "nonnegative", False) else np.ones(len(u), bool)
    reg = float(model._fold_reg(np.array([len(places)]))[0])
    if reg > 0 or implicit:
        ridge = np.diag(reg * model._fold_scale()[free] ** 2)
        z = np.linalg.solve(gram[np.ix_(free, free)] + ridge, v[free])
        weights = V[:, free] @ z
    else:
        weights = v[free] @ np.linalg.pinv(V[:, free])
    return weights * trust, (given > 0).astype(np.float64) if implicit else x
