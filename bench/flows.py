"""Density of two moons by flows beside zuko, where installed, and plain PyTorch: ./run bench flows; bits of images:
python -m bench.flows images EPOCHS (3), which prints seconds and CPU seconds of Glow and RealNVP on Fashion-MNIST.

200 steps of 1,024 rows through 8 affine couplings with networks of 64-64 units, Adam at 1e-3, the same for all; quality is ln p
of new rows, the mean of five seeds. Then whole fits of 90,000 rows: the true density has −ln p = 1.600.
"""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from sklearn.datasets import make_moons

from bench.helpers.harness import compare
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

    def density(log_prob: Any) -> float:
        with torch.no_grad():
            return float(log_prob(new).mean())

    makers: dict[str, Any] = {"plain PyTorch": plain}
    try:
        import zuko  # noqa: F401

        makers["zuko"] = zuko_flow
    except ModuleNotFoundError:
        print("zuko is not installed: not compared")
    systems = {"lemmata": lambda: ours(0)}
    systems |= {name: lambda make=make: train(make, rows, 0) for name, make in makers.items()}
    compare(
        f"RealNVP, two moons, {STEPS} steps of {BATCH:,} rows",
        systems,
        density,
        target=0.95,
        rounds=3,
    )
    trained = {"lemmata": ours} | {
        name: lambda seed, make=make: train(make, rows, seed) for name, make in makers.items()
    }
    for name, fit in trained.items():
        mean = sum(-density(fit(seed)) for seed in range(SEEDS)) / SEEDS
        print(f"  −ln p after {STEPS} steps, mean of {SEEDS} seeds   {name:15} {mean:.3f}")


def fit_whole(X: Any) -> None:
    for recipe, epochs in (("realnvp", 25), ("spline", 12)):
        begin = time.perf_counter()
        model = NormalizingFlow(recipe, batch_size=BATCH, max_iter=epochs, random_state=0).fit(X[:90_000])  # fmt: skip
        took, found = time.perf_counter() - begin, -model.score(X[90_000:])
        met = "met" if found <= ENOUGH and took <= SECONDS else "MISSED"
        print(
            f"  fit, {recipe:8} {epochs} epochs of 90,000 rows   −ln p {found:.3f} in {took:.0f} s   {met}"
        )


def fit_images(epochs: int = 3) -> None:
    """Bits per pixel of test images: Glow and RealNVP of the same size, epochs and batches; independent pixels take 4.60."""
    from lemmata.data import fashion_mnist

    train, test = (fashion_mnist(part).X.reshape(-1, 1, 28, 28) for part in ("train", "test"))
    settings = {"n_transforms": 6, "widths": (48, 48), "batch_size": 128, "learning_rate": 2e-3}
    for recipe in ("glow", "realnvp"):
        begin, worked = time.perf_counter(), time.process_time()
        with config(certificate=False):
            model = NormalizingFlow(
                recipe, max_iter=epochs, warmup=0.02, clip=50.0, test_fraction=0.0, random_state=0, **settings
            ).fit(train)  # fmt: skip
        took, worked = time.perf_counter() - begin, time.process_time() - worked
        bits = model.bits_per_dim(test[:2000])
        print(f"  {recipe:8} {epochs} epochs in {took:.0f} s, {worked:.0f} s of CPU: at most {bits:.3f} bits/dim")  # fmt: skip


def main(*wanted: str) -> None:
    if wanted[:1] == ("images",):
        return fit_images(*map(int, wanted[1:]))
    X = moons()
    compare_steps(X)
    fit_whole(X)


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
