"""Subspaces, drawn (CIL 1, CIL20 1–2): bottlenecks, projections, circles that become ellipses, one axis after another."""

from __future__ import annotations

import itertools

import numpy as np
from sklearn.datasets import load_digits, make_circles

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREY, ORANGE, RED, SKY, figure, image_grid
from lemmata.linalg.power import power_iteration
from lemmata.linalg.projections import Projection
from lemmata.linalg.randomized import randomized_svd, signs
from lemmata.reduction.dimension import find_knee
from lemmata.reduction.kernel_pca import KernelPCA
from lemmata.reduction.pca import PCA

Array = np.ndarray


def draw_network(
    ax, sizes: tuple[int, ...], names: tuple[str, ...], colours: tuple[str, ...]
) -> None:
    """Draw units in columns, each joined to all of the column before it."""
    heights = [np.linspace(-(n - 1) / 2, (n - 1) / 2, n) for n in sizes]
    for place, (below, above) in enumerate(itertools.pairwise(heights)):
        for a in below:
            ax.plot(
                [place, place + 1],
                np.stack([np.full(len(above), a), above]),
                color=GREY,
                lw=0.5,
                zorder=1,
            )
    for place, (units, name, colour) in enumerate(zip(heights, names, colours, strict=True)):
        ax.plot(
            np.full(len(units), place),
            units,
            color=colour,
            marker="o",
            ms=11,
            mec="black",
            ls="",
            zorder=2,
        )
        ax.text(place, min(map(min, heights)) - 0.9, name, ha="center", va="top", fontsize=8)
    ax.set(xlim=(-0.4, len(sizes) - 0.6), ylim=(-max(sizes) / 2 - 1.6, max(sizes) / 2 + 0.2))
    ax.set_axis_off()


@entry("bottleneck", "CIL Fig. 1.1; CIL20 Fig. 1.1, 1.2, Rem. 1.1; CIL24 Fig. 1", code=(1, 4))
def bottleneck(code: int = 2, seed: int = 0):
    """Whatever passes a bottleneck of m units changes in m directions only.

    Left: an autoencoder of 6 numbers with a code in the middle. Right: the singular values of the Jacobian of its
    reconstruction at a random point, of a linear one (P = VW) and of one with tanh: from m + 1 on they are 0, so neither
    can be the identity on more than m dimensions. The parameter is m.
    """
    rng = np.random.default_rng(seed)
    W1, W2 = rng.standard_normal((4, 6)), rng.standard_normal((code, 4))
    V1, V2 = rng.standard_normal((4, code)), rng.standard_normal((6, 4))
    x = rng.standard_normal(6)

    def jacobian(phi, slope) -> Array:
        J, h = W1, W1 @ x
        for W in (W2, V1, V2):
            J, h = W @ (slope(h)[:, None] * J), W @ phi(h)
        return J

    drawing, (left, right) = figure(1, 2, size=(4.6, 3.4))
    names = ("x", "hidden", "code z", "hidden", "x̂")
    draw_network(left, (6, 4, code, 4, 6), names, (SKY, GREY, ORANGE, GREY, SKY))
    left.set_title("encoder, code, decoder")
    kinds = {
        "linear": jacobian(lambda h: h, np.ones_like),
        "tanh": jacobian(np.tanh, lambda h: 1 - np.tanh(h) ** 2),
    }
    for (name, J), colour, shift in zip(kinds.items(), (BLUE, ORANGE), (-0.2, 0.2), strict=True):
        values = np.linalg.svd(J, compute_uv=False)
        right.bar(np.arange(1, 7) + shift, values / values[0], 0.4, color=colour, label=name)
        show(
            (values[code:] < 1e-12 * values[0]).all(),
            f"{name}: no more than {code} directions pass",
        )
        show(values[code - 1] > 1e-6 * values[0], f"{name}: {code} do")
    right.set(
        xlabel="singular value of ∂x̂/∂x", ylabel="size, of the largest", title=f"a code of {code}"
    )
    right.legend()
    return drawing


