"""Claims about normalizing flows (CIL 5.2): the bijection inverts, its determinants are those of its Jacobian, and the
density that follows makes new rows more probable than independent columns.

    x = F(z),    ln p(x) = ln p_Z(F⁻¹(x)) − ln|det J_F(F⁻¹(x))|                                                          (5.12)

Jacobians are autograd's, of the map that is run here in float64; a row at a time could differ from rows together (batch
norm), so that both are compared. A base density is known if it equals N(0, I) at draws of that, or is one of
torch.distributions, zuko's, normflows' or nflows'. With classes there is a bijection for each, rows are shared out among
them, and p(x) = Σ p(y) p(x|y).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from lemmata.audit.generate.densities import (
    ADVICE,
    NOTHING_STATED,
    RISK,
    SENTENCE,
    compare_with_independent,
    cost_of_row,
    judge_gains,
    judge_loss,
    log_density,
    mass_one,
    new_rows,
    require_mass,
)
from lemmata.audit.generate.pixels import independent_levels, levels_of, places_of
from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, statements_true
from lemmata.audit.nets.modules import rows_of
from lemmata.audit.nets.stated import unsound_network

Array = np.ndarray

MOST, NUMBERS = 64, 512  # rows, and rows times columns, of which Jacobians are computed
DRAWS = 4  # from the cell of a row of levels
AT_ONCE = 2**15  # numbers, of copies of a row that a Jacobian is computed of
# modules whose densities have a mass of 1
KNOWN_BASES = (
    "torch.distributions",
    "zuko.distributions",
    "normflows.distributions",
    "nflows.distributions",
)
NEAR = {"float64": 1e-6, "float32": 5e-3}  # errors of values, relative, and of ln|det|, in nats


class Bijection(NamedTuple):
    """A flow as claims see it: functions of tensors (m, d), each giving a value and ln|det| of every row."""

    forward: Callable[[Any], tuple[Any, Any]]
    inverse: Callable[[Any], tuple[Any, Any]]
    base: Any  # has log_prob(z)
    dtype: Any  # of the tensors that it takes

    @property
    def near(self) -> float:
        return NEAR[str(self.dtype).removeprefix("torch.")]


@k.fact(cost=k.free)
def bijections(fit: k.Fit) -> list[tuple[float, Bijection]]:
    """Return the bijection, or that of each class, with ln p(y)."""
    if fit.has("bijection"):
        return [(0.0, fit.bijection)]
    import torch

    net = copy.deepcopy(fit.module_).double().cpu().eval()
    shape = getattr(net.base, "shape", (-1,))

    def run(function: Any, place: int | None) -> Callable[[Any], tuple[Any, Any]]:
        def of_rows(rows: Any) -> tuple[Any, Any]:
            given = () if place is None else (torch.full((len(rows),), place),)
            value, log_det = function(rows.reshape(len(rows), *shape), *given)
            return value.flatten(1), log_det

        return of_rows

    class Base(NamedTuple):
        def log_prob(self, z: Any) -> Any:
            return net.base.log_prob(z.reshape(len(z), *shape))

    def one(place: int | None) -> Bijection:
        return Bijection(run(net.forward, place), run(net.inverse, place), Base(), torch.float64)

    if fit.get("classes_") is None:
        return [(0.0, one(None))]
    return [(math.log(share), one(y)) for y, share in enumerate(net.shares.tolist())]


class FlowErrors(NamedTuple):
    """The largest errors of a flow over some rows."""

    rows: int
    back: float  # |F(F⁻¹(x)) − x| / (|x| + deviation of the column)
    forth: float  # |F⁻¹(F(z)) − z| / (1 + |z|)
    inverse_det: float  # |stated − autograd's ln|det J||, nats, of F⁻¹
    forward_det: float  # of F
    alone: float  # of one row by itself: value and ln|det|
    steep: int  # rows left out, whose Jacobian is too ill-conditioned for a determinant
    near: float  # what rounding explains
    known_base: bool


def _cost(fit: k.Fit) -> float:
    d = fit.data.shape[1]
    return 6.0 * d * min(MOST, max(1, NUMBERS // d)) * cost_of_row(fit) + 2.0 * fit.data.size


@k.fact(cost=_cost)
def flow_errors(fit: k.Fit) -> FlowErrors:
    """Run the flow both ways on rows of the data, and on draws of its base, or of N(0, I)."""
    n, d = fit.data.shape
    rng, count = np.random.default_rng(n), min(n, MOST, max(1, NUMBERS // d))
    rows = rows_of(fit.data, np.sort(rng.permutation(n)[:count])).astype(np.float64)
    spread = np.where(np.ptp(rows, axis=0) > 0, rows.std(axis=0), 1.0)
    flows = bijections(fit)
    parts = [rows[at :: len(flows)] for at in range(min(len(flows), count))]
    found = [_errors(flow, part, spread, rng) for part, (_, flow) in zip(parts, flows, strict=False)]  # fmt: skip
    back, forth, inverse_det, forward_det, alone = np.array(found)[:, 1:6].max(axis=0).tolist()
    steep, known = sum(one.steep for one in found), all(one.known_base for one in found)
    return FlowErrors(
        count, back, forth, inverse_det, forward_det, alone, steep, found[0].near, known
    )


def _errors(flow: Bijection, rows: Array, spread: Array, rng: np.random.Generator) -> FlowErrors:
    import torch

    x, normal = (torch.from_numpy(part).to(flow.dtype) for part in (rows, rng.normal(size=rows.shape)))  # fmt: skip
    where = type(flow.base).__module__
    known = where.startswith(KNOWN_BASES)
    z = _draw(flow, len(rows)) if where.startswith(KNOWN_BASES[0]) else normal
    with torch.no_grad():
        code, inverse_det = flow.inverse(x)
        again, _ = flow.forward(code)
        back, _ = flow.inverse(flow.forward(z)[0])
        one = flow.inverse(x[:1])
        stated = flow.base.log_prob(z)
    alone = max(_largest(one[0] - code[:1]), _largest(one[1] - inverse_det[:1]))
    inverse_off, steep = _determinant_error(flow.inverse, x, flow.near)
    forward_off, steeper = _determinant_error(flow.forward, code, flow.near)
    expected = -0.5 * z.square().sum(1) - 0.5 * z.shape[1] * math.log(2 * math.pi)
    same = stated.shape == expected.shape and _largest(stated - expected) <= 1e-4 * z.shape[1]
    return FlowErrors(
        len(rows), _largest((again - x) / (x.abs() + torch.from_numpy(spread))), _largest((back - z) / (1 + z.abs())),
        inverse_off, forward_off, alone, max(steep, steeper), flow.near, known or same,
    )  # fmt: skip


def _draw(flow: Bijection, count: int) -> Any:
    """Rows of z from a base density of torch.distributions, by a seed of their own."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(count)
        return flow.base.sample((count,)).to(flow.dtype)


