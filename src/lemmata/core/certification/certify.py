"""certify(model, X): check the claims about any fit, ours or another library's.

>>> from sklearn.datasets import load_digits
>>> from sklearn.decomposition import PCA
>>> from sklearn.pipeline import make_pipeline
>>> from sklearn.preprocessing import StandardScaler
>>> import lemmata
>>> X = load_digits().data
>>> lemmata.certify(PCA(10).fit(X), X).failed
[]
>>> lemmata.certify(make_pipeline(StandardScaler(), PCA(10)).fit(X), X).skipped
'standardscaler (StandardScaler: not the last step)'
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.validation import check_is_fitted

from lemmata import registry
from lemmata.core.blocks import Blocks, is_dask, is_stream
from lemmata.core.certificate import Certificate, Fit, Statement
from lemmata.core.certification.checking import budget, check, warn_interrupted
from lemmata.core.certification.counterparts import CERTIFIERS, COUNTERPARTS
from lemmata.core.estimator import Model
from lemmata.core.runs.progress import Checking
from lemmata.core.supervised import Classifier, Supervised
from lemmata.core.validation import is_search


def certify(
    model: Any,
    X: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    loss: Any = None,
    *,
    properties: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    analogies: Any = None,
    groups: Any = None,
    seconds: float | None = None,
    verbose: bool = False,
) -> Certificate:
    """Check every claim about a fitted model on the data it was fitted to.

    Parameters
    ----------
    model : a fitted lemmata model, or the counterpart of one in another library (scikit-learn's PCA, …), or a torch.nn.Module
        Of a Pipeline its last step is certified, on what reaches it; of GridSearchCV and its like the best estimator; of a
        ColumnTransformer or FeatureUnion every part that lemmata has claims about, in one certificate whose claims are called
        ``part__claim``. `skipped` says what was left out.
        Vectors of words need no X: gensim's KeyedVectors or Word2Vec, WordVectors, (words, matrix), {word: vector}.
    X, y, sample_weight : the training data
        Other libraries' fits do not store their weights: pass those they were fitted with.
    loss : str, optional
        What another library's fit minimised, where it does not say so itself ("squared", "logistic", "hinge", …).
    properties, X_test, y_test : of networks; X_test of topic models too
        What to check besides ("causal", …), and rows that were not trained on: see `lemmata.nets.certifying.certify_module`.
    analogies : of vectors of words
        A file of questions, or rows of four words: see `lemmata.embedding.vectors.certifying.certify_words`.
    groups : label of each row, or several columns, optional
        Judge the fairness of decisions instead, of anything with `predict`: X and y are then rows that it was not trained on.
        With X_test and y_test, the groups are those of these rows, and X are the training rows. See `lemmata.trust.fairness`.
    seconds : float, optional
        How long that may take; claims that need more stay *not checked*. By default five times the work of the fit, or about
        half a second if that is more, counted in work and not in time, so that every machine says the same.
    verbose : bool, default=False
        Show on a terminal which claim is being checked.
    """
    if isinstance(model, type):
        raise TypeError(
            f"{model.__name__} is a class; pass a fitted instance: {model.__name__}(…).fit(X)."
        )
    request = Request(
        X, y, sample_weight, loss, properties, X_test, y_test, analogies, seconds, verbose
    )
    if groups is not None:
        return registry.resolve("trust.fair.report:certify_groups")(model, request, groups)
    for kinds, certifier in CERTIFIERS:
        if any(registry.is_named(cls, kind) for cls in type(model).__mro__ for kind in kinds):
            found = registry.resolve(certifier)(model, request)
            if found is not None:
                return found
    request.need_data(model)
    if is_composite(model):
        from lemmata.core.certification.composite import certify_parts

        request.take(model)
        return certify_parts(model, request, _is_known, _certify_one, describe_accepted)
    return _certify_one(model, request)


def is_composite(model: Any) -> bool:
    """Whether a model is made of models: a Pipeline, a search, a ColumnTransformer or a FeatureUnion."""
    return is_search(model) or isinstance(model, (Pipeline, ColumnTransformer, FeatureUnion))


def _certify_one(model: Any, request: Request) -> Certificate:
    """The certificate of a model that is not made of others."""
    return (
        _certify_own(model, request)
        if isinstance(model, Model)
        else certify_counterpart(model, request)
    )


def _certify_own(model: Model, request: Request) -> Certificate:
    more = request.take(model, signature(model.certify).parameters)
    if request.verbose and not model.verbose:
        model = copy(model)
        model.verbose = 1
    return model.certify(
        request.X, request.y, request.sample_weight, **more, seconds=request.seconds
    )


def _is_known(model: Any) -> bool:
    return isinstance(model, Model) or find_counterpart(model) is not None


COMPOSITES = "scikit-learn's Pipeline, ColumnTransformer, FeatureUnion and searches (GridSearchCV, …) of these"


# --- the request ------------------------------------------------------------------------------------------------------

# what only some can use -> what others say
REFUSALS = {
    "analogies": "a {} has no vectors of words; leave out analogies.",
    "properties": "properties are those of a torch.nn.Module; leave them out.",
    "X_test": "the claims about a {} take no X_test; see lemmata.trust.evaluate(model, X_test, y_test).",
    "y_test": "the claims about a {} take no y_test; see lemmata.trust.evaluate(model, X_test, y_test).",
}


@dataclass(frozen=True)
class Request:
    """The arguments of `lemmata.certify`."""

    X: Any = None
    y: Any = None
    sample_weight: Any = None
    loss: Any = None
    properties: Any = None
    X_test: Any = None
    y_test: Any = None
    analogies: Any = None
    seconds: float | None = None
    verbose: bool = False

    def need_data(self, model: Any) -> None:
        """Refuse to certify a model without its data."""
        if self.X is None:
            raise TypeError(
                f"certify({type(model).__name__}) lacks its data: pass certify(model, X), X what the model was fitted to."
            )

    def take(self, model: Any, known: Container[str] = ()) -> dict[str, Any]:
        """Return what was given of what only some can use; refuse what this model does not know."""
        given = {name: getattr(self, name) for name in REFUSALS if getattr(self, name) is not None}
        for name in given:
            if name not in known:
                raise ValueError(REFUSALS[name].format(type(model).__name__))
        return given

    def check(
        self,
        name: str,
        claims: Sequence[Statement],
        fit: Fit,
        title: str,
        cost: Callable[[Fit], float],
    ) -> Certificate:
        """Check claims within the time that was given, or a multiple of what the fit cost."""
        work = budget(cost, fit)
        with Checking(name, len(claims)) if self.verbose else nullcontext() as bar:
            found = check(
                claims, fit, title, work=work, seconds=self.seconds, usual=work, progress=bar
            )
        warn_interrupted(found)
        return found


# --- other libraries' fits --------------------------------------------------------------------------------------------
#
# Their attributes in our words, their data checked as ours is, and no solver loaded for it: a class made of the light base that
# our model has, with its name and its flags, stands in for the model, checks the data with the same code and words the same
# messages.


def certify_counterpart(model: Any, request: Request) -> Certificate:
    """Check the claims about our model on another library's fit of it."""
    name = counterpart_of(model)
    entry = COUNTERPARTS[name]
    request.take(model, ("X_test",) if entry.X_test else ())
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)  # scikit-learn cannot ask others; an adapter does
    attributes = adapt(name, model, request.loss)
    if request.X_test is not None:
        attributes["X_test"] = open_data(name, model, request.X_test, attributes=attributes)
    y = request.y
    data = open_data(name, model, request.X, y, request.sample_weight, attributes)
    for used in ("n_features_in_", "feature_names_in_"):
        attributes.pop(used, None)
    claims = attributes.pop("claims", entry.claims)  # an adapter may narrow them
    if isinstance(claims, str):
        claims = registry.resolve(claims)
    if isinstance(data, Blocks) and data.targets is not None:
        y = data.targets
    fit = Fit(model, data, y, data.weights, attributes=attributes)
    (n, d), kind = data.shape, type(model)
    title = f"{kind.__module__.split('.')[0]} {kind.__name__}  {n:,} × {d:,}"
    return request.check(kind.__name__, claims, fit, title, cost_of(name))


