"""Clusters, drawn (CIL20 6.1–6.2): what k centres make of data, where the steps end, and how few rows are enough.

Each entry takes a seed, since what a figure shows should hold for other draws too.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from sklearn.datasets import load_sample_image, make_blobs

from lemmata.atlas import entry, show
from lemmata.clustering.coresets.sampling import Coreset, costs, epsilon_for
from lemmata.clustering.kmeans import KMeans
from lemmata.clustering.lloyd import LloydAlgorithm, Points, Still
from lemmata.clustering.lower_bounds import certified_gap
from lemmata.clustering.seeding import d2_sampling, greedy_d2_sampling, random_rows
from lemmata.core.blocks import Blocks
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, figure
from lemmata.core.loop import MaxSteps, run

Array = np.ndarray


# --- vector quantisation (CIL20 6.1) ----------------------------------------------------------------------------------


def _palette(ax, colours: Array, shares: Array) -> None:
    """A strip of the colours, dark to light, each as wide as its share of the pixels."""
    order = np.argsort(colours @ [0.299, 0.587, 0.114])  # luma
    edges = np.concatenate([[0], np.cumsum(shares[order])])
    ax.barh(np.zeros(len(order)), np.diff(edges), left=edges[:-1], color=colours[order], height=1)
    ax.set(xlim=(0, 1), ylim=(-0.5, 0.5))
    ax.set_axis_off()


@entry("colour-quantisation", "CIL20 6.1–6.2")
def colour_quantisation(seed: int = 0):
    """An image of few colours: each pixel by its nearest centre.

    A photograph whose pixels are replaced by the nearest of k colours, found by k-means. The strips have the k colours,
    dark to light, each as wide as its share of the pixels; PSNR is the signal-to-noise ratio of the picture.
    """
    image = load_sample_image("china.jpg")
    pixels = image.reshape(-1, 3).astype(np.float32)
    sizes = (4, 16, 64)
    drawing, axes = figure(2, 4, size=(3.0, 1.3), height_ratios=(9, 1))
    axes[0, 0].imshow(image)
    colours_in_it = np.unique(image.reshape(-1, 3) @ [2**16, 2**8, 1]).size
    axes[0, 0].set_title(f"original: {colours_in_it:,} colours")
    axes[1, 0].set_axis_off()
    errors = []
    for column, k in enumerate(sizes, start=1):
        model = KMeans(k, max_iter=50, random_state=seed).fit(pixels)
        colours = model.cluster_centers_.astype(float) / 255
        errors.append(model.inertia_ / pixels.size)  # mean square of one channel of one pixel
        axes[0, column].imshow(colours[model.labels_].reshape(image.shape).clip(0, 1))
        decibels = 10 * np.log10(255**2 / errors[-1])
        axes[0, column].set_title(f"k = {k}: cost {model.inertia_:.2g}, PSNR {decibels:.1f} dB")
        _palette(
            axes[1, column],
            colours.clip(0, 1),
            np.bincount(model.labels_, minlength=k) / len(pixels),
        )
        found = ((pixels - model.cluster_centers_[model.labels_]) ** 2).sum(dtype=np.float64)
        seen = abs(found / model.inertia_ - 1) < 1e-4
        show(seen, f"the cost is the squared error of the image with {k} colours")
    for ax in axes[0]:
        ax.set_axis_off()
    show((np.diff(errors) < 0).all(), "more colours, less error")
    return drawing


def _border(C: Array, i: int, j: int, far: float) -> Array | None:
    """Where centres i and j are equally near and no other is nearer: the ends of that piece of the bisector, (2, 2).

    On m + t n, with m half way and n across, centre l is no nearer if 2 t nᵀ(c_l − c_i) ≤ ‖c_l − m‖² − ‖c_i − m‖².
    """
    middle, across = (C[i] + C[j]) / 2, (C[j] - C[i])[::-1] * [-1, 1] / np.linalg.norm(C[j] - C[i])
    others = np.delete(C, [i, j], axis=0)
    slopes = 2 * (others - C[i]) @ across
    room = ((others - middle) ** 2).sum(axis=1) - ((C[i] - middle) ** 2).sum()
    ends = room / np.where(slopes == 0, 1, slopes)
    low, high = max([-far, *ends[slopes < 0]]), min([far, *ends[slopes > 0]])
    if low < high and (room[slopes == 0] >= 0).all():
        return middle + np.outer([low, high], across)
    return None


def _draw_borders(ax, C: Array) -> None:
    """All borders, and the lines between the centres whose border lies half way on them."""
    for i, j in combinations(range(len(C)), 2):
        ends = _border(C, i, j, far=100)
        if ends is None:
            continue
        along, link, middle = ends[1] - ends[0], C[j] - C[i], (C[i] + C[j]) / 2
        ax.plot(*ends.T, color="black", lw=1.4)
        if (ends[0] - middle) @ (ends[1] - middle) < 0:
            ax.plot(*C[[i, j]].T, color=GREY, lw=1, ls=":")
        apart = ((np.linspace(ends[0], ends[1], 5)[:, None] - C) ** 2).sum(axis=2)
        seen = np.allclose(apart[:, i], apart[:, j])
        show(seen, "a border is as far from one of its two centres as from the other")
        show((apart.min(axis=1) >= apart[:, i] * (1 - 1e-9)).all(), "and no third centre is nearer")
        seen = abs(along @ link) < 1e-9 * np.linalg.norm(along) * np.linalg.norm(link)
        show(seen, "it is at a right angle to their line")


@entry("voronoi", "CIL20 Fig. 6.1")
def voronoi(seed: int = 0):
    """The cells of k-means have straight borders, half way between two centres.

    Seven clusters of 800 points by k-means: a point belongs to its nearest centre, so the borders of the cells are pieces
    of the lines half way between two centres.
    """
    colours = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, GREY)
    k = len(colours)
    X = np.random.default_rng(seed).normal(size=(800, 2)) @ [[2.0, 0.5], [0.0, 1.2]]
    model = KMeans(k, n_init=5, tol=0, random_state=seed).fit(X)
    C, edge = model.cluster_centers_, np.abs(X).max(axis=0) * 1.02
    grid = np.stack(np.meshgrid(*(np.linspace(-e, e, 400) for e in edge)), axis=-1).reshape(-1, 2)
    distances = ((grid[:, None] - C) ** 2).sum(axis=2)
    chosen = np.take_along_axis(distances, model.predict(grid)[:, None], axis=1)[:, 0]
    seen = (chosen <= distances.min(axis=1) * (1 + 1e-12)).all()
    show(seen, "predict gives each point of the plane its nearest centre")
    means = np.array([X[model.labels_ == c].mean(axis=0) for c in range(k)])
    show(np.allclose(means, C), "a centre is the mean of the points in its cell")

    drawing, ax = figure(size=(6.4, 4.0))
    for c, colour in enumerate(colours):
        ax.plot(*X[model.labels_ == c].T, color=colour, marker=".", ms=4, ls="", alpha=0.6)
    _draw_borders(ax, C)
    ax.plot(
        *C.T, color="white", marker="o", ms=9, mec="black", ls="", label="centre: mean of its cell"
    )
    ax.plot([], [], color="black", lw=1.4, label="equally far from two")
    ax.plot([], [], color=GREY, lw=1, ls=":", label="crossed half way, at a right angle")
    ax.set(xlim=(-edge[0], edge[0]), ylim=(-edge[1], edge[1]), aspect="equal", xticks=[], yticks=[])
    ax.set(xlabel="x₁", ylabel="x₂")
    drawing.legend(loc="outside upper center", ncols=3)
    return drawing


# --- where it starts (CIL20 6.2.1–6.2.2) ------------------------------------------------------------------------------


def _run_to_end(data: Points, start: Array):
    """Lloyd's steps from a start, to their end."""
    return run(LloydAlgorithm(len(start), start), data, stop=Still(0.0) | MaxSteps(100), rng=0)


