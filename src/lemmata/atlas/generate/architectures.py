"""Networks that make images, and what they make (CIL Fig. 5.7–5.9, 5.12, 5.13; ML Algorithms 1–3)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREY, ORANGE, figure, image_grid

Array = np.ndarray
Shape = tuple[int, ...]


def _record_shapes(net: Any, parts: list[Any], *inputs: Any) -> list[Shape]:
    """(channels, height, width) of what each part gives, in the order in which they run."""
    import torch

    found: list[Shape] = []
    hooks = [part.register_forward_hook(lambda *call: found.append(tuple(call[2].shape[1:]))) for part in parts]  # fmt: skip
    with torch.no_grad():
        net.eval()(*inputs)
    for hook in hooks:
        hook.remove()
    return found


def _draw_maps(axes: Any, shapes: list[Shape], middles: list[float], color: str) -> None:
    """A box for every map: as high as its side, as wide as it has channels."""
    from matplotlib.patches import Rectangle

    for (channels, side, _), x in zip(shapes, middles, strict=True):
        wide = 0.15 + 0.6 * channels / 128
        axes.add_patch(Rectangle((x - wide / 2, -side / 2), wide, side, color=color, alpha=0.75))
        axes.text(x, -side / 2 - 1, f"{channels}\n{side}²", ha="center", va="top", fontsize=7)
    axes.set(xlim=(min(middles) - 0.7, max(middles) + 0.7), ylim=(-25, 23))
    axes.set_axis_off()


@entry("image-networks", "CIL Fig. 5.7, 5.12, 5.13")
def image_networks() -> Any:
    """Networks that make images: a DCGAN doubles its grid, a U-Net halves and doubles it, a cascade begins small.

    Boxes are what layers give for images of 28 × 28, as high as their side and as wide as they have channels (first number).
    Left: the generator of a DCGAN. Middle: a U-Net, whose halves are joined at each size (grey). Right: multiplications
    that a step of the U-Net takes for an image of 8, 16 and 32 pixels a side, the stages of a cascade.
    """
    import torch
    from torch import nn

    from lemmata.generate.diffusion.network import DiffusionNet, count_products
    from lemmata.generate.gan.players import DCGenerator
    from lemmata.nets.images.unet import UNet

    generator = DCGenerator(64, (1, 28, 28))
    layers = [one for one in generator if isinstance(one, (nn.Unflatten, nn.ConvTranspose2d))]
    grown = _record_shapes(generator, layers, torch.zeros(1, 64))
    net = UNet((1, 28, 28), width=32)
    blocks = [net.down1, net.down2, net.middle1, net.middle2, net.up2, net.up1]
    shapes = _record_shapes(net, blocks, torch.zeros(1, 1, 28, 28), torch.ones(1))
    drawing, (left, middle, right) = figure(columns=3, size=(3.5, 2.9))
    _draw_maps(left, grown, [float(at) for at in range(len(grown))], BLUE)
    left.set_title("DCGAN's generator")
    places = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    _draw_maps(middle, shapes, places, ORANGE)
    for a, b in ((0, 5), (1, 4)):
        above = shapes[a][1] / 2 + 2
        middle.plot([a, a, b, b], [above - 1, above, above, above - 1], color=GREY, linewidth=1)
    middle.set_title("U-Net")
    sides = (8, 16, 32)
    nets = [DiffusionNet(UNet((1, side, side), width=32), (1, side, side), 10) for side in sides]
    work = [count_products(one) / 1e6 for one in nets]
    right.bar([f"{side}²" for side in sides], work, color=BLUE)
    for at, value in enumerate(work):
        right.text(at, value, f"{value:.0f}", ha="center", va="bottom", fontsize=8)
    right.set(title="a step of a cascade's stages", ylabel="million multiplications")
    halves = [small[1] == (large[1] + 1) // 2 for small, large in pairwise(grown)]
    show(all(halves), "each layer of the generator doubles the grid")
    show([one[1] for one in shapes] == [28, 14, 7, 7, 14, 28], "the U-Net goes down and up again")
    show(work[2] > 10 * work[0], "a step at 8 pixels costs less than a tenth of one at 32")
    return drawing


# --- what they make ---------------------------------------------------------------------------------------------------


def _digits(seed: int) -> tuple[Array, Array]:
    """Images (1797, 1, 8, 8) between 0 and 1 and their classes, shuffled."""
    digits, order = load_digits(), np.random.default_rng(seed).permutation(1797)
    return (digits.images / 16).astype(np.float32)[order, None], digits.target[order]


@entry("models-at-equal-time", "CIL Fig. 5.8, 5.9; 5.4, 5.5")
def models_at_equal_time(seed: int = 0) -> Any:
    """Digits by five models that learned for the same time, on one core: which of them know what they were asked for?

    Two draws of each class by models that learned 1,200 digits for some eight seconds of one core each. Right: the share that a
    classifier of digits recognises. Far: the Fréchet distance of pixels to 300 new digits, in units of that of 300 digits
    to them.
    """
    from sklearn.svm import SVC

    from lemmata.generate.diffusion.estimator import Diffusion
    from lemmata.generate.flows.estimator import NormalizingFlow
    from lemmata.generate.gan.estimator import GAN
    from lemmata.generate.judging import compare_frechet
    from lemmata.generate.pixels.estimator import PixelCNN
    from lemmata.generate.vae.estimator import VAE

    X, y = _digits(seed)
    train, new, asked = X[:1200], X[1200:1500], y[1200:1500]
    common: dict[str, Any] = {"batch_size": 32, "test_fraction": 0.0, "random_state": seed}
    models: dict[str, Any] = {
        "DCGAN": GAN(max_iter=30, **common), "VAE": VAE(8, max_iter=90, **common),
        "flow": NormalizingFlow(max_iter=5, **common), "PixelCNN": PixelCNN(channels=16, n_blocks=2, max_iter=17, **common),
        "diffusion": Diffusion(width=16, max_iter=10, **common),
    }  # fmt: skip
    rows = {name: model.fit(train, y[:1200]).sample(len(asked), asked) for name, model in models.items()}  # fmt: skip
    rows["diffusion, guided"] = models["diffusion"].sample(len(asked), asked, guidance=1.0)
    rows["digits"] = new
    tell = SVC(C=10).fit(train.reshape(1200, -1), y[:1200])
    shown = np.concatenate([np.flatnonzero(asked == digit)[:2] for digit in range(10)])
    drawing, axes = figure(len(rows), 1, size=(7.0, 0.85))
    right = {}
    for ax, (name, images) in zip(axes, rows.items(), strict=True):
        right[name] = (tell.predict(images.reshape(len(asked), -1)) == asked).mean()
        far = compare_frechet(images, train, new).ratio
        image_grid(ax, images[shown, 0], 20)
        words = "" if name == "digits" else f", {far:.1f} times as far as digits"
        ax.set_title(f"{name}: {right[name]:.0%} right{words}", loc="left", fontsize=8)
    show(
        min(right.values()) > 0.3,
        "every model draws the class that it was asked for three times as often as chance",
    )
    show(right["diffusion, guided"] > right["diffusion"], "guidance makes classes clearer")
    return drawing


@entry("notes-algorithms", "ML Algorithms 1–3; CIL 5.4.4, 5.5.3")
def notes_algorithms(seed: int = 0) -> Any:
    """Three algorithms of the notes as they run, on digits: a game, a regression, and the way back from noise.

    Left, Algorithm 1: both losses of an alternating GAN; a discriminator that only guesses has the loss ln 2 (grey), of both
    halves. Middle, Algorithm 2: the error of a denoiser, epoch by epoch; a prediction of 0 has 1. Right, Algorithm 3: five
    draws of that denoiser on their way from noise to digits, by ML's step (2 − α)x + …
    """
    from lemmata.generate.diffusion.estimator import Diffusion
    from lemmata.generate.gan.estimator import GAN

    X, y = (part[:1200] for part in _digits(seed))
    common: dict[str, Any] = {"batch_size": 32, "test_fraction": 0.0, "random_state": seed}
    game = GAN(max_iter=15, **common).fit(X, y)
    model = Diffusion(width=16, max_iter=8, steps=200, **common).fit(X, y)
    walk = model.trajectory(5, [0, 1, 2, 3, 4], 200, "euler-maruyama", random_state=seed)[:, :, 0]
    drawing, (left, middle, right) = figure(columns=3, size=(3.4, 2.8))
    losses = game.trace_.extras
    for name, colour in (("generator", ORANGE), ("discriminator", BLUE)):
        left.plot(losses[name], color=colour, label=name)
    left.axhline(np.log(2), color=GREY)
    left.set(xlabel="epoch", title="Algorithm 1: loss of each player")
    left.legend()
    errors = model.trace_.objective
    middle.semilogy(errors, color=BLUE)
    middle.set(xlabel="epoch", title="Algorithm 2: ‖v̂ − v‖² by number")
    levels = (0, 80, 120, 140, 160, 180, 190, 200)
    steps = np.clip(walk[list(levels)], 0, 1).transpose(1, 0, 2, 3)  # digit by digit
    image_grid(right, steps.reshape(-1, 8, 8), len(levels))
    right.set_title("Algorithm 3: from noise to digits")
    moved = [float(np.square(walk[at] - walk[-1]).mean()) for at in levels]
    show(
        min(losses["discriminator"]) < 0.65, "the discriminator is better than guessing for a while"
    )
    show(abs(losses["discriminator"][-1] - np.log(2)) < 0.05, "and at the end hardly")
    show(errors[-1] < errors[0] / 2, "the error of the denoiser falls below half of what it was")
    show(bool((np.diff(moved) < 0).all()), "each level is nearer to the digit than the one before")
    return drawing
