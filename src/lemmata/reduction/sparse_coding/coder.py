"""Sparse coding with a dictionary that is given: rows as sums of a few atoms.

x ≈ zD,    with ‖z‖₀ ≤ s (OMP)    or    z = argmin ½‖x − zD‖² + α‖z‖₁ (ISTA, FISTA, LARS, coordinate descent)

>>> import numpy as np
>>> X = np.outer([1.0, 2.0], np.cos(np.pi / 8 * 3 * (np.arange(8) + 0.5)))
>>> coder = SparseCoder("dct", n_nonzero=1).fit(X)
>>> np.flatnonzero(coder.transform(X)[0])
array([3])
>>> coder.certificate_.failed
[]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.reduction.sparse_codes import (
    CODER_CLAIMS,
    PENALISED_CODER_CLAIMS,
    PLAIN_CODER_CLAIMS,
)
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.reduction_costs import cost_of_codes
from lemmata.core.loop import Never, Solution, Stop
from lemmata.core.parameters import COUNT, KW_ONLY, POSITIVE, choice, parameter
from lemmata.core.store import storable
from lemmata.reduction.sparse_coding import base
from lemmata.reduction.sparse_coding.coding import METHODS, CodeCosts, Coder, chunks
from lemmata.reduction.sparse_coding.dictionaries import NAMED, named_dictionary

Array = np.ndarray


@storable
@dataclass(frozen=True)
class SparseCodingState:
    """Costs of the codes of all rows, once they are known."""

    layout: ClassVar[dict[str, Any]] = {"costs": CodeCosts}

    costs: CodeCosts
    done: bool


@dataclass(frozen=True)
class SparseCodingAlgorithm:
    """Code every row once; nothing is learned."""

    atoms: Array  # (k, d)
    coder: Coder

    draws = False

    def init(self, data: Blocks, rng: Any) -> SparseCodingState:
        return SparseCodingState(CodeCosts(), False)

    def step(self, state: SparseCodingState, data: Blocks) -> SparseCodingState:
        costs = CodeCosts()
        for X, weights in chunks(data):
            Z = self.coder.codes(X, self.atoms)
            R = np.where(np.isnan(X), 0, X - Z @ self.atoms)
            costs = costs + CodeCosts.of(X, weights, Z, R, self.coder.penalty)
        return SparseCodingState(costs, True)

    def objective(self, state: SparseCodingState) -> float:
        return state.costs.mean_loss

    def finished(self, state: SparseCodingState) -> bool:
        return state.done

    def attributes(self, state: SparseCodingState) -> dict[str, Any]:
        costs = state.costs
        return {
            "components_": self.atoms,
            "loss_": costs.mean_loss,
            "n_nonzero_": costs.mean_nonzeros,
        }


class SparseCoder(base.SparseCodes):
    """Codes of rows over a dictionary that is given.

    Finds z with x ≈ zD for every row: with at most s atoms (OMP), or least ½‖x − zD‖² + α‖z‖₁.

    Attributes
    ----------
    components_ : (k, d)
        The dictionary, in the type of the rows.
    loss_ : float
        Mean over the rows fitted to of ½‖x − zD‖² (+ α‖z‖₁ of an ℓ1 code).
    n_nonzero_ : float
        Mean number of atoms of a code.
    certificate_, trace_, stopped_, n_iter_

    Notes
    -----
    Nothing is learned in `fit` but the certificate of these rows' codes; `transform` needs no `fit` if the dictionary is an
    array. NaN is what is not known of a row.
    """

    dictionary: Any = parameter("dct", "array-like", choice(*NAMED)).doc("""
        D: atoms as rows, of any lengths. A name is the orthonormal basis of cosines or of Haar's
        wavelets for as many features as there are. Zero and repeated atoms are refused.""")
    _: KW_ONLY
    transform_algorithm: str = parameter("omp", choice(*METHODS)).doc("""
        "omp": orthogonal matching pursuit. "ista", "fista", "lasso_cd", "lasso_lars": the ℓ1 code.
        "lars": least angle regression up to so many atoms, the ℓ1 code if alpha is given.
        "threshold": xDᵀ, shrunk by alpha.""")
    transform_n_nonzero_coefs: Any = parameter(None, COUNT, None).doc("""
        s, for "omp" and "lars". None: a tenth of the features.""")
    transform_alpha: Any = parameter(None, POSITIVE, None).doc("""
        α; 1 if None. For "omp" the squared error at which a code is good enough.""")
    split_sign: bool = parameter(False, "boolean").doc("""
        Give the positive and the negative part of codes in columns of their own.""")
    n_jobs: Any = common.n_jobs()
    positive_code: bool = parameter(False, "boolean").doc("""
        Only codes z ≥ 0; not with "omp" and "lars".""")
    transform_max_iter: int = parameter(1000, COUNT).doc("Steps or sweeps at most of an ℓ1 solver.")
    method: Any = parameter(None, choice(*METHODS), None).doc("Short for transform_algorithm.")
    n_nonzero: Any = parameter(None, COUNT, None).doc("Short for transform_n_nonzero_coefs.")
    alpha: Any = parameter(None, POSITIVE, None).doc("Short for transform_alpha.")
    tol: float = common.tol(1e-6).doc("""
        An ℓ1 code is done when its duality gap is at most this share of ½‖x‖²: no code is better by
        more.""")

    claims = CODER_CLAIMS
    work = staticmethod(cost_of_codes)
    verbose, checkpoint, time_limit = 0, None, None

    def _coder(self, k: int, d: int) -> Coder:
        return base.asked_coder(
            self.transform_algorithm if self.method is None else self.method,
            one_of(n_nonzero=self.n_nonzero, transform_n_nonzero_coefs=self.transform_n_nonzero_coefs),
            one_of(alpha=self.alpha, transform_alpha=self.transform_alpha),
            k, d, tol=self.tol, max_iter=self.transform_max_iter, positive=self.positive_code,
        )  # fmt: skip

    def _atoms(self, d: int, dtype: Any) -> Array:
        if isinstance(self.dictionary, str):
            return named_dictionary(self.dictionary, d, dtype)
        D = base.checked_atoms(self.dictionary, dtype)
        if D.shape[1] != d:
            raise ValueError(
                f"the dictionary has atoms of {D.shape[1]} features, X has {d} features; pass rows as wide as the atoms."
            )
        return D

    def _algorithm(self, data: Blocks) -> SparseCodingAlgorithm:
        atoms = self._atoms(data.shape[1], data.dtype)
        return SparseCodingAlgorithm(atoms, self._coder(*atoms.shape))

    def _stop(self) -> Stop:
        return Never()

    def _wants_to_settle(self) -> bool:
        return False

    def _attributes(self, solution: Solution, problem: Any) -> dict[str, Any]:
        return solution.attributes

    def _claims(self):
        if not hasattr(self, "components_"):
            return self.claims
        how = self._coder(*self.components_.shape).method
        if how in base.PENALISED:
            return PENALISED_CODER_CLAIMS
        return CODER_CLAIMS if how == "omp" else PLAIN_CODER_CLAIMS

    def transform(self, X, y=None) -> Array:
        """The code of every row, (n, k); with split_sign (n, 2k), its positive and its negative part."""
        if not hasattr(self, "components_") and not isinstance(self.dictionary, str):
            self._validate_params()
            D = base.checked_atoms(self.dictionary)
            validator = type(self)(self.dictionary)
            validator.n_features_in_ = D.shape[1]
            data = validator._validate_rows(X, reset=False)
            return self._codes_of(data, D, self._coder(*D.shape))
        return super().transform(X)

    def _title(self, data: Blocks | None) -> str:
        k, d = self.components_.shape
        rows = f"{data.shape[0]:,} × " if data is not None else "… × "
        how = self._coder(k, d).method
        return (
            f"SparseCoder  {rows}{d:,}, {k:,} atoms, {self.n_nonzero_:.3g} of them a row by {how}"
        )

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Any:
        model: Any = super().restored(parameters, attributes)
        d, given = model.n_features_in_, model.dictionary
        expected = (d, d) if isinstance(given, str) else np.shape(given)
        if model.components_.shape != expected:
            raise ValueError(
                f"components_ has shape {model.components_.shape}, the dictionary {expected}."
            )
        return model

    @property
    def n_components_(self) -> int:
        """The number of atoms."""
        return len(self.components_)


def one_of(**named: Any) -> Any:
    """The value that was given under one of two names."""
    given = {name: value for name, value in named.items() if value is not None}
    if len(set(given.values())) > 1:
        words = " and ".join(f"{name}={value}" for name, value in given.items())
        raise ValueError(f"{words} are two names for one thing; pass one of them.")
    return next(iter(given.values()), None)
