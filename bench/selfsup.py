"""Encoders without labels on Fashion-MNIST: ./run bench selfsup, or python -m bench.selfsup PART …

    losses      ours and lightly's, where it is installed, on the same tensors
    step        an update of SimCLR against the loop by hand, and the share of it that two views take
    clip        images and measured captions, a template never seen; spoken digits and words
    quality     probes after so many epochs: python -m bench.selfsup quality --method SimCLR --epochs 6 [--test]

Of the 60,000 training images the first 5,000 are set apart for choosing; the test images are looked at with --test, once.
Seconds are those of one thread's CPU.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

import lemmata
from lemmata import CLIP
from lemmata.audit.kernel.concentration import betting
from lemmata.data import fashion_mnist
from lemmata.nets import ConvNet
from lemmata.nets.augmentation import for_views
from lemmata.selfsup import FeatureNet, JointEmbedding, losses, probe
from lemmata.selfsup.probes import fit_probe
from lemmata.selfsup.views import choose_views

GARMENTS = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")  # fmt: skip
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEMPLATES = (
    "a photo of a {adjective} {}", "this is a {adjective} {}", "{adjective} {} for sale", "my {adjective} {}",
    "picture of the {adjective} {}", "the {adjective} {} on white", "somebody wants a {adjective} {}", "one {adjective} {}",
    "look at this {adjective} {}", "a {adjective} {} from the shop",
)  # fmt: skip
UNSEEN = "the shop wants a picture of this {}"
APART, BATCH, WIDTHS = 5000, 256, (32, 64, 128)
RECIPES = {"BYOL": {"momentum": 0.97, "learning_rate": 4e-3}}  # chosen on the images set apart


def images(part: str) -> tuple[np.ndarray, np.ndarray]:
    found = fashion_mnist(part)
    return found.X.astype(np.float32).reshape(-1, 1, 28, 28), found.y


def compare_losses() -> None:
    """Print the largest difference of each loss to lightly's on the same tensors."""
    try:
        from lightly.loss import NegativeCosineSimilarity, NTXentLoss, VICRegLoss
    except (ImportError, RuntimeError):  # torchvision of another build
        return print("losses: lightly is not installed; tests/selfsup compares them with the formulas")  # fmt: skip
    torch.manual_seed(0)
    worst = dict.fromkeys(("contrast", "predict", "regularise"), 0.0)
    for _ in range(20):
        z, z_plus = torch.randn(2, 64, 32, dtype=torch.float64).unbind()
        ours = {
            "contrast": losses.contrast(z, z_plus, 0.2).mean(),
            "predict": losses.predict(z, z_plus).mean(),
            "regularise": losses.regularise(z, z_plus),
        }
        theirs = {
            "contrast": NTXentLoss(temperature=0.2)(z, z_plus),
            "predict": 2 + 2 * NegativeCosineSimilarity()(z, z_plus),
            "regularise": VICRegLoss()(z, z_plus),
        }
        worst = {k: max(v, abs(float(ours[k] - theirs[k]))) for k, v in worst.items()}
    for name, far in worst.items():
        print(f"{name:<12} at most {far:.1e} from lightly's")


def compare_steps(rounds: int = 5, steps: int = 10) -> None:
    """Print CPU seconds of an update: ours in a fit, by hand, and the views of a batch."""
    X = images("train")[0][: BATCH * steps]
    views = choose_views(None, X.shape[1:])
    best = {"ours": np.inf, "by hand": np.inf, "views": np.inf}
    for _ in range(rounds):
        for name, run in (("ours", fit), ("by hand", loop), ("views", draw)):
            best[name] = min(best[name], run(X, steps, views))
    ms = {name: 1000 * seconds / steps for name, seconds in best.items()}
    ahead = 100 * (ms["ours"] / ms["by hand"] - 1)
    print(f"an update of SimCLR: {ms['ours']:.0f} ms, by hand {ms['by hand']:.0f} ms: {ahead:+.1f} %")  # fmt: skip
    print(f"two views of {BATCH}: {ms['views']:.0f} ms, {100 * ms['views'] / ms['ours']:.1f} % of an update")  # fmt: skip


