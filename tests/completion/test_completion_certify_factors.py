"""Factors from anywhere: from a plain ALS, from cmfrec, from implicit, transposed, of the wrong size."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from factored_twins import als, counts, planted
from sklearn.exceptions import NotFittedError

import lemmata
from lemmata import ALS, registry
from lemmata.completion import Observed, certify_factors
from lemmata.core import Fit, check
from lemmata.core.certification.certify import adapt

PROOFS = ("first_order_point", "second_order_minimum", "global_optimum")
IMPLICIT = ("attributes_sound", "statements_true", PROOFS[0], "fixed_point", *PROOFS[1:])
COUNTERPARTS = ("cmfrec.CMF", "cmfrec.CMF_implicit", "implicit.cpu.als.AlternatingLeastSquares")


def ratings():
    """6,000 values between 0 and 1, of rank one but for a little noise."""
    rng = np.random.default_rng(0)
    dense = np.outer(rng.random(80), rng.random(75)) + 0.02 * rng.random((80, 75))
    return Observed.of(dense)


def proven(certificate, k):
    """What theory says of a converged fit of a 14 × 11 matrix: with few factors a minimum; with all of them the best one.

    With all of them the minimum is flat (unused factors cost and gain nothing), so that no strict curvature is to be expected.
    """
    assert "first_order_point" in certificate.held
    assert "second_order_minimum" not in certificate.failed
    assert ("second_order_minimum" if k == 2 else "global_optimum") in certificate.held


@pytest.mark.parametrize("k", [2, 11])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("biases", [False, True])
def test_the_factors_of_a_plain_als_are_certified(weighted, biases, k):
    A, reg = planted(0, biases=biases, density=0.8, noise=0.2), 0.15 if weighted else 1.0
    factors, mean = als(A, k, reg, weighted=weighted, biases=biases)
    offsets = {"row_bias": factors.b, "column_bias": factors.c, "mean": mean} if biases else {}
    found = certify_factors(A, factors.U, factors.V, reg, weighted=weighted, **offsets)
    proven(found, k)
    wrong = certify_factors(A, factors.U, factors.V, 2 * reg, weighted=weighted, **offsets)
    assert "first_order_point" in wrong.failed
    assert f"rank {k}" in found.title


@pytest.mark.parametrize("k", [2, 11])
def test_implicit_factors_are_certified_against_all_entries(k):
    A = counts(1)
    factors, _ = als(A, k, 1.0, implicit=True, alpha=2.0)
    found = certify_factors(A, factors.U, factors.V, 1.0, feedback="implicit", alpha=2.0)
    assert [claim.name for claim in found] == list(IMPLICIT)
    proven(found, k)
    other = certify_factors(A, factors.U, factors.V, 1.0, feedback="implicit", alpha=1.0)
    assert "first_order_point" in other.failed


def test_held_out_entries_and_fixed_offsets_are_taken():
    train, test = ratings().split(0.4, seed=0)
    mean = train.values.mean()
    factors, _ = als(train.with_values(train.values - mean), 3, 0.5, sweeps=300)
    found = certify_factors(
        train, factors.U, factors.V, 0.5, mean=mean, biases=False, held_out=test
    )
    assert "first_order_point" in found.held
    assert "held_out_error" in found.held
    assert (
        "held_out_error" in certify_factors(train, factors.U, factors.V, 0.5, mean=mean).undecided
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"V": np.ones((2, 11))}, r"V has shape \(2, 11\).*pass V.T"),
        ({"U": np.ones((2, 14))}, "looks transposed: pass U.T"),
        ({"U": np.ones((13, 2))}, "14 rows"),
        ({"V": np.ones((11, 3))}, "same number"),
        ({"U": np.full((14, 2), np.nan)}, "NaN"),
        ({"U": np.ones(14)}, "shape"),
        ({"V": np.full((11, 2), "a")}, "numbers"),
        ({"reg": -1.0}, "reg=-1"),
        ({"reg": [1.0]}, "one number"),
        ({"row_bias": np.ones(3)}, "row_bias"),
        ({"column_bias": np.full(11, np.inf)}, "column_bias"),
        ({"feedback": "loud"}, "feedback='loud'"),
        ({"observed": np.full((14, 11), np.nan)}, "no known entries"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    good = {"observed": planted(0), "U": np.ones((14, 2)), "V": np.ones((11, 2)), "reg": 0.1}
    certify_factors(**good)
    with pytest.raises(ValueError, match=message):
        certify_factors(**{**good, **change})


# --- other libraries --------------------------------------------------------------------------------------------------


@pytest.fixture
def known_abroad(monkeypatch):
    """The registry entry that lets `lemmata.certify` take them, whatever the registry says today."""
    entry = registry.MODELS.get("ALS", registry.Entry("lemmata.completion.als.estimator", "", ""))
    monkeypatch.setitem(registry.MODELS, "ALS", entry._replace(counterparts=COUNTERPARTS))


def fitted(name, A, **more):
    module = pytest.importorskip(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "implicit":
            model = module.als.AlternatingLeastSquares(
                use_cg=False, dtype=np.float64, random_state=0, num_threads=1, **more
            )
            model.fit(A.csr(), show_progress=False)
            return model
        model = getattr(module, more.pop("kind", "CMF"))(
            use_cg=False, use_float=False, nthreads=1, verbose=False, **more
        )
        return model.fit(sp.coo_matrix((A.values, (A.rows, A.columns)), shape=A.shape))


def test_the_confidence_of_implicit_has_no_one_in_it():
    """Whether it is installed or not: a stand-in with its attributes, factors from a plain ALS with w = αa."""
    A = counts(1)
    factors, _ = als(A, 2, 1.0, implicit=True, alpha=2.0, offset=0.0)
    model = SimpleNamespace(
        user_factors=factors.U,
        item_factors=factors.V,
        regularization=1.0,
        alpha=2.0,
        iterations=100,
    )
    found = adapt("ALS", model)
    claims = found.pop("claims")
    fit = Fit(model, A, attributes=found)
    certificate = check(claims, fit, "implicit")
    assert [claim.name for claim in certificate] == list(IMPLICIT)
    assert {"fixed_point", "first_order_point"} <= set(certificate.held)
    found["confidence_offset_"] = 1.0
    wrong = check(claims, Fit(model, A, attributes=found), "implicit")
    assert {"fixed_point", "first_order_point"} <= set(wrong.failed)
    assert ALS.work(fit) > 0


@pytest.mark.parametrize("k", [2, 11])
@pytest.mark.parametrize(("reg", "weighted", "biases"), [(1.0, False, False), (0.15, True, True)])
def test_a_fit_of_cmfrec_is_certified_with_its_own_lambda(known_abroad, reg, weighted, biases, k):
    A = planted(0, biases=biases, density=0.8, noise=0.2)
    settings = {
        "k": k,
        "lambda_": reg,
        "scale_lam": weighted,
        "user_bias": biases,
        "item_bias": biases,
        "niter": 30,
    }
    found = lemmata.certify(fitted("cmfrec", A, **settings), A)
    proven(found, k)
    assert found.title.startswith("cmfrec CMF")
    early = lemmata.certify(fitted("cmfrec", A, **{**settings, "niter": 2}), A)
    assert early["first_order_point"].measured > 100 * found["first_order_point"].measured


@pytest.mark.parametrize("k", [2, 11])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("implicit", {"regularization": 1.0, "alpha": 2.0, "iterations": 100}),
        ("cmfrec", {"kind": "CMF_implicit", "lambda_": 1.0, "alpha": 2.0, "niter": 30}),
    ],
)
def test_fits_to_implicit_feedback_are_certified_with_their_own_confidence(
    known_abroad, name, settings, k
):
    A = counts(1)
    found = lemmata.certify(
        fitted(name, A, **settings, **{"factors" if name == "implicit" else "k": k}), A
    )
    assert [claim.name for claim in found] == list(IMPLICIT)
    proven(found, k)


def test_held_out_entries_reach_the_certificate_of_a_foreign_fit(known_abroad):
    train, test = ratings().split(0.4, seed=0)
    model = fitted("cmfrec", train, k=2, lambda_=1.0, user_bias=False, item_bias=False, niter=10)
    assert "held_out_error" in lemmata.certify(model, train, test).held


def test_unfitted_and_unknown_models_are_told_so(known_abroad):
    cmfrec, implicit = pytest.importorskip("cmfrec"), pytest.importorskip("implicit")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = cmfrec.CMF(), cmfrec.CMF_implicit(), implicit.als.AlternatingLeastSquares()
    for model in models:
        with pytest.raises(NotFittedError, match="not fitted"):
            lemmata.certify(model, planted(0))
    with pytest.raises(TypeError, match="certify_factors"):
        adapt("ALS", object())


def test_an_objective_that_is_not_ours_is_refused_by_name(known_abroad):
    A = planted(0)
    for settings, what in (
        ({"user_bias": True, "item_bias": False}, "one side"),
        ({"lambda_": [1.0, 1.0, 2.0, 1.0, 1.0, 1.0]}, "several lambda_"),
        ({"l1_lambda": 0.1}, "l1_lambda"),
        ({"add_implicit_features": True}, "add_implicit_features"),
        ({"k_main": 1}, "k_main"),
    ):
        model = fitted("cmfrec", A, k=2, niter=2, **settings)
        with pytest.raises(ValueError, match=what):
            lemmata.certify(model, A)


def test_a_matrix_of_another_shape_is_refused(known_abroad):
    model = fitted("cmfrec", planted(0), k=2, niter=2)
    with pytest.raises(ValueError, match="11"):
        lemmata.certify(model, planted(0, m=9))


def test_factors_that_state_nothing_cannot_state_the_truth():
    """What an adapter fills in (scales of one) is no statement of the model: a claim about it could not fail."""
    A = counts(0)
    factors, _ = als(A, 2, 1.0, implicit=True, alpha=2.0)
    found = certify_factors(A, factors.U, factors.V, 1.0, feedback="implicit", alpha=2.0)
    assert "statements_true" in found.undecided
