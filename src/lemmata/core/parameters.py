"""Parameters of a model: the common ones, a quick check of all, and what was meant by a name that does not exist.

>>> import lemmata
>>> lemmata.PCA(n_component=2)
Traceback (most recent call last):
TypeError: PCA has no parameter 'n_component'; did you mean 'n_components'?
"""

from __future__ import annotations

import os
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache, lru_cache, wraps
from inspect import signature
from numbers import Integral, Real
from typing import Any

from lemmata.core.borrowed import Interval, make_constraint

COMMON: dict[str, list] = {
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left")],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
    "checkpoint": [str, os.PathLike, None],
    "time_limit": [Interval(Real, 0, None, closed="neither"), None],
}


@cache
def _rules(cls: Any) -> dict[str, tuple[Any, ...]]:
    """What each parameter of a class accepts. scikit-learn makes these objects again for every fit."""
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
        return _remembered(cls, values, tuple(map(type, values)))  # type: ignore[arg-type]
    except TypeError:  # an array, or another value that cannot be looked up
        return _all_satisfied(cls, values)


def _all_satisfied(cls: Any, values: tuple[Any, ...]) -> bool:
    return all(
        any(_satisfies(value, rule) for rule in rules)
        for value, rules in zip(values, _rules(cls).values(), strict=True)
    )


@lru_cache(maxsize=256)
def _remembered(cls: Any, values: tuple[Any, ...], types: tuple[type, ...]) -> bool:
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
            raise ValueError(
                f"{type(model).__name__}: {name}={value} is a truth value; pass a number."
            )


def name_unknown_parameters(init: Callable) -> Callable:
    """An `__init__` that answers an unknown keyword with the nearest that it has."""
    found = signature(init).parameters
    names = [n for n, one in found.items() if n != "self" and one.kind is not one.VAR_KEYWORD]
    open_ended = any(one.kind is one.VAR_KEYWORD for one in found.values())

    @wraps(init)
    def checked(self, *args, **kwargs):
        for name in kwargs:
            # net__width: of a part that is named, by whoever takes such keywords
            if name not in names and not (open_ended and name.partition("__")[0] in names):
                raise TypeError(
                    f"{type(self).__name__} has no parameter {name!r}; {_meant(name, names)}"
                )
        init(self, *args, **kwargs)

    if open_ended:  # scikit-learn takes every name in a signature for a parameter
        shown = [one for one in found.values() if one.kind is not one.VAR_KEYWORD]
        checked.__signature__ = signature(init).replace(parameters=shown)  # type: ignore[attr-defined]
    return checked


def _meant(name: str, names: list[str]) -> str:
    near = get_close_matches(name, names, n=2, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"it has {', '.join(names)}."
