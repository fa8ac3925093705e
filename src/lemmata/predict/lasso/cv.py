"""The Lasso and the elastic net with α (and l1_ratio) chosen by cross-validation.

mse(α) = mean over folds of the mean squared error on the rows left out        α_min: its least value
α_1se: the largest α with mse(α) ≤ mse(α_min) + one standard error, the simplest model that is not clearly worse

>>> from sklearn.datasets import load_diabetes
>>> X, y = load_diabetes(return_X_y=True)
>>> model = LassoCV(cv=5).fit(X, y)
>>> bool(model.alpha_ < model.alpha_1se_), model.mse_path_.shape, model.certificate_.failed
(True, (100, 5), [])
>>> ElasticNetCV(l1_ratio=[0.5, 1.0], alphas=20, rule="1se").fit(X, y).mse_path_.shape
(2, 20, 5)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import check_cv

from lemmata.audit.predict.linear.penalised import LASSO_CV_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Statement
from lemmata.core.certification.checking import cost_of_lasso_cv
from lemmata.core.engine import run_tasks
from lemmata.core.loop import Solution, Stop, Stopped
from lemmata.core.parameters import COUNT, FRACTION, KW_ONLY, SHARE, choice, fitted, parameter
from lemmata.core.store import storable
from lemmata.core.supervised import Regressor, Supervised
from lemmata.predict.base import linear_scores, predict_linear
from lemmata.predict.lasso.algorithm import OPEN, ElasticNetAlgorithm, ElasticNetState
from lemmata.predict.lasso.estimator import describe_gap, make_regression, make_sparse
from lemmata.predict.lasso.gram import form_gram
from lemmata.predict.lasso.path import falling_alphas
from lemmata.predict.lasso.problem import Regression, prepare, row_matrix

Array = np.ndarray
# The share of P that the gap of a fold's fit may be, beside tol·‖ỹ‖², where the error is too far above the least to be chosen:
# it moves errors of a Lasso by 0.05 %, of an elastic net by 1.1 % at most (1,600 × 1,000, 100 α's; tol alone: 0.12 %)
ROUGH_SHARE = 3e-3
# an error within so many tol·‖ỹ‖² of the least one, or of one standard error above it, is found again with care
NEAR = 40.0
# The share of P that the gap may be there: it moves squared errors by 1e-5 of themselves
FOLD_SHARE = 1e-5
MOST = 2048  # columns whose Gram matrix, 32 MB, is formed for every fold at once
DIGITS = (
    1e-9  # of a column's squares: what may be lost where those of the rows left out are subtracted
)


@dataclass(frozen=True)
class Folds:
    """All rows, and which of them each fold trains on and is tested on."""

    X: Any
    y: Array
    weights: Array | None
    splits: tuple[tuple[Array, Array], ...]
    fit_intercept: bool
    factor: Array | None
    whole: Regression

    @cached_property
    def rows(self) -> Array | None:
        """√(s/W) ∘ (X − μ), (n, d), where Gram matrices of all columns are worth their memory and their products."""
        design, (n, d) = self.whole.design, self.whole.shape
        if (
            design.sparse
            or design.Q is not None
            or self.whole.fits_at_once
            or not d <= min(n, MOST)
        ):
            return None
        return np.ascontiguousarray(design.take(np.arange(d)).T)

    @cached_property
    def gram(self) -> Array | None:
        """rᵀr of all rows."""
        return None if self.rows is None else form_gram(self.rows)

    def gram_without(self, fold: Regression, train: Array) -> Array | None:
        """X̃ᵀX̃ of a fold: that of all rows, less that of the rows that it leaves out; None where digits are lost.

        τ X̃ᵀX̃ = Σ_all rrᵀ − Σ_out rrᵀ − mmᵀ/τ,   r_i = √(s_i/W)(x_i − μ),   m = Σ_out √(s_i/W) r_i,   τ: the fold's share of W
        """
        out = np.ones(len(self.y), bool)
        out[train] = False
        if self.rows is None or self.gram is None or len(train) + out.sum() != len(out):
            return None
        rows, scale = self.rows[out], np.broadcast_to(self.whole.design.scale, len(out))
        G, share = form_gram(rows), float(scale[train] @ scale[train])
        np.subtract(self.gram, G, out=G)
        if self.fit_intercept:
            m = scale[out] @ rows
            G -= np.multiply.outer(m / share, m)
        G /= share
        lost = np.abs(G.diagonal() - fold.design.norms**2) > DIGITS * G.diagonal()
        return None if (lost & fold.usable).any() else G

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    def fingerprint(self) -> str:
        return self.whole.fingerprint()


@storable
@dataclass(frozen=True)
class CVState:
    """The errors of the folds, NaN before they are known, and the fit of all rows, once it has begun."""

    version = 1
    layout: ClassVar = {"errors": "l a f any", "spread": ""}

    errors: Array  # (l1_ratios, alphas, folds)
    spread: float  # the mean square of y about its mean: the error of the null model
    fit: ElasticNetState | None


@dataclass(frozen=True)
class ElasticNetCVAlgorithm:
    """First the paths of all folds, side by side; then the chosen α on all rows."""

    draws: ClassVar = False
    hint: ClassVar = "scale the columns of X"

    grids: tuple[tuple[float, ...], ...]  # falling α's for each ρ
    ratios: tuple[float, ...]
    rule: str = "min"
    positive: bool = False
    tol: float = 1e-4
    max_iter: int = 1000

    @property
    def sizes(self) -> dict[str, int]:
        return {"l": len(self.ratios), "a": len(self.grids[0])}

    def init(self, data: Folds, rng: Any) -> CVState:
        shape = (len(self.ratios), len(self.grids[0]), len(data.splits))
        yy = float(np.einsum("ij,ij->", data.whole.Y, data.whole.Y))
        return CVState(np.full(shape, np.nan), yy, None)

    def step(self, state: CVState, data: Folds) -> CVState:
        if np.isnan(state.errors).any():
            return replace(state, errors=self._errors(state, data))
        final = self.refit(state)
        begun = final.init(data.whole, None) if state.fit is None else state.fit
        return replace(state, fit=final.step(begun, data.whole))

    def objective(self, state: CVState) -> float:
        """The cross-validated error of the α chosen; before it is known, that of the null model."""
        if np.isnan(state.errors).any():
            return state.spread
        chosen = self.choice(state)
        return float(state.errors[chosen.ratio, chosen.place].mean())

    def finished(self, state: CVState) -> bool:
        return state.fit is not None and self.refit(state).finished(state.fit)

    def extras(self, state: CVState) -> dict[str, float]:
        return {"gap": np.inf} if state.fit is None else self.refit(state).extras(state.fit)

    def attributes(self, state: CVState) -> dict[str, Any]:
        return {} if state.fit is None else self.refit(state).attributes(state.fit)

    def choice(self, state: CVState) -> ChosenPenalty:
        return choose(state.errors, self.rule)

    def refit(self, state: CVState) -> ElasticNetAlgorithm:
        """The algorithm of the last fit: the α and the ρ chosen, on all rows."""
        chosen = self.choice(state)
        return self._path(chosen.ratio, (self.grids[chosen.ratio][chosen.place],))

    def _path(self, ratio: int, alphas: tuple[float, ...]) -> ElasticNetAlgorithm:
        return ElasticNetAlgorithm(
            alphas, self.ratios[ratio], self.positive, self.tol, self.max_iter
        )

    def _errors(self, state: CVState, data: Folds) -> Array:
        """Errors of all folds: where solutions cost more than calls roughly at first, then with care where they decide."""
        errors = np.empty_like(state.errors)
        data.gram  # noqa: B018  (once, before threads ask for it)
        folds = [FoldPaths(data, *split) for split in data.splits]
        paths = [self._path(i, grid) for i, grid in enumerate(self.grids)]
        small = data.whole.fits_at_once
        first = [path.in_fold(FOLD_SHARE if small else ROUGH_SHARE) for path in paths]

        def begin(fold: int) -> None:
            errors[:, :, fold] = [folds[fold].solve(path) for path in first]

        run_tasks(begin, len(folds))
        if small:
            return errors
        near = near_choice(errors, NEAR * self.tol * state.spread)

        def refine(fold: int) -> None:
            for ratio, grid in enumerate(self.grids):
                which = np.flatnonzero(near[ratio])
                if len(which):
                    path = self._path(ratio, tuple(grid[i] for i in which)).in_fold(FOLD_SHARE)
                    errors[ratio, which, fold] = folds[fold].solve(path, ratio, which)

        run_tasks(refine, len(folds))
        return errors


class FoldPaths:
    """The paths of a fold. All ρ share its Gram matrix."""

    def __init__(self, data: Folds, train: Array, test: Array):
        self.data, self.train, self.test = data, train, test
        self.found: list[ElasticNetState] = []

    @cached_property
    def fold(self) -> Regression:
        data, train = self.data, self.train
        weights = None if data.weights is None else data.weights[train]
        fold = prepare(
            data.X[train], data.y[train], weights, fit_intercept=data.fit_intercept, factor=data.factor
        )  # fmt: skip
        fold.entered.given = data.gram_without(fold, train)
        return fold

    def solve(
        self, algorithm: ElasticNetAlgorithm, ratio: int | None = None, which: Any = None
    ) -> Array:
        """Mean squared errors on the rows left out, (alphas,); from the solutions of α's `which` of a ratio, if given."""
        state = algorithm.init(self.fold, None)
        if ratio is not None:
            begun = self.found[ratio]
            state = replace(
                state, coefs=begun.coefs[which], order=begun.order, cuts=begun.cuts, waiting=begun.waiting
            )  # fmt: skip
        while (state.done == OPEN).any():
            state = algorithm.step(state, self.fold)
        if ratio is None:
            self.found.append(state)
        coefs, intercepts = self.fold.coefficients(state.coefs, np.zeros(len(state.coefs), int))
        y, weights = self.data.y[self.test].astype(np.float64)[:, None], self.data.weights
        squares = (y - linear_scores(self.data.X[self.test], coefs, intercepts)) ** 2
        weights = None if weights is None else weights[self.test]
        return np.average(squares, axis=0, weights=weights)


