"""Completion models where scikit-learn expects rows of X and numbers y: one (user, item) pair per row, its rating as y.

    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from lemmata.completion import MeanRatings
    >>> rng = np.random.default_rng(0)
    >>> X = rng.permutation(np.argwhere(rng.random((30, 20)) < 0.5))     # (user, item)
    >>> y = 3 + 0.1 * X[:, 0] - 0.1 * X[:, 1]
    >>> bool(cross_val_score(Pairs(MeanRatings()), X, y, cv=3, scoring="r2").min() > 0.8)
    True

So `GridSearchCV(Pairs(ALS()), {"model__rank": [5, 10]})` chooses by held-out pairs, and `cross_val_score` splits them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, column_or_1d

from lemmata.completion.data.entries import DUPLICATES
from lemmata.completion.data.frames import columns_of_entries, frame_columns
from lemmata.completion.observed import Observed
from lemmata.core.validation import refuse_nonfinite

Array = np.ndarray


class Pairs(RegressorMixin, BaseEstimator):
    """A completion model as a regressor: (user, item) rows as X, ratings as y.

    Parameters
    ----------
    model : a completion model, such as ALS()
        Cloned before it is fitted; its parameters are set as model__rank and so on.
    duplicates : {"error", "last", "mean"}, default="error"
        What to do with a pair given twice in training.
    unknown : {"baseline", "error"}, default="baseline"
        What `predict` does with users and items that training did not have, of which a random fold nearly always holds some:
        predict without them (μ + c_j, …), or refuse them.

    Attributes
    ----------
    model_ : the fitted model, with its `certificate_`, `recommend` and so on
    n_features_in_ : 2

    Its score is R², as that of scikit-learn's regressors; scoring="neg_root_mean_squared_error" gives −RMSE. Implicit feedback
    predicts no ratings, so it is refused: compare such models by `metrics.evaluate`.
    """

    def __init__(self, model: Any = None, *, duplicates: str = "error", unknown: str = "baseline"):
        self.model = model
        self.duplicates = duplicates
        self.unknown = unknown

    def fit(self, X, y):
        """Fit the model to ratings y of the pairs X.

        X : array or DataFrame (n, 2) of users and items, labels of any type; a DataFrame may have further columns if two are
            called user and item (or the like)
        y : array (n,) of ratings
        """
        model = self.model
        if model is None:
            from lemmata.completion.als.estimator import ALS

            model = ALS()
        if not hasattr(model, "fold_in"):
            raise TypeError(
                f"Pairs takes a completion model, such as ALS(); got {type(model).__name__}."
            )
        if getattr(model, "feedback", "explicit") == "implicit":
            raise ValueError(
                "implicit feedback predicts preferences, not the counts that y holds; compare such models by metrics.evaluate."
            )
        if self.duplicates not in DUPLICATES:
            raise ValueError(
                f"duplicates={self.duplicates!r} is not accepted; pass one of {', '.join(DUPLICATES)}."
            )
        if y is None:
            raise ValueError(
                "Pairs requires y to be passed, but the target y is None: one rating for each (user, item) row of X."
            )
        users, items = _pairs(X)
        ratings = column_or_1d(y, warn=True)
        if len(ratings) != len(users):
            raise ValueError(
                f"y has shape {ratings.shape}; pass one rating for each of the {len(users)} pairs."
            )
        entries = Observed.from_labels(users, items, ratings, duplicates=self.duplicates)
        self.model_ = clone(model).fit(entries)
        self.n_features_in_ = 2
        return self

    def predict(self, X) -> Array:
        """The predicted rating of every pair."""
        check_is_fitted(self)
        users, items = _pairs(X)
        return self.model_.predict(users, items, unknown=self.unknown)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        # pairs of labels, not features: most of scikit-learn's common checks do not apply
        tags.input_tags.two_d_array = False
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _pairs(X: Any) -> tuple[Array, Array]:
    """The users and the items of pairs."""
    columns = frame_columns(X)
    if columns:
        roles = columns_of_entries(list(columns), rated=False)
        parts = list(columns.values())
        if roles is None and len(parts) != 2:
            raise ValueError(
                f"which columns are the user and the item? There are {', '.join(columns)}; pass these two alone."
            )
        pair = parts if roles is None else [parts[roles["user"]], parts[roles["item"]]]
        return np.asarray(pair[0]), np.asarray(pair[1])
    if sp.issparse(X):
        raise TypeError(
            "Pairs takes (user, item) rows; a sparse matrix is for the model itself, as fit(X)."
        )
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"X has shape {array.shape}; pass two columns, the user and the item.")
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: labels are numbers, text or other objects.")
    if array.dtype.kind == "f":
        refuse_nonfinite(array)
        if (array == np.floor(array)).all() and np.abs(array).max(initial=0) < 2**53:
            array = array.astype(np.int64)  # ids that travelled as floats
    return array[:, 0], array[:, 1]
