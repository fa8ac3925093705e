"""Claims about variational autoencoders: is the stated bound one, is the code in use, is it spread like the prior.

    ln p(x) ≥ E_q ln p(x|z) − KL(q(z|x) ‖ N(0, I)),       q(z|x) = N(μ, LLᵀ),     KL = ½(‖μ‖² + ‖L‖² − m) − Σ ln L_jj

Everything is recomputed in float64 from the two halves of the network: `encode(x)` gives μ and L (its diagonal, or a lower
triangle), `decode(z)` the logits of Bernoullis or the means of normals, `sigma` their deviation. Draws are NumPy's. Posteriors
may be bent by maps z + A φ(Cz + b), of which `encode` gives A, C and b of every row: ln|det| = ln|det(I + diag(φ′) C A)|
(Lemma 5.2.4), a bijection where the diagonal of CA, which is triangular, exceeds −1. With classes, p(x|z) = Σ p(y) p(x|z, y).

The mean of p(x, z)/q(z|x) over k draws has the mean p(x), so its logarithm exceeds ln p(x) by t with probability at most e^(−t)
(Markov), and is below it on average (Jensen). With a linear decoder x ~ N(b, WWᵀ + σ²I) exactly, and the largest likelihood
of such a model is that of probabilistic PCA (Tipping & Bishop 1999): with eigenvalues λ of the covariance and σ² the mean of
the last d − m,   ln p = −½ (d ln 2π + Σ_{j≤m} ln λ_j + (d − m) ln σ² + d)   per row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr

from lemmata.audit.generate.densities import independent_normals, judge_gains, n_new, new_rows
from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.held_out import beats, mean_gain
from lemmata.audit.nets.autoencoders import in_float64
from lemmata.audit.nets.modules import rows_of
from lemmata.audit.nets.stated import cost_of_rows, float_type, stated_rows, unsound_network

Array = np.ndarray

RISK = 0.05
NUMBERS = 2**22  # decoded at a time
ACTIVE = 0.01  # variance of a code's mean over rows: Burda et al. 2016
NEAR = 0.1  # Kolmogorov–Smirnov distance from the prior
DRAWS, ORDERED = 500, 256  # of the importance-weighted bound, and rows that it is compared on
FEW, JUDGED = 20, 1000  # draws and new rows, against independent columns
CAP, SLACK = 5.0, 0.5  # nats: of a row's difference, and by which the mean may be off
OPTIMAL = 0.1  # nats per row
DENSE = 3000  # features up to which the likelihood of a linear decoder is computed
PROBES = 32


class Posteriors(NamedTuple):
    """Means of q(z|x), and both terms of the bound at one draw from each."""

    mean: Array  # (n, m)
    missed: Array  # (n,): −ln p(x|z)
    kl: Array  # (n,); of bent posteriors −ln p(z)/q(z|x) at the draw
    slack: Array  # (n,): what the float type of the network may change in a bound


# --- recomputed -------------------------------------------------------------------------------------------------------


def encode(fit: k.Fit, rows: Array) -> list[Array]:
    """μ and L of q(z|x), and what bends it, in float64."""
    import torch

    net, found = in_float64(fit), []
    step = max(1, NUMBERS // rows.shape[1])
    with torch.no_grad():
        for start in range(0, len(rows), step):
            some = np.ascontiguousarray(rows[start : start + step], dtype=np.float64)
            found.append(net.encode(torch.from_numpy(some).reshape(-1, *fit.input_shape_)))
    return [torch.cat(parts).numpy() for parts in zip(*found, strict=True)]


def decode(fit: k.Fit, Z: Array, place: int | None = None) -> Array:
    """(n, d): logits or means of p(x|z), or of p(x|z, y) for a class, in float64."""
    import torch

    given = () if place is None else (torch.full((len(Z),), place),)
    with torch.no_grad():
        return in_float64(fit).decode(torch.from_numpy(Z), *given).numpy().reshape(len(Z), -1)


def log_likelihoods(fit: k.Fit, rows: Array, Z: Array) -> tuple[Array, Array]:
    """ln p(x|z) of pairs of rows and codes, (n,), and what rounding in the network's own float type may change in it."""
    if fit.get("classes_") is None:
        return _log_likelihoods(fit, rows, decode(fit, Z))
    shares = in_float64(fit).shares.numpy()
    if abs(shares.sum() - 1) > 1e-6:
        raise k.CannotTell("the shares of the classes do not add up to 1")
    parts = (_log_likelihoods(fit, rows, decode(fit, Z, y)) for y in range(len(shares)))
    logs, slack = (np.array(one) for one in zip(*parts, strict=True))
    return logsumexp(logs + np.log(shares)[:, None], axis=0), slack.max(axis=0)