@entry(
    "orthogonal-projection",
    "CIL Example 1.1, Ex. 1.1, Prop. 1.3.3, 1.3.5; CIL24 Fig. 2",
    tilt=(0.0, 1.2),
)
def orthogonal_projection(tilt: float = 0.6, seed: int = 0):
    """The nearest point of a subspace: what is left over stands upright on it.

    Left: points, their projections onto a plane through the origin, and what is lost. Right: the squared distance of one
    point to all points of the plane has its minimum at Px. P = VV⁺ of any basis V of the plane is the same matrix as UUᵀ
    of an orthonormal one, symmetric, and P² = P.
    """
    rng = np.random.default_rng(seed)
    V = np.array([[1.0, 0.0, 0.4], [tilt, 1.0, 0.2]]).T
    P = Projection.onto(V).matrix()
    U = np.linalg.qr(V)[0]
    X = rng.uniform(-1, 1, (7, 3)) * [1, 1, 0.9]
    below = X @ P
    drawing, _ = figure(1, 2, size=(4.4, 3.8))
    drawing.clear()
    left, right = drawing.add_subplot(1, 2, 1, projection="3d"), drawing.add_subplot(1, 2, 2)
    s, t = np.meshgrid([-1.2, 1.2], [-1.2, 1.2])
    left.plot_surface(
        *(U[:, [0]] * s.ravel() + U[:, [1]] * t.ravel()).reshape(3, 2, 2), color=SKY, alpha=0.3
    )
    for x, p in zip(X, below, strict=True):
        left.plot(*np.stack([x, p], axis=1), color=GREY, lw=1, ls=":")
    left.plot(*X.T, color=BLUE, marker="o", ls="", ms=5, label="x")
    left.plot(*below.T, color=ORANGE, marker="o", ls="", ms=5, label="Px")
    left.set(xlabel="x₁", ylabel="x₂", zlabel="x₃")
    left.view_init(18, -60)
    left.legend(loc="upper left")
    grid = np.linspace(-1.5, 1.5, 61)
    a, b = np.meshgrid(grid, grid)
    x, p = X[0], U.T @ X[0]
    far = np.sum(
        (x[:, None, None] - U[:, 0, None, None] * a - U[:, 1, None, None] * b) ** 2, axis=0
    )
    picture = right.contourf(grid, grid, far, levels=15, cmap="Blues_r")
    drawing.colorbar(picture, ax=right, label="squared distance to x")
    right.plot(*p, color=ORANGE, marker="o", mec="black", ls="", label="Px")
    right.set(
        xlabel="along u₁", ylabel="along u₂", aspect="equal", title="distance of one x to the plane"
    )
    right.legend()
    show(np.allclose(P, U @ U.T), "VV⁺ of a slanted basis is UUᵀ of an orthonormal one")
    show(np.allclose(P, P.T) and np.allclose(P, P @ P), "P is symmetric and idempotent")
    show(np.abs((X - below) @ V).max() < 1e-12, "what is lost is orthogonal to the plane")
    show(far.min() >= np.sum((x - P @ x) ** 2) - 1e-12, "no point of the plane is nearer than Px")
    u = V[:, 0] / np.linalg.norm(V[:, 0])
    show(np.allclose(Projection.onto(V[:, :1]).matrix(), np.outer(u, u)), "onto a line it is uuᵀ")
    return drawing


