"""The claim that backpropagation gives derivatives: slopes by autograd against differences of what the network computes.

With f the loss (or a random weighting of all outputs) and v a random direction in one tensor of parameters, the slope
⟨∇f, v⟩ should be f′(0) along θ + t·v. Central differences at h, h/4, h/16, … cancel their errors of order h² against
each other (Richardson); how much the last two results disagree says how far they can be trusted:

    D(h) = (f(h) − f(−h))/2h = f′ + O(h²),     R(h) = (16D(h/4) − D(h))/15 = f′ + O(h⁴)

At a kink the two sides have different slopes, and autograd may give either. The jump is s(h) = (f(h) − 2f(0) +
f(−h))/h as h → 0, and (4s(h/4) − s(h))/3 is that jump without the part h·f″ that smooth functions have. Where it is
not zero at any step (a unit switches on between −h and h, or at 0 itself), the direction is left out. A tensor of
which all directions were left out is tried again beside the point, every parameter moved a little.

**What it is worth.** If a gradient is off by δ, the slope along a standard normal v is off by ⟨δ, v⟩ ~ N(0, ‖δ‖²),
which is below t‖δ‖ with probability at most 0.8t. A tensor's gradient off by 0.1 % passes two directions at 1e-6 with
probability 6e-7: 99.9 % is the confidence that none of a thousand tensors is, on these rows and in these modes. It says nothing
about other rows, so that up to MANY more are looked at together, in directions that move all tensors at once. A mismatch
beyond what the differences disagree about is a counterexample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.nets import modules
from lemmata.audit.nets.modules import Copy, Examples, floats_in, forwards, in_double, tensors_in

AGREE = 1e-6  # of a tensor's gradient
FLOOR = 1e-4  # of the largest gradient: below it, a tensor is judged by this
SURE = 10  # times what the differences disagree about: beyond it, a mismatch is one
ROWS, DIRECTIONS, LEVELS = 16, 2, 10  # the last step is 2⁻²⁴
MANY = 256  # rows that all tensors are checked on at once
FIRST_STEP = 2.0**-6  # of the size of a parameter
BESIDE = 1e-2  # of the size of a parameter: how far the second point is
INPUT = "the input"
LOSSES = ("cross_entropy", "bce", "mse", "l1", "huber")


# --- slopes by differences --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slope:
    """f′(0) by differences, and its error. Without a value: there is a kink, or no two differences agree."""

    value: float
    error: float
    smooth: bool


def slope_of(f: Callable[[float], float], wanted: float) -> Slope:
    """The slope of f at 0, to `wanted` if that can be had: the best of ever smaller steps."""
    middle, h = f(0.0), FIRST_STEP
    D: list[float] = []
    R: list[float] = []
    S: list[float] = []
    best = Slope(math.nan, math.inf, False)
    for level in range(LEVELS):
        ahead, behind = f(h), f(-h)
        noise = 8 * np.finfo(float).eps * max(abs(ahead), abs(behind), abs(middle)) / h
        D.append((ahead - behind) / (2 * h))
        S.append((ahead - 2 * middle + behind) / h)
        if level >= 1:
            R.append((16 * D[-1] - D[-2]) / 15)
        if level >= 2:
            error = abs(R[-1] - R[-2]) + noise
            jump = abs(4 * S[-1] - S[-2]) / 3
            smooth = jump <= wanted + 8 * noise
            if smooth and error < best.error:
                best = Slope(R[-1], error, True)
            if best.error <= wanted / SURE:
                break
        h /= 4
    return best


# --- the function and its gradient ------------------------------------------------------------------------------------


def loss_by_name(name: str) -> Callable[[Any, Any], Any]:
    """The mean of a loss over rows. Classes stand last: (B, c) and y (B,), or (B, T, c) and y (B, T)."""
    import torch.nn.functional as F

    def cross_entropy(output: Any, y: Any) -> Any:
        return F.cross_entropy(output.reshape(-1, output.shape[-1]), y.reshape(-1).long())

    if name == "cross_entropy":
        return cross_entropy
    numbers: dict[str, Any] = {"mse": F.mse_loss, "l1": F.l1_loss, "huber": F.huber_loss}
    compare = numbers.get(name, F.binary_cross_entropy_with_logits)
    return lambda output, y: compare(output, y.to(output.dtype).reshape(output.shape))


def objective_of(fit: k.Fit, own: Copy, examples: Examples, training: bool) -> Callable[[Any], Any]:
    """The function of the outputs whose gradients are checked: a loss, or a random weighting of all outputs."""
    import torch

    loss = fit.get("objective")  # validated by `certify(module, …)`
    if loss is not None:
        places = modules.spaced(fit.data.shape[0], examples.shape[0])
        y = torch.as_tensor(np.asarray(fit.y))[places]
        y = y.double() if y.is_floating_point() else y
        if callable(loss):
            return lambda returned: loss(returned, y)
        by_name = loss_by_name(loss)
        return lambda returned: by_name(floats_in(returned)[0], y)
    with torch.no_grad():
        shapes = [tensor.shape for tensor in own.outputs(examples, training)]
    generator = torch.Generator().manual_seed(2)
    weights = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    count = sum(w.numel() for w in weights)

    def weighted(returned: Any) -> Any:
        pairs = zip(weights, floats_in(returned), strict=True)
        return torch.stack([(w * tensor).sum() for w, tensor in pairs]).sum() / count**0.5

    return weighted


class Function:
    """The objective of a module's outputs, as a function of one tensor: everything else, noise included, is fixed."""

    def __init__(self, fit: k.Fit, own: Copy, examples: Examples, training: bool):
        self.own, self.training = own, training
        self.objective = objective_of(fit, own, examples, training)
        self.examples = examples.map(lambda x: x.double() if x.is_floating_point() else x)
        self.tensors = {n: p for n, p in own.parameters.items() if p.requires_grad}
        if self.examples.first.is_floating_point():
            self.tensors[INPUT] = self.examples.first.detach().clone()
        self.size = _typical_size(self.tensors)

    @classmethod
    def in_training(cls, fit: k.Fit, rows: int) -> Function:
        """The function of some rows, in training mode where the module runs in it. CannotTell if it is not repeatable."""
        own, examples = modules.copy_of(fit), modules.examples_of(fit, rows)
        training = own.runs_in_training(examples)
        own.require_repeatable(examples, training)
        return cls(fit, own, examples, training)

    def value(self, moved: Any = None) -> Any:
        examples = self.examples if moved is None else self.examples.swap(self.examples.key, moved)
        outputs = self.own.call(examples, self.training)
        with in_double(0):
            return self.objective(outputs)

    def gradients(self) -> dict[str, Any]:
        """Autograd's, for every tensor; zeros for one that f does not depend on."""
        import torch

        x = self.tensors.get(INPUT)
        moved = None if x is None else x.clone().requires_grad_()
        leaves: Any = [moved if name == INPUT else tensor for name, tensor in self.tensors.items()]
        with torch.enable_grad():
            value = self.value(moved)
            if not value.requires_grad:
                return {name: torch.zeros_like(tensor) for name, tensor in self.tensors.items()}
            found = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
        return {name: g.detach() for name, g in zip(self.tensors, found, strict=True)}

    def along(self, direction: dict[str, Any]) -> Callable[[float], float]:
        """t ↦ f(θ + t·v), v in some of the tensors."""
        import torch

        start = {name: self.tensors[name].detach().clone() for name in direction}
        own = {name: v for name, v in direction.items() if name != INPUT}

        def f(t: float) -> float:
            with torch.no_grad():
                moved = start[INPUT] + t * direction[INPUT] if INPUT in direction else None
                for name, v in own.items():
                    self.tensors[name].copy_(start[name] + t * v)
                try:
                    return float(self.value(moved))
                finally:
                    for name in own:
                        self.tensors[name].copy_(start[name])

        return f

    def step_beside(self) -> None:
        """Move every tensor a little, away from kinks that the point happens to lie on."""
        import torch

        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                noise = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
                tensor.add_(BESIDE * self.size[name] * noise)
        if INPUT in self.tensors:
            self.examples = self.examples.swap(self.examples.key, self.tensors[INPUT])