def near_choice(errors: Array, margin: float) -> Array:
    """Where mean errors are within a margin of the least one, or of one standard error above it, (l1_ratios, alphas)."""
    mean = errors.mean(axis=2)
    ratio, least = np.unravel_index(int(np.argmin(mean)), mean.shape)
    folds = errors.shape[2]
    se = errors[ratio, least].std(ddof=1) / np.sqrt(folds) if folds > 1 else 0.0
    above = mean - mean[ratio, least]
    return (above <= margin) | (np.abs(above - se) <= margin)


@dataclass(frozen=True)
class ChosenPenalty:
    """Places of ρ and α in the grid: that of least error, that one standard error up, and the one that `rule` takes."""

    ratio: int
    least: int
    simplest: int
    place: int


def choose(errors: Array, rule: str) -> ChosenPenalty:
    """α_min or α_1se, from errors of shape (l1_ratios, alphas falling, folds)."""
    mean = errors.mean(axis=2)
    ratio, least = np.unravel_index(int(np.argmin(mean)), mean.shape)
    folds = errors.shape[2]
    se = errors[ratio, least].std(ddof=1) / np.sqrt(folds) if folds > 1 else 0.0
    # α falls: the first is largest
    simplest = int(np.argmax(mean[ratio] <= mean[ratio, least] + se))
    return ChosenPenalty(
        int(ratio), int(least), simplest, simplest if rule == "1se" else int(least)
    )


