"""certify(module, X): gradients, signals, dead units, shared weights, batch norms; what cannot be examined; bad input."""

import math
import random
import re
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import lemmata  # noqa: E402
from lemmata.audit.nets.gradients import gradients_true, slope_of  # noqa: E402
from lemmata.audit.nets.modules import Examples, difference  # noqa: E402
from lemmata.audit.nets.sharing import scale_invariant  # noqa: E402
from lemmata.audit.nets.signal import signal_kept, units_alive  # noqa: E402
from lemmata.core import Fit  # noqa: E402


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


ROWS = torch.randn(20, 6, generator=torch.Generator().manual_seed(1))


class Function(nn.Module):
    """A module from a function of (self, x) and parts."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


class Square(torch.autograd.Function):
    """x² whose derivative is said to be c·x."""

    @staticmethod
    def forward(ctx, x, c):
        ctx.save_for_backward(x)
        ctx.c = c
        return x * x

    @staticmethod
    def backward(ctx, g):
        return ctx.c * ctx.saved_tensors[0] * g, None


def judged(claim, net, X):
    """One claim alone."""
    return claim(Fit(SimpleNamespace(), Examples((X,)), attributes={"module_": net}))


def small(activation=nn.ReLU, dtype=torch.float32):
    return nn.Sequential(nn.Linear(6, 10), activation(), nn.Linear(10, 3)).to(dtype)


# --- slopes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (lambda t: math.exp(t), 1.0),
        (lambda t: math.sin(300 * t), 300.0),
        (lambda t: max(t - 1e-4, 0.0) + 2 * t, 2.0),  # a kink beside the point: steps get past it
        (lambda t: 7.0, 0.0),
    ],
)
def test_a_slope_is_found_to_seven_digits(f, slope):
    found = slope_of(f, 1e-6 * max(abs(slope), 1e-3))
    assert found.smooth
    assert found.value == pytest.approx(slope, rel=1e-7, abs=1e-10)
    assert abs(found.value - slope) <= 10 * found.error


@pytest.mark.parametrize("f", [abs, lambda t: max(t, 0.0) + math.exp(t)])
def test_a_kink_at_the_point_is_not_smooth(f):
    assert not slope_of(f, 1e-6).smooth


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_autograd_is_right_and_a_wrong_backward_is_proved_wrong(dtype):
    good = judged(gradients_true, small(dtype=dtype), ROWS)
    assert (good.verdict, good.kind) == ("holds", "statistical")
    assert "in 5 tensors" in good.note
    for c, verdict in ((2.0, "holds"), (1.0, "fails"), (2.0001, "fails")):
        net = Function(lambda s, x, c=c: Square.apply(s.a(x), c), a=nn.Linear(6, 4)).to(dtype)
        found = judged(gradients_true, net, ROWS)
        assert found.verdict == verdict
    assert found.kind == "proved"
    assert "a.weight" in found.advice or "a.bias" in found.advice or "the input" in found.advice


def test_the_loss_that_is_given_is_the_one_whose_gradient_is_checked():
    y = np.arange(20) % 3
    assert lemmata.certify(small(), ROWS, y, loss="cross_entropy")["gradients_true"].verdict == "holds"  # fmt: skip

    def sly(outputs, y):
        return Square.apply(outputs, 1.0).mean()

    assert lemmata.certify(small(), ROWS, y, loss=sly)["gradients_true"].verdict == "fails"


def test_hooks_on_parameters_survive_the_copy():
    net = small()
    net[2].weight.register_hook(lambda g: 2 * g)
    assert judged(gradients_true, net, ROWS).verdict == "fails"


def test_nothing_happens_to_the_module_or_to_the_generator():
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 2)).train()  # fmt: skip
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    state, X = torch.get_rng_state(), ROWS.clone()
    lemmata.certify(net, X)
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(X, ROWS)
    assert net.training
    assert net[0].weight.grad is None
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize(
    ("label", "net", "why"),
    [
        ("python's noise", lambda: Function(lambda s, x: s.a(x) + random.random(), a=nn.Linear(6, 2)), "two calls"),
        ("counts calls", lambda: Function(_count, a=nn.Linear(6, 2)), "two calls"),
        ("float32 only", lambda: Function(lambda s, x: s.a(x.float()), a=nn.Linear(6, 2)), "float64"),
        ("rounds", lambda: Function(lambda s, x: s.a(x).half().to(x.dtype), a=nn.Linear(6, 2)), "fewer digits"),
        ("complex", lambda: Function(_complex, w=nn.Parameter(torch.ones(6, dtype=torch.complex64))), "complex"),
    ],
)  # fmt: skip
def test_what_cannot_be_examined_is_said_and_not_called_true(label, net, why):
    found = judged(gradients_true, net(), ROWS)
    assert found.verdict == "can't tell", label
    assert why in found.note


def _count(self, x):
    self.calls = getattr(self, "calls", 0) + 1
    return self.a(x) * self.calls


def _complex(self, x):
    return (x * self.w).abs()


def test_modules_that_return_several_things_change_their_input_or_count_in_buffers_are_examined():
    counter = Function(lambda s, x: s.a(x) * s.n.add_(1), a=nn.Linear(6, 2))
    counter.register_buffer("n", torch.zeros(()))
    for net in (
        counter,
        Function(lambda s, x: {"y": s.a(x), "none": None}, a=nn.Linear(6, 2)),
        Function(lambda s, x: s.a(x.add_(1)).relu_(), a=nn.Linear(6, 2)),
    ):
        assert judged(gradients_true, net, ROWS).verdict == "holds"


# --- signals, units, weights ------------------------------------------------------------------------------------------


def test_signals_keep_their_size_or_vanish():
    def deep(gain):
        layers = [part for _ in range(8) for part in (nn.Linear(32, 32), nn.ReLU())]
        for layer in layers[::2]:
            nn.init.normal_(layer.weight, std=gain * (2 / 32) ** 0.5)
        return nn.Sequential(*layers, nn.Linear(32, 2))

    X = torch.randn(50, 32)
    assert judged(signal_kept, deep(1.0), X).verdict == "holds"
    found = judged(signal_kept, deep(0.2), X)
    assert (found.verdict, found.kind) == ("fails", "rule of thumb")


def test_dead_units_are_counted():
    net = small()
    with torch.no_grad():
        net[0].weight.zero_()
        net[0].bias.copy_(torch.tensor([1.0] * 4 + [-1.0] * 6))
    found = judged(units_alive, net, ROWS)
    assert (found.verdict, found.kind, found.measured) == ("fails", "proved", pytest.approx(0.6))
    assert found.note == "6 of 10 units, 1 ReLU, 20 rows"
    with torch.no_grad():
        net[0].bias[:6] = 1.0
    assert judged(units_alive, net, ROWS).measured == pytest.approx(0.4)


def test_gradients_of_shared_weights_are_sums_and_hooks_that_divide_are_found():
    net = Function(lambda s, x: torch.tanh(x @ s.w) @ s.w.T, w=nn.Parameter(torch.randn(6, 6)))
    assert lemmata.certify(net, ROWS)["shared_gradients_add"].verdict == "holds"
    net.w.register_hook(lambda g: g / 2)
    assert lemmata.certify(net, ROWS)["shared_gradients_add"].verdict == "fails"
    assert "shared_gradients_add" not in [one.name for one in lemmata.certify(small(), ROWS)]


def test_batch_norm_is_scale_free_unless_epsilon_is_all_there_is():
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    with torch.no_grad():
        net[0].weight.mul_(10)
    assert judged(scale_invariant, net, ROWS).verdict == "holds"
    with torch.no_grad():
        net[0].weight.mul_(1e-4)
    assert judged(scale_invariant, net, ROWS).verdict == "fails"


def test_tensors_that_are_not_finite_are_named_and_a_mask_is_none():
    net = small()
    net.register_buffer("mask", torch.tensor([0.0, -math.inf]))
    assert lemmata.certify(net, ROWS)["attributes_sound"].verdict == "holds"
    with torch.no_grad():
        net[0].bias[3] = math.nan
    found = lemmata.certify(net, ROWS)
    assert found.failed == ["attributes_sound"]
    assert "0.bias" in found["attributes_sound"].note


# --- the door ---------------------------------------------------------------------------------------------------------


LABELS = np.arange(20)
BAD = {
    "does not take this X, of shapes (20, 5)": lambda: lemmata.certify(small(), ROWS[:, :5]),
    "a tuple is passed as module(*X)": lambda: lemmata.certify(nn.Bilinear(6, 2, 3), ROWS),
    "a loss needs y": lambda: lemmata.certify(small(), ROWS, loss="mse"),
    "'squarred' is not known; there are cross_entropy": lambda: lemmata.certify(
        small(), ROWS, LABELS, loss="squarred"
    ),
    "from 0 to 2, the outputs": lambda: lemmata.certify(
        small(), ROWS, LABELS, loss="cross_entropy"
    ),
    "the loss does not fit outputs of shape (2, 3)": lambda: lemmata.certify(
        small(), ROWS, np.zeros((20, 5)), loss="mse"
    ),
    "y has shape (7,) for 20 rows": lambda: lemmata.certify(small(), ROWS, LABELS[:7]),
    "holds no rows": lambda: lemmata.certify(small(), ROWS[:0]),
    "not finite": lambda: lemmata.certify(small(), ROWS * math.nan),
    "'casual'; there are causal": lambda: lemmata.certify(small(), ROWS, properties="casual"),
    "pass argument=, axis=, mask=, order=, window=, step=": lambda: lemmata.certify(
        small(), ROWS, properties={"causal": {"axes": 1}}
    ),
    "call it once": lambda: lemmata.certify(nn.LazyLinear(3), ROWS),
    "take no sample_weight": lambda: lemmata.certify(small(), ROWS, sample_weight=LABELS),
    "X_test and y_test together": lambda: lemmata.certify(small(), ROWS, X_test=ROWS),
    "needs the y of X": lambda: lemmata.certify(small(), ROWS, X_test=ROWS, y_test=LABELS),
    "without a tensor of real numbers": lambda: lemmata.certify(
        Function(lambda s, x: "words", a=nn.Linear(1, 1)), ROWS
    ),
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_answered_in_words(words):
    with pytest.raises(ValueError, match=re.escape(words)):
        BAD[words]()


def test_a_model_that_is_no_network_takes_no_properties():
    model = lemmata.PCA(2).fit(ROWS.numpy())
    with pytest.raises(ValueError, match=r"torch\.nn\.Module"):
        lemmata.certify(model, ROWS.numpy(), properties="causal")
    with pytest.raises(ValueError, match="take no X_test"):
        lemmata.certify(model, ROWS.numpy(), X_test=ROWS.numpy())


def test_inputs_are_cut_by_rows_and_square_masks_are_not():
    masks = {"mask": torch.zeros(4, 4), "key_padding_mask": torch.zeros(4, 4)}
    X = Examples((), {"x": torch.zeros(4, 4, 2), **masks, "causal": True})
    two = X.rows(torch.arange(2))
    assert two["x"].shape == (2, 4, 2)
    assert two["mask"].shape == (4, 4)
    assert two["key_padding_mask"].shape == (2, 4)
    assert two["causal"] is True
    assert X.shape == (4, 8)


def test_differences_count_what_became_infinite():
    a = torch.tensor([1.0, 2.0])
    assert difference(a, a.clone()) == 0
    assert difference(a, torch.tensor([1.0, 3.0])) == pytest.approx(0.5)
    assert difference(a, torch.tensor([1.0, math.nan])) == math.inf
    assert difference(torch.tensor([math.nan]), torch.tensor([math.nan])) == 0


def test_the_second_mode_is_checked_where_it_differs_and_rows_are_counted():
    """Without dropout the modes are one function, checked once; with it each takes its own directions."""
    plain = judged(gradients_true, small(), ROWS)
    noisy = judged(gradients_true, nn.Sequential(small(), nn.Dropout(0.3)), ROWS)
    assert plain.verdict == noisy.verdict == "holds"
    count = [int(found.note.split()[0]) for found in (plain, noisy)]
    assert count[1] == 2 * count[0]
    assert f"{len(ROWS)} rows, evaluation and training mode" in plain.note
