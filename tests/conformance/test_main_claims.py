"""Every model names its main claim (is it optimal? does it beat a constant?), and `fit` checks it without being asked."""

import warnings

import numpy as np
import pytest
import test_estimators as common
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import lemmata
from lemmata import registry
from lemmata.audit.kernel.claims import BROKEN, FAILS, HOLDS, NOT_CHECKED
from lemmata.core.certification.checking import main_claim
from lemmata.core.supervised import Supervised

NEAR = "near_optimum"
VARIANCE = "most_variance"
FIRST_ORDER = "first_order_point"
MAIN: dict[str, str] = {
    # reduction
    "PCA": VARIANCE,
    "IncrementalPCA": VARIANCE,
    "TruncatedSVD": VARIANCE,
    "LinearAutoencoder": "near_pca_optimum",
    "KernelPCA": "eigenvectors_solved",
    "SparseCoder": "fitted_on_support",
    "DictionaryLearning": NEAR,
    # clustering
    "KMeans": "fixed_point",
    "MiniBatchKMeans": "near_fixed_point",
    "LightweightCoreset": "costs_kept",
    "AgglomerativeClustering": "merges_closest",
    # predict
    "LinearRegression": "normal_equations",
    "Ridge": NEAR,
    "RidgeCV": NEAR,
    "RidgeClassifier": NEAR,
    "RobustRegression": NEAR,
    "HuberRegressor": NEAR,
    "Lasso": NEAR,
    "LassoCV": NEAR,
    "LassoPath": "path_near_optimum",
    "ElasticNet": NEAR,
    "ElasticNetCV": NEAR,
    "LogisticRegression": NEAR,
    "LogisticRegressionCV": NEAR,
    "SGDClassifier": NEAR,
    "LinearSVC": NEAR,
    "SVC": NEAR,
    "SVR": NEAR,
    "KNeighborsClassifier": "leave_one_out",
    "KNeighborsRegressor": "leave_one_out",
    "NearestNeighbors": "neighbours_exact",
    "KernelSmoother": "leave_one_out",
    "KernelRidge": NEAR,
    "Nystroem": "little_missed",
    "RBFSampler": "near_kernel",
    # completion
    "ALS": FIRST_ORDER,
    "SGDFactorization": "near_fixed_point",
    "SoftImpute": "least_penalised",
    "SingularValueThresholding": "least_regularised",
    "NuclearBall": "least_in_ball",
    "SingularValueProjection": "first_order_on_manifold",
    "ImputedSVD": "best_of_filled",
    "MeanRatings": "best_offsets",
    # mixtures, topics
    "GaussianMixture": "fixed_point",
    "Mixture": "fixed_point",
    "NMF": FIRST_ORDER,
    "PLSA": "documents_fitted",
    # networks, series
    "MLPClassifier": "beats_constant",
    "MLPRegressor": "beats_constant",
    "NeuralClassifier": "beats_constant",
    "NeuralRegressor": "beats_constant",
    "Autoencoder": "beats_pca",
    "AR": "residuals_white",
    "PixelCNN": "beats_independent",
    "WaveNet": "beats_independent",
    "Diffusion": "beats_linear_denoiser",
    "GAN": "modes_covered",
    "SimCLR": "not_collapsed",
    "BYOL": "not_collapsed",
    "VICReg": "not_collapsed",
}
# where the default is more than five columns have
RANKED, TOPICS = "ALS SGDFactorization SingularValueProjection ImputedSVD", "NMF PLSA"
SIZES = {name: {"rank": 2} for name in RANKED.split()}
SIZES |= {name: {"n_components": 2} for name in TOPICS.split()}
SIZES |= {"PixelCNN": {"levels": 4}}
# models whose main claim `fit` leaves to `certify`, with the reason
UNCHECKED: dict[str, str] = {}


@pytest.mark.parametrize("name", sorted(MAIN))
def test_the_main_claim_is_checked_in_fit(name):
    X = common.suited(name, common.rows_of_noise())
    model = registry.model_class(name)(**SIZES.get(name, {}))
    with warnings.catch_warnings():
        # some have more components by default than there are columns
        warnings.simplefilter("ignore")
        found = common.fit(model, X).certificate_
    assert found.main == main_claim(model.claims) == MAIN[name]
    assert (found[found.main].verdict in (NOT_CHECKED, BROKEN)) == (name in UNCHECKED)


# what is fitted to many rows, at defaults
MANY = "PCA IncrementalPCA TruncatedSVD MiniBatchKMeans LightweightCoreset Nystroem RBFSampler LinearRegression Ridge Lasso"


@pytest.fixture(scope="module")
def many_rows():
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(X), size=50_000)
    return X[chosen] + rng.normal(size=(50_000, 64)), y[chosen].astype(float)


@pytest.mark.parametrize("name", MANY.split())
def test_the_main_claim_is_checked_in_fit_on_50_000_rows(name, many_rows):
    model = registry.model_class(name)()
    found = model.fit(*many_rows[: 2 if isinstance(model, Supervised) else 1]).certificate_
    assert found[found.main].verdict not in (NOT_CHECKED, BROKEN)


def test_the_main_claim_is_checked_in_fit_on_data_of_its_kind():
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    A = rng.normal(size=(1000, 5)) @ rng.normal(size=(5, 1000))
    A[rng.random(A.shape) > 0.3] = np.nan
    words = rng.integers(3000, size=(2000, 12)) ** 2 // 3000
    texts = [" ".join(f"w{word}" for word in line) for line in words]
    for model, data in (
        (lemmata.KernelPCA(10, kernel="rbf"), (X,)),
        (lemmata.SVC(), (X, y)),
        (lemmata.SGDClassifier(), (X[:600], y[:600])),
        (lemmata.SingularValueThresholding(random_state=0), (A,)),
        (lemmata.PMI(random_state=0), (texts,)),
    ):
        found = model.fit(*data).certificate_
        assert found[found.main].verdict in (HOLDS, FAILS), found.title


DID_NOT_ARRIVE = {
    "LogisticRegression": {"max_iter": 1},
    "Lasso": {"alpha": 1e-3, "max_iter": 2},
    "SVC": {"C": 100.0, "max_iter": 3},
    "SVR": {"C": 100.0, "max_iter": 3},
    "LinearSVC": {"max_iter": 1},
    "HuberRegressor": {"max_iter": 1},
    "Ridge": {"solver": "sparse_cg", "alpha": 1e-3, "tol": 0.5},
    "LogisticRegressionCV": {"Cs": [100.0], "cv": 2, "max_iter": 1},
    "PCA": {"n_components": 2, "svd_solver": "gradient", "max_iter": 1, "tol": 0.0},
}


@pytest.mark.parametrize("name", sorted(DID_NOT_ARRIVE))
def test_a_fit_that_does_not_arrive_warns_once_by_how_much(name):
    """Whatever ended it: max_iter, a tol that is too large, or one of 0, with which any end was asked for."""
    X = np.random.default_rng(0).normal(size=(60, 20)) * np.geomspace(1, 5, 20)
    with pytest.warns() as heard:
        found = common.fit(registry.model_class(name)(**DID_NOT_ARRIVE[name]), X).certificate_
    said = [str(one.message) for one in heard if issubclass(one.category, ConvergenceWarning)]
    assert found[found.main].verdict == FAILS
    assert len(said) == 1
    assert f"{found.main} fails: {found[found.main].numbers}" in said[0]
