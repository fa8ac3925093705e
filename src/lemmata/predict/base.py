"""Linear predictors: scores f(x) = xᵀw + b, one per output or class.

    coef_ : (d,), or (m, d) for several outputs        intercept_ : a number, or (m,)

A classifier of two classes has one row of weights, coef_ of shape (1, d), and says classes_[1] where f(x) > 0; with more
classes the largest score wins. Shapes are scikit-learn's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lemmata.core.parameters import fitted
from lemmata.core.supervised import Supervised

Array = np.ndarray


def linear_scores(rows: Any, coef: Array, intercept: Any) -> Array:
    """XWᵀ + b of a block, dense or sparse."""
    return np.asarray(rows @ coef.T) + intercept


def predict_linear(self: Any, X: Any) -> Any:
    """Xw + b: `predict` of a regressor with `coef_` and `intercept_`."""
    check_is_fitted(self)
    return self._apply(X, lambda rows: linear_scores(rows, self.coef_, self.intercept_))


class LinearClassifier(Supervised):
    """Scores and labels of a Classifier with `coef_` (1 or k rows) and `intercept_`."""

    accepts_sparse = True
    coef_: Array = fitted()
    intercept_: Any = fitted()
    classes_: Any = fitted()

    @classmethod
    def restored(cls, parameters, attributes):
        """A model from a file: two classes have one row of weights, more have one each."""
        model = super().restored(parameters, attributes)
        wanted = 1 if len(model.classes_) == 2 else len(model.classes_)
        if len(model.coef_) != wanted:
            raise ValueError(
                f"coef_ has {len(model.coef_)} rows for {len(model.classes_)} classes."
            )
        return model

    def decision_function(self, X):
        """Xw + b: one number a row for two classes, one per class otherwise."""
        check_is_fitted(self)

        def scores(rows):
            found = linear_scores(rows, self.coef_, self.intercept_)
            return found.ravel() if len(self.coef_) == 1 else found

        return self._apply(X, scores)

    def predict(self, X):
        """The label with the largest score."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[places]
