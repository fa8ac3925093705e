"""Parameters of models, each declared once: default, accepted values, meaning.

    class KMeans(Model):
        n_clusters: int = parameter(8, COUNT).doc("k, the number of clusters.")
        _: KW_ONLY
        init: Any = parameter("k-means++", choice(*SEEDINGS), callable, "array-like").doc("Where the centres start.")
        max_iter: int = common.max_iter(300).doc("Lloyd steps per start.")

`__init__` and its signature, the checks before every fit, the Parameters section of the docstring and `lemmata models KMeans`
follow from these lines, in their order. A subclass has the parameters of its base and then its own: one that is declared again
keeps its place, and its meaning unless it has another; `before="name"` puts it elsewhere, and a class attribute of the same
name removes it.

>>> import lemmata
>>> lemmata.PCA(n_component=2)
Traceback (most recent call last):
TypeError: PCA has no parameter 'n_component'; did you mean 'n_components'?
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY as KW_ONLY
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, lru_cache, wraps
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from lemmata.core.validation import Interval, StrOptions, make_constraint

COUNT = Interval(Integral, 1, None, closed="left")
WHOLE = Interval(Integral, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
NONNEGATIVE = Interval(Real, 0, None, closed="left")
FRACTION = Interval(Real, 0, 1, closed="neither")
SHARE = Interval(Real, 0, 1, closed="both")
ANYTHING = "no_validation"


def choice(*words: str) -> StrOptions:
    """One of these strings."""
    return StrOptions(set(words))


# --- declaring --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """A parameter as the body of a class declares it."""

    default: Any
    accepts: tuple[Any, ...]
    meaning: str = ""
    place: str | None = None
    keyword: bool = False

    def doc(self, meaning: str) -> Any:
        """The same parameter with this meaning."""
        return replace(self, meaning=inspect.cleandoc(meaning))


def parameter(default: Any, *accepts: Any, before: str | None = None) -> Any:
    """A parameter of a model: its default and what it accepts, in scikit-learn's words or those of this module.

    before : the inherited parameter that it stands before in the signature
    """
    return Parameter(default, accepts, place=before)


def as_in(cls: Any, name: str, *default: Any) -> Any:
    """The parameter of another model, with its meaning; and another default, if one is given."""
    one = cls.declared_parameters[name]
    return replace(one, default=default[0]) if default else one


class Fitted:
    """Stands in the body of a class for an attribute that `fit` sets."""


def fitted(*, init: Literal[False] = False) -> Any:
    """An attribute that `fit` sets: declares its type and is no parameter."""
    return Fitted()


class FitAttributes:
    """Says of an attribute that only a fit sets, and that is not there, what to call first."""

    fit_call: ClassVar[str] = "fit(X)"

    if not TYPE_CHECKING:  # a type checker would believe that every attribute exists

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property, or a method that is not available
                return object.__getattribute__(self, name)
            known, cls = name != "n_features_in_" and hasattr(self, "n_features_in_"), type(self)
            if known or not name.endswith("_") or name.startswith("_"):
                raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")
            raise AttributeError(
                f"this {cls.__name__} is not fitted yet and has no {name}: call {cls.fit_call} first."
            )


def declare(cls: Any, inherit: bool = True) -> None:
    """Replace the parameters in the body of a class by `__init__`, `_parameter_constraints` and a section of the docstring."""
    own, keyword = {}, False
    for name in inspect.get_annotations(cls):
        found = vars(cls).get(name)
        keyword |= name == "_"  # the line `_: KW_ONLY`
        if isinstance(found, Parameter):
            own[name] = replace(found, keyword=keyword)
        if isinstance(found, Parameter | Fitted):
            delattr(cls, name)
    if "__init__" in vars(cls):  # written by hand, as scikit-learn's models do
        cls.__init__ = name_unknown_parameters(cls.__init__)
        return
    before = cls.declared_parameters
    kept = {name: one for name, one in before.items() if inherit and name not in vars(cls)}
    if own or len(kept) < len(before):
        cls.declared_parameters = table = _arrange(own, kept)
        cls._parameter_constraints = {
            name: ANYTHING if ANYTHING in one.accepts else list(one.accepts)
            for name, one in table.items()
        }
        cls.__init__ = _make_init(cls, table)
    if vars(cls).get("__doc__") and cls.declared_parameters:
        cls.__doc__ = document(cls.__doc__, cls.declared_parameters)


def _arrange(
    own: Mapping[str, Parameter], inherited: Mapping[str, Parameter]
) -> dict[str, Parameter]:
    names, table = list(inherited), dict(inherited)
    for name, one in own.items():
        meaning = one.meaning or (inherited[name].meaning if name in inherited else "")
        table[name] = replace(one, meaning=meaning)
        if one.place is not None:
            names = [other for other in names if other != name]
            names.insert(names.index(one.place), name)
        elif name not in names:
            names.append(name)
    return {name: table[name] for name in names}


def _make_init(cls: Any, table: Mapping[str, Parameter]) -> Callable:
    defaults = {name: one.default for name, one in table.items()}
    positional = [name for name, one in table.items() if not one.keyword]

    def __init__(self, *values, **named):
        if len(values) > len(positional):
            raise TypeError(
                f"{type(self).__name__}() takes {len(positional)} positional arguments but {len(values)} were given"
            )
        given = dict(zip(positional, values, strict=False))
        for name in named:
            # net__width is a parameter of a part that is a parameter itself
            if name not in defaults and not _is_of_part(self, name, defaults):
                refuse_unknown(self, name, list(defaults))
            if name in given:
                raise TypeError(
                    f"{type(self).__name__}() got multiple values for argument {name!r}"
                )
        for name, value in {**defaults, **given, **named}.items():
            setattr(self, name, value)

    kinds = {False: inspect.Parameter.POSITIONAL_OR_KEYWORD, True: inspect.Parameter.KEYWORD_ONLY}
    shown = [
        inspect.Parameter(name, kinds[one.keyword], default=one.default)
        for name, one in sorted(table.items(), key=lambda item: item[1].keyword)
    ]
    me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = inspect.Signature([me, *shown])  # type: ignore[attr-defined]
    __init__.__qualname__, __init__.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return __init__


def _is_of_part(model: Any, name: str, names: Mapping[str, Any]) -> bool:
    part, found, _ = name.partition("__")
    return bool(found) and part in names and part in model.parts


# --- describing -------------------------------------------------------------------------------------------------------

SECTION = re.compile(r"^(\w+)\n-{3,}$", re.M)


def document(text: str, table: Mapping[str, Parameter]) -> str:
    """A docstring with the section Parameters before its other sections."""
    text = inspect.cleandoc(text)
    first = SECTION.search(text)
    if first and first[1] == "Parameters":  # written by hand
        return text
    section = "\n".join(["Parameters", "----------", *map(_describe, table, table.values())])
    at = first.start() if first else len(text)
    return (
        "\n\n".join(part for part in (text[:at].rstrip(), section, text[at:].rstrip()) if part)
        + "\n"
    )


def _describe(name: str, one: Parameter) -> str:
    lines = "".join(f"\n    {line}" for line in one.meaning.splitlines())
    default = f'"{one.default}"' if isinstance(one.default, str) else repr(one.default)
    return f"{name} : {describe_rules(one.accepts)}, default={default}{lines}"


WORDS = {"boolean": "bool", "random_state": "int, RandomState or None", "verbose": "int or bool",
         "cv_object": "int, splitter, iterable or None", ANYTHING: "any"}  # fmt: skip


def describe_rules(accepts: tuple[Any, ...]) -> str:
    """Accepted values in a few words: `int >= 1, "auto" or None`."""
    words = [_describe_rule(rule) for rule in accepts]
    return " or ".join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])


def _describe_rule(rule: Any) -> str:
    if isinstance(rule, StrOptions):
        words = ", ".join(f'"{word}"' for word in sorted(rule.options))
        return f"{{{words}}}" if len(rule.options) > 1 else words
    if isinstance(rule, Interval):
        return _describe_interval(rule)
    if isinstance(rule, type):
        return {"PathLike": "path", "Integral": "int", "Real": "float"}.get(
            rule.__name__, rule.__name__
        )
    return "callable" if rule is callable else WORDS.get(rule, str(rule))


def _describe_interval(rule: Any) -> str:
    kind = "int" if rule.type is Integral else "float"
    if rule.left is None and rule.right is None:
        return kind
    if rule.right is None:
        return f"{kind} {'>=' if rule.closed in ('left', 'both') else '>'} {rule.left:g}"
    if rule.left is None:
        return f"{kind} {'<=' if rule.closed in ('right', 'both') else '<'} {rule.right:g}"
    left, right = (
        "[" if rule.closed in ("left", "both") else "(",
        "]" if rule.closed in ("right", "both") else ")",
    )
    return f"{kind} in {left}{rule.left:g}, {rule.right:g}{right}"


# --- checking ---------------------------------------------------------------------------------------------------------


@cache
def _rules(cls: Any) -> dict[str, tuple[Any, ...]]:
    """The values that each parameter of a class accepts. scikit-learn makes these objects again for every fit."""
    accepted, names = cls._parameter_constraints, cls._get_param_names()
    return {
        name: tuple(make_constraint(one) for one in accepted[name])
        for name in names
        if isinstance(accepted.get(name), list)
    }


def are_accepted(model: Any) -> bool:
    """Whether every parameter satisfies one of its constraints; scikit-learn's own check says what is wrong if not."""
    cls = type(model)
    values = tuple(getattr(model, name) for name in _rules(cls))  # type: ignore[arg-type]
    try:
        # 1, 1.0 and True are equal, but not alike
        return _check_once(cls, values, tuple(map(type, values)))  # type: ignore[arg-type]
    except TypeError:  # an array, or another value that cannot be looked up
        return _all_satisfied(cls, values)


