"""The matrix of (shifted, positive) pointwise mutual information of pairs of words (CIL (3.53); Levy & Goldberg 2014).

    M_wv = ln( N_wv / (N_w q_v) ) − shift,      N_w = Σ_v N_wv,   q_v ∝ (Σ_w N_wv)^α

With α = 1 it is ln p(w,v)/p(w)p(v) − shift, the optimum of skip-gram with e^shift negatives a pair; α = ¾ is that of negatives
drawn from p^¾. A pair that never occurs has −∞ there; keeping what is positive makes M sparse, and those zeros.

>>> import scipy.sparse as sp
>>> N = sp.csr_array(np.array([[0, 2.0], [2.0, 4.0]]))
>>> information(N).toarray().round(3).tolist()          # ln 2·8/(2·6), ln 4·8/(6·6) < 0
[[0.0, 0.288], [0.288, 0.0]]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def information(
    N: Any,
    shift: float = 0.0,
    exponent: float = 1.0,
    positive: bool = True,
    dtype: Any = np.float64,
) -> Any:
    """M on the pairs that occur, as CSR; without `positive`, negative ones stay, and pairs that never occur are 0."""
    N = sp.csr_array(N, dtype=np.float64, copy=True)
    N.eliminate_zeros()
    of_words, of_contexts = (np.asarray(N.sum(axis=axis)).ravel() for axis in (1, 0))
    q = np.where(of_contexts > 0, np.maximum(of_contexts, 1e-300) ** exponent, 0.0)
    q /= max(q.sum(), 1e-300)
    rows = np.repeat(np.arange(N.shape[0]), np.diff(N.indptr))
    values = np.log(N.data) - np.log(of_words[rows]) - np.log(q[N.indices]) - shift
    if positive:
        values = np.maximum(values, 0)
    M = sp.csr_array((values.astype(dtype), N.indices, N.indptr), shape=N.shape)
    if positive:
        M.eliminate_zeros()
    return M
