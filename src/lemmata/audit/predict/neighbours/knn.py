"""Claims about predictions by neighbours, checked on the data by plain code.

A model of neighbours learns nothing, so the claims ask whether it found what it should (nearest rows, their votes), and
whether nearness says anything on this data: against shuffled labels, by the dimension that the rows fill, by the
contrast of distances, by equal rows that disagree. They use the rows, the targets and public methods (`kneighbors`, `predict`,
`predict_proba`), so they certify scikit-learn's KNeighborsClassifier, KNeighborsRegressor and NearestNeighbors as well as ours.
True neighbours are found by brute force (nearest_rows.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.concentration import clopper_pearson
from lemmata.audit.predict.neighbours import labels, nearest_rows
from lemmata.audit.predict.neighbours.nearest_rows import Neighbourhoods, answer, ask, dense

Array = np.ndarray
DIGITS = 1e-6  # predictions are true to six digits: distances that expanded squares blur weigh a little differently
WRONG = 0.05  # share of queries that may have other neighbours, at confidence 1 − RISK
RISK = 0.05
SHUFFLES = 199  # of the labels
BEATEN = 0.01  # share of shuffles that may do as well
LEAST_ROWS = 10
TOO_FEW = f"{nearest_rows.FEWEST} rows are too few to tell: certify(X, y) asks about more"
# neighbours whose targets are looked at together: some 0.5 MB, which stay in the cache
LARGEST = 2**16
REACH = 0.6  # of each side of the data that a neighbourhood may take up; the notes' example of a curse has 0.63
CONTRAST = 0.75  # k-th neighbour against any row


# --- what the attributes have to be -----------------------------------------------------------------------------------


def disagreements(fit: claims.Fit) -> Iterator[str]:
    k = fit.get("n_neighbors")
    if k is not None and not k >= 1:
        yield f"n_neighbors is {k}"
    X, y, classes = fit.get("X_fit_"), fit.get("y_fit_"), fit.get("classes_")
    if X is not None:
        n = fit.n_samples_fit_ if fit.has("n_samples_fit_") else X.shape[0]
        if X.ndim != 2 or X.shape[0] != n:
            yield f"X_fit_ has shape {X.shape}, but n_samples_fit_ is {n}"
        elif fit.has_data and X.shape[1] != fit.data.shape[1]:
            yield f"X_fit_ has {X.shape[1]} columns, the data {fit.data.shape[1]}"
        elif not np.isfinite(_entries(X)).all() and fit.get("metric") != "nan_euclidean":
            yield "X_fit_ has numbers that are not finite"
    if y is not None:
        if X is not None and len(y) != X.shape[0]:
            yield f"y_fit_ has {len(y)} entries for {X.shape[0]} rows"
        elif not np.isfinite(np.asarray(y, dtype=np.float64)).all():
            yield "y_fit_ has numbers that are not finite"
        elif classes is not None and np.ndim(y) == 1 and not ((y >= 0) & (y < len(classes))).all():
            yield "y_fit_ names classes that are not there"
    if isinstance(classes, np.ndarray) and len(np.unique(classes)) != len(classes):
        yield "classes_ names a class twice"


def _entries(X: Any) -> Array:
    return X.data if hasattr(X, "toarray") else np.asarray(X)


SOUND = attributes_sound({"n_samples_fit_": ">0 int"}, disagreements)


def _statements(fit: claims.Fit) -> Mapping[str, float]:
    """The kept rows and targets are those of the data, to the bit; predictions are the votes of the true neighbours."""
    n = fit.data.shape[0]
    found = {"n_samples_fit_": float(abs(int(fit.n_samples_fit_) - n)) * 2}
    if found["n_samples_fit_"]:
        return found
    found.update(kept_as_given(fit))
    if (error := _wrong_predictions(fit)) is not None:
        found["predictions"] = error
    return found


def kept_as_given(fit: claims.Fit) -> dict[str, float]:
    """Count the kept rows and targets that differ from the data."""
    found: dict[str, float] = {}
    X, y = fit.get("X_fit_"), fit.get("y_fit_")
    if X is not None:
        wrong, start = 0, 0
        for block in nearest_rows.pieces(fit):
            mine = dense(X[start : start + len(block)])
            same = (mine == block) | (np.isnan(mine) & np.isnan(block))
            wrong += int((~same).any(axis=1).sum())
            start += len(block)
        found["X_fit_"] = 2.0 * wrong
    if y is not None and fit.y is not None:
        same = np.shape(y) == np.shape(fit.y)
        found["y_fit_"] = 2.0 * np.sum(np.asarray(y) != np.asarray(fit.y)) if same else np.inf
    counts = fit.get("sample_weight_fit_")
    if X is not None and (counts is None) != (fit.weights is None):
        found["sample_weight_fit_"] = np.inf
    elif counts is not None:
        found["sample_weight_fit_"] = 2.0 * np.count_nonzero(counts != fit.weights)
    return found


def _wrong_predictions(fit: claims.Fit) -> float | None:
    """The largest error of a prediction, in units of its rounding; None where there is nothing to compare."""
    predicts, k = fit.has("predict") and fit.y is not None, int(fit.n_neighbors)
    if not predicts or fit.weights is not None or k > fit.data.shape[0]:
        return None
    if nearest_rows.metric_of(fit) is None:
        return None
    asked = ask(fit)
    clear = _clear_queries(fit, asked, k)
    if not clear.any():
        return None
    shares = shares_of(fit, asked.distances[clear, :k] * asked.scale)
    near, queries = asked.rows[clear, :k], asked.queries[np.flatnonzero(clear)]
    if fit.has("classes_"):
        if np.ndim(fit.y) == 2:
            return None
        true = class_shares(np.asarray(fit.y)[near].astype(int), shares, len(fit.classes_))
        return discrepancy(answer(fit.model.predict_proba, queries), true, 1.0, DIGITS)
    y, size, digits = targets_of(fit)
    true = np.einsum("qk,qk...->q...", shares, y[near])
    return discrepancy(answer(fit.model.predict, queries), true, size, digits)


def targets_of(fit: claims.Fit) -> tuple[Array, float, float]:
    """(y in float64, its largest size, the share of it to which predictions are true)."""
    y = np.asarray(fit.y, dtype=np.float64)
    digits = DIGITS if np.asarray(fit.y).dtype == np.float64 else 1e-4
    return y, np.abs(y).max(initial=0.0) or 1.0, digits


def _clear_queries(fit: claims.Fit, asked: Neighbourhoods, k: int) -> Array:
    """Which queries have one answer: no tie at the k-th place, and at most one row at distance 0 if distances are inverted."""
    tie, distances = asked.blur, asked.distances
    clear = np.ones(len(distances), bool)
    if distances.shape[1] > k:
        clear &= distances[:, k] ** 2 - distances[:, k - 1] ** 2 > 2 * tie
    weights = labels.weights_of_votes(fit)
    if weights not in ("uniform", None) and distances.shape[1] > 1:
        clear &= distances[:, 1] ** 2 > 1e6 * tie
    return clear


def shares_of(fit: claims.Fit, distances: Array) -> Array:
    """The share of each neighbour in a prediction, as `weights` says."""
    weights = labels.weights_of_votes(fit)
    if weights in ("uniform", None):
        found = np.ones(distances.shape)
    elif isinstance(weights, str):
        with np.errstate(divide="ignore"):
            found = 1 / distances
        here = np.isinf(found)
        found = np.where(here.any(axis=1, keepdims=True), here, np.where(here, 0, found))
    else:
        found = np.asarray(weights(distances), dtype=np.float64)
    return found / found.sum(axis=1, keepdims=True)


def class_shares(said: Array, shares: Array, count: int) -> Array:
    """Add the shares of each of the classes 0 … count − 1, (q, count)."""
    places = np.arange(len(said))[:, None] * count + said
    return np.bincount(places.ravel(), shares.ravel(), len(said) * count).reshape(-1, count)


TRUE = statements_true(_statements, cost=claims.passes(2), needs=(ask,))


# --- are they the nearest? --------------------------------------------------------------------------------------------


@claims.statistical(
    "at least 95 % of the rows, as queries, get rows as near as their k nearest, with their distances",
    "ML k-Nearest Neighbors; Clopper & Pearson 1934",
    confidence=1 - RISK,
    needs=(ask,),
)
def neighbours_exact(fit):
    """Each query sampled is proved right or wrong; the rest follows with the confidence of the sample."""
    asked, k, n = ask(fit), int(fit.n_neighbors), fit.data.shape[0]
    if k > n:
        return claims.unknown(f"n_neighbors = {k} exceeds the {n} rows")
    distances, rows = answer(fit.model.kneighbors, asked.queries, k)
    m = len(asked.numbers)
    wrong = int((~_is_nearest(fit, asked, np.asarray(distances), np.asarray(rows), k)).sum())
    advice = "this search is approximate, or the rows are not those it was fitted to: use algorithm='brute'"
    if asked.complete:
        note = "all rows were asked about"
        return claims.at_most(wrong / n, WRONG, advice, "share wrong", note, kind=claims.PROVED)
    low, high = clopper_pearson(wrong, m, 2 * RISK)  # each end at RISK: only one is used
    note = f"{m - wrong} of {m} queries right, proved for each of them"
    if low <= WRONG < high:
        return claims.unknown(note, wrong / m, "share wrong")
    return claims.at_most(high if high <= WRONG else low, WRONG, advice, "share wrong", note)


def _is_nearest(
    fit: claims.Fit, asked: Neighbourhoods, distances: Array, rows: Array, k: int
) -> Array:
    """Whether each query's answer is k different rows, none farther than the true k-th, with true distances."""
    m, n = len(asked.numbers), fit.data.shape[0]
    if distances.shape != (m, k) or rows.shape != (m, k) or rows.min() < 0 or rows.max() >= n:
        return np.zeros(m, bool)
    true, tie = asked.distances[:, :k], asked.blur
    with np.errstate(over="ignore", invalid="ignore"):
        stated = distances / asked.scale
        right = (np.abs(stated**2 - true**2) <= tie[:, None]).all(axis=1)
    different = (np.diff(np.sort(rows, axis=1), axis=1) > 0).all(axis=1) if k > 1 else True
    nearer = true**2 < (true[:, -1] ** 2 - tie)[:, None]
    found = (asked.rows[:, :k, None] == rows[:, None, :]).any(axis=2)
    complete = (found | ~nearer).all(axis=1)
    near = nearest_rows.distances_to(fit, asked, rows) ** 2 <= (true[:, -1] ** 2 + tie)[:, None]
    return right & different & complete & near.all(axis=1)


