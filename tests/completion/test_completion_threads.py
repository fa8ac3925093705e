"""One BLAS thread, or two: the same bits, from every model with matrix products."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from lemmata import (
    ImputedSVD,
    RankOne,
    SingularValueProjection,
    SingularValueThresholding,
    SoftImpute,
)

MODELS = (
    ImputedSVD(6, random_state=0),
    RankOne(random_state=0),
    SingularValueProjection(6, max_iter=4, tol=0, random_state=0),
    SingularValueThresholding(max_iter=4, tol=0, random_state=0),
    SoftImpute(1.0, max_iter=6, tol=0, random_state=0),
)


def matrix(share, tall):
    rng = np.random.default_rng(0)
    n, m = (3000, 300) if tall else (700, 400)
    X = rng.normal(size=(n, 12)) @ rng.normal(size=(12, m)) + rng.normal(size=(n, m))
    return np.where(rng.random(X.shape) < share, X, np.nan)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_the_bits_do_not_follow_the_threads_of_blas(model, share):
    # products with single vectors are shared out from this size on
    X, found = matrix(share, tall=isinstance(model, RankOne)), []
    for threads in (1, 2):
        with threadpool_limits(limits=threads, user_api="blas"):
            model.fit(X)
        found.append(model.U_.tobytes() + model.V_.tobytes() + model.row_bias_.tobytes())
    assert found[0] == found[1]
