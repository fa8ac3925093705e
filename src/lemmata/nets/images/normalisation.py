"""Batch and layer normalisation, written out (ML "Batch Normalization", "Layer Normalization").

    ẑ = γ ⊙ (z − μ)/√(σ² + ε) + β        γ, β learned

    batch   μ, σ² over the examples (and positions) of a batch, one per channel; at inference over what training has seen
    layer   μ, σ² over the features, one per example; the same in training and at inference

σ² divides by the number of values. The running variance that inference uses divides by one less, so that it is the expectation
of the variance (the notes average standard deviations; torch and we average variances):

    μ̂ ← (1 − m) μ̂ + m μ,       σ̂² ← (1 − m) σ̂² + m σ² N/(N − 1)

Scaling what comes in changes nothing, BN(a ⊙ z + b) = BN(z) for a > 0 and ε = 0, so a bias before it is useless and the length
of the weights before it only sets how large a step is.

    >>> import torch
    >>> z = torch.tensor([[1.0, 10.0], [3.0, 30.0]])
    >>> BatchNorm(2, eps=0)(z)
    tensor([[-1., -1.], [ 1.,  1.]], grad_fn=<AddBackward0>)

Networks here use torch's own layers, which are one kernel each; tests hold the two against each other, number by number. The
names of parameters and buffers are torch's, so a state of one loads into the other.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BatchNorm(nn.Module):
    """Batch normalisation of (B, C), (B, C, L) or (B, C, H, W), over everything but the channels.

    Parameters
    ----------
    channels : int
        C, the number of means and variances.
    eps : float, default=1e-5
        ε: what keeps a constant channel from being divided by 0.
    momentum : float or None, default=0.1
        m, the weight of a new batch in the running statistics. None: all batches alike, m = 1/t.
    affine : bool, default=True
        Learn γ and β.
    """

    def __init__(
        self, channels: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True
    ) -> None:
        super().__init__()
        self.config = {"channels": channels, "eps": eps, "momentum": momentum, "affine": affine}
        self.channels, self.eps, self.momentum = channels, eps, momentum
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine else None
        self.running_mean: Tensor
        self.running_var: Tensor
        self.num_batches_tracked: Tensor
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, z: Tensor) -> Tensor:
        if z.ndim < 2 or z.shape[1] != self.channels:
            raise ValueError(
                f"batch normalisation of {self.channels} channels got {tuple(z.shape)}; it wants (B, {self.channels}, …)."
            )
        over = (0, *range(2, z.ndim))
        if self.training:
            n = z.numel() // self.channels
            if n < 2:
                raise ValueError(
                    f"a batch of shape {tuple(z.shape)} has one value a channel and no variance; pass two examples or more."
                )
            mean, variance = z.mean(over), z.var(over, unbiased=False)
            self._remember(mean.detach(), variance.detach() * (n / (n - 1)))
        else:
            mean, variance = self.running_mean, self.running_var
        # one number a channel, for every example and position
        column = (1, -1) + (1,) * (z.ndim - 2)
        normed = (z - mean.view(column)) / torch.sqrt(variance.view(column) + self.eps)
        if self.weight is None or self.bias is None:
            return normed
        return normed * self.weight.view(column) + self.bias.view(column)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        self.num_batches_tracked += 1
        m = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, m)
        self.running_var.lerp_(variance, m)

    def extra_repr(self) -> str:
        return f"{self.channels}, eps={self.eps}, momentum={self.momentum}"


class LayerNorm(nn.Module):
    """Layer normalisation over the last axes, of these sizes: each example (or position) by itself.

    Parameters
    ----------
    shape : int or tuple of int
        The sizes of the last axes, K or (C, H, W): what is averaged over.
    eps : float, default=1e-5
        ε.
    affine : bool, default=True
        Learn γ and β, one of each per feature.
    """

    def __init__(
        self, shape: int | tuple[int, ...], eps: float = 1e-5, affine: bool = True
    ) -> None:
        super().__init__()
        self.config = {"shape": shape, "eps": eps, "affine": affine}
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(self.shape)) if affine else None
        self.bias = nn.Parameter(torch.zeros(self.shape)) if affine else None

    def forward(self, z: Tensor) -> Tensor:
        if tuple(z.shape[-len(self.shape) :]) != self.shape:
            raise ValueError(
                f"layer normalisation over {self.shape} got {tuple(z.shape)}; its last axes have to be {self.shape}."
            )
        over = tuple(range(-len(self.shape), 0))
        mean = z.mean(over, keepdim=True)
        variance = z.var(over, unbiased=False, keepdim=True)
        normed = (z - mean) / torch.sqrt(variance + self.eps)
        if self.weight is None or self.bias is None:
            return normed
        return normed * self.weight + self.bias

    def extra_repr(self) -> str:
        return f"{self.shape}, eps={self.eps}"
