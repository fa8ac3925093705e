"""Moments that a model kept, checked by a few random vectors instead of formed again (Freivalds 1977).

    W = scatter/n + δδᵀ,  δ = μ − c,  is S = Σ p (x − c)(x − c)ᵀ of the rows as far as ‖(S − W) R‖ shows for random R

R is d × q with independent N(0, 1) entries. With λ_i the eigenvalues of E = S − W, ‖ER‖² is distributed as Σ λ_i² χ²_q; by
E e^(−tΣ) = Π (1 + 2tλ_i²)^(−q/2) ≤ (1 + 2t‖E‖²)^(−q/2), with t chosen best (Chernoff), whatever the λ_i,

    P(‖ER‖² ≤ x ‖E‖²) ≤ (e x / q)^(q/2),      so      ‖E‖ ≤ √(e/q) RISK^(−1/q) ‖ER‖      but for a probability of RISK

in the Frobenius norm. R is drawn here, after W was shown. It takes one pass of thin products, where S takes d of them a row.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lemmata.audit.kernel.claims import PRODUCTS, Fit, fact, free, price_of, rounding
from lemmata.audit.reduction import spectra
from lemmata.core.blocks import Blocks
from lemmata.core.moments import Moments

Array = np.ndarray

RISK = 1e-6  # that W is further from S than is stated
VECTORS = 4  # q: 26 times the error that they show; of float64 two, 1,200 times that of rounding
FAR = 16.0  # squared, in squared deviations: rows further from 0 are centred first
SEED = 0x9E3779B9
# of what all checks may cost: where S and its spectrum take more than this, the moments kept are checked instead
EXPENSIVE = 0.25
CLOSE = 1e-3  # of the least error: moments that are known better than this judge a bound of 1 %


def uses_kept(fit: Fit) -> bool:
    """Whether to check the moments that the model kept: S is expensive for the work that is allowed, and the rows are dense."""
    kept = fit.get("moments_")
    if not isinstance(kept, Moments) or fit.data.sparse or spectra.both in fit.facts:
        return False
    d = fit.data.shape[1]
    if float(fit.data.size) * (4 + d / PRODUCTS) + float(d) ** 3 <= EXPENSIVE * fit.work:
        return False
    return np.shape(kept.mean) == (d,) and np.shape(kept.scatter) == (d, d) and kept.n > 0


def _cost(fit: Fit) -> float:
    d = fit.data.shape[1]
    if not uses_kept(fit):
        return 0.0
    return float(fit.data.size) * (1 + 2 * VECTORS / PRODUCTS) + spectra.EIGH * float(d) ** 3


@fact(cost=_cost)
def check_moments(fit: Fit) -> tuple[spectra.ScaledRows, spectra.Around, spectra.Spectrum] | None:
    """Check the moments kept, in one pass; None where there are none to use or they are not close enough to judge by."""
    if not uses_kept(fit):
        return None
    c, C = (np.asarray(one, dtype=np.float64) for one in (fit.mean_, fit.components_))
    with np.errstate(over="ignore", invalid="ignore"):
        delta = np.asarray(fit.moments_.mean, np.float64) - c
        W = np.asarray(fit.moments_.scatter, np.float64) / fit.moments_.n + np.outer(delta, delta)
        W, total = (W + W.T) / 2, float(np.trace(W))
        if not 1 / spectra.EXTREME < total < spectra.EXTREME:
            return None
        away, shift = measure(fit.data, c, W)
    if not away < total:
        return None
    (n, d), dtypes = fit.data.shape, (fit.data.dtype, np.asarray(fit.components_).dtype)
    theirs, own = (float(np.finfo(one).eps) for one in dtypes)
    least = total - math.sqrt(d) * away  # tr S is at least that
    square = max(least + 2 * float(c @ shift) + float(c @ c), 0.0)
    rows = spectra.ScaledRows(fit.data, 1.0, c + shift, c, square, max(theirs, own), theirs > own)
    known = replace(spectra.whole_spectrum(W), away=away, risk=RISK)
    facts = spectra.Around(C, W @ C.T, total, rows.noise, dtypes[1], n)
    tail = float(known.values[len(C) :].sum())
    close = known.slack(facts) <= CLOSE * tail and total > facts.noise
    return (rows, facts, known) if close else None


def measure(data: Blocks, c: Array, W: Array) -> tuple[float, Array]:
    """Return a bound on ‖S − W‖, true but for RISK, and the mean of the rows about c."""
    d, q = len(c), VECTORS if data.dtype == np.float32 else 2
    R = np.random.default_rng(SEED).standard_normal((q, d))
    size = float(np.trace(W))
    far = c @ c > FAR * size  # else products with the rows as they are lose a digit, counted below
    m = 0 * c if far else c
    found = np.zeros((q + 1, d))  # S R, and x̄ − c
    for rows, p in spectra.shares_of(data):
        rows = rows - c if far else rows
        # one after the other: BLAS is twice as fast with vectors as with matrices of two columns
        for j, r in enumerate(R):
            found[j] += (p * (rows @ r - m @ r)) @ rows
        found[q] += p @ rows
    found[q] -= m
    found[:q] -= np.multiply.outer(R @ found[q], m)
    seen = float(np.linalg.norm(found[:q] - R @ W))
    lost = rounding(np.float64, max(data.shape)) * (size + 2 * float(m @ m))
    seen += lost * float(np.linalg.norm(R))
    return math.sqrt(math.e / q) * RISK ** (-1 / q) * seen, found[q]


@fact(
    cost=lambda fit: 0.0 if uses_kept(fit) else price_of(fit, free, (spectra.both,)),
    needs=(check_moments,),
)
def principal(fit: Fit) -> tuple[spectra.Around, spectra.Spectrum]:
    """Find the spectrum and what the components see of it: of the moments kept, where those will do, or of S."""
    found = check_moments(fit)
    return spectra.both(fit) if found is None else found[1:]
