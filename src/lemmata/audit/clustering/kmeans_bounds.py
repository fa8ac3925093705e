"""How far from the best? Lower bounds on the k-means optimum, so that cost ≤ (1 + g)·optimum can be proved.

    optimum = min over k centres of Σ_i w_i min_c ‖x_i − c‖²

All bounds are the one of `semidefinite_bound.py`: the optimum is at least ‖A‖² − uᵀMu/‖u‖² − Σ_{i<k} λ_i(PMP), M = AAᵀ + N, for
any N ≥ 0.

* `spectral_lower_bound`, N = 0: tr S − Σ_{i<k} λ_i(S), S the scatter matrix (Zha et al. 2002, Ding & He 2004). One pass;
  nothing of it is left once k > d.
* `separation_lower_bound`, N of rank one between any two clusters, taken from given centres: deterministic, all rows, three
  passes; sharp for clusters about 10 standard deviations apart, whatever k, d and n.
* `monte_carlo_lower_bound`: the dense bound on many small random subsets, with a stated confidence; sharp for closer clusters,
  as long as they are few.
* `certified_gap` takes the best of them that its budget allows, or the dense bound on all rows where these are few.

    >>> rng = np.random.default_rng(0)
    >>> centers = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]])
    >>> X = np.repeat(centers, 500, axis=0) + rng.standard_normal((2000, 2))
    >>> gap = certified_gap(X, centers, rng=rng)
    >>> gap.bound, gap.confidence, gap.gap < 0.01                          # k > d: the spectral bound would be 0
    ('separation', 1.0, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from lemmata.audit.clustering.nearest_centres import (
    Frame,
    Partition,
    one_blas_thread,
    squared_distances,
)
from lemmata.audit.clustering.semidefinite_bound import cost_of, dual_bound, dual_bounds
from lemmata.audit.clustering.separation_bound import separation_bound, separation_work
from lemmata.core.blocks import Blocks, open_rows
from lemmata.core.moments import Moments

Array = np.ndarray
FORMED = 4096  # features up to which a scatter matrix is formed
DENSE = 500  # rows up to which the dense bound takes all of them
SMALLEST, LARGEST = 120, 600  # rows of a random subset
FEWEST, SUBSETS = 20, 1000  # how many of them, at least and at most
STEPS = 40  # supergradient steps on a subset, at most
WORK = 8e9  # multiplications that all bounds together may take: 5 to 10 seconds of one core
MOST_CLUSTERS = (
    20  # beyond, the subsets that this much work allows are too small to prove anything of use
)
ROOM = 2**25  # numbers of all subsets together
SOME_STEPS = 8  # if the number of subsets is given
PILOTS = 4  # subsets drawn only to choose how many steps pay
FOR_PILOTS = 0.25  # of the work: what they may take
HOPELESS = 0.1  # a gap that pilots promise from which on it is not worth all the work to know it to a percent or two
ENOUGH = 0.03  # a gap below which no further bound is tried


@dataclass(frozen=True)
class Gap:
    """cost ≤ (1 + gap)·optimum, as the named bound proves it with this confidence. The gap is infinite if nothing is proved."""

    gap: float
    lower_bound: float  # on the optimum
    cost: float
    bound: str = "none"
    confidence: float = 1.0


def _opened(data: Any, centers: Any, weights: Any) -> tuple[Blocks, Array]:
    """Rows and centres that belong together, checked."""
    data = open_rows(data, weights)
    centers = check_array(centers, dtype=[np.float64, np.float32], input_name="centers")
    if centers.shape[1] != data.shape[1]:
        raise ValueError(
            f"centres of {centers.shape[1]} features for data of {data.shape[1]}; pass centres of this data."
        )
    if data.sparse and data.shape[0] <= DENSE and data.shape[1] <= FORMED:
        data = Blocks.of(
            data.source.toarray(), data.weights
        )  # as small as the bound that is taken here
    return data, centers


# --- the spectral bound -----------------------------------------------------------------------------------------------


def spectral_lower_bound(data: Any, k: int, weights: Array | None = None) -> float:
    """tr S − Σ_{i<k} λ_i(S): the k − 1 largest eigenvalues of the scatter S of the centred rows are all k clusters can explain.

    The k means span an affine space of dimension k − 1, so replacing rows by their means is at best the projection onto such
    a space, and PCA is the best of those. 0 once k > d.
    """
    data = open_rows(data, weights)
    frame = Frame.of(data)
    return (
        frame.cost_outside(_spectral(_moments(data, frame), k))
        if k <= data.shape[1] <= FORMED
        else 0.0
    )


def _moments(data: Blocks, frame: Frame) -> Moments:
    return sum((Moments.of(X, w) for X, w in frame.rows(data) if w.any()), Moments())


def _spectral(moments: Moments, k: int) -> float:
    values = np.linalg.eigvalsh(moments.scatter)
    slack = 8 * np.finfo(float).eps * math.sqrt(len(values)) * k * values.sum()
    return max(float(values[: len(values) - k + 1].sum() - slack), 0.0)


# --- the bound from well-separated centres ----------------------------------------------------------------------------


def separation_lower_bound(data: Any, centers: Any, weights: Array | None = None) -> float:
    """What centres that lie far apart prove about the optimum for as many clusters; see `separation_bound.py`.

    0 beyond 4096 features, where the scatter matrix would not be formed.
    """
    data, centers = _opened(data, centers, weights)
    if data.shape[1] > FORMED:
        return 0.0
    found = Partition.of(data, centers)
    return found.frame.cost_outside(separation_bound(data, found, _moments(data, found.frame)))


# --- the Monte Carlo bound --------------------------------------------------------------------------------------------


def monte_carlo_lower_bound(
    data: Any,
    k: int,
    rng: np.random.Generator,
    confidence: float = 0.99,
    subsets: int | None = None,
    size: int | None = None,
    centers: Any = None,
    weights: Array | None = None,
    work: float | None = None,
) -> float:
    """A number that exceeds the k-means optimum with probability at most 1 − confidence, over the draw of the subsets.

    Draw s rows independently, in proportion to their weights (sum W). In the optimal cluster c, of share p_c and variance σ_c²,
    a subset has s_c rows, whose scatter is (s_c − 1)₊σ_c² on average, and E(s_c − 1)₊ = s p_c − 1 + (1 − p_c)^s ≤ (s − 1)p_c.
    So E[optimum of the subset] ≤ (s − 1) Σ_c p_c σ_c² = (s − 1)/W · optimum. With L_t ≥ 0 the dual bound of subset t times
    W/(s − 1), E ∏ L_t ≤ optimum^m, and by Markov's inequality the optimum is below (α ∏ L_t)^{1/m}, α = 1 − confidence, with
    probability at most α. This needs no upper limit of the L_t; it loses ln(1/α)/m, and a subset k/s of the optimum.

    centers : where the clusters of a subset are looked for first; any choice is valid, good ones give tight bounds.
    subsets, size : m and s; if not given, what pays best for so much work is found on a few pilot subsets.
    work : multiplications that all subsets together may take, about 1e9 a second
    """
    data, centers = (
        (open_rows(data, weights), None) if centers is None else _opened(data, centers, weights)
    )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} is not between 0 and 1.")
    frame = Frame.of(data, centers)
    start = None if centers is None else frame.inside(centers)
    work = WORK if work is None else work
    return frame.cost_outside(
        _monte_carlo(data, k, rng, 1 - confidence, frame, start, subsets, size, work=work)
    )


def _monte_carlo(
    data: Blocks,
    k: int,
    rng: np.random.Generator,
    alpha: float,
    frame: Frame,
    start: Array | None,
    m: int | None = None,
    s: int | None = None,
    near: float = math.inf,
    work: float = math.inf,
) -> float:
    """The bound in the units of the frame, 0 if there is too little work for one. near: the least cost known / the cost that is
    to be bounded; where a bound cannot come close to that, less is done."""
    sizes = {s} if s is not None else _sizes(k, alpha, work)
    steps = SOME_STEPS
    if not sizes or max(sizes) <= k + 1:
        return 0.0

    def labels(rows: Array) -> Array:
        return _lloyd(rows, _seeds(rows, k, rng) if start is None else start)

    with one_blas_thread():
        s = max(sizes)
        if m is None:
            pilots = {}
            for size in sorted(sizes):
                most = int(FOR_PILOTS * work / len(sizes) / PILOTS / _work(size)) - 4
                some = _draws(data, frame, PILOTS, size, rng)
                pilots[size] = _Pilots.of(some, k, labels, min(max(most, 0), STEPS))
            promise, s, m, steps = _plan(pilots, alpha, (1 - FOR_PILOTS) * work)
            if promise * near * (1 + HOPELESS) < 1:
                less = _plan(pilots, alpha, (1 - FOR_PILOTS) * work / 3)
                promise, s, m, steps = less if less[2] else (promise, s, m, steps)
        if m == 0:
            return 0.0
        least = [
            dual_bound(rows, k, labels(rows), steps=steps)
            for rows in _draws(data, frame, m, s, rng)
        ]
    if min(least) <= 0:
        return 0.0
    total = float(frame.weights(data.shape[0], data.weights).sum())
    return math.exp((math.fsum(map(math.log, least)) + math.log(alpha)) / m) * total / (s - 1)


def _work(s: int) -> float:
    """One eigenproblem; measured in units of 1e9 a second: overhead and bandwidth count below a few hundred."""
    return s**2 * (s + 200.0) / 3


def _sizes(k: int, alpha: float, work: float) -> set[int]:
    """The smallest size of subsets, and the one that loses least: k/s since they are small, ln(1/α)/m since they are few, at 4
    eigenproblems each. Only those whose pilots can be paid, at 4 eigenproblems each and more."""
    sizes = range(SMALLEST, LARGEST + 1, 20)
    best = min(sizes, key=lambda s: k / s + math.log(1 / alpha) * 4 * _work(s) / work)
    return {s for s in (SMALLEST, best) if PILOTS * 8 * _work(s) <= FOR_PILOTS * work}


@dataclass(frozen=True)
class _Pilots:
    """What a few subsets of one size teach about others: bounds step by step, and the costs they are bounds of."""

    shape: tuple[int, int, int]  # k, s, d
    paths: list[list[float]]
    cost: float  # of all of them

    @classmethod
    def of(cls, subsets: Array, k: int, labels: Callable[[Array], Array], steps: int) -> _Pilots:
        named = [(rows, labels(rows)) for rows in subsets]
        paths = [dual_bounds(rows, k, which, steps=steps) for rows, which in named]
        return cls(
            (k, *subsets.shape[1:]),
            paths,
            sum(cost_of(rows, np.ones(len(rows)), which) for rows, which in named),
        )

    def promise(self, steps: int, alpha: float, work: float) -> tuple[float, int]:
        """The bound, as a share of the optimum, that so much work on fresh subsets may give; and how many of them it buys.

        Compared with the cost of the same rows, because the optimum of a subset itself strays too much from one to the other.
        """
        k, s, d = self.shape
        reached = sum(path[min(steps, len(path) - 1)] for path in self.paths)
        solved = np.mean([min(steps, len(path) - 1) + 2 for path in self.paths])
        m = int(work / (_work(s) * solved + d * s**2 / 4))  # the products are BLAS's
        if m < FEWEST:
            return 0.0, 0
        m = max(min(m, SUBSETS, ROOM // (s * d)), FEWEST)
        return (1 - k / s) * reached / max(self.cost, reached, np.finfo(float).tiny) * alpha ** (
            1 / m
        ), m


def _plan(pilots: dict[int, _Pilots], alpha: float, work: float) -> tuple[float, int, int, int]:
    """What promises most for so much work, and which size and number of subsets and steps on each that is: k/s is lost to small
    subsets, α^{1/m} to few of them, looseness to few steps."""
    best = (0.0, max(pilots), 0, 0)
    for s, some in pilots.items():
        for steps in (0, 1, 2, 3, 5, 8, 12, 20, STEPS):
            promise, m = some.promise(steps, alpha, work)
            best = max(best, (promise, s, m, steps))
    return best


def _draws(data: Blocks, frame: Frame, m: int, s: int, rng: np.random.Generator) -> Array:
    """m subsets of s rows drawn independently in proportion to their weights, by one pass over the blocks: (m, s, d)."""
    n = data.shape[0]
    if data.weights is None:
        index = rng.integers(n, size=m * s)
    else:
        heights = np.cumsum(frame.weights(n, data.weights))
        index = np.searchsorted(heights, rng.random(m * s) * heights[-1], side="right")
        # random() · total may round up to the total
        index = index.clip(max=np.flatnonzero(data.weights)[-1])
    order = np.argsort(index, kind="stable")
    ordered, start = index[order], 0
    drawn = np.empty((m * s, data.shape[1]))
    for rows, _ in data:
        first, last = np.searchsorted(ordered, [start, start + rows.shape[0]])
        part = rows[ordered[first:last] - start]
        part = part.toarray() if sp.issparse(part) else part
        drawn[order[first:last]] = frame.inside(part)
        start += rows.shape[0]
    return drawn.reshape(m, s, -1)


def _seeds(X: Array, k: int, rng: np.random.Generator) -> Array:
    """k rows by D² sampling."""
    C = X[rng.integers(len(X), size=1)]
    for _ in range(k - 1):
        D = squared_distances(X, C).min(axis=1)
        C = np.vstack([C, X[rng.choice(len(X), p=D / D.sum()) if D.sum() > 0 else 0]])
    return C


def _lloyd(X: Array, C: Array, steps: int = 20) -> Array:
    """Labels after a few of Lloyd's steps; an empty cluster stays where it was."""
    labels = squared_distances(X, C).argmin(axis=1)
    for _ in range(steps):
        C = C.copy()
        for c in np.unique(labels):
            C[c] = X[labels == c].mean(axis=0)
        before, labels = labels, squared_distances(X, C).argmin(axis=1)
        if (labels == before).all():
            break
    return labels


