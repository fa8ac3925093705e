"""Functions that networks can represent, augmented data, and what a non-linear autoencoder gains over PCA."""

from __future__ import annotations

import math

import numpy as np
from sklearn.datasets import load_digits, load_sample_image

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    figure,
    image_grid,
)
from lemmata.nets import approximation

Array = np.ndarray


def _wave(x: Array) -> Array:
    return np.sin(2 * x) + 0.3 * np.cos(7 * x)  # Lipschitz constant 2 + 2.1


@entry("rectangles-to-sigmoids", "ML L1 Approximation")
def rectangles_to_sigmoids():
    """Riemann's rectangles become a layer of sigmoids, and the error falls with their number.

    Left: a function, its 12 rectangles, and the net with 13 sigmoids that imitates them at two steepnesses. Right: the
    integral of the absolute error against the number of rectangles: of sigmoids so steep that they are steps, of soft ones
    (the steepness at which their bound equals that of the rectangles), and the bound that holds for every function with
    this Lipschitz constant.
    """
    x = np.linspace(0, 3, 6001)
    x = (x[:-1] + x[1:]) / 2
    drawing, (left, right) = figure(columns=2, size=(4.8, 3.4))
    edges = np.linspace(0, 3, 13)
    heights = _wave((edges[:-1] + edges[1:]) / 2)
    left.stairs(heights, edges, color=GREY, lw=0.8, label="12 rectangles")
    left.plot(x, _wave(x), color="black", label="f")
    for w, colour, style in ((12, ORANGE, "--"), (80, BLUE, "-")):
        net = approximation.rectangle_net(_wave, 0, 3, 12, lipschitz=4.1, steepness=w).net
        left.plot(x, net(x[:, None])[:, 0], style, color=colour, label=f"sigmoids, w = {w}")
    left.set(xlabel="x", ylabel="f(x)")
    left.legend()
    sizes = [8, 16, 32, 64, 128]
    made = [approximation.rectangle_net(_wave, 0, 3, k, lipschitz=4.1) for k in sizes]
    steep = [
        approximation.rectangle_net(_wave, 0, 3, k, lipschitz=4.1, steepness=40 * k) for k in sizes
    ]
    right.loglog(sizes, [one.bound for one in made], color=RED, marker="s", label="bound, soft")
    kinds = (("steep, w = 40 k", steep, GREY, "^"), ("soft, w ≈ 0.8 k", made, BLUE, "o"))
    rates = []
    for name, nets, colour, mark in kinds:
        errors = [3 * float(np.abs(one.net(x[:, None])[:, 0] - _wave(x)).mean()) for one in nets]
        rates.append(approximation.fitted_rate(sizes, errors))
        right.loglog(sizes, errors, color=colour, marker=mark, label=f"{name}: k^{rates[-1]:.2f}")
        kept = all(e <= one.bound for e, one in zip(errors, nets, strict=True))
        show(kept, f"the error keeps its bound, {name}")
    right.set(xlabel="number k of rectangles (k + 1 units)", ylabel="∫ |f − net|")
    right.legend()
    show(-1.1 < rates[0] < -0.9, "steep sigmoids err like rectangles: one over their number")
    show(rates[1] < -1.1, "soft ones, as wide as a rectangle, smooth the steps and do better")
    return drawing


