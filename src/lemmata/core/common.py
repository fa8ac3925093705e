"""Parameters that many models have. A model passes its own default, and its own meaning by `.doc`."""

from __future__ import annotations

import os
from numbers import Integral
from typing import Any

from lemmata.core.parameters import COUNT, NONNEGATIVE, POSITIVE, choice, parameter


def max_iter(default: int = 100) -> Any:
    return parameter(default, COUNT).doc("The most steps.")


def tol(default: float) -> Any:
    return parameter(default, NONNEGATIVE)


def random_state(before: str | None = None) -> Any:
    declared = parameter(None, "random_state", before=before)
    return declared.doc("The seed of everything that is drawn.")


def verbose(default: int | bool = 0) -> Any:
    return parameter(default, "verbose").doc("Show progress on the terminal.")


def checkpoint() -> Any:
    declared = parameter(None, str, os.PathLike, None)
    return declared.doc("File to write to while fitting, and to resume from, bit for bit.")


def time_limit() -> Any:
    return parameter(None, POSITIVE, None).doc("Seconds after which the fit ends with what it has.")


def fit_intercept() -> Any:
    return parameter(True, "boolean").doc("Whether there is an intercept, which bears no penalty.")


def copy_X(before: str | None = None) -> Any:
    return parameter(True, "boolean", before=before).doc("Has no effect: X is never written to.")


def n_jobs() -> Any:
    declared = parameter(None, Integral, None)
    return declared.doc("Has no effect: LEMMATA_THREADS says how many threads work.")


def warm_start() -> Any:
    return parameter(False, "boolean").doc("Begin at the result of the last fit.")


def class_weight(before: str | None = None) -> Any:
    declared = parameter(None, dict, choice("balanced"), None, before=before)
    return declared.doc(
        'A factor for the rows of each class; "balanced" is n/(k · rows of the class).'
    )


# of models that write their `__init__` by hand
CONSTRAINTS = {
    name: list(one.accepts)
    for name, one in {
        "max_iter": max_iter(),
        "tol": tol(0.0),
        "random_state": random_state(),
        "verbose": verbose(),
        "checkpoint": checkpoint(),
        "time_limit": time_limit(),
    }.items()
}
