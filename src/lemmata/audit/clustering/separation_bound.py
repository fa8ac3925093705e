"""A lower bound on the k-means optimum from centres that lie far apart: all rows, no chance, two passes.

The bound of `kmeans_bounds.py` (‖A‖² − uᵀMu/‖u‖² − Σ_{i<k} λ_i(PMP) with M = AAᵀ + N, for any N ≥ 0), with an N that is
never written down: between clusters a and b it has rank one,

    N_ij = √(w_i w_j)·r_ab(x_i) r_ba(x_j)/s_ab,               r_ab(x) = s_ab + (x − μ_a)·(μ_a − μ_b)
                                                              s_ab = ½‖μ_a − μ_b‖² − (λ/2)(1/W_a + 1/W_b)

so that M maps indicators of clusters to such, PMP has there the eigenvalue λ, and the bound is the cost less Σ_{i<k} (λ_i − λ)₊
with λ_i the other eigenvalues: nothing is lost if λ is the largest of them. N ≥ 0 needs r ≥ 0: no row may reach too far
toward another cluster. A row that does is left out, since the optimum of fewer rows is no larger. Everything is affine in x
within a cluster, so the n × n matrix has the eigenvalues of a small one made of the clusters' moments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lemmata.audit.clustering.nearest_centres import Partition, one_blas_thread, squared_distances
from lemmata.core.blocks import Blocks
from lemmata.core.moments import Moments

Array = np.ndarray
MOST = 150  # clusters; beyond, the eigenproblem takes too long
# side of the eigenproblem: clusters × (directions between centres + 1) + other directions
WIDEST = 1200
# The share of λ = the largest eigenvalue within clusters (N itself adds a little to it), and how many standard deviations a
# row may reach toward another centre whatever λ would like.
TRIALS = (
    (1.0, 2.5), (1.0, 3.0), (0.8, 2.5), (0.8, 3.0), (1.0, 3.5), (1.0, 4.0), (1.3, 2.5), (1.3, 3.0), (1.3, 4.0), (2.0, 5.0),
    (0.6, 2.5), (0.6, 4.0),
)  # fmt: skip
TIGHT = 1e-3  # of the cost: a bound as close as that ends the trials
HOPELESS = 0.3  # of the cost, borne by rows that a trial leaves out: it is given up


# --- the bound --------------------------------------------------------------------------------------------------------


def separation_work(n: int, d: int, k: int) -> tuple[float, float]:
    """Multiplications of the pass over the rows, and of each trial."""
    r = max(1, min(WIDEST // max(k, 1) - 1, k, d))
    side = k * (r + 1) + d - r
    # two eigenproblems, of which the one with vectors takes about 9 side³, the other 4/3 side³, and four products
    return n * d * (2.0 * k + d) + n * (r + 1.0) ** 2 + 10.0 * d**3, 12.0 * side**3


def separation_bound(
    data: Blocks, found: Partition, total: Moments, k: int | None = None, work: float = math.inf
) -> float:
    """Return the best bound over a few choices of s_ab, in the units of the partition's frame; 0 if `work` allows none."""
    full = found.weight > 0
    means, W, k = found.means[full], found.weight[full], len(found.centers) if k is None else k
    first, each = separation_work(data.shape[0], data.shape[1], len(W))
    if not 2 <= len(W) <= MOST or first + each > work:
        return 0.0
    most = int(min((work - first) / each, len(TRIALS) + 1))
    axes, rest = _axes(means, min(WIDEST // len(W) - 1, len(W)))
    m = means @ axes  # (k, r)
    between = squared_distances(m, m)
    spread = np.sqrt(found.along[np.ix_(full, full)] / W[:, None])  # of (x − μ_a)·(μ_b − μ_a)
    spread = np.maximum(spread, spread.T)
    least = between / 100  # s_ab must not vanish
    give = _largest_within(means, W, total) / 2 * (1 / W[:, None] + 1 / W)
    np.fill_diagonal(between, np.inf)  # no row reaches too far toward its own centre
    everything = FeatureProducts.none(len(W), axes.shape[1] + 1, rest.shape[1])
    trials = []
    for part, t in TRIALS[: max(most - 1, 0)]:
        s = np.maximum.reduce([between / 2 - part * give, t * spread, least])
        trials.append((s, FeatureProducts.none(*everything.sizes)))
    farthest, lost, hopeless = np.zeros_like(between), np.zeros(len(trials)), HOPELESS * found.cost
    for X, w in found.frame.slices(data, dense=True):
        labels = squared_distances(X, means).argmin(axis=1)
        Y = (X - means[labels]) @ axes
        # −(x − μ_a)·(μ_a − μ_b), to be at most s_ab
        reach = Y @ m.T - np.einsum("ij,ij->i", Y, m[labels])[:, None]
        features, others = np.column_stack([np.ones(len(X)), Y]), X @ rest
        squares = np.einsum("ij,ij->i", X, X)
        everything.add(labels, w, features, others, squares)
        for a in np.unique(labels):
            farthest[a] = np.maximum(farthest[a], reach[labels == a].max(axis=0))
        own = np.einsum("ij,ij->i", X - means[labels], X - means[labels])
        for number, (s, left_out) in enumerate(trials):
            if lost[number] > hopeless:
                continue
            out = (reach > s[labels]).any(axis=1)
            lost[number] += float(w[out] @ own[out])
            left_out.add(labels[out], w[out], features[out], others[out], squares[out])
    trials = [one for one, share in zip(trials, lost, strict=True) if share <= hopeless]
    no_less = np.maximum(np.maximum(farthest, farthest.T), least)  # no row is left out
    trials.insert(
        0, (np.maximum(between / 2 - 1.3 * give, no_less), FeatureProducts.none(*everything.sizes))
    )
    best = 0.0
    with one_blas_thread():
        for s, left_out in trials:
            best = max(best, (everything - left_out).lower_bound(m, s, k))
            if best >= (1 - TIGHT) * found.cost:
                break
    return best


def _axes(means: Array, most: int) -> tuple[Array, Array]:
    """Orthonormal directions in which the means differ, the main ones first and at most `most`; and all others."""
    _, size, V = np.linalg.svd(means, full_matrices=True)
    r = max(1, min(int((size > size[0] * 1e-12).sum()), most))
    return V[:r].T, V[r:].T


def _largest_within(means: Array, W: Array, total: Moments) -> float:
    """The largest eigenvalue of the scatter within clusters: what λ should be, were it not for the rows between them."""
    spread = (means - np.average(means, axis=0, weights=W)) * np.sqrt(W)[:, None]
    return max(float(np.linalg.eigvalsh(total.scatter - spread.T @ spread)[-1]), 0.0)


@dataclass
class FeatureProducts:
    """Products of features summed over rows: (1, y) per cluster, y along the axes, and z, the other directions, over all."""

    gram: Array  # (k, r, r) Σ w (1, y)(1, y)ᵀ
    cross: Array  # (k, r, t) Σ w (1, y) zᵀ
    others: Array  # (t, t) Σ w z zᵀ
    squares: float  # Σ w‖x‖²

    @classmethod
    def none(cls, k: int, r: int, t: int) -> FeatureProducts:
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

    def __sub__(self, less: FeatureProducts) -> FeatureProducts:
        gram, cross, others = (
            self.gram - less.gram,
            self.cross - less.cross,
            self.others - less.others,
        )
        return FeatureProducts(gram, cross, others, self.squares - less.squares)

    def lower_bound(self, m: Array, s: Array, k: int) -> float:
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
