"""Gaussian components: densities, kernels and sums against slow twins, unknown entries against brute force, hard numbers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numpy.testing import assert_allclose
from planted_mixtures import GivenLabels
from scipy.stats import multivariate_normal

from lemmata.core import Blocks, MaxSteps, StepFailed, rounding, run, store
from lemmata.mixtures import EMAlgorithm
from lemmata.mixtures.expectation import expectation, log_of, posterior
from lemmata.mixtures.families import family_of
from lemmata.mixtures.gaussians import GAUSSIANS, FixedGaussian, FullGaussian
from lemmata.mixtures.gaussians.components import GaussianSums
from lemmata.mixtures.starting import Given, RandomMemberships

KINDS = tuple(GAUSSIANS)
DENSE = ("full", "tied", "fixed")
ESTIMATED = ("full", "tied", "diag", "spherical")


def family(kind, d=3, **options):
    return FixedGaussian(spd(d, seed=9)) if kind == "fixed" else family_of(kind, **options)


def spd(d, seed=0):
    A = np.random.default_rng(seed).standard_normal((d, d + 2))
    return A @ A.T / d


def problem(kind, n=200, d=3, k=4, seed=0, dtype=np.float64, reg_covar=0.0):
    """A family, rows of overlapping clusters, weights and parameters near them."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((k, d)) * 2)[rng.integers(0, k, n)] + rng.standard_normal(
        (n, d)
    ) @ spd(d, seed)
    fam = family(kind, d, **({"reg_covar": reg_covar} if kind in ESTIMATED else {}))
    R = rng.dirichlet(np.full(k, 0.3), n)
    rough = fam.survey(Blocks.of(X))
    weights = rng.dirichlet(np.ones(k))
    return fam, X.astype(dtype), weights, fam.parameters(fam.statistics(X, None, R, rough))


def dense(fam, params):
    """Σ of every component as matrices."""
    k, d = params.means.shape
    C = params.covariances
    if "dd" in fam.axes:
        return np.broadcast_to(C, (k, d, d))
    return np.array([np.diag(np.broadcast_to(c, d)) for c in C])


def densities(fam, params, X):
    """The slow twin of log_density: SciPy on what is known of each row."""
    out = np.zeros((len(X), len(params.means)))
    for j, (mean, C) in enumerate(zip(params.means, dense(fam, params), strict=True)):
        for i, x in enumerate(X):
            o = ~np.isnan(x)
            if o.any():
                out[i, j] = multivariate_normal(mean[o], C[np.ix_(o, o)]).logpdf(x[o])
    return out


def sums(fam, params, X, R, origin):
    """The slow twin of dense statistics: E[δ] and E[δδᵀ] row by row, from the formulas of the conditional distribution."""
    k, d = params.means.shape
    first, second, counts = np.zeros((k, d)), np.zeros((k, d, d)), np.zeros(k)
    for j, (mean, C) in enumerate(zip(params.means, dense(fam, params), strict=True)):
        for x, r in zip(X, R[:, j], strict=True):
            o = ~np.isnan(x)
            if not o.any():
                continue
            m = ~o
            full, cov = np.where(o, x, mean), np.zeros((d, d))
            if m.any():
                gain = C[np.ix_(m, o)] @ np.linalg.inv(C[np.ix_(o, o)])
                full[m] = mean[m] + gain @ (x[o] - mean[o])
                cov[np.ix_(m, m)] = C[np.ix_(m, m)] - gain @ C[np.ix_(o, m)]
            delta = full - origin[j]
            counts[j] += r
            first[j] += r * delta
            second[j] += r * (np.outer(delta, delta) + cov)
    return counts, first, second


def with_holes(X, share, seed=0):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


