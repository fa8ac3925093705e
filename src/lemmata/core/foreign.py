"""Certify fits of other libraries: their attributes in our words, their data checked as ours is, and no solver loaded for it.

A class made of the light base that our model has, with its name and its flags, stands in for the model: it checks the data with
the same code, and words the same messages.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.validation import check_is_fitted

from lemmata import registry
from lemmata.core.blocks import Blocks, is_dask, is_stream
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.composite import COMPOSITES
from lemmata.core.estimator import Model
from lemmata.core.request import Request
from lemmata.core.supervised import Classifier, Supervised
from lemmata.counterparts import COUNTERPARTS


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
    claims = attributes.pop("claims", None)  # an adapter may narrow them
    if claims is None:
        claims = registry.resolve(entry.claims)
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
    return registry.resolve(f"fit_costs:{cost}") if cost else Model.work


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
        return opener._validated(X, sample_weight, reset=False)
    if isinstance(opener, Classifier):
        classes = known.get("classes_", getattr(model, "classes_", None))
        opener.classes_ = classes if isinstance(classes, list) else np.asarray(classes)
    if y is None:
        raise ValueError(f"the claims about a {type(model).__name__} need y: certify(model, X, y).")
    return opener._validated_pair(X, y, sample_weight, reset=False)


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
