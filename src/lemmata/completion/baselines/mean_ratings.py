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
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.completion.mean_ratings import MEAN_RATINGS_CLAIMS, ONE_SIDED_CLAIMS
from lemmata.completion import centring
from lemmata.completion.base import CompletionModel, Folded
from lemmata.completion.observed import Observed
from lemmata.core import common
from lemmata.core.loop import Never, Solution, Stop
from lemmata.core.parameters import KW_ONLY, NONNEGATIVE, choice, parameter
from lemmata.core.store import storable

Array = np.ndarray

SIDES = {
    "both": (True, True),
    "rows": (True, False),
    "columns": (False, True),
    "global": (False, False),
}


@storable
@dataclass(frozen=True)
class MeanRatingsState:
    """μ, b and c, and the objective there."""

    version = 1
    layout: ClassVar = {"mean": "", "rows": "n", "columns": "d", "loss": "any"}

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
        return self._at(A, *centring.biases(A, rows=False, columns=False), done=False)

    def step(self, state: MeanRatingsState, A: Observed) -> MeanRatingsState:
        rows, columns = SIDES[self.by]
        return self._at(A, *centring.biases(A, rows=rows, columns=columns, reg=self.reg), done=True)

    def _at(self, A: Observed, mean: float, b: Array, c: Array, done: bool) -> MeanRatingsState:
        errors = A.over_rows(centring.squared_errors, mean, c, aligned=(b,))
        loss = 0.5 * float(errors.sum()) + 0.5 * self.reg * float(b @ b + c @ c)
        return MeanRatingsState(mean, b, c, loss, done)

    def objective(self, state: MeanRatingsState) -> float:
        return state.loss

    def finished(self, state: MeanRatingsState) -> bool:
        return state.done

    def attributes(self, state: MeanRatingsState) -> dict[str, Any]:
        return {"mean_": state.mean, "row_bias_": state.rows, "column_bias_": state.columns}


# --- the model --------------------------------------------------------------------------------------------------------


class MeanRatings(CompletionModel):
    """Completion by what rows and columns have in common: the mean of all known entries plus offsets.

    Minimises ½ Σ_Ω (a_ij − μ − b_i − c_j)² + ½ λ(‖b‖² + ‖c‖²) over the offsets asked for. A row or column without entries
    counts as average. There are no factors: U_ and V_ have no columns.

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

    by: str = parameter("both", choice(*SIDES)).doc("""
        Which offsets there are: b and c, b alone (a row's mean), c alone (a column's mean), or
        none.""")
    _: KW_ONLY
    reg: float = parameter(centring.BIAS_REG, NONNEGATIVE).doc("""
        λ: so many average entries are added to every row and column. 0 gives plain means.""")
    max_iter: int = common.max_iter(1).doc("Has no effect: the model is solved in one step.")
    tol: float = common.tol(0.0).doc("""
        Has no effect: the model is solved in one step. (It is not the accuracy of the offsets,
        which is 1e-12 of their equations.)""")
    random_state: Any = common.random_state().doc("Has no effect: the model is solved in one step.")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit().doc("Has no effect: the model is solved in one step.")

    claims = MEAN_RATINGS_CLAIMS
    stored: ClassVar[Mapping[str, str | type]] = {
        **CompletionModel.stored,
        "reg_ weighted_reg_": "audited",
    }

    def _algorithm(self, data: Observed) -> MeanRatingsAlgorithm:  # type: ignore[override]
        return MeanRatingsAlgorithm(self.by, float(self.reg))

    def _stop(self) -> Stop:
        return Never()

    def _claims(self):
        return MEAN_RATINGS_CLAIMS if self.by == "both" else ONE_SIDED_CLAIMS

    def _attributes(self, solution: Solution, data: Observed) -> dict[str, Any]:
        (n, m), found = data.shape, solution.attributes
        b, c = (found[name].astype(data.dtype) for name in ("row_bias_", "column_bias_"))
        offsets = centring.Offsets(
            found["mean_"], b, c, np.ones(n, data.dtype), np.ones(m, data.dtype)
        )
        factors = {"U_": np.zeros((n, 0), data.dtype), "V_": np.zeros((m, 0), data.dtype)}
        return {
            **factors,
            **self._set_offsets(offsets),
            "reg_": float(self.reg),
            "weighted_reg_": 0,
        }

    def _fold(self, data: Observed, transposed: bool = False) -> Folded:
        """A new row has no factors, only its own offset: (Σ_j a_j − μ − c_j)/(n + λ)."""
        other, own = (self.row_bias_, 1) if transposed else (self.column_bias_, 0)
        counts, dtype = data.row_counts, other.dtype
        bias = np.zeros(len(counts))
        if SIDES[self.by][own]:
            left = (
                centring.sum_values(data.by_row)
                - centring.sum_others(data.by_row, other.astype(np.float64))
                - counts * self.mean_
            )
            bias = left / np.where(counts + self.reg_ > 0, counts + self.reg_, 1)
        return Folded(
            np.zeros((len(counts), 0), dtype), bias.astype(dtype), np.ones(len(counts), dtype)
        )
