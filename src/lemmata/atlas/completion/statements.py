"""Means, pairs of vectors, ranks and random entries, drawn: exercises and statements of CIL 2."""

from __future__ import annotations

import numpy as np

from lemmata.atlas import entry, show
from lemmata.completion.recovery import coherence, rank_squared_bound, sampling_bound
from lemmata.core.certification.pictures import BLUE, GREY, ORANGE, RED, SKY, figure

Array = np.ndarray


@entry("centring-by-products", "CIL Ex. 2.1, (2.3)–(2.7)")
def centring_by_products(seed: int = 0):
    """Centring is a projection: one matrix product takes the means off, but only where nothing is missing.

    Ratings of 8 people (rows) for 6 films; A(I − 11ᵀ/m), whose rows have mean 0; (I − 11ᵀ/n)A, whose columns have; and
    both. Right: entries are missing: the product with missing ones as 0 leaves means behind, centring by the means of what
    is known does not.
    """
    rng = np.random.default_rng(seed)
    A = np.clip(
        np.round(3 + rng.normal(0, 1, (8, 1)) + rng.normal(0, 0.7, 6) + rng.normal(0, 0.6, (8, 6))),
        1,
        5,
    )
    rows, columns = np.eye(6) - 1 / 6, np.eye(8) - 1 / 8
    drawing, axes = figure(1, 5, size=(2.5, 3.3), width_ratios=(1, 1, 1, 1, 1.7))
    shown = {
        "A": A,
        "A(I − 11ᵀ/m)": A @ rows,
        "(I − 11ᵀ/n)A": columns @ A,
        "both": columns @ A @ rows,
    }
    for ax, (name, M) in zip(axes, shown.items(), strict=False):
        picture = ax.imshow(M, cmap="RdBu_r", vmin=-5, vmax=5)
        for (i, j), value in np.ndenumerate(M):
            ax.text(j, i, f"{value:.1f}".removesuffix(".0"), ha="center", va="center", fontsize=6)
        ax.set(xticks=[], yticks=[], title=name)
    drawing.colorbar(picture, ax=axes[3], shrink=0.7)
    known = rng.random(A.shape) < 0.6
    zeros = np.where(known, A, 0) @ rows
    means = np.where(known, A, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    left = {
        "product, missing as 0": [zeros[i, known[i]].mean() for i in range(8)],
        "means of what is known": [(A - means[:, None])[i, known[i]].mean() for i in range(8)],
    }
    for (name, found), colour, mark in zip(left.items(), (RED, BLUE), "so", strict=True):
        axes[4].plot(np.arange(1, 9), found, color=colour, marker=mark, ls="", label=name)
    axes[4].axhline(0, color="black", lw=0.8)
    axes[4].set(xlabel="row", ylabel="mean of its known entries", title="60 % known: what is left")
    axes[4].legend()
    show(np.abs((A @ rows).mean(axis=1)).max() < 1e-12, "the first product leaves rows of mean 0")
    show(np.abs((columns @ A).mean(axis=0)).max() < 1e-12, "the second leaves columns of mean 0")
    show(
        np.allclose(rows @ rows, rows) and np.allclose(rows, rows.T),
        "each factor is an orthogonal projection",
    )
    show(
        np.abs(next(iter(left.values()))).max() > 0.3,
        "with entries missing the product leaves means behind",
    )
    show(np.abs(list(left.values())[1]).max() < 1e-12, "means over known entries do not")
    return drawing


@entry("rank-one-scale", "CIL Ex. 2.3, Ex. 2.5, (2.15)–(2.26)")
def rank_one_scale(seed: int = 0):
    """The best pair of vectors points along the singular vectors, and Av says how long it has to be.

    Left: the gradients Rv and Rᵀu at a random point, against differences of the objective. Middle: u ← Av/‖Av‖,
    v ← Aᵀu/‖Aᵀu‖ from a random start: the angle to the leading singular vectors falls by (σ₂/σ₁)² per round. Right: the
    error of s·uvᵀ by its length s; the minimum is at ‖Av‖ = σ₁, and v stays a unit vector.
    """
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((12, 2)) @ np.diag([3.0, 1.5]) @ rng.standard_normal(
        (2, 9)
    ) + 0.3 * rng.standard_normal((12, 9))
    loss = lambda u, v: np.sum((np.outer(u, v) - A) ** 2) / 2  # noqa: E731
    u, v = rng.standard_normal(12), rng.standard_normal(9)
    R, h = np.outer(u, v) - A, 1e-5
    by_formula = np.append(R @ v, R.T @ u)
    by_difference = np.append(
        [(loss(u + h * e, v) - loss(u - h * e, v)) / (2 * h) for e in np.eye(12)],
        [(loss(u, v + h * e) - loss(u, v - h * e)) / (2 * h) for e in np.eye(9)],
    )
    U, s, Vt = np.linalg.svd(A)
    drawing, axes = figure(1, 3, size=(3.4, 3.2))
    ends = np.array([by_formula.min(), by_formula.max()])
    axes[0].plot(ends, ends, color=GREY, lw=1)
    axes[0].plot(by_formula, by_difference, color=BLUE, marker="o", ms=4, ls="")
    axes[0].set(xlabel="Rv, Rᵀu", ylabel="difference of the objective", title="gradients")
    v, far = v / np.linalg.norm(v), []
    for _ in range(12):
        u = A @ v / np.linalg.norm(A @ v)
        v = A.T @ u / np.linalg.norm(A.T @ u)
        far.append(np.sqrt(max(1 - (v @ Vt[0]) ** 2, 1e-32)))
    t = np.arange(12)
    axes[1].semilogy(t, far, color=BLUE, marker="o", ms=4, label="sine of the angle to v₁")
    axes[1].semilogy(
        t, far[0] * (s[1] / s[0]) ** (2.0 * t), color="black", ls=":", label="(σ₂/σ₁)²ᵗ"
    )
    axes[1].set(xlabel="round", title="alternating rounds")
    axes[1].legend()
    u, v = U[:, 0], Vt[0]
    lengths = np.linspace(0, 2 * s[0], 101)
    axes[2].plot(lengths, [loss(x * u, v) for x in lengths], color=BLUE)
    best = np.linalg.norm(A @ v)
    axes[2].axvline(best, color=ORANGE, label=f"‖Av‖ = {best:.2f} = σ₁")
    axes[2].set(xlabel="length s", ylabel="½‖A − s·uvᵀ‖²", title="how long")
    axes[2].legend()
    show(
        np.allclose(by_formula, by_difference, rtol=1e-4, atol=1e-4),
        "the formula gives the gradients",
    )
    show(abs(best - s[0]) < 1e-10, "‖Av‖ is the largest singular value")
    show(loss(best * u, v) <= min(loss(x * u, v) for x in lengths) + 1e-12, "and the best length")
    show(far[-1] < 1e-2 * far[0] or far[-1] < 1e-6, "alternating rounds find the leading pair")
    return drawing


@entry("rank-envelope", "CIL Thm 2.5.2, Prop. 2.5.1; CIL20 3.4.3", k=(1, 3))
def rank_envelope(k: int = 2, seed: int = 0):
    """The nuclear norm lies below the rank, and no convex function lies higher.

    Matrices 4 × 4 of norm at most 1. Left: nuclear norm and rank of 400 random ones; all below the diagonal, so that
    rank ≤ k implies ‖A‖_* ≤ k, not the reverse: points below the line and right of k. Right: along diag(t, 0, 0, 0) the
    rank jumps, the nuclear norm is the chord: a convex function below the rank cannot be above it. The parameter is k.
    """
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(400):
        r = rng.integers(1, 5)
        M = rng.standard_normal((4, r)) @ rng.standard_normal((r, 4))
        M *= rng.uniform(0.2, 1) / np.linalg.norm(M, 2)
        found.append((np.linalg.matrix_rank(M), np.linalg.norm(M, "nuc")))
    ranks, norms = np.array(found).T
    drawing, (left, right) = figure(1, 2, size=(4.4, 3.3))
    extra = (norms <= k) & (ranks > k)
    for at, colour, name in ((~extra, BLUE, "others"), (extra, ORANGE, f"‖A‖_* ≤ {k}, rank > {k}")):
        left.plot(
            ranks[at] + rng.uniform(-0.15, 0.15, at.sum()),
            norms[at],
            color=colour,
            marker=".",
            ls="",
            label=name,
        )
    left.plot([0.5, 4.2], [0.5, 4.2], color="black", lw=1, label="‖A‖_* = rank")
    left.axhline(k, color=GREY, ls=":")
    left.set(xlabel="rank", ylabel="nuclear norm", xticks=(1, 2, 3, 4), title="‖A‖₂ ≤ 1")
    left.legend()
    t = np.linspace(-1, 1, 201)
    right.plot(
        t, (np.abs(t) > 1e-9).astype(float), color=ORANGE, drawstyle="steps-mid", label="rank"
    )
    right.plot(t, np.abs(t), color=BLUE, label="nuclear norm")
    right.plot(t, t**2, color=GREY, ls="--", label="‖A‖_F², convex and lower")
    right.set(xlabel="t", title="along diag(t, 0, 0, 0)")
    right.legend()
    show((norms <= ranks + 1e-9).all(), "no nuclear norm is above the rank")
    show(extra.any(), f"the ball ‖A‖_* ≤ {k} has matrices of higher rank, too")
    show((norms[ranks <= k] <= k + 1e-9).all(), f"it has all of rank ≤ {k}")
    show(
        (t**2 <= np.abs(t) + 1e-12).all(),
        "the chord from 0 to 1 is the highest convex function below the rank",
    )
    return drawing


@entry("coupon-collector", "CIL 2.6.2, (2.44), (2.45)", n=(20, 300))
def coupon_collector(n: int = 100, seed: int = 0):
    """To see every row once at random costs ln n times what it costs in order.

    Left: how many random entries it takes until each of n rows has one, in 2,000 trials, with the mean n·H_n of theory; with n
    entries in order it would be done. Right: the mean by n, and how much of the last waits is for the last row: n draws. The
    parameter is n.
    """
    rng = np.random.default_rng(seed)

    def collect(n: int, trials: int) -> Array:
        """The draws until all n are there: a sum of geometric waits."""
        return rng.geometric((n - np.arange(n)) / n, (trials, n)).sum(axis=1)

    harmonic = lambda n: n * np.sum(1 / np.arange(1, n + 1))  # noqa: E731
    found = collect(n, 2000)
    drawing, (left, right) = figure(1, 2, size=(4.5, 3.3))
    left.hist(found / n, bins=40, color=SKY)
    left.axvline(found.mean() / n, color=BLUE, label=f"mean {found.mean() / n:.2f} n")
    left.axvline(
        harmonic(n) / n, color=ORANGE, ls="--", label=f"theory H_n = {harmonic(n) / n:.2f}"
    )
    left.axvline(1, color="black", ls=":", label="in order")
    left.set(xlabel="entries drawn / n", ylabel="trials", title=f"{n} rows")
    left.legend()
    sizes = np.array([10, 30, 100, 300, 1000])
    means = np.array([collect(size, 400).mean() for size in sizes])
    right.loglog(sizes, means, color=BLUE, marker="o", label="mean of 400 trials")
    right.loglog(sizes, [harmonic(size) for size in sizes], color=ORANGE, ls="--", label="n·H_n")
    right.loglog(sizes, sizes, color="black", ls=":", label="n, in order")
    right.set(xlabel="n", ylabel="entries until all rows are seen")
    right.legend()
    error = found.std() / np.sqrt(len(found))
    show(
        abs(found.mean() - harmonic(n)) < 4 * error,
        "the mean is n·H_n, within four standard errors",
    )
    show(np.abs(means / [harmonic(size) for size in sizes] - 1).max() < 0.05, "for all n")
    direct = [len(set(rng.integers(0, n, int(harmonic(n) + 4 * n)))) == n for _ in range(50)]
    show(np.mean(direct) > 0.9, "n·H_n + 4n drawn rows have seen them all in most trials")
    return drawing


@entry("typical-coherence", "CIL20 Thm 3.7; CIL (2.47), Thm 2.6.1; Candès & Tao 2010", k=(5, 20))
def typical_coherence(k: int = 10, seed: int = 0):
    """Random subspaces have a coherence of some √ln n, not √n; else a theorem would ask for more entries than there are.

    Left: μ of n × n matrices with k random factors, means of up to 20 draws: the largest of 2n² numbers that are nearly
    normal if k is large, so √(2 ln n²) or a little more. Right: how many entries two theorems ask for with μ = 2√ln n, both
    with C = 1, as a share of the n² there are; with μ = √n the first never asks for fewer than all. The parameter is k.
    """
    rng = np.random.default_rng(seed)
    sizes = np.array([50, 100, 200, 400, 800])
    mu = [
        np.mean([coherence(*rng.standard_normal((2, n, k))).mu for _ in range(min(20, 1600 // n))])
        for n in sizes
    ]
    drawing, (left, right) = figure(1, 2, size=(4.6, 3.4))
    left.semilogx(sizes, mu, color=BLUE, marker="o", label=f"random factors, k = {k}")
    left.semilogx(sizes, 2 * np.sqrt(np.log(sizes)), color=ORANGE, ls="--", label="2√ln n")
    left.semilogx(sizes, np.sqrt(sizes), color="black", ls=":", label="√n")
    left.set(xlabel="n", ylabel="coherence μ")
    left.set_xticks(sizes, [str(n) for n in sizes])
    left.minorticks_off()
    left.legend()
    n = np.logspace(2, 16, 200)
    usual = 2 * np.sqrt(np.log(n))
    asked = {
        "μ⁴k²n ln²n, μ = 2√ln n": (np.vectorize(rank_squared_bound)(n, n, k, usual), BLUE, "-"),
        "μ²kn ln⁶n, μ = 2√ln n": (np.vectorize(sampling_bound)(n, n, k, usual), RED, "-."),
        "μ⁴k²n ln²n, μ = √n": (np.vectorize(rank_squared_bound)(n, n, k, np.sqrt(n)), "black", ":"),
    }
    for name, (entries, colour, style) in asked.items():
        right.loglog(n, entries / n**2, color=colour, ls=style, label=name)
    right.axhline(1, color=GREY, lw=1)
    right.set(xlabel="n", ylabel="entries asked for / n²", ylim=(1e-6, 1e12))
    right.legend()
    first, second, never = (entries / n**2 for entries, _, _ in asked.values())
    slope = np.polyfit(np.log(sizes), np.log(mu), 1)[0]
    show(slope < 0.25, f"μ grows like the {slope:.2f}th power of n, not the half")
    ratios = mu / np.sqrt(np.log(sizes))
    show((ratios.min() > 1.5) and (ratios.max() < 4), "it lies between 1.5 and 4 times √ln n")
    show((never >= 1).all(), "with μ = √n more than all entries are asked for, at every n")
    show(first[-1] < second[-1] < 1, "with the typical μ a vanishing share is enough")
    show(second[0] > 1 < first[0], "but of a hundred rows both ask for more than all")
    return drawing
