"""SimCLR: views of one image are neighbours, those of others are not (ML "SimCLR"; Chen et al. 2020).

minimise  E −ln e^{s(z, z⁺)} / (e^{s(z, z⁺)} + Σ_j e^{s(z, z_j)}),      s = cos/τ,  z = f₂(f₁(x)),  z_j: views of other rows

>>> from sklearn.datasets import load_digits
>>> X = load_digits().images[:400, None].astype("float32") / 16
>>> model = SimCLR(regions=1, net_options={"widths": (16, 32)}, batch_size=100, max_iter=3, random_state=0).fit(X)
>>> model.transform(X).shape, "not_collapsed" in model.certificate_.held
((400, 32), True)
"""

from __future__ import annotations

from typing import Any

from lemmata.core.parameters import KW_ONLY, POSITIVE, choice, parameter
from lemmata.selfsup.base import SelfSupervised


class SimCLR(SelfSupervised):
    """An encoder by contrast: which of all views of a batch is of the same row?

    Minimises NT-Xent, a classification among the views of a batch by cosines over the temperature τ.

    Attributes are those of `SelfSupervised`.
    """

    _: KW_ONLY
    temperature: float = parameter(0.2, POSITIVE, before="views").doc("""
        τ: the smaller, the more the nearest of the others count.""")
    denominator: str = parameter("all", choice("all", "negatives"), before="views").doc("""
        "all": positive and negatives; "negatives": as the notes print it ("decoupled").""")

    def _loss(self) -> Any:
        from lemmata.selfsup import losses
        from lemmata.selfsup.objectives import Contrast

        loss = losses.contrast if self.denominator == "all" else losses.decouple
        return Contrast(self.views_, float(self.temperature), loss)
