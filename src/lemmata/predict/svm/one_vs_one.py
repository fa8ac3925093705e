"""Several classes by machines of two: one for every pair, in scikit-learn's (LIBSVM's) layout.

    pairs (i, j), i < j, in order (0,1), (0,2), …, (1,2), …;  f_ij(x) > 0 is a vote for class i
    dual_coef_ : (k − 1, n_SV)  β of the pair (i, j): in row j − 1 for a support vector of class i, in row i for one of class j

With two classes there is one machine, and f(x) > 0 means classes_[1].
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from lemmata.predict.svm.problem import MachineDual

Array = np.ndarray


def pair_machines(places: Array, k: int, C: Array) -> tuple[MachineDual, ...]:
    """Return a machine for every pair of the k classes, without the rows with C = 0."""
    of_class = [np.flatnonzero((places == label) & (C > 0)) for label in range(k)]
    machines = []
    for i, j in combinations(range(k), 2):
        members = np.concatenate([of_class[i], of_class[j]])
        signs = np.where(places[members] == (j if k == 2 else i), 1.0, -1.0)
        machines.append(MachineDual.of_signs(members, signs, C[members]))
    return tuple(machines)


def arrange(
    machines: tuple[MachineDual, ...], betas: list[Array], places: Array, k: int
) -> tuple[Array, Array, Array]:
    """Return (support_, n_support_, dual_coef_) from the solutions of all pairs."""
    n = len(places)
    table = np.zeros((k - 1, n))
    for (i, j), machine, beta in zip(combinations(range(k), 2), machines, betas, strict=True):
        first = places[machine.members] == i
        table[j - 1 if k > 2 else 0, machine.members[first]] = beta[first]
        table[i if k > 2 else 0, machine.members[~first]] = beta[~first]
    supports = np.abs(table).max(axis=0) > 0
    order = np.argsort(places, kind="stable")
    support = order[supports[order]]
    counts = np.bincount(places[support], minlength=k)
    return (
        support.astype(np.int32),
        counts.astype(np.int32),
        np.ascontiguousarray(table[:, support]),
    )


def pair_coefficients(dual_coef: Array, counts: Array) -> Array:
    """(n_SV, pairs): the β of every support vector in every machine, 0 where it takes no part."""
    k, ends = len(counts), np.cumsum(counts)
    starts = ends - counts
    if k == 2:
        return dual_coef.T
    out = np.zeros((dual_coef.shape[1], k * (k - 1) // 2))
    for pair, (i, j) in enumerate(combinations(range(k), 2)):
        first, second = slice(starts[i], ends[i]), slice(starts[j], ends[j])
        out[first, pair], out[second, pair] = dual_coef[j - 1, first], dual_coef[i, second]
    return out


def votes(decisions: Array, k: int) -> Array:
    """(n, k): how many machines speak for each class; f = 0 is a vote for the second, as in LIBSVM."""
    out = np.zeros((len(decisions), k))
    for pair, (i, j) in enumerate(combinations(range(k), 2)):
        out[:, i] += decisions[:, pair] > 0
        out[:, j] += ~(decisions[:, pair] > 0)
    return out


def scores(decisions: Array, k: int) -> Array:
    """(n, k): votes, and the sum of decisions squeezed into (−⅓, ⅓) to order classes with as many."""
    counts, sums = np.zeros((len(decisions), k)), np.zeros((len(decisions), k))
    for pair, (i, j) in enumerate(combinations(range(k), 2)):
        f = decisions[:, pair]
        sums[:, i] += f
        sums[:, j] -= f
        counts[:, i] += f >= 0
        counts[:, j] += f < 0
    return counts + sums / (3 * (np.abs(sums) + 1))
