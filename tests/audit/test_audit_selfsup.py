"""Claims about encoders: each holds and fails where it should, of ours and of anybody's module; no statement can be forged."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import lemmata
from lemmata.audit.selfsup.collapse import entropy_rank, spread_of
from lemmata.nets.augmentation import Noise
from lemmata.selfsup import LeaveOut

RNG = np.random.default_rng(0)
# two columns of signal, twenty of nuisance that every view draws again
SIGNAL, NUISANCE = 2, 20
X = RNG.normal(size=(1500, SIGNAL + NUISANCE)).astype("float32")


def redraw(batch, generator):
    nuisance = torch.randn(len(batch), NUISANCE, generator=generator).to(batch)
    noise = 0.05 * torch.randn(len(batch), SIGNAL, generator=generator).to(batch)
    return torch.cat([batch[:, :SIGNAL] + noise, nuisance], 1)


class Map(nn.Module):
    """x ↦ f(x), with a weight that does nothing."""

    def __init__(self, function):
        super().__init__()
        self.w, self.function = nn.Parameter(torch.zeros(1)), function

    def forward(self, x):
        return self.function(x) + 0 * self.w


def certify(function, rows=X, views=redraw, **more):
    return lemmata.certify(Map(function), rows, properties={"views": views}, **more)


signal = lambda x: x[:, :SIGNAL]  # noqa: E731
direction = torch.randn(SIGNAL + NUISANCE, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("encode", "verdict"),
    [
        (lambda x: x, "holds"),
        (lambda x: x @ direction.to(x), "holds"),
        (lambda x: torch.ones_like(x), "fails"),
        (lambda x: torch.zeros_like(x), "fails"),
        (lambda x: 1 + 0.01 * x, "fails"),
        # the spread is large, the rank 1 of 64
        (lambda x: x[:, :1] @ torch.linspace(-1, 1, 64).to(x)[None], "fails"),
        # the noise of a network that contracts has every direction
        (lambda x: 1 + 1e-3 * x, "fails"),
    ],
    ids=["identity", "random", "constant", "zero", "nearly constant", "rank one", "contracted"],
)
def test_a_collapse_is_seen_in_spread_or_in_rank(encode, verdict):
    assert certify(encode)["not_collapsed"].verdict == verdict


def test_the_rank_alone_is_blind_to_a_contraction():
    h = RNG.normal(size=(300, 16))
    assert entropy_rank(1 + 1e-3 * h) > 14
    assert spread_of(1 + 1e-3 * h) < 0.01
    assert abs(spread_of(h) - 1) < 0.05


@pytest.mark.parametrize("n", [2, 5, 30])
def test_few_rows_in_many_dimensions_are_no_collapse_and_no_proof(n):
    rows = RNG.normal(size=(n, 200)).astype("float32")
    assert certify(lambda x: x, rows, views=LeaveOut(0.3))["not_collapsed"].verdict == "can't tell"
    assert certify(torch.ones_like, rows)["not_collapsed"].verdict == "fails"


def test_one_row_collapses_nothing():
    assert certify(lambda x: x, X[:1])["not_collapsed"].verdict == "can't tell"


def test_views_are_found_by_the_signal_and_not_by_the_nuisance():
    assert certify(signal)["views_found"].verdict == "holds"
    assert certify(lambda x: x[:, SIGNAL:])["views_found"].verdict != "holds"
    constant = certify(torch.ones_like)["views_found"]
    assert constant.verdict != "holds"
    # two views of the same kind as the baseline gain nothing
    baseline = {"step": redraw, "baseline": Map(signal)}
    found = lemmata.certify(Map(signal), X, properties={"views": baseline})
    assert found["views_found"].verdict == "can't tell"
    worse = lemmata.certify(Map(torch.ones_like), X, properties={"views": baseline})
    assert worse["views_found"].verdict == "fails"


def test_views_may_be_two_functions_and_functions_of_the_batch_alone():
    alone = lambda batch: batch + 0.1 * torch.randn_like(batch)  # noqa: E731
    first, again = (certify(signal, views=(alone, LeaveOut(0.1))) for _ in range(2))
    assert first["views_found"].measured == again["views_found"].measured


@pytest.mark.parametrize(
    ("views", "message"),
    [
        (lambda x, rng: x[:, :3], "shape"),
        (Noise(0.1), "channel axis"),
        (lambda x, rng: x / 0, "not finite"),
    ],
)
def test_views_that_are_no_views_leave_the_claim_undecided(views, message):
    found = certify(signal, views=views)["views_found"]
    assert found.verdict == "can't tell"
    assert message in found.note


def test_probes_of_a_module_need_labels_and_a_baseline():
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    product = lambda x: x[:, :1] * x[:, 1:2]  # noqa: E731
    train, test = slice(None, 900), slice(900, None)
    views = {"step": redraw, "baseline": Map(signal)}
    more = {"X_test": X[test], "y_test": y[test]}
    found = lemmata.certify(Map(product), X[train], y[train], properties={"views": views}, **more)
    assert found["probe_beats_pixels"].verdict == found["probe_beats_untrained"].verdict == "holds"
    found = lemmata.certify(Map(signal), X[train], y[train], properties={"views": redraw}, **more)
    assert found["probe_beats_pixels"].verdict == "can't tell"
    assert "baseline" in found["probe_beats_untrained"].note
    found = lemmata.certify(Map(product), X, y, properties={"views": redraw})
    assert "y_test" in found["probe_beats_pixels"].note
    shuffled = RNG.permutation(y)
    more["y_test"] = shuffled[test]
    found = lemmata.certify(Map(product), X[train], shuffled[train], properties={"views": views}, **more)  # fmt: skip
    assert found["probe_beats_pixels"].verdict != "holds"


def test_rows_that_were_trained_on_are_no_new_rows(fitted):
    model, rows = fitted
    found = model.certify(rows, X_test=rows[:200])
    assert found["not_collapsed"].verdict == found["views_found"].verdict == "can't tell"


@pytest.fixture(scope="module", params=["SimCLR", "BYOL", "VICReg"])
def fitted(request):
    cls = getattr(lemmata, request.param)
    rows = X[:400]
    net = {"net": "FeedForward", "net_options": {"widths": (16,)}}
    return cls(**net, projection=8, hidden=16, max_iter=2, random_state=0).fit(rows), rows


def test_statements_of_our_encoders_are_true_and_cannot_be_forged(fitted):
    model, rows = fitted
    found = model.certify(rows)
    assert found["statements_true"].verdict == "holds", found["statements_true"]
    for name in ("loss_", "alignment_", "uniformity_", "spectrum_"):
        liar = copy.copy(model)
        setattr(liar, name, getattr(model, name) + 0.01)
        assert liar.certify(rows)["statements_true"].verdict == "fails", name
    liar = copy.deepcopy(model)
    with torch.no_grad():
        next(liar.module_.encoder.parameters()).mul_(1.5)
    assert liar.certify(rows)["statements_true"].verdict == "fails"


def test_unknown_keys_of_views_are_refused():
    with pytest.raises(ValueError, match="baseline="):
        lemmata.certify(Map(signal), X, properties={"views": {"steps": redraw}})
    found = lemmata.certify(Map(signal), X, properties=("views",))
    assert "what is a view" in found["views_found"].note
