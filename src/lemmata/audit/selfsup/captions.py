"""Claims about images and captions: an image finds its own caption; classes that were only named are told apart.

**Captions.** New pairs are cut in three: captions that all compete with (up to 255), pairs that are tested, and strangers. An
image finds a caption if it is nearer than every other one among the competitors. Were images independent of captions, a
stranger's would be found as often as the own: the difference has mean 0, whatever captions are frequent.

**Classes.** For every class k the share that is right is compared with that of always answering k, row by row. Each has to be
beaten, each at the whole risk: where one is as good, all bounds say otherwise no more often than its own does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import logsumexp

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.held_out import MeanGain, beats, mean_gain
from lemmata.audit.nets import modules
from lemmata.audit.nets.modules import Copy, Examples, rows_of, unflatten
from lemmata.audit.nets.stated import float_type, stated_rows, unsound_network
from lemmata.audit.selfsup import features as f
from lemmata.audit.selfsup.collapse import not_collapsed

Array = np.ndarray

COMPETITORS, LEAST = 255, 24


def project(own: Copy, examples: Examples) -> Array:
    """The directions of rows, in float64."""
    import torch

    own.reset()
    net = own.module.eval()
    with torch.no_grad():
        found = [net.project(part.first.double()).numpy() for part in examples.batches()]
    return f.normalise(np.concatenate(found))


def read(own: Copy, tokens: Array) -> Array:
    """The directions of captions, in float64."""
    import torch

    own.reset()
    with torch.no_grad():
        found = own.module.eval().read(torch.from_numpy(np.ascontiguousarray(tokens)))
    return f.normalise(found.numpy())


def find_captions(u: Array, v: Array, tokens: Array, among: Array, places: Array) -> Array:
    """Whether image i is nearer to the caption of places[i] than to every other one of `among`."""
    scores = u @ v[among].T
    other = (tokens[places][:, None] != tokens[among][None]).any(axis=2)
    best = np.where(other, scores, -np.inf).max(axis=1)
    return (u * v[places]).sum(axis=1) > best + k.rounding(np.float64, u.shape[1])


@k.statistical(
    "among up to 256 captions of new pairs, an image finds its own more often than that of another image",
    "ML CLIP; Waudby-Smith & Ramdas 2024",
    confidence=1 - f.RISK,
    needs=(f.new_rows,),
    cost=f.cost_of_rows(2.0),
)
def captions_found(fit: k.Fit) -> k.Evidence:
    found = f.new_rows(fit)
    rows, places = f.some_of(found.new)
    n = rows.shape[0]
    if found.y is None:
        raise k.CannotTell("pass the captions of the new images: y_test=")
    if n < LEAST:
        raise k.CannotTell(f"{n} pairs: {LEAST} are needed")
    tokens, order = found.y[places], np.random.default_rng(0).permutation(n)
    cut = min(COMPETITORS, n // 3)
    among, (mine, strangers) = order[:cut], np.array_split(order[cut:], 2)
    mine = mine[: len(strangers)]
    u, v = project(modules.copy_of(fit), rows.rows(mine)), read(modules.copy_of(fit), tokens)
    own, other = (find_captions(u, v, tokens, among, one) for one in (mine, strangers))
    note = f"{100 * own.mean():.3g} % of {len(own):,} find their own among {cut + 1}, {100 * other.mean():.3g} % a stranger's"
    advice = "captions say nothing about these images, or training was too short: look at pairs, train longer"
    return f.judge(own.astype(float) - other, note, advice)


@k.statistical(
    "classes that were only named: right more often, on new images, than any constant answer",
    "ML CLIP; Waudby-Smith & Ramdas 2024",
    confidence=1 - f.RISK,
    cost=lambda fit: fit.data.shape[0] * modules.row_and_call_cost(fit)[0],
)
def zero_shot_beats_chance(fit: k.Fit) -> k.Evidence:
    n, v = fit.data.shape[0], read(modules.copy_of(fit), np.asarray(fit.tokens))
    rows = unflatten(fit, rows_of(fit.data, np.arange(n)))
    hits = (project(modules.copy_of(fit), rows) @ v.T).argmax(axis=1) == fit.y
    gains = [hits.astype(float) - (fit.y == one) for one in range(len(v))]
    lower = min(mean_gain(one, f.RISK).lower for one in gains)
    upper = min(mean_gain(one, f.RISK / len(v)).upper for one in gains)
    often = np.bincount(fit.y, minlength=len(v)).max() / n
    note = f"{100 * hits.mean():.3g} % right of {n:,}, the best constant answer {100 * often:.3g} %"
    advice = "the names say too little: other words or another template, or train on more captions"
    undecided = f"between {lower:.3g} and {upper:.3g}, too few images to tell"
    return beats(MeanGain(lower, upper), note, advice, unit="share", undecided=undecided)


def _statement_errors(fit: k.Fit) -> Mapping[str, float]:
    size, places = int(fit.stated_batch_), stated_rows(fit)[0]
    own, losses = modules.copy_of(fit), []
    scale = min(float(own.module.log_scale.detach()), np.log(100.0))
    for at in range(len(places) // size):
        here = places[at * size : (at + 1) * size]
        tokens = np.asarray(fit.y)[here]
        u, v = project(own, unflatten(fit, rows_of(fit.data, here))), read(own, tokens)
        same, s = (tokens[:, None] == tokens[None]).all(axis=2), np.exp(scale) * u @ v.T
        for one, equal in ((s, same), (s.T, same.T)):
            logs = one - logsumexp(one, axis=1, keepdims=True)
            losses.append(-float(((logs * equal).sum(axis=1) / equal.sum(axis=1)).mean()))
    loss, precise = float(np.mean(losses)), k.rounding(float_type(fit), 4096)
    return {
        "loss_": discrepancy(fit.loss_, loss, np.exp(scale), precise),
        "temperature_": discrepancy(fit.temperature_, np.exp(-scale), fit.temperature_, precise),
    }


SHAPES = {
    "loss_": ">=0",
    "temperature_": ">0",
    "n_outputs_": ">0 int",
    "stated_batch_": ">0 int",
    "test_rows_?": "t int >=0",
}
clip_sound = attributes_sound(SHAPES, unsound_network)
clip_true = statements_true(_statement_errors, cost=f.cost_of_rows(10.0), unchecked="test_rows_")

CLIP_CLAIMS: tuple[Any, ...] = (clip_sound, clip_true, captions_found, not_collapsed)
ZERO_SHOT_CLAIMS: tuple[Any, ...] = (zero_shot_beats_chance,)
