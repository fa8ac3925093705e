"""Networks as estimators: any torch.nn.Module behind scikit-learn's interface, trained by the loop of every fit.

    minimise  (1/Σw) Σ_i wᵢ ℓ(f(xᵢ), yᵢ)   over the weights of a network f

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = NeuralClassifier(max_iter=20, learning_rate=0.01, net__widths=(32,), random_state=0).fit(X / 16, y)
    >>> float(model.score(X / 16, y)) > 0.97
    True
    >>> bool(model.history_["loss"][-1] < 0.1)
    True
    >>> type(NeuralRegressor(max_iter=5, random_state=0).fit(X[:, 1:] / 16, X[:, 20]).module_).__name__
    'FeedForward'

`net` is a class, called as ``net(input_shape, n_outputs, **net__…)``, so that ``GridSearchCV(model, {"net__widths":
…})`` works; or a module, which is copied, weights and all. None is `FeedForward`, a multi-layer perceptron.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax
from sklearn.metrics import r2_score
from sklearn.utils.multiclass import unique_labels

from lemmata.audit.nets import (
    CLASSIFIER_CLAIMS,
    CLASSIFIER_MORE_CLAIMS,
    REGRESSOR_CLAIMS,
    REGRESSOR_MORE_CLAIMS,
)
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Certificate
from lemmata.core.parameters import ANYTHING, KW_ONLY, parameter
from lemmata.core.supervised import Classifier, Regressor, Supervised
from lemmata.core.validation import Interval
from lemmata.nets.estimators import storage
from lemmata.nets.estimators.neural import Neural, rows_to_state
from lemmata.registry import require

Array = np.ndarray


class NeuralPredictor(Neural, Supervised):
    """A network that predicts y: it says how many outputs there are, their loss, and what they mean."""

    net: Any = parameter(None, ANYTHING, before="optimizer").doc("""
        Called as ``net(input_shape, n_outputs, **net__…)``; a module is copied and training begins
        at its weights; None is `FeedForward`. ``net__width=32`` passes `width` on, and can be
        searched over.""")
    _: KW_ONLY
    loss: Any = parameter(None, str, callable, None, before="optimizer")

    parts = ("net",)  # net__width
    stored: ClassVar[Mapping[str, str | type]] = {**Neural.stored, "loss_": "audited"}

    # --- the network, and its parameters: net__width ---

    def get_params(self, deep=True):
        return {**super().get_params(deep=deep), **self._net_parameters()}

    def set_params(self, **params):
        for name in [name for name in params if name.startswith("net__")]:
            setattr(self, name, params.pop(name))
        super().set_params(**params)
        return self

    def _net_parameters(self) -> dict[str, Any]:
        names = object.__dir__(self)  # scikit-learn's dir() evaluates every property
        return {name: getattr(self, name) for name in names if name.startswith("net__")}

    def _network(self, data: Blocks | None) -> Any:
        torch = require("torch", "deep", what=type(self).__name__)
        options = {k.removeprefix("net__"): v for k, v in self._net_parameters().items()}
        if isinstance(self.net, torch.nn.Module):
            if options:
                raise ValueError(
                    f"net__{next(iter(options))} is given, but net is a module that is built already; pass its class."
                )
            # features to be fine-tuned get a linear map of as many outputs as are needed
            extend = getattr(self.net, "with_outputs", None)
            if extend is None:
                return self._begin_with(self.net)
            return self._begin_with(partial(extend, self._n_outputs(), self.input_shape_))
        cls, shape = storage.network_class(self.net), self.input_shape_
        return self._begin_with(
            partial(storage.build_network, cls, shape, self._n_outputs(), options)
        )

    # --- fitting ---

    def partial_fit(self, X, y, sample_weight=None):  # type: ignore[override]
        """Train one epoch on these rows, continuing the last call (weights and memory of the optimiser)."""
        return super().partial_fit(X, y, sample_weight)

    def certify(
        self, X, y=None, sample_weight=None, *, X_test=None, y_test=None, seconds=None
    ) -> Certificate:
        """Check every claim about this fit on X and y, usually the training data, and on rows that it was not fitted to.

        X_test, y_test : rows drawn like X, independently of it; without them, claims about new rows use those that
            early stopping held out, or can't tell
        seconds : float, optional
            Time limit; claims that need more stay *not checked*. By default five times the work of the fit.
        """
        if (X_test is None) != (y_test is None):
            raise ValueError("pass X_test and y_test together.")
        return super().certify(X, y, sample_weight, X_test=X_test, y_test=y_test, seconds=seconds)

    def _statements(self, data: Blocks) -> dict[str, Any]:
        found = super()._statements(data)
        score = self._score_of(data, found["validation_rows_"]) if self.early_stopping else None
        return found if score is None else {**found, "best_validation_score_": score}

    def _stated_loss(self, data: Blocks) -> float:
        """The mean loss over rows: log loss of classes, squared loss of numbers."""
        rows, y, weights = rows_to_state(data)
        return float(np.average(self._row_losses(self._outputs(rows), y), weights=weights))

    def _score_of(self, data: Blocks, held: Array) -> float | None:
        """Score of the rows held out; None for a single number, which has no R², and without targets."""
        if data.targets is None:
            return None
        first, parts = 0, []
        for rows, y, weights in data.triples():
            here = held[(held >= first) & (held < first + len(y))] - first
            w = np.ones(len(here)) if weights is None else weights[here]
            if len(here):  # a block may hold none of them
                parts.append((self._outputs(rows[here]), y[here], w))
            first += len(y)
        outputs, y, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self._held_out_score(outputs, y, weights) if weights.any() else None

    def _rebuild(self, network: Any) -> Any:
        size = sum(array.size for array in network.tensors.values())
        storage.refuse_huge(self._net_parameters(), size)
        return super()._rebuild(network)

    # --- for subclasses ---

    def _n_outputs(self) -> int:
        raise TypeError(f"{type(self).__name__} does not define the outputs of its network.")

    def _row_losses(self, outputs: Array, y: Any) -> Array:
        raise TypeError(f"{type(self).__name__} defines no loss.")

    def _held_out_score(self, outputs: Array, y: Array, weights: Array) -> float | None:
        return None


class NeuralClassifier(NeuralPredictor, Classifier):
    """A network that predicts classes.

    Minimises the mean cross-entropy of the network's outputs over its weights, by updates on batches of rows.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network, in evaluation mode.
    classes_ : (c,)
    input_shape_ : tuple
    loss_ : float
        The mean log loss on the rows of the fit; of more than 2,000, on so many drawn ones.
    validation_rows_ : array of shape (held_out,)
        Which rows early stopping held out; only with `early_stopping`.
    best_validation_score_ : float
        Their accuracy by `module_`, the epoch with their least loss; only with `early_stopping`.
    precision_ : str
        Precision of training: "float32", "float64" or "bfloat16".
    history_ : History
        A table of epochs: loss, validation loss and accuracy, learning rate, seconds; ``history_.to_frame()`` for pandas.
    n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    _: KW_ONLY
    loss: Any = parameter(None, str, callable, None).doc("""
        None is "cross_entropy"; "bce" with two classes (one output); a function of (outputs,
        labels) that gives one number per row.""")
    label_smoothing: float = parameter(
        0.0, Interval(Real, 0, 1, closed="left"), before="early_stopping"
    ).doc("""
        ε of the cross-entropy: every class gets ε/K of the probability.""")
    class_weight: Any = common.class_weight(before="early_stopping").doc(
        "How much rows of a class count."
    )

    claims, more_claims = CLASSIFIER_CLAIMS, CLASSIFIER_MORE_CLAIMS

    def _n_outputs(self) -> int:
        return 1 if self.loss == "bce" else len(self.classes_)

    def _loss(self) -> Any:
        from lemmata.nets.training.losses import CrossEntropyOf

        if self.loss in (None, "cross_entropy"):
            return CrossEntropyOf(float(self.label_smoothing), len(self.classes_))
        if self.label_smoothing:
            raise ValueError(
                f"label_smoothing={self.label_smoothing} belongs to loss='cross_entropy'; leave it at 0."
            )
        if self.loss == "bce" and len(self.classes_) != 2:
            raise ValueError(
                f"loss='bce' is for two classes, y holds {len(self.classes_)}; use 'cross_entropy'."
            )
        return self.loss

    def _score(self) -> Any:
        return _is_right

    def _weight_rows(self, data: Blocks) -> Blocks:
        return self._weighted_by_class(data)

    def _row_losses(self, outputs: Array, y: Array) -> Array:
        outputs = outputs.astype(np.float64)
        if outputs.shape[1] == 1:
            return np.logaddexp(0.0, np.where(y == 1, -outputs[:, 0], outputs[:, 0]))
        top = outputs.max(axis=1, keepdims=True)
        total = np.log(np.exp(outputs - top).sum(axis=1)) + top[:, 0]
        return total - outputs[np.arange(len(y)), y]

    def _held_out_score(self, outputs: Array, y: Array, weights: Array) -> float:
        return float(np.average(_is_right(outputs, y), weights=weights))

    def _probabilities(self, rows: Array) -> Array:
        outputs = self._outputs(rows)
        if outputs.shape[1] == 1:
            p = expit(outputs[:, 0])
            return np.stack([1 - p, p], axis=1)
        if outputs.shape[1] != len(self.classes_):
            raise ValueError(
                f"the network gives {outputs.shape[1]} outputs for {len(self.classes_)} classes."
            )
        return softmax(outputs, axis=1)

    def partial_fit(self, X, y, classes=None, sample_weight=None):  # type: ignore[override]
        """Train one epoch on these rows, continuing the last call (weights and memory of the optimiser).

        classes : all labels there will ever be, if those of the first call are not all
        """
        with self._all_or_nothing():
            self._validate_params()
            reset, known = not hasattr(self, "module_"), hasattr(self, "classes_")
            if classes is not None and not known:
                self.classes_, known = unique_labels(classes), True
            data = self._validate_pair(X, y, sample_weight, reset, new_classes=not known)
            self._train_one_epoch(data)
        return self

    def predict_proba(self, X):
        """(n, classes): the probability of each class, the softmax of the network's outputs."""
        return self._apply(X, self._probabilities)

    def predict(self, X):
        """(n,): the most probable label."""
        return self._apply(X, lambda rows: self.classes_[self._probabilities(rows).argmax(axis=1)])


