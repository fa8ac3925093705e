"""Rules of an update: games against `optim.saddle_point`; means over counts; what a network does after an update."""

import numpy as np
import pytest
import torch
from torch import nn

from lemmata.nets import EncoderDecoder, Rows, Terms, Training, objective, train
from lemmata.nets.data.batches import as_data
from lemmata.nets.training.rules import (
    Alternating,
    Extragradient,
    LossDescent,
    Players,
    Synchronous,
)
from lemmata.optim import saddle_point

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 5))
RULES = {
    "alternating": Alternating(),
    "synchronous": Synchronous(),
    "extragradient": Extragradient(),
}


class Point(nn.Module):
    def __init__(self, at):
        super().__init__()
        self.at = nn.Parameter(torch.tensor([at], dtype=torch.float64))


class Bilinear(Players):
    def of(self, player, net, batch, rng):
        f = (net["x"].at * net["y"].at).sum()
        return f if player == "x" else -f


def points():
    return nn.ModuleDict({"x": Point(1.0), "y": Point(0.5)})


def played(rule, loss=None, steps=7, **options):
    options = {"optimizer": "sgd", "learning_rate": 0.3, "batch_size": 1, **options}
    training = Training(points, loss or Bilinear(), rule=rule, **options)
    return training, train(training, np.ones((1, 1)), epochs=steps, rng=0)


# --- games ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", RULES)
def test_the_rules_make_the_steps_of_saddle_point(method):
    def game(x, y):
        return float(x @ y), y, x

    for steps in (1, 7):
        kept = {"method": method, "step_size": 0.3, "max_iter": steps, "tol": 1e-30}
        theirs = saddle_point(game, np.ones(1), np.full(1, 0.5), **kept)
        ours = played(RULES[method], steps=steps)[1].state.model
        np.testing.assert_allclose(ours["x.at"], theirs.x, rtol=1e-13)
        np.testing.assert_allclose(ours["y.at"], theirs.y, rtol=1e-13)


def test_the_losses_of_both_players_are_traced():
    class General(Bilinear):
        def of(self, player, net, batch, rng):
            f = super().of("x", net, batch, rng)
            return f if player == "x" else Terms(3 * net["y"].at[0] - f, {"f": f})

    trace = played(Synchronous(), General())[1].trace
    np.testing.assert_array_equal(trace.extras["x"], trace.objective)
    np.testing.assert_allclose(trace.extras["f"], trace.objective, rtol=1e-12)
    assert trace.extras["y"][1] == 3 * 0.5 - 0.5


def test_the_second_player_may_step_more_often_and_every_gradient_has_draws_of_its_own():
    seen = []

    class Drawing(Bilinear):
        def of(self, player, net, batch, rng):
            seen.append((player, float(torch.rand((), generator=rng)), float(torch.rand(()))))
            return super().of(player, net, batch, rng)

    training = played(Alternating(3), Drawing(), steps=1)[0]
    assert [name for name, *_ in seen[-4:]] == ["x", "y", "y", "y"]
    assert len({number for _, *numbers in seen[-4:] for number in numbers}) == 8
    first = list(seen)
    seen.clear()
    state = training.init(as_data(np.ones((1, 1))), np.random.default_rng(0))
    training.step(state, np.ones((1, 1)))
    assert seen == first  # and they repeat


def test_extra_adam_remembers_both_of_its_steps():
    state = played(Extragradient(), optimizer="adam", steps=4)[1].state
    assert {float(kept["step"]) for kept in state.memory.values()} == {8.0}
    assert state.updates == 4


def test_a_game_resumes_to_the_bit(tmp_path):
    for rule in (*RULES.values(), Alternating(2)):
        training, whole = played(rule, optimizer="adam", ema=0.9)
        path = tmp_path / repr(rule)
        for steps in (3, 7):
            end = train(training, np.ones((1, 1)), epochs=steps, rng=0, checkpoint=path)
        for kept in ("model", "ema"):
            ours, theirs = (getattr(one.state, kept) for one in (end, whole))
            assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_rules_and_losses_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"Alternating\(\) is for the losses of two players"):
        Training(points, "mse", rule=Alternating())
    with pytest.raises(
        ValueError, match=r"LossDescent\(\) minimises one loss, and there are two players"
    ):
        Training(points, Bilinear())
    with pytest.raises(ValueError, match="steps=0 of the second player"):
        Alternating(0)

    class Other(Bilinear):
        players = ("x", "z")

    with pytest.raises(ValueError, match=r"weights 'y.at' of ModuleDict belong to no player"):
        Other().weights(points())
    net = points()
    net["y"].at.requires_grad_(False)
    with pytest.raises(ValueError, match="'y' of ModuleDict has no weight"):
        Bilinear().weights(net)


def test_checkpoints_of_the_time_before_rules_go_on():
    assert "rule" not in Training(points, "mse").identity()
    assert "rule" in Training(points, Bilinear(), rule=Alternating(2)).identity()
    assert Training(points, "mse").rule == LossDescent()


# --- means over counts ------------------------------------------------------------------------------------------------


LENGTHS = RNG.integers(1, 7, 24)
TOKENS = np.where(np.arange(6) < LENGTHS[:, None], RNG.integers(3, 9, (24, 6)), 0)


def texts():
    return EncoderDecoder(9, width=8, depth=1, heads=2, max_length=6).double()


