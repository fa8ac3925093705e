"""Statements of our estimators about their rows, in float64: losses at known draws, alignment, uniformity, spectrum.

Rows are those of `loss_` (stated_rows), in whole batches of `stated_batch_`; batch k has the views of seed k. The losses are
written again here, in NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import logsumexp

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.nets import modules
from lemmata.audit.nets.modules import rows_of, unflatten
from lemmata.audit.nets.stated import float_type, stated_rows, unsound_network
from lemmata.audit.selfsup import features as f

Array = np.ndarray
EPS = 1e-4


def contrast(z: Array, z_plus: Array, temperature: float, positive_counts: bool) -> float:
    """SimCLR's loss: all others of 2B views in the denominator, with the positive or without."""
    e = f.normalise(np.concatenate([z, z_plus]), 0.0)
    s, n = e @ e.T / temperature, len(z)
    at, partner = np.arange(2 * n), np.roll(np.arange(2 * n), n)
    positive = s[at, partner]
    s[at, at] = -np.inf
    if not positive_counts:
        s[at, partner] = -np.inf
    return float((logsumexp(s, axis=1) - positive).mean())


def bootstrap(p: Array, target: Array) -> float:
    """BYOL's loss: 2 − 2 cos of predictions and targets."""
    cosines = (p * target).sum(axis=1) / np.linalg.norm(p, axis=1) / np.linalg.norm(target, axis=1)
    return float((2 - 2 * cosines).mean())


def regularise(z: Array, z_plus: Array, weights: tuple[float, float, float]) -> float:
    """VICReg's loss of a batch."""
    found = [weights[0] * float(np.square(z - z_plus).mean())]
    for one in (z, z_plus):
        C = np.cov(one, rowvar=False).reshape(one.shape[1], -1)
        hinge = np.maximum(1 - np.sqrt(np.diag(C) + EPS), 0).mean()
        off = (np.square(C).sum() - np.square(np.diag(C)).sum()) / len(C)
        found += [weights[1] * hinge / 2, weights[2] * off]
    return float(sum(found))


def _loss(fit: k.Fit, net: Any, a: Any, b: Any) -> float:
    """The loss of two views of a batch, float64 tensors."""
    z, z_plus = (net.project(view).numpy() for view in (a, b))
    if fit.has("denominator"):
        return contrast(z, z_plus, float(fit.temperature), fit.denominator == "all")
    if fit.has("invariance"):
        return regularise(z, z_plus, (float(fit.invariance), float(fit.variance), float(fit.covariance)))  # fmt: skip
    p, p_plus = (net.predictor(net.project(view)).numpy() for view in (a, b))
    t, t_plus = (net.target(view).numpy() for view in (a, b))
    return (bootstrap(p, t_plus) + bootstrap(p_plus, t)) / 2


def _statement_errors(fit: k.Fit) -> Mapping[str, float]:
    import torch

    size, places = int(fit.stated_batch_), stated_rows(fit)[0]
    own = modules.copy_of(fit)
    net, losses, pairs = own.module.eval(), [], []
    for at in range(len(places) // size):
        batch = unflatten(fit, rows_of(fit.data, places[at * size : (at + 1) * size]))
        like = batch.map(lambda x: x.to(next(fit.module_.parameters()).dtype))
        views = [one.first.double() for one in f.draw_views(fit, like, seed=at)]
        with torch.no_grad():
            losses.append(_loss(fit, net, *views))
            pairs.append([net(view).numpy() for view in views])
    z, z_plus = (f.normalise(np.concatenate(part)) for part in zip(*pairs, strict=True))
    alignment = float(np.square(z - z_plus).sum(axis=1).mean())
    off = ~np.eye(len(z), dtype=bool)
    uniformity = float(logsumexp(4 * (z @ z.T)[off] - 4) - np.log(off.sum()))
    spectrum = np.linalg.svd(z - z.mean(axis=0), compute_uv=False) / np.sqrt(len(z))
    precise = k.rounding(float_type(fit), 4096)
    found = {
        "loss_": discrepancy(fit.loss_, np.mean(losses), 1 + abs(float(np.mean(losses))), precise),
        "alignment_": discrepancy(fit.alignment_, alignment, 1.0, precise),
        "uniformity_": discrepancy(fit.uniformity_, uniformity, 4.0, precise),
        "n_outputs_": 0.0 if int(fit.n_outputs_) == z.shape[1] else np.inf,
    }
    if np.shape(fit.spectrum_) != spectrum.shape:
        return {**found, "spectrum_": np.inf}
    return {**found, "spectrum_": float(np.abs(fit.spectrum_ - spectrum).max() / precise)}


SHAPES = {
    "loss_": "",
    "n_outputs_": ">0 int",
    "stated_batch_": ">0 int",
    "alignment_": ">=0",
    "uniformity_": "",
    "spectrum_": "s >=0",
    "test_rows_?": "t int >=0",
}
selfsup_sound = attributes_sound(SHAPES, unsound_network)
selfsup_true = statements_true(_statement_errors, cost=f.cost_of_rows(10.0), unchecked="test_rows_")
