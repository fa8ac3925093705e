"""SGDClassifier: the objective of scikit-learn's stochastic gradient descent, at its minimum.

    minimise  1/n Σ sᵢ ℓ(yᵢ, xᵢᵀw + b) + α(ρ‖w‖₁ + ½(1 − ρ)‖w‖²)                  one problem per class, it against the rest

Steps along single gradients come near this minimum and depend on rates, seeds and the order of rows; the solvers of
LogisticRegression, LinearSVC and Ridge reach it in a few passes, also over files and streams. What only steers the steps has
no effect here.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SGDClassifier(loss="log_loss", alpha=1e-3).fit(X, y)
    >>> round(model.score(X, y), 2), model.certificate_.failed
    (0.97, [])
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.utils.metaestimators import available_if

from lemmata.audit.predict.linear.penalised import SGD_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_linear_svc
from lemmata.core.parameters import (
    COUNT,
    FRACTION,
    KW_ONLY,
    NONNEGATIVE,
    SHARE,
    Parameter,
    choice,
    parameter,
)
from lemmata.core.runs.delegate import conclude_as, fit_as
from lemmata.core.supervised import Classifier, class_weights
from lemmata.core.validation import Interval
from lemmata.predict.base import LinearClassifier
from lemmata.predict.least_squares.ridge import Ridge
from lemmata.predict.linear_svm.estimator import LinearSVC
from lemmata.predict.logistic.estimator import LogisticRegression

Array = np.ndarray
LOSSES = ("hinge", "log_loss", "squared_hinge", "squared_error")
RATES = ("constant", "optimal", "invscaling", "adaptive", "pa1", "pa2")
TOLERANCE = 1e-6  # of our solvers, whatever `tol` says of stochastic steps


def _steers(default: Any, *accepts: Any) -> Any:
    return Parameter(default, accepts, "Has no effect: it steers stochastic steps.")


def _has_probabilities(model: Any) -> bool:
    if model.loss != "log_loss":
        raise AttributeError(f"predict_proba needs loss='log_loss'; this has loss={model.loss!r}.")
    return True


class SGDClassifier(LinearClassifier, Classifier):
    """Linear classifiers by scikit-learn's name for stochastic gradient descent, solved to the minimum.

    Attributes
    ----------
    classes_ : (k,)
    coef_ : (1, d) for two classes, else (k, d)
    intercept_ : (1,) or (k,)
    n_iter_ : int
        Steps of the solver of all problems, far fewer than epochs of stochastic steps.
    dual_coef_ : (1, n) or (k, n), of the hinge
        Multipliers of the rows, between 0 and s/n: the proof that no weights are better.
    certificate_, trace_, stopped_
    """

    loss: str = parameter("hinge", choice(*LOSSES)).doc("ℓ, the loss of a margin.")
    _: KW_ONLY
    penalty: Any = parameter("l2", choice("l2", "l1", "elasticnet"), None).doc("""
        ρ = 0, 1, l1_ratio, or α = 0. The hinge and the squared error have "l2" only, the squared
        hinge "l2" and "l1".""")
    alpha: float = parameter(0.0001, NONNEGATIVE).doc("α, the price of the weights.")
    l1_ratio: Any = parameter(0.15, SHARE, None).doc('ρ of penalty="elasticnet".')
    fit_intercept: bool = common.fit_intercept()
    max_iter: int = common.max_iter(1000).doc("The most steps of the solver.")
    tol: Any = _steers(1e-3, NONNEGATIVE, None)
    shuffle: bool = _steers(True, "boolean")
    verbose: int = common.verbose()
    epsilon: float = _steers(0.1, NONNEGATIVE)
    n_jobs: Any = common.n_jobs()
    random_state: Any = _steers(None, "random_state")
    learning_rate: str = _steers("optimal", choice(*RATES))
    eta0: float = _steers(0.01, NONNEGATIVE)
    power_t: float = _steers(0.5, NONNEGATIVE)
    early_stopping: bool = _steers(False, "boolean")
    validation_fraction: float = _steers(0.1, FRACTION)
    n_iter_no_change: int = _steers(5, COUNT)
    class_weight: Any = common.class_weight()
    warm_start: bool = _steers(False, "boolean")
    average: Any = _steers(False, "boolean", Interval(Integral, 0, None, closed="left"))

    claims = SGD_CLAIMS
    work = staticmethod(cost_of_linear_svc)
    checkpoint, time_limit = None, None
    stored: ClassVar[dict[str, str | type]] = {
        "coef_": "k d",
        "intercept_": "k",
        "dual_coef_?": "k n >=0",
    }

    def _solver(self, n: int) -> Any:
        """Return the model of ours with the same objective of two classes and n rows."""
        ratio = {"l1": 1.0, "elasticnet": self.l1_ratio}.get(self.penalty, 0.0) or 0.0
        alpha = 0.0 if self.penalty is None else float(self.alpha)
        C = 1 / (alpha * n) if alpha > 0 else np.inf
        same: dict[str, Any] = {
            "fit_intercept": self.fit_intercept,
            "max_iter": self.max_iter,
            "tol": TOLERANCE,
        }
        if self.loss == "log_loss":
            return LogisticRegression(C=C, l1_ratio=ratio, **same)
        if self.loss == "squared_error" and ratio == 0:
            return Ridge(alpha=alpha * n, fit_intercept=self.fit_intercept)
        if ratio > 0 and not (ratio == 1 and self.loss == "squared_hinge"):
            raise ValueError(
                f"SGDClassifier(loss={self.loss!r}) has no penalty={self.penalty!r}; pass penalty='l2' or loss='log_loss'."
            )
        if np.isinf(C):
            raise ValueError(f"SGDClassifier(loss={self.loss!r}) needs a penalty: pass alpha > 0.")
        penalty = "l1" if ratio == 1 else "l2"
        return LinearSVC(penalty, self.loss, C=C, penalise_intercept=False, **same)

    def _fit_blocks(self, data: Blocks) -> None:
        n, k, places = data.shape[0], len(self.classes_), np.asarray(data.targets)
        factors = np.ones(k)
        if self.class_weight is not None:
            factors = class_weights(self.class_weight, self.classes_, places)
        found: list[Any] = []
        unsettled: list[str] = []
        for own in [1] if k == 2 else range(k):
            y = (places == own).astype(int)
            # as in scikit-learn, the rest of several classes has no class weight
            s = factors[places] if k == 2 else np.where(y, factors[own], 1.0)
            rows = data.weighted(s if data.weights is None else s * data.weights).with_targets(y)
            ours = self._solver(n)
            if isinstance(ours, Ridge):
                rows = rows.with_targets(2.0 * y - 1)
            found.append(fit_as(self, ours, rows, unsettled, classes_=np.arange(2)))
        ours = max(found, key=lambda one: one.n_iter_)
        coef = np.vstack([np.atleast_2d(one.coef_) for one in found])
        b = np.array([np.ravel(one.intercept_)[0] for one in found])
        shown = {"coef_": coef, "intercept_": b}
        self._forget("dual_coef_")
        if all(hasattr(one, "dual_coef_") for one in found):
            # the objective here is α times that of LinearSVC
            shown["dual_coef_"] = float(self.alpha) * np.vstack([one.dual_coef_ for one in found])
        conclude_as(self, ours, data, unsettled, **shown)

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """σ(f) of two classes; of more, the same of each against the rest, divided by their sum. (n, k)"""
        p = expit(self.decision_function(X))
        if p.ndim == 1:
            return np.column_stack([1 - p, p])
        total = p.sum(axis=1, keepdims=True)
        return np.where(total > 0, p / np.where(total > 0, total, 1), 1 / len(self.classes_))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X):
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
