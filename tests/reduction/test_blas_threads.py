"""One thread of BLAS equals two, to the bit, in every model that reduces."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_limits

from lemmata import PCA, IncrementalPCA, KernelPCA, LinearAutoencoder, TruncatedSVD

ROWS = np.random.default_rng(0).standard_normal((900, 300))
WIDE = np.random.default_rng(1).standard_normal((150, 400))
SPARSE = sp.random_array((2000, 1500), density=0.02, rng=np.random.default_rng(2), format="csr")


@pytest.mark.parametrize(
    ("model", "X"),
    [
        (PCA(5), ROWS),
        (PCA(), ROWS),
        (PCA(5), WIDE),
        (PCA(5, svd_solver="arpack", random_state=0), ROWS),
        (PCA(5, svd_solver="randomized", random_state=0), ROWS),
        (PCA(5, random_state=0), SPARSE),
        (IncrementalPCA(5), ROWS),
        (TruncatedSVD(5, random_state=0), ROWS),
        (TruncatedSVD(5, algorithm="arpack", random_state=0), SPARSE),
        (KernelPCA(5, kernel="rbf", gamma=1e-3, eigen_solver="dense"), ROWS),
        (KernelPCA(5, kernel="rbf", gamma=1e-3, random_state=0), ROWS),
        (KernelPCA(5, kernel="poly", fit_inverse_transform=True), WIDE),
        (LinearAutoencoder(3, method="closed"), ROWS),
        (LinearAutoencoder(3, max_iter=5, tol=0, random_state=0), ROWS),
        (LinearAutoencoder(3, method="sgd", max_iter=2, tol=0, random_state=0), ROWS),
    ],
    ids=lambda part: str(part) if hasattr(part, "fit") else "",
)
def test_bits_do_not_follow_the_threads_of_blas(model, X):
    seen = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            model.fit(X)
            Z = model.transform(X[:700])
            back = (
                model.inverse_transform(Z) if getattr(model, "fit_inverse_transform", True) else Z
            )
        claims = [(claim.name, claim.verdict, claim.measured) for claim in model.certificate_]
        state = [value for value in vars(model).values() if isinstance(value, np.ndarray)]
        seen.append(([*state, np.asarray(Z), back], claims))
    (one, told), (two, told_again) = seen
    for first, second in zip(one, two, strict=True):
        assert_array_equal(first, second)
    assert str(told) == str(told_again)