def _is_right(outputs: Any, targets: Any) -> Any:
    """1 where the largest output is that of the label."""
    if outputs.shape[1] == 1:
        return (outputs[:, 0] > 0) == (targets > 0)
    return outputs.argmax(1) == targets


class NeuralRegressor(NeuralPredictor, Regressor):
    """A network that predicts numbers.

    Minimises the mean squared error of the network's outputs over its weights, by updates on batches of rows. Scale
    what is to be predicted to about 1 (`sklearn.compose.TransformedTargetRegressor` does): steps of the usual size do
    not get far from 0.

    Attributes
    ----------
    n_outputs_ : int
        Numbers predicted for each row.
    loss_ : float
        The mean squared error on the rows of the fit, whatever was minimised; of more than 2,000, on so many drawn ones.
    best_validation_score_ : float
        R² of the rows held out by `module_`, the epoch with their least loss; only with `early_stopping`.
    module_, input_shape_, validation_rows_, precision_, history_ : Module, tuple, array, str, Trace
        As in `NeuralClassifier`.
    n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    _: KW_ONLY
    loss: Any = parameter(None, str, callable, None).doc("""
        None is "mse"; "l1", "huber", or a function of (outputs, targets) that gives one number per
        row.""")

    multi_output = True
    claims, more_claims = REGRESSOR_CLAIMS, REGRESSOR_MORE_CLAIMS
    stored: ClassVar[Mapping[str, str | type]] = {**NeuralPredictor.stored, "n_outputs_": "int >=0"}

    def _targets(self, y: Any, reset: bool) -> Array:
        targets = super()._targets(y, reset)
        if reset:
            self.n_outputs_ = 0 if targets.ndim == 1 else targets.shape[1]  # 0: y is a vector
        return targets

    def _n_outputs(self) -> int:
        return max(self.n_outputs_, 1)

    def _loss(self) -> Any:
        return "mse" if self.loss is None else self.loss

    def _row_losses(self, outputs: Array, y: Array) -> Array:
        return np.square(outputs.astype(np.float64) - y.reshape(len(y), -1)).mean(axis=1)

    def _held_out_score(self, outputs: Array, y: Array, weights: Array) -> float | None:
        if len(y) < 2:
            return None
        return float(r2_score(y.reshape(len(y), -1), outputs, sample_weight=weights))

    def _predictions(self, rows: Array) -> Array:
        outputs = self._outputs(rows)
        return outputs if self.n_outputs_ else outputs[:, 0]

    def predict(self, X):
        """(n,) or (n, outputs): the outputs of the network."""
        return self._apply(X, self._predictions)
