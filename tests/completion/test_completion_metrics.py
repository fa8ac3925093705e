"""Metrics against slow twins and scikit-learn."""

import copy
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    mean_absolute_error,
    ndcg_score,
    roc_auc_score,
    root_mean_squared_error,
)

from lemmata import ALS, MeanRatings
from lemmata.completion import Observed, metrics
from lemmata.completion.metrics import (
    auc,
    average_precision_at_k,
    evaluate,
    mae,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
    rmse,
)


def slow(recommended, held_out, k, threshold, graded):
    """Precision, recall and NDCG of each user, by the definitions."""
    known, found = held_out.dense(), {"precision": [], "recall": [], "ndcg": [], "map": []}
    for row, places in zip(known, recommended, strict=True):
        relevant = {
            j: row[j]
            for j in range(len(row))
            if not math.isnan(row[j]) and (threshold is None or row[j] >= threshold)
        }
        if not relevant:
            continue
        top = [int(j) for j in places[:k]]
        hits = [j for j in top if j in relevant]
        found["precision"].append(len(hits) / k)
        found["recall"].append(len(hits) / len(relevant))
        at = [sum(j in relevant for j in top[: r + 1]) / (r + 1) for r in range(len(top))]
        precisions = [p for p, j in zip(at, top, strict=True) if j in relevant]
        found["map"].append(sum(precisions) / min(k, len(relevant)))
        gain = {j: value if graded else 1.0 for j, value in relevant.items()}
        dcg = sum(gain.get(j, 0.0) / math.log2(r + 2) for r, j in enumerate(top))
        ideal = sum(
            g / math.log2(r + 2) for r, g in enumerate(sorted(gain.values(), reverse=True)[:k])
        )
        if ideal > 0:
            found["ndcg"].append(dcg / ideal)
    return found


@settings(max_examples=120)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 8), st.integers(1, 9), st.integers(1, 9),
    st.sampled_from([None, 0.0, 2.5, 9.0]), st.booleans(),
)  # fmt: skip
def test_the_metrics_are_their_definitions(seed, n, m, width, k, threshold, graded):
    rng = np.random.default_rng(seed)
    held_out = Observed.of(np.where(rng.random((n, m)) < 0.4, rng.integers(0, 6, (n, m)), np.nan))
    width = min(width, m)
    recommended = np.argsort(rng.random((n, m)), axis=1)[:, :width]
    recommended[np.arange(width) >= rng.integers(0, width + 1, (n, 1))] = -1  # nothing was left
    expected = slow(recommended, held_out, k, threshold, graded)
    options = {"k": k, "threshold": threshold}
    found = {
        "precision": precision_at_k(recommended, held_out, **options),
        "recall": recall_at_k(recommended, held_out, **options),
        "ndcg": ndcg_at_k(recommended, held_out, **options, gains="graded" if graded else "binary"),
        "map": average_precision_at_k(recommended, held_out, **options),
    }
    for name, value in found.items():
        assert value.users == len(expected[name])
        assert value == pytest.approx(
            np.mean(expected[name]) if expected[name] else math.nan, nan_ok=True, rel=1e-12
        )


@pytest.mark.parametrize("k", [1, 3, 12, None])
@pytest.mark.parametrize("seed", range(3))
def test_ndcg_of_a_full_ranking_is_scikit_learns(k, seed):
    rng = np.random.default_rng(seed)
    truth, scores = rng.integers(0, 6, (20, 12)).astype(float), rng.random((20, 12))
    ranking = np.argsort(-scores, axis=1)
    ours = ndcg_at_k(ranking, Observed.of(truth), k, gains="graded")
    assert ours == pytest.approx(ndcg_score(truth, scores, k=k), rel=1e-12)
    binary = ndcg_at_k(ranking, Observed.of(truth), k, threshold=4)
    kept = (truth >= 4).any(axis=1)
    assert binary == pytest.approx(
        ndcg_score((truth >= 4)[kept].astype(float), scores[kept], k=k), rel=1e-12
    )
    assert binary.users == kept.sum()


def test_errors_are_scikit_learns():
    rng = np.random.default_rng(0)
    truth, predicted = rng.normal(size=(2, 100))
    assert rmse(truth, predicted) == pytest.approx(
        root_mean_squared_error(truth, predicted), rel=1e-14
    )
    assert mae(truth, predicted) == pytest.approx(mean_absolute_error(truth, predicted), rel=1e-14)
    observed = Observed.of(np.array([[1.0, np.nan], [3.0, 4.0]]))
    assert rmse(observed, [1.0, 3.0, 6.0]) == pytest.approx(np.sqrt(4 / 3))