def rounds_down(function: Function) -> bool:
    """Whether numbers of double precision are rounded to fewer digits on the way."""
    import torch

    found = []

    def look(called: Any, given: Any, result: Any) -> None:
        wide = any(x.dtype == torch.float64 for x in tensors_in(given))
        found.append(wide and any(x.dtype != torch.float64 for x in floats_in(result)))

    modules.watch(lambda: function.own.output(function.examples, function.training), look)
    return any(found)


def _typical_size(tensors: dict[str, Any]) -> dict[str, float]:
    """The root mean square of each tensor; of zeros, a hundredth of the others'."""
    rms = {name: float(tensor.detach().square().mean().sqrt()) for name, tensor in tensors.items()}
    usual = float(np.median([size for size in rms.values() if size > 0] or [1.0]))
    return {name: max(size, 0.01 * usual) for name, size in rms.items()}


# --- the claim --------------------------------------------------------------------------------------------------------


@dataclass
class SlopeChecks:
    """Results of the directions that were tried."""

    tensors: int = 0
    directions: int = 0
    left_out: int = 0
    rows: int = 0
    modes: list[str] = field(default_factory=list)
    worst: float = 0.0  # mismatch, as a share of the gradient
    where: str = ""
    doubtful: str = ""  # a mismatch that the differences are not sure about
    wrong: bool = False
    unchecked: list[str] = field(default_factory=list)


