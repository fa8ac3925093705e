"""A lower bound on the k-means optimum from centres that lie far apart: all rows, no chance, two passes.

The bound of `_sdp.py` (‖A‖² − uᵀMu/‖u‖² − Σ_{i<k} λ_i(PMP) with M = AAᵀ + N, for any N ≥ 0) with an N that is never written
down: between clusters a and b it has rank one,

    N_ij = √(w_i w_j)·r_ab(x_i) r_ba(x_j)/s_ab,               r_ab(x) = s_ab + (x − μ_a)·(μ_a − μ_b)
                                                              s_ab = ½‖μ_a − μ_b‖² − (λ/2)(1/W_a + 1/W_b)

so that M maps indicators of clusters to such, PMP has there the eigenvalue λ, and the bound is the cost less Σ_{i<k} (λ_i − λ)₊
with λ_i the other eigenvalues: nothing is lost if λ is the largest of them. N ≥ 0 needs r ≥ 0: no row may reach too far
toward another cluster. A row that does is left out, since the optimum of fewer rows is no larger. Everything is affine in x
within a cluster, so the n × n matrix has the eigenvalues of a small one made of the clusters' moments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.core.engine import one_blas_thread
from lemmata.core.moments import Moments

Array = np.ndarray
SLICE = 2**20  # numbers worked on at once
MOST = 150  # clusters; beyond, the eigenproblem takes too long
WIDEST = (
    1200  # side of the eigenproblem: clusters × (directions between centres + 1) + other directions
)
# The share of λ = the largest eigenvalue within clusters (N itself adds a little to it), and how many standard deviations a
# row may reach toward another centre whatever λ would like.
TRIALS = (
    (1.0, 2.5), (1.0, 3.0), (0.8, 2.5), (0.8, 3.0), (1.0, 3.5), (1.0, 4.0), (1.3, 2.5), (1.3, 3.0), (1.3, 4.0), (2.0, 5.0),
    (0.6, 2.5), (0.6, 4.0),
)  # fmt: skip
TIGHT = 1e-3  # of the cost: a bound as close as that ends the trials


# --- rows, as the verifier reads them ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """Where numbers are small: rows are read as (x − origin)/scale in float64, so far-off, huge or tiny data loses nothing."""

    origin: Array
    scale: float = 1.0  # a power of two
    heavy: float = 1.0  # another one, that weights are divided by

    @classmethod
    def of(cls, data: Blocks, centers: Any = None) -> Frame:
        """Around the centres, or around the first rows, and as large as these are apart."""
        origin = None if centers is None else _mean(np.asarray(centers))
        heavy = (
            1.0 if data.weights is None else 2.0 ** (math.frexp(float(np.max(data.weights)))[1] - 1)
        )
        for rows, _ in data:
            part = rows[: max(1, SLICE // max(rows.shape[1], 1))]
            part = part.toarray() if sp.issparse(part) else part
            origin = _mean(part) if origin is None else origin
            spread = np.abs(part - origin).max(initial=0.0)
            if np.isfinite(spread) and spread > 0:
                return cls(origin, 2.0 ** round(math.log2(spread)), heavy)
        return cls(np.zeros(data.shape[1]) if origin is None else origin, heavy=heavy)

    def rows(self, data: Blocks) -> Iterator[tuple[Array, Array]]:
        """Slices of rows with their weights."""
        step = max(1, SLICE // max(data.shape[1], 1))
        for rows, weights in data:
            for start in range(0, rows.shape[0], step):
                part = rows[start : start + step]
                part = part.toarray() if sp.issparse(part) else part
                yield self.inside(part), self.weights(len(part), weights, start)

    def weights(self, n: int, weights: Array | None, start: int = 0) -> Array:
        """n of the weights, from `start` on."""
        return (
            np.ones(n)
            if weights is None
            else np.asarray(weights[start : start + n], np.float64) / self.heavy
        )

    def inside(self, rows: Any) -> Array:
        return (np.asarray(rows, dtype=np.float64) - self.origin) / self.scale

    def outside(self, rows: Array) -> Array:
        return rows * self.scale + self.origin

    def cost_outside(self, cost: float) -> float:
        """A cost in the units of the data; infinite or zero where floats end."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.float64(cost) * self.heavy * self.scale * self.scale)


def _mean(rows: Array) -> Array:
    """The mean in float64, of numbers whose sum may overflow."""
    rows = rows.astype(np.float64)
    return rows[0] + (rows / len(rows) - rows[0] / len(rows)).sum(axis=0)


def squared_distances(X: Array, C: Array) -> Array:
    """‖x − c‖² for all pairs, (n, k)."""
    squares = np.einsum("ij,ij->i", X, X)[:, None] + np.einsum("ij,ij->i", C, C)
    return np.maximum(squares - 2 * (X @ C.T), 0.0)


