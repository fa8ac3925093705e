"""Claims about what a network states: finite tensors, a true loss, and one that beats a constant answer.

    log loss      −(1/Σw) Σ_i wᵢ log p(yᵢ | xᵢ),       p the softmax of the outputs (one output: the sigmoid)
    squared loss   (1/Σw) Σ_i wᵢ mean (f(xᵢ) − yᵢ)²

`module_` is run here, on the rows themselves: nothing of the estimator's own prediction is trusted. A plain module of PyTorch
states nothing about data: it is checked for its tensors, parameters and buffers (running means of batch norms).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from scipy.special import logsumexp

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.nets.modules import rows_at_once

Array = np.ndarray

STATED = 2000  # rows at most that loss_ is of
NARROW = 0.02  # rounding of a bfloat16 product, of eight bits, with margin


def cost_of_rows(fit: k.Fit, rows: int | None = None) -> float:
    """A pass of rows, by default all, through the network: a multiplication for every weight, in products."""
    n = fit.data.shape[0] if rows is None else rows
    return float(n) * sum(parameter.numel() for parameter in fit.module_.parameters()) / k.PRODUCTS


@k.fact(cost=cost_of_rows)
def outputs(fit: k.Fit) -> Array:
    """Return (n, outputs) of the network for all rows, as float64."""
    return np.concatenate([_run(fit, rows) for rows, _ in fit.data])


def _run(fit: k.Fit, rows: Array) -> Array:
    import torch

    module = fit.module_
    module.eval()
    like = next(module.parameters())
    x = torch.from_numpy(np.ascontiguousarray(rows)).reshape(-1, *fit.input_shape_)
    with torch.no_grad():
        first = x[:1].to(like.device, like.dtype)
        parts = x.split(rows_at_once(module, first))
        found = [module(part.to(like.device, like.dtype)).double().cpu() for part in parts]
    return torch.cat(found).numpy().reshape(len(rows), -1)


def row_losses(fit: k.Fit, outputs: Array) -> Array:
    """(n,): the log loss of classes, the squared loss of numbers."""
    y = np.asarray(fit.y)
    if fit.get("classes_") is None:
        return np.square(outputs - y.reshape(len(y), -1)).mean(axis=1)
    if outputs.shape[1] == 1:
        signed = np.where(y == 1, -outputs[:, 0], outputs[:, 0])
        return np.logaddexp(0.0, signed)
    return logsumexp(outputs, axis=1) - outputs[np.arange(len(y)), y]


def weighted_mean(fit: k.Fit, values: Array) -> float:
    return float(np.average(values, weights=fit.weights))


def stated_rows(fit: k.Fit) -> tuple[Array, Array | None]:
    """Return the rows that loss_ is of, and their weights: all, or STATED of positive weight, drawn by the number of rows."""
    n, weights = fit.data.shape[0], None if fit.weights is None else np.asarray(fit.weights)
    if n <= STATED:
        return np.arange(n), weights
    able = np.arange(n) if weights is None else np.flatnonzero(weights)
    some = np.sort(np.random.default_rng(n).permutation(able)[:STATED])
    return some, None if weights is None else weights[some]


def statement_errors(fit: k.Fit) -> Mapping[str, float]:
    found = outputs(fit)
    losses, sizes = row_losses(fit, found), _sizes(fit, found)
    some, weights = stated_rows(fit)
    loss, size = (float(np.average(one[some], weights=weights)) for one in (losses, sizes))
    error = discrepancy(fit.loss_, loss, loss + size, k.rounding(float_type(fit), 64))
    return {"loss_": error, **_held_out_errors(fit, found, losses, sizes)}


def _sizes(fit: k.Fit, found: Array) -> Array:
    """The size of each row's outputs, in units of the loss: a loss is as exact as the outputs that it is computed from."""
    classes = fit.get("classes_") is not None
    return np.abs(found).max(axis=1) if classes else np.square(found).mean(axis=1)


def float_type(fit: k.Fit) -> type[np.floating]:
    """float64, or float32 for that and everything narrower: what the network computes in."""
    wide = str(next(fit.module_.parameters()).dtype).endswith("64")
    return np.float64 if wide else np.float32


def _held_out_errors(fit: k.Fit, found: Array, losses: Array, sizes: Array) -> dict[str, float]:
    """Errors of what early stopping states: the score of the rows held out; and, in the history, their loss and score at
    the epoch with the smallest loss, whose weights these are. The weights of other epochs are gone."""
    if fit.get("validation_rows_") is None:
        return {}
    held = np.asarray(fit.validation_rows_)
    if len(held) == 0 or held.min() < 0 or held.max() >= len(found):
        return {"validation_rows_": math.inf}
    weights = None if fit.weights is None else np.asarray(fit.weights)[held]
    y, precise, errors = np.asarray(fit.y)[held], k.rounding(float_type(fit), 64), {}
    score, noise = _score(fit, found[held], y, weights, precise)
    if fit.get("best_validation_score_") is not None:
        stated = fit.best_validation_score_
        errors["best_validation_score_"] = discrepancy(stated, score, noise, 1.0)
    if not _same_objective(fit) or fit.trace is None or "validation_loss" not in fit.trace:
        return errors
    stated_losses = fit.trace.extras["validation_loss"]
    if not np.isfinite(stated_losses).any():
        return errors
    best = int(np.nanargmin(stated_losses))
    precise = NARROW if fit.get("precision_") == "bfloat16" else precise
    loss = float(np.average(losses[held], weights=weights))
    scale = loss + float(np.average(sizes[held], weights=weights))
    errors["history_ (loss)"] = discrepancy(stated_losses[best], loss, scale, precise)
    if fit.get("classes_") is not None and "validation_score" in fit.trace:
        _, noise = _score(fit, found[held], y, weights, precise)
        stated = fit.trace.extras["validation_score"][best]
        errors["history_ (score)"] = discrepancy(stated, score, noise, 1.0)
    return errors


