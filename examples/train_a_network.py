"""Train a network: images in, epochs as a table, a checkpoint that resumes, a certificate, a file; then a model of one's own.

./run py examples/train_a_network.py
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

import lemmata
from lemmata.nets import NeuralClassifier, Training, objective, train

digits = load_digits()
images = (digits.images * 15).astype(np.uint8)  # bytes stay bytes, and are read as 0 to 1
X, X_test, y, y_test = train_test_split(images, digits.target, test_size=0.3, random_state=0)


class Filters(nn.Module):
    """Any network will do: it is called with the shape of one input and the number of classes."""

    def __init__(self, input_shape, n_outputs, width=12):
        super().__init__()
        channels, height, rows = input_shape
        self.features = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)
        )  # fmt: skip
        self.head = nn.Linear(width * (height // 2) * (rows // 2), n_outputs)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


model = NeuralClassifier(
    Filters,
    net__width=12,
    learning_rate=0.01,
    schedule="one_cycle",
    batch_size=64,
    max_iter=8,
    early_stopping=True,
    random_state=0,
).fit(X, y)
print(model.history_, "\n")
print(f"accuracy on new digits: {model.score(X_test, y_test):.3f}\n")
print(model.certify(X, y, X_test=X_test, y_test=y_test), "\n")

# Channels last, as many libraries have them? The error says what to do.
try:
    model.predict(X_test[..., None])
except ValueError as error:
    print(error, "\n")

# A killed fit goes on from its checkpoint, to the same bits.
with tempfile.TemporaryDirectory() as folder:
    settings = {"learning_rate": 0.01, "random_state": 0, "layout": "contiguous"}
    whole = NeuralClassifier(Filters, max_iter=3, **settings).fit(X, y)
    path = Path(folder) / "run"
    NeuralClassifier(Filters, max_iter=1, checkpoint=path, **settings).fit(X, y)
    resumed = NeuralClassifier(Filters, max_iter=3, checkpoint=path, **settings).fit(X, y)
    same = (resumed.predict_proba(X_test) == whole.predict_proba(X_test)).all()
    print(f"resumed after one of three epochs, the same bits: {same}")

    # Files hold names, settings and weights, never code: whoever reads one passes the class.
    lemmata.save(resumed, Path(folder) / "digits.lemma")
    back = lemmata.load(Path(folder) / "digits.lemma", net=Filters)
    print(f"loaded: {back.module_.__class__.__name__}\n")


# Not a classifier? An objective sees the network, a batch and a generator of its own; everything else stays.
@objective
def denoising(net, batch, rng):
    (x,) = batch
    noise = torch.randn(x.shape, generator=rng)
    return (net(x + noise) - x).square().mean(1)


rows = (digits.data / 16).astype(np.float32)
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
solution = train(Training(net, denoising, ema=0.99, clip=1.0), rows, epochs=20, rng=0)
print(f"denoiser: error per pixel {solution.trace.objective[0]:.3f} → {solution.trace.last():.3f}")
