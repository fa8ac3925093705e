"""Networks that look at images, drawn on scikit-learn's digits (CIL 4.4; ML "Convolutional Networks", "Residual Networks").

Everything is trained in float64 by the loop of every fit, so that a figure comes out the same wherever it is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from lemmata.atlas import entry, show
from lemmata.core.certification import pictures

Array = np.ndarray


def _digits(seed: int, *sizes: int) -> list[tuple[Array, Array]]:
    """So many digits each, and the rest, as images (n, 1, 8, 8) from 0 to 1 with their labels."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    parts = np.split(order, np.cumsum(sizes))
    return [((X[rows] / 16).reshape(-1, 1, 8, 8), y[rows]) for rows in parts]


def _train(
    net: Callable[[], Any], data: tuple[Array, Array], epochs: int, seed: int, **options: Any
) -> tuple[Any, Array]:
    """A trained network, and its mean loss over every epoch."""
    from lemmata.nets.training import Training, train

    options = {"learning_rate": 0.01, "schedule": "one_cycle", "batch_size": 50, **options}
    training = Training(
        net, "cross_entropy", epochs=epochs, precision="float64", layout="contiguous", device="cpu", **options
    )  # fmt: skip
    solution = train(training, data, rng=seed)
    return training.module(solution.state), np.asarray(solution.trace.objective[1:])


def _features(module: Any, X: Array) -> Array:
    """Return the output of a module for images, a row each."""
    import torch

    with torch.no_grad():
        return module(torch.from_numpy(X)).flatten(1).numpy()


def _accuracy(module: Any, data: tuple[Array, Array]) -> float:
    return float((_features(module, data[0]).argmax(axis=1) == data[1]).mean())


# --- what layers see --------------------------------------------------------------------------------------------------


def _smoothness(filters: Array) -> float:
    """Agreement of neighbours in a filter: Σ ab/Σ (a² + b²)/2 over pairs of neighbours, 0 for noise, 1 for constants."""
    pairs = [(filters[:, 1:], filters[:, :-1]), (filters[:, :, 1:], filters[:, :, :-1])]
    agree = sum((a * b).sum() for a, b in pairs)
    return float(agree / sum((a**2 + b**2).sum() / 2 for a, b in pairs))


@entry("learned-filters", "CIL 4.4.2; ML Learned Convolutional Filters")
def learned_filters(seed: int = 0):
    """Trained filters are smoother than the noise they began as.

    The 16 filters of 5 × 5 pixels in the first layer of a ConvNet, before and after training on 1,400 digits; red weights
    answer to ink, blue ones to its absence. Right, what the first five trained filters make of a digit. Smoothness is the
    correlation of neighbouring weights, 0 for noise.
    """
    from lemmata.nets.images.convnets import ConvNet
    from lemmata.nets.images.convolution import correlate

    train, test = _digits(seed, 1400)

    def net() -> Any:
        return ConvNet((1, 8, 8), 10, widths=(16, 32), stem_kernel=5)

    (before, _), (after, _) = (
        _train(net, train, epochs, seed, weight_decay=3.0, learning_rate=rate)
        for epochs, rate in ((1, 1e-12), (8, 0.02))
    )
    # (16, 5, 5) each
    kernels = [next(module.parameters()).detach().numpy()[:, 0] for module in (before, after)]
    smooth = [_smoothness(filters) for filters in kernels]
    right = _accuracy(after, test)
    drawing, axes = pictures.figure(1, 3, size=(3.3, 3.6), width_ratios=(1, 1, 0.9))
    for ax, filters, value, name in zip(axes, kernels, smooth, ("before", "after"), strict=False):
        pictures.image_grid(ax, filters, columns=4, signed=True)
        ax.set_title(f"{name} training: smoothness {value:.2f}")
    digit = test[0][0, 0]
    answers = [correlate(h, digit, padding=2) for h in kernels[1][:5]]
    shown = np.stack([digit / digit.max(), *(z / np.abs(z).max() for z in answers)])
    pictures.image_grid(
        axes[2],
        shown,
        columns=2,
        signed=True,
        gap=2,
        names=["a digit", *(f"filter {i}" for i in range(1, 6))],
    )
    axes[2].set_title("what filters make of it", pad=14)
    seen = abs(smooth[0]) < 0.15 < smooth[1] - smooth[0]
    show(seen, "trained filters are smooth, new ones are noise")
    show(right > 0.95, "the network that has them reads over 95 % of new digits")
    return drawing