def _log_likelihoods(fit: k.Fit, rows: Array, found: Array) -> tuple[Array, Array]:
    x, off = np.asarray(rows, dtype=np.float64), k.rounding(float_type(fit), 64)
    if fit.likelihood_ == "bernoulli":
        logs = (x * found - np.logaddexp(0.0, found)).sum(axis=1)
        return logs, off * (np.abs(found) + math.log(2)).sum(axis=1)
    sigma = in_float64(fit).sigma.item()
    errors = (x - found) / sigma
    squares, d = np.square(errors).sum(axis=1), x.shape[1]
    logs = -0.5 * squares - d * (math.log(sigma) + 0.5 * math.log(2 * math.pi))
    moved = off * np.sqrt(np.square(np.abs(x / sigma) + np.abs(found / sigma)).sum(axis=1))
    return logs, np.sqrt(squares) * moved + 0.5 * moved**2 + off * (np.abs(logs) + squares + d)


def place(encoded: list[Array], noise: Array) -> tuple[Array, Array]:
    """z of q(z|x) at ε, (…, n, m), and ln p(z)/q(z|x) there. CannotTell where a map folds over."""
    mean, factor, *maps = encoded
    z = mean + (factor * noise if factor.ndim == 2 else (factor @ noise[..., None])[..., 0])
    volume = log_det(factor)
    for A, C, b in zip(*(np.moveaxis(part, 1, 0) for part in maps), strict=True):
        if (np.diagonal(C @ A, 0, 1, 2) <= -1).any():
            raise k.CannotTell("a map of the posterior folds over, so that q(z|x) is no density")
        value = np.tanh((C @ z[..., None])[..., 0] + b)
        z = z + (A @ value[..., None])[..., 0]
        bent = np.eye(C.shape[1]) + (1 - value**2)[..., None] * (C @ A)
        volume = volume + np.linalg.slogdet(bent)[1]
    return z, 0.5 * (noise**2 - z**2).sum(axis=-1) + volume


def log_det(factor: Array) -> Array:
    return np.log(factor if factor.ndim == 2 else np.diagonal(factor, 0, 1, 2)).sum(axis=1)


def divergences(mean: Array, factor: Array) -> Array:
    squares = np.square(mean).sum(axis=1) + np.square(factor).reshape(len(mean), -1).sum(axis=1)
    return 0.5 * (squares - mean.shape[1]) - log_det(factor)


