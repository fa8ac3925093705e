"""What training says when something does not fit, and what it chooses and writes down."""

import platform

import numpy as np
import pytest
import torch
from torch import nn

from lemmata.core import Checkpoint, MaxSteps, StepFailed, run
from lemmata.nets import CrossEntropy, Huber, Rows, Training, objective, train
from lemmata.nets.data.batches import as_data
from lemmata.nets.training import devices
from lemmata.nets.training.losses import LOSSES, as_objective

RNG = np.random.default_rng(1)
X = RNG.normal(size=(64, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 64)
IMAGES = RNG.random((40, 1, 8, 8)).astype(np.float32)


def made(*args, **options):
    return Training(*args, **{"batch_size": 32, **options})


def net(outputs=3):
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, outputs))


def convolutions():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3),
        nn.Flatten(),
        nn.Linear(144, 2),
    )


def fitted(training, data, steps=2, **more):
    return run(training, as_data(data), stop=MaxSteps(steps), rng=0, **more)


# --- losses -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_losses_give_one_number_per_row_and_their_mean_is_torchs(name):
    torch.manual_seed(0)
    outputs = torch.randn(6, 3, dtype=torch.float64)
    targets = torch.randint(0, 3, (6,)) if name == "cross_entropy" else torch.rand(6, 3).double()
    theirs = {
        "cross_entropy": nn.functional.cross_entropy,
        "bce": nn.functional.binary_cross_entropy_with_logits,
        "mse": nn.functional.mse_loss,
        "l1": nn.functional.l1_loss,
        "huber": nn.functional.huber_loss,
    }[name]
    found = as_objective(name).loss(outputs, targets)
    assert found.shape == (6,)
    assert float(found.mean()) == pytest.approx(float(theirs(outputs, targets)), rel=1e-12)


def test_smoothed_labels_mix_every_class_in():
    outputs, targets = torch.randn(5, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 0])
    p = torch.full((5, 4), 0.2 / 4, dtype=torch.float64)
    p[torch.arange(5), targets] += 0.8
    expected = -(p * outputs.log_softmax(1)).sum(1)
    torch.testing.assert_close(CrossEntropy(0.2)(outputs, targets), expected)


def test_cross_entropy_of_texts_and_of_images():
    """Classes last or second; labels of −100 are not counted."""
    scores, labels = torch.randn(2, 5, 7), torch.randint(0, 7, (2, 5))
    labels[1, 2:] = -100
    one = torch.stack([nn.functional.cross_entropy(s, y) for s, y in zip(scores, labels)])  # noqa: B905
    for given in (scores, scores.movedim(-1, 1)):
        found = CrossEntropy()(given, labels)
        assert found.counts.tolist() == [5, 2]
        torch.testing.assert_close(found.losses / found.counts, one)
        torch.testing.assert_close(found.mean(), (5 * one[0] + 2 * one[1]) / 7)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("training", "data", "message"),
    [
        (lambda: made(net, "cross_entropy", batch_size=99), (X, Y), r"batch_size=99 exceeds the 64 rows"),
        (lambda: made(net, "cross_entropy"), (X, Y + 1), r"labels from 1 to 3 are out of range.*3 outputs"),
        (lambda: made(net, "cross_entropy"), (X, Y - 1), r"labels from -1 to 1 are out of range"),
        (lambda: made(net, "cross_entropy"), (X, X), r"whole numbers|number for each class"),
        (lambda: made(net, "mse"), (X, X[:, 0]), r"\(32, 3\).*Give it 1 output"),
        (lambda: made(net, "bce"), (X, 3 * X[:, :3]), "from 0 to 1"),
        (lambda: made(net, "hinge"), (X, Y), "loss='hinge' is not known"),
        (lambda: made(net, 3), (X, Y), "loss is a int"),
        (lambda: made(net, "mse"), X, "needs two: inputs and targets"),
        (lambda: made(net, "mse", optimizer="adan"), (X, X[:, :3]), "optimizer='adan'"),
        (lambda: made(net, "mse", optimizer_options={"beta": 1}), (X, X[:, :3]), "optimizer_options"),
        (lambda: made(net, "mse", schedule="cosine"), (X, X[:, :3]), "pass epochs"),
        (lambda: made(net, "mse", schedule="linear"), (X, X[:, :3]), "schedule='linear'"),
        (lambda: made(net, "mse", precision="half"), (X, X[:, :3]), "precision='half'"),
        (lambda: made(net, "mse", device="tpu9"), (X, X[:, :3]), "device='tpu9'"),
        (lambda: made(lambda: 3, "mse"), (X, X[:, :3]), r"net\(\) gives a int"),
        (lambda: made(nn.Flatten(), "mse"), (X, X), "no weight to train"),
        (lambda: made(net, "cross_entropy"), (IMAGES, Y[:40]), r"shapes \(32, 1, 8, 8\)"),
        (lambda: made(convolutions, "cross_entropy"), (IMAGES.transpose(0, 2, 3, 1), Y[:40]), "images are"),
        (lambda: made(net, lambda o, y: o), (X, Y), r"shape \(32, 3\)"),
        (lambda: made(net, "mse", ema=1.5), (X, Y), "ema=1.5"),
        (lambda: made(net, "mse", learning_rate=-1), (X, Y), "learning_rate=-1"),
        (lambda: made(net, "cross_entropy"), (X, Y[:5]), "5, 64 rows"),
        (lambda: made(net, "cross_entropy"), lambda: Rows(X, Y, weights=-np.ones(64)), ">= 0"),
        (lambda: made(net, "cross_entropy"), {"x": X}, "data is a dict"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(training, data, message):
    with pytest.raises((ValueError, TypeError), match=message):
        attempt(training, data)


def attempt(training, data):
    data = data() if callable(data) else data
    fitted(training(), data)


def test_weights_need_a_loss_for_each_row():
    training = Training(net, lambda o, y: nn.functional.cross_entropy(o, y), batch_size=64)
    with pytest.raises((ValueError, StepFailed), match="one number per row"):
        fitted(training, Rows(X, Y, weights=np.ones(64)))


class Root(nn.Module):
    def forward(self, x):
        return torch.sqrt(x)


def test_a_loss_that_is_not_finite_names_the_first_layer():
    broken = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), Root(), nn.Linear(6, 3))
    with pytest.raises(FloatingPointError, match=r"the first layer to give one is '2' \(Root\)"):
        fitted(Training(broken, "cross_entropy", batch_size=64), (X, Y))


