"""What a k-means fit states, compared with the rows: labels, cost and sums; as its library defines and rounds them.

Here is also what all claims about k-means share: the one pass that puts every row at its nearest centre, and what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lemmata.audit.clustering.nearest_centres import (
    Partition,
    eps_of,
    members,
    own_squares,
    squared_distances,
    squares_of,
    sum_by,
)
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.claims import Evidence, Fit, fact, rounding, unknown

Array = np.ndarray
LAST_BATCH = "labels_ and inertia_ are those of the last batch, and these are other rows"


# --- one pass, and its price -----------------------------------------------------------------------------------------


def sizes(fit: Fit) -> tuple[int, int, int]:
    (n, d), k = fit.data.shape, len(fit.cluster_centers_)
    return n, d, k


def pass_work(fit: Fit) -> float:
    """One plain pass: distances by matrix products, and some ten sweeps over the rows and over their distances."""
    n, d, k = sizes(fit)
    sparse = float(fit.data.size) / max(n * d, 1) if fit.data.sparse else 1.0
    return n * (2.0 * d * k * sparse + 16 * d * sparse + 30 * k + 200)


@fact(cost=pass_work)
def nearest(fit: Fit) -> Partition:
    """Put every row at its nearest centre."""
    return Partition.of(fit.data, fit.cluster_centers_)


# --- the claims that begin every certificate --------------------------------------------------------------------------


def _unsound(fit: Fit) -> Iterator[str]:
    k = len(fit.cluster_centers_)
    labels = fit.get("labels_")
    if labels is not None and np.max(labels, initial=0) >= k:
        yield f"labels_ go up to {np.max(labels)}, but there are {k} centres"
    sums = fit.get("sums_")
    if sums is not None:
        counts, total = np.asarray(sums.counts), np.asarray(sums.sums)
        if counts.shape != (k,) or total.shape != np.shape(fit.cluster_centers_):
            yield f"sums_ has shapes {counts.shape} and {total.shape}"
        elif not (np.isfinite(counts).all() and np.isfinite(total).all() and (counts >= 0).all()):
            yield "sums_ is not finite, or negative"


SOUND = attributes_sound(
    {"cluster_centers_": "k d", "labels_?": "m | >= 0, whole", "inertia_?": "| >= 0"}, _unsound
)


@dataclass(frozen=True)
class Labelled:
    """What the model's own labels make of the rows, in the units of the partition's frame."""

    weight: Array  # (k,)
    means: Array  # (k, d) NaN where a label has no weight
    cost: float  # Σ w‖x − c_label‖²
    excess: float  # the largest own distance² − least distance², in units of its rounding
    squares: float  # Σ w(‖x‖² + ‖c‖²), where the library takes squares


def _labelled(fit: Fit, labels: Array, found: Partition, eps: float, raw: bool) -> Labelled:
    """raw: the library squares numbers as they stand, rather than their differences from a common origin."""
    if np.array_equal(labels, found.labels):
        return _labelled_nearest(found, raw)
    C, (k, d), start = found.centers, found.centers.shape, 0
    weight, sums = np.zeros(k), np.zeros((k, d))
    cost = excess = squares = 0.0
    far = float(np.linalg.norm(found.frame.origin / found.frame.scale))
    exact = np.finfo(np.float64).eps
    mixed = eps_of(fit.data.dtype) != eps_of(np.asarray(fit.cluster_centers_).dtype)
    for X, w in found.frame.slices(fit.data):
        here = labels[start : start + len(w)]
        D = squared_distances(X, C)
        own, nearest_one = own_squares(X, C, here, D), D.argmin(axis=1)
        best, other = own.copy(), np.flatnonzero(nearest_one != here)
        if len(other):
            best[other] = own_squares(X[other], C, nearest_one[other], D[other])
        norms = squares_of(X) + np.einsum("ij,ij->i", C, C).max()
        reach = 2 * norms + 2 * far**2 if raw else norms
        # Products of d terms err by rounding(d) of the squares they are made of. Rows of another precision than the fit's
        # moved by eps‖x‖, which changes a difference of two squared distances by 2 eps‖x‖‖c − c'‖.
        slack = 8 * math.sqrt(d) * eps * reach + 16 * exact * (norms + far**2 * exact)
        if mixed:
            slack = slack + 8 * eps * (np.sqrt(norms) + far) * (np.sqrt(own) + np.sqrt(best))
        excess = max(
            excess, float(((own - best) / np.maximum(slack, np.finfo(float).tiny)).max(initial=0))
        )
        weight, cost = weight + np.bincount(here, w, k), cost + float(w @ own)
        sums += sum_by(members(here, w, k), X)
        squares += float(w @ reach)
        start += len(w)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Labelled(weight, sums / weight[:, None], cost, excess, squares)


def _labelled_nearest(found: Partition, raw: bool) -> Labelled:
    """The same where every label is that of the nearest centre: what the one pass has found."""
    far = float(np.linalg.norm(found.frame.origin / found.frame.scale))
    W = float(found.weight.sum())
    squares = found.squares + W * float(np.einsum("ij,ij->i", found.centers, found.centers).max())
    means = np.where(found.weight[:, None] > 0, found.means, np.nan)
    reach = 2 * squares + 2 * W * far**2 if raw else squares
    return Labelled(found.weight, means, found.cost, 0.0, reach)


def _own_labels(fit: Fit) -> Array | None:
    labels = fit.get("labels_")
    return None if labels is None else np.asarray(labels).astype(np.int64)


def _after_batches(fit: Fit) -> bool:
    """Whether labels and cost may be those of a last batch: ours says so, scikit-learn's has made steps without a fit."""
    if fit.get("stopped_") is not None:
        return str(fit.stopped_) == "batches"
    return fit.has("n_steps_") and not fit.has("n_iter_")


