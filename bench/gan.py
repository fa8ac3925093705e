"""GANs on a ring of 8 and a grid of 25 normals: ./run bench gan, or python -m bench.gan --minutes M --seeds N …

By hand, in plain PyTorch, 1,500 rounds of 256: alternating Adam covers 5–6 of the 8, extra-Adam 0–7, alternating with R1 all
8; of the 25 after 5,000 rounds 23–25. Aims with the defaults: 8 of 8 in 5 of 5 seeds, ≥ 24 of 25 in 4 of 5; 90 s each. A mode
counts as covered if at least a quarter of its share of 2,500 samples lies within 5σ of its middle. Nothing is claimed of
extragradient alone. Found with the defaults: all 8 and all 25 in 5 of 5 seeds, 6 to 12 and 19 to 27 s. No run begins after
the minutes given; seconds are those of the CPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

from lemmata import GAN, config

SIGMA, ROUNDS, BATCH, ROWS, DRAWN = 0.02, {8: 1500, 25: 5000}, 256, 5120, 2500
GAMES = ("alternating", "synchronous", "extragradient")


def centres(modes: int) -> np.ndarray:
    """The middles of a ring of 8 or a grid of 25, of radius or half-width 2."""
    if modes == 8:
        angles = 2 * np.pi * np.arange(8) / 8
        return 2 * np.stack([np.cos(angles), np.sin(angles)], 1)
    side = np.linspace(-2, 2, 5)
    return np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)


def draw(modes: int, n: int, seed: int) -> np.ndarray:
    rng, middles = np.random.default_rng(seed), centres(modes)
    rows = middles[rng.integers(0, modes, n)] + SIGMA * rng.normal(size=(n, 2))
    return rows.astype(np.float32)


def covered(modes: int, samples: np.ndarray) -> tuple[int, float]:
    """How many modes have a quarter of their share near them, and the share of samples that is near any."""
    distances = np.linalg.norm(samples[:, None] - centres(modes), axis=2)
    near = distances.min(axis=1) < 5 * SIGMA
    counts = np.bincount(distances.argmin(axis=1)[near], minlength=modes)
    return int((counts >= len(samples) / modes / 4).sum()), float(near.mean())


def fit(modes: int, seed: int, **more) -> tuple[GAN, float]:
    epochs, worked = ROUNDS[modes] * BATCH // ROWS, time.process_time()
    settings = {"max_iter": epochs, "batch_size": BATCH, "test_fraction": 0.0, "random_state": seed}
    with config(certificate=False):
        model = GAN(**{**settings, **more}).fit(draw(modes, ROWS, seed))
    return model, time.process_time() - worked


def runs(seeds: int, chosen: dict) -> Iterator[tuple[int, int, dict]]:
    """The defaults on all seeds first; then every game with and without R1, two seeds each."""
    yield from ((modes, seed, chosen) for modes in (8, 25) for seed in range(seeds))
    for game in GAMES:
        for r1 in ("auto", 0.0):
            yield from ((8, seed, {"game": game, "r1": r1}) for seed in range(min(seeds, 2)))


def main(
    minutes: float = 15.0, seeds: int = 5, images: bool = False, r1: float | None = None
) -> None:
    begin = time.perf_counter()
    for modes, seed, more in runs(seeds, {} if r1 is None else {"r1": r1}):
        if time.perf_counter() - begin > 60 * minutes:
            print(f"stopped after {minutes:g} minutes")
            return
        model, seconds = fit(modes, seed, **more)
        count, near = covered(modes, model.sample(DRAWN, random_state=0))
        what = ", ".join(f"{key}={value}" for key, value in more.items()) or "defaults"
        found = f"{count:2} covered, {100 * near:.0f} % of samples near; {seconds:.0f} s"
        print(f"{modes:2} modes, seed {seed}, {what}: {found}", flush=True)
    if images:
        fashion(60 * minutes - (time.perf_counter() - begin))


def fashion(seconds: float) -> None:
    """DCGAN on Fashion-MNIST in the time that is left, with its certificate on test images."""
    from lemmata.data import fashion_mnist

    train, test = (fashion_mnist(part) for part in ("train", "test"))
    X, new = (part.X.astype(np.float32).reshape(-1, 1, 28, 28) for part in (train, test))
    model = GAN(time_limit=max(seconds, 10.0), max_iter=1000, random_state=0).fit(X, train.y)
    print(f"Fashion-MNIST: {model.n_iter_} epochs")
    print(model.certify(X, train.y, X_test=new[:4000], y_test=test.y[:4000]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--images", action="store_true")
    parser.add_argument("--r1", type=float)
    main(**vars(parser.parse_args()))
