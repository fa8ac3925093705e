"""Where a network computes, in which precision and in which order its numbers lie: fixed rules, written down in the
state. No clock is asked, so that the same seed gives the same network; machines differ by the rounding of their libraries.

* **device**: a GPU if torch sees one, else the CPU.
* **precision**: that of the rows, float64 or else float32. bfloat16 (autocast: weights stay float32) only where it is
  asked for: it is faster where the processor has units for it, and much slower where it is emulated.
* **layout**: channels last for networks with 2-d convolutions, on which they are faster; else contiguous, (N, C, H, W).
"""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lemmata.core.loop import warn_user

PRECISIONS = ("auto", "float32", "float64", "bfloat16")
LAYOUTS = ("auto", "contiguous", "channels_last")


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
    """Return whether the processor multiplies bfloat16 by itself; True where nothing says that it does not."""
    if device.startswith("cuda"):
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device != "cpu":
        return True
    try:
        with open("/proc/cpuinfo") as file:
            lines = (line for line in file if line.startswith(("flags", "Features")))
            flags = set(next(lines, "").split())
    except OSError:
        return True
    return not flags or bool(flags & {"avx512_bf16", "amx_bf16", "bf16"})


def choose(
    module: nn.Module,
    rows: Tensor,
    *,
    device: str = "auto",
    precision: str = "auto",
    layout: str = "auto",
) -> Place:
    """Return where and how to train a network on such rows."""
    _refuse_unknown("precision", precision, PRECISIONS)
    _refuse_unknown("layout", layout, LAYOUTS)
    device = choose_device(device)
    if precision == "auto":
        wide = rows.dtype == torch.float64 and device != "mps"
        precision = "float64" if wide else "float32"
    if layout == "auto":
        convolves = any(isinstance(p, (nn.Conv2d, nn.ConvTranspose2d)) for p in module.modules())
        layout = "channels_last" if convolves else "contiguous"
    if precision == "bfloat16" and not has_bfloat16_units(device):
        warn_user(
            f"precision='bfloat16' is emulated here ({device} has no units for it), which is many "
            "times slower than float32: pass precision='float32'.",
            UserWarning,
        )
    return Place(device, precision, layout)


def _refuse_unknown(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name}={value!r} is not known; pass one of {', '.join(known)}.")
