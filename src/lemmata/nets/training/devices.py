"""Where and how a network computes: device, precision and layout; torch's generator; several processes.

* **device**: a GPU if torch sees one, else the CPU.
* **precision**: that of the rows, float64 or else float32. bfloat16 (autocast: weights stay float32) only on request:
  it is faster where the processor has units for it, and much slower where it is emulated.
* **layout**: channels last for networks with 2-d convolutions, on which they are faster; else contiguous, (N, C, H, W).

The rules are fixed and the choice is written into the state. Nothing is timed, so that the same seed gives the same network;
machines differ by the rounding of their libraries.

**Processes.** Several of them train one network, each on its part of every batch:

    torchrun --nproc-per-node 2 train.py           with, in train.py:

    with lemmata.nets.processes():                  # joins those that torchrun started; alone it does nothing
        NeuralClassifier(net, batch_size=256).fit(X, y)

Every process has the same weights and the whole data. Of a batch of B rows process r takes the r-th part, and the
gradients of the sum of losses are added up before each update, so that the update is that of one process with the whole
batch, to rounding. This holds for networks in which rows do not interact and nothing is drawn. For others:

* batch normalisation takes the mean and variance of a process's own rows, so its statistics are those of B/processes
  rows (and each process has its own running means; those of the first are kept);
* dropout and augmentation draw from a separate stream in each process: equal in distribution, not in bits.

The first process writes checkpoints and decides when time is up; all read the same ones.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch import distributed as dist

from lemmata.core.loop import Stop, warn_user
from lemmata.core.runs.checkpoint import Checkpoint
from lemmata.nets.data.batches import ALONE, Share

PRECISIONS = ("auto", "float32", "float64", "bfloat16")
LAYOUTS = ("auto", "contiguous", "channels_last")
TRIM, MMAP = -1, -3  # names of glibc's mallopt
LARGEST, NEVER = 2**25, 2**31 - 1  # bytes: the largest threshold of MMAP; of TRIM


class Place(NamedTuple):
    """Where and how a network computes."""

    device: str
    precision: str
    layout: str

    def check(self) -> None:
        """ValueError where this, from a file, is no place of this machine."""
        _refuse_unknown("precision", self.precision, PRECISIONS[1:])
        _refuse_unknown("layout", self.layout, LAYOUTS[1:])
        if choose_device(self.device).startswith("meta"):
            raise ValueError(f"device={self.device!r} computes nothing.")
        try:
            torch.empty(1, device=self.device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise ValueError(f"device={self.device!r} is not on this machine: {error}") from error

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
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
            return part
        dtype = self.dtype if part.is_floating_point() else None
        order = torch.channels_last if last else torch.preserve_format
        return part.to(device=self.device, dtype=dtype, memory_format=order)

    def autocast(self) -> Any:
        if self.precision == "bfloat16":
            return torch.autocast(self.device.partition(":")[0], dtype=torch.bfloat16)
        return nullcontext()


def choose_device(device: str) -> str:
    """Resolve "auto" to the device of this machine."""
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
    """Whether the processor has bfloat16 units; True where that is unknown."""
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


# --- memory -----------------------------------------------------------------------------------------------------------


@contextmanager
def reused_memory() -> Iterator[None]:
    """Keep what one batch frees for the next one.

    glibc gives the free top of its memory back to the system and fetches it again page by page: a tenth of the time of a
    U-Net's step. Behind it the thresholds are the largest that glibc would come to by itself.
    """
    set_option = _mallopt()
    set_option(MMAP, LARGEST)
    set_option(TRIM, NEVER)
    try:
        yield
    finally:
        set_option(TRIM, 2 * LARGEST)


@functools.cache
def _mallopt() -> Any:
    """glibc's function of that name; of other libraries one that does nothing."""
    glibc = platform.libc_ver()[0] == "glibc"
    return ctypes.CDLL(None).mallopt if glibc else lambda name, value: 0


# --- torch's generator ------------------------------------------------------------------------------------------------


_lock = threading.RLock()
_used_threads = False  # whether threads of OpenMP may exist


@contextmanager
def own_draws() -> Iterator[None]:
    """Draw from torch's generator and leave it as it was.

    There is one global generator in a process. Threads that train at the same time take turns with it, a step each, since
    two of them would get each other's numbers. A forked child gets a new lock; and one thread, if the parent used several:
    those of OpenMP do not survive a fork, and waiting for them would never end.
    """
    global _used_threads
    _used_threads = _used_threads or torch.get_num_threads() > 1
    with _lock, torch.random.fork_rng():
        yield


def _reset_after_fork() -> None:
    global _lock
    _lock = threading.RLock()
    if _used_threads:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


# --- processes --------------------------------------------------------------------------------------------------------


@contextmanager
def processes(backend: str | None = None) -> Iterator[Share]:
    """Join the processes that torchrun started, if it did, and leave them at the end."""
    joined = "WORLD_SIZE" in os.environ and not dist.is_initialized()
    if joined:
        dist.init_process_group(backend or ("nccl" if torch.cuda.is_available() else "gloo"))
    try:
        yield share()
    finally:
        if joined:
            dist.destroy_process_group()


def share() -> Share:
    """This process among those that train together."""
    if not (dist.is_available() and dist.is_initialized()):
        return ALONE
    return Share(dist.get_rank(), dist.get_world_size())


def broadcast(value: Any) -> Any:
    """The value of the first process, in all of them."""
    if share().size == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def add_up(tensors: list[Tensor]) -> None:
    """Replace tensors by their sums over all processes, in one message per dtype."""
    for dtype in {tensor.dtype for tensor in tensors}:
        some = [tensor for tensor in tensors if tensor.dtype == dtype]
        flat = torch.cat([tensor.reshape(-1) for tensor in some])
        dist.all_reduce(flat)
        for tensor, total in zip(some, flat.split([t.numel() for t in some]), strict=True):
            tensor.copy_(total.view_as(tensor))


def _wait_for_all() -> None:
    """Wait for all processes."""
    if share().size > 1:
        dist.barrier()


class Together(Stop):
    """A stopping rule that the first process decides for all: clocks differ."""

    def __init__(self, rule: Stop):
        self.rule = rule

    def reason(self, solution):
        return broadcast(self.rule.reason(solution))


class SharedCheckpoint(Checkpoint):
    """A checkpoint that all processes read and the first one writes."""

    def resume(self, algorithm, data, rng):
        _wait_for_all()  # the first process may still be writing the last file
        found = super().resume(algorithm, data, rng)
        _wait_for_all()  # all have read before the first writes
        return found

    def _write(self, solution):
        if share().rank == 0:
            super()._write(solution)