def gradient(weights=None, **options):
    """The gradient of one batch of texts of unequal lengths, and its means."""
    training = Training(texts, "module", batch_size=24, precision="float64", **options)
    data = Rows(TOKENS, TOKENS[::-1].copy(), weights=weights)
    state = training.init(data, np.random.default_rng(0))
    trainer = training._trainer_at(state, data)
    batch = next(data.batches(0, 0, 24))
    means = trainer.gradients(batch, 0)
    return {name: w.grad for name, w in trainer.weights.items()}, means, trainer.module, batch


def test_tokens_count_the_same_however_a_batch_is_cut():
    whole, means, net, batch = gradient()
    loss = net.loss(*batch.parts).mean()
    loss.backward()  # adds a second one
    assert means["rows"] == LENGTHS.sum()
    assert means["loss"] == pytest.approx(loss.item(), rel=1e-12)
    weights = RNG.random(24)
    whole, means, *_ = gradient(weights)
    size = max(g.abs().max() for g in whole.values())
    for parts in (2, 5, 24):
        cut, others, *_ = gradient(weights, accumulate=parts)
        assert others == pytest.approx(means, rel=1e-12)
        assert max((cut[name] - g).abs().max() for name, g in whole.items()) <= 1e-12 * size


def test_the_loss_of_an_epoch_is_the_mean_over_its_tokens():
    data = Rows(TOKENS, TOKENS[::-1].copy())
    training = Training(
        texts, "module", optimizer="sgd", learning_rate=1e-30, batch_size=7, precision="float64"
    )
    end = train(training, data, validation=data, epochs=2, rng=0)
    net = end.attributes["module_"]
    expected = net.loss(*(torch.from_numpy(part) for part in (TOKENS, TOKENS[::-1].copy()))).mean()
    assert end.trace.objective[1:] == pytest.approx(expected.item(), rel=1e-12)
    assert end.trace.extras["validation_loss"] == pytest.approx(expected.item(), rel=1e-12)


def test_counts_are_one_for_each_row_and_a_batch_without_any_changes_nothing():
    net = nn.Linear(5, 1).double()

    def counting(counts):
        return objective(
            lambda net, batch, rng: Terms(net(batch[0])[:, 0], counts=counts(batch[0]))
        )

    with pytest.raises(
        ValueError, match=r"counts of 50 rows is a tensor of shape \(3,\).*where counts"
    ):
        train(Training(net, counting(lambda x: x[:3, 0]), batch_size=50), X, epochs=1)
    nothing = Training(net, counting(lambda x: 0 * x[:, 0]), optimizer="sgd", batch_size=50)
    end = train(nothing, X, epochs=1).state
    assert end.loss == 0
    assert np.array_equal(end.model["weight"], net.weight.detach().numpy())


# --- around an update -------------------------------------------------------------------------------------------------


class Following(nn.Module):
    """A layer whose target is its running mean."""

    def __init__(self):
        super().__init__()
        self.online, self.target = nn.Linear(5, 5), nn.Linear(5, 5).requires_grad_(False)
        self.norm = nn.BatchNorm1d(5)

    def updated(self):
        for slow, fast in zip(self.target.parameters(), self.online.parameters(), strict=True):
            slow.lerp_(fast, 0.25)

    def loss(self, x):
        return (self.norm(self.online(x)) - self.target(x)).square().sum(1)


class Masked(Following):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.full((2,), -torch.inf))


def test_a_network_follows_each_update_and_running_means_follow_its_buffers():
    seen = []
    options = {"batch_size": 25, "batches_per_step": 1, "ema": 0.7}
    training = Training(Masked, "module", **options)
    end = train(training, X, epochs=5, rng=0, callbacks=[lambda s: seen.append(s.state)])
    start = training.init(as_data(X), np.random.default_rng(0))
    target, mean = start.model["target.weight"], start.model["norm.running_var"]
    for t, state in enumerate(seen, start=1):
        target = 0.75 * target + 0.25 * state.model["online.weight"]
        np.testing.assert_allclose(state.model["target.weight"], target, rtol=1e-12)
        decay = min(0.7, (1 + t) / (10 + t))
        mean = decay * mean + (1 - decay) * state.model["norm.running_var"]
        np.testing.assert_allclose(state.ema["norm.running_var"], mean, rtol=1e-12)
    assert not {"mask", "target.weight", "norm.num_batches_tracked"} & end.state.ema.keys()
    raw, shown = (training.module(end.state, weights=which) for which in ("raw", "mean"))
    assert np.array_equal(raw.online.weight.detach(), end.state.model["online.weight"])
    assert np.array_equal(shown.norm.running_var, end.state.ema["norm.running_var"])
    with pytest.raises(ValueError, match="weights='last'; pass one of best, mean, raw"):
        training.module(end.state, weights="last")


def test_a_state_that_averaged_weights_alone_goes_on():
    from dataclasses import replace

    training = Training(Following, "module", batch_size=25, ema=0.7)
    end = train(training, X, epochs=2, rng=0).state
    old = replace(end, ema={k: v for k, v in end.ema.items() if not k.startswith("norm.running")})
    training.check_state(old, as_data(X))
    ours, theirs = (training.step(one, X) for one in (end, old))
    assert np.array_equal(ours.ema["online.weight"], theirs.ema["online.weight"])
    assert ours.ema.keys() == theirs.ema.keys()


def test_a_loss_that_compares_rows_is_not_cut():
    class Contrasting(Following):
        compares_rows = True

    with pytest.raises(ValueError, match=r"accumulate=2 would cut batches.*compares the rows"):
        train(Training(Contrasting, "module", batch_size=25, accumulate=2), X, epochs=1)
    train(Training(Contrasting, "module", batch_size=25), X, epochs=1)
