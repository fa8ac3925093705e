"""Searches for witnesses: who looks for what a claim asks for by `fit.witness(name, …)`.

A search is a function of a Fit in `<package>/witness.py`, outside of the trusted base, with the fastest solver we have. What it
returns is checked by the claim that asked and never believed. `lemmata.config(searches=False)` switches all of them off: a
claim that needs one then says *can't tell* at worst, and certifying another library's fit loads no solver of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from lemmata import registry
from lemmata.core.config import searches_allowed


def find_search(name: str) -> Callable[..., Any] | None:
    """Return the search of this name, imported now; None where searches are switched off."""
    if not searches_allowed():
        return None
    return getattr(import_module(registry.WITNESSES[name]), name)
