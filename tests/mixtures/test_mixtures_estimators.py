"""Mixtures against theory, against scikit-learn, and against themselves on every kind of data."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from planted_mixtures import COUNTING, KINDS, clusters, counts
from scipy.stats import multivariate_normal
from sklearn.cluster import KMeans as TheirKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as Theirs

from lemmata import GaussianMixture, Mixture
from lemmata.audit.mixtures.em_steps import facts_of
from lemmata.core import Blocks, Fit, MaxSteps, Never, Restarts, rounding, run
from lemmata.core.store import read, write
from lemmata.mixtures import Bernoulli, EMAlgorithm, Poisson
from lemmata.mixtures.base import Arrived
from lemmata.mixtures.gaussians import FullGaussian
from lemmata.mixtures.starting import Seeds


def start(X, kind, k=3, seed=0):
    """The same initial parameters for both libraries: k rows, even weights, the precision of the data."""
    rng = np.random.default_rng(seed)
    v = 1 / X.var(axis=0)
    precisions = {
        "full": np.stack([np.diag(v)] * k),
        "tied": np.diag(v),
        "diag": np.stack([v] * k),
        "spherical": np.full(k, v.mean()),
    }
    means = X[rng.choice(len(X), k, replace=False)]
    return {
        "means_init": means,
        "weights_init": np.full(k, 1 / k),
        "precisions_init": precisions[kind],
    }


# --- agreement with scikit-learn --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(1))
def test_the_same_start_leads_where_scikit_learn_goes(kind, seed):
    X = clusters(seed=seed)
    given = {**start(X, kind, seed=seed), "tol": 1e-12, "max_iter": 20_000, "covariance_type": kind}
    ours, theirs = GaussianMixture(3, **given).fit(X), Theirs(3, **given).fit(X)
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        assert_allclose(
            getattr(ours, name), getattr(theirs, name), rtol=2e-5, atol=2e-5, err_msg=name
        )
    assert ours.score(X) == pytest.approx(theirs.score(X), abs=1e-8)
    assert ours.aic(X) == pytest.approx(theirs.aic(X), abs=1e-6 * len(X))
    assert ours.bic(X) == pytest.approx(theirs.bic(X), abs=1e-6 * len(X))
    assert ours.converged_
    assert theirs.converged_


@pytest.mark.parametrize("kind", KINDS)
def test_one_step_is_scikit_learns_step_to_rounding(kind):
    """scikit-learn's first iteration makes E and M from the given start, as our first step does."""
    X = clusters(distance=2.0)
    given = {**start(X, kind), "max_iter": 1, "covariance_type": kind}
    with pytest.warns(ConvergenceWarning):
        ours = GaussianMixture(3, **given).fit(X)
    with pytest.warns(ConvergenceWarning):
        theirs = Theirs(3, **given).fit(X)
    for name in ("weights_", "means_", "covariances_"):
        assert_allclose(
            getattr(ours, name), getattr(theirs, name), rtol=1e-10, atol=1e-10, err_msg=name
        )
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)
    assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-9)
    assert (ours.predict(X) == theirs.predict(X)).all()
    assert ours.aic(X) == pytest.approx(theirs.aic(X), rel=1e-10)
    assert ours.bic(X) == pytest.approx(theirs.bic(X), rel=1e-10)
    assert ours._n_parameters() == theirs._n_parameters()


@pytest.mark.parametrize("init_params", ["kmeans", "k-means++", "random", "random_from_data"])
@pytest.mark.parametrize("seed", range(1))
def test_every_start_finds_clear_clusters_within_a_few_restarts(init_params, seed):
    X = clusters(distance=12.0, seed=seed)
    best = Theirs(3, n_init=5, tol=1e-9, max_iter=1000, random_state=seed).fit(X).score(X)
    model = GaussianMixture(
        3, init_params=init_params, n_init=6, tol=1e-5, max_iter=1000, random_state=seed
    ).fit(X)
    assert model.score(X) == pytest.approx(best, abs=1e-4)


