"""What mixtures do with input that is strange, spoiled or partly unknown: the right thing, or a clear refusal."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from planted_mixtures import COUNTING, KINDS, clusters, counts
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score

from lemmata import GaussianMixture, Mixture
from lemmata.mixtures import Categorical
from lemmata.mixtures.families import family_of

ALL_KINDS = (*KINDS, "unit", "fixed")


def mixture(kind, k=3, **options):
    given = {"precisions_init": np.eye(3)} if kind == "fixed" else {}
    return GaussianMixture(k, covariance_type=kind, random_state=0, **{**given, **options})


def with_holes(X, share=0.2, seed=0):
    """The rows with some values unknown; of the first nothing is known."""
    X = np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X).astype(X.dtype)
    X[0] = np.nan
    return X


# --- scikit-learn's own checks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 1000}, "n_samples >= n_components"),
        ({"covariance_type": "round"}, "covariance_type"),
        ({"covariance_type": "fixed"}, "precisions_init"),
        ({"weights_init": [0.5, 0.6, 0.7]}, "sum to 1"),
        ({"weights_init": [0.5, 0.5]}, "3 numbers"),
        ({"means_init": np.zeros((2, 3))}, "means"),
        ({"means_init": np.full((3, 3), np.nan)}, "means"),
        ({"precisions_init": -np.stack([np.eye(3)] * 3)}, "positive definite"),
        ({"precisions_init": np.eye(3)}, "shape"),
        ({"reg_covar": -1.0}, "reg_covar"),
        ({"init_params": "guess"}, "init_params"),
    ],
    ids=lambda value: str(value)[:24] if isinstance(value, str) else "-".join(value),
)
def test_parameters_that_make_no_sense_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture(**{"n_components": 3, **change}).fit(clusters(n=20))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X: X[:, 0], "1D array"),
        (lambda X: np.where(X.max() == X, np.inf, X), "infinity"),
        (lambda X: X * 1e200, "too large"),
        (lambda X: np.where(np.arange(3) == 1, np.nan, X), "no value"),
        (lambda X: X.astype(complex), "Complex"),
        (lambda X: X[:0], "0 sample"),
        (lambda X: sp.csr_array(X), "[Ss]parse"),
    ],
    ids=[
        "one-dimensional",
        "infinite",
        "too large",
        "an unknown feature",
        "complex",
        "empty",
        "sparse",
    ],
)
def test_data_that_make_no_sense_are_refused(spoil, message):
    with pytest.raises((ValueError, TypeError), match=message):
        GaussianMixture(2, random_state=0).fit(spoil(clusters(n=20)))


def test_weights_that_make_no_sense_are_refused():
    X = clusters(n=10)
    for weights in (np.zeros(len(X)), -np.ones(len(X)), np.full(len(X), np.nan), np.ones(3)):
        with pytest.raises(ValueError, match=r"[Ww]eight"):
            GaussianMixture(2).fit(X, sample_weight=weights)


@pytest.mark.parametrize("name", COUNTING)
def test_counts_that_are_none_are_refused(name):
    X, _ = counts(name)
    for value, message in ((-1.0, "negative"), (0.5, "whole"), (np.nan, "NaN")):
        spoiled = X.copy()
        spoiled[3, 1] = value
        with pytest.raises(ValueError, match=message):
            Mixture(2, name).fit(spoiled)


@pytest.mark.parametrize("kind", KINDS)
def test_more_components_than_distinct_points_collapse_and_say_so(kind):
    X = np.repeat(np.array([[0.0, 1.0], [5.0, 2.0]]), 10, axis=0)
    with pytest.warns(ConvergenceWarning, match="different rows"):
        model = GaussianMixture(3, covariance_type=kind, random_state=0).fit(X)
    assert np.isfinite(model.lower_bound_)
    assert "no_collapsed_component" in model.certificate_.failed


@pytest.mark.parametrize("kind", KINDS)
def test_constant_features_are_fitted_and_named(kind):
    X = np.hstack([clusters(n=30), np.full((90, 1), 3.0)])
    model = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X)
    assert_allclose(model.means_[:, 3], 3.0)
    if kind != "spherical":
        assert "plane" in model.certificate_["no_collapsed_component"].advice


def test_huge_and_tiny_scales_are_fitted():
    X = clusters(distance=10.0)
    plain = GaussianMixture(3, reg_covar=0.0, random_state=0).fit(X)
    for scale in (1e-100, 1e100):
        model = GaussianMixture(3, reg_covar=0.0, random_state=0).fit(scale * X)
        assert adjusted_rand_score(plain.predict(X), model.predict(scale * X)) > 0.99
        assert not [claim for claim in model.certificate_ if "itself failed" in claim.note]


def test_nothing_is_predicted_before_a_fit():
    for method in ("predict", "predict_proba", "score_samples", "score", "aic", "bic"):
        with pytest.raises(NotFittedError):
            getattr(GaussianMixture(), method)(clusters(n=5))
    with pytest.raises(NotFittedError):
        GaussianMixture().sample()
    with pytest.raises(ValueError, match="n_samples"):
        GaussianMixture().fit(clusters(n=5)).sample(0)


@settings(max_examples=25)
@given(
    arrays(
        np.float64,
        st.tuples(st.integers(4, 30), st.integers(1, 4)),
        elements=st.floats(-1e6, 1e6, width=32),
    ),
    st.sampled_from(KINDS),
    st.integers(1, 3),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_any_numbers_give_a_mixture_or_a_clear_refusal(X, kind, k):
    model = GaussianMixture(k, covariance_type=kind, reg_covar=1e-3, random_state=0, max_iter=20)
    try:
        model.fit(X)
    except ValueError as error:
        if "reg_covar" not in str(error):
            raise
        return
    assert np.isfinite(model.lower_bound_)
    assert model.weights_.sum() == pytest.approx(1)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-9)
    assert not [claim for claim in model.certificate_ if "itself failed" in claim.note]


# --- values that are not known ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_values_may_be_unknown_in_every_container(kind, tmp_path):
    X = with_holes(clusters(distance=8.0))
    plain = mixture(kind).fit(X)
    mapped = np.memmap(tmp_path / "X", dtype=X.dtype, mode="w+", shape=X.shape)
    mapped[:] = X
    masked, frame = np.ma.masked_invalid(X), pd.DataFrame(X).astype("Float64")
    for Y in (
        mapped,
        da.from_array(X, chunks=(50, 3)),
        [X[:77], X[77:]],
        masked,
        frame,
        np.asfortranarray(X),
    ):
        model = mixture(kind).fit(Y)
        order = np.argsort(model.means_[:, 0]), np.argsort(plain.means_[:, 0])
        assert_allclose(model.means_[order[0]], plain.means_[order[1]], atol=1e-8)
        assert model.lower_bound_ == pytest.approx(plain.lower_bound_, rel=1e-9)
        assert model.score(Y) == pytest.approx(model.lower_bound_, rel=1e-9)
        assert model.certificate_.failed == plain.certificate_.failed


def test_infinity_is_refused_in_every_container(tmp_path):
    X = with_holes(clusters())
    X[5, 1] = np.inf
    mapped = np.memmap(tmp_path / "X", dtype=X.dtype, mode="w+", shape=X.shape)
    mapped[:] = X
    for Y in (X, mapped, da.from_array(X, chunks=(50, 3)), [X[:77], X[77:]]):
        with pytest.raises(ValueError, match="infinity"):
            mixture("full").fit(Y)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_row_of_which_nothing_is_known_is_no_row(kind):
    X = clusters()
    longer = np.vstack([X, np.full((40, 3), np.nan)])
    model = mixture(kind, tol=1e-4).fit(longer)
    assert model.score(longer) == pytest.approx(model.lower_bound_, rel=1e-12)
    assert model.score(X) == pytest.approx(model.lower_bound_, rel=1e-12)
    assert model.aic(longer) == pytest.approx(model.aic(X), rel=1e-12)
    assert model.bic(longer) == pytest.approx(model.bic(X), rel=1e-12)
    assert_allclose(model.predict_proba(longer)[-1], model.weights_)
    assert_allclose(model.score_samples(longer)[-1], 0, atol=1e-12)
    assert model.certify(longer).failed == model.certify(X).failed
    with pytest.raises(ValueError, match="nothing to score"):
        model.score(longer[-5:])


def test_rows_of_which_nothing_is_known_ask_for_no_centre():
    X = clusters(n=40, distance=30.0)
    longer = np.vstack([X, np.full((400, 3), np.nan)])
    labels = mixture("full").fit(X).predict(X)
    for start in ("kmeans", "k-means++", "random_from_data"):
        model = mixture("full", init_params=start, n_init=3).fit(longer)
        assert adjusted_rand_score(model.predict(X), labels) == 1, start


def test_pandas_own_unknown_among_objects_is_explained():
    frame = pd.DataFrame(clusters()).astype(object)
    frame.iloc[3, 1] = pd.NA
    with pytest.raises(TypeError, match="Float64"):
        mixture("full").fit(frame)
    assert mixture("full").fit(frame.astype("Float64")).converged_


# --- scales and weights -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["unit", "fixed"])
@pytest.mark.parametrize(("scale", "dtype"), [(1e150, np.float64), (1e17, np.float32)])
def test_widths_that_are_nothing_beside_the_data_find_its_clusters(kind, scale, dtype):
    X = clusters(distance=20.0)
    labels = GaussianMixture(3, random_state=0).fit(X).predict(X)
    rows = (X * scale).astype(dtype)
    model = mixture(kind).fit(rows)
    assert adjusted_rand_score(model.predict(rows), labels) == 1
    # where widths are nothing, EM is k-means: a fixed point has every mean at the mean of its rows
    means = [rows[model.predict(rows) == j].mean(axis=0, dtype=float) for j in range(3)]
    assert_allclose(model.means_, means, atol=np.finfo(dtype).eps * np.abs(rows).max())
    # a likelihood of −1e300 says nothing about nats
    assert "fixed_point" in model.certificate_.undecided


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_float32_that_cannot_be_squared_is_refused(kind):
    X = clusters()
    with pytest.raises(ValueError, match="too large"):
        mixture(kind).fit((X * 1e30).astype(np.float32))
    if kind in KINDS:
        for scale in (1e-20, 1e-30):
            with pytest.raises((ValueError, RuntimeError), match="scale the data"):
                mixture(kind, reg_covar=0.0).fit((X * scale).astype(np.float32))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("unit", "dtype"), [(1e50, np.float32), (1e-50, np.float32), (1e-300, float), (1e300, float)]
)
def test_weights_have_no_unit(kind, unit, dtype):
    X = clusters(dtype=dtype)
    w = np.random.default_rng(0).random(len(X))
    plain, model = (
        mixture(kind).fit(X, sample_weight=w),
        mixture(kind).fit(X, sample_weight=unit * w),
    )
    assert_allclose(model.means_, plain.means_, rtol=1e-4, atol=1e-5)
    assert model.lower_bound_ == pytest.approx(plain.lower_bound_, rel=1e-5)
    rows = [m.certificate_["enough_rows"].measured for m in (plain, model)]
    assert rows[0] == pytest.approx(rows[1], rel=1e-3)
    with pytest.raises(ValueError, match="overflow"):
        mixture(kind).fit(X, sample_weight=np.full(len(X), 1e307))


# --- what no component can have made ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COUNTING)
@pytest.mark.parametrize(
    ("value", "message"), [(-1.0, "negative"), (0.5, "whole"), (2.0**60, r"2\^53|zeros and ones")]
)
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_are_none_are_refused_after_the_fit_too(name, value, message, sparse):
    X, _ = counts(name)
    model = Mixture(2, name, random_state=0).fit(X)
    X[3, 1] = value
    if sparse and name != "categorical":
        X = sp.csr_array(X)
    before = model.weights_
    for method in (
        "predict",
        "predict_proba",
        "score_samples",
        "score",
        "aic",
        "bic",
        "partial_fit",
        "certify",
    ):
        with pytest.raises(ValueError, match=message):
            getattr(model, method)(X)
    assert model.weights_ is before


def test_codes_never_seen_have_probability_zero_and_it_is_said():
    X, _ = counts("categorical")
    model = Mixture(2, "categorical", random_state=0).fit(X)
    other = X.copy()
    other[0, 2], other[1, :] = 7, 9
    scores = model.score_samples(other)
    assert_allclose(scores[2:], model.score_samples(X)[2:])
    assert (scores[:2] == -np.inf).all()
    assert_allclose(model.predict_proba(other)[1], 0.5)  # nobody explains it: all alike
    with pytest.warns(RuntimeWarning, match=r"2 of 200 rows have probability 0 .* −∞"):
        assert model.score(other) == -np.inf
    weights = np.r_[0.0, 0.0, np.ones(198)]
    assert np.isfinite(model.score(other, sample_weight=weights))  # they do not count
    found = model.certify(other)
    assert found["every_row_possible"].measured == 2
    assert "every_row_possible" in found.failed
    assert not found.broken
    assert "−∞" in found["fixed_point"].note
    assert model.certify(X, other)["fresh_rows_as_likely"].measured == np.inf
    assert "every_row_possible" in model.certify(X).held
    with pytest.warns(RuntimeWarning, match="−∞"):
        assert np.isfinite(model.partial_fit(other).probabilities_).all()


def test_codes_that_are_none_are_refused():
    X, _ = counts("categorical")
    X[0, 0] = 2.0**40
    with pytest.raises(ValueError, match="codes go up to 1099511627776"):
        Mixture(2, "categorical").fit(X)
    with pytest.raises(ValueError, match="hides the code 0"):
        Mixture(2, "categorical").fit([sp.csr_array(X[1:])])
    for n_categories in ((3, 3), 2.5, 2):
        with pytest.raises(ValueError, match="n_categories"):
            Mixture(2, Categorical(n_categories=n_categories)).fit(X[1:])


@pytest.mark.parametrize("name", COUNTING)
def test_initial_values_that_make_no_sense_are_refused(name):
    X, _ = counts(name)
    m = 24 if name == "categorical" else X.shape[1]
    wrong = [({"means": np.ones((2, m))}, "start from"), ({"values": np.ones((2, 2))}, "shape")]
    wrong += [
        ({"values": np.full((2, m), value)}, "numbers >= 0") for value in (np.nan, -0.5, np.inf)
    ]
    if name != "poisson":
        wrong.append(({"values": np.full((2, m), 1.5)}, "probabilities"))
    for start, message in wrong:
        with pytest.raises(ValueError, match=message):
            Mixture(2, name, parameters_init=start).fit(X)


@pytest.mark.parametrize("name", COUNTING)
def test_float32_models_sample_what_they_could_have_seen(name):
    X, _ = counts(name)
    model = Mixture(2, family_of(name, smoothing=0.0), random_state=0)
    model.fit(np.hstack([X, 0 * X[:, :1]]).astype(np.float32))
    rows, _ = model.sample(500)
    assert rows.dtype == np.float32
    assert (rows[:, -1] == 0).all()
    assert np.isfinite(model.score(rows))


def test_given_precisions_that_are_none_are_refused():
    X = clusters()
    for precision in (
        np.zeros((3, 3)),
        np.triu(np.ones((3, 3))),
        np.ones((3, 2)),
        -1.0 * np.ones(3),
        np.ones((5, 5)),
    ):
        with pytest.raises(ValueError, match=r"precisions|shape"):
            mixture("fixed", precisions_init=precision).fit(X)
    with pytest.raises(ValueError, match="fixed"):
        mixture("unit", precisions_init=np.eye(3)).fit(X)