# --- densities and kernels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 5, 9])
def test_log_densities_are_those_of_scipy(kind, d):
    fam, X, _, params = problem(kind, n=30, d=d)
    expected = densities(fam, params, X)
    assert_allclose(fam.log_density(X, params), expected, rtol=1e-10, atol=1e-10)
    single = fam.log_density(X.astype(np.float32), params)
    assert single.dtype == np.float32
    assert_allclose(single, expected, rtol=1e-4, atol=1e-3)


def test_the_exponential_of_a_line_is_that_of_numpy():
    from lemmata.linalg.simd import empty_lines, load, store
    from lemmata.mixtures.gaussians._kernels import exponential

    @njit
    def exponentials(out, lines, count):
        for i in range(count):
            store(out, i, exponential(load(lines, i)))

    for dtype, lowest in ((np.float64, -707.9), (np.float32, -86.9)):
        x = np.r_[
            0.0,
            -np.logspace(-20, np.log10(-lowest), 6000),
            -np.random.default_rng(0).uniform(0, -lowest, 9999),
        ]
        lines, out = empty_lines(1, 1000, dtype)[0], empty_lines(1, 1000, dtype)[0]
        x = np.resize(x.astype(dtype), lines.shape)
        lines[:] = x
        exponentials(out, lines, 1000)
        assert_allclose(out, np.exp(x.astype(np.float64)), rtol=2 * np.finfo(dtype).eps)
        lines[:] = np.resize(np.array([-np.inf, -1e30, lowest - 1, np.nan], dtype), lines.shape)
        exponentials(out, lines, 1000)
        assert (out[0, :3] == 0).all()
        assert np.isnan(out[0, 3])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("n", "d", "k"), [(1, 1, 1), (7, 2, 3), (300, 7, 5), (513, 16, 2), (600, 3, 9)]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_e_step_kernel_agrees_with_its_slow_twin(kind, n, d, k, dtype):
    fam, X, weights, params = problem(kind, n=max(n, 40), d=d, k=k, dtype=dtype)
    X = X[:n]
    w = np.random.default_rng(1).uniform(0, 2, n)
    found = fam.expecting(params, log_of(weights), dtype)(X, w)
    each, R = posterior(fam.log_density(X.astype(np.float64), params) + log_of(weights))
    twin = fam.statistics(X, w, R, params)
    eps = 1e-11 if dtype == np.float64 else 2e-4
    size = np.abs(X - params.means.mean(axis=0)).max() + 1
    assert found.log_likelihood == pytest.approx(w @ each, rel=eps, abs=eps)
    assert found.weight == pytest.approx(w.sum())
    moved = found.stats.move_to(twin.origin)
    assert_allclose(moved.counts, twin.counts, atol=eps * w.sum())
    assert_allclose(moved.sums, twin.sums, atol=eps * size * w.sum())
    assert_allclose(moved.squares, twin.squares, atol=eps * size**2 * w.sum())


@pytest.mark.parametrize("kind", KINDS)
def test_weights_count_rows(kind):
    fam, X, weights, params = problem(kind)
    times = np.random.default_rng(1).integers(0, 4, len(X))
    step = fam.expecting(params, log_of(weights), X.dtype)
    weighted, repeated = step(X, times.astype(float)), step(np.repeat(X, times, axis=0), None)
    assert weighted.log_likelihood == pytest.approx(repeated.log_likelihood, rel=1e-12)
    assert_allclose(weighted.stats.squares, repeated.stats.squares, rtol=1e-9, atol=1e-9)
    assert_allclose(weighted.stats.sums, repeated.stats.sums, rtol=1e-9, atol=1e-9)


# --- statistics -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(
    cut=st.lists(st.integers(0, 200), max_size=4),
    seed=st.integers(0, 30),
    holes=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=8)