@k.fact(cost=lambda fit: 2 * cost_of_rows(fit, min(fit.data.shape[0], 2000)))
def stated_posteriors(fit: k.Fit) -> Posteriors:
    """Posteriors of the rows that bound_ is of, with the draws of seed 0 that it is made by."""
    rows = rows_of(fit.data, stated_rows(fit)[0])
    mean, *_ = encoded = encode(fit, rows)
    z, ratio = place(encoded, np.random.default_rng(0).standard_normal(mean.shape))
    step = max(1, NUMBERS // rows.shape[1])
    cuts = [slice(start, start + step) for start in range(0, len(rows), step)]
    parts = [log_likelihoods(fit, rows[cut], z[cut]) for cut in cuts]
    logs, slack = (np.concatenate(one) for one in zip(*parts, strict=True))
    # μ and L in the network's own type: a change of z by some eps moves the KL as much, the decoded row by its gain
    kl = divergences(*encoded) if len(encoded) == 2 else -ratio
    slack = slack + k.rounding(float_type(fit), 64) * (np.square(z).sum(axis=1) + np.abs(kl) + 1)
    return Posteriors(mean, -logs, kl, slack)


def importance_weighted(fit: k.Fit, rows: Array, draws: int, rng: np.random.Generator) -> Array:
    """(n,): ln (1/k) Σ p(x, z_i)/q(z_i|x) of k fresh draws for each row."""
    encoded = encode(fit, rows)
    n, m = encoded[0].shape
    logs = np.empty((draws, n))
    step = max(1, NUMBERS // rows.shape[1] // n)
    for start in range(0, draws, step):
        count = min(step, draws - start)
        noise = rng.standard_normal((count, n, m))
        z, ratio = place(encoded, noise)
        both = np.tile(rows, (count, 1)), z.reshape(-1, m)
        logs[start : start + count] = log_likelihoods(fit, *both)[0].reshape(count, n) + ratio
    return logsumexp(logs, axis=0) - math.log(draws)


# --- claims -----------------------------------------------------------------------------------------------------------


def _unsound(fit: k.Fit) -> Iterator[str]:
    yield from unsound_network(fit)
    if not all(hasattr(fit.module_, name) for name in ("encode", "decode", "sigma")):
        yield "module_ has no encode, decode and sigma"
        return
    mean, factor, *_ = encode(fit, np.zeros((1, math.prod(fit.input_shape_))))
    m = int(fit.n_components_)
    if mean.shape != (1, m) or factor.shape not in ((1, m), (1, m, m)):
        yield f"the code has shape {mean.shape[1:]}, n_components_ is {m}"
    if fit.likelihood_ not in ("bernoulli", "gaussian"):
        yield f"likelihood_ is {fit.likelihood_!r}"


def _statements(fit: k.Fit) -> Mapping[str, float]:
    known, (_, weights) = stated_posteriors(fit), stated_rows(fit)
    bound = float(np.average(-known.missed - known.kl, weights=weights))
    slack = float(np.average(known.slack, weights=weights))
    return {"bound_": discrepancy(fit.bound_, bound, slack, 1.0)}


def _cost_of_judged(fit: k.Fit) -> float:
    return cost_of_rows(fit, FEW * min(n_new(fit), JUDGED)) / 2


@k.statistical(
    f"the bound of most new rows, of {FEW} fresh draws, exceeds ln p under independent columns",
    "CIL 5.3; Burda et al. 2016",
    confidence=1 - RISK,
    needs=(new_rows,),
    cost=_cost_of_judged,
)
def beats_independent(fit: k.Fit) -> k.Evidence:
    """Bernoullis with the columns' shares, half a row of each kind added; or the columns' normals."""
    found = new_rows(fit)
    rng = np.random.default_rng((5, len(found.new)))
    new = found.new[np.sort(rng.permutation(len(found.new))[:JUDGED])]
    if fit.likelihood_ == "bernoulli":
        if not np.isin(new, (0.0, 1.0)).all():
            raise k.CannotTell("numbers between 0 and 1 are no outcomes of a Bernoulli")
        w = np.ones(len(found.train)) if found.weights is None else found.weights
        shares = (w @ found.train + 0.5) / (w.sum() + 1)
        baseline = new @ np.log(shares) + (1 - new) @ np.log1p(-shares)
    else:
        baseline = independent_normals(found.train, found.weights, new)
    advice = "train longer, widen layers, or raise n_components; columns may be independent: then no model does better"
    return judge_gains(importance_weighted(fit, new, FEW, rng), baseline, advice)


@k.proved(
    "the bound stated for each row is ln p(x|z) minus the KL, at the same draw of z",
    "CIL (5.24), with E_q ln p(x|z) for its log-likelihood",
    needs=(stated_posteriors,),
    cost=lambda fit: cost_of_rows(fit, min(fit.data.shape[0], 2000)),
)
def bound_adds_up(fit: k.Fit) -> k.Evidence:
    """`bound(X)` of the rows that bound_ is of, against both terms recomputed in float64."""
    known = stated_posteriors(fit)
    stated = np.asarray(fit.model.bound(rows_of(fit.data, stated_rows(fit)[0])), dtype=np.float64)
    error = discrepancy(stated, -known.missed - known.kl, known.slack, 1.0)
    note = f"mean reconstruction {-known.missed.mean():.5g}, KL {known.kl.mean():.4g} nats"
    advice = "the bound is not that of this network: is the KL summed over the code, and σ in the density?"
    return k.at_most(error, 1.0, advice, unit="largest error / rounding", note=note)


@k.rule_of_thumb(
    f"no code has collapsed: the mean of each varies over rows by at least {ACTIVE:g}",
    "CIL 5.3.3; Burda et al. 2016",
    needs=(stated_posteriors,),
)
def units_active(fit: k.Fit) -> k.Evidence:
    """The variance of E(z_j|x) over the rows; where it is 0, z_j says nothing about x."""
    mean, weights = stated_posteriors(fit).mean, stated_rows(fit)[1]
    centre = np.average(mean, axis=0, weights=weights)
    varies = np.average(np.square(mean - centre), axis=0, weights=weights)
    asleep = np.flatnonzero(varies < ACTIVE)
    names = ", ".join(map(str, asleep[:8])) + (", …" if len(asleep) > 8 else "")
    note = f"{len(asleep)} of {len(varies)} collapsed: {names}" if len(asleep) else f"{len(varies)} in use"  # fmt: skip
    left = len(varies) - len(asleep)
    lower = f"n_components={left} says as much; or " if left else ""
    advice = f"{lower}try beta_warmup or free_bits, or a smaller beta"
    return k.at_least(float(varies.min()), ACTIVE, advice, unit="least variance", note=note)


@k.statistical(
    f"the stated ELBO is at most IWAE-{DRAWS} on fresh draws, row by row on average, to {SLACK:g} nats",
    "Burda et al. 2016; Waudby-Smith & Ramdas 2024",
    confidence=1 - RISK,
    cost=lambda fit: cost_of_rows(fit, DRAWS * min(fit.data.shape[0], ORDERED)) / 2,
)
def bounds_ordered(fit: k.Fit) -> k.Evidence:
    """IWAE_k − ELBO has a mean ≥ 0 for every row, k ≥ 1; differences are cut at ±CAP, their mean as it is stands beside."""
    some = stated_rows(fit)[0]
    rng = np.random.default_rng((2, len(some)))
    some = np.sort(rng.choice(some, min(len(some), ORDERED), replace=False))
    rows = rows_of(fit.data, some).astype(np.float64)
    stated = np.asarray(fit.model.bound(rows_of(fit.data, some)), dtype=np.float64)
    gains = importance_weighted(fit, rows, DRAWS, rng) - stated + SLACK
    mean = float(gains.mean()) - SLACK
    found = mean_gain(np.clip(gains, -CAP, CAP), RISK / 2, -CAP, CAP)
    note = f"mean gap {mean:.4g} nats, {len(rows)} rows"
    advice = "the stated bound is none: it lies above a tighter one; is the KL summed, not averaged, over the code?"
    return beats(found, note, advice, unit="gap + slack, nats", uncapped=mean + SLACK)


@k.statistical(
    f"on new rows each coordinate of the aggregate posterior is within {NEAR:g} of the prior (KS)",
    "CIL 5.3; Dvoretzky, Kiefer & Wolfowitz 1956, Massart 1990",
    confidence=1 - RISK,
    needs=(new_rows,),
    cost=lambda fit: cost_of_rows(fit) / 2,
)
def prior_met(fit: k.Fit) -> k.Evidence:
    """One draw z ~ q(z|x) for each row: independent draws of the aggregate posterior. All coordinates at once."""
    rows = new_rows(fit).new
    encoded = encode(fit, rows)
    n, m = encoded[0].shape
    z = np.sort(place(encoded, np.random.default_rng((3, n)).standard_normal((n, m)))[0], axis=0)
    steps = np.arange(n + 1)[:, None] / n
    F = ndtr(z)
    distances = np.maximum(steps[1:] - F, F - steps[:-1]).max(axis=0)
    wide = math.sqrt(math.log(2 * m / RISK) / (2 * n))
    worst = int(distances.argmax())
    note = f"coordinate {worst}, {n:,} rows"
    advice = "draws from the prior decode codes that no row has: train longer, raise beta, or lower n_components"
    if distances[worst] - wide > NEAR:
        return k.at_most(distances[worst] - wide, NEAR, advice, unit="distance at least", note=note)
    if distances[worst] + wide > NEAR:
        return k.unknown(f"{note}: {distances[worst]:.3g} ± {wide:.2g}, too few to tell")
    return k.at_most(distances[worst] + wide, NEAR, unit="distance at most", note=note)


def _cost_of_optimum(fit: k.Fit) -> float:
    d = float(fit.data.shape[1])
    return (fit.data.shape[0] * d**2 + 10 * d**3) / k.PRODUCTS


@k.proved(
    f"a linear decoder's exact likelihood is within {OPTIMAL:g} nats per row of probabilistic PCA's, the largest",
    "CIL 5.3.3; Tipping & Bishop 1999; Lucas et al. 2019",
    cost=_cost_of_optimum,
)
def linear_optimum(fit: k.Fit) -> k.Evidence:
    """Compare on the rows trained on; the decoder is probed at 0, at the axes and at random points for being affine."""
    d, m = fit.data.shape[1], int(fit.n_components_)
    if fit.likelihood_ != "gaussian" or not d <= DENSE or m >= d or fit.get("classes_") is not None:
        raise k.CannotTell(f"needs normals of {m + 1} to {DENSE:,} features, without classes")
    b = decode(fit, np.zeros((1, m)))[0]
    W = decode(fit, np.eye(m)) - b  # (m, d)
    Z = 3 * np.random.default_rng(4).standard_normal((PROBES, m))
    size = np.abs(W).sum(axis=0) + np.abs(b)
    if (np.abs(decode(fit, Z) - b - Z @ W) > 1e-9 * np.abs(Z).max() * size).any():
        raise k.CannotTell("the decoder is not linear")
    trained = np.ones(fit.data.shape[0], bool)
    for kept in ("test_rows_", "validation_rows_"):
        if (numbers := fit.get(kept)) is not None:
            trained[numbers] = False
    X = rows_of(fit.data, np.flatnonzero(trained)).astype(np.float64)
    p = np.ones(len(X)) if fit.weights is None else np.asarray(fit.weights)[trained]
    p = p / p.sum()
    unit = float(np.abs(X).max()) or 1.0
    mean, scaled = p @ (X / unit), X / unit
    S = (scaled - mean).T @ ((scaled - mean) * p[:, None])
    values = np.maximum(np.linalg.eigvalsh(S)[::-1], 0.0)
    noise = float(values[m:].mean())
    if noise <= k.rounding(np.float64, max(X.shape)) * (values[0] + float(np.square(mean).max())):
        raise k.CannotTell(
            "the rows lie in a plane of so many components: no likelihood is largest"
        )
    best = -0.5 * (np.log(values[:m]).sum() + (d - m) * math.log(noise) + d)
    sigma, shift = in_float64(fit).sigma.item() / unit, mean - b / unit
    C = (W.T / unit) @ (W / unit) + sigma**2 * np.eye(d)
    fits = np.trace(np.linalg.solve(C, S + np.outer(shift, shift)))
    own = -0.5 * (np.linalg.slogdet(C)[1] + float(fits))
    advice = "train longer, or with a larger batch_size; or use PCA, whose score is this optimum"
    note = f"σ {sigma * unit:.4g}, at best {math.sqrt(noise) * unit:.4g}"
    return k.at_most(best - own, OPTIMAL, advice, unit="gap, nats", note=note)


SOUND = attributes_sound(
    {"loss_": "", "bound_": "", "n_components_": ">0 int", "test_rows_?": "t int >=0"}, _unsound
)
TRUE = statements_true(_statements, needs=(stated_posteriors,), unchecked="loss_ test_rows_")
VAE_CLAIMS: tuple[Any, ...] = (SOUND, TRUE, beats_independent, bound_adds_up, units_active)
VAE_MORE_CLAIMS: tuple[Any, ...] = (bounds_ordered, prior_met, linear_optimum)