# --- the best of them -------------------------------------------------------------------------------------------------


def certified_gap(
    data: Any,
    centers: Any,
    k: int | None = None,
    rng: np.random.Generator | None = None,
    confidence: float = 0.99,
    weights: Array | None = None,
    guide: Any = None,
    enough: float = ENOUGH,
    work: float | None = None,
) -> Gap:
    """The smallest g for which cost(centres) ≤ (1 + g)·optimum can be proved with so much work.

    guide : other centres to build the bounds from, where those to be judged are poor
    enough : a gap at which to stop looking
    work : multiplications, about 1e9 a second; by default 8e9. What is too dear for it is left out: the gap is then larger.
    """
    data, centers = _opened(data, centers, weights)
    rng = np.random.default_rng(0) if rng is None else rng
    k = len(centers) if k is None else k
    found = Partition.of(data, centers)
    around = found if guide is None else Partition.of(data, guide, found.frame)
    return gap_of(data, found, around, k, rng, confidence, enough, WORK if work is None else work)


def gap_of(
    data: Blocks,
    found: Partition,
    around: Partition,
    k: int,
    rng: np.random.Generator,
    confidence: float,
    enough: float,
    work: float,
) -> Gap:
    """The gap of a partition, from bounds built around another one in the same frame."""
    outside = found.frame.cost_outside
    if found.cost <= found.rounding:
        return Gap(0.0, 0.0, outside(found.cost), "zero cost")
    best, name = 0.0, "none"
    near = around.cost / found.cost
    for name_of_next, bound in _bounds(data, k, around, rng, confidence, near, work):
        best, name = max((best, name), (bound, name_of_next), key=lambda pair: pair[0])
        if best * (1 + enough) >= found.cost:
            break
    gap = max(found.cost / best - 1, 0.0) if best > 0 else math.inf
    surely = confidence if name == "Monte Carlo" else 1.0
    return Gap(float(gap), outside(best), outside(found.cost), name, surely)