def test_blocks_add_up_to_the_whole(kind, cut, seed, holes):
    fam, X, weights, params = problem(kind, seed=seed)
    X = with_holes(X, holes, seed)
    step = fam.expecting(params, log_of(weights), X.dtype)
    whole = step(X, None)
    total = sum((step(p, None).stats for p in np.split(X, sorted(cut)) if len(p)), GaussianSums())
    size = np.nanmax(np.abs(X)) + 1
    for name, power in (("counts", 0), ("sums", 1), ("squares", 2), ("seen", 0)):
        if getattr(whole.stats, name) is not None:
            atol = rounding(np.float64, terms=200) * 200 * size**power
            assert_allclose(
                getattr(total, name), getattr(whole.stats, name), atol=atol, err_msg=name
            )


@pytest.mark.parametrize("kind", KINDS)
@given(step=st.floats(-5, 5), seed=st.integers(0, 30))
@settings(max_examples=8)
def test_sums_about_another_origin_give_the_same_parameters(kind, step, seed):
    fam, X, weights, params = problem(kind, seed=seed)
    stats = fam.expecting(params, log_of(weights), X.dtype)(with_holes(X, 0.2), None).stats
    other = stats.move_to(stats.origin + step * np.arange(1, 4))
    assert_allclose(fam.parameters(other).means, fam.parameters(stats).means, atol=1e-10)
    assert_allclose(fam.parameters(other).covariances, fam.parameters(stats).covariances, atol=1e-9)
    both = other + stats
    assert_allclose(fam.parameters(both).covariances, fam.parameters(stats).covariances, atol=1e-9)
    assert_allclose(stats.scale(3.0).counts, 3 * stats.counts)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_and_statistics_survive_a_file(kind):
    fam, X, weights, params = problem(kind)
    for value in (fam, params, fam.expecting(params, log_of(weights), X.dtype)(X, None).stats):
        arrays = {}
        again = store.decode(store.encode(value, arrays), arrays)
        assert store.digest(again) == store.digest(value)


# --- the M-step -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_the_m_step_maximises_the_expected_log_likelihood(kind, holes):
    """Independent features: Σ r log p(x_o). Dense: Σ r E[log p(x) | x_o], which for Gaussians is a function of the sums."""
    for seed in range(2):
        fam, X, weights, params = problem(kind, seed=seed)
        X = with_holes(X, holes, seed)
        stats = fam.expecting(params, log_of(weights), X.dtype)(X, None).stats
        _, R = posterior(fam.log_density(X, params) + log_of(weights))
        best = fam.parameters(stats)

        def expected(theta, fam=fam, stats=stats, X=X, R=R):
            if "dd" not in fam.axes:
                return (R * fam.log_density(X, theta)).sum()
            total = 0.0
            for n, s, S, o, m, C in zip(
                stats.counts, stats.sums, np.broadcast_to(stats.squares, (4, 3, 3)), stats.origin, theta.means,
                dense(fam, theta), strict=True,
            ):  # fmt: skip
                a = m - o
                about = S - np.outer(s, a) - np.outer(a, s) + n * np.outer(a, a)
                total -= 0.5 * (n * np.linalg.slogdet(C)[1] + np.trace(np.linalg.solve(C, about)))
            return total

        top, rng = expected(best), np.random.default_rng(seed)
        for size in (1e-3, 1e-1):
            for _ in range(10):
                C = best.covariances
                if fam.estimated and "dd" in fam.axes:
                    turn = np.eye(3) + size * rng.standard_normal((*C.shape[:-2], 3, 3))
                    C = turn @ C @ np.swapaxes(turn, -1, -2)
                elif fam.estimated:
                    C = C * np.exp(size * rng.standard_normal(C.shape))
                other = fam.of(best.means + size * rng.standard_normal(best.means.shape), C)
                assert expected(other) <= top + 1e-10 * abs(top)


