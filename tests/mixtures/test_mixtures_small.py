"""Small data: NumPy twins against kernels, no compiler in a fresh process, the same bits for any BLAS, defaults that arrive."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, load_wine

import lemmata
from lemmata import GaussianMixture, Mixture
from lemmata.core import Blocks, MaxSteps, run
from lemmata.mixtures import EMAlgorithm
from lemmata.mixtures.base import Arrived
from lemmata.mixtures.em import effective_rows, still_to_gain
from lemmata.mixtures.expectation import expectation
from lemmata.mixtures.families import family_of
from lemmata.mixtures.gaussians import FullGaussian
from tests.planted_mixtures import clusters, counts

KINDS = ("full", "tied", "diag", "spherical")


def with_holes(X, share=0.2, seed=0):
    X = np.array(X)
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


# --- twins and kernels ------------------------------------------------------------------------------------------------


def passes():
    """Every kind in float64; in float32, which compiles the same lines once more, one of each kernel without holes."""
    for kind in (*KINDS, "unit"):
        for holes in (False, True):
            yield kind, holes, np.float64
            again = holes or kind not in ("diag", "unit")
            yield pytest.param(kind, holes, np.float32, marks=[pytest.mark.slow] if again else [])


@pytest.mark.parametrize(("kind", "holes", "dtype"), passes())
def test_a_pass_of_numpy_is_that_of_the_kernels(kind, holes, dtype):
    X = clusters(n=130, d=5, distance=3.0).astype(dtype)
    X = with_holes(X) if holes else X
    w = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    model = GaussianMixture(3, covariance_type=kind, random_state=0, max_iter=2, tol=0).fit(X)
    data, params, family = Blocks.of(X, w), model._params(), model.family_
    plain, compiled = (
        expectation(family, params, model.weights_, data, compiled) for compiled in (False, True)
    )
    close = {"rtol": 1e-9, "atol": 1e-9} if dtype == np.float64 else {"rtol": 1e-3, "atol": 2e-2}
    assert plain.weight == pytest.approx(compiled.weight)
    assert plain.log_likelihood == pytest.approx(compiled.log_likelihood, rel=close["rtol"])
    for name in ("counts", "shift", "scatter"):
        assert_allclose(getattr(plain.stats, name), getattr(compiled.stats, name), **close)
    logs = np.zeros(3)
    one, other = (family.scoring(params, logs, dtype, compiled)(X) for compiled in (False, True))
    assert one.dtype == other.dtype == dtype
    assert_allclose(
        one,
        other,
        rtol=1e-9 if dtype == np.float64 else 1e-3,
        atol=1e-9 if dtype == np.float64 else 2e-2,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_narrow_components_far_apart_keep_their_digits(kind):
    """Squares are expanded about the narrowest component; where that loses digits they are not."""
    rng = np.random.default_rng(0)
    X = np.concatenate(
        [
            rng.normal(size=(50, 2)),
            1e6 + 1e-3 * rng.normal(size=(50, 2)),
            rng.normal(size=(50, 2)) - 1e5,
        ]
    )
    model = GaussianMixture(
        3, covariance_type=kind, reg_covar=0.0, random_state=0, tol=0, max_iter=3
    )
    fits = []
    for how in ("never", "always"):
        with lemmata.config(compile=how, certificate=False):
            fits.append(model.fit(X).score_samples(X))
    assert_allclose(fits[0], fits[1], rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "holes"), [("full", False), ("diag", True), ("tied", True), ("spherical", False)]
)
def test_whole_fits_agree_with_and_without_a_compiler(kind, holes):
    X = clusters(n=100, distance=4.0)
    X = with_holes(X) if holes else X
    w = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    fits = {}
    for how in ("never", "always"):
        with lemmata.config(compile=how, certificate=False):
            fits[how] = GaussianMixture(3, covariance_type=kind, random_state=0).fit(
                X, sample_weight=w
            )
            fits[how + " blocks"] = GaussianMixture(
                3,
                covariance_type=kind,
                random_state=0,
                means_init=fits[how].means_,
                weights_init=fits[how].weights_,
            ).fit(np.array_split(X, 3), sample_weight=w)
            labels = fits[how].predict(X)
        assert_array_equal(labels, fits["never"].predict(X))
    one, other = fits["never"], fits["always"]
    assert one.n_iter_ == other.n_iter_
    assert_allclose(one.means_, other.means_, rtol=1e-7, atol=1e-7)
    assert_allclose(one.covariances_, other.covariances_, rtol=1e-6, atol=1e-7)
    assert_allclose(fits["never blocks"].means_, fits["always blocks"].means_, rtol=1e-6, atol=1e-6)


# --- defaults that arrive ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_default_fits_are_fixed_points(kind, load):
    X = load().data
    model = GaussianMixture(3, covariance_type=kind, random_state=0).fit(X)
    assert model.converged_
    found = model.certify(X)
    assert "fixed_point" in found.held
    assert "likelihood_never_fell" in found.held


@pytest.mark.parametrize(
    ("load", "kind", "k", "seed"),
    [(load_iris, "full", 5, 0), (load_iris, "spherical", 20, 1), (load_wine, "diag", 10, 1)],
)
def test_default_fits_pass_saddles_where_steps_gain_little_for_a_while(load, kind, k, seed):
    """Gains fall to 1e-4 nats and grow again: ten nats and more were left where the first small step ended the fit."""
    X = load().data
    model = GaussianMixture(k, covariance_type=kind, random_state=seed).fit(X)
    assert model.converged_
    assert "fixed_point" in model.certify(X).held


def test_leaps_never_lower_the_likelihood_and_save_steps():
    X = np.random.default_rng(0).normal(size=(200, 2))  # one cloud: EM crawls
    runs = [
        run(
            EMAlgorithm(FullGaussian(0.0), 3, leap_below=below),
            Blocks.of(X),
            stop=Arrived(1e-3) | MaxSteps(2000),
            rng=1,
        )
        for below in (0.0, 1e-3)
    ]
    plain, leaping = (solution.trace for solution in runs)
    assert (np.diff(leaping.objective) <= 1e-12).all()
    assert len(leaping) < 0.7 * len(plain)


@pytest.mark.parametrize("name", ["bernoulli", "categorical", "multinomial", "poisson"])
def test_leaps_keep_counts_possible(name):
    X, _ = counts(name)
    for smoothing in (0.0, 0.2):
        algorithm = EMAlgorithm(family_of(name, smoothing=smoothing), 3, leap_below=np.inf)
        solution = run(algorithm, Blocks.of(X), stop=MaxSteps(60), rng=0)
        assert (np.diff(solution.trace.objective) <= 1e-12).all()
        assert (solution.state.params.values >= 0).all()


def test_what_is_to_gain_is_counted_in_rows_that_count():
    assert still_to_gain([3.0, 2.0], 10.0) == np.inf
    # gains 1e-4 and 1e-4/4: the rate ½ is moved to √½·…, and steps like the last count at least
    slower = [1.0, 1.0 - 1e-4, 1.0 - 1.25e-4]
    assert still_to_gain(slower, 10.0) == pytest.approx(4000 * 2.5e-4)
    assert still_to_gain(slower, 1e6) == pytest.approx(25 * 25)  # many rows: steps are dear
    assert still_to_gain([1.0, 1 - 1e-4, 1 - 0.75e-4], 10.0) == pytest.approx(25 * 2.5e-4)  # noise
    assert still_to_gain([1.0, 1.0 - 1e-4, 1.0 - 2e-4], 10.0) == np.inf  # gains do not shrink
    assert still_to_gain([1.0, 0.5, 0.5], 10.0) == 0.0
    X = np.zeros((4, 1))
    assert effective_rows(Blocks.of(X)) == 4
    assert effective_rows(Blocks.of(X, np.array([2.0, 2.0, 0.0, 0.0]))) == pytest.approx(2)
    assert effective_rows(Blocks.of(X, np.full(4, 1e-30))) == pytest.approx(4)


def test_tiny_weights_are_weights_all_the_same():
    """Nothing here divides by Σw − 1: a fit is the same in any unit of the weights, Σw < 1 included."""
    X = clusters(distance=4.0)
    w = np.random.default_rng(0).uniform(size=len(X))
    one, other = (
        GaussianMixture(3, random_state=0).fit(X, sample_weight=c * w)
        for c in (1.0, 1e-6 / w.sum())
    )
    assert_allclose(one.covariances_, other.covariances_, rtol=1e-9)
    assert one.n_iter_ == other.n_iter_


def test_the_old_order_of_mixture_names_the_new_one():
    with pytest.raises(TypeError, match=r"comes first now, Mixture\(2, family='poisson'\)"):
        Mixture("poisson", 2).fit(np.ones((5, 2)))
    assert Mixture(2, family="poisson").get_params()["n_components"] == 2


# --- forged files -----------------------------------------------------------------------------------------------------


def forged(model, **changes):
    parameters = {k: v for k, v in model.get_params().items() if k != "checkpoint"}
    return type(model).restored(parameters, {**model.stored_attributes(), **changes})


@pytest.mark.parametrize("kind", [*KINDS, "unit"])
def test_files_with_parameters_of_another_shape_are_refused(kind):
    model = GaussianMixture(3, covariance_type=kind, random_state=0).fit(clusters(d=4))
    assert_array_equal(forged(model).means_, model.means_)
    C = model.covariances_
    bad = {
        "covariances_": [
            C[None],
            C[..., :1] if C.ndim > 1 else C[:2],
            -C,
            np.nan * C,
            C.ravel()[:2],
            np.zeros(0),
        ],
        "precisions_cholesky_": [C[None], -C, np.inf * C],
        "precisions_": [C[None], np.nan * C],
        "means_": [
            model.means_[:2],
            model.means_[:, :2],
            np.nan * model.means_,
            model.means_.ravel(),
        ],
        "weights_": [
            model.weights_[:2],
            -model.weights_,
            2 * model.weights_ / 3,
            np.full(3, np.nan),
        ],
        "n_features_in_": [3, 2**40],
    }
    for name, values in bad.items():
        for value in values:
            with pytest.raises(ValueError, match=r"."):
                forged(model, **{name: value})
    if kind == "full":
        crooked = C.copy()
        crooked[0] = crooked[0] @ np.diag([1, 1, 1, -1.0])
        with pytest.raises(ValueError, match=r"."):
            forged(model, covariances_=crooked)
        with pytest.raises(ValueError, match="family_ is a"):
            forged(model, family_=family_of("diag"))


@pytest.mark.parametrize("name", ["bernoulli", "categorical", "multinomial", "poisson"])
def test_files_with_tables_of_another_shape_are_refused(name):
    model = Mixture(2, name, random_state=0).fit(counts(name)[0])
    shown = "rates_" if name == "poisson" else "probabilities_"
    table = getattr(model, shown)
    assert_array_equal(getattr(forged(model), shown), table)
    for value in (
        table[:1],
        table[:, :-1],
        -table,
        np.nan * table,
        table + (0 if name == "poisson" else 1),
    ):
        if name != "poisson" or not np.array_equal(value, table):
            with pytest.raises(ValueError, match=r"."):
                forged(model, **{shown: value})
    if name == "categorical":
        with pytest.raises(ValueError, match=r"."):
            forged(model, n_categories_=model.n_categories_ + 1)


def test_a_warm_start_goes_on_where_the_last_fit_ended():
    X = clusters(distance=2.0)
    with pytest.warns(UserWarning, match="did not converge"):
        model = GaussianMixture(
            3, warm_start=True, max_iter=3, tol=1e-7, n_init=2, random_state=0
        ).fit(X)
    before = model.lower_bound_
    model.set_params(max_iter=500).fit(X)
    assert model.trace_.objective[0] == pytest.approx(-before)
    assert model.lower_bound_ > before
    assert model.set_params(n_components=2).fit(X).means_.shape == (2, 3)


def test_parameters_and_attributes_are_those_of_scikit_learn():
    from inspect import signature

    from sklearn.mixture import GaussianMixture as Theirs

    theirs, ours = signature(Theirs).parameters, signature(GaussianMixture).parameters
    for name, parameter in theirs.items():
        assert ours[name].default == parameter.default
    X = load_iris().data
    shown = vars(Theirs(2).fit(X))
    assert [
        name
        for name in shown
        if name.endswith("_") and not hasattr(GaussianMixture(2).fit(X), name)
    ] == []
