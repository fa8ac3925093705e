"""Matrix completion by alternating least squares (CIL 2.4).

    minimise  ½ Σ_Ω w_ij (a_ij − μ − b_i − c_j − u_iᵀv_j)²  +  ½ Σ_i (λ_i ‖u_i‖² + κ_i b_i²)  +  ½ Σ_j (λ_j ‖v_j‖² + κ_j c_j²)

over U: n × k, V: m × k and the biases b, c; μ is the mean of the known entries. Weights w are 1 unless `fit` is given others:
an entry of weight 2 counts as one that is known twice, in the objective, in μ and in the numbers of entries. λ_i is λ, or λ
times the entries in the row, or times their root (penalty.py). With V and c fixed this is one ridge regression per row, with
the bias as a factor whose feature is 1, and the reverse. Each half-sweep is exact (or goes downhill, by conjugate gradients):
the objective cannot rise (CIL (2.37)). It is convex in either half, not in both: what it ended in is for the certificate.

Implicit feedback (clicks, plays: a large value is much evidence, a missing one a little evidence of dislike):

    minimise  ½ Σ_ij (1 + α a_ij) ([a_ij > 0] − u_iᵀv_j)²  +  ½ Σ_i λ_i ‖u_i‖²  +  ½ Σ_j λ_j ‖v_j‖²       over all i and j

whose sum over what is missing is tr(UᵀU VᵀV) minus the known places, so that a sweep still costs only the known entries.

On the notes: (2.31) has λ where we have ½λ, so their λ is half of ours, and the code of 2.4.4 adds λI where (2.36) asks for
2λI. That ALS converges to a fixed point (2.4.3) follows for the values of the objective; the factors are determined up to
rotations that change nothing. A fixed point may be a saddle (U = V = 0 is one): `ALS` looks for a direction of negative
curvature as long as a tenth of its sweeps took, and goes on from there (saddles.py).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> A = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 40))
    >>> X = np.where(rng.random(A.shape) < 0.6, A, np.nan)
    >>> model = ALS(rank=3, reg=1e-6, biases=False, tol=1e-10, max_iter=500, random_state=0).fit(X)
    >>> bool(np.abs(model.complete() - A).max() < 1e-3), model.certificate_.failed
    (True, [])
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.completion.factors import (
    EXPLICIT_CLAIMS,
    IMPLICIT_CLAIMS,
    NONNEGATIVE_CLAIMS,
    NONNEGATIVE_IMPLICIT_CLAIMS,
)
from lemmata.completion.als import search
from lemmata.completion.als.algorithm import (
    WEIGHTINGS,
    ALSAlgorithm,
    ALSState,
    Penalty,
    by_rule,
    check_determined,
    in_order,
    split_reg,
    stretch,
)
from lemmata.completion.als.continuing import join_traces, match_labels, place_factors
from lemmata.completion.als.implicit import warn_of_heavy_tails
from lemmata.completion.als.saddles import PRODUCTS, products_within, way_down
from lemmata.completion.base import CompletionModel, Folded, check_rank
from lemmata.completion.centring import BIAS_REG, Offsets
from lemmata.completion.observed import Observed
from lemmata.completion.rows.solver import power, worth_kernels
from lemmata.core import common
from lemmata.core.certification.checking import cost_of_als
from lemmata.core.engine import one_blas_thread
from lemmata.core.loop import MaxSteps, Settled, Stopped, run, warn_user
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, POSITIVE, choice, parameter
from lemmata.core.runs.progress import Progress
from lemmata.core.runs.trace import Trace

Array = np.ndarray

SEARCHED = 20  # fits that a search of rank and reg is worth, roughly
EXACT_UP_TO = 100  # the rank up to which an exact half-sweep costs less than the extra sweeps of conjugate gradients
WORTH_ESCAPING = 1e-4  # of the objective: less is what a few more sweeps would find as well
WEIGHTED = {1.0: " × counts", 0.5: " × √counts"}  # by the power of the counts
MAX_ESCAPES = 3  # a saddle left behind may lead to another one; three in a row were never seen


class ALS(CompletionModel):
    """Low-rank completion of a partly known matrix by alternating least squares.

    Minimises ½ Σ_Ω w_ij (a_ij − μ − b_i − c_j − u_iᵀv_j)² + ½ Σ_i (λ_i‖u_i‖² + κ_i b_i²) + ½ Σ_j (λ_j‖v_j‖² + κ_j c_j²) over
    U (n × k), V (m × k) and the biases b and c. The weights w are 1, or what ``fit(X, weights=…)`` is given.

    Attributes
    ----------
    U_, V_ : arrays (n, k), (m, k)
        The factors, turned so that the first matters most (not with nonnegative=True).
    mean_, row_bias_, column_bias_ : μ, b and c
    rank_, reg_, weighted_reg_, reg_ratio_ : numbers
        k and λ as used, the power p of λ_i = λ n_i^p: 1 for "counts", ½ for "root", 0 for "plain"; and λ of rows over that of
        columns, whose geometric mean λ is.
    bias_reg_, weighted_bias_reg_ : numbers
        The same for the biases: κ_i = κ n_i^p.
    loss_ : float
        The objective.
    validation_ : array (trials, 5)
        With "auto": rank, λ, its power p, κ (NaN: λ_i) and held-out RMSE of everything that was tried; `validation_frame()` has
        names for them.
    observed_, row_scale_, column_scale_, n_features_in_, n_iter_, trace_, stopped_, certificate_

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[5, 4, np.nan, 1], [4, np.nan, 1, 1], [1, 1, np.nan, 5], [np.nan, 1, 5, 4.0]])
    >>> model = ALS(rank=1, reg=0.05, random_state=0).fit(X)
    >>> model.predict([0, 3], [2, 0]).round()
    array([1., 1.])
    """

    rank: Any = parameter(20, COUNT, choice("auto")).doc("""
        k, the number of factors. A rank-k matrix has k(n + m − k) degrees of freedom; with fewer
        entries only `reg` keeps the answer unique.""")
    reg: Any = parameter(None, NONNEGATIVE, choice("auto"), tuple, None).doc("""
        λ, the ridge on the factors. None: 1.6 times the deviation of the entries from offsets of
        rows and columns, times the root of the entries of each row or column, and κ = 3 on the
        biases: ten times the data gives ten times the predictions. A number is λ in the units of
        the data, on factors and biases alike. At 0, every row and column needs at least k entries
        (k + 1 with biases). A pair is (λ of rows, λ of columns): the completed matrix is that of
        their geometric mean, which biases have, and only the lengths of the factors differ.
        Implicit feedback has no unit: None is 0.075 there. "auto", for rank or reg or both: a tenth
        of the entries is held out, a few sweeps are run for each of several weightings, λ, κ and
        ranks, and the best of them is fitted to all entries; see `validation_`. That takes as long
        as some hundred sweeps, or half of `time_limit`.""")
    _: KW_ONLY
    biases: bool = parameter(True, "boolean").doc("""
        Whether μ, b_i and c_j are part of the model. Without them nothing is removed from the data.
        """)
    reg_weighting: Any = parameter(None, choice(*WEIGHTINGS), None).doc("""
        Whether λ_i is λ times the number of entries of row i, times its root, or λ itself, and λ_j
        likewise. "plain" is the nuclear norm of the notes (2.5.2) once the rank is high enough;
        with "counts" one row counts as much as any other; with "root" one λ suits data of all
        sizes. None: "root" with reg=None, all three are tried with reg="auto", and "counts" with a
        number.""")
    nonnegative: bool = parameter(False, "boolean").doc("""
        Keep U and V (not the biases) nonnegative: parts that only add up.""")
    method: str = parameter("auto", choice("auto", "cholesky", "cg")).doc("""
        How a row is solved: exactly, or by three steps of conjugate gradients from where it was,
        which is faster at high rank and takes more sweeps. "auto" is exact up to rank 100.""")
    feedback: str = parameter("explicit", choice("explicit", "implicit")).doc("""
        Whether the values are ratings, or counts of clicks and plays: then all places count, the
        missing ones as weak zeros, and predictions are preferences around 0 to 1. Implicit feedback
        has no biases; `biases` is ignored.""")
    alpha: float = parameter(1.0, POSITIVE).doc("""
        α of implicit feedback: a count a weighs 1 + αa times a missing entry. Counts with a heavy
        tail (plays) are better passed as np.log1p(counts); `fit` warns of them.""")
    max_iter: int = common.max_iter(100).doc("The most sweeps over rows and columns.")
    tol: float = common.tol(1e-5).doc("""
        Settled when a sweep over rows and columns lowers the objective by at most this share of it;
        0 switches that off.""")
    random_state: Any = common.random_state()
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = EXPLICIT_CLAIMS
    work = staticmethod(cost_of_als)
    accepts_weights = True
    stored: ClassVar = {
        **CompletionModel.stored,
        "rank_": "int >=k <=k",
        "reg_ reg_ratio_? weighted_reg_ bias_reg_? weighted_bias_reg_? loss_": "audited",
        "validation_?": "trials columns nan",
    }

    # --- fitting ---

    def fit(self, X, y=None, weights=None):
        """Fit the model to the known entries of a matrix and check the claims about it.

        Parameters
        ----------
        X : as for every completion: Observed, sparse matrix, ratings, DataFrame, or array with NaN, (n, m)
        y : ignored
        weights : array or matrix, optional
            How much each known entry counts, >= 0: a number for each, row by row, or a matrix like X (`Observed.weighted`).
            2 is an entry known twice, 0 one that is not known; 1/σ_ij² suits noise of deviation σ_ij.
        """
        if weights is None:
            return super().fit(X)
        with self._all_or_nothing():
            self._validate_params()
            data = self._entries(X, reset=True)
            if data.local is not data:
                raise ValueError("a cluster takes no weights; pass entries of this process.")
            return super().fit(data.weighted(weights))

    def _fit_blocks(self, data: Any) -> None:
        self._forget("validation_")
        super()._fit_blocks(data)
        for _ in range(MAX_ESCAPES):
            if not self._leave_saddle_in_passing(data):
                break

    def _leave_saddle_in_passing(self, data: Any) -> bool:
        """Look for a way down for a tenth of the work of the sweeps; whether one was found, and followed."""
        left = self._seconds_left()
        out_of_time = left is not None and left < 1e-3
        if self.nonnegative or self.stopped_ != Stopped.SETTLED or out_of_time:
            return False
        products = products_within(self._with(self.rank_, self._penalty, data), data, self.n_iter_)
        return products >= 2 and self._leave_saddle(data, WORTH_ESCAPING, products)

    def _algorithm(self, data: Any) -> ALSAlgorithm:
        self._check_values(data)
        rank, penalty = self._choose(data)
        check_rank(rank, data)
        algorithm = self._with(rank, penalty, data)
        check_determined(algorithm, data)
        return algorithm

    def _choose(self, data: Any) -> tuple[int, Penalty]:
        """Rank and penalty: as given, by rule, or by trying."""
        if self.reg is None:
            penalty = by_rule(data, self.reg_weighting, self.feedback == "implicit")
        else:
            given = 1.0 if self.reg == "auto" else split_reg(self.reg)[0]
            penalty = Penalty(given, WEIGHTINGS[self.reg_weighting or "counts"])
        if "auto" not in (self.rank, self.reg):
            return int(self.rank), penalty
        if self.feedback == "implicit":
            raise ValueError(
                "'auto' compares held-out ratings, and implicit feedback has none; pass numbers for rank and reg, and "
                "compare them by completion.metrics."
            )
        penalties = [penalty]
        if self.reg == "auto":
            names = [self.reg_weighting] if self.reg_weighting else ("root", "counts", "plain")
            penalties = [Penalty(1.0, WEIGHTINGS[name], BIAS_REG) for name in names]
        left = self._seconds_left()
        rank, penalty, self.validation_ = search.choose(
            self._with(search.FIRST_RANK if self.rank == "auto" else int(self.rank), penalty, data),
            data,
            rank=self.rank,
            penalties=penalties,
            search_reg=self.reg == "auto",
            seed=self._rng() if isinstance(self.random_state, Integral) else 0,
            seconds=None if left is None else left / 2,  # the other half is for the fit itself
        )
        return rank, penalty

    def _with(self, rank: int, penalty: Penalty, data: Any) -> ALSAlgorithm:
        """The algorithm that the parameters stand for, at this rank and penalty, for data of this size."""
        implicit = self.feedback == "implicit"
        exact = rank <= EXACT_UP_TO if self.method == "auto" else self.method == "cholesky"
        fits = SEARCHED if "auto" in (self.rank, self.reg) else 1
        return ALSAlgorithm(
            rank=rank,
            reg=penalty.reg,
            weighted=penalty.weighted,
            biases=bool(self.biases) and not implicit,
            bias_reg=penalty.bias_reg,
            nonnegative=bool(self.nonnegative),
            method="cholesky" if exact else "cg",
            implicit=implicit,
            alpha=float(self.alpha),
            compiled=worth_kernels(data.n_observed, sum(data.shape), rank + 1, fits),
        )

    @property
    def _penalty(self) -> Penalty:
        """The penalty of a fitted model; those of older files shrank biases like factors."""
        own = getattr(self, "weighted_bias_reg_", 1.0) == 0 and hasattr(self, "bias_reg_")
        return Penalty(self.reg_, float(self.weighted_reg_), self.bias_reg_ if own else None)

    def _check_values(self, data: Observed) -> None:
        lowest = data.values.min(initial=0)
        if data.weights is not None and self.feedback == "implicit":
            raise ValueError(
                "implicit feedback has weights of its own, 1 + alpha·a, and these entries have others; pass "
                "X.weighted(None), or feedback='explicit'."
            )
        if lowest < 0 and self.feedback == "implicit":
            raise ValueError(
                f"implicit feedback counts what happened, and there is an entry {lowest:g}; pass counts >= 0, or "
                "feedback='explicit' for ratings."
            )
        if self.feedback == "implicit":
            warn_of_heavy_tails(data.values)
        if lowest < 0 and self.nonnegative and not self.biases:
            warn_user(
                f"nonnegative=True predicts no negative entries, and the data has some, such as {lowest:g}; "
                "pass biases=True, or nonnegative=False.",
                UserWarning,
            )

    def _attributes(self, solution, data: Observed) -> dict[str, Any]:
        algorithm, state = solution.algorithm, solution.state
        U, V = state.U, state.V
        if not algorithm.nonnegative:
            masses = data.row_masses, data.column_masses
            U, V = in_order(U, V, *(algorithm._weights(own) for own in masses))
        ratio = 1.0 if self.reg in (None, "auto") else split_reg(self.reg)[1]
        U, V = stretch(U, V, ratio)
        scales = np.ones(len(U), U.dtype), np.ones(len(V), V.dtype)
        return {
            "U_": U,
            "V_": V,
            **self._set_offsets(Offsets(state.mean, state.b, state.c, *scales)),
            "rank_": algorithm.rank,
            "reg_": algorithm.reg,
            "reg_ratio_": ratio,
            "weighted_reg_": float(algorithm.weighted),
            "bias_reg_": algorithm.reg if algorithm.bias_reg is None else float(algorithm.bias_reg),
            "weighted_bias_reg_": float(algorithm.weighted if algorithm.bias_reg is None else 0),
            "loss_": state.loss,
        }

    def validation_frame(self) -> Any:
        """`validation_` as a pandas DataFrame, best first."""
        check_is_fitted(self)
        if not hasattr(self, "validation_"):
            raise AttributeError("nothing was tried: only rank='auto' or reg='auto' have trials.")
        import pandas as pd

        trials = pd.DataFrame(self.validation_, columns=search.COLUMNS)
        return trials.sort_values("rmse", ignore_index=True)

    def _claims(self):
        if self.feedback == "implicit":
            return NONNEGATIVE_IMPLICIT_CLAIMS if self.nonnegative else IMPLICIT_CLAIMS
        return NONNEGATIVE_CLAIMS if self.nonnegative else EXPLICIT_CLAIMS

    def _title(self, data: Any) -> str:
        title = super()._title(data)
        if data is None:
            return title
        return f"{title}, reg {self.reg_:.3g}{WEIGHTED.get(float(self.weighted_reg_), '')}"

    # --- going on from a fit ---

    def update(self, X, *, sweeps: int = 10):
        """Go on from this fit with changed or further entries: cheaper than `fit`, better than `fold_in` (CIL 2.4.5).

        Parameters
        ----------
        X : as for `fit`
            All entries, old and new. Rows and columns are matched by label where both have labels; otherwise by position, and
            new ones come at the end. New ones are folded in first.
        sweeps : int, default=10
            The most sweeps to make; fewer if they settle. Rank and λ stay; a checkpoint is not written.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if not isinstance(sweeps, Integral) or sweeps < 1:
            raise ValueError(f"sweeps={sweeps!r} is not accepted; pass an int >= 1.")
        with self._all_or_nothing():
            data = self._validate_rows(X)
            self._check_values(data)
            algorithm = self._with(self.rank_, self._penalty, data)
            check_determined(algorithm, data)
            state = self._carried_over(algorithm, data)
            self.observed_ = data.local
            self._go_on(algorithm, data, state, MaxSteps(int(sweeps)))
        return self

    def _carried_over(self, algorithm: ALSAlgorithm, data: Observed) -> ALSState:
        """A first state for `data` from the present factors; what is new is solved for what is known."""
        (n, m), k, dtype = data.shape, self.rank_, data.dtype
        rows, columns = (match_labels(self.observed_, data, what) for what in ("row", "column"))
        mean, scale = algorithm._mean_and_scale(data)
        U, V = self._even_factors
        U, b, old_row = place_factors(U, self.row_bias_, rows, n, dtype)
        V, c, old_column = place_factors(V, self.column_bias_, columns, m, dtype)
        state = ALSState(U, V, b, c, mean, np.inf)
        if not old_column.all():
            solved, bias, _ = algorithm._columns(data, state)
            V, c = np.where(old_column[:, None], V, solved), np.where(old_column, c, bias)
            # no entry in a known row: where both sides are zero they would stay zero
            lost = ~old_column & ~V.any(axis=1)
            fresh = np.random.default_rng(0).standard_normal((int(lost.sum()), k)) * scale
            V[lost] = np.abs(fresh) if algorithm.nonnegative else fresh
            state = replace(state, V=V, c=c)
        if not old_row.all():
            solved, bias, _ = algorithm._rows(data, state)
            U, b = np.where(old_row[:, None], U, solved), np.where(old_row, b, bias)
            state = replace(state, U=U, b=b)
        return state

    def escape(self, *, at_least: float = 0.0) -> bool:
        """Leave a saddle along its direction of most negative curvature, and sweep on: whether there was a way down.

        CIL 2.4.3 leaves open what to do at a fixed point that is no minimum: this. `fit` looks for such a direction itself, for
        a tenth of the time of its sweeps; call this where `certify(X)` says that the fit is no minimum all the same.

        at_least : float, default=0.0
            The share of the objective that has to be gained on the way; for less the fit stays as it is.
        """
        check_is_fitted(self)
        if self.nonnegative:
            raise ValueError(
                "a nonnegative fit has no second-order test; fit again with another random_state."
            )
        with self._all_or_nothing():
            return self._leave_saddle(self.observed_, at_least, PRODUCTS)

    def _leave_saddle(self, data: Any, at_least: float, products: int) -> bool:
        algorithm = self._with(self.rank_, self._penalty, data)
        parts = (*self._even_factors, self.row_bias_, self.column_bias_)
        state = algorithm.evaluate(ALSState(*parts, self.mean_, np.inf), data)
        below = way_down(algorithm, data, state, products)
        if below is None or not below.loss < (1 - at_least) * self.loss_:
            return False
        self._go_on(algorithm, data, below, MaxSteps(self.max_iter), before=self.trace_)
        return True

    def _go_on(
        self, algorithm: ALSAlgorithm, data: Any, state: ALSState, stop, before: Trace | None = None
    ) -> None:
        """Sweep from a state and take over the result; `before`: the trace of the run that this continues."""
        callbacks = [Progress(type(self).__name__, total=self.max_iter)] if self.verbose else []
        rule, start = self._within_time(Settled(self.tol) | stop), algorithm.evaluate(state, data)
        with one_blas_thread():
            solution = run(algorithm, data, stop=rule, callbacks=callbacks, start=start)
        trace = solution.trace if before is None else join_traces(before, solution.trace)
        attributes = self._attributes(solution, data)
        self._conclude(data, attributes, trace, solution.stopped, len(trace) - 1)

    # --- using it ---

    def _fold(self, data: Observed, transposed: bool = False) -> Folded:
        """Factors and bias of new rows, from one least-squares problem each."""
        U, V = self._even_factors
        V, bias = (U, self.row_bias_) if transposed else (V, self.column_bias_)
        algorithm = replace(self._with(self.rank_, self._penalty, data), method="cholesky")
        zero = np.zeros((data.shape[0], self.rank_), V.dtype), np.zeros(data.shape[0], V.dtype)
        rows = data.by_row._replace(values=data.values.astype(V.dtype, copy=False))
        same_type = Observed(rows, data.by_column, data.shape)
        U, b, _ = algorithm._half(same_type.over_rows, V, bias, self.mean_, *zero)
        ratio = getattr(self, "reg_ratio_", 1.0)
        U, _ = stretch(U, V, 1 / ratio if transposed else ratio)
        return Folded(U, b, np.ones(len(U), V.dtype))

    def _fold_reg(self, counts: Array) -> Array:
        row = self.reg_ * getattr(self, "reg_ratio_", 1.0) ** 0.5
        return row * power(counts, self.weighted_reg_)

    @property
    def _even_factors(self) -> tuple[Array, Array]:
        """U and V as one λ on both sides has them."""
        return stretch(self.U_, self.V_, 1 / getattr(self, "reg_ratio_", 1.0))
