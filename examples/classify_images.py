"""Classify images: a ConvNet and a ResNet on digits, what a layer sees, and which layers are convolutions.

./run py examples/classify_images.py
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from lemmata.nets import (
    ConvNet,
    NeuralClassifier,
    ResNet,
    convolve,
    measure_receptive_field,
    receptive_field,
    recover_kernel,
)
from lemmata.nets.augmentation import Shift

digits = load_digits()
images = (digits.images / 16).astype(np.float32)[:, None]  # (n, 1, 8, 8): channels first
X, X_test, y, y_test = train_test_split(images, digits.target, test_size=0.3, random_state=0)

# Two networks behind scikit-learn's interface; what stands after net__ goes to the network.
recipe = {"schedule": "one_cycle", "batch_size": 64, "max_iter": 5, "random_state": 0}
models = {
    "ConvNet": NeuralClassifier(
        ConvNet, net__widths=(16, 32), net__convs=2, learning_rate=0.02, augment=Shift(1), **recipe
    ),
    "ResNet": NeuralClassifier(
        ResNet, net__widths=(16, 32), net__stem="pool", learning_rate=0.02, **recipe
    ),
}
for name, model in models.items():
    model.fit(X, y)
    weights = sum(p.numel() for p in model.module_.parameters())
    print(f"{name}, {weights:,} weights: {model.score(X_test, y_test):.3f} of new digits are right")

# How much of the image does an output of the first stage see? By the formula, and by gradients.
stack = models["ConvNet"].module_.features[0][:2]  # two convolutions of 3 × 3
print(f"\nthe formula: {receptive_field(stack)[0].size} × {receptive_field(stack)[1].size} pixels")
print(f"by gradients: {measure_receptive_field(stack, (1, 15, 15)).sum()} pixels")

# Linear and shift-equivariant means: a convolution. Two layers without a bend are one, with a kernel that can be found.
torch.manual_seed(0)
first, second = (nn.Conv1d(1, 1, k, padding=k // 2, bias=False) for k in (3, 5))
found = recover_kernel(nn.Sequential(first, second), (1, 24))
product = convolve(first.weight.detach()[0, 0], second.weight.detach()[0, 0])
print(
    f"\ntwo layers are one convolution up to {found.residual:.0e}, with a kernel of {found.weight.size} taps"
)
print(f"it is the convolution of their kernels up to {np.abs(found.weight - product).max():.0e}")
bent = recover_kernel(nn.Sequential(first, nn.ReLU(), second), (1, 24))
print(f"with a ReLU between them a residual of {bent.residual:.2f} says: no convolution")
