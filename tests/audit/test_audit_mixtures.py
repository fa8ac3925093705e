"""The claims about mixtures: each holds once and fails once, on our fits and on scikit-learn's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from planted_mixtures import COUNTING, KINDS, counts
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.datasets import load_iris
from sklearn.mixture import BayesianGaussianMixture
from sklearn.mixture import GaussianMixture as Theirs

import lemmata
from lemmata.audit.densities import observed_patterns, plain_components
from lemmata.audit.mixtures import MIXTURE_CLAIMS, audit
from lemmata.core import Blocks
from lemmata.core.certificate import Fit, check
from lemmata.mixtures.estimators import GaussianMixture, Mixture
from lemmata.mixtures.families import family_of

ABOUT_RESULTS = {claim.name for claim in MIXTURE_CLAIMS if claim.about == "result"}


def clusters(n=120, d=3, k=3, distance=8.0, seed=0):
    """k Gaussian clusters of n rows each, their centres at mutual distance `distance` or more, of different widths."""
    rng = np.random.default_rng(seed)
    centres = distance * np.eye(k, d)
    return np.concatenate(
        [rng.normal(size=(n, d)) * rng.uniform(0.5, 1.0, size=d) + c for c in centres]
    )


def facts(model, X, weights=None):
    return audit(Fit(model, Blocks.of(X, weights), weights=weights))


def certificate(model, X, weights=None):
    """What lemmata.certify does, without the registry."""
    return check(
        MIXTURE_CLAIMS,
        Fit(model, Blocks.of(X, weights), weights=weights),
        "scikit-learn GaussianMixture",
    )


def theirs(k=3, **parameters):
    return Theirs(k, **{"tol": 1e-8, "max_iter": 1000, "random_state": 0, **parameters})


# --- the plain code itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_audit_agrees_with_scikit_learn(kind, seed):
    X = clusters(seed=seed, distance=3.0)
    model = theirs(covariance_type=kind).fit(X)
    one = theirs(1, covariance_type=kind).fit(X)
    found = facts(model, X)
    assert found.log_likelihood == pytest.approx(model.score(X) * len(X), rel=1e-12)
    assert found.alone == pytest.approx(one.score(X) * len(X), rel=1e-12)
    one_free, many_free = found.n_parameters
    assert (one_free, many_free) == (one._n_parameters(), model._n_parameters())
    gain = 2 * (found.log_likelihood - found.alone) - (many_free - one_free) * np.log(len(X))
    assert gain == pytest.approx(one.bic(X) - model.bic(X), rel=1e-9)
    assert_allclose(found.counts, model.predict_proba(X).sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_plain_step_is_scikit_learns(kind):
    X = clusters(distance=2.5)
    with pytest.warns(UserWarning, match="did not converge"):
        before = theirs(covariance_type=kind, max_iter=3).fit(X)
    with pytest.warns(UserWarning, match="did not converge"):
        after = theirs(covariance_type=kind, max_iter=4).fit(X)
    parts = plain_components(Fit(before, Blocks.of(X)))
    counts, (means, covariances) = parts.step(parts.add(parts.empty(), X, before.predict_proba(X)))
    assert_allclose(counts / len(X), after.weights_, rtol=1e-9)
    assert_allclose(means, after.means_, rtol=1e-9, atol=1e-12)
    wide = np.asarray(after.covariances_)[:, None] if kind == "spherical" else after.covariances_
    assert_allclose(covariances, np.broadcast_to(wide, covariances.shape), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_are_marginalised_by_the_plain_density(kind):
    X = clusters(n=40)
    model = theirs(covariance_type=kind).fit(X)
    parts = plain_components(Fit(model, Blocks.of(X)))
    holes = X.copy()
    holes[np.random.default_rng(1).random(X.shape) < 0.4] = np.nan
    log_density = parts.log_density(holes)
    for j in range(3):
        C = parts.covariances[j] if kind in ("full", "tied") else np.diag(parts.covariances[j])
        for i, x in enumerate(holes):
            o = ~np.isnan(x)
            expected = (
                multivariate_normal(model.means_[j][o], C[np.ix_(o, o)]).logpdf(x[o])
                if o.any()
                else 0.0
            )
            assert log_density[i, j] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_one_feature_missing_at_random_leaves_the_step_unbiased():
    """E[x̂] and E[x̂x̂ᵀ + C] under the model are its own moments: a step from the truth stays there up to sampling error."""
    rng = np.random.default_rng(0)
    n, C = 20_000, np.array([[1.0, 0.8], [0.8, 2.0]])
    X = rng.multivariate_normal([1.0, -1.0], C, size=n)
    X[rng.random(n) < 0.5, 1] = np.nan
    model = Theirs(1)
    model.weights_, model.means_, model.covariances_ = np.ones(1), np.array([[1.0, -1.0]]), C[None]
    parts = plain_components(Fit(model, Blocks.of(X)))
    _, (means, covariances) = parts.step(parts.add(parts.empty(), X, np.ones((n, 1))))
    # standard errors: of a mean √(2/n), of a second moment at most √(2·2²/n·2); five of them
    assert_allclose(means[0], [1.0, -1.0], atol=5 * np.sqrt(2 / n))
    assert_allclose(covariances[0] - 1e-6 * np.eye(2), C, atol=5 * np.sqrt(16 / n))


def test_patterns_are_a_partition_of_the_rows():
    rows = np.where(np.random.default_rng(0).random((50, 4)) < 0.3, np.nan, 1.0)
    seen = [which for _, which in observed_patterns(rows)]
    assert sorted(np.concatenate(seen)) == list(range(50))
    for pattern, which in observed_patterns(rows):
        assert (~np.isnan(rows[which]) == pattern).all()


# --- scikit-learn's fits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_well_separated_clusters_of_scikit_learn_are_certified(kind, seed):
    X = clusters(seed=seed)
    found = certificate(theirs(covariance_type=kind).fit(X), X)
    assert set(found.held) == ABOUT_RESULTS
    assert found.undecided == ["likelihood_never_fell"]


def test_certify_takes_scikit_learns_gaussian_mixture_but_not_the_bayesian_one(monkeypatch):
    from lemmata import certify, registry

    entry = registry.Entry(
        "lemmata.mixtures.estimators", "", "CIL 3.1", ("sklearn.mixture.GaussianMixture",)
    )
    monkeypatch.setitem(registry.MODELS, "GaussianMixture", entry)
    X = clusters()
    found = certify(theirs().fit(X), X)
    assert found.failed == []
    assert found.undecided == ["likelihood_never_fell"]
    assert "sklearn GaussianMixture" in str(found)
    with pytest.raises(TypeError, match="no claims about"):
        certify(BayesianGaussianMixture(n_components=2, random_state=0).fit(X), X)


def test_memberships_that_do_not_belong_to_the_parameters_fail():
    X = clusters(distance=3.0)
    model = theirs().fit(X)
    assert "bound_is_tight" in certificate(model, X).held
    # scikit-learn's predict_proba reads them too, but the covariances it does not
    model.means_ = model.means_ + 0.1
    assert "bound_is_tight" in certificate(model, X).held
    model.covariances_ = 1.5 * model.covariances_
    assert "bound_is_tight" in certificate(model, X).failed


def test_the_gap_of_wrong_memberships_is_their_divergence_from_the_posterior():
    """ℓ − ELBO(q) = Σ_i KL(q_i ‖ posterior_i), CIL (3.9)."""
    X = clusters(distance=3.0)
    model = theirs().fit(X)
    r = model.predict_proba(X)
    q = 0.9 * r + 0.1 / 3
    model.predict_proba = lambda rows: q
    found = facts(model, X)
    divergence = np.sum(q * (np.log(q) - np.log(np.maximum(r, 1e-300))))
    assert found.log_likelihood - found.bound == pytest.approx(divergence, rel=1e-6)


def test_a_fit_cut_short_is_no_fixed_point():
    X = clusters(distance=2.0)
    with pytest.warns(UserWarning, match="did not converge"):
        short = theirs(max_iter=2, init_params="random").fit(X)
    assert "fixed_point" in certificate(short, X).failed
    assert (
        "fixed_point"
        in certificate(theirs(init_params="random", max_iter=100_000, tol=1e-12).fit(X), X).held
    )


@pytest.mark.parametrize(
    "name", [*(f"gaussian-{kind}" for kind in (*KINDS, "unit", "fixed")), *COUNTING]
)
def test_what_rows_say_of_a_step_adds_up_to_what_the_step_says(name):
    """Σ_i w_i g_i, from derivatives of single log-densities, against the complete-data information times θ' − θ."""
    X = clusters(distance=2.0) if name.startswith("gaussian") else counts(name)[0]
    if name.startswith("gaussian"):
        X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
        X = X[~np.isnan(X).all(axis=1)]
    family = family_of(
        name.removeprefix("gaussian-"), **({"reg_covar": 0.0} if name[9:] in KINDS else {})
    )
    fit = Fit(
        Mixture(family, 3, random_state=0, init_params="random", tol=1e-2).fit(X), Blocks.of(X)
    )
    parts, w = plain_components(fit), np.random.default_rng(1).random(len(X))
    joint = parts.log_density(X) + np.log(fit.weights_)
    r = np.exp(joint - logsumexp(joint, axis=1)[:, None])
    sums = parts.add(parts.empty(), X, w[:, None] * r)
    after = parts.step(sums)[1]
    pull = parts.pull(sums, after)
    assert (pull > 0).all()
    assert_allclose(w @ parts.scores(X, r, after), pull, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("distance", [3.0, 5.0])
def test_the_standard_errors_to_go_tell_the_likelihood_that_is_left(kind, distance):
    """½ λ² nats to second order; estimated from what single rows say, hence the margin."""
    estimates, truths = [], []
    for seed in range(8):
        X = clusters(distance=distance, seed=seed)
        options = {"covariance_type": kind, "random_state": 0, "max_iter": 2000}
        model, arrived = (GaussianMixture(3, tol=tol, **options).fit(X) for tol in (1e-3, 1e-11))
        estimates.append(facts(model, X).to_go)
        truths.append(np.sqrt(2 * len(X) * max(arrived.lower_bound_ - model.lower_bound_, 0.0)))
        assert facts(arrived, X).to_go < 1e-2
        assert "fixed_point" in arrived.certify(X).held
    estimates, truths = np.array(estimates), np.array(truths)
    assert (estimates < 1.3 * truths + 1e-3).all()  # no false alarm
    assert (estimates > 0.3 * truths - 1e-3).all()
    assert np.median(estimates) > 0.7 * np.median(truths)


@pytest.mark.parametrize("kind", KINDS)
def test_default_fits_of_clear_clusters_hold_and_those_of_one_cloud_do_not(kind):
    iris, cloud = load_iris().data, np.random.default_rng(0).normal(size=(500, 2))
    for model in (Theirs, GaussianMixture):
        fitted = model(3, covariance_type=kind, random_state=0).fit(iris)
        assert "fixed_point" in certificate(fitted, iris).held
        crawling = model(3, covariance_type=kind, random_state=0).fit(cloud)
        found = certificate(crawling, cloud)["fixed_point"]
        assert crawling.converged_
        assert found.verdict == "fails"
        assert "tol" in found.advice


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
@pytest.mark.parametrize("seed", range(3))
def test_a_component_on_duplicates_has_collapsed(kind, seed):
    X = np.concatenate([clusters(n=60, seed=seed), np.full((20, 3), 30.0)])
    found = certificate(theirs(4, covariance_type=kind, reg_covar=1e-9).fit(X), X)
    assert "no_collapsed_component" in found.failed
    assert "unbounded" in found["no_collapsed_component"].advice
    tied = certificate(theirs(4, covariance_type="tied", reg_covar=1e-9).fit(X), X)
    # one width for all cannot shrink onto one of them
    assert "no_collapsed_component" in tied.held


def test_a_chosen_width_is_no_collapse():
    X = np.concatenate([clusters(n=60), np.full((20, 3), 30.0)])
    wide = theirs(4, reg_covar=0.1 * X.var()).fit(X)
    assert "no_collapsed_component" in certificate(wide, X).held


def test_clusters_a_thousand_widths_apart_have_not_collapsed():
    X = clusters(distance=2000.0)
    assert "no_collapsed_component" in certificate(theirs().fit(X), X).held


@pytest.mark.parametrize("flat", ["constant", "redundant"])
def test_flat_data_is_named_as_the_reason(flat):
    X = clusters()
    extra = np.full((len(X), 1), 7.0) if flat == "constant" else X[:, :1] - X[:, 1:2]
    X = np.hstack([X, extra])
    claim = certificate(theirs().fit(X), X)["no_collapsed_component"]
    assert claim.verdict == "fails"
    assert "plane" in claim.advice


def test_a_component_with_too_few_rows_for_its_covariance_fails():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(200, 6)), rng.normal(size=(4, 6)) + 20])
    assert "enough_rows" in certificate(theirs(2).fit(X), X).failed
    assert "enough_rows" in certificate(theirs(2, covariance_type="diag").fit(X), X).held


