"""Generative adversarial networks as estimators (CIL 5.4; ML "GANs"; Goodfellow et al. 2014).

    x = G(z),  z ~ N(0, I)         G minimises, by the losses of losses.py, what a discriminator of data and samples maximises

There is no likelihood, and neither loss says how good the samples are (CIL 5.4.5). What can be said is said of samples: whether
modes of the data are missing (the main claim), whether a fresh classifier tells them from new rows, whether they copy.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, (600, 1)) * 6 + rng.normal(size=(600, 2)).astype(np.float32)        # two clusters
    >>> model = GAN(max_iter=15, random_state=0).fit(X)
    >>> S = model.sample(500, random_state=0)
    >>> S.shape, bool((S[:, 0] > 3).any() and (S[:, 0] < 3).any())
    ((500, 2), True)
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.generate.players import GAN_CLAIMS, GAN_MORE_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.parameters import (
    COUNT,
    FRACTION,
    KW_ONLY,
    NONNEGATIVE,
    POSITIVE,
    choice,
    parameter,
)
from lemmata.generate.base import Generative
from lemmata.nets.estimators.neural import rows_to_state
from lemmata.nets.estimators.storage import Network
from lemmata.registry import require

Array = np.ndarray
LATENT, IMAGE_LATENT = 16, 64
R1 = {"non-saturating": 0.05, "saturating": 0.05, "wasserstein": 1.0}  # γ, of standardised rows


class GAN(Generative):
    """A generator of rows, trained against a discriminator that tells them from the data.

    Any two networks of one tensor play. The generator takes noise (B, latent), the discriminator rows (B, …), and gives a
    logit each; in units of the network: columns of mean 0 and deviation 1, images from −1 to 1. Classes are joined to the
    inputs of both, see players.py.

    Attributes
    ----------
    module_ : GANNet
        Both players: `module_.generator`, `module_.discriminator`, and `module_(x)`, the logit of rows.
    loss_ : float
        The discriminator's loss without its penalty, on the training rows (of more than 2,000, on so many drawn ones) and as
        many samples. It ranks nothing.
    test_rows_ : array
        Numbers of the rows that were kept from training.
    history_ : History
        A table of epochs: both losses, and the shares of data and samples that the discriminator puts on the right side.
    input_shape_, n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    generator: Any = parameter(None, "no_validation", before="optimizer").doc("""
        A torch.nn.Module, which is copied; None is a perceptron for tables, DCGAN for images.""")
    discriminator: Any = parameter(None, "no_validation", before="optimizer").doc(
        "The same, from rows to a logit."
    )
    _: KW_ONLY
    loss: str = parameter(
        "non-saturating", choice("non-saturating", "saturating", "wasserstein"), before="optimizer"
    ).doc("""
        What the generator minimises; only "saturating" and "wasserstein" are zero-sum games.""")
    game: str = parameter(
        "alternating", choice("alternating", "synchronous", "extragradient"), before="optimizer"
    ).doc("""
        How both move: one after the other, at once, or by extragradient (with Adam: extra-Adam).""")
    r1: Any = parameter("auto", NONNEGATIVE, choice("auto"), before="optimizer").doc("""
        γ of the penalty (γ/2) E‖∇ₓ f‖² on the discriminator's slope at the data; "auto" is 0.05, of
        "wasserstein" 1. At 0 modes are lost more often, and a game of any kind circles.""")
    spectral: bool = parameter(False, "boolean", before="optimizer").doc("""
        Divide each layer of the discriminator by its largest singular value.""")
    latent: Any = parameter("auto", COUNT, choice("auto"), before="optimizer").doc("""
        Numbers of noise for a row; "auto" is 16, of images 64.""")
    embedding: Any = parameter(None, COUNT, None, before="optimizer").doc("""
        Width of a learned embedding of classes; None gives them one-hot.""")
    given: int = parameter(0, NONNEGATIVE, Integral, before="optimizer").doc("""
        The number of channels, at the end of each image, that are given and not made: an image with
        a hole and its mask (in-painting), edges.""")
    optimizer: Any = parameter("adam", str, callable)
    learning_rate: Any = parameter(2e-3, POSITIVE, None)
    optimizer_options: Any = parameter(None, dict, None).doc("""
        Further arguments of the optimiser; of Adam's family None is {"betas": (0.5, 0.99)}, since
        the slopes of a game turn.""")
    ema: Any = parameter(
        0.99, FRACTION, None
    ).doc("""
        β of the running mean of both players' weights, which is what draws; None: the last ones.""")
    max_iter: int = common.max_iter(100).doc("Epochs at most.")

    usual_batch: ClassVar[int] = 256
    claims = GAN_CLAIMS
    more_claims = GAN_MORE_CLAIMS
    networks: ClassVar[tuple[str, ...]] = ("generator", "discriminator")
    stored: ClassVar[Mapping[str, str | type]] = Generative.stored

    # --- fitting ---

    def _network(self, data: Blocks | None) -> Any:
        require("torch", "deep", what=type(self).__name__)
        self._check_players()
        if data is None:
            return None
        shape = tuple(self.input_shape_)
        self._require_given_channels()
        latent = self.latent
        if latent == "auto":
            latent = IMAGE_LATENT if len(shape) == 3 else LATENT
        options = {
            "latent": int(latent), "n_classes": self._n_classes, "embedding": self.embedding, "given": int(self.given),
            "spectral": bool(self.spectral),
        }  # fmt: skip
        mean, scale = self._range(data) if len(shape) == 3 else self._mean_and_scale(data)
        make = partial(_copy_players, shape, self.generator, self.discriminator, options)
        return self._begin_filled(make, {"mean": mean, "scale": scale}, data)

    def _check_players(self) -> None:
        import torch

        if self.early_stopping:
            raise ValueError(
                "early_stopping=True needs a loss that says which state is better, and those of two players do not: "
                "leave it out."
            )
        for name in self.networks:
            found = getattr(self, name)
            if found is not None and not isinstance(found, torch.nn.Module):
                raise TypeError(f"{name} is a {type(found).__name__}; pass a torch.nn.Module, or None.")  # fmt: skip

    def _range(self, data: Blocks) -> tuple[Array, Array]:
        """The middle and half of the range of each channel's numbers, so that images are between −1 and 1."""
        channels = self.input_shape_[0]
        low, high = np.full(channels, np.inf), np.full(channels, -np.inf)
        for rows, _ in data:
            part = np.asarray(rows, np.float64).reshape(len(rows), channels, -1)
            low = np.minimum(low, part.min(axis=(0, 2), initial=np.inf))
            high = np.maximum(high, part.max(axis=(0, 2), initial=-np.inf))
        return low / 2 + high / 2, high / 2 - low / 2

    def _loss(self) -> Any:
        from lemmata.generate.gan.losses import Adversarial

        r1 = R1[self.loss] if self.r1 == "auto" else self.r1
        return Adversarial(self.loss, float(r1))

    def _stated_loss(self, data: Blocks) -> float:
        from lemmata.generate.gan.losses import discriminator_loss

        rows, places, weights = rows_to_state(data)
        z = np.random.default_rng(0).standard_normal((len(rows), self.module_.latent))
        real, fake = self.module_.logits(rows, z, places)
        losses = discriminator_loss(self.loss, real, fake).double().cpu().numpy()
        return float(np.average(losses, weights=weights))

    def _rule(self) -> Any:
        from lemmata.nets.training import rules

        games = {"alternating": rules.Alternating, "synchronous": rules.Synchronous}
        return games.get(self.game, rules.Extragradient)()

    def _optimizer_options(self) -> dict[str, Any]:
        if self.optimizer_options is None and self.optimizer in ("adam", "adamw", "nadam", "radam"):
            return {"betas": (0.5, 0.99)}
        return self.optimizer_options or {}

    # --- using ---

    def sample(
        self, n_samples: int = 1, y: Any = None, random_state: Any = None, given: Any = None
    ) -> Array:
        """Draw rows, in the shape and the units of X.

        Parameters
        ----------
        n_samples : int, default=1
        y : label, or array of labels (n_samples,), optional
            Of models that were fitted with classes: those to draw from. None draws them by their shares.
        random_state : int, RandomState or None
            With a number the draws repeat; None is the `random_state` of the model.
        given : array of shape (n_samples, given, H, W), optional
            The channels that are given, in the units of X.
        """
        return self._draw(n_samples, y, random_state, given)

    def discriminate(self, X, y: Any = None) -> Array:
        """(n,): the discriminator's probability that a row is of the data, and not made; of "wasserstein" its σ(f) says less.

        y : classes of the rows, of models that were fitted with classes
        """
        check_is_fitted(self)
        if not self._has_classes:
            return self._apply(X, lambda rows: expit(self._outputs(rows)[:, 0]))
        if y is None:
            raise ValueError(
                "this GAN has classes, and what it says of a row depends on its own: pass y."
            )
        data = self._validate_pair(X, y, reset=False)
        return expit(
            np.concatenate([self._run_given(*part[:2], "forward") for part in data.triples()])
        )

    # --- files ---

    def _rebuild(self, network: Network) -> Any:
        """The players of a file; those of other classes have to be passed, `lemmata.load(path, generator=…)`."""
        from lemmata.generate.gan.players import GANNet
        from lemmata.nets.training.devices import own_draws

        config = network.config or {}
        own = {
            name: copy.deepcopy(getattr(self, name))
            for name in self.networks
            if isinstance(config.get(name), Network) and config[name].config is None
        }
        if not own or any(module is None for module in own.values()):
            found = network.build()
        else:
            with own_draws():
                found = network.build(GANNet(**{**config, **own}))
        if not isinstance(found, GANNet) or found.given != self.given:
            raise ValueError(f"its network is a {type(found).__name__}, not that of this GAN.")
        return found


def _copy_players(shape: tuple[int, ...], generator: Any, discriminator: Any, options: Any) -> Any:
    from lemmata.generate.gan.players import GANNet

    made, judge = copy.deepcopy((generator, discriminator))
    return GANNet(shape, generator=made, discriminator=judge, **options)
