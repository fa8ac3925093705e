"""Families of counts: densities against SciPy, sums that add up, M-steps that maximise, and data they refuse."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lemmata.core import Blocks, store
from lemmata.mixtures import Bernoulli, Categorical, Multinomial, Poisson
from lemmata.mixtures.families import family_of

COUNTING = (Bernoulli, Poisson, Multinomial, Categorical)
SIZES = (2, 4, 3, 2, 5)


def rows_of(family, n=60, seed=0):
    """Rows that a family takes, of five features."""
    rng = np.random.default_rng(seed)
    if family is Bernoulli:
        return (rng.random((n, 5)) < 0.4).astype(float)
    if family is Categorical:
        X = np.column_stack([rng.integers(0, c, n) for c in SIZES]).astype(float)
        X[0] = np.array(SIZES) - 1  # so that every code occurs
        return X
    return rng.poisson(2.0, (n, 5)).astype(float)


def mixture_of(family, k=3, seed=0, smoothing=0.0, n=60):
    """A family, rows, soft responsibilities, and the parameters that belong to them."""
    X, kind = rows_of(family, n, seed), family(smoothing=smoothing)
    R = np.random.default_rng(seed + 1).dirichlet(np.ones(k), n)
    rough = kind.survey(Blocks.of(X))
    return kind, X, R, kind.parameters(kind.statistics(X, None, R, rough)), rough


def densities(kind, X, params):
    """The slow twin: SciPy, row by row and component by component."""
    out = np.empty((len(X), len(params.values)))
    for j, theta in enumerate(params.values):
        for i, x in enumerate(X):
            if isinstance(kind, Bernoulli):
                out[i, j] = scipy.stats.bernoulli.logpmf(x, theta).sum()
            elif isinstance(kind, Poisson):
                out[i, j] = scipy.stats.poisson.logpmf(x, theta).sum()
            elif isinstance(kind, Multinomial):
                out[i, j] = scipy.stats.multinomial.logpmf(x, int(x.sum()), theta / theta.sum())
            else:
                starts = np.cumsum(params.sizes) - params.sizes
                out[i, j] = sum(
                    np.log(theta[s + int(code)]) for s, code in zip(starts, x, strict=True)
                )
    return out


# --- densities --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", COUNTING)
def test_log_densities_are_those_of_scipy(family):
    kind, X, _, params, _ = mixture_of(family, smoothing=0.5)
    assert_allclose(kind.log_density(X, params), densities(kind, X, params), rtol=1e-12, atol=1e-12)
    assert_allclose(
        kind.log_density(X.astype(np.float32), params), kind.log_density(X, params), rtol=1e-12
    )


@pytest.mark.parametrize("family", COUNTING)
def test_densities_of_all_outcomes_sum_to_one(family):
    kind, _, _, params, _ = mixture_of(family, smoothing=0.5)
    # so many outcomes that only one feature is looked at: the sums stop at 60, where P ~ 1e-50
    if family is Poisson:
        params = type(params)(params.values[:, :1])
        every = np.arange(60.0)[:, None]
    elif family is Multinomial:
        every = np.array([x for x in np.ndindex(*[4] * 5) if sum(x) == 3], dtype=float)
    else:
        every = np.array(
            list(np.ndindex(*(SIZES if family is Categorical else [2] * 5))), dtype=float
        )
    assert_allclose(np.exp(kind.log_density(every, params)).sum(axis=0), 1, rtol=1e-12)


@pytest.mark.parametrize("family", [Bernoulli, Poisson, Multinomial])
def test_sparse_rows_say_what_dense_ones_say(family):
    kind, X, R, params, rough = mixture_of(family)
    S = sp.csr_array(X)
    assert_allclose(kind.log_density(S, params), kind.log_density(X, params), rtol=1e-12)
    assert_allclose(
        kind.statistics(S, None, R, rough).sums, kind.statistics(X, None, R, rough).sums, rtol=1e-12
    )
    assert_allclose(kind.survey(Blocks.of(S)).values, rough.values, rtol=1e-12)


@pytest.mark.parametrize("family", COUNTING)
def test_impossible_rows_have_a_log_density_of_minus_infinity_unless_smoothed(family):
    X = np.zeros((4, 2)) if family is not Multinomial else np.tile([1.0, 0.0], (4, 1))
    other = np.array([[0.0, 1.0]])  # has probability 0
    for smoothing, unseen in ((0.0, True), (0.2, family is Categorical)):  # a code beyond all seen
        kind = family(smoothing=smoothing)
        logs = kind.log_density(other, kind.survey(Blocks.of(X)))
        assert (logs[0, 0] == -np.inf) == unseen


# --- statistics -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", COUNTING)
@given(
    cut=st.lists(st.integers(0, 60), max_size=4), seed=st.integers(0, 50), weighted=st.booleans()
)
@settings(max_examples=15)
def test_blocks_add_up_to_the_whole(family, cut, seed, weighted):
    kind, X, R, _, rough = mixture_of(family, seed=seed)
    w = np.random.default_rng(seed).uniform(0, 3, len(X)) if weighted else None
    whole = kind.statistics(X, w, R, rough)
    parts = [p for p in np.split(np.arange(len(X)), sorted(cut)) if len(p)]
    found = [kind.statistics(X[p], None if w is None else w[p], R[p], rough) for p in parts]
    total = sum(found[1:], found[0])
    assert_allclose(total.counts, whole.counts, rtol=1e-12)
    assert_allclose(total.sums, whole.sums, rtol=1e-12, atol=1e-12)
    twice = whole + type(whole)() if family is not Categorical else whole + type(whole)(0.0, 0.0, 0)
    assert_allclose(twice.sums, whole.sums)


@pytest.mark.parametrize("family", COUNTING)
def test_weights_count_rows(family):
    kind, X, R, _, rough = mixture_of(family)
    times = np.random.default_rng(5).integers(0, 4, len(X))
    weighted = kind.statistics(X, times.astype(float), R, rough)
    repeated = kind.statistics(
        np.repeat(X, times, axis=0), None, np.repeat(R, times, axis=0), rough
    )
    assert_allclose(weighted.sums, repeated.sums, rtol=1e-12, atol=1e-12)
    assert_allclose(weighted.counts, repeated.counts, rtol=1e-12)


@pytest.mark.parametrize("family", COUNTING)
def test_parameters_and_statistics_survive_a_file(family):
    kind, X, R, params, rough = mixture_of(family)
    for value in (kind, params, kind.statistics(X, None, R, rough)):
        arrays = {}
        again = store.decode(store.encode(value, arrays), arrays)
        assert store.digest(again) == store.digest(value)


# --- M-steps ----------------------------------------------------------------------------------------------------------


def objective(kind, X, R, params):
    """What the M-step maximises: Σ r log p, and the prior."""
    return (R * kind.log_density(X, params)).sum() + kind.log_prior(params)


def perturbed(kind, params, rng, size):
    """Parameters nearby that are allowed: noise on the logarithms (logits), probabilities made to sum to one again."""
    values = params.values * np.exp(size * rng.standard_normal(params.values.shape))
    if isinstance(kind, Bernoulli):
        odds = (
            params.values
            / (1 - params.values)
            * np.exp(size * rng.standard_normal(params.values.shape))
        )
        values = odds / (1 + odds)
    elif isinstance(kind, Multinomial):
        values = values / values.sum(axis=1, keepdims=True)
    elif isinstance(kind, Categorical):
        parts = np.split(values, np.cumsum(params.sizes)[:-1], axis=1)
        values = np.concatenate([p / p.sum(axis=1, keepdims=True) for p in parts], axis=1)
    return type(params)(values, params.sizes)


@pytest.mark.parametrize("smoothing", [0.0, 0.7])
@pytest.mark.parametrize("family", COUNTING)
def test_the_m_step_maximises_the_expected_log_likelihood_and_prior(family, smoothing):
    for seed in range(3):
        kind, X, R, params, _ = mixture_of(family, seed=seed, smoothing=smoothing)
        best, rng = objective(kind, X, R, params), np.random.default_rng(seed)
        for size in (1e-3, 1e-1, 1.0):
            for _ in range(10):
                assert objective(
                    kind, X, R, perturbed(kind, params, rng, size)
                ) <= best + 1e-12 * abs(best)


def test_smoothing_keeps_probabilities_away_from_zero_and_one():
    X = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert_allclose(Bernoulli(smoothing=0.5).survey(Blocks.of(X)).values, [[2.5 / 3, 0.5 / 3]])
    assert_allclose(
        Categorical(smoothing=1.0, n_categories=3).survey(Blocks.of(X)).values,
        [[1, 3, 1, 3, 1, 1]] / np.array(5),
    )
    assert_allclose(Multinomial(smoothing=1.0).survey(Blocks.of(X)).values, [[0.75, 0.25]])
    assert_allclose(Poisson(smoothing=2.0).survey(Blocks.of(X)).values, [[1.0, 0.5]])


@pytest.mark.parametrize("family", COUNTING)
def test_a_component_without_rows_has_parameters_all_the_same(family):
    kind, X, R, _, rough = mixture_of(family)
    R = np.column_stack([R[:, 0] + R[:, 1] + R[:, 2], np.zeros(len(R))])
    params = kind.parameters(kind.statistics(X, None, R, rough))
    assert np.isfinite(params.values).all()
    assert np.isfinite(kind.log_density(X, params)[:, 1]).all()


def test_parameters_are_counted():
    assert Bernoulli().n_parameters(mixture_of(Bernoulli)[3]) == 15
    assert Poisson().n_parameters(mixture_of(Poisson)[3]) == 15
    assert Multinomial().n_parameters(mixture_of(Multinomial)[3]) == 12
    assert Categorical().n_parameters(mixture_of(Categorical)[3]) == 3 * (sum(SIZES) - 5)


# --- sampling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", COUNTING)
def test_samples_have_the_moments_of_their_component(family):
    kind, _, _, params, _ = mixture_of(family, smoothing=1.0)
    n = 20_000
    for j in range(3):
        X = kind.sample(params, np.full(n, j), np.random.default_rng(j))
        kind.check(X)
        told = np.asarray(
            kind.statistic(X, params).todense() if family is Categorical else X, dtype=float
        )
        mean = params.values[j] * (100 if family is Multinomial else 1)
        error = told.std(axis=0) / np.sqrt(n)
        assert (np.abs(told.mean(axis=0) - mean) <= 5 * error + 1e-12).all()  # 5σ: once in 10⁶


# --- bad data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", COUNTING)
@pytest.mark.parametrize(
    ("value", "words"),
    [(-1.0, "negative"), (0.5, "whole"), (np.nan, "NaN"), (np.inf, "NaN or infinity")],
)
def test_numbers_that_count_nothing_are_refused(family, value, words):
    X = rows_of(family)
    X[3, 2] = value
    with pytest.raises(ValueError, match=words):
        family().survey(Blocks.of(X))


def test_bernoulli_takes_zeros_and_ones_only():
    with pytest.raises(ValueError, match="zeros and ones; found 2"):
        Bernoulli().survey(Blocks.of(np.array([[2.0, 0.0]])))


def test_categorical_codes_fit_their_features():
    X = np.array([[0.0, 3.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="feature 1 has the code 3"):
        Categorical(n_categories=(2, 3)).survey(Blocks.of(X))
    with pytest.raises(ValueError, match="dense"):
        Categorical().survey(Blocks.of(sp.csr_array(X)))
    with pytest.raises(ValueError, match="codes go up to"):
        Categorical().survey(Blocks.of(X * 1e9))
    table = Categorical(n_categories=6).survey(Blocks.of(X))
    assert table.sizes.tolist() == [6, 6]
    # a code nobody has seen
    assert Categorical().log_density(np.array([[0.0, 9.0]]), table)[0, 0] == -np.inf


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="smoothing=-1"):
        Poisson(smoothing=-1)
    with pytest.raises(ValueError, match="'gamma' is not known"):
        family_of("gamma")
    with pytest.raises(ValueError, match="shape"):
        Poisson().with_given(mixture_of(Poisson)[3], 2, values=np.ones((3, 5)))
    assert isinstance(family_of("poisson", smoothing=1.0), Poisson)
    assert family_of("diag", reg_covar=0.1).reg_covar == 0.1
