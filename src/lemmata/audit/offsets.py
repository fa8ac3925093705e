"""What theory promises about offsets of rows and columns (MeanRatings), checked on the known entries by plain code."""

from __future__ import annotations

import numpy as np
from scipy.stats import beta

from lemmata.audit.entries import connected_observations
from lemmata.audit.heldout import held_out_error
from lemmata.core.certificate import RULE_OF_THUMB, Fit, at_least, at_most, claim, unknown

Array = np.ndarray
SIDES = {
    "both": (True, True),
    "rows": (True, False),
    "columns": (False, True),
    "global": (False, False),
}
SLOPE = 1e-6  # of the terms of a derivative; float32 offsets leave 8·eps = 9.5e-7
RISK = 0.01


def _sides(fit: Fit) -> list[tuple[Array, Array, Array]]:
    """Of rows and columns, where they have offsets: whose each entry is, how many entries each has, and the offset."""
    A = fit.data
    found = ((A.rows, A.row_counts, fit.row_bias_), (A.columns, A.column_counts, fit.column_bias_))
    return [side for side, wanted in zip(found, SIDES[fit.by], strict=True) if wanted]


def _errors(fit: Fit) -> Array:
    b, c = (np.asarray(part, np.float64) for part in (fit.row_bias_, fit.column_bias_))
    return fit.data.values - float(fit.mean_) - b[fit.data.rows] - c[fit.data.columns]


@claim(
    "no other offsets fit better: the gradient of a convex objective vanishes",
    kind=RULE_OF_THUMB,
    source="CIL 2.1.4, Prop. 2.2.2",
)
def best_offsets(fit):
    """|Σ e − λb| over its terms Σ (|a| + |μ| + |b| + |c|) + λ|b|, the norm over all rows and columns that have an offset."""
    A, reg, e = fit.data, float(fit.reg_), _errors(fit)
    sizes = np.abs(A.values) + np.abs(A.values - e) + abs(float(fit.mean_))
    slopes, terms = [], []
    for who, counts, offset in _sides(fit):
        offset = np.asarray(offset, np.float64)
        slopes.append(np.bincount(who, e, len(counts)) - reg * offset)
        terms.append(np.bincount(who, sizes, len(counts)) + reg * np.abs(offset))
    if not slopes:  # μ is all there is
        slopes, terms = [e.sum(keepdims=True)], [sizes.sum(keepdims=True)]
    size = np.linalg.norm(np.concatenate(terms))
    measured = float(np.linalg.norm(np.concatenate(slopes)) / size) if size > 0 else 0.0
    return at_most(
        measured,
        SLOPE,
        "report this: the equations are linear and have a solution",
        unit="|∇| relative",
    )


@claim(
    "every row and column that has an offset has an entry",
    kind=RULE_OF_THUMB,
    source="CIL (2.6), 2.2.1",
)
def an_entry_each(fit):
    fewest = min(
        (int(counts.min(initial=1)) for _, counts, _ in _sides(fit)), default=fit.data.n_observed
    )
    empty = sum(int((counts == 0).sum()) for _, counts, _ in _sides(fit))
    note = f"{empty:,} have none; they count as average" if empty else ""
    return at_least(
        fewest,
        1,
        "nothing is known of them: leave them out, or do not rely on them",
        "fewest",
        note,
    )


@claim(
    "the offsets explain more than offsets of pure noise would (99 %)",
    kind=RULE_OF_THUMB,
    source="CIL 2.1.4, Beta distribution",
)
def beyond_noise(fit):
    """Of N normal entries without any pattern, p free offsets explain a share R² ~ Beta(p/2, (N − 1 − p)/2).

    With λ > 0 they explain less of noise and of patterns, so the claim then asks for more than it says.
    """
    A = fit.data
    free = sum(int((counts > 0).sum()) - 1 for _, counts, _ in _sides(fit))
    total = float(((A.values - A.values.mean(dtype=np.float64)) ** 2).sum())
    if free == 0 or total == 0:
        return unknown(
            "there is nothing to explain" if total == 0 else "there are no offsets but the mean"
        )
    rest = A.n_observed - 1 - free
    if rest <= 0:
        return unknown(
            f"{free:,} offsets for {A.n_observed:,} entries: no entry is left to tell by"
        )
    share = 1 - float((_errors(fit) ** 2).sum()) / total
    bound = float(beta.ppf(1 - RISK, free / 2, rest / 2))
    advice = f"{free:,} offsets for {A.n_observed:,} entries tell little: try by='columns', 'rows' or 'global', or raise reg"
    return at_least(share, bound, advice, unit="R²", note="a normal approximation")


ONE_SIDED_CLAIMS = (best_offsets, an_entry_each, beyond_noise, held_out_error)
MEAN_RATINGS_CLAIMS = (
    best_offsets,
    an_entry_each,
    beyond_noise,
    connected_observations,
    held_out_error,
)
