"""The bounds of the trusted base under the names that people use (see audit/kernel/concentration.py for their statements).

>>> from lemmata.trust import hoeffding, samples_needed, union_bound
>>> samples_needed(0.02)                    # rows to know one accuracy to ± 0.02, with probability 0.95
4612
>>> samples_needed(0.02, K=20)              # and twenty of them at once
8356
>>> round(hoeffding(8356, union_bound(20)), 4)
0.02
"""

# ruff: noqa: F401
from lemmata.audit.kernel.concentration import (
    betting,
    checked_risk,
    clopper_pearson,
    hoeffding,
    samples_needed,
    union_bound,
)
from lemmata.audit.predict.neighbours.one_nearest import bound_distance, count_rows, least_constant
from lemmata.audit.predict.neighbours.one_nearest import draws as nearest_draws
from lemmata.audit.trust.comparisons import Pairwise, compare_losses, take
from lemmata.audit.trust.generalisation import (
    LOSSES,
    Interval,
    PredictionLoss,
    interval,
    interval_of_folds,
)
