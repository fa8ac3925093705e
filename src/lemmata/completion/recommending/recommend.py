"""What a fitted completion model is for: the best items for a user, items that are alike, and why.

    score_ij = μ + b_i + c_j + s_i t_j u_iᵀv_j       the n largest over the items j that user i has not rated

All scores of a block of users are one matrix product; a kernel then keeps the n best of each row (_kernels_best.py).

Why was it recommended? Given b_i, the factors of a user solve a ridge regression on the user's own ratings (CIL (2.36)), so
they are linear in them, and so is the prediction:

    u_i = (V_ΩᵀV_Ω + λ_i I)⁻¹ V_Ωᵀ x,   x_j = (a_ij − μ − b_i − c_j) / (s_i t_j)
    s_i t_l u_iᵀv_l = Σ_{j∈Ω_i} s_i t_l w_j x_j,   w_j = v_lᵀ (V_ΩᵀV_Ω + λ_i I)⁻¹ v_j

Each rating has its term. This holds for biases found jointly with the factors as well: at the joint solution, u_i solves the
equations above with b_i as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lemmata.completion.observed import Entries, Labels, Observed

Array = np.ndarray

BLOCK_BYTES = 64 * 2**20  # of scores at a time
SHOWN = 5  # users whose lists are printed


# --- results ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Recommendations:
    """The best items of one or several users (or the nearest neighbours of items), best first.

    Attributes
    ----------
    items : labels where the data had labels, otherwise positions; (users, n), or (n,) for a single user
    scores : predicted values (or similarities), of the same shape
    positions : of the items in the matrix, of the same shape
    of : the users (or items) asked about; None for new ones

    Where fewer than n items are left, the position is −1, the score NaN, and the item stands for nothing.
    """

    items: Array
    scores: Array
    positions: Array
    of: Any = None
    what: str = "user"

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[tuple[Any, list[tuple[Any, float]]]]:
        """Pairs of a user and its list of (item, score), without the places where nothing was left."""
        rows = zip(*map(np.atleast_2d, (self.items, self.scores, self.positions)), strict=True)
        of = (
            [None] * np.atleast_2d(self.items).shape[0]
            if self.of is None
            else np.atleast_1d(self.of).tolist()
        )
        for name, (items, scores, positions) in zip(of, rows, strict=True):
            kept = positions >= 0
            yield name, list(zip(items[kept].tolist(), scores[kept].tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists: one per user."""
        lists = [
            {self.what: name, "items": [{"item": item, "score": score} for item, score in pairs]}
            for name, pairs in self
        ]
        return {"recommendations": lists}

    def text(self, shown: int | None = SHOWN) -> str:
        """The lists of so many users (None: of all) for people."""
        lines = []
        for count, (name, pairs) in enumerate(self):
            if count == shown:
                lines.append(f"… and {np.atleast_2d(self.items).shape[0] - count:,} more")
                break
            lines.append(f"new {self.what}" if name is None else f"{self.what} {name}")
            width = max((len(str(item)) for item, _ in pairs), default=0)
            lines += [
                f"  {rank:>3}  {item!s:<{width}}  {score:.3f}"
                for rank, (item, score) in enumerate(pairs, 1)
            ]
            if not pairs:
                lines.append("  nothing is left")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Explanation:
    """A prediction taken apart: mean + row_bias + column_bias + contributions.sum() + remainder = prediction.

    Attributes
    ----------
    items, positions, ratings : what the user had rated, largest contribution (in size) first
    weights : how much each counts: contribution = weight × how far the rating (in units of its scale, usually 1) lies above
        what the offsets alone predict; with implicit feedback, weight × 1 for what was seen
    contributions : to the prediction
    remainder : what the ratings do not account for: 0 up to rounding where the user's factors solve their least squares, as
        they do after a fold-in, and nearly so at the end of ALS; not 0 for other ways of fitting, or a fit stopped early
    """

    user: Any
    item: Any
    prediction: float
    mean: float
    row_bias: float
    column_bias: float
    items: Array
    positions: Array
    ratings: Array
    weights: Array
    contributions: Array
    remainder: float
    shown: int = 5

    def to_dict(self) -> dict[str, Any]:
        columns = (self.items, self.ratings, self.weights, self.contributions)
        ratings = [
            {"item": item, "rating": rating, "weight": weight, "contribution": part}
            for item, rating, weight, part in zip(
                *(column[: self.shown].tolist() for column in columns), strict=True
            )
        ]
        names = {
            "user": _plain(self.user),
            "item": _plain(self.item),
            "prediction": self.prediction,
        }
        offsets = {"mean": self.mean, "row_bias": self.row_bias, "column_bias": self.column_bias}
        others = {
            "others": float(self.contributions[self.shown :].sum()),
            "remainder": self.remainder,
        }
        return {**names, **offsets, "ratings": ratings, **others}

    def __str__(self) -> str:
        rows = [
            ("mean of all", self.mean),
            ("the user", self.row_bias),
            ("the item", self.column_bias),
        ]
        for item, rating, part in zip(self.items, self.ratings, self.contributions, strict=True):
            rows.append((f"{item} rated {rating:g}", part))
        first, rest = rows[: 3 + self.shown], rows[3 + self.shown :]
        if rest:
            first.append(
                (
                    f"{len(rest):,} other rating{'s' if len(rest) > 1 else ''}",
                    sum(part for _, part in rest),
                )
            )
        if abs(self.remainder) >= 5e-4:  # else it is 0.000
            first.append(("not explained by the ratings", self.remainder))
        width = max(len(name) for name, _ in first)
        user = "a new user" if self.user is None else f"user {self.user}"
        head = f"{user}, item {self.item}: {self.prediction:.3f}"
        return "\n".join([head, *(f"  {name:<{width}}  {part:+.3f}" for name, part in first)])

    __repr__ = __str__


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


