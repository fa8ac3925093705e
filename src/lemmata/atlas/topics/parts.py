"""Parts of faces (CIL 3.2.6): what NMF, vector quantisation and PCA find in the same photographs."""

from __future__ import annotations

from functools import cache

import numpy as np

from lemmata.atlas import entry, show
from lemmata.clustering.kmeans import KMeans
from lemmata.core.certification.pictures import BLUE, GREY, figure, image_grid
from lemmata.reduction.pca import PCA
from lemmata.topics.nmf.estimator import NMF

PARTS = 25


SIDE = 32  # pixels
WHAT = "photographs of faces"


@cache
def _ink() -> np.ndarray:
    """Faces as ink on paper, 0 is white; raises DataNotFound where there are no faces."""
    from lemmata.data import olivetti_faces

    faces = olivetti_faces().X.reshape(-1, 64, 64).astype(np.float64)
    small = faces.reshape(-1, SIDE, 2, SIDE, 2).mean(axis=(2, 4))
    return 1 - small.reshape(len(small), -1)


@cache
def _parts() -> NMF:
    return NMF(PARTS, max_iter=30, tol=0.0, random_state=0).fit(_ink())


def _sparsity(rows: np.ndarray) -> float:
    """Hoyer's measure, averaged: 0 if all entries are equally large, 1 if one of them has everything."""
    root = np.sqrt(rows.shape[1])
    shares = np.abs(rows).sum(axis=1) / np.linalg.norm(rows, axis=1)
    return float(((root - shares) / (root - 1)).mean())


@entry("parts-of-faces", "CIL Fig. 3.9")
def parts_of_faces():
    """NMF finds parts, clusters find whole faces, PCA finds differences.

    The same photographs by 25 components of NMF, 25 centres of k-means (vector quantisation) and 25 principal axes. Dark is
    ink; of the axes red adds and blue takes away. A component of NMF can only add, so it is blank where it has nothing to say.
    """
    X = _ink()
    found = {
        "NMF": _parts().components_,
        "vector quantisation": KMeans(PARTS, n_init=1, max_iter=30, random_state=0).fit(X).cluster_centers_,
        "PCA": PCA(PARTS).fit(X).components_,
    }  # fmt: skip
    drawing, axes = figure(1, 3, size=(3.6, 4.1))
    blank = {}
    for ax, (name, rows) in zip(axes, found.items(), strict=True):
        scaled = rows / np.abs(rows).max(axis=1, keepdims=True)
        image_grid(ax, scaled.reshape(-1, SIDE, SIDE), 5, signed=name == "PCA")
        blank[name] = float((np.abs(scaled) < 0.01).mean())
        negative = float((rows < 0).mean())
        ax.set_title(
            f"{name}\nblank {100 * blank[name]:.0f} %, negative {100 * negative:.0f} %,\nsparsity {_sparsity(rows):.2f}"
        )
    drawing.suptitle(f"{PARTS} components of {len(X)} {WHAT}", fontsize=11)
    nmf, centres, principal = found.values()
    seen = (nmf >= 0).all() and (centres >= 0).all()
    show(seen, "components of NMF and centres are never negative")
    seen = all((row < 0).any() and (row > 0).any() for row in principal[1:])
    show(seen, "every principal axis but the first has both signs")
    seen = blank["NMF"] > 3 * max(blank["vector quantisation"], blank["PCA"])
    show(seen, "components of NMF are blank at least three times as often as the others")
    seen = _sparsity(nmf) > _sparsity(principal) and _sparsity(nmf) > _sparsity(centres)
    show(seen, "components of NMF are the sparsest")
    return drawing


@entry("a-face-adds-up", "CIL Fig. 3.10")
def a_face_adds_up():
    """A face is parts times amounts, and ink is only ever added.

    One face, how much of each of the 25 parts it holds, and what they add up to, from the largest part on: with NMF no
    pixel ever loses ink; partial sums of PCA take away what was added before.
    """
    X = _ink()
    model, axes_of_data = _parts(), PCA(PARTS).fit(X)
    row = 7
    w = model.doc_topic_[row]
    pieces = w[:, None] * model.components_
    order = np.argsort(-pieces.sum(axis=1), kind="stable")
    sums = np.cumsum(pieces[order], axis=0)
    scores = axes_of_data.transform(X[row : row + 1])[0]
    other = axes_of_data.mean_ + np.cumsum(scores[:, None] * axes_of_data.components_, axis=0)
    drawing, axes = figure(1, 3, size=(4.0, 3.4), width_ratios=[1.1, 2.2, 1.5])
    steps = [0, 2, 5, 10, PARTS - 1]
    image_grid(axes[0], X[row].reshape(1, SIDE, SIDE), 1)
    axes[0].set_title(f"one of {len(X)} {WHAT}")
    shown = np.concatenate([sums[steps], other[steps]]).reshape(-1, SIDE, SIDE)
    names = [f"{step + 1} parts" for step in steps]
    image_grid(axes[1], np.clip(shown, 0, 1), len(steps), gap=4, names=names)
    axes[1].set_title("sums of NMF's parts (above) and of PCA's axes (below)\n")
    taken = [
        np.clip(-np.diff(each, axis=0), 0, None).sum(axis=1) / X[row].sum()
        for each in (sums, other)
    ]
    for values, colour, name in zip(taken, (BLUE, GREY), ("NMF", "PCA"), strict=True):
        axes[2].plot(np.arange(2, PARTS + 1), 100 * values, color=colour, marker=".", label=name)
    axes[2].set(xlabel="part that is added", ylabel="ink taken away, % of the face")
    axes[2].legend(fontsize=10)
    errors = np.linalg.norm(X[row] - sums, axis=1) / np.linalg.norm(X[row])
    show(bool((taken[0] == 0).all()), "a part of NMF never takes ink away")
    show(bool((taken[1] > 0).all()), "every principal axis takes some away")
    seen = bool(errors[-1] < 0.2 and errors[-1] < errors[0] / 2)
    show(seen, "the parts add up to the face, to a fifth")
    return drawing
