"""The claims about mixtures: each holds once and fails once, on our fits and on scikit-learn's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from planted_mixtures import KINDS
from scipy.stats import binom, multivariate_normal
from sklearn.datasets import load_iris
from sklearn.mixture import BayesianGaussianMixture
from sklearn.mixture import GaussianMixture as Theirs

import lemmata
from lemmata import GaussianMixture
from lemmata.audit.mixtures.climbs import extrapolated_gain
from lemmata.audit.mixtures.em import MIXTURE_CLAIMS
from lemmata.audit.mixtures.em_steps import expect, facts_of, log_likelihood, posterior
from lemmata.audit.mixtures.gaussians import components_of, observed_patterns
from lemmata.audit.mixtures.refits import share_bounds
from lemmata.audit.mixtures.shapes import width_left
from lemmata.core import Blocks, Fit, check
from lemmata.mixtures.witness import climb

ABOUT_RESULTS = {claim.name for claim in MIXTURE_CLAIMS if claim.about == "result"}


def clusters(n=120, d=3, k=3, distance=8.0, seed=0):
    """k Gaussian clusters of n rows each, their centres at mutual distance `distance` or more, of different widths."""
    rng = np.random.default_rng(seed)
    centres = distance * np.eye(k, d)
    return np.concatenate(
        [rng.normal(size=(n, d)) * rng.uniform(0.5, 1.0, size=d) + c for c in centres]
    )


def facts(model, X, weights=None):
    return facts_of(Fit(model, Blocks.of(X, weights), weights=weights))


def certificate(model, X, weights=None):
    """What lemmata.certify does, without the registry."""
    return check(
        MIXTURE_CLAIMS,
        Fit(model, Blocks.of(X, weights), weights=weights),
        "scikit-learn GaussianMixture",
    )


def checked(name, model, X):
    """One claim alone."""
    return {claim.name: claim for claim in MIXTURE_CLAIMS}[name](Fit(model, Blocks.of(X)))


def raw(parts):
    """Covariances in the units of the data."""
    u = parts.unit
    return parts.covariances * (u * u[:, None] if parts.covariances.ndim == 3 else u**2)


def theirs(k=3, **parameters):
    return Theirs(k, **{"tol": 1e-8, "max_iter": 1000, "random_state": 0, **parameters})


# --- the plain code itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_audit_agrees_with_scikit_learn(kind, seed):
    X = clusters(seed=seed, distance=3.0)
    model = theirs(covariance_type=kind).fit(X)
    found = facts(model, X)
    assert found.log_likelihood == pytest.approx(model.score(X) * len(X), rel=1e-12)
    assert (found.n, found.weight) == (len(X), len(X))
    assert_allclose(found.counts, model.predict_proba(X).sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_plain_step_is_scikit_learns(kind):
    X = clusters(distance=2.5)
    with pytest.warns(UserWarning, match="did not converge"):
        before = theirs(covariance_type=kind, max_iter=3).fit(X)
    with pytest.warns(UserWarning, match="did not converge"):
        after = theirs(covariance_type=kind, max_iter=4).fit(X)
    parts = components_of(Fit(before, Blocks.of(X)))
    sums = parts.empty()
    parts.add(sums, X, before.predict_proba(X))
    stepped = parts.step(sums)
    assert_allclose(stepped.pi, after.weights_, rtol=1e-9)
    assert_allclose(stepped.means, after.means_, rtol=1e-9, atol=1e-12)
    wide = np.asarray(after.covariances_)[:, None] if kind == "spherical" else after.covariances_
    inside = raw(stepped)
    assert_allclose(inside, np.broadcast_to(wide, inside.shape), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_are_marginalised_by_the_plain_density(kind):
    X = clusters(n=40)
    model = theirs(covariance_type=kind).fit(X)
    parts = components_of(Fit(model, Blocks.of(X)))
    holes = X.copy()
    holes[np.random.default_rng(1).random(X.shape) < 0.4] = np.nan
    log_density = parts.joint(holes) - np.log(model.weights_)
    for j in range(3):
        C = raw(parts)[j] if kind in ("full", "tied") else np.diag(raw(parts)[j])
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
    parts = components_of(Fit(model, Blocks.of(X)))
    sums = parts.empty()
    parts.add(sums, X, np.ones((n, 1)))
    stepped = parts.step(sums)
    # standard errors: of a mean √(2/n), of a second moment at most √(2·2²/n·2); five of them
    assert_allclose(stepped.means[0], [1.0, -1.0], atol=5 * np.sqrt(2 / n))
    assert_allclose(raw(stepped)[0] - 1e-6 * np.eye(2), C, atol=5 * np.sqrt(16 / n))


def test_patterns_are_a_partition_of_the_rows():
    rows = np.where(np.random.default_rng(0).random((50, 4)) < 0.3, np.nan, 1.0)
    seen = [which for _, which in observed_patterns(rows)]
    assert sorted(np.concatenate(seen)) == list(range(50))
    for pattern, which in observed_patterns(rows):
        assert (~np.isnan(rows[which]) == pattern).all()


# --- scikit-learn's fits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(1))
def test_well_separated_clusters_of_scikit_learn_are_certified(kind, seed):
    X = clusters(seed=seed)
    found = certificate(theirs(covariance_type=kind).fit(X), X)
    assert set(found.held) == ABOUT_RESULTS - {"fresh_rows_as_likely"}
    assert found.undecided == ["likelihood_never_fell", "fresh_rows_as_likely"]


def test_certify_takes_scikit_learns_gaussian_mixture_but_not_the_bayesian_one(monkeypatch):
    from lemmata import certify, registry

    entry = registry.Entry(
        "lemmata.mixtures.estimators", "", "CIL 3.1", ("sklearn.mixture.GaussianMixture",)
    )
    monkeypatch.setitem(registry.MODELS, "GaussianMixture", entry)
    X = clusters()
    found = certify(theirs().fit(X), X)
    assert found.failed == []
    assert found.undecided == ["likelihood_never_fell", "fresh_rows_as_likely"]
    assert "sklearn GaussianMixture" in str(found)
    with pytest.raises(TypeError, match="no claims about"):
        certify(BayesianGaussianMixture(n_components=2, random_state=0).fit(X), X)


def test_memberships_that_do_not_belong_to_the_parameters_fail():
    X = clusters(distance=3.0)
    model = theirs().fit(X)
    assert checked("bound_is_tight", model, X).verdict == "holds"
    # scikit-learn's predict_proba reads them too, but the covariances it does not
    model.means_ = model.means_ + 0.1
    assert checked("bound_is_tight", model, X).verdict == "holds"
    model.covariances_ = 1.5 * model.covariances_
    assert checked("bound_is_tight", model, X).verdict == "fails"


def test_the_gap_of_wrong_memberships_is_their_divergence_from_the_posterior():
    """ℓ − ELBO(q) = Σ_i KL(q_i ‖ posterior_i), CIL (3.9)."""
    X = clusters(distance=3.0)
    model = theirs().fit(X)
    r = model.predict_proba(X)
    q = 0.9 * r + 0.1 / 3
    model.predict_proba = lambda rows: q
    divergence = np.sum(q * (np.log(q) - np.log(np.maximum(r, 1e-300))))
    measured = checked("bound_is_tight", model, X).measured
    assert measured * facts(model, X).grain == pytest.approx(divergence, rel=1e-6)


def test_a_fit_cut_short_is_no_fixed_point():
    X = clusters(distance=2.0)
    with pytest.warns(UserWarning, match="did not converge"):
        short = theirs(max_iter=2, init_params="random").fit(X)
    assert checked("fixed_point", short, X).verdict == "fails"
    assert (
        checked(
            "fixed_point", theirs(init_params="random", max_iter=100_000, tol=1e-12).fit(X), X
        ).verdict
        == "holds"
    )


def test_the_gain_of_a_geometric_climb_is_extrapolated_exactly():
    for rate in (0.1, 0.9, 0.999):
        values = -(rate ** np.arange(9))
        low, high = extrapolated_gain(values)
        assert low == high == pytest.approx(1.0, rel=1e-6)
    # slower modes show later: never more than there is
    t = np.arange(9)
    assert extrapolated_gain(-(0.5**t) - 0.1 * 0.99**t)[0] < 1.1
    # where rounding hides the rate, the range says so; where it hides the gain, there is none
    low, high = extrapolated_gain(-1e-9 * 0.5**t, noise=1e-9)
    assert high < 1e-7
    low, high = extrapolated_gain(1e-3 * t, noise=1e-3 * 0.99)
    assert high > 1e3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("distance", [2.0])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_nats_to_go_are_what_a_long_run_gains(kind, distance):
    """One step from centres that are a deviation off in every direction, of clusters that overlap: there is a way to go."""
    estimates, truths = [], []
    for seed in range(4):
        X = clusters(distance=distance, seed=seed)
        options = {"covariance_type": kind, "means_init": distance * np.eye(3) + 1, "tol": 1e-11}
        model, arrived = (GaussianMixture(3, max_iter=t, **options).fit(X) for t in (1, 2000))
        estimates.append(checked("fixed_point", model, X).measured)
        truths.append(len(X) * (arrived.lower_bound_ - model.lower_bound_))
        assert checked("fixed_point", arrived, X).measured < 1e-4
    estimates, truths = np.array(estimates), np.array(truths)
    assert truths.min() > 1e-3
    assert (estimates < 1.1 * truths + 1e-3).all()  # no false alarm
    assert np.median(estimates) > 0.7 * np.median(truths)


@pytest.mark.parametrize("kind", KINDS)
def test_default_fits_arrive_and_scikit_learns_arrive_on_clear_clusters(kind):
    iris, cloud = load_iris().data, np.random.default_rng(0).normal(size=(500, 2))
    for model in (Theirs, GaussianMixture):
        fitted = model(3, covariance_type=kind, random_state=0).fit(iris)
        given = {"weights_init": fitted.weights_, "means_init": fitted.means_}
        given["precisions_init"] = fitted.precisions_
        longer = GaussianMixture(3, covariance_type=kind, tol=1e-12, max_iter=5000, **given)
        left = 150 * (longer.fit(iris).lower_bound_ - fitted.score(iris))
        ours = model is GaussianMixture
        assert (left <= 0.125) == (ours or kind != "tied")
        assert (checked("fixed_point", fitted, iris).verdict == "holds") == (left <= 0.125)
    crawling = Theirs(3, covariance_type=kind, random_state=0).fit(cloud)
    found = checked("fixed_point", crawling, cloud)
    assert crawling.converged_
    assert found.verdict == "fails"
    assert "tol" in found.advice


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
@pytest.mark.parametrize("seed", range(1))
def test_a_component_on_duplicates_has_collapsed(kind, seed):
    X = np.concatenate([clusters(n=60, seed=seed), np.full((20, 3), 30.0)])
    found = certificate(theirs(4, covariance_type=kind, reg_covar=1e-9).fit(X), X)
    assert "no_collapsed_component" in found.failed
    assert "unbounded" in found["no_collapsed_component"].advice
    tied = certificate(theirs(4, covariance_type="tied", reg_covar=1e-9).fit(X), X)
    # one width for all cannot shrink onto one of them
    assert "no_collapsed_component" in tied.held


@pytest.mark.parametrize("share", [1e-6, 1e-3, 0.1])
def test_a_spot_has_collapsed_whatever_reg_covar_holds_up(share):
    X = np.concatenate([clusters(n=60), np.full((20, 3), 30.0)])
    wide = theirs(4, reg_covar=share * X.var()).fit(X)
    assert checked("no_collapsed_component", wide, X).verdict == "fails"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_of_a_width_is_what_a_fit_without_the_row_has(kind):
    """1 − h/(1 − r/N) against det(S without the row) / det S, for one component."""
    X = np.random.default_rng(0).normal(size=(9, 2)) * [1.0, 50.0]
    model = theirs(1, covariance_type=kind, reg_covar=0).fit(X)
    found = facts(model, X)
    left = width_left(found.parts, found.sums, found, 2e-16)

    def scatter(rows):
        S = (rows - rows.mean(axis=0)).T @ (rows - rows.mean(axis=0))
        return {"diag": np.diag(S), "spherical": np.array([np.trace(S)])}.get(
            kind, np.array([np.linalg.det(S)])
        )

    expected = min(float((scatter(np.delete(X, i, axis=0)) / scatter(X)).min()) for i in range(9))
    assert left == pytest.approx(expected, rel=1e-9)
    three = theirs(1, covariance_type=kind, reg_covar=0).fit(X[:3])
    found = facts(three, X[:3])
    assert (width_left(found.parts, found.sums, found, 2e-16) < 1e-9) == (kind in ("full", "tied"))


def test_clusters_a_thousand_widths_apart_have_not_collapsed():
    X = clusters(distance=2000.0)
    assert checked("no_collapsed_component", theirs().fit(X), X).verdict == "holds"


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
    assert checked("enough_rows", theirs(2).fit(X), X).verdict == "fails"
    assert checked("enough_rows", theirs(2, covariance_type="diag").fit(X), X).verdict == "holds"


@pytest.mark.parametrize(("distance", "verdict"), [(1.0, "fails"), (2.0, "fails"), (5.0, "holds")])
def test_labels_of_two_equal_gaussians_are_clear_if_their_bayes_error_is_small(distance, verdict):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(2000, 1)), rng.normal(size=(2000, 1)) + distance])
    model = Theirs(2, random_state=0, tol=1e-6, max_iter=1000).fit(X)
    assert checked("memberships_clear", model, X).verdict == verdict


def test_labels_that_another_start_gives_otherwise_are_not_clear():
    rng = np.random.default_rng(0)
    turn = np.pi / 3 * rng.integers(6, size=600)
    X = 6 * np.column_stack([np.cos(turn), np.sin(turn)]) + rng.normal(size=(600, 2))
    found = checked("memberships_clear", Theirs(3, n_init=5, random_state=0).fit(X), X)
    assert found.verdict != "holds"  # six blobs, any two neighbours to a component
    assert "another start" in found.note


def test_what_one_row_in_a_thousand_costs_is_cut_or_left_open():
    rng = np.random.default_rng(0)
    X, fresh = rng.normal(size=(2, 1500, 2))
    model = Theirs(2, random_state=0).fit(X)
    good = lemmata.certify(model, X, fresh)["fresh_rows_as_likely"]
    assert good.verdict == "holds"
    fresh[0] = 1000.0  # seen, so that the mean without a cut is far off
    assert "capped" in lemmata.certify(model, X, fresh)["fresh_rows_as_likely"].note
    crowd = Theirs(20, random_state=0).fit(X[:80])
    assert lemmata.certify(crowd, X[:80], fresh)["fresh_rows_as_likely"].verdict == "fails"


def test_bounds_on_a_share_are_those_of_chernoff_and_contain_clopper_and_pearsons():
    for n, errors in ((100, 0), (50, 3), (1000, 500)):
        low, high = share_bounds(errors / n, n, np.log(100))
        assert binom.cdf(errors, n, high) <= 0.01 * (1 + 1e-9)
        assert errors == 0 or binom.sf(errors - 1, n, low) <= 0.01 * (1 + 1e-9)
    assert share_bounds(0.0, 100, np.log(100))[1] == pytest.approx(1 - 0.01 ** (1 / 100), rel=1e-9)


def test_one_cloud_is_not_worth_three_components():
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(400, 6))
        assert (
            checked("worth_its_components", theirs(max_iter=200, tol=1e-4).fit(X), X).verdict
            == "fails"
        )
        X = clusters(seed=seed)
        assert checked("worth_its_components", theirs().fit(X), X).verdict == "holds"


def test_a_component_more_than_there_are_clusters_is_not_held_worth_it():
    """BIC of one component says so of any number of clusters; the comparison is with one fewer."""
    for seed in range(3):
        X = clusters(seed=seed)
        assert checked("worth_its_components", theirs(4).fit(X), X).verdict != "holds"


def test_a_saddle_is_found_and_its_witness_is_more_likely():
    X = clusters(n=100, d=2, k=2)
    given = {
        "weights_init": [0.5, 0.5],
        "means_init": np.tile(X.mean(axis=0), (2, 1)),
        "precisions_init": np.tile(np.linalg.inv(np.cov(X.T, bias=True)), (2, 1, 1)),
    }
    stuck = Theirs(2, reg_covar=0, **given).fit(X)
    assert checked("fixed_point", stuck, X).verdict == "holds"
    found = checked("no_ascent_nearby", stuck, X)
    assert (found.verdict, found.kind) == ("fails", "proved")
    assert found.measured > 1
    start = facts(stuck, X)
    shown = start.parts.of_vector(found.witness["parameters"])
    more = log_likelihood(shown, start.rows) - start.log_likelihood
    assert more == pytest.approx(
        found.measured, rel=1e-3
    )  # EM without a nudge gains hardly anything
    assert checked("no_ascent_nearby", theirs(2).fit(X), X).verdict == "holds"


def test_without_searches_every_claim_still_ends_in_a_verdict():
    X = clusters()
    with lemmata.config(searches=False):
        found = certificate(theirs().fit(X), X)
    assert found.broken == found.failed == []
    assert "fixed_point" in found.held  # by two plain steps
    searched = {"no_ascent_nearby", "memberships_clear", "worth_its_components"}
    assert searched <= set(found.undecided)


@pytest.mark.parametrize("lie", [lambda v: v + [9, 9, 9] + [0] * 36, lambda v: v * np.nan])
def test_parameters_that_are_no_mixture_or_less_likely_prove_nothing(monkeypatch, lie):
    """Weights are made to sum to 1, so that a mixture that weighs ten is no more likely; NaN is no mixture."""
    X = clusters(distance=4.0)
    model = theirs().fit(X)
    shown = {
        "climb_by_leaps": lambda fit, parts, *_: lie(parts.vector()),
        "climb_from_nudges": lambda fit, parts, *_: (lie(parts.vector()), False),
    }
    monkeypatch.setattr(Fit, "searches", staticmethod(lambda name: shown.get(name)))
    for name in ("fixed_point", "no_ascent_nearby"):
        assert checked(name, model, X).verdict in ("holds", "broken")


def test_probabilities_that_do_not_sum_to_one_are_no_mixture():
    X = np.random.default_rng(0).integers(0, 4, (60, 3)).astype(float)
    for name in ("multinomial", "categorical"):
        parts = components_of(Fit(lemmata.Mixture(2, name, random_state=0).fit(X), Blocks.of(X)))
        v = parts.vector()
        assert_allclose(parts.of_vector(v).values, parts.values)
        with pytest.raises(np.linalg.LinAlgError):
            parts.of_vector(np.concatenate([v[:2], np.minimum(v[2:] + 0.01, 1)]))


def test_merging_two_components_keeps_the_moments_of_the_mixture():
    X = clusters()
    for kind in ("full", "diag"):
        parts = components_of(Fit(theirs(covariance_type=kind).fit(X), Blocks.of(X)))
        both = parts.merge(0, 2)
        for mixture in (parts, both):
            mean = mixture.pi @ mixture.means
            C = raw(mixture)
            variances = np.einsum("jaa->ja", C) if kind == "full" else C
            moments = [mean, mixture.pi @ (variances + (mixture.means - mean) ** 2)]
            if mixture is parts:
                expected = moments
        assert_allclose(moments, expected, rtol=1e-10)
        assert both.pi.sum() == pytest.approx(1)


def test_plain_em_never_falls_and_a_row_that_nothing_explains_belongs_to_all():
    X = clusters(distance=2.0)
    with pytest.warns(UserWarning, match="did not converge"):
        short = Theirs(3, max_iter=3, random_state=0, reg_covar=0, tol=1e-9).fit(X)
    parts = components_of(Fit(short, Blocks.of(X)))
    values, end = climb(parts, [(X, np.ones(len(X)))], 20)
    assert (np.diff(values) > -1e-9).all()
    assert expect(end, [(X, np.ones(len(X)))])[0] == values[-1]
    each, r = posterior(np.array([[-np.inf, -np.inf], [0.0, -np.inf]]))
    assert each.tolist() == [-np.inf, 0.0]
    assert r.tolist() == [[0.5, 0.5], [1.0, 0.0]]


def test_one_component_says_nothing_about_several():
    X = clusters()
    assert "worth_its_components" in certificate(theirs(1).fit(X), X).undecided


def test_weights_count_rows_in_the_audit():
    X = clusters(n=50, distance=3.0)
    w = np.random.default_rng(0).integers(1, 4, size=len(X)).astype(float)
    repeated = np.repeat(X, w.astype(int), axis=0)
    model = theirs().fit(repeated)
    weighted, plain = facts(model, X, w), facts(model, repeated)
    # in units of the largest weight
    for name in ("weight", "log_likelihood", "grain"):
        assert w.max() * getattr(weighted, name) == pytest.approx(
            getattr(plain, name), rel=1e-10
        ), name
    assert weighted.n == pytest.approx(w.sum() ** 2 / (w @ w))
    # how many rows, whatever the unit
    assert_allclose(facts(model, X, 1e-3 * w).counts, weighted.counts, rtol=1e-9)


def test_huge_and_tiny_scales_do_not_change_the_verdicts():
    X = clusters()
    found = certificate(theirs(reg_covar=0).fit(X), X)
    for scale in (1e-150, 1e-60, 1e60, 1e150):
        model = theirs(reg_covar=0).fit(X)
        powers = {"means_": 1, "covariances_": 2, "precisions_": -2, "precisions_cholesky_": -1}
        for name, power in powers.items():
            setattr(model, name, getattr(model, name) * scale**power)
        shift = 3 * np.log(scale)
        model.lower_bound_ -= shift
        model.lower_bounds_ = [bound - shift for bound in model.lower_bounds_]
        assert set(certificate(model, X * scale).held) == set(found.held)


def test_scikit_learns_fits_are_not_asked_about_values_that_are_missing():
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = Theirs(2, random_state=0).fit(X)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        lemmata.certify(model, X)