# --- the n best -------------------------------------------------------------------------------------------------------


def best(
    P: Array, Q: Array, n: int, seen: Entries | None = None, who: Array | None = None
) -> tuple[Array, Array]:
    """Positions (b, n) and scores (b, n) of the n largest p_iᵀq_j of each row of P Qᵀ, best first, ties by position.

    seen, who : row i leaves out the columns that row who[i] of `seen` lists; none if who[i] is −1

    >>> best(np.array([[1.0], [-1.0]]), np.array([[2.0], [0.0], [3.0]]), n=2)[0]
    array([[2, 0], [1, 0]])
    """
    from lemmata.completion.recommending._kernels import best_into

    (b, k), m = P.shape, len(Q)
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
    rows = max(BLOCK_BYTES // (m * Q.itemsize), 1)
    approx = np.empty((min(rows, b), m), Q.dtype)
    for start in range(0, b, rows):
        here = slice(start, min(start + rows, b))
        block = np.matmul(P[here], Q.T, out=approx[: here.stop - start])
        best_into(scores[here], places[here], block, P[here], Q, slack[here], *seen[:2], who[here])
    return places, scores


def _named(positions: Array, labels: Labels | None) -> Array:
    """Positions as labels; None where there is no item (−1)."""
    if labels is None:
        return positions
    names = np.asarray(labels.names[positions])  # a single label too
    if (positions < 0).any():
        names = names.astype(object)
        names[positions < 0] = None
    return names


def _count(n: Any) -> int:
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n={n!r} is not a number of items; pass an int >= 1.")
    return int(n)


# --- what models inherit ----------------------------------------------------------------------------------------------


class Rows(NamedTuple):
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
        return np.hstack(
            [
                self.factors * self.scale[:, None],
                np.ones((len(self.factors), 1), self.factors.dtype),
            ]
        )


class Recommending:
    """Mixin of CompletionModel: `recommend`, `similar_items`, `similar_users`, `explain`."""

    if TYPE_CHECKING:
        U_: Array
        V_: Array
        mean_: float
        row_bias_: Array
        column_bias_: Array
        row_scale_: Array
        column_scale_: Array
        observed_: Observed

        def _positions(self, wanted: Any, what: str, unknown: str) -> Array: ...
        def _entries(self, X: Any, reset: bool) -> Observed: ...
        def _folded(self, data: Observed, transposed: bool = False) -> Any: ...
        def _fold_reg(self, counts: Array) -> Array: ...

    def recommend(
        self, users: Any = None, n: int = 10, *, exclude_seen: bool = True, ratings: Any = None
    ) -> Recommendations:
        """The n items with the highest predictions for each user.

        Parameters
        ----------
        users : label (where the data had labels) or position, or an array of them; None for all
        n : int
            How many items, at most. Ties are broken by position.
        exclude_seen : bool
            Whether to leave out what the user has already rated.
        ratings : matrix of new rows (b × m, as for `fit`), or a dict {item: rating} of one new user
            Recommends to these instead: they are folded in, and what they rated counts as seen.
        """
        check_is_fitted(self)
        n, asked = _count(n), self._rows(users, ratings)
        Q = np.hstack([self.V_ * self.column_scale_[:, None], self.column_bias_[:, None]])
        who = asked.places if exclude_seen else np.full(len(asked.places), -1)
        places, scores = best(asked.stretched, Q, n, asked.data.by_row, who)
        scores = scores + (float(self.mean_) + asked.bias.astype(np.float64))[:, None]
        scores, items = scores.astype(self.U_.dtype), _named(places, self.observed_.column_labels)
        here: Any = 0 if asked.single else ...
        return Recommendations(
            items[here],
            scores[here],
            places[here],
            of=None if asked.names is None else asked.names[()],
        )

    def _rows(self, users: Any, ratings: Any) -> Rows:
        if ratings is not None:
            if users is not None:
                raise ValueError(
                    "users and ratings are both given; pass users of the fit, or ratings of new ones."
                )
            data = self._new_rows(ratings)
            factors, bias, scale = self._folded(data)
            return Rows(
                factors,
                bias,
                scale,
                data,
                np.arange(data.shape[0]),
                None,
                isinstance(ratings, Mapping),
            )
        positions = (
            np.arange(len(self.U_)) if users is None else self._positions(users, "row", "error")
        )
        names, places = _named(positions, self.observed_.row_labels), positions.ravel()
        factors, bias, scale = self.U_[places], self.row_bias_[places], self.row_scale_[places]
        return Rows(factors, bias, scale, self.observed_, places, names, positions.ndim == 0)

    def _new_rows(self, ratings: Any) -> Observed:
        if not isinstance(ratings, Mapping):
            return self._entries(ratings, reset=False)
        columns = (
            self._positions(list(ratings), "column", "error") if ratings else np.zeros(0, np.int64)
        )
        values = np.asarray(list(ratings.values()))
        return Observed.from_triplets(
            np.zeros(len(columns), np.int64), columns, values, (1, len(self.V_))
        )

    def similar_items(self, items: Any, n: int = 10) -> Recommendations:
        """The n items whose factors point most nearly the same way as those of an item (cosine), for one or several.

        items : label (where the data had labels) or position, or an array of them
        """
        check_is_fitted(self)
        return self._similar(self.V_, items, n, "column", "item")

    def similar_users(self, users: Any, n: int = 10) -> Recommendations:
        """The n users most like a user: the same as `similar_items` for the rows."""
        check_is_fitted(self)
        return self._similar(self.U_, users, n, "row", "user")

    def _similar(self, F: Array, wanted: Any, n: int, side: str, what: str) -> Recommendations:
        positions, labels = (
            self._positions(wanted, side, "error"),
            getattr(self.observed_, f"{side}_labels"),
        )
        lengths = np.linalg.norm(F, axis=1)
        # factors of length 0 have no direction: nothing is like them
        known = np.flatnonzero(lengths > 0)
        F = F[known] / lengths[known, None]
        where = np.full(len(lengths), -1)
        where[known] = np.arange(len(known))
        rows = where[positions.ravel()]
        n, asked = min(_count(n), len(lengths)), rows >= 0
        itself = Entries(
            np.arange(len(known) + 1), np.arange(len(known), dtype=np.int32), np.zeros(0)
        )
        near, cosines = best(F[rows[asked]], F, n, itself, rows[asked])
        places, scores = np.full((len(rows), n), -1), np.full((len(rows), n), np.nan, F.dtype)
        places[asked, : near.shape[1]] = np.where(near < 0, -1, known[near])
        # unit vectors are so up to rounding
        scores[asked, : near.shape[1]] = np.clip(cosines, -1, 1)
        names, here = _named(places, labels), 0 if positions.ndim == 0 else ...
        return Recommendations(
            names[here], scores[here], places[here], of=_named(positions, labels)[()], what=what
        )

    def explain(self, user: Any, item: Any, n: int = 5, *, ratings: Any = None) -> Explanation:
        """Which of a user's ratings carried the prediction for an item, and by how much.

        Parameters
        ----------
        user, item : labels (where the data had labels) or positions; user=None with `ratings`
        n : int
            How many ratings are printed; the result holds all of them.
        ratings : matrix with one new row, or a dict {item: rating}
            Explains the prediction for this new user instead.
        """
        check_is_fitted(self)
        if np.ndim(item) != 0 or np.ndim(user) != 0 or (user is None) == (ratings is None):
            raise ValueError(
                "explain takes one user of the fit (or user=None and the ratings of a new one) and one item."
            )
        row, column = self._rows(user, ratings), int(self._positions(item, "column", "error"))
        if len(row.places) != 1:
            raise ValueError(
                f"explain takes the ratings of one new user; got {len(row.places)} rows."
            )
        indptr, indices, values = row.data.by_row
        here = slice(indptr[row.places[0]], indptr[row.places[0] + 1])
        places, given = indices[here], values[here].astype(np.float64)
        u, v = row.factors[0].astype(np.float64), self.V_[column].astype(np.float64)
        offsets = float(self.mean_), float(row.bias[0]), float(self.column_bias_[column])
        scale, scales = float(row.scale[0]), self.column_scale_.astype(np.float64)
        expected = self.mean_ + float(row.bias[0]) + self.column_bias_[places].astype(np.float64)
        weights, targets = self._weighted(
            u, v, places, given, (given - expected) / (scale * scales[places])
        )
        weights = weights * scale * scales[column]
        parts = weights * targets
        order = np.lexsort((places, -np.abs(parts)))
        factors_part = scale * scales[column] * float(u @ v)
        labels = self.observed_.column_labels
        return Explanation(
            user=None if row.names is None else row.names[()],
            item=_named(np.asarray(column), labels)[()],
            prediction=sum(offsets) + factors_part,
            mean=offsets[0],
            row_bias=offsets[1],
            column_bias=offsets[2],
            items=_named(places[order], labels),
            positions=places[order],
            ratings=given[order],
            weights=weights[order],
            contributions=parts[order],
            remainder=factors_part - float(parts.sum()),
            shown=_count(n),
        )

    def _weighted(
        self, u: Array, v: Array, places: Array, given: Array, x: Array
    ) -> tuple[Array, Array]:
        """w_j and targets y_j, so that uᵀv = Σ_j w_j y_j over the row's entries, if u solves its least squares; in float64.

        Ratings: y = x, what offsets leave of them. Implicit feedback: y_j = [a_j > 0] with weight c_j = 1 + α|a_j|, and
        u = (VᵀV + V_Ωᵀ(C − I)V_Ω + λI)⁻¹ V_ΩᵀC y.
        """
        V, implicit = (
            self.V_[places].astype(np.float64),
            getattr(self, "feedback", "explicit") == "implicit",
        )
        trust = (
            1 + float(getattr(self, "alpha", 0)) * np.abs(given)
            if implicit
            else np.ones(len(given))
        )
        gram = (V.T * (trust - implicit)) @ V
        if implicit:
            gram += self.V_.T.astype(np.float64) @ self.V_
        # the others are held at 0
        free = u > 0 if getattr(self, "nonnegative", False) else np.ones(len(u), bool)
        reg = float(self._fold_reg(np.array([len(places)]))[0])
        if reg > 0 or implicit:
            z = np.linalg.solve(gram[np.ix_(free, free)] + reg * np.eye(int(free.sum())), v[free])
            weights = V[:, free] @ z
        else:
            weights = v[free] @ np.linalg.pinv(V[:, free])
        return weights * trust, (given > 0).astype(np.float64) if implicit else x
