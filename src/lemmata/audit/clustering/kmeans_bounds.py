"""Lower bounds on the k-means optimum, so that cost ≤ (1 + g)·optimum can be proved; no solver has to be trusted.

    optimum = min over k centres of Σ_i w_i min_c ‖x_i − c‖²

For a partition of weighted points into k clusters let Y = Σ_c u_c u_cᵀ/W_c, with u = √w and u_c its part on cluster c. Then

    cost = ‖A‖² − ⟨AAᵀ, Y⟩,   rows of A: √w_i x_i,       Y ≥ 0,  Yu = u,  tr Y = k,  Y ⪰ 0      (Peng & Wei 2007)

Y ≥ 0 with Yu = u > 0 has spectral radius 1 (Perron), so 0 ⪯ Y ⪯ I with eigenvector u. Hence for *any* matrix N ≥ 0, with
M = AAᵀ + N and P the projection off u,

    ⟨AAᵀ, Y⟩ ≤ ⟨M, Y⟩ ≤ uᵀMu/‖u‖² + Σ_{i<k} λ_i(PMP)

and ‖A‖² minus the right-hand side bounds the cost of every partition from below, the best one included. All bounds
are this one:

* spectral, N = 0: tr S − Σ_{i<k} λ_i(S), S the scatter matrix (Zha et al. 2002, Ding & He 2004). One pass; nothing of it is
  left once k > d.
* separation, N of rank one between any two clusters, taken from given centres: deterministic, all rows, three passes; sharp
  for clusters about 10 standard deviations apart, whatever k, d and n. See `separation_bound.py`.
* semidefinite: the dense bound on all rows where these are few.
* Monte Carlo: the dense bound on many small random subsets, with a stated confidence; sharp for closer clusters, as long as
  they are few.

Good N, and how many subsets of which size pay, are searched for outside (`lemmata/clustering/witness.py`):
`search("multipliers", …)`, `search("subset_plan", …)`. Whatever is found there, the bounds are true; without a search, fewer of
them say anything.

    >>> points = WeakDual(np.array([[0.0], [0.1], [5.0], [5.1]]), np.ones(4), k=1)
    >>> _ = points.ask(np.zeros((4, 4)))
    >>> round(points.best, 6)                                                    # one cluster costs its scatter
    25.01
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import eigh

from lemmata.audit.clustering.nearest_centres import Frame, Partition, one_blas_thread
from lemmata.audit.clustering.separation_bound import separation_bound, separation_work
from lemmata.core.blocks import Blocks
from lemmata.core.moments import Moments

Array = np.ndarray
Search = Callable[..., Any]  # the name of a search and its arguments to what was found, or None
FORMED = 4096  # features up to which a scatter matrix is formed
DENSE = 500  # rows up to which the dense bound takes all of them
STEPS = 40  # supergradient steps on a subset, at most; twice as many on all rows
SETTLING = 20  # Lloyd's steps that centres of all rows take to settle in a subset
WORK = 8e9  # multiplications that all bounds together may take: 5 to 10 seconds of one core
# beyond, the subsets that this much work allows are too small to prove anything of use
MOST_CLUSTERS = 20
ENOUGH = 0.03  # a gap below which no further bound is tried


@dataclass(frozen=True)
class Gap:
    """cost ≤ (1 + gap)·optimum, as the named bound proves it with this confidence. The gap is infinite if nothing is proved."""

    gap: float
    lower_bound: float  # on the optimum
    cost: float
    bound: str = "none"
    confidence: float = 1.0
    multipliers: Array | None = field(default=None, compare=False, repr=False)  # of a dense bound


def moments_of(data: Blocks, frame: Frame) -> Moments:
    return sum((Moments.of(X, w) for X, w in frame.slices(data, dense=True) if w.any()), Moments())


def spectral_bound(moments: Moments, k: int) -> float:
    """Return tr S − Σ_{i<k} λ_i(S): the k − 1 largest eigenvalues of the scatter S are all that k clusters can explain.

    The k means span an affine space of dimension k − 1, so replacing rows by their means is at best the projection onto such
    a space, and PCA is the best of those. 0 once k > d.
    """
    values = np.linalg.eigvalsh(moments.scatter)
    slack = 8 * np.finfo(float).eps * math.sqrt(len(values)) * k * values.sum()
    return max(float(values[: max(len(values) - k + 1, 0)].sum() - slack), 0.0)


# --- dense bounds -----------------------------------------------------------------------------------------------------


def weak_dual(A: Array, u: Array, N: Array, k: int) -> tuple[float, Array]:
    """Return the bound that N ≥ 0 proves, and the Y that attains it (its negative is a supergradient in N)."""
    n = len(A)
    if N.shape != (n, n) or not N.min(initial=0.0) >= 0:
        raise ValueError("N has to be a square matrix without negative entries.")
    unit = u / np.linalg.norm(u)
    M = A @ A.T + (N + N.T) / 2
    Mu = M @ unit
    along = float(unit @ Mu)
    M -= np.outer(unit, Mu)
    M -= np.outer(M @ unit, unit)  # PMP; u itself now has eigenvalue 0
    M -= np.outer(unit, unit) * (1 + 2 * np.abs(M).sum(axis=0).max())  # and now the smallest of all
    k, Y, total = min(k, n), np.outer(unit, unit), np.einsum("ij,ij->", A, A)
    if k > 1:
        values, V = eigh(M, subset_by_index=(n - k + 1, n - 1), driver="evr", check_finite=False)
        along, Y = along + float(values.sum()), V @ V.T + Y
    # less what LAPACK may err: every eigenvalue by a few n·eps·‖M‖
    norm = float(np.abs(M - np.diag(np.diag(M))).sum(axis=0).max(initial=0.0) + total)
    return max(float(total - along - 4 * k * np.sqrt(n) * np.finfo(float).eps * norm), 0.0), Y


class WeakDual:
    """The best bound on the cost of k clusters of weighted points that some N proved, of those that a search asked for.

    Nothing else of a search is kept, so that nothing has to be believed: a bad one leaves a loose bound.
    """

    def __init__(self, X: Array, w: Array, k: int):
        X = X - np.average(X, axis=0, weights=w)
        if X.shape[1] > len(X):  # only inner products matter
            X = np.asarray(np.linalg.qr(X.T, mode="r")).T
        self.X, self.w, self.k, self.u = X, w, k, np.sqrt(w)
        self.A = X * self.u[:, None]
        self.best, self.multipliers = 0.0, np.zeros((len(X), len(X)))

    def ask(self, N: Array) -> tuple[float, Array]:
        """Return the bound that N ≥ 0 proves, and where to go from there; see `weak_dual`."""
        found, Y = weak_dual(self.A, self.u, N, self.k)
        if found > self.best:
            self.best, self.multipliers = found, N
        return found, Y


def eigen_work(s: int) -> float:
    """Return the price of one eigenproblem of s rows; measured: overhead and bandwidth count below a few hundred."""
    return s**2 * (s + 200.0) / 3


def dense_bound(
    X: Array, w: Array, k: int, centers: Array | None, search: Search, steps: int, settling: int = 0
) -> WeakDual | None:
    """Return the best bound on the optimum of a few rows for which a search finds multipliers; None where that is 0.

    centers : where to begin, the better the tighter; settling : Lloyd's steps that they may take first
    """
    X, w = X[w > 0], w[w > 0]
    if len(X) <= k:
        return None
    points = WeakDual(X, w, k)
    search("multipliers", points, X, centers, steps, settling)
    if points.best == 0:
        points.ask(points.multipliers)  # N = 0
    return points


# --- the Monte Carlo bound --------------------------------------------------------------------------------------------


def monte_carlo_bound(
    data: Blocks,
    frame: Frame,
    k: int,
    rng: np.random.Generator,
    alpha: float,
    centers: Array | None,
    search: Search,
    plan: Callable[[Callable[[int, int], Array]], tuple[int, int, int] | None],
) -> float:
    """Return a number that exceeds the optimum with probability at most α over the draw of subsets, in the frame's units.

    Draw s rows independently, in proportion to their weights (sum W). In the optimal cluster c, of share p_c and variance σ_c²,
    a subset has s_c rows, whose scatter is (s_c − 1)₊σ_c² on average, and E(s_c − 1)₊ = s p_c − 1 + (1 − p_c)^s ≤ (s − 1)p_c.
    So E[optimum of the subset] ≤ (s − 1) Σ_c p_c σ_c² = (s − 1)/W · optimum. With L_t ≥ 0 the dual bound of subset t times
    W/(s − 1), E ∏ L_t ≤ optimum^m, and by Markov's inequality the optimum is below (α ∏ L_t)^{1/m} with probability at most α.
    This needs no upper limit of the L_t; it loses ln(1/α)/m, and a subset k/s of the optimum.

    centers : where the clusters of a subset are looked for first; any choice is valid, good ones give tight bounds
    plan : gives s, m and the steps on each subset, and may draw others than those that count to find what pays; or None
    """

    def draw(m: int, s: int) -> Array:
        return _draws(data, frame, m, s, rng)

    with one_blas_thread():
        s, m, steps = plan(draw) or (0, 0, 0)
        if m < 1 or s <= k + 1:
            return 0.0
        logs = []
        for rows in draw(m, s):
            found = dense_bound(rows, np.ones(s), k, centers, search, steps, SETTLING)
            if found is None or found.best <= 0:
                return 0.0
            logs.append(math.log(found.best))
    total = float(frame.weights(data.shape[0], data.weights).sum())
    return math.exp((math.fsum(logs) + math.log(alpha)) / m) * total / (s - 1)


def _draws(data: Blocks, frame: Frame, m: int, s: int, rng: np.random.Generator) -> Array:
    """Draw m subsets of s rows independently, in proportion to their weights, by one pass over the blocks: (m, s, d)."""
    n = data.shape[0]
    if data.weights is None:
        index = rng.integers(n, size=m * s)
    else:
        heights = np.cumsum(frame.weights(n, data.weights))
        index = np.searchsorted(heights, rng.random(m * s) * heights[-1], side="right")
        # random() · total may round up to the total
        index = index.clip(max=np.flatnonzero(data.weights)[-1])
    return frame.take(data, index).reshape(m, s, -1)


# --- the best of them -------------------------------------------------------------------------------------------------


def gap_of(
    data: Blocks,
    found: Partition,
    around: Partition,
    k: int,
    rng: np.random.Generator,
    confidence: float,
    enough: float,
    work: float,
    search: Search,
) -> Gap:
    """Return the gap of a partition, from bounds built around another one in the same frame, with so much work.

    enough : a gap at which to stop looking
    """
    outside = found.frame.cost_outside
    if found.cost <= found.rounding:
        return Gap(0.0, 0.0, outside(found.cost), "zero cost")
    best, name, proof = 0.0, "none", None
    near = around.cost / found.cost
    for next_name, bound, N in _bounds(data, k, around, rng, 1 - confidence, near, work, search):
        if bound > best:
            best, name, proof = bound, next_name, N
        if best * (1 + enough) >= found.cost:
            break
    gap = max(found.cost / best - 1, 0.0) if best > 0 else math.inf
    surely = confidence if name == "Monte Carlo" else 1.0
    return Gap(float(gap), outside(best), outside(found.cost), name, surely, proof)


def _bounds(
    data: Blocks,
    k: int,
    around: Partition,
    rng: np.random.Generator,
    alpha: float,
    near: float,
    work: float,
    search: Search,
) -> Iterator[tuple[str, float, Array | None]]:
    """Yield lower bounds in the units of the partition's frame, the cheap ones first, as long as there is work for them."""
    frame, (n, d) = around.frame, data.shape
    if n <= DENSE:
        # the closed form takes up to four
        steps = int(min(work / eigen_work(n), 2 * STEPS + 4)) - 4
        if steps >= 0:
            parts = zip(*frame.slices(data, dense=True), strict=True)
            X, w = (np.concatenate(part) for part in parts)
            with one_blas_thread():
                points = dense_bound(X, w, k, around.centers, search, steps)
            if points is not None:
                yield "semidefinite", points.best, points.multipliers
        return
    formed = n * float(d) ** 2 + 2.0 * d**3
    if d <= FORMED and formed <= work:
        moments = moments_of(data, frame)
        if k <= d:
            yield "spectral", spectral_bound(moments, k), None
        work -= formed
        yield "separation", separation_bound(data, around, moments, k, work), None
        first, each = separation_work(n, d, k)
        work -= first + 3 * each if first + each <= work else 0
    if k <= MOST_CLUSTERS and work > 0:
        start = around.centers

        def plan(draw: Callable[[int, int], Array]) -> tuple[int, int, int] | None:
            return search("subset_plan", draw, k, start, alpha, near, work)

        bound = monte_carlo_bound(data, frame, k, rng, alpha, start, search, plan)
        yield "Monte Carlo", bound, None
