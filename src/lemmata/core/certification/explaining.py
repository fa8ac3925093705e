"""What there is to know about a claim besides a fit: its theorem, the advice that it can give, how often it was wrong.

The counts come from planted problems with a known answer (truth/); `planted.csv` holds their sums, written by `./run docs`.
"""

from __future__ import annotations

import ast
import csv
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from lemmata.audit.kernel.claims import Statement

COUNTS = Path(__file__).with_name("planted.csv")
DEPTH = 2  # functions of audit/ that a check calls, and those that these call
KERNEL = "lemmata.audit.kernel"  # gives no advice of its own

# modules with claims about something that is no model of ours, and what to call
CERTIFIERS = {
    "lemmata.linalg.projections": "certify_projection",
    "lemmata.completion.certifying": "certify_factors",
    "lemmata.audit.predict.linear.least_squares": "fits of other libraries",
    "lemmata.audit.predict.linear.penalised": "fits of other libraries",
    "lemmata.embedding.vectors.certifying": "vectors of others",
    "lemmata.audit.topics": "fits of other libraries",
    "lemmata.optim.planning": "optim.minimize",
    "lemmata.optim.minimizing": "optim.certify_minimum",
    "lemmata.optim.games": "optim.saddle_point",
    "lemmata.core.certification.composite": "pipelines and searches",
    "lemmata.nets.certifying": "modules of PyTorch",
    "lemmata.audit.nets.sharing": "modules of PyTorch",
    "lemmata.audit.nets.dependence": "modules of PyTorch",
    "lemmata.trust.evaluation": "trust.evaluate",
    "lemmata.trust.comparison": "trust.compare",
    "lemmata.trust.cross_validation": "trust.cross_validate",
    "lemmata.trust.decomposition": "trust.bias_variance",
    "lemmata.trust.fair.report": "trust.fairness",
    "lemmata.trust.fair.logistic": "trust.FairLogisticRegression",
    "lemmata.trust.fair.representation": "trust.Decorrelate, trust.FairAutoencoder",
    "lemmata.trust.fair.thresholds": "trust.FairThresholds",
    "lemmata.trust.robust.report": "trust.attack",
    "lemmata.trust.robust.smoothing": "trust.SmoothedClassifier",
}


def claims_of(module: str) -> list[Statement]:
    """Return the claims of one of CERTIFIERS."""
    values = [one for one in vars(import_module(module)).values() if isinstance(one, tuple)]
    return [one for value in values for one in value if isinstance(one, Statement)]


def theorem_of(statement: Statement) -> str:
    """Return what the check says of itself: the theorem, or how the number is measured."""
    return " ".join((inspect.getdoc(statement.check) or "").split())


def advice_of(statement: Statement) -> list[str]:
    """Return every advice in the check of a claim and its helpers; what depends on the fit is an ellipsis."""
    return list(dict.fromkeys(_advice_in(statement.check, DEPTH)))


def _advice_in(function: Any, depth: int) -> Iterator[str]:
    """The texts that a function, or one of its module that it calls, gives as `advice`."""
    function = inspect.unwrap(function)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return
    outer = inspect.getclosurevars(function) if inspect.isfunction(function) else None
    known = {**outer.globals, **outer.nonlocals} if outer else {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            known[node.targets[0].id] = _texts_in(node.value, known)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        callee = _resolve(node.func, known)
        if str(getattr(callee, "__module__", "")).startswith("lemmata.audit."):
            given = [word.value for word in node.keywords if word.arg == "advice"]
            code = getattr(callee, "__code__", None)
            names = list(code.co_varnames if code else getattr(callee, "__annotations__", ()))
            if "advice" in names:
                given += node.args[names.index("advice") :][:1]
            for part in given:
                yield from _texts_in(part, known)
            if depth and code and not callee.__module__.startswith(KERNEL):
                yield from _advice_in(callee, depth - 1)


def _resolve(node: ast.expr, known: dict[str, Any]) -> Any:
    """The function that `name` or `module.name` stands for; None if that is not known."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return getattr(known.get(node.value.id), node.attr, None)
    return None


def _texts_in(node: ast.expr, known: dict[str, Any]) -> list[str]:
    """The texts that an expression may be."""
    if isinstance(node, ast.Name):
        found = known.get(node.id)
        return found if isinstance(found, list) else [found] if isinstance(found, str) else []
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) and node.value else []
    if isinstance(node, ast.JoinedStr):
        parts = [str(one.value) if isinstance(one, ast.Constant) else "…" for one in node.values]
        return ["".join(parts)]
    if isinstance(node, ast.IfExp | ast.BoolOp):
        either = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
        return [text for part in either for text in _texts_in(part, known)]
    return []


@cache
def _counts() -> dict[tuple[str, str], tuple[int, int]]:
    with COUNTS.open(newline="") as file:
        return {
            (row["home"], row["claim"]): (int(row["wrong"]), int(row["cases"]))
            for row in csv.DictReader(file)
        }


def count_wrong(statement: Statement) -> tuple[int, int] | None:
    """Return how many verdicts on planted cases were wrong, and of how many; None if none were counted."""
    home = statement.check.__module__.removeprefix("lemmata.audit.")
    return _counts().get((home, statement.name))
