"""Rows kept from training and from early stopping, so that claims about new rows can be checked in `fit`.

    class Model(KeepsTestRows, Neural): …        and declares the parameter `test_fraction`

`test_rows_` says which. Rows of a stream cannot be kept: pass X_test to `certify`.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from lemmata.core.blocks import Blocks
from lemmata.core.runs.trace import Trace

Array = np.ndarray


class KeepsTestRows:
    """A mixin of `Neural`: a share of the rows, `test_fraction`, is neither trained on nor looked at by stopping."""

    def _n_tested(self: Any, data: Blocks) -> int:
        from lemmata.nets.data.batches import Rows, as_data

        if self.test_fraction == 0 or not isinstance(as_data(data), Rows):
            return 0
        n = data.shape[0]
        tested = round(self.test_fraction * n)
        if n - tested - self._n_held_out(n) < 1:
            raise ValueError(
                f"test_fraction={self.test_fraction} and validation_fraction={self.validation_fraction} leave none of the {n} "
                "rows to learn from."
            )
        return tested

    def _algorithm(self: Any, data: Blocks) -> Any:
        n = data.shape[0]
        left = n - self._n_held_out(n) - self._n_tested(data)
        return self._training(self._network(data), left)

    def _problem(self: Any, data: Blocks) -> Any:
        from lemmata.nets.data.batches import as_data

        if self.early_stopping or not self._n_tested(data):
            return super()._problem(data)  # type: ignore[misc]
        whole: Any = as_data(self._weight_rows(data), self.input_shape_)
        return whole.subset(self._split(data)[0])

    def _split(self, data: Blocks) -> tuple[Array, Array]:
        learn, held, _ = self._split_in_three(data)
        return learn, held

    def _split_in_three(self: Any, data: Blocks) -> tuple[Array, Array, Array]:
        """Numbers of the rows to train on, of those for early stopping and of those for testing."""
        n, tested = data.shape[0], self._n_tested(data)
        seed = int(self.random_state) if isinstance(self.random_state, Integral) else 0
        order = np.random.default_rng((seed, n)).permutation(n)
        cut = tested + self._n_held_out(n)
        return np.sort(order[cut:]), np.sort(order[tested:cut]), np.sort(order[:tested])

    def _statements(self, data: Blocks) -> dict[str, Any]:
        tested = self._split_in_three(data)[2]
        found = super()._statements(data)  # type: ignore[misc]
        return {**found, **({"test_rows_": tested} if len(tested) else {})}

    def _conclude(
        self: Any, data: Any, attributes: dict[str, Any], trace: Trace, stopped: str | None, steps: int
    ) -> None:  # fmt: skip
        self._forget("test_rows_")
        super()._conclude(data, attributes, trace, stopped, steps)  # type: ignore[misc]
