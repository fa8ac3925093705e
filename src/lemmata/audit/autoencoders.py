"""What theory promises about a linear autoencoder, checked on the data by plain code.

Everything is recomputed from the rows and the public `encoder_` W (m × d), `decoder_` V (d × m) and `mean_`. None of this code
is used in training.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from lemmata.core.certificate import RULE_OF_THUMB, Fit, at_most, claim, passes, rounding, unknown

Array = np.ndarray

IDEMPOTENT = 1e-3
NEAR = 1.01  # times the optimum
SLOPE = 1e-4  # of the scale of the gradient: steps along it no longer change the third digit of anything
AXIS_ERROR = 1e-2  # distance of unit vectors, about half a degree


def _second_moments(fit: Fit) -> tuple[Array, Array]:
    """Mean and covariance (over the total weight) of the data, by two plain passes; kept for the next claim."""
    if "second moments" not in fit.memory:
        n, sums = 0.0, np.zeros(fit.data.shape[1])
        for rows, w in _weighted_rows(fit.data):
            n, sums = n + w.sum(), sums + w @ rows
        mean, scatter = sums / n, np.zeros((len(sums), len(sums)))
        for rows, w in _weighted_rows(fit.data):
            scatter += (rows - mean).T @ ((rows - mean) * w[:, None])
        fit.memory["second moments"] = mean, scatter / n
    return fit.memory["second moments"]


def _weighted_rows(data):
    for rows, weights in data:
        dense = rows.toarray() if sp.issparse(rows) else rows
        yield dense.astype(np.float64), np.ones(rows.shape[0]) if weights is None else weights


def _factors(fit: Fit) -> tuple[Array, Array]:
    return fit.encoder_.astype(np.float64), fit.decoder_.astype(np.float64)


@claim(
    "P = VW is a projection (P² = P) of rank ≤ m, to 0.1 %", kind=RULE_OF_THUMB, source="CIL 1.3.5"
)
def reconstruction_is_projection(fit):
    """Where ∇_V = (VW − I)ΣWᵀ vanishes and the code has variance in every direction, WV = I, so that P² = V(WV)W = P."""
    W, V = _factors(fit)
    P = V @ W
    defect = np.linalg.norm(P @ P - P) / max(np.linalg.norm(P), np.finfo(float).tiny)
    advice = "not at a minimum yet: lower tol, raise max_iter, or scale the columns"
    return at_most(float(defect), IDEMPOTENT, advice, unit="|P² − P| / |P|")


@claim(
    "the loss is within 1 % of the PCA optimum",
    kind=RULE_OF_THUMB,
    source="CIL Thm 1.4.4",
    cost=passes(),
)
def near_pca_optimum(fit):
    """The optimum is half the tail of the spectrum, Σ_{j>m} λ_j / 2."""
    W, V = _factors(fit)
    mean, S = _second_moments(fit)
    E, shift = np.eye(len(S)) - V @ W, mean - fit.mean_
    loss = 0.5 * float(np.trace(E @ S @ E.T) + np.sum((E @ shift) ** 2))
    variances = np.linalg.eigvalsh(S)[::-1]
    best = 0.5 * max(float(variances[len(W) :].sum()), 0.0)
    slack = 0.5 * rounding(fit.encoder_.dtype, terms=len(S)) * float(variances.sum())
    advice = "raise max_iter, scale the columns, or pass method='closed'"
    return at_most(loss, NEAR * best + slack, advice, unit="loss")


@claim(
    "a first-order point: the gradient is below 1e-4 of its scale",
    kind=RULE_OF_THUMB,
    source="CIL (1.10), (1.11)",
    cost=passes(),
)
def first_order_point(fit):
    """Both gradients vanish at every minimum, tied or not, of R and of R_pca; times the parameters they are in units of R."""
    W, V = _factors(fit)
    _, S = _second_moments(fit)
    D = (V @ W - np.eye(len(S))) @ S
    slope = np.linalg.norm(D @ W.T) * np.linalg.norm(V) + np.linalg.norm(V.T @ D) * np.linalg.norm(
        W
    )
    advice = (
        "lower tol and raise max_iter; columns of very different scale slow the descent: scale them"
    )
    return at_most(
        float(slope / max(np.trace(S), np.finfo(float).tiny)),
        SLOPE,
        advice,
        unit="|∇||param| / tr Σ",
    )


@claim(
    "the coordinates are the principal axes, in order, up to sign",
    kind=RULE_OF_THUMB,
    source="CIL 1.2.3, Ex. 1.5",
    cost=passes(),
)
def axes_identified(fit):
    """The largest distance of a row of W, or a column of V, from ± the eigenvector of its rank."""
    W, V = _factors(fit)
    _, S = _second_moments(fit)
    variances, axes = (part[..., ::-1] for part in np.linalg.eigh(S))
    U, gaps = axes[:, : len(W)], (variances[:-1] - variances[1:])[: len(W)]
    if gaps.min(initial=math.inf) <= rounding(fit.encoder_.dtype, terms=len(S)) * variances[0]:
        k = int(gaps.argmin()) + 1
        return unknown(f"variances {k} and {k + 1} coincide: the data determine no such axes")
    signs = np.where((W.T * U).sum(axis=0) < 0, -1.0, 1.0)
    off = max(float(np.linalg.norm(F * signs - U, axis=0).max()) for F in (W.T, V))
    if fit.model.basis == "pca":
        advice, free = (
            "close variances are told apart slowly: lower tol and raise max_iter",
            "the signs",
        )
    else:
        advice = "read the subspace, not its coordinates; or pass basis='pca'"
        free = (
            "O(m), any rotation of the code,"
            if fit.model.tied
            else "GL(m), any invertible map of the code,"
        )
    return at_most(off, AXIS_ERROR, advice, unit="distance", note=f"the loss leaves {free} free")


@claim(
    "centring made the affine part redundant",
    kind=RULE_OF_THUMB,
    source="CIL Prop. 1.2.1",
    cost=passes(),
)
def affine_part_redundant(fit):
    """The best constant to add to a reconstruction is (I − VW)(x̄ − mean_): 0 up to rounding if mean_ is the mean."""
    W, V = _factors(fit)
    mean, S = _second_moments(fit)
    shift = mean - fit.mean_
    # mean_ is rounded to its type, and either mean is a sum of n terms in float64
    error = rounding(fit.mean_.dtype) + rounding(np.float64, terms=fit.data.shape[0])
    scale = (1 + np.linalg.norm(V, 2) * np.linalg.norm(W, 2)) * math.sqrt(np.trace(S) + mean @ mean)
    offset = np.linalg.norm(shift - V @ (W @ shift))
    return at_most(
        float(offset),
        float(error * scale),
        "mean_ is not the mean of this data: fit anew",
        unit="|offset|",
    )


@claim("the loss never rose", kind=RULE_OF_THUMB, source="CIL 1.5.3", about="run")
def never_rose(fit):
    """Up to the rounding of a trace of d × d products."""
    advice = (
        "step_size is too long for the curvature: lower it, or leave it None to have it measured"
    )
    return at_most(
        fit.trace.largest_rise,
        rounding(np.float64, terms=fit.mean_.size**2),
        advice,
        unit="largest rise",
    )


AUTOENCODER_CLAIMS = (
    reconstruction_is_projection,
    near_pca_optimum,
    first_order_point,
    axes_identified,
    affine_part_redundant,
)
DESCENT_CLAIMS = (*AUTOENCODER_CLAIMS, never_rose)
