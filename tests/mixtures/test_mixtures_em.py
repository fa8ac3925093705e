"""EM: the likelihood never falls, the bound is tight, every kind of data gives the same fit, and scikit-learn agrees."""

import warnings
from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from planted_mixtures import GivenLabels
from scipy.special import logsumexp
from sklearn.mixture import GaussianMixture

from lemmata.core import Blocks, MaxSteps, Restarts, Settled, rounding, run, store
from lemmata.mixtures import Bernoulli, EMAlgorithm, elbo
from lemmata.mixtures.em import StepwiseEM
from lemmata.mixtures.expectation import expectation, finer, log_of, posterior
from lemmata.mixtures.families import family_of
from lemmata.mixtures.gaussians import FixedGaussian, FullGaussian
from lemmata.mixtures.starting import (
    Centres,
    Given,
    RandomMemberships,
    Seeds,
    fill_missing,
)

ESTIMATED = ("full", "tied", "diag", "spherical")
GAUSSIAN = (*ESTIMATED, "unit", "fixed")
COUNTING = ("bernoulli", "categorical", "multinomial", "poisson")


def family(name, **options):
    if name == "fixed":
        return FixedGaussian(np.array([[1.0, 0.4, 0.0], [0.4, 2.0, 0.1], [0.0, 0.1, 0.5]]))
    if name in ESTIMATED:
        options = {"reg_covar": 0.0, **options}
    if name in COUNTING:
        options = {"smoothing": 0.0, **options}
    return family_of(name, **options)