def _all_satisfied(cls: Any, values: tuple[Any, ...]) -> bool:
    return all(
        any(_satisfies(value, rule) for rule in rules)
        for value, rules in zip(values, _rules(cls).values(), strict=True)
    )


@lru_cache(maxsize=256)
def _check_once(cls: Any, values: tuple[Any, ...], types: tuple[type, ...]) -> bool:
    """The same parameters come again: of a grid search, of folds, of a hot loop."""
    return _all_satisfied(cls, values)


def _satisfies(value: Any, rule: Any) -> bool:
    """Python counts True as 1; as a number of anything it is a slip."""
    return rule.is_satisfied_by(value) and not (
        isinstance(value, bool) and isinstance(rule, Interval)
    )


def refuse_truth_values(model: Any) -> None:
    """Raise for the first parameter that is True or False where a number is meant."""
    for name, rules in _rules(type(model)).items():  # type: ignore[arg-type]
        value = getattr(model, name)
        if isinstance(value, bool) and not any(_satisfies(value, rule) for rule in rules):
            raise ValueError(f"{type(model).__name__}: {name}={value} is a bool; pass a number.")


# --- names that do not exist ------------------------------------------------------------------------------------------


def name_unknown_parameters(init: Callable) -> Callable:
    """An `__init__` written by hand that answers an unknown keyword with the nearest that it has."""
    found = inspect.signature(init).parameters
    names = [name for name in found if name != "self"]
    if any(one.kind is one.VAR_KEYWORD for one in found.values()):
        return init

    @wraps(init)
    def initialise(self, *args, **kwargs):
        for name in kwargs:
            if name not in names:
                refuse_unknown(self, name, names)
        init(self, *args, **kwargs)

    return initialise


def refuse_unknown(model: Any, name: str, names: list[str]) -> None:
    near = get_close_matches(name, names, n=2, cutoff=0.6)
    hint = (
        f"did you mean {' or '.join(map(repr, near))}?" if near else f"it has {', '.join(names)}."
    )
    raise TypeError(f"{type(model).__name__} has no parameter {name!r}; {hint}")
