"""Estimators of networks in files: parameters by name, the network as its class, what it was built with, and its weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from lemmata.core.estimator import Model
from lemmata.lazy import require
from lemmata.nets.estimators.networks import Network, from_stored, to_stored
from lemmata.nets.estimators.parameters import NeuralParameters

# of no use to a fitted model: absent where a file cannot hold them
NOT_RESTORED = ("augment", "callbacks")


class NeuralFiles(NeuralParameters):
    """What a file holds, and a model from it."""

    stored: ClassVar[Mapping[str, str | type]] = {
        "module_": Network,
        "input_shape_": tuple,
        "loss_": ">=0",
        "validation_rows_?": "v int >=0",
        "best_validation_score_?": "any",
        "precision_?": str,
    }
    input_shape_: tuple[int, ...]

    def stored_parameters(self) -> dict[str, Any]:
        """The parameters as a file can hold them: classes, modules and functions by name."""
        return {name: to_stored(value) for name, value in self.get_params(deep=False).items()}

    def stored_attributes(self) -> dict[str, Any]:
        return {**super().stored_attributes(), "module_": Network.of(self.module_)}

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Model:
        """A model from a file. Functions that only training needs are left out; a network of another class has to be passed."""
        require("torch", "deep", what=cls.__name__)
        network = attributes.get("module_")
        kept = {}
        for name, value in parameters.items():
            try:
                kept[name] = from_stored(value, name)
            except ValueError:
                if name not in NOT_RESTORED:
                    raise
                kept[name] = None
        own = {name: kept.pop(name) for name in list(kept) if name.startswith("net__")}
        model: Any = super().restored(kept, attributes)
        model.set_params(**own)
        if (
            not all(isinstance(size, int) and size > 0 for size in model.input_shape_)
            or math.prod(model.input_shape_) != model.n_features_in_
        ):
            raise ValueError(
                f"input_shape_ is {model.input_shape_}, for rows of {model.n_features_in_} numbers."
            )
        model.module_ = network.build(model._made_for(network))  # type: ignore[union-attr]
        return model

    def _made_for(self, network: Network) -> Any:
        """A module of a class that is not ours, made as the fit made it; None for ours, which say themselves how they
        are built."""
        import torch

        from lemmata.nets.training.seeding import own_draws

        if network.config is not None:
            return None
        made = self._net(self.input_shape_)
        with own_draws():
            return copy.deepcopy(made) if isinstance(made, torch.nn.Module) else made()
