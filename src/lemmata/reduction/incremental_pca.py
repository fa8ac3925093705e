"""PCA of data that comes in batches: exact, whatever the batches and their order.

    n, μ, S of all rows = the sum of those of the batches                                    (Moments; CIL 1.4.3)

scikit-learn's IncrementalPCA merges truncated SVDs instead and forgets what its k components leave out of a batch, so that its
result depends on the batches; here `batch_size` decides only how many rows are worked on at once.

    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data
    >>> model = IncrementalPCA(n_components=5)
    >>> for batch in np.array_split(X, 10):
    ...     model = model.partial_fit(batch)
    >>> model.certify(X).failed
    []
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.core.certification.reduction_costs import cost_of_incremental_pca
from lemmata.core.parameters import COUNT, KW_ONLY, parameter
from lemmata.reduction.principal import PrincipalAxes

MOST_FEATURES = 20_000  # S has d² numbers: 3.2 GB at this width


class IncrementalPCA(PrincipalAxes):
    """Principal component analysis, one batch of rows after the other.

    Finds the projection of rank k that minimises E‖x − μ − P(x − μ)‖² over all rows seen so far.

    Attributes
    ----------
    components_ : (k, d)
    explained_variance_, explained_variance_ratio_, singular_values_ : (k,)
    mean_, var_ : (d,)
        Mean and variance of each feature over all rows seen; the variance over n, not n − 1.
    noise_variance_ : float
        The average variance of the directions left out.
    n_components_, n_samples_seen_, batch_size_ : int
    certificate_, trace_, stopped_, n_iter_
    """

    n_components: Any = parameter(None, COUNT, None).doc("""
        k. None keeps all that the rows seen so far can have: the smaller of their number and the
        number of features.""")
    _: KW_ONLY
    whiten: bool = parameter(False, "boolean").doc("""
        Divide the scores by their standard deviations.""")
    copy: bool = parameter(True, "boolean").doc("Has no effect: X is never written to.")
    batch_size: Any = parameter(None, COUNT, None).doc("""
        Rows that `fit` works on at once; None is 5 · n_features. The result does not depend on it.
        """)

    stored: ClassVar[dict[str, str | type]] = {**PrincipalAxes.stored, "batch_size_?": ""}
    keeps_moments_below = MOST_FEATURES
    work = staticmethod(cost_of_incremental_pca)

    # a direct solver: nothing to draw, to wait for or to resume
    random_state, verbose, checkpoint, time_limit = 0, 0, None, None

    def _algorithm(self, data: Blocks) -> Any:
        _refuse_width(data.shape[1])
        self.batch_size_ = 5 * data.shape[1] if self.batch_size is None else int(self.batch_size)
        return super()._algorithm(data)

    def _problem(self, data: Blocks):
        return super()._problem(data.recut(self.batch_size_))

    def partial_fit(self, X, y=None, check_input=True, sample_weight=None):
        """Add a batch of rows, of any size; the axes are solved for when one of them is first read.

        check_input has no effect: X is always checked.
        """
        if not sp.issparse(X) and np.ndim(X) == 2:
            _refuse_width(np.shape(X)[1])
        self._add_batch(X, sample_weight)
        return self

    @property
    def n_samples_seen_(self) -> int:
        return self.n_samples_

    @property
    def var_(self) -> np.ndarray:
        moments = self.moments_
        return (np.diagonal(moments.scatter) / moments.n).astype(self.components_.dtype)


def _refuse_width(d: int) -> None:
    if d > MOST_FEATURES:
        raise ValueError(
            f"the {d:,} × {d:,} moments of this data do not fit; IncrementalPCA takes up to {MOST_FEATURES:,} features, "
            "PCA(svd_solver='arpack') and TruncatedSVD any number."
        )
