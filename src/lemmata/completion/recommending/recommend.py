"""What a fitted completion model is for: the best items for a user, items that are alike, and why.

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
from sklearn.utils.validation import check_is_fitted

from lemmata.completion.observed import Entries, Labels, Observed
from lemmata.completion.recommending.best import best
from lemmata.completion.recommending.results import Explanation, Recommendations

Array = np.ndarray


def _named(positions: Array, labels: Labels | None) -> Array:
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

    @property
    def damping_(self) -> float:
        """d of w_j = n_j / (n_j + d): the count of the item of the median rating; 0 for implicit feedback."""
        check_is_fitted(self)
        if getattr(self, "feedback", "explicit") == "implicit":
            return 0.0
        counts = self.observed_.column_counts
        return float(np.median(np.repeat(counts, counts))) if counts.any() else 0.0

    def recommend(
        self,
        users: Any = None,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        ratings: Any = None,
        items: Any = None,
        exclude: Any = None,
        damping: float | str = "auto",
        min_count: int = 0,
    ) -> Recommendations:
        """The n best items for each user.

        Parameters
        ----------
        users : label (where the data had labels) or position, or an array of them; None for all
        n : int
            How many items, at most. Ties are broken by position.
        exclude_seen : bool
            Whether to leave out what the user has already rated.
        ratings : matrix of new rows (b × m, as for `fit`), or a dict {item: rating} of one new user
            Recommends to these instead: they are folded in, and what they rated counts as seen.
        items, exclude : labels or positions, optional
            Recommend only these items; none of these.
        damping : float or "auto"
            d: an item with d ratings counts half, as far as it lies above or below what the user gives on average. 0 ranks by
            predictions as they are, which favours items that hardly anybody rated. "auto": `damping_`.
        min_count : int
            Leave out items with fewer ratings.

        Returns
        -------
        Recommendations : `scores` are damped predictions; with damping=0, predictions
        """
        check_is_fitted(self)
        columns = self._candidates(items, exclude, min_count)
        return self._best(
            self._rows(users, ratings),
            _count(n),
            columns,
            exclude_seen,
            self._item_weights(damping),
        )

    def _best(
        self,
        asked: Rows,
        n: int,
        columns: Array | None = None,
        exclude_seen: bool = True,
        w: Array | None = None,
    ) -> Recommendations:
        """The n best of these columns (None: of all) for each row, ranked with weights w (None: as `damping_` has them)."""
        P, Q = self._ranked(asked, self._item_weights("auto") if w is None else w)
        seen, who = asked.data.by_row, asked.places if exclude_seen else np.full(len(P), -1)
        if columns is not None:
            Q, seen = Q[columns], _among(seen, columns, len(self.V_))
        places, scores = best(P, Q, n, seen, who)
        if P.shape[1] > self.V_.shape[1] + 1:  # ranked by popularity, which is no prediction
            scores[P[:, -1] > 0] *= 0.0
        if columns is not None and len(columns):
            places = np.where(places >= 0, columns[places], -1)
        scores = scores + (float(self.mean_) + asked.bias.astype(np.float64))[:, None]
        scores, names = scores.astype(self.U_.dtype), _named(places, self.observed_.column_labels)
        here: Any = 0 if asked.single else ...
        return Recommendations(
            names[here],
            scores[here],
            places[here],
            of=None if asked.names is None else asked.names[()],
        )

    def _rows_at(self, places: Array) -> Rows:
        """Users of the fit by position; −1 stands for somebody of whom nothing is known."""
        there = places >= 0
        factors = np.where(there[:, None], self.U_[places], 0).astype(self.U_.dtype)
        bias = np.where(there, self.row_bias_[places], 0).astype(self.U_.dtype)
        scale = np.where(there, self.row_scale_[places], 1).astype(self.U_.dtype)
        return Rows(factors, bias, scale, self.observed_, places, None, False)

    def _item_weights(self, damping: float | str) -> Array:
        """w_j of every item."""
        if damping == "auto":
            damping = self.damping_
        if isinstance(damping, bool) or not isinstance(damping, Real) or not 0 <= damping < np.inf:
            raise ValueError(f"damping={damping!r} is not accepted; pass a number >= 0, or 'auto'.")
        counts = self.observed_.column_counts.astype(np.float64)
        d = float(damping)
        return np.ones(len(counts)) if d == 0 else counts / (counts + d)

    def _candidates(self, items: Any, exclude: Any, min_count: Any) -> Array | None:
        """The positions of the items that may be recommended, ascending; None for all."""
        if not isinstance(min_count, Integral) or isinstance(min_count, bool) or min_count < 0:
            raise ValueError(f"min_count={min_count!r} is not accepted; pass an int >= 0.")
        if items is None and exclude is None and min_count == 0:
            return None
        kept = self.observed_.column_counts >= min_count
        if items is not None:
            wanted = np.zeros(len(kept), bool)
            wanted[np.atleast_1d(self._positions(items, "column", "error"))] = True
            kept &= wanted
        if exclude is not None:
            kept[np.atleast_1d(self._positions(exclude, "column", "error"))] = False
        return np.flatnonzero(kept)

    def _ranked(self, asked: Rows, w: Array) -> tuple[Array, Array]:
        """P and Q, so that p_iᵀq_j ranks the items: (s_i u_i, 1) and w_j (t_j v_j, c_j).

        Where nothing tells the items apart (implicit feedback of a user who gave none), popularity does.
        """
        P = asked.stretched
        Q = np.hstack([self.V_ * self.column_scale_[:, None], self.column_bias_[:, None]])
        Q = (Q * w[:, None]).astype(Q.dtype)
        if not self.column_bias_.any():
            idle = ~P[:, :-1].any(axis=1)
            if idle.any():
                counts = self.observed_.column_counts
                P, Q = np.column_stack([P, idle]), np.column_stack([Q, counts])
        return P, Q

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
        names = _named(positions, self.observed_.row_labels)
        return self._rows_at(positions.ravel())._replace(names=names, single=positions.ndim == 0)

    def _new_rows(self, ratings: Any) -> Observed:
        if not isinstance(ratings, Mapping):
            return self._entries(ratings, reset=False)
        columns = (
            self._positions(list(ratings), "column", "error") if ratings else np.zeros(0, np.int64)
        )
        values = np.asarray(list(ratings.values()))
        try:
            return Observed.from_triplets(
                np.zeros(len(columns), np.int64), columns, values, (1, len(self.V_))
            )
        except ValueError as error:
            raise ValueError(f"the ratings of the new user: {error}") from None

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
            names[here],
            scores[here],
            places[here],
            of=_named(positions, labels)[()],
            what=what,
            found="similar",
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
