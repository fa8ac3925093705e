"""Transfer: weights that another network has learned, of which some stay as they are and others move slowly.

    w₀ = the weights of the same name and shape in the source, new ones elsewhere;     η_w = factor · η,  0: frozen

>>> from sklearn.datasets import load_digits
>>> from lemmata.nets import NeuralClassifier, Transfer
>>> X, y = load_digits(return_X_y=True)
>>> whole = NeuralClassifier(max_iter=10, net__widths=(32,), random_state=0).fit(X[y < 5] / 16, y[y < 5])
>>> names = list(whole.module_.state_dict())
>>> slow = Transfer(whole, rates={names[0]: 0.0})
>>> other = NeuralClassifier(max_iter=5, net__widths=(32,), transfer=slow, random_state=0).fit(X / 16, y)
>>> bool((other.module_.state_dict()[names[0]] == whole.module_.state_dict()[names[0]]).all())
True
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Transfer:
    """Where training begins, and how fast which weights move. Not kept in files: a fitted model has all its weights.

    Parameters
    ----------
    source : path of a saved model, a fitted model with a network, or a torch.nn.Module, optional
        Weights of the same name and shape are taken from it; none of them fits is an error.
    rates : dict of pattern and number
        Factors of the learning rate by the names of weights: {"body.*": 0.1, "body.embedding.*": 0}. The last pattern that
        fits counts; 0 leaves weights as they are (running means of normalisations still follow the data).
    """

    source: Any = None
    rates: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self):
        for pattern, factor in self.rates.items():
            if not (isinstance(factor, (int, float)) and 0 <= factor < math.inf):
                raise ValueError(f"rates[{pattern!r}]={factor!r}; pass a finite number >= 0.")

    def weights(self) -> Mapping[str, Any]:
        """The tensors of the source, by name."""
        source = self.source
        if isinstance(source, (str, Path)):
            from lemmata.core.store import load

            source = load(source)
        module = getattr(source, "module_", source)
        if not hasattr(module, "state_dict"):
            raise TypeError(
                f"source is a {type(source).__name__} without a network; pass a fitted Neural model, its path, or a module."
            )
        return module.state_dict()

    def begin(self, make: Any) -> Any:
        """The network that `make` gives, or a copy of the module that it is, with the weights of the source."""
        import torch

        module = copy.deepcopy(make) if isinstance(make, torch.nn.Module) else make()
        if self.source is None:
            return module
        given, taken = self.weights(), 0
        if any(one.dtype == torch.float64 for one in given.values()):
            module = module.double()  # training rounds them to what it computes in, nothing before
        with torch.no_grad():
            for name, own in module.state_dict().items():
                if name in given and given[name].shape == own.shape:
                    own.copy_(given[name])
                    taken += 1
        if not taken:
            raise ValueError(
                f"no weight of the source has the name and the shape of one of this {type(module).__name__}: it has "
                f"{next(iter(given), 'none')!r}, …; wanted are {next(iter(module.state_dict()), 'none')!r}, …."
            )
        return module


def factors_of(names: list[str], rates: Mapping[str, float]) -> dict[str, float]:
    """The factor of each weight that has another than 1; ValueError for a pattern that fits none."""
    found: dict[str, float] = {}
    for pattern, factor in rates.items():
        fitting = [name for name in names if fnmatchcase(name, pattern)]
        if not fitting:
            raise ValueError(f"rates names {pattern!r}, which is no weight; there are {', '.join(names[:8])}, ….")  # fmt: skip
        found |= dict.fromkeys(fitting, float(factor))
    return {name: factor for name, factor in found.items() if factor != 1}


def freeze_weights(module: Any, rates: Mapping[str, float]) -> None:
    """Weights of factor 0 get no gradient."""
    named = dict(module.named_parameters())
    for name, factor in factors_of(list(named), rates).items():
        if factor == 0:
            named[name].requires_grad_(False)
