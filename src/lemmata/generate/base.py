"""Generative models on networks: draw rows like those seen, and, where the model has a density, say how probable a row is.

    class Model(DensityModel, Generative): …     has score_samples, the exact ln p(x)
    class Model(Generative): …                 has a bound, or draws only

The network speaks torch: `log_prob(x)` gives (B,), `sample(n, generator)` gives (n, …) in the units of the rows.

`test_fraction` of the rows are kept from training and from early stopping, so that the main claim of a density,
`beats_independent`, can be checked in `fit`; `test_rows_` says which. Rows of a stream cannot be: pass X_test to `certify`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lemmata.core.blocks import Blocks
from lemmata.core.parameters import KW_ONLY, SHARE, parameter
from lemmata.core.runs.trace import Trace
from lemmata.nets.estimators.neural import Neural

Array = np.ndarray
DRAWN = 2**26  # bytes of activations, roughly, that a draw may hold at once
HIDDEN = 64  # numbers that a network holds at once for each of a row's


class Generative(Neural):
    """An estimator of a network that draws rows. A subclass defines what `Neural` asks for."""

    _: KW_ONLY
    test_fraction: float = parameter(0.1, SHARE).doc("""
        The share of rows kept from training and stopping, on which the main claim is checked in
        `fit`; 0: none, and `certify(X, X_test=…)` checks it.""")

    stored: ClassVar[Mapping[str, str | type]] = {**Neural.stored, "test_rows_?": "t int >=0"}

    # --- fitting ---

    def _n_tested(self, data: Blocks) -> int:
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

    def _algorithm(self, data: Blocks) -> Any:
        n = data.shape[0]
        left = n - self._n_held_out(n) - self._n_tested(data)
        return self._training(self._network(data), left)

    def _problem(self, data: Blocks) -> Any:
        from lemmata.nets.data.batches import as_data

        if self.early_stopping or not self._n_tested(data):
            return super()._problem(data)
        whole: Any = as_data(self._weight_rows(data), self.input_shape_)
        return whole.subset(self._split(data)[0])

    def _split(self, data: Blocks) -> tuple[Array, Array]:
        learn, held, _ = self._split_in_three(data)
        return learn, held

    def _split_in_three(self, data: Blocks) -> tuple[Array, Array, Array]:
        """Numbers of the rows to train on, of those for early stopping and of those for testing."""
        n, tested = data.shape[0], self._n_tested(data)
        seed = int(self.random_state) if isinstance(self.random_state, Integral) else 0
        order = np.random.default_rng((seed, n)).permutation(n)
        cut = tested + self._n_held_out(n)
        return np.sort(order[cut:]), np.sort(order[tested:cut]), np.sort(order[:tested])

    def _statements(self, data: Blocks) -> dict[str, Any]:
        tested = self._split_in_three(data)[2]
        return {**super()._statements(data), **({"test_rows_": tested} if len(tested) else {})}

    def _conclude(
        self, data: Any, attributes: dict[str, Any], trace: Trace, stopped: str | None, steps: int
    ) -> None:
        self._forget("test_rows_")
        super()._conclude(data, attributes, trace, stopped, steps)

    def _mean_and_scale(self, data: Blocks) -> tuple[Array, Array]:
        """Mean and deviation of each column over the rows to train on; a deviation of 1 where a column does not vary."""
        learn = (
            self._split_in_three(data)[0] if self._n_tested(data) or self.early_stopping else None
        )
        d, total, mean, square = (
            data.shape[1],
            0.0,
            np.zeros(data.shape[1]),
            np.zeros(data.shape[1]),
        )
        unit = np.zeros(d)
        for rows, _ in _choose_rows(data, learn):
            np.maximum(unit, np.abs(rows).max(axis=0, initial=0.0), out=unit)
        unit[unit == 0] = 1.0
        for rows, w in _choose_rows(data, learn):
            mean, total = mean + w @ (rows / unit), total + w.sum()
        mean /= total
        for rows, w in _choose_rows(data, learn):
            square += w @ np.square(rows / unit - mean)
        scale = np.sqrt(square / total)
        flat = scale <= 8 * np.finfo(data.dtype).eps  # the rounding of a constant
        return mean * unit, np.where(flat, 1.0, scale * unit)

    # --- using ---

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> Array:
        """Draw rows, in the shape and the units of X.

        Parameters
        ----------
        n_samples : int, default=1
        y : classes to draw from, of models that were fitted with classes
        random_state : int, RandomState or None
            With a number the draws repeat; None is the `random_state` of the model, by which the draws repeat if it is one.

        Returns
        -------
        X : array of shape (n_samples, n_features); of images (n_samples, channels, height, width)
        """
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or isinstance(n_samples, bool) or n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r}; pass a whole number >= 1.")
        self._refuse_classes(y)
        import torch

        from lemmata.nets.training.devices import choose_device

        rng = check_random_state(self.random_state if random_state is None else random_state)
        module = self.module_.to(choose_device(self.device)).eval()
        like = next(module.parameters())
        generator = torch.Generator(device=like.device)
        generator.manual_seed(int(rng.randint(2**31)))
        step = max(1, DRAWN // (like.element_size() * self.n_features_in_ * HIDDEN))
        found = []
        with torch.no_grad():
            for start in range(0, int(n_samples), step):
                drawn = module.sample(min(step, int(n_samples) - start), generator)
                found.append(drawn.cpu().numpy().reshape(-1, *self.input_shape_))
        return np.concatenate(found)

    def _refuse_classes(self, y: Any) -> None:
        """ValueError for classes to draw from, where a model has none."""
        if y is not None:
            name = type(self).__name__
            raise ValueError(f"y was given to a {name} that has no classes: leave it out.")


class DensityModel:
    """A generative model that knows how probable a row is."""

    def score_samples(self: Any, X: Any) -> Array:
        """(n,): the exact ln p(x) of every row, in nats; of numbers that vary continuously a density, in the units of X."""
        return self._apply(
            X, lambda rows: self._run_network(rows, self.input_shape_, "log_prob")[:, 0]
        )

    def score(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The mean of ln p(x) over the rows; higher is better."""
        check_is_fitted(self)
        data = self._validate_rows(X, sample_weight, reset=False)
        found = [self._run_network(rows, self.input_shape_, "log_prob")[:, 0] for rows, _ in data]
        return float(np.average(np.concatenate(found), weights=data.weights))


def _choose_rows(data: Blocks, numbers: Array | None) -> Iterator[tuple[Array, Array]]:
    """Blocks of rows in float64 with their weights; of the rows of these numbers, or of all."""
    start = 0
    for rows, weights in data:
        here: Any = slice(None)
        if numbers is not None:
            here = numbers[(numbers >= start) & (numbers < start + len(rows))] - start
        start += len(rows)
        w = np.ones(len(rows)) if weights is None else np.asarray(weights, np.float64)
        if len(rows[here]):
            yield np.asarray(rows[here], dtype=np.float64), w[here]