@entry("receptive-fields", "CIL 4.4.2; ML Convolutional Networks")
def receptive_fields(seed: int = 0):
    """An output sees what the formula says, and mostly the middle of it.

    The dependence of an output of a new network on each pixel, the mean size of gradients over channels, inputs and weights,
    after 2, 4 and 6 convolutions of 3 × 3 with max-pooling after every second. The frame is the formula r = 1 + Σ (k − 1) Π s;
    the dashed one holds half of the dependence.
    """
    import torch

    from lemmata.nets.images.convnets import ConvNet
    from lemmata.nets.images.receptive_fields import receptive_field

    nets: list[Any] = []
    n = 48
    torch.manual_seed(seed)
    for _ in range(6):
        nets.append(ConvNet((1, n, n), 2, widths=(6, 6, 6), convs=2, norm=False).double().features)
    drawing, axes = pictures.figure(1, 3, size=(3.2, 3.5))
    sizes, halves = [], []
    rng = np.random.default_rng(seed)
    for depth, ax in enumerate(axes, start=1):
        # the last pooling would only add to what is seen by the next stage
        stacks = [torch.nn.Sequential(*net[: depth - 1], *net[depth - 1][:2]) for net in nets]
        (field, _) = receptive_field(stacks[0])
        heat = np.sum([_dependence(stack, n, field, rng) for stack in stacks], axis=0)
        heat = heat / heat.sum()
        rows = np.flatnonzero(heat.any(axis=1))
        u = n // field.stride // 2
        first = u * field.stride + field.first
        sizes.append((rows[0], rows[-1]) == (first, first + field.size - 1))
        half = _half_width(heat, first, field.size)
        halves.append((half / field.size) ** 2)
        ax.imshow(heat, cmap="Blues")
        for side, style in ((field.size, "-"), (half, "--")):
            corner = first + (field.size - side) / 2 - 0.5
            ax.plot(
                corner + np.array([0, side, side, 0, 0]), corner + np.array([0, 0, side, side, 0]),
                color=pictures.RED if style == "-" else pictures.ORANGE, ls=style, lw=1.5,
            )  # fmt: skip
        title = f"{2 * depth} convolutions: {field.size} × {field.size}, half in {half} × {half}"
        ax.set_title(title, fontsize=9)
        ax.set_axis_off()
    show(all(sizes), "the pixels with a gradient end where the formula says")
    seen = (np.diff(halves) < 0).all()
    show(seen, "the deeper, the smaller the part that holds half of the dependence")
    show(halves[-1] < 1 / 3, "less than a third of the deepest field holds half of it")
    return drawing


def _dependence(stack: Any, n: int, field: Any, rng: np.random.Generator) -> Array:
    """Mean |∂z[u]/∂x| of the middle output, over inputs and channels."""
    import torch

    x = torch.from_numpy(rng.standard_normal((24, 1, n, n))).requires_grad_()
    z = stack(x)
    u = n // field.stride // 2
    heat = np.zeros((n, n))
    for channel in range(z.shape[1]):
        (slope,) = torch.autograd.grad(z[:, channel, u, u].sum(), x, retain_graph=True)
        heat += slope.abs().mean(dim=(0, 1)).numpy()
    return heat


def _half_width(heat: Array, first: int, size: int) -> int:
    """The side of the least square in the middle of a field that holds half of what is in it."""
    for side in range(size % 2, size + 1, 2):
        begin = first + (size - side) // 2
        if heat[begin : begin + side, begin : begin + side].sum() >= 0.5 * heat.sum():
            return side
    return size


