"""Mixtures, drawn (CIL 3.1, CIL20 6.3–6.4): why normal, how EM goes, how many components, and k-means as a limit.

Each entry that draws data takes a seed, since what a figure shows should hold for other draws too.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import entr
from scipy.stats import binom, norm
from sklearn.datasets import make_blobs

from lemmata.atlas import entry, show
from lemmata.clustering.kmeans import KMeans
from lemmata.clustering.seeding import greedy_d2_sampling
from lemmata.core.blocks import Blocks
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, figure
from lemmata.core.loop import MaxSteps, run
from lemmata.mixtures.base import SmallGain
from lemmata.mixtures.choice import Selection, select
from lemmata.mixtures.em import EMAlgorithm
from lemmata.mixtures.estimators import GaussianMixture
from lemmata.mixtures.expectation import elbo, log_of, posterior
from lemmata.mixtures.gaussians.shapes import FullGaussian
from lemmata.mixtures.starting import Given

Array = np.ndarray
_BOX = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8}
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, GREY, "black")


def _mix_colours(R: Array, colours: tuple[str, ...]) -> Array:
    """The colours of components, mixed by memberships R (n, k)."""
    from matplotlib.colors import to_rgb

    return (R @ np.array([to_rgb(colour) for colour in colours])).clip(0, 1)


def _plane(ax, title: str) -> None:
    """Axes without numbers, on which a circle is round."""
    ax.set(xticks=[], yticks=[], xlabel="x₁", ylabel="x₂")
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_title(title)


def _ellipses(ax, means: Array, covariances: Array, colours: Any, sigmas=(1, 2), **style) -> None:
    """Where the components' densities are those of 1σ and 2σ."""
    angle = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for mean, covariance, colour in zip(means, covariances, colours, strict=True):
        for sigma in sigmas:
            ax.plot(
                *(mean[:, None] + sigma * np.linalg.cholesky(covariance) @ circle),
                color=colour,
                **style,
            )


# --- why normal (CIL 3.1.4) -------------------------------------------------------------------------------------------

BERRY_ESSEEN = 0.4748  # of the i.i.d. case (Shevtsova 2011)


def _distance_to_normal(n: int, p: float) -> float:
    """sup |P(Z_n ≤ z) − Φ(z)|, which a step function reaches at one of its jumps, on either side."""
    z = (np.arange(n + 1) - n * p) / np.sqrt(n * p * (1 - p))
    after = binom.cdf(np.arange(n + 1), n, p)
    before = np.concatenate([[0.0], after[:-1]])
    return float(np.maximum(np.abs(after - norm.cdf(z)), np.abs(before - norm.cdf(z))).max())


@entry("central-limit", "CIL Fig. 3.1, (3.16)–(3.19)")
def central_limit():
    """Heads of n coins: the binomial becomes the normal, at the rate 1/√n.

    The distribution of the heads of n coins with p = 0.3, standardised, beside the normal density; and the largest
    distance between the two distribution functions, below the bound of Berry and Esseen and as steep as it.
    """
    p, q, shown = 0.3, 0.7, (4, 16, 64)
    drawing, axes = figure(1, 4, size=(3.1, 3.2), width_ratios=(1, 1, 1, 1.3))
    x = np.linspace(-3.8, 3.8, 300)
    for ax, n in zip(axes, shown, strict=False):
        scale = np.sqrt(n * p * q)
        heads = np.arange(n + 1)
        ax.bar(
            (heads - n * p) / scale,
            binom.pmf(heads, n, p) * scale,
            width=0.9 / scale,
            color=SKY,
            label=f"heads, p = {p}",
        )
        ax.plot(x, norm.pdf(x), color=RED, lw=2, label="N(0, 1)")
        ax.set(xlim=(-3.8, 3.8), ylim=(0, 0.5), xlabel="z = (heads − np) / √(npq)")
        ax.set_title(f"n = {n}")
    axes[0].set_ylabel("density")
    axes[0].legend(loc="upper left")
    numbers = np.unique(np.geomspace(4, 10_000, 25).astype(int))
    distances = np.array([_distance_to_normal(int(n), p) for n in numbers])
    bound = BERRY_ESSEEN * (p**2 + q**2) / np.sqrt(p * q * numbers)  # E|X − p|³ = pq(p² + q²)
    axes[-1].loglog(numbers, distances, color=BLUE, marker="o", ms=4, label="binomial")
    axes[-1].loglog(
        numbers, bound, color="black", lw=1.2, ls="--", label="Berry–Esseen bound ∝ 1/√n"
    )
    axes[-1].set(xlabel="coins n", ylabel="sup |P(Z ≤ z) − Φ(z)|", ylim=(1e-3, 2))
    axes[-1].set_title("distance from the normal")
    axes[-1].legend(loc="upper right")
    slope = np.polyfit(np.log(numbers), np.log(distances), 1)[0]
    show((distances <= bound).all(), "the distance stays below the Berry–Esseen bound")
    show(abs(slope + 0.5) < 0.03, "it falls like 1/√n")
    return drawing


