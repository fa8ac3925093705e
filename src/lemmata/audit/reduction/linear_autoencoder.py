"""Claims about a linear autoencoder, checked on the data by plain code.

Everything is recomputed from the rows and the public `encoder_` W (m × d), `decoder_` V (d × m) and `mean_`, with the rows
divided by the largest number among them (spectra.py). None of this code is used in training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lemmata.audit.kernel.attributes import (
    attributes_sound,
    discrepancy,
    never_rose,
    statements_true,
)
from lemmata.audit.kernel.claims import Fit, at_most, fact, proved, rounding, rule_of_thumb, unknown
from lemmata.audit.reduction import spectra
from lemmata.audit.reduction.principal_axes import EXCESS, compare_offset

Array = np.ndarray

IDEMPOTENT = 1e-3
SLOPE = 1e-3  # of the scale of the gradient
AXIS_ERROR = 1e-2  # distance of unit vectors, about half a degree
DIGITS = 1e-4  # stated numbers are true to four digits


@dataclass(frozen=True)
class RowMoments:
    """Second moments of the scaled rows."""

    rows: spectra.ScaledRows
    S: Array  # (d, d) the covariance Σ, over the total weight
    noise: float  # what rounding puts into a variance, here and in the float type of the model

    @property
    def total(self) -> float:
        return float(np.trace(self.S))


@fact(
    cost=lambda fit: spectra.cost_of_products(fit, fit.data.shape[1] / 2),
    needs=(spectra.scaled_rows,),
)
def moments(fit: Fit) -> RowMoments:
    """Form the covariance of the rows."""
    rows = spectra.scaled_rows(fit)
    S = rows.product() - np.outer(rows.shift, rows.shift)
    noise = rows.noise + rounding(fit.encoder_.dtype, max(fit.data.shape)) * float(np.trace(S))
    return RowMoments(rows, S, noise)


@fact(cost=lambda fit: spectra.EIGH * float(fit.data.shape[1]) ** 3, needs=(moments,))
def spectrum(fit: Fit) -> spectra.Spectrum:
    """Find all eigenvalues of the covariance."""
    return spectra.whole_spectrum(moments(fit).S)


def _factors(fit: Fit) -> tuple[Array, Array]:
    return fit.encoder_.astype(np.float64), fit.decoder_.astype(np.float64)


def _loss(W: Array, V: Array, S: Array) -> float:
    """½ tr((I − VW) Σ (I − VW)ᵀ) = ½ tr Σ − tr(WΣV) + ½ ⟨VᵀV, WΣWᵀ⟩"""
    WS = W @ S
    along, inside = float(np.sum(WS * V.T)), float(np.sum((V.T @ V) * (WS @ W.T)))
    return 0.5 * float(np.trace(S)) - along + 0.5 * inside


# --- what the attributes have to be -----------------------------------------------------------------------------------

SOUND = attributes_sound({"encoder_": "m d", "decoder_": "d m", "mean_": "d", "loss_?": ">=0"})


def _statements(fit: Fit) -> Mapping[str, float]:
    """mean_ : of the data; loss_ : ½ E‖x − VWx‖² of the centred rows."""
    known, (W, V) = moments(fit), _factors(fit)
    rows, unit = known.rows, known.rows.scale
    error = 8 * math.sqrt(fit.data.shape[0]) * rows.eps * math.sqrt(rows.square)
    found = {"mean_": discrepancy(fit.mean_.astype(np.float64) / unit, rows.mean, error, 1.0)}
    if fit.get("loss_") is not None:
        loss = max(_loss(W, V, known.S), 0.0)
        # rounding W and V to their type moves VW by eps(1 + ‖VW‖), and the loss by that times what it is about
        size = 1 + float(np.linalg.norm(V, 2) * np.linalg.norm(W, 2))
        error = DIGITS * loss + known.noise * size**2
        found["loss_"] = discrepancy(float(fit.loss_) / unit / unit, loss, error, 1.0)
    return found


TRUE = statements_true(_statements, needs=(moments,))


# --- claims -----------------------------------------------------------------------------------------------------------


@proved(
    "P = VW is a projection (P² = P) of rank ≤ m, to 0.1 %",
    "CIL 1.3.5",
    cost=lambda fit: 4.0 * fit.encoder_.shape[1] * len(fit.encoder_) ** 2,
)
def reconstruction_is_projection(fit):
    """Where ∇_V = (VW − I)ΣWᵀ vanishes and the code has variance in every direction, WV = I, so that P² = V(WV)W = P.

    With V = QR and Wᵀ = Q'R', ‖VXW‖ = ‖RXR'ᵀ‖: nothing of size d × d is formed.
    """
    W, V = _factors(fit)
    R, L = (np.asarray(np.linalg.qr(F, mode="r")) for F in (V, W.T))
    defect = np.linalg.norm(R @ (W @ V - np.eye(len(W))) @ L.T)
    size = float(np.linalg.norm(R @ L.T))
    advice = "not at a minimum yet: lower tol, raise max_iter, or scale the columns"
    if size == 0:
        return unknown("VW = 0")
    return at_most(float(defect) / size, IDEMPOTENT, advice, unit="|P² − P| / |P|")


@proved("the loss is within 1 % of the PCA optimum", "CIL Thm 1.4.4", needs=(spectrum,))
def near_pca_optimum(fit):
    """The optimum is half the tail of the spectrum, Σ_{j>m} λ_j / 2; a wrong mean_ adds to the loss."""
    (W, V), known = _factors(fit), moments(fit)
    m, d = W.shape
    if known.total <= known.rows.noise:
        return unknown("the data does not vary")
    shift = known.rows.shift
    off = shift - V @ (W @ shift)
    loss = _loss(W, V, known.S) + 0.5 * float(off @ off)
    best = 0.5 * max(float(spectrum(fit).values[m:].sum()), 0.0)
    floor = (1 + d - m) * known.rows.noise
    advice = "raise max_iter, scale the columns, or pass method='closed'"
    if loss <= floor / EXCESS and best <= floor / EXCESS:
        if m < d:
            return unknown("what is left out is below rounding, so it cannot be compared")
        return at_most(loss / known.total, floor / EXCESS / known.total, advice, unit="lost share")
    return at_most(loss / max(best, floor) - 1, EXCESS, advice, unit="loss / best − 1")


@rule_of_thumb(
    "a first-order point: the gradient is below 0.1 % of its scale",
    "CIL (1.10), (1.11)",
    needs=(moments,),
)
def first_order_point(fit):
    """∇_V = VWΣWᵀ − ΣWᵀ and ∇_W = VᵀVWΣ − VᵀΣ, each over the size of its two terms, so that shrinking W and V shrinks nothing.

    Both vanish at every minimum, tied or not, of R and of R_pca.
    """
    (W, V), known = _factors(fit), moments(fit)
    WS, VS = W @ known.S, V.T @ known.S
    parts = ((V @ (WS @ W.T), WS.T), ((V.T @ V) @ WS, VS))
    sizes = [float(np.linalg.norm(one) + np.linalg.norm(other)) for one, other in parts]
    if min(sizes) <= known.noise * min(np.linalg.norm(W), np.linalg.norm(V)):
        return unknown("W or V is zero on this data: a first-order point, and the worst of all")
    slope = max(
        float(np.linalg.norm(one - other)) / size
        for (one, other), size in zip(parts, sizes, strict=True)
    )
    advice = "lower tol and raise max_iter; scale columns: different scales slow the descent"
    return at_most(slope, SLOPE, advice, unit="|∇| / scale")


@proved(
    "the coordinates are the principal axes, in order, up to sign, to 0.01",
    "CIL 1.2.3, Ex. 1.5",
    needs=(spectrum,),
)
def axes_identified(fit):
    """The largest distance of a row of W, or a column of V, from ± the eigenvector of its rank."""
    (W, V), known, found = _factors(fit), moments(fit), spectrum(fit)
    m, values = len(W), found.values
    U, gaps = found.vectors[:, :m], (values[:-1] - values[1:])[:m]
    # rounding turns an eigenvector by noise/gap
    if gaps.size and gaps.min() * AXIS_ERROR <= 4 * known.rows.noise:
        k = int(gaps.argmin()) + 1
        why = f"variances {k} and {k + 1} agree to rounding"
        return unknown(f"{why}: the data determine no such axes")
    signs = np.where((W.T * U).sum(axis=0) < 0, -1.0, 1.0)
    off = max(float(np.linalg.norm(F * signs - U, axis=0).max()) for F in (W.T, V))
    if fit.model.basis == "pca":
        advice = "close variances are separated slowly: lower tol and raise max_iter"
        free = "the signs"
    else:
        advice = "read the subspace, not its coordinates; or pass basis='pca'"
        group = "O(m), any rotation" if fit.model.tied else "GL(m), any invertible map"
        free = f"{group} of the code,"
    return at_most(off, AXIS_ERROR, advice, unit="distance", note=f"the loss leaves {free} free")


@proved(
    "no constant added to the reconstruction would lower its error",
    "CIL Prop. 1.2.1",
    needs=(spectra.scaled_rows,),
)
def affine_part_redundant(fit):
    """The best constant is (I − VW)(x̄ − mean_): 0 up to rounding if mean_ is the mean."""
    (W, V), rows = _factors(fit), spectra.scaled_rows(fit)
    size = 1 + float(np.linalg.norm(V, 2) * np.linalg.norm(W, 2))
    offset = float(np.linalg.norm(rows.shift - V @ (W @ rows.shift)))
    advice = "mean_ is not the mean of this data: pass the training data, or fit it again"
    return compare_offset(rows, offset, size, advice)


# up to the rounding of a trace of d × d products
LOSS_NEVER_ROSE = never_rose(
    "the loss never rose",
    "CIL 1.5.3",
    lambda fit: rounding(np.float64, terms=fit.mean_.size**2),
    "step_size is too long for the curvature: lower it, or leave it None to have it measured",
)


AUTOENCODER_CLAIMS = (
    SOUND, TRUE, near_pca_optimum, reconstruction_is_projection, first_order_point, axes_identified, affine_part_redundant,
)  # fmt: skip
DESCENT_CLAIMS = (*AUTOENCODER_CLAIMS, LOSS_NEVER_ROSE)
