"""Promises of every model in every variant: solvers, penalties and kernels that one cheap setting of a model does not reach.

Asked here once for all: values out of range, float32, files, runs that go on, threads, containers of rows, weights.
"""

import functools
import warnings
from numbers import Integral, Real

import numpy as np
import pytest
import scipy.sparse as sp
import test_estimators as common
import test_text_estimators as of_texts
import threadpoolctl

import lemmata
from lemmata import registry
from lemmata.core import blocks
from lemmata.core.validation import Interval, StrOptions, make_constraint
from lemmata.predict.kernels import RBF, Linear

VARIANTS: list[tuple[str, dict]] = [
    ("PCA", {"svd_solver": "gradient"}),
    ("PCA", {"svd_solver": "lanczos", "whiten": True}),
    ("PCA", {"svd_solver": "randomized"}),
    ("LinearAutoencoder", {"method": "gd", "optimizer": "nesterov"}),
    ("LinearAutoencoder", {"method": "gd", "optimizer": "adam", "tied": True}),
    ("LinearAutoencoder", {"method": "sgd", "optimizer": "adam", "batch_size": 16}),
    ("KernelPCA", {"kernel": 0.5 * RBF(0.1) + Linear()}),
    ("KernelPCA", {"kernel": "rbf", "eigen_solver": "lanczos"}),
    ("DictionaryLearning", {"method": "ksvd"}),
    ("DictionaryLearning", {"method": "online", "n_nonzero": None, "batch_size": 10}),
    ("RankOne", {"centre": "both"}),
    ("ImputedSVD", {"fill": "rows"}),
    ("ALS", {"method": "cg"}),
    ("ALS", {"reg": (0.2, 0.05)}),
    ("ALS", {"nonnegative": True, "biases": False}),
    ("ALS", {"feedback": "implicit"}),
    ("ALS", {"rank": "auto"}),
    ("SGDFactorization", {"optimizer": "adam"}),
    ("SGDFactorization", {"learning_rate": 0.02}),
    ("SoftImpute", {"centre": "both"}),
    ("SingularValueThresholding", {"centre": "global"}),
    ("GaussianMixture", {"covariance_type": "tied"}),
    ("NMF", {"beta_loss": "kullback-leibler"}),
    ("LDA", {"learning_method": "gibbs"}),
    ("LDA", {"learning_method": "online"}),
    ("Ridge", {"solver": "lsqr"}),
    ("RidgeCV", {"store_cv_results": True}),
    ("RobustRegression", {"loss": "absolute"}),
    ("RobustRegression", {"loss": "tukey"}),
    ("ElasticNet", {"alpha": 0.1, "positive": True}),
    ("LogisticRegression", {"l1_ratio": 1.0, "C": 0.5}),
    ("LogisticRegression", {"solver": "lbfgs"}),
    ("LinearSVC", {"loss": "hinge"}),
    ("LinearSVC", {"penalty": "l1", "C": 0.1}),
    ("LinearSVC", {"method": "dual", "loss": "hinge", "tol": 1e-8}),
    ("SVC", {"kernel": RBF(0.3) + Linear()}),
    ("SVC", {"kernel": "linear"}),
    ("SVR", {"kernel": "poly"}),
    ("KernelRidge", {"kernel": "rbf"}),
    ("KNeighborsClassifier", {"weights": "distance"}),
    ("KNeighborsRegressor", {"weights": "distance"}),
    ("MLPClassifier", {"solver": "lbfgs", "hidden_layer_sizes": (4, 3)}),
    ("MLPClassifier", {"early_stopping": True, "dropout": 0.1}),
    ("MLPRegressor", {"solver": "sgd", "batch_size": 10}),
    ("NeuralClassifier", {"early_stopping": True}),
]
# rows are fetched in any order, or batches end with a block
IN_ONE_PIECE = {
    "LogisticRegressionCV",
    *common.COMPLETION,
    "Autoencoder",
    "GAN",
    "NormalizingFlow",
    "NeuralClassifier",
    "NeuralRegressor",
    "PixelCNN",
    "VAE",
    "WaveNet",
    "Diffusion",
    "SimCLR",
    "BYOL",
    "VICReg",
}
ANY_ORDER = [
    {"method": "sgd"},
    {"method": "dual"},
    {"learning_method": "online"},
    {"loss": "absolute"},
]
# max_iter is that of every penalty, pair of classes or start: it belongs to the checkpoint, as test_checkpoints.py asks
COUNTS_PARTS = {
    "Lasso",
    "ElasticNet",
    "LassoPath",
    "LassoCV",
    "ElasticNetCV",
    "SVC",
    "SVR",
    "Autoencoder",
    "GAN",
    "NormalizingFlow",
    "PixelCNN",
    "VAE",
    "WaveNet",
    "Diffusion",
    "SimCLR",
    "BYOL",
    "VICReg",
}
# multipliers of the hinge are in their box exactly; the likelihood of a chain is a sum over all tokens
WIDE = {**common.WIDE, "LinearSVC": {"dual_coef_"}, "LDA": {"chain_log_likelihoods_"}}
EVERY = [*((name, {}) for name in common.MODELS), *VARIANTS]