def data_for(name, n=240, seed=0):
    """Rows of three groups."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, n)
    if name in GAUSSIAN:
        return rng.standard_normal((3, 3))[z] * 3 + rng.standard_normal((n, 3)) @ np.diag(
            [1.0, 0.5, 2.0]
        )
    rates = np.array([[0.2, 1.0, 4.0, 2.0], [3.0, 0.3, 1.0, 2.0], [1.0, 4.0, 0.2, 2.0]])[z]
    counts = rng.poisson(rates).astype(float)
    return np.minimum(counts, {"bernoulli": 1, "categorical": 3}.get(name, np.inf))


def fitted(name, X, steps=5, k=3, seed=0, start=None, weights=None, **options):
    algorithm = EMAlgorithm(family(name, **options), k, start)
    return run(algorithm, Blocks.of(X, weights), stop=MaxSteps(steps), rng=seed)


def same(one, other):
    """Whether two states agree to the bit."""
    return store.digest(one) == store.digest(other)


# --- theory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*GAUSSIAN, *COUNTING])
def test_the_likelihood_never_falls(name):
    for seed in range(2):
        trace = fitted(name, data_for(name, seed=seed), steps=30, seed=seed).trace
        assert trace.largest_rise <= rounding(np.float64, terms=240)


@pytest.mark.parametrize("name", COUNTING)
def test_likelihood_and_prior_together_never_fall(name):
    for seed in range(3):
        solution = fitted(name, data_for(name, seed=seed), steps=30, seed=seed, smoothing=2.0)
        assert solution.trace.largest_rise <= rounding(np.float64, terms=240)
        prior = solution.algorithm.family.log_prior(solution.state.params)
        assert prior < 0
        assert solution.state.loss == pytest.approx(
            -solution.state.log_likelihood - prior / 240, rel=1e-12
        )


@pytest.mark.parametrize("name", [*GAUSSIAN, *COUNTING])
def test_the_bound_is_tight_at_the_posterior_and_below_elsewhere(name):
    """CIL (3.9) to (3.12)."""
    X = data_for(name)
    data = Blocks.of(X, np.random.default_rng(0).uniform(0, 2, len(X)))
    algorithm = EMAlgorithm(family(name), 3)
    before = run(algorithm, data, stop=MaxSteps(1), rng=0).state
    after = algorithm.step(before, data)
    tight = elbo(algorithm.family, after.params, after.weights, data)
    assert tight == pytest.approx(after.log_likelihood, rel=rounding(np.float64, terms=240))
    loose = elbo(
        algorithm.family, after.params, after.weights, data, q=(before.params, before.weights)
    )
    assert before.log_likelihood <= loose + 1e-12 <= tight + 2e-12  # M raised it, E closes the rest


@pytest.mark.parametrize("name", [*GAUSSIAN, *COUNTING])
def test_parameters_where_em_settles_are_a_fixed_point(name):
    X = data_for(name)
    state = run(
        EMAlgorithm(family(name), 2),
        Blocks.of(X),
        stop=Settled(1e-15, patience=3) | MaxSteps(3000),
        rng=1,
    ).state
    after = EMAlgorithm(family(name), 2).step(state, Blocks.of(X))
    assert_allclose(after.weights, state.weights, atol=1e-5)
    assert after.log_likelihood == pytest.approx(state.log_likelihood, abs=1e-12)


@pytest.mark.parametrize("name", ESTIMATED)
def test_units_and_order_of_rows_do_not_matter(name):
    X = data_for(name)
    labels = np.arange(len(X)) % 3
    base = fitted(name, X, start=GivenLabels(labels)).state
    moved = fitted(name, X * 8.0 + 3.0, start=GivenLabels(labels)).state
    assert moved.log_likelihood + 3 * np.log(8) == pytest.approx(base.log_likelihood, rel=1e-11)
    assert_allclose(moved.params.means, base.params.means * 8 + 3, rtol=1e-9, atol=1e-9)
    shuffle = np.random.default_rng(0).permutation(len(X))
    other = fitted(name, X[shuffle], start=GivenLabels(labels[shuffle])).state
    assert_allclose(other.params.means, base.params.means, rtol=1e-9, atol=1e-9)


def test_with_little_variance_the_memberships_are_those_of_k_means():
    """σ → 0 (CIL 3.1.5 says ∞ by mistake): responsibilities become hard, the nearest centre takes all."""
    X = data_for("full")
    centres = X[:3]
    nearest = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    for variance in (1e-4, 1e-8):
        fam = FixedGaussian(variance)
        params = fam.with_given(fam.survey(Blocks.of(X)), 3, means=centres)
        _, R = posterior(fam.log_density(X, params))
        assert (R.argmax(axis=1) == nearest).all()
    assert R.max(axis=1).min() > 1 - 1e-9
    after = EMAlgorithm(fam, 3).step(
        EMAlgorithm(fam, 3).at(Blocks.of(X), np.full(3, 1 / 3), params), Blocks.of(X)
    )
    assert_allclose(after.params.means, [X[nearest == j].mean(axis=0) for j in range(3)], rtol=1e-6)


# --- agreement --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ESTIMATED)
@pytest.mark.parametrize("steps", [1, 10])
def test_it_agrees_with_scikit_learn_from_the_same_start(name, steps):
    X = data_for(name, n=500) + 5
    k, d = 3, 3
    precisions = {
        "full": np.tile(np.eye(d), (k, 1, 1)),
        "tied": np.eye(d),
        "diag": np.ones((k, d)),
        "spherical": np.ones(k),
    }
    given = {"means": X[:3], "precisions": precisions[name]}
    weights = np.array([0.2, 0.3, 0.5])
    state = fitted(name, X, steps, start=Given(weights, given), reg_covar=1e-6).state
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = GaussianMixture(
            k, covariance_type=name, tol=0, max_iter=steps, weights_init=weights, means_init=X[:3],
            precisions_init=precisions[name], init_params="random_from_data", random_state=0,
        ).fit(X)  # fmt: skip
    assert_allclose(state.weights, theirs.weights_, rtol=1e-8)
    shown = EMAlgorithm(family(name), k).attributes(state)
    for attribute in ("means_", "covariances_", "precisions_", "precisions_cholesky_"):
        ours = shown[attribute]
        assert_allclose(
            ours,
            getattr(theirs, attribute),
            rtol=1e-8,
            atol=1e-8 * np.abs(ours).max(),
            err_msg=attribute,
        )
    assert state.log_likelihood == pytest.approx(theirs.score(X), rel=1e-9)


@pytest.mark.parametrize("name", [*GAUSSIAN, *COUNTING])
def test_weights_count_rows(name):
    X = data_for(name)
    times = np.random.default_rng(1).integers(0, 4, len(X))
    labels = np.arange(len(X)) % 3
    weighted = fitted(name, X, start=GivenLabels(labels), weights=times.astype(float)).state
    repeated = fitted(
        name, np.repeat(X, times, axis=0), start=GivenLabels(np.repeat(labels, times))
    ).state
    assert weighted.log_likelihood == pytest.approx(repeated.log_likelihood, rel=1e-9)
    assert_allclose(weighted.weights, repeated.weights, rtol=1e-7)


# --- every kind of data -----------------------------------------------------------------------------------------------


def many_rows(name, n=30_000):
    return np.tile(data_for(name, n=3000), (n // 3000, 1)) + (
        np.random.default_rng(0).normal(size=(n, 3)) if name in GAUSSIAN else 0
    )


@pytest.mark.parametrize("name", ["full", "poisson"])
def test_threads_and_mapped_files_change_no_bit(name, monkeypatch, tmp_path):
    X = many_rows(name, 210_000)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    states = []
    for threads, rows in ((1, X), (4, X), (3, mapped)):
        monkeypatch.setenv("LEMMATA_THREADS", str(threads))
        states.append(fitted(name, rows, steps=2).state)
    assert same(states[0], states[1])
    assert same(states[0], states[2])


@pytest.mark.parametrize("name", ["tied", "spherical", "multinomial"])
def test_streams_and_dask_arrays_give_the_same_fit(name):
    X = many_rows(name)
    labels = GivenLabels(np.arange(len(X)) % 3)
    whole = fitted(name, X, steps=3, start=labels).state
    for other in ([X[:7000], X[7000:7001], X[7001:]], da.from_array(X, chunks=(8000, 2))):
        state = fitted(name, other, steps=3, start=labels).state
        assert state.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-10)
        assert_allclose(state.weights, whole.weights, rtol=1e-7)


@pytest.mark.parametrize("name", GAUSSIAN)
def test_single_precision_finds_the_same_mixture(name):
    X = data_for(name, n=2000)
    start = GivenLabels(np.arange(2000) % 3)
    double, single = (
        fitted(name, X.astype(t), steps=5, start=start).state for t in (np.float64, np.float32)
    )
    # rows err by eps/2 of themselves, densities by some eps of their exponent; 5 steps can double it each time
    eps = float(np.finfo(np.float32).eps)
    assert single.log_likelihood == pytest.approx(double.log_likelihood, rel=64 * eps)
    assert_allclose(single.params.means, double.params.means, atol=2e3 * eps * np.abs(X).max())


def test_finer_blocks_are_the_same_rows():
    X = np.arange(70_000.0 * 3).reshape(-1, 3)
    w = np.arange(70_000.0)
    for width in (1, 3, 200, 100_000):
        pairs = list(finer(Blocks.of(X, w), width))
        assert np.array_equal(np.concatenate([rows for rows, _ in pairs]), X)
        assert np.array_equal(np.concatenate([weights for _, weights in pairs]), w)
    assert len(list(finer(Blocks.of(X), 200))) > len(list(Blocks.of(X)))


def test_an_e_step_keeps_nothing_of_the_size_of_the_data():
    import tracemalloc

    X = many_rows("full", 600_000)
    data, some, fam = Blocks.of(X), Blocks.of(X[:2000]), family("full")
    state = EMAlgorithm(fam, 8, Centres(X[:8]), compiled=True).init(some, np.random.default_rng(0))
    tracemalloc.start()
    expectation(fam, state.params, state.weights, data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.15 * X.nbytes


# --- the loop ---------------------------------------------------------------------------------------------------------


def test_restarts_keep_the_best_of_several_starts():
    X = data_for("full")
    many = Restarts(EMAlgorithm(FullGaussian(), 3, Seeds()), n=4, stop=MaxSteps(20))
    solution = run(many, Blocks.of(X), stop=MaxSteps(200), rng=0)
    ends = [trace.last() for trace in solution.children]
    assert len(ends) == 4
    best = solution.state.results[many.best(solution.state)]
    assert best.loss == min(ends)
    assert set(solution.attributes) == {
        "weights_",
        "means_",
        "covariances_",
        "precisions_cholesky_",
        "precisions_",
    }


def test_rows_without_any_weight_or_value_are_refused():
    with pytest.raises(ValueError, match="has no value"):
        fitted("full", np.full((5, 3), np.nan))
    with pytest.raises(ValueError, match="at least one component"):
        EMAlgorithm(FullGaussian(), 0)


# --- the posterior ----------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.lists(st.floats(-1e300, 1e300) | st.just(-np.inf), min_size=3, max_size=3), min_size=1, max_size=5
    )
)  # fmt: skip
@settings(max_examples=60)
def test_the_posterior_is_one_whatever_the_densities(joint):
    joint = np.array(joint)
    each, R = posterior(joint)
    assert_allclose(R.sum(axis=1), 1, rtol=1e-12)
    assert (R >= 0).all()
    possible = np.isfinite(joint).any(axis=1)
    assert (each[~possible] == -np.inf).all()
    # near 0 the log of a sum near 1 is known to a few eps, not to a share of itself
    assert_allclose(
        each[possible], logsumexp(joint[possible], axis=1), rtol=1e-12, atol=8 * np.finfo(float).eps
    )


def test_a_component_without_weight_gets_no_rows():
    X = data_for("full")
    state = fitted("full", X, steps=2).state
    weights = np.array([0.5, 0.5, 0.0])
    found = expectation(family("full"), state.params, weights, Blocks.of(X))
    assert found.stats.counts[2] == 0
    assert np.isfinite(found.log_likelihood)
    assert log_of(weights)[2] == -np.inf


# --- starts -----------------------------------------------------------------------------------------------------------


def test_labels_responsibilities_and_centres_that_say_the_same_start_the_same():
    X = data_for("full")
    centres = X[:3]
    nearest = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    starts = GivenLabels(nearest), Centres(centres)
    one, two = (fitted("full", X, steps=0, start=start).state for start in starts)
    assert same(one, two)
    assert_allclose(one.params.means, [X[nearest == j].mean(axis=0) for j in range(3)], rtol=1e-12)
    assert_allclose(
        one.params.covariances,
        [np.cov(X[nearest == j].T, bias=True) for j in range(3)],
        rtol=1e-9,
        atol=1e-12,
    )
    assert_allclose(one.weights, np.bincount(nearest) / len(X), rtol=1e-12)


@pytest.mark.parametrize(
    "start",
    [RandomMemberships(), Seeds(), Seeds("random_from_data")],
    ids=["random", "seeds", "rows"],
)
def test_random_starts_repeat_with_their_seed_and_differ_without(start, monkeypatch):
    X = many_rows("diag", 210_000)
    monkeypatch.setenv("LEMMATA_THREADS", "1")
    one = fitted("diag", X, steps=0, start=start, seed=1).state
    monkeypatch.setenv("LEMMATA_THREADS", "3")
    assert same(one, fitted("diag", X, steps=0, start=start, seed=1).state)
    assert not same(one, fitted("diag", X, steps=0, start=start, seed=2).state)


def test_seeds_find_separated_clusters_even_with_holes():
    rng = np.random.default_rng(0)
    truth = np.array([[0.0, 0.0, 0.0], [0.0, 40.0, 0.0], [40.0, 0.0, 0.0]])
    for seed in range(2):
        X = truth[np.arange(300) % 3] + rng.standard_normal((300, 3))
        X[rng.random(X.shape) < 0.1] = np.nan
        # a seed may fall on a filled-in row
        many = Restarts(EMAlgorithm(FullGaussian(), 3, Seeds()), n=6, stop=MaxSteps(30))
        means = run(many, Blocks.of(X), stop=MaxSteps(200), rng=seed).attributes["means_"]
        # 5 standard errors of 90 rows
        assert_allclose(means[np.lexsort(np.round(means, -1).T[::-1])], truth, atol=0.6)


def test_filled_rows_have_no_holes_and_whole_data_is_left_alone():
    X = data_for("full")
    rough = family("full").survey(Blocks.of(X))
    data = Blocks.of(X)
    assert fill_missing(data, rough) is data
    X[3, 1] = np.nan
    (rows, _), *_ = fill_missing(Blocks.of(X), rough)
    assert rows[3, 1] == rough.means[0, 1]


def test_what_is_given_is_used_and_the_rest_is_found():
    X = data_for("full")
    means = X[:3] + 0.25
    state = fitted("full", X, steps=0, start=Given(parameters={"means": means})).state
    assert_allclose(state.params.means, means)
    assert np.isfinite(state.loss)
    state = fitted("full", X, steps=0, start=Given(np.array([0.2, 0.3, 0.5]))).state
    assert_allclose(state.weights, [0.2, 0.3, 0.5])
    p = np.full((3, 4), 0.5)
    state = fitted(
        "bernoulli", data_for("bernoulli"), 0, start=Given(np.full(3, 1 / 3), {"values": p})
    ).state
    assert_allclose(state.params.values, p)
    assert state.log_likelihood == pytest.approx(4 * np.log(0.5))


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (Centres(np.ones((3, 2))), "3 components × 3 features"),
        (Given(np.ones(3)), "sum to 1"),
        (Given(parameters={"covariances": np.ones(3)}), "no initial covariances"),
    ],
    ids=["centres", "weights", "name"],
)
def test_bad_starts_are_refused(start, words):
    with pytest.raises(ValueError, match=words):
        fitted("full", data_for("full"), steps=0, start=start)


def test_seeds_are_drawn_by_known_methods():
    with pytest.raises(ValueError, match="'best'"):
        Seeds("best")


# --- online -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["full", "diag", "poisson"])
def test_a_stepwise_update_blends_statistics_as_it_says(name):
    X = data_for(name)
    online = StepwiseEM(family(name), kappa=0.7)
    start = online.begin(fitted(name, X[:120], steps=1).state)
    state = start
    for t in range(3):
        batch = Blocks.of(X[120 + 40 * t : 160 + 40 * t])
        found = expectation(online.family, state.params, state.weights, batch)
        gamma = (t + 2) ** -0.7
        counts = (1 - gamma) * state.stats.counts + gamma * found.stats.counts / 40
        after = online.update(state, batch)
        assert_allclose(after.stats.counts, counts, rtol=1e-12)
        assert_allclose(after.weights, counts / counts.sum(), rtol=1e-12)
        assert (after.batches, after.weight) == (t + 1, state.weight + 40)
        assert after.log_likelihood == pytest.approx(found.log_likelihood / 40)
        state = after


def test_stepwise_em_on_the_whole_data_stays_at_the_fixed_point_of_em():
    X = data_for("full")
    state = run(
        EMAlgorithm(family("full"), 2),
        Blocks.of(X),
        stop=Settled(1e-15, patience=3) | MaxSteps(3000),
        rng=1,
    ).state
    online = StepwiseEM(family("full"))
    after = online.update(online.begin(state), Blocks.of(X))
    assert_allclose(after.params.means, state.params.means, atol=1e-4)
    assert_allclose(after.weights, state.weights, atol=1e-5)


@pytest.mark.parametrize(("kappa", "left"), [(0.6, 0.5), (1.0, 1.0)])
def test_batches_in_one_pass_come_closer_to_the_fit_to_all_rows(kappa, left):
    """What is left of the gap to EM's likelihood after 58 batches. At κ = 1 the start is hardly forgotten (1/t): just less."""
    for seed in range(3):
        X = data_for("diag", n=6000, seed=seed)
        best = fitted("diag", X, steps=60, start=Centres(X[:3])).state.log_likelihood
        online = StepwiseEM(family("diag"), kappa)
        first = fitted("diag", X[:200], steps=0, start=Centres(X[:3])).state
        state = online.begin(first)
        for i in range(200, 6000, 100):
            state = online.update(state, Blocks.of(X[i : i + 100]))
        began, ended = (
            expectation(online.family, s.params, s.weights, Blocks.of(X)).log_likelihood / 6000
            for s in (first, state)
        )
        assert best - ended < left * (best - began)