@pytest.mark.parametrize("kind", ESTIMATED)
def test_reg_covar_costs_no_more_likelihood_than_its_price(kind):
    for seed in range(6):
        fam, X, weights, params = problem(kind, n=60, seed=seed, reg_covar=0.5)
        data = Blocks.of(X)
        algorithm = EMAlgorithm(fam, 4)
        state = algorithm.at(data, weights, params)
        for _ in range(8):
            after = algorithm.step(state, data)
            price = fam.price(state.stats, after.params)
            assert 0 < price < np.inf
            assert after.log_likelihood >= state.log_likelihood - price - 1e-12
            assert after.price == (price if after.loss > state.loss else 0)  # nobody asks otherwise
            state = after


def test_reg_covar_has_no_price_at_zero_and_an_infinite_one_where_a_component_is_flat():
    fam, X, weights, params = problem("full", n=60)
    state = EMAlgorithm(fam, 4).at(Blocks.of(X), weights, params)
    assert fam.price(state.stats, fam.parameters(state.stats)) == 0
    flat = np.column_stack([X, np.ones(len(X))])
    fam = FullGaussian(1e-3)
    state = run(EMAlgorithm(fam, 2), Blocks.of(flat), stop=MaxSteps(0), rng=0).state
    assert fam.price(state.stats, fam.parameters(state.stats)) == np.inf


@pytest.mark.parametrize("kind", KINDS)
def test_a_component_without_rows_keeps_its_mean_and_gets_the_common_spread(kind):
    fam, X, _, _ = problem(kind, k=2)
    params = GivenLabels(np.zeros(len(X), int)).begin(
        fam, 2, Blocks.of(X), fam.survey(Blocks.of(X)), None
    )[1]
    assert np.isfinite(params.means).all()
    C = dense(fam, params)
    assert_allclose(C[1], C[0], rtol=1e-9)


def test_parameters_are_counted_as_scikit_learn_does():
    from sklearn.mixture import GaussianMixture

    for kind in ESTIMATED:
        fam, X, _, params = problem(kind, d=5)
        theirs = GaussianMixture(4, covariance_type=kind, random_state=0).fit(X)
        assert fam.n_parameters(params) + 3 == theirs._n_parameters()
    for kind in ("unit", "fixed"):
        assert family(kind).n_parameters(problem(kind)[3]) == 12


@pytest.mark.parametrize("kind", KINDS)
def test_samples_have_the_moments_of_their_component(kind):
    fam, _, _, params = problem(kind)
    n = 40_000
    for j in range(2):
        X = fam.sample(params, np.full(n, j), np.random.default_rng(j))
        C = dense(fam, params)[j]
        assert (np.abs(X.mean(axis=0) - params.means[j]) <= 5 * np.sqrt(np.diag(C) / n)).all()
        # Var of a sample covariance entry: (C_aa C_bb + C_ab²)/n
        error = np.sqrt((np.outer(np.diag(C), np.diag(C)) + C**2) / n)
        assert (np.abs(np.cov(X.T) - C) <= 5 * error).all()


# --- unknown entries --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_densities_of_rows_with_holes_are_the_marginal_ones(kind):
    fam, X, _, params = problem(kind, n=60, d=4)
    X = with_holes(X, 0.4)
    X[5] = np.nan
    logs = fam.log_density(X, params)
    assert_allclose(logs, densities(fam, params, X), rtol=1e-10, atol=1e-10)
    assert (logs[5] == 0).all()


@pytest.mark.parametrize("kind", DENSE)
def test_sums_of_rows_with_holes_are_the_conditional_ones(kind):
    fam, X, weights, params = problem(kind, n=60, d=4)
    X = with_holes(X, 0.4)
    w = np.random.default_rng(2).uniform(0, 2, 60)
    found = fam.expecting(params, log_of(weights), X.dtype)(X, w)
    each, R = posterior(densities(fam, params, X) + log_of(weights))
    known = ~np.isnan(X).all(axis=1)
    counts, first, second = sums(fam, params, X, R * w[:, None], found.stats.origin)
    assert found.log_likelihood == pytest.approx(w @ each)
    assert found.weight == pytest.approx(w[known].sum())
    assert_allclose(found.stats.counts, counts, rtol=1e-10)
    assert_allclose(found.stats.sums, first, rtol=1e-9, atol=1e-9)
    if fam.estimated:
        assert_allclose(found.stats.squares, second, rtol=1e-9, atol=1e-9)
    twin = fam.statistics(X, w, R, params)
    assert_allclose(twin.move_to(found.stats.origin).sums, first, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["diag", "spherical", "unit"])
