"""certify(model, X): check the claims about any fit, ours or another library's.

>>> from sklearn.datasets import load_digits
>>> from sklearn.decomposition import PCA
>>> import lemmata
>>> X = load_digits().data
>>> lemmata.certify(PCA(10).fit(X), X).failed
[]
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.validation import check_is_fitted

from lemmata import registry
from lemmata.core.blocks import Blocks, is_dask, is_stream
from lemmata.core.certificate import Certificate, Fit, budget, check
from lemmata.core.estimator import Model


def certify(
    model: Any, X: Any, y: Any = None, sample_weight: Any = None, *, seconds: float | None = None
) -> Certificate:
    """Check every claim about a fitted model on the data it was fitted to.

    Parameters
    ----------
    model : a fitted lemmata model, or the counterpart of one in another library (scikit-learn's PCA, …)
    X, y, sample_weight : the training data
    seconds : how long that may take; by default five times the work of the fit, or about half a second
    """
    if isinstance(model, Model):
        return model.certify(X, y, sample_weight, seconds=seconds)
    ours = registry.model_class(counterpart_of(model))
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)  # scikit-learn cannot ask others; an adapter does
    attributes = dict(ours.foreign_attributes(model))
    door = ours()
    door.n_features_in_ = attributes.pop("n_features_in_", getattr(model, "n_features_in_", None))
    if hasattr(model, "feature_names_in_"):
        door.feature_names_in_ = model.feature_names_in_
    if (
        isinstance(model, BaseEstimator)
        and not get_tags(model).input_tags.allow_nan
        and _is_table(X)
    ):
        # ours may take NaN, theirs cannot
        assert_all_finite(X, input_name="X", estimator_name=type(model).__name__)
    data = door._validated(X, sample_weight, reset=False)
    # an adapter may narrow them to what this fit can promise
    claims = attributes.pop("claims", ours.claims)
    fit = Fit(model, data, y, data.weights, attributes=attributes)
    title = f"{type(model).__module__.split('.')[0]} {type(model).__name__}  {data.shape[0]:,} × {data.shape[1]:,}"
    work = budget(ours.work, fit)
    return check(claims, fit, title, work=work, seconds=seconds)


def _is_table(X: Any) -> bool:
    """Whether X is one dense table, rather than blocks that check themselves."""
    return not (isinstance(X, Blocks) or is_dask(X) or is_stream(X) or hasattr(X, "tocsr"))


def counterpart_of(model: Any) -> str:
    """The name of our model that makes the same promises as another library's estimator."""
    for cls in type(model).__mro__:
        for name, entry in registry.MODELS.items():
            for foreign in entry.counterparts:
                package, _, class_name = foreign.rpartition(".")
                if cls.__name__ == class_name and (cls.__module__ + ".").startswith(package + "."):
                    return name
    known = sorted(
        {foreign for entry in registry.MODELS.values() for foreign in entry.counterparts}
    )
    near = get_close_matches(type(model).__name__, [name.rpartition(".")[2] for name in known], n=1)
    hint = f" Did you mean a fitted {near[0]}?" if near and near[0] != type(model).__name__ else ""
    raise TypeError(
        f"lemmata has no claims about a {type(model).__module__}.{type(model).__name__}.{hint} "
        f"It certifies its own models and {', '.join(known)}."
    )
