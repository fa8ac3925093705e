"""What is true of a non-linear autoencoder: its stated error, and how it compares with PCA at the same width of the code.

    E‖x − G(F(x))‖²        against PCA's Σ_{j>m} λ_j, the least of every pair of affine maps through m numbers (CIL Thm 1.4.4)

Both are exact on the rows at hand, so which is smaller is a fact. The network is run here, in float64, as decode(encode(x)):
nothing but the code passes from one half to the other, and its width is counted. On new rows the two are compared row by
row; squared errors have no range, so what is averaged is (e_PCA − e)/(e_PCA + e), in [−1, 1]: by what share of the two
together the network is better.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.claims import (
    FAILS,
    PROVED,
    STATISTICAL,
    Evidence,
    Fit,
    at_most,
    claim,
    fact,
    free,
    rounding,
    unknown,
)
from lemmata.audit.kernel.held_out import beats, mean_gain
from lemmata.audit.nets.stated import unsound
from lemmata.audit.trust.seen_rows import SEEN, Memory, judge_seen
from lemmata.core.blocks import Blocks

Array = np.ndarray

RISK = 0.05
DENSE = 3000  # features, or rows, up to which all eigenvalues are computed
AT_ONCE = 1024  # rows


@dataclass(frozen=True)
class Errors:
    """Of the rows, divided by the largest number among them: what the network leaves, and what there is."""

    unit: float  # what the rows were divided by, a power of two
    mean: Array  # (d,)
    loss: float  # E‖x − x̂‖²
    total: float  # E‖x − mean‖²
    square: float  # E‖x‖²
    eps: float  # of the float type of the network
    width: int  # m, of the codes


@fact(cost=free)
def in_float64(fit: Fit) -> Any:
    return copy.deepcopy(fit.module_).double().cpu().eval()


def codes_and_errors(fit: Fit, rows: Array, unit: float) -> tuple[Array, Array]:
    """Codes (n, m) and squared errors (n,) of scaled rows, by a float64 copy of the network."""
    import torch

    net, codes, errors = in_float64(fit), [], []
    with torch.no_grad():
        for start in range(0, len(rows), AT_ONCE):
            some = np.ascontiguousarray(rows[start : start + AT_ONCE], dtype=np.float64)
            x = torch.from_numpy(some).reshape(-1, *fit.input_shape_)
            z = net.encode(x)
            again = net.decode(z).numpy().reshape(len(some), -1)
            codes.append(z.numpy().reshape(len(some), -1))
            errors.append(np.square(again / unit - some / unit).sum(axis=1))
    return np.concatenate(codes), np.concatenate(errors)


def running(rows: int, fit: Fit) -> float:
    """The cost of so many rows: a multiplication for every weight."""
    return float(rows) * sum(parameter.numel() for parameter in fit.module_.parameters())


@fact(cost=lambda fit: running(fit.data.shape[0], fit))
def measured(fit: Fit) -> Errors:
    data, d = fit.data, fit.data.shape[1]
    largest = max(float(np.abs(rows).max(initial=0.0)) for rows, _ in data)
    unit = math.ldexp(1.0, math.frexp(largest)[1]) if 0 < largest < math.inf else 1.0
    mean, loss, square, width = np.zeros(d), 0.0, 0.0, 0
    for rows, p in _shares(data):
        codes, errors = codes_and_errors(fit, rows, unit)
        width = codes.shape[1]
        mean += p @ (rows / unit)
        loss += float(p @ errors)
        square += float(p @ np.square(rows / unit).sum(axis=1))
    total = sum(float(p @ np.square(rows / unit - mean).sum(axis=1)) for rows, p in _shares(data))
    double = str(next(fit.module_.parameters()).dtype).endswith("64")
    eps = float(np.finfo(np.float64 if double else np.float32).eps)
    return Errors(unit, mean, loss, total, square, eps, width)


def _shares(data: Blocks) -> Iterator[tuple[Array, Array]]:
    """Blocks in float64 with their rows' shares of the total weight."""
    total = data.total_weight
    for rows, weights in data:
        p = np.full(rows.shape[0], 1 / total) if weights is None else np.asarray(weights) / total
        yield np.asarray(rows, dtype=np.float64), p


# --- PCA --------------------------------------------------------------------------------------------------------------


def _cost_of_principal(fit: Fit) -> float:
    small = float(min(fit.data.shape))
    return fit.data.size * small + small**3


@fact(cost=_cost_of_principal, needs=(measured,))
def principal(fit: Fit) -> tuple[Array, Array]:
    """Return eigenvalues (descending) and eigenvectors (d, ·) of the covariance of the scaled rows.

    From the smaller of XᵀX (d × d) and XXᵀ (n × n), which share all eigenvalues but zeros.
    """
    known, (n, d) = measured(fit), fit.data.shape
    parts = (
        (rows / known.unit - known.mean) * np.sqrt(p)[:, None] for rows, p in _shares(fit.data)
    )
    if d <= n:
        values, vectors = np.linalg.eigh(sum(Y.T @ Y for Y in parts))
    else:
        Y = np.concatenate(list(parts))
        values, left = np.linalg.eigh(Y @ Y.T)
        # u = Yᵀv/√λ; directions of no variance stay 0: nothing is projected onto them
        roots = np.sqrt(np.maximum(values, 0.0))
        kept = roots > rounding(np.float64, max(n, d)) * roots.max(initial=0.0)
        vectors = np.where(kept, Y.T @ left / np.where(kept, roots, 1.0), 0.0)
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