@dataclass(frozen=True)
class Partition:
    """What the nearest-centre partition of all rows looks like, in the units of its frame; from one plain pass."""

    frame: Frame
    centers: Array  # (k, d)
    weight: Array  # (k,)
    sums: Array  # (k, d) Σ w(x − c)
    costs: Array  # (k,) Σ w‖x − c‖²
    squares: Array  # (k,) Σ w²
    along: Array  # (k, k) Σ_{x in a} w((x − c_a)·(c_b − c_a))², for every other centre b
    rounding: (
        float  # a cost below it is zero: what centres and rows of their dtype cannot tell apart
    )

    @classmethod
    def of(cls, data: Blocks, centers: Any, frame: Frame | None = None) -> Partition:
        frame = frame or Frame.of(data, centers)
        C = frame.inside(centers)
        k, between = len(C), squared_distances(C, C)
        weight, sums, costs, squares, along = (
            np.zeros(k),
            np.zeros_like(C),
            np.zeros(k),
            np.zeros(k),
            np.zeros((k, k)),
        )
        rounding = 0.0
        for X, w in frame.rows(data):
            D = squared_distances(X, C)
            labels = D.argmin(axis=1)
            Y = X - C[labels]  # the distance to one's own centre without cancellation
            toward = (
                np.einsum("ij,ij->i", Y, Y)[:, None] + between[labels] - D
            ) / 2  # (x − c_a)·(c_b − c_a)
            weight += np.bincount(labels, w, k)
            squares += np.bincount(labels, w * w, k)
            costs += np.bincount(labels, w * np.einsum("ij,ij->i", Y, Y), k)
            members = sp.csr_array((w, (labels, np.arange(len(X)))), shape=(k, len(X)))
            sums += members @ Y
            along += members @ toward**2
            rounding += float(w @ np.einsum("ij,ij->i", X, X))
        eps = np.finfo(np.result_type(data.dtype, np.asarray(centers).dtype, np.float16)).eps
        far = float(weight.sum() * (np.abs(frame.origin).max(initial=0.0) / frame.scale) ** 2)
        return cls(
            frame,
            C,
            weight,
            sums,
            costs,
            squares,
            along,
            (4 * eps) ** 2 * (rounding + far * C.shape[1]),
        )

    @property
    def cost(self) -> float:
        return float(self.costs.sum())

    @property
    def means(self) -> Array:
        """(k, d); an empty cluster stays at its centre."""
        return self.centers + self.sums / np.where(self.weight > 0, self.weight, 1.0)[:, None]


# --- the bound --------------------------------------------------------------------------------------------------------