# --- theory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, "unit"])
@pytest.mark.parametrize("reg_covar", [0.0, 1e-2])
def test_the_likelihood_never_falls(kind, reg_covar):
    X = clusters(distance=2.0)
    model = GaussianMixture(
        3,
        covariance_type=kind,
        reg_covar=reg_covar,
        tol=0,
        max_iter=200,
        init_params="random",
        random_state=0,
    )
    model.fit(X)
    assert "likelihood_never_fell" in model.certificate_.held
    if reg_covar == 0:
        assert (
            np.diff(model.lower_bounds_).min()
            >= -rounding(np.float64, len(X)) * np.abs(model.lower_bounds_).max()
        )


def test_a_trace_that_falls_fails_its_claim():
    X = clusters()
    model = GaussianMixture(3, random_state=0, n_init=3, tol=1e-6).fit(X)
    assert "likelihood_never_fell" in model.certificate_.held
    model.trace_.append(model.trace_.last() + 0.1, 0.0, {"price": 0.0})
    assert "likelihood_never_fell" in model.certify(X).failed


def test_the_likelihood_shown_belongs_to_the_parameters_shown():
    X = clusters(distance=2.0)
    with pytest.warns(ConvergenceWarning):
        model = GaussianMixture(3, max_iter=4, random_state=0).fit(X)
    dense = sum(
        w * multivariate_normal(m, C).pdf(X)
        for w, m, C in zip(model.weights_, model.means_, model.covariances_, strict=True)
    )
    assert model.lower_bound_ == pytest.approx(np.log(dense).mean(), rel=1e-12)
    assert len(model.lower_bounds_) == model.n_iter_ == 4
    assert model.lower_bounds_[-1] == model.lower_bound_