def _same_objective(fit: k.Fit) -> bool:
    """Whether the history is of the loss that is recomputed here: no other function, no smoothed labels, no class weights."""
    usual = (None, "cross_entropy", "bce") if fit.get("classes_") is not None else (None, "mse")
    plain = not fit.get("label_smoothing") and not fit.get("class_weight")
    return plain and not callable(fit.get("loss")) and fit.get("loss") in usual


def _score(
    fit: k.Fit, found: Array, y: Array, weights: Array | None, precise: float
) -> tuple[float, float]:
    """Accuracy, or R², of some rows; and its possible rounding error: rows on the border between two answers may flip."""
    s = np.ones(len(y)) if weights is None else weights
    if fit.get("classes_") is None:
        targets = y.reshape(len(y), -1).astype(np.float64)
        score, missed, spread = r_squared(targets, found, s)
        return score, precise * float(1 + ((missed + s @ found**2) / spread).mean())
    both = np.column_stack([np.zeros(len(y)), found]) if found.shape[1] == 1 else found
    first = np.sort(both, axis=1)[:, -2:]
    border = first[:, 1] - first[:, 0] <= precise * np.abs(both).max(axis=1)
    right = (both[:, 1] > 0) == (y > 0) if found.shape[1] == 1 else both.argmax(axis=1) == y
    return float(s @ right / s.sum()), k.rounding(np.float64, len(y)) + float(s @ border / s.sum())


def r_squared(y: Array, found: Array, s: Array) -> tuple[float, Array, Array]:
    """Return R², the mean over outputs; and of each the squared errors, and the squared deviations (1 where there are none).

    scikit-learn's R² of an output that does not vary: 1 if it is predicted exactly, else 0.
    """
    spread, missed = s @ (y - s @ y / s.sum()) ** 2, s @ (y - found) ** 2
    some = np.where(spread > 0, spread, 1.0)
    return float(np.where(spread > 0, 1 - missed / some, missed == 0).mean()), missed, some


def unsound_tensors(fit: k.Fit) -> Iterator[str]:
    """Parameters and buffers with numbers that are not finite, by name."""
    import torch

    for name, tensor in (*fit.module_.named_parameters(), *fit.module_.named_buffers()):
        if tensor.is_floating_point() or tensor.is_complex():
            wrong = int((~torch.isfinite(tensor)).sum())
            if wrong and not is_mask(tensor):
                yield f"{name} has {wrong:,} numbers that are not finite"


def is_mask(tensor) -> bool:
    """Whether it is a buffer of zeros and −∞."""
    if tensor.requires_grad or tensor.is_complex():
        return False
    return bool(((tensor == 0) | (tensor == -math.inf)).all())


def unsound_network(fit: k.Fit) -> Iterator[str]:
    """Tensors that are not finite, and an input shape that is not that of the rows."""
    yield from (f"module_.{wrong}" for wrong in unsound_tensors(fit))
    if fit.has_data and math.prod(fit.input_shape_) != fit.data.shape[1]:
        yield f"input_shape_ is {fit.input_shape_}, the rows have {fit.data.shape[1]} numbers"


@k.proved(
    "on these rows the loss is below that of the best constant answer", "CIL 4.3", needs=(outputs,)
)
def beats_constant(fit: k.Fit) -> k.Evidence:
    """The best constant: the shares of the classes, whose log loss is their entropy; the mean, whose loss is the variance."""
    loss, y = weighted_mean(fit, row_losses(fit, outputs(fit))), np.asarray(fit.y)
    if fit.get("classes_") is None:
        targets = y.reshape(len(y), -1).astype(np.float64)
        mean = np.average(targets, axis=0, weights=fit.weights)
        least = weighted_mean(fit, np.square(targets - mean).mean(axis=1))
    else:
        shares = np.bincount(y, fit.weights, minlength=len(fit.classes_))
        shares = shares[shares > 0] / shares.sum()
        least = float(-(shares * np.log(shares)).sum())
    share = loss / least if least > 0 else math.inf if loss > 0 else 0.0
    advice = "train longer, or change learning_rate; scale the inputs; look whether they tell anything about y"
    return k.at_most(share, 1.0, advice, unit="loss / constant's")


STATED_CLAIMS = (
    attributes_sound({"loss_": ">=0"}, unsound_network),
    statements_true(statement_errors, needs=(outputs,), unchecked="n_outputs_"),
    beats_constant,
)
MODULE_STATED_CLAIMS = (
    attributes_sound({}, unsound_tensors),
    statements_true(lambda fit: {}, cost=k.free),
)