class AllDone(Stop):
    """The last fit is solved, or has used up its sweeps."""

    def reason(self, solution):
        fit = solution.state.fit
        return None if fit is None or (fit.done == OPEN).any() else Stopped.MAX_STEPS


class ChosenByFolds(Supervised):
    """Base of LassoCV and ElasticNetCV: paths of all folds, then the fit at the α with the least error."""

    _: KW_ONLY
    eps: float = parameter(1e-3, FRACTION).doc("The last α of a grid over its first.")
    alphas: Any = parameter(100, COUNT, "array-like").doc("How many α's, or which.")
    fit_intercept: bool = common.fit_intercept()
    precompute: Any = parameter("auto", choice("auto"), "array-like", "boolean").doc("""
        Has no effect: Gram matrices of entered columns are always formed.""")
    max_iter: int = common.max_iter(1000).doc("Sweeps for each α.")
    tol: float = common.tol(1e-4).doc("""
        The duality gap to reach, relative to the mean square of the centred y; and at most 2.5e-7
        of the objective. In the folds 3e-3 of the objective, and 1e-5 at each α whose error is near
        the least one.""")
    copy_X: bool = common.copy_X()
    cv: Any = parameter(None, "cv_object").doc("""
        The folds, as scikit-learn's check_cv reads them; None: five.""")
    verbose: int = common.verbose()
    n_jobs: Any = common.n_jobs()
    positive: bool = parameter(False, "boolean").doc("Allow only w ≥ 0.")
    random_state: Any = common.random_state().doc("Has no effect: nothing is drawn.")
    selection: str = parameter("cyclic", choice("cyclic", "random")).doc("""
        Has no effect: sweeps are cyclic.""")
    penalty_factor: Any = parameter(None, "array-like", None).doc("""
        p (n_features,), a factor of both penalties for each feature; 0: this feature bears none.
        """)
    rule: str = parameter("min", choice("min", "1se")).doc("Which α the model is fitted with.")
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    stored: ClassVar[dict[str, str | type]] = {
        "coef_": "d",
        "intercept_ dual_gap_": "",
        "alpha_ alpha_min_ alpha_1se_": ">=0",
        "alphas_": "a >=0 | l a >=0",
        "mse_path_": "a f >=0 | l a f >=0",
    }
    claims: ClassVar[tuple[Statement, ...]] = LASSO_CV_CLAIMS
    work = staticmethod(cost_of_lasso_cv)
    min_samples = 2
    accepts_sparse = True
    finds_nonfinite = True  # Design.of does
    coef_: Array = fitted()
    intercept_: Any = fitted()
    l1_ratio: Any = fitted()

    predict = predict_linear
    sparse_coef_ = property(make_sparse)
    _describe_unsettled = describe_gap

    def _stop(self) -> Stop:
        return self._within_time(AllDone())

    def _fit_blocks(self, data: Blocks) -> None:
        whole = make_regression(self, data)
        X, y = row_matrix(data), np.asarray(data.targets)
        splits = tuple(check_cv(self.cv).split(X, y))
        folds = Folds(X, y, data.weights, splits, self.fit_intercept, whole.factor, whole)
        self._fit_by(self._algorithm_for(whole), data, folds)

    def _algorithm_for(self, whole: Regression) -> ElasticNetCVAlgorithm:
        ratios = tuple(float(r) for r in np.atleast_1d(self.l1_ratio))
        if not all(0 <= r <= 1 for r in ratios):
            raise ValueError(
                f"l1_ratio={self.l1_ratio!r} is not accepted; pass numbers from 0 to 1."
            )
        grids = tuple(
            tuple(falling_alphas(whole, self.alphas, self.eps, r, self.positive).tolist())
            for r in ratios
        )
        return ElasticNetCVAlgorithm(
            grids, ratios, self.rule, bool(self.positive), float(self.tol), int(self.max_iter)
        )

    def _attributes(self, solution: Solution, problem: Folds) -> dict[str, Any]:
        algorithm, state = solution.algorithm, solution.state
        if state.fit is None:
            raise TimeoutError(
                f"{type(self).__name__} ran out of time_limit={self.time_limit} s before the folds were done; raise it."
            )
        chosen, found = algorithm.choice(state), solution.attributes
        coefs, intercepts = problem.whole.coefficients(found["coefs"], np.zeros(1, int))
        dtype, grid = problem.whole.data.dtype, algorithm.grids[chosen.ratio]  # type: ignore[union-attr]
        grids = np.array(algorithm.grids)
        one_grid = len(grids) == 1 or not isinstance(self.alphas, Integral)
        return {
            "coef_": coefs[0].astype(dtype),
            "intercept_": dtype.type(intercepts[0]) if self.fit_intercept else 0.0,
            "dual_gap_": float(found["gaps"][0]),
            "alpha_": float(dtype.type(grid[chosen.place])),  # the number in alphas_, to the bit
            "alpha_min_": float(dtype.type(grid[chosen.least])),
            "alpha_1se_": float(dtype.type(grid[chosen.simplest])),
            "alphas_": (grids[0] if one_grid else grids).astype(dtype),
            "mse_path_": np.squeeze(state.errors).astype(dtype),
            "n_iter_": max(int(found["sweeps"].max()), 1),
            **({"l1_ratio_": algorithm.ratios[chosen.ratio]} if "l1_ratio_" in self.stored else {}),
        }


