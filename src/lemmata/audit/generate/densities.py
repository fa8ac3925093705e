"""Claims about densities, whoever made them: more probable new rows than under independent columns, and a mass of 1.

A density is a function that gives ln p of rows; a flow shows its bijection besides (flows.py). An unnormalised p beats
everything, so p is compared only where its mass follows: from the determinants of a flow and a base density that is known,
from a grid of one or two columns, or because the class is one of torch.distributions. Levels (whole numbers, bytes) have
probabilities and no densities: a density can grow without bound there, and is not compared.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.concentration import clopper_pearson
from lemmata.audit.kernel.held_out import MeanGain, beats
from lemmata.audit.nets.modules import rows_of
from lemmata.audit.nets.stated import float_type, stated_rows
from lemmata.audit.trust.near_rows import cost_of_nearness
from lemmata.audit.trust.seen_rows import COPIES, SEEN, Memory, require_unseen, row_keys, why_copies

Array = np.ndarray

RISK = 0.05
AT_ONCE = 4096  # rows
CELLS = 128  # of a coarse grid, in each column
OFF = 0.02  # from 1, the mass of a density
SETTLED = 0.01  # grids that agree
UNKNOWN_COST = 1000.0  # multiplications
TWICE = 64  # rows that are asked for twice
REPEATED = 0.5  # share of numbers in a column that occur more than once: levels


# --- rows -------------------------------------------------------------------------------------------------------------


class NewRows(NamedTuple):
    """Rows that the density was not fitted to, and rows that it was."""

    new: Array  # (m, d), float64
    train: Array  # (n, d), float64
    weights: Array | None  # of the training rows


def _cost_of_rows(fit: k.Fit) -> float:
    test = fit.get("X_test")
    near = 0.0 if test is None else cost_of_nearness(fit.data.shape[0], fit.data.shape[1])
    return 4.0 * fit.data.size + near


@k.fact(cost=_cost_of_rows)
def new_rows(fit: k.Fit) -> NewRows:
    """Return rows kept from training and stopping. CannotTell where there are none, or where they were trained on."""
    test, kept = fit.get("X_test"), np.arange(fit.data.shape[0])
    if test is not None:
        new = rows_of(test, np.arange(test.shape[0]))
    else:
        kept, held = split_of(fit)
        new = rows_of(fit.data, held)
    train = rows_of(fit.data, kept)
    if test is not None:
        require_unseen(Memory(train, new, "the training rows", True))
    else:
        require_no_more_than_chance(*row_keys(train, new))
    if why := why_copies(new, len(new)):
        raise k.CannotTell(why)
    weights = None if fit.weights is None else np.asarray(fit.weights, np.float64)[kept]
    return NewRows(new.astype(np.float64), train.astype(np.float64), weights)


def n_new(fit: k.Fit) -> int:
    """Return how many rows `new_rows` has, for a price."""
    test, held = fit.get("X_test"), fit.get("test_rows_")
    return int(test.shape[0]) if test is not None else 0 if held is None else len(held)


def split_of(fit: k.Fit) -> tuple[Array, Array]:
    """Return the numbers of the rows trained on, and of those kept from training and stopping. CannotTell without such."""
    n = fit.data.shape[0]
    if fit.get("test_rows_") is None:
        raise k.CannotTell("no rows were kept from training: pass certify(X, X_test=…)")
    held = np.asarray(fit.test_rows_)
    if fit.get("warm_start"):
        why = "an earlier fit, at whose weights this one began, may have seen them"
        raise k.CannotTell(f"{why}: pass X_test=")
    if len(held) == 0 or held.max() >= n:
        raise k.CannotTell("the rows kept for testing are not among these: pass the training data")
    if fit.weights is not None:
        raise k.CannotTell("rows with weights are no draws of one law: pass X_test=")
    stopping = fit.get("validation_rows_")
    others = held if stopping is None else np.concatenate([held, stopping])
    return np.setdiff1d(np.arange(n), others), held


def require_no_more_than_chance(known: Array, keys: Array) -> None:
    """Raise CannotTell where more new rows equal a training row than training rows have twins, as rows of few levels do."""
    seen, n = int(np.isin(keys, known).sum()), len(keys)
    twins = int((counts := np.unique(known, return_counts=True)[1])[counts > 1].sum())
    usual = max(float(clopper_pearson(twins, len(known), RISK)[1]), COPIES)
    if binom.sf(seen - 1, n, usual) < RISK:
        raise k.CannotTell(SEEN)


# --- densities --------------------------------------------------------------------------------------------------------


@k.fact(cost=k.free)
def density(fit: k.Fit) -> Callable[[Array], Any]:
    """Return the function that gives ln p of rows: the one stated, or that of a float64 copy of the network."""
    if fit.has("log_density"):
        return fit.log_density
    import torch

    net = copy.deepcopy(fit.module_).double().cpu().eval()

    def of_rows(rows: Array, places: Array | None = None) -> Array:
        given = () if places is None else (torch.from_numpy(places),)
        with torch.no_grad():
            x = torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float64))
            return net.log_prob(x.reshape(-1, *fit.input_shape_), *given).numpy()

    return of_rows


def log_density(fit: k.Fit, rows: Array, places: Array | None = None) -> Array:
    """ln p of rows (m, d), as float64; of rows given their classes. CannotTell where it is not one number a row, NaN or +∞."""
    function, found = density(fit), []
    for start in range(0, len(rows), AT_ONCE):
        some = rows[start : start + AT_ONCE]
        given = () if places is None else (places[start : start + AT_ONCE],)
        one = np.asarray(function(some, *given), dtype=np.float64)
        if one.shape != (len(some),):
            shape = f"log_prob gives shape {one.shape} for {len(some)} rows"
            raise k.CannotTell(f"{shape}: one number a row is needed")
        found.append(one)
    values = np.concatenate(found)
    wrong = int((np.isnan(values) | (values == math.inf)).sum())
    if wrong:
        raise k.CannotTell(f"ln p is no finite number at {wrong:,} of {len(rows):,} rows")
    return values


def judge_loss(
    fit: k.Fit, log_p: Callable[[k.Fit, Array, Array | None], Array], shift: float = 0.0
) -> Mapping[str, float]:
    """loss_ against the mean of −ln p of the rows that it is of, shifted; with classes −ln p(x|y), CannotTell without y."""
    (some, weights), classes = stated_rows(fit), None
    if fit.get("classes_") is not None:
        if fit.y is None:
            raise k.CannotTell("loss_ is of rows given their classes: pass y")
        classes = np.asarray(fit.y)[some]
    values = -log_p(fit, rows_of(fit.data, some).astype(np.float64) + shift, classes)
    size = float(np.abs(values).mean()) + fit.data.shape[1]
    loss = float(np.average(values, weights=weights))
    return {"loss_": discrepancy(fit.loss_, loss, size, k.rounding(float_type(fit), 4096))}


def require_repeatable(fit: k.Fit, rows: Array) -> None:
    """Raise CannotTell where ln p of the same rows changes from call to call (dropout left on)."""
    first, again = (log_density(fit, rows[:TWICE]) for _ in range(2))
    finite = np.isfinite(first)
    off = np.abs(np.where(finite, first, 0) - np.where(np.isfinite(again), again, 0))
    if (off > 1e-3 * (1 + np.abs(np.where(finite, first, 0)))).any():
        raise k.CannotTell(
            f"ln p of the same row changes by up to {off.max():.3g} from call to call: it draws"
        )


class Mass(NamedTuple):
    """The integral of a density by sums over cells: of a box, of its cells halved, of a box twice as wide."""

    coarse: float
    fine: float
    wide: float

    @property
    def settled(self) -> bool:
        return max(self) - min(self) <= SETTLED


def cost_of_row(fit: k.Fit) -> float:
    """Multiplications of ln p of a row, at the rate of products; a function of others is guessed."""
    module, stated = fit.get("module_"), fit.get("density_work")
    if stated is not None:
        return stated / k.PRODUCTS
    if module is None:
        return UNKNOWN_COST
    return sum(parameter.numel() for parameter in module.parameters()) / k.PRODUCTS


def _cost_of_mass(fit: k.Fit) -> float:
    cells = float(CELLS ** fit.data.shape[1]) * 9 if fit.data.shape[1] <= 2 else 0.0
    return cells * cost_of_row(fit)


@k.fact(cost=_cost_of_mass)
def measured_mass(fit: k.Fit) -> Mass:
    """Sum p over grids around the rows. CannotTell beyond two columns."""
    d = fit.data.shape[1]
    if d > 2:
        raise k.CannotTell(f"{d} columns: a grid takes at most 2")
    rows = rows_of(fit.data, np.arange(fit.data.shape[0])).astype(np.float64)
    require_repeatable(fit, rows)
    low, high = rows.min(axis=0), rows.max(axis=0)
    middle, half = (low + high) / 2, np.where(high > low, high - low, 1.0)  # a range on each side
    grids = ((half, CELLS), (half, 2 * CELLS), (2 * half, 2 * CELLS))
    return Mass(*(_sum_cells(fit, middle, side, count) for side, count in grids))


def _sum_cells(fit: k.Fit, middle: Array, half: Array, count: int) -> float:
    at = (np.arange(count) + 0.5) / count * 2 - 1
    columns = [m + h * at for m, h in zip(middle, half, strict=True)]
    points = np.stack([grid.ravel() for grid in np.meshgrid(*columns, indexing="ij")], axis=1)
    with np.errstate(over="ignore"):
        return float(np.exp(log_density(fit, points)).sum() * np.prod(2 * half / count))


def require_mass(fit: k.Fit) -> None:
    """Raise CannotTell unless the mass of the density is 1 by a grid, or by its class."""
    if fit.get("known_mass", False):
        return
    if fit.data.shape[1] > 2:
        raise k.CannotTell("log_prob alone does not show that its mass is 1; of up to 2 columns a grid does")  # fmt: skip
    mass = measured_mass(fit)
    if not mass.settled or abs(mass.fine - 1) > OFF:
        raise k.CannotTell(f"its mass is {mass.fine:.3g} by a grid, so that it is no density to compare")  # fmt: skip


# --- claims -----------------------------------------------------------------------------------------------------------


def independent_normals(train: Array, weights: Array | None, rows: Array) -> Array:
    """ln p of rows under a normal density of each column, fitted to the training rows. CannotTell for columns of levels."""
    for j, column in enumerate(train.T):
        _, counts = np.unique(column, return_counts=True)
        if counts[counts > 1].sum() > REPEATED * len(column):
            few = f"column {j} repeats its numbers ({len(counts):,} different ones)"
            raise k.CannotTell(f"{few}: levels have no density")
    mean = np.average(train, axis=0, weights=weights)
    variance = np.average(np.square(train - mean), axis=0, weights=weights)
    return -0.5 * (np.square(rows - mean) / variance + np.log(2 * np.pi * variance)).sum(axis=1)


def judge_gains(ours: Array, baseline: Array, advice: str) -> k.Evidence:
    """The verdict on most rows being more probable, with the mean gain beside it."""
    gains = ours - baseline
    n, wins = len(gains), int((gains > 0).sum())
    lower, upper = (float(end) - 0.5 for end in clopper_pearson(wins, n, RISK))
    mean = float(gains.mean())
    note = f"mean gain {mean:.3g} nats, {wins:,} of {n:,} new rows more probable"
    unit = "share of rows, minus a half"
    return beats(MeanGain(lower, upper), note, advice, unit=unit, uncapped=mean)


ADVICE = "train longer or with early_stopping=True, take more rows; columns may be independent: then normals are all there is"
SENTENCE = "most new rows are more probable than under independent normal columns"


def compare_with_independent(fit: k.Fit) -> k.Evidence:
    found = new_rows(fit)
    require_repeatable(fit, found.new)
    baseline = independent_normals(found.train, found.weights, found.new)
    return judge_gains(log_density(fit, found.new), baseline, ADVICE)


@k.statistical(SENTENCE, "CIL 5.2", confidence=1 - RISK, needs=(new_rows, measured_mass))
def beats_independent(fit: k.Fit) -> k.Evidence:
    """Signs of ln p − ln q, q the product of the columns' normals, of a density whose mass was measured or is known."""
    require_mass(fit)
    return compare_with_independent(fit)


