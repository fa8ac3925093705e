"""What all completion models inherit, on models that centre in different ways."""

import numpy as np
import pytest

from lemmata.completion.baselines.rank_one import RankOne
from lemmata.completion.centring import HOW


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


def test_entries_are_matched_by_their_labels_not_by_their_places():
    from lemmata.completion.baselines.mean_ratings import MeanRatings
    from lemmata.completion.observed import Observed

    users, items, values = (
        ["ann", "ann", "bob", "bob", "cid"],
        ["x", "y", "y", "z", "x"],
        [5.0, 3.0, 4.0, 1.0, 2.0],
    )
    model = MeanRatings(reg=1.0).fit(Observed.from_labels(users, items, values))
    some = Observed.from_labels(["cid", "bob"], ["x", "z"], [2.0, 1.0])  # 2 × 2, in another order
    errors = np.array([2.0, 1.0]) - model.predict(["cid", "bob"], ["x", "z"])
    assert model.score(some) == pytest.approx(-np.sqrt(np.mean(errors**2)), rel=1e-12)
    assert model.certify(some.aligned(model.observed_)).title == model.certify(some).title
    # new rows, known columns
    np.testing.assert_array_equal(
        model.predict(some.aligned(model.observed_, rows=False)), model.predict(some)
    )
    with pytest.raises(ValueError, match="zoe"):
        model.score(Observed.from_labels(["zoe"], ["x"], [1.0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_too_large_to_square_are_refused_at_the_door(dtype):
    with pytest.raises(ValueError, match="divide the data"):
        RankOne().fit(np.full((3, 3), np.sqrt(np.finfo(dtype).max), dtype=dtype))
