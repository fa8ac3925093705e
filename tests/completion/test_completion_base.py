"""What all completion models inherit, on models that centre in different ways."""

import numpy as np
import pytest

from lemmata.completion.centring import HOW
from lemmata.completion.rank_one import RankOne


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("seed", range(3))
def test_a_training_row_folded_in_has_the_offsets_of_training(how, seed):
    """b_i and s_i of a row depend on the row alone, given μ and c: a new row like an old one is centred like it."""
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((12, 9)) < 0.7, rng.normal(3.0, 2.0, (12, 9)), np.nan)
    A[:, 0], A[0] = 3.0, 2.0  # no row and no column is empty
    model = RankOne(centre=how, max_iter=20, tol=0.0, random_state=0).fit(A)
    folded = model.fold_in(A)
    np.testing.assert_allclose(folded.bias, model.row_bias_, atol=1e-9)
    np.testing.assert_allclose(folded.scale, model.row_scale_, atol=1e-12)
    across = model.fold_in(A, axis="columns")
    np.testing.assert_allclose(across.bias, model.column_bias_, atol=1e-9)
    np.testing.assert_allclose(across.scale, model.column_scale_, atol=1e-12)
