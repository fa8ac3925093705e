"""Attacks beside their closed form, a loop by hand and torchattacks, where that is installed: ./run bench attacks

    ./run bench attacks                     linear models in three norms, PGD-10, 50 steps × 10 restarts
    ./run py -m bench.attacks training      adversarial training on Fashion-MNIST, and the standard attacks (minutes)
    ./run py -m bench.attacks smoothing     certified accuracy of 500 images at σ = 0.25

Times are CPU seconds of one process, ours and theirs in turn, the best of some. Nothing is chosen on test images: the recipes
were written down after looking at 5,000 training images that were set apart.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from lemmata.trust import Ball, SmoothedClassifier, attack
from lemmata.trust.robust.gradient import pgd
from lemmata.trust.robust.scores import margins, read_target

EPS = 0.1
HELD_OUT = 5000  # training images to choose recipes by


def in_turn(times: int, *runs: Callable[[], Any]) -> list[tuple[float, Any]]:
    """Run each in turn, several times; return the least CPU seconds and the last result of each."""
    best: list[tuple[float, Any]] = [(math.inf, None)] * len(runs)
    for _ in range(times):
        for at, run in enumerate(runs):
            begin = time.process_time()
            found = run()
            best[at] = min(best[at][0], time.process_time() - begin), found
    return best


def fashion(part: str) -> tuple[Any, Any]:
    from lemmata import data

    found = data.fashion_mnist(part)
    return found.X.reshape(-1, 1, 28, 28).astype(np.float32), found.y


# --- linear models: the closed form -----------------------------------------------------------------------------------


def compare_linear() -> None:
    X, y = load_digits(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X[:1000] / 16, y[:1000])
    X, y = X[1000:] / 16, y[1000:]
    for norm, eps in ((math.inf, 0.05), (2, 0.4), (1, 1.5)):
        for low, high in ((0, 1), (None, None)):
            ball = Ball(eps, norm=norm, low=low, high=high)
            begin = time.process_time()
            found = attack(model, X, y, ball, "pgd-margin", restarts=1)
            seconds = time.process_time() - begin
            scores = read_target(model, X, (64,)).scores(found.witnesses["pgd-margin"])
            rest = ~found.fooled
            off = np.abs(margins(scores, y) - found.exact)[rest].max()
            apart = int((found.fooled != (found.exact < 0)).sum())
            how = f"right {found.robust_accuracy:.3f}, {apart} rows apart from the closed form"
            print(
                f"ℓ{norm:<4g}{'boxed' if high else 'free':6} {how}, margins to {off:.0e}   {seconds:.2f} s",
                flush=True,
            )


# --- speed on a small network -----------------------------------------------------------------------------------------


def small_net() -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(1568, 100), nn.ReLU(), nn.Linear(100, 10),
    )  # fmt: skip


def by_hand(net: Any, x: Any, y: Any, steps: int, eps: float = EPS) -> Any:
    """PGD as one writes it: a random start, signs of the gradient of the cross-entropy, a clip; all rows to the end."""
    import torch
    from torch.nn.functional import cross_entropy

    z = (x + torch.empty_like(x).uniform_(-eps, eps)).clamp(0, 1)
    for _ in range(steps):
        z.requires_grad_()
        (slope,) = torch.autograd.grad(cross_entropy(net(z), y), z)
        z = z.detach() + 2.5 * eps / steps * slope.sign()
        z = torch.clamp(x + torch.clamp(z - x, -eps, eps), 0, 1)
    return z


def compare_speed(n: int = 512) -> None:
    import torch

    from lemmata import NeuralClassifier

    X, y = fashion("train")
    net = NeuralClassifier(small_net(), max_iter=2, learning_rate=2e-3, random_state=0)
    net = net.fit(X[:10_000], y[:10_000]).module_.eval()
    X, y = X[-n:], y[-n:]
    x, labels = torch.from_numpy(X), torch.from_numpy(y).long()
    ball, flat = Ball(EPS), X.reshape(n, -1)

    def ours(eps: float, steps: int, restarts: int, rest: bool) -> Any:
        target = read_target(net, flat, X.shape[1:])
        with target.ready():
            found = [pgd(target, flat[at : at + 128], y[at : at + 128], ball.with_eps(eps), steps=steps, restarts=restarts,
                         on="loss", full_steps=False, rest=rest).margins for at in range(0, n, 128)]  # fmt: skip
            return float((np.concatenate(found) >= 0).mean())

    def theirs(make: Callable[[Any, Any], Any]) -> float:
        right = 0
        for at in range(0, n, 128):
            z = make(x[at : at + 128], labels[at : at + 128])
            with torch.no_grad():
                right += int((net(z).argmax(1) == labels[at : at + 128]).sum())
        return right / n

    def restarted(eps: float, steps: int, restarts: int) -> Callable[[Any, Any], Any]:
        """Keep what fooled a row in some restart; the peer attacks every row in every restart."""

        def run(xs: Any, ys: Any) -> Any:
            kept = xs.clone()
            for _ in range(restarts):
                z = torchattacks.PGD(net, eps=eps, alpha=2.5 * eps / steps, steps=steps)(xs, ys)
                with torch.no_grad():
                    wrong = net(z).argmax(1) != ys
                kept[wrong] = z[wrong]
            return kept

        return run

    runs: dict[str, Callable[[], Any]] = {
        "all rows to the end": lambda: ours(EPS, 10, 1, False),
        "fooled rows rest": lambda: ours(EPS, 10, 1, True),
        "by hand": lambda: theirs(lambda xs, ys: by_hand(net, xs, ys, 10)),
    }
    try:
        import torchattacks
    except ImportError:
        print("torchattacks is not installed")
    else:
        runs["torchattacks"] = lambda: theirs(
            torchattacks.PGD(net, eps=EPS, alpha=EPS / 4, steps=10)
        )
    print(f"PGD-10 on {n} images, batches of 128, ε = {EPS}")
    for name, (seconds, right) in zip(runs, in_turn(6, *runs.values()), strict=True):
        print(f"  {name:22} {n / seconds:6.0f} images/s   right {right:.3f}", flush=True)
    if "torchattacks" in runs:
        for eps in (0.02, EPS):
            mine, other = in_turn(
                1, partial(ours, eps, 50, 10, True), partial(theirs, restarted(eps, 50, 10))
            )
            found = f"lemmata {mine[0]:.1f} s (right {mine[1]:.3f}), torchattacks {other[0]:.1f} s ({other[1]:.3f})"
            print(
                f"50 steps × 10 restarts, ε = {eps}: {found} → {other[0] / mine[0]:.1f}x",
                flush=True,
            )


# --- adversarial training and smoothing: minutes ----------------------------------------------------------------------


def robust_net(width: int = 24) -> Any:
    from torch import nn

    layers: list[Any] = []
    for before, after, size, stride in (
        (1, width, 5, 2),
        (width, 2 * width, 3, 2),
        (2 * width, 2 * width, 3, 1),
    ):
        layers += [
            nn.Conv2d(before, after, size, stride, size // 2, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(98 * width, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def train_robustly(
    epochs: int = 36, width: int = 24, eps: float = 0.12, steps: int = 2, trades: float | None = None,
    images: int = 2000, path: str | None = None,
) -> None:  # fmt: skip
    """Train on 55,000 images in a ball larger than the attack's; PGD-20 on those set apart, all attacks on test images."""
    from lemmata import NeuralClassifier
    from lemmata.nets.augmentation import Flip
    from lemmata.nets.training.devices import has_bfloat16_units
    from lemmata.trust import AdversarialTraining

    X, y = fashion("train")
    model = NeuralClassifier(
        robust_net(width), loss=AdversarialTraining(Ball(eps), steps, trades), max_iter=epochs, learning_rate=2e-3,
        schedule="one_cycle", batch_size=128, ema=0.999, augment=Flip(0.5), random_state=0, verbose=1,
        precision="bfloat16" if has_bfloat16_units("cpu") else "auto", checkpoint=path and f"{path}.ckpt",
    )  # fmt: skip
    begin = time.process_time()
    model.fit(X[:-HELD_OUT], y[:-HELD_OUT])
    print(f"{model.n_iter_} epochs, {time.process_time() - begin:.0f} CPU s", flush=True)
    found = attack(
        model, X[-HELD_OUT:], y[-HELD_OUT:], Ball(EPS), "pgd-margin", restarts=1, steps=20
    )
    print(f"set apart: clean {found.accuracy:.3f}, PGD-20 {found.robust_accuracy:.3f}", flush=True)
    X, y = fashion("test")
    begin = time.process_time()
    found = attack(model, X[:images], y[:images], Ball(EPS), restarts=2, queries=1000)
    print(found, f"\n{time.process_time() - begin:.0f} CPU s", flush=True)
    print(found.certificate_, flush=True)