def adapt(name: str, model: Any, loss: str | None = None) -> dict[str, Any]:
    """Return what the claims about our model `name` need besides the public attributes of another library's fit.

    "claims" among the keys: those that can be checked on this fit, where they are not those of our model. "n_features_in_": the
    number of columns, where the fit does not say. `loss` is what the user says the fit minimised.
    """
    adapter = COUNTERPARTS[name].adapter
    found = dict(registry.resolve(adapter)(model)) if adapter else {}
    return found if loss is None else {**found, "loss": loss}


def cost_of(name: str) -> Any:
    """Return the function that says what a fit of a model cost."""
    cost = COUNTERPARTS[name].cost
    place = cost if ":" in cost else f"checking:{cost}"
    return registry.resolve(f"core.certification.{place}") if cost else Model.work


# --- data -------------------------------------------------------------------------------------------------------------


@cache
def stand_in(name: str) -> type[Model]:
    """Return a class that checks data as our model of this name does."""
    entry = COUNTERPARTS[name]
    return type(name, (registry.resolve(entry.base),), dict(entry.flags))


def open_data(
    name: str,
    model: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    attributes: dict[str, Any] | None = None,
) -> Any:
    """Return the data of another library's fit, checked as our model `name` checks its own."""
    known, opener = attributes or {}, stand_in(name)()
    if COUNTERPARTS[name].reads:
        X = registry.resolve(COUNTERPARTS[name].reads)(model, X)
    width = known.get("n_features_in_")
    opener.n_features_in_ = getattr(model, "n_features_in_", None) if width is None else width
    names = known.get("feature_names_in_", getattr(model, "feature_names_in_", None))
    if names is not None:
        opener.feature_names_in_ = np.asarray(names, dtype=object)
    if (
        isinstance(model, BaseEstimator)
        and not get_tags(model).input_tags.allow_nan
        and _is_table(X)
    ):
        # ours may take NaN, theirs cannot
        assert_all_finite(X, input_name="X", estimator_name=type(model).__name__)
    if not isinstance(opener, Supervised):
        return opener._validate_rows(X, sample_weight, reset=False)
    if isinstance(opener, Classifier):
        classes = known.get("classes_", getattr(model, "classes_", None))
        opener.classes_ = classes if isinstance(classes, list) else np.asarray(classes)
    if y is None:
        raise ValueError(f"the claims about a {type(model).__name__} need y: certify(model, X, y).")
    return opener._validate_pair(X, y, sample_weight, reset=False)


