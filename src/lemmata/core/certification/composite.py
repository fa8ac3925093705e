"""Parts of a model made of models: scikit-learn's pipelines, searches, column transformers and unions.

    Pipeline, search        the last step on what reaches it, the best estimator: they keep their claims' names
    ColumnTransformer, …    every part on its columns, its claims named part__claim

What no claim is about (a scaler, a classifier, a step before the last, scores of a search) is skipped, and the certificate
says so; `require(strict=True)` refuses it. Two claims are about the whole: a step before the last gives rows the same numbers
in other company (or it drifts, or leaks what it was fitted to), and the scores that a search states are those of its folds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.kernel.claims import Fit
from lemmata.audit.trust.composites import COMPOSITE_CLAIMS
from lemmata.core.certificate import Certificate, Claim
from lemmata.core.certification.certify import Request, is_composite
from lemmata.core.certification.checking import describe_versions
from lemmata.core.validation import choose_columns, is_search

SCORES = "its scores are those of folds, which are not fitted again"


@dataclass(frozen=True)
class Part:
    """A model that is not made of others, with the data that reaches it; or why it is skipped."""

    name: str  # "" for the model itself, "numbers" for a part of a ColumnTransformer, "numbers__left" for a part of that
    model: Any
    X: Any = None
    skipped: str = ""
    reached: Any = None  # of a step before the last: what it made of X

    def __str__(self) -> str:
        return f"{self.name} ({type(self.model).__name__}: {self.skipped})"


def certify_parts(
    model: Any,
    request: Request,
    known: Callable[[Any], bool],
    certify_one: Callable[[Any, Request], Certificate],
    describe_accepted: Callable[[], str],
) -> Certificate:
    """Certify every part that there are claims about, each with its share of the time that is left."""
    found = list(unfold(model, request.X, known))
    parts, skipped = ([one for one in found if bool(one.skipped) == left] for left in (False, True))
    if not parts:
        raise TypeError(
            f"lemmata has no claims about what this {type(model).__name__} ends in: {', '.join(map(str, skipped))}. "
            f"It certifies {describe_accepted()}."
        )
    certificates: list[Certificate] = []
    seconds, began = request.seconds, time.perf_counter()
    for at, part in enumerate(parts):
        share = seconds
        if seconds is not None:
            left = seconds - (time.perf_counter() - began)
            share = max(left, 0.0) / (len(parts) - at)
        certificates.append(certify_one(part.model, replace(request, X=part.X, seconds=share)))
        if certificates[-1].interrupted:
            skipped += [replace(rest, skipped="interrupted") for rest in parts[at + 1 :]]
            break
    told = ", ".join(map(str, skipped))
    if parts[0].name:
        whole = _combine(model, parts, certificates, told)
    else:
        whole = replace(certificates[0], skipped=told)
    return replace(whole, claims=(*whole.claims, *_check_whole(model, skipped)))


def _check_whole(model: Any, skipped: list[Part]) -> Iterator[Claim]:
    """Check what is claimed about the steps before the last and about the searches, where there are any."""
    about = {
        "steps_": {one.name: (one.model, one.X, one.reached) for one in skipped if one.reached is not None},
        "searches_": {one.name: one.model for one in skipped if is_search(one.model)},
    }  # fmt: skip
    fit = Fit(model, attributes=about)
    for statement, given in zip(COMPOSITE_CLAIMS, about.values(), strict=True):
        if given:
            yield statement(fit)


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


def unfold(
    model: Any, X: Any, known: Callable[[Any], bool], name: str = "", step: str = ""
) -> Iterator[Part]:
    """The parts of a fitted model, each with its data.

    known : whether there are claims about a model that is not made of others
    step : what the model is called inside of a pipeline, where its claims need no name before theirs
    """
    if is_search(model):
        best = _best(model)
        yield Part(_join(name, step) or "search", model, skipped=SCORES)
        yield from unfold(best, X, known, name, step)
    elif isinstance(model, Pipeline):
        yield from _unfold_pipeline(model, X, known, name)
    elif isinstance(model, ColumnTransformer):
        check_is_fitted(model)
        for part, inner, columns in model.transformers_:
            chosen = None if isinstance(inner, str) else choose_columns(X, columns)
            yield from _unfold_part(_join(name, part), inner, chosen, known)
    elif isinstance(model, FeatureUnion):
        check_is_fitted(model)
        for part, inner in model.transformer_list:
            yield from _unfold_part(_join(name, part), inner, X, known)
    elif known(model):
        yield Part(name, model, X)
    else:
        yield Part(_join(name, step) or "it", model, skipped="no claims about it")


def _unfold_part(name: str, inner: Any, X: Any, known: Callable[[Any], bool]) -> Iterator[Part]:
    if isinstance(inner, str):  # "drop" and "passthrough" promise nothing
        return
    if len(getattr(X, "shape", ())) == 2 and X.shape[1] == 0:
        yield Part(name, inner, skipped="it was given no columns")
    else:
        yield from unfold(inner, X, known, name)


def _unfold_pipeline(
    model: Pipeline, X: Any, known: Callable[[Any], bool], name: str
) -> Iterator[Part]:
    check_is_fitted(model)
    steps = [
        (at, *step) for at, step in enumerate(model.steps) if step[1] not in (None, "passthrough")
    ]
    if not steps:
        yield Part(name or "it", model, skipped="all its steps pass through")
        return
    *before, (_, last_name, final) = steps
    reaching = X
    for at, step, inner in before:
        given, reaching = reaching, inner.transform(reaching)
        skipped = "not the last step"
        if not name and (is_composite(inner) or known(inner)):
            skipped += f"; certify(model[:{at + 1}], X) checks it"
        yield Part(_join(name, step), inner, given, skipped, reaching)
    yield from unfold(final, reaching, known, name, last_name)


def _best(search: Any) -> Any:
    if not search.refit:
        raise ValueError(
            f"this {type(search).__name__} has refit=False, so no model was fitted to all of X; "
            "fit the one you want with best_params_ and certify that."
        )
    check_is_fitted(search)
    return search.best_estimator_


def _join(name: str, part: str) -> str:
    return "__".join(filter(None, (name, part)))
