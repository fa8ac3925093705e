"""Linear support vector machines: a hyperplane with the widest margin that the losses allow.

    minimise  ½‖w‖² + ½ (b/a)²  +  C Σ sᵢ (1 − yᵢ(xᵢᵀw + b))₊²         or the hinge itself, without the square

Rows beyond the margin (yf ≥ 1) cost nothing and do not matter; C → ∞ leaves the hard margin (ML "SVM"). LIBLINEAR, and so
scikit-learn, penalises the intercept, with a its `intercept_scaling`; this does the same unless `penalise_intercept=False`.
More than two classes: one problem per class, it against the rest.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVC().fit(X / X.max(axis=0), y)
    >>> model.n_iter_ < 20, model.certificate_.failed
    (True, [])
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.predict.linear.penalised import LINEAR_SVC_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_linear_svc
from lemmata.core.loop import MaxSteps, Settled, Solution, Stop
from lemmata.core.parameters import KW_ONLY, POSITIVE, choice, parameter
from lemmata.core.runs.delegate import conclude_as, fit_as
from lemmata.core.supervised import Classifier, class_weights
from lemmata.core.validation import Interval
from lemmata.predict.base import LinearClassifier
from lemmata.predict.logistic.estimator import WIDE, RowSpaceProblem, penalties
from lemmata.predict.logistic.l1 import algorithm_for
from lemmata.predict.logistic.lbfgs import LBFGSAlgorithm
from lemmata.predict.logistic.newton import NewtonAlgorithm
from lemmata.predict.logistic.problem import LinearProblem, NearOptimum
from lemmata.predict.logistic.surrogates import SquaredHingeSurrogate

Array = np.ndarray
METHODS = {"auto", "newton", "interior", "dual", "subgradient"}


class LinearSVC(LinearClassifier, Classifier):
    """Linear support vector classifier.

    Minimises ½‖w‖² + ½(b/a)² + C Σ sᵢ ℓ(yᵢ(xᵢᵀw + b)) over w and b, ℓ the hinge or its square, a the intercept_scaling;
    one such problem per class against the rest where there are more than two.

    Attributes
    ----------
    classes_ : (k,)
    coef_ : (1, d) for two classes, else (k, d)
    intercept_ : (1,) or (k,)
    dual_coef_ : (1, n) or (k, n)
        The multipliers 0 ≤ α ≤ Cs of the rows, where the method has them: w = Σ αᵢyᵢxᵢ.
    n_iter_, certificate_, trace_, stopped_, n_features_in_, feature_names_in_
    """

    penalty: str = parameter("l2", choice("l1", "l2")).doc("""
        "l1" puts ‖w‖₁ + |b/a| in the place of the squares; with the squared hinge only.""")
    loss: str = parameter("squared_hinge", choice("hinge", "squared_hinge")).doc("""
        The loss of a margin, ℓ(m) = (1 − m)₊² or (1 − m)₊.""")
    _: KW_ONLY
    dual: Any = parameter("auto", "boolean", choice("auto")).doc("""
        Has no effect: the minimum is the same, and `method` says how to find it.""")
    tol: float = common.tol(
        1e-4
    ).doc("""
        When to stop: the duality gap is at most tol times the objective and, of the squared hinge,
        no slope exceeds tol times its scale (method="subgradient": the objective changes by less).""")
    C: float = parameter(1.0, Interval(Real, 0, None, closed="right")).doc("""
        How much the losses count; np.inf for the hard margin, which data that cannot be separated
        do not have.""")
    multi_class: str = parameter("ovr", choice("ovr", "crammer_singer")).doc("""
        One class against the rest.""")
    fit_intercept: bool = common.fit_intercept().doc("Whether there is a b.")
    intercept_scaling: float = parameter(1, POSITIVE).doc("""
        a: the larger, the less the intercept is penalised.""")
    class_weight: Any = common.class_weight().doc("""
        A factor for the rows of each class; "balanced" gives every class the same total weight.""")
    verbose: int = common.verbose()
    random_state: Any = common.random_state().doc('The order of rows for "dual" and "subgradient".')
    max_iter: int = common.max_iter(1000).doc("""
        Steps: of Newton or the interior-point method, five passes of "dual", epochs of
        "subgradient".""")
    method: str = parameter("auto", choice(*METHODS)).doc("""
        "newton" (squared hinge), "interior" (hinge), "dual" (coordinate ascent with shrinking),
        "subgradient" (Pegasos); "auto": the first two, and "dual" where features are too many for a
        Hessian.""")
    penalise_intercept: bool = parameter(True, "boolean").doc("""
        False leaves b free, as the notes do (a = ∞).""")
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = LINEAR_SVC_CLAIMS
    work = staticmethod(cost_of_linear_svc)
    stored: ClassVar = {"coef_": "k d", "intercept_": "k", "dual_coef_?": "k n >=0"}

    # --- class weights of several classes ---

    def _fit_blocks(self, data: Blocks) -> None:
        if self.class_weight is None or len(self.classes_) == 2:
            super()._fit_blocks(data)
        else:
            self._fit_each_class(data)

    def _fit_each_class(self, data: Blocks) -> None:
        """Fit one class after the other, since rows weigh differently: as in scikit-learn, the rest has no class weight."""
        if self.checkpoint is not None:
            raise ValueError(
                "checkpoint= does not go with class_weight= of more than two classes; pass sample_weight instead."
            )
        places, unsettled = np.asarray(data.targets), list[str]()
        factors = class_weights(self.class_weight, self.classes_, places, data.weights)
        found = []
        for own, factor in enumerate(factors):
            y = (places == own).astype(int)
            s = np.where(y, factor, 1.0)
            rows = data.weighted(s if data.weights is None else s * data.weights).with_targets(y)
            ours = LinearSVC(**{**self.get_params(), "class_weight": None, "verbose": 0})
            found.append(fit_as(self, ours, rows, unsettled, classes_=np.arange(2)))
        shown = {
            name: np.concatenate([np.atleast_1d(getattr(one, name)) for one in found])
            for name in ("coef_", "intercept_", "dual_coef_")
            if all(hasattr(one, name) for one in found)
        }
        conclude_as(self, max(found, key=lambda one: one.n_iter_), data, unsettled, **shown)

    # --- the problem ---

    def _refuse_contradictions(self, data: Blocks) -> None:
        if self.multi_class == "crammer_singer":
            raise ValueError(
                "multi_class='crammer_singer' is not offered; pass 'ovr', or LogisticRegression for one loss of all classes."
            )
        if self.penalty == "l1" and self.loss == "hinge":
            raise ValueError(
                "penalty='l1' goes with loss='squared_hinge' only; pass that loss, or penalty='l2'."
            )
        if math.isinf(self.C) and (self.penalty == "l1" or self.method not in ("auto", "interior")):
            raise ValueError(
                "C=inf is the hard margin, which penalty='l2' and method='auto' or 'interior' find; pass a finite C otherwise."
            )
        if self.method == "newton" and self.loss == "hinge":
            raise ValueError(
                "method='newton' needs the second derivative of loss='squared_hinge'; for the hinge pass method='interior'."
            )
        if self.method == "interior" and self.loss == "squared_hinge" and not math.isinf(self.C):
            raise ValueError(
                "method='interior' is for loss='hinge'; for the squared hinge pass method='newton'."
            )
        if self.penalty == "l1" and self.method not in ("auto", "newton"):
            raise ValueError(f"method={self.method!r} has no lasso; pass method='newton'.")
        if self.method == "dual" and self._free:
            raise ValueError(
                "method='dual' moves one multiplier at a time, which a free intercept does not allow; "
                "pass penalise_intercept=True, or another method."
            )
        if self.method == "dual" and not data.in_memory:
            raise ValueError(
                "method='dual' visits rows in random order, so they have to be in memory; pass another method."
            )

    @property
    def _free(self) -> bool:
        return self.fit_intercept and not self.penalise_intercept

    def _choose_method(self, data: Blocks) -> str:
        """Return the method that "auto" means on these rows."""
        if math.isinf(self.C):
            return "interior"
        if self.method != "auto":
            return self.method
        if self.penalty == "l1":
            return "newton"
        affordable = self._width(data) <= WIDE
        if self.loss == "hinge":
            return "interior" if affordable or self._free or not data.in_memory else "dual"
        if affordable:
            return "newton"
        return "lbfgs" if self._free or not data.in_memory else "dual"

    def _in_row_space(self, data: Blocks) -> bool:
        n, d = data.shape
        return (
            n < d
            and isinstance(data.source, np.ndarray)
            and data.in_memory
            and self.penalty == "l2"
            and self.method not in ("dual", "subgradient")
        )

    def _width(self, data: Blocks) -> int:
        return min(data.shape) if self._in_row_space(data) else data.shape[1]

    def _problem(self, data: Blocks) -> LinearProblem:
        strength = 1.0 if math.isinf(self.C) else 1 / self.C
        scale = math.inf if self._free else float(self.intercept_scaling)
        ridge, lasso = (0.0, strength) if self.penalty == "l1" else (strength, 0.0)
        D = self._width(data) + self.fit_intercept
        k = len(self.classes_)
        make = RowSpaceProblem.of_rows if self._in_row_space(data) else LinearProblem.of
        return make(
            self._weighted_by_class(data),
            SquaredHingeSurrogate(1 if k == 2 else k),
            penalties(D, ridge, scale**-2 if self.fit_intercept else None),
            penalties(D, lasso, 1 / scale if self.fit_intercept else None),
            self.fit_intercept,
        )

    def _algorithm(self, data: Blocks) -> Any:
        self._refuse_contradictions(data)
        self._forget("dual_coef_")  # of a fit before
        chosen, squared = self._choose_method(data), self.loss == "squared_hinge"
        if chosen == "interior":
            from lemmata.predict.linear_svm.interior import InteriorAlgorithm

            return InteriorAlgorithm(float(self.C))
        if chosen == "dual":
            from lemmata.predict.linear_svm.dual import DualAlgorithm

            a = float(self.intercept_scaling) if self.fit_intercept else 0.0
            return DualAlgorithm(float(self.C), squared, a)
        if chosen == "subgradient":
            from lemmata.predict.linear_svm.subgradient import SubgradientAlgorithm

            return SubgradientAlgorithm(float(self.C), squared)
        if chosen == "lbfgs":
            return LBFGSAlgorithm()
        if self.penalty == "l1":
            return algorithm_for(data, data.shape[1], SquaredHingeSurrogate(), None)
        return NewtonAlgorithm()

    def _stop(self) -> Stop:
        rule: Stop = NearOptimum(self.tol)
        if self.method == "subgradient":
            rule = Settled(self.tol, patience=3)
        return self._within_time(rule | MaxSteps(self.max_iter))

    def _attributes(self, solution: Solution, problem: LinearProblem) -> dict[str, Any]:
        found = solution.attributes
        if not found.get("separates", True):
            raise ValueError(
                "no hyperplane was found that keeps a hard margin (C=inf): the classes overlap, or touch. Pass a finite C."
            )
        coef, b = problem.split(found["W"])
        shown = {"coef_": coef.astype(problem.dtype), "intercept_": b.astype(problem.dtype)}
        if "alpha" in found:
            shown["dual_coef_"] = np.ascontiguousarray(found["alpha"])
        return shown

    def _describe_unsettled(self, solution: Solution) -> str:
        if "gap" not in solution.trace:
            return super()._describe_unsettled(solution)
        return (
            f"{type(self).__name__} reached max_iter={self.max_iter} with a relative gap of {solution.trace.last('gap'):.1e} > "
            f"tol={self.tol:.0e}: raise max_iter, scale the features, or read certificate_."
        )