@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_is_a_number_of_rows(kind):
    X = clusters(n=40)
    w = np.random.default_rng(1).integers(0, 4, size=len(X))
    given = {**start(X, kind), "covariance_type": kind, "tol": 1e-14, "max_iter": 5000}
    weighted = GaussianMixture(3, **given).fit(X, sample_weight=w)
    repeated = GaussianMixture(3, **given).fit(np.repeat(X, w, axis=0))
    for name in ("weights_", "means_", "covariances_"):
        assert_allclose(
            getattr(weighted, name), getattr(repeated, name), rtol=1e-7, atol=1e-7, err_msg=name
        )
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_, rel=1e-9)
    assert weighted.bic(X, sample_weight=w) == pytest.approx(
        repeated.bic(np.repeat(X, w, axis=0)), rel=1e-9
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_shift_and_a_scale_of_the_data_shift_and_scale_the_fit(kind):
    X = clusters()
    given = {"covariance_type": kind, "reg_covar": 0.0, "tol": 1e-10, "max_iter": 5000}
    first = start(X, kind)
    plain = GaussianMixture(3, **given, **first).fit(X)
    moved = {
        **first,
        "means_init": 1000 * first["means_init"] + 7,
        "precisions_init": first["precisions_init"] / 1e6,
    }
    other = GaussianMixture(3, **given, **moved).fit(1000 * X + 7)
    assert_allclose(other.means_, 1000 * plain.means_ + 7, rtol=1e-5)
    assert_allclose(other.covariances_, 1e6 * plain.covariances_, rtol=1e-4, atol=1e-4)
    assert other.score(1000 * X + 7) == pytest.approx(plain.score(X) - 3 * np.log(1000), abs=1e-7)


@pytest.mark.parametrize("seed", range(1))
def test_a_sample_recovers_the_parameters_it_was_drawn_from(seed):
    model = GaussianMixture(3, random_state=seed).fit(clusters(distance=10.0, seed=seed))
    n = 20_000
    X, z = model.sample(n)
    assert X.shape == (n, 3)
    # five standard errors; of a weight √(π(1 − π)/n), of a mean σ/√(nπ), of a covariance at most √2 σσ/√(nπ)
    assert_allclose(np.bincount(z, minlength=3) / n, model.weights_, atol=5 * 0.5 / np.sqrt(n))
    for j in range(3):
        mine, sd = X[z == j], np.sqrt(np.diagonal(model.covariances_[j]))
        assert (np.abs(mine.mean(axis=0) - model.means_[j]) < 5 * sd / np.sqrt(len(mine))).all()
        assert (
            np.abs(np.cov(mine.T) - model.covariances_[j])
            < 5 * np.sqrt(2 / len(mine)) * np.outer(sd, sd)
        ).all()
    again = GaussianMixture(3, random_state=0).fit(X)
    assert adjusted_rand_score(z, again.predict(X)) > 0.99


@pytest.mark.parametrize("seed", range(1))
def test_as_the_width_goes_to_zero_the_assignments_are_those_of_k_means(seed):
    """CIL20 6.3: with Σ = σ²I given and σ → 0, EM is Lloyd's algorithm; only ln π_j · σ² is between them."""
    X = np.random.default_rng(seed).uniform(size=(200, 2))
    C = X[:4]
    lloyd = TheirKMeans(4, init=C, n_init=1, tol=0, max_iter=500, algorithm="lloyd").fit(X)
    model = GaussianMixture(
        4,
        covariance_type="fixed",
        precisions_init=1e8 * np.eye(2),
        means_init=C,
        weights_init=np.full(4, 0.25),
        tol=1e-9,
        max_iter=500,
    ).fit(X)
    assert (model.predict(X) == lloyd.labels_).all()
    assert_allclose(model.means_, lloyd.cluster_centers_, atol=1e-9)
    unit = GaussianMixture(
        4,
        covariance_type="unit",
        means_init=1e4 * C,
        weights_init=np.full(4, 0.25),
        tol=1e-9,
        max_iter=500,
    ).fit(1e4 * X)
    assert (unit.predict(1e4 * X) == lloyd.labels_).all()


def test_given_covariances_are_kept():
    X = clusters()
    assert (
        GaussianMixture(3, covariance_type="unit", random_state=0).fit(X).covariances_ == 1
    ).all()
    P = np.diag([1.0, 2.0, 4.0])
    fixed = GaussianMixture(3, covariance_type="fixed", precisions_init=P, random_state=0).fit(X)
    assert_allclose(fixed.covariances_, np.linalg.inv(P))
    for model in (fixed, GaussianMixture(3, covariance_type="unit", random_state=0).fit(X)):
        assert model._n_parameters() == 3 * 3 + 2  # CIL20 6.4: K·D + (K − 1)
        assert "no_collapsed_component" in model.certificate_.undecided
        assert model.certificate_.failed in ([], ["memberships_clear"], ["fixed_point"])


# --- missing values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, "unit"])
def test_missing_values_are_marginalised_exactly(kind):
    X = clusters()
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.25] = np.nan
    model = GaussianMixture(3, covariance_type=kind, random_state=0, tol=1e-9, max_iter=5000).fit(
        holes
    )
    assert "likelihood_never_fell" in model.certificate_.held
    assert {"bound_is_tight", "fixed_point"} <= set(model.certify(holes).held)
    for i in range(20):
        o = ~np.isnan(holes[i])
        total = 0.0
        for j in range(3):
            C = {
                "full": lambda j: model.covariances_[j],
                "tied": lambda j: model.covariances_,
                "diag": lambda j: np.diag(model.covariances_[j]),
            }
            C = C.get(kind, lambda j: model.covariances_[j] * np.eye(3))(j)
            total += model.weights_[j] * (
                multivariate_normal(model.means_[j][o], C[np.ix_(o, o)]).pdf(holes[i][o])
                if o.any()
                else 1.0
            )
        assert model.score_samples(holes[i : i + 1])[0] == pytest.approx(
            np.log(total), rel=1e-8, abs=1e-8
        )


def test_one_gaussian_with_a_monotone_pattern_has_a_closed_solution():
    """x₁ always there, x₂ sometimes: the ML estimate regresses x₂ on x₁ where both are there (Anderson 1957)."""
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([1.0, 2.0], [[2.0, 1.2], [1.2, 1.0]], size=400)
    gone = X[:, 0] > 1.5  # missing at random, not completely: the mean of what is left is biased
    holes = X.copy()
    holes[gone, 1] = np.nan
    model = GaussianMixture(1, reg_covar=0.0, tol=1e-14, max_iter=10_000).fit(holes)
    x, y = X[~gone, 0], X[~gone, 1]
    slope = np.cov(x, y, bias=True)[0, 1] / x.var()
    mean = np.array([X[:, 0].mean(), y.mean() + slope * (X[:, 0].mean() - x.mean())])
    v = X[:, 0].var()
    C = np.array([[v, slope * v], [slope * v, y.var() + slope**2 * (v - x.var())]])
    assert_allclose(model.means_[0], mean, atol=1e-5)
    assert_allclose(model.covariances_[0], C, atol=1e-5)
    # what dropping would have given
    assert abs(np.nanmean(holes[:, 1]) - 2.0) > 5 * abs(model.means_[0, 1] - 2.0)


