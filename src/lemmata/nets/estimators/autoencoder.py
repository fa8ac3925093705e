"""The non-linear autoencoder (CIL24 1.5; CIL 1.1).

    minimise  ½ E‖x − G(F(x))‖²        over networks F: ℝᵈ → ℝᵐ and G: ℝᵐ → ℝᵈ

With linear F and G the optimum is PCA (CIL Thm 1.4.4), so PCA's error at the same m is the number to beat, and
the certificate compares the two: on the training rows exactly, on new rows (`certify(X, X_test=…)`) with a
confidence. Data on a curved surface of dimension m is where the network wins; where the surface is flat it cannot.

    >>> import numpy as np
    >>> t = np.linspace(0, 4, 300)[:, None]
    >>> X = np.hstack([np.cos(t), np.sin(t)])                               # an arc: one number says where
    >>> model = Autoencoder(1, layers=(32,), max_iter=60, learning_rate=0.01, random_state=0).fit(X)
    >>> model.transform(X).shape, "beats_pca" in model.certificate_.held
    ((300, 1), True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.nets.autoencoders import AUTOENCODER_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.estimator import Model, RowTransformer
from lemmata.core.parameters import COUNT, KW_ONLY, POSITIVE, choice, parameter
from lemmata.core.runs.trace import Trace
from lemmata.nets.estimators.neural import Neural, rows_to_state
from lemmata.registry import require

Array = np.ndarray

CHANNELS = (16, 32)  # conv=True


class Autoencoder(ClassNamePrefixFeaturesOutMixin, RowTransformer, Neural):
    """Encoder and decoder networks around a code of m numbers, with the interface of PCA.

    Minimises ½ E‖x − G(F(x))‖² over the weights of F and G, by updates on batches of rows.

    Attributes
    ----------
    module_ : AutoencoderNet
        The trained network; `module_.encode` and `module_.decode` are its halves.
    n_components_ : int
    loss_ : float
        ½ E‖x − x̂‖² on the training rows, as in `LinearAutoencoder`; of more than 2,000, on so many drawn ones.
    input_shape_ : tuple
    history_ : History
        A table of epochs: loss (the mean squared error in units of the data's variance), learning rate, seconds.
    n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    n_components: int = parameter(2, COUNT, before="optimizer").doc("m, the width of the code.")
    _: KW_ONLY
    layers: Any = parameter((128, 64), tuple, list, before="optimizer").doc("""
        Units of the encoder's dense layers; the decoder has them in reverse. () is a linear map.
        """)
    conv: Any = parameter(False, "boolean", tuple, list, before="optimizer").doc("""
        Channels of convolutions before the dense layers, each halving the image; True is (16, 32).
        Needs images.""")
    activation: str = parameter(
        "gelu",
        choice("gelu", "relu", "tanh", "sigmoid", "softplus", "identity"),
        before="optimizer",
    ).doc("""
        "identity" is the linear autoencoder, whose least error is PCA's.""")
    learning_rate: Any = parameter(2e-3, POSITIVE, None)
    schedule: Any = parameter("cosine", str, callable).doc("""
        The rate falls to 0 over `max_iter` epochs; see `NeuralClassifier` for others.""")
    max_iter: int = common.max_iter(200).doc("Epochs at most.")

    claims = AUTOENCODER_CLAIMS
    stored: ClassVar[Mapping[str, str | type]] = {
        **Neural.stored,
        "loss_": "audited",
        "n_components_": "audited",
    }
    min_samples = 2

    # --- fitting ---

    def _network(self, data: Blocks | None) -> Any:
        require("torch", "deep", what=type(self).__name__)
        assert data is not None
        from lemmata.nets.estimators.networks import AutoencoderNet

        mean, scales = measure_columns(data)
        numbers = {"mean": mean, "scale": typical_scale(scales)}
        make = partial(AutoencoderNet, self.input_shape_, **code_sizes(self))
        return self._begin_with(partial(build_filled, make, numbers, data.dtype == np.float64))

    def _loss(self) -> Any:
        from lemmata.nets.estimators.networks import Reconstruction

        return Reconstruction()

    def _conclude(
        self, data: Any, attributes: dict[str, Any], trace: Trace, stopped: str | None, steps: int
    ) -> None:
        found = {**attributes, "n_components_": int(self.n_components)}
        super()._conclude(data, found, trace, stopped, steps)

    def _stated_loss(self, data: Blocks) -> float:
        rows, _, weights = rows_to_state(data)
        return 0.5 * data.shape[1] * float(np.average(self._row_errors(rows), weights=weights))

    def _row_errors(self, rows: Array) -> Array:
        """(n,): the mean of (x − x̂)² over features."""
        return np.square(rows - self._outputs(rows)).mean(axis=1, dtype=np.float64)

    # --- using ---

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def transform(self, X) -> Array:
        """(n, m): the code F(x) of every row."""
        return self._apply(X, lambda rows: self._run_network(rows, self.input_shape_, "encode"))

    def inverse_transform(self, X) -> Array:
        """(n, d): the reconstruction G(z) of every code z; of images, their numbers row by row."""
        return self._run_network(check_codes(self, X), (self.n_components_,), "decode")

    def reconstruct(self, X) -> Array:
        """(n, d): G(F(x)) of every row."""
        return self._apply(X, self._outputs)

    def score(self, X, y=None, sample_weight=None) -> float:
        """Minus the mean squared error of the reconstruction, over rows and features; higher is better."""
        check_is_fitted(self)
        data = self._validate_rows(X, sample_weight, reset=False)
        errors = np.concatenate([self._row_errors(rows) for rows, _ in data])
        return -float(np.average(errors, weights=data.weights))

    # --- files ---

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Model:
        """A model from a file, whose network has to be an autoencoder of the width it states."""
        model: Any = super().restored(parameters, attributes)
        check_code_network(model, "autoencoder")
        return model


# --- for all models that encode and decode ----------------------------------------------------------------------------


def code_sizes(model: Any) -> dict[str, Any]:
    """The arguments of a network that these parameters stand for. Raises ValueError for a code that is too wide."""
    m, width = int(model.n_components), math.prod(model.input_shape_)
    if m > width:
        raise ValueError(f"n_components={m} exceeds n_features={width}; a code has to be narrower.")
    conv = CHANNELS if model.conv is True else () if model.conv is False else tuple(model.conv)
    layers = tuple(model.layers)
    return {"n_components": m, "layers": layers, "conv": conv, "activation": model.activation}


def build_filled(make: Callable[[], Any], numbers: Mapping[str, Any], wide: bool) -> Any:
    """Make a network and set its buffers to these numbers, in float64 if it is to be `wide`."""
    import torch

    net = make()
    if wide:
        net = net.double()  # before mean and scale are set: 1e150 is no float32
    for name, value in numbers.items():
        buffer = getattr(net, name)
        buffer.copy_(torch.as_tensor(value, dtype=buffer.dtype).reshape(buffer.shape))
    return net


def check_codes(model: Any, Z: Any) -> Array:
    """Codes to decode, (n, m)."""
    check_is_fitted(model)
    Z = check_array(Z, dtype=[np.float64, np.float32], input_name="X")
    if Z.shape[1] != model.n_components_:
        raise ValueError(f"X has shape {Z.shape}; codes have shape (n_samples, {model.n_components_}).")  # fmt: skip
    return Z


def check_code_network(model: Any, kind: str, **more: Any) -> None:
    """ValueError unless the network of a file is of the width and shape, and of what else, the model states."""
    config, m = getattr(model.module_, "config", {}), model.n_components_
    shape, more = tuple(config.get("input_shape", ())), {"n_components": m, **more}
    right = shape == tuple(model.input_shape_) and hasattr(model.module_, "encode")
    if not right or any(config.get(name) != value for name, value in more.items()):
        raise ValueError(f"its network is no {kind} of {m} components for inputs of {model.input_shape_}.")  # fmt: skip


def measure_columns(data: Blocks, numbers: Array | None = None) -> tuple[Array, Array]:
    """Mean and deviation of each column, of all rows or of those of these numbers; exactly 0 where a column does not vary."""
    total, (unit, mean, square) = 0.0, np.zeros((3, data.shape[1]))
    for rows, _ in _choose_rows(data, numbers):
        np.maximum(unit, np.abs(rows).max(axis=0, initial=0.0), out=unit)
    unit[unit == 0] = 1.0
    for rows, w in _choose_rows(data, numbers):
        mean, total = mean + w @ (rows / unit), total + w.sum()
    mean /= total
    for rows, w in _choose_rows(data, numbers):
        square += w @ np.square(rows / unit - mean)
    scale = np.sqrt(square / total)
    flat = scale <= 8 * np.finfo(data.dtype).eps  # the rounding of a constant
    return mean * unit, np.where(flat, 0.0, scale * unit)


def _choose_rows(data: Blocks, numbers: Array | None) -> Iterator[tuple[Array, Array]]:
    """Blocks of rows in float64 with their weights; of the rows of these numbers, or of all."""
    start = 0
    for rows, weights in data:
        here: Any = slice(None)
        if numbers is not None:
            here = numbers[(numbers >= start) & (numbers < start + len(rows))] - start
        start += len(rows)
        w = np.ones(len(rows)) if weights is None else np.asarray(weights, np.float64)
        if len(rows[here]):
            yield np.asarray(rows[here], dtype=np.float64), w[here]


def typical_scale(scales: Array) -> float:
    """The root of the mean square of the deviations that are not 0, or 1."""
    varying = scales[scales > 0]
    largest = float(varying.max(initial=0.0))
    return largest * float(np.sqrt(np.square(varying / largest).mean())) if largest else 1.0
