"""Training: the updates are those of theory and of torch, batches follow from the seed, a killed run ends in the same bits."""

import copy
import os
import signal
import threading

import numpy as np
import pytest
import torch
from torch import nn

from lemmata.core import Blocks, Checkpoint, MaxSteps, StepFailed, run
from lemmata.nets import Rows, Training, objective, train
from lemmata.nets.data.batches import Share, as_data, seeds
from lemmata.nets.training.optimisers import OPTIMIZERS
from lemmata.nets.training.trainer import arrays_of, weights_to_use

RNG = np.random.default_rng(0)
X = RNG.normal(size=(70, 5))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)


def small():
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))


def noisy():
    """A network that draws, with statistics of its own."""
    return nn.Sequential(
        nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.4), nn.Linear(8, 2)
    )


def jitter(x, rng):
    return x + 0.1 * torch.randn(x.shape, generator=rng, dtype=x.dtype)


def fitted(training, data=(X, Y), steps=4, **more):
    return run(training, as_data(data), stop=MaxSteps(steps), rng=3, **more)


def same(one, other):
    """Whether two states hold the same bits everywhere."""
    from lemmata.core.files.encoding import encode

    packed = []
    for state in (one, other):
        arrays = {}
        text = encode(state, arrays)
        packed.append((text, {key: array.tobytes() for key, array in arrays.items()}))
    return packed[0] == packed[1]


# --- the order of the data --------------------------------------------------------------------------------------------


def test_an_epoch_gives_every_row_once_in_an_order_of_its_own():
    data = Rows(np.arange(23.0)[:, None])
    epochs = []
    for epoch in (0, 1):
        batches = list(data.batches(seed=5, epoch=epoch, size=4))
        assert [batch.rows for batch in batches] == [4, 4, 4, 4, 4, 3]
        epochs.append(torch.cat([batch.parts[0][:, 0] for batch in batches]).numpy())
        assert np.array_equal(np.sort(epochs[-1]), np.arange(23.0))
    assert not np.array_equal(*epochs)
    rest = [batch.parts[0] for batch in data.batches(seed=5, epoch=1, size=4, start=4)]
    assert np.array_equal(torch.cat(rest)[:, 0].numpy(), epochs[1][16:])


def test_the_memory_of_a_batch_is_used_again_only_when_nobody_has_it():
    rows = np.random.default_rng(0).random((3000, 500)).astype(np.float32)
    data = Rows(rows, np.arange(3000))

    def right(batch):
        return np.array_equal(batch.parts[0].numpy(), rows[batch.parts[1].numpy()])

    assert all(map(right, list(data.batches(0, 0, 128))))  # all of them are kept
    places, views = set(), []
    for epoch in (1, 2, 3):
        for number, batch in enumerate(data.batches(0, epoch, 128)):
            assert right(batch)
            places.add(batch.parts[0].untyped_storage().data_ptr())
            if number == 5:
                views.append((batch.parts[0][3:7], batch.parts[0][3:7].clone()))
    assert all(torch.equal(view, copied) for view, copied in views)
    assert len(places) <= 6  # of nine fetches


@pytest.mark.parametrize("start", [0, 1, 1023, 1024, 3000])
def test_seeds_of_batches_do_not_depend_on_where_one_begins(start):
    whole = seeds(7, 2)
    for _ in range(start):
        next(whole)
    later = seeds(7, 2, start)
    assert [next(later) for _ in range(1100)] == [next(whole) for _ in range(1100)]


def test_processes_share_a_batch_without_gaps():
    rows = np.arange(11)
    for size in (1, 2, 3, 16):
        parts = [Share(rank, size).of(rows) for rank in range(size)]
        assert np.array_equal(np.concatenate(parts), rows)


