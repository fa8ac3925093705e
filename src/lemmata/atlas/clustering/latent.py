"""Clusters and what is hidden, drawn (CIL20 4.3, 6; CIL 3.1; ML Clustering): bounds, steps, weights, elbows, trees, curves."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.datasets import load_iris

from lemmata import AgglomerativeClustering, GaussianMixture, KMeans, LightweightCoreset
from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, RED, SKY, figure

Array = np.ndarray


@entry(
    "em-bound",
    "CIL20 Fig. 4.3–4.6, (4.14); CIL (3.9)–(3.14); ML Expectation-Maximization Algorithm",
    start=(-0.5, 2.0),
)
def em_bound(start: float = 0.5, seed: int = 0):
    """EM climbs on bounds: each touches the likelihood where it was made, and its top is the next place.

    Sixty points from two normal laws at −μ and μ (truth 1.2); the log-likelihood over μ. Left: the first three bounds L(q, μ),
    each with its maximum. Right: at those places, ln p as the bound and the divergence KL(q ‖ p) above it: the E-step
    makes it 0, the M-step opens it. The parameter is where EM starts.
    """
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(60) < 0.5, -1.2, 1.2) + rng.standard_normal(60)

    def joint(mu: float) -> Array:
        return np.stack([norm.logpdf(x, -mu), norm.logpdf(x, mu)]) + np.log(0.5)

    def likelihood(mu: float) -> float:
        return float(logsumexp(joint(mu), axis=0).sum())

    def posterior(mu: float) -> Array:
        return np.exp(joint(mu) - logsumexp(joint(mu), axis=0))

    def lower_bound(q: Array, mu: float) -> float:
        return float(np.sum(q * (joint(mu) - np.log(np.maximum(q, 1e-300)))))

    grid = np.linspace(-0.8, 3.6, 150)
    drawing, (left, right) = figure(1, 2, size=(4.8, 3.5))
    heights = np.array([likelihood(m) for m in grid])
    left.plot(grid, heights, color=RED, lw=2, label="ln p(x; μ)")
    places, parts = [start if abs(start) > 0.05 else 0.05], []
    for t, colour in enumerate((BLUE, GREEN, ORANGE)):
        old = places[-1]
        q = posterior(old)
        curve = np.array([lower_bound(q, m) for m in grid])
        new = float(np.mean(x * (q[1] - q[0])))
        left.plot(grid, curve, color=colour, lw=1.2, label=f"bound after E-step {t + 1}")
        left.plot(old, lower_bound(q, old), color=colour, marker="o", ls="")
        left.plot(new, lower_bound(q, new), color=colour, marker="^", ls="")
        parts += [
            (f"E {t + 1}", lower_bound(q, old), likelihood(old)),
            (f"M {t + 1}", lower_bound(q, new), likelihood(new)),
        ]
        show((curve <= heights + 1e-9).all(), "no bound lies above the likelihood")
        show(abs(lower_bound(q, old) - likelihood(old)) < 1e-9, "each touches it where it was made")
        show(lower_bound(q, new) >= curve.max() - 1e-9, "the M-step finds the top of the bound")
        show(likelihood(new) >= likelihood(old) - 1e-9, "the likelihood never falls")
        places.append(new)
    left.set(
        xlabel="μ",
        ylabel="nats",
        ylim=(heights.max() - 60, heights.max() + 6),
        title="bounds and their tops (△)",
    )
    left.legend(fontsize=7, loc="lower right")
    low = min(part[1] for part in parts) - 3
    place = np.arange(len(parts))
    bounds, tops = (np.array([part[i] for part in parts]) for i in (1, 2))
    right.bar(place, bounds - low, bottom=low, color=SKY, label="L(q, μ)")
    right.bar(place, tops - bounds, bottom=bounds, color=ORANGE, label="KL(q ‖ p)")
    right.set_xticks(place, [part[0] for part in parts])
    right.set(ylabel="ln p(x; μ)", title="bound and divergence")
    right.legend(loc="upper left")
    return drawing


@entry("kmeans-steps", "CIL20 Fig. 6.3; ML K-means Algorithm, Convergence", k=(2, 4))
def kmeans_steps(k: int = 2, seed: int = 0):
    """Labels, means, labels, means: each step lowers the cost until nothing moves.

    Petals of 150 irises. Crosses: centres; colours: the nearest of them. The first three rounds from a bad start, and the cost
    after each half-step (squares: new labels, circles: new means). The parameter is the number of centres.
    """
    X = load_iris().data[:, 2:]
    rng = np.random.default_rng(seed)
    centers = X[rng.choice(len(X), k, replace=False)] * [0.5, 1] + [0.5, 0.0]
    drawing, axes = figure(1, 4, size=(2.9, 3.1))
    colours, marks = (BLUE, ORANGE, GREEN, RED), "o^sv"
    costs = []
    for t in range(20):
        D = ((X[:, None] - centers) ** 2).sum(axis=2)
        labels = D.argmin(axis=1)
        costs.append(D.min(axis=1).sum())
        means = np.array(
            [X[labels == j].mean(axis=0) if (labels == j).any() else centers[j] for j in range(k)]
        )
        if t < 3:
            for j in range(k):
                axes[t].plot(
                    *X[labels == j].T, color=colours[j], marker=marks[j], ms=3, ls="", alpha=0.6
                )
                axes[t].annotate("", means[j], centers[j], arrowprops={"arrowstyle": "->"})
                axes[t].plot(*centers[j], color="black", marker="X", ms=9, ls="", mec="white")
            axes[t].set(
                xlabel="petal length",
                ylabel="petal width",
                title=f"round {t + 1}",
                xlim=(0, 7.5),
                ylim=(-0.2, 2.8),
            )
        costs.append(((X - means[labels]) ** 2).sum())
        centers = means
    half = np.arange(len(costs)) / 2
    axes[3].plot(half, costs, color=GREY, lw=0.8)
    axes[3].plot(half[::2], costs[::2], color=BLUE, marker="s", ms=4, ls="", label="labels")
    axes[3].plot(half[1::2], costs[1::2], color=ORANGE, marker="o", ms=4, ls="", label="means")
    axes[3].set(xlabel="round", ylabel="cost", yscale="log")
    axes[3].legend()
    show((np.diff(costs) <= 1e-9).all(), "no half-step raises the cost")
    show(np.ptp(costs[-3:]) < 1e-9, "at the end nothing moves")
    ours = KMeans(k, init=centers, n_init=1).fit(X)
    show(
        np.allclose(ours.cluster_centers_, centers),
        "and the library's k-means agrees that it is over",
    )
    return drawing


@entry("coreset-weights", "CIL20 Fig. 6.4, 6.2.3", size=(10, 80))
def coreset_weights(size: int = 40, seed: int = 0):
    """A coreset draws what lies far out more often, and counts it less.

    Three hundred points and the rows that a lightweight coreset keeps; circles show their weights. Right: the probability of a
    draw is half even, half by the squared distance to the mean (cross); the weight is its inverse, so that costs are right
    on average. The parameter is the number of draws.
    """
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(0, 1, (280, 2)), rng.normal([6, 4], 0.6, (20, 2))])
    model = LightweightCoreset(size, random_state=seed).fit(X)
    rows, weights = np.asarray(model.points_), np.asarray(model.weights_)
    mean = X.mean(axis=0)
    far = ((X - mean) ** 2).sum(axis=1)
    p = 0.5 / len(X) + 0.5 * far / far.sum()
    drawing, (left, right) = figure(1, 2, size=(4.6, 3.6))
    left.plot(*X.T, color=GREY, marker=".", ms=3, ls="")
    left.scatter(
        *rows.T, s=8 * weights, facecolors="none", edgecolors=BLUE, label="kept; area: weight"
    )
    left.plot(*mean, color=RED, marker="x", ms=9, ls="", mew=2, label="mean")
    left.set(xlabel="x₁", ylabel="x₂", title=f"{len(rows)} of 300 rows")
    left.legend(loc="upper left")
    away = np.sqrt(((rows - mean) ** 2).sum(axis=1))
    right.plot(
        np.sort(np.sqrt(far)), np.sort(p) * 300, color=ORANGE, label="probability of a draw × n"
    )
    right.plot(
        away,
        weights / weights.max(),
        color=BLUE,
        marker="o",
        ms=4,
        ls="",
        label="weight, of the largest",
    )
    right.set(xlabel="distance to the mean", ylim=(0, None))
    right.legend()
    share = np.array([p[np.abs(X - r).sum(axis=1).argmin()] for r in rows])
    times = weights * size * share
    show(
        np.allclose(times, np.round(times), atol=1e-6),
        "the weight is the number of draws by size × probability",
    )
    center = X[[0, 290]]
    exact = ((X[:, None] - center) ** 2).sum(axis=2).min(axis=1).sum()
    costs = [float(LightweightCoreset(size, random_state=s).fit(X).cost(center)) for s in range(40)]
    error = np.std(costs) / np.sqrt(40)
    show(
        abs(np.mean(costs) - exact) < 4 * error,
        "over forty coresets the cost of two centres is right on average",
    )
    show(
        p[280:].mean() > 2 * p[:280].mean(),
        "a row of the small, far group is drawn more than twice as often",
    )
    return drawing


@entry("likelihood-elbow", "CIL20 6.4, Fig. 6.6; ML Choosing K", groups=(2, 5))
def likelihood_elbow(groups: int = 3, seed: int = 0):
    """On the rows it was fitted to, every further component helps: the likelihood cannot say how many there are.

    Minus the log-likelihood of Gaussian mixtures with 1 to 8 components, on 300 points of a few groups: on these rows, and on
    as many new ones, where it stops falling. Right: the points. The parameter is the number of groups.
    """
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(groups) / groups
    centres = 4 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    draw = lambda n: centres[rng.integers(groups, size=n)] + rng.standard_normal((n, 2))  # noqa: E731
    X, new = draw(300), draw(300)
    ks = np.arange(1, 9)
    models = [GaussianMixture(int(k), n_init=3, random_state=0, tol=1e-4).fit(X) for k in ks]
    own, other = (np.array([-300 * m.score(rows) for m in models]) for rows in (X, new))
    drawing, (left, right) = figure(1, 2, size=(4.6, 3.3), width_ratios=(1.4, 1))
    left.plot(ks, own, color=BLUE, marker="o", label="the rows it was fitted to")
    left.plot(ks, other, color=ORANGE, marker="s", ls="--", label="new rows")
    left.axvline(groups, color="black", lw=0.8, ls=":")
    left.set(xlabel="components K", ylabel="−ln likelihood", title=f"{groups} groups")
    left.legend()
    right.plot(*X.T, color=BLUE, marker=".", ms=3, ls="")
    right.set(xlabel="x₁", ylabel="x₂", aspect="equal")
    steps = -np.diff(own)
    show(
        own[-1] < own[groups - 1],
        "with the most components the rows are likelier than with the true number",
    )
    show(
        steps[: groups - 1].mean() > 5 * steps[groups - 1 :].mean(),
        "beyond the true number each gains less than a fifth of before",
    )
    show(other[-1] > other.min(), "on new rows the most components are not the best")
    return drawing


@entry("dendrogram", "ML Examples for Representation Learning", clusters=(2, 6))
def dendrogram(clusters: int = 3):
    """A tree of merges has every clustering in it: cut it where you like.

    Thirty irises, ten of each kind, merged by mean distances; colours are their kinds. Heights never fall on the way up.
    Right: distances in the tree (where two rows meet) against distances of the rows, for two linkages. Merging by the
    closest rows chains. The parameter is the number of clusters that the line cuts.
    """
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import pdist

    data = load_iris()
    kept = np.r_[0:10, 50:60, 100:110]
    X, y = data.data[kept], data.target[kept]
    drawing, (left, right) = figure(1, 2, size=(4.9, 3.7), width_ratios=(1.5, 1))
    found = {}
    for linkage, colour, mark in (("average", BLUE, "o"), ("single", ORANGE, "^")):
        model = AgglomerativeClustering(clusters, linkage=linkage, compute_distances=True).fit(X)
        Z = model.linkage_matrix_
        r, meets = hierarchy.cophenet(Z, pdist(X))
        found[linkage] = model, Z, r
        right.plot(
            pdist(X),
            meets,
            color=colour,
            marker=mark,
            ms=2,
            ls="",
            label=f"{linkage}: correlation {r:.2f}",
        )
        show((np.diff(Z[:, 2]) >= 0).all(), f"{linkage}: heights never fall")
    model, Z, _ = found["average"]
    tree = hierarchy.dendrogram(
        Z, ax=left, color_threshold=0, above_threshold_color=GREY, no_labels=True
    )
    for kind, colour in enumerate((BLUE, ORANGE, GREEN)):
        at = [i for i, leaf in enumerate(tree["leaves"]) if y[leaf] == kind]
        left.plot(
            10 * np.array(at) + 5,
            np.full(len(at), -0.12),
            color=colour,
            marker="s",
            ms=5,
            ls="",
            label=data.target_names[kind],
        )
    cut = (Z[-clusters, 2] + Z[-clusters + 1, 2]) / 2
    left.axhline(cut, color=RED, ls="--", lw=1, label=f"{clusters} clusters")
    left.set(ylabel="distance of the merge", ylim=(-0.25, None), title="mean linkage of 30 irises")
    left.legend(fontsize=7)
    right.set(xlabel="distance of two rows", ylabel="height where they meet")
    right.legend()
    by_line = hierarchy.fcluster(Z, cut, "distance")
    same = lambda labels: np.equal.outer(labels, labels)  # noqa: E731
    show(
        np.array_equal(same(by_line), same(model.labels_)),
        "the line cuts the clusters of the model",
    )
    show(
        found["average"][2] > found["single"][2],
        "the tree of mean distances follows the distances of the rows better",
    )
    return drawing


@entry("ellipse-fit", "CIL Fig. 3.2, (3.20)", noise=(0.0, 0.3))
def ellipse_fit(noise: float = 0.15, seed: int = 0):
    """Least squares fits an ellipse, too: by the distance to its nearest point.

    Forty points near an ellipse. The nearest point of the ellipse to each, then the ellipse nearest to those, and again.
    Dashed: what errors in y alone would give, a parabola through the upper half. Right: the sum of squared distances
    after each round. The parameter is the noise.
    """
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 2 * np.pi, 40)
    truth = np.array([0.5, -0.3, 2.0, 1.0, 0.5])  # centre, half axes, turn

    def place(p: Array, t: Array) -> Array:
        c, s = np.cos(p[4]), np.sin(p[4])
        return p[:2] + np.stack([p[2] * np.cos(t), p[3] * np.sin(t)], axis=1) @ np.array(
            [[c, s], [-s, c]]
        )

    X = place(truth, t) + noise * rng.standard_normal((40, 2))
    fine = np.linspace(0, 2 * np.pi, 2000)
    p = np.array([*X.mean(axis=0), 1.6, 1.2, 0.2])
    costs = []
    for _ in range(60):
        curve = place(p, fine)
        near = fine[((X[:, None] - curve) ** 2).sum(axis=2).argmin(axis=1)]  # nearest points
        r = (X - place(p, near)).ravel()
        costs.append(float(r @ r))
        J = np.stack(
            [(place(p + 1e-6 * e, near) - place(p, near)).ravel() / 1e-6 for e in np.eye(5)], axis=1
        )
        ahead = place(p, near + 1e-6) - place(p, near)  # along the curve
        across = np.stack([-ahead[:, 1], ahead[:, 0]], axis=1)
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        J = np.einsum(
            "nik,ni->nk", J.reshape(40, 2, 5), across
        )  # only what moves the curve towards the points
        step = np.linalg.lstsq(J, np.sum((X - place(p, near)) * across, axis=1), rcond=None)[0]
        p = p + step * min(1, 0.5 / max(np.abs(step).max(), 1e-12))
    drawing, (left, right) = figure(1, 2, size=(4.5, 3.6), width_ratios=(1.4, 1))
    left.plot(*place(truth, fine).T, color=GREY, lw=1, label="truth")
    left.plot(*place(p, fine).T, color=BLUE, lw=2, label="fitted")
    for x, foot in zip(X, place(p, near), strict=True):
        left.plot(*np.stack([x, foot], axis=1), color=ORANGE, lw=1)
    left.plot(*X.T, color="black", marker=".", ls="", label="points")
    up = X[:, 1] > -0.3
    parabola = np.polynomial.Polynomial.fit(X[up, 0], X[up, 1], 2)
    left.plot(*parabola.linspace(50), color=RED, ls="--", lw=1, label="parabola, errors in y")
    left.set(xlabel="x", ylabel="y", aspect="equal", title="distance to the nearest point")
    left.legend(fontsize=7, loc="lower right")
    right.semilogy(np.maximum(costs, 1e-12), color=BLUE)
    right.set(xlabel="round", ylabel="sum of squared distances")
    axes = np.sort(np.abs(p[2:4]))
    show(costs[-1] <= min(costs) * 1.01 + 1e-9, "the rounds end at their lowest cost")
    show(np.abs(axes - [1.0, 2.0]).max() < 0.05 + noise, "both half axes are found")
    show(np.abs(p[:2] - truth[:2]).max() < 0.05 + noise, "and the centre")
    return drawing
