"""Scores of a fit, and the claims of its certificate, on entries that it did not see.

Held-out entries may have rows and columns that the fit does not know (a split by time nearly always does). With
unknown="baseline" they are predicted by what is known without them: their own offsets and factors are 0, in a larger matrix.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lemmata.audit.completion.held_out.offsets import OFFSET_CLAIMS
from lemmata.audit.completion.held_out.ranking import RANKING_CLAIMS
from lemmata.completion.observed import Observed
from lemmata.completion.recommending.recommend import best_items, users_at
from lemmata.core.certificate import HOLDS, Certificate, Fit
from lemmata.core.certification.checking import budget, check

if TYPE_CHECKING:
    from lemmata.completion.base import CompletionModel

Array = np.ndarray
LONG = 10  # items of the lists by which implicit feedback is scored


def score(model: CompletionModel, X: Any, unknown: str) -> float:
    """Return −RMSE over the known entries of X, or NDCG@10 of implicit feedback; see `CompletionModel.score`."""
    data = model._same_matrix(X, unknown)
    if data.n_observed == 0:
        raise ValueError("there are no known entries to score.")
    if model._is_implicit():
        return _ranking_score(model, data)
    i, j = _inside(model, data)
    errors = data.values - model._at(i, j)
    return -float(np.sqrt(np.mean(errors**2, dtype=np.float64)))


def _inside(model: CompletionModel, data: Observed) -> tuple[Array, Array]:
    """The places of entries, −1 for rows and columns beyond those of the training matrix."""
    n, m = model.observed_.shape
    return np.where(data.rows < n, data.rows, -1), np.where(data.columns < m, data.columns, -1)


def _ranking_score(model: CompletionModel, data: Observed) -> float:
    from lemmata.completion.metrics import ndcg_at_k

    known, users = model.observed_, np.flatnonzero(data.row_counts)
    asked = users_at(model, np.where(users < len(model.U_), users, -1))
    inside = (data.rows < known.shape[0]) & (data.columns < known.shape[1])
    asked_for = np.isin(*(
        part.rows[here].astype(np.int64) * known.shape[1] + part.columns[here]
        for part, here in ((known, slice(None)), (data, inside))
    ))  # fmt: skip
    lists = best_items(model, asked._replace(data=known.select(~asked_for)), LONG).positions
    return float(ndcg_at_k(lists, data, LONG, users=users))


def certify(
    model: CompletionModel, X: Any, y: Any, seconds: float | None, unknown: str
) -> Certificate:
    """Return the certificate on the training entries X and held-out entries y; see `CompletionModel.certify`."""
    train = model._same_matrix(X)
    if y is None:
        return model._certificate(train, seconds=seconds)
    held_out = model._same_matrix(y, unknown)
    if held_out.shape == train.shape:
        found = model._certificate(train, held_out, seconds=seconds)
        return _with_held_out(model, found, (), Fit(model, train, held_out), seconds)
    # what is said of held-out entries is said in the larger matrix, everything else in that of the fit
    found = model._certificate(train, seconds=seconds)
    about = tuple(one for one in model._claims() if one.name == "held_out_error")
    return _with_held_out(model, found, about, _enlarge(model, train, held_out), seconds)


def _with_held_out(
    model: CompletionModel, found: Certificate, about: tuple, fit: Fit, seconds: float | None
) -> Certificate:
    """A certificate with the claims about held-out entries that `fit` knows, in place of those of the same name."""
    factors = np.shape(model.U_)[1] > 0 and not model._is_implicit()  # offsets beat no offsets
    claims = (*about, *(OFFSET_CLAIMS if factors else ()), *RANKING_CLAIMS)
    if found.claims and found.claims[0].verdict != HOLDS:  # attributes_sound
        more = {one.name: one.put_off("the attributes are not sound") for one in claims}
    else:
        work = budget(model.work, fit)
        checked = check(claims, fit, found.title, work=work, seconds=seconds, usual=work)
        more = {one.name: one for one in checked}
    first = tuple(more.pop(one.name, one) for one in found.claims)
    return replace(found, claims=(*first, *more.values()))


def _enlarge(model: CompletionModel, train: Observed, held_out: Observed) -> Fit:
    """The fit in a matrix that has further rows and columns, of which nothing is known: without factors and offsets."""
    shape = held_out.shape

    def grow(part: Array, size: int, fill: float) -> Array:
        added = np.full((size - len(part), *part.shape[1:]), fill, part.dtype)
        return np.concatenate([part, added])

    attributes = {
        f"{side}_{what}_": grow(getattr(model, f"{side}_{what}_"), size, fill)
        for side, size in zip(("row", "column"), shape, strict=True)
        for what, fill in (("bias", 0.0), ("scale", 1.0))
    }
    attributes["U_"], attributes["V_"] = (
        grow(part, size, 0.0) for part, size in zip((model.U_, model.V_), shape, strict=True)
    )
    data = Observed.from_triplets(train.rows, train.columns, train.values, shape)
    return Fit(model, data, held_out, attributes=attributes)
