"""Gaussian rows with unknown entries, exactly. With o the known and m the unknown features of a row,

    p(x_o) = N(μ_o, Σ_oo),      E[x_m | x_o] = μ_m + Σ_mo Σ_oo⁻¹ (x_o − μ_o),      Cov[x_m | x_o] = Σ_mm − Σ_mo Σ_oo⁻¹ Σ_om

Rows come sorted by which entries are unknown, so that each such pattern factors Σ_oo = LLᵀ once for every component. With
V = L⁻¹ Σ_om and y = L⁻¹(x_o − μ_o) the three are −½‖y‖² − Σ log L_aa, Vᵀy and Σ_mm − VᵀV.
"""

from __future__ import annotations

import math

import numpy as np

from lemmata.core.engine import kernel

Array = np.ndarray


@kernel
def _split_into(seen, gone, x):
    """Which entries of a row are known and which are not; their numbers."""
    known = unknown = 0
    for a in range(x.shape[0]):
        if x[a] == x[a]:
            seen[known] = a
            known += 1
        else:
            gone[unknown] = a
            unknown += 1
    return known, unknown


@kernel
def _factor_into(L, V, cov, seen, known, gone, unknown):
    """L (known × known) and V, transposed (unknown × known), of one component."""
    for a in range(known):
        for b in range(a + 1):
            s = cov[seen[a], seen[b]]
            for c in range(b):
                s -= L[a, c] * L[b, c]
            # Σ is positive definite and so are its parts; what rounding makes of a nearly singular one is kept above 0
            L[a, b] = math.sqrt(max(s, 1e-300)) if a == b else s / L[b, b]
    for g in range(unknown):
        for a in range(known):
            s = cov[gone[g], seen[a]]
            for c in range(a):
                s -= L[a, c] * V[g, c]
            V[g, a] = s / L[a, a]


@kernel
def _whiten_into(y, L, x, mean, seen, known):
    """y = L⁻¹ (x_o − μ_o); returns ‖y‖²."""
    q = 0.0
    for a in range(known):
        s = x[seen[a]] - mean[seen[a]]
        for c in range(a):
            s -= L[a, c] * y[c]
        y[a] = s / L[a, a]
        q += y[a] * y[a]
    return q


@kernel
def marginal_logs_into(out, X, starts, means, covs):
    """out (n, k) = log N(x_o; μ_jo, Σ_joo), 0 for a row of which nothing is known. X is sorted by patterns."""
    k, d = means.shape
    L, V, y = np.empty((d, d)), np.empty((d, d)), np.empty(d)
    seen, gone = np.empty(d, np.int64), np.empty(d, np.int64)
    for p in range(starts.shape[0] - 1):
        known, _ = _split_into(seen, gone, X[starts[p]])
        for j in range(k):
            _factor_into(L, V, covs[j], seen, known, gone, 0)
            constant = -0.5 * known * math.log(2 * math.pi)
            for a in range(known):
                constant -= math.log(L[a, a])
            for i in range(starts[p], starts[p + 1]):
                out[i, j] = constant - 0.5 * _whiten_into(y, L, X[i], means[j], seen, known)


@kernel
def _conditional_sums_into(sums, scatter, X, starts, R, means, covs, origin):
    """sums (k, d) += Σ r E[δ | x_o], scatter (k, d, d) += Σ r E[δδᵀ | x_o], δ = x − origin_j; R (n, k) holds r."""
    k, d = means.shape
    L, V, y, delta, moved = (
        np.empty((d, d)),
        np.empty((d, d)),
        np.empty(d),
        np.empty(d),
        np.empty(d),
    )
    seen, gone = np.empty(d, np.int64), np.empty(d, np.int64)
    for p in range(starts.shape[0] - 1):
        known, unknown = _split_into(seen, gone, X[starts[p]])
        for j in range(k):
            _factor_into(L, V, covs[j], seen, known, gone, unknown)
            total = 0.0
            for i in range(starts[p], starts[p + 1]):
                r = R[i, j]
                if r == 0:
                    continue
                total += r
                _whiten_into(y, L, X[i], means[j], seen, known)
                for a in range(known):
                    delta[seen[a]] = X[i, seen[a]] - origin[j, seen[a]]
                for g in range(unknown):
                    s = means[j, gone[g]] - origin[j, gone[g]]
                    for a in range(known):
                        s += V[g, a] * y[a]
                    delta[gone[g]] = s
                for a in range(d):
                    moved[a] = r * delta[a]
                    sums[j, a] += moved[a]
                if scatter.size:
                    for a in range(d):
                        for b in range(d):
                            scatter[j, a, b] += moved[a] * delta[b]
            if scatter.size:  # what remains unknown of the unknown
                for g in range(unknown):
                    for h in range(unknown):
                        s = covs[j, gone[g], gone[h]]
                        for a in range(known):
                            s -= V[g, a] * V[h, a]
                        scatter[j, gone[g], gone[h]] += total * s


def marginal_logs(X: Array, starts: Array, means: Array, covs: Array) -> Array:
    """The same as a new array; covs (k or 1, d, d)."""
    out = np.empty((len(X), len(means)))
    marginal_logs_into(out, X, starts, means, _each(covs, means))
    return out


def conditional_sums_into(sums, scatter, X, starts, R, means, covs, origin) -> None:
    """Adds to sums (k, d) and scatter (k, d, d; none if its size is 0); covs (k or 1, d, d)."""
    R = np.ascontiguousarray(R)
    _conditional_sums_into(sums, scatter, X, starts, R, means, _each(covs, means), origin)


def _each(covs: Array, means: Array) -> Array:
    """(k, d, d), where one may stand for all."""
    return np.ascontiguousarray(np.broadcast_to(covs, (len(means), *covs.shape[1:])))