@entry("circle-to-ellipse", "CIL20 Fig. 1.3; CIL Thm 2.3.1", shear=(0.0, 2.0))
def circle_to_ellipse(shear: float = 1.0):
    """A matrix turns, stretches and turns: a circle becomes an ellipse with half axes σ₁ and σ₂.

    The unit circle and the right singular vectors, step by step: Vᵀ turns them onto the axes, Σ stretches the axes, U turns
    them to where A takes them. Lengths of arrows at the end are the singular values. The parameter is the entry a₁₂.
    """
    A = np.array([[1.2, shear], [-0.3, 0.8]])
    _U, s, Vt = np.linalg.svd(A)
    Vt = Vt * signs(Vt.T)[:, None]  # LAPACK chooses either
    t = np.linspace(0, 2 * np.pi, 200)
    circle = np.stack([np.cos(t), np.sin(t)])
    drawing, axes = figure(1, 4, size=(2.8, 3.1))
    stages = (("x", np.eye(2)), ("Vᵀx", Vt), ("ΣVᵀx", np.diag(s) @ Vt), ("UΣVᵀx = Ax", A))
    reach = 1.3 * max(s[0], 1)
    for ax, (name, M) in zip(axes, stages, strict=True):
        ax.plot(*(M @ circle), color=GREY, lw=1.5)
        for j, colour in enumerate((BLUE, ORANGE)):
            end = M @ Vt[j]
            ax.annotate("", end, (0, 0), arrowprops={"arrowstyle": "->", "color": colour, "lw": 2})
            ax.text(
                *(end * 1.08),
                f"v{'₁₂'[j]}" if name == "x" else f"{np.linalg.norm(end):.2f}",
                color=colour,
            )
        ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", title=name)
    far = np.linalg.norm(A @ circle, axis=0)
    show(
        abs(far.max() - s[0]) < 1e-3 and abs(far.min() - s[1]) < 1e-3,
        "the half axes of the ellipse are the singular values",
    )
    show(abs((A @ Vt[0]) @ (A @ Vt[1])) < 1e-12, "orthogonal v₁, v₂ go to orthogonal directions")
    show(abs(abs(np.linalg.det(A)) - s.prod()) < 1e-12, "its area is that of the circle times σ₁σ₂")
    return drawing


@entry("any-eigenvector", "CIL Example 1.3", gap=(0.01, 1.0))
def any_eigenvector(gap: float = 0.5):
    """Of the identity every vector is an eigenvector: without a gap the axis is whatever the noise says.

    The leading eigenvector of diag(1 + gap, 1) with symmetric noise of size 0.05, in 150 draws, for a gap of 0 and the one
    of the parameter. Right: the mean angle to the first axis by the gap; dotted: noise/gap, which holds where the gap is
    large against the noise.
    """
    noise, draws = 0.05, 150
    rng = np.random.default_rng(0)
    E = rng.standard_normal((draws, 2, 2)) * noise
    E = (E + E.transpose(0, 2, 1)) / np.sqrt(2)
    angle = lambda g: np.linalg.eigh(np.diag([1.0 + g, 1.0]) + E)[1][:, :, 1]  # noqa: E731
    drawing, axes = figure(1, 3, size=(3.3, 3.2))
    for ax, g in zip(axes, (0.0, gap), strict=False):
        for v in angle(g):
            ax.plot([-v[0], v[0]], [-v[1], v[1]], color=BLUE, lw=0.5, alpha=0.4)
        ax.set(
            aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), title=f"gap {g:g}, noise {noise}"
        )
    gaps = np.geomspace(0.02, 2, 12)
    means = np.array(
        [np.degrees(np.arccos(np.abs(angle(g)[:, 0]).clip(0, 1))).mean() for g in gaps]
    )
    axes[2].loglog(gaps, means, color=BLUE, marker="o", ms=4, label="mean angle")
    typical = np.degrees(np.abs(E[:, 0, 1]).mean() / gaps)
    axes[2].loglog(gaps, typical, color="black", ls=":", label="noise / gap")
    axes[2].set(xlabel="gap of the eigenvalues", ylabel="degrees from the first axis")
    axes[2].legend()
    far = np.degrees(np.arccos(np.abs(angle(0.0)[:, 0]).clip(0, 1)))
    show(35 < far.mean() < 55, "without a gap all directions come, 45° away on average")
    show(
        np.allclose(np.eye(2) @ angle(0.0)[0], angle(0.0)[0]),
        "each is an eigenvector of the identity",
    )
    show(np.abs(means[-4:] / typical[-4:] - 1).max() < 0.15, "with a gap the angle is noise/gap")
    return drawing