@pytest.mark.parametrize("distance", [1.0, 2.0, 5.0])
def test_the_bayes_error_of_two_equal_gaussians_is_phi_of_half_their_distance(distance):
    rng = np.random.default_rng(0)
    n = 4000
    X = np.concatenate([rng.normal(size=(n, 1)), rng.normal(size=(n, 1)) + distance])
    model = Theirs(2, covariance_type="full")
    model.weights_, model.means_ = np.full(2, 0.5), np.array([[0.0], [distance]])
    model.covariances_ = model.precisions_cholesky_ = np.ones((2, 1, 1))
    found = facts(model, X)
    exact = norm.cdf(-distance / 2)
    # 1 − max r lies in [0, ½]
    assert found.doubt / found.n == pytest.approx(exact, abs=5 * 0.5 / np.sqrt(2 * n))
    model.converged_ = True
    verdict = certificate(model, X)["memberships_clear"].verdict
    assert verdict == ("holds" if exact < 0.04 else "fails")


def test_one_cloud_is_not_worth_three_components():
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(400, 3))
        assert (
            "worth_its_components" in certificate(theirs(max_iter=200, tol=1e-4).fit(X), X).failed
        )
        X = clusters(seed=seed)
        assert "worth_its_components" in certificate(theirs().fit(X), X).held