@entry("cross-and-threshold", "ML L1 Approximation")
def cross_and_threshold():
    """Four sigmoids make a cross, a threshold makes it a tower, and towers make a function.

    From left to right: the sum of two strips of two sigmoids each is 2 on a square, 1 on the arms of a cross; a second layer
    of one sigmoid at 3/2 keeps the square alone; 12 × 12 such towers of the right heights; and the function that they imitate.
    """

    def f(X):
        return np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1])

    axis = (np.arange(160) + 0.5) / 80 - 1
    grid = np.stack(np.meshgrid(axis, axis, indexing="xy"), axis=-1).reshape(-1, 2)
    one = approximation.rectangle_net_2d(
        lambda X: np.where(np.abs(X).max(axis=1) < 0.4, 1.0, 0.0), -1, 1, 3, lipschitz=0, steepness=40
    ).net  # fmt: skip
    edges = one.activations(grid)[0]  # four edges of each axis
    cross = edges[:, 1] - edges[:, 2] + edges[:, 5] - edges[:, 6]
    made = approximation.rectangle_net_2d(f, -1, 1, 12, lipschitz=math.sqrt(13))
    pictures = {
        "a cross of four sigmoids": cross,
        "after the threshold": one(grid)[:, 0],
        "12 × 12 towers": made.net(grid)[:, 0],
        "the function": f(grid),
    }
    drawing, axes = figure(columns=4, size=(2.9, 2.9))
    for ax, (name, values) in zip(axes, pictures.items(), strict=True):
        signed = name in ("12 × 12 towers", "the function")
        drawn = ax.imshow(
            values.reshape(160, 160), origin="lower", extent=(-1, 1, -1, 1),
            cmap="RdBu_r" if signed else "viridis", vmin=-1 if signed else None, vmax=1 if signed else None,
        )  # fmt: skip
        ax.set(xlabel="x₁", xticks=(-1, 0, 1), yticks=(-1, 0, 1), title=name)
        drawing.colorbar(drawn, ax=ax, shrink=0.7)
    axes[0].set_ylabel("x₂")
    error = 4 * float(np.abs(made.net(grid)[:, 0] - f(grid)).mean())
    axes[2].set_title(f"12 × 12 towers: error {error:.2f} ≤ {made.bound:.2f}")
    inside, arm = np.abs(grid).max(axis=1) < 0.25, np.abs(grid[:, 0]) < 0.25
    arm &= np.abs(grid[:, 1]) > 0.5
    heights = cross[inside].mean(), cross[arm].mean()
    show(np.allclose(heights, (2, 1), atol=0.02), "the cross is 2 on the square, 1 on its arms")
    show(one(grid)[inside].min() > 0.99 and one(grid)[arm].max() < 0.01, "the threshold removes the arms")  # fmt: skip
    show(error <= made.bound, "the integral of the absolute error keeps its bound")
    return drawing


@entry("piecewise-linear-exact", "ML Point-wise approximations")
def piecewise_linear_exact():
    """A ReLU layer with a unit per piece is a piecewise-linear function exactly.

    Left: a piecewise-linear function through nine points, and the weighted units whose sum it is; the net agrees with it to
    rounding, also beyond the ends. Right: the largest error of the net through equally spaced points of a smooth
    function, against the bound h²·max|f''|/8.
    """
    knots = np.array([0.0, 0.4, 0.9, 1.3, 1.7, 2.2, 2.4, 2.7, 3.0])
    values = np.array([0.2, 1.1, 0.7, -0.6, -0.9, 0.4, 1.2, 1.0, 0.1])
    net, x = approximation.piecewise_linear_net(knots, values), np.linspace(-0.3, 3.3, 1000)
    drawing, (left, right) = figure(columns=2, size=(4.8, 3.4))
    units = net.activations(x[:, None])[0] * net.weights[1]
    for j in range(units.shape[1]):
        left.plot(x, units[:, j], color=SKY, lw=0.8, label="its 8 units, weighted" if j == 0 else None)  # fmt: skip
    left.plot(x, net(x[:, None])[:, 0], color=BLUE, lw=2, label="the net")
    left.plot(knots, values, "o", color=ORANGE, ms=5, label="the points")
    left.set(xlabel="x", ylabel="q(x)", ylim=(-4, 4))
    left.legend(loc="lower left")
    inside = np.linspace(0, 3, 1000)
    off = float(np.abs(net(inside[:, None])[:, 0] - np.interp(inside, knots, values)).max())
    show(off < 1e-13, "the net equals the function to rounding")
    sizes, errors, bounds = [4, 8, 16, 32, 64], [], []
    fine = np.linspace(0, 3, 4001)
    for pieces in sizes:
        at = np.linspace(0, 3, pieces + 1)
        found = approximation.piecewise_linear_net(at, np.sin(2 * at))(fine[:, None])[:, 0]
        errors.append(float(np.abs(found - np.sin(2 * fine)).max()))
        bounds.append(4 * (3 / pieces) ** 2 / 8)
    right.loglog(sizes, bounds, color=RED, marker="s", label="bound h² max|f''| / 8")
    rate = approximation.fitted_rate(sizes, errors)
    right.loglog(sizes, errors, color=BLUE, marker="o", label=f"measured, like pieces^{rate:.2f}")
    right.set(xlabel="pieces (units)", ylabel="largest error for sin 2x on [0, 3]")
    right.set_xticks(sizes, sizes)
    right.minorticks_off()
    right.legend(fontsize=10)
    show(all(e <= b for e, b in zip(errors, bounds, strict=True)), "the largest error keeps the bound")  # fmt: skip
    show(-2.2 < rate < -1.8, "it falls with the square of the number of pieces")
    return drawing


