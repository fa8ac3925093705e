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
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax
from sklearn.metrics import r2_score
from sklearn.utils.multiclass import unique_labels

from lemmata.audit.nets import CLASSIFIER_CLAIMS, REGRESSOR_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.borrowed import Interval, StrOptions
from lemmata.core.supervised import Classifier, Regressor
from lemmata.nets.estimators.neural import CONSTRAINTS, Neural

Array = np.ndarray


class NeuralClassifier(Neural, Classifier):
    """A network that predicts classes.

    Minimises the mean cross-entropy of the network's outputs over its weights, by updates on batches of rows.

    Parameters
    ----------
    net : class, its name, torch.nn.Module or None, default=None
        Called as ``net(input_shape, n_outputs, **net__…)``; a module is copied and training begins at its weights; None
        is `FeedForward`. ``net__width=32`` passes `width` on, and can be searched over.
    loss : str or callable, default=None
        None is "cross_entropy"; "bce" with two classes (one output); a function of (outputs, labels) that gives one
        number per row.
    optimizer : str or callable, default="adamw"
        "sgd", "heavy_ball", "nesterov", "sign", "adagrad", "rmsprop", "adam", "adamw", "nadam", "radam", or a function
        of (groups, lr).
    learning_rate : float, optional
        η; None is the usual one of the optimiser (1e-3 for Adam's family).
    weight_decay : float, default=0.0
        λ, on matrices and filters; never on biases and normalisations.
    optimizer_options : dict, optional
        Further arguments of the optimiser: {"momentum": 0.95}.
    schedule : str or callable, default="constant"
        "constant", "step", "cosine", "one_cycle", or a function of the number of the update that gives η.
    warmup : float, default=0
        Updates in which the rate rises from 0, or, below 1, the share of the run.
    batch_size : int or "auto", default="auto"
        Rows in an update; "auto" is 128, or all rows where there are fewer.
    accumulate : int, default=1
        Parts in which a batch is worked on, one after the other, to save memory.
    clip : float, optional
        The longest gradient that is not shortened.
    ema : float, optional
        Keep a running mean of the weights, e ← β e + (1 − β) w, and use that.
    augment : callable, optional
        Changes a training batch: ``augment(batch, generator)``, see `lemmata.nets.augmentation`.
    label_smoothing : float, default=0.0
        ε of the cross-entropy: every class gets ε/K of the probability.
    class_weight : dict, "balanced" or None
        How much rows of a class count.
    early_stopping : bool, default=False
        Hold rows out, stop when their loss has not fallen for `n_iter_no_change` epochs, and show the epoch where it was least.
    validation_fraction : float, default=0.1
        The share of rows held out, if `early_stopping`.
    n_iter_no_change : int, default=10
        Epochs without improvement, or with a change below `tol`, that end the fit.
    input_shape : tuple, optional
        Of one input, where rows are flat: (1, 28, 28). Arrays of images say it themselves.
    precision : {"auto", "float32", "float64", "bfloat16"}, default="auto"
        "auto" is that of the rows: float64, else float32 (images, too). "bfloat16" keeps weights in float32 and multiplies
        in eight bits: up to twice as fast where the processor has units for it, many times slower where it has not.
    layout : {"auto", "contiguous", "channels_last"}, default="auto"
        The order of an image's numbers in memory; "auto" is channels last for networks with 2-d convolutions.
    device : str, default="auto"
    warm_start : bool, default=False
        Begin at the weights of the last fit.
    callbacks : list of callables, optional
        Each is called with the `Solution` so far after every epoch.
    max_iter : int, default=100
        Epochs.
    tol : float, default=0.0
        Settled when the training loss changes by less than this share of it in `n_iter_no_change` epochs in a row; 0:
        never, all epochs are made.
    random_state, verbose, checkpoint, time_limit
        As everywhere: the seed of weights and batches, a progress bar, a file to resume from, seconds.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network, in evaluation mode.
    classes_ : (c,)
    input_shape_ : tuple
    loss_ : float
        The mean log loss on the rows of the fit.
    validation_rows_ : array of shape (held_out,)
        Which rows early stopping held out; only with `early_stopping`.
    best_validation_score_ : float
        Their accuracy by `module_`, the epoch with their least loss; only with `early_stopping`.
    precision_ : str
        What was computed with while training: "float32", "float64" or "bfloat16".
    history_ : History
        A table of epochs: loss, validation loss and accuracy, learning rate, seconds; ``history_.to_frame()`` for pandas.
    n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **CONSTRAINTS,
        "label_smoothing": [Interval(Real, 0, 1, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    claims = CLASSIFIER_CLAIMS

    def __init__(
        self,
        net=None,
        *,
        loss=None,
        optimizer="adamw",
        learning_rate=None,
        weight_decay=0.0,
        optimizer_options=None,
        schedule="constant",
        warmup=0,
        batch_size="auto",
        accumulate=1,
        clip=None,
        ema=None,
        augment=None,
        label_smoothing=0.0,
        class_weight=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        input_shape=None,
        precision="auto",
        layout="auto",
        device="auto",
        warm_start=False,
        callbacks=None,
        max_iter=100,
        tol=0.0,
        random_state=None,
        verbose=0,
        checkpoint=None,
        time_limit=None,
        **net_parameters,
    ):
        self.label_smoothing, self.class_weight = label_smoothing, class_weight
        super().__init__(
            net, loss=loss, optimizer=optimizer, learning_rate=learning_rate, weight_decay=weight_decay,
            optimizer_options=optimizer_options, schedule=schedule, warmup=warmup, batch_size=batch_size,
            accumulate=accumulate, clip=clip, ema=ema, augment=augment, early_stopping=early_stopping,
            validation_fraction=validation_fraction, n_iter_no_change=n_iter_no_change, input_shape=input_shape,
            precision=precision, layout=layout, device=device, warm_start=warm_start, callbacks=callbacks,
            max_iter=max_iter, tol=tol, random_state=random_state, verbose=verbose, checkpoint=checkpoint,
            time_limit=time_limit, **net_parameters,
        )  # fmt: skip

    def _n_outputs(self) -> int:
        return 1 if self.loss == "bce" else len(self.classes_)

    def _loss(self) -> Any:
        from lemmata.nets.training.losses import CrossEntropyOf

        if self.loss in (None, "cross_entropy"):
            return CrossEntropyOf(float(self.label_smoothing), len(self.classes_))
        if self.label_smoothing:
            raise ValueError(
                f"label_smoothing={self.label_smoothing} belongs to loss='cross_entropy'; leave "
                "it at 0."
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
            data = self._validated_pair(X, y, sample_weight, reset, new_classes=not known)
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
    return (
        (outputs[:, 0] > 0) == (targets > 0)
        if outputs.shape[1] == 1
        else outputs.argmax(1) == targets
    )


class NeuralRegressor(Neural, Regressor):
    """A network that predicts numbers.

    Minimises the mean squared error of the network's outputs over its weights, by updates on batches of rows. Scale
    what is to be predicted to about 1 (`sklearn.compose.TransformedTargetRegressor` does): steps of the usual size do
    not get far from 0.

    Parameters
    ----------
    net : class, its name, torch.nn.Module or None, default=None
        Called as ``net(input_shape, n_outputs, **net__…)``; a module is copied and training begins at its weights; None
        is `FeedForward`.
    loss : str or callable, default=None
        None is "mse"; "l1", "huber", or a function of (outputs, targets) that gives one number per row.
    optimizer, learning_rate, weight_decay, optimizer_options, schedule, warmup, batch_size, accumulate, clip, ema, augment, \
early_stopping, validation_fraction, n_iter_no_change, input_shape, precision, layout, device, warm_start, callbacks, max_iter
        As in `NeuralClassifier`.
    tol : float, default=0.0
        Settled when the training loss changes by less than this share of it in `n_iter_no_change` epochs in a row; 0:
        never, all epochs are made.
    random_state, verbose, checkpoint, time_limit
        As everywhere: the seed of weights and batches, a progress bar, a file to resume from, seconds.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network, in evaluation mode.
    input_shape_ : tuple
    n_outputs_ : int
        Numbers predicted for each row.
    loss_ : float
        The mean squared error on the rows of the fit, whatever was minimised.
    validation_rows_ : array of shape (held_out,)
        Which rows early stopping held out; only with `early_stopping`.
    best_validation_score_ : float
        Their R² by `module_`, the epoch with their least loss; only with `early_stopping`.
    precision_ : str
        What was computed with while training: "float32", "float64" or "bfloat16".
    history_ : History
        A table of epochs: loss, validation loss, learning rate, seconds.
    n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    multi_output = True
    claims = REGRESSOR_CLAIMS
    stored: ClassVar[Mapping[str, str | type]] = {**Neural.stored, "n_outputs_": "int >=0"}

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
