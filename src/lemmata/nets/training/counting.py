"""The work of a network, counted and not timed: the same seed gives the same steps on every machine.

    seconds ≈ multiplications / (4 · 10¹⁰) + numbers written / 10⁹ + calls · 5 µs forward, three times that with a gradient

Products and convolutions by the formulas of torch, everything else by the numbers that it writes. On two cores that is
right within a factor of some three.

>>> layer = torch.nn.Linear(100, 100)
>>> with Operations() as counted:
...     found = layer(torch.zeros(50, 100))
>>> counted.products, counted.largest
(500000.0, 20000)
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

PER_SECOND = 4e10, 1e9, 2e5  # multiplications, numbers written, calls
STEP = 2.0  # seconds of a step of the loop
AT_ONCE, BYTES = (
    1024,
    2**26,
)  # rows evaluated together; bytes of the largest array among what they become


class Operations(TorchDispatchMode):
    """Counts what runs inside: multiplications of products, numbers written, calls, and the largest result in bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.products = self.written = self.calls = 0.0
        self.largest = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        found = function(*args, **(kwargs or {}))
        formula = flop_registry.get(function._overloadpacket)
        if formula is not None:
            self.products += formula(*args, **(kwargs or {}), out_val=found) / 2
        made = [] if function.is_view else [t for t in tree_leaves(found) if torch.is_tensor(t)]
        sizes = [(tensor.numel(), tensor.element_size()) for tensor in made]
        self.written += sum(numbers for numbers, _ in sizes)
        self.largest = max(self.largest, *(n * size for n, size in sizes), 0)
        self.calls += 1
        return found

    def batches_per_step(self, batches: int | None) -> int:
        """Number of batches like this one that make a step, equal parts of an epoch; 0 where that is the whole of it."""
        counts = zip((self.products, self.written, self.calls), PER_SECOND, strict=True)
        pace = max(1, int(STEP / max(3 * sum(n / rate for n, rate in counts), 1e-9)))
        if batches is None:
            return pace
        return 0 if pace >= batches else -(-batches // -(-batches // pace))

    def rows_at_once(self, rows: int) -> int:
        """Number of rows to evaluate together, where so many were counted."""
        return max(1, min(AT_ONCE, BYTES * rows // max(self.largest, 1)))