def test_one_component_says_nothing_about_several():
    X = clusters()
    assert "worth_its_components" in certificate(theirs(1).fit(X), X).undecided


def test_weights_count_rows_in_the_audit():
    X = clusters(n=50, distance=3.0)
    w = np.random.default_rng(0).integers(1, 4, size=len(X)).astype(float)
    repeated = np.repeat(X, w.astype(int), axis=0)
    model = theirs().fit(repeated)
    weighted, plain = facts(model, X, w), facts(model, repeated)
    for name in ("n", "log_likelihood", "bound", "doubt", "alone"):
        assert getattr(weighted, name) == pytest.approx(getattr(plain, name), rel=1e-10), name
    assert weighted.change == pytest.approx(plain.change, rel=1e-3, abs=1e-9)
    assert weighted.to_go == pytest.approx(plain.to_go, rel=1e-3, abs=1e-9)
    # how many rows, whatever the unit
    assert_allclose(facts(model, X, 1e-3 * w).counts, weighted.counts, rtol=1e-9)


def test_huge_and_tiny_scales_do_not_change_the_verdicts():
    X = clusters()
    for scale in (1e-60, 1e60):
        found = certificate(theirs(reg_covar=0).fit(X * 1.0), X)
        model = theirs(reg_covar=0).fit(X)
        for name in ("means_", "covariances_", "precisions_cholesky_"):
            power = {"means_": 1, "covariances_": 2, "precisions_cholesky_": -1}[name]
            setattr(model, name, getattr(model, name) * scale**power)
        assert set(certificate(model, X * scale).held) == set(found.held)


def test_scikit_learns_fits_are_not_asked_about_values_that_are_missing():
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = Theirs(2, random_state=0).fit(X)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        lemmata.certify(model, X)