def test_inputs_weights_and_losses_that_are_not_finite_are_told_apart():
    holes = X.copy()
    holes[3, 1] = np.nan
    with pytest.raises((StepFailed, FloatingPointError), match="the inputs of this batch"):
        fitted(Training(net, "cross_entropy", batch_size=64), (holes, Y))
    with pytest.raises(
        StepFailed, match=r"(weights '.*' are not finite|first layer).*learning_rate"
    ):
        fitted(
            Training(net, "mse", optimizer="sgd", learning_rate=1e30, batch_size=8),
            (X, X[:, :3]),
            steps=9,
        )
    with pytest.raises(FloatingPointError, match="it is the loss itself"):
        fitted(Training(net, lambda o, y: o.sum(1) * torch.inf, batch_size=64), (X, Y))


def test_a_failed_step_leaves_the_last_state_and_the_next_run_alone():
    calls = []

    @objective
    def sometimes(net, batch, rng):
        calls.append(1)
        if len(calls) == 7:
            raise ZeroDivisionError("once")
        return nn.functional.cross_entropy(net(batch[0]), batch[1], reduction="none")

    training = Training(net, sometimes, batch_size=16)
    with pytest.raises(StepFailed, match="once") as caught:
        fitted(training, (X, Y), steps=5)
    state, data = caught.value.solution.state, as_data((X, Y))
    again = training.step(state, data)
    fresh = Training(net, sometimes, batch_size=16).step(state, data)
    assert all(np.array_equal(again.model[name], array) for name, array in fresh.model.items())


def test_a_checkpoint_of_another_network_or_training_is_refused(tmp_path):
    path = tmp_path / "run"
    fitted(Training(net, "cross_entropy", batch_size=16), (X, Y), callbacks=[Checkpoint(path)])
    wider = Training(lambda: net(5), "cross_entropy", batch_size=16)
    with pytest.raises(ValueError, match="belongs to another network"):
        fitted(wider, (X, Y), callbacks=[Checkpoint(path)])
    bent = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    other = Training(bent, "cross_entropy", batch_size=16)
    with pytest.raises(ValueError, match="belongs to another network"):
        fitted(other, (X, Y), callbacks=[Checkpoint(path)])
    smoothed = Training(net, CrossEntropy(0.1), batch_size=16)
    with pytest.raises(ValueError, match="belongs to another algorithm"):
        fitted(smoothed, (X, Y), callbacks=[Checkpoint(path)])
    with pytest.raises(ValueError, match="belongs to another data"):
        fitted(Training(net, "cross_entropy", batch_size=16), (X + 1, Y), callbacks=[Checkpoint(path)])  # fmt: skip


def test_nothing_that_says_when_to_stop_is_refused():
    with pytest.raises(ValueError, match="epochs, seconds or stop"):
        train(Training(net, "cross_entropy"), (X, Y))


# --- precision and layout ---------------------------------------------------------------------------------------------


def test_the_precision_is_that_of_the_data_and_is_written_down():
    for dtype, name in ((np.float32, "float32"), (np.float64, "float64")):
        end = fitted(Training(net, "cross_entropy", batch_size=16), (X.astype(dtype), Y)).state
        assert end.precision == name
        assert end.model["0.weight"].dtype == dtype
        assert all(kept["exp_avg"].dtype == dtype for kept in end.memory.values())


