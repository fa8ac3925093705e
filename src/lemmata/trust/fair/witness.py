"""Searches that claims about fairness ask for: a classifier that guesses the group of a row, better thresholds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lemmata.audit.kernel.claims import Fit

Array = np.ndarray


def guess_group(fit: Fit, X: Any, codes: Array) -> Callable[[Any], Array]:
    """Return a function that guesses the groups of rows: boosted trees, or a linear model of sparse rows, groups balanced."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.dummy import DummyClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    if len(np.unique(codes)) < 2:
        return DummyClassifier().fit(X, codes).predict
    if hasattr(X, "tocsr"):
        return LogisticRegression(class_weight="balanced", max_iter=200).fit(X, codes).predict
    trees = HistGradientBoostingClassifier(
        max_iter=40, max_leaf_nodes=15, class_weight="balanced", early_stopping=False, random_state=0
    )  # fmt: skip
    if hasattr(X, "iloc"):  # words become numbers; those not met in learning too
        words = make_column_selector(dtype_exclude="number")
        encode = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        columns = make_column_transformer((encode, words), remainder="passthrough")
        trees = make_pipeline(columns, trees)
    return trees.fit(X, codes).predict


def better_rules(fit: Fit) -> tuple[dict[str, Any], Array]:
    """Return the best rules, and the multipliers that prove it, by linear programming."""
    from lemmata.trust.fair.counts import curves_of
    from lemmata.trust.fair.thresholds import solve_programme

    curves = curves_of(fit.scores, fit.y, fit.codes, len(fit.names), fit.weights)
    rules, multipliers = solve_programme(curves, fit.criterion, fit.slack)
    return dict(zip(fit.names, rules, strict=True)), multipliers
