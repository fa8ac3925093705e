"""Diffusion models: draws next to data, training next to a loop by hand, and where sampling spends its time.

./run bench diffusion                                   mixtures in 2-d, digits, speed: some 5 minutes
./run py -m bench.diffusion fashion --minutes 10        minutes of CPU
./run py -m bench.diffusion equal --minutes 1           five models after equal CPU time, on one thread
./run py -m bench.diffusion few                         few steps next to 1,000 ancestral ones, on digits
./run py -m bench.diffusion yardstick copies            what real digits get of the same tests; epochs against copies
"""

from __future__ import annotations

import argparse
import copy
import sys
import time

import numpy as np
from sklearn.svm import SVC

import lemmata
from lemmata.generate import GAN, VAE, Diffusion, Latent, NormalizingFlow, PixelCNN, compare_frechet
from lemmata.generate.diffusion import MixtureDenoiser, make_schedule, trajectory

TO_DIGITS = 100  # epochs a minute, of 1,200 digits on two cores


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench diffusion")
    parts = ("mixtures", "digits", "fashion", "speed", "equal", "few", "yardstick", "copies")
    parser.add_argument("parts", nargs="*", choices=[*parts, []], default=[])
    parser.add_argument("--minutes", type=float, default=1.0)
    known = parser.parse_args(arguments or [])
    for name in known.parts or ["mixtures", "digits", "speed"]:
        globals()[name](known.minutes)


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
    _judge("digits", _of_digits(minutes), *_digits())


def _digits() -> tuple:
    from sklearn.datasets import load_digits

    data, order = load_digits(), np.random.default_rng(0).permutation(1797)
    X, y = (data.images / 16).astype(np.float32)[order, None], data.target[order]
    return (X[:1200], y[:1200]), (X[1200:], y[1200:])


def _of_digits(minutes: float) -> Diffusion:
    epochs = round(TO_DIGITS * minutes)
    return Diffusion(width=16, batch_size=32, max_iter=epochs, test_fraction=0, random_state=0)


def few(minutes: float) -> None:
    """Samplers of one model of digits: distance (mean and deviation of two draws), the class asked for, and cost."""
    (X, y), (test, wanted) = _digits()
    with lemmata.config(certificate=False):
        model = _of_digits(minutes).fit(X, y)
    tell = _classifier(X, y, test, wanted)
    counts = {"ddim": (5, 10, 20, 50), "heun": (5, 10, 20), "ancestral": (20, 50, 200, 1000)}
    for sampler, some in counts.items():
        for steps in some:
            start = time.process_time()
            drawn = [model.sample(len(test), wanted, steps, sampler, random_state=seed) for seed in range(2)]  # fmt: skip
            took = (time.process_time() - start) / 2
            far = [compare_frechet(rows, X, test).ratio for rows in drawn]
            right = np.mean([tell.predict(rows.reshape(len(rows), -1)) == wanted for rows in drawn])
            print(f"  {steps:5} steps of {sampler:14} Fréchet {np.mean(far):.2f} ± {np.std(far):.2f}, accuracy {right:.3f}, "
                  f"{len(test)} draws {took:.1f} CPU s", flush=True)  # fmt: skip


def yardstick(minutes: float) -> None:
    """Real digits in place of draws: new rows, and training rows drawn again, the perfect copies; 20 splits."""
    (X, y), (more, rest) = _digits()
    X, y = np.concatenate([X, more]).reshape(1797, -1), np.concatenate([y, rest])
    ratios: dict[str, list[float]] = {"new rows": [], "copies": [], "copies, classes as asked": []}
    verdicts = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        order = rng.permutation(1797)
        A, B, C = X[order[:599]], X[order[599:1198]], X[order[1198:]]
        ratios["new rows"].append(compare_frechet(C, A, B).ratio)
        some, labels = order[:1200], y[order[:1200]]
        again = [rng.choice(some[labels == c]) for c in y[order[1200:]]]
        for name, rows in (("copies", rng.choice(some, 597)), ("copies, classes as asked", again)):
            ratios[name].append(compare_frechet(X[rows], X[some], X[order[1200:]]).ratio)
        verdicts.append(lemmata.certify(lemmata.generate.Samples(C), A, X_test=B)["not_copied"].verdict)  # fmt: skip
    for name, found in ratios.items():
        within = (np.array(found) <= 1.2).mean()
        far = f"{np.mean(found):.2f} ± {np.std(found):.2f}"
        print(f"{name}: Fréchet {far}, at most 1.2 in {within:.0%} of 20 splits")
    print("not_copied of 599 new rows:", {one: verdicts.count(one) for one in set(verdicts)})


