"""Offsets: how much noise they would explain. The verdicts themselves are counted in truth/offsets.py."""

import numpy as np
import pytest

from lemmata.audit.completion.mean_ratings import _variance
from lemmata.completion import MeanRatings


@pytest.mark.parametrize("draw", ["standard_normal", "standard_cauchy", "standard_exponential"])
@pytest.mark.parametrize("groups", [3, 9])
def test_the_variance_over_all_orders_is_that_of_many_orders(draw, groups):
    rng = np.random.default_rng(groups)
    N = 24
    member = np.eye(groups)[rng.permutation(np.arange(N) % groups * (np.arange(N) > 4))]
    member = member[:, member.any(0)]
    M = member @ np.diag(1 / member.sum(0)) @ member.T - 1 / N
    p = member.shape[1] - 1
    x = getattr(rng, draw)(N)
    x -= x.mean()
    orders = np.array([rng.permutation(x) for _ in range(20_000)])
    shares = np.einsum("ri,ij,rj->r", orders, M, orders, optimize=True) / (x @ x)
    assert shares.mean() == pytest.approx(p / (N - 1), rel=0.03)
    assert _variance(x, p, float((np.diag(M) ** 2).sum())) == pytest.approx(shares.var(), rel=0.08)


def test_a_bound_between_two_gains_is_called_what_it_is():
    """With both sides and next to no reg there is no bound on the gain: a rule of thumb, unless the fit is plainly wrong."""
    rng = np.random.default_rng(0)
    A = 3 + rng.normal(size=(30, 1)) + rng.normal(size=20) + rng.normal(size=(30, 20))
    model = MeanRatings(reg=0.0).fit(A)
    assert (model.certify(A)["best_offsets"].verdict, model.certify(A)["best_offsets"].kind) == (
        "holds",
        "rule of thumb",
    )
    model.row_bias_ = 0.9 * model.row_bias_
    assert (model.certify(A)["best_offsets"].verdict, model.certify(A)["best_offsets"].kind) == (
        "fails",
        "proved",
    )
    assert MeanRatings(reg=1.0).fit(A).certify(A)["best_offsets"].kind == "proved"
