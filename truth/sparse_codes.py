"""Sparse codes and dictionaries. Truth: planted codes, brute force over supports, refits, and altered codes and atoms."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from itertools import combinations, product

import numpy as np
from sklearn.decomposition import DictionaryLearning as TheirDictionary
from sklearn.decomposition import MiniBatchDictionaryLearning as TheirBatches
from sklearn.decomposition import SparseCoder as TheirCoder
from sklearn.linear_model import Lasso, OrthogonalMatchingPursuit

import lemmata
from lemmata import DictionaryLearning, SparseCoder
from lemmata.audit.reduction.dictionaries import MORE_CLAIMS
from lemmata.core.runs.trace import Trace
from lemmata.reduction.sparse_coding import dct_dictionary, random_dictionary
from truth.harness import Case, problems

OTHER = 0.01  # of the code, as the claim says


class Altered(SparseCoder):
    """A coder whose codes are spoilt on the way out."""

    def __init__(self, dictionary="dct", **parameters):
        super().__init__(dictionary, **parameters)

    @classmethod
    def of(cls, coder: SparseCoder, spoil) -> Altered:
        made = cls.__new__(cls)
        made.__dict__.update(vars(coder))
        made.__dict__["_spoil"] = spoil
        return made

    def transform(self, X):
        return self.__dict__["_spoil"](super().transform(X))


def planted(seed: int, D: np.ndarray, s: int, n: int = 12, noise: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    Z = np.zeros((n, len(D)))
    for z in Z:
        z[rng.choice(len(D), s, replace=False)] = rng.uniform(0.5, 2, s) * rng.choice([-1, 1], s)
    return Z @ D + noise * rng.normal(size=(n, D.shape[1]))


def another_as_short(x: np.ndarray, z: np.ndarray, D: np.ndarray) -> bool:
    """Whether some code of as many atoms is as close and further than 1 % away: least squares on every support."""
    s, error = int(np.count_nonzero(z)), np.linalg.norm(x - z @ D)
    for S in map(list, combinations(range(len(D)), s)):
        w = np.zeros(len(D))
        w[S] = np.linalg.lstsq(D[S].T, x, rcond=None)[0]
        near = np.linalg.norm(x - w @ D) <= error * (1 + 1e-9) + 1e-13 * np.linalg.norm(x)
        if near and np.linalg.norm(w - z) > OTHER * np.linalg.norm(z):
            return True
        # a larger error than least squares leaves room for other numbers on the same atoms
        room = error**2 - np.linalg.norm(x - w @ D) ** 2
        if room > 0:
            values, vectors = np.linalg.eigh(D[S] @ D[S].T)
            for sign in (-1, 1):
                v = w.copy()
                v[S] += sign * np.sqrt(room / max(values[0], 1e-300)) * vectors[:, 0]
                if np.linalg.norm(v - z) > OTHER * np.linalg.norm(z):
                    return True
    return False


def misled(D: np.ndarray, supports) -> bool:
    """Whether for some signal on a support OMP's first atom is a wrong one: x with D_S x = ±1, all signs tried."""
    for S in supports:
        rest = np.setdiff1d(np.arange(len(D)), S)
        for signs in product((-1.0, 1.0), repeat=len(S)):
            x = np.linalg.lstsq(D[S], np.array(signs), rcond=None)[0]  # in the span of S
            if len(rest) and np.abs(D[rest] @ x).max() >= 1:
                return True
    return False


@problems(seeds=30, quick=1)
def unique_codes(seed: int) -> Iterator[Case]:
    """Few atoms, so that every support can be tried."""
    rng = np.random.default_rng(seed)
    bases = np.concatenate([np.eye(8), dct_dictionary(8)])
    few = random_dictionary(10, 12, random_state=seed)
    for label, D, s, noise in (
        ("one atom of two bases", bases, 1, 0.0),
        ("two atoms of two bases", bases, 2, 0.0),
        ("two of twelve random atoms", few, 2, 0.0),
        ("two of twelve, noise", few, 2, 0.1),
        ("half as many atoms as features", few, 5, 0.0),
    ):
        X = planted(seed, D, s, n=5, noise=noise)
        coder = SparseCoder(D, n_nonzero=s).fit(X)
        Z = coder.transform(X)
        truth = {
            "unique_sparsest": not any(
                another_as_short(x, z, D) for x, z in zip(X, Z, strict=True)
            ),
            "exact_recovery": not misled(D, [np.flatnonzero(z) for z in Z]),
            "fitted_on_support": True,
            "attributes_sound": True,
            "statements_true": True,
        }
        easy = [*list(truth)[1:]] + (["unique_sparsest"] if label.startswith("one") else [])
        yield Case(label, coder.certify(X, seconds=20), truth, easy)
    twins = np.concatenate([few, few[:1] + 1e-9 * rng.normal(size=(1, 10))])
    X = planted(seed, few[:1], 1, n=3)
    found = lemmata.certify(TheirCoder(twins, transform_n_nonzero_coefs=1), X, seconds=20)
    yield Case("an atom nearly twice", found, {"atoms_apart": False}, ("atoms_apart",))


