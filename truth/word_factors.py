"""Word vectors from log-counts. Truth: objective, slopes and what biases leave, by dense matrices; altered models."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.runs.trace import Trace
from lemmata.embedding import CoOccurrence, GloVe
from lemmata.text.words import Vocabulary
from truth.harness import Case, problems


def planted(seed: int, v: int = 40, k: int = 3, strength: float = 0.8) -> CoOccurrence:
    """Counts e^(μ + b_w + c_v + ⟨ζ_w, z_v⟩ + noise) of half of all pairs; strength 0: biases and noise alone."""
    rng = np.random.default_rng(seed)
    U, V = (rng.standard_normal((v, k)) for _ in range(2))
    x = 2 + rng.standard_normal(v)[:, None] + rng.standard_normal(v) + strength * U @ V.T
    N = np.exp(x + 0.2 * rng.standard_normal((v, v))) * (rng.random((v, v)) < 0.5)
    N[np.arange(v), (np.arange(v) + 1) % v] += 1.0  # no word without a pair
    words = Vocabulary(np.array([f"w{i}" for i in range(v)]), np.sort(rng.integers(5, 99, v))[::-1])
    return CoOccurrence(words, sp.csr_array(N), 5, "harmonic", True)


def altered(model: GloVe, **changes: Any) -> GloVe:
    other = deepcopy(model)
    for name, value in changes.items():
        setattr(other, name, value)
    return other


def with_vectors(model: GloVe, U: np.ndarray, V: np.ndarray) -> GloVe:
    """Other vectors, of which everything is stated truly."""
    U, V = U.astype(np.float32), V.astype(np.float32)
    other = altered(model, word_embedding_=U, context_embedding_=V, embedding_=U + V)
    return other


# --- by dense matrices ------------------------------------------------------------------------------------------------


def dense(model: GloVe, pairs: CoOccurrence) -> tuple[np.ndarray, ...]:
    """N, f and the residual e of every pair; f and e are 0 where none occurs."""
    N = pairs.matrix.toarray()
    f = np.where(N > 0, np.minimum(1, (N / model.x_max) ** model.alpha), 0)
    U, V = model.word_embedding_.astype(float), model.context_embedding_.astype(float)
    b, c = model.biases_.astype(float), model.context_biases_.astype(float)
    x = np.log(np.where(N > 0, N, 1))
    return N, f, np.where(N > 0, x - model.mean_ - b[:, None] - c - U @ V.T, 0)


def bands_left(model: GloVe, pairs: CoOccurrence) -> float:
    """The largest share, in per cent, that is left of what biases leave, over decades with fifty pairs and more."""
    N, f, e = dense(model, pairs)
    i, j = np.nonzero(N)
    v, root = len(N), np.sqrt(f[i, j])
    X = np.zeros((len(i), 2 * v))
    X[np.arange(len(i)), i] = X[np.arange(len(i)), v + j] = 1
    x = np.log(N[i, j])
    best = np.linalg.lstsq(root[:, None] * X, root * (x - model.mean_), rcond=None)[0]
    alone = x - model.mean_ - X @ best
    decade, shares, waiting = np.floor(np.log10(N[i, j])), [], np.zeros(len(i), bool)
    for d in np.unique(decade)[::-1]:
        waiting = waiting | (decade == d)
        if waiting.sum() >= 50:
            mine, theirs = (root[waiting] @ (root * y**2)[waiting] for y in (e[i, j], alone))
            shares.append(100 * np.sqrt(mine / theirs))
            waiting = np.zeros(len(i), bool)
    return max(shares)


def steepest(model: GloVe, pairs: CoOccurrence) -> float:
    """The largest of ‖∇‖ over the lengths of its terms, over ζ, z, b and c."""
    _, f, e = dense(model, pairs)
    U, V = model.word_embedding_.astype(float), model.context_embedding_.astype(float)
    b, c = model.biases_.astype(float), model.context_biases_.astype(float)
    N = pairs.matrix.toarray()
    target = f * np.where(N > 0, np.log(np.where(N > 0, N, 1)) - model.mean_, 0)
    fitted, reg = target - f * e, model.reg_
    found = []
    for own, other, turn in ((U, V, False), (V, U, True), (b, None, False), (c, None, True)):
        A, X = (M.T if turn else M for M in (target, fitted))
        parts = (A.sum(1), X.sum(1)) if other is None else (A @ other, X @ other)
        terms = (*parts, reg * own)
        gradient = terms[1] + terms[2] - terms[0]
        size = sum(np.linalg.norm(term) for term in terms)
        found.append(np.linalg.norm(gradient) / size if size > 0 else 0.0)
    return max(found)


# --- the cases --------------------------------------------------------------------------------------------------------


@problems(seeds=20, quick=1)
def fits_and_altered_fits(seed: int) -> Iterator[Case]:
    pairs = planted(seed)
    solver = ("adagrad", "als", "sgd")[seed % 3]
    model = GloVe(3, solver=solver, epochs=10, random_state=seed).fit(pairs)
    sound = {"attributes_sound": True, "statements_true": True}
    yield Case("fitted", model.certify(pairs), sound, tuple(sound))
    counts, U = model.counts_.copy(), model.word_embedding_.copy()
    counts[seed % 40] += 1
    U[0, 0] = (np.nan, np.inf)[seed % 2]
    false = {"statements_true": False}
    for label, changes in (
        ("a loss 1 % off", {"loss_": 1.01 * model.loss_}),
        ("a word miscounted", {"counts_": counts}),
        ("another mean", {"mean_": model.mean_ + 0.05}),
        ("vectors that are not the sum", {"embedding_": model.word_embedding_}),
        ("the objective of another f", {"alpha": 0.5}),
    ):
        yield Case(label, altered(model, **changes).certify(pairs), false, tuple(false))
    yield Case("other counts", model.certify(planted(seed + 1000)), false, tuple(false))
    false = {"attributes_sound": False}
    for label, changes in (
        ("a number that is none", {"word_embedding_": U}),
        ("vectors of two sizes", {"context_embedding_": model.context_embedding_[:, 1:]}),
    ):
        yield Case(label, altered(model, **changes).certify(pairs), false, tuple(false))


@problems(seeds=20, quick=1)
def runs_that_fell_and_rose(seed: int) -> Iterator[Case]:
    rng, pairs = np.random.default_rng(seed), planted(seed)
    falling = np.sort(rng.uniform(1.5, 4.2, 6))[::-1]
    at = int(rng.integers(1, 6))
    for solver, claim, rise in (("adagrad", "loss_fell", 0.05), ("als", "never_rose", 0.001)):
        model = GloVe(3, solver=solver, epochs=5, random_state=seed).fit(pairs)
        fell = bool((np.diff(model.trace_.objective) <= 0).all())
        if fell:
            yield Case(f"{solver} itself", model.certify(pairs), {claim: True}, (claim,))
        rising = np.insert(falling, at, falling[at - 1] + rise * falling[0])
        for label, losses, true in (("fell", falling, True), ("rose once", rising, False)):
            trace = Trace()
            for loss in losses.tolist():
                trace.append(loss, 0.0)
            found = altered(model, trace_=trace).certify(pairs)
            yield Case(f"{solver} {label}", found, {claim: true}, (claim,))


@problems(seeds=20, quick=1)
def bands_with_and_without_vectors(seed: int) -> Iterator[Case]:
    rng, claim = np.random.default_rng(seed), "bands_explained"
    for label, strength, parameters in (
        ("structure, by steps", 0.8, {"epochs": 100, "learning_rate": 0.3}),
        ("structure, by least squares", 0.8, {"solver": "als", "epochs": 30}),
        ("nothing but biases and noise, one number", 0.0, {"vector_size": 1, "epochs": 3}),
        ("rare pairs neglected", 0.8, {"solver": "als", "epochs": 30, "alpha": 6.0, "x_max": 1e3}),
    ):
        pairs = planted(seed, strength=strength)
        model = GloVe(**{"vector_size": 3, "random_state": seed, **parameters}).fit(pairs)
        true = bands_left(model, pairs) <= 95
        yield Case(label, model.certify(pairs), {claim: true}, (claim,))
    shape = model.word_embedding_.shape
    for label, size in (("no vectors", 0.0), ("vectors drawn at random", 0.7)):
        U, V = (size * rng.standard_normal(shape) for _ in range(2))
        drawn = with_vectors(model, U, V)
        true = bands_left(drawn, pairs) <= 95
        yield Case(label, drawn.certify(pairs), {claim: true}, (claim,))


@problems(seeds=20, quick=1)
def least_squares_settled_and_not(seed: int) -> Iterator[Case]:
    claim, pairs = "first_order_point", planted(seed)
    for epochs in (1, 3, 300):
        model = GloVe(3, solver="als", epochs=epochs, random_state=seed).fit(pairs)
        true = steepest(model, pairs) <= 2e-3
        yield Case(f"{epochs} sweeps", model.certify(pairs), {claim: true}, (claim,))
    U, V = model.word_embedding_, model.context_embedding_
    for label, other in (
        ("words 5 % longer", with_vectors(model, 1.05 * U, V)),
        ("all vectors zero", with_vectors(model, 0 * U, 0 * V)),
        ("a bias moved", altered(model, biases_=model.biases_ + 0.1)),
    ):
        true = steepest(other, pairs) <= 2e-3
        yield Case(label, other.certify(pairs), {claim: true}, (claim,))
