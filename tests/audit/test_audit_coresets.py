"""What is claimed of a coreset, where it holds and where it does not; more cases in truth/coresets.py."""

from dataclasses import replace

import numpy as np
import pytest

from lemmata import LightweightCoreset
from lemmata.audit.clustering.coresets import CORESET_CLAIMS, bernstein
from lemmata.core import PROVED, STATISTICAL

X = np.random.default_rng(0).normal(size=(6000, 4)) + 6 * (np.arange(6000)[:, None] // 2000)


def drawn(size=1000, **more):
    return LightweightCoreset(size, random_state=0, **more).fit(X)


def test_every_claim_of_a_coreset_as_drawn_holds_on_its_data():
    found = drawn().certify(X)
    assert found.held == [claim.name for claim in CORESET_CLAIMS]
    kinds = {claim.kind for claim in found if claim.name in ("costs_kept", "own_costs_kept")}
    assert kinds == {PROVED}  # measured on all rows
    assert found["total_weight_kept"].kind == STATISTICAL
    assert found["total_weight_kept"].confidence == pytest.approx(0.95)


def test_the_bound_on_the_cost_of_the_mean_is_that_of_the_data_not_of_the_worst_data():
    """Rows at equal distances from their mean: every draw has the same share of the cost, which cannot stray."""
    circle = np.stack([np.cos(np.arange(3000)), np.sin(np.arange(3000))], axis=1)
    even = LightweightCoreset(500, random_state=0).fit(circle).certify(circle)["cost_of_mean_kept"]
    assert even.bound < 0.01 < bernstein(500, np.log(40), 1.0, 1.0)
    assert even.verdict == "holds"


def test_an_even_sample_loses_what_is_far_away_and_the_costs_say_so():
    rows = X.copy()
    rows[:3] += 1e4
    model = LightweightCoreset(1000, random_state=0).fit(rows)
    assert "costs_kept" in model.certify(rows).held
    even = rows[3 + np.random.default_rng(0).integers(5997, size=1000)]
    model.coreset_ = replace(model.coreset_, points=even, weights=np.full(1000, 6.0))
    found = model.certify(rows)
    assert {"cost_of_mean_kept", "costs_kept"} <= set(found.failed)
    assert {"total_weight_kept", "statements_true"} <= set(found.held)


def test_a_few_rows_keep_no_costs_of_many_centres():
    found = drawn(size=60, n_clusters=20).certify(X)
    assert "own_costs_kept" in found.failed


def test_batches_state_what_all_of_their_rows_add_up_to():
    model = LightweightCoreset(500, random_state=0)
    for batch in np.split(X, 6):
        model.partial_fit(batch)
    assert model.certify(X)["statements_true"].verdict == "holds"
    assert model.certify(X[:1000])["statements_true"].verdict == "fails"
    assert "total_weight_kept" in model.certificate_.held
