"""Claims about multi-layer perceptrons, ours and scikit-learn's: recomputed in double precision from `coefs_` and the data.

    F(θ) = 1/S Σ sᵢ ℓ(ψ(xᵢ), yᵢ)  +  B/2S · α ΣΘ²              ψ = z_L(φ(… φ(z₁(x)))), S = Σ sᵢ, B batches an epoch (lbfgs: 1)

One pass over the rows gives F, the range of every hidden unit, and how much of F rounding may have changed: with
independent errors of relative size u in every sum, the variance e²ₖ of zₖ's error is (Θₖ²)ᵀe²ₖ₋₁ + u²((Θₖ²)ᵀh²ₖ₋₁ + bₖ²), since
no φ here has a slope much above 1 (GELU's: 1.13, which the margin in u covers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, ndtr, xlogy

from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.nets.stated import r_squared
from lemmata.audit.predict.class_weights import class_factors

Array = np.ndarray
ROWS = 4096  # looked at together
STEPS = 30  # of the search for something better …
GAIN = 0.05  # … and the share of what a constant prediction costs that it may gain

UNITS: dict[str, Callable[[Array], Array]] = {  # φ
    "identity": lambda z: z,
    "logistic": expit,
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0.0),
    "softplus": lambda z: np.logaddexp(0.0, z),
    "gelu": lambda z: z * ndtr(z),
}


# --- the objective ----------------------------------------------------------------------------------------------------


def loss_and_error(output: str, scores: Array, y: Array, clip: float = 0.0) -> tuple[Array, Array]:
    """ℓ of every output of every row, and ∂ℓ/∂ψ. `clip`: scikit-learn keeps probabilities away from 0 and 1 by so much."""
    if output == "identity":
        return 0.5 * (scores - y) ** 2, scores - y
    if output == "exp":
        rates = np.exp(scores)
        return xlogy(y, y) - y * scores - y + rates, rates - y
    if output == "logistic":  # y = ±1
        losses, error = np.logaddexp(0.0, -y * scores), -y * expit(-y * scores)
    else:
        rows = np.arange(len(scores))
        logs = log_softmax(scores, axis=1)
        losses, error = -logs[rows, y][:, None], np.exp(logs)
        error[rows, y] -= 1
    return (np.clip(losses, -np.log1p(-clip), -np.log(clip)) if clip else losses), error


def targets_of(fit: claims.Fit) -> Array:
    """(n, m) numbers, (n, m) of ±1, or (n,) places, as the outputs want them."""
    y = np.asarray(fit.y)
    if fit.out_activation_ == "softmax":
        return y.astype(int)
    if fit.out_activation_ == "logistic":
        y = 2.0 * y - 1.0
    return y.astype(np.float64).reshape(len(y), -1)


def weights_of(fit: claims.Fit) -> Array:
    """sᵢ: the weight of a row times that of its class."""
    y = np.asarray(fit.y)
    weights = np.ones(len(y)) if fit.weights is None else np.asarray(fit.weights, np.float64)
    chosen = fit.get("class_weight")
    if chosen is None or y.ndim == 2:
        return weights
    return weights * class_factors(chosen, fit.classes_, y, weights)[y]


def training_mask(fit: claims.Fit) -> Array:
    """True at the rows of the objective: not those that early stopping held out."""
    mask = np.ones(fit.data.shape[0], bool)
    held_out = fit.get("validation_rows_")
    if held_out is not None:
        mask[np.asarray(held_out)] = False
    return mask


def ridge_of(fit: claims.Fit, mask: Array) -> float:
    """Return αB: an epoch of B batches counts the penalty B times."""
    n = int(mask.sum())
    if isinstance(fit.solver, str) and fit.solver in ("lbfgs", "gd"):
        return float(fit.alpha)
    size = min(200, n) if fit.batch_size == "auto" else min(int(fit.batch_size), n)
    return float(fit.alpha) * -(-n // size)


@dataclass(frozen=True)
class ForwardPass:
    """Results of a pass over the rows."""

    loss: float  # F
    noise: float  # its possible rounding error
    constant: float  # the loss of the best constant prediction, without the penalty
    powers: list[Array]  # the mean square of every input of every layer
    lows: list[Array]  # of every hidden unit
    highs: list[Array]
    sizes: list[Array]  # the largest √((Θ²)ᵀh² + b²) of each


def parameters_of(fit: claims.Fit) -> list[Array]:
    """Θ₁ … Θ_L, b₁ … b_L."""
    return [np.asarray(part, np.float64) for part in (*fit.coefs_, *fit.intercepts_)]


def forward(fit: claims.Fit, theta: list[Array], rows: Any) -> tuple[list[Array], list[Array]]:
    """h₀ … h_{L−1} and z₁ … z_L."""
    L, phi = len(theta) // 2, UNITS[fit.activation]
    h = [np.asarray(rows.todense() if hasattr(rows, "todense") else rows, np.float64)]
    z: list[Array] = []
    for k in range(L):
        z.append(h[k] @ theta[k] + theta[L + k])
        if k < L - 1:
            h.append(phi(z[k]))
    return h, z


def precision_of(fit: claims.Fit) -> Any:
    """The coarser of the types of the weights and of the rows, in which F may have been summed."""
    narrow = np.float32 in (np.asarray(fit.coefs_[0]).dtype, fit.data.dtype)
    return np.dtype(np.float32 if narrow else np.float64)


def products(times: float) -> Callable[[claims.Fit], float]:
    """The cost of so many products of every row with every weight."""
    return lambda fit: times * fit.data.shape[0] * sum(np.size(part) for part in fit.coefs_)


@claims.fact(cost=products(3))  # forward, and the variance of the rounding
@np.errstate(over="ignore", invalid="ignore")
def forward_pass(fit: claims.Fit) -> ForwardPass:
    theta, dtype = parameters_of(fit), precision_of(fit)
    L = len(theta) // 2
    y, s, mask = targets_of(fit), weights_of(fit), training_mask(fit)
    clip = float(fit.get("probabilities_clipped_", 0.0))
    powers = [np.zeros(len(part)) for part in theta[:L]]
    lows = [np.full(len(bias), np.inf) for bias in theta[L:-1]]
    highs, sizes = [-low for low in lows], [np.zeros_like(low) for low in lows]
    loss, noise, start = 0.0, 0.0, 0
    for rows in pieces(fit.data):
        here = slice(start, start + rows.shape[0])
        start, counted, share = here.stop, s[here] > 0, s[here] * mask[here]
        h, z = forward(fit, theta, rows)
        e2: Any = 0.0  # the variance of rounding errors
        for k in range(L):
            squares, u2 = theta[k] ** 2, claims.rounding(dtype, len(theta[k])) ** 2
            own = h[k] ** 2 @ squares + theta[L + k] ** 2
            e2 = (e2 @ squares if k else 0.0) + u2 * own
            powers[k] += share @ h[k] ** 2
            if k < L - 1 and counted.any():
                lows[k] = np.minimum(lows[k], h[k + 1][counted].min(axis=0))
                highs[k] = np.maximum(highs[k], h[k + 1][counted].max(axis=0))
                sizes[k] = np.maximum(sizes[k], np.sqrt(own)[counted].max(axis=0))
        losses, delta = loss_and_error(fit.out_activation_, z[-1], y[here], clip)
        loss += float(share @ losses.sum(axis=1))
        noise += float(share @ (np.abs(delta) * np.sqrt(e2) + 0.5 * e2).sum(axis=1))
    S = float((s * mask).sum())
    outputs = int(fit.n_outputs_) if fit.get("loss_is_mean_of_outputs_", False) else 1
    F = (loss / outputs + penalty_of(theta, ridge_of(fit, mask))) / S
    noise = claims.rounding(dtype, len(s)) * abs(F) + noise / outputs / S
    constant = constant_loss(fit.out_activation_, y, s * mask)
    return ForwardPass(F, noise, constant, [part / S for part in powers], lows, highs, sizes)


def penalty_of(theta: list[Array], ridge: float) -> float:
    return 0.5 * ridge * sum(float(np.vdot(part, part)) for part in theta[: len(theta) // 2])


def objective_at(fit: claims.Fit, theta: list[Array]) -> float:
    """Return F with the loss whose gradient is followed: summed over the outputs, no probability clipped."""
    mask = training_mask(fit)
    share = weights_of(fit) * mask
    return loss_of_rows(fit, theta, share) + penalty_of(theta, ridge_of(fit, mask)) / float(
        share.sum()
    )


def loss_of_rows(fit: claims.Fit, theta: list[Array], share: Array) -> float:
    """Return the mean of ℓ, rows counting by their share."""
    y, loss, start = targets_of(fit), 0.0, 0
    for rows in pieces(fit.data):
        here = slice(start, start + rows.shape[0])
        start = here.stop
        scores = forward(fit, theta, rows)[1][-1]
        losses, _ = loss_and_error(fit.out_activation_, scores, y[here])
        loss += float(share[here] @ losses.sum(axis=1))
    return loss / float(share.sum())


def constant_loss(output: str, y: Array, s: Array) -> float:
    """The smallest loss of one prediction for all rows."""
    p = s / s.sum()
    if output == "softmax":
        shares = np.bincount(y, p)
        return float(-xlogy(shares, shares).sum())
    mean = p @ y
    if output == "identity":
        return float(0.5 * (p @ (y - mean) ** 2).sum())
    if output == "exp":
        return float((p @ xlogy(y, y)).sum() - xlogy(mean, mean).sum())
    shares = (1 + mean) / 2
    return float(-(xlogy(shares, shares) + xlogy(1 - shares, 1 - shares)).sum())


def pieces(data: Any) -> Iterator[Any]:
    """Rows, a few thousand at a time."""
    for rows, _ in data:
        for first in range(0, rows.shape[0], ROWS):
            yield rows[first : first + ROWS]


# --- the claims -------------------------------------------------------------------------------------------------------


def layer_problems(fit: claims.Fit) -> Iterator[str]:
    """Problems of the layers: shapes that do not follow each other, numbers that are not finite."""
    W, b = list(fit.coefs_), list(fit.intercepts_)
    if not W or len(W) != len(b):
        yield f"there are {len(W)} coefs_ and {len(b)} intercepts_"
        return
    width = fit.data.shape[1] if fit.has_data else len(W[0])
    for k, (weights, bias) in enumerate(zip(W, b, strict=True)):
        weights, bias = np.asarray(weights), np.asarray(bias)
        if weights.ndim != 2 or weights.shape[0] != width:
            yield f"coefs_[{k}] has shape {weights.shape}, not ({width}, …)"
            return
        if bias.shape != weights.shape[1:]:
            yield f"intercepts_[{k}] has shape {bias.shape}, not {weights.shape[1:]}"
            return
        for name, part in (("coefs_", weights), ("intercepts_", bias)):
            if part.dtype.kind != "f" or not np.isfinite(part).all():
                yield f"{name}[{k}] has numbers that are not finite"
        width = weights.shape[1]
    if fit.get("n_outputs_") != width:
        yield f"n_outputs_ is {fit.get('n_outputs_')}, the last layer has {width} units"
    if fit.get("n_layers_") != len(W) + 1:
        yield f"n_layers_ is {fit.get('n_layers_')} for {len(W)} matrices"
    if fit.get("out_activation_") not in ("identity", "logistic", "softmax", "exp"):
        yield f"out_activation_ is {fit.get('out_activation_')!r}"
    score = fit.get("best_validation_score_")
    if score is not None and not (np.isfinite(score) and score <= 1):
        yield f"best_validation_score_ is {score}"


def statement_errors(fit: claims.Fit) -> dict[str, float]:
    """loss_ is F at coefs_; best_loss_ the least of loss_curve_; best_validation_score_ that of the rows held out."""
    errors: dict[str, float] = {}
    if fit.get("stopped_") != "batches" and fit.get("loss_is_of_coefs_", True):
        found = forward_pass(fit)
        errors["loss_"] = discrepancy(fit.loss_, found.loss, found.noise, 1.0)
    curve, best = fit.get("loss_curve_"), fit.get("best_loss_")
    if curve and best is not None:
        errors["best_loss_"] = 0.0 if best == min(curve) else np.inf
    if fit.get("validation_rows_") is not None and fit.get("best_validation_score_") is not None:
        true = held_out_score(fit)
        stated, precise = fit.best_validation_score_, held_out_rounding(fit)
        errors["best_validation_score_"] = discrepancy(stated, true, 1.0, precise)
    return errors


def held_out_rounding(fit: claims.Fit) -> float:
    """Rounding of a score, a mean: of hits, where one row on the border may flip, or of squares."""
    dtype, v = precision_of(fit), len(fit.validation_rows_)
    return claims.rounding(dtype, v) + (
        1.5 / v if dtype == np.float32 and fit.has("classes_") else 0.0
    )


def held_out_score(fit: claims.Fit) -> float:
    """Accuracy, or R², of the rows held out."""
    held, theta = np.flatnonzero(~training_mask(fit)), parameters_of(fit)
    h = np.concatenate([forward(fit, theta, rows)[1][-1] for rows in pieces(fit.data)])[held]
    y, s = targets_of(fit)[held], weights_of(fit)[held]
    if fit.out_activation_ == "softmax":
        return float(s @ (h.argmax(axis=1) == y) / s.sum())
    if fit.out_activation_ == "logistic":
        return float(s @ (np.where(h > 0, 1, -1) == y).all(axis=1) / s.sum())
    h = np.exp(h) if fit.out_activation_ == "exp" else h
    return r_squared(y, h, s)[0]


@claims.proved(
    "on these rows the loss is below that of the best constant answer",
    "CIL 4.3",
    cost=products(2 / claims.PRODUCTS),
)
@np.errstate(over="ignore", invalid="ignore")
def beats_constant(fit: claims.Fit) -> claims.Evidence:
    """The best constant: the shares of the classes, the mean of the numbers. No penalty is counted."""
    share = weights_of(fit)
    least = constant_loss(fit.out_activation_, targets_of(fit), share)
    if not least > 0:
        raise claims.CannotTell("y does not vary, so a constant prediction costs nothing")
    scaled = "the columns of X" if fit.has("classes_") else "y and the columns of X"
    advice = f"train longer, or change learning_rate_init; scale {scaled}; look whether they tell anything about y"
    loss = loss_of_rows(fit, parameters_of(fit), share)
    return claims.at_most(loss / least, 1.0, advice, unit="loss / constant's")


@claims.claim(
    "thirty further steps of L-BFGS gain at most 5 % of what a constant prediction costs",
    kind=claims.RULE_OF_THUMB,
    source="CIL 4.3",
    needs=(forward_pass,),
    cost=products(4 * STEPS),  # three for each step, some of them twice
)
def little_to_gain(fit: claims.Fit) -> claims.Evidence:
    """A failure comes with better weights for the same objective, at which F was recomputed; *holds* says that a search
    so short found none."""
    if fit.get("dropout", 0.0):
        why = "dropout minimises the mean over networks with units left out, not this objective"
        raise claims.CannotTell(why)
    if fit.get("stopped_") == "batches":
        raise claims.CannotTell("each batch had an objective of its own")
    if not fit.get("loss_is_of_all_rows_", True):
        raise claims.CannotTell("which rows early stopping held out is not known")
    found = forward_pass(fit)
    if not found.constant > 0:
        raise claims.CannotTell("y does not vary, so a constant prediction costs nothing")
    theta, better = parameters_of(fit), fit.witness("better_network_weights", STEPS, found.powers)
    if better is None:
        raise claims.CannotTell("searches are switched off: better weights were not searched for")
    if [np.shape(part) for part in better] != [part.shape for part in theta]:
        raise claims.CannotTell("the search found weights of another network")
    with np.errstate(over="ignore", invalid="ignore"):
        gain = max(objective_at(fit, theta) - objective_at(fit, better), 0.0)
    gain /= found.constant
    if fit.get("early_stopping", False) and fit.solver != "lbfgs":
        why = "early stopping ended before the objective did, on purpose"
        return claims.unknown(why, gain, "gain / constant")
    if gain <= GAIN and found.loss > (1 - GAIN) * found.constant:
        why = "no better than a constant: a plateau that a short search does not leave, or nothing to learn"
        return claims.unknown(why, gain, "gain / constant")
    advice = "train on: raise max_iter, scale the columns of X, or change learning_rate_init"
    shown = np.concatenate([part.ravel() for part in better])
    return claims.at_most(gain, GAIN, advice, "gain / constant", witness={"weights": shown})


@claims.proved(
    "no hidden unit has the same output on every row", "CIL (4.24)", needs=(forward_pass,)
)
def units_alive(fit: claims.Fit) -> claims.Evidence:
    """A ReLU that is 0 on all rows passes nothing on and, its slope being 0, learns nothing any more."""
    found = forward_pass(fit)
    if not found.lows:
        raise claims.CannotTell("there is no hidden layer")
    if fit.data.shape[0] < 2:
        raise claims.CannotTell("one row has no range")
    dtype, dead, units = precision_of(fit), [], 0
    for k, (low, high, size) in enumerate(zip(found.lows, found.highs, found.sizes, strict=True)):
        still = ~(high - low > claims.rounding(dtype, len(fit.coefs_[k])) * size)
        dead.append(int(still.sum()))
        units += len(low)
    where = ", ".join(f"{n} in layer {k + 1}" for k, n in enumerate(dead) if n)
    note = f"{where}, of {units}" if where else ""
    change = "lower learning_rate_init, or take activation='gelu'"
    advice = f"centre and scale the columns of X, {change}"
    return claims.at_most(sum(dead), 0, advice, "dead units", note)


SOUND = attributes_sound({"loss_?": "", "best_loss_?": "", "t_?": ">=0 int"}, layer_problems)
TRUE = statements_true(statement_errors, needs=(forward_pass,))
MLP_CLAIMS = (SOUND, TRUE, beats_constant, little_to_gain, units_alive)


# --- scikit-learn's perceptrons in our words (see counterparts.py) ------------------------------------------------------


def perceptron_of(model: Any) -> dict[str, Any]:
    """Describe an MLPClassifier or MLPRegressor.

    Their `loss_` is F at `coefs_` with solver="lbfgs" alone: of "sgd" and "adam" it is a mean over the batches of the last
    epoch, each at the weights of its time, and with early_stopping of another epoch than `coefs_`. The squared loss they
    state is a mean over the outputs, while the gradient they follow is that of the sum; logarithms are those of
    probabilities kept off 0 and 1.
    """
    squared = model.out_activation_ == "identity"
    found: dict[str, Any] = {
        "loss_is_of_coefs_": model.solver == "lbfgs",
        "loss_is_mean_of_outputs_": squared,
        "loss_is_of_all_rows_": not (model.early_stopping and model.solver != "lbfgs"),
        "class_weight": None,
    }
    if model.out_activation_ in ("logistic", "softmax"):
        found["probabilities_clipped_"] = float(np.finfo(np.asarray(model.coefs_[0]).dtype).eps)
    return found
