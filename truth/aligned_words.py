"""Two embeddings in one space. Truth: copies, turned, with noise; maps altered by hand; dictionaries that are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

import numpy as np
from scipy.linalg import orthogonal_procrustes

from lemmata.core.runs.trace import Trace
from lemmata.embedding import WordVectors, align
from truth.harness import Case, problems

RESULT = ("attributes_sound", "statements_true", "orthogonal_map", "no_better_rotation")
N, K = 300, 10


def sides(seed: int, noise: float, dtype=np.float64) -> tuple[WordVectors, WordVectors]:
    """Words i of both sides mean the same: the second is the first, turned, each with noise of its own."""
    rng = np.random.default_rng(seed)
    Z, Q = rng.normal(size=(N, K)), np.linalg.qr(rng.normal(size=(K, K)))[0]
    one, other = (Z + noise * rng.normal(size=Z.shape) for _ in range(2))
    words = ([f"{side}{i}" for i in range(N)] for side in "st")
    return WordVectors(next(words), one.astype(dtype)), WordVectors(
        next(words), (other @ Q).astype(dtype)
    )


def pairs(first: int, last: int, shift: int = 0) -> list[tuple[str, str]]:
    return [(f"s{i}", f"t{(i + shift) % N}") for i in range(first, last)]


def altered(model, **attributes):
    other = deepcopy(model)
    vars(other).update(attributes)
    return other


def gap_of(model) -> float:
    """1 − tr(WᵀM)/‖M‖_* by SciPy's own solution of the same pairs."""
    X, Y = (
        matrix[model.pairs_[:, side]].astype(float)
        for side, matrix in enumerate((model.source_matrix_, model.target_matrix_))
    )
    X, Y = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, Y))
    _, total = orthogonal_procrustes(X, Y)
    return float(1 - np.trace(model.rotation_.astype(float).T @ X.T @ Y) / total)