def _largest(difference: Any) -> float:
    """The largest size of a tensor's numbers; infinite where one is not a number."""
    found = np.abs(difference.detach().double().numpy())
    return float(found.max(initial=0.0)) if np.isfinite(found).all() else math.inf


def _determinant_error(function: Any, x: Any, near: float) -> tuple[float, int]:
    """The largest error of the ln|det| that a map states, by autograd's Jacobian, over rows; and rows that are left out."""
    import torch

    (n, d), found = x.shape, []
    copies, columns = x.detach().repeat_interleave(d, 0), torch.arange(d).repeat(n)[:, None]
    step = max(1, AT_ONCE // d)
    for some, at in zip(copies.split(step), columns.split(step), strict=True):
        some = some.clone().requires_grad_(True)
        value = function(some)[0].gather(1, at).sum()
        found.append(torch.autograd.grad(value, some, materialize_grads=True)[0])
    J = torch.cat(found).reshape(n, d, d).double()
    if not torch.isfinite(J).all():
        return math.inf, 0
    flat = torch.linalg.cond(J) * torch.finfo(x.dtype).eps > near
    with torch.no_grad():
        off = (function(x)[1].double() - torch.linalg.slogdet(J)[1])[~flat]
    return _largest(off), int(flat.sum())


@k.proved(
    "on these rows the flow and its inverse undo each other, both ways", "CIL (5.10)", needs=(flow_errors,)
)  # fmt: skip
def inverts(fit: k.Fit) -> k.Evidence:
    """F(F⁻¹(x)) of rows and F⁻¹(F(z)) of draws of the base, or of N(0, I)."""
    found = flow_errors(fit)
    advice = "an inverse is not that of its forward, it draws (dropout), or a map folds over (planar_invertible)"
    note = f"{found.rows} rows: {found.back:.2g} back, {found.forth:.2g} forth"
    return k.at_most(max(found.back, found.forth), found.near, advice, unit="relative error", note=note)  # fmt: skip


@k.proved(
    "on these rows ln|det| is that of the Jacobian by autograd, both ways",
    "CIL (5.11), J_F at F⁻¹(x)",
    needs=(flow_errors,),
)
def log_det_true(fit: k.Fit) -> k.Evidence:
    found = flow_errors(fit)
    if found.steep == found.rows:
        raise k.CannotTell("the Jacobians are too ill-conditioned for a determinant")
    advice = (
        "a term of ln|det J| is missing, has the wrong sign, or is taken at x instead of at F⁻¹(x)"
    )
    note = f"{found.rows - found.steep} rows: {found.inverse_det:.2g} of F⁻¹, {found.forward_det:.2g} of F"
    off = max(found.inverse_det, found.forward_det)
    return k.at_most(off, found.near, advice, unit="|error|, nats", note=note)


def require_sound_flow(fit: k.Fit) -> None:
    """Raise CannotTell unless the density that the flow states has a mass of 1, as far as these rows show."""
    found = flow_errors(fit)
    if max(found.back, found.forth) > found.near:
        raise k.CannotTell("the flow does not invert, so that it is no density to compare: see inverts")  # fmt: skip
    if max(found.inverse_det, found.forward_det, found.alone) > found.near:
        raise k.CannotTell("its determinants are not those of its Jacobian: see log_det_true")
    if not found.known_base:
        require_mass(fit)


@k.statistical(
    SENTENCE + "; of levels, than under their histograms by the density of draws from the cells",
    "CIL 5.2",
    confidence=1 - RISK,
    needs=(new_rows, flow_errors),
)
def beats_independent(fit: k.Fit) -> k.Evidence:
    """Signs of ln p − ln q, q the product of the columns' normals, of a flow that inverts with true determinants.

    Of levels at a distance of δ, ln(δᵈ/k Σ p(x + δu_i)) against ln Q(x): δᵈ p(x + δu) has the mean P(x) over u, so that the
    logarithm is below ln P(x) on average.
    """
    rows = new_rows(fit).new
    require_sound_flow(fit)
    import torch

    logs, flows = zip(*bijections(fit), strict=True)
    if abs(np.exp(logs).sum() - 1) > 1e-6:
        raise k.CannotTell("the shares of the classes do not add up to 1")
    x, each = torch.from_numpy(rows[:MOST]).to(flows[0].dtype), []
    with torch.no_grad():
        for flow in flows:
            code, log_det = flow.inverse(x)
            each.append((flow.base.log_prob(code) + log_det).double().numpy())
    ours = logsumexp(np.array(each) + np.array(logs)[:, None], axis=0)
    # what rounding explains of the difference between two ways to compute ln p
    close = flows[0].near * (1 + float(np.abs(ours).max()))
    if np.abs(ours - log_density(fit, rows[:MOST])).max() > close:
        raise k.CannotTell("log_prob is not that of its bijection and base (5.12)")
    if fit.get("levels_") is None:
        return compare_with_independent(fit)
    found, rng = new_rows(fit), np.random.default_rng((7, len(rows)))
    step = float(np.diff(levels_of(fit)).mean())
    if (np.abs(levels_of(fit)[places_of(fit, rows)] - rows) > 1e-3 * step).any():
        raise k.CannotTell("new rows hold numbers that are none of levels_")
    draws = [log_density(fit, rows + step * rng.random(rows.shape)) for _ in range(DRAWS)]
    bound = logsumexp(draws, axis=0) - math.log(DRAWS) + rows.shape[1] * math.log(step)
    baseline = independent_levels(fit, found.train, found.weights, rows)
    return judge_gains(bound, baseline, ADVICE.split(";")[0])


@k.proved(
    "planar maps have ⟨u,θ⟩ > −1, Sylvester maps r_ii r̃_ii > −1: with 0 ≤ φ′ ≤ 1 each is a bijection",
    "CIL 5.2.4 (the condition is missing there)",
)
def planar_invertible(fit: k.Fit) -> k.Evidence:
    if not fit.has("module_"):
        raise k.CannotTell("its transforms are not shown")
    found = dict(_slopes(fit.module_))
    if not found:
        raise k.CannotTell("it has no planar and no Sylvester maps")
    name, least = min(found.items(), key=lambda item: item[1])
    advice = f"{name} folds over: where the slope is negative two z have one x"
    note, unit = f"{len(found)} maps, least in {name}", "least ⟨u,θ⟩ or r_ii r̃_ii"
    return k.at_least(least, np.nextafter(-1.0, 0.0), advice, unit=unit, note=note)


def _slopes(module: Any) -> Iterator[tuple[str, float]]:
    """The least ⟨u,θ⟩, or r_ii r̃_ii, of every part that has such parameters."""
    for name, part in module.named_modules():
        if hasattr(part, "u") and hasattr(part, "theta"):
            u, theta = (t.detach().double() for t in (part.u, part.theta))
            yield name, float(u @ theta)
        elif hasattr(part, "R") and hasattr(part, "R_tilde"):
            R, R_tilde = (t.detach().double() for t in (part.R, part.R_tilde))
            yield name, float((R.diagonal() * R_tilde.diagonal()).min())


# --- what a fit states ------------------------------------------------------------------------------------------------


def _statement_errors(fit: k.Fit) -> Mapping[str, float]:
    """loss_, of levels at the middle of their cells."""
    middle = 0.0 if fit.get("levels_") is None else float(np.diff(levels_of(fit)).mean()) / 2
    return judge_loss(fit, log_density, middle)


def _cost_of_statement(fit: k.Fit) -> float:
    return min(fit.data.shape[0], 2000) * 4.0 * cost_of_row(fit)


FLOW_CLAIMS: tuple[Any, ...] = (
    attributes_sound({"loss_": "", "levels_?": "l"}, unsound_network),
    statements_true(_statement_errors, cost=_cost_of_statement, unchecked="test_rows_ levels_"),
    beats_independent,
    inverts,
    log_det_true,
)
PLANAR_CLAIMS: tuple[Any, ...] = (planar_invertible,)
MORE_FLOW_CLAIMS: tuple[Any, ...] = (mass_one,)
# of flows that state nothing about rows: a module, another library's
FOREIGN_FLOW_CLAIMS: tuple[Any, ...] = (
    *NOTHING_STATED,
    *FLOW_CLAIMS[2:],
    mass_one,
)