@entry("relu-regions", "CIL 4.2.4, (4.24)")
def relu_regions():
    """A ReLU net is linear on polygons, and each point knows how far its polygon reaches.

    The plane coloured by which units of a random ReLU net with two hidden layers of 8 are active: every colour is one linear
    map. Circles: from a few points, the exact distance to the nearest place where a unit switches; inside, the
    pruned linear net and the net are equal.
    """
    rng = np.random.default_rng(3)
    sizes = ((8, 2), (8, 8), (1, 8))
    net = approximation.Layers(
        tuple(rng.standard_normal(size) / math.sqrt(size[1]) for size in sizes),
        tuple(0.4 * rng.standard_normal(size[0]) for size in sizes),
    )
    axis = np.linspace(-2, 2, 400)
    grid = np.stack(np.meshgrid(axis, axis, indexing="xy"), axis=-1).reshape(-1, 2)
    active = np.concatenate([layer > 0 for layer in net.activations(grid)[:-1]], axis=1)
    patterns, which = np.unique(active, axis=0, return_inverse=True)
    shades = np.random.default_rng(0).permutation(len(patterns))
    drawing, (left, right) = figure(columns=2, size=(4.4, 3.9))
    colours = shades[which.ravel()].reshape(400, 400)
    left.imshow(colours, origin="lower", extent=(-2, 2, -2, 2), cmap="terrain", alpha=0.55)
    left.set_title(f"{len(patterns)} linear maps in this square")
    worst, circle = 0.0, np.linspace(0, 2 * np.pi, 200)
    for x in approximation.sample_ball(9, 2, 1.8, np.random.default_rng(5)):
        region = approximation.linear_region(net, x)
        ring = x + region.radius * np.column_stack([np.cos(circle), np.sin(circle)])
        left.plot(*ring.T, color="black", lw=1)
        left.plot(*x, ".", color="black", ms=4)
        inside = x + region.radius * 0.999 * approximation.sample_ball(300, 2, 1.0, rng)
        linear = inside @ region.matrix.T + region.offset
        worst = max(worst, float(np.abs(net(inside) - linear).max()))
    left.set(xlabel="x₁", ylabel="x₂")
    drawn = right.contourf(axis, axis, net(grid).reshape(400, 400), levels=24, cmap="viridis")
    drawing.colorbar(drawn, ax=right)
    right.set(xlabel="x₁", ylabel="x₂", aspect="equal", title="what the net computes: plane pieces")
    show(worst < 1e-12, "inside every circle the net is its pruned linear net, to rounding")
    # 8 lines cut the plane into at most 37 pieces, each of which 8 more can cut into 37
    show(37 < len(patterns) <= 37**2, "two layers make more regions than one layer of 8 units can")
    return drawing


