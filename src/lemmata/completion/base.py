"""Base of the completion models, which explain a partly known matrix by offsets and two thin factors.

    a_ij ≈ μ + b_i + c_j + s_i t_j · u_iᵀv_j            U: n × k,  V: m × k                               (CIL 2.1.4, 2.4)

A subclass says how U, V and the offsets are found. Prediction, completion, fold-in, scoring, labels and files are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from lemmata.completion.centring import Offsets, row_deviations, row_means
from lemmata.completion.data.frames import long_frame
from lemmata.completion.data.known_entries import ModelOfEntries
from lemmata.completion.observed import Entries, Observed
from lemmata.completion.recommending import recommend, scoring
from lemmata.completion.recommending.results import Explanation, Recommendations
from lemmata.completion.rows.solver import solve_rows
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.estimator import RowTransformer

Array = np.ndarray


class Folded(NamedTuple):
    """New rows (or columns) in terms of a fitted model: their factors and their offsets."""

    factors: Array  # (b, k)
    bias: Array  # (b,)
    scale: Array  # (b,)


def check_unknown(unknown: str) -> None:
    if unknown not in ("error", "baseline"):
        raise ValueError(f"unknown={unknown!r} is not accepted; pass 'error' or 'baseline'.")


def check_rank(rank: int, data: Any) -> None:
    n, m = data.shape
    if rank > (most := min(n, m)):
        raise ValueError(
            f"rank={rank} exceeds the smaller side of a {n} × {m} matrix; pass rank <= {most}."
        )


class CompletionModel(OneToOneFeatureMixin, RowTransformer, ModelOfEntries):
    """Base of the completion models: fitted, it has U_, V_, mean_, row_bias_, column_bias_ and observed_."""

    stored: ClassVar[Mapping[str, str | type]] = {
        "U_ V_ mean_ row_bias_ column_bias_ row_scale_ column_scale_": "audited",
        "observed_": Observed,
    }
    accepts_weights: ClassVar[bool] = False  # of entries, in its objective

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Any:
        """Raises ValueError where the entries are not those of a matrix of these factors."""
        model: Any = super().restored(parameters, attributes)
        if (found := model.observed_.shape) != (shape := (len(model.U_), len(model.V_))):
            raise ValueError(f"observed_ has shape {found}, the factors {shape}.")
        return model

    # --- what a subclass may say ---

    def _fold_reg(self, counts: Array) -> Array:
        """λ_i of new rows with so many entries, in `fold_in`; zero gives the shortest least-squares solution."""
        return np.zeros(len(counts))

    def _fold_scale(self) -> Array:
        """Roots of the ridge of each factor over λ_i, in `fold_in`."""
        return np.ones(self.U_.shape[1], self.U_.dtype)

    def _centring(self) -> str:
        """The centring of the data before the factors were sought: one of centring.HOW."""
        return getattr(self, "centre", "none")

    def _is_implicit(self) -> bool:
        """Whether the values are counts of what happened, so that predictions are preferences and no ratings."""
        return getattr(self, "feedback", "explicit") == "implicit"

    # --- fitting ---

    def fit(self, X, y=None):  # type: ignore[override]  # entries have no row weights
        """Fit the model to the known entries of a matrix and check the claims about it.

        Parameters
        ----------
        X : Observed, sparse matrix (stored entries are known, zeros too), lemmata.data ratings, or array with NaN, (n, m)
            A DataFrame with columns called user, item and rating (or the like: docs/completion.md) holds one entry per line;
            any other DataFrame is the matrix, NaN where it is not known.
        y : ignored

        Returns
        -------
        self : with `U_`, `V_`, `mean_`, `row_bias_`, `column_bias_`, `certificate_`, `trace_`, `stopped_`, `n_iter_`
        """
        return super().fit(X)

    def _fit_blocks(self, data: Any) -> None:
        self.observed_ = data.local
        super()._fit_blocks(data)

    def _validate_rows(
        self, X, sample_weight=None, reset: bool = True, min_samples: int | None = None
    ) -> Any:
        """Everything from outside passes here: the known entries of X. Unless it resets, X is the training matrix again."""
        if not reset:
            return self._same_matrix(X)
        data = self._entries(X, reset=True)
        if data.weights is not None and not self.accepts_weights:
            raise ValueError(
                f"these entries have weights, which {type(self).__name__} does not know; pass X.weighted(None), or fit ALS."
            )
        n, m = data.shape
        if data.n_observed == 0:
            raise ValueError(
                f"the {n} × {m} matrix has no known entries (all NaN, or nothing stored); there is nothing to fit."
            )
        largest = float(np.abs(data.values).max())
        most, least = (
            np.sqrt(float(x)) for x in (np.finfo(data.dtype).max, np.finfo(data.dtype).tiny)
        )
        if 0 < largest < least:
            raise ValueError(
                f"the largest known entry is {largest:.3g}, and squares of such numbers vanish in {data.dtype}; "
                "multiply the data by a constant."
            )
        if largest > most / np.sqrt(data.n_observed):
            raise ValueError(
                f"the largest known entry is {largest:.3g}, and squares of such numbers leave {data.dtype}; "
                "divide the data by a constant."
            )
        return data

    def _same_matrix(self, X: Any, unknown: str = "error") -> Observed:
        """Entries of the training matrix: rows are matched by their labels as well.

        With unknown="baseline", rows and columns that it does not have come after its own, in a larger matrix.
        """
        check_unknown(unknown)
        if unknown == "baseline":
            return Observed.of(X).placed_in(self.observed_)
        data = self._entries(X, reset=False)
        data = data.aligned(self.observed_)
        if data.shape != self.observed_.shape:
            (n, m), (rows, columns) = self.observed_.shape, data.shape
            raise ValueError(
                f"these should be entries of the same {n} × {m} matrix; got {rows} × {columns}. Observed.split makes such a "
                "pair of training and test entries. cross_val_score splits lines: pass a DataFrame of user, item, rating, or "
                "cross_val_score(lemmata.Pairs(model), pairs, ratings), which also predicts for users of no training line."
            )
        return self._weighted_like_training(data)

    def _weighted_like_training(self, data: Observed) -> Observed:
        """A weighted fit is judged by its own weights: entries that come without get those of the training."""
        known = self.observed_
        if known.weights is None or data.weights is not None:
            return data
        if not np.isfinite(data.values_at(known.rows, known.columns)).all():
            raise ValueError(
                "the fit had weights, and these entries have none and are others; pass X.weighted(weights)."
            )
        w = known.with_values(known.weights).values_at(data.rows, data.columns)
        return data.weighted(np.nan_to_num(w))

    def _title(self, data: Any) -> str:
        if data is None:
            return type(self).__name__
        n, m = data.shape
        known = f"{data.n_observed:,} observed ({data.density:.2g})"
        if self._is_implicit():
            known = f"implicit feedback, {data.n_observed:,} counts, all cells fitted"
        return f"{type(self).__name__}  {n:,} × {m:,}, {known}, rank {self.U_.shape[1]}"

    def _set_offsets(self, offsets: Offsets) -> dict[str, Any]:
        """Offsets as the public attributes."""
        return {
            "mean_": float(offsets.mean),
            "row_bias_": offsets.rows,
            "column_bias_": offsets.columns,
            "row_scale_": offsets.row_scale,
            "column_scale_": offsets.column_scale,
        }

    @property
    def offsets(self) -> Offsets:
        """μ, b, c and the scales of a fitted model."""
        check_is_fitted(self)
        return Offsets(
            self.mean_, self.row_bias_, self.column_bias_, self.row_scale_, self.column_scale_
        )

    # --- using it ---

    def predict(self, rows: Any, columns: Any = None, *, unknown: str = "error") -> Array:
        """Predictions at entries, or for whole new rows.

        Parameters
        ----------
        rows, columns : arrays of one shape (or broadcastable): labels where the data had labels, otherwise positions
            Without `columns`, `rows` is a matrix of new rows as for `fit`; they are folded in and all their entries predicted.
            Or a DataFrame with columns called user and item: one prediction per line.
        unknown : {"error", "baseline"}
            What to do with a label that was not in the data: refuse it, or predict what is known without it (μ + c_j, …).
        """
        check_is_fitted(self)
        if columns is None:
            asked = long_frame(rows, rated=False)
            if asked is None:
                return self._reconstruct(self._entries(rows, reset=False))
            rows, columns = asked["user"], asked["item"]
        i, j = self._positions(rows, "row", unknown), self._positions(columns, "column", unknown)
        i, j = np.broadcast_arrays(i, j)
        return self._at(i.ravel(), j.ravel()).reshape(i.shape)

    def _positions(self, wanted: Any, what: str, unknown: str) -> Array:
        check_unknown(unknown)
        wanted = np.asarray(wanted)
        labels = getattr(self.observed_, f"{what}_labels")
        if labels is not None:
            flat = wanted.ravel()
            found = labels.find(flat) if unknown == "baseline" else labels.positions(flat, what)
            return found.reshape(wanted.shape)
        size = self.observed_.shape[what == "column"]
        if wanted.dtype.kind not in "iu" and wanted.size:
            raise ValueError(
                f"{what} positions are {wanted.dtype}; pass ints from 0 to {size - 1} (the data had no labels)."
            )
        outside = (wanted < 0) | (wanted >= size)
        if outside.any() and unknown == "error":
            raise ValueError(
                f"{what} {wanted[outside].flat[0]} lies outside 0 … {size - 1}; unknown='baseline' predicts without it."
            )
        return np.where(outside, -1, wanted).astype(np.int64)

    def _at(self, i: Array, j: Array, chunk: int = 2**18) -> Array:
        """Predictions at positions; −1 stands for an unknown row or column, without offset and factors."""
        offsets, out = self.offsets, np.empty(len(i), self.U_.dtype)
        for start in range(0, len(i), chunk):
            rows, columns = i[start : start + chunk], j[start : start + chunk]
            known_row, known_column = rows >= 0, columns >= 0
            x = np.einsum("ek,ek->e", self.U_[rows], self.V_[columns])
            x = x * offsets.scale_at(rows, columns)
            out[start : start + chunk] = (
                offsets.rows.dtype.type(offsets.mean)
                + np.where(known_row, offsets.rows[rows], 0)
                + np.where(known_column, offsets.columns[columns], 0)
                + np.where(known_row & known_column, x, 0)
            )
        return out

    def complete(self, block: Any = None, *, keep_known: bool = True) -> Array:
        """A dense block of the matrix: what is known stays (unless keep_known=False), the rest is predicted.

        block : None for the whole matrix, or (rows, columns), each a slice or positions
        """
        check_is_fitted(self)
        rows, columns = (slice(None), slice(None)) if block is None else block
        n, m = self.observed_.shape
        i, j = np.arange(n)[rows], np.arange(m)[columns]
        i, j = np.atleast_1d(i), np.atleast_1d(j)
        offsets = self.offsets
        U, V = self.U_[i] * offsets.row_scale[i, None], self.V_[j] * offsets.column_scale[j, None]
        out = U @ V.T
        out += offsets.at(i[:, None], j[None, :])
        if keep_known:
            known = self.observed_.csr()[i][:, j].tocoo()  # stored zeros are kept by indexing
            out[known.row, known.col] = known.data
        return out

    def transform(self, X) -> Array:
        """Rows of a matrix with every unknown entry filled in: each row is folded in and its known entries stay."""
        check_is_fitted(self)
        data = self._entries(X, reset=False)
        out = self._reconstruct(data)
        out[data.rows, data.columns] = data.values
        return out

    def _reconstruct(self, data: Observed) -> Array:
        folded = self._fold(data)
        out = (folded.factors * folded.scale[:, None]) @ (self.V_ * self.column_scale_[:, None]).T
        return out + (folded.bias[:, None] + self.column_bias_ + folded.bias.dtype.type(self.mean_))

    def fold_in(self, X, *, axis: str = "rows") -> Folded:
        """Factors of new rows (or columns), by one least-squares solve each with the other side as it is (CIL 2.4.5).

        X : the new rows (b × m), as for `fit`, or a dict {item: rating} of one; with axis="columns" new columns (n × b)
        """
        check_is_fitted(self)
        if axis == "rows":
            return self._fold(recommend.new_rows(self, X))
        if axis != "columns":
            raise ValueError(f"axis={axis!r} is not accepted; pass 'rows' or 'columns'.")
        data = Observed.of(X)
        if data.shape[0] != len(self.U_):
            raise ValueError(
                f"new columns have {data.shape[0]} rows; the model has {len(self.U_)}."
            )
        return self._fold(data.T, transposed=True)

    def _fold(self, data: Observed, transposed: bool = False) -> Folded:
        """The best factors for new rows of `data`; ALS, whose biases belong to the same least squares, has its own."""
        rows = self.U_, self.row_bias_, self.row_scale_
        columns = self.V_, self.column_bias_, self.column_scale_
        V, others, scale = rows if transposed else columns
        own, spread = self._own_offsets(data, others, "columns" if transposed else "rows")
        i, j = data.rows, data.columns
        x = (data.values - V.dtype.type(self.mean_) - others[j] - own[i]) / (scale[j] * spread[i])
        entries = Entries(data.by_row.indptr, j, x.astype(V.dtype, copy=False))
        reg, alike = self._fold_reg(data.row_counts), self._fold_scale()
        return Folded(solve_rows(entries, V / alike, reg) / alike, own, spread)

    def _own_offsets(self, data: Observed, others: Array, side: str) -> tuple[Array, Array]:
        """Offset and spread of new rows: the mean of a − μ − c over its entries where rows were centred, and its deviation."""
        dtype, how = self.U_.dtype, self._centring()
        bias, spread = np.zeros(data.shape[0], dtype), np.ones(data.shape[0], dtype)
        if how == "both" or how.endswith(side):
            rest = data.with_values(data.values - dtype.type(self.mean_) - others[data.columns])
            bias = row_means(rest).astype(dtype)
        if how == f"zscore {side}":
            spread = row_deviations(data).astype(dtype)
        return bias, spread

    # --- recommending ---

    @property
    def damping_(self) -> float:
        """d of w_j = n_j / (n_j + d): the count of the item of the median rating; 0 for implicit feedback."""
        check_is_fitted(self)
        return recommend.usual_damping(self)

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
        columns = recommend.candidates(self, items, exclude, min_count)
        asked, n = recommend.users_asked_for(self, users, ratings), recommend.check_number(n)
        w = recommend.item_weights(self, damping)
        return recommend.best_items(self, asked, n, columns, exclude_seen, w)

    def similar_items(self, items: Any, n: int = 10) -> Recommendations:
        """The n items whose factors point most nearly the same way as those of an item (cosine), for one or several.

        items : label (where the data had labels) or position, or an array of them
        """
        check_is_fitted(self)
        return recommend.find_similar(self, self.V_, items, n, "column", "item")

    def similar_users(self, users: Any, n: int = 10) -> Recommendations:
        """The n users most like a user: the same as `similar_items` for the rows."""
        check_is_fitted(self)
        return recommend.find_similar(self, self.U_, users, n, "row", "user")

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
        return recommend.explain(self, user, item, n, ratings)

    # --- judging ---

    def score(self, X, y=None, *, unknown: str = "error") -> float:
        """−RMSE over the known entries of X, a matrix of the training shape (higher is better, as scikit-learn wants it).

        unknown : {"error", "baseline"}
            What to do with rows and columns that were not in the data: refuse them, or predict without them (μ + c_j, …).

        Implicit feedback has no ratings to predict: the score is NDCG@10 of X (metrics.ndcg_at_k), among the items that were
        not seen in training or are in X.
        """
        check_is_fitted(self)
        return scoring.score(self, X, unknown)

    def certify(
        self, X, y=None, sample_weight=None, *, seconds=None, unknown: str = "error"
    ) -> Certificate:
        """Check every claim about this fit on X, the training entries.

        Parameters
        ----------
        X : the training entries, as for `fit`
        y : held-out entries of the same matrix, optional
            Whether entries like them are predicted better than by the mean, and by offsets of rows and columns, and ranked
            better than by popularity.
        sample_weight : not accepted; entries have no row weights
        seconds : float, optional
            As everywhere: how long that may take.
        unknown : {"error", "baseline"}
            What to do with rows and columns of y that were not in the data: refuse them, or predict without them.
        """
        check_is_fitted(self)
        if sample_weight is not None:
            raise TypeError("completion models have no row weights; repeat what counts more.")
        return scoring.certify(self, X, y, seconds, unknown)

    @classmethod
    def work(cls, fit: Fit) -> float:
        """Some passes over the entries with all factors; least squares cost more (`sweeps_work`)."""
        entries, rank = fit.data.n_observed, np.shape(fit.U_)[1]
        return float(np.max(fit.get("n_iter_", 1))) * 4 * entries * (rank + 8)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
