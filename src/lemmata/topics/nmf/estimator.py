"""NMF: a matrix of numbers ≥ 0 as a sum of k parts that only add.

    minimise  ½ ‖X − WH‖²   or   Σ_ij x_ij ln(x_ij/(WH)_ij) − x_ij + (WH)_ij       over W (n, k) ≥ 0 and H (k, m) ≥ 0

Without cancellation a component can only add ink, so components become parts (CIL 3.2.6): of faces, of documents (topics), of
spectra. The factors need not be unique, and the problem is not convex: the certificate says what is known of both.

    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data
    >>> model = NMF(10, random_state=0).fit(X)
    >>> model.components_.shape, bool((model.components_ >= 0).all())
    ((10, 64), True)

Values may be missing: NaN in an array, or everything but the entries of a `lemmata.completion.Observed`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from lemmata.audit.topics.nmf.factors import NMF_CLAIMS
from lemmata.completion.data.known_parts import ModelOfParts
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_nmf
from lemmata.core.loop import MaxSteps, Settled, Stop, warn_user
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, SHARE, choice, fitted, parameter
from lemmata.topics.base import TopicModel
from lemmata.topics.nmf.batches import BatchSums, PartialFitting
from lemmata.topics.nmf.divergence import Counted, DivergenceAlgorithm
from lemmata.topics.nmf.hals import HALS
from lemmata.topics.nmf.initialisation import INITS, Start
from lemmata.topics.nmf.multiplicative import Multiplicative
from lemmata.topics.nmf.projected_als import ProjectedALS
from lemmata.topics.nmf.solving import divergence_rows, least_squares_rows
from lemmata.topics.nmf.squares import FactorPenalty, SquaresAlgorithm, Update
from lemmata.topics.nmf.table import RowPart, RowTable
from lemmata.topics.reading import rows_to_one

Array = np.ndarray
Given = tuple[Any, Any]  # W and H, or None
SOLVERS = ("auto", "hals", "cd", "mu", "projected-als")


def _validate_start(table: RowTable, both: Given) -> tuple[Array, Array]:
    (n, m), k = table.shape, table.k
    found = []
    for name, given, shape in zip("WH", both, ((n, k), (k, m)), strict=True):
        if given is None:
            raise ValueError(
                f"init='custom' starts where you say: pass {name} of shape {shape} to fit, or another init."
            )
        array = np.asarray(given)
        if array.shape != shape or array.dtype.kind not in "biuf":
            raise ValueError(
                f"{name} has shape {array.shape} and dtype {array.dtype}; init='custom' needs numbers of shape {shape}."
            )
        if not (np.isfinite(array).all() and (array >= 0).all()):
            raise ValueError(f"{name} has values below 0 or not finite; factors are >= 0.")
        found.append(array)
    return found[0], found[1].T


class NMF(PartialFitting, TopicModel, ModelOfParts):
    """Non-negative matrix factorisation.

    Minimises ½ ‖X − WH‖² (or the Kullback–Leibler divergence) over W (n, k) ≥ 0 and H (k, m) ≥ 0, plus

        m α_W (l Σ W + ½ (1 − l) ‖W‖²) + n α_H (l Σ H + ½ (1 − l) ‖H‖²).

    Attributes
    ----------
    components_ : (k, m)
        H.
    doc_topic_ : (n, k)
        W of the rows fitted to: the best one for these components, as `transform` gives it.
    reconstruction_err_ : float
        ‖X − WH‖, or √(2 D) for the divergence D; over what is known, rows weighted.
    n_components_ : int
    sums_ : BatchSums
        Statistics of the rows seen so far that determine H; `partial_fit` continues from them.
    certificate_, trace_, stopped_, n_iter_

    Notes
    -----
    Weights count rows: weight 2 is the row twice, its penalty too. Rows without any known value get W = 0.
    """

    n_components: int = parameter(10, COUNT).doc("k, at most the smaller side of X.")
    _: KW_ONLY
    init: Any = parameter(None, choice(*INITS), None).doc("""
        Where W and H start: parts of singular vectors, with zeros as they are, filled with means,
        or with small random numbers; or a random H; or `fit(X, W=…, H=…)`. None: "nndsvda", or
        "random" where values are missing.""")
    solver: str = parameter("auto", choice(*SOLVERS)).doc("""
        "hals" (also called "cd"): the best value of one co-ordinate after the other. "mu":
        multiplicative updates, the only one for the divergence. "projected-als": least squares,
        clipped at 0, after which the objective may have risen.""")
    beta_loss: str = parameter("frobenius", choice("frobenius", "kullback-leibler")).doc("""
        What is minimised.""")
    tol: float = common.tol(1e-4).doc("""
        Stop when a step changes the objective by at most this share of it; "hals", whose steps shrink
        by a constant factor, at 0.5 % of that, which is the error where scikit-learn's rule of
        the same number stops.""")
    max_iter: int = common.max_iter(200).doc("Steps at most; each updates both factors.")
    random_state: Any = common.random_state().doc("Where a random start comes from.")
    alpha_W: float = parameter(0.0, NONNEGATIVE).doc("α_W, the penalty on W.")
    alpha_H: Any = parameter("same", NONNEGATIVE, choice("same")).doc("α_H, the penalty on H.")
    l1_ratio: float = parameter(0.0, SHARE).doc("""
        l: 0 is all squares, 1 all absolute values, which make zeros.""")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = NMF_CLAIMS
    work = staticmethod(cost_of_nmf)
    stored: ClassVar[dict[str, Any]] = {
        "components_ doc_topic_? reconstruction_err_": "audited",
        "n_components_": "int >=1",
        "sums_": BatchSums,
    }

    n_components_: int = fitted()
    reconstruction_err_: float = fitted()

    # --- input ---

    def fit(self, X, y=None, sample_weight=None, *, W=None, H=None):
        """Find W and H for X, and check the claims about them.

        Parameters
        ----------
        X : array (NaN: not known), sparse matrix, np.memmap, dask array, Counts, a re-iterable of row blocks, or an
            `Observed`, of which everything but its entries is not known
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            How many times each row counts.
        W, H : arrays of shape (n, k) and (k, m)
            Where to start, with init="custom".
        """
        with self._all_or_nothing():
            self._validate_params()
            data = self._validate_rows(X, sample_weight)
            self._fit_by(self._algorithm(data, (W, H)), data)
        return self

    def fit_transform(self, X, y=None, sample_weight=None, *, W=None, H=None):
        """Fit, and return W."""
        return self.fit(X, y, sample_weight, W=W, H=H).doc_topic_

    # --- fitting ---

    @property
    def _by_divergence(self) -> bool:
        return self.beta_loss == "kullback-leibler"

    def _penalty(self, shape: tuple[float, int]) -> FactorPenalty:
        n, m = shape
        on_W, l = float(self.alpha_W), float(self.l1_ratio)
        on_H = on_W if self.alpha_H == "same" else float(self.alpha_H)
        return FactorPenalty(
            m * on_W * l, m * on_W * (1 - l), n * on_H * l, n * on_H * (1 - l)
        )  # fmt: skip

    def _stop(self) -> Stop:
        share = 0.005 if self._solver == "hals" else 1.0
        return self._within_time(Settled(share * self.tol, self.patience) | MaxSteps(self.max_iter))

    @property
    def _solver(self) -> str:
        named = {"auto": "mu" if self._by_divergence else "hals", "cd": "hals"}
        return named.get(self.solver, self.solver)

    def _problem(self, data: Blocks) -> RowTable:
        kind = Counted if self._by_divergence else RowTable
        return kind(data, int(self.n_components), min(self.max_iter, 50))

    def _algorithm(self, data: Blocks, given: Given = (None, None)) -> Any:
        n, m = data.shape
        if self.n_components > min(n, m):
            raise ValueError(
                f"n_components={self.n_components} exceeds the smaller side of a {n:,} × {m:,} matrix, which has a perfect "
                f"factorisation of that size; pass n_components <= {min(n, m)}."
            )
        return self._algorithm_for(self._problem(data), given)

    def _algorithm_for(self, table: RowTable, given: Given) -> Any:
        """The algorithm that the parameters stand for on this table; given : W and H to start from, with init="custom"."""
        solver = self._solver
        if self._by_divergence and solver != "mu":
            raise ValueError(
                f"solver={self.solver!r} minimises squares; for beta_loss='kullback-leibler' pass solver='mu' or 'auto'."
            )
        init = self._init_for(table, solver)
        start = Start(init, *(_validate_start(table, given) if init == "custom" else ()))
        penalty = self._penalty((table.data.total_weight, table.shape[1]))
        if self._by_divergence:
            return DivergenceAlgorithm(start, penalty)
        if solver == "hals":
            rows, columns = HALS(table.compiled, threads=table.sparse), HALS(table.compiled)
            return SquaresAlgorithm(start, rows, columns, penalty)
        update: Update = Multiplicative() if solver == "mu" else ProjectedALS()
        return SquaresAlgorithm(start, update, update, penalty)

    def _init_for(self, table: RowTable, solver: str) -> str:
        init = self.init or ("random" if table.holes else "nndsvda")
        if table.holes and init.startswith("nndsvd"):
            raise ValueError(
                f"init={init!r} takes singular vectors of the whole matrix, but values are missing; pass init='random' or None."
            )
        if init == "nndsvd" and solver == "mu":
            warn_user(
                "init='nndsvd' has zeros, which solver='mu' cannot leave; pass init='nndsvda', or solver='hals'.",
                UserWarning,
            )
        return init

    def _attributes(self, solution: Any, problem: RowTable) -> dict[str, Any]:
        state = solution.state
        penalty = self._penalty((problem.data.total_weight, problem.shape[1]))
        W = self._rows(problem, state.V, state.W)
        sums = BatchSums.of(problem, W, state.V, penalty)
        return {
            "components_": np.ascontiguousarray(state.V.T),
            "doc_topic_": W,
            "reconstruction_err_": self._error(problem, W, state.V, sums),
            "n_components_": problem.k,
            "sums_": sums,
        }

    def _rows(self, table: Any, V: Array, start: Array | None = None) -> Array:
        """The best W for these components."""
        penalty = self._penalty((1, table.shape[1]))  # that on W counts columns
        solve = divergence_rows if self._by_divergence else least_squares_rows
        return solve(table, V, penalty, start)

    def _error(self, table: Any, W: Array, V: Array, sums: BatchSums) -> float:
        if self._by_divergence or table.sparse:
            return float(np.sqrt(2 * sums.loss(V, FactorPenalty())))

        def work(part: RowPart) -> float:
            R = part.rows - W[part.place] @ V.T
            if part.mask is not None:
                R *= part.mask
            squares = np.einsum("ij,ij->i", R, R, dtype=np.float64)
            return float(squares.sum() if part.weights is None else squares @ part.weights)

        return float(np.sqrt(table.map(work, 0.0)))

    # --- using it ---

    def _mixtures(self, data: Blocks) -> Array:
        kind = Counted if self._by_divergence else RowTable
        table = kind(data, len(self.components_), 2)
        return self._rows(table, np.ascontiguousarray(self.components_.T, dtype=data.dtype))

    def transform(self, X) -> Array:
        """W (n, k): how much of each component every row holds, at the least error for these components."""
        return super().transform(X)

    def _shares(self, documents: Any = None) -> Array:
        """The share of a document's total that each component holds: its amount times its size."""
        return rows_to_one(super()._shares(documents) * self.components_.sum(axis=1))

    def inverse_transform(self, X) -> Array:
        """W H, (n, m): the rows that these amounts of the components add up to."""
        check_is_fitted(self)
        W = check_array(X, dtype=[np.float64, np.float32], input_name="amounts")
        if W.ndim != 2 or W.shape[1] != len(self.components_):
            raise ValueError(
                f"X of shape {W.shape} holds no amounts of {len(self.components_)} components; pass what transform gives."
            )
        return W @ self.components_