def copies(minutes: float) -> None:
    """Epochs at a constant rate against distance and copies, on 800 digits and 400 set apart, all from the training rows."""
    from lemmata.nets.images.unet import UNet

    (X, y), _ = _digits()
    for dropout in (0.0, 0.1, 0.2):
        net = UNet((1, 8, 8), 1, 16, n_classes=10, dropout=dropout, adaptive=True)
        model = Diffusion(
            net, batch_size=32, learning_rate=4e-3, rate_schedule="constant", ema=0.998, max_iter=40, warm_start=True,
            test_fraction=0, random_state=0,
        )  # fmt: skip
        for epochs in range(40, 201, 40):
            with lemmata.config(certificate=False):
                model.fit(X[:800], y[:800])
            asked = np.tile(y[800:], 2)
            rows = model.sample(800, asked, 20, random_state=1)
            far = np.mean([compare_frechet(part, X[:800], X[800:]).ratio for part in np.split(rows, 2)])  # fmt: skip
            samples = lemmata.generate.Samples(np.rint(16 * rows) / 16, asked)
            found = lemmata.certify(samples, X[:800], X_test=X[800:])["not_copied"]
            words = f"Fréchet {far:.2f}, not_copied {found.verdict}: {found.note}"
            print(f"dropout {dropout}, {epochs} epochs: {words}", flush=True)


def fashion(minutes: float) -> None:
    """As many epochs of 30,000 images as fit into the minutes, at 4 ms of CPU an image."""
    X, y, new, wanted = _clothes()
    epochs = max(1, round(60 * minutes / 4e-3 / 30_000))
    model = Diffusion(width=24, batch_size=32, max_iter=epochs, test_fraction=0, random_state=0)
    _judge("Fashion-MNIST", model, (X[:30_000], y[:30_000]), (new, wanted))


def _clothes() -> tuple[np.ndarray, ...]:
    train, test = map(lemmata.data.fashion_mnist, ("train", "test"))
    X, new = (part.X.astype(np.float32).reshape(-1, 1, 28, 28) for part in (train, test))
    return X, train.y, new[:1000], test.y[:1000]


def _judge(label, model, train, new) -> None:
    """Accuracy, Fréchet distance of pixels, and the claims about samples."""
    (X, y), (test, wanted) = train, new
    start, clock = time.process_time(), time.perf_counter()
    with lemmata.config(certificate=False):
        model.fit(X, y)
    print(f"{label}: fit {time.process_time() - start:.0f} CPU s, {time.perf_counter() - clock:.0f} s")  # fmt: skip
    tell = _classifier(X, y, test, wanted)
    for guidance, steps, sampler in ((0, 20, "heun"), (0, 20, "ddim"), (1, 20, "ddim")):
        drawn = model.sample(len(test), wanted, steps, sampler, guidance, random_state=0)
        print(f"  guidance {guidance}, {steps} steps of {sampler}:", _grade(tell, drawn, wanted, X, test))  # fmt: skip
    asked = np.random.default_rng(0).choice(y, 2000)
    levels = 16 if label == "digits" else 255  # draws have none: a classifier would tell by that
    rows = np.rint(levels * model.sample(2000, asked, 20, "ddim", random_state=1)) / levels
    samples = lemmata.generate.Samples(rows, asked)
    found = lemmata.certify(samples, X, y, X_test=test, y_test=wanted)
    print("  hold:", *found.held[2:], "fail:", *found.failed, "can't tell:", *found.undecided)


def _classifier(X, y, test, wanted) -> SVC:
    tell = SVC(C=10).fit(X[:5000].reshape(len(X[:5000]), -1), y[:5000])
    print(f"a classifier is right on {tell.score(test.reshape(len(test), -1), wanted):.3f} of new rows")  # fmt: skip
    return tell


def _grade(tell, drawn, wanted, X, test) -> str:
    right = (tell.predict(drawn.reshape(len(drawn), -1)) == wanted).mean()
    return f"accuracy {right:.3f}, Fréchet {compare_frechet(drawn, X, test).ratio:.2f} times data to data"


def equal(minutes: float) -> None:
    """Models of Fashion-MNIST after the same CPU time, one thread: the class asked for, Fréchet distance, cost of draws."""
    X, y, new, wanted = _clothes()
    tell = _classifier(X, y, new, wanted)
    common = {"test_fraction": 0, "random_state": 0}
    makes = {
        "VAE": lambda epochs: VAE(16, max_iter=epochs, **common),
        "diffusion": lambda epochs: Diffusion(width=16, batch_size=32, max_iter=epochs, **common),
        "DCGAN": lambda epochs: GAN(batch_size=64, max_iter=epochs, **common),
        "flow": lambda epochs: NormalizingFlow(batch_size=64, max_iter=epochs, **common),
        "PixelCNN": lambda epochs: PixelCNN(levels=16, batch_size=64, max_iter=epochs, **common),
    }
    for name, make in makes.items():
        half = name == "VAE"  # the other half is for its codes
        model, words = _fit_within(make, X, None if half else y, 30 * minutes * (2 - half))
        if half:
            codes = np.random.default_rng(0).normal(size=(len(new), 16)).astype(np.float32)
            drawn = model.inverse_transform(codes)
            far = compare_frechet(drawn, X, new).ratio
            print(f"VAE, means of its prior, {words}: Fréchet {far:.2f}", flush=True)
            name = "diffusion of its codes"

            def of_codes(epochs: int, vae=model) -> Latent:
                return Latent(vae, Diffusion(max_iter=epochs, **common))

            model, words = _fit_within(of_codes, X, y, 30 * minutes)
        _draw_and_grade(name, words, model, tell, (X, new, wanted))