@entry("barron-rate", "ML L₂ Approximation: Barron's result")
def barron_rate():
    """The error of one hidden layer falls like one over the root of its width, in any dimension.

    Sums of six waves with the same Barron constant, on the unit ball in 2 and in 10 dimensions. Root mean squared error
    against the number of units: steps drawn from the function's own mixture (the construction of the proof, mean of 20
    draws), the same steps with outer weights fitted, steps chosen greedily, and Barron's bound 2rC/√n.
    """
    widths = [8, 16, 32, 64, 128, 256]
    drawing, axes = figure(columns=2, size=(4.6, 3.5), sharey=True)
    for ax, d in zip(axes, (2, 10), strict=True):
        rng = np.random.default_rng(d)
        directions = rng.standard_normal((6, d))
        directions *= 3 / np.linalg.norm(directions, axis=1, keepdims=True)
        f = approximation.Cosines(np.full(6, 1 / 6), directions, rng.uniform(0, 2 * np.pi, 6))
        X = approximation.sample_ball(2000, d, 1.0, rng)
        bounds = [math.sqrt(f.bound(n, 1.0)) for n in widths]
        ax.loglog(widths, bounds, color=RED, label="Barron's bound, C = 3")
        kinds = (("drawn", 20, BLUE, "o"), ("fitted", 3, GREEN, "s"), ("greedy", 1, PURPLE, "^"))
        found = {}
        for method, draws, colour, mark in kinds:
            options = {"method": method, "n_samples": 1000}
            squares = [
                [
                    np.mean(
                        (approximation.barron_net(f, n, 1.0, rng, **options)(X)[:, 0] - f(X)) ** 2
                    )
                    for _ in range(draws)
                ]
                for n in widths
            ]
            found[method] = np.sqrt(np.mean(squares, axis=1))
            rate = approximation.fitted_rate(widths, found[method])
            ax.loglog(widths, found[method], color=colour, marker=mark, ms=4, label=f"{method}: width^{rate:.2f}")  # fmt: skip
        ax.set_title(f"{d} dimensions")
        ax.set_xlabel("units")
        ax.legend()
        rate = approximation.fitted_rate(widths, found["drawn"])
        show(bool((found["drawn"] < bounds).all()), f"drawn steps keep Barron's bound in {d} dimensions")  # fmt: skip
        show(-0.6 < rate < -0.4, f"their error falls like one over the root of the width in {d} dimensions")  # fmt: skip
        show(bool((found["greedy"] < found["drawn"]).all()), "steps chosen greedily do better")
    axes[0].set_ylabel("root mean squared error")
    return drawing


@entry("augmentation-sheet", "ML Data Augmentation")
def augmentation_sheet():
    """Some changes keep a label and some do not: a photograph, and a digit in the mirror.

    Top: a photograph and what each augmentation makes of it, drawn from a seeded generator. Bottom: digits as they are,
    under the recipe for digits, and mirrored, which the recipe refuses; above each, what a nearest-neighbour rule that was
    shown upright digits (and their recipes) takes it for. A mirrored digit is no longer what it was.
    """
    import torch
    from sklearn.neighbors import KNeighborsClassifier

    from lemmata.nets import augmentation as aug

    def generator(seed=0):
        return torch.Generator().manual_seed(seed)

    photo = load_sample_image("china.jpg")[60:380:5, 150:470:5] / 255
    batch = torch.from_numpy(photo).permute(2, 0, 1)[None]
    kinds = (
        ("as it is", aug.Compose()), ("Shift(10)", aug.Shift(10)), ("Flip", aug.Flip(1.0)), ("Rotate(20)", aug.Rotate(20.0)),
        ("CropResize", aug.CropResize((0.3, 0.5))), ("CutOut(20)", aug.CutOut(20)), ("Noise(0.1)", aug.Noise(0.1)),
        ("Blur(2)", aug.Blur((2.0, 2.0))), ("ColourJitter", aug.ColourJitter(0.4, 0.4, 0.4, 0.3)),
        ("for_views", aug.for_views(colour=True)),
    )  # fmt: skip
    drawing, axes = figure(rows=2, size=(10, 1.35), height_ratios=(1.25, 1))
    strip = np.ones((64 + 2, 10 * 68, 3))
    for i, (name, augment) in enumerate(kinds):
        one = augment(batch, generator(4))[0].permute(1, 2, 0).numpy().clip(0, 1)
        strip[:64, i * 68 : i * 68 + 64] = one
        axes[0].text(i * 68 + 32, -3, name, ha="center", fontsize=8)
    axes[0].imshow(strip)
    axes[0].set_axis_off()
    data = load_digits()
    X, y = torch.from_numpy(data.images[:, None] / 16), data.target
    recipe = aug.for_data("digits")
    grown = torch.cat([X[:900], *(recipe(X[:900], generator(s)) for s in range(4))])
    rule = KNeighborsClassifier(1).fit(grown.flatten(1).numpy(), np.tile(y[:900], 5))
    rest = X[900:]
    versions = {"as it is": rest, "the recipe": recipe(rest, generator(7)), "mirrored": rest.flip(-1)}  # fmt: skip
    labels = {kind: rule.predict(some.flatten(1).numpy()) for kind, some in versions.items()}
    right = {kind: float((found == y[900:]).mean()) for kind, found in labels.items()}
    chosen = [int(np.flatnonzero(y[900:] == digit)[0]) for digit in range(2, 7)]
    images = np.concatenate([some[chosen, 0].numpy() for some in versions.values()])
    names = [str(labels[kind][i]) for kind in versions for i in chosen]
    image_grid(axes[1], images, 15, names=names, gap=2)
    for i, (kind, share) in enumerate(right.items()):
        axes[1].text(i * 50 + 24, 11, f"{kind}: {100 * share:.0f} % recognised", ha="center", fontsize=9)  # fmt: skip
    show(right["the recipe"] > 0.9, "under the recipe more than 90 % of new digits are still recognised")  # fmt: skip
    show(right["mirrored"] < 0.6, "mirrored, fewer than 60 % are")
    return drawing


