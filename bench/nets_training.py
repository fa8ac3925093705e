"""What our loop costs besides forward, backward and the optimiser's step, and images per second beside a loop written by hand.

Random images of 28 × 28, in bytes, as the estimators get them; the loop by hand has them as floats from 0 to 1 already.
One epoch. The share is measured by a clock around each part of every update, in the same run; batches are fetched,
seeds set, losses read and states copied in the rest. The loop by hand is what a tutorial has: a permutation, slices of
tensors in memory, zero_grad, backward, step. It draws no seeds, checks no loss and keeps no state.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from bench.helpers.harness import compare
from lemmata.core import MaxSteps, run
from lemmata.nets import Rows, Training
from lemmata.nets.training import trainer as trainers

BATCH = 128
PLAIN = {"layout": "contiguous", "precision": "float32"}
MOST = 3.0  # % of the time of a step


def small_cnn() -> nn.Module:
    """Two convolutions and two linear layers, 60 thousand weights."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10),
    )  # fmt: skip


NETS = {"small CNN": (small_cnn, 60), "MLP 784-512-256-10": (mlp, 300)}  # and batches in an epoch


def images(batches: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    n = batches * BATCH
    return rng.integers(0, 256, (n, 1, 28, 28), np.uint8), rng.integers(0, 10, n)


class Clock:
    """Seconds inside of some functions."""

    def __init__(self) -> None:
        self.spent = 0.0

    def around(self, function: Callable) -> Callable:
        def timed(*args, **options):
            begin = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                self.spent += time.perf_counter() - begin

        return timed


def own_share(net: Callable[[], nn.Module], batches: int) -> tuple[float, float]:
    """What is ours of an epoch, in %, and in microseconds of each batch; the middle of five epochs."""
    clock = Clock()
    data = Rows(*images(batches), scale_bytes=True)
    training = Training(net, "cross_entropy", batch_size=BATCH, **PLAIN)
    state = training.step(training.init(data, np.random.default_rng(0)), data)
    trainer = training._last[0]
    trainer.objective = clock.around(trainer.objective)
    trainer.optimizer.step = clock.around(trainer.optimizer.step)
    trainer.optimizer.zero_grad = clock.around(trainer.optimizer.zero_grad)
    backward, torch.Tensor.backward = torch.Tensor.backward, clock.around(torch.Tensor.backward)
    mean, trainers.share_of_mean = trainers.share_of_mean, clock.around(trainers.share_of_mean)
    found = []
    try:
        for _ in range(5):
            clock.spent, begin = 0.0, time.perf_counter()
            state = training.step(state, data)
            whole = time.perf_counter() - begin
            found.append((100 * (1 - clock.spent / whole), 1e6 * (whole - clock.spent) / batches))
    finally:
        torch.Tensor.backward, trainers.share_of_mean = backward, mean
    return sorted(found)[2]


def by_hand(net: Callable[[], nn.Module], X: torch.Tensor, y: torch.Tensor, epochs: int) -> float:
    torch.manual_seed(0)
    module = net().train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, weight_decay=0.0)
    for _ in range(epochs):
        order = torch.randperm(len(X))
        for start in range(0, len(X), BATCH):
            rows = order[start : start + BATCH]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(module(X[rows]), y[rows])
            loss.backward()
            optimizer.step()
    return loss.item()


def ours(net: Callable[[], nn.Module], data: Rows, epochs: int, **more) -> float:
    training = Training(net, "cross_entropy", batch_size=BATCH, **more)
    return run(training, data, stop=MaxSteps(epochs), rng=0).trace.last()


def main() -> None:
    for name, (net, batches) in NETS.items():
        share, microseconds = own_share(net, batches)
        verdict = "below" if share < MOST else "NOT below"
        print(
            f"our loop's own time, {name}, batches of {BATCH}: {share:.2f} % of an epoch, "
            f"{microseconds:.0f} µs a batch ({verdict} {MOST:g} %)"
        )
    print()
    for name, (net, batches) in NETS.items():
        X, y = images(batches)
        data = Rows(X, y, scale_bytes=True)
        tensors = torch.from_numpy(X).float() / 255, torch.from_numpy(y)
        systems = {
            "lemmata": lambda net=net, data=data: ours(net, data, 2),
            "lemmata, contiguous float32": lambda net=net, data=data: ours(net, data, 2, **PLAIN),
            "PyTorch by hand": lambda net=net, tensors=tensors: by_hand(net, *tensors, 2),
        }
        compare(f"{name}: 2 epochs of {len(X):,} images of 28 × 28", systems)


if __name__ == "__main__":
    main()
