"""Advice as commands: the recommendations of a certificate as command lines.

    → Lloyd's iteration was stopped early: raise max_iter, or lower tol
    $ lemmata fit KMeans flowers.csv --set max_iter=3000 --set tol=1e-05

A claim gives its advice in the names of parameters, for people who write Python. Here those parameters are looked for, moved
by a step in the direction that is named, and put into the command that was given. It is a first try, not a promise.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

# options of `fit` that say nothing about how the data is read, with a value and without
WITH_VALUE = ("--set", "-s", "--save", "--report", "--seconds")
ALONE = ("--require", "--json")
# factors; other numbers are doubled or halved
STEPS = {"max_iter": 10.0, "tol": 0.1, "n_init": 4.0}
TOGETHER = {"tol", "max_iter"}  # a smaller tol wants more steps
MOVES = r"\b(raise|lower) (\w+)(?: to ([\d.e+-]*\d))?"
FIT_ONLY = {"checkpoint", "verbose", "time_limit", "random_state"}


def commands_in(certificate: Any, model: Any, words: Sequence[str], saved: str | None) -> list[str]:
    """The commands that follow the advice of a certificate.

    words : the command line of the fit, without `lemmata`
    saved : the file of the model, if it was saved
    """
    found: dict[str, str] = {}
    for item in certificate:
        if item.verdict == "fails" and item.advice:
            for name, value in changes_in(item.advice, model).items():
                found.setdefault(name, value)
    # a fit that has not converged needs more steps before anything else
    found = {name: found[name] for name in found if name in TOGETHER} or found
    commands = [_refit_command(words, found)] if found else []
    return commands + _check_command(certificate, words, saved)


def without_python(certificate: Any) -> Any:
    """The certificate with commands and options in place of Python's `certify(X)` and `train=`."""
    claims = tuple(
        replace(
            item,
            note="run lemmata certify"
            if _seconds_in(item) is not None
            else item.note.replace("train=X_train", "--train FILE"),
        )
        for item in certificate
    )
    return replace(certificate, claims=claims)


def changes_in(advice: str, model: Any) -> dict[str, str]:
    """The parameters that advice names, with values to try; only its first proposal counts."""
    known = set(model.get_params(deep=False)) - FIT_ONLY
    advice = advice.replace("fewer components", "lower n_components").replace("the rank", "rank")
    found: dict[str, str] = {}
    for proposal in re.split(r"[;:(]|,? or |, ", advice):
        if found and not (set(found) <= TOGETHER and any(name in proposal for name in TOGETHER)):
            break
        for name, value in re.findall(r"\b(\w+)\s?=\s?('[^']*'|[\w.+-]*\w)", proposal):
            if name in known:
                found[name] = value.strip("'")
        for verb, name, target in re.findall(MOVES, proposal):
            value = target or _move(name, verb, model)
            if name in known and value:
                found.setdefault(name, value)
    return found


def _move(name: str, verb: str, model: Any) -> str:
    """The value of a parameter one step up or down; "" if it is no number."""
    candidates = (getattr(model, name, None), getattr(model, f"{name}_", None))
    value = next((v for v in candidates if isinstance(v, Real) and not isinstance(v, bool)), None)
    if value is None:
        return "10" if name == "n_init" else ""
    factor = STEPS.get(name, 2.0 if verb == "raise" else 0.5)
    if isinstance(value, Integral):
        counts = name.startswith("n_") and verb == "lower"
        return str(max(int(value) - 1 if counts else int(factor * int(value)), 1))
    return f"{factor * float(value):.3g}" if value else ""


def _refit_command(words: Sequence[str], changes: dict[str, str]) -> str:
    """The command with changed settings."""
    kept, skip = [], False
    for i, word in enumerate(words):
        if skip:
            skip = False
            continue
        following = words[i + 1] if i + 1 < len(words) else ""
        setting = following if word in ("--set", "-s") else word.partition("--set=")[2]
        if setting.partition("=")[0].strip() in changes:
            skip = word in ("--set", "-s")
            continue
        kept.append(word)
    added = [part for name, value in changes.items() for part in ("--set", f"{name}={value}")]
    return f"lemmata {shlex.join([*kept, *added])}"


def _check_command(certificate: Any, words: Sequence[str], saved: str | None) -> list[str]:
    """The command that checks the claims that were not checked yet."""
    waiting = [seconds for item in certificate if (seconds := _seconds_in(item)) is not None]
    if not waiting:
        return []
    reading = _data_options(words)
    most = max(waiting, key=int)
    budget = ["--seconds", most] if most != "0" else []
    check = f"lemmata certify {shlex.join([saved or 'model.lemma', *reading, *budget])}"
    first = "" if saved else f"lemmata {shlex.join([*words, '--save', 'model.lemma'])} && "
    return [first + check]


def _data_options(words: Sequence[str]) -> list[str]:
    """The data and the options for reading it, without `fit MODEL` or `certify FILE` and other options."""
    kept, skip = [], False
    for word in words[2:]:
        if skip:
            skip = False
            continue
        skip = word in WITH_VALUE
        if word.partition("=")[0] not in (*WITH_VALUE, *ALONE):
            kept.append(word)
    return kept


def fit_command(model: Any, words: Sequence[str]) -> list[str]:
    """The command that would fit a model like this one to the data of `words`, a `certify FILE DATA`."""
    usual = type(model)().get_params(deep=False)
    settings = [
        f"--set={name}={value}"
        for name, value in model.get_params(deep=False).items()
        if isinstance(value, (str, int, float)) and value != usual[name]
    ]
    return ["fit", type(model).__name__, *_data_options(words), *settings]


def _seconds_in(item: Any) -> str | None:
    """The budget in the call that a claim put off names, "0" for the usual one; None if it names no call."""
    if item.verdict != "not checked":
        return None
    found = re.fullmatch(
        r"run certify\((?:model, )?X(?:, y)?(?:, seconds=(\d+))?\) for it", item.note
    )
    return (found[1] or "0") if found else None
