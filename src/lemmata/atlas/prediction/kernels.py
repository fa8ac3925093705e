"""Kernels, drawn (ML Kernel Regression … Mercer's condition): two forms of one answer, features nobody has to compute."""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np
from sklearn.datasets import make_circles

from lemmata import SVC, KernelRidge, Ridge
from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, RED, SKY, figure
from lemmata.predict.kernels.feature_maps import feature_map
from lemmata.predict.kernels.positivity import mercer
from lemmata.predict.kernels.standard import RBF, Linear, Polynomial, Sigmoid

Array = np.ndarray


@entry(
    "kernel-regression",
    "ML Kernel Regression, Kernelized ridge regression, Representer Theorem",
    gamma=(1.0, 300.0),
)
def kernel_regression(gamma: float = 30.0, seed: int = 0):
    """One ridge regression, two forms: a weight per feature, or a weight per row.

    Left: a curve through 40 points as a sum of bumps, one per point, each times its α; the parameter is how narrow bumps
    are. Right: the multiplications that either form takes for D features and N = 1,000 rows; they cross at D = N. With a
    linear kernel both give the same predictions.
    """
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, 40))
    y = np.sin(7 * x) + 0.2 * rng.standard_normal(40)
    grid = np.linspace(0, 1, 200)
    model = KernelRidge(alpha=0.1, kernel="rbf", gamma=gamma).fit(x[:, None], y)
    bumps = np.exp(-gamma * (grid[:, None] - x) ** 2) * np.ravel(model.dual_coef_)
    curve = model.predict(grid[:, None])
    drawing, (left, right) = figure(1, 2, size=(4.6, 3.4))
    left.plot(grid, bumps, color=GREY, lw=0.5)
    left.plot(x, y, color="black", marker=".", ls="", label="points")
    left.plot(grid, curve, color=BLUE, lw=2, label="sum of α_n κ(x, x_n)")
    left.set(xlabel="x", ylabel="y", ylim=(-2.5, 2.5), title=f"RBF kernel, γ = {gamma:g}")
    left.legend(loc="upper right")
    N, sizes = 1000, np.geomspace(10, 1e5, 30)
    right.loglog(sizes, N * sizes**2 + sizes**3, color=ORANGE, label="features: ND² + D³")
    right.loglog(sizes, N**2 * sizes + N**3, color=BLUE, label="rows: N²D + N³")
    right.axvline(N, color="black", ls=":", lw=0.8)
    right.set(xlabel="features D", ylabel="multiplications", title="N = 1,000 rows")
    right.legend()
    show(np.allclose(bumps.sum(axis=1), curve), "the curve is a sum of bumps at the points")
    for N, D in ((40, 8), (8, 40)):
        X, t = rng.standard_normal((N, D)), rng.standard_normal(N)
        primal = Ridge(0.5, fit_intercept=False, tol=1e-10).fit(X, t)
        dual = KernelRidge(alpha=0.5, kernel="linear").fit(X, t)
        show(
            np.allclose(primal.predict(X), dual.predict(X), atol=1e-6),
            f"with {N} rows of {D} features both forms predict alike",
        )
        show(
            np.allclose(primal.coef_, X.T @ np.ravel(dual.dual_coef_), atol=1e-6),
            "the weights are a sum of rows: w = Xᵀα",
        )
    return drawing


