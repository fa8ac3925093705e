"""MeanRatings: the baseline, its certificate, and Ex. 2.2."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from lemmata import MeanRatings, data
from lemmata.completion import Observed
from lemmata.completion.baselines.mean_ratings import SIDES, MeanRatingsAlgorithm
from lemmata.core import MaxSteps, Never, rounding, run


def ratings(n=60, m=40, density=0.3, seed=0, noise=0.3, dtype=np.float64):
    rng = np.random.default_rng(seed)
    A = 3 + rng.normal(size=(n, 1)) + rng.normal(size=m) + noise * rng.normal(size=(n, m))
    return Observed.of(np.where(rng.random((n, m)) < density, A, np.nan).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_without_reg_the_predictions_are_the_means_of_the_notes(dtype):
    A = ratings(dtype=dtype)
    known = A.dense()
    noise = rounding(dtype, 100)
    rows = MeanRatings("rows", reg=0).fit(A).complete(keep_known=False)
    assert_allclose(
        rows, np.broadcast_to(np.nanmean(known, axis=1)[:, None], A.shape), rtol=0, atol=10 * noise
    )
    columns = MeanRatings("columns", reg=0).fit(A).complete(keep_known=False)
    assert_allclose(
        columns, np.broadcast_to(np.nanmean(known, axis=0), A.shape), rtol=0, atol=10 * noise
    )
    assert_allclose(
        MeanRatings("global").fit(A).complete(keep_known=False), np.nanmean(known), rtol=10 * noise
    )
    assert rows.dtype == columns.dtype == dtype


@pytest.mark.parametrize("by", SIDES)
@pytest.mark.parametrize("reg", [0.0, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_no_other_offsets_are_better(by, reg, seed):
    A, rng = ratings(seed=seed), np.random.default_rng(seed)
    model = MeanRatings(by, reg=reg).fit(A)

    def objective(b, c):
        return 0.5 * np.nansum((A.dense() - model.mean_ - b[:, None] - c) ** 2) + 0.5 * reg * (
            b @ b + c @ c
        )

    b, c = model.row_bias_, model.column_bias_
    best = objective(b, c)
    assert model.trace_.last() == pytest.approx(best, rel=1e-12)
    assert model.trace_.largest_rise == 0
    for size in (1e-3, 1e-1, 1.0):
        other = [
            x + size * wanted * rng.normal(size=len(x))
            for x, wanted in zip((b, c), SIDES[by], strict=True)
        ]
        assert objective(*other) >= best * (1 - 1e-12)


@pytest.mark.parametrize("by", SIDES)
@pytest.mark.parametrize("reg", [0.0, 3.0])
def test_training_rows_folded_in_get_their_own_offsets_back(by, reg):
    A = ratings()
    model = MeanRatings(by, reg=reg).fit(A)
    for axis, own, size in (("rows", model.row_bias_, 60), ("columns", model.column_bias_, 40)):
        folded = model.fold_in(A, axis=axis)
        assert_allclose(folded.bias, own, atol=1e-10)
        assert folded.factors.shape == (size, 0)
    assert_allclose(model.predict(A), model.complete(keep_known=False), atol=1e-10)
    filled = model.transform(A.dense())
    assert_array_equal(filled[A.rows, A.columns], A.values)


def test_rows_without_entries_count_as_average():
    A = np.array([[4.0, 2.0, np.nan], [np.nan, np.nan, np.nan]])
    for reg in (0.0, 2.0):
        model = MeanRatings(reg=reg).fit(A)
        assert model.row_bias_[1] == model.column_bias_[2] == 0
        assert model.predict([1], [2]) == model.mean_ == 3
        assert_allclose(model.predict(np.full((1, 3), np.nan))[0], 3 + model.column_bias_)


def test_unknown_labels_are_refused_or_predicted_without_them():
    model = MeanRatings("columns", reg=0).fit(
        Observed.from_labels(["a", "b"], ["x", "y"], [1.0, 3.0])
    )
    with pytest.raises(ValueError, match="the row zoe is not in the data"):
        model.predict(["zoe"], ["x"])
    assert model.predict(["zoe", "zoe"], ["x", "w"], unknown="baseline").tolist() == [1.0, 2.0]


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 15), st.integers(1, 15), st.sampled_from([1e-6, 1.0, 1e6]),
    st.sampled_from(sorted(SIDES)), st.sampled_from([0.0, 1.0]), st.sampled_from([np.float32, np.float64]),
)  # fmt: skip
def test_the_offsets_of_arbitrary_entries_are_certified(seed, n, m, scale, by, reg, dtype):
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((n, m)) < 0.5, scale * (rng.normal(size=(n, m)) + 3), np.nan).astype(
        dtype
    )
    A[0, 0] = scale
    certificate = MeanRatings(by, reg=reg).fit(A).certificate_
    assert "best_offsets" in certificate.held
    assert not certificate.broken


# --- each claim holds once and fails once -----------------------------------------------------------------------------


def test_best_offsets_fails_for_means_that_are_simply_added():
    A = ratings(density=0.2)
    model = MeanRatings(reg=0).fit(A)
    assert "best_offsets" in model.certificate_.held
    known = A.dense()
    model.row_bias_ = np.nanmean(known, axis=1) - model.mean_
    model.column_bias_ = np.nanmean(known, axis=0) - model.mean_
    assert "best_offsets" in model.certify(A).failed


def test_best_offsets_fails_for_a_mean_that_is_off():
    model = MeanRatings("global").fit(A := ratings())
    assert "best_offsets" in model.certificate_.held
    model.mean_ += 0.01
    assert "best_offsets" in model.certify(A).failed


def test_an_entry_each_fails_where_a_row_or_column_is_empty():
    A = np.ones((3, 3))
    assert "an_entry_each" in MeanRatings().fit(A).certificate_.held
    A[1] = np.nan
    for by in SIDES:
        certificate = MeanRatings(by).fit(A).certificate_
        assert ("an_entry_each" in certificate.failed) == (by in ("rows", "both"))
        assert ("an_entry_each" in MeanRatings(by).fit(A.T).certificate_.failed) == (
            by in ("columns", "both")
        )


def test_beyond_noise_holds_for_a_pattern_and_fails_for_noise():
    """Noise passes a test at 99 % in 1 of 100 cases: of 100, more than 5 have probability 5e-4; a pattern always passes."""
    passed = 0
    for seed in range(100):
        noise = np.random.default_rng(seed).normal(size=(20, 15))
        passed += "beyond_noise" in MeanRatings(reg=0).fit(noise).certificate_.held
    assert passed <= 5
    for seed in range(5):
        assert "beyond_noise" in MeanRatings().fit(ratings(seed=seed)).certificate_.held


def test_beyond_noise_cannot_tell_with_as_many_offsets_as_entries():
    A = Observed.from_triplets([0, 1, 2], [0, 1, 2], [1.0, 5.0, 3.0])
    assert "beyond_noise" in MeanRatings(reg=0).fit(A).certificate_.undecided
    assert "beyond_noise" in MeanRatings("global").fit(A).certificate_.undecided


def test_connection_is_asked_for_where_rows_and_columns_meet():
    A = np.kron(np.eye(2), np.ones((3, 3)))
    A[A == 0] = np.nan
    assert "connected_observations" in MeanRatings().fit(A).certificate_.failed
    assert "connected_observations" in MeanRatings().fit(ratings()).certificate_.held
    assert "connected_observations" not in [
        claim.name for claim in MeanRatings("rows").fit(A).certificate_
    ]


def test_held_out_entries_of_a_pattern_are_predicted_and_those_of_noise_are_not():
    train, test = ratings(400, 300, noise=0.1).split(0.3, seed=0)
    model = MeanRatings().fit(train)
    assert "held_out_error" in model.certificate_.undecided
    assert "held_out_error" in model.certify(train, test).held
    noise = Observed.of(np.random.default_rng(0).normal(size=(100, 100)))
    train, test = noise.split(0.5, seed=0)
    assert "held_out_error" in MeanRatings(reg=0).fit(train).certify(train, test).failed


# --- the loop, files, real data ---------------------------------------------------------------------------------------


def test_it_is_solved_in_one_step():
    solution = run(MeanRatingsAlgorithm("both", 1.0), ratings(), stop=Never())
    assert solution.stopped == "finished"
    assert solution.step == 1
    assert (
        run(MeanRatingsAlgorithm("both", 1.0), ratings(), stop=MaxSteps(0))
        .attributes["row_bias_"]
        .any()
        is np.False_
    )


def test_numbers_beyond_floats_are_refused():
    with pytest.raises(ValueError, match="divide the data by a constant"):
        MeanRatings().fit(np.array([[1e200, -1e200], [1e200, 1.0]]))


def loaded(loader):
    try:
        return Observed.of(loader())
    except data.DataNotFound as error:
        pytest.skip(str(error))


def held_out_errors(A, seed=0):
    train, test = A.split(0.1, seed=seed)
    settings = {"global": 0, "rows": 0, "columns": 0, "both": 3.0}
    return {by: -MeanRatings(by, reg=reg).fit(train).score(test) for by, reg in settings.items()}


def test_users_tell_more_than_films_on_movielens_small():
    """Ex. 2.2: with 10 ratings per film, many of them with one, the mean of the user is the better guess."""
    errors = held_out_errors(loaded(data.movielens_small))
    assert errors["both"] < errors["rows"] < errors["columns"] < errors["global"]


def test_films_tell_more_than_users_on_movielens_1m():
    """Ex. 2.2: with 270 ratings per film its mean is the better guess, as the 'research discovery' of CIL 2.1.4 has it."""
    errors = held_out_errors(loaded(data.movielens_1m))
    assert errors["both"] < errors["columns"] < errors["rows"] < errors["global"]
    # three standard deviations over splits
    assert errors["columns"] == pytest.approx(0.978, abs=0.005)
