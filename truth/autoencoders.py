"""Linear autoencoders whose optimum is known from an SVD of the rows: converged, hurried, tampered with."""

from __future__ import annotations

import copy
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lemmata import LinearAutoencoder
from truth.harness import Case, problems


def planted_rows(seed: int, n: int = 150, d: int = 10) -> np.ndarray:
    """Rows with falling deviations about an offset."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    deviations = np.array([8, 6.5, 5, 4, *np.linspace(1, 0.5, d - 4)])
    return (rng.standard_normal((n, d)) * deviations) @ turn.T + 3 * rng.standard_normal(d)


def fitted(m: int, X: np.ndarray, **settings) -> LinearAutoencoder:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LinearAutoencoder(m, **settings).fit(X)


def oracle(model, X: np.ndarray) -> dict[str, bool]:
    """What is true of encoder and decoder, from the SVD of the scaled rows."""
    X = X.astype(np.float64) / np.abs(X).max()
    Y = X - X.mean(axis=0)
    _, s, Vt = np.linalg.svd(Y, full_matrices=False)
    W, V = model.encoder_.astype(np.float64), model.decoder_.astype(np.float64)
    m, P = len(W), V @ W
    loss = np.sum((Y - Y @ P.T) ** 2)
    signs = np.sign(np.sum(W * Vt[:m], axis=1))
    off = max(np.linalg.norm(F - signs[:, None] * Vt[:m], axis=1).max() for F in (W, V.T))
    return {
        "reconstruction_is_projection": bool(np.linalg.norm(P @ P - P) <= 1e-3 * np.linalg.norm(P)),
        "near_pca_optimum": bool(loss <= 1.01 * np.sum(s[m:] ** 2)),
        "axes_identified": bool(off <= 0.01),
    }


def tampered(model, **changes):
    model = copy.deepcopy(model)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


SIZES = ((1.0, np.float64), (1e-150, np.float64), (1e145, np.float64), (1.0, np.float32))


@problems(seeds=16, quick=1)
def closed_forms(seed):
    """The minimum, at every scale and in both float types, and what tampering makes of it."""
    size, dtype = SIZES[seed % 4]
    X = (planted_rows(seed) * size).astype(dtype)
    model = fitted(3, X, method="closed", tied=bool(seed % 2))
    sound = {"attributes_sound": True, "affine_part_redundant": True}
    true, false = {**sound, "statements_true": True}, {**sound, "statements_true": False}
    rng = np.random.default_rng(seed)
    A = np.eye(3) + 0.4 * rng.standard_normal((3, 3))
    W, V = model.encoder_, model.decoder_
    turned = {"encoder_": (A @ W).astype(dtype), "decoder_": (V @ np.linalg.inv(A)).astype(dtype)}
    off = V + 0.2 * rng.standard_normal(V.shape).astype(dtype)
    best = {"first_order_point": True}
    cases = {
        "as it is": (model, {**true, **best}),
        "another basis": (tampered(model, **turned), {**true, **best}),
        "another decoder": (tampered(model, decoder_=off), {**false, "first_order_point": False}),
        "half the encoder": (tampered(model, encoder_=W / 2), {**false, "first_order_point": False}),
        "tiny": (tampered(model, encoder_=W * dtype(1e-3), decoder_=V * dtype(1e-3)), {**false, "first_order_point": False}),
        "another loss": (tampered(model, loss_=model.loss_ * 1.01), {**false, **best}),
        "another mean": (
            tampered(model, mean_=(model.mean_ + np.abs(X).max() / 10).astype(dtype)),
            {"attributes_sound": True, "statements_true": False, "affine_part_redundant": False},
        ),
    }  # fmt: skip
    for label, (one, truths) in cases.items():
        if label != "another mean":
            truths = {**truths, **oracle(one, X)}
        yield Case(label, one.certify(X), truths, easy=truths)
    for label, one in {
        "a NaN": tampered(model, encoder_=W * dtype(np.nan)),
        "shapes": tampered(model, decoder_=V[:, :2]),
        "a negative loss": tampered(model, loss_=-1.0),
    }.items():
        yield Case(label, one.certify(X), {"attributes_sound": False})
    yield Case(
        "float32 rows",
        model.certify(X.astype(np.float32) if size == 1.0 else X),
        {**true, **oracle(model, X)},
    )


@problems(seeds=12, quick=1)
def descents(seed):
    """Gradient descent that arrived and that did not; the PCA basis and any other."""
    X = planted_rows(seed)
    for basis in ("any", "pca"):
        for steps in (3, 30, 3000):
            model = fitted(
                3, X, basis=basis, max_iter=steps, tol=1e-12, tied=bool(seed % 2), random_state=seed
            )
            truths = {
                **oracle(model, X),
                "statements_true": True,
                "never_rose": True,
                "attributes_sound": True,
            }
            if steps != 30:
                truths["first_order_point"] = steps > 30
            yield Case(f"{basis}, {steps} steps", model.certify(X), truths)
    model.trace_.append(model.trace_.last() * 1.001, seconds=0.0)
    yield Case("a rise of 0.1 %", model.certify(X), {"never_rose": False})