def words(one):
    return (
        " ".join(f"{key}={value}" for key, value in one.items()) if isinstance(one, dict) else one
    )


def fitted(name, X, y=None, **parameters):
    with warnings.catch_warnings(), lemmata.config(certificate=False):
        warnings.simplefilter("ignore")
        return common.fit(common.made(name, **parameters), X, y)


@functools.cache
def shared_fit(number):
    """One of EVERY, fitted to its rows, for tests that only use it."""
    name, settings = EVERY[number]
    return fitted(name, rows(name, settings), **settings)


def plain_fit(name, settings=None):
    return shared_fit(EVERY.index((name, settings or {})))


def rows(name, settings=None, n=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)) * [5.0, 3.0, 1.0, 0.5, 0.1] + 2.0
    positive = (settings or {}).keys() & {"nonnegative", "feedback"}
    whole = (settings or {}).get("learning_method") == "gibbs"
    X = np.abs(X) if positive else common.suited(name, X)
    return np.rint(X) if whole else X


def takes_sparse(name):
    tags = common.made(name).__sklearn_tags__().input_tags
    return tags.sparse and name not in common.COMPLETION  # where what is not stored is not known


def bits(model, X):
    return common.output(model, X).tobytes()


# --- parameters -------------------------------------------------------------------------------------------------------


def outside(rules):
    """Values that no rule of a parameter accepts."""
    for rule in rules:
        if isinstance(rule, Interval):
            step = 1 if rule.type is Integral else 0.5
            yield from (rule.left - step, rule.left) if rule.left is not None else ()
            yield from (rule.right + step, rule.right) if rule.right is not None else ()
            yield from (np.nan,) if rule.type is Real else ()
        elif isinstance(rule, StrOptions):
            yield "no such word"
    yield object()


@pytest.mark.parametrize("name", sorted({*common.MODELS, *of_texts.MODELS}))
def test_values_out_of_range_are_refused_by_name(name):
    text = name in of_texts.MODELS
    make, fit = (of_texts.made, of_texts.fit) if text else (common.made, common.fit)
    data = of_texts.topical(n=8) if text else (rows(name),)
    for parameter, rules in registry.model_class(name)._parameter_constraints.items():
        if not isinstance(rules, list):
            continue  # checked by hand
        accepts = [make_constraint(rule).is_satisfied_by for rule in rules]
        for value in outside(rules):
            if not any(accept(value) for accept in accepts):
                model = make(name)
                with pytest.raises(ValueError, match=rf"\b{parameter}\b"):
                    fit(model.set_params(**{parameter: value}), *data)
                assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("name", common.COMPLETION)
def test_a_matrix_without_entries_is_refused(name):
    with pytest.raises(ValueError, match="no known entries"):
        fitted(name, np.full((6, 4), np.nan))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", [one for one in common.MODELS if not common.takes_holes(one)])
def test_nan_and_infinity_in_sparse_rows_and_blocks_are_refused(name, value):
    X = rows(name)
    y = common.targets(common.made(name), X)
    X[20, 2] = value
    for source in ([X[:15], X[15:]], *([sp.csr_array(X)] if takes_sparse(name) else [])):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            fitted(name, source, y)


def with_value(value, row=1):
    def changed(X):
        X = X.copy()
        X[row, 1] = value
        return X

    return changed


def by_dask(change):
    return lambda X: pytest.importorskip("dask.array").from_array(change(X), chunks=(15, 3))


REFUSED = {
    "NaN": with_value(np.nan),
    "infinity": with_value(np.inf),
    "complex": lambda X: X * 1j,
    "objects": lambda X: np.full(X.shape, object()),
    "strings": lambda X: np.full(X.shape, "a"),
    "dict": lambda X: {"a": 1},
    "None": lambda X: None,
    "no rows": lambda X: X[:0],
    "one row": lambda X: X[0],
    "three axes": lambda X: X[None, :, :2],
    "another width": lambda X: X[:, :2],
    "dask NaN": by_dask(with_value(np.nan)),
    "dask infinity": by_dask(with_value(np.inf)),
    "dask complex": by_dask(lambda X: X * 1j),
}
# where NaN is not known, and where a dask array is read as one of entries
HOLES = {"NaN", "dask NaN", "dask infinity", "dask complex"}


