"""Nothing that a model states can be changed unnoticed: NaN, another sign, one per cent more, another order, noise.

A certificate notices if a claim fails or breaks that did not before. What it does not notice it lists ("not recomputed"); what
changes nothing is listed here, with its reason.
"""

import copy
import functools
import warnings
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import test_estimators
import test_text_estimators
from sklearn import cluster, decomposition, mixture

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
FLAT = "the penalty that was chosen is so strong that a hundredth of the intercept is within 0.1 % of the least"
EXCEPTIONS[("LogisticRegressionCV", "intercept_", "1 % more")] = FLAT
UNUSED = "changes nothing: there is no penalty to be weighted"
EXCEPTIONS |= {
    **{
        (name, "weighted_reg_", "1 % more"): UNUSED
        for name in (
            "ImputedSVD",
            "MeanRatings",
            "NuclearBall",
            "RankOne",
            "SingularValueProjection",
        )
    },
    ("SentenceVectors", "components_", "another sign"): SAME,
    (
        "FastTextClassifier",
        "intercept_",
        "one number 1 % more",
    ): "is less than float32 sums leave open",
}
# what a certificate lists, though its claims notice
MODEST = {("IncrementalPCA", "moments_"): "its mean_ and var_ are read from them"}


NOISE = np.random.default_rng(0)
ALL = {
    **TAMPERS,
    "reversed": lambda x: np.flip(x) if np.size(x) > 1 else x,
    "noise": lambda x: x.mean() + x.std() * NOISE.normal(size=x.shape) if np.size(x) > 1 else 2 * x,
}
OTHER_KINDS = ("1 % more", "reversed", "noise")  # how whole numbers, texts and objects are altered
VARIANTS = {
    "LDA, gibbs": ("LDA", {"learning_method": "gibbs"}),
    "MLPClassifier, stopping": ("MLPClassifier", {"early_stopping": True}),
    "KernelPCA, inverse": ("KernelPCA", {"kernel": "rbf", "fit_inverse_transform": True}),
}
TEXTUAL = test_text_estimators.MODELS
MODELS = [*test_estimators.MODELS, *VARIANTS, *TEXTUAL]


def alter(x, how):
    """Another value of the same kind, or the same where there is nothing to alter in this way."""
    if isinstance(x, float | np.floating | np.ndarray) and np.asarray(x).dtype.kind == "f":
        return np.asarray(ALL[how](np.asarray(x)), np.asarray(x).dtype)[()]
    if how not in OTHER_KINDS or x is None:
        return x
    if isinstance(x, list | tuple):
        parts = [alter(part, how) for part in x]
        return type(x)(parts[::-1] if how == "reversed" else parts)
    if hasattr(x, "state_dict"):
        other = copy.deepcopy(x)
        for part in other.parameters():
            part.data = part.data * 1.01 if how == "1 % more" else part.data.flip(0)
        return other
    if is_dataclass(x) or hasattr(x, "indptr"):
        other = copy.copy(x)
        for name in [one.name for one in fields(x)] if is_dataclass(x) else ["data"]:
            value = getattr(x, name)
            if not isinstance(value, str | bool):
                object.__setattr__(other, name, alter(value, how))
        return other
    if how == "1 % more":
        whole = np.asarray(x).dtype.kind in "iu" and not isinstance(x, bool)
        return x + np.maximum(np.asarray(x) // 100, 1) if whole else x
    if isinstance(x, np.ndarray):
        return np.flip(x) if how == "reversed" else NOISE.permuted(x)
    if isinstance(x, bool | np.bool_ | str) and how == "noise":
        return not x if not isinstance(x, str) else x + "?"
    return x


def is_same(a, b):
    if a is b:
        return True
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(is_same, a, b))
    if hasattr(a, "state_dict"):
        return False
    if is_dataclass(a):
        return all(is_same(getattr(a, one.name), getattr(b, one.name)) for one in fields(a))
    if hasattr(a, "indptr"):
        return np.array_equal(a.data, b.data)
    return np.array_equal(a, b)


