"""FeedForward: layers of units, each a linear map and a bend (CIL 4.2), the network that tables get if they ask for none.

    f(x) = W_L φ(… φ(W₁ x + b₁) …) + b_L

>>> import torch
>>> net = FeedForward((2, 3), 4, widths=(8,))
>>> net(torch.zeros(5, 2, 3)).shape
torch.Size([5, 4])
"""

from __future__ import annotations

import math

from torch import Tensor, nn

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "gelu": nn.GELU,
}


class FeedForward(nn.Module):
    """A multi-layer perceptron as a module.

    Parameters
    ----------
    input_shape : tuple
        Of one input; it is flattened.
    n_outputs : int
    widths : tuple of int, default=(128,)
        Units of each hidden layer; () is a linear map.
    activation : {"relu", "tanh", "sigmoid", "softplus", "gelu"}, default="relu"
    dropout : float, default=0.0
        The share of hidden units that is set to 0 in training.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        n_outputs: int,
        widths: tuple[int, ...] = (128,),
        activation: str = "relu",
        dropout: float = 0.0,
    ):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation={activation!r}; pass one of {', '.join(ACTIVATIONS)}.")
        if any(width < 1 for width in widths) or not 0 <= dropout < 1:
            raise ValueError(
                f"widths={widths}, dropout={dropout}: pass ints >= 1 and a number in [0, 1)."
            )
        self.config = {
            "input_shape": tuple(input_shape), "n_outputs": n_outputs, "widths": tuple(widths),
            "activation": activation, "dropout": dropout,
        }  # fmt: skip
        layers: list[nn.Module] = [nn.Flatten()]
        before = math.prod(input_shape)
        for width in widths:
            layers += [nn.Linear(before, width), ACTIVATIONS[activation]()]
            layers += [nn.Dropout(dropout)] if dropout else []
            before = width
        self.layers = nn.Sequential(*layers, nn.Linear(before, n_outputs))
        for layer in self.layers:
            if isinstance(
                layer, nn.Linear
            ):  # He's variance 2/n for units that are silent half of the time, 1/n for others
                gain = 2.0 if activation == "relu" and layer is not self.layers[-1] else 1.0
                nn.init.normal_(layer.weight, std=math.sqrt(gain / layer.in_features))
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)
