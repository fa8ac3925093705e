"""The model without topics: every word of every document is drawn from one distribution u.

    u_w = (N_w + s)/(N + m s),        s: the pseudo-count at which Σ_w N_w ln (N_w − 1 + s)/(N − 1 + m s) is largest

The sum is the logarithm of what each token of the training documents has given all the others: no word that a test document may
have gets probability 0, and s is not a choice. A weak unigram would make every topic model look good.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray
PSEUDO_COUNTS = np.logspace(-6, 2, 65)


def unigram_topic(counts: Any) -> Array:
    """u, (m,), of a matrix of counts (n, m), dense or sparse; uniform where there are none."""
    return smooth(np.asarray(counts.sum(axis=0), np.float64).ravel())


def smooth(totals: Array) -> Array:
    """u of how often each word occurs, (m,)."""
    m, N = len(totals), float(totals.sum())
    if N <= 1:
        return np.full(m, 1 / m)
    seen = totals[totals > 0]
    others = np.maximum(seen - 1, 0)
    found = [seen @ np.log((others + s) / (N - 1 + m * s)) for s in PSEUDO_COUNTS]
    s = PSEUDO_COUNTS[int(np.argmax(found))]
    return (totals + s) / (N + m * s)