@k.rule_of_thumb(
    f"the density integrates to 1 within {OFF:.0%}, by two grids around the rows",
    "CIL Prop. 5.2.1 (m = n, h ≥ 0)",
    needs=(measured_mass,),
)
def mass_one(fit: k.Fit) -> k.Evidence:
    mass = measured_mass(fit)
    advice = "a term of ln|det J| is missing or has the wrong sign, or log_prob is not normalised"
    note = f"{mass.coarse:.4g} and {mass.fine:.4g}; in a box twice as wide {mass.wide:.4g}"
    if not mass.settled:
        return k.unknown(f"{note}: the grids do not agree")
    off = max(abs(one - 1) for one in mass)
    return k.at_most(off, OFF, advice, unit="|mass − 1|", note=note)


def _unsound(fit: k.Fit) -> Iterator[str]:
    if fit.has_data:
        try:
            log_density(fit, rows_of(fit.data, np.arange(min(fit.data.shape[0], TWICE))))
        except k.CannotTell as why:
            yield str(why)


NOTHING_STATED = (attributes_sound({}), statements_true(lambda fit: {}, cost=k.free))
DENSITY_CLAIMS: tuple[Any, ...] = (
    attributes_sound({}, _unsound),
    NOTHING_STATED[1],
    beats_independent,
    mass_one,
)