def test_arrays_files_tensors_and_blocks_are_the_same_data(tmp_path):
    rows, labels = X.astype(np.float32), Y
    mapped = np.memmap(tmp_path / "rows", np.float32, "w+", shape=rows.shape)
    mapped[:] = rows
    kinds = [
        (rows, labels),
        (mapped, labels),
        (torch.from_numpy(rows), torch.from_numpy(labels)),
        Blocks.of(rows).with_targets(labels),
        Blocks.of(mapped).with_targets(labels),
    ]
    ends = [fitted(Training(small, "cross_entropy", batch_size=16), kind).state for kind in kinds]
    assert all(same(end, ends[0]) for end in ends[1:])
    assert len({as_data(kind).fingerprint() for kind in kinds}) == 1


def test_streams_are_read_block_by_block_and_resumed_within():
    blocks = Blocks.of([X[:30], X[30:37], X[37:]]).with_targets(Y)
    data = as_data(blocks)
    batches = list(data.batches(seed=1, epoch=0, size=8))
    assert len(batches) == data.count(8) == 4 + 1 + 5
    assert np.array_equal(np.sort(torch.cat([b.parts[0] for b in batches]), axis=0), np.sort(X, 0))
    where = {row.tobytes(): label for row, label in zip(X, Y, strict=True)}
    for batch in batches:
        assert [where[row.numpy().tobytes()] for row in batch.parts[0]] == batch.parts[1].tolist()
    later = [b.parts[0] for b in data.batches(seed=1, epoch=0, size=8, start=3)]
    assert all(torch.equal(a, b.parts[0]) for a, b in zip(later, batches[3:], strict=True))


def test_weights_are_how_often_rows_count():
    weights = np.array([0.0, 1.0, 2.0, 3.0] * 17 + [1.0, 1.0])
    again = np.repeat(np.arange(70), weights.astype(int))
    options = {"batch_size": 70, "learning_rate": 0.05}
    weighted = fitted(Training(small, "cross_entropy", **options), Rows(X, Y, weights=weights))
    options["batch_size"] = len(again)
    repeated = fitted(Training(small, "cross_entropy", **options), (X[again], Y[again]))
    assert weighted.trace.last() == pytest.approx(repeated.trace.last(), rel=1e-12)
    for name, array in weighted.state.model.items():
        np.testing.assert_allclose(array, repeated.state.model[name], rtol=1e-9, atol=1e-12)


# --- updates ----------------------------------------------------------------------------------------------------------


def by_hand(name, steps=3, size=16, decay=0.1):
    """The loop that everybody writes, on our batches, with torch's plain optimiser; matrices decay."""
    training = Training(small, "cross_entropy", optimizer=name, batch_size=size)
    start = training.init(as_data((X, Y)), np.random.default_rng(3))
    module = training.module(start).train()
    named = OPTIMIZERS[name]
    matrices = [w for w in module.parameters() if w.ndim > 1]
    others = [w for w in module.parameters() if w.ndim == 1]
    groups = [
        {"params": matrices, "weight_decay": decay},
        {"params": others, "weight_decay": 0.0},
    ]
    optimizer = named.cls(groups, lr=named.rate, **named.options)
    for epoch in range(steps):
        for batch in Rows(X, Y).batches(start.seed, epoch, size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(batch.parts[0]), batch.parts[1]).backward()
            optimizer.step()
    return arrays_of(module)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_is_the_loop_that_one_would_write(name):
    training = Training(
        small, "cross_entropy", optimizer=name, batch_size=16, weight_decay=0.1, measure="evaluated"
    )
    ours = fitted(training, steps=3)
    for key, array in by_hand(name).items():
        np.testing.assert_allclose(ours.state.model[key], array, rtol=1e-9, atol=1e-12)
    assert ours.trace.last() < ours.trace.objective[0]


@pytest.mark.parametrize("parts", [2, 3, 16])
def test_a_batch_in_parts_is_the_whole_batch(parts):
    whole, cut = (
        fitted(Training(small, "cross_entropy", batch_size=16, accumulate=m)).state
        for m in (1, parts)
    )
    for name, array in whole.model.items():
        np.testing.assert_allclose(cut.model[name], array, rtol=1e-9, atol=1e-11)
    assert cut.loss == pytest.approx(whole.loss, rel=1e-12)