# --- a sample and what EM makes of it (CIL 3.1.5) ---------------------------------------------------------------------


@entry("five-components", "CIL Fig. 3.4, 3.1.5")
def five_components(seed: int = 0):
    """A sample of five Gaussians, and the five that EM finds in it.

    Left: 1,500 points drawn from five Gaussians, coloured by the one each came from. Right: the five that EM finds from
    the points alone (dashed), over the true ones. Ellipses are at 1σ and 2σ, numbers are the weights π.
    """
    means = np.array([[0.0, 0.0], [6.0, 1.0], [1.0, 6.0], [-6.0, 2.0], [-1.0, -6.0]])
    tilts = np.radians([0, 30, -20, 70, 10])
    turns = np.array([[[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]] for t in tilts])
    variances = np.array([[1.0, 1.0], [3.0, 0.5], [2.0, 0.4], [2.5, 0.6], [4.0, 0.5]])
    covariances = turns * variances[:, None] @ turns.transpose(0, 2, 1)
    weights = np.array([0.3, 0.2, 0.2, 0.15, 0.15])
    rng, family = np.random.default_rng(seed), FullGaussian(reg_covar=0.0)
    params, of = family.of(means, covariances), rng.choice(5, size=1500, p=weights)
    X = family.sample(params, of, rng)
    model = GaussianMixture(5, n_init=5, tol=1e-6, max_iter=500, random_state=seed).fit(X)
    _, order = linear_sum_assignment(((means[:, None] - model.means_) ** 2).sum(axis=2))
    found, shapes = model.means_[order], model.covariances_[order]

    drawing, axes = figure(1, 2, size=(4.8, 4.4))
    for j in range(5):
        axes[0].plot(*X[of == j].T, color=COLOURS[j], marker=".", ms=3, ls="", alpha=0.6)
        axes[0].text(
            *means[j], f"{weights[j]:.2f}", ha="center", va="center", fontsize=9, bbox=_BOX
        )
        axes[1].text(
            *found[j],
            f"{model.weights_[order][j]:.2f}",
            ha="center",
            va="center",
            fontsize=9,
            bbox=_BOX,
        )
    _ellipses(axes[0], means, covariances, ["black"] * 5, lw=1)
    axes[1].plot(*X.T, color="#aaaaaa", marker=".", ms=3, ls="", zorder=1)
    _ellipses(axes[1], means, covariances, ["black"] * 5, lw=1)
    _ellipses(axes[1], found, shapes, [RED] * 5, lw=1.6, ls="--")
    axes[0].plot([], [], color="black", lw=1, label="true components, 1σ and 2σ")
    axes[0].plot([], [], color=RED, lw=1.6, ls="--", label="found by EM, 1σ and 2σ")
    axes[0].plot([], [], color="black", marker="$π$", ls="", label="weight, written at the mean")
    drawing.legend(fontsize=9, loc="outside lower center", ncols=3)
    _plane(axes[0], "a sample of five Gaussians, coloured by component")
    _plane(axes[1], "the same sample without its colours, and what EM finds")
    true = posterior(family.log_density(X, params) + np.log(weights))[0].mean()
    off = found - means
    far = np.sqrt(np.einsum("ja,jab,jb->j", off, np.linalg.inv(covariances), off))
    show(model.score(X) >= true, "the maximum likelihood is no smaller than that of the truth")
    show(far.max() < 0.5, "every mean is found to half a standard deviation")
    show(np.abs(model.weights_[order] - weights).max() < 0.05, "every weight to 0.05")
    return drawing