@entry("linear-probes", "CIL 4.1, Fig. 4.1")
def linear_probes(seed: int = 0):
    """With depth, classes become linear.

    Accuracy of a linear classifier of 200 digits on 697 others, from the pixels and from the output of each layer of a
    ConvNet: one that was trained on 900 digits of its own, and one with new weights. Means of three networks; the bars reach
    from the worst to the best.
    """
    from sklearn.linear_model import RidgeClassifier
    from torch import nn

    from lemmata.nets.images.convnets import ConvNet

    names = ["pixels", "layer 1", "layer 2", "layer 3", "layer 4"]
    found = np.zeros((2, 3, len(names)))
    for draw in range(3):
        train, probe, test = _digits(seed + draw, 900, 200)

        def net() -> Any:
            return ConvNet((1, 8, 8), 10, widths=(16, 32), convs=2)

        for kind, (epochs, rate) in enumerate(((1, 1e-12), (6, 0.02))):
            module, _ = _train(net, train, epochs, seed + draw, learning_rate=rate)
            layers: list[Any] = [nn.Identity()]
            first, second = module.features
            layers += [
                first[:1],
                first,
                nn.Sequential(first, second[:1]),
                nn.Sequential(first, second),
            ]
            for depth, part in enumerate(layers):
                rows = [_features(part, X) for X in (probe[0], test[0])]
                spread = rows[0].std(axis=0).mean() + 1e-12
                probed = RidgeClassifier(alpha=10.0).fit(rows[0] / spread, probe[1])
                found[kind, draw, depth] = probed.score(rows[1] / spread, test[1])
    drawing, ax = pictures.figure(size=(5.4, 3.6))
    for values, colour, mark, name in zip(
        found, (pictures.GREY, pictures.BLUE), "so", ("new weights", "trained"), strict=True
    ):
        mean = values.mean(axis=0)
        ax.errorbar(
            range(len(names)), mean, np.stack([mean - values.min(axis=0), values.max(axis=0) - mean]),
            color=colour, marker=mark, capsize=3, label=f"{name}: {mean[-1]:.3f} at the last layer",
        )  # fmt: skip
    ax.set_xticks(range(len(names)), names)
    ax.set(ylabel="accuracy of a linear probe", xlabel="what it looks at")
    ax.legend(fontsize=10, loc="lower left")
    new, trained = found.mean(axis=1)
    show(trained[-1] > trained[0] + 0.03, "the last layer is read better than the pixels")
    show((np.diff(trained) > -0.01).all(), "no trained layer is read worse than the one before it")
    show(trained[-1] > new[-1] + 0.05, "it is training that does it, not depth alone")
    return drawing


# --- what makes them trainable ----------------------------------------------------------------------------------------


@entry("skip-connections", "CIL Fig. 4.7, 4.8; ML Residual Networks")
def skip_connections(seed: int = 0):
    """Plain nets get worse with depth, residual ones do not.

    The training loss of nets of 3, 11 and 31 convolutions, epoch by epoch on 500 digits, without skip connections and with
    them, everything else being equal. More layers could copy their input and lose nothing: plain ones do not find that.
    """
    from lemmata.nets.images.resnet import ResNet

    (train, _), blocks = _digits(seed, 500), (1, 5, 15)
    drawing, axes = pictures.figure(1, 2, size=(4.2, 3.6), sharey=True)
    last = np.zeros((2, len(blocks)))
    for skip, ax, title in zip(
        (False, True), axes, ("plain", "with skip connections"), strict=True
    ):
        for i, (depth, colour, mark) in enumerate(
            zip(blocks, (pictures.GREEN, pictures.ORANGE, pictures.RED), "^so", strict=True)
        ):

            def net(depth: int = depth, skip: bool = skip) -> Any:
                return ResNet((1, 8, 8), 10, widths=(8,), blocks=depth, stem="stride", skip=skip)

            _, losses = _train(net, train, 6, seed, learning_rate=0.03, batch_size=25)
            last[int(skip), i] = losses[-1]
            label = f"{2 * depth + 1} convolutions: {losses[-1]:.2f}"
            ax.semilogy(range(1, 7), losses, color=colour, marker=mark, label=label)
        ax.set_xlabel("epoch")
        ax.set_title(title, fontsize=12)
        ax.legend(fontsize=9, loc="lower left")
    axes[0].set_ylabel("training loss")
    plain, residual = last
    show((np.diff(plain) > 0).all(), "of plain nets, the deeper has the larger loss")
    seen = residual[-1] < 1.5 * residual[0]
    show(seen, "the deepest residual net does about as well as the shallowest")
    seen = residual[-1] < plain[-1] / 3
    show(seen, "of the deepest nets the residual one has less than a third of the loss")
    return drawing


