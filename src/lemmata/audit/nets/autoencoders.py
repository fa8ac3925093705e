"""Claims about a non-linear autoencoder: its stated error, and a comparison with PCA at the same width of the code.

    E‖x − G(F(x))‖²        against PCA's Σ_{j>m} λ_j, the least of every pair of affine maps through m numbers (CIL Thm 1.4.4)

Both are exact on the rows at hand, so which is smaller is a fact. The network is run here, in float64, as decode(encode(x)):
only the code passes from one half to the other, and its width is counted. On new rows the two are compared row by
row; squared errors have no range, so (e_PCA − e)/(e_PCA + e), in [−1, 1], is averaged: the gain as a share of both errors.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.held_out import beats, mean_gain
from lemmata.audit.nets.modules import rows_at_once, rows_of
from lemmata.audit.nets.stated import cost_of_rows, float_type, stated_rows, unsound_network
from lemmata.audit.trust.seen_rows import SEEN, Memory, judge_seen
from lemmata.core.blocks import Blocks

Array = np.ndarray

RISK = 0.05
DENSE = 3000  # features, or rows, up to which all eigenvalues are computed


@dataclass(frozen=True)
class ReconstructionErrors:
    """Errors of the network, and sizes of the rows, which were divided by the largest number among them."""

    unit: float  # the divisor of the rows, a power of two
    mean: Array  # (d,)
    loss: float  # E‖x − x̂‖²
    total: float  # E‖x − mean‖²
    square: float  # E‖x‖²
    width: int  # m, of the codes


@k.fact(cost=k.free)
def in_float64(fit: k.Fit) -> Any:
    return copy.deepcopy(fit.module_).double().cpu().eval()


def codes_and_errors(fit: k.Fit, rows: Array, unit: float) -> tuple[Array, Array]:
    """Codes (n, m) and squared errors (n,) of scaled rows, by a float64 copy of the network."""
    import torch

    net, codes, errors = in_float64(fit), [], []
    with torch.no_grad():
        first = torch.from_numpy(np.asarray(rows[:1], np.float64)).reshape(-1, *fit.input_shape_)
        step = rows_at_once(lambda x: net.decode(net.encode(x)), first)
        for start in range(0, len(rows), step):
            some = np.ascontiguousarray(rows[start : start + step], dtype=np.float64)
            x = torch.from_numpy(some).reshape(-1, *fit.input_shape_)
            z = net.encode(x)
            again = net.decode(z).numpy().reshape(len(some), -1)
            codes.append(z.numpy().reshape(len(some), -1))
            errors.append(np.square(again / unit - some / unit).sum(axis=1))
    return np.concatenate(codes), np.concatenate(errors)


@k.fact(cost=lambda fit: 2 * cost_of_rows(fit))  # in float64
def reconstruction_errors(fit: k.Fit) -> ReconstructionErrors:
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
    return ReconstructionErrors(unit, mean, loss, total, square, width)


def _shares(data: Blocks) -> Iterator[tuple[Array, Array]]:
    """Blocks in float64 with their rows' shares of the total weight."""
    total = data.total_weight
    for rows, weights in data:
        p = np.full(rows.shape[0], 1 / total) if weights is None else np.asarray(weights) / total
        yield np.asarray(rows, dtype=np.float64), p


# --- PCA --------------------------------------------------------------------------------------------------------------


def _cost_of_principal(fit: k.Fit) -> float:
    small = float(min(fit.data.shape))
    return (fit.data.size * small + 10 * small**3) / k.PRODUCTS


@k.fact(cost=_cost_of_principal, needs=(reconstruction_errors,))
def principal(fit: k.Fit) -> tuple[Array, Array]:
    """Return eigenvalues (descending) and eigenvectors (d, ·) of the covariance of the scaled rows.

    From the smaller of XᵀX (d × d) and XXᵀ (n × n), which share all eigenvalues but zeros.
    """
    known, (n, d) = reconstruction_errors(fit), fit.data.shape
    scaled = ((rows / known.unit - known.mean, p) for rows, p in _shares(fit.data))
    parts = (centred * np.sqrt(p)[:, None] for centred, p in scaled)
    if d <= n:
        values, vectors = np.linalg.eigh(sum(Y.T @ Y for Y in parts))
    else:
        Y = np.concatenate(list(parts))
        values, left = np.linalg.eigh(Y @ Y.T)
        # u = Yᵀv/√λ; directions of no variance stay 0: nothing is projected onto them
        roots = np.sqrt(np.maximum(values, 0.0))
        kept = roots > k.rounding(np.float64, max(n, d)) * roots.max(initial=0.0)
        vectors = np.where(kept, Y.T @ left / np.where(kept, roots, 1.0), 0.0)
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


# --- claims -----------------------------------------------------------------------------------------------------------


