"""Whether a matrix projects, and orthogonally: claims about any square `fit.P`, wherever it comes from (CIL 1.3)."""

from __future__ import annotations

import math

import numpy as np

from lemmata.audit.kernel.claims import Fit, at_most, proved, rounding

Array = np.ndarray


def _scale_down(P: Array) -> tuple[Array, float]:
    """Q = P/s with entries of at most 1, so that no product overflows; s is a power of two, or 1 for small P."""
    largest = float(np.abs(P).max())
    s = math.ldexp(1.0, min(math.frexp(largest)[1], 1023)) if largest > 1 else 1.0
    return P / P.dtype.type(s) if s > 1 else P, s


def _cost(fit: Fit) -> float:
    return float(len(fit.P)) ** 3


@proved("P² = P: projecting twice changes nothing", "CIL 1.3.2", cost=_cost)
def idempotent(fit):
    """An entry of P² is a sum of n products, so ‖P² − P‖ may reach rounding·‖P‖² (‖P‖² = rank for a projection).

    With P = sQ: ‖Q² − Q/s‖ against rounding·max(1/s², ‖Q‖²).
    """
    Q, s = _scale_down(fit.P)
    gap = float(np.linalg.norm(Q @ Q - Q / Q.dtype.type(s)))
    size = max(1 / s**2 if s < 1e150 else 0.0, float(np.linalg.norm(Q)) ** 2)
    bound = rounding(Q.dtype, terms=len(Q)) * size
    advice = "in P = VW take W = V⁺ (pseudo_inverse): then P projects"
    return at_most(gap, bound, advice, "|P² − P|" if s == 1 else "|P² − P| / s²")


@proved("P = Pᵀ: the projection is orthogonal", "CIL 1.3.4")
def self_adjoint(fit):
    Q, s = _scale_down(fit.P)
    gap, size = float(np.linalg.norm(Q - Q.T)), float(np.linalg.norm(Q))
    bound = rounding(Q.dtype, terms=len(Q)) * size
    advice = "in P = VW take W = V⁺ (pseudo_inverse), or tie the weights"
    return at_most(gap, bound, advice, "|P − Pᵀ|" if s == 1 else "|P − Pᵀ| / s")


PROJECTION_CLAIMS = (idempotent, self_adjoint)
