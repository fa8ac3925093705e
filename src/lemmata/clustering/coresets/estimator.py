"""Coresets: a few weighted rows on which k-means costs nearly what it costs on all.

    φ_X(Q) = Σ w_i d(x_i, Q)²,      φ_C(Q) = Σ over the coreset, with its weights                        (CIL20 6.2.3)

Lightweight coresets (Bachem, Lucic & Krause 2018) draw m rows with replacement, with probability

    p_i = ½ w_i/W + ½ w_i d(x_i, μ)²/φ_X(μ),       μ the mean, W the total weight,       and give them weight w_i/(m p_i),

so that φ_C(Q) is φ_X(Q) on average, for every set of centres Q. Two passes over the data, whatever k is.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(20_000, 2)) + 8 * np.arange(20_000)[:, None] // 5_000
    >>> coreset = LightweightCoreset(size=1_000, random_state=0).fit(X)
    >>> coreset.certificate_.failed
    []
    >>> centers = X[[0, 6_000, 12_000, 19_000]]
    >>> bool(abs(coreset.cost(centers) / ((X[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum() - 1) < 0.05)
    True

What is promised, with constants. Let T = ½φ_X(Q) + ½φ_X(μ) and Z = w d(x, Q)²/(p T) for a drawn row, so φ_C(Q)/T is a mean of m
such Z. By Minkowski d(μ, Q) ≤ √(φ_X(μ)/W) + √(φ_X(Q)/W), and maximising what the triangle inequality leaves gives Z ≤ B and
Var Z ≤ B with B = 2(3 + √5) ≈ 10.5. Bernstein: with probability 1 − δ, for N sets of centres fixed beforehand at once,

    |φ_C(Q) − φ_X(Q)| ≤ ε/2 φ_X(Q) + ε/2 φ_X(μ)            if   m ≥ 2B(1 + ε/3)(ln N + ln 2/δ)/ε².

The paper's theorem is about all Q at once, m ≥ c(dk log k + log 1/δ)/ε² with a constant c it does not name; `size_for` takes
N = k^(dk), which has this form and is proved for that many sets, not for all. The notes' (6.4), an error of ε φ_X(Q) alone,
is not what these coresets give: rows of a small cluster near the mean are drawn with probability 1/(2n) each, and if all are
missed, φ_C(Q) = 0 < φ_X(Q) for centres on the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.clustering.coresets import CORESET_CLAIMS
from lemmata.clustering.coresets.sampling import Coreset, CoresetAlgorithm, epsilon_of, size_for
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Fit
from lemmata.core.estimator import Model
from lemmata.core.loop import Never, Stopped
from lemmata.core.parameters import COUNT, FRACTION, KW_ONLY, POSITIVE, fitted, parameter
from lemmata.core.runs.trace import Trace
from lemmata.core.store import storable

Array = np.ndarray
DEFAULT_SIZE = 10_000


@storable
@dataclass(frozen=True)
class Merging:
    """Coresets of a stream, at most one of each rank: rank r stands for 2^r times `size` rows or more."""

    version = 1

    size: int
    rng: np.random.Generator
    ranks: dict[int, Coreset]
    waiting: Coreset = Coreset()  # rows not drawn from yet

    def with_rows(self, data: Blocks) -> Merging:
        rng, ranks, waiting = deepcopy(self.rng), dict(self.ranks), self.waiting
        for rows, weights in data:
            waiting = waiting + Coreset.of(rows, weights)
            if len(waiting) >= 2 * self.size:
                carried, rank = waiting.reduced(self.size, rng), 0
                waiting = Coreset()
                while rank in ranks:
                    carried, rank = (ranks.pop(rank) + carried).reduced(self.size, rng), rank + 1
                ranks[rank] = carried
        return Merging(self.size, rng, ranks, waiting)

    def total(self) -> Coreset:
        return (
            sum((self.ranks[rank] for rank in sorted(self.ranks, reverse=True)), Coreset())
            + self.waiting
        )


class LightweightCoreset(Model):
    """A small weighted sample of the rows for k-means: fit a clustering to `points_` with sample weights `weights_`.

    Draws rows with probability ½ w_i/W + ½ w_i d(x_i, μ)²/φ(μ), weighted so that every cost is right on average.

    Attributes
    ----------
    points_ : (m, d), array or CSR
    weights_ : (m,), float64
    coreset_ : Coreset
        Both, with the mean, spread and number of the data's rows; `+` and `reduced`.
    merging_ : Merging
        After `partial_fit`: the coresets that `coreset_` is the sum of, and where the next draws come from.
    certificate_, trace_, stopped_, n_iter_, n_features_in_

    Notes
    -----
    Models fitted to disjoint parts of the data can be added: their sum has the rows of both and stands for both.
    `partial_fit` merges and reduces (what it keeps is a coreset, but not the one that `fit` would draw): batch after batch,
    at most ⌈log₂ of their number⌉ + 1 times `size` rows in memory, each
    doubling of the data adding one drawing to the error, which `coreset_.epsilon()` states.
    """

    size: Any = parameter(None, COUNT, None).doc("""
        m, how many rows are drawn; a row drawn twice stands once, with twice the weight. As many as
        the data has rows, or more: the data itself. None: by epsilon, or 10,000.""")
    _: KW_ONLY
    epsilon: Any = parameter(None, POSITIVE, None).doc("""
        ε of the promise (see the module): sets the size by `size_for`.""")
    delta: float = parameter(0.05, FRACTION).doc("δ, how likely the promise may fail.")
    n_clusters: Any = parameter(None, COUNT, None).doc("""
        k, for epsilon: the promise is for k^(dk) sets of centres; None: for one. Also what
        `certify` tries.""")
    max_iter: int = common.max_iter(1).doc("Has no effect: the data is read twice.")
    tol: float = common.tol(0.0).doc("Has no effect: the data is read twice.")
    random_state: Any = common.random_state().doc("Of the draws.")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit().doc("Has no effect: the data is read twice.")

    coreset_: Coreset = fitted()
    accepts_sparse = True
    claims = CORESET_CLAIMS
    stored: ClassVar[Mapping[str, str | type]] = {"coreset_": Coreset, "merging_?": Merging}

    # --- fitting ---

    def _size(self, d: int) -> int:
        if self.size is not None and self.epsilon is not None:
            raise ValueError(
                f"size={self.size} and epsilon={self.epsilon} both say how many rows to draw; pass one of them."
            )
        if self.epsilon is not None:
            return size_for(self.epsilon, self.delta, self.n_clusters or 1, d)
        return self.size or DEFAULT_SIZE

    def _algorithm(self, data: Blocks) -> CoresetAlgorithm:
        self._forget("merging_")  # a fit forgets the batches before it
        return CoresetAlgorithm(min(self._size(data.shape[1]), data.shape[0]))

    def _stop(self):
        return Never()

    @classmethod
    def work(cls, fit: Fit) -> float:
        """Two passes over the rows, each of which is squared; what was drawn is small beside them."""
        return 8.0 * fit.data.size

    def _title(self, data: Blocks | None) -> str:
        kept = self.coreset_
        promise = f"ε {kept.epsilon(self.delta):.2g} at δ {self.delta:g}" if kept.draws else "exact"
        return f"LightweightCoreset  {kept.rows:,} × {self.n_features_in_:,} → {len(kept):,} rows, {promise}"

    def partial_fit(self, X, y=None, sample_weight=None):
        """Add a batch of rows: coresets of equal rank are merged and reduced, as in a binary counter."""
        self._validate_params()
        with self._all_or_nothing():
            data = self._validate_rows(X, sample_weight, reset=not hasattr(self, "coreset_"))
            size = self._size(data.shape[1])
            if not hasattr(self, "merging_"):
                ranks = {0: self.coreset_} if hasattr(self, "coreset_") else {}
                self.merging_ = Merging(size, np.random.default_rng(self._rng()), ranks)
            self.merging_ = self.merging_.with_rows(data)
            self._show(self.merging_.total())
        return self

    def _show(self, coreset: Coreset) -> None:
        """A coreset made of others: the data it stands for is gone."""
        trace = Trace()
        trace.append(coreset.error_at_mean, 0.0)
        self._conclude(None, {"coreset_": coreset}, trace, Stopped.BATCHES, 1)

    # --- adding ---

    def __add__(self, other):
        """A model that stands for the data of both, which must be disjoint."""
        if not isinstance(other, LightweightCoreset):
            return NotImplemented
        check_is_fitted(self)
        check_is_fitted(other)
        if self.n_features_in_ != other.n_features_in_:
            raise ValueError(
                f"coresets of {self.n_features_in_} and {other.n_features_in_} features cannot be added."
            )
        both = clone(self)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(both, name, getattr(self, name))
        both._show(self.coreset_ + other.coreset_)
        return both

    def __radd__(self, other):
        # sum(models) begins with 0
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def merge(self, other, size: int | None = None):
        """The sum of both, reduced to `size` rows (by default the size asked for); the error grows, see `Coreset.epsilon`."""
        if size is not None and not (isinstance(size, Integral) and size >= 1):
            raise ValueError(f"size={size!r}; pass an int >= 1, or None for the size asked for.")
        both = self + other
        both._show(both.coreset_.reduced(size or both._size(both.n_features_in_), both._rng()))
        return both

    # --- using it ---

    @property
    def points_(self):
        return self.coreset_.points

    @property
    def weights_(self):
        return self.coreset_.weights

    def cost(self, centers) -> float:
        """φ_C(Q): what centres cost on the coreset, an unbiased estimate of what they cost on the data."""
        check_is_fitted(self, "coreset_")
        return self.coreset_.cost(self._centers(centers))

    def measured_epsilon(self, X, center_sets, sample_weight=None) -> Array:
        """|φ_C(Q) − φ_X(Q)| / (½φ_X(Q) + ½φ_X(μ)) on data X, for each set of centres Q."""
        check_is_fitted(self, "coreset_")
        data = self._validate_rows(X, sample_weight, reset=False)
        sets = [self._centers(centers) for centers in center_sets]
        if not sets:
            raise ValueError(
                f"no set of centres; pass a list of arrays, each of k × {self.n_features_in_} numbers."
            )
        return epsilon_of(self.coreset_, data, sets)

    def _centers(self, centers) -> Array:
        if np.iscomplexobj(centers):
            raise ValueError("Complex data not supported: centres are real numbers.")
        centers = np.asarray(centers, dtype=np.float64)
        if centers.ndim != 2 or centers.shape[1] != self.n_features_in_ or not len(centers):
            raise ValueError(
                f"centres of shape {centers.shape}; pass k × {self.n_features_in_} numbers."
            )
        if not np.isfinite(centers).all():
            raise ValueError("the centres contain NaN or infinity; pass numbers.")
        return centers
