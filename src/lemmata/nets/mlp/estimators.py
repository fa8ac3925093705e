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

from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit, log_softmax
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.nets.mlp import MLP_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.borrowed import StrOptions
from lemmata.core.supervised import MultilabelClassifier, Regressor, is_multilabel
from lemmata.nets.mlp.base import Perceptron, stochastic_only
from lemmata.nets.mlp.network import softmax_into

Array = np.ndarray


class MLPClassifier(Perceptron, MultilabelClassifier):
    """A multi-layer perceptron that predicts probabilities of classes, or of several labels at once.

    Minimises the negative log-likelihood of the labels plus a ridge on the weights: softmax for more than two classes, logistic
    for two, and logistic for every label of an indicator matrix.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of ints, default=(100,)
        The units of each hidden layer; () is a linear model.
    activation : {"relu", "identity", "logistic", "tanh", "softplus", "gelu"}, default="relu"
        φ, of the hidden layers. "logistic" is the notes' sigmoid.
    solver : str or an optimiser of `lemmata.optim`, default="adam"
        "adam", "sgd" (with `momentum`), "lbfgs" (all rows at once, SciPy's), or another by name: "gd" (all rows are the batch),
        "heavy-ball", "averaged-momentum", "nesterov", "adagrad", "rmsprop", "adam-cil", "signsgd"; or an object with its own
        rates: ``Adam(Cosine(1e-2, steps=1000))``.
    alpha : float, default=1e-4
        α, the ridge on weights; biases bear none. It is divided by the rows of a batch, as in scikit-learn.
    batch_size : int or "auto", default="auto"
        Rows of a step; "auto": 200, or all if there are fewer.
    learning_rate : {"constant", "invscaling", "adaptive"}, default="constant"
        How the rate of solver="sgd" changes: not, as 1/(rows seen)^power_t, or to a fifth where progress ends.
    learning_rate_init : float, default=0.001
        The rate η of all solvers but "lbfgs".
    power_t : float, default=0.5
    max_iter : int, default=200
        Epochs; steps of "lbfgs".
    shuffle : bool, default=True
        Whether every epoch has an order of its own.
    random_state : int, RandomState or None
        Draws the weights at the start, the orders, the rows held out and the units dropped.
    tol : float, default=1e-4
        Settled when the loss (early_stopping: the score of rows held out) was not bettered by tol for more than
        `n_iter_no_change` epochs; "lbfgs": no entry of the gradient exceeds it.
    verbose : int or bool, default=False
    warm_start : bool, default=False
        Start from the weights of the fit before.
    momentum : float, default=0.9
    nesterovs_momentum : bool, default=True
        For solver="sgd": where the gradient of a step with momentum is taken.
    early_stopping : bool, default=False
        Hold rows out, stop when their score stays, and keep the weights of the best epoch.
    validation_fraction : float, default=0.1
        The share of rows held out.
    beta_1, beta_2, epsilon : float, default=0.9, 0.999, 1e-8
        Of "adam": how long gradients and their squares are remembered, and what is added to the root.
    n_iter_no_change : int, default=10
    max_fun : int, default=15000
        Calls of the function by "lbfgs".
    dropout : float, default=0.0
        The probability p with which each hidden unit is left out of a step; what stays is divided by 1 − p.
    init : {"auto", "he", "xavier"}, default="auto"
        The variance of the first weights: Xavier's 2/(n_in + n_out) or He's 2/n_in. "auto": He's in networks of more than five
        hidden layers of relu, softplus or gelu, which would halve the signal at every layer; else Xavier's.
    class_weight : dict, "balanced" or None, default=None
        A factor for the rows of each class, in the loss and in the score of early_stopping.
    checkpoint : path, optional
        File to resume from, bit for bit, and to write to while fitting.
    time_limit : float, optional
        Seconds after which the fit ends with what it has.

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

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **Perceptron._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    claims = MLP_CLAIMS
    classifies = True

    def __init__(
        self,
        hidden_layer_sizes=(100,),
        activation="relu",
        *,
        solver="adam",
        alpha=0.0001,
        batch_size="auto",
        learning_rate="constant",
        learning_rate_init=0.001,
        power_t=0.5,
        max_iter=200,
        shuffle=True,
        random_state=None,
        tol=1e-4,
        verbose=False,
        warm_start=False,
        momentum=0.9,
        nesterovs_momentum=True,
        early_stopping=False,
        validation_fraction=0.1,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-8,
        n_iter_no_change=10,
        max_fun=15000,
        dropout=0.0,
        init="auto",
        class_weight=None,
        checkpoint=None,
        time_limit=None,
    ):
        self._keep(
            hidden_layer_sizes=hidden_layer_sizes, activation=activation, solver=solver, alpha=alpha, batch_size=batch_size,
            learning_rate=learning_rate, learning_rate_init=learning_rate_init, power_t=power_t, max_iter=max_iter,
            shuffle=shuffle, random_state=random_state, tol=tol, verbose=verbose, warm_start=warm_start, momentum=momentum,
            nesterovs_momentum=nesterovs_momentum, early_stopping=early_stopping, validation_fraction=validation_fraction,
            beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, n_iter_no_change=n_iter_no_change, max_fun=max_fun,
            dropout=dropout, init=init, checkpoint=checkpoint, time_limit=time_limit, class_weight=class_weight,
        )  # fmt: skip

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
            data = self._validated_pair(X, y, sample_weight, first, new_classes)
            self._one_epoch(data)
        return self

    # --- output ---

    @property
    def _multilabel(self) -> bool:
        return self.out_activation_ == "logistic" and self.n_outputs_ > 1

    def predict(self, X):
        """The most probable class, or the labels more probable than not, (n, k)."""
        check_is_fitted(self)
        scores = self._apply(X, self._scores)
        if self._multilabel:
            return (scores > 0).astype(int)
        places = (scores[:, 0] > 0).astype(int) if self.n_outputs_ == 1 else scores.argmax(axis=1)
        return self.classes_[places]

    def predict_proba(self, X):
        """The probability of each class, (n, k); of each label, for an indicator matrix."""
        check_is_fitted(self)

        def probabilities(rows: Any) -> Array:
            scores = self._scores(rows)
            if self.out_activation_ == "softmax":
                return softmax_into(scores)
            return expit(scores) if self._multilabel else expit(np.hstack([-scores, scores]))

        return self._apply(X, probabilities)

    def predict_log_proba(self, X):
        """The logarithm of the probabilities, computed without underflow."""
        check_is_fitted(self)

        def logarithms(rows: Any) -> Array:
            scores = self._scores(rows)
            if self.out_activation_ == "softmax":
                return log_softmax(scores, axis=1)
            return log_expit(scores) if self._multilabel else log_expit(np.hstack([-scores, scores]))  # fmt: skip

        return self._apply(X, logarithms)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class MLPRegressor(Perceptron, Regressor):
    """A multi-layer perceptron that predicts numbers, one or several a row.

    Minimises half of the squared error, summed over the outputs, or half of the Poisson deviance, plus a ridge on the weights.
    (Of several outputs scikit-learn's `loss_` is the mean, while the gradient that it follows is that of the sum.)

    Parameters
    ----------
    loss : {"squared_error", "poisson"}, default="squared_error"
        "poisson": counts y ≥ 0, whose rate is e^ψ.
    hidden_layer_sizes, activation, solver, alpha, batch_size, learning_rate, learning_rate_init, power_t, max_iter, shuffle, \
random_state, tol, verbose, warm_start, momentum, nesterovs_momentum, early_stopping, validation_fraction, beta_1, beta_2, \
epsilon, n_iter_no_change, max_fun, dropout, init, checkpoint, time_limit
        As in `MLPClassifier`.

    Attributes
    ----------
    coefs_, intercepts_, loss_, loss_curve_, best_loss_, best_validation_score_, validation_scores_, validation_rows_, t_
        As in `MLPClassifier`; scores are R².
    n_layers_, n_outputs_, out_activation_, n_iter_, certificate_, trace_, stopped_, n_features_in_, feature_names_in_
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **Perceptron._parameter_constraints,
        "loss": [StrOptions({"squared_error", "poisson"})],
    }
    claims = MLP_CLAIMS
    multi_output = flattens_column = True

    def __init__(
        self,
        loss="squared_error",
        hidden_layer_sizes=(100,),
        activation="relu",
        *,
        solver="adam",
        alpha=0.0001,
        batch_size="auto",
        learning_rate="constant",
        learning_rate_init=0.001,
        power_t=0.5,
        max_iter=200,
        shuffle=True,
        random_state=None,
        tol=1e-4,
        verbose=False,
        warm_start=False,
        momentum=0.9,
        nesterovs_momentum=True,
        early_stopping=False,
        validation_fraction=0.1,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-8,
        n_iter_no_change=10,
        max_fun=15000,
        dropout=0.0,
        init="auto",
        checkpoint=None,
        time_limit=None,
    ):
        self._keep(
            hidden_layer_sizes=hidden_layer_sizes, activation=activation, solver=solver, alpha=alpha, batch_size=batch_size,
            learning_rate=learning_rate, learning_rate_init=learning_rate_init, power_t=power_t, max_iter=max_iter,
            shuffle=shuffle, random_state=random_state, tol=tol, verbose=verbose, warm_start=warm_start, momentum=momentum,
            nesterovs_momentum=nesterovs_momentum, early_stopping=early_stopping, validation_fraction=validation_fraction,
            beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, n_iter_no_change=n_iter_no_change, max_fun=max_fun,
            dropout=dropout, init=init, checkpoint=checkpoint, time_limit=time_limit, loss=loss,
        )  # fmt: skip

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
            self._one_epoch(self._validated_pair(X, y, sample_weight, reset=first))
        return self

    def predict(self, X):
        """ψ(x), (n,) or (n, outputs); with the Poisson loss e^ψ."""
        check_is_fitted(self)

        def predictions(rows: Any) -> Array:
            scores = self._scores(rows)
            if self.out_activation_ == "exp":
                np.exp(scores, out=scores)
            return scores[:, 0] if self.n_outputs_ == 1 else scores

        return self._apply(X, predictions)