@pytest.mark.parametrize("name", common.MODELS)
def test_bad_rows_are_refused_by_a_fitted_model(name):
    X = rows(name)
    model = plain_fit(name)
    for found, change in REFUSED.items():
        if (
            (common.takes_holes(name) and found in HOLES)
            or (found == "None" and hasattr(model, "kneighbors"))
            or (found == "one row" and name == "AR")  # a series
            or (
                found.startswith("dask") and hasattr(model, "linkage_matrix_")
            )  # claims read it, and break
        ):
            continue
        with pytest.raises((ValueError, TypeError)) as refused:
            common.output(model, change(X))
        assert len(str(refused.value)) > 20, found


def test_lazy_predictions_of_dask_arrays_are_those_of_arrays():
    X = rows("SVC")
    for name in ("SVC", "LinearSVC", "LogisticRegression", "MLPClassifier"):
        model = plain_fit(name)
        assert np.array_equal(np.asarray(model.predict(by_dask(np.copy)(X))), model.predict(X))


@pytest.mark.parametrize(
    "name", ["NeuralClassifier", "MLPRegressor", "NMF", "LDA", "KNeighborsRegressor"]
)
def test_what_ended_in_an_error_of_another_library_is_named(name):
    X = rows(name)
    if name == "MLPRegressor":  # takes sparse blocks
        whole = fitted(name, sp.csr_array(X), common.targets(common.made(name), X))
        parts = fitted(name, [sp.csr_array(X[:20]), sp.csr_array(X[20:])], common.targets(whole, X))
        assert bits(parts, X) == bits(whole, X)
    elif name == "NeuralClassifier":
        with pytest.raises(TypeError, match="a block of X is sparse"):
            fitted(name, [sp.csr_array(X)], common.targets(common.made(name), X))
    elif name == "LDA":
        with pytest.raises(ValueError, match=r"add up to 1e\+150"):
            fitted(name, np.rint(with_value(1e150)(X)), learning_method="gibbs")
    elif name == "NMF":
        with pytest.raises(ValueError, match=r"holds 1e\+200 in row 1, column 1"):
            fitted(name, with_value(1e200)(X))
    else:
        with pytest.raises(ValueError, match=r"holds 1e\+200 in row 1, column 1"):
            fitted(name, X).predict(with_value(1e200)(X))


LARGEST = np.finfo(float).max
EXTREME = {
    "1e150": with_value(1e150),
    "1e200": with_value(1e200),
    "largest": with_value(LARGEST),
    "all 1e200": lambda X: X * 1e200,
    "all the largest": lambda X: np.full_like(X, LARGEST),
}


def numbers_of(found):
    """The floats of an output, or of the attributes of a fit."""
    values = vars(found).values() if hasattr(found, "n_iter_") else [found]
    kinds = (one for one in values if isinstance(one, np.ndarray | float))
    return [np.asarray(one) for one in kinds if np.asarray(one).dtype.kind == "f"]


@pytest.mark.parametrize("name", common.MODELS)
def test_extreme_numbers_give_finite_ones_or_a_valueerror_with_words(name):
    X = rows(name, n=20)
    model = fitted(name, X)
    y = common.targets(model, X)
    few = {"max_iter": 3} if "max_iter" in model.get_params() else {}
    for kind, change in EXTREME.items():
        bad = change(X)
        check_attempt(kind, lambda bad=bad: fitted(name, bad, y, **few))
        density = not hasattr(model, "transform") and hasattr(model, "score_samples")
        check_attempt(kind, lambda bad=bad: common.output(model, bad), density)
        if y is not None and y.dtype.kind == "f":
            bad = change(np.stack([y, y], axis=1))[:, 1]
            check_attempt(kind, lambda bad=bad: fitted(name, X, bad, **few))


