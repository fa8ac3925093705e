"""Chapter 2 of the notes, drawn: one product of two numbers, means of ratings, and when a matrix can be completed at all."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from lemmata.atlas import entry, show
from lemmata.completion.als.algorithm import ALSAlgorithm
from lemmata.completion.baselines.mean_ratings import MeanRatings
from lemmata.completion.baselines.rank_one import (
    GradientFlowAlgorithm,
    logistic_flow,
    time_to_reach,
)
from lemmata.completion.nuclear.soft_impute import SettledAtReg, SoftImputeAlgorithm
from lemmata.completion.observed import Observed
from lemmata.completion.recovery import coherence, degrees_of_freedom
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, RED, figure
from lemmata.core.loop import MaxSteps, Settled, run

Array = np.ndarray


# --- one entry (CIL 2.2) ----------------------------------------------------------------------------------------------


def _flow(_, w):
    """(u̇, v̇) = −∇ ½(1 − uv)²."""
    u, v = w
    return np.array([v * (1 - u * v), u * (1 - u * v)])


@entry("gradient-field", "CIL Fig. 2.1, (2.13)")
def gradient_field():
    """Gradient descent on ½(1 − uv)² leaves the saddle for the hyperbola.

    The gradient flow of ½(1 − uv)² in the plane of u and v; darker arrows are faster. Dots are starts. Every flow ends on
    the hyperbola uv = 1, except from the line u = −v, which leads into the saddle at the origin.
    """
    drawing, ax = figure(size=(5.6, 5.0))
    grid = np.linspace(-2, 2, 23)
    u, v = np.meshgrid(grid, grid)
    du, dv = _flow(0, (u, v))
    length = np.hypot(du, dv) + 1e-12
    shade = np.log1p(length)
    ax.quiver(
        u,
        v,
        du / length,
        dv / length,
        shade,
        cmap="Blues",
        clim=(-1, 3),
        scale=34,
        width=0.0035,
        zorder=1,
    )
    x = np.linspace(0.5, 2, 100)
    for sign in (1, -1):
        label = "minima: uv = 1" if sign == 1 else None
        ax.plot(sign * x, sign / x, color=RED, lw=2.5, zorder=2, label=label)
    starts = [
        (0.1, 0.02),
        (-0.02, -0.1),
        (1.9, -0.6),
        (-0.6, 1.9),
        (0.3, -1.8),
        (-1.8, 0.3),
        (2.0, 1.8),
        (-1.8, -2.0),
    ]
    for i, start in enumerate(starts):
        path = solve_ivp(_flow, (0, 40), start, rtol=1e-9, atol=1e-12).y
        ax.plot(*path, color=GREEN, lw=1.6, zorder=3, label="gradient flow" if i == 0 else None)
        ax.plot(*path[:, 0], color=GREEN, marker="o", ms=4, zorder=4)
        seen = abs(path[0, -1] * path[1, -1] - 1) < 1e-6
        show(seen, f"the flow from {start} ends on the hyperbola")
        drift = np.ptp(path[0] ** 2 - path[1] ** 2)
        show(drift < 1e-6, f"u² − v² stays what it was at {start}")
    trapped = solve_ivp(_flow, (0, 40), (1.5, -1.5), rtol=1e-9, atol=1e-12).y
    ax.plot(*trapped, color=ORANGE, lw=1.6, ls="--", zorder=3, label="from u = −v: into the saddle")
    ax.plot(*trapped[:, 0], color=ORANGE, marker="o", ms=4, zorder=4)
    ax.plot(
        0, 0, color="black", marker="X", ms=9, ls="", zorder=5, label="saddle, curvatures +1 and −1"
    )
    curvatures = np.linalg.eigvalsh(np.array([[0.0, -1.0], [-1.0, 0.0]]))
    show(np.hypot(*trapped[:, -1]) < 1e-6, "on the line u = −v the flow ends in the saddle")
    show(np.allclose(curvatures, [-1, 1]), "the Hessian at the origin has eigenvalues −1 and 1")
    ax.set(xlabel="u", ylabel="v", xlim=(-2.1, 2.1), ylim=(-2.1, 2.1), aspect="equal")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 1.13), ncols=2)
    return drawing


@entry("logistic-flow", "CIL (2.20), Fig. 2.2, Ex. 2.4")
def logistic_solution():
    """Gradient descent waits at the saddle, the longer the nearer it starts, and ends fast.

    The product x = uv along the gradient flow of ½(a − uv)² with a = 1, from three starts u = v. The logistic solution
    (lines) agrees with the flow integrated numerically (circles); triangles mark when x is 0.1 and 0.01 from a.
    """
    a, span = 1.0, np.linspace(0, 9, 400)
    drawing, ax = figure(size=(6.0, 3.8))
    for c, colour in ((0.01, BLUE), (0.1, GREEN), (1.3, ORANGE)):
        exact = logistic_flow(a, c, span)
        times = np.linspace(0, 9, 19)
        u, v = solve_ivp(_flow, (0, 9), (c, c), t_eval=times, rtol=1e-10, atol=1e-12).y
        ax.plot(span, exact, color=colour, lw=2, label=f"solution from u = v = {c}")
        ax.plot(times, u * v, color=colour, marker="o", ms=4.5, mfc="white", ls="")
        seen = np.abs(u * v - logistic_flow(a, c, times)).max() < 1e-7
        show(seen, f"formula and numerical flow agree from {c}")
        for eps, mark in ((0.1, "v"), (0.01, "^")):
            t = time_to_reach(a, c, eps)
            seen = abs(abs(float(logistic_flow(a, c, t)) - a) - eps) < 1e-9
            show(seen, f"at t = {t:.2f} it is ε = {eps} from a")
            ax.plot(
                t, logistic_flow(a, c, t), color=colour, marker=mark, ms=8, mec="black", zorder=5
            )
            ax.vlines(t, 0, logistic_flow(a, c, t), color=colour, lw=0.8, ls=":")
    wait = time_to_reach(a, 0.01, 0.01) - time_to_reach(a, 0.1, 0.01)
    seen = abs(wait - np.log(10)) < 0.01
    show(seen, "to start ten times nearer the saddle costs ln(10)/a more time")
    ax.axhline(a, color=GREY, lw=0.8)
    ax.plot([], [], color=GREY, marker="o", mfc="white", ls="", label="numerical flow")
    ax.plot([], [], color=GREY, marker="v", mec="black", ls="", label="|x − a| = 0.1")
    ax.plot([], [], color=GREY, marker="^", mec="black", ls="", label="|x − a| = 0.01")
    ax.set(xlabel="time t", ylabel="x = uv", ylim=(0, 1.8), xlim=(0, 9))
    ax.set_title("gradient flow of ½(a − uv)² for a = 1")
    ax.legend(ncols=2, loc="upper right")
    return drawing


# --- means (CIL 2.1.4) ------------------------------------------------------------------------------------------------


def _ratings() -> tuple[Observed, str]:
    """MovieLens small, or where it is absent ratings made up of two offsets, three tastes and noise; and what it is."""
    from lemmata.data import DataNotFound, movielens_small

    try:
        return Observed.of(movielens_small()), "MovieLens small"
    except DataNotFound:
        rng = np.random.default_rng(0)
        n, m = 400, 300
        tastes = rng.normal(size=(n, 3)) @ rng.normal(size=(3, m)) * 0.3
        stars = (
            3.5
            + 0.4 * rng.normal(size=(n, 1))
            + 0.4 * rng.normal(size=m)
            + tastes
            + 0.7 * rng.normal(size=(n, m))
        )
        i, j = np.nonzero(rng.random((n, m)) < 0.1 * rng.random(m) ** 2 + 0.02)
        values = np.clip(np.round(2 * stars[i, j]) / 2, 0.5, 5).astype(np.float32)
        return Observed.from_triplets(
            i, j, values, (n, m)
        ), "generated ratings (MovieLens is not here)"


@entry("mean-ratings", "CIL Ex. 2.2")
def mean_ratings():
    """Means of rows against means of columns, and both.

    The squared error on held-out ratings when each is predicted by a mean: of all ratings, of the film's, of the user's,
    or by offsets of both, shrunk. Bars are means over five random splits into 90 and 10 %, dots the splits.
    """
    ratings, name = _ratings()
    ways = {
        "all alike": "global",
        "columns (films)": "columns",
        "rows (users)": "rows",
        "both, shrunk (λ = 5)": "both",
    }
    errors = {way: np.zeros(5) for way in ways}
    for seed in range(5):
        train, test = ratings.split(0.1, seed=seed)
        for way, by in ways.items():
            errors[way][seed] = (
                MeanRatings(by=by, reg=0 if by != "both" else 5.0).fit(train).score(test) ** 2
            )
    drawing, ax = figure(size=(5.8, 3.4))
    for place, (way, found) in enumerate(errors.items()):
        ax.barh(place, found.mean(), color=GREY if way == "all alike" else BLUE, height=0.6)
        ax.plot(
            found,
            np.full(5, place),
            color=ORANGE,
            marker="o",
            ms=4,
            ls="",
            mec="black",
            mew=0.4,
            label="one of five splits, 90/10" if place == 0 else None,
        )
        ax.text(0.02, place, f"{found.mean():.3f}", color="white", va="center", fontsize=10)
    ax.set(yticks=range(len(ways)), yticklabels=list(ways))
    ax.set(xlabel="mean squared error on held-out ratings")
    ax.set_title(f"{name}: predict the mean of …")
    drawing.legend(fontsize=9, loc="outside lower right")
    seen = (errors["both, shrunk (λ = 5)"] < errors["rows (users)"]).all()
    show(seen, "row and column offsets together beat row means")
    show((errors["both, shrunk (λ = 5)"] < errors["columns (films)"]).all(), "and column means")
    one = np.minimum(errors["rows (users)"], errors["columns (films)"])
    show((one < errors["all alike"]).all(), "either of them can beat the mean of all")
    return drawing


# --- what can be completed (CIL 2.6) ----------------------------------------------------------------------------------


RECOVERED = 0.01  # of ‖X‖: an error below it counts as recovery


def _error(X: Array, found: dict) -> float:
    return float(np.linalg.norm(found["U_"] @ found["V_"].T - X) / np.linalg.norm(X))


def _observe(X: Array, known: Array) -> Observed:
    i, j = np.nonzero(known)
    return Observed.from_triplets(i, j, X[i, j], X.shape)


def _by_nuclear_norm(A: Observed, k: int) -> dict:
    """The least nuclear norm that meets the entries, as the limit λ → 0 of the penalised problem."""
    stop = SettledAtReg(1e-5, patience=2) | MaxSteps(80)
    return run(SoftImputeAlgorithm(reg=1e-3), A, stop=stop, rng=0).attributes


def _by_als(A: Observed, k: int) -> dict:
    algorithm = ALSAlgorithm(k, reg=1e-6, weighted=False, biases=False)
    return run(algorithm, A, stop=Settled(1e-5) | MaxSteps(100), rng=0).attributes


def _recovers(complete, X: Array, k: int, order: Array, share: float) -> bool:
    """Whether X is found from the first entries in an order, a share of all."""
    A = _observe(X, order <= share)
    n, m = X.shape
    met = _error(X, complete(A, k)) < RECOVERED
    seen = not met or A.n_observed >= degrees_of_freedom(n, m, k)
    show(seen, "no recovery from too few entries")
    return met


def _where_nuclear(X: Array, k: int, order: Array, shares: Array) -> Array:
    """At which shares X is the matrix of least nuclear norm: from the first one on, which bisection finds.

    A further entry of X takes away competitors of X, never X itself: where it was the only matrix of least nuclear norm, it
    stays so.
    """
    low, high = -1, len(shares)  # not recovered at low, recovered at high
    while high - low > 1:
        middle = (low + high) // 2
        met = _recovers(_by_nuclear_norm, X, k, order, shares[middle])
        low, high = (low, middle) if met else (middle, high)
    return np.arange(len(shares)) >= high


def _where_als(X: Array, k: int, order: Array, shares: Array) -> Array:
    """At which shares ALS finds X from one start. It may end elsewhere, however many entries it knows, so each is tried."""
    return np.array([_recovers(_by_als, X, k, order, share) for share in shares])


@entry("phase-diagram", "CIL 2.6.1, Thm 2.6.1")
def phase_diagram():
    """Exact recovery begins to the right of the degrees of freedom.

    The share of 4 random 30 × 30 matrices of rank k that are recovered from a random share of their entries: by the
    least nuclear norm, and by ALS, which is given the rank. Left of the line there are fewer entries than degrees of freedom.
    ALS needs fewer entries, but from one start it may end elsewhere, however many it knows: the paler cells on its right.
    """
    n, ranks, shares, draws = 30, np.arange(1, 9), np.linspace(0.1, 1, 13), 4
    ways = {
        "nuclear norm (SoftImpute, λ → 0)": _where_nuclear,
        "ALS at the true rank, one start": _where_als,
    }
    drawing, axes = figure(1, 2, size=(4.7, 3.9), sharey=True)
    maps = {}
    for ax, (name, where) in zip(axes, ways.items(), strict=True):
        count = np.zeros((len(ranks), len(shares)))
        for r, seed in np.ndindex(len(ranks), draws):
            rng, k = np.random.default_rng(seed), int(ranks[r])
            X, order = (
                rng.normal(size=(n, k)) @ rng.normal(size=(k, n)) / np.sqrt(k),
                rng.random((n, n)),
            )
            count[r] += where(X, k, order, shares)
        maps[name] = recovered = count / draws
        picture = ax.pcolormesh(
            shares, ranks, recovered, cmap="Blues", vmin=0, vmax=1, shading="nearest"
        )
        x = np.linspace(0.5, ranks[-1] + 0.5, 100)
        ax.plot(x * (2 * n - x) / n**2, x, color=RED, lw=2.5)
        # beside its line, where nothing is recovered
        text = "degrees of\nfreedom,\nk(2n − k)/n²"
        ax.text(0.12, ranks[-1] + 0.2, text, color=RED, fontsize=8, va="top")
        ax.set(xlabel="share of the entries that is known", xlim=(shares[0], 1))
        ax.set(ylim=(0.5, ranks[-1] + 0.5))
        ax.set_title(name)
    axes[0].set_ylabel(f"rank k of the {n} × {n} matrix")
    drawing.colorbar(picture, ax=axes, label=f"share of {draws} matrices recovered", shrink=0.9)
    nuclear, als = maps.values()
    seen = (nuclear[:, shares > 0.98] == 1).all() and (als[:, shares > 0.98] == 1).all()
    show(seen, "a known matrix is recovered")
    show(als.sum() > nuclear.sum(), "who knows the rank needs fewer entries")
    show((np.diff(nuclear.sum(axis=1)) < 0.7).all(), "a higher rank needs more of them")
    return drawing


@entry("coherent-spike", "CIL 2.6.3, (2.47)")
def coherent_spike():
    """A matrix that hides in one entry cannot be completed.

    Failures to recover a 40 × 40 matrix of rank 1 from a share p of its entries, drawn again for each of the
    attempts; bars are 95 % intervals (Wilson). A matrix of ±1 is spread out and needs few entries; one with a single
    entry is lost unless that entry is seen, so with probability 1 − p.
    """
    n, shares = 40, np.linspace(0.1, 1, 10)
    rng = np.random.default_rng(0)
    kinds = {
        "spread out, entries ±1": (
            [rng.choice([-1.0, 1.0], (n, 1)) for _ in range(2)],
            30,
            BLUE,
            "o",
        ),
        "one spike": ([np.eye(n)[:, [i]] for i in rng.integers(n, size=2)], 100, RED, "s"),
    }
    drawing, ax = figure(size=(6.2, 4.0))
    intervals = {}
    for name, ((u, v), draws, colour, mark) in kinds.items():
        X, lost = u @ v.T, np.zeros((draws, len(shares)))
        for d, s in np.ndindex(lost.shape):
            known = rng.random(X.shape) <= shares[s]
            lost[d, s] = _error(X, _by_gradient_flow(_observe(X, known), d)) > RECOVERED
            if name == "one spike":
                seen = lost[d, s] != known[X != 0].all()
                show(seen, "the spike is found if it was seen, and only then")
        share = lost.mean(axis=0)
        intervals[name] = low, high = _wilson(share, draws)
        ax.errorbar(
            shares,
            share,
            yerr=[np.maximum(share - low, 0), np.maximum(high - share, 0)],
            color=colour,
            marker=mark,
            lw=2,
            elinewidth=1.2,
            capsize=3,
            label=f"{name}: coherence μ = {coherence(u, v).E:.0f}, {draws} attempts",
        )
    ax.plot(shares, 1 - shares, color="black", lw=1.2, ls=":", zorder=3, label="1 − p: not seen")
    ax.set(xlabel="share p of the entries that is known", ylabel="share of attempts that fail")
    ax.set(ylim=(-0.03, 1.03))
    ax.set_title(f"{n} × {n} matrices of rank 1, entries known at random")
    ax.legend(loc="upper right")
    low, high = intervals["one spike"]
    # of ten intervals of 95 %, two or more miss with probability 0.086, three or more with 0.012
    seen = np.sum((1 - shares < low - 1e-9) | (1 - shares > high + 1e-9)) <= 2
    show(seen, "the spike is lost as often as it is not seen, 1 − p, within the intervals")
    seen = intervals["spread out, entries ±1"][0][shares > 0.25].max() < 1e-9
    show(seen, "30 % of the entries complete the matrix that is spread out")
    return drawing


def _by_gradient_flow(A: Observed, seed: int) -> dict:
    stop = Settled(1e-6, patience=3) | MaxSteps(100)
    return run(GradientFlowAlgorithm(), A, stop=stop, rng=seed).attributes


def _wilson(share: Array, n: int, z: float = 1.96) -> tuple[Array, Array]:
    """The 95 % interval of a probability of which a share was seen in n attempts (Wilson 1927)."""
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return middle - half, middle + half