@entry("deflation", "CIL Ex. 1.3", k=(2, 6))
def deflation(k: int = 4):
    """The power method finds a subspace one axis at a time: what is found is taken out.

    The residual of the power method with deflation on the digits' covariance: when one axis is found to 10⁻⁸, the next
    begins, orthogonal to all found. Each falls at its own rate λ_{j+1}/λ_j. Right: the angle between the found and the
    exact axes. The parameter is the number of axes.
    """
    S = np.cov(load_digits().data.T)
    found = power_iteration(S, k, tol=1e-8, rng=0)
    values, vectors = np.linalg.eigh(S)
    values, vectors = values[::-1], vectors[:, ::-1]
    residual = found.trace.extras["residual"]
    drawing, (left, right) = figure(1, 2, size=(4.6, 3.3), width_ratios=(1.5, 1))
    left.semilogy(residual / values[0], color=BLUE, lw=1.2)
    left.axhline(1e-8, color="black", lw=0.8, ls=":")
    left.set(
        xlabel="product with the covariance",
        ylabel="residual |Av − θv| / λ₁",
        title=f"{k} axes, one after another",
    )
    cosines = np.abs(np.sum(found.vectors * vectors[:, :k], axis=0))
    rates = values[1 : k + 1] / values[:k]
    place = np.arange(1, k + 1)
    right.bar(place - 0.2, found.measured_rate, 0.4, color=BLUE, label="measured rate")
    right.bar(place + 0.2, rates, 0.4, color=ORANGE, label="λ_{j+1}/λ_j")
    right.set(xlabel="axis", ylabel="factor of the residual per step", ylim=(0, 1.25), xticks=place)
    right.legend(loc="upper left")
    show((cosines > 1 - 1e-8).all(), "every axis found is the principal axis of its number")
    show(
        np.abs(found.measured_rate - rates).max() < 0.06,
        "each converges at the ratio of its eigenvalue and the next",
    )
    show(np.allclose(found.vectors.T @ found.vectors, np.eye(k), atol=1e-8), "they are orthonormal")
    return drawing


@entry("digit-tilt", "CIL20 Fig. 2.1, 2.2", digit=(0, 9))
def digit_tilt(digit: int = 3):
    """One digit is a mean and a few strokes: axes tilt it, widen it, and put it together again.

    Above: the mean of all images of one digit, moved along its first two principal axes by up to two deviations. Below: one
    image, and what 1, 4, 10 and 20 axes make of it. Right: the error, with the share of the variance that is left. The
    parameter is the digit.
    """
    images, labels = load_digits(return_X_y=True)
    X = images[labels == digit]
    pca = PCA(20).fit(X)
    along = [
        pca.mean_ + t * np.sqrt(pca.explained_variance_[j]) * pca.components_[j]
        for j in range(2) for t in (-2, -1, 0, 1, 2)
    ]  # fmt: skip
    sizes = (1, 4, 10, 20)
    Z = pca.transform(X)
    built = [pca.mean_ + Z[0, :m] @ pca.components_[:m] for m in sizes]
    names = [f"{t:+d} sd" if t else "mean" for t in (-2, -1, 0, 1, 2)] * 2 + [
        "image",
        *[f"m = {m}" for m in sizes],
    ]
    drawing, (left, right) = figure(1, 2, size=(4.2, 3.8), width_ratios=(1.2, 1))
    grid = np.clip(np.array([*along, X[0], *built]), 0, 16).reshape(-1, 8, 8)
    image_grid(left, grid, columns=5, gap=3, names=names)
    left.set_title("along axis 1, along axis 2, and one image from m axes", pad=16)
    m = np.arange(21)
    errors = np.array([np.sum((X - pca.mean_ - Z[:, :j] @ pca.components_[:j]) ** 2) for j in m])
    errors /= errors[0]
    right.plot(m, errors, color=BLUE, marker="o", ms=4, label="error of all images")
    right.plot(
        m,
        1 - np.append(0, np.cumsum(pca.explained_variance_ratio_)),
        color=ORANGE,
        ls="--",
        label="tail of the spectrum",
    )
    right.set(xlabel="axes m", ylabel="share of the variance lost", ylim=(0, 1))
    right.legend()
    show(
        np.allclose(errors, 1 - np.append(0, np.cumsum(pca.explained_variance_ratio_)), atol=1e-9),
        "the error is the tail of the spectrum",
    )
    show(errors[10] < 0.3, "ten of 64 axes keep over 70 %")
    return drawing