# --- does nearness say anything? --------------------------------------------------------------------------------------


def _cost_of_shuffling(fit: claims.Fit) -> float:
    m, k = min(fit.data.shape[0], nearest_rows.FEWEST), int(fit.n_neighbors)
    return 20.0 * SHUFFLES * m * (k + 10) + 10.0 * m * k * fit.data.shape[1]


@claims.statistical(
    "leave-one-out predictions are better than those of 99 % of shuffled targets",
    "ML k-Nearest Neighbors; permutation test",
    confidence=1 - BEATEN,
    cost=_cost_of_shuffling,
    needs=(ask,),
)
def leave_one_out(fit):
    """If targets had nothing to do with rows, every order of them would be as likely: the rank of the true one is uniform.

    Of equal rows only the first takes part: copies of one record would vouch for each other.
    """
    asked, k = ask(fit), _neighbours_besides(fit)
    first = labels.first_among(fit, np.unique(np.append(asked.rows, asked.numbers)))
    taking_part = np.isin(asked.rows, first) & (asked.rows != asked.numbers[:, None])
    usable = np.isin(asked.numbers, first) & (taking_part.sum(axis=1) >= k)
    if np.count_nonzero(usable) < LEAST_ROWS:
        why = f"fewer than {LEAST_ROWS} different rows have {k} different neighbours"
        return claims.unknown(f"{why} among the nearest")
    order = np.argsort(~taking_part[usable], axis=1, kind="stable")[:, :k]
    near = np.take_along_axis(asked.rows[usable], order, axis=1)
    distances = np.take_along_axis(asked.distances[usable], order, axis=1)
    y = np.asarray(fit.y)
    if np.ndim(y) == 2 and fit.has("classes_"):
        y = np.unique(y, axis=0, return_inverse=True)[1].ravel()
    shares = shares_of(fit, distances * asked.scale)
    found = judge_shuffles(asked.numbers[usable], near, shares, y, fit.has("classes_"))
    if found.verdict == claims.FAILS and asks_few(asked, len(y)):
        return claims.unknown(TOO_FEW, found.measured, "p")
    return found


