"""Sparse codes and dictionaries (CIL20 9, 10), drawn: atoms of a photograph, noise removed by them, and when codes are
found.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.decomposition import NMF

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, ORANGE, figure, image_grid
from lemmata.reduction.pca import PCA
from lemmata.reduction.sparse_coding import coherence, dct_dictionary
from lemmata.reduction.sparse_coding.learning import DictionaryLearning
from lemmata.reduction.sparse_coding.omp import pursue

SIDE = 8


def _photograph(size: int = 128) -> np.ndarray:
    """A grey part of the photograph of a temple that comes with scikit-learn, 0 to 1."""
    grey = load_sample_image("china.jpg").mean(axis=2) / 255
    return grey[120 : 120 + size, 200 : 200 + size]


def _patches(picture: np.ndarray, step: int = 1) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(picture, (SIDE, SIDE))[::step, ::step]
    return windows.reshape(-1, SIDE * SIDE).copy()


def _together(patches: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The picture whose overlapping patches these are: the mean of all that cover a pixel."""
    total, count = np.zeros(shape), np.zeros(shape)
    across = shape[1] - SIDE + 1
    squares = patches.reshape(-1, across, SIDE, SIDE)
    for i in range(SIDE):
        for j in range(SIDE):
            rows = slice(i, i + squares.shape[0])
            columns = slice(j, j + across)
            total[rows, columns] += squares[:, :, i, j]
            count[rows, columns] += 1
    return total / count


@entry("sparse-atoms", "CIL20 10")
def sparse_atoms():
    """Atoms of patches are strokes; principal axes are waves and NMF's parts are spots.

    Patches of 8 × 8 pixels of a photograph, coded by 64 atoms, 5 of them a patch (K-SVD), 64 principal axes, and 64 parts of
    non-negative factorisation. Red pixels weigh in with one sign, blue ones with the other. Shown are the 36 most used of each.
    """
    X = _patches(_photograph(), step=3)
    centred = X - X.mean(axis=1, keepdims=True)
    learnt = DictionaryLearning(
        64, method="ksvd", n_nonzero=5, max_iter=15, tol=0.0, random_state=0
    )
    learnt.fit(centred)
    Z = learnt.transform(centred)
    axes = PCA(36).fit(centred).components_
    parts = NMF(64, init="nndsvd", max_iter=40, tol=1e-2).fit(X)
    most_used = np.argsort(-np.count_nonzero(Z, axis=0), kind="stable")[:36]
    largest = np.argsort(-parts.components_.sum(axis=1), kind="stable")[:36]
    drawing, cells = figure(1, 3, size=(3.2, 3.4))
    shown = (learnt.components_[most_used], axes, parts.components_[largest])
    names = ("K-SVD: 5 of 64 atoms a patch", "principal axes", "NMF: parts")
    for cell, atoms, name in zip(cells, shown, names, strict=True):
        atoms = atoms / np.abs(atoms).max(axis=1, keepdims=True)
        image_grid(cell, atoms.reshape(-1, SIDE, SIDE), columns=6, signed=True, gap=1)
        cell.set_title(name)
    lost = float(np.square(centred - Z @ learnt.components_).sum() / np.square(centred).sum())
    kept = PCA(5).fit(centred)
    five = kept.inverse_transform(kept.transform(centred))
    by_axes = float(np.square(centred - five).sum() / np.square(centred).sum())
    seen = lost < 0.7 * by_axes
    show(seen, f"5 atoms a patch lose {lost:.1%} of the squares, 5 principal axes {by_axes:.1%}")
    show((parts.components_ >= 0).all(), "NMF's parts have no negative numbers")
    seen = np.abs(np.linalg.norm(learnt.components_, axis=1) - 1).max() < 1e-12
    show(seen, "atoms have unit length")
    return drawing


def _psnr(picture: np.ndarray, true: np.ndarray) -> float:
    return float(-10 * np.log10(np.square(picture - true).mean()))