def stated(fit: Fit) -> Mapping[str, float]:
    """How far labels, cost and sums are from those of the rows, in units of their rounding."""
    found, labels = nearest(fit), _own_labels(fit)
    n = fit.data.shape[0]
    if labels is not None and labels.shape != (n,):
        return {"labels_": math.inf}
    centers = np.asarray(fit.cluster_centers_)
    eps = eps_of(fit.data.dtype, centers.dtype)
    raw = _squares_as_they_stand(fit)
    told: dict[str, float] = {}
    cost = found.cost
    known = None
    if labels is not None:
        known = _labelled(fit, labels, found, eps, raw)
        told["labels_"], cost = known.excess, known.cost
    if fit.get("inertia_") is not None:
        told["inertia_"] = _cost_error(
            fit, found, cost, eps, known.squares if known and raw else 0.0
        )
    of_batches = _after_batches(fit) or fit.has("n_steps_")  # sums are those of all batches, then
    if known is not None and fit.get("sums_") is not None and not of_batches:
        told["sums_"] = _sums_error(fit, found, known, eps)
    return told


def _cost_error(fit: Fit, found: Partition, cost: float, eps: float, squares: float) -> float:
    """|inertia_ − cost| in units of its rounding.

    n·d terms of one sign are summed. The centres are known to ‖δ‖ ≤ eps‖c‖, which moves the cost of a cluster by exactly
    W‖δ‖² − 2δ·Σw(x − c); where precisions differ the rows have moved by eps‖x‖, and the cost by 2√(E·cost) + E at most, E = Σ w
    eps²‖x‖². Squares that cancel err by their own size.
    """
    (n, d), frame = fit.data.shape, found.frame
    own = eps_of(np.asarray(fit.cluster_centers_).dtype)
    far = frame.origin / frame.scale
    reach = np.linalg.norm(found.centers + far, axis=1) * own  # of each centre
    slopes = np.linalg.norm(found.sums, axis=1)
    allowed = rounding(np.float32 if eps > 1e-10 else np.float64, n * d) * cost
    allowed += float(found.weight @ reach**2 + 2 * reach @ slopes)
    if eps_of(fit.data.dtype) != own:
        E = 4 * eps**2 * (cost + float(found.weight @ (reach / own) ** 2))
        allowed += 2 * math.sqrt(E * cost) + E
    allowed += 8 * math.sqrt(d) * eps * squares
    with np.errstate(over="ignore", under="ignore"):
        smallest = frame.cost_inside(np.finfo(np.float64).tiny)  # where floats end
    error = abs(frame.cost_inside(float(fit.inertia_)) - cost)
    return float(error / max(allowed, smallest, np.finfo(float).tiny))


def _sums_error(fit: Fit, found: Partition, known: Labelled, eps: float) -> float:
    """Weights and means of the clusters, as the sums that `partial_fit` goes on from give them."""
    counts, sums = np.asarray(fit.sums_.counts), np.asarray(fit.sums_.sums)
    weight, full = known.weight * found.frame.heavy, known.weight > 0
    error = discrepancy(
        counts,
        weight,
        max(weight.max(), np.finfo(float).tiny),
        8e-16 * math.sqrt(fit.data.shape[0]),
    )
    if not full.any() or not (counts[full] > 0).all():
        return error
    means = found.frame.inside(sums[full] / counts[full, None])
    far = float(np.abs(found.frame.origin / found.frame.scale).max(initial=0.0))
    scale = far + np.abs(found.centers).max() + 1
    tolerance = 8 * math.sqrt(fit.data.shape[0]) * eps
    return max(error, discrepancy(means, known.means[full], scale, tolerance))


_TRUE = statements_true(stated, cost=pass_work, needs=(nearest,))


def _true_of_these_rows(fit: Fit) -> Evidence:
    """After `partial_fit`, labels and cost belong to the last batch: other rows cannot contradict them."""
    labels = _own_labels(fit)
    other_rows = labels is not None and len(labels) != fit.data.shape[0]
    if other_rows and (_after_batches(fit) or fit.has("n_steps_")):
        return unknown(LAST_BATCH)
    if _too_coarse(fit):
        return unknown("so far from 0, squares of this precision do not tell the rows apart")
    found = _TRUE.check(fit)
    return unknown(LAST_BATCH) if found.verdict == "fails" and _after_batches(fit) else found


def _too_coarse(fit: Fit) -> bool:
    """Whether a library that squares numbers as they stand errs by more than a hundredth of the mean squared distance."""
    if not _squares_as_they_stand(fit):
        return False
    found = nearest(fit)
    far = found.frame.origin / found.frame.scale
    eps = eps_of(fit.data.dtype, np.asarray(fit.cluster_centers_).dtype)
    error = 8 * math.sqrt(len(far)) * eps * float(far @ far) * float(found.weight.sum())
    return error > 0.01 * found.cost > 0


def _squares_as_they_stand(fit: Fit) -> bool:
    """Sparse rows are not centred, nor are the batches of scikit-learn's MiniBatchKMeans (ours keeps its sums)."""
    return fit.data.sparse or (fit.has("n_steps_") and not fit.has("sums_"))


TRUE = replace(_TRUE, check=_true_of_these_rows)