@problems(seeds=25, quick=1)
def as_many_atoms_as_features(seed: int) -> Iterator[Case]:
    """Any d of the atoms give a row exactly: no code of d atoms is the only one."""
    D = random_dictionary(5, 9, random_state=seed)
    X = np.random.default_rng(seed).normal(size=(4, 5))
    coder = SparseCoder(D, n_nonzero=5).fit(X)
    truth = {"unique_sparsest": False, "exact_recovery": False}
    yield Case("five of nine in five dimensions", coder.certify(X, seconds=20), truth, tuple(truth))


@problems(seeds=25, quick=1)
def spoilt_codes(seed: int) -> Iterator[Case]:
    D = random_dictionary(12, 20, random_state=seed)
    X = planted(seed, D, 3, noise=0.2)
    coder = SparseCoder(D, n_nonzero=3).fit(X)
    healthy = {"fitted_on_support": True, "statements_true": True, "atoms_apart": True}
    yield Case("omp", coder.certify(X, seconds=20), healthy, tuple(healthy))
    share = float(np.random.default_rng(seed).uniform(0.01, 0.1))
    spoilt = Altered.of(coder, lambda Z: (1 + share) * Z)
    truth = {"fitted_on_support": False, "statements_true": False}
    yield Case("numbers too large", spoilt.certify(X, seconds=20), truth, tuple(truth))
    moved = Altered.of(coder, lambda Z: np.roll(Z, 1, axis=1))
    yield Case(
        "other atoms",
        moved.certify(X, seconds=20),
        {"statements_true": False},
        ("statements_true",),
    )
    theirs = lemmata.certify(TheirCoder(D, transform_n_nonzero_coefs=3), X, seconds=20)
    yield Case("scikit-learn's", theirs, {"fitted_on_support": True}, ("fitted_on_support",))


@problems(seeds=25, quick=1)
def penalised_codes(seed: int) -> Iterator[Case]:
    """Truth: how far the objective is above that of scikit-learn's Lasso, run to the end."""
    D = random_dictionary(12, 25, random_state=seed)
    X, alpha = planted(seed, D, 3, noise=0.1), 0.1

    def objective(Z):
        return 0.5 * ((X - Z @ D) ** 2).sum(axis=1) + alpha * np.abs(Z).sum(axis=1)

    model = Lasso(alpha=alpha / 12, fit_intercept=False, tol=1e-9, max_iter=100_000)
    least = objective(np.array([model.fit(D.T, x).coef_ for x in X]))
    for label, coder in (
        *((f"fista, {steps} steps", SparseCoder(D, method="fista", alpha=alpha, transform_max_iter=steps))
          for steps in (2, 5, 20, 2000)),
        ("coordinate descent", SparseCoder(D, method="lasso_cd", alpha=alpha)),
        ("lars", SparseCoder(D, method="lasso_lars", alpha=alpha)),
        ("scikit-learn's", TheirCoder(D, transform_algorithm="lasso_cd", transform_alpha=alpha)),
        ("another penalty", Altered.of(SparseCoder(D, method="fista", alpha=alpha).fit(X), lambda Z: 0.8 * Z)),
    ):  # fmt: skip
        fitted = coder.fit(X) if not hasattr(coder, "components_") else coder
        above = 2 * (objective(np.asarray(fitted.transform(X))) - least) / (X**2).sum(axis=1)
        if not 0.8e-3 < above.max() < 1.2e-3:
            truth = {"near_optimum": bool(above.max() <= 1e-3)}
            yield Case(label, lemmata.certify(fitted, X, seconds=20), truth, tuple(truth))


def about(model: DictionaryLearning, X: np.ndarray, claim: str, truth: bool, label: str) -> Case:
    """One claim about one model: a refit for every altered number would take long."""
    model = copy(model)
    chosen = tuple(
        one for one in (*model._claims(), *MORE_CLAIMS) if one.name in (claim, "attributes_sound")
    )
    model._claims = lambda: chosen
    return Case(label, model.certify(X, seconds=20), {claim: truth}, (claim,))


