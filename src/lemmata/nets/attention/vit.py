"""Vision transformer (ML "Vision Transformer Architecture"): an image is a sequence of patches.

    tokens = W · patch + b + position,   one per P × P patch;      Encoder;      a head reads the class token, or the mean

Only the positions show that two patches are neighbours, so locality has to be learned: with few images a convolutional
net, which has it built in, is better (`lemmata atlas vit-convnet`).

    >>> import torch
    >>> net = ViT((1, 28, 28), 10, patch_size=4, width=32, depth=2, heads=2)
    >>> net(torch.zeros(3, 1, 28, 28)).shape
    torch.Size([3, 10])
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from lemmata.nets.attention.positions import LearnedPositions
from lemmata.nets.attention.transformer import HEADS, Encoder
from lemmata.nets.images.regions import WithHead


class ViT(WithHead, nn.Module):
    """A transformer over the patches of an image.

    Parameters
    ----------
    input_shape : (C, H, W)
        Of an image. The patch size divides H and W.
    n_outputs : int
        Number of outputs: logits of classes, or predictions.
    patch_size : int, default=4
        P. There are HW/P² tokens, and attention costs the square of that.
    width, depth, heads : int, default=64, 4, 4
        Of the encoder.
    hidden : int, default=4 × width
        Units in the hidden layer of each MLP.
    dropout : float, default=0.0
        As in `TransformerBlock`.
    head : {"mean", "class"}, default="mean"
        Input of the last linear map: the mean of the patches, or a class token.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        n_outputs: int,
        patch_size: int = 4,
        width: int = 64,
        depth: int = 4,
        heads: int = 4,
        hidden: int | None = None,
        dropout: float = 0.0,
        head: str = "mean",
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = {
            "input_shape": tuple(input_shape), "n_outputs": n_outputs, "patch_size": patch_size,
            "width": width, "depth": depth, "heads": heads, "hidden": hidden, "dropout": dropout,
            "head": head,
        }  # fmt: skip
        if len(input_shape) != 3:
            raise ValueError(
                f"input_shape={tuple(input_shape)}; a ViT takes images (channels, height, width)."
            )
        C, H, W = input_shape
        if patch_size < 1 or H % patch_size or W % patch_size:
            raise ValueError(
                f"patches of {patch_size} × {patch_size} do not tile images of {H} × {W}; "
                "choose a patch_size that divides both."
            )
        if head not in HEADS:
            raise ValueError(f"head={head!r} is unknown; pass one of {', '.join(HEADS)}.")
        self.input_shape = (C, H, W)
        tokens = (H // patch_size) * (W // patch_size)
        # W · patch + b for all patches at once is a convolution with stride P
        self.patches = nn.Conv2d(C, width, patch_size, stride=patch_size)
        # as large as the tokens, so that places differ from the first update on: 0.02 learns far slower
        self.positions = LearnedPositions(tokens, width, std=0.3)
        self.encoder = Encoder(width, depth, heads, hidden, dropout)
        self.head = HEADS[head](width, n_outputs)

    def encode(self, x: Tensor) -> Tensor:  # (B, C, H, W)
        """(B, T, d): the tokens after the last layer, that of the class first if there is one."""
        if x.dim() != 4 or tuple(x.shape[1:]) != self.input_shape:
            raise ValueError(
                f"images have the shape {tuple(x.shape)}; "
                f"this ViT was built for (images, {', '.join(map(str, self.input_shape))})."
            )
        tokens = self.positions(self.patches(x).flatten(2).transpose(1, 2))  # (B, HW/P², d)
        return self.encoder(self.head.prepare(tokens)[0])  # type: ignore[operator]

    def feature_map(self, x: Tensor) -> Tensor:
        """(B, d, H/P, W/P): the tokens of the patches, in their places."""
        _, H, W = self.input_shape
        patch = self.config["patch_size"]
        tokens = self.encode(x)[:, -(H // patch) * (W // patch) :]
        return tokens.transpose(1, 2).unflatten(2, (H // patch, W // patch))

    def forward(self, x: Tensor) -> Tensor:
        """(B, n_outputs)."""
        return self.head(self.encode(x))