class ElasticNetCV(ChosenByFolds, Regressor):
    """The elastic net, its α and ρ chosen by cross-validation.

    Minimises 1/2W Σ s_i (y_i − x_iᵀw − b)² + α Σ p_j (ρ|w_j| + (1−ρ)/2 w_j²) over w and b, at the α of the least error on rows
    left out, or one standard error above it.

    Attributes
    ----------
    alpha_ : float
        The α chosen by `rule`; alpha_min_ and alpha_1se_ are those of both rules.
    l1_ratio_ : float
    coef_, intercept_, dual_gap_, n_iter_ : of the fit of all rows at alpha_
    alphas_ : (k,), or (n_l1_ratios, k)
    mse_path_ : (k, folds), or (n_l1_ratios, k, folds)
    certificate_, trace_, stopped_
    """

    _: KW_ONLY
    l1_ratio: Any = parameter(0.5, SHARE, "array-like", before="eps").doc(
        "ρ; of several the best is chosen."
    )
    copy_X: bool = common.copy_X(before="verbose")

    stored: ClassVar[dict[str, str | type]] = {**ChosenByFolds.stored, "l1_ratio_": ">=0 <=1"}


class LassoCV(ChosenByFolds, Regressor):
    """The Lasso, its α chosen by cross-validation.

    Minimises 1/2W Σ s_i (y_i − x_iᵀw − b)² + α Σ p_j |w_j| over w and b, at the α of the least error on rows left out, or one
    standard error above it.

    Attributes
    ----------
    alpha_, alpha_min_, alpha_1se_, coef_, intercept_, dual_gap_, n_iter_, alphas_, mse_path_, certificate_ : as of ElasticNetCV
    """

    _: KW_ONLY
    verbose: int = common.verbose(False)

    l1_ratio = 1.0
