"""BYOL: predict what a slow copy of the network says of the other view; there are no negatives (Grill et al. 2020).

    minimise  E 2 − 2 cos(q(f₂(f₁(x))), sg f₂′(f₁′(x⁺)))        both ways,      θ′ ← m θ′ + (1 − m) θ

A constant output has the least loss, and gradient descent goes there where a piece is missing: the stopped gradient, the slow
target, the predictor q. The notes give neither the first nor the last. Look at `not_collapsed`.

    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().images[:400, None].astype("float32") / 16
    >>> model = BYOL(regions=1, net_options={"widths": (16, 32)}, batch_size=100, max_iter=3, random_state=0).fit(X)
    >>> model.transform(X).shape, "not_collapsed" in model.certificate_.held
    ((400, 32), True)
"""

from __future__ import annotations

from typing import Any

from lemmata.core.parameters import FRACTION, KW_ONLY, parameter
from lemmata.selfsup.base import SelfSupervised


class BYOL(SelfSupervised):
    """An encoder that predicts its own slow copy on another view.

    Minimises 2 − 2 cos between prediction and target; no gradient flows into the target.

    Attributes are those of `SelfSupervised`.
    """

    _: KW_ONLY
    momentum: float = parameter(0.99, FRACTION, before="views").doc("""
        m: the share of the target that an update keeps.""")

    def _loss(self) -> Any:
        from lemmata.selfsup.objectives import Bootstrap

        return Bootstrap(self.views_)

    def _parts(self) -> dict[str, Any]:
        return {**super()._parts(), "predictor": True, "momentum": float(self.momentum)}