def compare_slopes(function: Function, found: SlopeChecks, groups: list[list[str]]) -> list[str]:
    """Compare tensors at this point, those of a group together; return the names of groups without a smooth direction."""
    import torch

    gradients = function.gradients()
    sizes = {n: float((function.size[n] * g).norm()) for n, g in gradients.items()}
    largest = max(sizes.values())
    if not math.isfinite(largest):
        found.wrong, found.worst = True, math.inf
        found.where = next(n for n, size in sizes.items() if not math.isfinite(size))
        return []
    generator, missing = torch.Generator().manual_seed(0), []
    for group in groups:
        checked, label = 0, group[0] if len(group) == 1 else "all tensors"
        for _ in range(DIRECTIONS):
            direction = {
                name: function.size[name]
                * torch.randn(gradients[name].shape, generator=generator, dtype=torch.float64)
                for name in group
            }
            scale = max(math.hypot(*(sizes[name] for name in group)), FLOOR * largest)
            stated = sum(float((gradients[name] * v).sum()) for name, v in direction.items())
            slope = slope_of(function.along(direction), AGREE * (scale or 1.0))
            scale = max(scale, abs(slope.value) if slope.smooth else 0.0)
            if not slope.smooth or slope.error > AGREE * (scale or 1.0):
                found.left_out += 1
                continue
            checked += 1
            found.directions += 1
            off = abs(stated - slope.value)
            share = off / scale if scale > 0 else 0.0
            if off > AGREE * scale + SURE * slope.error:
                found.wrong = True
            elif share > AGREE:
                found.doubtful = label
            if share > found.worst:
                found.worst, found.where = share, label
        missing += [] if checked else [label]
    return missing


