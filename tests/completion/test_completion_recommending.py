"""Recommending: the n best per user against plain sorting, similar items, explanations that add up to the prediction."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import lemmata
from lemmata import ALS, MeanRatings
from lemmata.completion import Observed
from lemmata.completion.base import CompletionModel
from lemmata.completion.recommending import recommend as ranking
from lemmata.completion.recommending.recommend import best


class Given(CompletionModel):
    """A model whose factors are given: what recommending needs of any model, without a fit."""

    def __init__(self, reg=0.0):
        self.reg = reg

    def _fold_reg(self, counts):
        return np.full(len(counts), float(self.reg))


def given_model(observed, U, V, *, mean=0.0, b=None, c=None, s=None, t=None, reg=0.0):
    model = Given(reg)
    n, m = observed.shape
    model.observed_, model.U_, model.V_, model.mean_ = observed, U, V, mean
    model.n_features_in_ = m
    model.row_bias_ = np.zeros(n, U.dtype) if b is None else b
    model.column_bias_ = np.zeros(m, U.dtype) if c is None else c
    model.row_scale_ = np.ones(n, U.dtype) if s is None else s
    model.column_scale_ = np.ones(m, U.dtype) if t is None else t
    return model


def random_model(rng, n=7, m=9, k=3, density=0.4, dtype=np.float64, **options):
    X = np.where(rng.random((n, m)) < density, rng.normal(size=(n, m)), np.nan).astype(dtype)
    U, V = rng.normal(size=(n, k)).astype(dtype), rng.normal(size=(m, k)).astype(dtype)
    b, c = rng.normal(size=n).astype(dtype), rng.normal(size=m).astype(dtype)
    s, t = rng.uniform(0.5, 2, n).astype(dtype), rng.uniform(0.5, 2, m).astype(dtype)
    return given_model(Observed.of(X), U, V, mean=3.0, b=b, c=c, s=s, t=t, **options)


def sorted_scores(scores, seen, n):
    """The obvious twin: sort every row, best first, equal ones by position; −1 where nothing is left."""
    scores = np.where(seen, -np.inf, scores)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    return np.where(np.take_along_axis(scores, order, axis=1) > -np.inf, order, -1)


# --- the n best -------------------------------------------------------------------------------------------------------

small_matrices = st.tuples(
    st.integers(1, 8),
    st.integers(1, 30),
    st.integers(0, 4),
    st.integers(1, 35),
    st.integers(0, 2**32),
)


@given(small_matrices, st.booleans(), st.booleans(), st.sampled_from(["always", "never"]))
@settings(max_examples=200)
def test_the_best_are_those_of_a_stable_sort(sizes, single, excluded, compiled):
    b, m, k, n, seed = sizes
    rng = np.random.default_rng(seed)
    # small whole numbers: products are exact, so ties are ties
    P, Q = (
        rng.integers(-2, 3, (size, k)).astype(np.float32 if single else np.float64)
        for size in (b, m)
    )
    seen = Observed.of(np.where(rng.random((b, m)) < 0.5, 1.0, np.nan))
    who = np.arange(b) if excluded else np.full(b, -1)
    with lemmata.config(compile=compiled):
        places, scores = best(P, Q, n, seen.by_row, who)
    mask = np.isfinite(seen.dense()) & excluded
    assert_array_equal(places, sorted_scores(P.astype(float) @ Q.T, mask, min(n, m)))
    known = np.where(
        places >= 0,
        np.take_along_axis(P.astype(float) @ Q.T, np.maximum(places, 0), axis=1),
        np.nan,
    )
    assert_array_equal(scores, known)


@pytest.mark.parametrize("compiled", ["always", "never"])
@pytest.mark.parametrize("seed", range(3))
def test_the_best_do_not_depend_on_blocks_or_on_how_blas_rounds(seed, compiled, monkeypatch):
    monkeypatch.setenv("LEMMATA_COMPILE", compiled)
    rng = np.random.default_rng(seed)
    P = rng.normal(size=(50, 40)).astype(np.float32)
    # every item many times: ties
    Q = rng.normal(size=(30, 40)).astype(np.float32)[rng.integers(0, 30, 400)]
    whole = best(P, Q, 60)
    assert_array_equal(
        whole[0], sorted_scores(P.astype(float) @ Q.T.astype(float), np.zeros((50, 400), bool), 60)
    )
    for rows in (1, 7, 49):
        monkeypatch.setattr(ranking, "BLOCK_BYTES", rows * Q.nbytes // 40)
        monkeypatch.setattr(ranking, "TWIN_SCORES", rows * len(Q))
        parts = best(P, Q, 60)
        assert_array_equal(parts[0], whole[0])
        assert_array_equal(parts[1], whole[1])
    single = [best(P[i : i + 1], Q, 60)[0][0] for i in range(50)]
    assert_array_equal(single, whole[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_twin_of_the_kernel_gives_the_same_bits(dtype):
    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=(70, 17)).astype(dtype), rng.normal(size=(300, 17)).astype(dtype)
    P[3], P[5] = 0, 1e30
    seen = Observed.of(np.where(rng.random((70, 300)) < 0.1, 1.0, np.nan))
    found = []
    for compiled in ("always", "never"):
        with lemmata.config(compile=compiled):
            found.append(best(P, Q, 20, seen.by_row, np.arange(70)))
    assert_array_equal(found[0][0], found[1][0])
    assert_array_equal(found[0][1], found[1][1])


def test_equal_copies_of_an_item_come_in_order_of_position():
    V = np.random.default_rng(0).normal(size=(1, 64)).astype(np.float32).repeat(1000, axis=0)
    places, scores = best(np.ones((3, 64), np.float32), V, 1000)
    assert_array_equal(places, np.arange(1000)[None].repeat(3, axis=0))
    assert len(np.unique(scores)) == 1


# --- recommend --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_recommendations_are_the_highest_predictions_among_what_was_not_seen(seed, dtype):
    model = random_model(np.random.default_rng(seed), dtype=dtype)
    predicted = model.complete(keep_known=False)
    U, V = model.U_ * model.row_scale_[:, None], model.V_ * model.column_scale_[:, None]
    sizes = (
        np.abs(U) @ np.abs(V).T + np.abs(model.row_bias_)[:, None] + np.abs(model.column_bias_) + 3
    )
    seen = np.isfinite(model.observed_.dense())
    for n in (1, 4, 9):
        found = model.recommend(n=n, damping=0)
        assert_array_equal(found.items, sorted_scores(predicted, seen, n))
        kept = found.positions >= 0
        expected = np.take_along_axis(predicted, np.maximum(found.positions, 0), axis=1)
        terms = np.take_along_axis(sizes, np.maximum(found.positions, 0), axis=1)
        # k products and three offsets, each side rounded for itself: 2(k + 4)·eps of the terms that are summed
        off = np.abs(found.scores - expected) / (14 * np.finfo(dtype).eps * terms)
        assert off[kept].max() <= 1
        assert np.isnan(found.scores[~kept]).all()
        assert found.scores.dtype == dtype
    everything = model.recommend(n=9, exclude_seen=False, damping=0)
    assert_array_equal(everything.items, sorted_scores(predicted, np.zeros_like(seen), 9))


def test_one_user_gets_one_list_and_several_get_several():
    model = random_model(np.random.default_rng(0))
    table = model.recommend(n=3)
    assert table.items.shape == (7, 3)
    assert model.recommend(2, n=3).items.shape == (3,)
    assert_array_equal(model.recommend(2, n=3).items, table.items[2])
    assert_array_equal(model.recommend([4, 2, 4], n=3).items, table.items[[4, 2, 4]])
    assert model.recommend(np.zeros(0, int), n=3).items.shape == (0, 3)


def test_entries_mapped_from_a_file_serve_as_well(tmp_path):
    model = random_model(np.random.default_rng(0))
    expected = model.recommend(n=5).items
    model.observed_.save(tmp_path)
    model.observed_ = Observed.open(tmp_path)
    assert_array_equal(model.recommend(n=5).items, expected)


def test_more_than_there_is_gives_what_there_is():
    model = random_model(np.random.default_rng(0), density=0.9)
    found = model.recommend(n=100)
    assert found.items.shape == (7, 9)
    assert_array_equal((found.positions >= 0).sum(axis=1), 9 - model.observed_.row_counts)
    full = given_model(Observed.of(np.ones((2, 3))), np.ones((2, 1)), np.ones((3, 1)))
    assert (full.recommend(n=2).positions == -1).all()
    assert list(full.recommend(n=2)) == [(0, []), (1, [])]
    assert "nothing is left" in str(full.recommend(0))


@pytest.mark.parametrize("names", [[10, 30, 20], ["ann", "bob", "cy"]])
def test_labels_are_taken_and_given(names):
    films = ["up", "heat", "brazil", "alien"]
    labels = {"row_labels": np.array(names), "column_labels": np.array(films)}
    data = Observed.from_triplets(
        [0, 0, 1, 2], [0, 1, 2, 3], [5.0, 1.0, 4.0, 2.0], (3, 4), **labels
    )
    V = np.array([[4.0], [3.0], [2.0], [1.0]])
    model = given_model(data, np.ones((3, 1)), V)
    assert model.recommend(names[1], n=2).items.tolist() == ["up", "heat"]
    assert model.recommend(names[0], n=3).items.tolist() == ["brazil", "alien", None]
    found = model.recommend([names[2], names[0]], n=1)
    assert found.items.tolist() == [["up"], ["brazil"]]
    assert found.of.tolist() == [names[2], names[0]]
    assert [name for name, _ in model.recommend(n=1)] == names
    assert model.similar_items("heat", n=1).items.tolist() == ["up"]
    with pytest.raises(ValueError, match="not in the data"):
        model.recommend("dora")
    assert f"user {names[0]}" in str(model.recommend(names[0]))
    assert model.recommend(names[0], 1, damping=0).to_dict() == {
        "recommendations": [{"user": names[0], "items": [{"item": "brazil", "score": 2.0}]}]
    }


@pytest.mark.parametrize("seed", range(3))
def test_new_users_are_folded_in_and_what_they_rated_counts_as_seen(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, reg=0.3)
    X = np.where(rng.random((4, 9)) < 0.4, rng.normal(size=(4, 9)), np.nan)
    X[0] = np.nan  # somebody who rated nothing gets what is liked by all
    found = model.recommend(n=9, ratings=X, damping=0)
    assert_array_equal(found.items, sorted_scores(model.predict(X), np.isfinite(X), 9))
    assert found.of is None
    assert_array_equal(found.items[0], np.argsort(-model.column_bias_, kind="stable"))
    one = {int(j): X[1, j] for j in np.flatnonzero(np.isfinite(X[1]))}
    assert_array_equal(model.recommend(n=9, ratings=one, damping=0).items, found.items[1])
    with pytest.raises(ValueError, match="both given"):
        model.recommend(0, ratings=X)


def test_damping_draws_items_with_few_ratings_towards_the_users_mean():
    model = random_model(np.random.default_rng(2))
    counts = model.observed_.column_counts
    assert model.damping_ == np.median(counts[model.observed_.columns])
    parts = model.complete(keep_known=False) - (model.mean_ + model.row_bias_[:, None])
    for damping in (0.5, 7.0, "auto"):
        d = model.damping_ if damping == "auto" else damping
        expected = model.mean_ + model.row_bias_[:, None] + parts * (counts / (counts + d))
        found = model.recommend(n=9, exclude_seen=False, damping=damping)
        assert_array_equal(found.positions, np.argsort(-expected, axis=1, kind="stable"))
        assert_allclose(found.scores, -np.sort(-expected, axis=1), rtol=1e-12)
    for damping in (-1, np.nan, np.inf, "much", True):
        with pytest.raises(ValueError, match="damping="):
            model.recommend(0, damping=damping)


def test_one_opinion_does_not_make_the_best_item():
    """The highest prediction is that of an item with a single rating; many liked the second."""
    X = np.full((40, 3), np.nan)
    X[:30, 0], X[:30, 1], X[0, 2] = 4.5, 2.0, 5.0
    model = MeanRatings(reg=0.1).fit(X)
    assert model.recommend(35, n=1, damping=0).items[0] == 2
    assert model.recommend(35, n=1).items[0] == 0
    assert model.recommend(35, n=3, min_count=2, damping=0).items.tolist() == [0, 1]


@pytest.mark.parametrize("seed", range(3))
def test_only_items_that_were_asked_for_are_recommended(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    scores, seen = model.complete(keep_known=False), np.isfinite(model.observed_.dense())
    wanted, unwanted = rng.choice(9, 6, replace=False), rng.choice(9, 2, replace=False)
    barred = np.ones(9, bool)
    barred[wanted], barred[unwanted] = False, True
    found = model.recommend(n=5, items=wanted, exclude=unwanted, damping=0)
    assert_array_equal(
        found.positions, sorted_scores(scores, seen | barred, 5)[:, : found.positions.shape[1]]
    )
    few = model.observed_.column_counts < 3
    found = model.recommend(n=9, min_count=3, damping=0)
    assert_array_equal(
        found.positions, sorted_scores(scores, seen | few, 9)[:, : found.positions.shape[1]]
    )
    assert model.recommend(n=4, items=[]).positions.shape == (7, 0)
    with pytest.raises(ValueError, match="outside 0 … 8"):
        model.recommend(items=[9])
    with pytest.raises(ValueError, match="min_count=-1"):
        model.recommend(min_count=-1)


def test_a_user_without_feedback_is_recommended_what_is_popular():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((20, 6)) < [0.2, 0.9, 0.4, 0.6, 0.1, 0.8], 1.0, np.nan)
    X[7] = np.nan
    model = ALS(rank=2, feedback="implicit", random_state=0).fit(X)
    found = model.recommend(7, n=6)
    assert_array_equal(found.items, np.argsort(-model.observed_.column_counts, kind="stable"))
    assert (found.scores == 0).all()
    assert model.damping_ == 0


def test_lists_become_a_frame():
    model = random_model(np.random.default_rng(0))
    frame = model.recommend([3, 1], n=2).to_frame()
    assert list(frame.columns) == ["user", "item", "rank", "score"]
    assert frame["user"].tolist() == [3, 3, 1, 1]
    assert frame["rank"].tolist() == [1, 2, 1, 2]
    assert frame["item"].tolist() == model.recommend([3, 1], n=2).items.ravel().tolist()
    assert list(model.similar_items(0, n=2).to_frame().columns)[:2] == ["item", "similar"]
    assert model.recommend(ratings={0: 5.0}, n=2).to_frame()["user"].tolist() == [0, 0]


def test_a_new_user_is_folded_in_from_a_dict():
    model = random_model(np.random.default_rng(0), reg=0.3)
    row = np.full((1, 9), np.nan)
    row[0, [2, 5]] = 4.0, 1.0
    for part, expected in zip(model.fold_in({2: 4.0, 5: 1.0}), model.fold_in(row), strict=True):
        assert_allclose(part, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="the ratings of the new user"):
        model.fold_in({2: "good"})


@pytest.mark.parametrize("n", [0, -1, 2.5, True, "3"])
def test_a_senseless_number_of_items_is_refused(n):
    model = random_model(np.random.default_rng(0))
    for ask in (model.recommend, model.similar_items):
        with pytest.raises(ValueError, match="int >= 1"):
            ask(0, n)


# --- similar items ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_similar_items_have_the_largest_cosines_and_are_never_the_item_itself(seed):
    model = random_model(np.random.default_rng(seed), m=12)
    V = model.V_ / np.linalg.norm(model.V_, axis=1, keepdims=True)
    cosines = V @ V.T
    found = model.similar_items(np.arange(12), n=5)
    assert_array_equal(found.items, sorted_scores(cosines, np.eye(12, dtype=bool), 5))
    assert_allclose(found.scores, np.take_along_axis(cosines, found.items, axis=1), rtol=1e-13)
    assert_array_equal(model.similar_items(3, n=5).items, found.items[3])
    assert len(model.similar_users(2, n=20).items) == 7  # itself left out: the last place is empty
    assert model.similar_users(2, n=20).positions[-1] == -1


def test_items_without_a_direction_are_like_nothing():
    data = Observed.of(np.ones((2, 4)))
    model = given_model(data, np.ones((2, 2)), np.array([[1.0, 0], [0, 0], [2, 0], [-1, 0]]))
    assert model.similar_items(0, n=3).positions.tolist() == [2, 3, -1]
    assert model.similar_items(1, n=3).positions.tolist() == [-1, -1, -1]
    assert np.isnan(model.similar_items(1, n=3).scores).all()
    # offsets only
    constant = given_model(data, np.zeros((2, 0)), np.zeros((4, 0)), c=np.array([1.0, 3, 2, 0]))
    assert (constant.similar_items([0, 1], n=2).positions == -1).all()
    assert constant.recommend(0, exclude_seen=False).items.tolist() == [1, 2, 0, 3]


# --- explanations -----------------------------------------------------------------------------------------------------


def total(explained):
    offsets = explained.mean + explained.row_bias + explained.column_bias
    return offsets + explained.contributions.sum() + explained.remainder


@pytest.mark.parametrize("reg", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_the_parts_of_a_new_users_prediction_add_up_without_remainder(seed, reg):
    rng = np.random.default_rng(seed)
    model = random_model(rng, reg=reg)
    X = np.where(rng.random((1, 9)) < 0.6, rng.normal(size=(1, 9)), np.nan)
    predicted = model.predict(X)[0]
    for item in range(9):
        why = model.explain(None, item, ratings=X)
        assert_allclose(why.prediction, predicted[item], rtol=1e-10)
        assert_allclose(total(why), why.prediction, rtol=1e-12)
        assert abs(why.remainder) < 1e-10
        assert_array_equal(np.sort(why.positions), np.flatnonzero(np.isfinite(X[0])))
        assert (np.diff(np.abs(why.contributions)) <= 0).all()


def test_a_contribution_is_what_changing_the_rating_would_change():
    """The prediction is linear in the ratings (λ > 0, offsets fixed): its slope along rating j is the weight of j."""
    rng = np.random.default_rng(0)
    model = random_model(rng, reg=0.5)
    model.column_scale_ = np.ones(9)
    x = {j: float(rng.normal()) for j in (1, 3, 4, 8)}
    why = model.explain(None, 6, ratings=x)
    for j, weight in zip(why.positions.tolist(), why.weights, strict=True):
        higher = model.explain(None, 6, ratings={**x, j: x[j] + 1})
        assert_allclose(higher.prediction - why.prediction, weight, rtol=1e-9)


def test_what_the_ratings_do_not_explain_is_its_own_term():
    # factors at random: far from solving anything
    model = random_model(np.random.default_rng(1), reg=0.5)
    why = model.explain(2, 4)
    assert_allclose(why.prediction, model.predict(2, 4), rtol=1e-12)
    assert_allclose(total(why), why.prediction, rtol=1e-12)
    assert abs(why.remainder) > 1e-3
    assert "not explained" in str(why)


def test_a_user_without_ratings_is_explained_by_offsets_alone():
    data = Observed.of(np.array([[1.0, np.nan], [np.nan, np.nan]]))
    model = given_model(
        data, np.zeros((2, 1)), np.ones((2, 1)), mean=3.0, c=np.array([0.0, 0.5]), reg=1.0
    )
    why = model.explain(1, 1)
    assert why.prediction == 3.5
    assert len(why.contributions) == 0
    assert why.remainder == 0


def test_explanations_print_and_refuse_lists():
    model = random_model(np.random.default_rng(0), density=0.9, reg=0.5)
    why = model.explain(0, 1, n=2)
    lines = str(why).splitlines()
    assert lines[0].startswith("user 0, item 1: ")
    assert len([line for line in lines if "rated" in line]) == 2
    assert "other rating" in str(why)
    assert_allclose(
        sum(float(line.split()[-1]) for line in lines[1:]), why.prediction, atol=5e-4 * len(lines)
    )
    found = why.to_dict()
    assert len(found["ratings"]) == 2
    assert_allclose(
        sum(part["contribution"] for part in found["ratings"]), why.contributions[:2].sum()
    )
    assert_allclose(found["others"], why.contributions[2:].sum())
    for arguments in (([0, 1], 1), (0, [1, 2]), (None, 1)):
        with pytest.raises(ValueError, match="one user"):
            model.explain(*arguments)
    with pytest.raises(ValueError, match="one new user; got 2"):
        model.explain(None, 1, ratings=np.ones((2, 9)))


# --- with a fitted model ----------------------------------------------------------------------------------------------


def blocks(rng, users=30, items=24, groups=3, density=0.5):
    """Users and items in groups: everybody likes the items of the own group (5) and no others (1)."""
    of_user, of_item = np.arange(users) % groups, np.arange(items) % groups
    A = np.where(of_user[:, None] == of_item, 5.0, 1.0)
    return np.where(rng.random(A.shape) < density, A, np.nan), of_user, of_item


@pytest.mark.parametrize("seed", range(3))
def test_users_are_recommended_what_their_own_group_likes(seed):
    X, of_user, of_item = blocks(np.random.default_rng(seed))
    model = ALS(rank=3, reg=0.01, max_iter=500, random_state=seed).fit(X)
    wanted = np.isnan(X) & (of_user[:, None] == of_item)  # of the own group and not yet seen
    n = int(wanted.sum(axis=1).min())
    assert n >= 1
    assert wanted[np.arange(30)[:, None], model.recommend(n=n).positions].all()
    alike = model.similar_items(np.arange(24), n=7)
    assert (of_item[alike.items] == of_item[:, None]).all()
    new = {0: 5.0, 1: 1.0, 3: 5.0}  # somebody of group 0
    assert (of_item[model.recommend(n=6, ratings=new).items] == 0).all()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"biases": False},
        {"reg_weighting": "plain", "reg": 1.0},
        {"nonnegative": True},
        {"feedback": "implicit"},
    ],
    ids=lambda options: "-".join(options) or "default",
)
def test_explanations_of_als_add_up_for_every_kind_of_fit(options):
    X, _, _ = blocks(np.random.default_rng(0))
    model = ALS(
        **{"rank": 3, "reg": 0.05, "random_state": 0, "tol": 1e-11, "max_iter": 1000, **options}
    ).fit(X)
    row = X[4:5]
    for item in (0, 1, 2):
        why = model.explain(None, item, ratings=row)
        assert_allclose(why.prediction, model.predict(row)[0, item], rtol=1e-9)
        assert abs(why.remainder) < 1e-9  # a fold-in solves its least squares
        settled = model.explain(4, item)
        assert_allclose(settled.prediction, model.predict(4, item), rtol=1e-9)
        assert abs(settled.remainder) < 1e-4  # and so does a fit that has settled, nearly
