"""Claims about texts classified by the sum of their features' vectors: scores z = (x A) Bᵀ + c of sparse rows x.

What is stated is recomputed from the rows, A (`vectors_`), B (`coef_`) and c (`intercept_`), and set beside the best that one
answer for all texts can do: of softmax the entropy of the class frequencies; of the hinge 1, by equal scores, or 2(1 − f) with
the most frequent class, of share f, one ahead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from lemmata.audit.embedding.skipgram import loss_fell
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.claims import Fit, at_most, fact, rounding, rule_of_thumb, unknown

Array = np.ndarray
BELOW = 0.99


def _work(fit: Fit) -> float:
    return float(fit.data.size) * np.asarray(fit.vectors_).shape[1]


def scores(rows, fit: Fit) -> Array:
    """z of a block of rows."""
    A, B, c = (np.asarray(part, np.float64) for part in (fit.vectors_, fit.coef_, fit.intercept_))
    return (rows.astype(np.float64) @ A) @ B.T + c


@fact(cost=_work)
def mean_loss(fit: Fit) -> tuple[float, Any]:
    """Return the weighted mean loss of all texts, and how far rounding of float32 may have moved it."""
    A, B = (np.abs(np.asarray(part, np.float64)) for part in (fit.vectors_, fit.coef_))
    unit = rounding(np.float32, fit.data.size / max(fit.data.shape[0], 1) * A.shape[1])
    total = moved = weight = 0.0
    for rows, y, weights in fit.data.triples():
        w = np.ones(len(y)) if weights is None else weights
        losses, slopes = _losses(scores(rows, fit), y, fit.get("loss") == "hinge")
        sizes = ((abs(rows).astype(np.float64) @ A) @ B.T).max(axis=1, initial=0.0)
        total, weight = total + float(losses @ w), weight + float(w.sum())
        moved += float((unit * (slopes * sizes + losses)) @ w)
    return total / weight, moved / weight + np.finfo(np.float32).eps


def _losses(z: Array, y: Array, hinge: bool) -> tuple[Array, Array]:
    """ℓ of every row, and Σ_c |∂ℓ/∂z_c|: how much it moves with its scores."""
    own = z[np.arange(len(y)), y]
    if not hinge:
        losses = logsumexp(z, axis=1) - own
        return losses, 2 * -np.expm1(-losses)
    z[np.arange(len(y)), y] = -np.inf
    losses = np.maximum(0, 1 + z.max(axis=1) - own)
    return losses, 2.0 * (losses > 0)


def statement_errors(fit: Fit) -> dict[str, float]:
    if fit.data.targets is None:
        return {}
    loss, error = mean_loss(fit)
    return {"loss_": discrepancy(fit.loss_, loss, 1.0, error)}


@rule_of_thumb(
    "the loss is at least 1 % below what one answer for all texts reaches",
    "ML Text Representation",
    needs=(mean_loss,),
)
def beats_one_answer(fit: Fit):
    """The mean loss on these texts as a share of the best constant's."""
    if fit.data.targets is None:
        return unknown("pass the labels: certify(X, y)")
    w = np.ones(fit.data.shape[0]) if fit.data.weights is None else fit.data.weights
    shares = np.bincount(fit.data.targets, w) / w.sum()
    shares = shares[shares > 0]
    if fit.get("loss") == "hinge":
        best = min(1.0, 2 * (1 - float(shares.max())))
    else:
        best = -float(shares @ np.log(shares))
    if best == 0:
        return unknown("all these texts are of one class")
    advice = "nothing was learned: raise epochs or learning_rate, or look at the labels"
    return at_most(mean_loss(fit)[0] / best, BELOW, advice, unit="share of the constant's loss")


SHAPES = {"vectors_": "d k", "coef_": "c k", "intercept_": "c", "loss_": ">=0"}
TRUE = statements_true(statement_errors, needs=(mean_loss,), unchecked="features_")
FASTTEXT_CLAIMS = (attributes_sound(SHAPES), TRUE, beats_one_answer, loss_fell)