@functools.cache
def fitted(name):
    """A fit, its data and targets, its certificate as it is, and what that lists as not recomputed."""
    if name in TEXTUAL:
        X, y = test_text_estimators.topical()
        model = test_text_estimators.made(name, epochs=10, alpha=0.2)
    else:
        kind, parameters = VARIANTS.get(name, (name, {}))
        X = np.random.default_rng(0).normal(size=(40, 5)) * [5.0, 3.0, 1.0, 0.5, 0.1] + 2.0
        X = test_estimators.suited(kind, X)
        X = np.ceil(X) if kind == "LDA" else X
        model = test_estimators.made(kind, **parameters)
        y = test_estimators.targets(model, X)
    y = y if hasattr(model, "predict") else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lemmata.config(certificate=False):
            model.fit(X) if y is None else model.fit(X, y)
        found = certify(model, X, y)
    listed = found["statements_true"].note.partition("; not recomputed: ")[2].split(", ")
    return model, X, y, found, listed


def certify(model, X, y):
    return model.certify(X) if y is None else model.certify(X, y)


@pytest.mark.parametrize("name", MODELS)
def test_the_two_first_claims_hold_on_an_honest_fit(name):
    found = fitted(name)[3]
    assert [item.name for item in found][:2] == ["attributes_sound", "statements_true"]
    assert not {"attributes_sound", "statements_true"} & {*found.failed, *found.broken}
    assert found["attributes_sound"].verdict == "holds"


def stated(model):
    """The names of what a model states: all that its files hold but the certificate and the run."""
    return [one for one in model.stored_attributes() if one not in ("certificate_", "trace_")]


@pytest.mark.parametrize("name", MODELS)
def test_nothing_stated_can_be_changed_unnoticed_but_what_is_listed(name):
    listed, exceptions = fitted(name)[-1], {key[1:] for key in EXCEPTIONS if key[0] == name}
    asked = [(one, how) for how in ALL for one in stated(fitted(name)[0]) if one not in listed]
    assert not [key for key in asked if key not in exceptions and passes(name, *key)]


def passes(name, attribute, how):
    """Whether an altered attribute is believed; not where altering it this way changes nothing."""
    value = getattr(fitted(name)[0], attribute)
    tampered = alter(value, how)
    return not is_same(value, tampered) and believed(name, {attribute: tampered})


def believed(name, altered):
    model, X, y, honest, _ = fitted(name)
    other = copy.copy(model)
    for attribute, value in altered.items():
        setattr(other, attribute, value)
    return not notices(other, X, y, {*honest.failed, *honest.broken})


def notices(model, X, y, complaints):
    """Whether the two first claims notice, which is quick, or any other; or the data does not fit any more."""
    claims = model._claims()
    for some in (claims[:2], claims):
        model._claims = lambda some=some: some
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = certify(model, X, y)
            except (ValueError, TypeError, IndexError):
                return True
        if {*found.failed, *found.broken} - complaints:
            assert not found.holds
            return True
    return False


@pytest.mark.parametrize("exception", EXCEPTIONS, ids=map(" ".join, EXCEPTIONS))
def test_exceptions_are_needed(exception):
    assert passes(*exception)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_listed_is_stated_and_would_pass(name):
    """A list that names what claims do notice would hide what they do not."""
    model, *_, listed = fitted(name)
    assert {"n_iter_", "stopped_"} <= set(listed) <= set(stated(model))
    ways = {}
    for attribute in listed:
        value = getattr(model, attribute)
        altered = {how: alter(value, how) for how in (*OTHER_KINDS, "another sign")}
        altered = {how: other for how, other in altered.items() if not is_same(value, other)}
        if altered.keys() & {*OTHER_KINDS} and (name, attribute) not in MODEST:
            ways[attribute] = altered
    if believed(name, {one: next(iter(altered.values())) for one, altered in ways.items()}):
        return  # all at once, hence each
    for attribute, altered in ways.items():
        assert any(believed(name, {attribute: other}) for other in altered.values()), attribute


# --- other libraries --------------------------------------------------------------------------------------------------


FOREIGN = {
    "PCA": lambda: decomposition.PCA(2),
    "IncrementalPCA": lambda: decomposition.IncrementalPCA(
        2, batch_size=40
    ),  # several batches give other numbers than those of the data
    "TruncatedSVD": lambda: decomposition.TruncatedSVD(2, algorithm="arpack"),
    "KernelPCA": lambda: decomposition.KernelPCA(2, kernel="rbf"),
    "KMeans": lambda: cluster.KMeans(3, n_init=1, random_state=0),
    "AgglomerativeClustering": lambda: cluster.AgglomerativeClustering(3, compute_distances=True),
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
