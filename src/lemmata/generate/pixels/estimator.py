"""PixelCNN and WaveNet: the probability of an image or a sound, number by number (CIL 5.1.3).

    maximise  Σ_i ln P(x_i),    P(x) = Π_t P(x_t | x_s, s < t in the window of t)                                       (5.6)

over networks whose outputs are distributions over the levels of x_t. P is exact, and a probability, not a density.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(np.repeat(rng.integers(0, 2, (300, 2, 2)), 2, axis=1), 2, axis=2)       # images of 2 × 2 squares
    >>> settings = {"channels": 8, "n_blocks": 2, "max_iter": 8, "learning_rate": 0.02, "random_state": 0}
    >>> model = PixelCNN(**settings).fit(X)
    >>> model.levels_.tolist(), bool(model.bits_per_dim(X) < 0.5)                    # four bits in sixteen pixels are 0.25
    ([0.0, 1.0], True)
    >>> known = np.zeros(X.shape, bool)
    >>> known[:, :2] = True
    >>> bool((model.inpaint(X, known, random_state=0)[:, 0][known] == X[known]).all())
    True
    >>> t = np.arange(64) + rng.uniform(0, 9, (200, 1))
    >>> sound = WaveNet(16, channels=8, n_blocks=3, max_iter=5, random_state=0).fit(np.sin(t))
    >>> sound.sample(2, random_state=0).shape, "beats_independent" in sound.certificate_.held
    ((2, 64), True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.generate.pixels import LEVEL_CLAIMS, LEVEL_MORE_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.estimator import Model
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, POSITIVE, as_in, choice, parameter
from lemmata.core.validation import Interval
from lemmata.generate.base import DensityModel, Generative, check_known
from lemmata.generate.levels import Levels, bits_per_dim, choose_levels
from lemmata.registry import require

Array = np.ndarray
BYTES = np.arange(256, dtype=np.float32) / np.float32(255)  # as bytes are read
MU = 255  # of the μ-law
TWO = Interval(Integral, 2, None, closed="left")
STORED = {**Generative.stored, "levels_": "audited"}


class LevelModel(DensityModel):
    """A generative model of numbers that have levels; with y it is one for each class."""

    usual_batch: ClassVar[int] = 16
    claims = LEVEL_CLAIMS
    more_claims = LEVEL_MORE_CLAIMS

    # --- input ---

    def _validate_rows(
        self: Any, X, sample_weight=None, reset: bool = True, min_samples: int | None = None
    ) -> Blocks:
        data = super()._validate_rows(X, sample_weight, reset, min_samples)  # type: ignore[misc]
        raw = getattr(data._cut, "raw", None)  # bytes
        if reset:
            # images of float64 are read as float32, which may merge levels
            wide = getattr(X, "dtype", None) == np.float64 and np.ndim(X) > 2
            found = self._choose_levels(X.reshape(len(X), -1) if wide else data, raw is not None)
            found.require_apart(data.dtype)
            self.levels_ = found.values.astype(data.dtype)
            if raw is not None:
                self.levels_ = np.unique(np.round(255 * found.values).astype(np.uint8))
        known = reset and isinstance(self.levels, str)
        if not known and not (raw is not None and len(self.levels_) == len(BYTES)):
            first = 0
            for rows, _ in data:
                self._levels.places(np.asarray(rows), first)
                first += len(rows)
        return data

    @property
    def _levels(self: Any) -> Levels:
        """The levels as the network reads them."""
        values = BYTES[self.levels_] if self.levels_.dtype == np.uint8 else self.levels_
        return Levels(values, rounds=isinstance(self.levels, (int, np.integer)))

    # --- fitting ---

    def _network(self: Any, data: Blocks | None) -> Any:
        require("torch", "deep", what=type(self).__name__)
        assert data is not None
        from lemmata.generate.pixels.network import CausalNet

        (grid, order), numbers = self._scan(), {"levels": self._levels.values}
        warm = getattr(self, "module_", None) if self.warm_start else None
        if warm is not None and not np.array_equal(warm.levels.numpy(), numbers["levels"]):
            raise ValueError("X has other levels than the last fit, where warm_start begins: pass levels=.")  # fmt: skip
        make = partial(
            CausalNet, self.input_shape_, len(self.levels_), grid, channels=int(self.channels), hidden=int(self.hidden),
            n_classes=self._n_classes, **self._stacks(),
        )  # fmt: skip
        return self._begin_filled(make, {**numbers, "order": order}, data)

    def _loss(self) -> Any:
        return "module"

    @classmethod
    def work(cls, fit: Any) -> float:
        """Three passes of every number through the layers."""
        layers = fit.module_.blocks, fit.module_.head
        size = sum(parameter.numel() for part in layers for parameter in part.parameters())
        return 3.0 * fit.get("n_iter_", 1) * fit.data.size * size / 16

    # --- using ---

    def bits_per_dim(self: Any, X, y=None) -> float:
        """The mean of −log2 P(x) per number of a row."""
        found = self.score_samples(X, y).astype(np.float64)
        return float(bits_per_dim(found, self.n_features_in_, self._levels).mean())

    def _in_units(self: Any, drawn: Array) -> Array:
        return self.levels_[self._levels.places(drawn)]

    def inpaint(self: Any, X, known, y=None, random_state: Any = None) -> Array:
        """Draw what is not known of rows, number by number, each given those before it in the scanning order.

        Known numbers that come later have no influence on it: the draws are not from P(unknown | known).

        Parameters
        ----------
        X : rows; what is not known may be anything
        known : array of bool, of the shape of X
        y : classes of the rows, of models that were fitted with classes
        random_state : int, RandomState or None, as of `sample`
        """
        import torch

        check_is_fitted(self)
        X, known = check_known(X, known)
        data = self._validate_rows(np.where(known, X, self.levels_[0]).astype(X.dtype), reset=False)
        whole = torch.from_numpy(np.concatenate([np.asarray(part) for part, _ in data]))
        kept = torch.from_numpy(known.reshape(len(X), -1))
        return self._draw(len(X), y, random_state, rows={"x": whole, "known": kept})

    # --- files ---

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Model:
        """A model from a file, whose network has to be one of these levels and classes."""
        model: Any = super().restored(parameters, attributes)  # type: ignore[misc]
        net, classes = model.module_, model._n_classes
        known = type(net).__name__ == "CausalNet" and net.config["n_classes"] == classes
        levels = model._levels.values
        if not known or not np.array_equal(
            net.levels.numpy(), levels.astype(net.levels.numpy().dtype)
        ):
            raise ValueError(
                f"its network is none over {len(levels)} levels and {classes} classes."
            )
        if not np.array_equal(np.sort(net.order.numpy()), np.arange(model.n_features_in_)):
            raise ValueError("its scanning order is no permutation of the numbers of a row.")
        return model


class PixelCNN(LevelModel, Generative):
    """Images pixel by pixel: each from those before it, by masked convolutions without a blind spot.

    Maximises Σ ln P(x_i), P(x) = Π_t P(x_t | x_s, s < t in the window of t), each factor a softmax over the levels.

    Attributes
    ----------
    module_ : CausalNet
        `module_(x)` gives logits (n, K, C, H, W), `module_.log_prob(x)` ln P.
    levels_ : array of shape (K,)
        The numbers that pixels have; of images of bytes, bytes.
    loss_ : float
        −ln P, the mean over the rows; of more than 2,000, over so many drawn ones.
    classes_ : array
        Of fits with y.
    test_rows_ : array
        Numbers of the rows that were kept from training and stopping.
    input_shape_, history_, n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    levels: Any = parameter("auto", choice("auto"), TWO, "array-like", before="optimizer").doc("""
        "auto": those that occur in X, gaps filled (bytes: 256); a number K rounds X to K even ones
        between its least and its largest; or the levels themselves.""")  # fmt: skip
    _: KW_ONLY
    order: Any = parameter("raster", choice("raster", "columns"), "array-like", before="optimizer").doc("""
        The scanning order: "raster" (rows from the top, each from the left), "columns", or a
        permutation of the H·W pixels; channels of a pixel follow each other.""")  # fmt: skip
    channels: int = parameter(32, COUNT, before="optimizer").doc("Features of each stack.")
    n_blocks: int = parameter(3, COUNT, before="optimizer").doc("Gated residual blocks.")
    kernel: int = parameter(5, Interval(Integral, 3, None, closed="left"), before="optimizer").doc("""
        The side of a masked kernel, odd. The window reaches n_blocks·(kernel − 1)/2 pixels to each
        side, and one more up.""")
    hidden: int = parameter(64, COUNT, before="optimizer").doc("""
        Units of the layer before the logits.""")
    learning_rate: Any = parameter(4e-3, POSITIVE, None)
    schedule: Any = parameter("cosine", str, callable).doc("""
        The rate falls to 0 over `max_iter` epochs; see `NeuralClassifier` for others.""")
    warmup: float = parameter(0.02, NONNEGATIVE).doc("""
        The share of the run in which the rate rises from 0; from 1 on, so many updates.""")
    max_iter: int = common.max_iter(20).doc("Epochs at most.")

    stored: ClassVar[Mapping[str, str | type]] = STORED

    def _choose_levels(self, data: Any, are_bytes: bool) -> Levels:
        if are_bytes and isinstance(self.levels, str):
            return Levels(BYTES)
        given = np.asarray(self.levels) / 255 if are_bytes and np.ndim(self.levels) else self.levels
        return choose_levels(given, data)

    def _scan(self) -> tuple[tuple[int, int], Array]:
        """Rows and columns of the grid, and the numbers of an input in scanning order."""
        C, H, W = (1, 1, 1, *self.input_shape_)[-3:]
        pixels = np.arange(H * W)
        if isinstance(self.order, str):
            if self.order == "columns":
                pixels, H, W = pixels.reshape(H, W).T.ravel(), W, H
        else:
            pixels = np.asarray(self.order).ravel()
            if not np.array_equal(np.sort(pixels), np.arange(H * W)):
                raise ValueError(
                    f"order of {pixels.size} numbers is no permutation of the {H * W} pixels: pass each number once."
                )
        return (H, W * C), (np.arange(C) * H * W + pixels[:, None]).ravel()

    def _stacks(self) -> dict[str, Any]:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel={self.kernel}; pass an odd number >= 3.")
        C = self.input_shape_[0] if len(self.input_shape_) == 3 else 1
        kernel = self.kernel if C == 1 else 2 * C * (self.kernel // 2) + 1
        return {"kernel": kernel, "dilations": (1,) * int(self.n_blocks)}


class WaveNet(LevelModel, Generative):
    """Sounds sample by sample: each from those before it, by convolutions whose dilation doubles from block to block.

    Maximises Σ ln P(x_i), P(x) = Π_t P(x_t | x_s, s < t in the window of t), each factor a softmax over the levels.

    Attributes are those of `PixelCNN`; `module_(x)` gives logits (n, K, L).
    """

    levels: Any = parameter(256, choice("auto"), TWO, "array-like", before="optimizer").doc("""
        K, to which X is rounded; "auto": those that occur in X; or the levels themselves.""")  # fmt: skip
    _: KW_ONLY
    spacing: str = parameter("mu-law", choice("mu-law", "even"), before="optimizer").doc("""
        Of K levels: by the μ-law, ± ((1 + μ)^|u| − 1)/μ of even u and μ = 255, finer where sounds are quiet,
        up to the largest size of X; or even, from its least to its largest number.""")  # fmt: skip
    channels: int = as_in(PixelCNN, "channels").doc("Features of each sample inside.")
    n_blocks: int = parameter(8, COUNT, before="optimizer").doc("""
        Gated residual blocks of dilation 1, 2, 4, …, which see 2^n_blocks samples back.""")
    hidden: int = as_in(PixelCNN, "hidden")
    learning_rate: Any = as_in(PixelCNN, "learning_rate")
    schedule: Any = as_in(PixelCNN, "schedule")
    warmup: float = as_in(PixelCNN, "warmup")
    max_iter: int = as_in(PixelCNN, "max_iter")

    stored: ClassVar[Mapping[str, str | type]] = STORED
    usual_batch: ClassVar[int] = 8

    def _choose_levels(self, data: Any, are_bytes: bool) -> Levels:
        found = choose_levels(self.levels, data)
        if not found.rounds or self.spacing == "even":
            return found
        u = np.linspace(-1, 1, len(found.values))
        largest = float(np.abs(found.values[[0, -1]]).max())
        return Levels(np.sign(u) * np.expm1(np.abs(u) * math.log1p(MU)) / MU * largest, rounds=True)

    def _scan(self) -> tuple[tuple[int, int], Array]:
        if math.prod(self.input_shape_) != self.input_shape_[-1]:
            raise ValueError(
                f"X has inputs of shape {self.input_shape_}; pass sequences, (n, L) or (n, 1, L)."
            )
        return (1, self.n_features_in_), np.arange(self.n_features_in_)

    def _stacks(self) -> dict[str, Any]:
        return {"kernel": 3, "dilations": tuple(2**i for i in range(self.n_blocks))}
