"""Objectives with several numbers, networks with a loss and a beginning of their own, steps shorter than an epoch."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from lemmata.core import Checkpoint, MaxSteps, Seconds, run
from lemmata.nets import Terms, Training, objective, train
from lemmata.nets.data.batches import as_data
from lemmata.nets.training import counting
from lemmata.nets.training.running import ByEpoch, NoValidationGain, epochs_of
from lemmata.nets.training.trainer import TrainingState

RNG = np.random.default_rng(0)
X = 3 + 2 * RNG.normal(size=(70, 5))


class Scaled(nn.Module):
    """A network that sets its mean from the first batch, and knows its loss."""

    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(5, 5), nn.Dropout(0.2)
        self.register_buffer("mean", torch.zeros(5))
        self.register_buffer("begun", torch.tensor(False))
        self.calls = []

    def begin(self, batch):
        self.calls.append(len(batch[0]))
        if not self.begun:
            self.mean.copy_(batch[0].mean(0))
            self.begun.fill_(True)

    def loss(self, x):
        error = (self.layer(self.drop(x - self.mean)) - x + self.mean).square().sum(1)
        return Terms(
            error, {"size": x.square().sum(1), "weight": self.layer.weight.detach().square().sum()}
        )


def fitted(training, data=X, steps=3, **more):
    return run(training, as_data(data), stop=ByEpoch(MaxSteps(steps)), rng=3, **more)


def weights(solution):
    return {name: array.tobytes() for name, array in solution.state.model.items()}


def test_named_numbers_are_means_over_the_epoch_however_batches_are_cut():
    whole, cut = (fitted(Training(Scaled, "module", batch_size=32, accumulate=m)) for m in (1, 3))
    expected = np.square(X).sum(1).mean()
    for solution in (whole, cut):
        np.testing.assert_allclose(solution.trace.extras["size"][1:], expected, rtol=1e-12)
        assert (solution.trace.extras["weight"] > 0).all()
    w = np.arange(70.0) % 3
    weighted = fitted(Training(Scaled, "module", batch_size=70), weighted_rows(w))
    by_weight = np.average(np.square(X).sum(1), weights=w)
    np.testing.assert_allclose(weighted.trace.last("size"), by_weight, rtol=1e-12)


def weighted_rows(w):
    from lemmata.nets import Rows

    return Rows(X, weights=w)


def test_an_objective_that_cannot_be_traced_is_refused():
    def naming(**numbers):
        return objective(lambda net, batch, rng: Terms(net(batch[0]).mean(1), numbers))

    net = nn.Linear(5, 5)
    with pytest.raises(ValueError, match="calls a number 'rate', as the trace does"):
        fitted(Training(net, naming(rate=torch.zeros(())), batch_size=70))
    with pytest.raises(ValueError, match=r"the kl of 70 rows is a tensor of shape \(3,\)"):
        fitted(Training(net, naming(kl=torch.zeros(3)), batch_size=70))
    with pytest.raises(ValueError, match="needs a network with a method loss"):
        fitted(Training(net, "module", batch_size=70))


def test_a_network_or_an_objective_refuses_narrow_products_with_its_reason():
    class Precise(Scaled):
        refuses_bfloat16 = "a log-determinant is a sum of many logarithms"

    with pytest.raises(ValueError, match="is refused: a log-determinant is a sum"):
        fitted(Training(Precise, "module", batch_size=32, precision="bfloat16"))
    fitted(Training(Precise, "module", batch_size=32), steps=1)


def test_a_network_begins_once_with_the_first_batch_and_its_state_says_so(tmp_path):
    made = []

    def net():
        made.append(Scaled())
        return made[-1]

    training = Training(net, "module", batch_size=32)
    state = training.init(as_data(X), np.random.default_rng(3))
    assert [one.calls for one in made] == [[32]]
    first = next(as_data(X).batches(state.seed, 0, 32)).parts[0].numpy()
    np.testing.assert_allclose(state.model["mean"], first.mean(0), rtol=1e-12)
    end = fitted(training)
    again = Training(training.module(end.state), "module", batch_size=32)
    warm = again.init(as_data(X + 5), np.random.default_rng(0))  # a warm start on other rows
    assert np.array_equal(warm.model["mean"], end.state.model["mean"])


def test_short_steps_give_the_bits_of_whole_epochs_and_resume_inside_of_one(tmp_path, monkeypatch):
    def made(pace):
        options = {"batch_size": 8, "ema": 0.9, "schedule": "cosine", "epochs": 3}
        return Training(Scaled, "module", batches_per_step=pace, **options)

    whole = fitted(made(None))
    assert fitted(made("auto")).state.pace == 0  # little work: a step is an epoch
    monkeypatch.setattr(counting, "STEP", 1e-3)
    short = fitted(made("auto"))
    assert 0 < short.state.pace < 9
    assert weights(short) == weights(whole)
    assert len(short.trace) > len(whole.trace) == 4
    for trace in (whole.trace, epochs_of(short.trace)):
        assert trace.objective.tobytes() == whole.trace.objective.tobytes()
        assert trace.extras["size"].tobytes() == whole.trace.extras["size"].tobytes()
    path = tmp_path / "run"
    for steps in (1, 2, 4):  # killed inside of the first epoch, and again
        rule = MaxSteps(steps)
        run(made("auto"), as_data(X), stop=rule, rng=3, callbacks=[Checkpoint(path)])
    part = fitted(made("auto"), callbacks=[Checkpoint(path)])
    assert weights(part) == weights(whole)
    assert part.trace.objective.tobytes() == short.trace.objective.tobytes()


def test_rules_and_validation_count_epochs_where_steps_are_shorter(monkeypatch):
    monkeypatch.setattr(counting, "STEP", 1e-3)
    training = Training(Scaled, "module", batch_size=8, batches_per_step="auto", epochs=50)
    seen = []
    train(training, X, validation=X[:20], epochs=2, rng=0, callbacks=[lambda s: seen.append(s)])
    ends = [s.state.batch == 0 for s in seen]
    assert sum(ends) == 2 < len(ends)
    losses = seen[-1].trace.extras["validation_loss"]
    assert len(set(losses)) == 3  # before, and after each epoch
    stuck = Training(Scaled, "module", batch_size=8, batches_per_step="auto", learning_rate=1e-30)
    end = train(stuck, X, validation=X[:20], stop=NoValidationGain(4), rng=0)
    assert (end.stopped, end.state.epoch) == ("no improvement", 4)
    cut = train(training, X, stop=Seconds(1e-9), rng=0)
    assert cut.step == 0  # a clock is looked at between steps, not epochs


def test_states_of_version_1_go_on():
    state = Training(Scaled, "module", batch_size=32).init(as_data(X), np.random.default_rng(0))
    new = ("sums", "pace", "at_once")
    fields = {f.name: getattr(state, f.name) for f in dataclasses.fields(state)}
    old = {name: value for name, value in fields.items() if name not in new}
    found = TrainingState(**TrainingState.upgrade(old, 1))
    training = Training(Scaled, "module", batch_size=32)
    training.check_state(found, as_data(X))
    ours, theirs = (training.step(one, as_data(X)) for one in (state, found))
    assert ours.model["layer.weight"].tobytes() == theirs.model["layer.weight"].tobytes()
    assert ours.loss == theirs.loss
    spoilt = dataclasses.replace(found, sums={"rows": "many", "loss": 0.0})
    with pytest.raises(ValueError, match="sums of its epoch"):
        training.check_state(spoilt, as_data(X))


def test_rows_are_evaluated_by_bytes():
    """784 pixels of 256 levels are 0.8 MB a row: 83 rows of them are 64 MB, not 1,024."""
    net = nn.Linear(1, 256)
    with counting.Operations() as counted:
        net(torch.zeros(4, 784, 1))
    assert counted.rows_at_once(4) == 2**26 // (784 * 256 * 4) == 83
    with counting.Operations() as small:
        net(torch.zeros(4, 1))
    assert small.rows_at_once(4) == 1024
    assert small.batches_per_step(10) == 0
    heavy = counting.Operations()
    heavy.products = 1e10  # some 0.75 s with its gradient
    assert (heavy.batches_per_step(7), heavy.batches_per_step(None)) == (2, 2)
