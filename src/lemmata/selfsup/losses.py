"""Losses of two views: functions of (z, z⁺), one row each for a view of the same image.

With s_ij = cos(a_i, b_j)/τ over all 2B views of a batch, a_i and a_i⁺ views of one image, j of all other images:

    contrast   ℓᵢ = −s_ii⁺ + ln( e^{s_ii⁺} + Σ_j e^{s_ij} )          NT-Xent: a classification among 2B − 1     SimCLR
    decouple   ℓᵢ = −s_ii⁺ + ln Σ_j e^{s_ij}                         negatives only                             ML "SimCLR"
    predict    ℓᵢ = 2 − 2 cos(p_i, sg(t_i))                          a stopped target t                         BYOL
    regularise   a · mean (z − z⁺)²  +  b · mean_k [1 − σ_k]₊  +  c · Σ_{k≠l} C_kl² / d                         VICReg
    match      ½ (CE over captions + CE over images) of e^{scale} cos(u_i, v_j)                                 CLIP

contrast and decouple are means over both directions; so are the hinge of deviations σ_k and the covariances C: (B − 1) in their
denominators, the hinge a mean over both views and the covariances a sum, as their authors have it. sg passes no gradient.

**Slips.** ML prints SimCLR's loss without the positive in the denominator: that is no classification, and it can be negative;
here it is `decouple` (Yeh et al. 2021). ML gives VICReg its hinge and covariances alone: without invariance the views would
not meet. Equal captions in a batch are no negatives of each other: `match` shares the probability among them.

    >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> contrast(z, z, temperature=1.0)                      # ln(e + 2) − 1
    tensor([0.5514, 0.5514])
    >>> decouple(z, z, temperature=1.0)                      # ln 2 − 1
    tensor([-0.3069, -0.3069])
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

EPS = 1e-4  # added to variances, as VICReg's authors have it: the root has a slope at 0


def contrast(z: Tensor, z_plus: Tensor, temperature: float = 0.2) -> Tensor:
    """(B,): NT-Xent of each image, the mean over its two views."""
    both, positive = _similarities(z, z_plus, temperature)
    return (torch.logsumexp(both, dim=1) - positive).view(2, -1).mean(0)


def decouple(z: Tensor, z_plus: Tensor, temperature: float = 0.2) -> Tensor:
    """(B,): the same without the positive in the denominator."""
    both, positive = _similarities(z, z_plus, temperature)
    rows = torch.arange(len(both), device=z.device)
    negatives = both.index_put((rows, rows.roll(len(z))), both.new_tensor(-math.inf))
    return (torch.logsumexp(negatives, dim=1) - positive).view(2, -1).mean(0)


def _similarities(z: Tensor, z_plus: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """s (2B, 2B) with −∞ on the diagonal, and s_ii⁺ (2B,)."""
    check_pairs(z, z_plus)
    if not temperature > 0:
        raise ValueError(f"temperature={temperature}; pass τ > 0, such as 0.2.")
    e = F.normalize(torch.cat([z, z_plus]), dim=1)
    s = e @ e.T / temperature
    positive = torch.cat([s.diagonal(len(z)), s.diagonal(-len(z))])
    return s.masked_fill(torch.eye(len(e), dtype=torch.bool, device=e.device), -math.inf), positive


def predict(p: Tensor, target: Tensor) -> Tensor:
    """(B,): 2 − 2 cos; no gradient flows into the target."""
    return 2 - 2 * F.cosine_similarity(p, target.detach(), dim=1)


def regularise(
    z: Tensor, z_plus: Tensor, invariance: float = 25.0, variance: float = 25.0, covariance: float = 1.0
) -> Tensor:  # fmt: skip
    """(): VICReg of a batch."""
    check_pairs(z, z_plus)
    near = F.mse_loss(z, z_plus)
    spread = (hinge(z) + hinge(z_plus)) / 2
    return invariance * near + variance * spread + covariance * (correlate(z) + correlate(z_plus))


def hinge(z: Tensor) -> Tensor:
    """(): mean [1 − σ_k]₊ over the columns."""
    return F.relu(1 - (z.var(dim=0) + EPS).sqrt()).mean()


def correlate(z: Tensor) -> Tensor:
    """(): Σ C_kl² / d over pairs of different columns."""
    centred = z - z.mean(dim=0)
    C = centred.T @ centred / (len(z) - 1)
    return (C.square().sum() - C.diagonal().square().sum()) / z.shape[1]


def match(u: Tensor, v: Tensor, scale: Tensor | float, same: Tensor | None = None) -> Tensor:
    """(B,): CLIP's loss of each pair, the mean of both directions.

    u, v : (B, d), images and texts; only their directions count
    scale : ln(1/τ), which may be learned
    same : (B, B) truth values, optional
        Where caption j is that of image i, too: the targets are then shared among them evenly.
    """
    check_pairs(u, v)
    s = F.normalize(u, dim=1) @ F.normalize(v, dim=1).T
    s = s * torch.as_tensor(scale, dtype=u.dtype).exp()
    targets = torch.eye(len(s), device=s.device, dtype=s.dtype) if same is None else same.to(s)
    rows, columns = (t / t.sum(dim=1, keepdim=True) for t in (targets, targets.T))
    images = F.cross_entropy(s, rows, reduction="none")
    return (images + F.cross_entropy(s.T, columns, reduction="none")) / 2


def check_pairs(z: Tensor, z_plus: Tensor) -> None:
    """ValueError unless there are two rows or more, as many on both sides."""
    if z.shape != z_plus.shape or z.ndim != 2:
        shapes = f"z has shape {tuple(z.shape)}, z⁺ {tuple(z_plus.shape)}"
        raise ValueError(f"{shapes}; pass (B, d) of both.")
    if len(z) < 2:
        raise ValueError("a batch of 1: the loss compares the rows of a batch; pass batch_size >= 2.")  # fmt: skip


def spread(z: Tensor) -> Tensor:
    """(): the root of the summed variances of z/‖z‖: 1 if directions are even, 0 if all coincide."""
    return F.normalize(z.detach(), dim=1).var(dim=0, correction=0).sum().sqrt()