def test_independent_features_use_what_is_known_and_nothing_else(kind):
    fam, X, weights, params = problem(kind, n=60)
    X = with_holes(X, 0.4)
    found = fam.expecting(params, log_of(weights), X.dtype)(X, None).stats
    _, R = posterior(densities(fam, params, X) + log_of(weights))
    known = ~np.isnan(X)
    assert_allclose(found.seen, R.T @ known, rtol=1e-10)
    after = fam.parameters(found)
    assert_allclose(after.means, (R.T @ np.where(known, X, 0)) / (R.T @ known), rtol=1e-9)
    if fam.estimated:
        errors = np.array(
            [r @ np.where(known, X - m, 0) ** 2 for r, m in zip(R.T, after.means, strict=True)]
        )
        v = (
            errors / (R.T @ known)
            if kind == "diag"
            else errors.sum(axis=1) / (R.T @ known).sum(axis=1)
        )
        assert_allclose(after.covariances, v, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_which_nothing_is_known_contribute_nothing(kind):
    fam, X, weights, params = problem(kind)
    step = fam.expecting(params, log_of(weights), X.dtype)
    without, also = step(X, None), step(np.insert(X, [3, 50], np.nan, axis=0), None)
    assert (also.log_likelihood, also.weight) == (without.log_likelihood, without.weight)
    assert store.digest(also.stats) == store.digest(without.stats)
    nothing = step(np.full((2, 3), np.nan), None)
    assert nothing.weight == 0
    assert not nothing.stats.counts.any()


@pytest.mark.parametrize("kind", KINDS)
def test_one_hole_changes_only_what_it_must(kind):
    """Rows without holes go through the kernel as if there were none beside them."""
    fam, X, weights, params = problem(kind)
    step = fam.expecting(params, log_of(weights), X.dtype)
    holed = X.copy()
    holed[7, 1] = np.nan
    rest, only = np.delete(X, 7, axis=0), holed[7:8]
    both, apart = step(holed, None), step(rest, None) + step(only, None)
    assert both.log_likelihood == pytest.approx(apart.log_likelihood, rel=1e-14)
    assert_allclose(both.stats.squares, apart.stats.squares, rtol=1e-13)


@pytest.mark.parametrize("kind", ESTIMATED)
def test_likelihood_never_falls_with_holes(kind):
    for seed in range(3):
        fam, X, _, _ = problem(kind, n=300, seed=seed)
        data = Blocks.of(with_holes(X, 0.3, seed))
        trace = run(EMAlgorithm(fam, 3), data, stop=MaxSteps(25), rng=seed).trace
        assert trace.largest_rise <= rounding(np.float64, terms=300)


@pytest.mark.parametrize("kind", ESTIMATED)
def test_the_planted_mixture_is_recovered_from_rows_with_holes(kind):
    """Entries lost completely at random: estimates stay consistent. 5 standard errors of a mean of the known quarter."""
    rng = np.random.default_rng(3)
    n, means = 6000, np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 6.0]])
    C = (
        np.array([[1.0, 0.6, 0.3], [0.6, 1.0, 0.2], [0.3, 0.2, 1.0]])
        if kind in DENSE
        else np.eye(3)
    )
    z = rng.random(n) < 0.5
    X = with_holes(means[z.astype(int)] + rng.multivariate_normal(np.zeros(3), C, n), 0.3)
    start = Given(
        np.array([0.5, 0.5]), {"means": means + 0.5, "precisions": precisions_like(kind, 2, 3)}
    )
    found = run(EMAlgorithm(family(kind), 2, start), Blocks.of(X), stop=MaxSteps(60), rng=0).state
    assert_allclose(found.params.means, means, atol=5 / np.sqrt(n / 4))
    assert_allclose(
        dense(family(kind), found.params),
        np.broadcast_to(C, (2, 3, 3)),
        atol=5 * np.sqrt(2 / (n / 4)),
    )
    assert_allclose(found.weights, 0.5, atol=5 * 0.5 / np.sqrt(n / 2))


