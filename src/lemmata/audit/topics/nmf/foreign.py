"""scikit-learn's NMF and MiniBatchNMF in our words (see audit/foreign.py). Neither keeps W: claims solve for the best one."""

from __future__ import annotations

from typing import Any

LOSSES = {"frobenius": "frobenius", "kullback-leibler": "kullback-leibler", 2: "frobenius", 1: "kullback-leibler"}  # fmt: skip


def parts_of(model: Any) -> dict[str, Any]:
    """The loss by its name; other divergences are refused."""
    loss = LOSSES.get(model.beta_loss)
    if loss is None:
        raise ValueError(
            f"this {type(model).__name__} was fitted with beta_loss={model.beta_loss!r}; the claims speak of 'frobenius' and "
            "'kullback-leibler'."
        )
    return {"beta_loss": loss}
