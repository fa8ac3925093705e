"""Attention, drawn (ML "Transformers"): where it looks, what it needs, and that it can be a convolution.

Networks are trained in float64 on one thread, so that the pictures show the same numbers on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREY, ORANGE, figure

Array = np.ndarray
LETTERS, LENGTH = 8, 8  # of the words to reverse
FIRST = 3  # the first letter: PAD, START and END come before
SIZES = (50, 200, 800)  # digits to learn from
UPDATES = 150


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Small networks: waking threads costs more than the work, and sums are added in one order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# --- where a decoder looks --------------------------------------------------------------------------------------------


def random_words(n: int, seed: int) -> tuple[Any, Any]:
    """Words of eight letters, and the same ones backwards: tensors (n, 8)."""
    import torch

    words = np.random.default_rng(seed).integers(FIRST, FIRST + LETTERS, (n, LENGTH))
    return torch.as_tensor(words), torch.as_tensor(words[:, ::-1].copy())


@cache
def reversing_net(seed: int = 0) -> Any:
    """A decoder of one layer that has learned to write words backwards; its encoder has none, so a letter stands in its own
    token and nowhere else."""
    from lemmata.nets.attention.transformer import EncoderDecoder
    from lemmata.nets.training import Training, train

    net = partial(
        EncoderDecoder, FIRST + LETTERS, 32, depth=1, heads=1, hidden=64, max_length=LENGTH,
        encoder_depth=0,
    )  # fmt: skip
    training = Training(
        net, "module", learning_rate=0.01, schedule="one_cycle", epochs=1, batch_size=64,
        clip=1.0, precision="float64", layout="contiguous", device="cpu",
    )  # fmt: skip
    with one_torch_thread():
        solution = train(training, random_words(64 * UPDATES, seed), epochs=1, rng=seed)
    return solution.attributes["module_"]


@entry("attention-reversal", 'ML "Self-Attention", "Encoders & Decoders"')
def attention_reversal(seed: int = 0):
    """A decoder that writes words backwards looks along the anti-diagonal.

    A decoder of one layer has learned to write words of eight letters backwards; its encoder has no layer, so each letter
    stands in one token only. How much the token written at each place takes from each letter of the word it reads: the mean
    over 500 new words, and one of them.
    """
    import torch

    from lemmata.nets.attention.heads import attention_maps
    from lemmata.nets.attention.transformer import START

    net = reversing_net(seed)
    source, target = random_words(500, seed=1_000 + seed)
    written = torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], dim=1)
    maps = attention_maps(net, source, written)
    read = maps["decoder.blocks.0.cross"].mean(dim=1).numpy()
    own = maps["decoder.blocks.0.attention"].mean(dim=1).numpy()
    drawing, axes = figure(1, 2, size=(4.6, 4.2))
    places, word = [str(i) for i in range(1, LENGTH + 1)], _spell(source[0])
    for ax, P, title, reads, writes in (
        (axes[0], read.mean(axis=0), "500 words", places, places),
        (axes[1], read[0], f"the word {word}", list(word), list(reversed(word))),
    ):
        shades = ax.imshow(P, cmap="Blues", vmin=0, vmax=1)
        ax.set_xticks(range(LENGTH), reads)
        ax.set_yticks(range(LENGTH), writes)
        ax.set_xlabel("letter that is read")
        ax.set_title(title)
    axes[0].set_ylabel("letter that is written")
    drawing.colorbar(shades, ax=axes, label="attention weight", shrink=0.8)
    right = (net.greedy(source, LENGTH) == target).all(dim=1).numpy()
    mean = np.fliplr(read.mean(axis=0)).diagonal()
    show(right.all(), "all 500 new words are written backwards without a mistake")
    show(mean.min() > 0.9, "each token reads its letter, from the last to the first")
    show((np.triu(own, 1) == 0).all(), "no token looks at what is written after it")
    return drawing


def _spell(tokens: Any) -> str:
    return "".join(chr(ord("a") + int(token) - FIRST) for token in tokens)


# --- what it needs ----------------------------------------------------------------------------------------------------


def digit_scores(seed: int) -> dict[str, Array]:
    """Held-out accuracy of a ViT and a ConvNet, by the number of training digits."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from lemmata.nets.attention.vit import ViT
    from lemmata.nets.estimators.supervised import NeuralClassifier
    from lemmata.nets.images.convnets import ConvNet

    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        X.reshape(-1, 1, 8, 8) / 16, y, test_size=897, random_state=seed, stratify=y
    )
    nets: dict[str, tuple[Any, float, dict[str, Any]]] = {
        "ConvNet": (ConvNet, 0.01, {"net__widths": (24, 48)}),
        "ViT": (ViT, 0.005, {"net__patch_size": 2, "net__width": 32, "net__depth": 2}),
    }
    scores = {}
    for name, (net, rate, sizes) in nets.items():
        row = []
        for n in SIZES:
            batch = min(50, n)
            model = NeuralClassifier(
                net, learning_rate=rate, weight_decay=0.01, schedule="one_cycle", batch_size=batch,
                max_iter=max(1, UPDATES * batch // n), precision="float64", random_state=seed, **sizes,
            )  # fmt: skip
            with one_torch_thread():
                row.append(float(model.fit(X[:n], y[:n]).score(X_test, y_test)))
        scores[name] = np.array(row)
    return scores


@entry("vit-convnet", 'ML "Vision Transformer Architecture"')
def vit_convnet(seed: int = 0):
    """A ViT needs more digits than a convolutional net to be as good.

    Accuracy on 897 held-out digits (8 × 8) of a convolutional network and of a vision transformer with
    2 × 2 patches, each trained with 150 updates on 50, 200 or 800 digits. That neighbouring pixels belong
    together is built into the first; the second has to learn it. Bars are 95 % intervals of each accuracy.
    """
    scores, errors = digit_scores(seed), {}
    drawing, ax = figure(size=(5.2, 3.6))
    for (name, row), colour, marker in zip(scores.items(), (BLUE, ORANGE), "os", strict=True):
        errors[name] = 1.96 * np.sqrt(row * (1 - row) / 897)
        ax.errorbar(SIZES, row, errors[name], color=colour, marker=marker, capsize=3, label=name)
    ax.set(xscale="log", xticks=SIZES, xlabel="digits learnt from", ylabel="held-out accuracy")
    ax.set_xticks([], minor=True)
    ax.set_xticklabels([str(n) for n in SIZES])
    ax.axhline(1, color=GREY, lw=0.6)
    ax.legend(fontsize=10, loc="lower right")
    gap = scores["ConvNet"] - scores["ViT"]
    show(gap[0] > 0.05, "with 50 digits the ConvNet is ahead by more than 5 points")
    show(gap[-1] < gap[0] / 2, "with 800 digits less than half of its lead is left")
    show((np.diff(scores["ViT"]) > 0).all(), "the ViT gains from every digit more")
    return drawing


# --- attention as a convolution ---------------------------------------------------------------------------------------


@entry("attention-convolution", 'ML "Vision Transformer Architecture"')
def attention_convolution():
    """Nine heads that look at the nine neighbours are a 3 × 3 convolution.

    A filter for edges, written as the weights of an attention layer with nine heads: head Δ looks at the pixel
    p + Δ. Left to right: a digit; what the layer makes of it at sharpness α = 1 and 40; and its largest error against the
    convolution, by the sharpness of the softmax, below the bound 2ε max|x| Σ|K| with ε ≈ 4e^(−α) until rounding takes over.
    """
    import torch
    from sklearn.datasets import load_digits

    from lemmata.nets.attention.as_convolution import AttentionConvolution

    conv = torch.nn.Conv2d(1, 1, 3, padding=1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        conv.weight.copy_(torch.tensor([[[[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]]]))  # Sobel
    x = torch.as_tensor(load_digits().images[0][None, None] / 16)
    sharpness = np.linspace(1, 40, 40)
    layers = [AttentionConvolution(conv, alpha) for alpha in sharpness]
    with torch.no_grad(), one_torch_thread():
        drawn = [layer(x) for layer in layers]
        exact = conv(x)
    errors = np.array([float((y - exact).abs().max()) for y in drawn])
    bounds = np.array([layer.error_bound(x) for layer in layers])
    rounding = 1e-14  # sums of nine products of numbers up to 2
    drawing, axes = figure(1, 4, size=(2.9, 3.0), width_ratios=(1, 1, 1, 1.7))
    pictures = ((x, "a digit"), (drawn[0], "attention, α = 1"), (drawn[-1], "attention, α = 40"))
    for ax, (image, title) in zip(axes, pictures, strict=False):
        limit = float(image.abs().max())
        ax.imshow(image[0, 0].numpy(), cmap="RdBu_r", vmin=-limit, vmax=limit)
        ax.set_axis_off()
        ax.set_title(title)
    floor = np.maximum(errors, rounding)
    axes[3].semilogy(sharpness, floor, color=BLUE, marker="o", ms=3, label="largest error")
    axes[3].semilogy(sharpness, bounds, color=ORANGE, ls="--", label="bound 2ε max|x| Σ|K|")
    axes[3].axhline(rounding, color=GREY, lw=0.8, ls=":", label="rounding")
    axes[3].set(xlabel="sharpness α", ylabel="|attention − convolution|", ylim=(1e-16, 30))
    axes[3].legend(loc="upper right")
    show((errors <= bounds + rounding).all(), "the error stays below the bound")
    show(errors[-1] <= rounding, "at α = 40 nothing but rounding is left")
    show(errors[0] > 0.5, "at α = 1 the heads are blurred and the edges with them")
    return drawing