def smooth_images(sigma: float = 0.25, n: int = 1000, images: int = 500) -> None:
    """Certified accuracy: right, and the ℓ2 radius is at least r."""
    from lemmata import NeuralClassifier

    X, y = fashion("train")
    rng = np.random.default_rng(0)
    noisy = (X + sigma * rng.standard_normal(X.shape)).astype(np.float32)
    begin = time.process_time()
    model = NeuralClassifier(
        robust_net(16), max_iter=4, learning_rate=2e-3, schedule="one_cycle", random_state=0
    )
    model.fit(noisy[:-HELD_OUT], y[:-HELD_OUT])
    trained = time.process_time() - begin
    X, y = fashion("test")
    begin = time.process_time()
    said, radii = SmoothedClassifier(model, sigma, n).predict_radius(X[:images])
    seconds = time.process_time() - begin
    shares = ", ".join(
        f"{np.mean((said == y[:images]) & (radii > 0) & (radii >= r)):.3f} at {r}"
        for r in (0, 0.25, 0.5)
    )
    print(
        f"σ = {sigma}, {n} draws, {images} images: certified {shares}   training {trained:.0f} s, votes {seconds:.0f} s"
    )


def main() -> None:
    compare_linear()
    compare_speed()


if __name__ == "__main__":
    {"training": train_robustly, "smoothing": smooth_images}.get(sys.argv[-1], main)()