def precisions_like(kind, k, d):
    return {
        "full": np.tile(np.eye(d), (k, 1, 1)),
        "tied": np.eye(d),
        "diag": np.ones((k, d)),
        "spherical": np.ones(k),
    }[kind]


# --- hard numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ESTIMATED)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_offset_moves_the_means_and_nothing_else(kind, dtype):
    fam, X, _, _ = problem(kind, n=400, dtype=dtype)
    far = dtype(2.0**20 if dtype == np.float64 else 2.0**10)
    # so that adding the offset loses no digit: 2^-8 … 2^21, or 2^-8 … 2^11
    near = np.round(X * 2**8) / 2**8
    labels = np.arange(400) % 3
    for steps in (0, 3):
        here, there = (
            run(EMAlgorithm(fam, 3, GivenLabels(labels)), Blocks.of(Y.astype(dtype)), stop=MaxSteps(steps), rng=0).state
            for Y in (near, near + far)
        )  # fmt: skip
        # means are float64 numbers near `far`; all else is arithmetic on deviations, in the dtype of the rows
        eps = float(np.finfo(dtype).eps)
        slack = 200 * eps + 8 * float(far) * float(np.finfo(np.float64).eps)
        assert there.log_likelihood == pytest.approx(
            here.log_likelihood, abs=slack * abs(here.log_likelihood)
        )
        assert_allclose(there.params.means - np.float64(far), here.params.means, atol=10 * slack)
        assert_allclose(there.params.covariances, here.params.covariances, atol=10 * slack)


@pytest.mark.parametrize("kind", ESTIMATED)
@pytest.mark.parametrize("scale", [1e150, 1e-150, 1e40])
def test_a_scale_changes_the_units_and_nothing_else(kind, scale):
    fam, X, _, _ = problem(kind, n=100)
    labels = np.arange(100) % 3
    one, other = (
        run(
            EMAlgorithm(fam, 3, GivenLabels(labels)), Blocks.of(X * c), stop=MaxSteps(3), rng=0
        ).state
        for c in (1.0, scale)
    )
    assert other.log_likelihood + 3 * np.log(scale) == pytest.approx(one.log_likelihood, abs=1e-9)
    assert_allclose(other.params.means / scale, one.params.means, rtol=1e-8)
    assert_allclose(other.params.covariances / scale / scale, one.params.covariances, rtol=1e-7)


def test_clusters_far_apart_keep_the_digits_of_their_covariances():
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    noise = np.round(rng.standard_normal((300, 2)) * 2**10) / 2**10
    X = np.array([[0, 0], [2.0**30, 0], [0, 2.0**30]])[labels] + noise
    for steps in (0, 2):
        state = run(
            EMAlgorithm(FullGaussian(0.0), 3, GivenLabels(labels)),
            Blocks.of(X),
            stop=MaxSteps(steps),
            rng=0,
        ).state
        truth = [np.cov(noise[labels == j].T, bias=True) for j in range(3)]
        # 2^30·eps of a deviation, twice
        assert_allclose(state.params.covariances, truth, atol=1e-7)


def test_an_outlier_beyond_all_densities_is_no_nan():
    for dtype, far in (
        (np.float64, 1e120),
        (np.float64, 1e200),
        (np.float32, 1e15),
        (np.float32, 1e30),
    ):
        fam, X, weights, params = problem("full", dtype=dtype)
        X = np.vstack([X, np.full((1, 3), far, dtype)])
        found = fam.expecting(params, log_of(weights), dtype)(X, None)
        assert np.isfinite(found.log_likelihood)
        assert found.stats.counts.sum() == pytest.approx(len(X), rel=1e-5)


