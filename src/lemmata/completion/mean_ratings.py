"""Mean ratings: the baseline every completion has to beat (CIL 2.1.4, Ex. 2.2).

    a_ij ≈ μ + b_i + c_j        minimise  ½ Σ_Ω (a_ij − μ − b_i − c_j)²  +  ½ λ (‖b‖² + ‖c‖²)       over b and c

μ is the mean of all known entries. With rows alone and λ = 0 the prediction is the mean of the row (CIL (2.6)), with columns
alone that of the column; λ draws the mean of few entries towards μ as if λ more of them had been average. The problem is
convex, so where the gradient vanishes nothing is better.

    >>> import numpy as np
    >>> A = np.array([[5.0, 4.0, np.nan], [3.0, np.nan, 1.0], [np.nan, 3.0, 2.0]])
    >>> model = MeanRatings(reg=0).fit(A)
    >>> model.complete().round(2)
    array([[5., 4., 3.],
           [3., 2., 1.],
           [4., 3., 2.]])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.stats import beta
from sklearn.utils._param_validation import Interval, StrOptions

from lemmata.completion.base import CompletionModel, Folded
from lemmata.completion.centring import Offsets, biases, pieces, sum_others, sum_values
from lemmata.completion.claims import connected_observations, held_out_error
from lemmata.completion.observed import Entries, Observed
from lemmata.core.certificate import Fit, at_least, at_most, claim, unknown
from lemmata.core.estimator import COMMON
from lemmata.core.loop import Never, Solution, Stop
from lemmata.core.store import storable

Array = np.ndarray

SIDES = {"both": (True, True), "rows": (True, False), "columns": (False, True), "global": (False, False)}
SLOPE = 1e-6  # of the terms of a derivative; float32 offsets leave 8·eps = 9.5e-7
RISK = 0.01


@storable
@dataclass(frozen=True)
class MeanRatingsState:
    """μ, b and c, and the objective there."""

    version = 1

    mean: float
    rows: Array  # (n,)
    columns: Array  # (m,)
    loss: float
    done: bool


@dataclass(frozen=True)
class MeanRatingsAlgorithm:
    """From the mean of all entries to the best offsets, in one step."""

    by: str
    reg: float

    def init(self, A: Observed, rng) -> MeanRatingsState:
        return self._at(A, *biases(A, rows=False, columns=False), done=False)

    def step(self, state: MeanRatingsState, A: Observed) -> MeanRatingsState:
        rows, columns = SIDES[self.by]
        return self._at(A, *biases(A, rows=rows, columns=columns, reg=self.reg), done=True)

    def _at(self, A: Observed, mean: float, b: Array, c: Array, done: bool) -> MeanRatingsState:
        errors = A.over_rows(squared_errors, mean, c, aligned=(b,))
        loss = 0.5 * float(errors.sum()) + 0.5 * self.reg * float(b @ b + c @ c)
        return MeanRatingsState(mean, b, c, loss, done)

    def objective(self, state: MeanRatingsState) -> float:
        return state.loss

    def finished(self, state: MeanRatingsState) -> bool:
        return state.done

    def attributes(self, state: MeanRatingsState) -> dict[str, Any]:
        return {"mean_": state.mean, "row_bias_": state.rows, "column_bias_": state.columns}


def squared_errors(entries: Entries, mean: float, c: Array, b: Array) -> Array:
    """Σ_j (a_ij − μ − b_i − c_j)² of every row."""
    out = np.zeros(len(entries.indptr) - 1)
    with np.errstate(over="ignore", invalid="ignore"):  # the loop stops at what is not finite
        for rows, starts, here in pieces(entries):
            e = entries.values[here] - c[entries.indices[here]]
            e -= np.repeat(b[rows] + mean, np.diff(np.append(starts, len(e))))
            out[rows] = np.add.reduceat(e * e, starts)
    return out


# --- claims -----------------------------------------------------------------------------------------------------------


def _sides(fit: Fit) -> list[tuple[Array, Array, Array]]:
    """Of rows and columns, where they have offsets: whose each entry is, how many entries each has, and the offset."""
    A = fit.data
    found = ((A.rows, A.row_counts, fit.row_bias_), (A.columns, A.column_counts, fit.column_bias_))
    return [side for side, wanted in zip(found, SIDES[fit.by], strict=True) if wanted]


def _errors(fit: Fit) -> Array:
    b, c = (np.asarray(part, np.float64) for part in (fit.row_bias_, fit.column_bias_))
    return fit.data.values - float(fit.mean_) - b[fit.data.rows] - c[fit.data.columns]


@claim("no other offsets fit better: the gradient of a convex objective vanishes", source="CIL 2.1.4, Prop. 2.2.2")
def best_offsets(fit):
    """|Σ e − λb| over its terms Σ (|a| + |μ| + |b| + |c|) + λ|b|, the norm over all rows and columns that have an offset."""
    A, reg, e = fit.data, float(fit.reg_), _errors(fit)
    sizes = np.abs(A.values) + np.abs(A.values - e) + abs(float(fit.mean_))
    slopes, terms = [], []
    for who, counts, offset in _sides(fit):
        offset = np.asarray(offset, np.float64)
        slopes.append(np.bincount(who, e, len(counts)) - reg * offset)
        terms.append(np.bincount(who, sizes, len(counts)) + reg * np.abs(offset))
    if not slopes:  # μ is all there is
        slopes, terms = [e.sum(keepdims=True)], [sizes.sum(keepdims=True)]
    size = np.linalg.norm(np.concatenate(terms))
    measured = float(np.linalg.norm(np.concatenate(slopes)) / size) if size > 0 else 0.0
    return at_most(measured, SLOPE, "report this: the equations are linear and have a solution", unit="|∇| relative")


@claim("every row and column that has an offset has an entry", source="CIL (2.6), 2.2.1")
def an_entry_each(fit):
    fewest = min((int(counts.min(initial=1)) for _, counts, _ in _sides(fit)), default=fit.data.n_observed)
    empty = sum(int((counts == 0).sum()) for _, counts, _ in _sides(fit))
    note = f"{empty:,} have none; they count as average" if empty else ""
    return at_least(fewest, 1, "nothing is known of them: leave them out, or do not rely on them", "fewest", note)


@claim("the offsets explain more than offsets of pure noise would (99 %)", source="CIL 2.1.4, Beta distribution")
def beyond_noise(fit):
    """Of N normal entries without any pattern, p free offsets explain a share R² ~ Beta(p/2, (N − 1 − p)/2).

    With λ > 0 they explain less of noise and of patterns, so the claim then asks for more than it says.
    """
    A = fit.data
    free = sum(int((counts > 0).sum()) - 1 for _, counts, _ in _sides(fit))
    total = float(((A.values - A.values.mean(dtype=np.float64)) ** 2).sum())
    if free == 0 or total == 0:
        return unknown("there is nothing to explain" if total == 0 else "there are no offsets but the mean")
    rest = A.n_observed - 1 - free
    if rest <= 0:
        return unknown(f"{free:,} offsets for {A.n_observed:,} entries: no entry is left to tell by")
    share = 1 - float((_errors(fit) ** 2).sum()) / total
    bound = float(beta.ppf(1 - RISK, free / 2, rest / 2))
    advice = (
        f"{free:,} offsets for {A.n_observed:,} entries tell little: try by='columns', 'rows' or 'global', or raise reg"
    )
    return at_least(share, bound, advice, unit="R²", note="a normal approximation")


# --- the model --------------------------------------------------------------------------------------------------------


class MeanRatings(CompletionModel):
    """Completion by what rows and columns have in common: the mean of all known entries plus offsets.

    Minimises ½ Σ_Ω (a_ij − μ − b_i − c_j)² + ½ λ(‖b‖² + ‖c‖²) over the offsets asked for. A row or column without entries
    counts as average. There are no factors: U_ and V_ have no columns.

    Parameters
    ----------
    by : {"both", "rows", "columns", "global"}, default="both"
        Which offsets there are: b and c, b alone (a row's mean), c alone (a column's mean), or none.
    reg : float, default=3.0
        λ: so many average entries are added to every row and column. 0 gives plain means.
    max_iter, tol, random_state, time_limit
        Of no use to a model solved in one step; every model has them, so that models can be exchanged.
    verbose, checkpoint
        Progress on the terminal; a file to resume from.

    Attributes
    ----------
    mean_ : float
        μ, the mean of all known entries.
    row_bias_, column_bias_ : (n,), (m,)
        b and c.
    U_, V_ : (n, 0), (m, 0)
    row_scale_, column_scale_ : (n,), (m,)
        Ones.
    reg_, weighted_reg_ : float, 0
    observed_ : Observed
    certificate_, trace_, stopped_, n_iter_

    Examples
    --------
    >>> from lemmata.completion import Observed
    >>> ratings = Observed.from_labels(["al", "al", "bo"], ["Heat", "Up", "Up"], [5.0, 3.0, 2.0])
    >>> MeanRatings(by="columns", reg=0).fit(ratings).predict(["bo"], ["Heat"])
    array([5.])
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "by": [StrOptions(set(SIDES))],
        "reg": [Interval(Real, 0, None, closed="left")],
        **COMMON,
    }
    claims = (best_offsets, an_entry_each, beyond_noise, connected_observations, held_out_error)
    stored: ClassVar[Mapping[str, str | type]] = {**CompletionModel.stored, "reg_": "", "weighted_reg_": ""}

    def __init__(
        self,
        by="both",
        *,
        reg=3.0,
        max_iter=1,
        tol=0.0,
        random_state=None,
        verbose=0,
        checkpoint=None,
        time_limit=None,
    ):
        self.by = by
        self.reg = reg
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.time_limit = time_limit

    def _algorithm(self, data: Observed) -> MeanRatingsAlgorithm:  # type: ignore[override]
        return MeanRatingsAlgorithm(self.by, float(self.reg))

    def _stop(self) -> Stop:
        return Never()

    def _claims(self):
        return tuple(part for part in self.claims if part is not connected_observations or self.by == "both")

    def _attributes(self, solution: Solution, data: Observed) -> dict[str, Any]:
        (n, m), found = data.shape, solution.attributes
        b, c = (found[name].astype(data.dtype) for name in ("row_bias_", "column_bias_"))
        offsets = Offsets(found["mean_"], b, c, np.ones(n, data.dtype), np.ones(m, data.dtype))
        factors = {"U_": np.zeros((n, 0), data.dtype), "V_": np.zeros((m, 0), data.dtype)}
        return {**factors, **self._set_offsets(offsets), "reg_": float(self.reg), "weighted_reg_": 0}

    def _folded(self, data: Observed, transposed: bool = False) -> Folded:
        """A new row has no factors, only its own offset: (Σ_j a_j − μ − c_j)/(n + λ)."""
        other, own = (self.row_bias_, 1) if transposed else (self.column_bias_, 0)
        counts, dtype = data.row_counts, other.dtype
        bias = np.zeros(len(counts))
        if SIDES[self.by][own]:
            left = sum_values(data.by_row) - sum_others(data.by_row, other.astype(np.float64)) - counts * self.mean_
            bias = left / np.where(counts + self.reg_ > 0, counts + self.reg_, 1)
        return Folded(np.zeros((len(counts), 0), dtype), bias.astype(dtype), np.ones(len(counts), dtype))