@entry("random-projections", "CIL Fig. 2.3, 2.5.3; Halko, Martinsson & Tropp 2011", rank=(5, 20))
def random_projections(rank: int = 10):
    """A random block finds the leading subspace, and each pass over the matrix sharpens it.

    A 200 × 120 matrix with singular values 1/√j: a Gaussian block of k + p columns, multiplied by (AAᵀ)^q A and made
    orthonormal, is Q; the small matrix QᵀA is decomposed exactly. Left: the error ‖A − QQᵀA‖₂ above the least possible,
    by columns p beyond k; medians of nine draws. Right: the singular values that come out.
    """
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((n, 120)))[0] for n in (200, 120))
    s = 1 / np.sqrt(np.arange(1, 121))
    A = (U * s) @ V.T
    drawing, (left, right) = figure(1, 2, size=(4.6, 3.4))
    beyond, medians = (0, 2, 5, 10, 20), {}
    for q, colour, mark in ((0, RED, "s"), (1, ORANGE, "o"), (2, BLUE, "^")):
        errors = np.empty((len(beyond), 9))
        for i, p in enumerate(beyond):
            for draw in range(9):
                found = randomized_svd(A, rank, oversampling=p, passes=q, rng=draw)
                errors[i, draw] = np.linalg.norm(A - (found.U * found.s) @ found.Vt, 2)
                show(
                    (found.s <= s[:rank] * (1 + 1e-12)).all(),
                    "no singular value is found too large",
                )
        medians[q] = np.median(errors, axis=1) / s[rank]
        left.plot(beyond, medians[q], color=colour, marker=mark, label=f"q = {q}")
        found = randomized_svd(A, rank, oversampling=10, passes=q, rng=0)
        right.plot(
            range(1, rank + 1), found.s, color=colour, marker=mark, ms=4, label=f"q = {q}, p = 10"
        )
    right.plot(range(1, rank + 1), s[:rank], color="black", lw=1, label="exact")
    left.axhline(1, color="black", lw=0.8, ls=":")
    left.set(
        xlabel="oversampling p",
        ylabel=f"error of rank {rank} / σ of {rank + 1}",
        title="error, of the least possible",
    )
    right.set(xlabel="singular value", ylabel="size", title="singular values found")
    left.legend()
    right.legend()
    show(
        (medians[0] > medians[1]).all() and (medians[1] > medians[2]).all(),
        "each pass lowers the error",
    )
    show((np.diff(medians[0]) < 0).all(), "without passes every further column helps")
    show(medians[2][3] < 1.05, "two passes and ten columns more are within 5 % of the best")
    return drawing


def _best_threshold(z: Array, y: Array) -> float:
    """The share of labels 0, 1 that the best threshold on z gets right, whichever label lies above it."""
    walk = np.append(0, np.cumsum(2 * y[np.argsort(z)] - 1))
    return max(walk.max() + np.sum(y == 0), np.sum(y == 1) - walk.min()) / len(y)


