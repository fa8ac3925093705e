"""What is compiled and what SciPy does for small data agree, fit by fit."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import lemmata
from lemmata.core import StoreError
from lemmata.core.store import read, write

X = sp.random_array((500, 1400), density=0.02, rng=np.random.default_rng(0), format="csr")
X = sp.csr_array(X * np.random.default_rng(1).exponential(size=1400))
WEIGHTS = np.arange(500) % 3 + 0.5


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weighted"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "model",
    [
        lemmata.PCA(3, random_state=0, tol=0.0),
        lemmata.PCA(3, svd_solver="randomized", iterated_power=30, random_state=0),
        lemmata.TruncatedSVD(3, n_iter=30, random_state=0),
        lemmata.TruncatedSVD(3, algorithm="arpack", random_state=0),
    ],
    ids=str,
)
def test_compiled_products_and_those_of_scipy_give_the_same_fit(model, dtype, weights):
    found = []
    for mode in ("always", "never"):
        with lemmata.config(compile=mode):
            model.fit(X.astype(dtype), sample_weight=weights)
        assert model.components_.dtype == dtype
        found.append((model.components_, model.singular_values_, model.certificate_.failed))
    (C, s, failed), (D, t, failed_too) = found
    assert_allclose(C, D, atol=2e-3 if dtype == np.float32 else 1e-6)
    assert_allclose(s, t, rtol=1e-5 if dtype == np.float32 else 1e-9)
    assert failed == failed_too


def test_a_checkpoint_with_a_forged_shape_is_refused(tmp_path):

    path = tmp_path / "run.ckpt"
    common = {"svd_solver": "arpack", "tol": 0.0, "random_state": 0, "checkpoint": path}
    with pytest.warns(Warning, match="max_iter"):
        lemmata.PCA(3, max_iter=2, **common).fit(X)
    stored = read(path, "checkpoint")
    state = stored["state"]
    write(path, "checkpoint", {**stored, "state": replace(state, T=state.T[:, :-1])})
    with pytest.raises((StoreError, ValueError)):
        lemmata.PCA(3, max_iter=50, **common).fit(X)
