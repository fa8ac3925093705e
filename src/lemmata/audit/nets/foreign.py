"""scikit-learn's perceptrons in our words (see counterparts.py).

Their `loss_` is F at `coefs_` with solver="lbfgs" alone: of "sgd" and "adam" it is a mean over the batches of the last epoch,
each at the weights of its time, and with early_stopping of another epoch than `coefs_`. The squared loss they state is a mean
over the outputs, while the gradient they follow is that of the sum; logarithms are those of probabilities kept off 0 and 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def perceptron_of(model: Any) -> dict[str, Any]:
    """MLPClassifier or MLPRegressor."""
    squared = model.out_activation_ == "identity"
    found: dict[str, Any] = {
        "loss_is_of_coefs_": model.solver == "lbfgs",
        "loss_is_mean_of_outputs_": squared,
        "loss_is_of_all_rows_": not (model.early_stopping and model.solver != "lbfgs"),
        "class_weight": None,
    }
    if model.out_activation_ in ("logistic", "softmax"):
        found["probabilities_clipped_"] = float(np.finfo(np.asarray(model.coefs_[0]).dtype).eps)
    return found
