"""VICReg: views agree, every number varies, no two say the same (ML "Joint Embedding Methods"; Bardes et al. 2022).

    minimise  a · mean (z − z⁺)²  +  b · mean_k [1 − σ_k]₊  +  c · Σ_{k≠l} C_kl² / d

Without the second term the first alone is least at a constant, and everything contracts to a point.

    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().images[:400, None].astype("float32") / 16
    >>> model = VICReg(regions=1, net_options={"widths": (16, 32)}, batch_size=100, max_iter=3, random_state=0).fit(X)
    >>> model.transform(X).shape, "not_collapsed" in model.certificate_.held
    ((400, 32), True)
"""

from __future__ import annotations

from typing import Any

from lemmata.core.parameters import KW_ONLY, NONNEGATIVE, parameter
from lemmata.selfsup.base import SelfSupervised


class VICReg(SelfSupervised):
    """An encoder whose outputs agree between views, vary between rows, and do not repeat each other.

    Minimises invariance, a hinge on the deviation of each output, and the squared covariances of all pairs.

    Attributes are those of `SelfSupervised`.
    """

    _: KW_ONLY
    invariance: float = parameter(25.0, NONNEGATIVE, before="views").doc(
        "a, of the distance of views."
    )
    variance: float = parameter(25.0, NONNEGATIVE, before="views").doc(
        "b; at 0 everything contracts."
    )
    covariance: float = parameter(1.0, NONNEGATIVE, before="views").doc("c, of the covariances.")

    def _loss(self) -> Any:
        from lemmata.selfsup.objectives import VarianceCovariance

        a, b, c = float(self.invariance), float(self.variance), float(self.covariance)
        return VarianceCovariance(self.views_, a, b, c)
