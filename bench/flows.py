"""Density of two moons by flows beside zuko and normflows, where installed, and plain PyTorch: ./run bench flows (5 minutes).

    python -m bench.flows images --minutes 15      bits/dim of Fashion-MNIST by Glow and RealNVP, each for so long

200 steps of 1,024 rows through 8 affine couplings with networks of 64-64 units, Adam at 1e-3, the same for all; quality is ln p
of new rows, the mean of five seeds. Then whole fits of 90,000 rows: the true density has −ln p = 1.600.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from sklearn.datasets import make_moons

from bench.helpers.harness import plan_training
from lemmata import NormalizingFlow, config

STEPS, BATCH, LAYERS, WIDTH, SEEDS = 200, 1024, 8, 64, 5
ENOUGH, SECONDS = 1.62, 60.0


class Plain(torch.nn.Module):
    """The same model written directly, as in the peers' study."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((1, WIDTH), (WIDTH, WIDTH), (WIDTH, 2))
        parts = [[torch.nn.Linear(*size) for size in sizes] for _ in range(LAYERS)]
        self.nets = torch.nn.ModuleList(
            torch.nn.Sequential(a, torch.nn.ReLU(), b, torch.nn.ReLU(), c) for a, b, c in parts
        )

    def forward(self, x: Any) -> Any:
        a, b = x[:, :1], x[:, 1:]
        log_det: Any = 0.0
        for net in self.nets:
            s, t = net(a).chunk(2, 1)
            s = torch.tanh(s)
            a, b = b * s.exp() + t, a
            log_det = log_det + s
        return (log_det - 0.5 * (a * a + b * b)).squeeze(1) - math.log(2 * math.pi)


def train(make: Any, rows: Any, seed: int) -> Any:
    """Make 200 steps by hand and return the function that gives ln p."""
    torch.manual_seed(seed)
    flow, log_prob = make()
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)
    for _ in range(STEPS):
        loss = -log_prob(rows[torch.randint(len(rows), (BATCH,))]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return log_prob


def plain() -> Any:
    flow = Plain()
    return flow, flow


def zuko_flow() -> Any:
    import zuko

    flow = zuko.flows.RealNVP(2, transforms=LAYERS, hidden_features=(WIDTH, WIDTH))
    return flow, lambda x: flow().log_prob(x)


def normflows_flow() -> Any:
    import normflows as nf

    parts = []
    for _ in range(LAYERS):
        net = nf.nets.MLP([1, WIDTH, WIDTH, 2], init_zeros=True)
        parts += [nf.flows.AffineCouplingBlock(net), nf.flows.Permute(2, mode="swap")]
    flow = nf.NormalizingFlow(nf.distributions.DiagGaussian(2, trainable=False), parts)
    return flow, flow.log_prob


def moons() -> Any:
    X, _ = make_moons(100_000, noise=0.08, random_state=0)
    return ((X - X.mean(0)) / X.std(0)).astype("float32")


def compare_steps(X: Any) -> None:
    rows, new = torch.from_numpy(X[:90_000]), torch.from_numpy(X[90_000:])
    some = X[: BATCH * 20]  # ten epochs are 200 steps

    def ours(seed: int) -> Any:
        settings = {"batch_size": BATCH, "max_iter": STEPS // 20, "learning_rate": 1e-3}
        model = NormalizingFlow(
            n_transforms=LAYERS, widths=(WIDTH, WIDTH), optimizer="adam", schedule="constant",
            test_fraction=0.0, random_state=seed, **settings,
        )  # fmt: skip
        with config(certificate=False):
            return model.fit(some).module_.log_prob

    systems = {"lemmata": ours}
    for name, make in (
        ("plain PyTorch", plain),
        ("zuko", zuko_flow),
        ("normflows", normflows_flow),
    ):
        with suppress(ModuleNotFoundError):
            make()
            systems[name] = partial(train, make, rows)
    times: dict[str, list[float]] = {name: [] for name in systems}
    losses: dict[str, list[float]] = {name: [] for name in systems}
    for seed in range(-1, SEEDS):  # the first warms up
        for name, fit in systems.items():
            begin = time.perf_counter()
            log_prob = fit(max(seed, 0))
            if seed >= 0:
                times[name].append(time.perf_counter() - begin)
                with torch.no_grad():
                    losses[name].append(-float(log_prob(new).mean()))
    print(
        f"RealNVP, two moons, {STEPS} steps of {BATCH:,} rows, {SEEDS} seeds in turns (ours with the whole fit)"
    )
    for name in systems:
        ratio = statistics.median(b / a for a, b in zip(times["lemmata"], times[name], strict=True))
        speed = f"{STEPS / statistics.median(times[name]):4.0f} steps/s, {ratio:.2f}x our time"
        print(f"  {name:15} {speed}   −ln p {statistics.mean(losses[name]):.3f}", flush=True)
    print("  aims: zuko >= 1.5x, plain PyTorch >= 0.95x, −ln p not above zuko's")


def fit_whole(X: Any) -> None:
    for recipe, epochs in (("realnvp", 25), ("spline", 12)):
        begin, worked = time.perf_counter(), time.process_time()
        model = NormalizingFlow(recipe, batch_size=BATCH, max_iter=epochs, random_state=0).fit(X[:90_000])  # fmt: skip
        took, worked = time.perf_counter() - begin, time.process_time() - worked
        found = -model.score(X[90_000:])
        met = "met" if found <= ENOUGH and took <= SECONDS else "MISSED"
        print(
            f"  fit, {recipe:8} {epochs} epochs   −ln p {found:.3f} in {took:.0f} s, {worked:.0f} s of CPU   {met}",
            flush=True,
        )


def fit_images(minutes: float) -> None:
    """Bits per pixel of test images: Glow and RealNVP of one size for the same time; independent pixels take 4.60."""
    from lemmata.data import fashion_mnist

    train, test = (fashion_mnist(part).X.reshape(-1, 1, 28, 28) for part in ("train", "test"))
    settings = {"n_transforms": 6, "widths": (48, 48), "batch_size": 128, "learning_rate": 2e-3}
    settings |= {"warmup": 0.02, "clip": 50.0, "test_fraction": 0.0, "random_state": 0}
    for recipe in ("glow", "realnvp"):

        def fit(rows: int, epochs: int, recipe: str = recipe) -> Any:
            with config(certificate=False):
                return NormalizingFlow(recipe, max_iter=epochs, **settings).fit(train[:rows])

        rows, epochs = plan_training(fit, len(train), minutes)
        begin, worked = time.perf_counter(), time.process_time()
        model = fit(rows, epochs)
        took, worked = time.perf_counter() - begin, time.process_time() - worked
        bits = model.bits_per_dim(test[:2000])
        print(f"  {recipe:8} {epochs} epochs of {rows:,} images in {took:.0f} s, {worked:.0f} s of CPU: "
              f"at most {bits:.3f} bits/dim (aim 3.6)", flush=True)  # fmt: skip


def main(part: str = "moons", minutes: float = 15.0) -> None:
    if part == "images":
        return fit_images(minutes)
    X = moons()
    compare_steps(X)
    fit_whole(X)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="moons", choices=("moons", "images"))
    parser.add_argument("--minutes", type=float, default=15.0)
    main(**vars(parser.parse_args()))