def _unsound(fit: k.Fit) -> Iterator[str]:
    yield from unsound_network(fit)
    if not (hasattr(fit.module_, "encode") and hasattr(fit.module_, "decode")):
        yield "module_ has no encode and decode"
        return
    import torch

    with torch.no_grad():
        code = fit.module_.encode(next(fit.module_.parameters()).new_zeros(1, *fit.input_shape_))
    if code.shape != (1, int(fit.n_components_)):
        yield f"the code has shape {tuple(code.shape[1:])}, n_components_ is {fit.n_components_}"


def _statements(fit: k.Fit) -> Mapping[str, float]:
    """loss_ : ½ E‖x − x̂‖²; x̂ in the float type of the network is off by some eps‖x‖."""
    known, (some, weights) = reconstruction_errors(fit), stated_rows(fit)
    loss = known.loss
    if len(some) < fit.data.shape[0]:
        errors = codes_and_errors(fit, rows_of(fit.data, some), known.unit)[1]
        loss = float(np.average(errors, weights=weights))
    off = k.rounding(float_type(fit), 64) * math.sqrt(known.square)
    allowed = 2 * math.sqrt(loss) * off + off**2
    stated = 2 * float(fit.loss_) / known.unit / known.unit
    return {"loss_": discrepancy(stated, loss, allowed, 1.0)}


def pca_error(fit: k.Fit) -> float:
    """Σ_{j>m} λ_j. CannotTell where it is no number to compare with."""
    known, (n, d) = reconstruction_errors(fit), fit.data.shape
    if min(n, d) > DENSE:
        why = f"{n:,} × {d:,}: PCA's error is computed for up to {DENSE:,} rows or features"
        raise k.CannotTell(why)
    if known.total <= k.rounding(np.float64, n) * known.square:
        raise k.CannotTell("the data does not vary")
    tail = float(principal(fit)[0][known.width :].sum())
    if tail <= k.rounding(np.float64, max(n, d)) * known.total:
        raise k.CannotTell("PCA with as many components loses nothing: nothing is left to win")
    return tail


@k.proved(
    "on these rows it errs no more than PCA with as many components",
    "CIL24 1.5, CIL Thm 1.4.4",
    needs=(principal,),
)
def beats_pca(fit: k.Fit) -> k.Evidence:
    """E‖x − x̂‖² over Σ_{j>m} λ_j, the least of every linear autoencoder with a code of m numbers."""
    tail, known = pca_error(fit), reconstruction_errors(fit)
    advice = "train longer (max_iter), or widen layers; if it stays, the data is flat: use PCA, it costs less"
    lost = f"{100 * known.loss / known.total:.3g} % of the variance lost"
    note = f"{lost}, by PCA {100 * tail / known.total:.3g} %, m = {known.width}"
    return k.at_most(known.loss / tail, 1.0, advice, unit="error / PCA's", note=note)


def _cost_of_test(fit: k.Fit) -> float:
    test = fit.get("X_test")
    return 0.0 if test is None else cost_of_rows(fit, test.shape[0])


@k.statistical(
    "on new rows it errs less than PCA: the mean of (PCA's − its)/(PCA's + its) is above 0",
    "CIL24 1.5; Waudby-Smith & Ramdas 2024",
    confidence=1 - RISK,
    needs=(principal,),
    cost=_cost_of_test,
)
def beats_pca_on_new_rows(fit: k.Fit) -> k.Evidence:
    """PCA of the training rows, by LAPACK; both ends of the interval at half the risk."""
    test = fit.get("X_test")
    if test is None:
        raise k.CannotTell("no rows were held out: pass certify(X, X_test=…)")
    pca_error(fit)
    known = reconstruction_errors(fit)
    train, rows = (np.concatenate([part for part, _ in _shares(one)]) for one in (fit.data, test))
    if judge_seen(Memory(train, rows, "the training rows", True)).verdict == k.FAILS:
        raise k.CannotTell(SEEN)
    _, own = codes_and_errors(fit, rows, known.unit)
    Y, U = rows / known.unit - known.mean, principal(fit)[1][:, : known.width]
    theirs = np.square(Y - (Y @ U) @ U.T).sum(axis=1)
    both = own + theirs
    noise = k.rounding(np.float64, Y.shape[1]) * np.square(rows / known.unit).sum(axis=1)
    draws = np.where(both > noise, (theirs - own) / np.where(both > 0, both, 1.0), 0.0)
    gain = mean_gain(draws, RISK / 2)
    mine, pca = (f"{100 * errors.mean() / known.total:.3g} %" for errors in (own, theirs))
    note = f"mean error {mine} of the variance, PCA {pca}, {len(rows):,} rows"
    advice = "it memorised its training rows: fewer epochs (early_stopping=True), smaller layers, more rows; or use PCA"
    undecided = f"between {gain.lower:.3g} and {gain.upper:.3g}, too few rows to tell"
    return beats(gain, note, advice, unit="share", undecided=undecided)


AUTOENCODER_CLAIMS: tuple[Any, ...] = (
    attributes_sound({"loss_": ">=0", "n_components_": ">0 int"}, _unsound),
    statements_true(_statements, needs=(reconstruction_errors,)),
    beats_pca,
    beats_pca_on_new_rows,
)
