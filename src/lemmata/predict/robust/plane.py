"""Base of the algorithms here: a state holds a plane θ = (w, b)."""

from __future__ import annotations

from typing import Any

from lemmata.core.blocks import Blocks


class PlaneAlgorithm:
    """An algorithm whose states have a `theta`."""

    def check_state(self, state: Any, data: Blocks) -> None:
        """ValueError where a state from a file is a plane over other columns."""
        if len(state.theta) != data.shape[1] + 1:
            raise ValueError(f"theta has {len(state.theta)} numbers for {data.shape[1]} columns.")
