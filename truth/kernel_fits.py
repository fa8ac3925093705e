"""Kernel ridge regressions and explicit features, whose truth LAPACK or construction tells."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge

import lemmata
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import PROVED, Fit
from lemmata.core.certification.checking import check
from lemmata.predict.kernels import RBF
from truth.harness import Case, problems


def tampered(model: Any, **changes: Any) -> Any:
    model = copy.deepcopy(model)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def curve(n: int, seed: int, outputs: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    shape = (n, outputs) if outputs else (n,)
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1]
    return X, (y[:, None] if outputs else y) + 0.2 * rng.standard_normal(shape)


def gram(model: Any, X: np.ndarray) -> np.ndarray:
    if model.kernel == "linear":
        return X @ X.T
    if model.kernel == "laplacian":
        return np.exp(-model.gamma * np.abs(X[:, None] - X[None]).sum(axis=2))
    return np.exp(-model.gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))


def excess(model: Any, X: np.ndarray, y: np.ndarray, s: np.ndarray) -> float:
    """P/min P − 1, the minimum by LAPACK."""
    K = gram(model, X)

    def value(c: np.ndarray) -> np.ndarray:
        misfit = y.reshape(len(y), -1) - K @ c
        return 0.5 * s @ misfit**2 + 0.5 * model.alpha * np.sum(c * (K @ c), axis=0)

    best = np.linalg.solve(K + model.alpha * np.diag(1 / s), y.reshape(len(y), -1))
    return float((value(model.dual_coef_.reshape(len(y), -1)) / value(best)).max() - 1)


@problems(seeds=30, quick=2)
def ridges(seed):
    """Three kernels, weights, two targets; healthy and tampered with; α from well to ill conditioned."""
    outputs = 2 if seed % 4 == 3 else 0
    X, y = curve(80, seed, outputs)
    weights = np.random.default_rng(seed).uniform(0.5, 2, 80) if seed % 3 == 1 else None
    s = np.ones(80) if weights is None else weights
    kernel = ("rbf", "linear", "laplacian")[seed % 3]
    settings = {"kernel": kernel, "gamma": 0.2, "alpha": (1.0, 0.01)[seed % 2]}
    ours = getattr(lemmata, "KernelRidge", None) if seed // 3 % 2 else None
    model = (ours or KernelRidge)(**settings).fit(X, y, sample_weight=weights)
    c = model.dual_coef_
    rng = np.random.default_rng(seed)
    broken = {
        "as it is": model,
        "scaled by 1.01": tampered(model, dual_coef_=1.01 * c),
        "scaled by 1.2": tampered(model, dual_coef_=1.2 * c),
        "noisy": tampered(model, dual_coef_=c + 0.05 * np.abs(c).max() * rng.standard_normal(c.shape)),
        "another alpha": tampered(model, alpha=5 * model.alpha),
    }  # fmt: skip
    for label, one in broken.items():
        truths = {
            "attributes_sound": True,
            "statements_true": True,
            "near_optimum": excess(one, X, y, s) <= 1e-4,
            "solves_system": label == "as it is",
            "well_conditioned": True,
            "mercer": True,
        }
        yield Case(label, lemmata.certify(one, X, y, sample_weight=weights), truths, easy=truths)
    unsound = tampered(
        model, dual_coef_=np.where(np.arange(c.size).reshape(c.shape) == 3, np.nan, c)
    )
    yield Case(
        "a NaN", lemmata.certify(unsound, X, y, sample_weight=weights), {"attributes_sound": False}
    )
    other = tampered(model, X_fit_=model.X_fit_[::-1].copy())
    yield Case(
        "other rows kept",
        lemmata.certify(other, X, y, sample_weight=weights),
        {"statements_true": False},
    )
    if ours:
        swapped = tampered(model, kernel_=RBF(3.0))
        no = {"statements_true": False, "solves_system": False}
        found = lemmata.certify(swapped, X, y, sample_weight=weights)
        yield Case("predicts by another kernel", found, no, easy=no)
    tiny = KernelRidge(kernel="rbf", gamma=0.01, alpha=1e-13).fit(X, y)
    yield Case(
        "no digits left",
        lemmata.certify(tiny, X, y),
        {"well_conditioned": False},
        easy=("well_conditioned",),
    )
    sigmoid = KernelRidge(kernel="sigmoid", gamma=1.0, coef0=-1.0, alpha=0.1).fit(X, y)
    yield Case("no kernel", lemmata.certify(sigmoid, X, y), {"mercer": False}, easy=("mercer",))


def features(X: np.ndarray, gamma: float) -> np.ndarray:
    return np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))


@problems(seeds=30, quick=1)
def maps(seed):
    """Landmarks few and many, cosines few and many; tampered with."""
    X, _ = curve(150, seed)
    K = features(X, 0.3)
    for count in (4, 10, 30, 100):
        model = Nystroem(gamma=0.3, n_components=count, random_state=seed).fit(X)
        Phi = model.transform(X)
        missed = np.trace(K - Phi @ Phi.T) / np.trace(K)
        truths = {"attributes_sound": True, "statements_true": True, "exact_on_landmarks": True}
        truths |= {"little_missed": bool(missed <= 0.1), "mercer": True}
        yield Case(f"{count} landmarks", lemmata.certify(model, X), truths, easy=truths)
    wrong = tampered(model, normalization_=1.01 * model.normalization_)
    yield Case("another normalisation", lemmata.certify(wrong, X), {"exact_on_landmarks": False})
    wrong = tampered(model, component_indices_=np.roll(model.component_indices_, 1))
    yield Case("other rows", lemmata.certify(wrong, X), {"statements_true": False})
    wrong = tampered(model, normalization_=model.normalization_[:-1])
    yield Case("a row too few", lemmata.certify(wrong, X), {"attributes_sound": False})
    for count in (20, 60, 400):
        model = RBFSampler(gamma=0.3, n_components=count, random_state=seed).fit(X)
        Phi = model.transform(X)
        near = np.sqrt(np.mean((Phi @ Phi.T - K) ** 2)) <= 0.1
        truths = {"attributes_sound": True, "statements_true": True, "near_kernel": bool(near)}
        yield Case(
            f"{count} cosines",
            lemmata.certify(model, X),
            {**truths, "right_frequencies": True},
            easy=truths,
        )
    wrong = tampered(model, random_weights_=1.5 * model.random_weights_)
    yield Case("other frequencies", lemmata.certify(wrong, X), {"right_frequencies": False})
    wrong = tampered(model, random_offset_=model.random_offset_ + 7)
    yield Case("other offsets", lemmata.certify(wrong, X), {"statements_true": False})
    wrong = tampered(model, random_offset_=model.random_offset_[1:])
    yield Case("an offset too few", lemmata.certify(wrong, X), {"attributes_sound": False})


@problems(seeds=12, quick=1)
def drawn_rows(seed):
    """Landmarks of more rows than `fit` has work for: the share that they miss is estimated from some of them."""
    X, _ = curve(30_000, seed)
    for count, gamma in ((64, 0.1), (96, 0.5), (96, 1.0), (64, 2.0)):
        model = lemmata.Nystroem(gamma=gamma, n_components=count, random_state=seed).fit(X)
        missed = 1 - np.square(model.transform(X)).sum(axis=1).mean()
        found = check(model.claims, Fit(model, Blocks.of(X)), "drawn", work=2e7)
        assert found["little_missed"].kind != PROVED
        easy = ("little_missed",) if abs(missed - 0.1) > 0.03 else ()
        yield Case(
            f"{count} landmarks, γ = {gamma}", found, {"little_missed": bool(missed <= 0.1)}, easy
        )
        wrong = tampered(model, normalization_=1.2 * model.normalization_)
        missed = np.abs(1 - np.square(wrong.transform(X)).sum(axis=1)).mean()
        found = check(wrong.claims, Fit(wrong, Blocks.of(X)), "stretched", work=2e7)
        yield Case("stretched", found, {"little_missed": bool(missed <= 0.1)})
