"""Whose a checkpoint is: every parameter of every model, changed alone, is refused by name or makes no difference."""

import re
import shutil
import warnings
from numbers import Integral, Real

import numpy as np
import pytest
import small_models
import test_estimators as of_rows
import test_text_estimators as of_texts
from sklearn.model_selection import KFold

import lemmata
from lemmata import registry
from lemmata.core import store
from lemmata.core.files.encoding import hash_of
from lemmata.core.files.owner import brief
from lemmata.core.validation import Interval, StrOptions
from lemmata.nets.training.transfer import Transfer
from lemmata.text import Tokenizer

# a run may go on under other values of these; all others belong to the checkpoint
FREE = {"max_iter", "tol", "time_limit", "verbose", "checkpoint"}
MODELS = [
    name
    for name in registry.MODELS
    if "checkpoint" in registry.model_class(name)._get_param_names()
]
# for algorithms in which a stopping rule, or the seed, does more than in the cheap setting of each model
FAMILIES = [
    ("PCA", {"svd_solver": "lanczos"}),
    ("KernelPCA", {"eigen_solver": "lanczos", "kernel": "rbf"}),
    ("LinearAutoencoder", {"method": "sgd"}),
    ("DictionaryLearning", {"method": "online", "n_nonzero": None}),
    ("KMeans", {"n_init": 2}),
    ("GaussianMixture", {"n_init": 2}),
    ("LDA", {"learning_method": "gibbs", "n_chains": 2}),
    ("LogisticRegression", {"solver": "sgd"}),
    ("LinearSVC", {"method": "subgradient"}),
    ("MLPClassifier", {"solver": "lbfgs"}),
    ("NeuralClassifier", {"early_stopping": True, "schedule": "cosine"}),
]
ROWS = np.rint(np.random.default_rng(0).normal(size=(24, 5)) * [9.0, 7.0, 5.0, 3.0, 2.0] + 10)


def linear(shape, n_outputs):
    from torch import nn

    return nn.Linear(shape[0], n_outputs)


def timed():
    from lemmata.nets import TimedMLP

    return TimedMLP((5,), width=8, n_blocks=1)


def player(inputs, outputs):
    torch = pytest.importorskip("torch")
    return torch.nn.Linear(inputs, outputs)


# What constraints do not tell: values of parameters that take arrays, functions, dicts or objects.
OTHERS = {
    "augment": [lambda batch, rng: batch],
    "callbacks": [[print]],
    "class_weight": [{"no": 1.0, "yes": 2.0}, {0: 1.0, 1: 2.0}],
    "denoiser": [timed],
    "device": ["cpu"],
    "dict_init": [ROWS[:2]],
    "discriminator": [player(5, 1)],
    "generator": [player(2, 5)],
    "input_shape": [(5,)],
    "kernel_params": [{}],
    "layers": [(4,)],
    "loss": ["cross_entropy", "squared_error"],
    "means_init": [ROWS[:2]],
    "max_n": [4],
    "net": [linear],
    "net_options": [{"widths": (4,)}],
    "optimizer": ["sgd"],
    "optimizer_options": [{}],
    "parameters_init": [{"means": ROWS[:2]}],
    "penalty_factor": [np.arange(1.0, 6)],
    "precisions_init": [np.ones((2, 5))],
    "rate_schedule": ["constant"],
    "schedule": ["linear"],
    "seed_words": [{0: [1]}],
    "tokens": ["words", "characters"],
    "views": [lambda batch, rng: batch],
    "tokenizer": [Tokenizer(lowercase=False)],
    "transfer": [Transfer(rates={"*": 0.5})],
    "widths": [(4,)],
    "weights_init": [np.array([0.25, 0.75])],
}


def alternatives(model, name):
    """Other values that a parameter may have, those that are most likely to fit the others first."""
    rules, value = model._parameter_constraints.get(name), getattr(model, name)
    if name == "time_limit":  # no clock decides what comes of a test
        yield 1e6
        return
    if name == "tol":  # a run that goes on cannot stop where a looser one would have
        yield value / 2 or 1e-300
        return
    if name == "pretrained":
        yield small_models.fitted("BERT")
    yield from (one for one in OTHERS.get(name, []) if brief(one) != brief(value))
    for rule in rules if isinstance(rules, list) else []:
        if rule == "boolean":
            yield not value
        elif rule == "verbose":
            yield 1
        elif rule in ("random_state", "cv_object") or rule is Integral:
            yield 2
        elif isinstance(rule, StrOptions):
            yield from sorted(rule.options - {value})
        elif isinstance(rule, Interval):
            yield from (one for one in numbers(rule, value) if one in rule and one != value)
        elif rule is None and value is not None:
            yield None


def numbers(rule, value):
    known = isinstance(value, Real) and not isinstance(value, bool)
    if rule.type is Integral:
        return [value + 1, value - 1] if known else [2, 1, 4]
    return [value * 2, value / 2, 0.5, 1.5] if known else [0.5, 1.5, 10.0]


