"""Estimators that learn an encoder: encoder and projector, what they state, and files.

    class SimCLR(SelfSupervised): …        from two views of each row; defines `_loss`, an objective of `views`
    class CLIP(SelfSupervised): …          from rows and captions

`transform` gives the features f₁(x) alone: the projector serves training (ML "SimCLR"). A tenth of the rows is kept from
training, and the main claim, `not_collapsed`, is checked on these in `fit`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.selfsup import SELFSUP_CLAIMS, SELFSUP_MORE_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Certificate
from lemmata.core.estimator import RowTransformer
from lemmata.core.parameters import ANYTHING, COUNT, KW_ONLY, POSITIVE, SHARE, parameter
from lemmata.core.runs.trace import Trace
from lemmata.core.supervised import encode
from lemmata.nets.estimators import storage
from lemmata.nets.estimators.kept import KeepsTestRows
from lemmata.nets.estimators.neural import Neural, rows_to_state
from lemmata.registry import require

Array = np.ndarray
NETS = {3: "ConvNet", 2: "SoundNet", 1: "FeedForward"}  # by the axes of an input


class SelfSupervised(KeepsTestRows, ClassNamePrefixFeaturesOutMixin, RowTransformer, Neural):
    """An encoder trained on two views of each row. A subclass defines `_loss`.

    Attributes
    ----------
    encoder_ : FeatureNet
        f₁, a torch.nn.Module; ``NeuralClassifier(model.encoder_)`` fine-tunes it.
    module_ : JointEmbedding
        f₁ with its projector f₂, and what else the loss needed.
    n_outputs_ : int
        The number of features.
    loss_ : float
        The mean loss of up to 2,000 rows in whole batches of `stated_batch_`, of views drawn by the number of the batch.
    alignment_, uniformity_ : float
        E‖z − z⁺‖² of the normalised features of two views; ln E exp(−2‖z − z′‖²) of different rows. Same rows.
    spectrum_ : array
        Deviations along the principal axes of the normalised features, falling.
    test_rows_ : array
        Numbers of the rows that were kept from training.
    """

    net: Any = parameter(None, ANYTHING, before="optimizer").doc("""
        The encoder: a name or class of `nets`, called as ``net(input_shape, 1, **net_options)`` and
        used without its head; or a torch.nn.Module, which is copied. None is "ConvNet" of images,
        "SoundNet" of sounds, "FeedForward" of tables.""")
    projection: int = parameter(64, COUNT, before="optimizer").doc("Numbers that the projector gives.")  # fmt: skip
    _: KW_ONLY
    views: Any = parameter(None, callable, tuple, list, None, before="optimizer").doc("""
        An augmentation (batch, generator) → batch, drawn twice, or two of them. None: strong ones
        for images, mild ones for sounds, numbers left out of tables; see `selfsup.views`.""")
    regions: int = parameter(3, COUNT, before="optimizer").doc("""
        The last features are averaged over regions × regions parts of an image; 1 forgets where
        something was.""")
    hidden: int = parameter(256, COUNT, before="optimizer").doc("Units of the projector's hidden layer.")  # fmt: skip
    net_options: Any = parameter(None, dict, None, before="optimizer").doc("""
        Further arguments of a class of networks: {"widths": (32, 64, 128)}.""")
    test_fraction: float = parameter(0.1, SHARE, before="optimizer").doc("""
        The share of rows kept from training, on which the claims of `fit` are checked.""")
    max_iter: int = common.max_iter(20).doc("Epochs at most.")
    learning_rate: Any = parameter(2e-3, POSITIVE, None)
    schedule: Any = parameter("cosine", str, callable).doc("""
        The rate falls to 0 over `max_iter` epochs.""")

    claims, more_claims = SELFSUP_CLAIMS, SELFSUP_MORE_CLAIMS
    usual_batch = 256
    min_samples = 4
    stored: ClassVar[Mapping[str, str | type]] = {
        **Neural.stored,
        "loss_": "audited",
        "n_outputs_": "audited",
        "stated_batch_": "audited",
        "test_rows_?": "t int >=0",
        "alignment_ uniformity_": "audited",
        "spectrum_": "audited",
    }

    # --- fitting ---

    def fit(self, X, y=None):  # type: ignore[override]
        """Learn an encoder from X, and check the claims about it.

        Parameters
        ----------
        X : images (n, H, W) or (n, channels, height, width), sounds (n, 1, L), or a table (n, d)
        y : ignored, with a warning; `certify` and `probe` take labels

        Returns
        -------
        self : with `certificate_`, `trace_`, `stopped_`, `n_iter_` and the model's own attributes
        """
        if y is not None:
            warnings.warn(
                f"y is ignored: {type(self).__name__} learns from X alone. Pass y to certify(X, y) or to selfsup.probe.",
                stacklevel=2,
            )
        return super().fit(X)

    def fit_transform(self, X, y=None):
        """Fit and transform; y, which a Pipeline passes, is ignored."""
        return self.fit(X).transform(X)

    @property
    def views_(self) -> Any:
        """The function (batch, generator) → two views."""
        from lemmata.selfsup.views import choose_views

        return choose_views(self.views, self.input_shape_)

    def _statements(self, data: Blocks) -> dict[str, Any]:
        rows = rows_to_state(data)[0]
        size = self.usual_batch if self.batch_size == "auto" else int(self.batch_size)
        x, size = np.ascontiguousarray(rows).reshape(-1, *self.input_shape_), min(size, len(rows))
        found = {**super()._statements(data), "stated_batch_": size}
        return {**found, **self._measure(x, size, data)}

    def _measure(self, x: Array, size: int, data: Blocks) -> dict[str, Any]:
        """Return the loss and what else is stated of these rows, in whole batches of this size."""
        from lemmata.selfsup.measures import state

        found = state(self.module_, self._loss(), x, size)
        found["spectrum_"] = found["spectrum_"].astype(data.dtype)
        return found

    def _network(self, data: Blocks | None) -> Any:
        shape = tuple(self.input_shape_)
        make = partial(make_network, self.net, shape, dict(self.net_options or {}))
        wide = data is not None and data.dtype == np.float64
        found = partial(build, make, shape, int(self.regions), wide, self._parts())
        from lemmata.nets.training.devices import own_draws

        with own_draws():
            found()  # what does not fit is said before training
        return self._begin_with(found)

    def _parts(self) -> dict[str, Any]:
        """The arguments of the network besides its encoder."""
        return {"projection": int(self.projection), "hidden": int(self.hidden)}

    def _training(self, net: Any, rows: int) -> Any:
        if self.batch_size == 1:
            raise ValueError("batch_size=1: two rows or more are compared; pass batch_size >= 2.")
        return super()._training(net, rows)

    def _problem(self, data: Blocks) -> Any:
        found = super()._problem(data)
        for one in (found, found.validation):
            if one is not None:
                one.whole_batches = True  # a rest of one row has nothing to be compared with
        return found

    def _conclude(
        self, data: Any, attributes: dict[str, Any], trace: Trace, stopped: str | None, steps: int
    ) -> None:
        module = attributes["module_"]
        known = {"n_outputs_": int(module.config["width"])}
        super()._conclude(data, {**attributes, **known}, trace, stopped, steps)

    def _stated_loss(self, data: Blocks) -> float:
        return 0.0  # among the statements

    # --- using ---

    @property
    def encoder_(self) -> Any:
        if not hasattr(self, "module_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet: call fit(X) first.")  # fmt: skip
        return self.module_.encoder

    @property
    def _n_features_out(self) -> int:
        return self.n_outputs_

    def transform(self, X) -> Array:
        """(n, features): f₁(x) of every row, without the projector."""
        return self._apply(X, lambda rows: self._run_network(rows, self.input_shape_))

    def project(self, X) -> Array:
        """(n, projection): f₂(f₁(x)), which the loss compares."""
        return self._apply(X, lambda rows: self._run_network(rows, self.input_shape_, "project"))

    def certify(
        self, X, y=None, sample_weight=None, *, X_test=None, y_test=None, seconds=None
    ) -> Certificate:
        """Check every claim about this fit on X, the training data, and on rows that it was not fitted to.

        X_test : rows drawn like X, independently of it; without them, those that `fit` kept
        y, y_test : labels of both, for the claims about probes
        seconds : float, optional
            Time limit; claims that need more stay *not checked*. By default five times the work of the fit.
        """
        check_is_fitted(self)
        if sample_weight is not None:
            raise ValueError("sample_weight: the rows of a batch are compared, and all count alike; leave it out.")  # fmt: skip
        return super().certify(X, y, X_test=X_test, y_test=y_test, seconds=seconds)

    def _validate_pair(self, X, y, sample_weight=None, reset: bool = True) -> Blocks:
        data = self._validate_rows(X, sample_weight, reset=reset)
        if y is None:
            return data
        labels = np.asarray(y)
        if labels.shape != (data.shape[0],):
            raise ValueError(f"y has shape {labels.shape} for {data.shape[0]} rows; pass one label for each.")  # fmt: skip
        classes = np.unique(labels)
        return data.with_targets(encode(labels, classes) if classes.dtype.kind not in "iu" else labels)  # fmt: skip

    # --- files ---

    def _rebuild(self, network: Any) -> Any:
        """The module of a file; an encoder that is not ours is made as in a fit."""
        config = network.config or {}
        encoder = config.get("encoder")
        own = getattr(encoder, "config", None) or {}
        if getattr(own.get("net"), "config", None) is not None:
            return super()._rebuild(network)
        from lemmata.nets.training.devices import own_draws

        with own_draws():
            return network.build(self._network(None)())


def make_network(net: Any, shape: tuple[int, ...], options: dict[str, Any]) -> Any:
    """A network of `nets` by its name or class, None the usual one for these inputs; or a copy of a module."""
    torch = require("torch", "deep", what="selfsup")
    if isinstance(net, torch.nn.Module):
        if options:
            raise ValueError("net_options are for a class of networks, and net is a module: pass its class.")  # fmt: skip
        return copy.deepcopy(net)
    cls = storage.network_class(NETS[len(shape)] if net is None else net)
    return storage.build_network(cls, shape, 1, options)


def build(make: Any, shape: tuple[int, ...], regions: int, wide: bool, parts: dict[str, Any]) -> Any:  # fmt: skip
    """The network of a fit: a new encoder, and a projector of its width; with words, their encoder, too."""
    from lemmata.selfsup.networks import FeatureNet, ImagesAndWords, JointEmbedding

    net = make()
    encoder = FeatureNet(net.double() if wide else net, regions)
    kind = ImagesAndWords if "n_words" in parts else JointEmbedding
    found = kind(encoder, width=encoder.width_of(shape), **parts)
    return found.double() if wide else found
