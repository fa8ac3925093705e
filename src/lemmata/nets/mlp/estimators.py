"""MLPClassifier and MLPRegressor: perceptrons with scikit-learn's interface, trained by hand-made backpropagation (network.py).

    minimise  1/S Σ sᵢ ℓ(ψ(xᵢ), yᵢ) + B/2S · α ΣΘ²              ψ = z_L(φ(… φ(z₁(x)))), S = Σ sᵢ, B batches an epoch

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MLPClassifier(hidden_layer_sizes=(32,), max_iter=60, tol=0, random_state=0).fit(X[:1000] / 16, y[:1000])
    >>> bool(model.score(X[1000:] / 16, y[1000:]) > 0.85), [part.shape for part in model.coefs_]
    (True, [(64, 32), (32, 10)])
    >>> line = MLPRegressor(hidden_layer_sizes=(8,), solver="lbfgs", activation="tanh", random_state=0)
    >>> bool(line.fit(X[:200] / 16, y[:200]).loss_ < 0.5)
    True

Nothing is scaled inside: the same parameters mean what they mean in scikit-learn, and columns of very different size slow every
solver here as they do there. Put a StandardScaler before it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax
from sklearn.utils import column_or_1d

from lemmata.audit.nets.mlp import MLP_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.parameters import KW_ONLY, choice, parameter
from lemmata.core.supervised import MultilabelClassifier, Regressor, is_multilabel
from lemmata.nets.mlp.base import Perceptron, stochastic_only
from lemmata.nets.mlp.network import softmax_into

Array = np.ndarray


class MLPClassifier(Perceptron, MultilabelClassifier):
    """A multi-layer perceptron that predicts probabilities of classes, or of several labels at once.

    Minimises the negative log-likelihood of the labels plus a ridge on the weights: softmax for more than two classes, logistic
    for two, and logistic for every label of an indicator matrix.

    Attributes
    ----------
    classes_ : (k,)
    coefs_, intercepts_ : lists of (n_in, n_out) and (n_out,)
        Θₖ and bₖ; of the best epoch with early_stopping.
    loss_ : float
        The objective at these weights, of the rows trained on, without dropout.
    loss_curve_ : list
        That of every epoch, at its end.
    best_loss_, best_validation_score_, validation_scores_ : or None
    validation_rows_ : (v,) or None
        The rows that early_stopping held out.
    t_ : int
        Rows seen, each as often as it was.
    n_layers_, n_outputs_, out_activation_, n_iter_, certificate_, trace_, stopped_, n_features_in_, feature_names_in_
    """

    _: KW_ONLY
    class_weight: Any = common.class_weight(before="checkpoint").doc("""
        A factor for the rows of each class, in the loss and in the score of early_stopping.""")

    claims = MLP_CLAIMS
    classifies = True

    # --- targets ---

    def _targets(self, y: Any, reset: bool) -> Array:
        known = reset and self.warm_start and hasattr(self, "classes_")
        if known and not is_multilabel(y):
            self._refuse_other_classes(y)
        return super()._targets(y, reset)

    def _refuse_other_classes(self, y: Any) -> None:
        found = np.unique(column_or_1d(y))
        if set(found.tolist()) != set(self.classes_.tolist()):
            raise ValueError(
                "warm_start can only be used where `y` has the same classes as in the previous call to fit. Previously got "
                f"{self.classes_}, `y` has {found}"
            )

    def _loss_name(self, targets: Array) -> str:
        return "softmax" if targets.ndim == 1 and len(self.classes_) > 2 else "logistic"

    def _n_outputs(self, targets: Array) -> int:
        return targets.shape[1] if targets.ndim == 2 else 1 if len(self.classes_) == 2 else len(self.classes_)  # fmt: skip

    def _loss_targets(self, targets: Array, dtype: Any) -> Array:
        """Places for softmax, ±1 for the logistic loss (4.22)."""
        if self._loss_name(targets) == "softmax":
            return targets
        return (2 * targets - 1).astype(dtype).reshape(len(targets), -1)

    def _weight_rows(self, data: Blocks) -> Blocks:
        if self.class_weight is not None and data.targets is not None and data.targets.ndim == 2:
            raise ValueError("class_weight speaks of one label a row; pass sample_weight for an indicator matrix.")  # fmt: skip
        return self._weighted_by_class(data)

    # --- fitting in parts ---

    @stochastic_only
    def partial_fit(self, X, y, sample_weight=None, classes=None):
        """Train one epoch on these rows, from the weights and the memory of the optimiser of the last call.

        The first call has to name all `classes`, where these rows do not show them.
        """
        with self._all_or_nothing():
            self._validate_params()
            first = not hasattr(self, "coefs_")
            new_classes = classes is None or is_multilabel(y)
            if first and classes is not None:
                self.classes_ = np.unique(column_or_1d(np.asarray(classes)))
            elif classes is not None and set(np.unique(classes)) != set(self.classes_):
                raise ValueError(
                    f"`classes={classes}` is not the same as on last call to partial_fit, was: {self.classes_}"
                )
            data = self._validate_pair(X, y, sample_weight, first, new_classes)
            self._one_epoch(data)
        return self

    # --- output ---

    @property
    def _multilabel(self) -> bool:
        return self.out_activation_ == "logistic" and self.n_outputs_ > 1

    def predict(self, X):
        """The most probable class, or the labels more probable than not, (n, k)."""
        scores = self._apply(X, self._scores)
        if self._multilabel:
            return (scores > 0).astype(int)
        places = (scores[:, 0] > 0).astype(int) if self.n_outputs_ == 1 else scores.argmax(axis=1)
        return self.classes_[places]

    def predict_proba(self, X):
        """The probability of each class, (n, k); of each label, for an indicator matrix."""
        return self._apply(X, lambda rows: self._outputs(rows, softmax_into, expit))

    def predict_log_proba(self, X):
        """The logarithm of the probabilities, computed without underflow."""
        log_of_softmax = partial(log_softmax, axis=1)
        return self._apply(X, lambda rows: self._outputs(rows, log_of_softmax, log_expit))

    def _outputs(self, rows: Any, softmax: Callable, logistic: Callable) -> Array:
        scores = self._scores(rows)
        if self.out_activation_ == "softmax":
            return softmax(scores)
        return logistic(scores if self._multilabel else np.hstack([-scores, scores]))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class MLPRegressor(Perceptron, Regressor):
    """A multi-layer perceptron that predicts numbers, one or several a row.

    Minimises half of the squared error, summed over the outputs, or half of the Poisson deviance, plus a ridge on the weights.
    (Of several outputs scikit-learn's `loss_` is the mean, while the gradient that it follows is that of the sum.)

    Attributes
    ----------
    coefs_, intercepts_, loss_curve_, validation_scores_ : lists
        As in `MLPClassifier`; scores are R².
    loss_, best_loss_, best_validation_score_, t_ : numbers
    validation_rows_ : array
    n_layers_, n_outputs_, out_activation_, n_iter_, certificate_, trace_, stopped_, n_features_in_, feature_names_in_
    """

    loss: str = parameter(
        "squared_error", choice("squared_error", "poisson"), before="hidden_layer_sizes"
    ).doc("""
        "poisson": counts y ≥ 0, whose rate is e^ψ.""")

    claims = MLP_CLAIMS
    multi_output = flattens_column = True

    def _loss_name(self, targets: Array) -> str:
        return "poisson" if self.loss == "poisson" else "squared"

    def _targets(self, y: Any, reset: bool) -> Array:
        y = super()._targets(y, reset)
        if self.loss == "poisson" and y.min(initial=0) < 0:
            raise ValueError(
                f"loss='poisson' is of counts, and y holds {y.min():g}; pass y >= 0, or loss='squared_error'."
            )
        return y

    @stochastic_only
    def partial_fit(self, X, y, sample_weight=None):
        """Train one epoch on these rows, from the weights and the memory of the optimiser of the last call."""
        with self._all_or_nothing():
            self._validate_params()
            first = not hasattr(self, "coefs_")
            self._one_epoch(self._validate_pair(X, y, sample_weight, reset=first))
        return self

    def predict(self, X):
        """ψ(x), (n,) or (n, outputs); with the Poisson loss e^ψ."""

        def predictions(rows: Any) -> Array:
            scores = self._scores(rows)
            if self.out_activation_ == "exp":
                np.exp(scores, out=scores)
            return scores[:, 0] if self.n_outputs_ == 1 else scores

        return self._apply(X, predictions)