def test_the_mean_of_a_batch_is_as_good_as_a_number_for_each_row():
    def mean(outputs, targets):
        return nn.functional.cross_entropy(outputs, targets)

    one, other = (
        fitted(Training(small, loss, batch_size=16, accumulate=3)).state.model
        for loss in ("cross_entropy", mean)
    )
    for name, array in one.items():
        np.testing.assert_allclose(other[name], array, rtol=1e-8, atol=1e-11)


def test_decay_shrinks_matrices_and_leaves_biases_and_normalisations_alone():
    def nothing(outputs, targets):
        return 0.0 * outputs.sum(1)

    net = nn.Sequential(nn.Linear(5, 4), nn.LayerNorm([4]), nn.Linear(4, 2)).double()
    nn.init.ones_(net[0].bias)
    training = Training(net, nothing, "adamw", learning_rate=0.1, weight_decay=0.5, batch_size=35)
    end = fitted(training, steps=3).state.model  # six updates
    before = arrays_of(net)
    for name, array in end.items():
        shrunk = (1 - 0.1 * 0.5) ** 6 if name in ("0.weight", "2.weight") else 1.0
        np.testing.assert_allclose(array, shrunk * before[name], rtol=1e-12)


def test_a_gradient_is_clipped_to_its_length():
    net = small().double()
    options = {"optimizer": "sgd", "learning_rate": 1.0, "batch_size": 70}
    for clip, moved in ((1e-3, 1e-3), (1e9, None)):
        end = fitted(Training(net, "cross_entropy", clip=clip, **options), steps=1).state.model
        steps = [end[name] - array for name, array in arrays_of(net).items()]
        length = np.sqrt(sum((step**2).sum() for step in steps))
        if moved:
            assert length == pytest.approx(moved, rel=1e-4)
        else:
            assert length > 1e-2


def test_the_running_mean_of_weights_is_its_formula():
    seen = []
    training = Training(small, "cross_entropy", batch_size=35, batches_per_step=1, ema=0.7)
    solution = fitted(training, steps=9, callbacks=[lambda s: seen.append(s.state)])
    start = training.init(as_data((X, Y)), np.random.default_rng(3))
    mean = dict(start.model)
    for t, state in enumerate(seen, start=1):
        decay = min(0.7, (1 + t) / (10 + t))
        mean = {k: decay * v + (1 - decay) * state.model[k] for k, v in mean.items()}
        for name, array in state.ema.items():
            np.testing.assert_allclose(array, mean[name], rtol=1e-10)
    for name, array in arrays_of(solution.attributes["module_"]).items():
        assert np.array_equal(array, seen[-1].ema[name])


def test_the_learning_rate_follows_its_schedule():
    def rates(**more):
        options = {"learning_rate": 0.1, "batch_size": 35, "epochs": 10, "batches_per_step": 1}
        training = Training(small, "cross_entropy", **options, **more)
        return fitted(training, steps=20).trace.extras["rate"][1:]

    t = np.arange(20)
    np.testing.assert_allclose(rates(schedule="cosine"), 0.05 * (1 + np.cos(np.pi * t / 20)))
    np.testing.assert_allclose(rates(schedule="step"), 0.1 * 0.1 ** ((t >= 10) + 1.0 * (t >= 15)))
    warm = rates(schedule="cosine", warmup=0.2)
    np.testing.assert_allclose(warm[:4], 0.1 * np.arange(1, 5) / 5)
    np.testing.assert_allclose(warm[4:], 0.05 * (1 + np.cos(np.pi * np.arange(16) / 16)))
    cycle = rates(schedule="one_cycle")
    assert cycle.argmax() == 6
    assert cycle[0] == pytest.approx(0.1 / 25)
    assert (np.diff(cycle[:7]) > 0).all()
    assert (np.diff(cycle[6:]) < 0).all()
    assert rates(schedule=lambda t: 1 / (1 + t))[3] == pytest.approx(1 / 4)


# --- the loss of a state ----------------------------------------------------------------------------------------------


def test_the_running_loss_is_the_mean_over_the_batches_of_the_step():
    losses = []

    def watched(outputs, targets):
        found = nn.functional.cross_entropy(outputs, targets, reduction="none")
        if outputs.requires_grad:
            losses.extend(found.tolist())
        return found

    end = fitted(Training(small, watched, batch_size=16), steps=1).state
    assert len(losses) == 70
    assert end.loss == pytest.approx(np.mean(losses), rel=1e-12)
    assert end.measured == "running"