def test_a_perfect_list_scores_one_and_a_list_of_others_zero():
    held_out = Observed.of(np.array([[5.0, 4.0, np.nan, np.nan]]))
    perfect, others = np.array([[0, 1]]), np.array([[2, 3]])
    for metric in (precision_at_k, recall_at_k, ndcg_at_k):
        assert metric(perfect, held_out) == 1
        assert metric(others, held_out) == 0
    assert ndcg_at_k(np.array([[1, 0]]), held_out, gains="graded") < 1
    assert ndcg_at_k(np.array([[1, 0]]), held_out) == 1


def test_lists_of_some_users_are_compared_with_theirs():
    held_out = Observed.of(np.array([[1.0, np.nan], [np.nan, 1.0], [1.0, np.nan]]))
    assert precision_at_k(np.array([[1], [1]]), held_out, users=[1, 2]) == 0.5


def test_a_mean_over_users_survives_copying():
    found = precision_at_k(
        np.array([[0], [1]]), Observed.of(np.array([[1.0, np.nan], [1.0, np.nan]]))
    )
    again = copy.deepcopy(found)
    assert (again, again.users) == (0.5, 2)


def test_a_model_is_evaluated_on_held_out_entries():
    rng = np.random.default_rng(0)
    A = 3 + rng.normal(size=(50, 1)) + rng.normal(size=30) + 0.1 * rng.normal(size=(50, 30))
    i, j = np.nonzero(rng.random(A.shape) < 0.6)
    train, test = Observed.from_labels([f"u{k:02d}" for k in i], j + 100, A[i, j]).split(
        0.2, seed=0
    )
    model = MeanRatings(reg=0.1).fit(train)
    found = evaluate(model, test, k=5)
    assert found["rmse"] == pytest.approx(-model.score(test), rel=1e-12)
    assert 0 < found["mae"] <= found["rmse"] < 0.2
    lists = model.recommend(n=5)
    assert found["precision"] == precision_at_k(lists, test)
    assert found["recall"] == recall_at_k(lists.positions, test, 5)
    assert found["ndcg"] == ndcg_at_k(lists, test, 5)
    assert found["users"] == (test.row_counts > 0).sum()
    at_random = np.argsort(rng.random((50, 30)), axis=1)[:, :5]
    assert found["ndcg"] > ndcg_at_k(at_random, test, 5)
    with pytest.raises(ValueError, match="2 features"):
        evaluate(model, Observed.of(np.ones((2, 2))))