def _draw_fit(ax, X: Array, start: Array, solution, title: str) -> None:
    C = solution.state.centers
    labels = ((X[:, None] - C) ** 2).sum(axis=2).argmin(axis=1)
    for c, colour in enumerate((BLUE, ORANGE, GREEN)):
        ax.plot(*X[labels == c].T, color=colour, marker=".", ms=3, ls="", alpha=0.6)
        ax.plot(*np.stack([start[c], C[c]]).T, color="black", lw=1)
    ax.plot(*start.T, color="white", marker="s", ms=6, mec="black", ls="", label="start")
    ax.plot(*C.T, color="black", marker="X", ms=9, mec="white", ls="", label="end")
    ax.set(xticks=[], yticks=[], ylim=(-2.5, 3.5), xlabel="x₁", ylabel="x₂", title=title)
    ax.legend(loc="upper left", ncols=2)


@entry("bad-start", "CIL20 Fig. 6.2, Rem. 6.1, 6.2.2")
def bad_start(seed: int = 0):
    """A start that Lloyd's steps cannot repair, and seeding that avoids it.

    A small group on the left that a bad start has no centre for, and a start by greedy D² sampling. Below: the cost of
    both runs beside a proved lower bound for any three centres, and how often three ways to start end near that bound.
    """
    rng = np.random.default_rng(seed)
    middles = np.array([[-7.0, 0.6], [0.0, 0.0], [7.0, 0.0]])
    X, of = make_blobs([30, 300, 300], centers=middles, cluster_std=0.6, random_state=seed)
    data, k, draws = Points.of(X), 3, 200
    seedings = {
        "random rows": random_rows,
        "D² sampling": d2_sampling,
        "greedy D² sampling": greedy_d2_sampling,
    }
    ends = {
        name: [_run_to_end(data, draw(X, k, rng)) for _ in range(draws)]
        for name, draw in seedings.items()
    }
    good = greedy_d2_sampling(X, k, rng)
    bad = np.stack([X[of == 1][0], *X[of == 2][:2]])  # none on the left, two on the right
    freed, trapped = _run_to_end(data, good), _run_to_end(data, bad)
    gap = certified_gap(X, freed.state.centers, rng=rng)
    excess = trapped.state.cost / gap.lower_bound - 1

    drawing, axes = figure(2, 2, size=(4.8, 3.0))
    _draw_fit(
        axes[0, 0],
        X,
        bad,
        trapped,
        f"no start on the left: ends {100 * excess:.0f} % above the best",
    )
    _draw_fit(
        axes[0, 1],
        X,
        good,
        freed,
        f"greedy D² sampling: proved within {100 * max(gap.gap, 1e-4):.2g} % of the best",
    )
    ax = axes[1, 0]
    for solution, colour, mark, name in (
        (trapped, RED, "s", "bad start"),
        (freed, BLUE, "o", "greedy D² start"),
    ):
        ax.plot(solution.trace.objective, color=colour, marker=mark, ms=4, label=name)
        show(
            (np.diff(solution.trace.objective) <= 0).all(), f"the cost never rises from the {name}"
        )
    label = f"no centres cost less ({gap.bound} bound)"
    ax.axhline(gap.lower_bound, color="black", lw=1, ls=":", label=label)
    ax.set(xlabel="step of Lloyd", ylabel="cost", ylim=(0, None))
    ax.legend(loc="center right")

    ax, met = axes[1, 1], []
    for (name, found), colour, style in zip(
        ends.items(), (RED, ORANGE, BLUE), (":", "--", "-"), strict=True
    ):
        ratios = np.sort([solution.state.cost for solution in found]) / gap.lower_bound
        met.append(np.mean(ratios < 1.05))
        x, y = np.r_[1, ratios, 2 * (1 + excess)], np.r_[0, np.arange(1, draws + 1) / draws, 1]
        label = f"{name}: {100 * met[-1]:.0f} % proved within 5 %"
        ax.step(x, y, where="post", color=colour, ls=style, lw=2, label=label)
    ax.set(xlabel="final cost / lower bound", ylabel=f"share of {draws} starts")
    ax.set(xlim=(0.9, 1.2 * (1 + excess)))
    ax.legend(loc="lower right")
    seen = gap.gap < 0.05 < 1 < excess
    show(seen, "the good end is proved to be within 5 % of the best, the bad one costs twice it")
    seen = met[0] < met[1] < met[2]
    show(seen, "D² sampling meets the best more often than random rows, its greedy kind most often")
    return drawing