def test_constant_and_repeated_rows_need_reg_covar():
    flat = np.column_stack([np.random.default_rng(0).standard_normal(50), np.full(50, 7.0)])
    same = np.ones((50, 2))
    for X in (flat, same):
        for kind in ESTIMATED:
            ends = run(EMAlgorithm(family(kind), 2), Blocks.of(X), stop=MaxSteps(5), rng=0)
            assert np.isfinite(ends.state.loss)
            if kind != "spherical" or X is same:
                with pytest.raises((ValueError, StepFailed), match="reg_covar"):
                    run(
                        EMAlgorithm(family(kind, reg_covar=0.0), 2),
                        Blocks.of(X),
                        stop=MaxSteps(5),
                        rng=0,
                    )


def test_numbers_that_cannot_be_squared_are_refused():
    for bad in (1e200, np.inf):
        X = np.random.default_rng(0).standard_normal((20, 2))
        X[3, 1] = bad
        with pytest.raises(ValueError, match="too large"):
            FullGaussian().survey(Blocks.of(X))
    with pytest.raises(ValueError, match="feature 1 has no value"):
        FullGaussian().survey(Blocks.of(np.array([[1.0, np.nan], [2.0, np.nan]])))


def test_what_a_user_gives_is_checked():
    fam, X, _, params = problem("full")
    with pytest.raises(ValueError, match=r"shape \(4, 3\)"):
        fam.with_given(params, 4, means=np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"shape \(4, 3, 3\)"):
        fam.with_given(params, 4, precisions=np.ones((4, 3)))
    with pytest.raises(ValueError, match="positive definite"):
        fam.with_given(params, 4, precisions=-np.tile(np.eye(3), (4, 1, 1)))
    with pytest.raises(ValueError, match="numbers > 0"):
        family("diag").with_given(problem("diag")[3], 4, precisions=np.zeros((4, 3)))
    with pytest.raises(ValueError, match="no initial precisions"):
        family("unit").with_given(problem("unit")[3], 4, precisions=np.ones(4))
    with pytest.raises(ValueError, match="reg_covar=-1"):
        FullGaussian(-1.0)
    with pytest.raises(ValueError, match="the given covariance has shape"):
        FixedGaussian(np.eye(4)).survey(Blocks.of(X))
    with pytest.raises(ValueError, match="positive definite"):
        FixedGaussian(-1.0).survey(Blocks.of(X))
    assert_allclose(
        FixedGaussian([1.0, 2.0, 3.0]).survey(Blocks.of(X)).covariances, np.diag([1.0, 2.0, 3.0])
    )


@pytest.mark.parametrize("kind", ESTIMATED)
def test_what_is_shown_is_consistent(kind):
    fam, _, _, params = problem(kind)
    shown = fam.attributes(params)
    C = dense(fam, params)
    P = dense(fam, replace(params, covariances=shown["precisions_"]))
    assert_allclose(C @ P, np.broadcast_to(np.eye(3), (4, 3, 3)), atol=1e-9)


def test_the_single_unit_gaussian_has_the_mean_of_the_rows_and_arrives_in_one_step():
    X = np.random.default_rng(0).standard_normal((50, 3))
    algorithm = EMAlgorithm(family("unit"), 1, RandomMemberships())
    state = algorithm.init(Blocks.of(X), np.random.default_rng(0))
    assert_allclose(state.params.means[0], X.mean(axis=0), atol=1e-14)
    found = expectation(family("unit"), state.params, state.weights, Blocks.of(X))
    assert found.log_likelihood == pytest.approx(
        multivariate_normal(X.mean(axis=0)).logpdf(X).sum()
    )