@pytest.mark.parametrize("threshold", [None, 3.0])
@pytest.mark.parametrize("at_once", [1, 2**22])
def test_auc_is_scikit_learns_mean_over_users(threshold, at_once, monkeypatch):
    monkeypatch.setattr(metrics, "SCORES_AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    P, Q = rng.integers(-1, 2, (25, 2)).astype(float), rng.integers(-1, 2, (12, 2)).astype(float)
    part = rng.choice(3, (25, 12), p=[0.3, 0.3, 0.4])  # seen, held out, unknown; with many ties
    values = rng.integers(1, 6, (25, 12)).astype(float)
    seen, held = (Observed.of(np.where(part == which, values, np.nan)) for which in (0, 1))
    expected = []
    for i in range(25):
        wanted = (part[i] == 1) & (values[i] >= (threshold or 0))
        left = part[i] != 0
        if wanted.any() and (left & ~wanted).any():
            expected.append(roc_auc_score(wanted[left], (P @ Q.T)[i, left]))
    found = auc(P, Q, held, seen=seen, threshold=threshold)
    assert found == pytest.approx(np.mean(expected), rel=1e-12)
    assert found.users == len(expected)


def skewed(seed=0, n=200, m=60):
    """Implicit data in which tastes matter beside popularity."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=m) - 2 + 1.5 * rng.normal(size=(n, 2)) @ rng.normal(size=(2, m))
    i, j = np.nonzero(rng.random((n, m)) < 1 / (1 + np.exp(-logits)))
    return Observed.from_triplets(i, j, rng.integers(1, 6, len(i)).astype(float), (n, m))


def test_every_figure_stands_beside_popularity_or_the_mean():
    train, test = skewed().split(0.2, seed=0)
    found = evaluate(MeanRatings().fit(train), test)
    assert set(found.popularity) == {"precision", "recall", "ndcg", "map", "auc"}
    assert set(found.mean) == set(found.offsets) == {"rmse", "mae"}
    errors = test.values - train.values.mean()
    assert found.mean["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert found["rmse"] == found.offsets["rmse"]  # the model is the offsets
    popular = np.argsort(
        np.where(np.isnan(train.dense()), -train.column_counts, np.inf), 1, "stable"
    )
    assert found.popularity["precision"] == precision_at_k(popular[:, :10], test)
    text = str(found)
    for word in ("popularity", "mean", "offsets", "RMSE", "precision@10", "MAP@10", "AUC"):
        assert word in text
    assert copy.deepcopy(found).popularity == found.popularity
    assert found.to_dict()["popularity"]["auc"] == pytest.approx(found.popularity["auc"])


def test_implicit_feedback_has_no_rmse_and_ranks_above_popularity():
    train, test = skewed().split(0.2, seed=0)
    model = ALS(rank=3, feedback="implicit", random_state=0).fit(train)
    found = evaluate(model, test)
    assert "rmse" not in found
    assert not found.mean
    assert "RMSE" not in str(found)
    assert found["ndcg"] > found.popularity["ndcg"]
    assert found["auc"] > found.popularity["auc"]
    assert model.score(test) == pytest.approx(found["ndcg"])
    assert model.score(train) > 0.5  # what is asked for counts as not seen
    assert "implicit feedback" in model.certificate_.title
    assert "ranks_above_popularity" in model.certify(train, test).held


def test_unknown_users_and_items_are_evaluated_by_what_is_known_without_them():
    rng = np.random.default_rng(0)
    A = skewed()
    frame = pd.DataFrame({"user": A.rows, "item": A.columns, "rating": A.values})
    late = rng.random(len(frame)) < 0.2
    late |= (frame["user"] >= 190).to_numpy() | (frame["item"] == 7).to_numpy()
    train, test = frame[~late], frame[late]
    for model in (MeanRatings(), ALS(rank=2, feedback="implicit", random_state=0)):
        model.fit(train)
        with pytest.raises(ValueError, match="not in the data"):
            evaluate(model, test)
        found = evaluate(model, test, unknown="baseline")
        assert found["users"] == test["user"].nunique()
        known = test[test["user"].isin(train["user"]) & test["item"].isin(train["item"])]
        if "rmse" in found:
            predicted = model.predict(test, unknown="baseline")
            errors = test["rating"].to_numpy() - predicted
            assert found["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-5)
            assert -model.score(test, unknown="baseline") == pytest.approx(found["rmse"], rel=1e-5)
            assert found["rmse"] != pytest.approx(evaluate(model, known)["rmse"])
        certificate = model.certify(train, test, unknown="baseline")
        assert not certificate.broken
        assert "users" in certificate["ranks_above_popularity"].note
        same = {one.name: one.verdict for one in model.certify(train)}
        for one in certificate:
            if one.name not in ("held_out_error", "entries_unseen", "ranks_above_popularity"):
                assert one.verdict == same[one.name]


HELD = Observed.of(np.array([[1.0, -2.0, np.nan]]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rmse([1.0], [1.0, 2.0]), "do not pair up"),
        (lambda: rmse([], []), "no values to compare"),
        (lambda: mae([np.nan], [1.0]), "NaN or infinite"),
        (lambda: precision_at_k(np.array([0, 1]), HELD), r"pass item positions \(users, n\)"),
        (lambda: precision_at_k(np.array([[0.5]]), HELD), "array of float64"),
        (lambda: precision_at_k(np.array([[0], [1]]), HELD), "2 lists for 1 users"),
        (lambda: recall_at_k(np.array([[3]]), HELD), "an item lies outside 0 … 2"),
        (lambda: recall_at_k(np.array([[-2]]), HELD), "an item lies outside"),
        (lambda: recall_at_k(np.array([[0, 0]]), HELD), "recommended twice"),
        (lambda: ndcg_at_k(np.array([[0]]), HELD, 0), "k=0 is not accepted"),
        (lambda: ndcg_at_k(np.array([[0]]), HELD, gains="huge"), "pass one of binary, graded"),
        (lambda: ndcg_at_k(np.array([[2, 1]]), HELD, gains="graded"), "is negative"),
    ],
)
def test_what_cannot_be_compared_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_counts_with_a_heavy_tail_warn_and_their_logarithms_rank_better():
    rng = np.random.default_rng(0)
    tastes = rng.gamma(0.5, 1, (300, 4)) @ rng.gamma(0.5, 1, (4, 200))
    chosen = rng.random(tastes.shape) < 1 - np.exp(-0.08 * tastes / tastes.mean())
    counts = np.ceil(rng.lognormal(1, 2.5, tastes.shape))
    train, test = Observed.of(np.where(chosen, counts, np.nan)).split(0.2, seed=0)
    logs = Observed.from_triplets(train.rows, train.columns, np.log1p(train.values), train.shape)
    with pytest.warns(UserWarning, match="log1p"):
        raw = ALS(4, feedback="implicit", random_state=0).fit(train)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        damped = ALS(4, feedback="implicit", random_state=0).fit(logs)
    assert damped.score(test) > raw.score(test)
