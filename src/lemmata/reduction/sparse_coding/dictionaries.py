"""Dictionaries that are not learned: cosines, Haar's wavelets, random directions; and the coherence of atoms.

    μ(D) = max_{i≠j} |d_iᵀd_j| / ‖d_i‖‖d_j‖            mutual coherence: 0 for a basis, at least √((k−d)/(d(k−1))) for k > d
    atoms

A code of s < ½(1 + 1/μ) atoms that gives a row exactly is the only one so short (Donoho & Elad 2003), and OMP finds it
(Tropp 2004).

    >>> round(coherence(dct_dictionary(16)), 12), round(coherence(dct_dictionary(16, 32)), 2)
    (0.0, 0.98)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

Array = np.ndarray
NAMED = ("dct", "haar")


def random_dictionary(
    n_features: int, n_components: int, *, random_state: Any = None, dtype: Any = np.float64
) -> Array:
    """Atoms (n_components, n_features) of unit length and random direction."""
    _check_sizes(n_features, n_components)
    D = check_random_state(random_state).normal(size=(n_components, n_features))
    return (D / np.linalg.norm(D, axis=1, keepdims=True)).astype(dtype)


def dct_dictionary(
    n_features: int | tuple[int, int], n_components: int | None = None, *, dtype: Any = np.float64
) -> Array:
    """Cosines of rising frequency, (n_components, n_features), of unit length; all except the constant have mean 0.

    With as many atoms as features this is the orthonormal DCT-II; with more, frequencies lie closer together. A pair (height,
    width) gives pictures: products of cosines along both sides, with √n_components frequencies (rounded up) each.
    """
    if isinstance(n_features, tuple):
        height, width = n_features
        wanted = height * width if n_components is None else n_components
        _check_sizes(height * width, wanted)
        if wanted == height * width:
            return np.kron(dct_dictionary(height), dct_dictionary(width)).astype(dtype)
        each = int(np.ceil(np.sqrt(wanted)))
        D = np.kron(dct_dictionary(height, each), dct_dictionary(width, each))
        order = np.argsort(np.add.outer(np.arange(each), np.arange(each)).ravel(), kind="stable")
        return D[np.sort(order[:wanted])].astype(dtype)
    k = n_features if n_components is None else n_components
    _check_sizes(n_features, k)
    D = np.cos(np.pi / k * np.outer(np.arange(k), np.arange(n_features) + 0.5))
    if k != n_features and n_features > 1:
        D[1:] -= D[1:].mean(axis=1, keepdims=True)
    return (D / np.linalg.norm(D, axis=1, keepdims=True)).astype(dtype)


def haar_dictionary(n_features: int, *, dtype: Any = np.float64) -> Array:
    """Haar's orthonormal basis, (n_features, n_features): the mean, then differences of halves, of quarters, …

    Of any number of features: halves that cannot be equal differ by one, and are weighed so that atoms stay orthonormal.
    """
    _check_sizes(n_features, n_features)
    atoms, parts = [np.full(n_features, n_features**-0.5)], [(0, n_features)]
    while parts:
        halves = []
        for start, stop in parts:
            middle = (start + stop) // 2
            left, right = middle - start, stop - middle
            if left == 0:
                continue
            atom = np.zeros(n_features)
            atom[start:middle], atom[middle:stop] = 1 / left, -1 / right
            atoms.append(atom / np.linalg.norm(atom))
            halves += [(start, middle), (middle, stop)]
        parts = halves
    return np.array(atoms, dtype=dtype)


def named_dictionary(name: str, n_features: int, dtype: Any) -> Array:
    """The orthonormal basis of this name."""
    make = {"dct": dct_dictionary, "haar": haar_dictionary}[name]
    return make(n_features, dtype=dtype)


def coherence(D: Any) -> float:
    """μ(D): the largest |cosine| of the angle between two atoms (rows of D); 0 of a single one."""
    D = np.asarray(D, dtype=np.float64)
    if D.ndim != 2 or len(D) == 0:
        raise ValueError(f"a dictionary of shape {D.shape}; pass atoms as rows, at least one.")
    scale = np.abs(D).max(axis=1, keepdims=True)
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        raise ValueError("an atom is zero or not finite: it has no direction; leave it out.")
    D = D / scale
    D = D / np.linalg.norm(D, axis=1, keepdims=True)
    G = np.abs(D @ D.T)
    np.fill_diagonal(G, 0)
    return float(min(G.max(), 1.0))


def _check_sizes(n_features: int, n_components: int) -> None:
    if n_features < 1 or n_components < 1:
        raise ValueError(
            f"{n_components} atoms of {n_features} features; pass at least one of each."
        )
