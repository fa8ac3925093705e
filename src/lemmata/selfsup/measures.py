"""Numbers that describe an encoder and promise nothing: alignment, uniformity, spectrum, sensitivity (Wang & Isola 2020).

alignment      E‖z − z⁺‖²                                z, z⁺ normalised features of two views of a row
uniformity     ln E exp(−2‖z − z′‖²)                    of different rows; −4 and less is even, 0 a point
spectrum       deviations along the principal axes of z, falling
sensitivity    E(1 − cos(f₁(x), f₁(a(x)))) for each augmentation a
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

Array = np.ndarray


@torch.no_grad()
def state(module: Any, objective: Any, x: Array, size: int) -> dict[str, Any]:
    """The loss and the measures of images in whole batches, in evaluation mode: batch k has the draws of seed k."""
    like, losses, pairs = next(module.parameters()), [], []
    for k in range(len(x) // size):
        batch = torch.from_numpy(x[k * size : (k + 1) * size]).to(like)
        rng = torch.Generator(like.device).manual_seed(k)
        views = objective.views(batch, rng)
        losses.append(float(objective.of(module, *views)[0].double().mean()))
        pairs.append([module(view).double().cpu() for view in views])
    z, z_plus = (F.normalize(torch.cat(part), dim=1) for part in zip(*pairs, strict=True))
    return {
        "loss_": float(np.mean(losses)),
        "alignment_": float((z - z_plus).square().sum(1).mean()),
        "uniformity_": uniformity(z),
        "spectrum_": torch.linalg.svdvals(z - z.mean(0)).div(len(z) ** 0.5).numpy(),
    }


@torch.no_grad()
def caption_loss(module: Any, x: Array, tokens: Array, size: int) -> float:
    """CLIP's loss of rows and captions in whole batches, in evaluation mode."""
    from lemmata.selfsup.objectives import Match

    like, whole = next(module.parameters()), len(x) // size * size
    rows, words = (
        torch.from_numpy(x[:whole]).to(like),
        torch.from_numpy(tokens[:whole]).to(like.device),
    )
    parts = zip(rows.split(size), words.split(size), strict=True)
    return float(np.mean([float(Match().of(module, *part)[0].double().mean()) for part in parts]))


def uniformity(z: Any) -> float:
    """ln E exp(−2‖z − z′‖²) over pairs of different rows of normalised features, a tensor (n, d)."""
    n = len(z)
    cosines = (z @ z.T)[~torch.eye(n, dtype=torch.bool)]
    return float(torch.logsumexp(4 * cosines - 4, 0) - np.log(n * (n - 1)))


@torch.no_grad()
def sensitivity(model: Any, X: Any, augmentations: Mapping[str, Any], random_state: int = 0) -> dict[str, float]:  # fmt: skip
    """Measure how far features turn under each augmentation: the mean of 1 − cos(f₁(x), f₁(a(x))); 0 sees no difference.

    augmentations : by name, functions of (batch, generator)
    """
    x = torch.from_numpy(np.concatenate([rows for rows, _ in model._validate_rows(X, reset=False)]))
    x = x.reshape(-1, *model.input_shape_)
    before, found = model.transform(x.numpy()), {}
    for name, augment in augmentations.items():
        after = model.transform(augment(x, torch.Generator().manual_seed(random_state)).numpy())
        cosines = F.cosine_similarity(torch.from_numpy(before), torch.from_numpy(after))
        found[name] = float(1 - cosines.double().mean())
    return found