@problems(seeds=10, quick=1)
def learnt_dictionaries(seed: int) -> Iterator[Case]:
    D = random_dictionary(10, 14, random_state=seed)
    X = planted(seed, D, 2, n=200, noise=0.01)
    values = np.linalg.svd(X, compute_uv=False) ** 2
    settings = {"n_nonzero": 2, "random_state": seed, "max_iter": 20, "tol": 0.0}
    models = (
        DictionaryLearning(14, method="ksvd", **settings),
        DictionaryLearning(14, method="mod", **settings),
        TheirBatches(
            14,
            alpha=0.1,
            transform_n_nonzero_coefs=2,
            random_state=seed,
            max_iter=3,
            fit_algorithm="cd",
        ),
    )
    for model in models:
        model.fit(X)
        label = f"{type(model).__module__.split('.')[0]} {getattr(model, 'method', '')}"
        Z = model.transform(X)
        lost = ((X - Z @ model.components_) ** 2).sum()
        m = int(np.ceil(np.count_nonzero(Z) / len(X)))
        G = np.abs(model.components_ @ model.components_.T) - np.eye(14)
        lengths = np.linalg.norm(model.components_, axis=1)
        truth = {
            "beats_pca": bool(lost <= values[m:].sum()),
            "atoms_distinct": bool(G.max() <= 0.99 and (Z != 0).any(axis=0).all()),
            "atoms_normalised": bool(np.abs(lengths - 1).max() < 1e-12),
        }
        if label == "lemmata ksvd":
            truth["objective_never_rose"] = True
        yield Case(label, lemmata.certify(model, X, seconds=20), truth, tuple(truth))
    yield from _altered_dictionaries(models[0], X)


def _altered_dictionaries(model: DictionaryLearning, X: np.ndarray) -> Iterator[Case]:
    def changed(**attributes):
        other = copy(model)
        other.__dict__.update(attributes)
        return other

    D = model.components_
    twice, gone = D.copy(), D.copy()
    twice[1], gone[3] = D[0], 0
    rose = Trace()
    for loss in (3.0, 2.0, 2.001, 1.0):
        rose.append(loss, 0.0)
    longer = changed(components_=1.001 * D)
    yield about(longer, X, "atoms_normalised", False, "longer atoms")
    yield about(changed(components_=twice), X, "atoms_distinct", False, "an atom twice")
    yield about(changed(components_=gone), X, "attributes_sound", False, "a zero atom")
    yield about(changed(trace_=rose), X, "objective_never_rose", False, "a run that rose")
    flat = changed(components_=random_dictionary(10, 14, random_state=99))
    line = np.outer(X[:, 0], np.ones(10)) + 1e-3 * X
    lost = ((line - flat.transform(line) @ flat.components_) ** 2).sum()
    best = (np.linalg.svd(line, compute_uv=False) ** 2)[2:].sum()
    yield about(flat, line, "beats_pca", bool(lost <= best), "a line")
    noise = np.random.default_rng(0).normal(size=(60, 10))
    wild = DictionaryLearning(8, method="mod", n_nonzero=1, max_iter=1, tol=0.0, random_state=0)
    yield about(wild.fit(noise), noise, "atoms_repeatable", False, "atoms of noise")


@problems(seeds=4, quick=1)
def repeated_starts(seed: int) -> Iterator[Case]:
    """Orthogonal atoms, one a row: every start finds them."""
    D = np.linalg.qr(np.random.default_rng(seed).normal(size=(8, 8)))[0][:4]
    X = planted(seed, D, 1, n=200)
    model = DictionaryLearning(
        4, method="ksvd", n_nonzero=1, random_state=seed, max_iter=40, tol=0.0
    ).fit(X)
    again = model.__class__(**{**model.get_params(), "random_state": seed + 1}).fit(X)
    share = np.mean(np.abs(model.components_ @ again.components_.T).max(axis=1) > 0.9)
    if share in (1.0, 0.5, 0.25):
        truth = {"atoms_repeatable": bool(share == 1)}
        yield Case("orthogonal atoms", model.certify(X, seconds=20), truth, tuple(truth))
    theirs = TheirDictionary(4, alpha=0.1, max_iter=5, random_state=seed, fit_algorithm="cd").fit(X)
    found = lemmata.certify(theirs, X, seconds=20)
    yield Case("scikit-learn's", found, {"attributes_sound": True}, ("attributes_sound",))


@problems(seeds=25, quick=1)
def pursuits_of_scikit_learn(seed: int) -> Iterator[Case]:
    """OrthogonalMatchingPursuit: columns are atoms, y is the signal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 12))
    w = np.zeros(12)
    w[[2, 7]] = 1.0, -1.5
    y = X @ w + 3
    model = OrthogonalMatchingPursuit(n_nonzero_coefs=2).fit(X, y)
    A, b = X - X.mean(axis=0), y - y.mean()
    lengths = np.linalg.norm(A, axis=0)
    unique = not another_as_short(b, model.coef_ * lengths, A.T / lengths[:, None])
    truth = {"fitted_on_support": True, "unique_sparsest": unique}
    found = lemmata.certify(model, X, y, seconds=20)
    yield Case("two columns", found, truth, ("fitted_on_support",))
    model.coef_ = 1.05 * model.coef_
    truth = {"fitted_on_support": False}
    yield Case("too large", lemmata.certify(model, X, y, seconds=20), truth, tuple(truth))
