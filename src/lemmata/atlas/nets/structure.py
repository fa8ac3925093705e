"""How networks for images and sequences are built, drawn from the modules (CIL 4.4, ML Convolutional Networks ff.)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lemmata.atlas import entry, show
from lemmata.atlas.nets.attention import one_torch_thread
from lemmata.core.certification.pictures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    figure,
    image_grid,
)

Array = np.ndarray


@entry("small-gaussian", "CIL Example 4.1, (4.46)–(4.48), Thm 4.4.1", times=(1, 10))
def small_gaussian(times: int = 4, seed: int = 0):
    """1 4 6 4 1: a Gaussian kernel of five numbers, and what it does to a signal.

    Left: the kernel and the normal density of its variance, 1. Middle: a noisy step before and after. Right: the kernel
    convolved with itself, again and again, beside the normal density of as many times the variance. The parameter says how
    often.
    """
    from lemmata.nets.images.convolution import convolve, correlate

    h = np.array([1, 4, 6, 4, 1]) / 16
    t = np.arange(-2, 3)
    normal = lambda x, v: np.exp(-(x**2) / (2 * v)) / np.sqrt(2 * np.pi * v)  # noqa: E731
    rng = np.random.default_rng(seed)
    f = np.repeat([0.0, 1.0], 30) + 0.15 * rng.standard_normal(60)
    smooth = convolve(f, h)
    drawing, axes = figure(1, 3, size=(3.5, 3.2))
    x = np.linspace(-4, 4, 200)
    axes[0].bar(t, h, color=SKY, label="h[t]")
    axes[0].plot(x, normal(x, 1.0), color=ORANGE, label="normal density, variance 1")
    axes[1].plot(f, color=GREY, lw=1, label="f")
    axes[1].plot(smooth[2:-2], color=BLUE, lw=2, label="f * h")
    k = h
    for _ in range(times):
        k = convolve(k, h)
    at = np.arange(len(k)) - len(k) // 2
    axes[2].bar(at, k, color=SKY, label=f"h convolved {times} times")
    axes[2].plot(
        np.linspace(at[0], at[-1], 200),
        normal(np.linspace(at[0], at[-1], 200), times + 1),
        color=ORANGE,
        label=f"variance {times + 1}",
    )
    for ax, title in zip(axes, ("the kernel", "a step with noise", "again and again"), strict=True):
        ax.set(xlabel="t", title=title)
        ax.legend(fontsize=7)
    axes[0].set_ylim(0, 0.6)
    axes[2].set_ylim(0, 1.5 * k.max())
    u = 20
    by_hand = (6 * f[u] + 4 * f[u - 1] + 4 * f[u + 1] + f[u - 2] + f[u + 2]) / 16
    show(abs(smooth[u + 2] - by_hand) < 1e-12, "each value is (6f[u] + 4f[u±1] + f[u±2])/16")
    show(
        abs(h.sum() - 1) < 1e-12 and abs(h @ t**2 - 1) < 1e-12,
        "its weights add up to 1, its variance is 1",
    )
    show(
        np.allclose(correlate(h, f), convolve(f, h[::-1])[4:-4]),
        "a cross-correlation is a convolution with the flipped kernel",
    )
    show(
        np.diff(smooth[2:-2][5:25]).std() < 0.5 * np.diff(f[5:25]).std(),
        "the noise is less than half",
    )
    show(np.abs(k - normal(at, times + 1)).max() < 0.03, "convolved with itself it becomes normal")
    return drawing


@entry(
    "convolution-layer",
    "CIL Fig. 4.4, 4.5, (4.49); ML Convolutional Layer, Filter for Multi-Channel Convolution",
    channel=(0, 2),
)
def convolution_layer(channel: int = 0, seed: int = 0):
    """One filter over a colour image is three small filters, one per channel, and a sum.

    Above: an image of three channels, its filter for each, what each gives, and their sum: z. A layer of k such filters has
    k maps. Below: shifting the image shifts the map; and numbers of weights: a 3 × 3 convolution against a full layer. The
    parameter is the channel whose filter finds edges; the others blur.
    """
    from lemmata.nets.images.convolution import layer

    rng = np.random.default_rng(seed)
    size = 24
    image = np.zeros((3, size, size))
    for c, (top, left) in enumerate(((4, 4), (8, 8), (6, 12))):
        image[c, top : top + 10, left : left + 8] = 1
    image += 0.05 * rng.standard_normal(image.shape)
    edges, blur = np.array([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 4, np.full((3, 3), 1 / 9)
    theta = np.stack([edges if c == channel else blur for c in range(3)])[None]
    parts = [layer(image[[c]], theta[:, [c]])[0] for c in range(3)]
    z = layer(image, theta)[0]
    drawing, axes = figure(2, 5, size=(2.1, 2.2))
    for c, name in enumerate(("red", "green", "blue")):
        axes[0, c].imshow(image[c], cmap="gray", vmin=0, vmax=1)
        axes[0, c].set_title(name)
        axes[1, c].imshow(parts[c], cmap="RdBu_r", vmin=-1, vmax=1)
        axes[1, c].set_title("edges" if c == channel else "blur")
        axes[1, c].text(size - 2, size / 2 - 1, "+" if c < 2 else "=", fontsize=14, va="center")
    axes[1, 3].imshow(z, cmap="RdBu_r", vmin=-2, vmax=2)
    axes[1, 3].set_title("their sum z")
    axes[0, 3].imshow(np.clip(image.transpose(1, 2, 0), 0, 1))
    axes[0, 3].set_title("all three")
    moved = layer(np.roll(image, (3, 2), axis=(1, 2)), theta)[0]
    axes[1, 4].imshow(moved, cmap="RdBu_r", vmin=-2, vmax=2)
    axes[1, 4].set_title("z of it moved")
    for ax in axes.flat[[0, 1, 2, 3, 5, 6, 7, 8, 9]]:
        ax.set_axis_off()
    weights = {"3 × 3\n3 → 8": 3 * 8 * 9, "full\n3 → 8": 3 * 8 * size**2 * (size - 2) ** 2}
    axes[0, 4].bar(weights.keys(), weights.values(), color=[BLUE, ORANGE])
    axes[0, 4].set_yscale("log")
    axes[0, 4].set_title("weights")
    show(np.allclose(sum(parts), z), "the map is the sum of what the channels give")
    show(np.allclose(moved[3:, 2:], z[:-3, :-2]), "an image that is moved has its map moved")
    u, v = 7, 9
    show(
        np.isclose(z[u, v], np.sum(theta[0] * image[:, u : u + 3, v : v + 3])),
        "each value is a product with one window",
    )
    return drawing


@entry(
    "cnn-pyramid", "CIL Fig. 4.6; ML CNN General Structure, Convolutional Networks", size=(128, 256)
)
def cnn_pyramid(size: int = 224):
    """Down the layers images shrink and channels grow; the weights stand where the pyramid ends.

    AlexNet, layer by layer, from the module itself: the numbers that each layer puts out, its channels, and its weights. Most
    of 61 million weights lie between the last map and the first full layer. The parameter is the size of the image.
    """
    import torch
    from torch import nn

    from lemmata.nets.images.convnets import AlexNet

    size -= size % 32
    with torch.device("meta"):
        net = AlexNet((3, size, size), 1000, width=64, hidden=4096)
        x, rows = torch.empty(1, 3, size, size), [("image", 3 * size * size, (3, size), 0)]
        layers = [m for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear | nn.MaxPool2d)]
        named = {nn.Conv2d: "conv", nn.Linear: "full", nn.MaxPool2d: "pool"}
        hooks = [
            layer.register_forward_hook(
                lambda layer, _, out: rows.append(
                    (named[type(layer)], out.numel(), (out.shape[1], out.shape[-1] if out.dim() == 4 else 1),
                     sum(p.numel() for p in layer.parameters()))
                )
            )
            for layer in layers
        ]  # fmt: skip
        net.eval()(x)
        for hook in hooks:
            hook.remove()
    drawing, (left, right) = figure(1, 2, size=(4.9, 3.6))
    colours = {"image": GREEN, "conv": BLUE, "pool": SKY, "full": ORANGE}
    place = np.arange(len(rows))
    left.bar(place, [row[1] for row in rows], color=[colours[row[0]] for row in rows])
    left.set_yscale("log")
    left.set_xticks(
        place,
        [
            f"{name}\n{channels}×{side}²" if side > 1 else f"{name}\n{channels}"
            for name, _, (channels, side), _ in rows
        ],
        fontsize=6,
        rotation=45,
    )
    left.set(ylabel="numbers put out", title=f"an image of {size} × {size}")
    weights = np.array([row[3] for row in rows])
    right.bar(place, weights / 1e6, color=[colours[row[0]] for row in rows])
    right.set_xticks(place, [row[0] for row in rows], fontsize=7, rotation=45)
    right.set(ylabel="millions of weights", title=f"{weights.sum() / 1e6:.1f} million weights")
    maps = [row for row in rows if row[0] == "conv"]
    sides, channels = [row[2][1] for row in maps], [row[2][0] for row in maps]
    full = next(i for i, row in enumerate(rows) if row[0] == "full")
    show((np.diff(sides) <= 0).all() and sides[-1] < sides[0] / 3, "resolution falls with depth")
    show(
        max(channels) == channels[2] == 6 * 64 and channels[0] == 64, "channels grow from 64 to 384"
    )
    show(
        weights[full] == weights.max() and weights[full:].sum() > 0.8 * weights.sum(),
        "over 80 % of the weights are in the full layers",
    )
    if size == 224:
        show(weights.sum() == 61_100_840, "the weights are the 61,100,840 of torchvision")
    return drawing


@entry("transformer-block", "ML Architecture, Multi-Head Self-Attention", tokens=(4, 24))
def transformer_block(tokens: int = 10, seed: int = 0):
    """Attention mixes tokens, the MLP works on each by itself, and both only add to what is there.

    A block with random weights. Left: how much each output token changes with each input token after the attention, and
    after the MLP's branch alone: all see all, none sees another. Middle: the same when the tokens are shuffled: without
    positions the outputs are shuffled, too. Right: multiplications by the number of tokens T, of width 64. The parameter is T
    on the left.
    """
    import torch

    from lemmata.nets.attention.transformer import TransformerBlock

    torch.manual_seed(seed)
    block = TransformerBlock(16, 2).double()
    x = torch.randn(1, tokens, 16, dtype=torch.float64)

    def influence(f) -> Array:
        """‖∂ output token / ∂ input token‖."""
        J = torch.autograd.functional.jacobian(f, x)[0, :, :, 0]
        return J.pow(2).sum(dim=(1, 3)).sqrt().numpy()

    with one_torch_thread():
        mixes = influence(lambda v: block.attention(block.norm_attention(v)))
        alone = influence(lambda v: block.mlp(block.norm_mlp(v)))
        order = torch.as_tensor(np.random.default_rng(seed).permutation(tokens))
        with torch.no_grad():
            shuffled, straight = block(x[:, order]), block(x)[:, order]
    drawing, axes = figure(1, 4, size=(2.8, 3.2), width_ratios=(1, 1, 1, 1.3))
    for ax, M, title in ((axes[0], mixes, "attention"), (axes[1], alone, "MLP")):
        ax.imshow(M, cmap="Blues")
        ax.set(xlabel="token that is changed", ylabel="token that feels it", title=title)
    axes[2].plot(straight.flatten(), shuffled.flatten(), color=BLUE, marker=".", ls="", ms=3)
    axes[2].set(
        xlabel="outputs, shuffled",
        ylabel="outputs of shuffled tokens",
        title="order does not matter",
    )
    T, d = np.geomspace(8, 4096, 20), 64
    axes[3].loglog(T, 4 * T * d**2, color=GREY, label="4Td²: projections")
    axes[3].loglog(T, 2 * T**2 * d, color=ORANGE, label="2T²d: scores, means")
    axes[3].loglog(T, 8 * T * d**2, color=BLUE, ls="--", label="8Td²: MLP")
    axes[3].set(xlabel="tokens T", ylabel="multiplications, d = 64")
    axes[3].legend(fontsize=7)
    off = ~np.eye(tokens, dtype=bool)
    show((mixes[off] > 1e-9).all(), "by attention every token feels every other")
    show((alone[off] == 0).all(), "in the MLP none feels another")
    show(torch.allclose(shuffled, straight, atol=1e-12), "shuffled tokens give shuffled outputs")
    show(abs(2 * 256**2 * d - 8 * 256 * d**2) < 1e-6, "scores cost as much as the MLP at T = 4d")
    return drawing


@entry("positions", "ML Positional Information", longest=(100, 10000))
def positions(longest: int = 10000):
    """Sines of many lengths tell places apart, and their product knows how far apart two places are.

    Left: p(t) of 64 places and 32 numbers: fast waves first, slow ones last. Middle: the product of two places depends on
    their distance alone. Right: that product by distance; the parameter is the longest wave.
    """
    import torch

    from lemmata.nets.attention.positions import sinusoidal

    P = sinusoidal(torch.arange(64, dtype=torch.float64), 32, float(longest)).numpy()
    G = P @ P.T
    drawing, axes = figure(1, 3, size=(3.4, 3.3))
    axes[0].imshow(P, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    axes[0].set(xlabel="number", ylabel="place t", title="p(t)")
    picture = axes[1].imshow(G / 16, cmap="Blues", vmin=-0.2, vmax=1)
    axes[1].set(xlabel="place", ylabel="place", title="p(s)ᵀp(t) / 16")
    drawing.colorbar(picture, ax=axes[1], shrink=0.8)
    axes[2].plot(G[0] / 16, color=BLUE, label="from place 0")
    axes[2].plot(G[20, 20:] / 16, color=ORANGE, ls="--", label="from place 20")
    axes[2].set(xlabel="distance", ylabel="product / 16", title="by distance")
    axes[2].legend()
    show(
        max(np.ptp(np.diag(G, k)) for k in range(64)) < 1e-5,
        "the product of two places is a function of their distance",
    )
    show((G[0, 1:] < G[0, 0] - 0.2).all(), "no other place looks like the first")
    return drawing


@entry("attention-masks", "ML Encoders & Decoders", tokens=(5, 12))
def attention_masks(tokens: int = 8, seed: int = 0):
    """A mask says who may look at whom: all at all, at earlier ones, never at padding.

    For an encoder, an encoder with two tokens of padding, a decoder, and the reading of a decoder from a memory: weights of a
    random layer (above; rows look at columns) and which outputs change when an input changes (below). The parameter is the
    number of tokens.
    """
    import torch

    from lemmata.nets.attention.heads import MultiHeadAttention

    torch.manual_seed(seed)
    layer = MultiHeadAttention(16, 2).double()
    x, memory = (torch.randn(1, n, 16, dtype=torch.float64) for n in (tokens, tokens - 2))
    padding = torch.ones(1, tokens, dtype=torch.bool)  # True at real tokens
    padding[0, -2:] = False
    kinds: dict[str, tuple[dict[str, Any], Any]] = {
        "encoder": ({}, x),
        "with padding": ({"padding": padding}, x),
        "decoder": ({"causal": True}, x),
        "reads a memory": ({"context": memory}, memory),
    }
    drawing, axes = figure(2, 4, size=(2.6, 2.6))
    for column, (name, (options, source)) in enumerate(kinds.items()):
        with one_torch_thread():
            weights = layer.weights(x, **options).mean(dim=1)[0].detach().numpy()
            reads = name == "reads a memory"
            f = partial(layer, x) if reads else partial(layer, **options)
            J = torch.autograd.functional.jacobian(f, source)[0, :, :, 0]
        felt = J.pow(2).sum(dim=(1, 3)).sqrt().numpy() > 0
        axes[0, column].imshow(weights, cmap="Blues", vmin=0)
        axes[0, column].set_title(name)
        axes[1, column].imshow(felt, cmap="Greys", vmin=0, vmax=1.5)
        axes[1, column].set(xlabel="input")
        show(np.allclose(weights.sum(axis=1), 1), f"{name}: the weights of each token add up to 1")
        if name == "decoder":
            show(
                (felt == np.tri(tokens, dtype=bool)).all(),
                "a decoder's token feels itself and earlier ones",
            )
        elif name == "with padding":
            others = felt[:, -2:] & ~np.eye(tokens, dtype=bool)[:, -2:]
            show((weights[:, -2:] == 0).all() and not others[:-2].any(), "nobody looks at padding")
        else:
            show(felt.all(), f"{name}: every token feels all that it reads")
    axes[0, 0].set_ylabel("token that looks")
    axes[1, 0].set_ylabel("output that changes")
    return drawing


@entry("vit-looks", "ML Vision Transformer Architecture")
def vit_looks(seed: int = 0):
    """A trained vision transformer looks at the ink.

    A ViT with 16 patches per image, trained on 800 digits. For eight new ones: the image, and how much all its patches look
    at each patch, in both layers. Right: the mean over 400 new digits of the weight on a patch, by its ink, against an even
    share (dashed).
    """
    import torch
    from sklearn.datasets import load_digits

    from lemmata.nets.attention.heads import attention_maps
    from lemmata.nets.attention.vit import ViT
    from lemmata.nets.estimators.supervised import NeuralClassifier

    X, y = load_digits(return_X_y=True)
    X = X.reshape(-1, 1, 8, 8) / 16
    model = NeuralClassifier(
        ViT, learning_rate=0.005, weight_decay=0.01, schedule="one_cycle", batch_size=50, max_iter=10,
        precision="float64", random_state=seed, net__patch_size=2, net__width=32, net__depth=2,
    )  # fmt: skip
    with one_torch_thread():
        model.fit(X[:800], y[:800])
        new = torch.as_tensor(X[800:1200])
        maps = [m.mean(dim=1).numpy() for m in attention_maps(model.module_.eval(), new).values()]
    accuracy = model.score(X[800:1200], y[800:1200])
    ink = X[800:1200, 0].reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    drawing, axes = figure(1, 2, size=(4.6, 4.0), width_ratios=(1.3, 1))
    rows = []
    for i in range(8):
        looked = [np.kron(m[i].mean(axis=0).reshape(4, 4) * 8, np.ones((2, 2))) for m in maps]
        rows += [X[800 + i, 0], *(np.clip(a, 0, 1) for a in looked)]
    image_grid(axes[0], np.array(rows), columns=6, gap=1, names=["image", "layer 1", "layer 2"] * 2)
    axes[0].set_title(f"accuracy {100 * accuracy:.0f} % on new digits", pad=14)
    bins = np.array([0, 0.05, 0.2, 0.4, 0.6, 1.01])
    place, where = np.arange(5), np.digitize(ink, bins) - 1
    means = []
    for m, colour, name in zip(maps, (ORANGE, BLUE), ("layer 1", "layer 2"), strict=True):
        received = m.mean(axis=1)
        means.append([received[where == b].mean() for b in place])
        axes[1].plot(place, means[-1], color=colour, marker="o", label=name)
    axes[1].axhline(1 / 16, color="black", ls="--", lw=0.8)
    axes[1].set_xticks(place, ["none", "< 0.2", "< 0.4", "< 0.6", "more"])
    axes[1].set(xlabel="ink of the patch", ylabel="mean attention to it", ylim=(0, None))
    axes[1].legend()
    show(accuracy > 0.85, "it reads more than 85 % of new digits")
    seen = min(means[0][1:]) > 1.5 * means[0][0]
    show(seen, "in the first layer a patch with ink is looked at more than an empty one, by half")
    return drawing