def is_same(one: Function, other: Function) -> bool:
    """Whether two modes have the same values here and a step aside, and the same gradients: one is checked with the other."""
    import torch

    generator = torch.Generator().manual_seed(4)
    direction = {
        name: one.size[name] * torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        for name, tensor in one.tensors.items()
    }
    for t in (0.0, FIRST_STEP):
        a, b = one.along(direction)(t), other.along(direction)(t)
        if not abs(a - b) <= modules.REPEATS * abs(a):
            return False
    pairs = zip(one.gradients().values(), other.gradients().values(), strict=True)
    return all(modules.difference(a, b) <= modules.REPEATS for a, b in pairs)


def check_mode(fit: k.Fit, own: Copy, training: bool, found: SlopeChecks) -> None:
    """Every tensor by itself on ROWS rows, and all at once on MANY. Raises CannotTell where differences would show nothing."""
    import torch

    function = Function(fit, own, modules.examples_of(fit, ROWS), training)
    if rounds_down(function):
        why = "it rounds numbers to fewer digits than float64 on the way"
        raise k.CannotTell(f"{why}: differences show that, too")
    if not function.tensors:
        raise k.CannotTell("the module has nothing that a gradient could be taken of")
    with torch.no_grad():
        if not math.isfinite(float(function.value())):
            raise k.CannotTell("the outputs are not finite on these rows")
    found.tensors, found.rows = len(function.tensors), max(found.rows, function.examples.shape[0])
    found.modes.append("training" if training else "evaluation")
    if len(found.modes) > 1:
        rows = modules.examples_of(fit, MANY)
        if is_same(*(Function(fit, own, rows, mode) for mode in (False, True))):
            return
    missing = compare_slopes(function, found, [[name] for name in function.tensors])
    if missing and not found.wrong:
        function.step_beside()
        missing = compare_slopes(function, found, [[name] for name in missing])
        own.reset()
    found.unchecked += missing
    if not found.wrong and fit.data.shape[0] > ROWS:
        many = Function(fit, own, modules.examples_of(fit, MANY), training)
        if not compare_slopes(many, found, [list(many.tensors)]):
            found.rows = many.examples.shape[0]


def _cost(fit: k.Fit) -> float:
    tensors = 1 + sum(parameter.requires_grad for parameter in fit.module_.parameters())
    many = forwards(36.0, min(MANY, fit.data.shape[0]))(fit)  # two directions in either mode
    return forwards(tensors * DIRECTIONS * 18.0, ROWS)(fit) + many


@k.statistical(
    "on up to 16 rows, in training and evaluation mode, gradients are derivatives: slopes in random directions of every tensor "
    "agree with differences to 1e-6",
    "CIL 4.2",
    confidence=0.999,
    cost=_cost,
)
def gradients_true(fit: k.Fit) -> k.Evidence:
    """In float64, with one draw of the noise; of the loss if one was given, else of all outputs."""
    own, found = modules.copy_of(fit), SlopeChecks()
    try:
        for training in own.modes_that_run(modules.examples_of(fit, ROWS)):
            check_mode(fit, own, training, found)
            if found.wrong:
                break
    finally:
        own.reset()
    return _judge(found)


def _judge(found: SlopeChecks) -> k.Evidence:
    note = f"{found.directions} directions in {modules.count_of(found.tensors, 'tensor')}, {found.rows} rows"
    note += f", {' and '.join(found.modes)} mode"
    note += f"; {found.left_out} left out, at kinks or too rough" if found.left_out else ""
    if found.wrong:
        where = f"the gradient of {found.where} is not the derivative in {found.modes[-1]} mode"
        advice = f"{where}: correct the backward of what it passes through, or its hooks"
        return k.at_most(found.worst, AGREE, advice, unit="mismatch", note=note, kind=k.PROVED)
    if found.doubtful:
        return k.unknown(f"{found.doubtful}: the differences are not sharp enough; {note}")
    if found.unchecked:
        names = ", ".join(found.unchecked[:3]) + (" …" if len(found.unchecked) > 3 else "")
        return k.unknown(f"no direction is smooth enough in {names}; {note}")
    return k.at_most(found.worst, AGREE, unit="mismatch", note=note)
