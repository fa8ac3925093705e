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

import sys
import time
from copy import copy
from dataclasses import replace
from difflib import get_close_matches
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.validation import check_is_fitted

from lemmata import registry
from lemmata.audit.foreign import adapt
from lemmata.core.blocks import Blocks, is_dask, is_stream
from lemmata.core.certificate import Certificate, Fit, budget, check
from lemmata.core.composite import COMPOSITES, Part, is_composite, unfold
from lemmata.core.estimator import Model, warn_interrupted
from lemmata.core.progress import Checking
from lemmata.core.provenance import describe_versions
from lemmata.core.supervised import Classifier, Supervised


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
    if _may_be_words(model):
        from lemmata.embedding.vectors.certifying import certify_words

        of_words = certify_words(model, X, analogies=analogies, seconds=seconds, verbose=verbose)
        if of_words is not None:
            return of_words
    if X is None:
        raise TypeError(
            f"certify({type(model).__name__}) lacks its data: pass certify(model, X), X what the model was fitted to."
        )
    if analogies is not None:
        return _certify_on_analogies(model, X, analogies, seconds)
    if _is_network(model):
        from lemmata.nets.certifying import certify_module

        if sample_weight is not None:
            raise ValueError("claims about a module take no sample_weight; weigh inside of loss.")
        return certify_module(
            model, X, y, loss, properties=properties, X_test=X_test, y_test=y_test,
            seconds=seconds, verbose=verbose,
        )  # fmt: skip
    if properties is not None:
        raise ValueError("properties are those of a torch.nn.Module; leave them out.")
    if X_test is not None or y_test is not None:
        return _certify_on_test(model, X, y, sample_weight, X_test, y_test, seconds)
    if not is_composite(model):
        return _certify_one(model, X, y, sample_weight, loss, seconds, verbose)
    found = list(unfold(model, X, _is_known))
    parts, skipped = (
        [part for part in found if bool(part.skipped) == left] for left in (False, True)
    )
    if not parts:
        raise TypeError(
            f"lemmata has no claims about what this {type(model).__name__} ends in: {', '.join(map(str, skipped))}. "
            f"It certifies {_accepted()}."
        )
    certificates = []
    end = None if seconds is None else time.perf_counter() + seconds
    for at, part in enumerate(parts):
        share = None if end is None else max(end - time.perf_counter(), 0.0) / (len(parts) - at)
        certificates.append(
            _certify_one(part.model, part.X, y, sample_weight, loss, share, verbose)
        )
        if certificates[-1].interrupted:
            skipped += [replace(rest, skipped="interrupted") for rest in parts[at + 1 :]]
            break
    told = ", ".join(map(str, skipped))
    if not parts[0].name:
        return replace(certificates[0], skipped=told)
    return _combine(model, parts, certificates, told)


def _may_be_words(model: Any) -> bool:
    """Whether a look at this as vectors of words is worth importing them."""
    ours = type(model).__name__ == "WordVectors"
    return ours or isinstance(model, (tuple, dict)) or type(model).__module__.startswith("gensim.")


def _certify_on_analogies(model: Any, X: Any, analogies: Any, seconds: float | None) -> Certificate:
    if not isinstance(model, Model) or "analogies" not in signature(model.certify).parameters:
        raise ValueError(f"a {type(model).__name__} has no vectors of words; leave out analogies.")
    own: Any = model
    return own.certify(X, analogies=analogies, seconds=seconds)


def _is_network(model: Any) -> bool:
    torch = sys.modules.get("torch")  # where it was not imported, nobody has a module
    return torch is not None and isinstance(model, torch.nn.Module)


def _certify_on_test(
    model: Any, X: Any, y: Any, sample_weight: Any, X_test: Any, y_test: Any, seconds: float | None
) -> Certificate:
    """Of models that say something about rows held out."""
    name = None if isinstance(model, Model) else _counterpart(model)
    ours = None if name is None else registry.model_class(name)
    if ours is not None and y_test is None and "X_test" in signature(ours.certify).parameters:
        return _certify_one(model, X, y, sample_weight, None, seconds, False, X_test)
    if not isinstance(model, Model) or "X_test" not in signature(model.certify).parameters:
        raise ValueError(
            f"the claims about a {type(model).__name__} take no X_test; see lemmata.trust.evaluate(model, X_test, y_test)."
        )
    test = {"X_test": X_test} if y_test is None else {"X_test": X_test, "y_test": y_test}
    own: Any = model
    return own.certify(X, y, sample_weight, **test, seconds=seconds)


