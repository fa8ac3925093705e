"""Kernel PCA whose eigenvectors are known: by LAPACK on the centred kernel matrix, or by the law that the rows come from."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
from sklearn.decomposition import KernelPCA as SklearnKernelPCA

import lemmata
from lemmata import KernelPCA
from lemmata.predict.kernels import RBF, Linear, Polynomial
from truth.harness import Case, problems


def blobs(n: int, seed: int) -> np.ndarray:
    """Three clusters of different size and distance, so that the first two kernel axes stand apart."""
    rng = np.random.default_rng(seed)
    centres = np.zeros((3, 4))
    centres[1, 0], centres[2, 1] = 6, 9
    return centres[rng.choice(3, size=n, p=[0.5, 0.3, 0.2])] + 0.7 * rng.standard_normal((n, 4))


def gram(kernel: str, X: np.ndarray, gamma: float) -> np.ndarray:
    X = X.astype(np.float64)
    if kernel == "linear":
        return X @ X.T
    if kernel == "poly":
        return (gamma * X @ X.T + 1) ** 3
    return np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))


def oracle(model, X, kernel: str, gamma: float) -> dict[str, bool]:
    """What is true of a fit without weights, from all eigenvectors of its centred kernel matrix."""
    K = gram(kernel, X / np.abs(X).max() if kernel == "linear" else X, gamma)
    H = np.eye(len(K)) - 1 / len(K)
    values, vectors = np.linalg.eigh(H @ K @ H)
    values, vectors = values[::-1], vectors[:, ::-1]
    A = np.asarray(model.eigenvectors_, dtype=np.float64)
    k = A.shape[1]
    cosines = np.abs(np.sum(vectors[:, :k] * A, axis=0)) / np.linalg.norm(A, axis=0)
    root = vectors * np.sqrt(np.maximum(values, 0))  # rows: features
    span = np.linalg.qr(root.T @ A)[0]
    error = np.sum((root - (root @ span) @ span.T) ** 2)
    stated = np.asarray(model.eigenvalues_, dtype=np.float64)
    scale = float(np.abs(X).max()) if kernel == "linear" else 1.0
    stated = stated / scale / scale
    A0 = A - A.mean(axis=0)
    off = np.linalg.norm(H @ K @ A0 - stated * A, axis=0) / (stated * np.linalg.norm(A, axis=0))
    # of more than 200 rows some are drawn, which near the bound are not all of them
    near = len(K) > 200 and 0.005 < off.max() < 0.02
    return {
        **({} if near else {"eigenvectors_solved": bool(off.max() <= 0.01)}),
        "principal_axes": bool(cosines.min() >= np.cos(np.radians(1.0))),
        "most_variance": bool(error <= 1.01 * values[k:].sum()),
    }


def tampered(model, **changes):
    model = copy.deepcopy(model)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def broken_ones(model, X, more) -> Iterator[tuple[str, object, dict[str, bool]]]:
    """Fits with one thing wrong; `more` has an axis further."""
    c = np.sqrt(0.5)
    A, values = model.eigenvectors_, model.eigenvalues_
    sound = {"attributes_sound": True}
    false = {**sound, "statements_true": False}
    turned = (A @ np.array([[c, -c], [c, c]])).astype(A.dtype)
    yield "as it is", model, {**sound, "statements_true": True, "uncorrelated": True}
    yield "turned by 45°", tampered(model, eigenvectors_=turned), {**false, "uncorrelated": False}
    yield (
        "swapped",
        tampered(model, eigenvectors_=A[:, ::-1].copy()),
        {**false, "uncorrelated": False},
    )
    later = {"eigenvectors_": more.eigenvectors_[:, 1:], "eigenvalues_": more.eigenvalues_[1:]}
    if hasattr(more, "offset_"):
        later["offset_"] = more.offset_[1:]
    yield (
        "the first left out",
        tampered(model, **later),
        {**sound, "statements_true": True, "uncorrelated": True},
    )
    wrong = values * np.array([1, 0.95], values.dtype)
    yield (
        "an eigenvalue 5 % low",
        tampered(model, eigenvalues_=wrong),
        {**false, "uncorrelated": False},
    )
    yield "stretched", tampered(model, eigenvectors_=A * A.dtype.type(1.01)), false
    yield (
        "other rows kept",
        tampered(model, X_fit_=np.ascontiguousarray(model.X_fit_[::-1])),
        {**false, "uncorrelated": False},
    )
    unsound = {"attributes_sound": False}
    yield "a NaN", tampered(model, eigenvalues_=values * np.nan), unsound
    yield "negative", tampered(model, eigenvalues_=-values), unsound
    yield "a row too few", tampered(model, X_fit_=model.X_fit_[1:]), unsound


CASES = (("rbf", 0.05, 1.0), ("linear", 0.25, 1e140), ("linear", 0.25, 1e-150), ("poly", 0.01, 1.0))


@problems(seeds=24, quick=1)
def fits(seed):
    """Both libraries, three kernels, both float types, scales of 1e±140; healthy and tampered with."""
    kernel, gamma, size = CASES[seed % 4]
    single = seed % 3 == 2 and size == 1.0
    X = (blobs(110, seed) * size).astype(np.float32 if single else np.float64)
    settings = {"kernel": kernel, "gamma": gamma, "eigen_solver": "dense"}
    cls = [KernelPCA, SklearnKernelPCA][seed // 4 % 2]
    model, more = (cls(k, **settings).fit(X) for k in (2, 3))
    for label, one, truths in broken_ones(model, X, more):
        if truths["attributes_sound"]:
            truths = {**truths, **oracle(one, X, kernel, gamma)}
        yield Case(label, lemmata.certify(one, X), truths, easy=truths)


@problems(seeds=8, quick=1)
def loose_solvers(seed):
    """Lanczos and ARPACK with a loose tolerance or few steps, against LAPACK; above and below the size where LAPACK checks."""
    n = [150, 450][seed % 2]
    X = np.random.default_rng(seed).standard_normal((n, 6)) * [3, 2.6, 2.2, 1.9, 1.6, 1.3]
    for tol in (0.0, 1e-3, 0.5):
        settings = {"kernel": "rbf", "gamma": 0.02, "tol": tol, "random_state": seed}
        models = {
            "ours": KernelPCA(3, eigen_solver="lanczos", **settings),
            "ARPACK": SklearnKernelPCA(3, eigen_solver="arpack", **settings),
        }
        for label, model in models.items():
            found = lemmata.certify(model.fit(X), X, seconds=20)
            yield Case(f"{label}, tol {tol:g}", found, oracle(model, X, "rbf", 0.02))


@problems(seeds=12, quick=1)
def kernels(seed):
    """Kernels that see each row alone, that are no kernels, that leave nothing; and kernels made of parts."""
    X = blobs(80, seed)
    yes = ("informative", "above_rounding", "positive_semidefinite")
    model = KernelPCA(2, kernel=0.5 * RBF(0.05) + Linear() * 0.1).fit(X)
    axes = ("principal_axes", "most_variance", "eigenvectors_solved")
    truths = dict.fromkeys((*yes, "statements_true", *axes), True)
    yield Case("a sum", model.certify(X), truths, easy=truths)
    model = KernelPCA(2, kernel=Polynomial(2, gamma=0.1), fit_inverse_transform=True).fit(X)
    yield Case("pre-images", model.certify(X), truths, easy=truths)
    wrong = tampered(model, dual_coef_=model.dual_coef_ * 1.01)
    yield Case("other pre-images", wrong.certify(X), {"statements_true": False})
    wrong = tampered(model, gamma_=model.gamma_ * 1.01)
    yield Case("another gamma", wrong.certify(X), {"statements_true": False})
    wrong = tampered(model, offset_=model.offset_ + 0.1 * np.abs(model.offset_).max() + 0.1)
    yield Case("another offset", wrong.certify(X), {"statements_true": False})
    alone = SklearnKernelPCA(2, kernel="rbf", gamma=50.0).fit(X)
    yield Case(
        "each row alone", lemmata.certify(alone, X), {"informative": False}, easy=("informative",)
    )
    cls = [KernelPCA, SklearnKernelPCA][seed % 2]
    negative = cls(2, kernel="poly", degree=2, coef0=-5, gamma=1.0).fit(X)
    yield Case("no kernel", lemmata.certify(negative, X), {"positive_semidefinite": False},
               easy=("positive_semidefinite",))  # fmt: skip
    flat = cls(3).fit(X[:, :2])
    yield Case("a direction too many", lemmata.certify(flat, X[:, :2]), {"above_rounding": False},
               easy=("above_rounding",))  # fmt: skip
    weights = np.random.default_rng(seed).integers(0, 4, 80) + 0.25
    model = KernelPCA(2, kernel="rbf", gamma=0.05).fit(X, sample_weight=weights)
    truths = dict.fromkeys((*truths, "uncorrelated"), True)
    for unit in (1.0, 1e-3):
        again = KernelPCA(2, kernel="rbf", gamma=0.05).fit(X, sample_weight=weights * unit)
        yield Case("weights", again.certify(X, sample_weight=weights * unit), truths, easy=truths)
    no = dict.fromkeys(("statements_true", "eigenvectors_solved"), False)
    yield Case("weights forgotten", model.certify(X), no, easy=no)


@problems(seeds=20, quick=1)
def gaps(seed):
    """Laws with a gap after k in feature space and without one; light and heavy tails."""
    rng = np.random.default_rng(seed)
    name = "subspace_determined"
    rows = rng.standard_normal((250, 5)) * [4, 3, 1, 0.7, 0.5]
    yield Case("a gap", lemmata.certify(KernelPCA(2).fit(rows), rows), {name: True}, easy=(name,))
    rows = blobs(200, seed)
    model = SklearnKernelPCA(2, kernel="rbf", gamma=0.05).fit(rows)
    yield Case("clusters", lemmata.certify(model, rows), {name: True}, easy=(name,))
    rows = rng.standard_normal((200, 8))
    yield Case("round", lemmata.certify(KernelPCA(3).fit(rows), rows), {name: False})
    yield Case(
        "round, rbf",
        lemmata.certify(KernelPCA(3, kernel="rbf", gamma=0.1).fit(rows), rows),
        {name: False},
    )
    rows = rng.standard_t(2.2, (300, 2))
    yield Case("heavy tails", lemmata.certify(KernelPCA(1).fit(rows), rows), {name: False})
    rows = rng.standard_normal((30, 60))
    yield Case("nothing left", lemmata.certify(KernelPCA(29).fit(rows), rows), {name: False})
