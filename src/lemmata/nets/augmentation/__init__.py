"""Augmentation: transformations τ of the input that leave the label as it is (ML "Data Augmentation").

    S_train ∪ {(τ(x_i), y_i)}        with  y(τ(x)) = y(x)

What preserves a label depends on the data: a shirt seen in a mirror is a shirt, a 2 seen in a mirror is no digit. `for_data`
says what is allowed for each data set of ours, and why (recipes.py).

An augmentation is a frozen set of parameters, called as `augmentation(batch, generator)` on float tensors (B, C, H, W), or
(B, C, L) where that makes sense for a sequence. Each image gets its own draw, from the given generator
alone, so the same generator gives the same batch. Beside each class stands the plain function that takes the drawn numbers
(`shift_by`, `rotate_by`, …), whose exactness the tests examine. Nothing is written in place, gradients flow, float32 and
float64 stay what they are, and parameters of strength 0 return the batch itself.

    >>> import torch
    >>> batch, generator = torch.rand(8, 1, 28, 28), torch.Generator().manual_seed(0)
    >>> Compose, Shift, Flip = (__getattr__(name) for name in ("Compose", "Shift", "Flip"))
    >>> Compose([Shift(2), Flip(0.5)])(batch, generator).shape
    torch.Size([8, 1, 28, 28])
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "draws": "Augmentation Compose Sometimes",
        "positions": "CropResize Flip QuarterTurn Rotate Shift crop_to rotate_by shift_by turn_quarters",
        "values": "Blur ColourDrop ColourJitter CutOut Noise Sobel blur_by cut_out_at find_edges to_grey turn_hue",
        "recipes": "Recipe for_data for_views",
    },
    extra=("torch", "deep"),
)
