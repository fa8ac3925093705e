"""Claims about the density of a denoiser's flow (Song et al. 2021): has it settled, is it more than independent columns?

Along dy/dσ = ξ̂, y = x/ᾱ, σ = β̄/ᾱ, a density changes by d ln p = −tr(∂ξ̂/∂y) dσ. From noise back to a row, ln p is computed
here from nothing but the denoiser and autograd, and what a model states is compared with it.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lemmata.audit.generate.densities import (
    SENTENCE,
    independent_normals,
    judge_gains,
    mass_one,
    n_new,
    new_rows,
)
from lemmata.audit.generate.diffusion import (
    Told,
    amplitudes,
    as_noise,
    call,
    evenly_in_noise,
    move,
    patterns,
    row_cost,
    row_shape,
)
from lemmata.audit.generate.samples import DRAWN_CLAIMS
from lemmata.audit.kernel import claims as k
from lemmata.audit.nets.stated import float_type

Array = np.ndarray

RISK = 0.05
SOLVED = 100  # steps of the flow from row to noise, twice what a model takes by default
ASKED = 64  # rows whose density is compared
EXACT, PROBES = 64, 8  # columns up to which a divergence is exact, and probes beyond
SETTLED = 0.01  # nats, per number of a row


class Densities(NamedTuple):
    """ln p of new rows, in their units: as the model states it, and recomputed with twice the steps and other probes."""

    stated: Array
    found: Array
    numbers: int  # of a row


def _cost_of_densities(fit: k.Fit) -> float:
    slopes = min(fit.data.shape[1], EXACT)
    return 1.5 * min(n_new(fit), ASKED) * SOLVED * (2 + 3 * slopes) * row_cost(fit)


@k.fact(cost=_cost_of_densities, needs=(patterns,))
def flow_densities(fit: k.Fit) -> Densities:
    """Return the densities of at most ASKED new rows. CannotTell without classes that a model has, or with given channels."""
    if fit.get("given", 0):
        raise k.CannotTell(
            "channels are given: the density is that of the others, which is not stated"
        )
    rows, found, some = new_rows(fit).new, patterns(fit), slice(ASKED)
    told = found.told.part(some)
    if fit.get("classes_") is not None and told.places is None:
        raise k.CannotTell(
            "the classes of new rows are needed: pass certify(X, y, X_test=…, y_test=…)"
        )
    labels = None if told.places is None else np.asarray(fit.classes_)[told.places]
    stated = np.asarray(fit.model.score_samples(_as_given(fit, rows[some]), labels), np.float64)
    scale = fit.module_.scale.detach().double().cpu().numpy()
    volume = np.log(np.where(scale > 0, scale, 1.0)) * np.ones(
        row_shape(fit) if scale.ndim == 0 else 1
    )
    return Densities(stated, _follow(fit, found.new[some], told) - volume.sum(), found.new.shape[1])


def _as_given(fit: k.Fit, rows: Array) -> Array:
    return rows.astype(float_type(fit))


def _follow(fit: k.Fit, rows: Array, told: Told) -> Array:
    """ln p of rows in the units of the denoiser: Heun's steps to noise, and trapezia of σ tr(∂ξ̂/∂y) in ln σ on the way."""
    import torch

    a, d = amplitudes(fit), rows.shape[1]
    sigma, times = np.sqrt((1 - a) * (1 + a)) / a, evenly_in_noise(amplitudes(fit), SOLVED)
    x: Any = torch.from_numpy(rows).to(fit.module_.log_sigma).reshape(-1, *row_shape(fit))
    rng, probes = np.random.default_rng(d), None
    if d > EXACT:
        probes = torch.from_numpy(rng.choice([-1.0, 1.0], (PROBES, 1, *x.shape[1:]))).to(x)

    def field(x: Any, t: int) -> Any:
        return as_noise(fit, call(fit, x, t, told), x, float(a[t]))

    slope: Any
    here, slope = _with_divergence(lambda x: field(x, times[0]), x, probes)
    total = sigma[times[0]] * slope
    x = a[times[0]] * (x + sigma[times[0]] * here)
    for t, s in pairwise(times):
        with torch.no_grad():
            here = field(x, t)
            ahead = field(move(x, a, t, s, here), s)
        x = move(x, a, t, s, (here + ahead) / 2)
        after = _with_divergence(lambda x, s=s: field(x, s), x, probes)[1]
        half = math.log(sigma[s] / sigma[t]) / 2
        total, slope = total + half * (sigma[t] * a[t] * slope + sigma[s] * a[s] * after), after
    end = x.double().cpu().numpy().reshape(len(x), -1)
    return (
        -0.5 * np.square(end).sum(axis=1)
        - d * (0.5 * math.log(2 * math.pi) - math.log(a[times[-1]]))
        + total
    )


def _with_divergence(function: Any, x: Any, probes: Any) -> tuple[Any, Array]:
    """f(x) and tr(∂f/∂x) of each row, (n,): number by number, or the mean of vᵀ(∂f/∂x)v over probes."""
    import torch

    x = x.detach().requires_grad_(True)
    found = function(x)
    total: Any = torch.zeros(len(x), dtype=torch.float64)
    flat, count = found.flatten(1), len(probes) if probes is not None else found[0].numel()
    for j in range(count):
        target = flat[:, j].sum() if probes is None else (found * probes[j]).sum()
        (slope,) = torch.autograd.grad(target, x, retain_graph=j + 1 < count)
        part = slope.flatten(1)[:, j] if probes is None else (slope * probes[j]).flatten(1).sum(1)
        total += part.double().cpu() / (1 if probes is None else count)
    return found.detach(), total.numpy()


@k.rule_of_thumb(
    f"score_samples of new rows moves by at most {SETTLED:g} nats per number with twice the steps and other probes",
    "Song et al. 2021; trapezoidal rule",
    needs=(flow_densities,),
)
def likelihood_settled(fit: k.Fit) -> k.Evidence:
    """Recomputed from the denoiser, so a divergence that is wrong shows as well."""
    found = flow_densities(fit)
    off = np.abs(found.stated - found.found)
    advice = (
        "pass more steps or probes to estimate_density, or train longer: the denoiser changes fast"
    )
    note = f"{len(off)} rows; {off.mean():.3g} nats a row, of {found.numbers} numbers"
    moved = float(off.mean()) / found.numbers
    return k.at_most(moved, SETTLED, advice, unit="nats per number", note=note)


@k.statistical(
    f"{SENTENCE}, by the likelihood of the denoiser's flow",
    "CIL 5.2; Song et al. 2021",
    confidence=1 - RISK,
    needs=(flow_densities,),
)
def beats_independent(fit: k.Fit) -> k.Evidence:
    """Compare the law of the flow, by the lesser of the two densities of each row."""
    rows = new_rows(fit)
    baseline = independent_normals(rows.train, rows.weights, rows.new[:ASKED])
    found = flow_densities(fit)
    if not likelihood_settled.check(fit).verdict == k.HOLDS:
        raise k.CannotTell("ln p has not settled: see likelihood_settled")
    return judge_gains(
        np.minimum(found.stated, found.found), baseline, "train longer, or take more rows"
    )


DIFFUSION_MORE_CLAIMS: tuple[Any, ...] = (
    likelihood_settled,
    beats_independent,
    mass_one,
    *DRAWN_CLAIMS,
)
