"""Estimated weights with what is known about their error: standard errors, tests, intervals, a table to print.

    error √cov_jj,   statistic w_j / error_j,   p = P(|law| ≥ |statistic|),   interval w_j ± q error_j

The law is Student's t for least squares and the normal one for maximum likelihood, which is so in the limit of many rows (ML
"Properties of MLE"). A weight that the data does not determine has an infinite error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

Array = np.ndarray


@dataclass(frozen=True)
class EstimatedWeights:
    """Weights of one fit, and the covariance of their errors; intercepts come first."""

    names: tuple[str, ...]
    coef: Array  # (p,)
    covariance: Array  # (p, p)
    level: float  # of the intervals

    @property
    def law(self) -> Any:
        """The distribution of weight over error where the true weight is 0."""
        return scipy.stats.norm

    @property
    def standard_errors(self) -> Array:
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def statistics(self) -> Array:
        """Weights in units of their errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.coef / self.standard_errors

    @property
    def p_values(self) -> Array:
        """P-values of the hypothesis that a weight is 0, two-sided."""
        return 2 * self.law.sf(np.abs(self.statistics))

    @property
    def intervals(self) -> Array:
        """(p, 2)."""
        reach = self.law.ppf(0.5 + self.level / 2) * self.standard_errors
        return np.column_stack([self.coef - reach, self.coef + reach])

    def table(self, letter: str) -> str:
        """A line for each weight, under a line of headings; `letter` is what the statistic is called."""
        width, share = max(12, *map(len, self.names)), f"{100 * self.level:g} %"
        head = f"{letter:>10}{f'P > |{letter}|':>10}   {share + ' interval':>25}"
        lines = [f"{'':{width}}{'coef':>13}{'std err':>13}{head}"]
        for name, w, e, t, p, (low, high) in zip(
            self.names, self.coef, self.standard_errors, self.statistics, self.p_values, self.intervals,
            strict=True,
        ):  # fmt: skip
            if np.isfinite(e):
                line = f"{e:13.6g}{t:10.3f}{p:10.4f}   {low:12.6g} {high:12.6g}"
            else:
                line = "   not determined by this data"
            lines.append(f"{name:{width}}{w:13.6g}{line}")
        return "\n".join(lines)


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level={level!r}: pass a share between 0 and 1, such as 0.95.")


def feature_names(model: Any) -> list[str]:
    """The columns as they were named in training, else x0, x1, …"""
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])
    return list(map(str, names))
