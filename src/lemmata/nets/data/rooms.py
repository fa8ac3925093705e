"""Memory for batches, used again once nobody has a tensor in it: fresh pages cost as much as the copying itself."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor


class Rooms:
    """Tensors to fetch rows into."""

    def __init__(self) -> None:
        # each with how many refer to it while nobody is in it
        self.rooms: list[tuple[Tensor, int]] = []
        self.door = threading.Lock()

    def room(self, rows: int, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        """An empty tensor for so many rows of this shape."""
        with self.door:
            for tensor, alone in self.rooms:
                fits = tensor.dtype == dtype and tensor.shape[1:] == shape
                if fits and len(tensor) >= rows and _references(tensor) == alone:
                    return tensor[:rows]
            tensor = torch.empty((rows, *shape), dtype=dtype)
            self.rooms = [*self.rooms[-5:], (tensor, _references(tensor))]
            return tensor[:rows]

    def __reduce__(self) -> Any:
        return Rooms, ()  # copies have rooms of their own


def _references(tensor: Tensor) -> int:
    """How many tensors share this one's memory; where torch does not say, one more each time, so that nothing is used again."""
    count = getattr(torch._C, "_storage_Use_Count", None)
    if count is None:
        _references.unknown += 1  # type: ignore[attr-defined]
        return -_references.unknown  # type: ignore[attr-defined]
    return count(tensor.untyped_storage()._cdata)


_references.unknown = 0  # type: ignore[attr-defined]