def test_the_evaluated_loss_is_that_of_the_state():
    end = fitted(Training(noisy, "cross_entropy", batch_size=16, measure="evaluated"))
    with torch.no_grad():
        module = end.attributes["module_"]
        loss = nn.functional.cross_entropy(module(torch.from_numpy(X)), torch.from_numpy(Y))
    assert end.state.loss == pytest.approx(float(loss), rel=1e-12)


def test_validation_data_are_only_looked_at_and_the_best_state_is_kept():
    plain = fitted(Training(small, "cross_entropy", batch_size=16), (X[:50], Y[:50]), steps=6)
    training = Training(small, "cross_entropy", batch_size=16, score=lambda o, y: o.argmax(1) == y)
    watched = train(training, (X[:50], Y[:50]), epochs=6, rng=3, validation=(X[50:], Y[50:]))
    assert all(np.array_equal(watched.state.model[k], v) for k, v in plain.state.model.items())
    losses = watched.trace.extras["validation_loss"]
    assert watched.state.best_loss == losses.min()
    assert watched.state.since_best == 6 - losses.argmin()
    with torch.no_grad():
        outputs = watched.attributes["module_"](torch.from_numpy(X[50:]))
        best = nn.functional.cross_entropy(outputs, torch.from_numpy(Y[50:]))
        last = training.module(watched.state, weights="mean")(torch.from_numpy(X[50:]))
    assert float(best) == pytest.approx(losses.min(), rel=1e-12)
    right = (last.argmax(1).numpy() == Y[50:]).mean()
    assert watched.trace.last("validation_score") == pytest.approx(right)


# --- randomness and resuming ------------------------------------------------------------------------------------------

HARD = {
    "augment": jitter,
    "ema": 0.9,
    "clip": 1.0,
    "batch_size": 16,
    "schedule": "cosine",
    "epochs": 9,
    "accumulate": 2,
}


@pytest.mark.parametrize("batches", [None, 2, 3])
@pytest.mark.parametrize("optimizer", ["adamw", "nesterov", "radam"])
def test_a_run_stopped_between_batches_goes_on_as_if_it_had_not_been(tmp_path, batches, optimizer):
    def made():
        return Training(noisy, "cross_entropy", optimizer=optimizer, batches_per_step=batches, **HARD)  # fmt: skip

    whole = fitted(made(), steps=7)
    path = tmp_path / "run"
    for stop in (2, 3, 7):
        part = fitted(made(), steps=stop, callbacks=[Checkpoint(path)])
    assert same(part.state, whole.state)
    assert part.trace.objective.tobytes() == whole.trace.objective.tobytes()


SEEN = {
    "batches": 0,
    "at": 0,
    "pipe": 0,
}  # a checkpoint knows what a function holds, but not what it looks up


def watched(x, rng):
    """Count batches; at one of them, say so and wait to be killed."""
    SEEN["batches"] += 1
    if SEEN["batches"] == SEEN["at"]:
        os.write(SEEN["pipe"], b"x")
        threading.Event().wait()
    return jitter(x, rng)