# --- coresets (CIL20 6.2.3) -------------------------------------------------------------------------------------------


def _far_groups(rng: np.random.Generator) -> Array:
    """Much data in four groups near the origin, and two small groups far away: 20 of 20,000 rows each."""
    near = np.array([[-3.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, -3.0]])
    places = np.concatenate(
        [near[rng.integers(4, size=19_960)], np.repeat([[120.0, 40.0], [-90.0, 110.0]], 20, axis=0)]
    )
    return places + rng.normal(size=places.shape)


def _samples(X: Array, m: int, rng: np.random.Generator) -> dict[str, tuple[Array, Array]]:
    """Rows and weights of an even sample and of a lightweight coreset."""
    coreset = Coreset.of(X).reduced(m, rng)
    return {
        "even sample": (X[rng.choice(len(X), m)], np.full(m, len(X) / m)),
        "lightweight coreset": (coreset.points, coreset.weights),
    }


def _trials(X: Array, k: int, sizes: Array, draws: int, rng: np.random.Generator):
    """ε, the worst over nine sets of centres, and the excess of k-means: {kind of sample: (sizes, draws)} each."""
    data, kinds = Blocks.of(X), ("even sample", "lightweight coreset")
    full = min((_cluster(data, k, rng) for _ in range(5)), key=lambda state: state.cost).centers
    sets = [full] + [draw(X, k, rng) for draw in (random_rows, d2_sampling) for _ in range(4)]
    true = costs(data, sets)
    allowed = (true + costs(data, [X.mean(axis=0)[None]])) / 2
    error, excess = ({kind: np.zeros((len(sizes), draws)) for kind in kinds} for _ in range(2))
    for s, draw in np.ndindex(len(sizes), draws):
        for kind, (rows, weights) in _samples(X, int(sizes[s]), rng).items():
            sample = Blocks.of(rows, weights)
            error[kind][s, draw] = (np.abs(costs(sample, sets) - true) / allowed).max()
            excess[kind][s, draw] = costs(data, [_cluster(sample, k, rng).centers])[0] / true[0] - 1
    return error, excess, len(sets)