def _is_table(X: Any) -> bool:
    """Whether X is one dense table, rather than blocks that check themselves."""
    return not (isinstance(X, Blocks) or is_dask(X) or is_stream(X) or hasattr(X, "tocsr"))


# --- whose fits are known ---------------------------------------------------------------------------------------------


def find_counterpart(model: Any) -> str | None:
    """Return the name of our model that makes the same promises; None if there is none."""
    for cls in type(model).__mro__:
        for name, entry in registry.MODELS.items():
            if any(registry.is_named(cls, foreign) for foreign in entry.counterparts):
                return name
    return None


def counterpart_of(model: Any) -> str:
    """Return the name of our model that makes the same promises; TypeError if there is none."""
    name = find_counterpart(model)
    if name is not None:
        return name
    foreign = {each for entry in registry.MODELS.values() for each in entry.counterparts}
    known = [each.rpartition(".")[2] for each in sorted(foreign)]
    near = get_close_matches(type(model).__name__, known, n=1)
    hint = f" Did you mean a fitted {near[0]}?" if near and near[0] != type(model).__name__ else ""
    raise TypeError(
        f"lemmata has no claims about a {type(model).__module__}.{type(model).__name__}.{hint} "
        f"It certifies {describe_accepted()}."
    )


def describe_accepted() -> str:
    """List what `certify` takes."""
    foreign = {each for entry in registry.MODELS.values() for each in entry.counterparts}
    return f"its own models, {', '.join(sorted(foreign))}, and {COMPOSITES}"
