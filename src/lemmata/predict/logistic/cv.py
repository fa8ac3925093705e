"""Logistic regression whose C, and mixture of penalties, are chosen by cross-validation.

>>> from sklearn.datasets import load_iris
>>> X, y = load_iris(return_X_y=True)
>>> model = LogisticRegressionCV(Cs=5, cv=3).fit(X, y)
>>> model.scores_.shape, round(model.score(X, y), 2), model.certificate_.failed
((3, 1, 5), 0.97, [])
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from lemmata.audit.predict.linear.penalised import LOGISTIC_CV_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_logistic_regression
from lemmata.core.engine import config
from lemmata.core.parameters import COUNT, KW_ONLY, as_in, choice, fitted, parameter
from lemmata.core.runs.delegate import conclude_as, fit_as
from lemmata.core.supervised import Classifier, class_weights
from lemmata.predict.base import LinearClassifier
from lemmata.predict.logistic.estimator import LogisticRegression

Array = np.ndarray
SHARED = (
    "fit_intercept", "dual", "solver", "tol", "max_iter", "verbose", "intercept_scaling", "random_state",
)  # fmt: skip


class LogisticRegressionCV(LinearClassifier, Classifier):
    """Logistic regression at the C and ρ with the best mean score on rows left out.

    Attributes
    ----------
    C_, l1_ratio_ : float
        Those chosen, with which all rows are fitted.
    Cs_ : (n_Cs,)
    l1_ratios_ : (n_l1_ratios,)
    scores_ : (n_folds, n_l1_ratios, n_Cs)
    coefs_paths_ : (n_folds, n_l1_ratios, n_Cs, 1 or k, d + 1)
        Weights of every fold; without an intercept d.
    classes_, coef_, intercept_, n_iter_, certificate_, trace_, stopped_ : as of LogisticRegression
    """

    _: KW_ONLY
    Cs: Any = parameter(10, COUNT, "array-like").doc("""
        The C to choose from, or how many between 1e-4 and 1e4.""")
    l1_ratios: Any = parameter((0.0,), "array-like", None).doc("""
        The ρ to choose from; None means a ridge.""")
    fit_intercept: bool = as_in(LogisticRegression, "fit_intercept")
    cv: Any = parameter(None, "cv_object").doc("The folds; None: five, with all classes in each.")
    dual: bool = as_in(LogisticRegression, "dual")
    penalty: Any = parameter("auto", choice("l1", "l2", "elasticnet", "auto", "deprecated")).doc("""
        "l1" says l1_ratios=(1,), "l2" l1_ratios=(0,); "auto": l1_ratios decides.""")
    scoring: Any = parameter(None, str, callable, None).doc("""
        A scorer of scikit-learn; None: accuracy.""")
    solver: str = as_in(LogisticRegression, "solver")
    tol: float = as_in(LogisticRegression, "tol")
    max_iter: int = as_in(LogisticRegression, "max_iter")
    class_weight: Any = as_in(LogisticRegression, "class_weight")
    n_jobs: Any = as_in(LogisticRegression, "n_jobs")
    verbose: int = as_in(LogisticRegression, "verbose")
    refit: bool = parameter(True, "boolean").doc("""
        Fit all rows at the C chosen. False, the mean of the folds' weights, is refused: it is the
        minimum of nothing.""")
    intercept_scaling: float = as_in(LogisticRegression, "intercept_scaling")
    random_state: Any = as_in(LogisticRegression, "random_state")
    use_legacy_attributes: bool = parameter(False, "boolean").doc("""
        True, a dict by class of the same scores, is refused; scikit-learn gives it up in 1.10.""")

    claims = LOGISTIC_CV_CLAIMS
    work = staticmethod(cost_of_logistic_regression)
    checkpoint, time_limit = None, None
    min_samples = 2
    stored: ClassVar[dict[str, str | type]] = {
        "coef_": "k d",
        "intercept_": "k",
        "C_": ">0",
        "l1_ratio_": ">=0 <=1",
        "Cs_": "a >0",
        "l1_ratios_": "l >=0 <=1",
        "scores_": "f l a",
        "coefs_paths_": "f l a k e",  # e is d + 1, or d without an intercept
    }
    C_: float = fitted()
    l1_ratio_: float = fitted()

    predict_proba = LogisticRegression.predict_proba
    predict_log_proba = LogisticRegression.predict_log_proba
    _probabilities = LogisticRegression._probabilities

    def _fit_blocks(self, data: Blocks) -> None:
        if not self.refit or self.use_legacy_attributes:
            raise ValueError(
                "LogisticRegressionCV has refit=True, use_legacy_attributes=False only."
            )
        if not (isinstance(data.source, np.ndarray) or data.sparse):
            raise ValueError("cv needs rows that can be chosen: pass an array or a sparse matrix.")
        Cs = np.logspace(-4, 4, self.Cs) if np.ndim(self.Cs) == 0 else np.array(self.Cs, float)
        ratios = {"l1": [1.0], "l2": [0.0]}.get(self.penalty, self.l1_ratios)
        ratios = np.array([0.0] if ratios is None else ratios, dtype=np.float64)
        given = {name: getattr(self, name) for name in SHARED}
        if self.class_weight is not None:
            factors = class_weights(
                self.class_weight, self.classes_, np.asarray(data.targets), data.weights
            )
            given["class_weight"] = dict(zip(self.classes_.tolist(), factors.tolist(), strict=True))
        scores, paths = self._score_folds(data, Cs, ratios, given)
        best = np.unravel_index(int(np.argmax(scores.sum(axis=0))), scores.shape[1:])
        dtype = data.dtype
        Cs, ratios, scores, paths = (one.astype(dtype) for one in (Cs, ratios, scores, paths))
        C, ratio = float(Cs[best[1]]), float(ratios[best[0]])
        unsettled: list[str] = []
        ours = fit_as(self, LogisticRegression(C=C, l1_ratio=ratio, **given), data, unsettled)
        chosen = {"C_": C, "l1_ratio_": ratio, "Cs_": Cs, "l1_ratios_": ratios}
        conclude_as(self, ours, data, unsettled, scores_=scores, coefs_paths_=paths, **chosen)

    def score(self, X, y, sample_weight=None):
        """The score that C was chosen by, `scoring`."""
        scorer = check_scoring(LogisticRegression(), scoring=self.scoring)
        own = LogisticRegression.score if self.scoring is None else scorer
        weigh = {} if sample_weight is None else {"sample_weight": sample_weight}
        return own(self, X, y, **weigh)

    def _score_folds(
        self, data: Blocks, Cs: Array, ratios: Array, given: dict[str, Any]
    ) -> tuple[Array, Array]:
        """Scores (folds, ρ, Cs) and weights (folds, ρ, Cs, 1 or k, D): paths of rising C, each fit from the one before."""
        X, y, s = data.source, self.classes_[data.targets], data.weights
        X = X.tocsr() if data.sparse else X
        folds = list(check_cv(self.cv, y, classifier=True).split(X, y))
        scorer = check_scoring(LogisticRegression(), scoring=self.scoring)
        k = 1 if len(self.classes_) == 2 else len(self.classes_)
        scores = np.empty((len(folds), len(ratios), len(Cs)))
        paths = np.empty((*scores.shape, k, data.shape[1] + self.fit_intercept))
        for f, (train, test) in enumerate(folds):
            if len(np.unique(y[train])) < len(self.classes_):
                raise ValueError(
                    f"fold {f} lacks a class; pass fewer folds, or a splitter that stratifies."
                )
            weigh = {} if s is None else {"sample_weight": s[test]}
            for r, ratio in enumerate(ratios):
                model = LogisticRegression(l1_ratio=float(ratio), warm_start=True, **given)
                for c in np.argsort(Cs):
                    with warnings.catch_warnings(), config(certificate=False):
                        warnings.simplefilter("ignore", ConvergenceWarning)
                        model.set_params(C=float(Cs[c]))
                        model.fit(X[train], y[train], None if s is None else s[train])
                    scores[f, r, c] = scorer(model, X[test], y[test], **weigh)
                    b = model.intercept_[:, None][:, : int(self.fit_intercept)]
                    paths[f, r, c] = np.hstack([model.coef_, b])
        return scores, paths