@entry("em-steps", "CIL20 Fig. 6.5, 4.4–4.5, CIL (3.9)–(3.14)")
def em_steps(seed: int = 0):
    """EM on two overlapping clusters, step by step.

    EM with two Gaussians on 500 points, from a poor start. Points have the colours of the components, mixed by their
    memberships; ellipses are at 1σ and 2σ. Last: how far the log-likelihood per row, and the bound that an M-step raises,
    are below the likelihood where EM ends; every step brings both nearer.
    """
    rng, family = np.random.default_rng(seed), FullGaussian(reg_covar=0.0)
    shapes = np.array([[[0.6, -0.5], [-0.5, 1.2]], [[0.9, 0.4], [0.4, 0.5]]])
    true = family.of(np.array([[-1.1, -0.6], [1.1, 0.6]]), shapes)
    X = family.sample(true, (rng.random(500) < 0.4).astype(int), rng)
    data = Blocks.of(X)
    start = {"means": np.array([[-1.5, 2.0], [1.5, -2.0]]), "precisions": np.array([np.eye(2)] * 2)}
    algorithm = EMAlgorithm(family, 2, Given(np.array([0.5, 0.5]), start))
    states = [algorithm.init(data, rng)]
    rule, keep = SmallGain(1e-6) | MaxSteps(300), lambda solution: states.append(solution.state)
    run(algorithm, data, stop=rule, callbacks=[keep], start=states[0])
    reached = np.array([state.log_likelihood for state in states])
    bounds = np.array(
        [
            elbo(family, b.params, b.weights, data, (a.params, a.weights))
            for a, b in pairwise(states)
        ]
    )

    steps = [0, 1, 3, 10, len(states) - 1]
    drawing, axes = figure(2, 3, size=(3.5, 3.2))
    for ax, step in zip(axes.flat, steps, strict=False):
        state = states[step]
        R = posterior(family.log_density(X, state.params) + log_of(state.weights))[1]
        ax.scatter(*X.T, c=_mix_colours(R, COLOURS[:2]), s=8, linewidths=0)
        _ellipses(ax, state.params.means, state.params.covariances, ["black"] * 2, lw=3)
        _ellipses(ax, state.params.means, state.params.covariances, COLOURS[:2], lw=1.6)
        ax.plot(*state.params.means.T, color="black", marker="X", ms=8, mec="white", ls="")
        ax.plot([-4, 4], [-4, 4], ls="")  # the same view in all
        _plane(ax, f"{f'step {step}' if step else 'start'}: ℓ/n = {reached[step]:.3f}")
    ax = axes.flat[-1]
    end = run(algorithm, data, stop=SmallGain(1e-13) | MaxSteps(3000), start=states[-1]).state
    still = end.log_likelihood - reached, end.log_likelihood - bounds
    ax.semilogy(still[0], color=BLUE, marker="o", ms=4, label="log-likelihood ℓ/n")
    middle = np.arange(len(bounds)) + 0.5
    ax.semilogy(middle, still[1], color=ORANGE, marker="^", ms=4, ls="", label="bound after M")
    ax.set(xlabel="step", ylabel="distance from where EM ends (nats)")
    ax.set_title("each step raises both")
    ax.legend(loc="upper right")
    slack = 1e-12 * np.abs(reached).max()  # rounding
    show((np.diff(reached) >= -slack).all(), "the log-likelihood never falls")
    show(
        (bounds >= reached[:-1] - slack).all(), "M raises the bound above the likelihood before it"
    )
    show(
        (bounds <= reached[1:] + slack).all(), "and E closes the gap that is left below the new one"
    )
    return drawing


# --- how many (CIL20 6.4) ---------------------------------------------------------------------------------------------


def _choose(axes, X: Array, seed: int) -> Selection:
    """The sample with the ellipses of the best model, and both criteria."""
    path = select(X, range(1, 9), random_state=seed)
    best = path.best
    axes[0].scatter(
        *X.T, c=_mix_colours(best.predict_proba(X), COLOURS[: path.best_k]), s=8, linewidths=0
    )
    _ellipses(axes[0], best.means_, best.covariances_, ["black"] * path.best_k, lw=1.2)
    axes[0].plot([], [], color="black", lw=1.2, label="1σ and 2σ")
    axes[0].legend(loc="best")
    path.plot(axes[1])
    return path


