"""Support vector machines with kernels: the widest margin between two classes, and the flattest tube around numbers.

    SVC   minimise  ½‖w‖² + Σ_i C_i max(0, 1 − y_i f(x_i))                f(x) = wᵀφ(x) + b
    SVR   minimise  ½‖w‖² + Σ_i C_i max(0, |y_i − f(x_i)| − ε)            C_i = C · weight of row i

w = Σ β_i φ(x_i) by the representer theorem (ML), and β solves the dual of `problem.py`; rows with β = 0 could be left out of
the data. Results come with the duality gap, an upper bound on how far the objective is from its minimum.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC(C=10).fit(X, y)
    >>> model.n_support_.tolist(), round(model.score(X, y), 2), model.certificate_.failed
    ([4, 11, 12], 0.99, [])
    >>> x = np.linspace(0, 6, 80)[:, None]
    >>> model = SVR(C=10, epsilon=0.05).fit(x, np.sin(x[:, 0]))
    >>> bool(abs(model.predict(x) - np.sin(x[:, 0])).max() < 0.055), len(model.support_) < 20
    (True, True)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from lemmata.audit.predict.kernels.svm import SVC_CLAIMS, SVR_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.engine import config
from lemmata.core.loop import Solution
from lemmata.core.parameters import KW_ONLY, NONNEGATIVE, POSITIVE, choice, parameter
from lemmata.core.supervised import Classifier, Regressor, class_weights, list_classes
from lemmata.predict.svm import platt
from lemmata.predict.svm.base import SupportVectors
from lemmata.predict.svm.one_vs_one import arrange, pair_coefficients, pair_machines, scores, votes
from lemmata.predict.svm.problem import Duals, MachineDual

Array = np.ndarray


def _has_probabilities(model: SVC) -> bool:
    if model.probability is not True:
        raise AttributeError("predict_proba is available with SVC(probability=True).")
    return True


class SVC(Classifier, SupportVectors):
    """Support vector classification, one machine for every pair of classes.

    Minimises ½‖w‖² + Σ C_i max(0, 1 − y_i f(x_i)) over f(x) = wᵀφ(x) + b, by SMO on working sets of the dual.

    Attributes
    ----------
    classes_ : (k,)
    support_ : (n_SV,)
        The rows with β ≠ 0, grouped by class.
    support_vectors_ : (n_SV, d), dense or CSR
        Empty for a precomputed kernel.
    n_support_ : (k,)
    dual_coef_ : (k − 1, n_SV)
        β = ±α, laid out as LIBSVM does; always a dense array of float64.
    intercept_ : (k(k − 1)/2,)
    coef_ : (k(k − 1)/2, d)
        With kernel="linear".
    class_weight_ : (k,)
    probA_, probB_ : (k(k − 1)/2,)
        A and B of Platt's sigmoids, with probability=True.
    kernel_, gamma_ : object, float
        The kernel with numbers for parameters, and its γ (0 where it has none).
    fit_status_ : int
        0 where every machine met tol, else 1.
    steps_ : (k(k − 1)/2,)
        Steps of SMO of every machine.
    shape_fit_ : (n, d)
    certificate_, trace_, stopped_, n_iter_
        n_iter_ counts working sets, not steps.
    """

    _: KW_ONLY
    C: float = parameter(1.0, POSITIVE, before="kernel").doc("""
        What a unit of margin lost costs; C_i = C · class weight · sample weight. Large: few errors
        on the training rows.""")
    probability: Any = parameter(False, "boolean", choice("deprecated"), before="cache_size").doc("""
        Fit Platt's sigmoids to decisions of five folds, for `predict_proba`: six fits instead of
        one. scikit-learn gives this up in 1.11, for `CalibratedClassifierCV(SVC(),
        ensemble=False)`, which works here too.""")
    tol: float = parameter(1e-3, POSITIVE, before="cache_size").doc("""
        Stop where no gradient of the dual that can fall exceeds one that can rise by more (LIBSVM's
        rule): f(x) of free support vectors is then within tol of the margin.""")
    class_weight: Any = common.class_weight(before="verbose").doc("""
        Factors of C by class; "balanced" is n/(k · rows of the class).""")
    decision_function_shape: str = parameter("ovr", choice("ovr", "ovo"), before="checkpoint").doc("""
        What `decision_function` returns for more than two classes: votes by class, ordered by
        confidence, or every machine.""")
    break_ties: bool = parameter(False, "boolean", before="checkpoint").doc("""
        Let confidence decide between classes with as many votes; otherwise the first of them wins.
        """)
    random_state: Any = common.random_state(before="checkpoint").doc(
        "The folds of probability=True; nothing else is drawn."
    )

    claims = SVC_CLAIMS
    stored: ClassVar[Mapping[str, str | type]] = {
        **SupportVectors.stored,
        "class_weight_": "c >=0",
        "steps_": "p int >=0",
        "probA_? probB_?": "p",
    }

    def _class_factors(self, data: Blocks) -> Array:
        if self.class_weight is None:
            return np.ones(len(self.classes_))
        assert data.targets is not None
        return class_weights(self.class_weight, self.classes_, data.targets)

    def _bounds(self, data: Blocks) -> tuple[Array, Array]:
        """(the place of each row's class, C of each row)."""
        places = data.targets
        assert places is not None
        weights = 1.0 if data.weights is None else data.weights
        return places, self.C * self._class_factors(data)[places] * weights

    def _work(self, data: Blocks) -> float:
        places, C = self._bounds(data)
        counts = np.bincount(places[C > 0], minlength=len(self.classes_)).astype(float)
        # Σ (n_i + n_j)² over the pairs of classes
        return float((len(counts) - 2) * (counts @ counts) + counts.sum() ** 2)

    def _machines(self, data: Blocks) -> tuple[MachineDual, ...]:
        (places, C), k = self._bounds(data), len(self.classes_)
        for label in range(k):
            if not (C[places == label] > 0).any():
                raise ValueError(
                    f"every row of the class {self.classes_[label].item()!r} has weight 0, and SVC needs rows of each class "
                    f"({list_classes(self.classes_)}); leave the class out of y, or give it weight."
                )
        return pair_machines(places, k, C)

    def _order(self, data: Blocks) -> Array:
        return np.argsort(self._bounds(data)[0], kind="stable")

    def _arrange(self, problem, betas):
        places = problem.data.targets
        return arrange(problem.machines, betas, places, len(self.classes_))

    def _attributes(self, solution: Solution, problem: Duals) -> dict[str, Any]:
        weights = self._class_factors(problem.data)
        found = super()._attributes(solution, problem) | {"class_weight_": weights}
        self._forget("probA_", "probB_")
        if self.probability is True:
            found["probA_"], found["probB_"] = self._fit_sigmoids(problem)
        return found

    def _fit_sigmoids(self, problem: Duals) -> tuple[Array, Array]:
        """A and B of every pair, from decisions on the rows of each fold by machines fitted to the others."""
        places, C = self._bounds(problem.data)
        rows, k = np.flatnonzero(C > 0), len(self.classes_)
        fewest = int(np.bincount(places[rows], minlength=k).min())
        if fewest < 2:
            raise ValueError("probability=True needs two rows of each class, one to leave out.")
        rng = check_random_state(self.random_state)
        folds = StratifiedKFold(min(platt.FOLDS, fewest), shuffle=True, random_state=rng)
        X, values = problem.X[rows], np.zeros((len(rows), k * (k - 1) // 2))
        kernel = "precomputed" if self._is_given else problem.kernel
        machine = SVC(
            kernel=kernel, tol=self.tol, cache_size=self.cache_size, max_iter=self.max_iter
        )
        for train, test in folds.split(X, places[rows]):
            columns = rows[train] if self._is_given else slice(None)
            with config(certificate=False):
                machine.fit(X[train][:, columns], places[rows][train], C[rows][train])
            values[test] = machine._values(X[test][:, columns])
        return platt.fit_pairs(-values if k == 2 else values, places[rows], k)

    def _coefficients(self) -> Array:
        return pair_coefficients(self.dual_coef_, self.n_support_)

    def decision_function(self, X):
        """f(x): of two classes one number a row; of more, votes by class ("ovr") or every machine ("ovo")."""
        return self._apply(X, self._decisions)

    def _decisions(self, rows: Any) -> Array:
        f = self._values(rows)
        if len(self.classes_) == 2:
            return f.ravel()
        return scores(f, len(self.classes_)) if self.decision_function_shape == "ovr" else f

    def predict(self, X):
        """The class with most votes; of two classes, that on whose side of f(x) = 0 a row lies."""
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        return self._apply(X, self._labels)

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """The probability of each class, (n, k): with probability=True. The likeliest need not be that of `predict`."""

        def probabilities(rows: Any) -> Array:
            f, k = self._values(rows), len(self.classes_)
            return platt.couple(-f if k == 2 else f, self.probA_, self.probB_, k)

        return self._apply(X, probabilities)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X):
        """The logarithm of `predict_proba`."""
        return np.log(self.predict_proba(X))

    def _labels(self, rows: Any) -> Array:
        f, k = self._values(rows), len(self.classes_)
        if k == 2:
            return self.classes_[(f[:, 0] > 0).astype(int)]
        return self.classes_[(scores if self.break_ties else votes)(f, k).argmax(axis=1)]


class SVR(Regressor, SupportVectors):
    """Support vector regression: errors below ε are free, those above cost C each.

    Minimises ½‖w‖² + Σ C_i max(0, |y_i − f(x_i)| − ε) over f(x) = wᵀφ(x) + b.

    Attributes
    ----------
    support_, support_vectors_, n_support_ : (n_SV,), (n_SV, d), (1,)
        The rows on the tube or outside of it.
    dual_coef_ : (1, n_SV)
        β = α − α*, |β_i| ≤ C_i.
    intercept_ : (1,)
    coef_ : (1, d)
        With kernel="linear".
    kernel_, gamma_, fit_status_, steps_, shape_fit_, certificate_, trace_, stopped_, n_iter_
        As in SVC.
    """

    _: KW_ONLY
    tol: float = parameter(1e-3, POSITIVE).doc("""
        Stop where no gradient of the dual that can fall exceeds one that can rise by more: in the
        units of y.""")
    C: float = parameter(1.0, POSITIVE).doc("""
        What a unit of error beyond ε costs; C_i = C · sample weight.""")
    epsilon: float = parameter(0.1, NONNEGATIVE, before="shrinking").doc("""
        ε, half the width of the tube, in the units of y.""")

    claims = SVR_CLAIMS
    stored: ClassVar[Mapping[str, str | type]] = {**SupportVectors.stored, "steps_": "p int >=0"}

    def _machines(self, data: Blocks) -> tuple[MachineDual, ...]:
        assert data.targets is not None
        y = data.targets.astype(np.float64)
        C = np.full(len(y), float(self.C)) * (1.0 if data.weights is None else data.weights)
        members = np.flatnonzero(C > 0)
        return (MachineDual.of_numbers(members, y[members], C[members], float(self.epsilon)),)

    def _work(self, data: Blocks) -> float:
        n = data.shape[0] if data.weights is None else np.count_nonzero(data.weights)
        return (2.0 * n) ** 2

    def _arrange(self, problem, betas):
        members, beta = problem.machines[0].members, betas[0]
        chosen = np.flatnonzero(beta)
        support = members[chosen].astype(np.int32)
        return support, np.array([len(support)], np.int32), beta[chosen][None]

    def predict(self, X):
        """f(x) of every row."""
        return self._apply(X, lambda rows: self._values(rows).ravel())
