"""Ridge regression of ±1: a linear classifier at the price of one linear system.

    minimise  ½ Σ s(±1 − xᵀw − b)² + ½ α‖w‖²             one problem per class, it against the rest; all share a factorisation

>>> from sklearn.datasets import load_iris
>>> X, y = load_iris(return_X_y=True)
>>> model = RidgeClassifier().fit(X, y)
>>> model.coef_.shape, round(model.score(X, y), 2), model.certificate_.failed
((3, 4), 0.85, [])
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lemmata.audit.predict.linear.least_squares import RIDGE_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_least_squares
from lemmata.core.parameters import KW_ONLY, as_in
from lemmata.core.runs.delegate import conclude_as, fit_as
from lemmata.core.supervised import Classifier, class_weights
from lemmata.predict.base import LinearClassifier
from lemmata.predict.least_squares.ridge import Ridge
from lemmata.predict.logistic.surrogates import signs


class RidgeClassifier(LinearClassifier, Classifier):
    """Classification by ridge regression of ±1, one-vs-rest for more than two classes.

    Attributes
    ----------
    classes_ : (k,)
    coef_ : (1, d) for two classes, else (k, d)
    intercept_ : (1,) or (k,)
    solver_, n_iter_, certificate_, trace_, stopped_ : as of Ridge
    """

    alpha: float = as_in(Ridge, "alpha")
    _: KW_ONLY
    fit_intercept: bool = as_in(Ridge, "fit_intercept")
    copy_X: bool = as_in(Ridge, "copy_X")
    max_iter: Any = as_in(Ridge, "max_iter")
    tol: float = as_in(Ridge, "tol")
    class_weight: Any = common.class_weight()
    solver: str = as_in(Ridge, "solver")
    positive: bool = as_in(Ridge, "positive")
    random_state: Any = as_in(Ridge, "random_state")

    claims = RIDGE_CLAIMS
    work = staticmethod(cost_of_least_squares)
    verbose, checkpoint, time_limit = 0, None, None
    stored: ClassVar[dict[str, str | type]] = {"coef_": "k d", "intercept_": "k", "solver_": str}

    def _fit_blocks(self, data: Blocks) -> None:
        places, k = np.asarray(data.targets), len(self.classes_)
        y, rows = signs(places, 1 if k == 2 else k).astype(np.float64), data
        if self.class_weight is not None:  # scikit-learn counts rows for "balanced", not weights
            factors = class_weights(self.class_weight, self.classes_, places)[places]
            rows = data.weighted(factors if data.weights is None else factors * data.weights)
        given = {name: one for name, one in self.get_params().items() if name != "class_weight"}
        unsettled: list[str] = []
        rows = rows.with_targets(y[:, 0] if k == 2 else y)
        ours = fit_as(self, Ridge(**given), rows, unsettled)
        b = np.zeros(len(y[0]), data.dtype) + ours.intercept_
        conclude_as(self, ours, data, unsettled, coef_=np.atleast_2d(ours.coef_), intercept_=b)