def _bounds(
    data: Blocks,
    k: int,
    around: Partition,
    rng: np.random.Generator,
    confidence: float,
    near: float,
    work: float,
) -> Iterator[tuple[str, float]]:
    """Lower bounds in the units of the partition's frame, the cheap ones first, as long as there is work left for them."""
    frame, (n, d) = around.frame, data.shape
    if n <= DENSE:
        steps = int(min(work / _work(n), 2 * STEPS + 4)) - 4  # the closed form takes up to four
        if steps >= 0:
            slices = list(frame.rows(data))
            X, w = np.concatenate([X for X, _ in slices]), np.concatenate([w for _, w in slices])
            with one_blas_thread():
                labels = squared_distances(X, around.centers).argmin(axis=1)
                yield "semidefinite", dual_bound(X, k, labels, w, steps=steps)
        return
    formed = n * float(d) ** 2 + 2.0 * d**3
    if d <= FORMED and formed <= work:
        moments = _moments(data, frame)
        if k <= d:
            yield "spectral", _spectral(moments, k)
        work -= formed
        yield "separation", separation_bound(data, around, moments, k, work)
        first, each = separation_work(n, d, k)
        work -= first + 3 * each if first + each <= work else 0
    if k <= MOST_CLUSTERS and work > 0:
        start = around.centers
        yield (
            "Monte Carlo",
            _monte_carlo(data, k, rng, 1 - confidence, frame, start, near=near, work=work),
        )
