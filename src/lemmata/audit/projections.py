"""Whether a matrix projects, and orthogonally: claims about any square `fit.P`, wherever it comes from (CIL 1.3)."""

from __future__ import annotations

import numpy as np

from lemmata.core.certificate import RULE_OF_THUMB, at_most, claim, rounding


@claim("P² = P: projecting twice changes nothing", kind=RULE_OF_THUMB, source="CIL 1.3.2")
def idempotent(fit):
    """An entry of P² is a sum of n products, so ‖P² − P‖ may reach rounding·‖P‖² (‖P‖² = rank for a projection)."""
    P = fit.P
    gap, size = float(np.linalg.norm(P @ P - P)), max(1.0, float(np.linalg.norm(P)) ** 2)
    bound = rounding(P.dtype, terms=len(P)) * size
    return at_most(
        gap, bound, "in P = VW take W = V⁺ (pseudo_inverse): then P projects", "|P² − P|"
    )


@claim("P = Pᵀ: the projection is orthogonal", kind=RULE_OF_THUMB, source="CIL 1.3.4")
def self_adjoint(fit):
    P = fit.P
    gap, size = float(np.linalg.norm(P - P.T)), float(np.linalg.norm(P))
    bound = rounding(P.dtype, terms=len(P)) * size
    return at_most(
        gap, bound, "in P = VW take W = V⁺ (pseudo_inverse), or tie the weights", "|P − Pᵀ|"
    )


PROJECTION_CLAIMS = (idempotent, self_adjoint)
