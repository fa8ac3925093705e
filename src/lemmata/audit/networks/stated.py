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

from lemmata.audit.attributes import attributes_sound, discrepancy, statements_true
from lemmata.core.certificate import PROVED, Evidence, Fit, at_most, claim, rounding

Array = np.ndarray

AT_ONCE = 1024  # rows


def outputs(fit: Fit) -> Array:
    """(n, outputs) of the network for all rows, as float64; in `fit.memory` once they are there."""
    if "outputs" not in fit.memory:
        fit.memory["outputs"] = np.concatenate([_run(fit, rows) for rows, _ in fit.data])
    return fit.memory["outputs"]


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
    classes = fit.get("classes_") is not None
    # a loss is as exact as the outputs that it is taken of
    size = np.abs(found).max(axis=1) if classes else np.square(found).mean(axis=1)
    scale = weighted_mean(fit, losses) + weighted_mean(fit, size)
    dtype = np.float64 if str(next(fit.module_.parameters()).dtype).endswith("64") else np.float32
    error = discrepancy(fit.loss_, weighted_mean(fit, losses), scale, rounding(dtype, 64))
    return {"loss_": error}


def unsound(fit: Fit) -> Iterator[str]:
    """What is wrong with the network itself."""
    import torch

    for name, tensor in fit.module_.state_dict().items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            yield f"module_.{name} has {int((~torch.isfinite(tensor)).sum())} numbers that are not finite"
    if fit.has_data and math.prod(fit.input_shape_) != fit.data.shape[1]:
        yield f"input_shape_ is {fit.input_shape_}, the rows have {fit.data.shape[1]} numbers"


def cost_of_outputs(fit: Fit) -> float:
    """A pass of the rows through the network: a multiplication for every weight, more where weights are shared."""
    weights = sum(parameter.numel() for parameter in fit.module_.parameters())
    return 0.0 if "outputs" in fit.memory else float(fit.data.shape[0]) * weights


SOUND = attributes_sound({"loss_": " | >= 0"}, unsound)
TRUE = statements_true(statement_errors, cost=cost_of_outputs)


@claim(
    "on these rows the loss is below that of the best constant answer",
    kind=PROVED,
    source="CIL 4.3",
    cost=cost_of_outputs,
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


CLASSIFIER_STATED = (SOUND, TRUE, beats_constant)
REGRESSOR_STATED = (SOUND, TRUE, beats_constant)
