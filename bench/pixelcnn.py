"""Images pixel by pixel: ./run bench pixelcnn, or python -m bench.pixelcnn PART [ROWS]

    fashion    bits/dim of Fashion-MNIST, an epoch over ROWS images (60,000): independent 4.60; by hand 3.15 after 120 CPU
               seconds; aim 3.0 in half an hour of two cores
    binary     nats of binary Fashion-MNIST (> 127), an epoch over ROWS: independent 383, a VAE of 10 minutes 118
    digits     bits/dim of digits (independent 2.43), and nats of binary ones (> 7): independent 25.3, aim 18.5
    drawing    64 images of 28 × 28, cached against the naive loop: aim 15x
    sounds     bits of a sample of spoken digits, 256 levels by the μ-law

Settings were chosen on training images alone; the first 2,000 test images are looked at once, at the end.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch

from lemmata import PixelCNN, WaveNet, config
from lemmata.data import digits, fashion_mnist, spoken_digits


def report(name: str, model, train, test, unit: str = "bits/dim", **fit) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    with config(certificate=False):
        model.fit(train, **fit)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    found = model.bits_per_dim(test) if unit == "bits/dim" else -model.score(test)
    print(
        f"{name}: {found:.4g} {unit} of {len(test):,} test rows; independent {independent(train, test, unit):.4g}"
    )
    print(f"  {len(train):,} rows, {model.n_iter_} epochs in {wall:.0f} s, {cpu:.0f} s of CPU", flush=True)  # fmt: skip


def independent(train: np.ndarray, test: np.ndarray, unit: str) -> float:
    """Histograms of every number, half a row added to each level that occurs."""
    values = np.unique(train)
    if len(values) > 256:  # of sounds, which are rounded by the model
        return np.nan
    known, new = (np.searchsorted(values, x.reshape(len(x), -1)) for x in (train, test))
    total = 0.0
    for j in range(known.shape[1]):
        counts = np.bincount(known[:, j], minlength=len(values)) + 0.5
        total -= np.log(counts / counts.sum())[new[:, j]].mean()
    return total / (known.shape[1] * np.log(2)) if unit == "bits/dim" else total


def images(part: str) -> np.ndarray:
    return np.round(255 * fashion_mnist(part).X).astype(np.uint8).reshape(-1, 28, 28)


def fashion(rows: int = 60_000) -> None:
    model = PixelCNN(max_iter=1, test_fraction=0.0, random_state=0)
    report("Fashion-MNIST", model, images("train")[:rows], images("test")[:2000])


def binary(rows: int = 60_000) -> None:
    train, test = ((images(part) > 127).astype(np.float32) for part in ("train", "test"))
    model = PixelCNN(max_iter=1, test_fraction=0.0, random_state=0)
    report("binary Fashion-MNIST", model, train[:rows], test[:2000], "nats")


def small(rows: int = 1400) -> None:
    X = digits().X.reshape(-1, 8, 8)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = X[order[:rows]], X[order[rows:]]
    settings = {"early_stopping": True, "test_fraction": 0.0, "random_state": 0}
    report("digits", PixelCNN(**settings, max_iter=30, n_iter_no_change=5), train, test)
    train, test = ((part > 7).astype(np.float32) for part in (train, test))
    report("binary digits", PixelCNN(**settings, max_iter=30, n_iter_no_change=5), train, test, "nats")  # fmt: skip


def drawing() -> None:
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


def sounds(rows: int = 240) -> None:
    train, test = (spoken_digits(part, samples=2000).X for part in ("train", "test"))
    report("spoken digits", WaveNet(max_iter=4, test_fraction=0.0, random_state=0), train[:rows], test)  # fmt: skip


PARTS = {"fashion": fashion, "binary": binary, "digits": small, "drawing": drawing, "sounds": sounds}  # fmt: skip


def main() -> None:
    for part in PARTS.values():
        part()


if __name__ == "__main__":
    part, *rows = sys.argv[1:] or ["digits"]
    PARTS[part](*map(int, rows))