def test_empty_batches_teach_nothing_and_bad_rates_are_refused():
    X = data_for("full")
    online = StepwiseEM(family("full"))
    state = online.begin(fitted("full", X, steps=1).state)
    assert online.update(state, Blocks.of(np.full((4, 3), np.nan))) is state
    assert online.update(state, Blocks.of(X[:4], np.zeros(4))) is state
    for kappa in (0.5, 1.2):
        with pytest.raises(ValueError, match=r"0\.5 < kappa <= 1"):
            StepwiseEM(Bernoulli(), kappa)


def test_states_of_the_version_before_leaps_are_read_and_go_on():
    """Version 2 did not say what the last leap gained: a fit goes on as if there had been none. Version 1 is refused."""
    data, arrays = Blocks.of(data_for("full")), {}
    algorithm = EMAlgorithm(family("full"), 3, leap_below=1e-3)
    state = run(algorithm, data, stop=MaxSteps(12), rng=0).state
    written = store.encode(state, arrays)
    assert written["version"] == 3
    old = {name: value for name, value in written["fields"].items() if name != "leapt"}
    read = store.decode({**written, "version": 2, "fields": old}, dict(arrays))
    assert same(read, replace(state, leapt=np.inf))
    ends = [run(algorithm, data, start=one, stop=MaxSteps(200)).state.loss for one in (state, read)]
    assert ends[1] == pytest.approx(ends[0], abs=1e-6)
    with pytest.raises(store.StoreError, match="are not those of version 3"):
        store.decode({**written, "version": 1, "fields": old}, dict(arrays))