def asks_few(asked: Neighbourhoods, n: int) -> bool:
    """Whether fewer rows were asked about than the budget of `certify` allows: a signal may have been missed."""
    return len(asked.numbers) < min(n, nearest_rows.QUERIES)


def _neighbours_besides(fit: claims.Fit) -> int:
    """Return n_neighbors. Raises CannotTell where there are not so many rows besides a query."""
    n, k = fit.data.shape[0], int(fit.n_neighbors)
    if k > n - 1:
        raise claims.CannotTell(f"n_neighbors = {k}, and without the row itself there are {n - 1}")
    return k


def without_itself(asked: Neighbourhoods, k: int) -> tuple[Array, Array]:
    """The k nearest rows of each query other than itself, and their distances."""
    some = slice(0, k + 1)
    rows, distances = asked.rows[:, some], asked.distances[:, some]
    own = rows == asked.numbers[:, None]
    own[~own.any(axis=1), -1] = True
    shape = len(rows), k
    return rows[~own].reshape(shape), distances[~own].reshape(shape)


def standardise(y: Array) -> Array:
    """Scale (n, m) targets to mean 0 and deviation 1; constant columns to 0."""
    return (y - y.mean(axis=0)) / np.where(np.ptp(y, axis=0) > 0, y.std(axis=0), 1)


