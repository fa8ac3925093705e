"""Rows that an encoder was not trained on, their features and views; and the same network with new weights.

Of our estimators, new rows are those that `fit` kept (`test_rows_`), or X_test. Of a module of somebody else's only the user
knows what it was trained on: X is taken as new, or X_test, if that is given.
"""

from __future__ import annotations

import copy
import inspect
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.held_out import beats, mean_gain
from lemmata.audit.nets import modules
from lemmata.audit.nets.modules import Copy, Examples, rows_of, spaced, unflatten
from lemmata.audit.trust.near_rows import cost_of_nearness
from lemmata.audit.trust.seen_rows import Memory, require_unseen

Array = np.ndarray

RISK = 0.05
MOST = 2000  # rows that are looked at
CALIBRATING = 512  # rows by which an untrained network gets the running means of its normalisations


@dataclass(frozen=True)
class FreshRows:
    """Rows that were not trained on, with their labels, and those that were."""

    new: Examples
    y: Array | None
    trained: Examples | None  # None: not known which
    trained_y: Array | None
    words: str


def _cost(fit: k.Fit) -> float:
    n = fit.data.shape[0]
    return 0.0 if fit.get("X_test") is None else cost_of_nearness(n, fit.data.size // max(n, 1))


@k.fact(cost=_cost)
def new_rows(fit: k.Fit) -> FreshRows:
    """Find rows that were not trained on. CannotTell where there are none, or where they were trained on."""
    n, test, kept = fit.data.shape[0], fit.get("X_test"), fit.get("test_rows_")
    y = None if fit.y is None else np.asarray(fit.y)
    if test is not None:
        new = test if isinstance(test, Examples) else _table(fit, test)
        trained = fit.data if isinstance(fit.data, Examples) else _table(fit, fit.data)
        require_unseen(Memory(trained.source, new.source, "the training rows", True))
        labels = fit.get("y_test")
        return FreshRows(new, None if labels is None else np.asarray(labels), trained, y, "X_test")
    if isinstance(fit.data, Examples):
        return FreshRows(fit.data, y, None, None, "X, taken as rows that it was not trained on")
    if kept is None or len(kept) == 0:
        raise k.CannotTell("no rows were kept from training: pass X_test=, or test_fraction=0.1")
    if fit.get("warm_start"):
        why = "an earlier fit, from which this one went on, may have seen them: pass X_test="
        raise k.CannotTell(why)
    if np.max(kept) >= n:
        raise k.CannotTell("the rows that were kept are not among these: pass the training data")
    rest = np.setdiff1d(np.arange(n), kept)
    new, trained = (unflatten(fit, rows_of(fit.data, places)) for places in (np.sort(kept), rest))
    labels, own = (None, None) if y is None else (y[np.sort(kept)], y[rest])
    return FreshRows(new, labels, trained, own, "rows kept from training")


def _table(fit: k.Fit, data: Any) -> Examples:
    return unflatten(fit, rows_of(data, np.arange(data.shape[0])))


def some_of(examples: Examples, most: int = MOST) -> tuple[Examples, Array]:
    """Up to so many evenly spaced rows, and their places."""
    places = spaced(examples.shape[0], most)
    return examples.rows(places), places


def normalise(h: Array, least: float = 1e-12) -> Array:
    """Rows divided by their lengths, those that are shorter than `least` by that."""
    return h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), least)


def encode(own: Copy, examples: Examples) -> Array:
    """(n, d): the first output of a module for each row, in float64."""
    own.reset()
    parts = [own.output(part).reshape(part.shape[0], -1).numpy() for part in examples.batches()]
    return np.concatenate(parts)


def cost_of_rows(times: float, most: int = MOST) -> Any:
    """The cost of running the new rows, so many at most, some times."""
    return lambda fit: times * min(count_new(fit), most) * modules.row_and_call_cost(fit)[0]


def count_new(fit: k.Fit) -> int:
    test, kept = fit.get("X_test"), fit.get("test_rows_")
    if test is not None:
        return int(test.shape[0])
    return int(fit.data.shape[0] if kept is None else len(kept))


