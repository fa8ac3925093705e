"""certify takes models of models: pipelines, searches, column transformers, unions, one inside the other."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import lemmata
from lemmata.core.certificate import NOT_CHECKED

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 6)) * [5.0, 3.0, 2.0, 1.0, 0.5, 0.2] + 1
FRAME = pd.DataFrame(X, columns=list("abcdef"))
Y = rng.integers(0, 2, 120)


OF_THE_WHOLE = ("company_ignored", "scores_add_up")


def verdicts(certificate):
    """Those on the models inside."""
    inside = (item for item in certificate if item.name not in OF_THE_WHOLE)
    return {item.name: (item.verdict, item.numbers) for item in inside}


# --- one model inside -------------------------------------------------------------------------------------------------


def test_of_a_pipeline_the_last_step_is_certified_on_what_reaches_it():
    pipe = make_pipeline(StandardScaler(), FunctionTransformer(), PCA(2)).fit(X)
    found = lemmata.certify(pipe, X)
    inner = lemmata.certify(pipe[-1], pipe[:-1].transform(X))
    assert verdicts(found) == verdicts(inner)
    assert found.title == inner.title
    assert found.data == inner.data
    assert found.skipped == (
        "standardscaler (StandardScaler: not the last step), functiontransformer (FunctionTransformer: not the last step)"
    )
    # the raw rows are not what the axes are of
    assert lemmata.certify(pipe[-1], X).failed != inner.failed


def test_our_own_models_are_certified_inside_of_a_pipeline_too():
    pipe = make_pipeline(StandardScaler(), lemmata.PCA(2)).fit(X)
    found = lemmata.certify(pipe, X)
    assert verdicts(found) == verdicts(pipe[-1].certify(pipe[0].transform(X)))
    assert found.trace is pipe[-1].trace_
    assert found.stopped == "finished, 1 step"


def test_steps_that_pass_through_are_no_steps():
    pipe = Pipeline([("a", "passthrough"), ("pca", PCA(2)), ("b", "passthrough"), ("c", None)]).fit(
        X
    )
    found = lemmata.certify(pipe, X)
    assert verdicts(found) == verdicts(lemmata.certify(pipe["pca"], X))
    assert found.skipped == ""
    nothing = Pipeline([("a", "passthrough")]).fit(X)
    with pytest.raises(TypeError, match="all its steps pass through"):
        lemmata.certify(nothing, X)


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV, HalvingGridSearchCV])
def test_of_a_search_the_best_estimator_is_certified(search):
    options = {"n_iter": 2, "random_state": 0} if search is RandomizedSearchCV else {}
    pipe = make_pipeline(StandardScaler(), PCA())
    found = search(pipe, {"pca__n_components": [1, 2]}, cv=3, **options).fit(X)
    certificate = lemmata.certify(found, X)
    assert verdicts(certificate) == verdicts(lemmata.certify(found.best_estimator_, X))
    assert "standardscaler" in certificate.skipped


def test_weights_reach_the_last_step():
    weights = np.arange(120.0)
    pipe = make_pipeline(StandardScaler(), KMeans(2, n_init=1, random_state=0))
    pipe.fit(X, kmeans__sample_weight=weights)
    assert "statements_true" in lemmata.certify(pipe, X, sample_weight=weights).held
    assert "statements_true" in lemmata.certify(pipe, X).failed


# --- several models inside --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def columns():
    parts = [
        ("first", make_pipeline(StandardScaler(), PCA(1)), ["a", "b", "c"]),
        ("second", lemmata.PCA(1), [3, 4]),
        ("words", OneHotEncoder(), lambda frame: ["f"]),
        ("empty", PCA(1), []),
        ("gone", "drop", ["a"]),
    ]
    return ColumnTransformer(parts, remainder=PCA(1)).fit(FRAME.assign(g=1.0, h=np.arange(120.0)))


def test_parts_of_a_column_transformer_are_certified_on_their_columns(columns):
    frame = FRAME.assign(g=1.0, h=np.arange(120.0))
    found = lemmata.certify(columns, frame)
    first, second = columns.named_transformers_["first"], columns.named_transformers_["second"]
    expected = {
        f"first__{k}": v
        for k, v in verdicts(lemmata.certify(first, frame[["a", "b", "c"]])).items()
    }
    expected |= {f"second__{k}": v for k, v in verdicts(second.certify(frame[["d", "e"]])).items()}
    remainder = lemmata.certify(columns.named_transformers_["remainder"], frame[["g", "h"]])
    expected |= {f"remainder__{k}": v for k, v in verdicts(remainder).items()}
    assert verdicts(found) == expected
    assert found.require("first__attributes_sound", "second__attributes_sound") is found
    assert found.skipped == (
        "first__standardscaler (StandardScaler: not the last step), words (OneHotEncoder: no claims about it), "
        "empty (PCA: it was given no columns)"
    )
    assert found.title.startswith("ColumnTransformer  first: sklearn PCA  120 × 3; second: PCA")
    assert "second: 120 × 2 float64, digest " in found.data
    assert found.stopped == "second: finished, 1 step"
    assert found.holds == (not (found.failed or found.broken or found.not_checked))


def test_columns_may_be_chosen_in_every_way_of_scikit_learn():
    for chosen in (
        ["a", "c"],
        [0, 2],
        slice(0, 3, 2),
        np.array([True, False, True, False, False, False]),
    ):
        model = ColumnTransformer([("p", PCA(1), chosen)]).fit(FRAME)
        found = lemmata.certify(model, FRAME)
        assert found[0].name == "p__attributes_sound"
        assert "statements_true" not in str(found.failed)
    model = ColumnTransformer([("p", PCA(1), [0, 2])]).fit(X)
    assert lemmata.certify(model, X)["p__statements_true"].verdict == "holds"


def test_models_may_be_nested(columns):
    inner = FeatureUnion(
        [
            ("left", PCA(2)),
            ("right", Pipeline([("s", StandardScaler()), ("k", KMeans(2, n_init=1))])),
        ]
    )
    model = GridSearchCV(
        Pipeline([("scale", StandardScaler()), ("union", inner)]), {"union__left__n_components": [1, 2]},
        scoring=lambda model, X, y=None: 0.0, cv=2,
    ).fit(X)  # fmt: skip
    found = lemmata.certify(model, X)
    names = [item.name for item in found]
    assert names[0] == "left__attributes_sound"
    assert "right__attributes_sound" in names
    assert (
        found.skipped
        == "search (GridSearchCV: its scores are those of folds, which are not fitted again), scale (StandardScaler: not the "
        "last step), right__s (StandardScaler: not the last step)"
    )
    assert found["left__statements_true"].verdict == "holds"
    assert found["right__statements_true"].verdict == "holds"


def test_tampering_inside_is_noticed():
    model = FeatureUnion([("a", PCA(2)), ("b", PCA(3))]).fit(X)
    assert not {"a__statements_true", "b__statements_true"} & set(lemmata.certify(model, X).failed)
    model.transformer_list[1][1].explained_variance_ *= 1.01
    found = lemmata.certify(model, X)
    assert "b__statements_true" in found.failed
    assert not found.holds
    with pytest.raises(lemmata.NotCertified, match="b__statements_true: fails"):
        found.require("b__statements_true")


def test_seconds_are_shared_by_the_parts():
    model = FeatureUnion([("a", PCA(2)), ("b", PCA(3))]).fit(X)
    found = lemmata.certify(model, X, seconds=0)
    assert {"a__statements_true", "b__statements_true"} <= set(found.not_checked)
    assert {"a__attributes_sound", "b__attributes_sound"} <= set(found.held)
    assert lemmata.certify(model, X, seconds=60).not_checked == []


def test_ctrl_c_ends_the_checking_of_all_parts(monkeypatch):
    from dataclasses import replace

    from lemmata.core.certification import certify as module

    def interrupted(*arguments, **options):
        found = check(*arguments, **options)
        claims = tuple(replace(item, state=NOT_CHECKED, note="interrupted") for item in found)
        return replace(found, claims=claims)

    check = module.check
    monkeypatch.setattr(module, "check", interrupted)
    model = FeatureUnion([("a", PCA(2)), ("b", PCA(3))]).fit(X)
    with pytest.warns(lemmata.core.Interrupted):
        found = lemmata.certify(model, X)
    assert found.skipped == "b (PCA: interrupted)"
    assert not found.holds


# --- what is not accepted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (lambda: make_pipeline(StandardScaler(), PCA(2)), NotFittedError, "Pipeline instance is not fitted"),
        (lambda: GridSearchCV(PCA(), {}), NotFittedError, "GridSearchCV instance is not fitted"),
        (lambda: ColumnTransformer([("a", PCA(), [0])]), NotFittedError, "ColumnTransformer instance is not fitted"),
        (lambda: FeatureUnion([("a", PCA())]), NotFittedError, "not fitted"),
        (lambda: PCA(), NotFittedError, "PCA instance is not fitted"),
        (lambda: lemmata.PCA(), NotFittedError, "PCA instance is not fitted"),
        (lambda: PCA, TypeError, r"PCA is a class; pass a fitted instance: PCA\(…\).fit\(X\)"),
        (lambda: GaussianNB().fit(X, Y), TypeError, "no claims about a sklearn.*It certifies its own models, "),
        (lambda: "a model", TypeError, "no claims about a builtins.str"),
        (
            lambda: GridSearchCV(PCA(), {"n_components": [1]}, refit=False).fit(X), ValueError,
            r"this GridSearchCV has refit=False, so no model was fitted to all of X",
        ),
        (
            lambda: make_pipeline(StandardScaler(), PCA(2), GaussianNB()).fit(X, Y), TypeError,
            r"pca \(PCA: not the last step; certify\(model\[:2\], X\) checks it\), "
            r"gaussiannb \(GaussianNB: no claims about it\)",
        ),
        (
            lambda: ColumnTransformer([("a", StandardScaler(), [0])]).fit(X), TypeError,
            r"no claims about what this ColumnTransformer ends in: a \(StandardScaler: no claims about it\)",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_certified_is_refused_in_words_that_help(model, error, message):
    with pytest.raises(error, match=message):
        lemmata.certify(model(), X)


def test_verbose_is_silent_where_there_is_no_terminal_and_changes_nothing(capfd):
    model = lemmata.PCA(2).fit(X)
    for one in (model, PCA(2).fit(X), make_pipeline(PCA(2)).fit(X)):
        assert verdicts(lemmata.certify(one, X, verbose=True)) == verdicts(lemmata.certify(one, X))
    assert model.verbose == 0
    assert capfd.readouterr() == ("", "")


def test_a_terminal_is_told_which_claim_is_checked_and_left_clean(monkeypatch):
    import io

    from rich.console import Console

    from lemmata.core.runs import progress

    shown = io.StringIO()
    monkeypatch.setattr(progress, "_on_terminal", lambda: True)
    monkeypatch.setattr(
        "rich.console.Console",
        lambda **options: Console(file=shown, force_terminal=True, width=100),
    )
    lemmata.certify(PCA(2).fit(X), X, verbose=True)
    assert "checking PCA" in shown.getvalue()
    assert shown.getvalue().endswith("\x1b[1A\x1b[2K")  # the line is erased


# --- the steps before the last, and scores -----------------------------------------------------------------------------


class Drifting(FunctionTransformer):
    """Adds a number that grows with every call."""

    calls = 0

    def transform(self, X):
        self.calls += 1
        return np.asarray(X) + self.calls


class Leaking(FunctionTransformer):
    """Shows the order of the rows that it was fitted to, as a target would be shown."""

    def fit(self, X, y=None):
        self.target_ = np.arange(float(len(X)))
        return super().fit(X)

    def transform(self, X):
        known = len(X) == len(self.target_)
        return np.column_stack([X, self.target_ if known else np.zeros(len(X))])


@pytest.mark.parametrize("step", [Drifting(), Leaking()])
def test_a_step_that_drifts_or_leaks_fails_its_claim(step):
    found = lemmata.certify(make_pipeline(step, lemmata.PCA(2)).fit(X), X)
    assert "company_ignored" in found.failed
    assert found["company_ignored"].note == type(step).__name__.lower()
    with pytest.raises(lemmata.NotCertified, match="company_ignored: fails"):
        found.require()
    nested = FeatureUnion([("a", make_pipeline(step, PCA(2))), ("b", PCA(1))]).fit(X)
    found = lemmata.certify(nested, X)["company_ignored"]
    assert (found.verdict, found.note) == ("fails", f"a__{type(step).__name__.lower()}")


def test_honest_steps_hold_and_are_still_refused_by_strict():
    for rows in (X, FRAME, csr_array(np.maximum(X, 0))):
        scaler = StandardScaler(with_mean=not hasattr(rows, "tocsr"))
        honest = lemmata.certify(make_pipeline(scaler, lemmata.TruncatedSVD(2)).fit(rows), rows)
        assert "company_ignored" in honest.held
        with pytest.raises(lemmata.NotCertified, match=r"skipped: standardscaler"):
            honest.require(strict=True)


def test_a_step_that_takes_no_half_of_the_rows_is_left_undecided():
    def demand(rows):
        if len(rows) < len(X):
            raise ValueError("all of them, please")
        return rows

    pipe = make_pipeline(StandardScaler(), FunctionTransformer(demand), PCA(2)).fit(X)
    found = lemmata.certify(pipe, X)["company_ignored"]
    assert (found.verdict, found.note) == (
        "can't tell",
        "half of the rows could not be passed through functiontransformer",
    )


def falsify_best(search):
    search.best_score_ = 1e9


def falsify_mean(search):
    search.cv_results_["mean_test_score"][search.best_index_] += 0.1
    search.best_score_ += 0.1


def falsify_choice(search):
    search.best_index_ = int(np.argmin(search.cv_results_["mean_test_score"]))
    search.best_score_ = search.cv_results_["mean_test_score"][search.best_index_]


@pytest.mark.parametrize("kind", [GridSearchCV, HalvingGridSearchCV])
@pytest.mark.parametrize("falsify", [falsify_best, falsify_mean, falsify_choice])
def test_scores_of_a_search_have_to_add_up(kind, falsify):
    search = kind(lemmata.PCA(), {"n_components": [1, 2, 3]}, cv=3).fit(X)
    found = lemmata.certify(search, X)
    assert "scores_add_up" in found.held
    assert found.skipped == f"search ({kind.__name__}: its scores are those of folds, which are not fitted again)"  # fmt: skip
    with pytest.raises(lemmata.NotCertified, match="not fitted again"):
        found.require(strict=True)
    falsify(search)
    with pytest.raises(lemmata.NotCertified, match="scores_add_up: fails"):
        lemmata.certify(search, X).require()


def test_searches_of_several_scores_and_searches_without_a_best_one():
    scoring = {"a": lambda model, X, y=None: 1.0, "b": lambda model, X, y=None: float(model.n_components)}  # fmt: skip
    options = {"param_grid": {"n_components": [1, 2]}, "cv": 2, "scoring": scoring}
    found = lemmata.certify(GridSearchCV(PCA(), refit="b", **options).fit(X), X)
    assert "scores_add_up" in found.held
    found = lemmata.certify(GridSearchCV(PCA(), refit=lambda results: 0, **options).fit(X), X)
    assert found["scores_add_up"].note == "this search states no best score"