@pytest.mark.parametrize("kind", KINDS)
def test_complete_rows_are_not_touched_by_the_code_for_missing_ones(kind):
    X = clusters()
    given = {**start(X, kind), "covariance_type": kind, "tol": 1e-9, "max_iter": 2000}
    plain = GaussianMixture(3, **given).fit(X)
    # a row all unknown is no row
    ghost = GaussianMixture(3, **given).fit(np.vstack([X, np.full((5, 3), np.nan)]))
    assert_allclose(ghost.means_, plain.means_, atol=1e-8)
    assert_allclose(ghost.covariances_, plain.covariances_, atol=1e-8)


def test_labels_survive_a_fifth_of_the_values_missing():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        z = rng.integers(3, size=300)
        X = rng.normal(size=(300, 4)) + 8 * np.eye(3, 4)[z]
        X[rng.random(X.shape) < 0.2] = np.nan
        labels = GaussianMixture(3, random_state=seed, n_init=2).fit_predict(X)
        known = (~np.isnan(X[:, :3])).all(axis=1)
        assert adjusted_rand_score(z[known], labels[known]) > 0.98


# --- all kinds of data ------------------------------------------------------------------------------------------------


def containers(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    yield "memmap", np.load(tmp_path / "X.npy", mmap_mode="r")
    yield "list of blocks", list(np.array_split(X, 5))
    yield "dask", da.from_array(X, chunks=(70, 2))
    yield "fortran", np.asfortranarray(X)


@pytest.mark.parametrize("kind", ["full"])
def test_every_container_gives_the_same_fit(kind, tmp_path):
    X = clusters()
    given = {**start(X, kind), "covariance_type": kind}
    whole = GaussianMixture(3, **given).fit(X)
    held = set(whole.certify(X).held)
    for name, data in containers(X, tmp_path):
        model = GaussianMixture(3, **given).fit(data)
        assert_allclose(model.covariances_, whole.covariances_, rtol=1e-8, atol=1e-9, err_msg=name)
        assert_allclose(
            np.asarray(model.predict_proba(data)), whole.predict_proba(X), atol=1e-8, err_msg=name
        )
        assert (np.asarray(model.predict(data)) == whole.predict(X)).all(), name
        assert_allclose(
            np.asarray(model.score_samples(data)), whole.score_samples(X), rtol=1e-8, err_msg=name
        )
        assert model.score(data) == pytest.approx(whole.score(X), rel=1e-10), name
        assert model.bic(data) == pytest.approx(whole.bic(X), rel=1e-10), name
        assert set(model.certify(data).held) == held, name


@pytest.mark.parametrize("kind", KINDS)
def test_float32_stays_float32(kind):
    X = clusters(dtype=np.float32)
    given = start(X, kind)
    model = GaussianMixture(3, covariance_type=kind, **given).fit(X)
    wide = GaussianMixture(3, covariance_type=kind, **given).fit(X.astype(np.float64))
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        assert getattr(model, name).dtype == np.float32
        assert_allclose(
            getattr(model, name), getattr(wide, name), rtol=1e-2, atol=1e-3, err_msg=name
        )
    assert (
        model.predict_proba(X).dtype
        == model.score_samples(X).dtype
        == model.sample(3)[0].dtype
        == np.float32
    )
    assert model.score(X) == pytest.approx(wide.score(X), abs=1e-4)
    assert "bound_is_tight" in model.certificate_.held


def test_a_restored_model_is_the_same_to_the_bit(tmp_path):
    X = clusters()
    models = [GaussianMixture(3, covariance_type=kind, random_state=0) for kind in KINDS]
    models += [
        Mixture(3, "gaussian-diag", random_state=0),
        Mixture(2, Poisson(smoothing=0.5), random_state=0),
    ]
    for model in models:
        rows = np.abs(np.rint(X)) if isinstance(model, Mixture) else X
        model.fit(rows)
        write(
            tmp_path / "m",
            "model",
            {"parameters": model.get_params(deep=False), "attributes": model.stored_attributes()},
        )
        content = read(tmp_path / "m", "model")
        back = type(model).restored(content["parameters"], content["attributes"])
        assert back.predict_proba(rows).tobytes() == model.predict_proba(rows).tobytes()
        assert str(back.certificate_) == str(model.certificate_)
        assert (
            back.partial_fit(rows).weights_.tobytes() == model.partial_fit(rows).weights_.tobytes()
        )


def test_everything_a_fit_leaves_behind_is_in_the_file():
    X, _ = counts("categorical")
    for model in (
        GaussianMixture(2, random_state=0),
        *(Mixture(2, name, random_state=0) for name in ("gaussian-full", *COUNTING)),
    ):
        rows = (
            counts(model.family)[0]
            if isinstance(model, Mixture) and model.family in COUNTING
            else X
        )
        with np.errstate(all="raise"):
            model.fit(rows + 0.0)
        public = {key for key in vars(model) if key.endswith("_") and not key.startswith("_")}
        assert public == set(model.stored_attributes())


# --- one batch after the other ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(1))
def test_partial_fit_over_batches_approaches_full_em(kind, seed):
    X = clusters(n=2000, distance=6.0, seed=seed)
    full = GaussianMixture(3, covariance_type=kind, random_state=0, n_init=3).fit(X)
    model = GaussianMixture(3, covariance_type=kind, random_state=0, n_init=3)
    for batch in np.array_split(X, 20):
        model.partial_fit(batch)
    # γ_t = (t + 2)^−0.6 averages over about 1/γ = 6 of the 20 batches: 1800 rows
    excess = full.score(X) - model.score(X)
    free = full._n_parameters()
    assert excess < 5 * free / (2 * 1800)  # an estimate from m rows loses κ/2m on average (Wilks)
    assert model.stopped_ == "batches"
    assert "likelihood_never_fell" in model.certificate_.undecided
    assert set(model.certify(X).failed) <= {"fixed_point", "memberships_clear"}


def test_partial_fit_goes_on_from_a_fit_and_a_failed_batch_changes_nothing():
    X = clusters(distance=8.0)
    model = GaussianMixture(3, random_state=0).fit(X)
    before = model.means_.copy()
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(np.full((4, 3), np.inf))
    assert (model.means_ == before).all()
    model.partial_fit(X)
    assert_allclose(model.means_, before, atol=0.1)  # the same rows again: it stays


# --- other families ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COUNTING)
@pytest.mark.parametrize("seed", range(1))
def test_families_that_count_find_the_groups_and_keep_their_promises(name, seed):
    X, z = counts(name, seed=seed)
    model = Mixture(2, name, random_state=0, n_init=3, tol=1e-8, max_iter=1000).fit(X)
    assert adjusted_rand_score(z, model.predict(X)) > 0.8
    told = model.certify(X)
    assert {
        "statements_true",
        "likelihood_never_fell",
        "bound_is_tight",
        "fixed_point",
        "worth_its_components",
    } <= set(told.held)
    assert "no_collapsed_component" in model.certificate_.undecided
    assert not model.certificate_.broken
    drawn, _ = model.sample(50)
    assert np.isfinite(model.score_samples(drawn)).all()
    assert model.bic(X) < Mixture(1, name).fit(X).bic(X)


@pytest.mark.parametrize("name", COUNTING)
def test_the_audit_of_counts_agrees_with_the_solver(name):
    X, _ = counts(name)
    model = Mixture(2, name, random_state=0, tol=1e-9, max_iter=1000).fit(X)
    found = facts_of(Fit(model, Blocks.of(X)))
    assert found.log_likelihood == pytest.approx(model.score(X) * len(X), rel=1e-10)
    # one more step, by either side
    short = Mixture(2, name, random_state=0, tol=0, max_iter=3, init_params="random").fit(X)
    longer = Mixture(2, name, random_state=0, tol=0, max_iter=4, init_params="random").fit(X)
    found = facts_of(Fit(short, Blocks.of(X)))
    stepped = found.parts.step(found.sums)
    shown = longer.rates_ if name == "poisson" else longer.probabilities_
    assert_allclose(stepped.values, shown, rtol=1e-9, atol=1e-12)
    assert_allclose(stepped.pi, longer.weights_, rtol=1e-9)


@pytest.mark.parametrize("name", ["bernoulli", "multinomial", "poisson"])
def test_sparse_counts_give_the_fit_of_dense_ones(name):
    X, _ = counts(name)
    values = np.clip(X[[0, -1]] + 0.25, 0.25, 0.75)
    values = values / values.sum(axis=1, keepdims=True) if name == "multinomial" else values
    given = {"random_state": 0, "parameters_init": {"values": values}, "weights_init": [0.5, 0.5]}
    dense, sparse = Mixture(2, name, **given).fit(X), Mixture(2, name, **given).fit(sp.csr_array(X))
    shown = "rates_" if name == "poisson" else "probabilities_"
    assert_allclose(getattr(sparse, shown), getattr(dense, shown), rtol=1e-8, atol=1e-10)
    assert_allclose(sparse.predict_proba(sp.csr_array(X)), dense.predict_proba(X), atol=1e-8)
    assert sparse.certificate_.failed == dense.certificate_.failed


def test_a_mixture_of_gaussians_by_name_is_the_gaussian_mixture():
    X = clusters()
    for kind in KINDS:
        a = Mixture(3, f"gaussian-{kind}", random_state=3).fit(X)
        b = GaussianMixture(3, covariance_type=kind, random_state=3).fit(X)
        assert (a.covariances_ == b.covariances_).all()
        assert [c.verdict for c in a.certificate_] == [c.verdict for c in b.certificate_]


def test_smoothing_keeps_probabilities_away_from_zero_and_fitted_to_another_family_nothing_is_left_behind():
    X, _ = counts("bernoulli")
    X[:, 0] = 0
    assert Mixture(2, Bernoulli(0.0), random_state=0).fit(X).probabilities_.min() == 0
    model = Mixture(2, Bernoulli(smoothing=1.0), random_state=0).fit(X)
    assert model.probabilities_.min() > 0
    assert "fixed_point" in model.certificate_.held
    model.set_params(family="poisson").fit(X)
    assert not hasattr(model, "probabilities_")


# --- runs and restarts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_init", [1, 3])
def test_a_run_out_of_time_keeps_what_it_has(n_init, capsys):
    X = clusters(distance=2.0)
    model = GaussianMixture(
        3, n_init=n_init, time_limit=1e-9, tol=1e-12, max_iter=10_000, random_state=0, verbose=1
    )
    model.fit(X)
    assert model.stopped_ == "out of time"
    assert not model.converged_
    assert model.score(X) == pytest.approx(model.lower_bound_, rel=1e-10)


def test_the_best_of_several_starts_is_kept():
    X = clusters(distance=2.0)
    model = GaussianMixture(4, n_init=5, init_params="random_from_data", random_state=0).fit(X)
    rule = Arrived(model.tol) | MaxSteps(model.max_iter)
    algorithm = EMAlgorithm(FullGaussian(), 4, Seeds("random_from_data"), leap_below=model.tol)
    algorithm = Restarts(algorithm, 5, rule)
    runs = run(algorithm, Blocks.of(X), stop=Never(), rng=0).children
    best = min(runs, key=lambda trace: trace.last())
    assert len({trace.last() for trace in runs}) > 1
    assert model.lower_bounds_ == (-best.objective[1:]).tolist()
    assert model.trace_.objective.tolist() == best.objective.tolist()
    assert model.n_iter_ == len(model.trace_) - 1
    assert f"settled, {model.n_iter_} step" in str(model.certificate_)
    more = model.certify(X)
    for found in model.certificate_:
        if (
            found.name == "fixed_point"
        ):  # by one step where a climb is expensive, by climbing in certify
            assert found.verdict == more["fixed_point"].verdict
        else:
            assert found.verdict == "not checked" or found == more[found.name]


def test_several_starts_that_do_not_converge_warn_once():
    with pytest.warns(ConvergenceWarning, match="did not converge") as caught:
        model = GaussianMixture(3, n_init=4, max_iter=2, tol=1e-9, random_state=0).fit(
            clusters(distance=2.0)
        )
    assert len(caught) == 1
    assert (model.stopped_, model.converged_, model.n_iter_) == ("max steps", False, 2)