@k.fact(cost=k.free)
def width_of(fit: k.Fit) -> int:
    """Return the number of features of a row."""
    rows = modules.examples_of(fit, 2)
    return int(modules.copy_of(fit).output(rows)[0].numel())


@k.fact(cost=cost_of_rows(1.0), needs=(new_rows,))
def features(fit: k.Fit) -> Array:
    """Return f₁ of up to MOST new rows."""
    found = encode(modules.copy_of(fit), some_of(new_rows(fit).new)[0])
    if not np.isfinite(found).all():
        raise k.CannotTell("the features are not all finite numbers")
    return found


# --- views ------------------------------------------------------------------------------------------------------------


def draw_views(fit: k.Fit, examples: Examples, seed: int = 0) -> tuple[Examples, Examples]:
    """Two views of each row, from this seed. CannotTell where nobody says what a view is."""
    import torch

    if fit.has("views_"):
        augments = fit.views_.first, fit.views_.second
    else:
        asked = fit.properties["views"].step
        if asked is None:
            why = 'what is a view? pass properties={"views": a function of (batch, generator)}'
            raise k.CannotTell(why)
        augments = tuple(asked) if isinstance(asked, (tuple, list)) else (asked, asked)
    rng = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        first, second = (_call(augment, examples.first, rng) for augment in augments)
    return examples.swap(examples.key, first), examples.swap(examples.key, second)


def _call(augment: Any, batch: Any, rng: Any) -> Any:
    """A view of a batch; functions of the batch alone draw from torch's own generator."""
    import torch

    try:
        parameters = inspect.signature(augment).parameters.values()
        wanted = sum(one.default is one.empty for one in parameters)
    except ValueError:  # built in
        wanted = 2
    with torch.no_grad():
        try:
            found = augment(batch.clone(), rng) if wanted > 1 else augment(batch.clone())
        except Exception as error:
            raise k.CannotTell(f"the views cannot be drawn: {error}") from error
    if found.shape != batch.shape or not bool(torch.isfinite(found).all()):
        why = f"a view of shape {tuple(found.shape)} of a batch of {tuple(batch.shape)}, or not finite"
        raise k.CannotTell(why)
    return found


# --- gains ------------------------------------------------------------------------------------------------------------


def judge(gains: Array, note: str, advice: str) -> k.Evidence:
    """The verdict on gains of independent rows, in [−1, 1]; both ends of the interval at half the risk."""
    found = mean_gain(gains, RISK / 2)
    undecided = f"between {found.lower:.3g} and {found.upper:.3g}, too few rows to tell"
    return beats(found, note, advice, unit="share", undecided=undecided)


# --- an untrained network ---------------------------------------------------------------------------------------------


def untrained_copy(module: Any, rows: Any, seed: int = 0) -> Any:
    """The same network with new weights: matrices and filters normal of variance 2/inputs (He), all else as PyTorch resets it.

    rows : tensor by which its normalisations find their running means, as those of the trained one did
    """
    import torch

    found = copy.deepcopy(module)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(seed)
        norms = [part for part in found.modules() if hasattr(part, "reset_running_stats")]
        for part in found.modules():
            if callable(reset := getattr(part, "reset_parameters", None)):
                reset()  # of a normalisation, its running means, too
        for weight in found.parameters():
            if weight.ndim >= 2:
                deviation = math.sqrt(2 / math.prod(weight.shape[1:]))
                drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
                weight.copy_(drawn * deviation)
        for part in norms:
            part.momentum = None  # a plain mean over what it sees
        if norms:
            found.train()(rows[:CALIBRATING].to(next(found.parameters())))
    return found.eval()


@k.fact(cost=lambda fit: CALIBRATING * modules.row_and_call_cost(fit)[0], needs=(new_rows,))
def baseline_encoder(fit: k.Fit) -> Copy | None:
    """Return the untrained network to compare with; None where a module came without one."""
    if isinstance(fit.data, Examples):
        given = fit.properties["views"].baseline if "views" in fit.properties else None
        return None if given is None else Copy(given)
    trained = new_rows(fit).trained
    assert trained is not None
    encoder = getattr(fit.module_, "encoder", fit.module_)
    return Copy(untrained_copy(encoder, some_of(trained, CALIBRATING)[0].first))