@entry("choose-k", "CIL20 Fig. 6.7–6.8")
def choose_k(seed: int = 0):
    """Information criteria turn upwards past the number of clusters.

    Samples of three and of five clusters with the mixture that has the least BIC (left), and both criteria for 1 to 8
    components (right). Rings mark the least; AIC charges less for a component than BIC does.
    """
    samples = {
        3: make_blobs(
            [150] * 3,
            centers=[[-4, 0], [0, 3], [4, -1]],
            cluster_std=[0.8, 1.0, 1.2],
            random_state=seed,
        ),
        5: make_blobs(
            [120] * 5, centers=[[-6, 0], [-1, 4], [0, -4], [5, 3], [6, -3]], random_state=seed
        ),
    }
    drawing, axes = figure(2, 2, size=(4.6, 3.3))
    for line, (k, (X, _)) in zip(axes, samples.items(), strict=True):
        path = _choose(line, X, seed)
        _plane(line[0], f"{k} clusters; the best by BIC has {path.best_k} components")
        show(path.best_k == k, f"BIC is least at {k} components")
        seen = path.k[np.argmin(path.aic)] >= k
        show(seen, "AIC, which charges less for a component, takes no fewer")
    return drawing


# --- no width at all (CIL20 4.3.4) ------------------------------------------------------------------------------------


def _fit_soft(X: Array, start: Array, sigma: float) -> tuple[Array, Array]:
    """Means and memberships where EM with Σ = σ²I ends."""
    k, d = start.shape
    model = GaussianMixture(
        k,
        covariance_type="fixed",
        precisions_init=np.eye(d) / sigma**2,
        means_init=start,
        weights_init=np.full(k, 1 / k),
        tol=1e-9,
        max_iter=1000,
    ).fit(X)
    return model.means_, model.predict_proba(X)


@entry("hard-limit", "CIL20 4.3.4, 6.3, CIL 3.1.5")
def hard_limit(seed: int = 0):
    """As σ → 0, EM's memberships become the labels of k-means.

    EM with all covariances fixed at σ²I, on 600 points around three centres; points have the colours of the components,
    mixed by their memberships, crosses are the means. As σ falls, memberships harden into the labels of k-means; at large σ
    the three means meet and all memberships are alike (CIL 3.1.5 names that limit, by a slip).
    """
    k, colours = 3, COLOURS[:3]
    X, _ = make_blobs(
        [400, 150, 50], centers=[[-2, 0], [2, 0], [0, 3]], cluster_std=1.1, random_state=seed
    )
    start = greedy_d2_sampling(X, k, seed)
    labels = KMeans(k, init=start, tol=0).fit(X).labels_
    sigmas = np.geomspace(0.01, 4, 27)
    memberships = [_fit_soft(X, start, sigma)[1] for sigma in sigmas]
    same = np.array([np.mean(R.argmax(axis=1) == labels) for R in memberships])
    belonging = np.array([R[np.arange(len(X)), labels].mean() for R in memberships])
    entropy = np.array([entr(R).sum(axis=1).mean() for R in memberships])

    drawing, axes = figure(1, 4, size=(3.2, 3.4), width_ratios=(1, 1, 1, 1.4))
    shown = (3.0, 1.0, 0.1)
    for ax, sigma in zip(axes, shown, strict=False):
        means, R = _fit_soft(X, start, sigma)
        ax.scatter(*X.T, c=_mix_colours(R, colours), s=8, linewidths=0)
        ax.plot(*means.T, color="black", marker="X", ms=9, mec="white", ls="")
        together = np.ptp(means, axis=0).max() < 0.1
        _plane(ax, f"σ = {sigma:g}" + (": the three means meet" if together else ""))
    ax = axes[-1]
    name = "mean membership in k-means' cluster"
    ax.semilogx(sigmas, belonging, color=BLUE, marker="o", ms=4, label=name)
    name = "mean entropy of memberships / ln k"
    ax.semilogx(sigmas, entropy / np.log(k), color=ORANGE, marker="s", ms=4, label=name)
    ax.axhline(1 / k, color=GREY, lw=1, ls=":", label="1/k: all memberships alike")
    ax.set(xlabel="σ of the components", ylabel="share", ylim=(-0.03, 1.03))
    ax.set_title("from hard (small σ) to soft")
    ax.legend(loc="center left")
    show(same[0] == 1, "at the smallest σ every row has the label of k-means")
    seen = entropy[0] < 1e-3 < 0.5 * np.log(k) < entropy[-1]
    show(seen, "and memberships are hard there, soft where σ is large")
    return drawing
