"""Attacks through a stand-in: steal a model by its answers, attack the copy, and try what fools it on the original.

>>> from sklearn.datasets import load_digits
>>> from sklearn.ensemble import RandomForestClassifier
>>> X, y = load_digits(return_X_y=True)
>>> forest = RandomForestClassifier(random_state=0).fit(X[:1000] / 16, y[:1000])
>>> stolen = steal(forest, X[1000:] / 16)
>>> stolen.queries, bool(stolen.agreement > 0.8)                     # decisions alone, no label
(3349, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lemmata.trust.bounds import clopper_pearson
from lemmata.trust.robust.ball import Perturbations
from lemmata.trust.robust.gradient import TOWARD, Strongest, pgd
from lemmata.trust.robust.scores import Target, read_target

Array = np.ndarray

HELD_OUT = 5  # every fifth row judges the copy
COPIES = 4  # of each row, with noise


@dataclass(frozen=True)
class StolenModel:
    """A copy of a model. `agreement` is the share of rows, not learned from, on which both say the same; `interval` 95 %."""

    model: Any
    agreement: float
    interval: tuple[float, float]
    queries: int


def steal(model: Any, X: Any, learner: Any = None, *, noise: float = 0.1, random_state: int = 0) -> StolenModel:  # fmt: skip
    """Train a copy of a classifier on its answers to unlabelled rows and noisy copies of them.

    learner : an unfitted classifier that takes flat rows; by default our `MLPClassifier` with 128 hidden units
    noise : the deviation of the noise, as a share of each feature's range
    """
    X = np.asarray(X)
    rows = X.reshape(len(X), -1)
    target = read_target(model, rows, X.shape[1:])
    with target.ready():
        return _steal(target, rows, learner, noise, random_state)


def _steal(target: Target, X: Array, learner: Any, noise: float, seed: int) -> StolenModel:
    rng, before = np.random.default_rng(seed), target.asked
    held = np.arange(len(X)) % HELD_OUT == HELD_OUT - 1
    tiled = np.tile(X[~held], (COPIES, 1))
    low, high = X.min(axis=0), X.max(axis=0)
    noisy = tiled + noise * (high - low) * rng.standard_normal(tiled.shape)
    learned = np.vstack([X[~held], np.clip(noisy, low, high)]).astype(X.dtype)
    said = target.classes[target.decide(learned)]
    counts = np.unique(said, return_counts=True)[1]
    if len(counts) < 2:
        raise ValueError(f"the model says {said[0]} of all {len(said):,} rows: there is nothing to steal.")  # fmt: skip
    if learner is None:
        from lemmata.nets.mlp.estimators import MLPClassifier

        stops = bool(counts.min() > 1)  # a class met once cannot be held out
        learner = MLPClassifier((128,), max_iter=60, early_stopping=stops, random_state=seed)
    copy = learner.fit(learned, said)
    same = copy.predict(X[held]) == target.classes[target.decide(X[held])]
    interval = clopper_pearson(int(same.sum()), len(same))
    return StolenModel(copy, float(same.mean()), interval, target.asked - before)


def attack_by_transfer(
    target: Target, X: Array, y: Array, ball: Perturbations, pool: Array, *, surrogate: Any = None,
    steps: int = 50, rng: int = 0,
) -> Strongest:  # fmt: skip
    """Climb on a surrogate, to the end and not only until it is fooled, and ask the target about what was found.

    pool : rows to learn a surrogate from, where none is given
    """
    best = Strongest(X, y)
    if surrogate is None:
        if len(pool) < 2 * HELD_OUT or len(set(target.decide(pool).tolist())) < 2:
            return best  # nothing to learn from
        surrogate = _steal(target, pool, None, 0.1, rng).model
    elif hasattr(surrogate, "get_params"):
        check_is_fitted(surrogate)
    flat = hasattr(surrogate, "n_features_in_") and not hasattr(surrogate, "input_shape_")
    stand_in = read_target(surrogate, X, X.shape[1:] if flat else target.shape)
    place = {one: at for at, one in enumerate(stand_in.classes.tolist())}
    labels = np.array([place.get(one, -1) for one in target.classes[y].tolist()])
    at = np.flatnonzero(labels >= 0)
    if not stand_in.white:
        raise ValueError(f"the surrogate, a {type(surrogate).__name__}, gives no gradients: pass another.")  # fmt: skip
    with stand_in.ready():
        for on in TOWARD:
            found = pgd(stand_in, X[at], labels[at], ball, steps=steps, on=on, rng=rng, rest=False)
            best.offer(at, found.rows, target.scores(found.rows))
    return best
