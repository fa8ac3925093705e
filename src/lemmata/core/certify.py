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

from copy import copy
from inspect import signature
from typing import Any

from lemmata import registry
from lemmata.core.certificate import Certificate
from lemmata.core.composite import certify_parts, is_composite
from lemmata.core.estimator import Model
from lemmata.core.foreign import certify_counterpart, describe_accepted, find_counterpart
from lemmata.core.request import Request
from lemmata.counterparts import CERTIFIERS


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
    for kinds, certifier in CERTIFIERS:
        if any(registry.is_named(cls, kind) for cls in type(model).__mro__ for kind in kinds):
            found = registry.resolve(certifier)(model, request)
            if found is not None:
                return found
    request.need_data(model)
    if is_composite(model):
        request.take(model)
        return certify_parts(model, request, _is_known, _certify_one, describe_accepted)
    return _certify_one(model, request)


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
