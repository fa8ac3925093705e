"""Generative models on networks: draw rows like those seen, and, where the model has a density, say how probable a row is.

    class Model(DensityModel, Generative): …     has score_samples, the exact ln p(x)
    class Model(Generative): …                 has a bound, or draws only

The network speaks torch: `log_prob(x)` gives (B,), `sample(n, generator)` gives (n, …) in the units of the rows.

With classes, `fit(X, y)`, the model is p(y) p(x|y), p(y) the shares of the classes. The network then has them as `shares` (C,),
and both methods take places among `classes_` besides, `log_prob(x, y)`, `sample(n, generator, y)`: ln p(x|y). Without y they
are those of x alone: `sum_over_classes` adds up p(y) p(x|y).

`test_fraction` of the rows are kept from training and from early stopping, so that the main claim of a density,
`beats_independent`, can be checked in `fit`; `test_rows_` says which. Rows of a stream cannot be: pass X_test to `certify`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from lemmata.core.blocks import Blocks
from lemmata.core.parameters import KW_ONLY, SHARE, fitted, parameter
from lemmata.core.supervised import encode
from lemmata.nets.estimators.autoencoder import build_filled, measure_columns
from lemmata.nets.estimators.inputs import run_rows
from lemmata.nets.estimators.kept import KeepsTestRows
from lemmata.nets.estimators.neural import Neural

Array = np.ndarray
DRAWN = 2**26  # bytes of activations, roughly, that a draw may hold at once
HIDDEN = 64  # numbers that a network holds at once for each of a row's


class Generative(KeepsTestRows, Neural):
    """An estimator of a network that draws rows. A subclass defines what `Neural` asks for."""

    _: KW_ONLY
    test_fraction: float = parameter(0.1, SHARE).doc("""
        The share of rows kept from training and stopping, on which the main claim is checked in
        `fit`; 0: none, and `certify(X, X_test=…)` checks it.""")
    conditional: bool = parameter(True, "boolean").doc("""
        Whether `fit(X, y)` conditions on the classes y; False ignores y, as before a classifier in
        a Pipeline.""")

    stored: ClassVar[Mapping[str, str | type]] = {
        **Neural.stored,
        "test_rows_?": "t int >=0",
        "classes_?": "c labels",
    }
    classes_: Any = fitted()

    # --- fitting ---

    def fit(self, X, y=None, sample_weight=None):
        """Fit the model to X and check the claims about it.

        Parameters
        ----------
        X : array, np.memmap, dask array, or a re-iterable of row blocks, of shape (n_samples, n_features), or images
        y : array of shape (n_samples,), optional
            Classes to condition on: the model is then p(y) p(x|y), and `sample(n, y=…)` draws from some of them.
        sample_weight : array of shape (n_samples,), optional
            How many times each row counts.

        Returns
        -------
        self : with `certificate_`, `trace_`, `stopped_`, `n_iter_` and the model's own attributes
        """
        return super().fit(X, y, sample_weight)

    def _validate_pair(self, X, y, sample_weight=None, reset: bool = True) -> Blocks:
        data = self._validate_rows(X, sample_weight, reset=reset)
        if reset:
            self._forget("classes_")
        if y is None or not self.conditional or not (reset or self._has_classes):
            return data
        y = column_or_1d(np.asarray(y), warn=True)
        check_consistent_length(np.broadcast_to(0, data.shape[0]), y)
        if not reset:
            return data.with_targets(encode(y, self.classes_))
        if (kind := type_of_target(y)) not in ("binary", "multiclass"):
            raise ValueError(
                f"Unknown label type: y is {kind}, which is no class to condition on: pass labels, leave y out, or set "
                "conditional=False."
            )
        self.classes_, places = np.unique(y, return_inverse=True)
        return data.with_targets(places)

    @property
    def _has_classes(self) -> bool:
        return hasattr(self, "classes_")

    @property
    def _n_classes(self) -> int:
        return len(self.classes_) if self._has_classes else 0

    def _begin_filled(self, make: Callable[[], Any], numbers: dict[str, Any], data: Blocks) -> Any:
        """The network of the last fit in a warm start, else what makes a new one, with these numbers in its buffers, and with
        the share of each class among the rows, by weight, as `shares`."""
        if data.targets is not None:
            counts = np.bincount(data.targets, data.weights, minlength=self._n_classes)
            numbers = {**numbers, "shares": counts / counts.sum()}
        return self._begin_with(partial(build_filled, make, numbers, data.dtype == np.float64))

    def _mean_and_scale(self, data: Blocks) -> tuple[Array, Array]:
        """Mean and deviation of each column over the rows to train on."""
        learn = (
            self._split_in_three(data)[0] if self._n_tested(data) or self.early_stopping else None
        )
        return measure_columns(data, learn)

    # --- using ---

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> Array:
        """Draw rows, in the shape and the units of X.

        Parameters
        ----------
        n_samples : int, default=1
        y : label, or array of labels (n_samples,), optional
            Of models that were fitted with classes: those to draw from. None draws them by their shares.
        random_state : int, RandomState or None
            With a number the draws repeat; None is the `random_state` of the model, by which the draws repeat if it is one.

        Returns
        -------
        X : array of shape (n_samples, n_features); of images (n_samples, channels, height, width)
        """
        return self._draw(n_samples, y, random_state)

    def _draw(
        self, n_samples: int, y: Any, random_state: Any, given: Any = None,
        rows: Mapping[str, Any] = MappingProxyType({}), **options: Any,
    ) -> Array:  # fmt: skip
        """Draw rows; options are those of the network's `sample`, as `rows` are, tensors of which it is given its part."""
        check_is_fitted(self)
        import torch

        n, module = check_count("n_samples", n_samples), self._ready_module()
        rng, generator = self._generators(random_state)
        like = next(module.parameters())
        if (given := self._check_given(given, n)) is not None:
            rows = {**rows, "given": given.to(like.dtype)}
        places = self._places_to_draw(n, y, rng)
        step = max(1, DRAWN // (like.element_size() * self.n_features_in_ * HIDDEN))
        found: Array | None = None
        with torch.no_grad():
            for start in range(0, n, step):
                count = min(step, n - start)
                asked = () if places is None else (places[start : start + count].to(like.device),)
                parts = {
                    name: one[start : start + count].to(like.device) for name, one in rows.items()
                }
                drawn = module.sample(count, generator, *asked, **options, **parts).cpu().numpy()
                drawn = self._in_units(drawn.reshape(count, *self._drawn_shape))
                if found is None:
                    found = np.empty((n, *drawn.shape[1:]), drawn.dtype)
                found[start : start + step] = drawn
        assert found is not None
        return found

    def _generators(self, random_state: Any) -> tuple[Any, Any]:
        """A generator of NumPy, and one of torch that follows from it, on the network's device."""
        import torch

        rng = check_random_state(self.random_state if random_state is None else random_state)
        generator = torch.Generator(device=next(self._ready_module().parameters()).device)
        generator.manual_seed(int(rng.randint(2**31)))
        return rng, generator

    def _in_units(self, drawn: Array) -> Array:
        """Numbers of the network as those of X."""
        return drawn

    @property
    def _drawn_shape(self) -> tuple[int, ...]:
        first, *rest = self.input_shape_
        return (first - int(getattr(self, "given", 0)), *rest)

    def _ready_module(self) -> Any:
        """The network on its device, in evaluation mode."""
        from lemmata.nets.training.devices import choose_device

        return self.module_.to(choose_device(self.device)).eval()

    def _refuse_classes(self) -> None:
        if not self._has_classes:
            name = type(self).__name__
            raise ValueError(f"y was given to a {name} that has no classes: leave it out.")

    def _require_given_channels(self) -> None:
        """ValueError where rows have no channels to be given."""
        shape, given = tuple(self.input_shape_), int(getattr(self, "given", 0))
        if given and not (len(shape) == 3 and given < shape[0]):
            raise ValueError(
                f"given={given} of rows of shape {shape}; pass images with more channels than are given."
            )

    def _check_given(self, given: Any, n: int) -> Any:
        """A tensor of the channels that are given, of models that complete images; None of others."""
        wanted = int(getattr(self, "given", 0))
        if not wanted:
            if given is not None:
                name = type(self).__name__
                raise ValueError(f"given= was passed to a {name} with given=0: leave it out.")
            return None
        import torch

        shape = (n, wanted, *self.input_shape_[1:])
        if np.shape(given) != shape:
            raise ValueError(f"given has shape {np.shape(given)}; pass images of shape {shape}.")
        return torch.from_numpy(np.ascontiguousarray(given))

    def _places_to_draw(self, n: int, y: Any, rng: Any) -> Any:
        """A tensor of n places among the classes, as asked for or by their shares; None where a model has no classes."""
        import torch

        if y is not None:
            self._refuse_classes()
        elif not self._has_classes:
            return None
        if y is None:
            shares = self.module_.shares.double().cpu().numpy()
            places = rng.choice(len(shares), size=n, p=shares / shares.sum())
        else:
            given = np.asarray(y)
            if given.ndim > 1 or (given.ndim == 1 and len(given) != n):
                raise ValueError(
                    f"y has shape {given.shape}; pass a label, or n_samples={n} of them."
                )
            places = encode(np.broadcast_to(given, n), self.classes_)
        return torch.from_numpy(np.ascontiguousarray(places, dtype=np.int64))

    def _run_given(self, rows: Array, places: Array | None, method: str) -> Array:
        """(n,): a method of the network for flat rows; with places, method(x, y), class by class."""
        if places is None:
            return self._run_network(rows, self.input_shape_, method)[:, 0]
        import torch

        module = self._ready_module()
        function, found = getattr(module, method), np.empty(len(rows), rows.dtype)
        for place in np.unique(places):

            def of_class(x: Any, place: int = int(place)) -> Any:
                return function(x, torch.full((len(x),), place, device=x.device))

            here, like = places == place, next(module.parameters())
            found[here] = run_rows(of_class, rows[here], self.input_shape_, like)[:, 0]
        return found


def check_known(X: Any, known: Any) -> tuple[Array, Array]:
    """Rows, and which of their numbers are known, of the same shape."""
    X, known = np.asarray(X), np.asarray(known)
    if known.dtype != bool or known.shape != X.shape:
        raise ValueError(
            f"known is {known.dtype} of shape {known.shape}; pass bools of X's shape {X.shape}."
        )
    return X, known


def check_count(name: str, value: Any, least: int = 1) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r}; pass a whole number >= {least}.")
    return int(value)


