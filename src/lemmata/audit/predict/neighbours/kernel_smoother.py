"""Claims about a kernel smoother f(x) = Σ K(‖x − x_n‖/h) y_n / Σ K(‖x − x_n‖/h), checked on the data by plain code."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.spatial.distance import cdist

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.predict.neighbours import knn, nearest_rows
from lemmata.audit.predict.neighbours.knn import BEATEN, LEAST_ROWS, SHUFFLES
from lemmata.audit.predict.neighbours.labels import equal_rows_agree, firsts_of, groups_of
from lemmata.audit.predict.neighbours.nearest_rows import FEWEST, Neighbourhoods, ask, dense

Array = np.ndarray
MOST_ROWS = 0.5  # of the rows, in one prediction
COMPANY = 2.0  # rows in one prediction

SOUND = attributes_sound(
    {"bandwidth_": ">0", "bandwidths_?": "g >0", "loo_errors_?": "g >=0"}, knn.disagreements
)


def _cost(fit: k.Fit) -> float:
    return 10.0 * min(fit.data.shape[0], FEWEST) * fit.data.shape[0]


def _bandwidths(fit: k.Fit) -> Array:
    """The bandwidths that were compared, or the one that was given."""
    compared = fit.get("bandwidths_")
    return np.ravel(fit.bandwidth_ if compared is None else compared)


@k.fact(cost=nearest_rows.cost_of_asking, needs=(ask,))
def _distances(fit: k.Fit) -> Array:
    """Measure the distance of each query to every row, (m, n), in units of `scale`."""
    asked = ask(fit)
    X = np.concatenate(list(nearest_rows.pieces(fit))) / asked.scale
    return cdist(dense(asked.queries) / asked.scale, X)


def _weights(
    fit: k.Fit,
    asked: Neighbourhoods,
    alone: bool,
    h: float | None = None,
    only: Array | None = None,
) -> Array:
    """The share of each row in the prediction of each query, (m, n); `alone`: without the row and its copies."""
    D = _distances(fit)
    counts = np.ones(D.shape[1]) if fit.weights is None else np.asarray(fit.weights)
    if only is not None:
        counts = counts * only
    if alone:
        y = np.asarray(fit.y).reshape(D.shape[1], -1)
        copies = (D == 0) & (y[asked.numbers][:, None] == y).all(axis=2)
        D = np.where(copies, np.inf, D)
    W = _kernel(fit.kernel, D / (float(fit.bandwidth_ if h is None else h) / asked.scale)) * counts
    nearest = np.where(counts > 0, D, np.inf).argmin(axis=1)
    lonely = np.flatnonzero(W.sum(axis=1) == 0)
    W[lonely, nearest[lonely]] = 1.0
    return W / W.sum(axis=1, keepdims=True)


def _on_the_edge(fit: k.Fit, asked: Neighbourhoods, h: float) -> Array:
    """Mark the queries with a row at the very distance h, where rounding decides what a boxcar lets in."""
    if fit.kernel != "boxcar":
        return np.zeros(len(asked.numbers), bool)
    apart = np.abs(_distances(fit) * (asked.scale / h) - 1)
    return (apart < 1e-7).any(axis=1)


def _kernel(name: str, t: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        if name == "gaussian":
            return np.exp(-(t**2 - t.min(axis=1, keepdims=True) ** 2) / 2)
        inside = np.where(t <= 1, t, 1.0)
        powers = {
            "epanechnikov": 1 - inside**2,
            "biweight": (1 - inside**2) ** 2,
            "tricube": (1 - inside**3) ** 3,
        }
        return powers[name] if name in powers else (t <= 1).astype(np.float64)


def _statements(fit: k.Fit) -> Mapping[str, float]:
    found: dict[str, float] = {"rows": 2.0 * abs(fit.X_fit_.shape[0] - fit.data.shape[0])}
    if found["rows"]:
        return found
    found.update(knn.kept_as_given(fit))
    asked, (y, size, digits) = ask(fit), knn.targets_of(fit)
    stated = np.asarray(nearest_rows.answer(fit.model.predict, asked.queries), dtype=np.float64)
    true = _weights(fit, asked, False) @ y
    clear = ~_on_the_edge(fit, asked, float(fit.bandwidth_))
    if stated.shape != true.shape:
        found["predictions"] = np.inf
    elif clear.any():
        found["predictions"] = discrepancy(stated[clear], true[clear], size * digits, 1.0)
    if fit.get("loo_errors_") is not None and fit.get("bandwidths_") is not None:
        found.update(_choice(fit, asked, y, size**2 * digits))
    return found


def _choice(fit: k.Fit, asked: Neighbourhoods, y: Array, unit: float) -> dict[str, float]:
    """The bandwidths compared are evenly spaced in their logarithm, their errors true, and the best of them was taken."""
    errors, compared = np.asarray(fit.loo_errors_, float), np.asarray(fit.bandwidths_, float)
    even = np.geomspace(compared[0], compared[-1], len(compared))
    found = {"bandwidths_": float(np.abs(compared / even - 1).max() / 1e-5)}
    chosen = np.flatnonzero(compared == fit.bandwidth_)
    best = len(chosen) == 1 and errors[chosen[0]] == errors.min()
    found["bandwidth_"] = 0.0 if best else np.inf
    if asked.complete:
        for h, error in zip(compared, errors, strict=True):
            if _on_the_edge(fit, asked, h).any():
                continue
            left = (y - _weights(fit, asked, True, h) @ y).reshape(len(y), -1)
            true = np.average((left**2).sum(axis=1), weights=fit.weights)
            wrong = discrepancy(error, true, unit, 1.0)
            found["loo_errors_"] = max(found.get("loo_errors_", 0.0), wrong)
    return found


def _cost_of_choices(fit: k.Fit) -> float:
    return _cost(fit) * (1 + 0.2 * len(_bandwidths(fit)))


TRUE = statements_true(_statements, cost=_cost_of_choices, needs=(_distances,))


def _cost_of_shuffling(fit: k.Fit) -> float:
    (n, _), choices = fit.data.shape, len(_bandwidths(fit))
    m = min(n, FEWEST)
    products = SHUFFLES * choices * m * float(n) / k.PRODUCTS
    return 20.0 * choices * m * n + products + 3.0 * n * SHUFFLES


@k.statistical(
    "leave-one-out predictions are nearer to the targets than to 99 % of shuffled targets",
    "ML k-Nearest Neighbors; permutation test",
    confidence=1 - BEATEN,
    cost=_cost_of_shuffling,
    needs=(_distances, groups_of),
)
def leave_one_out(fit):
    """Where the bandwidth was chosen by these errors, every shuffle gets to choose its own too: else luck would count.

    Of equal rows only the first takes part: copies of one record would vouch for each other.
    """
    asked, y = ask(fit), np.asarray(fit.y, dtype=np.float64).reshape(fit.data.shape[0], -1)
    if len(y) < 2 or not (np.ptp(y, axis=0) > 0).any():
        return k.unknown("the targets are all equal")
    y = knn.standardise(y)
    first = firsts_of(fit) & (True if fit.weights is None else np.asarray(fit.weights) > 0)
    some, rows = np.flatnonzero(first[asked.numbers]), np.flatnonzero(first)
    if len(some) < LEAST_ROWS:
        return k.unknown(f"fewer than {LEAST_ROWS} different rows")
    rng = np.random.default_rng(len(y))
    orders = [np.arange(len(rows)), *(rng.permutation(len(rows)) for _ in range(SHUFFLES))]
    targets = np.zeros((len(y), len(orders) * y.shape[1]))
    targets[rows] = np.hstack([y[rows][order] for order in orders])
    losses = np.full(len(orders), np.inf)
    for h in _bandwidths(fit):
        W = _weights(fit, asked, True, h, first)[some]
        errors = targets[asked.numbers[some]] - W @ targets
        losses = np.minimum(losses, (errors**2).mean(axis=0).reshape(len(orders), -1).mean(axis=1))
    beaten = int((losses[1:] <= losses[0] * (1 + 1e-12)).sum())
    advice = "nearness says nothing about the target here: choose other features, scale them, or another bandwidth"
    note = f"{100 * losses[0]:.0f} % of the variance is left"
    if 1 + beaten > BEATEN * (1 + SHUFFLES) and knn.asks_few(asked, len(y)):
        return k.unknown(knn.TOO_FEW, (1 + beaten) / (1 + SHUFFLES), "p")
    return k.at_most((1 + beaten) / (1 + SHUFFLES), BEATEN, advice, unit="p", note=note)


def _effective(fit: k.Fit) -> float:
    """The number of rows that a prediction averages: the median of 1/Σw² over the queries, each left out. Raises CannotTell."""
    if fit.data.shape[0] < 3:
        raise k.CannotTell("fewer than three rows")
    W = _weights(fit, ask(fit), True)
    return float(np.median(1 / (W**2).sum(axis=1)))


@k.rule_of_thumb(
    "a prediction averages at most half of the rows (median of 1/Σw²)",
    "ML Bias-variance tradeoff in k-NN",
    cost=_cost,
    needs=(_distances,),
)
def smooths_locally(fit):
    advice = "the bandwidth is so large that predictions are all about the mean: lower it"
    return k.at_most(_effective(fit) / (fit.data.shape[0] - 1), MOST_ROWS, advice, unit="share")


@k.rule_of_thumb(
    "a prediction averages at least two rows besides its own (median of 1/Σw²)",
    "ML Bias-variance tradeoff in k-NN",
    cost=_cost,
    needs=(_distances,),
)
def averages_several(fit):
    advice = "the bandwidth is so small that each row predicts itself alone: raise it"
    return k.at_least(_effective(fit), COMPANY, advice, unit="rows")


@k.proved("smaller and larger bandwidths than the chosen one were compared", "by definition")
def bandwidth_inside(fit):
    """At the end of the range another bandwidth may be better."""
    compared = fit.get("bandwidths_")
    if compared is None:
        return k.unknown("the bandwidth was given, not chosen")
    end = int(fit.bandwidth_ in (np.min(compared), np.max(compared)))
    advice = "the best bandwidth lies at the end of the range compared: pass one beyond it, or the mean is as good"
    return k.at_most(end, 0, advice, unit="at the end")


SMOOTHER_CLAIMS = (
    SOUND, TRUE, leave_one_out, smooths_locally, averages_several, bandwidth_inside, equal_rows_agree,
)  # fmt: skip
