"""Networks of joint embedding: encoder f₁, projector f₂, and for BYOL a predictor and a target (ML "Joint Embedding Methods").

features  h = f₁(x)      any network of `nets`, without its head: the last channels by regions
z = f₂(h)                two layers, for the loss alone: it throws away what differs between views, which a probe may need
p = q(z)                 BYOL's predictor
v = g(words)             CLIP's captions
t = f₂′(f₁′(x))          BYOL's target, θ′ ← m θ′ + (1 − m) θ after every update, without gradients

>>> from lemmata.nets import ConvNet
>>> net = JointEmbedding(FeatureNet(ConvNet((1, 16, 16), 1, widths=(4, 8)), regions=2), projection=5)
>>> x = torch.zeros(3, 1, 16, 16)
>>> net(x).shape, net.project(x).shape
(torch.Size([3, 32]), torch.Size([3, 5]))
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

HIDDEN = 256  # units between features and projection
LOG_SCALE = math.log(1 / 0.07)  # CLIP's first ln 1/τ


class FeatureNet(nn.Module):
    """f₁: the features of a network. One with `embed(x, regions)` has its head left aside, any other gives its outputs.

    Parameters
    ----------
    net : torch.nn.Module
    regions : int, default=3
        The last features are averaged over regions × regions parts of an image.
    """

    def __init__(self, net: nn.Module, regions: int = 3):
        super().__init__()
        self.config: dict[str, Any] = {"net": net, "regions": regions}
        self.net, self.regions = net, regions
        self.embeds = callable(getattr(net, "embed", None))
        if self.embeds:  # weights of a head would never be trained
            getattr(net, "head", nn.Identity()).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, width)."""
        found = self.net.embed(x, self.regions) if self.embeds else self.net(x)  # type: ignore[operator]
        return found.flatten(1)

    def width_of(self, shape: tuple[int, ...]) -> int:
        """The number of features of an input of this shape."""
        like = next(self.parameters())
        was = self.training
        with torch.no_grad():
            x = torch.zeros(1, *shape, dtype=like.dtype, device=like.device)
            width = self.eval()(x).shape[1]
        self.train(was)
        return int(width)

    def with_outputs(self, n_outputs: int, shape: tuple[int, ...]) -> nn.Module:
        """A classifier to be fine-tuned: a copy of these features, and one linear map. `NeuralClassifier` asks for it."""
        like = next(self.parameters())
        head = nn.Linear(self.width_of(shape), n_outputs).to(like)
        return nn.Sequential(copy.deepcopy(self), head)


class JointEmbedding(nn.Module):
    """f₂ ∘ f₁; with a predictor and a target network where a loss asks for them.

    Parameters
    ----------
    encoder : FeatureNet
    projection : int, default=64
        Numbers that f₂ gives.
    width : int, optional
        Of the features; None: found by the `input_shape` of the encoder's network.
    hidden : int, default=256
        Units of the hidden layers of projector and predictor.
    predictor : bool, default=False
    momentum : float, optional
        m of the target; None: there is none.
    """

    def __init__(
        self,
        encoder: FeatureNet,
        projection: int = 64,
        width: int | None = None,
        hidden: int = HIDDEN,
        predictor: bool = False,
        momentum: float | None = None,
    ):
        super().__init__()
        if width is None:
            width = encoder.width_of(encoder.net.config["input_shape"])  # type: ignore[index,arg-type]
        self.config: dict[str, Any] = {
            "encoder": encoder, "projection": projection, "width": width, "hidden": hidden, "predictor": predictor,
            "momentum": momentum,
        }  # fmt: skip
        self.encoder, self.momentum = encoder, momentum
        self.projector = two_layers(width, hidden, projection)
        self.predictor = two_layers(projection, hidden, projection) if predictor else nn.Identity()
        if momentum is not None:
            self.target = nn.Sequential(copy.deepcopy(encoder), copy.deepcopy(self.projector))
            self.target.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, width): f₁(x)."""
        return self.encoder(x)

    def project(self, x: Tensor) -> Tensor:
        """(B, projection): f₂(f₁(x))."""
        return self.projector(self.encoder(x))

    def updated(self) -> None:
        """Move the target towards the weights of this update; called by training. Running means of norms are its own."""
        if self.momentum is None:
            return
        weights = [*self.encoder.parameters(), *self.projector.parameters()]
        with torch.no_grad():
            for target, weight in zip(self.target.parameters(), weights, strict=True):
                target.lerp_(weight, 1 - self.momentum)


class ImagesAndWords(JointEmbedding):
    """CLIP's encoders: of rows, f₂ ∘ f₁; of captions, two layers on the mean of their words' vectors. With t = ln 1/τ.

    Parameters
    ----------
    encoder, projection, width, hidden : as of JointEmbedding
    n_words : int, default=1
        Of the vocabulary; word 0 fills up short captions.
    """

    def __init__(
        self, encoder: FeatureNet, projection: int = 64, width: int | None = None, hidden: int = HIDDEN, n_words: int = 1
    ):  # fmt: skip
        super().__init__(encoder, projection, width, hidden)
        for name in ("predictor", "momentum"):
            del self.config[name]
        self.config["n_words"] = n_words
        self.vectors = nn.Embedding(n_words + 1, hidden, padding_idx=0)
        self.reader = two_layers(hidden, hidden, projection)
        self.log_scale = nn.Parameter(torch.tensor(LOG_SCALE))

    def read(self, tokens: Tensor) -> Tensor:
        """(B, projection) of captions (B, longest), numbers of words."""
        count = (tokens > 0).sum(1, keepdim=True).clamp(min=1)
        return self.reader(self.vectors(tokens).sum(1) / count)

    def scale(self) -> Tensor:
        """(): t; τ is 0.01 or more, as with the authors."""
        return self.log_scale.clamp(max=math.log(100))


def two_layers(width: int, hidden: int, out: int) -> nn.Sequential:
    """Linear, normalisation over the batch, ReLU, linear."""
    return nn.Sequential(
        nn.Linear(width, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, out)
    )  # fmt: skip
