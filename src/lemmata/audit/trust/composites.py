"""Claims about models made of models: the steps of a pipeline before the last, the scores of a search.

**Company.** A fitted step maps each row by itself, so every second row comes out alone as it does among all of them. It does
not where a step counts its calls, looks at whole batches, or shows the target of the rows it was fitted to by their number.

**Folds.** A search states the mean score of each candidate beside the scores of its folds, and the best of the means. The folds
are not fitted again: scores that were invented together, mean and folds, add up as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k

Array = np.ndarray
SAME = 1e-4  # of the largest number, by which rounding in float32 may move one


@k.claim(
    "every second row comes out of each step before the last alone as it does among all rows",
    kind=k.PROVED,
    source="a fitted transformer maps each row by itself",
)
def company_ignored(fit):
    """The largest change of a number of those rows, beside the largest number that the step makes of all rows."""
    moved: dict[str, float] = {}
    for name, (step, X, whole) in fit.steps_.items():
        try:
            moved[name] = measure_move(step, X, whole)
        except Exception:  # a stream of rows, texts, a step that refuses few of them
            continue
    if len(moved) < len(fit.steps_) and max(moved.values(), default=0.0) <= SAME:
        missing = ", ".join(name for name in fit.steps_ if name not in moved)
        return k.unknown(f"half of the rows could not be passed through {missing}")
    worst = max(moved, key=lambda name: moved[name])
    advice = "fit the steps on training rows only, and let none keep a state, a batch or the target"
    return k.at_most(moved[worst], SAME, advice, unit="of the largest number", note=worst)


def measure_move(step: Any, X: Any, whole: Any) -> float:
    """Pass every second row of X alone, and compare with what came out among all of them."""
    some = np.arange(0, X.shape[0] if hasattr(X, "shape") else len(X), 2)
    alone, among = (_numbers(rows) for rows in (step.transform(_rows(X, some)), _rows(whole, some)))
    if alone.shape != among.shape:
        return np.inf
    largest, change = (float(abs(rows).max()) for rows in (among, alone - among))
    return change / largest if largest else np.inf if change else 0.0


def _numbers(rows: Any) -> Any:
    return rows.astype(np.float64) if hasattr(rows, "tocsr") else np.asarray(rows, np.float64)


def _rows(X: Any, places: Array) -> Any:
    return X.iloc[places] if hasattr(X, "iloc") else X[places]


@k.claim(
    "the best score is the mean over the folds of the chosen candidate, and no other candidate's mean is higher",
    kind=k.PROVED,
    source="scikit-learn's cv_results_",
)
def scores_add_up(fit):
    """All in units of the largest score; failed folds are NaN, and halving searches choose among the last candidates."""
    off = 0.0
    for search in fit.searches_.values():
        found = search.cv_results_
        metric = search.refit if isinstance(search.refit, str) else "score"
        if not hasattr(search, "best_score_") or f"mean_test_{metric}" not in found:
            return k.unknown("this search states no best score")
        folds = np.stack([found[f"split{i}_test_{metric}"] for i in range(search.n_splits_)])
        means, best = np.asarray(found[f"mean_test_{metric}"], np.float64), search.best_index_
        last = np.equal(found["iter"], np.max(found["iter"])) if "iter" in found else slice(None)
        errors = [means - folds.mean(axis=0), search.best_score_ - means[best]]
        if not callable(search.refit):
            errors.append(np.maximum(means[last] - means[best], 0))
        size = np.nanmax(np.abs(folds), initial=0.0) or 1.0
        worst = max(float(np.nanmax(np.abs(error), initial=0.0)) for error in errors)
        off = max(off, np.inf if np.isnan(search.best_score_) else worst / size)
    bound = k.rounding(np.float64, len(folds))
    return k.at_most(off, bound, "fit the search again", unit="of the largest score")


COMPOSITE_CLAIMS = (company_ignored, scores_add_up)