# --- claims -----------------------------------------------------------------------------------------------------------


def _unsound(fit: Fit) -> Iterator[str]:
    yield from unsound(fit)
    if not (hasattr(fit.module_, "encode") and hasattr(fit.module_, "decode")):
        yield "module_ has no encode and decode"
        return
    import torch

    like = next(fit.module_.parameters())
    with torch.no_grad():
        code = fit.module_.encode(torch.zeros(1, *fit.input_shape_, dtype=like.dtype, device=like.device))  # fmt: skip
    if code.shape != (1, int(fit.n_components_)):
        yield f"the code has shape {tuple(code.shape[1:])}, n_components_ is {fit.n_components_}"


def _statements(fit: Fit) -> Mapping[str, float]:
    """loss_ : ½ E‖x − x̂‖²; x̂ in the float type of the network is off by some eps‖x‖."""
    known = measured(fit)
    off = rounding(np.float32 if known.eps > 1e-10 else np.float64, 64) * math.sqrt(known.square)
    allowed = 2 * math.sqrt(known.loss) * off + off**2
    stated = 2 * float(fit.loss_) / known.unit / known.unit
    return {"loss_": discrepancy(stated, known.loss, allowed, 1.0)}


SOUND = attributes_sound({"loss_": " | >= 0", "n_components_": " | > 0, whole"}, _unsound)
TRUE = statements_true(_statements, needs=(measured,))


def _why_not(fit: Fit) -> str:
    """Why PCA's error is no number to compare with; empty if it is."""
    known, (n, d) = measured(fit), fit.data.shape
    if min(n, d) > DENSE:
        return f"{n:,} × {d:,}: PCA's error is computed for up to {DENSE:,} rows or features"
    if known.total <= rounding(np.float64, n) * known.square:
        return "the data does not vary"
    tail = float(principal(fit)[0][known.width :].sum())
    if tail <= rounding(np.float64, max(n, d)) * known.total:
        return "PCA with as many components loses nothing: there is nothing left to win"
    return ""


@claim(
    "on these rows it errs no more than PCA with as many components",
    kind=PROVED,
    source="CIL24 1.5, CIL Thm 1.4.4",
    needs=(principal,),
)
def beats_pca(fit: Fit) -> Evidence:
    """E‖x − x̂‖² over Σ_{j>m} λ_j, the least of every linear autoencoder with a code of m numbers."""
    if why := _why_not(fit):
        return unknown(why)
    known, m = measured(fit), measured(fit).width
    tail = float(principal(fit)[0][m:].sum())
    advice = "train longer (max_iter), or widen layers; if it stays, the data is flat: use PCA, it costs less"
    note = f"{100 * known.loss / known.total:.3g} % of the variance lost, by PCA {100 * tail / known.total:.3g} %, m = {m}"
    return at_most(known.loss / tail, 1.0, advice, unit="error / PCA's", note=note)


def _cost_of_test(fit: Fit) -> float:
    test = fit.get("X_test")
    rows = 0 if test is None else test.shape[0]
    return running(rows, fit)


@claim(
    "on new rows it errs less than PCA: the mean of (PCA's − its)/(PCA's + its) is above 0",
    kind=STATISTICAL,
    confidence=1 - RISK,
    source="CIL24 1.5; Waudby-Smith & Ramdas 2024",
    needs=(principal,),
    cost=_cost_of_test,
)
def beats_pca_on_new_rows(fit: Fit) -> Evidence:
    """PCA of the training rows, by LAPACK; both ends of the interval at half the risk."""
    test = fit.get("X_test")
    if test is None:
        return unknown("no rows were held out: pass certify(X, X_test=…)")
    if why := _why_not(fit):
        return unknown(why)
    known, m = measured(fit), measured(fit).width
    train, rows = (
        np.concatenate([np.asarray(part, dtype=np.float64) for part, _ in one]) for one in (fit.data, test)
    )  # fmt: skip
    if judge_seen(Memory(train, rows, "the training rows", True)).verdict == FAILS:
        return unknown(SEEN)
    _, own = codes_and_errors(fit, rows, known.unit)
    Y, U = rows / known.unit - known.mean, principal(fit)[1][:, :m]
    theirs = np.square(Y - (Y @ U) @ U.T).sum(axis=1)
    both = own + theirs
    noise = rounding(np.float64, Y.shape[1]) * np.square(rows / known.unit).sum(axis=1)
    draws = np.where(both > noise, (theirs - own) / np.where(both > 0, both, 1.0), 0.0)
    gain = mean_gain(draws, RISK / 2)
    note = (
        f"mean error {100 * own.mean() / known.total:.3g} % of the variance, PCA {100 * theirs.mean() / known.total:.3g} %, "
        f"{len(rows):,} rows"
    )
    advice = "it learnt its training rows: fewer epochs (early_stopping=True), smaller layers, more rows; or use PCA"
    undecided = f"between {gain.lower:.3g} and {gain.upper:.3g}, too few rows to tell"
    return beats(gain, note, advice, unit="share", undecided=undecided)


AUTOENCODER_CLAIMS: tuple[Any, ...] = (SOUND, TRUE, beats_pca, beats_pca_on_new_rows)
