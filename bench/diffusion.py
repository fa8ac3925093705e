"""Diffusion models: draws next to data, training next to a loop by hand, and where sampling spends its time.

./run bench diffusion                                   mixtures in 2-d, digits, speed: some 5 minutes
./run py -m bench.diffusion fashion --minutes 30
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from sklearn.svm import SVC

import lemmata
from lemmata.generate import Diffusion, frechet_distance
from lemmata.generate.diffusion import MixtureDenoiser, make_schedule, trajectory

TO_DIGITS = 100  # epochs a minute, of 1,200 digits on two cores


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench diffusion")
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--minutes", type=float, default=1.0)
    known = parser.parse_args(arguments or [])
    for name in known.parts or ["mixtures", "digits", "speed"]:
        {"mixtures": mixtures, "digits": digits, "fashion": fashion, "speed": speed}[name](known.minutes)  # fmt: skip


def sliced(A: np.ndarray, B: np.ndarray) -> float:
    """The Wasserstein distance of sorted projections, over 64 directions."""
    angles = np.linspace(0, np.pi, 64, endpoint=False)
    along = np.stack([np.cos(angles), np.sin(angles)])
    return float(np.sqrt(np.square(np.sort(A @ along, 0) - np.sort(B @ along, 0)).mean()))


def mixtures(minutes: float) -> None:
    """Draws of an exact and of a learned score, next to fresh rows; distances over that of rows to rows."""
    rng, schedule = np.random.default_rng(0), make_schedule("cosine", 1000)
    angles = 2 * np.pi * np.arange(8) / 8
    means = 2 * np.stack([np.cos(angles), np.sin(angles)], 1)
    best = MixtureDenoiser(np.full(8, 1 / 8), means, 0.04 * np.eye(2)[None].repeat(8, 0), schedule)
    fresh = [best.draw(5000, rng) for _ in range(8)]
    usual = np.mean([sliced(A, B) for A, B in zip(fresh[:4], fresh[4:], strict=True)])
    *_, (_, drawn) = trajectory(
        rng.normal(size=(5000, 2)), best, np.zeros_like, schedule, "heun", 20
    )
    exact = np.mean([sliced(drawn, B) for B in fresh]) / usual
    start = time.process_time()
    model = Diffusion(max_iter=round(100 * minutes), batch_size=256, random_state=0)
    with lemmata.config(certificate=False):
        model.fit(best.draw(20_000, rng).astype(np.float32))
    took = time.process_time() - start
    learned = (
        np.mean([sliced(model.sample(5000, steps=50, random_state=0), B) for B in fresh]) / usual
    )
    print(f"ring of 8, n = 5,000: exact score, 20 Heun steps {exact:.2f} times data to data (1.1 wanted); "
          f"learned, {took:.0f} CPU s {learned:.2f} (1.5 wanted)")  # fmt: skip


def digits(minutes: float) -> None:
    from sklearn.datasets import load_digits

    data, order = load_digits(), np.random.default_rng(0).permutation(1797)
    X, y = (data.images / 16).astype(np.float32)[order, None], data.target[order]
    epochs = round(TO_DIGITS * minutes)
    model = Diffusion(width=16, batch_size=32, max_iter=epochs, test_fraction=0, random_state=0)
    _judge("digits", model, (X[:1200], y[:1200]), (X[1200:], y[1200:]))


def fashion(minutes: float) -> None:
    (X, y), (new, new_y) = (
        (part.X.astype(np.float32).reshape(-1, 1, 28, 28), part.y)
        for part in map(lemmata.data.fashion_mnist, ("train", "test"))
    )
    model = Diffusion(
        width=32, max_iter=max(1, round(0.4 * minutes)), test_fraction=0, random_state=0
    )
    _judge("Fashion-MNIST", model, (X, y), (new[:2000], new_y[:2000]))


def _judge(label, model, train, new) -> None:
    """Accuracy, Fréchet distance of pixels in units of 1/4 of the range, and the claims about samples."""
    (X, y), (test, wanted) = train, new
    sort = SVC(C=10).fit(X[:5000].reshape(len(X[:5000]), -1), y[:5000])
    start, clock = time.process_time(), time.perf_counter()
    with lemmata.config(certificate=False):
        model.fit(X, y)
    print(f"{label}: fit {time.process_time() - start:.0f} CPU s, {time.perf_counter() - clock:.0f} s; "
          f"classifier right on {sort.score(test.reshape(len(test), -1), wanted):.3f} of new rows")  # fmt: skip
    usual = frechet_distance(4 * X[: len(test)], 4 * test)
    for guidance, steps, sampler in ((0, 20, "heun"), (0, 20, "ddim"), (0, 200, "ancestral"), (1, 20, "heun")):  # fmt: skip
        drawn = model.sample(len(test), wanted, steps, sampler, guidance, random_state=0)
        right = (sort.predict(drawn.reshape(len(drawn), -1)) == wanted).mean()
        far = frechet_distance(4 * drawn, 4 * test) / usual
        print(
            f"  guidance {guidance}, {steps} steps of {sampler}: accuracy {right:.3f}, Fréchet {far:.2f} times data to data"
        )
    asked = np.random.default_rng(0).choice(y, 2000)
    drawn = model.sample(2000, asked, steps=20, random_state=1)
    found = lemmata.certify(
        lemmata.generate.Samples(drawn, asked), X, y, X_test=test, y_test=wanted
    )
    print("  hold:", *found.held[2:], "fail:", *found.failed, "can't tell:", *found.undecided)


def speed(minutes: float) -> None:
    """A training step next to the loop by hand, in alternation; the share of sampling in the denoiser."""
    import torch

    from lemmata.generate.diffusion.network import Denoising
    from lemmata.nets import Training

    X = np.random.default_rng(0).normal(size=(512, 1, 28, 28)).astype(np.float32)
    with lemmata.config(certificate=False):
        model = Diffusion(width=16, max_iter=1, batch_size=64, test_fraction=0, random_state=0).fit(
            X
        )
    net, training = model.module_, Training(model.module_, Denoising(), batch_size=64, ema=0.999)
    state = training.init(X, np.random.default_rng(0))
    hand = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.0)
    mean = [one.detach().clone() for one in net.parameters()]
    loss, generator = Denoising(), torch.Generator()

    def by_hand() -> None:
        for part in torch.from_numpy(X).split(64):
            hand.zero_grad()
            loss(net, (part,), generator).mean().backward()
            hand.step()
            with torch.no_grad():
                torch._foreach_lerp_(mean, list(net.parameters()), 1e-3)

    times: dict[str, list[float]] = {"by hand": [], "ours": []}
    for _ in range(max(3, round(4 * minutes))):
        start = time.process_time()
        by_hand()
        times["by hand"].append(time.process_time() - start)
        start = time.process_time()
        state = training.step(state, X)
        times["ours"].append(time.process_time() - start)
    ours, other = (float(np.median(one)) for one in (times["ours"], times["by hand"]))
    print(
        f"an epoch of 512 images of 28²: {ours:.2f} CPU s, by hand {other:.2f}: {100 * (ours / other - 1):+.1f} % (3 wanted)"
    )
    inside, forward = 0.0, net.net.forward

    def timed(*arguments):
        nonlocal inside
        start = time.process_time()
        try:
            return forward(*arguments)
        finally:
            inside += time.process_time() - start

    net.eval()
    net.net.forward = timed
    start = time.process_time()
    model.sample(64, steps=25, random_state=0)
    took = time.process_time() - start
    print(
        f"64 images of 28², 25 Heun steps: {took:.1f} CPU s, {inside / took:.1%} in the denoiser (95 % wanted)"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