@entry("autoencoder-pca", "CIL24 1.5")
def autoencoder_pca():
    """A non-linear autoencoder loses less than PCA at the same width, on new digits too.

    Left: the share of the variance lost against the width m of the code, for PCA (the best linear autoencoder) and for a
    network with layers of 128 and 64 units on both sides; 1,200 digits to learn from (dotted) and the other 597 (full lines).
    Right: new digits, and what 4 numbers keep of them.
    """
    from lemmata.nets.estimators.autoencoder import Autoencoder
    from lemmata.reduction.pca import PCA

    X = load_digits().data[np.random.default_rng(0).permutation(1797)] / 16
    X, new = X[:1200], X[1200:]
    sizes, kept = [2, 4, 8, 16], {}
    lost: dict[str, list] = {"PCA": [], "autoencoder": []}
    total = [float(np.square(rows - X.mean(axis=0)).sum()) for rows in (X, new)]
    for m in sizes:
        axes = PCA(m).fit(X)
        net = Autoencoder(m, max_iter=20, batch_size=100, learning_rate=1e-2, random_state=0).fit(X)
        for name, model in (("PCA", axes), ("autoencoder", net)):
            again = [model.inverse_transform(model.transform(rows)) for rows in (X, new)]
            pairs = zip((X, new), again, total, strict=True)
            lost[name].append([float(np.square(a - b).sum()) / t for a, b, t in pairs])
            if m == 4:
                kept[name] = again[1][:8]
    drawing, (left, right) = figure(columns=2, size=(4.8, 3.0), width_ratios=(1, 1.3))
    for (name, shares), colour, mark in zip(lost.items(), (BLUE, ORANGE), "so", strict=True):
        seen, unseen = np.array(shares).T
        left.plot(
            sizes, unseen, color=colour, marker=mark, label=f"{name}: {unseen[1]:.2f} at m = 4"
        )
        left.plot(sizes, seen, ":", color=colour)
    left.set(xscale="log", xticks=sizes, xticklabels=sizes, ylim=(0, 1))
    left.set(xlabel="width m of the code", ylabel="share of variance lost")
    left.minorticks_off()
    left.legend(fontsize=10)
    shown = [new[:8], kept["PCA"], kept["autoencoder"]]
    image_grid(right, np.concatenate(shown).reshape(-1, 8, 8).clip(0, 1), 8)
    for i, name in enumerate(("new digits", "PCA, m = 4", "autoencoder")):
        right.text(-1.5, 9 * i + 3.5, name, ha="right", va="center", fontsize=8)
    theirs, ours = (np.array(lost[name]) for name in ("PCA", "autoencoder"))
    show(bool((ours[:, 0] < theirs[:, 0]).all()), "on its rows the network loses less at every m")
    show(bool((ours[:3, 1] < 0.9 * theirs[:3, 1]).all()), "on new rows a tenth less up to m = 8")
    return drawing
