"""What a trained network states about its rows: sound attributes, a true loss, and one that beats a constant answer.

    log loss      −(1/Σw) Σ_i wᵢ log p(yᵢ | xᵢ),       p the softmax of the outputs (one output: the sigmoid)
    squared loss   (1/Σw) Σ_i wᵢ mean (f(xᵢ) − yᵢ)²

`module_` is run here, on the rows themselves: nothing of the estimator's own prediction is trusted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.special import logsumexp

from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.claims import PROVED, Evidence, Fit, at_most, claim, fact, rounding
from lemmata.audit.nets.parameters import unsound_tensors

Array = np.ndarray

AT_ONCE = 1024  # rows
NARROW = 0.02  # rounding of a bfloat16 product, of eight bits, with margin


def cost_of_outputs(fit: Fit) -> float:
    """A pass of the rows through the network: a multiplication for every weight, more where weights are shared."""
    weights = sum(parameter.numel() for parameter in fit.module_.parameters())
    return float(fit.data.shape[0]) * weights


@fact(cost=cost_of_outputs)
def outputs(fit: Fit) -> Array:
    """Return (n, outputs) of the network for all rows, as float64."""
    return np.concatenate([_run(fit, rows) for rows, _ in fit.data])


def _run(fit: Fit, rows: Array) -> Array:
    import torch

    module = fit.module_
    module.eval()
    like = next(module.parameters())
    found = []
    with torch.no_grad():
        for start in range(0, len(rows), AT_ONCE):
            some = torch.from_numpy(np.ascontiguousarray(rows[start : start + AT_ONCE]))
            out = module(some.to(like.device, like.dtype).reshape(-1, *fit.input_shape_))
            found.append(out.double().cpu().numpy().reshape(len(some), -1))
    return np.concatenate(found)


def row_losses(fit: Fit, outputs: Array) -> Array:
    """(n,): the log loss of classes, the squared loss of numbers."""
    y = np.asarray(fit.y)
    if fit.get("classes_") is None:
        return np.square(outputs - y.reshape(len(y), -1)).mean(axis=1)
    if outputs.shape[1] == 1:
        signed = np.where(y == 1, -outputs[:, 0], outputs[:, 0])
        return np.logaddexp(0.0, signed)
    return logsumexp(outputs, axis=1) - outputs[np.arange(len(y)), y]


def weighted_mean(fit: Fit, values: Array) -> float:
    return float(np.average(values, weights=fit.weights))


def statement_errors(fit: Fit) -> Mapping[str, float]:
    found = outputs(fit)
    losses = row_losses(fit, found)
    sizes = _sizes(fit, found)
    scale = weighted_mean(fit, losses) + weighted_mean(fit, sizes)
    error = discrepancy(fit.loss_, weighted_mean(fit, losses), scale, _rounding(fit))
    return {"loss_": error, **_held_out_errors(fit, found, losses, sizes)}


def _sizes(fit: Fit, found: Array) -> Array:
    """A loss is as exact as the outputs that it is taken of: how large those of each row are, in units of the loss."""
    classes = fit.get("classes_") is not None
    return np.abs(found).max(axis=1) if classes else np.square(found).mean(axis=1)


def _rounding(fit: Fit) -> float:
    wide = str(next(fit.module_.parameters()).dtype).endswith("64")
    return rounding(np.float64 if wide else np.float32, 64)


def _held_out_errors(fit: Fit, found: Array, losses: Array, sizes: Array) -> dict[str, float]:
    """What early stopping states: the score of the rows held out; and, in the history, their loss and score at the epoch
    with the least, whose weights these are. Of the other epochs the weights are gone."""
    held, n = fit.get("validation_rows_"), len(found)
    if held is None:
        return {}
    held = np.asarray(held)
    if len(held) == 0 or held.min() < 0 or held.max() >= n:
        return {"validation_rows_": math.inf}
    weights = None if fit.weights is None else np.asarray(fit.weights)[held]
    score, noise = _score(fit, found[held], np.asarray(fit.y)[held], weights, _rounding(fit))
    errors = {}
    if fit.get("best_validation_score_") is not None:
        stated = fit.best_validation_score_
        errors["best_validation_score_"] = discrepancy(stated, score, noise, 1.0)
    if not _same_objective(fit) or fit.trace is None or "validation_loss" not in fit.trace:
        return errors
    told = fit.trace.extras["validation_loss"]
    if not np.isfinite(told).any():
        return errors
    best = int(np.nanargmin(told))
    precise = NARROW if fit.get("precision_") == "bfloat16" else _rounding(fit)
    loss = float(np.average(losses[held], weights=weights))
    scale = loss + float(np.average(sizes[held], weights=weights))
    errors["history_ (loss)"] = discrepancy(told[best], loss, scale, precise)
    if fit.get("classes_") is not None and "validation_score" in fit.trace:
        _, noise = _score(fit, found[held], np.asarray(fit.y)[held], weights, precise)
        stated = fit.trace.extras["validation_score"][best]
        errors["history_ (score)"] = discrepancy(stated, score, noise, 1.0)
    return errors


def _same_objective(fit: Fit) -> bool:
    """Whether the history is of the loss that is recomputed here: no other function, no smoothed labels, no class weights."""
    usual = (None, "cross_entropy", "bce") if fit.get("classes_") is not None else (None, "mse")
    loss = fit.get("loss")
    named = loss is None or isinstance(loss, str)
    return (
        named and loss in usual and not fit.get("label_smoothing") and not fit.get("class_weight")
    )


def _score(
    fit: Fit, found: Array, y: Array, weights: Array | None, precise: float
) -> tuple[float, float]:
    """Accuracy, or R², of some rows; and by how much rounding may move it: rows on the border between two answers may turn."""
    s = np.ones(len(y)) if weights is None else weights
    if fit.get("classes_") is None:
        targets = y.reshape(len(y), -1).astype(np.float64)
        score, missed, spread = r_squared(targets, found, s)
        return score, precise * float(1 + ((missed + s @ found**2) / spread).mean())
    both = np.column_stack([np.zeros(len(y)), found]) if found.shape[1] == 1 else found
    first = np.sort(both, axis=1)[:, -2:]
    border = first[:, 1] - first[:, 0] <= precise * np.abs(both).max(axis=1)
    right = (both[:, 1] > 0) == (y > 0) if found.shape[1] == 1 else both.argmax(axis=1) == y
    return float(s @ right / s.sum()), rounding(np.float64, len(y)) + float(s @ border / s.sum())


def r_squared(y: Array, found: Array, s: Array) -> tuple[float, Array, Array]:
    """Return R², the mean over outputs; and of each the squares that were missed, and that there are (1 where there are none).

    scikit-learn's R² of an output that does not vary: 1 if it is met, else 0.
    """
    spread, missed = s @ (y - s @ y / s.sum()) ** 2, s @ (y - found) ** 2
    some = np.where(spread > 0, spread, 1.0)
    return float(np.where(spread > 0, 1 - missed / some, missed == 0).mean()), missed, some


def unsound(fit: Fit) -> Iterator[str]:
    """What is wrong with the network itself."""
    yield from (f"module_.{wrong}" for wrong in unsound_tensors(fit))
    if fit.has_data and math.prod(fit.input_shape_) != fit.data.shape[1]:
        yield f"input_shape_ is {fit.input_shape_}, the rows have {fit.data.shape[1]} numbers"


SOUND = attributes_sound({"loss_": " | >= 0"}, unsound)
TRUE = statements_true(statement_errors, needs=(outputs,))


@claim(
    "on these rows the loss is below that of the best constant answer",
    kind=PROVED,
    source="CIL 4.3",
    needs=(outputs,),
)
def beats_constant(fit: Fit) -> Evidence:
    """The best constant: the shares of the classes, whose log loss is their entropy; the mean, whose loss is the variance."""
    loss = weighted_mean(fit, row_losses(fit, outputs(fit)))
    y = np.asarray(fit.y)
    if fit.get("classes_") is None:
        targets = y.reshape(len(y), -1).astype(np.float64)
        mean = np.average(targets, axis=0, weights=fit.weights)
        least = weighted_mean(fit, np.square(targets - mean).mean(axis=1))
    else:
        shares = np.bincount(y, fit.weights, minlength=len(fit.classes_))
        shares = shares[shares > 0] / shares.sum()
        least = float(-(shares * np.log(shares)).sum())
    share: Any = loss / least if least > 0 else math.inf if loss > 0 else 0.0
    advice = "train longer, or change learning_rate; scale the inputs; look whether they tell anything about y"
    return at_most(share, 1.0, advice, unit="loss / constant's")


STATED_CLAIMS = (SOUND, TRUE, beats_constant)
