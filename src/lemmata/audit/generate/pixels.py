"""Claims about models of levels, number by number (CIL 5.1.3): the order is kept, the probabilities are the network's and add
up to 1, and new rows are more probable than under independent numbers.

    P(x) = Π_t P(x_t | x_<t),      P(x_t | x_<t) = softmax of the outputs at t, if they depend on x_<t alone            (5.6)

A network that sees x_t while it predicts it has the best likelihood and is no model: Σ_x P(x) is not 1. So P is compared only
where no such leak was found; a function that gives ln P is, where all images can be enumerated. Probabilities are compared with
probabilities: histograms of the levels of every number, half a row added to each level.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import logsumexp

from lemmata.audit.generate.densities import (
    ADVICE,
    NOTHING_STATED,
    RISK,
    UNKNOWN_COST,
    judge_gains,
    judge_loss,
    log_density,
    n_new,
    new_rows,
    require_repeatable,
)
from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, statements_true
from lemmata.audit.nets.autoencoders import in_float64
from lemmata.audit.nets.modules import copy_of, examples_of, unflatten
from lemmata.audit.nets.orders import (
    CUTS,
    ROWS,
    OrderLeak,
    judge_leak,
    look_in_order,
    no_blind_spot,
    stated_scan,
)
from lemmata.audit.nets.stated import unsound_network

Array = np.ndarray

IMAGES = 2**16  # that are enumerated
NUMBERS = 2**23  # logits at a time
OFF = 1e-9  # of the mass, in float64


# --- facts ------------------------------------------------------------------------------------------------------------


def cost_of_passes(fit: k.Fit, rows: float) -> float:
    """Rows through the network: a multiplication for every number of a row and weight of a layer, in products."""
    if not fit.has("module_"):
        return rows * UNKNOWN_COST
    parts = fit.module_.blocks, fit.module_.head
    size = sum(weight.numel() for part in parts for weight in part.parameters())
    return rows * fit.data.shape[1] * size / k.PRODUCTS


def levels_of(fit: k.Fit) -> Array:
    """(K,): the levels in the units of the rows; bytes are read as numbers from 0 to 1."""
    levels = np.asarray(fit.levels_)
    return levels / 255.0 if levels.dtype == np.uint8 else levels.astype(np.float64)


def places_of(fit: k.Fit, rows: Array) -> Array:
    """The number of the nearest level of every entry."""
    v = levels_of(fit)
    return np.searchsorted((v[:-1] + v[1:]) / 2, rows)


def log_probabilities(fit: k.Fit, rows: Array, classes: Array | None = None) -> Array:
    """(n,): ln P of rows, from the logits that the network gives at every number. With classes those of rows given theirs, or
    else summed over them."""
    if not fit.has("module_"):
        return log_density(fit, rows)
    import torch

    net, found = in_float64(fit), []
    shares = net.shares.numpy() if fit.get("classes_") is not None else np.ones(1)
    step = max(1, NUMBERS // (rows.shape[1] * len(fit.levels_)))
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        x, places = unflatten(fit, np.asarray(some, np.float64)).first, places_of(fit, some)
        given: list[Any] = [()]
        if classes is not None:
            given = [(torch.from_numpy(classes[start : start + step]),)]
        elif fit.get("classes_") is not None:
            given = [(torch.full((len(x),), c),) for c in range(len(shares))]
        with torch.no_grad():
            logs = [torch.log_softmax(net(x, *one), 1).flatten(2).numpy() for one in given]
        each = [np.take_along_axis(one, places[:, None], 1).sum(axis=(1, 2)) for one in logs]
        found.append(logsumexp(each, axis=0, b=shares[:, None]) if len(each) > 1 else each[0])
    return np.concatenate(found)


@k.fact(cost=lambda fit: cost_of_passes(fit, 4.0 * CUTS))
def order_leak(fit: k.Fit) -> OrderLeak:
    """Look for outputs that know the number they are of, or a later one."""
    rows = examples_of(fit, ROWS)
    return look_in_order(copy_of(fit), rows, rows.key, stated_scan(fit.module_))


def n_images(fit: k.Fit) -> float:
    """Return K to the power of the numbers of a row, infinite beyond IMAGES."""
    count = float(len(fit.levels_)) ** min(fit.data.shape[1], 64)
    return count if count <= IMAGES else np.inf


@k.fact(cost=lambda fit: cost_of_passes(fit, n_images(fit) if n_images(fit) <= IMAGES else 0.0))
def enumerated_mass(fit: k.Fit) -> float:
    """Σ P(x) over all images, by ln P as the model states it. CannotTell where there are more than IMAGES."""
    K, d = len(fit.levels_), fit.data.shape[1]
    if n_images(fit) > IMAGES:
        raise k.CannotTell(f"{K} levels of {d} numbers: more than {IMAGES:,} images to enumerate")
    images = levels_of(fit)[np.array(list(itertools.product(range(K), repeat=d)))]
    require_repeatable(fit, images)
    return float(np.exp(log_density(fit, images)).sum())


# --- claims -----------------------------------------------------------------------------------------------------------


def independent_levels(fit: k.Fit, train: Array, weights: Array | None, rows: Array) -> Array:
    """ln P of rows under a histogram of the levels of every number, of the training rows and half a row for each level."""
    K, w = len(fit.levels_), np.ones(len(train)) if weights is None else weights
    known, new, total = places_of(fit, train), places_of(fit, rows), np.zeros(len(rows))
    for j in range(train.shape[1]):
        counts = np.bincount(known[:, j], w, minlength=K) + 0.5
        total += np.log(counts / counts.sum())[new[:, j]]
    return total


@k.statistical(
    "most new rows are more probable than under independent numbers, by histograms of their levels",
    "CIL 5.1.3",
    confidence=1 - RISK,
    needs=(new_rows,),
    cost=lambda fit: cost_of_passes(fit, n_new(fit) + 4.0 * CUTS),
)
def beats_independent(fit: k.Fit) -> k.Evidence:
    """Signs of ln P − ln Q; of networks in which no leak was found, or of ln P whose sum over all images is 1."""
    found = new_rows(fit)
    if fit.has("module_"):
        if judge_leak(order_leak(fit)).verdict == k.FAILS:
            raise k.CannotTell("its outputs know what they predict, so that P is no probability: see causal")  # fmt: skip
    elif abs(enumerated_mass(fit) - 1) > OFF:
        raise k.CannotTell(f"Σ P(x) is {enumerated_mass(fit):.4g}: it is no probability to compare")
    baseline = independent_levels(fit, found.train, found.weights, found.new)
    return judge_gains(log_probabilities(fit, found.new), baseline, ADVICE.split(";")[0])


@k.rule_of_thumb(
    f"no output knows its own or a later number: at up to {CUTS} places of some rows what follows can change, and every "
    "output up to there stays, to 1e-10",
    "CIL (5.6), of earlier numbers outside the window, not of the rest",
    needs=(order_leak,),
)
def causal(fit: k.Fit) -> k.Evidence:
    return judge_leak(order_leak(fit))


@k.proved(
    f"the probabilities of all images, of up to {IMAGES:,}, add up to 1",
    "CIL 5.1.3",
    needs=(enumerated_mass,),
)
def mass_one(fit: k.Fit) -> k.Evidence:
    mass = enumerated_mass(fit)
    advice = "an output knows what it predicts (see causal), or log_prob is not normalised"
    note = f"{n_images(fit):,.0f} images, sum {mass:.6g}"
    return k.at_most(abs(mass - 1), OFF, advice, unit="|Σ P − 1|", note=note)


# --- what a fit states ------------------------------------------------------------------------------------------------


def _unsound(fit: k.Fit) -> Iterator[str]:
    yield from unsound_network(fit)
    levels = levels_of(fit)
    if (np.diff(levels) <= 0).any():
        yield "levels_ do not ascend"
    stated = fit.module_.levels.double().numpy()
    if stated.shape != levels.shape or not np.allclose(stated, levels, rtol=1e-6):
        yield "the levels of module_ are not levels_"


LEVEL_CLAIMS: tuple[Any, ...] = (
    attributes_sound(
        {"loss_": ">=0", "levels_": "k numbers", "test_rows_?": "t int >=0"}, _unsound
    ),
    statements_true(
        lambda fit: judge_loss(fit, log_probabilities),
        cost=lambda fit: cost_of_passes(fit, min(fit.data.shape[0], 2000)),
        unchecked="test_rows_",
    ),
    beats_independent,
    causal,
)
LEVEL_MORE_CLAIMS: tuple[Any, ...] = (no_blind_spot, mass_one)
# of functions that give ln P
FOREIGN_LEVEL_CLAIMS: tuple[Any, ...] = (
    *NOTHING_STATED,
    beats_independent,
    mass_one,
)
