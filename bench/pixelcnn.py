"""Images and sounds number by number: ./run bench pixelcnn, or python -m bench.pixelcnn PART [--minutes M], of training:

    fashion    30 minutes, bits/dim of Fashion-MNIST: independent 4.60; by hand 3.15 after 120 CPU seconds; aim 3.0
    binary     30 minutes, nats of binary Fashion-MNIST (> 127): independent 383; aim: below the VAE's (bench.vae --minutes 30)
    digits     1 minute, bits/dim of digits (independent 2.43), and nats of binary ones (> 7): independent 25.3, aim 18.5
    drawing    64 images of 28 × 28, cached against the naive loop: aim 15x
    sounds     10 minutes, bits a sample of spoken digits, 256 levels by the μ-law, beside independent samples and AR(16)

Minutes are of CPU. Settings were chosen on training images alone; the first 2,000 test images (of binary ones 1,000, as by
bench.vae) are looked at once, at the end.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from scipy.special import ndtr

from bench.helpers.harness import plan_training
from lemmata import AR, PixelCNN, WaveNet, config
from lemmata.data import digits, fashion_mnist, spoken_digits
from lemmata.generate.levels import Levels


def report(
    name: str, model, train, test, unit: str = "bits/dim", minutes: float | None = None
) -> None:
    """Fit and print; with minutes, for so long: rows and epochs are chosen by the time of a first part."""

    def fit(rows: int, epochs: int):
        with config(certificate=False):
            return model.set_params(max_iter=epochs).fit(train[:rows])

    rows, epochs = len(train), model.max_iter
    if minutes is not None:
        rows, epochs = plan_training(fit, rows, minutes)
    wall, cpu = time.perf_counter(), time.process_time()
    fit(rows, epochs)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    found = model.bits_per_dim(test) if unit == "bits/dim" else -model.score(test)
    alone = independent(model._levels, train, test, unit)
    print(f"{name}: {found:.4g} {unit} of {len(test):,} test rows; independent {alone:.4g}")
    print(
        f"  {rows:,} rows, {model.n_iter_} epochs in {wall:.0f} s, {cpu:.0f} s of CPU", flush=True
    )


def independent(levels: Levels, train: np.ndarray, test: np.ndarray, unit: str) -> float:
    """Histograms of the levels of every number, half a row added to each level."""
    bytes_ = 255.0 if train.dtype == np.uint8 else 1.0
    known, new = (levels.places(x.reshape(len(x), -1) / bytes_) for x in (train, test))
    total = 0.0
    for j in range(known.shape[1]):
        counts = np.bincount(known[:, j], minlength=len(levels.values)) + 0.5
        total -= np.log(counts / counts.sum())[new[:, j]].mean()
    return total / (known.shape[1] * np.log(2)) if unit == "bits/dim" else total


def images(part: str) -> np.ndarray:
    return np.round(255 * fashion_mnist(part).X).astype(np.uint8).reshape(-1, 28, 28)


def fashion(minutes: float = 30) -> None:
    model = PixelCNN(max_iter=1, test_fraction=0.0, random_state=0)
    report("Fashion-MNIST", model, images("train"), images("test")[:2000], minutes=minutes)


def binary(minutes: float = 30) -> None:
    train, test = ((images(part) > 127).astype(np.float32) for part in ("train", "test"))
    model = PixelCNN(max_iter=1, test_fraction=0.0, random_state=0)
    report("binary Fashion-MNIST", model, train, test[:1000], "nats", minutes)


def small(minutes: float = 1, rows: int = 1400) -> None:
    """Early stopping ends it after a minute or so."""
    X = digits().X.reshape(-1, 8, 8)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = X[order[:rows]], X[order[rows:]]
    settings = {"early_stopping": True, "test_fraction": 0.0, "random_state": 0}
    report("digits", PixelCNN(**settings, max_iter=30, n_iter_no_change=5), train, test)
    train, test = ((part > 7).astype(np.float32) for part in (train, test))
    report("binary digits", PixelCNN(**settings, max_iter=30, n_iter_no_change=5), train, test, "nats")  # fmt: skip


def drawing(minutes: float = 0) -> None:
    """The naive loop is 784 passes of all images: five of them are timed."""
    with config(certificate=False):
        net = PixelCNN(max_iter=1, random_state=0).fit(images("test")[:64]).module_
    x, naive = net.levels[torch.randint(256, (64, 1, 28, 28))], []
    with torch.no_grad():
        cpu = time.process_time()
        net.sample(64)
        cached = time.process_time() - cpu
        for _ in range(5):
            cpu = time.process_time()
            net(x)
            naive.append(time.process_time() - cpu)
    loop = 784 * min(naive)
    print(f"64 images: {cached:.2f} s of CPU, naive {loop:.0f}: {loop / cached:.0f}x (aim 15x)")


def sounds(minutes: float = 10) -> None:
    train, test = (spoken_digits(part, samples=2000).X for part in ("train", "test"))
    model = WaveNet(max_iter=1, test_fraction=0.0, random_state=0)
    report("spoken digits", model, train, test, minutes=minutes)
    levels = model._levels
    x, new = (levels.values[levels.places(part)].astype(np.float64) for part in (train, test))
    with config(certificate=False):
        process = AR(16).fit(x)
    predicted = new - np.array(process.residuals(new))
    edges, places = np.concatenate([[-np.inf], levels.borders, [np.inf]]), levels.places(new)
    ends = ((edges[places + at] - predicted) / np.sqrt(process.variance_) for at in (0, 1))
    p = -np.subtract(*(ndtr(end) for end in ends))
    p = 0.999 * p + 0.001 / len(levels.values)  # a level is never impossible
    print(f"  AR(16), the mass of its normals in the cells of the levels: {-np.log2(p).mean():.4g} bits a sample")  # fmt: skip


PARTS = {"fashion": fashion, "binary": binary, "digits": small, "drawing": drawing, "sounds": sounds}  # fmt: skip


def main() -> None:
    for part in PARTS.values():
        part()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="digits", choices=PARTS)
    parser.add_argument("--minutes", type=float)
    given = parser.parse_args()
    PARTS[given.part](**({} if given.minutes is None else {"minutes": given.minutes}))
