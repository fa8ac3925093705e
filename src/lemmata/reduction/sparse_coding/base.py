"""Base of models that code rows by atoms: the coder that their parameters stand for, `transform` and back.

`transform` needs nothing but `components_`; NaN in a row is what is not known of it, and `inverse_transform` fills it in.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_array, check_is_fitted

from lemmata.core.blocks import Blocks
from lemmata.core.estimator import Model, RowTransformer
from lemmata.core.parameters import fitted
from lemmata.reduction.sparse_coding.coding import PENALISED, Coder, chunks

Array = np.ndarray
COUNTING = ("omp", "lars")  # methods that take a number of atoms
ALIKE = 1e-12  # 1 − |cosine| of atoms that are the same


def asked_coder(
    method: str, n_nonzero: int | None, alpha: float | None, k: int, d: int, *,
    tol: float, max_iter: int, positive: bool, usual_alpha: float = 1.0,
) -> Coder:  # fmt: skip
    """The coder that parameters stand for, with k atoms of d features; raises ValueError where they do not fit together."""
    if method == "lars" and alpha is not None:
        method = "lasso_lars"
    counts = method in COUNTING
    if n_nonzero is not None and not counts:
        raise ValueError(
            f"n_nonzero={n_nonzero} counts the atoms of 'omp' and 'lars'; {method!r} takes alpha, which makes numbers zero."
        )
    if n_nonzero is not None and n_nonzero > k:
        raise ValueError(
            f"n_nonzero={n_nonzero} atoms of {k}; pass n_nonzero <= {k}, a tenth of the {d} features as a rule."
        )
    if positive and counts:
        raise ValueError(
            f"positive_code=True is not taken by {method!r}; use 'lasso_cd', 'lasso_lars', 'fista' or 'ista'."
        )
    if n_nonzero is None:  # scikit-learn's
        n_nonzero = min(k, d) if alpha is not None else min(max(d // 10, 1), k)
    if alpha is None:
        alpha = 0.0 if counts else usual_alpha
    return Coder(method, int(n_nonzero), float(alpha), float(tol), int(max_iter), bool(positive))


def checked_atoms(D: Any, dtype: Any = None) -> Array:
    """Atoms as rows of floats; zero and repeated ones are refused."""
    D = check_array(D, dtype=[np.float64, np.float32], input_name="dictionary")
    scale = np.abs(D).max(axis=1, keepdims=True)
    if (scale == 0).any():
        j = int(scale.argmin())
        raise ValueError(f"atom {j} of the dictionary is zero: no code can use it; leave it out.")
    unit = (D / scale).astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    step = max(1, 2**22 // len(D))
    for start in range(0, len(D), step):
        cosines = np.abs(unit[start : start + step] @ unit.T)
        cosines[np.arange(len(cosines)), start + np.arange(len(cosines))] = 0
        i, j = map(int, np.unravel_index(int(cosines.argmax()), cosines.shape))
        if cosines[i, j] > 1 - ALIKE:
            raise ValueError(
                f"atoms {start + i} and {j} of the dictionary are the same up to a factor: a code could use either; "
                "leave one out."
            )
    return D if dtype is None else D.astype(dtype, copy=False)


class SparseCodes(ClassNamePrefixFeaturesOutMixin, RowTransformer, Model):
    """A model whose `components_` are atoms. A subclass says which coder `transform` uses."""

    accepts_nan = True
    stored: ClassVar[dict[str, Any]] = {"components_ loss_ n_nonzero_": "audited"}

    components_: Array = fitted()
    loss_: float = fitted()
    n_nonzero_: float = fitted()

    def _validate_rows(self, X, sample_weight=None, reset: bool = True, min_samples=None) -> Blocks:
        data = super()._validate_rows(X, sample_weight, reset, min_samples)
        if reset and isinstance(data.source, np.ndarray) and np.isnan(data.source).all():
            raise ValueError("Input X contains NaN only: no number is known; pass rows with some.")
        return data

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Any:
        """A model from a file, whose parameters have to give a coder of its atoms."""
        model: Any = super().restored(parameters, attributes)
        model._coder(*model.components_.shape)
        return model

    def _coder(self, k: int, d: int) -> Coder:
        """The coder of `transform`."""
        raise TypeError(f"{type(self).__name__} does not say how it codes.")

    @property
    def penalty_(self) -> float:
        """α of the ℓ1 penalty in what the codes of `transform` minimise; 0 where atoms are counted."""
        return self._coder(*self.components_.shape).penalty

    def _codes_of(self, data: Blocks, D: Array, coder: Coder) -> Array:
        D = D.astype(data.dtype, copy=False)
        parts = [coder.codes(X, D) for X, _ in chunks(data)]
        Z = np.concatenate(parts)
        if not self.split_sign:
            return Z
        return np.hstack([np.maximum(Z, 0), np.maximum(-Z, 0)])

    def transform(self, X) -> Array:
        """The code of every row, (n, k); with split_sign (n, 2k), its positive and its negative part."""
        check_is_fitted(self)
        data = self._validate_rows(X, reset=False)
        return self._codes_of(data, self.components_, self._coder(*self.components_.shape))

    def inverse_transform(self, X) -> Array:
        """ZD: what codes make of rows."""
        check_is_fitted(self)
        Z = check_array(X, dtype=[np.float64, np.float32], input_name="codes")
        k = len(self.components_)
        if Z.shape[1] != self._n_features_out:
            raise ValueError(
                f"codes of {Z.shape[1]} numbers for {self._n_features_out}; pass what transform returned."
            )
        if self.split_sign:
            Z = Z[:, :k] - Z[:, k:]
        return Z @ self.components_.astype(Z.dtype, copy=False)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_) * (2 if self.split_sign else 1)


__all__ = ["PENALISED", "SparseCodes", "asked_coder", "checked_atoms"]
