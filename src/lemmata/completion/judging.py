"""How good a fit is on entries that it did not see: score, and the claims of a certificate about held-out entries.

Held-out entries may know rows and columns that the fit does not (a split by time nearly always does). With unknown="baseline"
they are predicted by what is known without them: their own offsets and factors are 0, in a larger matrix.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.completion.held_out.offsets import OFFSET_CLAIMS
from lemmata.audit.completion.held_out.ranking import RANKING_CLAIMS
from lemmata.completion.observed import Observed
from lemmata.core.certificate import HOLDS, Certificate, Fit, budget, check

Array = np.ndarray
LONG = 10  # items of the lists by which implicit feedback is scored


def check_unknown(unknown: str) -> None:
    if unknown not in ("error", "baseline"):
        raise ValueError(f"unknown={unknown!r} is not accepted; pass 'error' or 'baseline'.")


class Judged:
    """Mixin of CompletionModel: `score`, `certify`."""

    if TYPE_CHECKING:
        U_: Array
        V_: Array
        observed_: Observed

        def _same_matrix(self, X: Any, unknown: str = "error") -> Observed: ...
        def _at(self, i: Array, j: Array) -> Array: ...
        def _rows_at(self, places: Array) -> Any: ...

        _best: Any
        _certificate: Any

        def _claims(self) -> tuple: ...
        @classmethod
        def work(cls, fit: Fit) -> float: ...

    def _is_implicit(self) -> bool:
        """Whether the values are counts of what happened, so that predictions are preferences and no ratings."""
        return getattr(self, "feedback", "explicit") == "implicit"

    def score(self, X, y=None, *, unknown: str = "error") -> float:
        """−RMSE over the known entries of X, a matrix of the training shape (higher is better, as scikit-learn wants it).

        unknown : {"error", "baseline"}
            What to do with rows and columns that were not in the data: refuse them, or predict without them (μ + c_j, …).

        Implicit feedback has no ratings to predict: the score is NDCG@10 of X (metrics.ndcg_at_k), among the items that were
        not seen in training or are in X.
        """
        check_is_fitted(self)
        data = self._same_matrix(X, unknown)
        if data.n_observed == 0:
            raise ValueError("there are no known entries to score.")
        if self._is_implicit():
            return self._ranking_score(data)
        i, j = self._inside(data)
        errors = data.values - self._at(i, j)
        return -float(np.sqrt(np.mean(errors**2, dtype=np.float64)))

    def _inside(self, data: Observed) -> tuple[Array, Array]:
        """The places of entries, −1 for rows and columns beyond those of the training matrix."""
        n, m = self.observed_.shape
        return np.where(data.rows < n, data.rows, -1), np.where(data.columns < m, data.columns, -1)

    def _ranking_score(self, data: Observed) -> float:
        from lemmata.completion.metrics import ndcg_at_k

        known, users = self.observed_, np.flatnonzero(data.row_counts)
        asked = self._rows_at(np.where(users < len(self.U_), users, -1))
        inside = (data.rows < known.shape[0]) & (data.columns < known.shape[1])
        asked_for = np.isin(*(
            part.rows[here].astype(np.int64) * known.shape[1] + part.columns[here]
            for part, here in ((known, slice(None)), (data, inside))
        ))  # fmt: skip
        lists = self._best(asked._replace(data=known.select(~asked_for)), LONG).positions
        return float(ndcg_at_k(lists, data, LONG, users=users))

    def certify(
        self, X, y=None, sample_weight=None, *, seconds=None, unknown: str = "error"
    ) -> Certificate:
        """Check every claim about this fit on X, the training entries.

        Parameters
        ----------
        X : the training entries, as for `fit`
        y : held-out entries of the same matrix, optional
            Whether entries like them are predicted better than by the mean, and by offsets of rows and columns, and ranked
            better than by popularity.
        sample_weight : not accepted; entries have no row weights
        seconds : float, optional
            As everywhere: how long that may take.
        unknown : {"error", "baseline"}
            What to do with rows and columns of y that were not in the data: refuse them, or predict without them.
        """
        check_is_fitted(self)
        if sample_weight is not None:
            raise TypeError("completion models have no row weights; repeat what counts more.")
        train = self._same_matrix(X)
        if y is None:
            return self._certificate(train, seconds=seconds)
        held_out = self._same_matrix(y, unknown)
        if held_out.shape == train.shape:
            found = self._certificate(train, held_out, seconds=seconds)
            return self._with_held_out(found, (), Fit(self, train, held_out), seconds)
        # what is said of held-out entries is said in the larger matrix, everything else in that of the fit
        found = self._certificate(train, seconds=seconds)
        about = tuple(one for one in self._claims() if one.name == "held_out_error")
        return self._with_held_out(found, about, self._enlarged(train, held_out), seconds)

    def _with_held_out(
        self, found: Certificate, about: tuple, fit: Fit, seconds: float | None
    ) -> Certificate:
        """A certificate with the claims about held-out entries that `fit` knows, in place of those of the same name."""
        factors = (
            np.shape(self.U_)[1] > 0 and not self._is_implicit()
        )  # offsets alone beat no offsets
        claims = (*about, *(OFFSET_CLAIMS if factors else ()), *RANKING_CLAIMS)
        if found.claims and found.claims[0].verdict != HOLDS:  # attributes_sound
            more = {one.name: one.put_off("the attributes are not sound") for one in claims}
        else:
            work = budget(self.work, fit)
            checked = check(claims, fit, found.title, work=work, seconds=seconds, usual=work)
            more = {one.name: one for one in checked}
        first = tuple(more.pop(one.name, one) for one in found.claims)
        return replace(found, claims=(*first, *more.values()))

    def _enlarged(self, train: Observed, held_out: Observed) -> Fit:
        """The fit in a matrix that has further rows and columns, of which nothing is known: without factors and offsets."""
        shape = held_out.shape

        def grown(part: Array, size: int, fill: float) -> Array:
            added = np.full((size - len(part), *part.shape[1:]), fill, part.dtype)
            return np.concatenate([part, added])

        attributes = {
            f"{side}_{what}_": grown(getattr(self, f"{side}_{what}_"), size, fill)
            for side, size in zip(("row", "column"), shape, strict=True)
            for what, fill in (("bias", 0.0), ("scale", 1.0))
        }
        attributes["U_"], attributes["V_"] = (
            grown(part, size, 0.0) for part, size in zip((self.U_, self.V_), shape, strict=True)
        )
        data = Observed.from_triplets(train.rows, train.columns, train.values, shape)
        return Fit(self, data, held_out, attributes=attributes)
