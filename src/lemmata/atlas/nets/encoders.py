"""Encoders without labels, drawn on scikit-learn's digits (ML "Self-supervised Learning", "Contrastive learning", "CLIP").

Everything is trained in float64, so that a figure comes out the same wherever it is drawn.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_sample_image

from lemmata.atlas import entry, show
from lemmata.core.certification import pictures

Array = np.ndarray
TRAIN, TEST = slice(0, 1300), slice(1300, None)
EXACT = {"precision": "float64", "layout": "contiguous", "device": "cpu", "random_state": 0}
NET = {"net_options": {"widths": (16, 32)}, "regions": 2, "batch_size": 100}
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def _digits() -> tuple[Array, Array]:
    X, y = load_digits(return_X_y=True)
    return (X / 16).reshape(-1, 1, 8, 8), y


def _views() -> Any:
    """Views of digits: crops, slants, noise; no mirror, which would make a 2 something else."""
    from lemmata.nets.augmentation import Compose, CropResize, Noise, Rotate

    return Compose([CropResize((0.5, 1.0)), Rotate(15), Noise(0.1)])


@cache
def _simclr(epochs: int, temperature: float = 0.2) -> Any:
    from lemmata import SimCLR

    model = SimCLR(**NET, **EXACT, views=_views(), temperature=temperature, max_iter=epochs)
    return model.fit(_digits()[0][TRAIN])


def _make_untrained(model: Any) -> Any:
    """The same network with new weights: what probes compare with."""
    import torch

    from lemmata.audit.selfsup.features import untrained_copy

    return untrained_copy(model.encoder_, torch.from_numpy(_digits()[0][:512]))


def _encode(module: Any, X: Array) -> Array:
    import torch

    like = next(module.parameters())
    with torch.no_grad():
        return module.eval()(torch.from_numpy(X).to(like)).double().numpy()


# --- views ------------------------------------------------------------------------------------------------------------


@entry("two-views", "ML SimCLR (augmentations; global to local, adjacent views)")
def two_views(seed: int = 0):
    """Two views share the thing and little else.

    Left, windows of one photograph: B asks for its part A (global to local), C beside D for what is next
    to it. Right, B under each augmentation of the notes.
    """
    import torch
    from matplotlib.patches import Rectangle

    from lemmata.nets import augmentation as a

    image = torch.from_numpy(load_sample_image("china.jpg")[100:400, 60:360] / 255).permute(
        2, 0, 1
    )[None]
    # left, top, width, height in shares of the image
    windows = {
        "A": (0.34, 0.35, 0.25, 0.25), "B": (0.15, 0.2, 0.6, 0.6), "C": (0.02, 0.62, 0.3, 0.3), "D": (0.36, 0.66, 0.3, 0.3)
    }  # fmt: skip
    hues = (pictures.ORANGE, pictures.BLUE, pictures.GREEN, pictures.PURPLE)
    colours = dict(zip("ABCD", hues, strict=True))

    def cut(name: str) -> Any:
        left, top, width, height = windows[name]
        centre = torch.tensor([[left + width / 2 - 0.5, top + height / 2 - 0.5]])
        return a.crop_to(image, centre, torch.tensor([[width, height]]))[:, :, ::3, ::3]

    changes = {
        "crop, resize": a.CropResize((0.3, 0.5)), "flip": a.Flip(1.0), "quarter turn": a.QuarterTurn(1.0),
        "cutout": a.CutOut(40), "noise": a.Noise(0.1), "blur": a.Blur((2.0, 2.5)), "jitter": a.ColourJitter(0.4, 0.4, 0.4, 0.2),
        "colour drop": a.ColourDrop(1.0), "Sobel": a.Sobel(1.0),
    }  # fmt: skip
    whole = cut("B")
    rng = torch.Generator().manual_seed(seed)
    views = {name: change(whole, rng) for name, change in changes.items()}
    drawing, axes = pictures.figure(3, 5, size=(1.3, 1.3))
    grid = axes[0, 0].get_gridspec()
    for ax in axes[:, :2].flat:
        ax.remove()
    main = drawing.add_subplot(grid[:2, :2])
    main.imshow(image[0].permute(1, 2, 0))
    for name, (left, top, width, height) in windows.items():
        corner, sides = (300 * left, 300 * top), (300 * width, 300 * height)
        box = Rectangle(corner, *sides, fill=False, edgecolor=colours[name], linewidth=2)
        main.add_patch(box)
        look = {"color": "white", "weight": "bold", "fontsize": 8, "backgroundcolor": colours[name]}
        main.text(corner[0] + 5, corner[1] + 22, name, **look)
    main.set_title("windows: A in B, C beside D")
    for at, pair in enumerate(("BA", "DC")):
        ax = drawing.add_subplot(grid[2, at])
        ax.imshow(torch.cat([cut(name)[0] for name in pair], dim=2).permute(1, 2, 0).clamp(0, 1))
        ax.set_title(f"{pair[0]} → {pair[1]}")
        ax.axis("off")
    main.axis("off")
    for ax, (name, view) in zip(axes[:, 2:].flat, views.items(), strict=True):
        shown = view[0].permute(1, 2, 0).clamp(0, 1)
        ax.imshow(shown / shown.max() if name == "Sobel" else shown)
        ax.set_title(name)
        ax.axis("off")
    (l1, t1, w1, h1), (l2, t2, w2, h2) = windows["A"], windows["B"]
    inside = l2 <= l1 and t2 <= t1 and l1 + w1 <= l2 + w2 and t1 + h1 <= t2 + h2
    show(inside, "A lies inside of B: the whole asks for a part")
    apart = windows["C"][0] + windows["C"][2] <= windows["D"][0]
    show(apart, "C and D share no pixel")
    changed = all((view - whole).abs().max() > 0.05 for view in views.values())
    show(changed, "each augmentation changes what the network sees")
    return drawing


# --- collapse ---------------------------------------------------------------------------------------------------------


def _follow(kind: str, updates: int = 300) -> tuple[list[float], Array]:
    """The spread of features on new digits over the updates of a perceptron, and these features at the end."""
    import torch
    from torch import nn

    from lemmata.audit.selfsup.collapse import spread_of
    from lemmata.selfsup import Views, losses
    from lemmata.selfsup.networks import two_layers

    X = torch.from_numpy(_digits()[0])
    views = Views(_views(), _views())
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32)).double()
    predictor, target = two_layers(32, 64, 32).double(), copy.deepcopy(net)
    optimizer = torch.optim.Adam([*net.parameters(), *predictor.parameters()], 2e-3)
    rng, spreads = torch.Generator().manual_seed(0), []
    for step in range(updates + 1):
        if step % 25 == 0:
            spreads.append(spread_of(_encode(net, _digits()[0][TEST])))
        both = torch.cat(views(X[TRAIN][torch.randint(1300, (128,), generator=rng)], rng))
        z, z_plus = net(both).chunk(2)
        if "VICReg" in kind:
            value = losses.regularise(z, z_plus, variance=0.0 if "without" in kind else 25.0)
        else:
            t, t_plus = (z, z_plus) if "without" in kind else target(both).detach().chunk(2)
            pairs = ((predictor(z), t_plus), (predictor(z_plus), t))
            value = (
                torch.stack([2 - 2 * torch.cosine_similarity(*pair) for pair in pairs])
                .sum(0)
                .mean()
            )
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, weight in zip(target.parameters(), net.parameters(), strict=True):
                slow.lerp_(weight, 0.02)
    return spreads, _encode(net, _digits()[0][TEST])


@entry("collapse", "ML Joint Embedding Methods (the constant encoder)")
def collapse():
    """A collapse shows in the spread of features, not in their rank.

    A perceptron on digits, looked at on others: BYOL with its target and stopped gradient and without both, VICReg with its
    variance term and without. Left, the spread of features over 300 updates. Right, deviations along their principal axes;
    r is the entropy rank: that of VICReg's contracted features is above that of the healthy ones.
    """
    from lemmata.audit.selfsup.collapse import entropy_rank

    kinds = {
        "BYOL": (pictures.BLUE, "-"), "BYOL without target and stop": (pictures.BLUE, ":"),
        "VICReg": (pictures.ORANGE, "-"), "VICReg without variance": (pictures.ORANGE, ":"),
    }  # fmt: skip
    drawing, (left, right) = pictures.figure(1, 2, size=(4.4, 3.4))
    ends, ranks = {}, {}
    for kind, (colour, style) in kinds.items():
        spreads, h = _follow(kind)
        ends[kind], ranks[kind] = spreads[-1], entropy_rank(h)
        e = h / np.linalg.norm(h, axis=1, keepdims=True)
        sizes = np.linalg.svd(e - e.mean(axis=0), compute_uv=False) / np.sqrt(len(e))
        left.semilogy(25 * np.arange(len(spreads)), spreads, style, color=colour, label=kind)
        right.semilogy(
            1 + np.arange(len(sizes)),
            sizes,
            style,
            color=colour,
            label=f"r = {ranks[kind]:.1f} of 32",
        )
    left.axhline(0.1, color=pictures.GREY, linewidth=0.8)
    left.set(xlabel="updates", ylabel="spread", title="spread of features")
    right.set(
        xlabel="principal axis",
        ylabel="deviation",
        title="spectrum at the end, and its entropy rank",
    )
    left.set_ylim(0.005, 1)
    right.set_ylim(1e-5, 1)
    left.legend(loc="lower left")
    right.legend()
    lost, kept = ([kind for kind in kinds if ("without" in kind) == which] for which in (True, False))  # fmt: skip
    contracted = all(ends[kind] < 0.1 for kind in lost)
    show(contracted, "without the piece that holds rows apart, features contract to a point")
    show(all(ends[kind] > 0.2 for kind in kept), "with it they stay apart")
    blind = all(ranks[kind] > 0.05 * 32 for kind in lost)
    show(blind, "the entropy rank of contracted features is above 5 % of their number")
    higher = ranks["VICReg without variance"] > ranks["VICReg"]
    show(higher, "of VICReg's contracted features it is above that of the healthy ones")
    return drawing


# --- what was learned -------------------------------------------------------------------------------------------------


@entry("features-before-after", "ML Contrastive learning; SimCLR")
def features_before_after():
    """Training without labels brings digits of one kind together.

    New digits by the first two principal axes of their pixels, of the features of an untrained network, and of the same network
    after SimCLR; numbers stand at the means of the labels, which nobody was shown. Above each, the share of the variance of
    directions that is between the means of the ten kinds, in all dimensions.
    """
    X, y = _digits()
    model = _simclr(20)
    spaces = {
        "pixels": X.reshape(len(X), -1),
        "untrained": _encode(_make_untrained(model), X),
        "SimCLR": _encode(model.encoder_, X),
    }
    drawing, axes = pictures.figure(1, 3, size=(3.4, 3.5))
    between = {}
    for ax, (name, h) in zip(axes, spaces.items(), strict=True):
        e = h / np.linalg.norm(h, axis=1, keepdims=True)
        centred = e[TEST] - e[TEST].mean(axis=0)
        _, _, axis = np.linalg.svd(centred, full_matrices=False)
        axis[:2] *= np.sign(axis[:2, np.abs(axis[:2]).argmax(axis=1)].diagonal())[:, None]
        place = centred @ axis[:2].T
        means = np.stack([centred[y[TEST] == k].mean(axis=0) for k in range(10)])
        between[name] = float(np.square(means[y[TEST]]).sum() / np.square(centred).sum())
        for k in range(10):
            ax.text(
                *place[y[TEST] == k].mean(axis=0), str(k), weight="bold", ha="center", va="center"
            )
        ax.scatter(*place.T, c=y[TEST], cmap="tab10", s=6, alpha=0.7)
        ax.set(title=f"{name}: {100 * between[name]:.0f} % between kinds", xticks=[], yticks=[])
    better = between["SimCLR"] > between["untrained"] + 0.05
    show(better, "more of the variance is between kinds than before training, by 5 points and more")
    return drawing


@entry("labels-saved", "ML Transfer learning; Self-supervised Learning")
def labels_saved():
    """With few labels, learned features are worth more than pixels.

    Accuracy on 497 new digits of a logistic regression on pixels, on an untrained network's features and on those of SimCLR,
    against the labels that it had; the mean of three draws of labels.
    """
    from lemmata.selfsup import probe

    X, y = _digits()
    model, counts = _simclr(20), (20, 50, 100, 300, 1000)
    found: dict[str, list[float]] = {"raw input": [], "untrained": [], "features": []}
    for labels in counts:
        draws = 1 if labels == 1000 else 3
        data = X[TRAIN], y[TRAIN], X[TEST], y[TEST]
        for row in probe(model, *data, labels=labels, draws=draws).rows:
            found[row.name].append(row.accuracy)
    drawing, ax = pictures.figure(1, 1, size=(4.6, 3.4))
    looks = {
        "raw input": ("pixels", pictures.GREY, "s-"), "untrained": ("untrained network", pictures.ORANGE, "^-"),
        "features": ("SimCLR", pictures.BLUE, "o-"),
    }  # fmt: skip
    for name, (label, colour, style) in looks.items():
        ax.semilogx(counts, found[name], style, color=colour, label=label)
    ax.set(xlabel="labels", ylabel="accuracy on new digits", xticks=counts, xticklabels=counts)
    ax.minorticks_off()
    ax.legend()
    ahead = np.subtract(found["features"], np.maximum(found["raw input"], found["untrained"]))
    show((ahead[:3] > 0).all(), "with up to 100 labels SimCLR's features are ahead of both others")
    return drawing


@entry("temperature", "ML SimCLR (cosines over a temperature)")
def temperature():
    """A lower temperature spreads projections, down to a point.

    SimCLR on digits at six temperatures, z = f₂(f₁(x)) of two views of others. Uniformity is ln E exp(−2‖z − z′‖²) over
    different digits, lower where they are even on the sphere; alignment is E‖z − z⁺‖², lower where views agree. After
    eight epochs at 0.05 they crowd again.
    """
    import torch
    from torch.nn.functional import normalize

    from lemmata.selfsup import Views
    from lemmata.selfsup.measures import uniformity

    temperatures = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
    views = Views(_views(), _views())
    pair = views(torch.from_numpy(_digits()[0][TEST]), torch.Generator().manual_seed(0))
    even, near = [], []
    for one in temperatures:
        project = _simclr(8, one).project
        z, z_plus = (normalize(torch.from_numpy(project(view.numpy())), dim=1) for view in pair)
        even.append(uniformity(z))
        near.append(float((z - z_plus).square().sum(1).mean()))
    drawing, ax = pictures.figure(1, 1, size=(4.8, 3.4))
    ax.semilogx(temperatures, even, "o-", color=pictures.BLUE)
    ax.set(xlabel="temperature τ", xticks=temperatures, xticklabels=temperatures)
    ax.minorticks_off()
    ax.set_ylabel("uniformity", color=pictures.BLUE)
    other = ax.twinx()
    other.semilogx(temperatures, near, "s--", color=pictures.ORANGE)
    other.minorticks_off()
    other.set_ylabel("alignment", color=pictures.ORANGE)
    rising, falling = (np.diff(even[1:]) > 0).all(), (np.diff(near[1:]) < 0).all()
    show(rising and falling, "from 0.1 up, projections are less even and views agree more")
    show(even[0] > even[1], "at 0.05 they are less even than at 0.1")
    return drawing


@entry("clip-matrix", "ML CLIP")
def clip_matrix():
    """An image points where its caption does, also by a sentence nobody wrote.

    Mean cosines between new digits of each class and captions. Left, a template of the training captions; right, one that it
    never saw. The diagonal is what training asked for.
    """
    from lemmata import CLIP

    X, y = _digits()
    written = ("a photo of a {}", "handwritten {}", "the digit {}", "somebody wrote {}")
    captions = [written[i % len(written)].format(NAMES[k]) for i, k in enumerate(y)]
    model = CLIP(**NET, **EXACT, max_iter=6, hidden=64).fit(X[TRAIN], captions[TRAIN])
    u = model.embed(images=X[TEST])
    drawing, axes = pictures.figure(1, 2, size=(4.0, 3.9))
    scores = []
    for ax, template in zip(axes, ("handwritten {}", "a handwritten digit {}"), strict=True):
        cosines = u @ model.embed(texts=[template.format(name) for name in NAMES]).T
        scores.append(float((cosines.argmax(axis=1) == y[TEST]).mean()))
        means = np.stack([cosines[y[TEST] == k].mean(axis=0) for k in range(10)])
        shown = ax.imshow(means, cmap="RdBu_r", vmin=-1, vmax=1)
        ax.set(xticks=range(10), yticks=range(10), yticklabels=range(10), ylabel="images of")
        ax.set_xticklabels(NAMES, rotation=90)
        ax.set_title(f"“{template}”\n{100 * scores[-1]:.0f} % of images find their class")
        ax.spines[["top", "right"]].set_visible(True)
        show(
            (means.argmax(axis=1) == np.arange(10)).all(),
            "each kind of digit is nearest to its own caption",
        )
    drawing.colorbar(shown, ax=axes, label="mean cosine", shrink=0.7)
    show(
        scores[1] > 0.8, "by a sentence that it never saw, over 80 % of new digits find their class"
    )
    return drawing
