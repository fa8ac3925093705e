"""Networks on images: Fashion-MNIST to a stated accuracy within a stated time, digits in five folds, spoken digits.

    ./run bench nets_images                                          one seed of each
    ./run py -m bench.nets_images --seeds 3 --only convnet           three seeds of some
    ./run py -m bench.nets_images --only resnet --checkpoint run     goes on from the files run-resnet-0.… where it was stopped

Nothing is chosen on the test images: 5,000 training images are set apart for that, the recipes below were written down after
looking at those, and the test images are looked at once, by the last weights. Seconds are of training alone, on all cores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

HELD_OUT = 5000


@dataclass(frozen=True)
class Recipe:
    """A network, how it is trained, and what it has to reach on the test images within so many minutes."""

    net: Callable[[], Any]
    epochs: int
    accuracy: float
    minutes: float
    options: dict[str, Any] = field(default_factory=dict)
    shift: int = 0  # pixels
    flip: bool = True
    smoothing: float = 0.0


def recipes() -> dict[str, Recipe]:
    from lemmata.nets import ConvNet, ResNet

    image = (1, 28, 28)
    small = partial(ConvNet, image, 10, widths=(24, 40, 80), convs=(1, 1, 2))
    sgd = {"optimizer": "nesterov", "schedule": "one_cycle", "batch_size": 128}
    return {
        "mlp": Recipe(
            _mlp, 24, 0.895, 6,
            {"optimizer": "adamw", "learning_rate": 2e-3, "weight_decay": 0.05, "schedule": "one_cycle", "batch_size": 128},
        ),
        "convnet": Recipe(small, 8, 0.915, 6, {**sgd, "learning_rate": 0.1, "weight_decay": 2e-4}),
        "convnet-long": Recipe(
            small, 16, 0.925, 20, {**sgd, "learning_rate": 0.1, "weight_decay": 2e-4}, shift=1
        ),
        "resnet": Recipe(
            partial(ResNet, image, 10, widths=(32, 64, 128), blocks=2, stem="pool"),
            16, 0.935, 45,
            {**sgd, "learning_rate": 0.1, "weight_decay": 5e-4}, shift=1, smoothing=0.05,
        ),
    }  # fmt: skip


def _mlp() -> Any:
    from torch import nn

    wide = 512
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, wide), nn.BatchNorm1d(wide), nn.ReLU(), nn.Dropout(0.2),
        nn.Linear(wide, wide), nn.BatchNorm1d(wide), nn.ReLU(), nn.Dropout(0.2), nn.Linear(wide, 10),
    )  # fmt: skip


def fashion(part: str) -> tuple[np.ndarray, np.ndarray]:
    from lemmata import data

    found = data.fashion_mnist(part)
    return found.X.reshape(-1, 1, 28, 28), found.y


def split() -> tuple[Any, Any]:
    """Training images, and those set apart: the same for every recipe and every seed."""
    X, y = fashion("train")
    order = np.random.default_rng(2026).permutation(len(X))
    held, kept = order[:HELD_OUT], order[HELD_OUT:]
    return (X[kept], y[kept]), (X[held], y[held])


def training(recipe: Recipe, batches_per_step: int | None = None) -> Any:
    from lemmata.nets.augmentation import Compose, Flip, Shift
    from lemmata.nets.training import Training
    from lemmata.nets.training.losses import CrossEntropy

    changes = [Shift(recipe.shift)] if recipe.shift else []
    changes += [Flip(0.5)] if recipe.flip else []
    return Training(
        recipe.net,
        CrossEntropy(label_smoothing=recipe.smoothing),
        epochs=recipe.epochs,
        augment=Compose(changes) if changes else None,
        score=_right,
        batches_per_step=batches_per_step,
        **recipe.options,
    )


def _right(outputs: Any, targets: Any) -> Any:
    return (outputs.argmax(1) == targets).float()


def accuracy(module: Any, X: np.ndarray, y: np.ndarray) -> float:
    import torch

    with torch.no_grad():
        scores = [module(torch.from_numpy(X[i : i + 500])).argmax(1) for i in range(0, len(X), 500)]
    return float((torch.cat(scores).numpy() == y).mean())


def run_one(name: str, recipe: Recipe, seed: int, checkpoint: str | None, until: int | None, pieces: int) -> None:  # fmt: skip
    """Train to the end, or until a step if the run is done in parts; print a line."""
    from lemmata.nets.training import train

    kept, held = split()
    batches = -(-len(kept[0]) // recipe.options["batch_size"])
    algorithm = training(recipe, None if pieces == 1 else -(-batches // pieces))
    steps = recipe.epochs * pieces
    begin = time.perf_counter()
    solution = train(
        algorithm, kept, validation=held, epochs=min(until or steps, steps), rng=seed,
        checkpoint=None if checkpoint is None else f"{checkpoint}-{name}-{seed}",
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    state = solution.state
    done = f"{name}, seed {seed}: {state.epoch} of {recipe.epochs} epochs, loss {state.loss:.4f}"
    done += f", validation {state.validation_score:.4f}, {seconds:.0f} s"
    if state.epoch >= recipe.epochs:
        module = algorithm.module(state, weights="mean")
        weights = sum(p.numel() for p in module.parameters())
        found = accuracy(module, *fashion("test"))
        done += f", {weights:,} weights: test {found:.4f}  (wanted ≥ {recipe.accuracy} in {recipe.minutes:g} min)"
    print(done, flush=True)


def digits(seeds: int = 1) -> None:
    """Five folds of scikit-learn's digits, as a user would: an estimator and cross_val_score."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    from lemmata.nets import ConvNet, NeuralClassifier
    from lemmata.nets.augmentation import Shift

    X, y = load_digits(return_X_y=True)
    images = (X / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    for seed in range(seeds):
        model = NeuralClassifier(
            ConvNet, net__widths=(32, 64), net__convs=(2, 1), augment=Shift(1), max_iter=30, batch_size=64,
            optimizer="adamw", learning_rate=0.02, weight_decay=0.05, schedule="one_cycle", random_state=seed,
        )  # fmt: skip
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        begin = time.perf_counter()
        found = cross_val_score(model, images, y, cv=folds)
        print(f"digits, ConvNet, 5 folds, seed {seed}: {found.mean():.4f} ({found.min():.4f} to {found.max():.4f}), "
              f"{time.perf_counter() - begin:.0f} s  (wanted ≥ 0.985)", flush=True)  # fmt: skip


def sounds(seeds: int = 1) -> None:
    """Spoken digits from the raw waveform: 240 recordings of six people to learn from, 60 of the same people to test."""
    from lemmata import data
    from lemmata.nets import NeuralClassifier, SoundNet
    from lemmata.nets.augmentation import for_data

    train, test = (data.spoken_digits(part) for part in ("train", "test"))
    for seed in range(seeds):
        model = NeuralClassifier(
            SoundNet, augment=for_data("spoken_digits"), max_iter=60, batch_size=30, learning_rate=0.01,
            weight_decay=0.05, schedule="one_cycle", random_state=seed,
        )  # fmt: skip
        begin = time.perf_counter()
        model.fit(train.X[:, None], train.y)
        print(f"spoken digits, SoundNet, seed {seed}: {model.score(test.X[:, None], test.y):.4f} of {len(test)}, "
              f"{time.perf_counter() - begin:.0f} s", flush=True)  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.nets_images", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", nargs="*", help=", ".join([*recipes(), "digits", "sounds"]))
    parser.add_argument("--checkpoint", help="the beginning of file names to go on from")
    parser.add_argument("--until", type=int, help="stop after so many steps in all")
    parser.add_argument("--pieces", type=int, default=1, help="steps of the loop in an epoch")
    asked = parser.parse_args(arguments or [])
    print(
        "Fashion-MNIST, 55,000 training images; 5,000 set apart for choosing; test images looked at once"
    )
    for name, recipe in recipes().items():
        if not asked.only or name in asked.only:
            for seed in range(asked.seeds):
                run_one(name, recipe, seed, asked.checkpoint, asked.until, asked.pieces)
    if not asked.only or "digits" in asked.only:
        digits(asked.seeds)
    if not asked.only or "sounds" in asked.only:
        sounds(asked.seeds)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
