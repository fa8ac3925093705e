"""Slow, obvious twins: those of truth/slow_completion.py, and the Hessian of the factored objective, dense."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # truth/ stands beside tests/

from lemmata.audit.completion.factored_objective import Factored
from truth.slow_completion import (  # noqa: F401
    als,
    convex_optimum,
    counts,
    half_sweep_gain,
    objective,
    penalties,
    planted,
)


def at(A, factors, reg, **kw):
    """A Factored problem at these factors."""
    biased = kw.pop("biased", False)
    return Factored.of(
        A,
        factors.U,
        factors.V,
        reg=reg,
        row_bias=factors.b,
        column_bias=factors.c,
        biased=biased,
        **kw,
    )


def dense_hessian(problem):
    """H by products with unit directions."""
    from lemmata.audit.completion.optimality.curvature import as_direction, as_vector, curve

    (n, m), p = problem.shape, problem.rank + problem.biased
    return np.column_stack(
        [as_vector(problem, curve(problem, as_direction(problem, e))) for e in np.eye((n + m) * p)]
    )