@entry("sparse-denoising", "CIL20 10")
def sparse_denoising():
    """A dictionary learned from the noisy picture itself removes noise.

    A photograph with Gaussian noise of standard deviation 0.1, and what is left when every patch is replaced by the
    shortest code that reaches its noise level (OMP; error at most 1.15² · 64 · 0.1²): by cosines, and by atoms that K-SVD
    learned from the noisy patches. PSNR in decibels: 10 dB are a tenth of the mean squared error.
    """
    true, sigma = _photograph(96), 0.1
    noisy = true + sigma * np.random.default_rng(0).normal(size=true.shape)
    X = _patches(noisy)
    means = X.mean(axis=1, keepdims=True)
    enough = (1.15 * SIDE * sigma) ** 2
    cosines = dct_dictionary((SIDE, SIDE), 121)
    learnt = DictionaryLearning(
        121, method="ksvd", n_nonzero=3, max_iter=6, tol=0.0, random_state=0, dict_init=_without_constant(cosines)
    ).fit((X - means)[::2])  # fmt: skip
    pictures = {"noisy": noisy}
    for name, D in (("cosines", cosines), ("learnt atoms", learnt.components_)):
        Z = pursue(X - means, D, 10, target=enough).dense(len(D))
        pictures[name] = _together(Z @ D + means, true.shape)
    drawing, cells = figure(1, 4, size=(2.6, 3.0))
    levels = {name: _psnr(picture, true) for name, picture in pictures.items()}
    for cell, (name, picture) in zip(cells, {"photograph": true, **pictures}.items(), strict=True):
        cell.imshow(picture, cmap="gray", vmin=0, vmax=1)
        level = f", {levels[name]:.1f} dB" if name in levels else ""
        cell.set_title(f"{name}{level}")
        cell.set_axis_off()
    show(levels["cosines"] > levels["noisy"] + 3, "codes of cosines gain over 3 dB")
    show(levels["learnt atoms"] > levels["noisy"] + 3, "codes of learnt atoms gain over 3 dB")
    show(levels["learnt atoms"] > levels["cosines"], "learnt atoms do better than cosines")
    return drawing


def _without_constant(D: np.ndarray) -> np.ndarray:
    """Rows of mean 0 need no constant atom: a chequered one stands in for it."""
    D = D.copy()
    D[0] = np.where(np.add.outer(np.arange(SIDE), np.arange(SIDE)).ravel() % 2, -1, 1) / SIDE
    return D


@entry("sparse-phase", "CIL20 9; Tropp 2004")
def sparse_phase():
    """OMP recovers far longer codes than coherence promises, until it suddenly does not.

    Planted codes of s atoms, out of 60 random ones, that OMP finds exactly in two dictionaries of 128 atoms with 64
    numbers each: spikes and cosines, and random directions. Dashed: the largest s for which ½(1 + 1/μ) guarantees it.
    Dotted: how often Tropp's condition holds for the planted support; there OMP cannot fail.
    """
    rng = np.random.default_rng(0)
    random = rng.normal(size=(128, 64))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    kinds = {
        "spikes and cosines": (np.concatenate([np.eye(64), dct_dictionary(64)]), BLUE, "o"),
        "random atoms": (random, ORANGE, "s"),
    }
    sizes = [1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48]
    drawing, ax = figure(size=(5.6, 3.6))
    for name, (D, colour, mark) in kinds.items():
        found, promised = [], []
        for s in sizes:
            Z = np.zeros((60, 128))
            for z in Z:
                z[rng.choice(128, s, replace=False)] = rng.normal(size=s)
            again = pursue(Z @ D, D, s).dense(128)
            exact = np.abs(again - Z).max(axis=1) < 1e-6
            tropp = np.array([_condition(D, np.flatnonzero(z)) < 1 for z in Z])
            seen = exact[tropp].all()
            show(seen, f"{name}, {s} atoms: where Tropp's condition holds, OMP found the code")
            found.append(exact.mean())
            promised.append(tropp.mean())
        bound = 0.5 * (1 + 1 / coherence(D))
        surely = int(np.ceil(bound) - 1)
        ax.plot(sizes, found, color=colour, marker=mark, label=f"{name}: found")
        ax.plot(sizes, promised, color=colour, ls=":", label="  Tropp's condition holds")
        ax.axvline(surely, color=colour, ls="--", lw=1, label=f"  coherence promises s ≤ {surely}")
        within = [share for s, share in zip(sizes, found, strict=True) if s <= surely]
        show(all(share == 1 for share in within), f"{name}: all codes within the bound are found")
        seen = found[-1] < 0.2 < 0.9 < found[4]
        show(seen, f"{name}: six atoms are mostly found, 48 are not")
    ax.set(xlabel="atoms s of the planted code", ylabel="share of codes", ylim=(-0.03, 1.05))
    ax.legend(loc="upper right")
    return drawing


def _condition(D: np.ndarray, S: np.ndarray) -> float:
    """max ‖D_S⁺d‖₁ over the other atoms."""
    rest = np.setdiff1d(np.arange(len(D)), S)
    return float(np.abs(np.linalg.lstsq(D[S].T, D[rest].T, rcond=None)[0]).sum(axis=0).max())