@problems(seeds=30, quick=2)
def fits_and_altered_maps(seed: int) -> Iterator[Case]:
    dtype, max_iter = (np.float64, np.float32)[seed % 2], (0, 10)[seed // 2 % 2]
    source, target = sides(seed, 0.2, dtype)
    model = align(source, target, pairs(0, 60), max_iter=max_iter)
    held_out = pairs(60, N)
    true = dict.fromkeys((*RESULT, "rotation_determined", "new_pairs_found"), True)
    yield Case("fitted", model.certify(held_out), true, tuple(true))

    rng, angle = np.random.default_rng(seed), (0.02, 0.3)[seed % 2]
    c, s = np.cos(angle), np.sin(angle)
    turn = np.eye(K)
    turn[:2, :2] = [[c, -s], [s, c]]
    turned = altered(model, rotation_=(model.rotation_ @ turn).astype(dtype))
    false = {"orthogonal_map": True, "no_better_rotation": False, "statements_true": False}
    assert gap_of(turned) > 1e-5
    yield Case("turned a little", turned.certify(held_out), false, tuple(false))

    scaled = altered(model, rotation_=model.rotation_ * dtype((1.01, 0.99)[seed % 2]))
    false = {"orthogonal_map": False}
    yield Case("scaled by 1 %", scaled.certify(held_out), false, tuple(false))

    least = np.linalg.lstsq(*(m.matrix[:60].astype(float) for m in (source, target)), rcond=None)[0]
    yield Case(
        "least squares",
        altered(model, rotation_=least.astype(dtype)).certify(held_out),
        false,
        tuple(false),
    )

    other = np.linalg.qr(rng.normal(size=(K, K)))[0].astype(dtype)
    false = {"no_better_rotation": False, "orthogonal_map": True, "new_pairs_found": False}
    yield Case(
        "drawn at random", altered(model, rotation_=other).certify(held_out), false, tuple(false)
    )

    wrong = altered(model, loss_=model.loss_ * 1.01 + 0.001)
    yield Case(
        "loss 1 % off", wrong.certify(held_out), {"statements_true": False}, ("statements_true",)
    )

    beyond = model.pairs_.copy()
    beyond[seed % len(beyond), seed % 2] = N
    broken = altered(model, pairs_=beyond)
    yield Case(
        "no such word", broken.certify(held_out), {"attributes_sound": False}, ("attributes_sound",)
    )


@problems(seeds=30, quick=2)
def dictionaries(seed: int) -> Iterator[Case]:
    """Too few pairs, pairs that mean nothing, pairs of which some are wrong, sides that have nothing to do with each other."""
    source, target = sides(seed, 0.3)
    held_out = pairs(100, N)
    few = align(source, target, pairs(0, K - 1 - seed % 3), max_iter=0)
    yield Case(
        "fewer than dimensions",
        few.certify(held_out),
        {"rotation_determined": False},
        ("rotation_determined",),
    )
    flat = WordVectors(source.words, source.matrix * (np.arange(K) < K - 1))
    model = align(flat, target, pairs(0, 80), max_iter=0)
    yield Case(
        "one direction missing",
        model.certify(held_out),
        {"rotation_determined": False},
        ("rotation_determined",),
    )
    shifted = align(source, target, pairs(0, 100, shift=7), max_iter=(0, 5)[seed % 2])
    truths = {"new_pairs_found": False, "orthogonal_map": True, "no_better_rotation": True}
    yield Case("all pairs wrong", shifted.certify(held_out), truths, tuple(truths))
    mixed = align(source, target, pairs(0, 60) + pairs(60, 80, shift=5), max_iter=5)
    yield Case(
        "a quarter wrong", mixed.certify(held_out), {"new_pairs_found": True}, ("new_pairs_found",)
    )
    stranger = sides(seed + 1000, 0.3)[1]
    nothing = align(source, stranger, pairs(0, 100), max_iter=0)
    yield Case(
        "strangers", nothing.certify(held_out), {"new_pairs_found": False}, ("new_pairs_found",)
    )
    # the truth of what comes next is measured on very many words
    rng = np.random.default_rng(seed)
    noise = float(rng.uniform(0.3, 3))
    one, other = sides(seed, noise)
    model = align(one, other, pairs(0, 100), max_iter=0)
    many = sides_population(seed, noise, model.rotation_)
    if abs(many - 0.9) > 0.01:
        yield Case(f"noise {noise:.2f}", model.certify(held_out), {"new_pairs_found": many >= 0.9})


def sides_population(seed: int, noise: float, W: np.ndarray) -> float:
    """The mean share that true words rank before, over very many new words of the same distribution."""
    Q = np.linalg.qr(_skipped(seed))[0]
    rng = np.random.default_rng(seed + 10**6)
    Z = rng.normal(size=(3000, K))
    one, other = (Z + noise * rng.normal(size=Z.shape) for _ in range(2))
    one, other = one @ W, other @ Q
    one, other = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (one, other))
    S = one @ other.T
    return float((np.diag(S)[:, None] > S).mean() * 3000 / 2999)


def _skipped(seed: int) -> np.ndarray:
    """The numbers that the rotation of `sides` is made of."""
    rng = np.random.default_rng(seed)
    rng.normal(size=(N, K))
    return rng.normal(size=(K, K))


@problems(seeds=20, quick=1)
def runs_that_fell_and_rose(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    source, target = sides(seed, 0.3)
    model = align(source, target, pairs(0, 15), max_iter=10)
    yield Case("as it ran", model.certify(), {"no_round_rose": True}, ())
    falling = np.sort(rng.uniform(0.1, 0.8, 5))[::-1].tolist()
    at = int(rng.integers(1, 5))
    rising = [*falling[:at], falling[at - 1] * 1.01, *falling[at:]]
    for label, losses, true in (("fell", falling, True), ("rose once by 1 %", rising, False)):
        planted = altered(model, trace_=Trace())
        for loss in losses:
            planted.trace_.append(loss, 0.0)
        yield Case(label, planted.certify(), {"no_round_rose": true}, ("no_round_rose",))