def judge_shuffles(
    own: Array, near: Array, shares: Array, y: Array, classes: bool
) -> claims.Evidence:
    """The share of shuffles of the targets of all rows involved that are predicted as well as the true ones.

    A prediction is linear in the targets (of classes: in their indicators), so one product predicts all shuffles.
    """
    involved, places = np.unique(np.concatenate([own[:, None], near], axis=1), return_inverse=True)
    places = places.reshape(len(own), -1)
    y = y[involved]
    if len(np.unique(y, axis=0)) < 2:
        return claims.unknown("the targets of the rows asked about are all equal")
    if classes:
        y = np.unique(y, return_inverse=True)[1]
        columns = (y[:, None] == np.arange(y.max() + 1)).astype(np.float64)
    else:
        y = columns = standardise(y.astype(np.float64).reshape(len(y), -1))
    ends = np.arange(len(own) + 1) * near.shape[1]
    votes = sp.csr_array((shares.ravel(), places[:, 1:].ravel(), ends), (len(own), len(y)))

    def losses(orders: Array) -> Array:
        """Add up the errors under each of several orders of the targets, (n, s)."""
        targets = np.empty((len(y), columns.shape[1], orders.shape[1]))
        for c, column in enumerate(columns.T):
            targets[:, c] = column[orders]
        said = (votes @ targets.reshape(len(y), -1)).reshape(len(own), *targets.shape[1:])
        if classes:
            return np.count_nonzero(first_largest(said) != y[orders][places[:, 0]], axis=0)
        return ((columns[orders[places[:, 0]]].swapaxes(1, 2) - said) ** 2).sum(axis=(0, 1))

    rng, start = np.random.default_rng(len(own)), np.arange(len(y))[:, None]
    ours, step = float(losses(start)[0]), max(1, LARGEST // places.size)
    beaten = 0
    for first in range(0, SHUFFLES, step):
        orders = rng.permuted(start.repeat(min(step, SHUFFLES - first), axis=1), axis=0)
        beaten += int((losses(orders) <= ours * (1 + 1e-12)).sum())
    right = f"{100 * (1 - ours / len(own)):.1f} % of {len(own)} rows right" if classes else ""
    left = "" if classes else f"{100 * ours / len(own) / y.shape[1]:.0f} % of the variance is left"
    advice = "neighbours say nothing about the target here: choose other features, scale them, or another model"
    return claims.at_most((1 + beaten) / (1 + SHUFFLES), BEATEN, advice, "p", right + left)


def first_largest(votes: Array) -> Array:
    """The class with the most votes, the first of equal ones: argmax over axis 1, which NumPy does ten times slower."""
    most, found = votes[:, 0], np.zeros(votes[:, 0].shape, np.int64)
    for c in range(1, votes.shape[1]):
        found[votes[:, c] > most] = c
        most = np.maximum(most, votes[:, c])
    return found


# --- how local are neighbourhoods? ------------------------------------------------------------------------------------


def intrinsic_dimension(asked: Neighbourhoods) -> float:
    """The dimension that distances grow with (Levina & Bickel 2004), inverses averaged over rows (MacKay & Ghahramani 2005).

    If rows fill m dimensions evenly, log(T_c/T_j) of the distances to the j-th and c-th neighbour has the mean
    Σ_{i=j}^{c−1} 1/(i·m), which adds up to (c − 1)/m over j < c.
    """
    _, distances = without_itself(asked, asked.rows.shape[1] - 1)
    far = distances[:, -1:]
    usable = (distances[:, :-1] > 0) & (far > 0)
    if not usable.any():
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(far / distances[:, :-1])
    total = float(logs[usable].sum())
    return float(np.count_nonzero(usable)) / total if total > 0 else np.inf


@claims.rule_of_thumb(
    "k neighbours span an estimated 0.6 of the data's width in each direction, at most",
    "ML Curse of dimensionality; Levina & Bickel 2004",
    needs=(ask,),
)
def neighbourhoods_local(fit):
    asked, n, k = ask(fit), fit.data.shape[0], int(fit.n_neighbors)
    if k >= n:
        return claims.at_most(1.0, REACH, "lower n_neighbors: all rows are neighbours", unit="side")
    if n < 5:
        return claims.unknown(f"{n} rows do not show the dimension they fill")
    m = intrinsic_dimension(asked)
    if m == 0:
        return claims.unknown("the rows are all equal")
    note = f"the rows fill about {m:.1f} dimensions (Levina & Bickel)"
    advice = "reduce the dimension first (PCA), collect more rows, or lower n_neighbors"
    return claims.at_most((k / n) ** (1 / m), REACH, advice, unit="side", note=note)


@claims.rule_of_thumb(
    "the k-th neighbour is on average at most 3/4 as far as any row",
    "ML Curse of dimensionality; Beyer et al. 1999",
    needs=(ask,),
)
def distances_differ(fit):
    asked, k = ask(fit), _neighbours_besides(fit)
    if not asked.apart > 0:
        return claims.unknown("the rows are all equal")
    near = without_itself(asked, k)[1][:, -1].mean()
    advice = "the nearest rows are hardly nearer than any: reduce the dimension first, or use another metric"
    return claims.at_most(near / asked.apart, CONTRAST, advice, unit="k-th / any")


NEIGHBOUR_CLAIMS = (SOUND, TRUE, neighbours_exact, neighbourhoods_local, distances_differ)
REGRESSOR_CLAIMS = (SOUND, TRUE, leave_one_out, *NEIGHBOUR_CLAIMS[2:], labels.equal_rows_agree)
CLASSIFIER_CLAIMS = (*REGRESSOR_CLAIMS, labels.classes_can_win, labels.no_class_dominates)