def _draw_and_grade(name, words, model, tell, rows) -> None:
    X, new, wanted = rows
    flows = isinstance(model, (Diffusion, Latent))
    for guidance in (0, 1) if flows else (0,):
        more = {"steps": 20, "sampler": "ddim", "guidance": guidance} if flows else {}
        start = time.process_time()
        drawn = model.sample(len(wanted), wanted, random_state=0, **more)
        took = (time.process_time() - start) * 64 / len(wanted)
        label = f"{name}, guidance {guidance}" if guidance else name
        print(f"{label}, {words}: {_grade(tell, drawn, wanted, X, new)}; 64 draws {took:.2f} CPU s", flush=True)  # fmt: skip


def _fit_within(make, X, y, seconds: float):
    """A model of as many rows or epochs as cost so many CPU seconds, by what it costs to see 5,120 rows instead of 2,560."""

    def fit(rows: float):
        count = int(min(len(X), rows))
        epochs, start = max(1, round(rows / count)), time.process_time()
        with lemmata.config(certificate=False):
            model = make(epochs).fit(X[:count], None if y is None else y[:count])
        return model, time.process_time() - start, f"{count:,} rows, {epochs} epochs"

    fit(128)  # what is loaded and compiled once
    less, more = fit(2560)[1], fit(5120)[1]  # both state their loss of 2,000 rows
    model, took, words = fit(2560 * (1 + (seconds - less) / max(more - less, more / 10)))
    return model, f"{words}, {took:.0f} CPU s"


def speed(minutes: float) -> None:
    """A training step next to the loop by hand and to smalldiffusion's; the share of sampling in the denoiser.

    smalldiffusion's loop holds the graph of its last batch while the others run, so that glibc does not give its memory back,
    which costs it a tenth of its time where it runs alone: here both are measured without that.
    """
    import torch

    from lemmata.generate.diffusion.network import Denoising
    from lemmata.nets import Training

    X = np.random.default_rng(0).normal(size=(512, 1, 28, 28)).astype(np.float32)
    with lemmata.config(certificate=False):
        model = Diffusion(width=16, max_iter=1, batch_size=64, test_fraction=0, random_state=0).fit(X)  # fmt: skip
    net, training = model.module_, Training(model.module_, Denoising(), batch_size=64, ema=0.999)
    state = training.init(X, np.random.default_rng(0))
    hand = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.0)
    mean = [one.detach().clone() for one in net.parameters()]
    loss, generator = Denoising(), torch.Generator()

    def step_by_hand() -> None:
        for part in torch.from_numpy(X).split(64):
            hand.zero_grad()
            loss(net, (part,), generator).mean().backward()
            hand.step()
            with torch.no_grad():
                torch._foreach_lerp_(mean, list(net.parameters()), 1e-3)

    def step_ours() -> None:
        nonlocal state
        state = training.step(state, X)

    loops = {"ours": step_ours, "by hand": step_by_hand, **_smalldiffusion(net.net, X)}
    times: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(max(3, round(4 * minutes))):
        for name, epoch in loops.items():
            start = time.process_time()
            epoch()
            times[name].append(time.process_time() - start)
    medians = {name: float(np.median(one)) for name, one in times.items()}
    ours = medians.pop("ours")
    words = [f"{name} {took:.2f} ({100 * (ours / took - 1):+.1f} %)" for name, took in medians.items()]  # fmt: skip
    print(f"an epoch of 512 images of 28²: {ours:.2f} CPU s, {', '.join(words)}; at most +3 % wanted")  # fmt: skip
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


def _smalldiffusion(unet, X) -> dict:
    """An epoch of smalldiffusion's training loop on a copy of this U-Net, where it is installed. It has no running mean."""
    try:
        import smalldiffusion as other
    except ImportError:
        print("smalldiffusion is not installed: pip install smalldiffusion")
        return {}
    import torch

    class Same(torch.nn.Module, other.ModelMixin):
        def __init__(self):
            super().__init__()
            self.net = copy.deepcopy(unet)

        def forward(self, x, sigma, cond=None):
            return self.net(x / (1 + sigma**2).sqrt(), 250 * sigma.log().flatten())

    loader = torch.utils.data.DataLoader(torch.from_numpy(X), 64, shuffle=True)
    steps = other.training_loop(loader, Same(), other.ScheduleLogLinear(1000))

    def epoch() -> None:
        for _ in loader:
            next(steps)

    return {"smalldiffusion": epoch}


if __name__ == "__main__":
    main(sys.argv[1:])