def _cluster(data: Blocks, k: int, rng: np.random.Generator):
    return run(LloydAlgorithm(k), Points.of(data), stop=Still(1e-4) | MaxSteps(50), rng=rng).state


@entry("coreset-error", "CIL20 6.2.3, (6.4)")
def coreset_error(seed: int = 0):
    """A lightweight coreset keeps far groups that an even sample loses.

    Samples of m of 20,000 rows, 40 of which lie far away: even ones, and lightweight coresets. Left: the relative error ε
    of the cost of nine sets of centres, with what theory promises. Right: the excess cost, on all rows, of centres
    that k-means finds on the sample. Bands hold 10 to 90 % of 20 draws.
    """
    draws, sizes = 20, np.array([50, 100, 200, 400, 800, 1600, 3200])
    rng = np.random.default_rng(seed)
    X = _far_groups(rng)
    error, excess, candidates = _trials(X, 6, sizes, draws, rng)
    drawing, axes = figure(1, 2, size=(4.8, 3.8))
    for kind, colour, mark in (("even sample", RED, "s"), ("lightweight coreset", BLUE, "o")):
        for ax, table in zip(axes, (error[kind], excess[kind]), strict=True):
            low, middle, high = np.quantile(table, [0.1, 0.5, 0.9], axis=1)
            ax.fill_between(sizes, np.maximum(low, 1e-5), high, color=colour, alpha=0.2, lw=0)
            ax.loglog(sizes, middle, color=colour, marker=mark, lw=2)
            ax.set_xlabel("rows m of the sample")
        label = f"{kind}: median, 10–90 % of {draws} draws"
        axes[0].plot([], [], color=colour, marker=mark, lw=2, label=label)
    median = {kind: np.median(table, axis=1) for kind, table in error.items()}
    root = median["lightweight coreset"][0] * np.sqrt(sizes[0] / sizes)
    axes[0].loglog(sizes, root, color="black", lw=1, ls=":", label="∝ 1/√m")
    # for all of them at once
    promise = np.array([epsilon_for(int(m), 0.05 / candidates) for m in sizes])
    axes[0].loglog(
        sizes, promise, color=GREY, lw=1.5, ls="--", label="promised of the coreset, 95 %"
    )
    axes[0].set_ylabel(f"ε, the worst of {candidates} sets Q of centres")
    axes[0].set_title("error of the cost, ε = |φ_C(Q) − φ_X(Q)| / ½(φ_X(Q) + φ_X(μ))")
    axes[1].set_ylabel("excess cost on all rows (relative)")
    axes[1].set_title(f"k-means on m of {len(X):,} rows, 40 of which lie far away")
    drawing.legend(loc="outside lower center", ncols=4)

    small, core = sizes <= 400, "lightweight coreset"
    show(
        (median[core] < median["even sample"]).all(), "the coreset's error is smaller at every size"
    )
    show((error[core] <= promise[:, None]).mean() >= 0.95, "the promise is kept")
    slope = np.polyfit(np.log(sizes), np.log(median[core]), 1)[0]
    show(-0.65 < slope < -0.35, "the error falls like 1/√m")
    ends = {kind: np.median(table, axis=1)[small] for kind, table in excess.items()}
    seen = (ends[core] < ends["even sample"]).all()
    show(seen, "few rows of a coreset give better centres than few even ones")
    return drawing
