"""What lemmata takes from scikit-learn's private modules: all of it, here and nowhere else.

scikit-learn may move or rename these in any release. Then this file changes, and no other; until it does, what has a public
substitute goes on working, and what has none says which release to install.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn

try:
    from sklearn.utils._param_validation import Interval, StrOptions, make_constraint
except ImportError as error:
    # no substitute: _validate_params() knows only scikit-learn's own constraints
    raise ImportError(
        f"scikit-learn {sklearn.__version__} has moved what checks parameters, and this lemmata does not know where to; "
        "install scikit-learn<=1.9, or a newer lemmata."
    ) from error

try:
    from sklearn.utils.validation import _check_sample_weight as check_sample_weight
except ImportError:
    from sklearn.utils.validation import check_array, check_consistent_length

    def check_sample_weight(
        sample_weight: Any,
        X: Any,
        *,
        dtype: Any = None,
        ensure_non_negative: bool = False,
        **_: Any,
    ) -> np.ndarray:
        """One finite weight per row."""
        if sample_weight is None:
            return np.ones(len(X), dtype=dtype or np.float64)
        weights = check_array(sample_weight, ensure_2d=False, dtype=dtype or np.float64)
        if weights.ndim != 1:
            raise ValueError(
                f"sample_weight has {weights.ndim} dimensions; pass one weight per row."
            )
        check_consistent_length(X, weights)
        if ensure_non_negative and (weights < 0).any():
            raise ValueError("sample_weight has negative values; pass weights of at least 0.")
        return weights


def is_search(model: Any) -> bool:
    """Whether a model is one of scikit-learn's searches (GridSearchCV and its kin)."""
    try:
        from sklearn.model_selection._search import BaseSearchCV
    except ImportError:
        from sklearn.model_selection import GridSearchCV, RandomizedSearchCV

        return isinstance(model, GridSearchCV | RandomizedSearchCV)
    return isinstance(model, BaseSearchCV)


def choose_columns(X: Any, columns: Any) -> Any:
    """The columns of an array, sparse matrix or data frame, named as a ColumnTransformer names them."""
    try:
        from sklearn.utils import _safe_indexing
    except ImportError:
        from sklearn.compose import ColumnTransformer

        # the only public way in: keep these columns, drop the rest, change nothing
        keep = ColumnTransformer([("keep", "passthrough", columns)], sparse_threshold=1.0)
        return keep.set_output(transform="default").fit_transform(X)
    return _safe_indexing(X, columns, axis=1)


__all__ = [
    "Interval",
    "StrOptions",
    "check_sample_weight",
    "choose_columns",
    "is_search",
    "make_constraint",
]
