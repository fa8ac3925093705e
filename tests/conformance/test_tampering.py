"""Nothing that a model states can be changed unnoticed: NaN, another sign, one per cent more.

A certificate notices if a claim fails or breaks that did not before. What it need not notice is listed with its reason.
"""

import copy
import functools
import warnings

import numpy as np
import pytest
from sklearn import cluster, decomposition, mixture
from test_estimators import MODELS, certify, fit, made, suited

import lemmata

TAMPERS = {
    "NaN": lambda x: x * np.nan,
    "another sign": lambda x: -x,
    "1 % more": lambda x: x * np.asarray(x).dtype.type(1.01),
    "one number 1 % more": lambda x: (
        np.where(np.abs(x) == np.abs(x).max(), x * 1.01, x) if np.size(x) > 1 else x
    ),
}
SAME = "changes nothing: the sign of an axis is free"
EXCEPTIONS: dict[tuple[str, str, str], str] = {
    (name, "components_", "another sign"): SAME
    for name in ("PCA", "IncrementalPCA", "TruncatedSVD")
}
ATOM = "changes nothing: the sign of an atom is free"
EXCEPTIONS[("DictionaryLearning", "components_", "another sign")] = ATOM
GAP = "a gap is a bound: a larger one is true as well"
DRAWN = "drawn numbers: others of the same law do as well, and 1 % of their spread is less than the draw leaves open"
FOLDS = "errors of folds are not known without the folds"
EXCEPTIONS |= {
    **{
        (name, "dual_gap_", "1 % more"): GAP
        for name in ("Lasso", "ElasticNet", "LassoCV", "ElasticNetCV")
    },
    ("LassoPath", "dual_gaps_", "1 % more"): GAP,
    ("LassoPath", "dual_gaps_", "one number 1 % more"): GAP,
    **{
        ("RBFSampler", "random_weights_", how): DRAWN
        for how in ("another sign", "1 % more", "one number 1 % more")
    },
    **{
        (name, "mse_path_", how): FOLDS
        for name in ("LassoCV", "ElasticNetCV")
        for how in ("1 % more", "one number 1 % more")
    },
}


@functools.cache
def fitted(name):
    """A fit, its data, and what its certificate complains about as it is."""
    rng = np.random.default_rng(0)
    X = suited(name, rng.normal(size=(40, 5)) * [5.0, 3.0, 1.0, 0.5, 0.1] + 2.0)
    model = made(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lemmata.config(certificate=False):
            fit(model, X)
        found = certify(model, X)
    return model, X, {*found.failed, *found.broken}


def floats(model):
    """The names of the stored public attributes that are floats or arrays of them."""
    for name, value in model.stored_attributes().items():
        if (
            isinstance(value, (float, np.floating, np.ndarray))
            and np.asarray(value).dtype.kind == "f"
        ):
            yield name


@pytest.mark.parametrize("name", MODELS)
def test_the_two_first_claims_hold_on_an_honest_fit(name):
    model, X, complaints = fitted(name)
    found = certify(model, X)
    assert [item.name for item in found][:2] == ["attributes_sound", "statements_true"]
    assert not {"attributes_sound", "statements_true"} & complaints
    assert found["attributes_sound"].verdict == "holds"


@pytest.mark.parametrize("how", TAMPERS)
@pytest.mark.parametrize("name", MODELS)
def test_no_number_can_be_changed_unnoticed(name, how):
    model, X, complaints = fitted(name)
    unnoticed = []
    for attribute in floats(model):
        value = getattr(model, attribute)
        tampered = TAMPERS[how](value)
        if np.array_equal(value, tampered) or (name, attribute, how) in EXCEPTIONS:
            continue  # zeros
        other = copy.copy(model)
        setattr(other, attribute, tampered)
        if not notices(other, X, complaints):
            unnoticed.append(attribute)
    assert not unnoticed


def notices(model, X, complaints):
    """Whether the two first claims notice, which is quick, or any other."""
    claims = model._claims()
    for some in (claims[:2], claims):
        model._claims = lambda some=some: some
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = certify(model, X)
        if {*found.failed, *found.broken} - complaints:
            assert not found.holds
            return True
    return False


@pytest.mark.parametrize("exception", EXCEPTIONS, ids=map(" ".join, EXCEPTIONS))
def test_exceptions_are_needed(exception):
    name, attribute, how = exception
    model, X, complaints = fitted(name)
    other = copy.copy(model)
    setattr(other, attribute, TAMPERS[how](getattr(model, attribute)))
    assert not notices(other, X, complaints)


# --- other libraries --------------------------------------------------------------------------------------------------


FOREIGN = {
    "PCA": lambda: decomposition.PCA(2),
    "IncrementalPCA": lambda: decomposition.IncrementalPCA(
        2, batch_size=40
    ),  # several batches give other numbers than those of the data
    "TruncatedSVD": lambda: decomposition.TruncatedSVD(2, algorithm="arpack"),
    "KernelPCA": lambda: decomposition.KernelPCA(2, kernel="rbf"),
    "KMeans": lambda: cluster.KMeans(3, n_init=1, random_state=0),
    "MiniBatchKMeans": lambda: cluster.MiniBatchKMeans(3, n_init=1, random_state=0),
    **{
        f"GaussianMixture, {kind}": lambda kind=kind: mixture.GaussianMixture(
            2, covariance_type=kind, random_state=0
        )
        for kind in ("full", "tied", "diag", "spherical")
    },
}
BEFORE = "lower_bound_ is that of the step before: a change that costs less than a step gains is not seen"
FOREIGN_EXCEPTIONS: dict[tuple[str, str, str], str] = {
    ("PCA", "components_", "another sign"): SAME,
    ("IncrementalPCA", "components_", "another sign"): SAME,
    ("TruncatedSVD", "components_", "another sign"): SAME,
    ("KernelPCA", "eigenvectors_", "another sign"): SAME,
    ("GaussianMixture, full", "means_", "one number 1 % more"): BEFORE,
    ("GaussianMixture, diag", "means_", "one number 1 % more"): BEFORE,
}


@functools.cache
def foreign(name):
    X = fitted("PCA")[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FOREIGN[name]().fit(X)
        found = lemmata.certify(model, X)
    return model, X, found


@pytest.mark.parametrize("name", FOREIGN)
def test_honest_fits_of_scikit_learn_are_believed(name):
    _, _, found = foreign(name)
    assert [item.name for item in found][:2] == ["attributes_sound", "statements_true"]
    assert found["attributes_sound"].verdict == "holds"
    assert found["statements_true"].verdict == "holds"
    assert not found.broken


@pytest.mark.parametrize("how", TAMPERS)
@pytest.mark.parametrize("name", FOREIGN)
def test_no_number_of_scikit_learns_fits_can_be_changed_unnoticed(name, how):
    model, X, honest = foreign(name)
    unnoticed = []
    for attribute, value in vars(model).items():
        public = attribute.endswith("_") and not attribute.startswith("_")
        if (
            not public
            or not isinstance(value, (float, np.floating, np.ndarray))
            or np.asarray(value).dtype.kind != "f"
        ):
            continue
        tampered = TAMPERS[how](value)
        if np.array_equal(value, tampered) or (name, attribute, how) in FOREIGN_EXCEPTIONS:
            continue
        other = copy.deepcopy(model)
        setattr(other, attribute, tampered)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = lemmata.certify(other, X)
        if not {*found.failed, *found.broken} - {*honest.failed, *honest.broken}:
            unnoticed.append(attribute)
    assert not unnoticed