def test_bfloat16_multiplies_in_it_and_keeps_weights_in_float32(monkeypatch):
    monkeypatch.setattr(devices, "has_bfloat16_units", lambda device: True)
    seen = []

    class Watching(nn.Module):
        def forward(self, x):
            seen.append(x.dtype)
            return x

    def watched():
        return nn.Sequential(nn.Linear(4, 6), Watching(), nn.ReLU(), nn.Linear(6, 3))

    wide, narrow = (
        fitted(Training(watched, "cross_entropy", batch_size=16, precision=p), (X, Y)).state
        for p in ("float32", "bfloat16")
    )
    assert torch.bfloat16 in seen
    assert narrow.precision == "bfloat16"
    for name, array in narrow.model.items():
        assert array.dtype == np.float32
        np.testing.assert_allclose(array, wide.model[name], atol=0.02)


@pytest.mark.parametrize(("make", "data"), [(net, (X, Y)), (convolutions, (IMAGES, Y[:40] % 2))])
def test_bfloat16_units_change_no_bit_of_a_network_that_does_not_ask_for_them(
    monkeypatch, make, data
):
    ends = []
    for units in (False, True):
        monkeypatch.setattr(devices, "has_bfloat16_units", lambda device, units=units: units)
        ends.append(fitted(Training(make, "cross_entropy", batch_size=8), data).state)
    assert ends[0].precision == ends[1].precision == "float32"
    assert ends[0].memory_format == ends[1].memory_format
    assert all(np.array_equal(ends[0].model[k], v) for k, v in ends[1].model.items())


def test_bfloat16_that_is_emulated_is_said(monkeypatch):
    rows = torch.from_numpy(X)
    monkeypatch.setattr(devices, "has_bfloat16_units", lambda device: False)
    with pytest.warns(UserWarning, match="'bfloat16' is emulated here"):
        place = devices.choose(net(), rows, device="cpu", precision="bfloat16")
    assert place == ("cpu", "bfloat16", "contiguous")


def test_the_layout_follows_from_the_layers_and_is_kept_by_a_resumed_run(monkeypatch, tmp_path):
    data = (IMAGES, Y[:40] % 2)
    options = {"loss": "cross_entropy", "batch_size": 8}
    assert fitted(Training(convolutions, **options), data).state.memory_format == "channels_last"
    assert fitted(made(net, "cross_entropy"), (X, Y)).state.memory_format == "contiguous"
    # begun in a place that the rule would not choose, as versions did that measured
    other = devices.Place("cpu", "float64", "contiguous")
    monkeypatch.setattr(devices, "choose", lambda module, rows, **wanted: other)
    checkpoint = {"callbacks": [Checkpoint(tmp_path / "a")]}
    fitted(Training(convolutions, **options), data, **checkpoint)
    monkeypatch.undo()
    resumed = fitted(Training(convolutions, **options), data, steps=4, **checkpoint).state
    assert (resumed.precision, resumed.memory_format) == ("float64", "contiguous")
    named = {**options, "precision": "float64", "layout": "contiguous"}
    whole = fitted(Training(convolutions, **named), data, steps=4).state
    assert all(np.array_equal(resumed.model[k], v) for k, v in whole.model.items())


def test_layouts_differ_by_rounding():
    labels = Y[:40] % 2
    ends = {
        layout: fitted(Training(convolutions, "cross_entropy", batch_size=8, layout=layout), (IMAGES, labels)).state
        for layout in ("contiguous", "channels_last")
    }  # fmt: skip
    for name, array in ends["contiguous"].model.items():
        np.testing.assert_allclose(ends["channels_last"].model[name], array, rtol=2e-3, atol=2e-5)


class Viewed(nn.Module):
    """As many tutorials write it: view needs the numbers of an image in their order."""

    def __init__(self):
        super().__init__()
        self.conv, self.linear = nn.Conv2d(1, 4, 3), nn.Linear(144, 2)

    def forward(self, x):
        return self.linear(self.conv(x).view(len(x), -1))


def test_a_network_that_cannot_have_channels_last_gets_what_it_can_have():
    data = (IMAGES, Y[:40] % 2)
    assert fitted(made(Viewed, "cross_entropy"), data).state.memory_format == "contiguous"
    with pytest.raises(ValueError, match="view size"):
        fitted(made(Viewed, "cross_entropy", layout="channels_last"), data)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_memory_that_a_batch_frees_serves_the_next_one():
    resource = pytest.importorskip("resource")

    def pages() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for part in [np.ones(2**20) for _ in range(8)]:  # 64 MiB
            assert part[-1] == 1
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    with devices.reused_memory():
        pages()
        assert pages() < 1000  # of 16,384


def test_huber_is_quadratic_near_and_a_line_far():
    residuals = torch.tensor([[0.5], [3.0]], dtype=torch.float64)
    found = Huber(1.0)(residuals, torch.zeros(2, 1))
    assert found.tolist() == [0.125, 2.5]


def test_validation_data_that_do_not_fit_are_refused_at_the_start():
    with pytest.raises(ValueError, match=r"does not take the validation data.*shapes"):
        train(made(net, "cross_entropy"), (X, Y), epochs=1, validation=(X[:, :1], Y))
