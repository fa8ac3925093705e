"""Families of components, as EM needs them, and the E-step over blocks of rows.

    q_ij ∝ π_j p(x_i; θ_j),   Σ_j q_ij = 1                responsibilities, the E-step               (CIL (3.12))
    π_j ∝ Σ_i w_i q_ij,   θ_j from Σ_i w_i q_ij t(x_i)    the M-step, from statistics that add up    (CIL (3.13), (3.14))

A `Family` says three things: the log-densities of rows, the expected statistics of a block, and the parameters that belong to
statistics. How steps follow each other is for em.py.

    >>> posterior(log_of(np.array([[0.2, 0.6], [0.0, 0.5]])))[1]
    array([[0.25, 0.75],
           [0.  , 1.  ]])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce

Array = np.ndarray
# of a block, or of its responsibilities: 2 MB, so that several threads' blocks fit the caches
BLOCK_NUMBERS = 2**18


# --- what a family is -------------------------------------------------------------------------------------------------


class Family(ABC):
    """The components of a mixture. Parameters and statistics are frozen storable dataclasses of float64 arrays.

    Statistics are expected ones: each row counts w·r for component j. They have `+`, `scale(c)` and `counts` (k,) = Σ w r.
    """

    name: ClassVar[str] = ""
    # the parameters that a user may give; all of them together say everything
    givable: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def survey(self, data: Blocks) -> Any:
        """Check the data, in one pass; the parameters of a single component for all rows: where statistics are taken about."""

    def check_parameters(self, params: Any, k: int, d: int) -> None:
        """ValueError where parameters, from a file, are none of k components of this family in d features."""
        return

    def check(self, rows: Any) -> None:
        """ValueError where rows cannot have come from this family."""
        return

    @abstractmethod
    def log_density(self, rows: Any, params: Any) -> Array:
        """log p(x_i; θ_j), (n, k)."""

    @abstractmethod
    def statistics(
        self,
        rows: Any,
        weights: Array | None,
        responsibilities: Array,
        params: Any,
        compiled: bool = False,
    ) -> Any:
        """The statistics of a block. Where something of a row is unknown, it is expected under `params`."""

    @abstractmethod
    def parameters(self, stats: Any) -> Any:
        """The parameters that maximise the expected log-likelihood (and prior) of the statistics."""

    def compiles(self, data: Blocks, k: int) -> bool:
        """Whether passes over the data are worth a compiler; where there is nothing to compile they are not."""
        return False

    def expecting(
        self, params: Any, log_weights: Array, dtype: Any, compiled: bool = False
    ) -> Callable[[Any, Array | None], EStepSums]:
        """The E-step as a function of a block. What all blocks need is prepared here, once."""
        return partial(_expect_block, self, params, log_weights)

    def scoring(
        self, params: Any, log_weights: Array, dtype: Any, compiled: bool = False
    ) -> Callable[[Any], Array]:
        """log π_j + log p(x_i; θ_j) (n, k) as a function of a block."""
        return partial(_joint, self, params, log_weights)

    def with_given(self, params: Any, k: int, **given: Any) -> Any:
        """Parameters of k components with some of them, or all, replaced by what a user gave."""
        raise ValueError(
            f"a mixture of {self.name} components takes no initial {', '.join(given)}."
        )

    def closer(self, stats: Any, rough: Any) -> Any:
        """Parameters to take the statistics about instead, if those about `rough` lost digits; None if they are fine."""
        return None

    def log_prior(self, params: Any) -> float:
        """The logarithm of a prior, maximised besides the likelihood."""
        return 0.0

    def price(self, stats: Any, params: Any) -> float:
        """By how much the M-step stays below the maximum of the expected log-likelihood, per unit of weight (reg_covar)."""
        return 0.0

    def sound(self, stats: Any, before: Any) -> bool:
        """Whether a leap from statistics `before` ends in statistics that rows could have."""
        return bool((stats.counts > 0).all())

    @abstractmethod
    def n_parameters(self, params: Any) -> int:
        """Free numbers in θ_1 … θ_k; the k − 1 of the weights come on top."""

    @abstractmethod
    def sample(self, params: Any, components: Array, rng: np.random.Generator) -> Array:
        """One row from each of the given components."""

    @abstractmethod
    def attributes(self, params: Any) -> dict[str, Any]:
        """The parameters as an estimator shows them."""


# --- the E-step -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EStepSums:
    """The result of an E-step on a block: statistics, Σ w log p(x), Σ w. EStepSums() is the empty sum."""

    stats: Any = None
    log_likelihood: float = 0.0
    weight: float = 0.0

    def __add__(self, other: EStepSums) -> EStepSums:
        stats = self.stats if other.stats is None else other.stats
        if self.stats is not None and other.stats is not None:
            stats = self.stats + other.stats
        likelihood = self.log_likelihood + other.log_likelihood
        return EStepSums(stats, likelihood, self.weight + other.weight)


def log_of(weights: Array) -> Array:
    """log π, −∞ for a component without weight."""
    with np.errstate(divide="ignore"):
        return np.log(weights)


def posterior(joint: Array) -> tuple[Array, Array]:
    """(log Σ_j e^{l_j}, responsibilities) of every row of l = log π_j + log p(x; θ_j), whatever the size of its numbers.

    A row that no component can explain has log-likelihood −∞ and belongs to all of them alike.
    """
    top = joint.max(axis=1, keepdims=True)
    R = np.exp(joint - np.where(np.isfinite(top), top, 0))
    total = R.sum(axis=1, keepdims=True)
    lost = total == 0
    R = np.where(lost, 1 / joint.shape[1], R / np.where(lost, 1, total))
    return np.where(lost, -np.inf, top + log_of(np.where(lost, 1, total)))[:, 0], R


def weigh(weights: Array, each: Array) -> float:
    """Σ w ln p, with 0 · −∞ = 0: rows that do not count may be impossible."""
    return float(weights @ np.where(weights > 0, each, 0))


def _joint(family: Family, params: Any, log_weights: Array, rows: Any) -> Array:
    return family.log_density(rows, params) + log_weights


def _expect_block(
    family: Family, params: Any, log_weights: Array, rows: Any, weights: Array | None
) -> EStepSums:
    each, R = posterior(_joint(family, params, log_weights, rows))
    likelihood = float(each.sum(dtype=np.float64) if weights is None else weigh(weights, each))
    weight = float(len(each) if weights is None else weights.sum())
    return EStepSums(family.statistics(rows, weights, R, params), likelihood, weight)


def finer(data: Blocks, width: int) -> Blocks:
    """The same rows in blocks of about BLOCK_NUMBERS / max(d, width) rows, for work whose temporaries are rows × width.

    Arrays and memmaps only; the cuts depend on the shape alone. A handful of blocks is a multiple of four, for the cores.
    """
    n, d = data.shape
    step = max(512, BLOCK_NUMBERS // max(d, width, 1))
    count = -(-n // step)
    if 1 < count < 64:
        step = -(-n // (-(-count // 4) * 4))
    return data.recut(step)


def expectation(
    family: Family, params: Any, weights: Array, data: Blocks, compiled: bool | None = None
) -> EStepSums:
    """One pass: the expected statistics of all rows and their log-likelihood.

    compiled : whether kernels do the work; None: as the size of the data says
    """
    if compiled is None:
        compiled = family.compiles(data, len(weights))
    work = family.expecting(params, log_of(weights), data.dtype, compiled)
    return map_reduce(work, finer(data, len(weights)), EStepSums())


def maximisation(family: Family, stats: Any) -> tuple[Array, Any]:
    """π and θ that maximise the bound for given statistics. Without any weight at all, π stays even."""
    total = stats.counts.sum()
    k = len(stats.counts)
    return stats.counts / total if total > 0 else np.full(k, 1 / k), family.parameters(stats)


def elbo(
    family: Family, params: Any, weights: Array, data: Blocks, q: tuple[Any, Array] | None = None
) -> float:
    """The bound (CIL (3.10)), per unit of weight, at the responsibilities of `q` = (params, weights); of θ itself if None.

    Plain arithmetic on `log_density`, so that it checks the E-step rather than repeats it. At q = None it equals the
    log-likelihood to rounding, elsewhere it is below.
    """
    log_weights = log_of(weights)

    def bound_terms(rows, w):
        joint = family.log_density(rows, params).astype(np.float64) + log_weights
        other = joint
        if q is not None:
            other = family.log_density(rows, q[0]).astype(np.float64) + log_of(q[1])
        R = posterior(other)[1]
        logs = np.where(R > 0, joint, 0) - np.log(np.where(R > 0, R, 1))
        terms = np.where(R > 0, R * logs, 0).sum(axis=1)
        return np.array([terms.sum(), len(terms)] if w is None else [w @ terms, w.sum()])

    total, weight = map_reduce(bound_terms, finer(data, len(weights)), np.zeros(2))
    return float(total / weight)
