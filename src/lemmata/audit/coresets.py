"""What is claimed of a coreset: that weights and costs of the data are kept."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from lemmata.clustering.coreset_sampling import B, Coreset, costs
from lemmata.clustering.seeding import d2_sampling, random_rows
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import RULE_OF_THUMB, at_most, claim, passes
from lemmata.core.engine import map_reduce

Array = np.ndarray
SETS, CENTERS = 8, 8  # how many sets of how many centres are tried
ENOUGH = 0.1  # what costs of own centres may be off by if the user asked for a size rather than an epsilon
ROUNDING = 1e-9  # of sums in float64: all that may differ where nothing was drawn
NOT_ITS_DATA = "this coreset was not drawn from this data: fit anew"
TOO_SMALL = "draw more rows: raise size, or lower epsilon"


@claim("the coreset has at most half of the data's rows", kind=RULE_OF_THUMB, source="CIL20 6.2.3")
def smaller_than_data(fit):
    rows = fit.coreset_.rows
    advice = "cluster the data itself, or ask for fewer rows: lower size, or raise epsilon"
    return at_most(len(fit.weights_), rows / 2, unit="rows", advice=advice)


@claim("the weights add up to the data's", kind=RULE_OF_THUMB, source="CIL20 6.2.3")
def total_weight_kept(fit):
    """A draw's share w/(pW) of all weight has mean 1, is at most 2, and so varies by at most 1."""
    weight = fit.coreset_.spread.weight if fit.data is None else fit.data.total_weight
    found = float(np.sum(fit.weights_, dtype=np.float64))
    bound = fit.coreset_.error(fit.delta, 0.0, 1.0, 1.0) + ROUNDING
    return at_most(abs(found / weight - 1), bound, unit="relative error", advice=NOT_ITS_DATA)


@claim("the cost of the mean is kept", kind=RULE_OF_THUMB, source="CIL20 6.2.3", cost=passes())
def cost_of_mean_kept(fit):
    """A draw's share of φ(μ) has mean 1 and is at most 2 as well."""
    mean = mean_of(fit.data)
    true, found = costs(fit.data, [mean[None]])[0], fit.coreset_.cost(mean[None])
    error = abs(found / true - 1) if true > 0 else float(found > 0)
    bound = fit.coreset_.error(fit.delta, 0.0, 1.0, 1.0) + ROUNDING
    return at_most(error, bound, unit="relative error", advice=NOT_ITS_DATA)


@claim(
    "costs of centres fixed beforehand are kept within ε/2 (φ(Q) + φ(mean))",
    kind=RULE_OF_THUMB,
    source="CIL20 6.2.3",
    cost=passes(),
)
def costs_kept(fit):
    """Rows of the data as centres, drawn without regard to the coreset. ε: what its draws promise for all sets tried."""
    k = min(
        CENTERS, int(fit.data.shape[0] if fit.weights is None else np.count_nonzero(fit.weights))
    )
    sets = [random_rows(fit.data, k, seed) for seed in range(SETS)]
    error = float(np.max(measured(fit.coreset_, fit.data, sets, mean_of(fit.data))))
    bound = fit.coreset_.error(fit.delta, math.log(SETS), B, B, growth=1.5) + ROUNDING
    return at_most(error, bound, unit="ε", advice=NOT_ITS_DATA, note=f"{SETS} sets of {k} centres")


@claim(
    "costs of centres sought on the coreset are kept within ε φ(Q)",
    kind=RULE_OF_THUMB,
    source="CIL20 (6.4)",
    cost=passes(),
)
def own_costs_kept(fit):
    """What a user of the coreset relies on. Not promised: these centres know the coreset, and (6.4) is stronger than it is."""
    k = min(fit.n_clusters or CENTERS, len(fit.weights_))
    centers = sought(fit.points_, fit.weights_, k)
    true, found = costs(fit.data, [centers])[0], fit.coreset_.cost(centers)
    error = abs(found - true) / true if true > 0 else float(found > 0)
    bound = (fit.epsilon or ENOUGH) + ROUNDING
    note = (
        f"{k} centres; ε is {'epsilon' if fit.epsilon else 'a tenth'}, theory would add ε/2 φ(mean)"
    )
    return at_most(error, bound, unit="relative error", advice=TOO_SMALL, note=note)


CORESET_CLAIMS = (
    smaller_than_data,
    total_weight_kept,
    cost_of_mean_kept,
    costs_kept,
    own_costs_kept,
)


def mean_of(data: Blocks) -> Array:
    def summed(rows, weights):
        return np.asarray(
            rows.sum(axis=0, dtype=np.float64) if weights is None else weights @ rows
        ).ravel()

    return map_reduce(summed, data, 0.0) / data.total_weight


def measured(coreset: Coreset, data: Blocks, sets: list, mean: Array) -> Array:
    """|φ_C(Q) − φ_X(Q)| / (½φ_X(Q) + ½φ_X(μ)) for each set of centres Q."""
    true = costs(data, [*sets, mean[None]])
    found = costs(Blocks.of(coreset.points, coreset.weights), sets)
    allowed = 0.5 * (true[:-1] + true[-1])
    return np.abs(found - true[:-1]) / np.where(allowed > 0, allowed, 1)


def sought(points: Any, weights: Array, k: int, steps: int = 10) -> Array:
    """Centres that D² sampling and a few plain steps of k-means find."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # centres may coincide here
        centers = d2_sampling(points, k, 0, weights).astype(np.float64)
    shift = np.zeros(points.shape[1]) if sp.issparse(points) else centers.mean(axis=0)
    Y, C = points if sp.issparse(points) else points - shift, centers - shift
    for _ in range(steps):
        label = ((C**2).sum(axis=1) - 2 * (Y @ C.T)).argmin(axis=1)
        members = sp.csr_array((weights, (label, np.arange(len(weights)))), shape=(k, len(weights)))
        total, sums = np.bincount(label, weights, minlength=k), members @ Y
        sums = sums.toarray() if sp.issparse(sums) else sums
        C[total > 0] = sums[total > 0] / total[total > 0, None]
    return C + shift
