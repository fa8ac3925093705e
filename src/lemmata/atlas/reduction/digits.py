"""Chapter 1 of the notes, drawn on scikit-learn's digits: choosing a subspace, finding it, and learning it."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREEN, ORANGE, RED, figure, image_grid
from lemmata.linalg.power import power_iteration
from lemmata.linalg.projections import Projection
from lemmata.reduction.autoencoder import LinearAutoencoder
from lemmata.reduction.pca import PCA


def _digits() -> np.ndarray:
    return load_digits().data


def _error(X: np.ndarray, P) -> float:
    """The share of the variance of centred rows that a projection loses."""
    return float(np.sum((X - (P @ X.T).T) ** 2) / np.sum(X**2))


@entry("digits-table", "CIL Example 1.2, Example 1.4")
def digits_table():
    """A subspace taken from the data beats a random one, and PCA beats both.

    The share of the digits' variance that is lost when they are projected onto m directions: drawn at random, taken
    from the data at random (means of ten draws each), or the principal axes. The projection is W = V⁺. The numbers that the
    notes print, 0.68, 0.3958 and 0.2658, come back at m = 20: they are ‖X − VWX‖_F over the number of digits, not a mean of
    squares.
    """
    X = _digits()
    X = X - X.mean(axis=0)
    printed = lambda V: np.sqrt(_error(X, Projection.onto(V)) * np.sum(X**2)) / len(X)  # noqa: E731
    sizes = [1, 2, 5, 10, 20, 30, 40, 50]
    axes = PCA(max(sizes)).fit(X).components_
    kinds: dict[str, list] = {
        "random directions": [],
        "random data points": [],
        "principal axes": [],
    }
    for m in sizes:
        draws = [np.random.default_rng(seed) for seed in range(10)]
        kinds["random directions"].append(
            np.mean([_error(X, Projection.onto(rng.random((64, m)))) for rng in draws])
        )
        kinds["random data points"].append(
            np.mean(
                [
                    _error(X, Projection.onto(X[rng.choice(len(X), m, replace=False)].T))
                    for rng in draws
                ]
            )
        )
        kinds["principal axes"].append(_error(X, Projection(axes[:m].T)))
    drawing, ax = figure(size=(5.6, 3.8))
    for (kind, errors), colour, mark in zip(kinds.items(), (RED, ORANGE, BLUE), "so^", strict=True):
        label = f"{kind}: {errors[sizes.index(10)]:.2f} at m = 10"
        ax.plot(sizes, errors, color=colour, marker=mark, label=label)
    ax.set(xlabel="dimension m of the subspace", ylabel="share of variance lost", ylim=(0, None))
    ax.set_title("1,797 digits of 64 pixels, projected onto m directions")
    ax.legend(fontsize=10)
    drawn, taken, best = (np.array(errors) for errors in kinds.values())
    seen = (best < taken).all() and (taken < drawn).all()
    show(seen, "random directions lose most, data points less, principal axes least")
    show(abs(printed(X[:20].T) - 0.39583375487949624) < 1e-12, "the first 20 digits leave 0.3958")
    show(abs(printed(axes[:20].T) - 0.2658367979102716) < 1e-9, "20 principal axes leave 0.2658")
    random = [printed(np.random.default_rng(seed).random((64, 20))) for seed in range(10)]
    show(min(random) < 0.6805 < max(random), "20 random directions leave about 0.68")
    return drawing


@entry("eigendigits", "CIL Ex. 1.5")
def eigendigits():
    """The principal axes of the digits are strokes.

    Left: the first 15 principal axes of the digits as pictures; red pixels weigh in with one sign, blue ones with the
    other, white ones not at all. Right: the share of the variance along each axis, and along all axes up to it.
    """
    X, k = _digits(), 15
    pca = PCA(k).fit(X)
    drawing, axes = figure(1, 2, size=(5.0, 3.6), width_ratios=(1.15, 1))
    picture = image_grid(
        axes[0],
        pca.components_.reshape(-1, 8, 8),
        columns=5,
        signed=True,
        gap=3,
        names=[str(i) for i in range(1, k + 1)],
    )
    drawing.colorbar(picture, ax=axes[0], label="weight of a pixel", shrink=0.8)
    axes[0].set_title("principal axes 1 to 15", pad=16)
    shares = pca.explained_variance_ratio_
    place = np.arange(1, k + 1)
    axes[1].bar(place, shares, color=BLUE, label="this axis")
    axes[1].plot(place, np.cumsum(shares), color=ORANGE, marker="o", label="all up to this one")
    axes[1].set(xlabel="principal axis", ylabel="share of the variance", ylim=(0, 1))
    axes[1].set_xticks(place[::2])
    axes[1].legend(fontsize=10, loc="upper left")
    show((np.diff(shares) <= 0).all(), "the shares fall")
    show(shares.sum() > 0.8, "15 of 64 directions keep over 80 % of the variance")
    return drawing


@entry("power-rate", "CIL Prop. 1.5.1")
def power_rate():
    """The power method converges at the rate λ₂/λ₁.

    The distance of the power method from an eigenvector, step by step, on 60 × 60 matrices with three ratios of the two
    largest eigenvalues. The dotted lines have the slopes that theory predicts; "measured" is the slope of the second half.
    """
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    drawing, ax = figure(size=(5.2, 3.6))
    for ratio, colour in ((0.5, BLUE), (0.8, ORANGE), (0.95, GREEN)):
        values = np.r_[1.0, ratio * 0.9 ** np.arange(59)]
        A = (basis * values) @ basis.T
        found = power_iteration(A, k=1, tol=1e-11, max_iter=2000, rng=1)
        residual = found.trace.extras["residual"]
        steps = np.arange(len(residual))
        label = f"λ₂/λ₁ = {ratio}: measured {found.measured_rate[0]:.3f}"
        ax.semilogy(steps, residual, color=colour, lw=2, label=label)
        half = len(steps) // 2
        predicted = residual[half] * ratio ** (steps - half)
        ax.semilogy(steps, predicted, color="black", lw=1, ls=":", zorder=3)
        show(abs(found.measured_rate[0] - ratio) < 0.02, f"the measured rate is {ratio}")
    ax.set(xlabel="step", ylabel="residual |Av − θv|", xlim=(0, 160), ylim=(1e-11, 2))
    ax.plot([], [], color="black", lw=1, ls=":", label="predicted slope")
    ax.legend(fontsize=9, loc="center right", bbox_to_anchor=(1, 0.42))
    return drawing


@entry("autoencoder-loss", "CIL 1.5.3")
def autoencoder_loss():
    """The linear autoencoder reaches the PCA optimum, and cannot go below.

    The loss of a linear autoencoder with 10 hidden units, trained on the digits, above the least loss that any has:
    half of the variance beyond the 10 leading directions.
    """
    X = _digits()
    best = _least_loss(X, 10)
    model = LinearAutoencoder(10, random_state=0, tol=0, max_iter=300).fit(X)
    losses = model.trace_.objective
    drawing, ax = figure(size=(5.2, 3.6))
    ax.semilogy(losses / best - 1, color=BLUE, lw=2)
    ax.axhline(0.01, color="black", lw=1, ls=":")
    ax.text(300, 0.012, "1 % above the optimum", ha="right", va="bottom", fontsize=9)
    ax.set(xlabel="step", ylabel="loss above the PCA optimum (relative)")
    ax.set_title("a linear autoencoder of the digits, 64 → 10 → 64")
    show((losses >= best * (1 - 1e-9)).all(), "no loss lies below the tail of the spectrum")
    show(losses[-1] < 1.01 * best, "the last loss is within 1 % of it")
    return drawing


@entry("tied-untied", "CIL Ex. 1.2 (exercise), Ex. 1.4")
def tied_untied():
    """Tying W = Vᵀ makes the basis orthonormal by itself.

    Two linear autoencoders of the digits, 64 → 10 → 64, one with W = Vᵀ. Left: the loss above that of PCA; where the
    line ends, rounding is all that is left. Right: the singular values of the encoder, all 1 if its rows are orthonormal.
    """
    X, k = _digits(), 10
    best = _least_loss(X, k)
    drawing, axes = figure(1, 2, size=(4.6, 3.6))
    bends = {}
    for tied, colour, mark in ((False, ORANGE, "s"), (True, BLUE, "o")):
        model = LinearAutoencoder(k, tied=tied, random_state=0, tol=0, max_iter=300).fit(X)
        name = "tied, W = Vᵀ" if tied else "untied"
        above = model.trace_.objective / best - 1
        visible = above > 0  # rounding ends below the optimum as often as above it
        axes[0].semilogy(np.flatnonzero(visible), above[visible], color=colour, lw=2, label=name)
        bends[tied] = float(np.abs(model.encoder_ @ model.encoder_.T - np.eye(k)).max())
        values = np.linalg.svd(model.encoder_, compute_uv=False)
        far = float(np.abs(values - 1).max())
        label = f"{name}: within {10.0 ** np.ceil(np.log10(far)):g} of 1"
        axes[1].plot(np.arange(1, k + 1), values, color=colour, marker=mark, label=label)
    axes[0].set(xlabel="step", ylabel="loss above the PCA optimum (relative)")
    axes[0].legend(fontsize=9)
    axes[1].set(xlabel="singular value, largest first", ylabel="size of this singular value of W")
    axes[1].set_xticks(range(1, k + 1))
    axes[1].legend(fontsize=9)
    show(
        bends[True] < 1e-3 < bends[False], "the tied encoder is orthonormal, the untied one is not"
    )
    return drawing


@entry("pca-basis", "CIL Ex. 1.5")
def pca_basis():
    """A nested loss finds the principal axes themselves, in order.

    The angles between the rows of a tied encoder and the principal axes of the digits, as |cos|. A plain loss finds the
    subspace and leaves the rows turned within it; a nested loss finds the axes, in order.
    """
    X, k = _digits(), 6
    axes_of_data = PCA(k).fit(X).components_
    drawing, axes = figure(1, 2, size=(3.6, 3.4))
    worst = {}
    for ax, basis in zip(axes, ("any", "pca"), strict=True):
        model = LinearAutoencoder(
            k, tied=True, basis=basis, random_state=0, tol=1e-12, max_iter=5000
        ).fit(X)
        rows = model.encoder_ / np.linalg.norm(model.encoder_, axis=1, keepdims=True)
        cosines = np.abs(rows @ axes_of_data.T)
        worst[basis] = float(np.diag(cosines).min())
        picture = ax.imshow(cosines, cmap="Blues", vmin=0, vmax=1)
        ax.set(
            xlabel="principal axis", xticks=range(k), xticklabels=range(1, k + 1), yticks=range(k)
        )
        ax.set(yticklabels=range(1, k + 1))
        ax.set_title(f"LinearAutoencoder(basis='{basis}')")
    axes[0].set_ylabel("row of the encoder")
    drawing.colorbar(picture, ax=axes, label="|cos| of the angle between them", shrink=0.8)
    show(worst["pca"] > 0.99, "with basis='pca' every row is its principal axis")
    show(worst["any"] < 0.9, "with basis='any' the rows are turned within the subspace")
    return drawing


def _least_loss(X: np.ndarray, k: int) -> float:
    """½ of the variance beyond the k leading directions: what no linear autoencoder can go below (CIL Thm 1.4.4)."""
    values = np.linalg.eigvalsh(np.cov(X.T, bias=True))
    return float(values[:-k].sum() / 2)