def network() -> JointEmbedding:
    return JointEmbedding(FeatureNet(ConvNet((1, 28, 28), 1, widths=WIDTHS)))


def fit(X: np.ndarray, steps: int, views) -> float:
    """CPU seconds of an epoch, without what begins and ends a fit."""
    from lemmata.nets.data.batches import Rows
    from lemmata.nets.training.algorithm import Training
    from lemmata.selfsup.objectives import Contrast

    training = Training(network(), Contrast(views), learning_rate=2e-3, batch_size=BATCH, epochs=1)
    data = Rows(X.reshape(len(X), -1), shape=X.shape[1:])
    data.whole_batches = True
    state = training.init(data, np.random.default_rng(0))
    began = time.process_time()
    state = training.step(state, data)
    while state.batch:
        state = training.step(state, data)
    return time.process_time() - began


def loop(X: np.ndarray, steps: int, views) -> float:
    """The same in plain PyTorch."""
    net, rng = network().to(memory_format=torch.channels_last), torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW([w for w in net.parameters() if w.requires_grad], 2e-3, fused=True)  # fmt: skip
    rows, began = torch.from_numpy(X), time.process_time()
    for part in torch.randperm(len(X)).split(BATCH):
        z, z_plus = net.project(torch.cat(views(rows[part], rng))).chunk(2)
        loss = losses.contrast(z, z_plus, 0.2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.process_time() - began


def draw(X: np.ndarray, steps: int, views) -> float:
    rng, rows, began = torch.Generator().manual_seed(0), torch.from_numpy(X), time.process_time()
    for part in torch.arange(len(X)).split(BATCH):
        views(rows[part], rng)
    return time.process_time() - began


def measure_quality(given: argparse.Namespace) -> None:
    """Train an encoder for each seed; print what probes make of its features, and whether the claims hold."""
    X, y = images("train")
    new, truth = images("test") if given.test else (X[:APART], y[:APART])
    X, y = X[APART : APART + given.rows], y[APART : APART + given.rows]
    where = "test images" if given.test else "images set apart"
    print(f"{given.method}, {given.epochs} epochs of {len(X):,}, views {given.strength}; {where}")
    for seed in given.seeds:
        began = time.process_time()
        model = getattr(lemmata, given.method)(
            net_options={"widths": WIDTHS, "pool": given.pool}, views=for_views(given.strength),
            max_iter=given.epochs, random_state=seed, **RECIPES.get(given.method, {}),
        )  # fmt: skip
        with lemmata.config(certificate=False):
            model.fit(X)
        minutes = (time.process_time() - began) / 60
        spread = model.trace_.extras["spread"][-1]
        print(f"seed {seed}: {minutes:.1f} minutes, spread of z {spread:.2f}", flush=True)
        brief = seed != given.seeds[0] or given.brief
        train, test = model.transform(X), model.transform(new)
        for some, draws in ((len(X), 1), (1000, 3), (100, 20)):
            if given.method == "SimCLR" and not brief:
                print(probe(model, X, y, new, truth, labels=some, draws=draws), flush=True)
                continue
            rng, hits = np.random.default_rng(0), []
            for _ in range(draws):  # the draws of `probe`
                at = np.sort(rng.permutation(len(y))[:some])
                hits.append((fit_probe(train[at], y[at], test) == truth).mean())
            print(f"  {some:,} labels: {np.mean(hits):.4f} ± {np.std(hits):.4f}", flush=True)
        if given.method == "SimCLR":
            fine_tune(model, X, y, new, truth, seed)
        if not brief:
            print(model.certify(X, y, X_test=new, y_test=truth, seconds=300), flush=True)
        print(f"  {(time.process_time() - began) / 60:.1f} minutes with the probes", flush=True)


def fine_tune(model, X, y, new, truth, seed: int, labels: int = 1000) -> None:
    """Print the accuracy of fine-tuning on few labels against training the same network from scratch."""
    some = np.random.default_rng(seed).permutation(len(X))[:labels]
    settings = {"max_iter": 20, "random_state": seed}
    torch.manual_seed(seed)
    fresh, hits = FeatureNet(ConvNet((1, 28, 28), 1, **model.net_options)), []
    for net in (model.encoder_, fresh):
        with lemmata.config(certificate=False):
            tuned = lemmata.NeuralClassifier(net, **settings).fit(X[some], y[some])
        hits.append(tuned.predict(new) == truth)
    low, high = betting(hits[0].astype(float) - hits[1], 0.05, -1.0, 1.0)
    tuned, scratch = (hit.mean() for hit in hits)
    print(f"{labels:,} labels: fine-tuned {tuned:.4f}, from scratch {scratch:.4f}, gain {low:+.4f} to {high:+.4f}")  # fmt: skip


def fit_captions(given: argparse.Namespace) -> None:
    """Print zero-shot accuracy on a template never seen, and how many images find their own among 100 captions."""
    from lemmata.data import spoken_digits

    (X, y), (new, truth) = images("train"), images("test")
    X, y = X[APART : APART + given.rows], y[APART : APART + given.rows]
    options = {"net_options": {"widths": WIDTHS, "pool": given.pool}, "batch_size": BATCH}
    model = CLIP(**options, max_iter=given.epochs, random_state=0)
    pair("Fashion-MNIST", model, (X, caption(X, y)), new, truth, GARMENTS)
    train, test = (spoken_digits(part) for part in ("train", "test"))
    said = [TEMPLATES[i % 10].format(DIGITS[k], adjective="") for i, k in enumerate(train.y)]
    model = CLIP(batch_size=60, max_iter=30, random_state=0)
    pair("spoken digits", model, (train.X[:, None], said), test.X[:, None], test.y, DIGITS)


def pair(
    name: str, model, pairs, new: np.ndarray, truth: np.ndarray, names: tuple[str, ...]
) -> None:
    began = time.process_time()
    with lemmata.config(certificate=False):
        model.fit(*pairs)
    minutes = (time.process_time() - began) / 60
    zero_shot = model.classifier(names, template=UNSEEN)
    right = zero_shot.score(new, np.array(names)[truth])
    print(f"{name}: {minutes:.1f} minutes, zero-shot {right:.4f} on a template never seen")
    print(zero_shot.certify(new, np.array(names)[truth]))
    if names is GARMENTS:
        own = caption(new[:100], truth[:100])
        nearest = model.retrieve(new[:100], own, k=5)
        hits = np.array([[own[j] == own[i] for j in row] for i, row in enumerate(nearest)])
        first, five = hits[:, 0].mean(), hits.any(axis=1).mean()
        print(
            f"among 100 captions the nearest is right for {first:.2f}, one of five for {five:.2f}"
        )


def caption(X: np.ndarray, y: np.ndarray) -> list[str]:
    """Templates in turn, with an adjective measured from the image: dark or bright, long or wide."""
    light = X.mean(axis=(1, 2, 3))
    tall = (X > 0.1).any(axis=3).sum(axis=(1, 2)) / np.maximum((X > 0.1).any(axis=2).sum(axis=(1, 2)), 1)  # fmt: skip
    found = []
    for i, k in enumerate(y):
        pairs = (("dark", "bright")[int(light[i] > 0.28)], ("wide", "long")[int(tall[i] > 1)])
        found.append(TEMPLATES[i % 10].format(GARMENTS[k], adjective=pairs[(i // 10) % 2]))
    return found


def main() -> None:
    compare_losses()
    compare_steps()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=("losses", "step", "clip", "quality", "all"), nargs="?", default="all")  # fmt: skip
    parser.add_argument("--method", default="SimCLR", choices=("SimCLR", "BYOL", "VICReg"))
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--pool", default="stride", choices=("max", "mean", "stride"))
    parser.add_argument("--rows", type=int, default=55_000)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--brief", action="store_true", help="neither baselines nor claims")
    parser.add_argument("--strength", type=float, default=0.7, help="of the augmentations")
    parser.add_argument("--test", action="store_true")
    torch.set_num_threads(1)
    asked = parser.parse_args()
    if asked.part == "quality":
        measure_quality(asked)
    elif asked.part == "clip":
        fit_captions(asked)
    elif asked.part == "losses":
        compare_losses()
    elif asked.part == "step":
        compare_steps()
    else:
        main()