def check_attempt(kind, attempt, log_density=False):
    words = ""
    try:
        with np.errstate(all="ignore"):
            found = numbers_of(attempt())
    except (ValueError, TypeError) as refused:
        words, found = str(refused), []
    # a log-density below −1.8e308 is rounded to −infinity, as by SciPy; nothing else is
    lowest = -np.inf if log_density else -LARGEST
    finite = all(((one >= lowest) & (one <= LARGEST)).all() for one in found)
    assert len(words) > 20 or finite, kind


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=words)
def test_float32_stays_float32(name, settings):
    X = rows(name, settings)
    narrow, wide = fitted(name, X.astype(np.float32), **settings), plain_fit(name, settings)
    kinds = {key: getattr(value, "dtype", None) for key, value in vars(narrow).items()}
    found = {key for key, kind in kinds.items() if kind == np.float64}
    assert found <= WIDE.get(name, set())
    assert common.output(wide, X).dtype == np.float64
    if name not in common.WIDE_OUTPUT:
        assert common.output(narrow, X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(("name", "settings"), EVERY, ids=words)
def test_threads_change_no_bit(name, settings, monkeypatch):
    monkeypatch.setattr(blocks, "rows_per_block", lambda n, d, itemsize: 7)
    monkeypatch.setattr(blocks, "MAX_ROWS", 7)
    X, found = rows(name, settings), []
    for threads in ("1", "8"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        found.append(bits(fitted(name, X, **settings), X))
    assert found[0] == found[1]


# sizes at which BLAS uses its threads: products of 200 × 300 × 300, vectors of more than 10,000 numbers
LARGE = {
    "n_components": 20,
    "n_clusters": 20,
    "rank": 20,
    "hidden_layer_sizes": (150,),
    "max_iter": 3,
}
LARGE_OF = {
    "PLSA": {"n_components": 8, "max_iter": 3},
    "Nystroem": {"n_components": 200},
    "Mixture": {"max_iter": 3},
    "SparseCoder": {},
}
# rows of models that look at every word of a document for long
SLOW = {"LDA": 20, "LatentDirichletAllocation": 20, "PLSA": 8}


TORCH = {
    "Autoencoder",
    "GAN",
    "NormalizingFlow",
    "NeuralClassifier",
    "NeuralRegressor",
    "PixelCNN",
    "VAE",
    "WaveNet",
    "Diffusion",
    "SimCLR",
    "BYOL",
    "VICReg",
}  # has threads of its own


@pytest.mark.parametrize("name", [name for name in common.MODELS if name not in TORCH])
def test_threads_of_blas_change_no_bit(name):
    rng = np.random.default_rng(0)
    X = common.suited(name, rng.normal(size=(200, 8)) @ rng.normal(size=(8, 300)) + 0.1)
    X, known = X[: SLOW.get(name)], registry.model_class(name)._get_param_names()
    large = {key: value for key, value in LARGE.items() if key in known}
    found = set()
    for threads in (1, 8):
        with threadpoolctl.threadpool_limits(threads, user_api="blas"):
            model = fitted(name, X, **LARGE_OF.get(name, large))
            found.add((bits(model, X), *uses(model, X)))
    assert len(found) == 1


def uses(model, X):
    """Bits of predictions, and of rows made from what the model makes of others."""
    if hasattr(model, "predict"):
        yield np.asarray(model.predict(X)).tobytes()
    if hasattr(model, "inverse_transform") and type(model).__name__ != "KernelPCA":
        yield model.inverse_transform(model.transform(X)).tobytes()


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=words)
def test_a_saved_model_gives_the_same_output_to_the_bit(name, settings, tmp_path):
    X = rows(name, settings)
    y = common.targets(common.made(name), X)
    sparse = [fitted(name, sp.csr_array(X), y, **settings)] if takes_sparse(name) else []
    for model in (plain_fit(name, settings), *sparse):
        lemmata.save(model, tmp_path / "m.lemma")
        back = lemmata.load(tmp_path / "m.lemma")
        assert bits(back, X) == bits(model, X)
        assert repr(back) == repr(model)


def goes_on(name, settings):
    known = set(registry.model_class(name)._get_param_names())
    once = name in COUNTS_PARTS or (settings.get("solver") == "lbfgs" and name.startswith("MLP"))
    return {"checkpoint", "max_iter"} <= known and not once


@pytest.mark.parametrize(("name", "settings"), [one for one in EVERY if goes_on(*one)], ids=words)
def test_a_fit_that_was_stopped_goes_on_to_the_same_bits(name, settings, tmp_path):
    X, more = rows(name, settings), {**settings, "checkpoint": tmp_path / "c"}
    whole = fitted(name, X, **settings, max_iter=7)
    fitted(name, X, **more, max_iter=2)
    resumed = fitted(name, X, **more, max_iter=7)
    assert bits(resumed, X) == bits(whole, X)
    assert np.array_equal(resumed.trace_.objective, whole.trace_.objective, equal_nan=True)


# --- containers and weights -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "settings"), EVERY, ids=words)
def test_sparse_rows_files_and_blocks_are_the_same_rows(name, settings, tmp_path):
    X = rows(name, settings)
    X[np.abs(X) < 0.7] = 0
    whole = fitted(name, X, **settings)
    np.save(tmp_path / "X.npy", X)
    y = common.targets(whole, X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    sources = {} if settings.get("method") == "dual" else {"file": mapped}
    if name not in IN_ONE_PIECE and not any(one.items() <= settings.items() for one in ANY_ORDER):
        sources["blocks"] = [X[:15], X[15:]]
    if takes_sparse(name):
        sources |= {"csr": sp.csr_array(X), "csc": sp.csc_matrix(X)}
    for kind, source in sources.items():
        again = common.output(fitted(name, source, y, **settings), X)
        wanted = common.output(whole, X)
        assert np.abs(again - wanted).max() <= 1e-6 * np.abs(wanted).max(), kind