@entry(
    "kernel-trick",
    "ML Kernel trick, Kernel matrix with feature spaces",
    degree=(2, 6),
)
def kernel_trick(degree: int = 4, seed: int = 0):
    """What a curve does in the plane a flat cut does among the features.

    Left: two rings and the boundary of a support vector machine with the kernel (xᵀx')ᵖ, p = 2. Middle: the same points by
    two of their three features, x₁² and x₂²: a line parts them. Right: numbers to compute for κ of two rows of d = 10: its
    features against one product and a power. The parameter is the highest degree on the right.
    """
    X, y = make_circles(120, noise=0.06, factor=0.45, random_state=seed)
    kernel = Polynomial(degree=2, gamma=1.0, coef0=0.0)
    model = SVC(kernel="poly", degree=2, gamma=1.0, coef0=0.0, C=100.0).fit(X, y)
    Phi = np.stack([X[:, 0] ** 2, X[:, 1] ** 2, np.sqrt(2) * X[:, 0] * X[:, 1]], axis=1)
    drawing, axes = figure(1, 3, size=(3.5, 3.4))
    grid = np.linspace(-1.4, 1.4, 80)
    plane = np.stack(np.meshgrid(grid, grid), axis=-1)
    f = model.decision_function(plane.reshape(-1, 2)).reshape(80, 80)
    axes[0].contour(
        grid, grid, f, levels=[-1, 0, 1], colors="black", linestyles=["--", "-", "--"], linewidths=1
    )
    for label, colour, mark in ((0, ORANGE, "o"), (1, BLUE, "^")):
        axes[0].plot(*X[y == label].T, color=colour, marker=mark, ms=3, ls="")
        axes[1].plot(*Phi[y == label, :2].T, color=colour, marker=mark, ms=3, ls="")
    w = np.ravel(model.dual_coef_) @ Phi[model.support_]
    b = float(np.ravel(model.intercept_)[0])
    a = np.linspace(0, 1.6, 50)
    axes[1].plot(a, -(b + w[0] * a) / w[1], color="black", lw=1)
    axes[0].set(xlabel="x₁", ylabel="x₂", aspect="equal", title="in the plane")
    axes[1].set(
        xlabel="x₁²", ylabel="x₂²", xlim=(0, 1.6), ylim=(0, 1.6), title="among the features"
    )
    degrees, d = np.arange(1, degree + 1), 10
    sizes = [factorial(d + p - 1) // factorial(p) // factorial(d - 1) for p in degrees]
    axes[2].semilogy(degrees, sizes, color=ORANGE, marker="s", label="features")
    axes[2].semilogy(degrees, d + degrees, color=BLUE, marker="o", label="κ itself")
    axes[2].set(xlabel="degree p", ylabel="numbers to compute, d = 10", xticks=degrees)
    axes[2].legend()
    show(np.allclose(kernel(X, X), Phi @ Phi.T), "(xᵀx')² is the product of x₁², x₂², √2x₁x₂")
    show(
        np.allclose(Phi @ w + b, model.decision_function(X), atol=1e-6),
        "the curved boundary is a plane among the features",
    )
    show(model.score(X, y) == 1, "it parts the rings")
    for p, size in zip(degrees[:3], sizes, strict=False):
        width = feature_map(Polynomial(degree=int(p), gamma=1.0, coef0=0.0), np.ones((1, d))).shape[
            1
        ]
        show(width == size, f"of degree {p} there are {size} features")
    return drawing


@entry("rbf-features", "ML Predicting with kernels", terms=(1, 12))
def rbf_features(terms: int = 4):
    """The RBF kernel has infinitely many features, and near 0 a few of them do.

    κ(x, x') = e^(−(x−x')²) on the line, as Σ φ_k(x)φ_k(x') with φ_k(x) = e^(−x²) √(2ᵏ/k!) xᵏ. Left: the first features.
    Middle: κ(x, 1) and what some terms make of it. Right: the largest error for |x| ≤ r; any number of terms fails at
    some r. The parameter is the number of terms in the middle.
    """
    x = np.linspace(-3, 3, 241)
    phi = lambda k, at: np.exp(-(at**2)) * np.sqrt(2.0**k / factorial(k)) * at**k  # noqa: E731
    drawing, axes = figure(1, 3, size=(3.5, 3.2))
    for k, colour in enumerate((BLUE, ORANGE, GREEN, RED, SKY)):
        axes[0].plot(x, phi(k, x), color=colour, label=f"φ_{k}")
    exact = np.exp(-((x - 1) ** 2))
    axes[1].plot(x, exact, color="black", lw=2, label="κ(x, 1)")
    axes[1].plot(
        x,
        sum(phi(k, x) * phi(k, 1.0) for k in range(terms)),
        color=ORANGE,
        ls="--",
        label=f"{terms} terms",
    )
    errors = {}
    counts = np.arange(1, 41)
    for r, colour, mark in (
        (0.5, BLUE, "o"),
        (1.0, GREEN, "^"),
        (2.0, ORANGE, "s"),
        (3.0, RED, "v"),
    ):
        at = np.linspace(-r, r, 61)
        K, found = np.exp(-((at[:, None] - at) ** 2)), []
        S = np.zeros_like(K)
        for k in range(40):
            S = S + np.outer(phi(k, at), phi(k, at))
            found.append(np.abs(K - S).max())
        errors[r] = np.maximum(found, 1e-16)
        axes[2].semilogy(counts, errors[r], color=colour, marker=mark, ms=3, label=f"|x| ≤ {r:g}")
    axes[0].set(xlabel="x", title="features")
    axes[1].set(xlabel="x", title="a sum of features")
    axes[2].set(xlabel="terms", ylabel="largest error of κ", title="how many it takes")
    for ax in axes:
        ax.legend(fontsize=7)
    show(
        all((np.diff(e) <= 1e-12).all() for e in errors.values()),
        "every further term lowers the error",
    )
    need = [int(np.argmax(e < 1e-2)) for e in errors.values()]
    show((np.diff(need) > 0).all(), "the farther out, the more terms it takes")
    sample = np.linspace(-2, 2, 12)[:, None]
    show(
        np.linalg.matrix_rank(RBF(gamma=1.0)(sample, sample), tol=1e-13) == 12,
        "12 points give a matrix of rank 12: no 11 features do",
    )
    return drawing


@entry(
    "mercer-eigenvalues",
    "ML Mercer's condition, Building new kernels from existing kernels",
    n=(10, 80),
)
def mercer_eigenvalues(n: int = 40, seed: int = 0):
    """A kernel is a matrix without negative eigenvalues, for any points; one negative is a proof that it is none.

    Eigenvalues of the matrix κ(x_i, x_j) for random points of the plane: RBF, its product and sum with a polynomial, and
    two symmetric functions that are no kernels, tanh(xᵀx' − 1) and −‖x − x'‖. Right: a linear machine needs ‖Φv‖² = vᵀKv;
    the v that gives a negative length. The parameter is the number of points.
    """
    X = np.random.default_rng(seed).standard_normal((n, 2))
    distance = lambda a, b: -np.linalg.norm(np.subtract(a, b))  # noqa: E731
    kinds: dict[str, tuple[Any, ...]] = {
        "RBF": (RBF(gamma=0.5), BLUE, "o", "-"),
        "RBF · polynomial": (RBF(gamma=0.5) * Polynomial(degree=2), GREEN, "^", "-"),
        "RBF + linear": (RBF(gamma=0.5) + Linear(), SKY, "v", "-"),
        "tanh(xᵀx' − 1)": (Sigmoid(gamma=1.0, coef0=-1.0), ORANGE, "s", "--"),
        "−‖x − x'‖": (distance, RED, "x", "--"),
    }
    drawing, (left, right) = figure(1, 2, size=(4.7, 3.4), width_ratios=(1.6, 1))
    least = {}
    for name, (kernel, colour, mark, style) in kinds.items():
        K = np.array([[kernel(a, b) for b in X] for a in X]) if kernel is distance else kernel(X, X)
        values = np.linalg.eigvalsh(K)[::-1]
        found = mercer(kernel, X)
        least[name] = values[-1] / np.abs(values).max(), found.verdict
        left.plot(
            np.arange(1, n + 1),
            values,
            color=colour,
            marker=mark,
            ms=3,
            ls=style,
            lw=0.8,
            label=f"{name}: {found.verdict}",
        )
        show(
            (found.verdict == "holds") == (style == "-"),
            f"{name} {'is' if style == '-' else 'is not'} positive semidefinite on these points",
        )
    left.set_yscale("symlog", linthresh=1e-2)
    left.axhline(0, color="black", lw=0.8)
    left.set(xlabel="eigenvalue", ylabel="size")
    left.legend()
    right.barh(
        range(len(least)),
        [value for value, _ in least.values()],
        color=[colour for _, colour, _, _ in kinds.values()],
    )
    right.set_yticks(range(len(least)), least, fontsize=8)
    right.set_xscale("symlog", linthresh=1e-2)
    right.axvline(0, color="black", lw=0.8)
    right.set(xlabel="least eigenvalue, of the largest", title="below 0: no kernel")
    show(least["−‖x − x'‖"][0] < -0.1, "of −‖x − x'‖ the least is far below 0")
    return drawing