def separation_bound(data: Blocks, found: Partition, total: Moments, k: int | None = None) -> float:
    """The best bound over a few choices of s_ab, in the units of the partition's frame."""
    full = found.weight > 0
    means, W, k = found.means[full], found.weight[full], len(found.centers) if k is None else k
    if not 2 <= len(W) <= MOST:
        return 0.0
    axes, rest = _axes(means, min(WIDEST // len(W) - 1, len(W)))
    m = means @ axes  # (k, r)
    between = squared_distances(m, m)
    spread = np.sqrt(found.along[np.ix_(full, full)] / W[:, None])  # of (x − μ_a)·(μ_b − μ_a)
    spread = np.maximum(spread, spread.T)
    least = between / 100  # s_ab must not vanish
    give = _largest_within(means, W, total) / 2 * (1 / W[:, None] + 1 / W)
    np.fill_diagonal(between, np.inf)  # nobody reaches too far toward the own centre
    everything = Kept.none(len(W), axes.shape[1] + 1, rest.shape[1])
    trials = [
        (
            np.maximum.reduce([between / 2 - part * give, t * spread, least]),
            Kept.none(*everything.sizes),
        )
        for part, t in TRIALS
    ]
    farthest = np.zeros_like(between)
    for X, w in found.frame.rows(data):
        labels = squared_distances(X, means).argmin(axis=1)
        Y = (X - means[labels]) @ axes
        # −(x − μ_a)·(μ_a − μ_b), to be at most s_ab
        reach = Y @ m.T - np.einsum("ij,ij->i", Y, m[labels])[:, None]
        features, others, squares = (
            np.column_stack([np.ones(len(X)), Y]),
            X @ rest,
            np.einsum("ij,ij->i", X, X),
        )
        everything.add(labels, w, features, others, squares)
        for a in np.unique(labels):
            farthest[a] = np.maximum(farthest[a], reach[labels == a].max(axis=0))
        for s, left_out in trials:
            out = (reach > s[labels]).any(axis=1)
            left_out.add(labels[out], w[out], features[out], others[out], squares[out])
    no_less = np.maximum(np.maximum(farthest, farthest.T), least)  # nobody is left out
    trials.insert(0, (np.maximum(between / 2 - 1.3 * give, no_less), Kept.none(*everything.sizes)))
    best = 0.0
    with one_blas_thread():
        for s, left_out in trials:
            best = max(best, (everything - left_out).bound(m, s, k))
            if best >= (1 - TIGHT) * found.cost:
                break
    return best


def _axes(means: Array, room: int) -> tuple[Array, Array]:
    """Orthonormal directions in which the means differ, the main ones first and at most `room`; and all others."""
    _, size, V = np.linalg.svd(means, full_matrices=True)
    r = max(1, min(int((size > size[0] * 1e-12).sum()), room))
    return V[:r].T, V[r:].T


def _largest_within(means: Array, W: Array, total: Moments) -> float:
    """The largest eigenvalue of the scatter within clusters: what λ should be, were it not for the rows between them."""
    spread = (means - np.average(means, axis=0, weights=W)) * np.sqrt(W)[:, None]
    return max(float(np.linalg.eigvalsh(total.scatter - spread.T @ spread)[-1]), 0.0)


@dataclass
class Kept:
    """Products of features summed over rows: (1, y) per cluster, y along the axes, and z, the other directions, over all."""

    gram: Array  # (k, r, r) Σ w (1, y)(1, y)ᵀ
    cross: Array  # (k, r, t) Σ w (1, y) zᵀ
    others: Array  # (t, t) Σ w z zᵀ
    squares: float  # Σ w‖x‖²

    @classmethod
    def none(cls, k: int, r: int, t: int) -> Kept:
        return cls(np.zeros((k, r, r)), np.zeros((k, r, t)), np.zeros((t, t)), 0.0)

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.cross.shape

    def add(self, labels: Array, w: Array, features: Array, others: Array, squares: Array) -> None:
        for a in np.unique(labels):
            part = labels == a
            weighted = features[part].T * w[part]
            self.gram[a] += weighted @ features[part]
            self.cross[a] += weighted @ others[part]
        self.others += (others.T * w) @ others
        self.squares += float(w @ squares)

    def __sub__(self, less: Kept) -> Kept:
        return Kept(
            self.gram - less.gram,
            self.cross - less.cross,
            self.others - less.others,
            self.squares - less.squares,
        )

    def bound(self, m: Array, s: Array, k: int) -> float:
        """‖A‖² − uᵀMu/‖u‖² − Σ_{i<k} λ_i(PMP)₊; with M = ΦSΦᵀ and ΦᵀΦ = RRᵀ its eigenvalues are those of RᵀSR, and zeros."""
        n, r, t = self.sizes
        products, S = np.zeros((n * r + t, n * r + t)), np.eye(n * r + t)
        products[n * r :, n * r :], S[: n * r, : n * r] = self.others, _coefficients(m, s)
        for a in range(n):
            here = slice(a * r, a * r + r)
            products[here, here] = self.gram[a]
            products[here, n * r :], products[n * r :, here] = self.cross[a], self.cross[a].T
        values, vectors = np.linalg.eigh(products)
        R = vectors * np.sqrt(np.maximum(values, 0.0))
        u = R[: n * r : r].sum(axis=0)  # Φ times the indicator of every cluster is u
        if not u.any():
            return 0.0
        M, unit = R.T @ S @ R, u / np.linalg.norm(u)
        norm, along = float(np.abs(M).sum(axis=0).max()), float(unit @ M @ unit)
        M -= np.outer(unit, unit @ M)
        M -= np.outer(M @ unit, unit)
        leading = np.linalg.eigvalsh((M + M.T) / 2)[::-1][: k - 1]
        slack = 8 * k * math.sqrt(len(M)) * np.finfo(float).eps * norm  # what LAPACK may err
        return self.squares - along - float(np.maximum(leading, 0.0).sum()) - slack


def _coefficients(m: Array, s: Array) -> Array:
    """The kernel (m_a + y_i)·(m_b + y_j) + r_ab r_ba/s_ab between all clusters, as a form in (1, y_i) and (1, y_j)."""
    n, r = m.shape
    away = m[:, None] - m  # (n, n, r), zero on the diagonal
    apart = ~np.eye(n, dtype=bool) & (s > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(apart, 1 / s, 0.0)
    S = np.zeros((n, r + 1, n, r + 1))
    S[:, 0, :, 0] = m @ m.T + np.where(apart, s, 0.0)
    # m_a + (m_b − m_a) where there is an N
    S[:, 0, :, 1:] = np.where(apart[:, :, None], m, m[:, None])
    S[:, 1:, :, 0] = np.where(apart[:, :, None], m[:, None], m).transpose(0, 2, 1)
    S[:, 1:, :, 1:] = (
        np.eye(r) - shares[:, :, None, None] * away[:, :, :, None] * away[:, :, None, :]
    ).transpose(0, 2, 1, 3)
    return S.reshape(n * (r + 1), n * (r + 1))
