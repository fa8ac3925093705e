"""Claims about vectors of words by a truncated singular value decomposition, M ≈ UΣVᵀ: ζ = UΣ^p, z = VΣ^(1−p).

V and Σ are judged as those of M (audit/reduction/pca.py). With U = MVΣ⁻¹ both embeddings follow from them:

    ζ = M V Σ^(p−1)        z = V Σ^(1−p)
"""

from __future__ import annotations

import numpy as np

from lemmata.audit.embedding.geometry import directions_spread
from lemmata.audit.embedding.skipgram import count_error
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.claims import Fit, rounding
from lemmata.audit.reduction import pca
from lemmata.audit.reduction.spectra import around


def _statement_errors(fit: Fit) -> dict[str, float | None]:
    """What the decomposition states, both embeddings, and counts where the text is there: a fit sees the matrix alone."""
    V = np.asarray(fit.components_, np.float64).T
    sigma, p = np.asarray(fit.singular_values_, np.float64), float(fit.power)
    M, single = fit.data.source, np.float32
    left = np.where(sigma > 0, sigma, 1.0) ** (p - 1) * np.where(sigma > 0, 1.0, 0.0**p)
    right = sigma ** (1 - p)
    terms = rounding(single, np.diff(M.indptr).max(initial=1))
    zeta, size = (M @ V) * left, (abs(M) @ np.abs(V)) * left
    text = fit.get("text")
    return {
        **pca.subspace_statements(fit),
        "embedding_": discrepancy(fit.embedding_, zeta, size, terms),
        "context_embedding_": discrepancy(
            fit.context_embedding_, V * right, np.abs(V) * right, rounding(single)
        ),
        "counts_": None if text is None else count_error(fit.counts_, text),
    }


def _cost(fit: Fit) -> float:
    return 4.0 * fit.data.size * len(fit.components_)


SHAPES = {**pca.STATED, "embedding_ context_embedding_": "d k", "counts_": "d int >=0"}
TRUE = statements_true(_statement_errors, cost=_cost, needs=(around,))
PMI_CLAIMS = (attributes_sound(SHAPES), TRUE, directions_spread, *pca.MATRIX_CLAIMS[2:])
