"""The network of a diffusion model: a denoiser with the units of the rows and the schedule of its noise (CIL 5.5; ML Alg. 2).

    learn     x_t = ᾱ_t x_0 + β̄_t ξ,  t uniform on 1 … T:     minimise E ‖F(x_t, t) − target‖²,  see targets.py
    guide     ξ̂ = ξ̂(x, t, no class) + (1 + w)(ξ̂(x, t, y) − ξ̂(x, t, no class)):  w > 0 exaggerates what is special about y

With a learned variance F gives, besides, a share u(x, t) in (0, 1) for each number: Σ(x; t) of (5.47) is diagonal, and
ln σ² = u ln β_t² + (1 − u) ln(β_t β̄_{t−1}/β̄_t)², trained by the bound of likelihood.py.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lemmata.core.files.encoding import storable
from lemmata.generate.base import sum_over_classes
from lemmata.generate.diffusion.likelihood import gap_of_step, log_density, lower_bound
from lemmata.generate.diffusion.samplers import trajectory
from lemmata.generate.diffusion.schedules import NoiseSchedule
from lemmata.generate.diffusion.targets import noise_of, require_target, target_of
from lemmata.nets.images.unet import UNet
from lemmata.nets.timed import TimedMLP
from lemmata.nets.training.counting import Operations
from lemmata.nets.training.losses import Objective, Terms

Array = np.ndarray
BOUND_WEIGHT = 1e-3  # of the bound that trains a learned variance (Nichol & Dhariwal 2021)
SOLVER_STEPS = 50
IMAGES, TABLES = 32, 128  # width of a U-Net, of a perceptron


class DiffusionNet(nn.Module):
    """A denoiser, in units of the rows where it stands at the edge, and in units of their deviation inside.

    Parameters
    ----------
    net : nn.Module
        (x, t, labels) ↦ a prediction; t (B,) counts from 1 to T, label n_classes means no class, and without classes labels
        are left out. Channels that are given follow those of x.
    input_shape : tuple
        Of a row, with the channels that are given.
    steps : int
        T.
    predict : {"v", "noise", "x0", "score"}
        What the net gives; of "score", β̄ times the score.
    n_classes, given : int
    learned : bool
        The net gives twice as many channels; the second half are shares of the variance, as logits.
    """

    mean: Tensor
    scale: Tensor
    log_sigma: Tensor
    ends: Tensor
    shares: Tensor

    def __init__(
        self,
        net: nn.Module,
        input_shape: Sequence[int],
        steps: int,
        predict: str = "v",
        n_classes: int = 0,
        given: int = 0,
        learned: bool = False,
    ) -> None:
        super().__init__()
        shape = tuple(input_shape)
        self.config = {
            "net": net, "input_shape": shape, "steps": steps, "predict": require_target(predict), "n_classes": n_classes,
            "given": given, "learned": learned,
        }  # fmt: skip
        self.net, self.kind, self.n_classes, self.given, self.learned = net, predict, n_classes, given, learned  # fmt: skip
        self.shape = (shape[0] - given, *shape[1:])  # of what is drawn
        images = len(shape) == 3
        self.register_buffer("mean", torch.zeros(() if images else shape))
        self.register_buffer("scale", torch.ones(() if images else shape))
        if images:
            self.register_buffer("ends", torch.tensor([0.0, 1.0]))  # of the numbers of a draw
        # ln β̄/ᾱ, of which float32 keeps both ends
        self.register_buffer("log_sigma", torch.linspace(-5.0, 5.0, steps))
        if n_classes:
            self.register_buffer("shares", torch.full((n_classes,), 1.0 / n_classes))

    @property
    def schedule(self) -> NoiseSchedule:
        log_sigma = self.log_sigma.detach().double().cpu().numpy()
        alpha_bar = 1 / np.sqrt(1 + np.exp(2 * log_sigma))
        return NoiseSchedule(np.concatenate([[1.0], alpha_bar]))

    # --- units ---

    def standardise(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Rows in units of their deviation, and the channels that are given."""
        z = (x - self.mean) / torch.where(self.scale > 0, self.scale, 1.0)
        return (z[:, : -self.given], z[:, -self.given :]) if self.given else (z, None)

    def in_units(self, z: Tensor) -> Tensor:
        x = self.mean + self.scale * z
        return x.clamp(*self.ends.tolist()) if len(self.shape) == 3 else x

    # --- the denoiser ---

    def forward(
        self, x: Tensor, t: Tensor, labels: Tensor | None = None, given: Tensor | None = None
    ) -> Tensor:
        """Predict the target, (B, …), from x_t in units of the deviation and times (B,)."""
        return self.predict(x, t, labels, given)[0]

    def predict(
        self, x: Tensor, t: Tensor, labels: Tensor | None = None, given: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The prediction, and the shares of a learned variance."""
        if self.n_classes and labels is None:
            labels = torch.full((len(x),), self.n_classes, device=x.device)
        inputs = x if given is None else torch.cat([x, given], dim=1)
        found = self.net(inputs, t, *(() if labels is None else (labels,)))
        channels = self.shape[0] * (2 if self.learned else 1)
        if tuple(found.shape) != (len(x), channels, *self.shape[1:]):
            raise ValueError(
                f"the denoiser gives {tuple(found.shape)} for {tuple(inputs.shape)}; it has to give "
                f"{(len(x), channels, *self.shape[1:])}."
            )
        found, logits = found.split(self.shape[0], dim=1) if self.learned else (found, None)
        if self.kind == "score":
            found = found / self.amplitudes(x, t)[1]
        return found, None if logits is None else torch.sigmoid(logits)

    def noise(
        self, x: Tensor, t: Tensor, labels: Tensor | None = None, given: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """E[ξ | x_t = x], and the shares of a learned variance."""
        found, shares = self.predict(x, t, labels, given)
        return noise_of(self.kind, found, x, *self.amplitudes(x, t)), shares

    def amplitudes(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """ᾱ_t and β̄_t of times (B,), shaped to multiply x."""
        log_sigma = self.log_sigma[t - 1].reshape(-1, *[1] * (x.dim() - 1))
        return torch.sigmoid(-2 * log_sigma).sqrt(), torch.sigmoid(2 * log_sigma).sqrt()

    # --- using ---

    def walk(
        self,
        noise: Tensor,
        generator: torch.Generator,
        labels: Tensor | None = None,
        given: Tensor | None = None,
        *,
        steps: int = SOLVER_STEPS,
        sampler: str = "heun",
        guidance: float = 0.0,
        share: float = 0.0,
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield (t, x_t) from T down to 0, in units of the deviation. What is sent back takes the place of x_t.

        share : of the ancestral sampler's variance between its least and its largest value; a learned one goes before
        """
        known: dict[str, Any] = {"share": share}

        def predict(x: Tensor, t: int) -> Tensor:
            times = torch.full((len(x),), t, device=x.device)
            if not guidance or labels is None:
                found, learned = self.noise(x, times, labels, given)
            else:
                none = torch.full_like(labels, self.n_classes)
                twice = None if given is None else torch.cat([given, given])
                both, learned = self.noise(
                    torch.cat([x, x]), torch.cat([times, times]), torch.cat([labels, none]), twice
                )
                with_class, without = both.chunk(2)
                found = without + (1 + guidance) * (with_class - without)
                learned = None if learned is None else learned.chunk(2)[0]
            if learned is not None:
                known["share"] = learned
            return found

        def draw(x: Tensor) -> Tensor:
            return _normal(x.shape, generator, x)

        options = {"share": lambda: known["share"]} if sampler == "ancestral" else {}
        yield from trajectory(noise, predict, draw, self.schedule, sampler, steps, **options)

    def start(self, n: int, generator: torch.Generator) -> Tensor:
        """x_T: noise."""
        return _normal((n, *self.shape), generator, self.log_sigma)

    def sample(
        self,
        n: int,
        generator: torch.Generator,
        y: Tensor | None = None,
        given: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        """(n, …) in the units of the rows; y are places among the classes, `given` channels in the units of the rows."""
        if given is not None:
            given = (given - self.mean) / self.scale
        *_, (_, x) = self.walk(self.start(n, generator), generator, y, given, **options)
        return self.in_units(x)

    @torch.no_grad()
    def complete(
        self,
        x: Tensor,
        keep: Tensor,
        generator: torch.Generator,
        y: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        """Draw what is not to be kept of rows: at every level, what is takes its place with the noise of that level."""
        x0, n = self.standardise(x)[0], len(x)
        a, b = self.schedule.alpha_bar, self.schedule.beta_bar
        walk: Any = self.walk(self.start(n, generator), generator, y, **options)
        t, z = next(walk)
        while t:
            noisy = float(a[t]) * x0 + float(b[t]) * self.start(n, generator)
            t, z = walk.send(torch.where(keep, noisy, z))
        return self.in_units(z)

    def log_prob(
        self, x: Tensor, y: Tensor | None = None, steps: int = SOLVER_STEPS, probes: Any = None
    ) -> Tensor:
        """(B,): ln p by the probability-flow ODE; with classes and without y, ln Σ p(y) p(x|y)."""
        if self.n_classes and y is None:
            return sum_over_classes(lambda x, y: self.log_prob(x, y, steps, probes), x, self.shares)
        return self.log_probs(x, y, steps, probes).mean(dim=0)

    def log_probs(self, x: Tensor, y: Tensor | None, steps: int, probes: Any) -> Tensor:
        """(K, B): ln p by each of K probes of the divergence; (1, B) where it is exact."""
        z, given = self.standardise(x)

        def predict(x: Tensor, t: int) -> Tensor:
            return self.noise(x, torch.full((len(x),), t, device=x.device), y, given)[0]

        found = log_density(z, predict, self.schedule, steps, probes)
        return found - self._log_volume(z)

    def elbo(self, x: Tensor, y: Tensor | None, draws: int, share: float, rng: Any) -> Tensor:
        """(B,): the bound of ln p(x), by so many draws of a time and its noise; rng is NumPy's."""
        z, given = self.standardise(x)

        def predict(x: Tensor, t: Tensor) -> tuple[Tensor, Any]:
            found, learned = self.noise(x, t, y, given)
            return found, share if learned is None else learned

        return lower_bound(z, predict, self.schedule, draws, rng) - self._log_volume(z)

    def _log_volume(self, z: Tensor) -> Tensor:
        """Σ ln s: of the map from the rows to units of their deviation."""
        scale = torch.where(self.scale > 0, self.scale, 1.0).log()
        return scale.sum() if scale.dim() else scale * math.prod(z.shape[1:])


# --- for the estimator ------------------------------------------------------------------------------------------------


def build(denoiser: Any, width: int | None, sizes: dict[str, Any]) -> DiffusionNet:
    """Make the network of these sizes; a denoiser that is passed is copied, or made by calling it."""
    shape, classes = sizes["input_shape"], sizes["n_classes"] or None
    first = (shape[0] - sizes["given"]) * (2 if sizes["learned"] else 1)
    known = {"n_classes": classes, "time_scale": 1000 / sizes["steps"]}
    if isinstance(denoiser, nn.Module):
        net = copy.deepcopy(denoiser)
    elif denoiser is not None:
        net = denoiser()
    elif len(shape) == 3:
        net = UNet(shape, first, width or IMAGES, adaptive=True, **known)
    elif len(shape) == 1:
        net = TimedMLP(shape, first, width or TABLES, **known)
    else:
        raise ValueError(f"X has rows of shape {shape}; pass a table, images, or a denoiser.")
    return DiffusionNet(net, **sizes)


def require_same(net: Any, sizes: dict[str, Any], log_sigma: Array) -> None:
    """ValueError where a warm start begins at a network of another schedule or target."""
    for name, value in sizes.items():
        if net.config[name] != value:
            raise ValueError(
                f"{name} is {value!r}; the last fit, where warm_start begins, had {net.config[name]!r}."
            )
    if not np.allclose(net.log_sigma.cpu().numpy(), log_sigma, atol=1e-4):
        raise ValueError("the last fit, where warm_start begins, had another schedule.")


@torch.no_grad()
def prediction_errors(
    net: DiffusionNet, x: Tensor, times: Array, places: Array | None, rng: np.random.Generator
) -> Array:
    """(n,): the mean squared error of the prediction at these times, with noise of rng."""
    z, given = net.standardise(x)
    noise = torch.from_numpy(rng.standard_normal((len(x), math.prod(z.shape[1:])))).to(z)
    noise, t = noise.reshape(z.shape), torch.from_numpy(times).to(z.device)
    labels = None if places is None else torch.from_numpy(places).to(z.device)
    a, b = net.amplitudes(z, t)
    found = net(a * z + b * noise, t, labels, given)
    weight = b if net.kind == "score" else 1.0
    error = weight * (found - target_of(net.kind, z, noise, a, b))
    return error.square().flatten(1).mean(1).double().cpu().numpy()


def densities(
    net: DiffusionNet, x: Tensor, places: Array | None, steps: int, probes: Array | None
) -> tuple[Array, Array]:
    """ln p of rows, and its standard errors by the probes; without places of a net with classes, ln Σ p(y) p(x|y)."""
    signs = None if probes is None else torch.from_numpy(probes).to(net.log_sigma)

    def of_class(x: Tensor, y: Tensor | None) -> Tensor:
        return net.log_probs(x, y, steps, signs).double()

    if places is None and net.n_classes:
        logs = sum_over_classes(of_class, x, net.shares.double())
    else:
        logs = of_class(x, None if places is None else torch.from_numpy(places).to(x.device))
    each = logs.cpu().numpy()  # (K, B)
    spread = each.std(axis=0, ddof=1) if len(each) > 1 else np.zeros(each.shape[1])
    return each.mean(axis=0), spread / math.sqrt(len(each))


def count_products(net: DiffusionNet) -> float:
    """Multiplications in the products and convolutions of the denoiser, for a row."""
    x = net.log_sigma.new_zeros((1, *net.shape))
    given = x.new_zeros((1, net.given, *net.shape[1:])) if net.given else None
    with torch.no_grad(), Operations() as counted:
        net(x, torch.ones(1, dtype=torch.long, device=x.device), None, given)
    return counted.products


def _normal(shape: Any, generator: torch.Generator, like: Tensor) -> Tensor:
    """N(0, I), the same for every float type of the network."""
    found = torch.randn(tuple(shape), generator=generator, dtype=torch.float32, device=like.device)
    return found.to(like.dtype)


@storable
@dataclass(frozen=True)
class Denoising(Objective):
    """‖F(x_t, t) − target‖² of rows at times spread evenly over a batch; of "score", β̄² times that.

    drop : share of rows whose class is left out, for guidance
    """

    drop: float = 0.1

    def __call__(self, net: nn.Module, batch: Sequence[Tensor], rng: torch.Generator) -> Any:
        model: Any = net
        x0, given = model.standardise(batch[0])
        n, like, labels = len(x0), x0, batch[1] if len(batch) > 1 else None
        # one time in each n-th part of 1 … T: uniform for every row, and less noisy than independent draws
        u = torch.rand((), generator=rng, device=like.device) + torch.arange(n, device=like.device)
        T = len(model.log_sigma)
        t = 1 + (u * T / n).long().clamp(max=T - 1)
        noise = _normal(x0.shape, rng, like)
        if labels is not None:
            kept = torch.rand(n, generator=rng, device=like.device) >= self.drop
            labels = torch.where(kept, labels, model.n_classes)
        a, b = model.amplitudes(x0, t)
        x = a * x0 + b * noise
        found, shares = model.predict(x, t, labels, given)
        weight = b if model.kind == "score" else 1.0
        error = weight * (found - target_of(model.kind, x0, noise, a, b))
        losses = error.square().flatten(1).mean(1)
        if shares is None:
            return losses
        guess = noise_of(model.kind, found.detach(), x, a, b)
        gap = gap_of_step(noise - guess, t, model.schedule, shares).flatten(1).mean(1)
        return Terms(losses + BOUND_WEIGHT * T * gap, {"denoising": losses})
