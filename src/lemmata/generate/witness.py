"""Searches for the claims about samples: draws of a model, classifiers, and centres of modes. Judged and never believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lemmata.audit.kernel.claims import Fit
from lemmata.core.engine import config

Array = np.ndarray
SHAPES = 50  # principal components that a kernel looks at
LEARNED = 3000  # rows that a kernel machine learns from


def draw_rows(fit: Fit, count: int) -> tuple[Array, Array | None] | None:
    """Return flat rows that the model draws, and the places of their classes, by the shares that classes have."""
    model: Any = fit.model
    if getattr(model, "given", 0):
        return None  # it completes what is given, and draws nothing by itself
    classes = getattr(model, "classes_", None)
    if classes is None:
        return model.sample(count, random_state=0).reshape(count, -1), None
    shares = model.module_.shares.double().cpu().numpy()
    places = np.random.default_rng(count).choice(len(classes), count, p=shares / shares.sum())
    rows = model.sample(count, y=classes[places], random_state=0)
    return rows.reshape(count, -1), places


def tell_apart(fit: Fit, rows: Array, labels: Array) -> Callable[[Array], Array]:
    """Return a function that gives the probability of label 1: boosted trees or a kernel machine, by a quarter kept aside."""
    from sklearn.decomposition import PCA
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    order = np.random.default_rng(len(rows)).permutation(len(rows))
    aside, learn = np.split(order, [len(rows) // 4])
    d = min(SHAPES, rows.shape[1], len(learn))
    kernel = Nystroem(gamma=1 / d, n_components=min(300, len(learn)), random_state=0)
    scale = StandardScaler(), PCA(d), StandardScaler()
    smooth = make_pipeline(*scale, kernel, LogisticRegression(C=10))
    trees = HistGradientBoostingClassifier(max_iter=60, random_state=0)
    losses = [
        log_loss(
            labels[aside], model.fit(rows[learn], labels[learn]).predict_proba(rows[aside])[:, 1]
        )
        for model in (smooth, trees)
    ]
    best = (smooth, trees)[int(np.argmin(losses))].fit(rows, labels)
    return lambda others: best.predict_proba(others)[:, 1]


def sort_by_class(fit: Fit, rows: Array, classes: Array) -> Callable[[Array], Any]:
    """Return a function that gives the class of rows, by a kernel machine."""
    from lemmata.predict.svm.estimators import SVC

    some = np.random.default_rng(len(rows)).permutation(len(rows))[:LEARNED]
    with config(certificate=False):
        return SVC(C=10).fit(rows[some], classes[some]).predict


def mode_centres(fit: Fit, rows: Array, count: int) -> Array:
    """Return centres of `count` cells of the rows, by k-means."""
    from lemmata.clustering.kmeans import KMeans

    with config(certificate=False):
        return KMeans(count, random_state=0).fit(rows).cluster_centers_