def fitted(name, **parameters):
    """A fit of a model to a small problem of its own."""
    with warnings.catch_warnings(), lemmata.config(certificate=False):
        warnings.simplefilter("ignore")
        if name == "Alignment":
            words = ([f"w{i}" for i in range(len(ROWS))], ROWS)
            return registry.model_class(name)(**parameters).fit(words, words)
        if name == "CLIP":
            captions = [f"row {'even' if i % 2 else 'odd'}" for i in range(len(ROWS))]
            return registry.model_class(name)(
                **{"max_iter": 2, "random_state": 0, **parameters}
            ).fit(ROWS, captions)
        if name in of_texts.MODELS:
            return of_texts.fit(of_texts.made(name, **parameters), *of_texts.topical(n=15))
        if name in of_texts.PAIRED:
            model, X = small_models.unfitted(name, **parameters), small_models.data_of(name)
            return model.fit(X, *small_models.targets(model, X))
        return of_rows.fit(of_rows.made(name, **parameters), of_rows.suited(name, ROWS))


def bits(model):
    """All that a fit found, but for the time it took."""
    arrays = {}
    found = {**model.stored_attributes(), "trace_": model.trace_.objective, "certificate_": None}
    return hash_of(store.encode(found, arrays), arrays)


def outcome(name, parameters, path, parameter, value):
    """What comes of a checkpoint under another value: "refused", "right", or why no fit takes that value."""
    shutil.copy(path, f"{path} again")
    changed = {**parameters, parameter: value}
    try:
        model = fitted(name, **{**changed, "checkpoint": f"{path} again"})
    except (ValueError, TypeError) as error:
        said = str(error)
    else:
        assert bits(model) == bits(fitted(name, **changed)), f"{parameter}={value!r}: an old answer"
        return "right"
    if "belongs to another" in said:
        assert f"{parameter}: " in said.partition("; delete it")[0]
        return "refused"
    with pytest.raises((ValueError, TypeError)):
        fitted(name, **changed)
    return said


def short(name):
    """One step, where a model says how many."""
    return {"max_iter": 1} if "max_iter" in registry.model_class(name)._get_param_names() else {}


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_belongs_to_a_checkpoint_or_makes_no_difference(name, tmp_path):
    path = tmp_path / "c"
    model = fitted(name, **short(name), checkpoint=path)
    for parameter in set(model.get_params(deep=False)) - {"checkpoint"}:
        found = "nothing to try: add a value to OTHERS"
        for value in alternatives(model, parameter):
            found = outcome(name, short(name), path, parameter, value)
            if found in ("refused", "right"):
                break
        if parameter in FREE:
            assert found in ("refused", "right")
        else:  # or every other value is refused, by name, whatever is in the file
            assert found == "refused" or re.search(rf"\b{parameter}=", found), (parameter, found)


@pytest.mark.parametrize(("name", "settings"), FAMILIES, ids=lambda one: str(one))
def test_other_solvers_stop_elsewhere_and_are_right_or_refuse_it(name, settings, tmp_path):
    path, settings = tmp_path / "c", {**settings, **short(name)}
    model = fitted(name, **settings, checkpoint=path)
    for parameter, value in (("max_iter", 2), ("tol", model.tol / 2), ("time_limit", 1e6)):
        assert outcome(name, settings, path, parameter, value) in ("refused", "right")
    assert outcome(name, settings, path, "random_state", 1) == "refused"


@pytest.mark.parametrize(
    ("name", "before", "now", "says"),
    [
        *(
            (name, {}, {"fit_intercept": False}, "fit_intercept: True in the checkpoint, False now")
            for name in ("Lasso", "ElasticNet", "LogisticRegression")
        ),
        ("NMF", {"n_components": 5}, {"n_components": 3}, "n_components: 5 in the checkpoint, 3 now"),
        ("LassoCV", {"cv": 3}, {"cv": 4}, "cv: 3 in the checkpoint, 4 now"),
        ("LassoCV", {"cv": KFold(3)}, {"cv": KFold(3, shuffle=True, random_state=0)}, "cv: KFold"),
        ("GloVe", {}, {"alpha": 0.5}, "alpha: 0.75 in the checkpoint, 0.5 now"),
        (
            "GloVe", {}, {"alpha": 0.5, "x_max": 5.0},
            "alpha: 0.75 in the checkpoint, 0.5 now; x_max: 10.0 in the checkpoint, 5.0 now",
        ),
        ("KMeans", {"init": ROWS[:3]}, {"init": ROWS[3:6]}, "init: another array of float64, (3, 5) now"),
        ("NeuralClassifier", {"net__widths": (4,)}, {"net__widths": (5,)}, "net__widths: (4,) in the checkpoint, (5,) now"),
        ("NeuralClassifier", {"net__widths": (4,)}, {}, "net__widths: (4,) in the checkpoint, absent now"),
    ],
    ids=str,
)  # fmt: skip
def test_a_checkpoint_of_other_parameters_says_which(name, before, now, says, tmp_path):
    path = tmp_path / "c"
    before, now = {**short(name), **before}, {**short(name), **now}
    first = fitted(name, **before, checkpoint=path)
    with pytest.raises(ValueError, match=rf"belongs to another {name} \({re.escape(says)}"):
        fitted(name, **now, checkpoint=path)
    assert bits(fitted(name, **before, checkpoint=path)) == bits(first)
    path.unlink()
    assert bits(fitted(name, **now, checkpoint=path)) == bits(fitted(name, **now)) != bits(first)