@entry("rings-unrolled", "ML Kernel trick, Kernel matrix; CIL 1.4", gamma=(0.2, 15.0))
def rings_unrolled(gamma: float = 2.0, seed: int = 0):
    """No line parts two rings; in the feature space of a kernel one axis does.

    300 points on two rings, their coordinates by PCA (a turn of the plane), and by kernel PCA with an RBF kernel: the one of
    its first three axes that parts them best. Titles: the share of points on the right side of the best threshold along
    the axis drawn to the right. The parameter is γ of the kernel.
    """
    X, y = make_circles(300, noise=0.05, factor=0.4, random_state=seed)
    drawing, axes = figure(1, 3, size=(3.4, 3.4))
    shapes = {
        "the rings": X,
        "PCA": PCA(2).fit_transform(X),
        f"kernel PCA, γ = {gamma:g}": KernelPCA(3, kernel="rbf", gamma=gamma).fit_transform(X),
    }
    shares = {}
    for ax, (name, Z) in zip(axes, shapes.items(), strict=True):
        scores = [_best_threshold(z, y) for z in Z.T]
        best = int(np.argmax(scores))
        other = 1 if best == 0 else 0
        shares[name] = scores[best]
        for label, colour, mark in ((0, ORANGE, "o"), (1, BLUE, "^")):
            ax.plot(*Z[y == label][:, [best, other]].T, color=colour, marker=mark, ms=3, ls="")
        ax.set_title(f"{name}: {100 * shares[name]:.0f} %")
        ax.set(xlabel=f"axis {best + 1}", ylabel=f"axis {other + 1}")
    _, linear, curved = shares.values()
    show(linear < 0.85, "along no axis of PCA a threshold parts the rings")
    show(curved > 0.97, "along one of three axes of kernel PCA it does")
    return drawing


@entry("spectrum-knee", "CIL20 Fig. 2.2, 2.3, 2.3.2", signal=(2, 6))
def spectrum_knee(signal: int = 4, seed: int = 0):
    """A spectrum bends where the signal ends, if it is strong; noise alone bends a little, too.

    Eigenvalues of 300 points in 20 dimensions with a few directions of signal, and of the same rows with every column
    shuffled, which has no directions at all (parallel analysis). Grey: the line whose farthest point is the knee. Right:
    digits, whose spectrum has no corner. The parameter is the number of directions.
    """
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((20, 20)))[0][:, :signal]
    X = rng.standard_normal((300, signal)) * np.linspace(
        6, 3, signal
    ) @ basis.T + rng.standard_normal((300, 20))
    drawing, axes = figure(1, 2, size=(4.4, 3.3))
    data = load_digits().data
    found = {}
    for ax, (name, rows) in zip(axes, (("signal and noise", X), ("digits", data)), strict=True):
        values = np.linalg.eigvalsh(np.cov(rows.T))[::-1]
        mixed = np.stack([rng.permutation(column) for column in rows.T], axis=1)
        chance = np.linalg.eigvalsh(np.cov(mixed.T))[::-1]
        place = np.arange(1, len(values) + 1)
        at = find_knee(values)
        found[name] = at, int(np.argmax(values < chance))
        ax.plot(place, values, color=BLUE, marker="o", ms=3, label="eigenvalues")
        ax.plot(
            place,
            chance,
            color=ORANGE,
            ls="--",
            label=f"columns shuffled: {found[name][1]} lie above",
        )
        ax.plot(place[[0, -1]], values[[0, -1]], color=GREY, lw=0.8)
        ax.plot(
            place[at],
            values[at],
            color=RED,
            marker="o",
            ms=9,
            mfc="none",
            ls="",
            label=f"knee: after {at}",
        )
        ax.set(xlabel="principal axis", ylabel="variance along it", title=name)
        ax.legend()
    show(
        found["signal and noise"] == (signal, signal),
        f"knee and shuffled columns both say {signal}",
    )
    a, b = found["digits"]
    show(a != b, f"of the digits the knee says {a}, the shuffled columns {b}: there is no corner")
    return drawing
