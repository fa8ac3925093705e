"""Where a network computes, in which precision and in which order its numbers lie: chosen once, by measurement, and
written down.

* **device**: a GPU if torch sees one, else the CPU.
* **precision**: that of the data, float64 or float32. bfloat16 (autocast: weights stay float32) where the processor has
  units for it and a trial shows that this network gains from them: without them it is emulated, and slower.
* **layout**: for networks with 2-d convolutions, contiguous (N, C, H, W) or channels last, whichever a trial finds faster.

A trial is some batches forward and backward on a copy of the network, without any of the run's random numbers. It
measures time, so that two machines may choose differently, and then differ in rounding: name both where bits must not
depend on the machine. One process asks once for each architecture; a state holds what was chosen, so a resumed run does
not choose again.
"""

from __future__ import annotations

import copy
import functools
import itertools
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lemmata.nets.training.losses import Objective
from lemmata.nets.training.seeding import own_draws

PRECISIONS = ("auto", "float32", "float64", "bfloat16")
LAYOUTS = ("auto", "contiguous", "channels_last")
WORTH = 0.95  # what is not the usual has to take less than this share of the time
TRIAL_ROWS = 64
_chosen: dict[str, tuple[str, str]] = {}


class Place(NamedTuple):
    """Where and how a network computes."""

    device: str
    precision: str
    layout: str

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return torch.float64 if self.precision == "float64" else torch.float32

    @property
    def memory_format(self) -> torch.memory_format:
        return torch.channels_last if self.layout == "channels_last" else torch.contiguous_format

    def put(self, module: nn.Module) -> nn.Module:
        """A module here: its weights moved and laid out."""
        return module.to(device=self.device, dtype=self.dtype).to(memory_format=self.memory_format)  # type: ignore[call-overload]

    def tensor(self, part: Tensor) -> Tensor:
        """A tensor here: floats in the precision of the weights, images in the order that was chosen."""
        last = self.layout == "channels_last" and part.ndim == 4
        if self.device == "cpu" and not last and part.dtype in (self.dtype, torch.int64):
            return part  # as most are
        dtype = self.dtype if part.is_floating_point() else None
        order = torch.channels_last if last else torch.preserve_format
        return part.to(device=self.device, dtype=dtype, memory_format=order)

    def autocast(self) -> Any:
        if self.precision == "bfloat16":
            return torch.autocast(self.device.partition(":")[0], dtype=torch.bfloat16)
        return nullcontext()


def choose_device(device: str) -> str:
    """ "auto": what this machine has."""
    if device != "auto":
        try:
            return str(torch.device(device))
        except RuntimeError as error:
            raise ValueError(
                f"device={device!r} is not known to torch; pass 'auto', 'cpu', 'cuda', …"
            ) from error
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


@functools.cache
def has_bfloat16_units(device: str) -> bool:
    """Whether the processor multiplies bfloat16 by itself; where it does not, it is emulated."""
    if device.startswith("cuda"):
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device != "cpu":
        return False
    try:
        with open("/proc/cpuinfo") as file:
            flags = next(
                (set(line.split()) for line in file if line.startswith(("flags", "Features"))),
                set(),
            )
    except OSError:
        return False
    return bool(flags & {"avx512_bf16", "amx_bf16", "bf16"})


def choose(
    module: nn.Module,
    objective: Objective,
    batch: Sequence[Tensor],
    *,
    device: str = "auto",
    precision: str = "auto",
    layout: str = "auto",
) -> Place:
    """Where and how to train a network whose batches look like this one."""
    _refuse_unknown("precision", precision, PRECISIONS)
    _refuse_unknown("layout", layout, LAYOUTS)
    device = choose_device(device)
    precisions = [precision] if precision != "auto" else _precisions(batch[0], device)
    layouts = [layout] if layout != "auto" else _layouts(module)
    options = list(itertools.product(precisions, layouts))
    if len(options) == 1:
        return Place(device, *options[0])
    shapes = [(tuple(part.shape), str(part.dtype)) for part in batch]
    key = f"{module!r} {shapes} {device} {options} {torch.get_num_threads()}"
    if key not in _chosen:
        rows = [part[:TRIAL_ROWS] for part in batch]
        times = {pair: _trial(module, objective, rows, Place(device, *pair)) for pair in options}
        best = min(times, key=lambda pair: times[pair])
        _chosen[key] = best if times[best] <= WORTH * times[options[0]] else options[0]
    return Place(device, *_chosen[key])


def _refuse_unknown(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name}={value!r} is not known; pass one of {', '.join(known)}.")


def _precisions(x: Tensor, device: str) -> list[str]:
    if x.dtype == torch.float64 and device != "mps":
        return ["float64"]
    return ["float32", "bfloat16"] if has_bfloat16_units(device) else ["float32"]


def _layouts(module: nn.Module) -> list[str]:
    convolves = any(isinstance(part, (nn.Conv2d, nn.ConvTranspose2d)) for part in module.modules())
    return ["contiguous", "channels_last"] if convolves else ["contiguous"]


def _trial(module: nn.Module, objective: Objective, batch: Sequence[Tensor], place: Place) -> float:
    """Seconds of a batch forward and backward, the best of three after one that warms up."""
    with own_draws():
        torch.manual_seed(0)
        trained = place.put(copy.deepcopy(module)).train()
        parts = [place.tensor(part) for part in batch]
        rng = torch.Generator(place.device).manual_seed(0)
        times = []
        for _ in range(4):
            begin = time.perf_counter()
            with place.autocast():
                loss = objective(trained, parts, rng).mean()
            loss.backward()
            trained.zero_grad(set_to_none=True)
            times.append(time.perf_counter() - begin)
    return min(times[1:])