@entry("batch-norm-rates", "ML Batch Normalization")
def batch_norm_rates(seed: int = 0):
    """Batch normalisation allows larger learning rates.

    The training loss of a ConvNet of six convolutions after six epochs on 500 digits, by a momentum method with a constant
    learning rate, without batch normalisation and with it. The dotted line is the loss of guessing; dots below half of it count
    as trained.
    """
    from lemmata.nets.images.convnets import ConvNet

    (train, _), rates = _digits(seed, 500), 10.0 ** np.arange(-2.5, 0.6, 0.5)
    drawing, ax = pictures.figure(size=(5.2, 3.6))
    largest, least, guess = {}, {}, np.log(10)
    for norm, colour, mark, name in (
        (False, pictures.ORANGE, "s", "without"),
        (True, pictures.BLUE, "o", "with"),
    ):

        def net(norm: bool = norm) -> Any:
            return ConvNet((1, 8, 8), 10, widths=(8, 16), convs=3, norm=norm)

        options = {"optimizer": "heavy_ball", "schedule": "constant", "batch_size": 25}
        losses = np.array(
            [_train(net, train, 6, seed, learning_rate=rate, **options)[1][-1] for rate in rates]
        )
        least[norm], largest[norm] = losses.min(), rates[losses < guess / 2].max(initial=0.0)
        ax.loglog(
            rates, losses, color=colour, marker=mark, label=f"{name} it, up to {largest[norm]:.2g}"
        )
    ax.axhline(guess, color="black", lw=1, ls=":")
    ax.text(rates[0], 1.05 * guess, "guessing", va="bottom", fontsize=9)
    ax.set(xlabel="learning rate", ylabel="training loss of the last epoch", ylim=(0.03, 4))
    ax.set_title("trained with and without batch normalisation")
    ax.legend(fontsize=10, loc="lower left")
    show(largest[True] >= 3 * largest[False] > 0, "with it, rates three times as large still train")
    seen = least[True] < least[False] / 2
    show(seen, "at the best rate of each, it has less than half of the loss")
    return drawing


@entry("small-data", "ML Data Augmentation, Weight Decay, Dropout")
def small_data(seed: int = 0):
    """With little data, augmentation helps more than dropout or weight decay.

    Errors on 1,000 other digits of a perceptron with 128 hidden units that was trained on 100 of them: with nothing, one of
    three remedies, and all three. Each dot is one draw of the training set; the bars are means. Weight decay: λ = 0.5.
    Dropout: half of the units. Augmentation: turns by up to 10°, and shifts by one pixel of half of the digits.
    All three together are too much for 60 epochs.
    """
    from lemmata.nets.augmentation import Compose, Rotate, Shift, Sometimes
    from lemmata.nets.estimators.networks import FeedForward

    change = Compose([Sometimes(Shift(1), 0.5), Rotate(10)])
    kinds: dict[str, dict[str, Any]] = {
        "nothing": {},
        "weight decay": {"weight_decay": 0.5},
        "dropout": {"dropout": 0.5},
        "augmentation": {"augment": change},
        "all three": {"weight_decay": 0.5, "dropout": 0.5, "augment": change},
    }
    errors = np.zeros((len(kinds), 5))
    for row, options in zip(errors, kinds.values(), strict=True):
        training = dict(options)
        drop = training.pop("dropout", 0.0)

        def net(drop: float = drop) -> Any:
            return FeedForward((1, 8, 8), 10, widths=(128,), dropout=drop)

        for draw in range(len(row)):
            train, test, _ = _digits(seed + draw, 100, 1000)
            module, _ = _train(net, train, 60, seed + draw, batch_size=20, **training)
            row[draw] = 100 * (1 - _accuracy(module, test))
    means = errors.mean(axis=1)
    drawing, ax = pictures.figure(size=(5.4, 3.6))
    colours = (pictures.GREY, pictures.ORANGE, pictures.PURPLE, pictures.BLUE, pictures.GREEN)
    ax.bar(range(len(kinds)), means, color=colours, alpha=0.5)
    for place, (row, colour) in enumerate(zip(errors, colours, strict=True)):
        ax.plot([place] * len(row), row, color=colour, marker="o", ls="")
        ax.text(place, 0.3, f"{means[place]:.1f}", ha="center", fontsize=10)
    ax.set_xticks(range(len(kinds)), list(kinds), fontsize=9)
    ax.set(ylabel="errors on new digits, %")
    show(means[3] < means[0] - 0.5, "augmentation saves errors")
    show(means[3] < means[1:3].min(), "it saves more than weight decay or dropout alone")
    return drawing
