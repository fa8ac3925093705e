"""Ways to complete a matrix, drawn (CIL 2.3–2.5): filling in, alternating, projecting and shrinking."""

from __future__ import annotations

import numpy as np

from lemmata.atlas import entry, show
from lemmata.completion.als.estimator import ALS
from lemmata.completion.baselines.imputed_svd import ImputedSVD
from lemmata.completion.nuclear.ball import NuclearBall
from lemmata.completion.nuclear.projection import SingularValueProjection
from lemmata.completion.nuclear.soft_impute import SoftImpute
from lemmata.completion.nuclear.thresholding import SingularValueThresholding
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, RED, SKY, figure

Array = np.ndarray


def draw_problem(
    n: int, m: int, k: int, share: float, noise: float, seed: int
) -> tuple[Array, Array]:
    """A matrix of rank k, and what is known of it: a share of its entries with noise, NaN elsewhere."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, k)) @ rng.standard_normal((k, m)) / np.sqrt(k)
    seen = X + noise * rng.standard_normal((n, m))
    return X, np.where(rng.random((n, m)) < share, seen, np.nan)


def _error_on_unknown(X: Array, A: Array, completed: Array) -> float:
    unknown = np.isnan(A)
    return float(np.linalg.norm((completed - X)[unknown]) / np.linalg.norm(X[unknown]))


@entry("filled-in", "CIL 2.3.4, ML Matrix Factorization", share=(0.3, 0.8))
def filled_in(share: float = 0.4, seed: int = 0):
    """Unknown is not zero: a filled matrix gives a share p of the answer.

    A 60 × 40 matrix of rank 3, a part known with noise. Left: the error on unknown entries by the rank fitted: SVD of the
    matrix filled with 0, and ALS on what is known. Right: how long the SVD's answer is along the truth, by the share known:
    on the diagonal. The parameter is the share known on the left.
    """
    X, A = draw_problem(60, 40, 3, share, 0.1, seed)
    ranks = range(1, 9)
    errors: dict[str, list[float]] = {"SVD of the filled matrix": [], "ALS on the known": []}
    for k in ranks:
        svd = ImputedSVD(k, fill="zero", random_state=0).fit(A)
        als = ALS(rank=k, reg=0.02, biases=False, random_state=0).fit(A)
        for name, model in zip(errors, (svd, als), strict=True):
            errors[name].append(_error_on_unknown(X, A, model.complete(keep_known=False)))
    drawing, (left, right) = figure(1, 2, size=(4.5, 3.3))
    for (name, found), colour, mark in zip(errors.items(), (RED, BLUE), "so", strict=True):
        left.plot(ranks, found, color=colour, marker=mark, label=name)
    left.axhline(1, color="black", lw=0.8, ls=":")
    left.text(8, 1.02, "all zeros", ha="right", va="bottom", fontsize=8)
    left.set(
        xlabel="rank",
        ylabel="error on unknown entries",
        ylim=(0, 1.3),
        title=f"{100 * share:.0f} % known",
    )
    left.legend(loc="center right")
    shares, lengths = np.linspace(0.1, 1, 8), []
    for p in shares:
        X, part = draw_problem(60, 40, 3, p, 0.0, seed)
        svd = ImputedSVD(3, fill="zero", random_state=0).fit(part)
        lengths.append(np.vdot(svd.complete(keep_known=False), X) / np.vdot(X, X))
    right.plot([0, 1], [0, 1], color=GREY, lw=1, label="p")
    right.plot(shares, lengths, color=RED, marker="s", ls="", label="length along the truth")
    right.set(
        xlabel="share p that is known",
        ylabel="⟨X̂, X⟩ / ⟨X, X⟩",
        title="SVD of the filled matrix, rank 3",
    )
    right.legend()
    filled, known = (np.array(found) for found in errors.values())
    show(
        known[2] < 0.5 * filled.min(),
        "at the true rank ALS errs less than half as much as any filled SVD",
    )
    show(
        np.abs(lengths - shares)[shares > 0.2].max() < 0.08,
        "the filled SVD is about p times too short",
    )
    return drawing


@entry("half-sweeps", "CIL 2.4.2, 2.4.3, Ex. 2.6; ML Alternating Least Squares", reg=(0.0, 2.0))
def half_sweeps(reg: float = 0.1, seed: int = 0):
    """Each half-sweep of ALS is a least squares problem per row, so the objective cannot rise.

    A 40 × 30 matrix of rank 3 with half of its entries missing. Left: ½‖Π(A − UVᵀ)‖² + ½λ(‖U‖² + ‖V‖²) after every half
    sweep, from four starts, and the norm of its gradient. Right: the smallest eigenvalue of a row's Gram matrix by how many
    entries the row has: with λ = 0 and fewer than 3 entries it is 0, and the row has no unique solution. The parameter is λ.
    """
    k = 3
    _, A = draw_problem(40, 30, k, 0.5, 0.1, seed)
    known = ~np.isnan(A)
    filled = np.where(known, A, 0.0)

    def solve(V: Array, values: Array, mask: Array) -> Array:
        """uᵢ = (Σ_Ω v vᵀ + λI)⁺ Σ_Ω a v for each row of a mask."""
        grams = np.einsum("ij,jk,jl->ikl", mask.astype(float), V, V) + reg * np.eye(k)
        return np.einsum("ikl,il->ik", np.linalg.pinv(grams, hermitian=True), values @ V)

    def loss(U, V):
        return (
            np.sum(np.where(known, A - U @ V.T, 0) ** 2) / 2
            + reg * (np.sum(U**2) + np.sum(V**2)) / 2
        )

    def slope(U, V):
        R = np.where(known, U @ V.T - A, 0)
        return np.hypot(np.linalg.norm(R @ V + reg * U), np.linalg.norm(R.T @ U + reg * V))

    drawing, axes = figure(1, 3, size=(3.6, 3.3))
    ends = []
    for start, colour in enumerate((BLUE, ORANGE, GREEN, SKY)):
        V = np.random.default_rng(start).standard_normal((30, k))
        U = solve(V, filled, known)
        losses, slopes = [loss(U, V)], [slope(U, V)]
        for _ in range(60):
            V = solve(U, filled.T, known.T)
            losses.append(loss(U, V))
            U = solve(V, filled, known)
            losses.append(loss(U, V))
            slopes.append(slope(U, V))
        axes[0].semilogy(losses, color=colour, lw=1.5, label=f"start {start + 1}")
        axes[1].semilogy(slopes, color=colour, lw=1.5)
        show((np.diff(losses) <= 1e-9 * losses[0]).all(), "no half-sweep raises the objective")
        ends.append(slopes[-1] / slopes[0])
    axes[0].set(xlabel="half-sweep", ylabel="objective", title=f"λ = {reg:g}")
    axes[0].legend()
    axes[1].set(xlabel="sweep", ylabel="‖gradient‖", title="a fixed point has gradient 0")
    show(max(ends) < 0.02, "the gradient falls below 2 % of what it was")
    rng, V = np.random.default_rng(1), np.random.default_rng(2).standard_normal((30, k))
    counts = np.arange(1, 11)
    for lam, colour, mark in ((0.0, RED, "s"), (max(reg, 0.05), BLUE, "o")):
        rows = [[rng.choice(30, n, replace=False) for _ in range(20)] for n in counts]
        least = np.array(
            [
                [np.linalg.eigvalsh(V[r].T @ V[r] + lam * np.eye(k))[0] for r in some]
                for some in rows
            ]
        )
        axes[2].semilogy(
            counts,
            np.maximum(least.min(axis=1), 1e-17),
            color=colour,
            marker=mark,
            label=f"λ = {lam:g}",
        )
        if lam:
            show((least >= lam - 1e-12).all(), "with λ > 0 no eigenvalue is below λ: one solution")
        else:
            show(
                (least[counts < k] < 1e-12).all(),
                "with λ = 0 and fewer than k entries a row has no unique solution",
            )
    axes[2].set(
        xlabel="entries of the row",
        ylabel="least eigenvalue of its matrix",
        title="is the solution unique?",
    )
    axes[2].legend()
    return drawing


@entry("als-listing", "CIL 2.4.4, (2.36)", reg=(0.1, 2.0))
def als_listing(reg: float = 0.5, seed: int = 0):
    """The code of the notes is ALS if Q holds matrices; with rows of an array it holds numbers, and the objective rises.

    Left: 40 × 30 entries of which a tenth are ratings from 1 to 5, as the code draws them; 0 stands for unknown, which is
    right only as no rating is 0. Right: the objective of (2.31) with ½λ after every half-sweep of the code for three
    factors: as printed U[row] is one-dimensional and U[row].T @ U[row] its squared length; with the outer product u uᵀ each
    column is the solution of its least squares problem. The parameter is λ.
    """
    from scipy.sparse import random_array

    rng, k = np.random.default_rng(seed), 3
    stars = lambda size: rng.integers(1, 6, size=size)  # noqa: E731
    A = random_array((40, 30), density=0.1, rng=rng, data_sampler=stars).toarray()

    def half_sweep(U: Array, A: Array, outer: bool) -> Array:
        """The listing: V (columns, k) from U (rows, k)."""
        B = U.T @ A
        V = np.empty((A.shape[1], k))
        for column in range(A.shape[1]):
            rows = U[A[:, column] != 0]
            Q = sum((np.outer(u, u) if outer else np.full((k, k), u @ u)) for u in rows)
            V[column] = np.linalg.inv(Q + reg * np.identity(k)) @ B[:, column]
        return V

    def loss(U: Array, V: Array) -> float:
        R = np.where(A != 0, A - U @ V.T, 0)
        return (np.sum(R**2) + reg * (np.sum(U**2) + np.sum(V**2))) / 2

    drawing, (left, right) = figure(1, 2, size=(4.4, 3.4))
    picture = left.imshow(np.where(A != 0, A, np.nan), cmap="viridis", vmin=1, vmax=5)
    drawing.colorbar(picture, ax=left, shrink=0.8, label="stars")
    left.set(xlabel="film", ylabel="person", title=f"{np.count_nonzero(A)} ratings of 1,200")
    start, paths = rng.standard_normal((40, k)), []
    for outer, colour, name in (
        (False, RED, "as printed: u·u"),
        (True, BLUE, "outer product: u uᵀ"),
    ):
        U, V = start, half_sweep(start, A, outer)
        path: list[float] = []
        while len(path) < 20 and (not path or path[-1] < 1e8):
            path.append(loss(U, V))
            U, V = (half_sweep(V, A.T, outer), V) if len(path) % 2 else (U, half_sweep(U, A, outer))
        right.semilogy(
            np.arange(1, len(path) + 1), path, color=colour, marker="o", ms=3, label=name
        )
        paths.append(np.array(path))
    right.set(xlabel="half-sweep", ylabel="objective", title=f"λ = {reg:g}")
    right.set_xticks(range(0, 21, 5))
    right.legend()
    V = half_sweep(start, A, True)
    column = int(np.count_nonzero(A, axis=0).argmax())
    known = A[:, column] != 0
    rows = np.vstack([start[known], np.sqrt(reg) * np.eye(k)])
    best = np.linalg.lstsq(rows, np.append(A[known, column], np.zeros(k)))[0]
    show(np.allclose(best, V[column]), "with u uᵀ a column solves its ridge regression")
    show((np.diff(paths[1]) <= 1e-9 * paths[1][0]).all(), "and no half-sweep raises the objective")
    show((np.diff(paths[0]) > 0).any(), "as printed the objective rises")
    show(paths[1][-1] < paths[0].min() / 2, "and stays more than twice as high")
    return drawing


@entry("cut-and-shrink", "CIL 2.5.1, 2.5.2, Prop. 2.5.3, 2.5.4", tau=(0.2, 4.0))
def cut_and_shrink(tau: float = 1.0, seed: int = 0):
    """To cut keeps the large singular values as they are; to shrink moves them all, and the sum of what is left is convex.

    Left: the singular values of a noisy matrix, cut to rank 3, and shrunk by τ. Middle: ½‖A − B‖² + τ‖B‖_* on the way from
    the shrunk matrix in random directions: nowhere lower. Right: the error of three algorithms on the unknown entries,
    step by step: singular value projection (cuts), thresholding and SoftImpute (shrink). The parameter is τ.
    """
    rng = np.random.default_rng(seed)
    X, _ = draw_problem(30, 30, 3, 1.0, 0.0, seed)
    A = X + 0.2 * rng.standard_normal(X.shape)
    U, s, Vt = np.linalg.svd(A)
    shrunk = np.maximum(s - tau, 0)
    drawing, axes = figure(1, 3, size=(3.6, 3.3))
    place = np.arange(1, 13)
    axes[0].plot(place, s[:12], color=GREY, marker="o", label="A")
    axes[0].plot(
        place,
        np.where(place <= 3, s[:12], 0),
        color=ORANGE,
        marker="^",
        ls="",
        label="cut to rank 3",
    )
    axes[0].plot(
        place,
        shrunk[:12],
        color=BLUE,
        marker="s",
        ms=4,
        ls="",
        label=f"shrunk by {tau:g}: rank {np.sum(shrunk > 0)}",
    )
    axes[0].set(xlabel="singular value", ylabel="size", title="cut and shrink")
    axes[0].legend()
    B = (U * shrunk) @ Vt

    def objective(M):
        return np.sum((A - M) ** 2) / 2 + tau * np.linalg.norm(M, "nuc")

    steps, above = np.linspace(-1, 1, 21), []
    for _ in range(8):
        D = rng.standard_normal(A.shape) / 8
        above.append([objective(B + t * D) - objective(B) for t in steps])
        axes[1].plot(steps, above[-1], color=BLUE, lw=0.8)
    axes[1].set(
        xlabel="way from the shrunk matrix",
        ylabel="objective above it",
        title="no direction goes down",
    )
    show(np.min(above) > -1e-9, "the shrunk matrix minimises ½‖A − B‖² + τ‖B‖_*")
    X, part = draw_problem(30, 30, 3, 0.6, 0.0, seed)
    models = {
        "projection, rank 3": lambda n: SingularValueProjection(
            3, max_iter=n, tol=0, random_state=0
        ),
        "thresholding": lambda n: SingularValueThresholding(max_iter=n, tol=0, random_state=0),
        "SoftImpute": lambda n: SoftImpute(
            reg=0.05, centre="none", max_iter=n, tol=0, random_state=0
        ),
    }
    counts = (1, 2, 4, 8, 16, 32, 64, 128)
    for (name, make), colour, mark in zip(
        models.items(), (ORANGE, GREEN, BLUE), "^so", strict=True
    ):
        errors = [
            _error_on_unknown(X, part, make(n).fit(part).complete(keep_known=False)) for n in counts
        ]
        axes[2].loglog(counts, errors, color=colour, marker=mark, ms=4, label=name)
        show(errors[-1] < 0.2, f"{name} finds the unknown entries within 20 %")
    axes[2].set(
        xlabel="steps", ylabel="error on unknown entries", title="60 % of 900 entries known"
    )
    axes[2].legend()
    return drawing


@entry("soft-impute-path", "CIL 2.5.2; CIL20 3.4.3; CIL24 2.2", share=(0.3, 0.9))
def soft_impute_path(share: float = 0.5, seed: int = 0):
    """As λ falls singular values enter one by one, and the held-out error says when to stop.

    SoftImpute on a noisy 50 × 40 matrix of rank 4, a part known, from large λ to small. Left: the singular values of the
    solution; above the largest of the data's the solution is 0. Right: the error on unknown entries, and its rank. The
    parameter is the share that is known.
    """
    X, A = draw_problem(50, 40, 4, share, 0.5, seed)
    largest = np.linalg.norm(np.nan_to_num(A), 2)
    regs = largest * np.geomspace(1.05, 0.02, 14)
    models = SoftImpute(centre="none", tol=1e-6, max_iter=100, random_state=0).path(A, list(regs))
    values = np.zeros((len(regs), 12))
    for row, model in zip(values, models, strict=True):
        found = np.sort(np.asarray(model.singular_values_))[::-1][:12]
        row[: len(found)] = found
    errors = np.array(
        [_error_on_unknown(X, A, model.complete(keep_known=False)) for model in models]
    )
    ranks = np.array([int(np.sum(np.asarray(model.singular_values_) > 1e-6)) for model in models])
    drawing, (left, right) = figure(1, 2, size=(4.6, 3.3))
    for j in range(12):
        left.semilogx(regs, values[:, j], color=BLUE if j < 4 else GREY, lw=2 if j < 4 else 1)
    left.axvline(largest, color="black", lw=0.8, ls=":")
    left.set(
        xlabel="λ",
        ylabel="singular values of the solution",
        title="the first four (blue), the next",
    )
    right.semilogx(regs, errors, color=BLUE, marker="o")
    for x, y, rank in list(zip(regs, errors, ranks, strict=True))[::2]:
        right.annotate(
            f"{rank}", (x, y), (0, 6), textcoords="offset points", ha="center", fontsize=8
        )
    best = int(np.argmin(errors))
    right.plot(
        regs[best],
        errors[best],
        color=RED,
        marker="o",
        ms=10,
        mfc="none",
        ls="",
        label=f"best: rank {ranks[best]}",
    )
    right.set(xlabel="λ", ylabel="error on unknown entries", title="error, with the rank")
    right.legend()
    show(ranks[0] == 0, "above the largest singular value of the known entries the solution is 0")
    show(0 < best < len(regs) - 1, "the error is least in between")
    show(ranks[-1] > 4, "at small λ the solution has more than the true rank: noise")
    return drawing


@entry("ball-steps", "CIL20 3.4.3, (3.5); Jaggi 2013", share=(0.3, 0.9))
def ball_steps(share: float = 0.5, seed: int = 0):
    """A pair of singular vectors a step, and each step knows how far it may still be.

    A 40 × 30 matrix of rank 3, a part known with noise, completed within a ball of the nuclear norm. Left: the distance to the
    best objective, step by step, of plain Frank–Wolfe steps and of NuclearBall, which corrects after each; dashed: the
    gap g = rσ₁(R) − ⟨R, X⟩, which is never below it. Right: the rank. The parameter is the share known.
    """
    X, A = draw_problem(40, 30, 3, share, 0.2, seed)
    known, r = ~np.isnan(A), 0.8 * np.linalg.norm(X, "nuc")
    B = np.zeros_like(X)
    losses, gaps, ranks = [], [], []
    for _ in range(60):
        R = np.where(known, A - B, 0)
        U, s, Vt = np.linalg.svd(R)
        losses.append(np.sum(R**2) / 2)
        gaps.append(r * s[0] - np.vdot(R, B))
        ranks.append(np.linalg.matrix_rank(B, tol=1e-6))
        ahead = np.where(known, r * np.outer(U[:, 0], Vt[0]) - B, 0)
        B += min(gaps[-1] / np.sum(ahead**2), 1) * (r * np.outer(U[:, 0], Vt[0]) - B)
    model = NuclearBall(r, tol=1e-7, max_iter=60, random_state=0).fit(A)
    trace = model.trace_
    best = float(model.loss_)
    runs = {
        "Frank–Wolfe": (np.array(losses), np.array(gaps), ORANGE, "s"),
        "NuclearBall": (np.asarray(trace.objective), np.asarray(trace.extras["gap"]), BLUE, "o"),
    }
    drawing, (left, right) = figure(1, 2, size=(4.7, 3.4))
    for name, (f, gap, colour, mark) in runs.items():
        above = np.maximum(f - best, 1e-8)
        left.loglog(np.arange(1, len(f) + 1), above, color=colour, marker=mark, ms=3, label=name)
        left.loglog(np.arange(1, len(gap) + 1), gap, color=colour, ls="--", lw=1)
        show((np.diff(f) <= 1e-9 * f[0]).all(), f"{name}: no step raises the objective")
        seen = (gap >= f - best - 1e-6 * f[0]).all()
        show(seen, f"{name}: the gap is never below the distance to the best")
    left.set(
        xlabel="step",
        ylabel="objective above the best",
        title=f"{100 * share:.0f} % known; dashed: gap",
    )
    left.legend()
    right.plot(np.arange(1, 61), ranks, color=ORANGE, marker="s", ms=3, label="Frank–Wolfe")
    final = len(model.singular_values_)
    right.axhline(final, color=BLUE, label=f"NuclearBall at the end: {final}")
    right.set(xlabel="step", ylabel="rank of X")
    right.legend()
    show(
        runs["NuclearBall"][1][-1] < 1e-3 * gaps[-1],
        "corrected steps end with a thousandth of the gap",
    )
    show(np.sum(model.singular_values_) <= r * (1 + 1e-6), "the answer lies in the ball")
    return drawing
