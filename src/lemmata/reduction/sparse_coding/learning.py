"""Dictionary learning: which atoms, a few of them at a time, make the rows?

    minimise  Σ_i w_i (½‖x_i − z_iD‖² + α‖z_i‖₁)      or with ‖z_i‖₀ ≤ s instead,      over codes z_i and atoms of unit length

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> atoms = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    >>> X = rng.normal(size=(300, 8)) * (rng.random((300, 8)) < 0.2) @ atoms
    >>> model = DictionaryLearning(8, method="ksvd", n_nonzero=2, random_state=1).fit(X)
    >>> model.certificate_["atoms_normalised"].verdict
    'holds'

K-SVD and MOD count atoms and code by OMP (ksvd.py, mod.py); online learning has a penalty and ℓ1 codes (online.py).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.reduction.dictionaries import (
    COUNTED_CLAIMS,
    MORE_CLAIMS,
    PENALISED_CLAIMS,
    PLAIN_CLAIMS,
)
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.reduction_costs import cost_of_dictionary
from lemmata.core.engine import worth_compiling
from lemmata.core.loop import Solution, Stop, Stopped
from lemmata.core.parameters import COUNT, KW_ONLY, POSITIVE, choice, fitted, parameter
from lemmata.core.runs.trace import Trace
from lemmata.reduction.sparse_coding import base, coding
from lemmata.reduction.sparse_coding.ksvd import KSVDAlgorithm
from lemmata.reduction.sparse_coding.mod import MODAlgorithm
from lemmata.reduction.sparse_coding.online import OnlineAtomsAlgorithm, Passes, improve

Array = np.ndarray
COMPILE_ABOVE = 2**29  # multiplications of all passes, in NumPy: about a second
SWEEPS = 5  # over the atoms for every batch of partial_fit
FIT_CODERS = {"cd": "lasso_cd", "lars": "lasso_lars"}  # scikit-learn's words


class DictionaryLearning(base.SparseCodes):
    """A dictionary whose atoms make the rows, a few at a time.

    Minimises Σ_i w_i (½‖x_i − z_iD‖² + α‖z_i‖₁), or ½ Σ_i w_i ‖x_i − z_iD‖² with ‖z_i‖₀ ≤ s, over codes z_i and unit atoms D.

    Attributes
    ----------
    components_ : (k, d)
        D.
    loss_ : float
        Mean objective of the rows fitted to, with the codes of `transform`.
    n_nonzero_ : float
        Mean number of atoms of those codes.
    sums_ : AtomSums
        A = Σ w zzᵀ and B = Σ w zᵀx of all rows seen; `partial_fit` continues from them, and they add up.
    certificate_, trace_, stopped_, n_iter_

    Notes
    -----
    NaN is what is not known of a row: it is filled in by the code at hand when atoms are learned, and left out of all errors.
    Rows are not centred. Rows are held in memory (files are mapped); data that comes in parts goes to `partial_fit`.
    """

    n_components: Any = parameter(None, COUNT, None).doc("""
        k, the number of atoms; None: as many as features.""")
    _: KW_ONLY
    method: str = parameter("online", choice("online", "ksvd", "mod")).doc("""
        "online": batches of rows, ℓ1 codes, one sweep over the atoms a batch. "ksvd": OMP codes,
        atoms one by one with their numbers; the objective never rises. "mod": OMP codes, all atoms
        by least squares.""")
    alpha: float = parameter(1.0, POSITIVE).doc('α, the penalty of "online".')
    n_nonzero: Any = parameter(None, COUNT, None).doc("""
        s, the atoms of a code in "ksvd" and "mod"; None: a tenth of the features.""")
    max_iter: int = common.max_iter(100).doc("Passes over the rows.")
    tol: float = common.tol(1e-4).doc("""
        Stop when a pass changes the mean objective by at most this share of it.""")
    fit_algorithm: str = parameter("cd", choice(*FIT_CODERS)).doc("""
        How "online" finds its ℓ1 codes: coordinate descent, or scikit-learn's LARS.""")
    batch_size: int = parameter(256, COUNT).doc('Rows of a batch of "online".')
    shuffle: bool = parameter(True, "boolean").doc("""
        Whether every pass of "online" has an order of its own.""")
    dict_init: Any = parameter(None, "array-like", None).doc("""
        Where the atoms (k, d) start; by default at rows, drawn at random.""")
    transform_algorithm: Any = parameter(None, choice(*coding.METHODS), None).doc("""
        How `transform` codes, as in `SparseCoder`. None: as the fit does.""")
    transform_n_nonzero_coefs: Any = parameter(None, COUNT, None).doc("""
        The most atoms of that code; None: as in the fit.""")
    transform_alpha: Any = parameter(None, POSITIVE, None).doc("""
        The ℓ1 penalty of that code; None: as in the fit.""")
    transform_max_iter: int = parameter(1000, COUNT).doc("Steps or sweeps of an ℓ1 code at most.")
    n_jobs: Any = common.n_jobs()
    split_sign: bool = parameter(False, "boolean").doc("""
        `transform` gives positive and negative parts of codes in columns of their own.""")
    positive_code: bool = parameter(False, "boolean").doc('Only codes z ≥ 0; with "online".')
    random_state: Any = common.random_state().doc("""
        Which rows the atoms start at, and the order of batches.""")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = PENALISED_CLAIMS
    work = staticmethod(cost_of_dictionary)
    stored: ClassVar[dict[str, Any]] = {**base.SparseCodes.stored, "sums_": coding.AtomSums}

    sums_: coding.AtomSums = fitted()

    # --- codes ---

    def _fit_coder(self, k: int, d: int) -> coding.Coder:
        """The coder of the fit."""
        online = self.method == "online"
        return base.asked_coder(
            FIT_CODERS[self.fit_algorithm] if online else "omp",
            self.n_nonzero,
            self.alpha if online else None,
            k, d, tol=1e-4 if online else 1e-6, max_iter=1000, positive=self.positive_code,
        )  # fmt: skip

    def _coder(self, k: int, d: int) -> coding.Coder:
        if self.transform_algorithm is None:
            own = self._fit_coder(k, d)
            method = own.method
            n_nonzero = own.n_nonzero if method == "omp" else None
        else:
            method, n_nonzero = self.transform_algorithm, None
        if self.transform_n_nonzero_coefs is not None:
            n_nonzero = self.transform_n_nonzero_coefs
        return base.asked_coder(
            method, n_nonzero, self.transform_alpha, k, d, tol=1e-6,
            max_iter=self.transform_max_iter, positive=self.positive_code, usual_alpha=self.alpha,
        )  # fmt: skip

    # --- fitting ---

    def _resolve_components(self, n: int, d: int) -> int:
        k = d if self.n_components is None else int(self.n_components)
        if k > n:
            raise ValueError(
                f"n_components={k} atoms for {n} rows: every row could be an atom of its own; pass n_components <= {n}."
            )
        return k

    def _start(self, k: int, d: int) -> Array | None:
        if self.dict_init is None:
            return None
        D = base.checked_atoms(self.dict_init)
        if D.shape != (k, d):
            raise ValueError(f"dict_init has shape {D.shape}; pass {k} atoms of {d} features.")
        return D

    def _algorithm(self, data: Blocks) -> Any:
        (n, d) = data.shape
        k = self._resolve_components(n, d)
        coder, start = self._fit_coder(k, d), self._start(k, d)
        self._coder(k, d)  # refuse parameters that do not fit together before the work
        if self.method == "ksvd":
            return KSVDAlgorithm(k, coder, start)
        if self.method == "mod":
            return MODAlgorithm(k, coder, start)
        return OnlineAtomsAlgorithm(
            k, coder, min(int(self.batch_size), n), bool(self.shuffle), start
        )

    def _problem(self, data: Blocks) -> coding.TrainingRows:
        (n, d) = data.shape
        k = self._resolve_components(n, d)
        work = self._fit_coder(k, d).work(n, d, k) * min(self.max_iter, 20)
        return coding.TrainingRows.of(data, worth_compiling(work, above=COMPILE_ABOVE))

    def _stop(self) -> Stop:
        if self.method != "online":
            return super()._stop()
        return self._within_time(Passes(int(self.max_iter), float(self.tol)))

    def _attributes(self, solution: Solution, problem: coding.TrainingRows) -> dict[str, Any]:
        D = solution.state.D
        own, shown = self._fit_coder(*D.shape), self._coder(*D.shape)
        sums = solution.attributes.get("sums_")
        if sums is None or own.method == "omp":
            sums = problem.sums(D, own)
        same = own.method == shown.method == "omp" and own == shown
        costs = sums.costs if same else self._costs(problem, D, shown)
        return self._attributes_of(D, sums, costs)

    def _costs(self, data: coding.TrainingRows, D: Array, coder: coding.Coder) -> coding.CodeCosts:
        total = coding.CodeCosts()
        for X, weights in coding.chunks(Blocks.of(np.asarray(data.X), data.weights)):
            Z = coder.codes(X, D)
            R = np.where(np.isnan(X), 0, X - Z @ D)
            total = total + coding.CodeCosts.of(X, weights, Z, R, coder.penalty)
        return total

    @staticmethod
    def _attributes_of(D: Array, sums: coding.AtomSums, costs: coding.CodeCosts) -> dict[str, Any]:
        return {
            "components_": D, "sums_": sums, "loss_": costs.mean_loss, "n_nonzero_": costs.mean_nonzeros,
        }  # fmt: skip

    def _conclude(self, data: Any, attributes: Any, trace: Any, stopped: Any, steps: int) -> None:
        passes = steps
        if self.method == "online" and stopped != Stopped.BATCHES:
            n = data.shape[0]
            passes = math.ceil(steps / -(-n // min(int(self.batch_size), n)))
        super()._conclude(data, attributes, trace, stopped, passes)

    def partial_fit(self, X, y=None, sample_weight=None):
        """Code a batch with the current atoms, add its statistics to `sums_`, and improve the atoms by a few sweeps.

        Nothing fades: A and B are sums over all rows ever seen, each coded at its time. The first batch also says where the
        atoms start, so it needs n_components rows at least. `loss_` and `n_nonzero_` are those of the last batch.
        """
        self._validate_params()
        first = not hasattr(self, "components_")
        with self._all_or_nothing():
            data = self._validate_rows(X, sample_weight, reset=first)
            if first:
                k = self._resolve_components(*data.shape)
                rows = coding.TrainingRows.of(data, False)
                rng = np.random.default_rng(self._rng())
                D = coding.starting_atoms(rows, k, self._start(k, data.shape[1]), rng)
                past = coding.AtomSums.none(D)
            else:
                D, past = self.components_, self.sums_
                rows = coding.TrainingRows.of(data, False)
                rows = coding.TrainingRows(rows.X.astype(D.dtype, copy=False), rows.weights, False)
            coder = self._fit_coder(*D.shape)
            work = coder.work(len(rows.X), rows.shape[1], len(D))
            rows = coding.TrainingRows(
                rows.X, rows.weights, worth_compiling(work, above=COMPILE_ABOVE / 8)
            )
            batch = rows.sums(D, coder)
            D, past = improve(D, past + batch, batch, rows.compiled, SWEEPS)
            costs = self._costs(rows, D, self._coder(*D.shape))
            batches = self.n_iter_ if not first and self.stopped_ == Stopped.BATCHES else 0
            trace = Trace()
            trace.append(costs.mean_loss, 0.0)
            shown = self._attributes_of(D, past, costs)
            self._conclude(None, shown, trace, Stopped.BATCHES, batches + 1)
        return self

    # --- certificate ---

    def _claims(self):
        if not hasattr(self, "components_"):
            return self.claims
        how = self._coder(*self.components_.shape).method
        if how == "omp":
            return COUNTED_CLAIMS
        return PENALISED_CLAIMS if how in base.PENALISED else PLAIN_CLAIMS

    def _certificate(self, data: Any, y=None, *, in_fit: bool = False, **options: Any) -> Any:
        """`certify` also checks what is too expensive, or of too little use, for every fit."""
        claims = self._claims() + (() if in_fit else MORE_CLAIMS)
        return super()._certificate(data, y, in_fit=in_fit, claims=claims, **options)

    def _title(self, data: Blocks | None) -> str:
        k, d = self.components_.shape
        rows = f"{data.shape[0]:,} × " if data is not None else "… × "
        return f"DictionaryLearning  {rows}{d:,}, {k:,} atoms by {self.method}, {self.n_nonzero_:.3g} a row"
