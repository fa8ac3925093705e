"""Tables of numbers >= 0 of which some may not be known: NaN in dense rows, or all but the entries of an `Observed`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.completion.observed import Observed
from lemmata.core.blocks import MAX_ROWS, Blocks
from lemmata.core.validation import check_weights, refuse_large
from lemmata.text.documents import ModelOfCounts


class KnownBlocks(Blocks):
    """The entries of an `Observed` as row blocks in CSR, zeros stored; `source` is the Observed."""

    @classmethod
    def of_entries(cls, entries: Observed) -> KnownBlocks:
        whole = entries.csr()

        def cut() -> Iterator[Any]:
            for start in range(0, whole.shape[0], MAX_ROWS):
                yield whole[start : start + MAX_ROWS]

        n_blocks = -(-whole.shape[0] // MAX_ROWS)
        return cls(cut, entries.shape, entries.dtype, source=entries, n_blocks=n_blocks)

    def _with(self, **changed: Any) -> KnownBlocks:
        copied = KnownBlocks(
            self._cut, self.shape, self.dtype, self.weights, self.source, self.n_blocks
        )
        for name, value in changed.items():
            setattr(copied, name, value)
        return copied

    @property
    def size(self) -> int:
        return self.source.n_observed


class ModelOfParts(ModelOfCounts):
    """A model of a table as a sum of parts."""

    accepts_nan = True

    def _validate_rows(self, X, sample_weight=None, reset: bool = True, min_samples=None) -> Blocks:
        if isinstance(X, Observed):
            data: Blocks = KnownBlocks.of_entries(X)
            self._check_width(data, reset)
            if sample_weight is not None:
                data = data.weighted(check_weights(sample_weight, data.shape[0]))
            least = X.values.min(initial=0.0)
            if data.shape[0] < 1:
                raise ValueError("Found 0 sample(s) while a minimum of 1 is required.")
        else:
            data, least = super()._validate_rows(X, sample_weight, reset, min_samples), 0.0
            known = False
            for rows, _ in data:
                refuse_large(rows)
                known = known or sp.issparse(rows) or not bool(np.isnan(rows).all())
                if sp.issparse(rows) and np.isnan(rows.data).any():
                    raise ValueError(
                        "Input X contains NaN, and is sparse: pass lemmata.completion.Observed.of(X) if only stored "
                        "entries are known, or an array with NaN."
                    )
                if not sp.issparse(rows) and np.isnan(rows.min(initial=0.0)):
                    # min stops at NaN, fmin passes over it
                    least = min(least, float(np.fmin.reduce(rows, axis=None, initial=0.0)))
            if not known:
                raise ValueError(
                    "Input X contains NaN only; pass at least one value that is known."
                )
        if least < 0:
            raise ValueError(
                f"Negative values in data passed to NMF: the least is {least:g}; parts only add up, so values are >= 0."
            )
        return data