def _combine(
    model: Any, parts: list[Part], certificates: list[Certificate], skipped: str
) -> Certificate:
    """One certificate of several parts; each claim is called part__claim, so that `require` can name it."""
    pairs = list(zip(parts, certificates, strict=False))
    claims = tuple(
        replace(item, name=f"{part.name}__{item.name}") for part, found in pairs for item in found
    )
    texts = {
        field: "; ".join(f"{part.name}: {text}" for part, found in pairs if (text := getattr(found, field)))
        for field in ("title", "stopped", "data")
    }  # fmt: skip
    return Certificate(
        f"{type(model).__name__}  {texts['title']}", claims, texts["stopped"], texts["data"], describe_versions(), skipped,
        certificates[0].trace if len(certificates) == 1 else None,
    )  # fmt: skip


def _certify_one(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    loss: str | None,
    seconds: float | None,
    verbose: bool,
    X_test: Any = None,
) -> Certificate:
    """The certificate of a model that is not made of others."""
    if isinstance(model, Model):
        if verbose and not model.verbose:
            model = copy(model)
            model.verbose = 1
        return model.certify(X, y, sample_weight, seconds=seconds)
    name = counterpart_of(model)
    ours = registry.model_class(name)
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)  # scikit-learn cannot ask others; an adapter does
    attributes = dict(adapt(name, model, loss))
    reads = attributes.pop("reads", lambda X: X)  # data in the library's own form
    test = None if X_test is None else _open(model, ours, reads(X_test), None, None, attributes)
    data = _open(model, ours, reads(X), y, sample_weight, attributes)
    for used in ("n_features_in_", "feature_names_in_"):
        attributes.pop(used, None)
    if test is not None:
        attributes["X_test"] = test
    # an adapter may narrow them to what this fit can promise
    claims = attributes.pop("claims", ours.claims)
    if isinstance(data, Blocks) and data.targets is not None:
        y = data.targets
    fit = Fit(model, data, y, data.weights, attributes=attributes)
    title = f"{type(model).__module__.split('.')[0]} {type(model).__name__}  {data.shape[0]:,} × {data.shape[1]:,}"
    work = budget(ours.work, fit)
    with Checking(type(model).__name__, len(claims), show=None if verbose else False) as bar:
        found = check(claims, fit, title, work=work, seconds=seconds, usual=work, progress=bar)
    warn_interrupted(found)
    return found


def _open(
    model: Any, ours: type[Model], X: Any, y: Any, sample_weight: Any, attributes: dict[str, Any]
) -> Any:
    """The data of another library's fit, through the door of our counterpart."""
    door = ours()
    width = attributes.get("n_features_in_")
    door.n_features_in_ = getattr(model, "n_features_in_", None) if width is None else width
    names = attributes.get("feature_names_in_", getattr(model, "feature_names_in_", None))
    if names is not None:
        door.feature_names_in_ = np.asarray(names, dtype=object)
    if (
        isinstance(model, BaseEstimator)
        and _is_table(X)
        and not get_tags(model).input_tags.allow_nan
    ):
        # ours may take NaN, theirs cannot
        assert_all_finite(X, input_name="X", estimator_name=type(model).__name__)
    if not isinstance(door, Supervised):
        return door._validated(X, sample_weight, reset=False)
    if isinstance(door, Classifier):
        classes = attributes.get("classes_", getattr(model, "classes_", None))
        door.classes_ = classes if isinstance(classes, list) else np.asarray(classes)
    if y is None:
        raise ValueError(f"the claims about a {type(model).__name__} need y: certify(model, X, y).")
    return door._validated_pair(X, y, sample_weight, reset=False)


def _is_table(X: Any) -> bool:
    """Whether X is one dense table, rather than blocks that check themselves."""
    return not (isinstance(X, Blocks) or is_dask(X) or is_stream(X) or hasattr(X, "tocsr"))


# --- whose fits are known ---------------------------------------------------------------------------------------------


def _counterpart(model: Any) -> str | None:
    for cls in type(model).__mro__:
        for name, entry in registry.MODELS.items():
            for foreign in entry.counterparts:
                package, _, class_name = foreign.rpartition(".")
                if cls.__name__ == class_name and (cls.__module__ + ".").startswith(package + "."):
                    return name
    return None


def _is_known(model: Any) -> bool:
    return isinstance(model, Model) or _counterpart(model) is not None


def _foreign() -> list[str]:
    return sorted({foreign for entry in registry.MODELS.values() for foreign in entry.counterparts})


def _accepted() -> str:
    return f"its own models, {', '.join(_foreign())}, and {COMPOSITES}"


def counterpart_of(model: Any) -> str:
    """The name of our model that makes the same promises as another library's estimator."""
    name = _counterpart(model)
    if name is not None:
        return name
    known = [foreign.rpartition(".")[2] for foreign in _foreign()]
    near = get_close_matches(type(model).__name__, known, n=1)
    hint = f" Did you mean a fitted {near[0]}?" if near and near[0] != type(model).__name__ else ""
    raise TypeError(
        f"lemmata has no claims about a {type(model).__module__}.{type(model).__name__}.{hint} "
        f"It certifies {_accepted()}."
    )
