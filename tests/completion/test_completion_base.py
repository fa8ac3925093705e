"""What all completion models inherit, on models that centre in different ways."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_regressor
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from lemmata import RankOne
from lemmata.completion import (
    ALS,
    ImputedSVD,
    MeanRatings,
    Observed,
    Pairs,
    SGDFactorization,
    SingularValueProjection,
    SingularValueThresholding,
    SoftImpute,
)
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
    from lemmata import MeanRatings
    from lemmata.completion import Observed

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


# --- long frames ------------------------------------------------------------------------------------------------------

MODELS = [
    ALS(rank=2, max_iter=5),
    SGDFactorization(2, max_iter=2),
    MeanRatings(),
    RankOne(max_iter=5),
    ImputedSVD(2),
    SoftImpute(max_iter=5),
    SingularValueProjection(2, max_iter=5),
    SingularValueThresholding(max_iter=5),
]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    i, j = np.nonzero(rng.random((25, 15)) < 0.5)
    stars = 3 + rng.normal(size=25)[i] + rng.normal(size=15)[j]
    names = np.array([f"user {k:02}" for k in range(25)])
    order = rng.permutation(len(i))
    table = pd.DataFrame(
        {
            "userId": names[i],
            "movieId": 100 + j,
            "rating": stars,
            "timestamp": rng.integers(0, 99, len(i)),
        }
    )
    return table.iloc[order]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_frame_with_one_rating_per_line_goes_straight_into_every_model(model, frame):
    model = (
        clone(model).set_params(random_state=0) if hasattr(model, "random_state") else clone(model)
    )
    train, test = frame.iloc[:-20], frame.iloc[-20:]
    model.fit(train)
    expected = clone(model).fit(Observed.from_frame(train))
    np.testing.assert_array_equal(model.U_, expected.U_)
    predicted = model.predict(test[["movieId", "userId"]], unknown="baseline")
    assert predicted.shape == (20,)
    np.testing.assert_array_equal(
        predicted, expected.predict(test["userId"], test["movieId"], unknown="baseline")
    )
    errors = test["rating"].to_numpy() - predicted
    score = model.score(test, unknown="baseline")
    assert score == pytest.approx(-np.sqrt(np.mean(errors**2)), rel=1e-5)
    certificate = model.certify(train, test, unknown="baseline")
    assert not certificate.broken
    assert certificate["ranks_above_popularity"].verdict != "not checked"


def test_unknown_takes_two_words(frame):
    model = MeanRatings().fit(frame)
    for ask in (model.score, lambda X, **options: model.certify(X, X, **options)):
        with pytest.raises(ValueError, match="unknown='guess' is not accepted"):
            ask(frame, unknown="guess")
    with pytest.raises(TypeError, match="no row weights"):
        model.certify(frame, sample_weight=np.ones(25))


def test_what_is_held_out_ranks_beside_popularity_only_where_it_is_given(frame):
    train, test = Observed.from_frame(frame).split(0.2, seed=0)
    model = MeanRatings().fit(train)
    assert "ranks_above_popularity" not in [one.name for one in model.certify(train)]
    found = model.certify(train, test)["ranks_above_popularity"]
    assert found.kind == "statistical"
    assert "of popularity" in found.note
    again = model.certify(train, train)
    assert again["entries_unseen"].verdict == "fails"
    assert (
        again["ranks_above_popularity"].verdict == again["held_out_error"].verdict == "can't tell"
    )
    assert "trained on" in again["held_out_error"].note
    assert model.certify(train, test)["entries_unseen"].verdict == "holds"


# --- what comes through the door --------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [5e-324, 1e-160])
def test_numbers_too_small_to_square_are_refused_at_the_door(factor):
    with pytest.raises(ValueError, match="vanish in float64; multiply"):
        MeanRatings().fit(np.array([[1.0, np.nan], [2.0, 3.0]]) * factor)
    MeanRatings().fit(np.zeros((2, 2)))  # zeros are no small numbers


def test_models_refuse_a_malformed_sparse_matrix_and_pass_over_padding():
    X = sp.csr_array(np.array([[1.0, 0, 2], [0, 3, 0]]))
    X.indices[1] = 7
    with pytest.raises(ValueError, match="index 7 is not within"):
        MeanRatings().fit(X)
    padded = sp.bsr_array(np.array([[5.0, 0], [0, 4]]), blocksize=(2, 2))
    assert MeanRatings().fit(padded).observed_.n_observed == 2


def test_pandas_na_is_an_unknown_entry_of_a_wide_frame():
    wide = pd.DataFrame({"x": pd.array([5, pd.NA], "Int64"), "y": [pd.NA, 3.0]}, dtype=object)
    model = MeanRatings().fit(wide)
    assert model.observed_.n_observed == 2
    assert model.feature_names_in_.tolist() == ["x", "y"]


# --- pairs ------------------------------------------------------------------------------------------------------------


def rated_pairs(seed=0, labels=False):
    rng = np.random.default_rng(seed)
    X = np.argwhere(rng.random((40, 30)) < 0.4)
    U, V = rng.normal(size=(40, 2)), rng.normal(size=(30, 2))
    y = 3 + np.einsum("ek,ek->e", U[X[:, 0]], V[X[:, 1]]) + 0.1 * rng.normal(size=len(X))
    if labels:
        X = np.array([[f"u{i}", f"f{j}"] for i, j in X], dtype=object)
    return X, y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("labels", [False, True])
def test_pairs_are_the_model_itself(labels):
    X, y = rated_pairs(labels=labels)
    model = Pairs(ALS(rank=2, reg=0.01, random_state=0)).fit(X, y)
    direct = ALS(rank=2, reg=0.01, random_state=0).fit(Observed.from_labels(X[:, 0], X[:, 1], y))
    np.testing.assert_array_equal(model.predict(X), direct.predict(X[:, 0], X[:, 1]))
    assert model.score(X, y) > 0.9  # R²
    assert not hasattr(model.model, "U_")  # what was given is not fitted
    stranger = np.array([["nobody", X[0, 1]]], dtype=object) if labels else [[999, X[0, 1]]]
    assert model.predict(stranger)[0] == pytest.approx(
        float(direct.mean_ + direct.column_bias_[direct._positions(X[0, 1], "column", "error")])
    )
    with pytest.raises(ValueError, match=r"not in the data|outside 0"):
        Pairs(ALS(rank=2), unknown="error").fit(X, y).predict(stranger)


def test_a_grid_search_over_pairs_finds_the_rank():
    X, y = rated_pairs()
    search = GridSearchCV(
        Pairs(ALS(reg=0.05, random_state=0)),
        {"model__rank": [1, 2]},
        cv=3,
        scoring="neg_root_mean_squared_error",
        n_jobs=2,
    )
    search.fit(X, y)
    assert search.best_params_ == {"model__rank": 2}
    assert search.best_estimator_.model_.U_.shape[1] == 2
    scores = cross_val_score(Pairs(MeanRatings()), X, y, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()


def test_pairs_keep_the_rules_of_scikit_learn_that_make_sense_for_labels():
    """check_estimator passes features of any number, so nearly all of it skips pairs: its rules one by one instead."""
    X, y = rated_pairs()
    X_before, y_before = X.copy(), y.copy()
    model = Pairs(ALS(rank=2, reg=0.05, random_state=0))
    parameters = str(model.get_params())
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert model.fit(X, y) is model
    assert str(model.get_params()) == parameters  # fit changes no parameter
    np.testing.assert_array_equal(X, X_before)  # and none of its input
    np.testing.assert_array_equal(y, y_before)
    first, fitted = model.predict(X), dict(vars(model))
    assert dict(vars(model)) == fitted  # predict changes nothing
    np.testing.assert_array_equal(model.fit(X, y).predict(X), first)  # twice is once
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(model.predict(X[order]), first[order])
    np.testing.assert_array_equal([model.predict(X[t : t + 1])[0] for t in range(9)], first[:9])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), first)
    np.testing.assert_array_equal(model.predict(X.tolist()), first)
    np.testing.assert_array_equal(model.predict(np.asfortranarray(X)), first)
    np.testing.assert_array_equal(model.predict(X.astype(float)), first)  # ids that became floats
    with pytest.warns(DataConversionWarning):
        model.fit(X, y[:, None])
    assert is_regressor(model)


def test_pairs_say_what_they_take(frame):
    X, y = rated_pairs()
    assert clone(Pairs(ALS(rank=3))).get_params()["model__rank"] == 3
    assert type(Pairs().fit(X, y).model_) is ALS
    by_name = Pairs(MeanRatings()).fit(frame[["rating", "movieId", "userId"]], frame["rating"])
    assert by_name.predict(frame).shape == (len(frame),)
    for model, X_, y_, message in (
        (Pairs(ALS()), X[:, :1], y, "two columns, the user and the item"),
        (Pairs(ALS()), X, y[:-1], "one rating for each"),
        (Pairs(ALS()), np.where(X > 3, np.nan, X), y, "contains NaN"),
        (Pairs(ALS()), X, None, "requires y to be passed"),
        (Pairs(ALS(feedback="implicit")), X, y, "implicit feedback"),
        (Pairs(ALS(), duplicates="first"), X, y, "pass one of error, last, mean"),
        (Pairs(MeanRatings()), np.vstack([X, X[:1]]), np.append(y, 1.0), "given twice"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X_, y_)
    with pytest.raises(TypeError, match="takes a completion model"):
        Pairs(GridSearchCV).fit(X, y)
