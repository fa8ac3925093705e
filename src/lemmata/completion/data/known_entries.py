"""Input of completion models: the known entries of a matrix, by their positions, by labels, or as all that is not NaN.

What a model is fitted to is checked here, and so is what factors of another library are certified on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from lemmata.completion.data import frames
from lemmata.completion.observed import Labels, Observed
from lemmata.core.blocks import is_dask, is_stream, unmask
from lemmata.core.estimator import Model
from lemmata.core.validation import refuse_shrunk_file


class ModelOfEntries(Model):
    """A model of a matrix with holes."""

    accepts_sparse = True

    def _validate_rows(
        self, X, sample_weight=None, reset: bool = True, min_samples: int | None = None
    ) -> Any:
        return self._entries(X, reset)

    def _entries(self, X: Any, reset: bool) -> Observed:
        """The known entries of rows; of new ones (reset=False), columns are matched by their labels."""
        if not _holds_entries(X):
            return _checked_entries(self, X, reset)
        data = Observed.of(X)
        if not reset and hasattr(self, "observed_"):
            data = data.aligned(self.observed_, rows=False)
        self._check_width(data, reset)
        return data


def _holds_entries(X: Any) -> bool:
    """Whether X lists entries (Observed, lemmata.data ratings, a long frame) rather than being the matrix."""
    if isinstance(X, Observed) or hasattr(X, "user_ids"):
        return True
    columns = frames.frame_columns(X)
    return bool(columns) and frames.columns_of_entries(list(columns or ())) is not None


def _checked_entries(model: Model, X: Any, reset: bool) -> Observed:
    """The known entries of an array, sparse matrix or DataFrame, whose names are kept as labels; checked by scikit-learn."""
    if is_dask(X) or is_stream(X):
        raise TypeError(
            f"a {type(X).__name__} is not a matrix with holes; accepted are arrays with NaN, sparse matrices, DataFrames and "
            "Observed (Observed.from_file for ratings, completion.Distributed for a cluster)."
        )
    X = frames.stored_entries(X) if sp.issparse(X) else frames.without_na(unmask(X))
    refuse_shrunk_file(X)
    checked = validate_data(
        model,
        X,
        reset=reset,
        dtype=[np.float64, np.float32],
        accept_sparse=("csr", "csc", "coo"),
        ensure_all_finite="allow-nan",
    )
    data = Observed.of(checked)
    if hasattr(X, "columns") and hasattr(X, "index"):
        data.row_labels, data.column_labels = (
            Labels(np.asarray(X.index)),
            Labels(np.asarray(X.columns)),
        )
    return data