@pytest.fixture
def one_thread():
    """A forked child has one thread, and torch's batch norm adds up in another order with two."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(usual)


def test_a_run_killed_in_the_middle_of_an_epoch_ends_in_the_same_bits(tmp_path, one_thread):
    def made():
        SEEN["batches"] = 0
        return Training(noisy, "cross_entropy", **{**HARD, "augment": watched})

    whole, path = fitted(made(), steps=8), tmp_path / "run"
    epoch = SEEN["batches"] // 8
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            SEEN.update(at=2 * epoch + epoch // 2, pipe=writer)
            fitted(made(), steps=8, callbacks=[Checkpoint(path, every=1)])
        finally:
            os._exit(0)
    os.close(writer)
    reached = os.read(reader, 1)  # nothing, if the child ended
    os.close(reader)
    os.kill(child, signal.SIGKILL)
    assert (reached, os.WIFSIGNALED(os.waitpid(child, 0)[1])) == (b"x", True)
    resumed = fitted(made(), steps=8, callbacks=[Checkpoint(path)])
    assert SEEN["batches"] == 6 * epoch  # the third epoch from its beginning, and those after it
    assert same(resumed.state, whole.state)


def test_the_driver_may_step_from_any_state_again():
    training = Training(noisy, "cross_entropy", **HARD)
    data = as_data((X, Y))
    first = training.init(data, np.random.default_rng(0))
    second = training.step(first, data)
    third = training.step(second, data)
    assert same(training.step(first, data), second)
    assert same(training.step(second, data), third)
    assert same(Training(noisy, "cross_entropy", **HARD).step(second, data), third)


def test_nobody_elses_random_numbers_are_touched():
    torch.manual_seed(11)
    np.random.seed(11)  # noqa: NPY002
    before = torch.get_rng_state().clone(), np.random.get_state()[1].tobytes()  # noqa: NPY002
    first = fitted(Training(noisy, "cross_entropy", **HARD), steps=2)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tobytes() == before[1]  # noqa: NPY002
    torch.rand(5)
    assert same(fitted(Training(noisy, "cross_entropy", **HARD), steps=2).state, first.state)
    before = torch.get_rng_state().clone()
    with pytest.raises(StepFailed):  # a step that fails restores them, too
        fitted(Training(noisy, "cross_entropy", **{**HARD, "learning_rate": 1e200}), steps=3)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_network_that_was_given_is_not_changed():
    net = noisy().double()
    before = copy.deepcopy(net.state_dict())
    fitted(Training(net, "cross_entropy", **HARD))
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


def test_a_loader_is_shuffled_by_the_seed_and_resumed_within_an_epoch(tmp_path):
    class Noisy(torch.utils.data.Dataset):
        """A data set that draws, as those with transformations do."""

        def __len__(self):
            return len(X)

        def __getitem__(self, i):
            return torch.from_numpy(X[i]) + 0.01 * torch.randn(5, dtype=torch.float64), int(Y[i])

    def data():
        return torch.utils.data.DataLoader(Noisy(), batch_size=16, shuffle=True)

    def made():
        return Training(noisy, "cross_entropy", batches_per_step=3)

    whole = fitted(made(), data(), steps=5)
    for stop in (1, 2, 5):
        part = fitted(made(), data(), steps=stop, callbacks=[Checkpoint(tmp_path / "run")])
    assert same(part.state, whole.state)
    orders = [
        torch.cat([b.parts[1] for b in as_data(data()).batches(1, epoch, 16)]) for epoch in (0, 1)
    ]
    assert not torch.equal(*orders)


# --- objectives -------------------------------------------------------------------------------------------------------


def test_an_objective_sees_the_network_the_batch_and_a_generator():
    """A denoiser: data without targets, noise drawn for each batch; the same seed gives the same noise."""
    drawn = []

    @objective
    def denoising(net, batch, rng):
        (x,) = batch
        noise = torch.randn(x.shape, generator=rng, dtype=x.dtype)
        if net.training:
            drawn.append(noise)
        return (net(x + noise) - noise).square().mean(1)

    def net():
        return nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 5))

    ends = [
        fitted(Training(net, denoising, batch_size=35, learning_rate=0.01), X, steps=30)
        for _ in range(2)
    ]
    assert same(ends[0].state, ends[1].state)
    assert len({noise.numpy().tobytes() for noise in drawn}) == 60
    assert ends[0].trace.last() < 0.8 * ends[0].trace.objective[0]  # less than predicting nothing


def test_states_show_the_running_mean_where_there_is_one():
    end = fitted(Training(noisy, "cross_entropy", ema=0.9, batch_size=16)).state
    weights = weights_to_use(end)
    assert np.array_equal(weights["0.weight"], end.ema["0.weight"])
    assert np.array_equal(weights["1.running_mean"], end.ema["1.running_mean"])
    assert not np.array_equal(weights["1.running_mean"], end.model["1.running_mean"])