def sum_over_classes(log_prob: Callable[[Any, Any], Any], x: Any, shares: Any) -> Any:
    """ln Σ_y p(y) p(x|y), from a function that gives ln p(x|y) of rows and places, (…, B)."""
    import torch

    each = [log_prob(x, torch.full((len(x),), c, device=x.device)) for c in range(len(shares))]
    logs = shares.log().reshape(-1, *[1] * each[0].ndim)
    return torch.logsumexp(torch.stack(each) + logs.to(each[0]), 0)


class DensityModel:
    """A generative model that knows how probable a row is."""

    def score_samples(self: Any, X: Any, y: Any = None) -> Array:
        """(n,): the exact ln p(x) of every row, in nats; of numbers that vary continuously a density, in the units of X.

        y : classes of the rows, of models that were fitted with classes: then ln p(x|y)
        """
        if y is None:
            return self._apply(X, lambda rows: self._run_given(rows, None, "log_prob"))
        check_is_fitted(self)
        self._refuse_classes()
        return self._log_probs(self._validate_pair(X, y, reset=False))

    def score(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The mean of ln p(x) over the rows, with classes y of ln p(x|y); higher is better."""
        check_is_fitted(self)
        data = self._validate_pair(X, y, sample_weight, reset=False)
        return float(np.average(self._log_probs(data), weights=data.weights))

    def _log_probs(self: Any, data: Blocks) -> Array:
        known = data.targets is not None
        parts = (
            (part[:2] for part in data.triples()) if known else ((part[0], None) for part in data)
        )
        return np.concatenate([self._run_given(*part, "log_prob") for part in parts])
