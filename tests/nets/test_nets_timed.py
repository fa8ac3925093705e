"""Networks that know the time: waves, adaptive normalisation, and the perceptron with its linear path."""

import pytest
import torch

from lemmata.nets import AdaptiveGroupNorm, TimeAndClass, TimedMLP, UNet


def test_adaptive_normalisation_is_its_formula():
    torch.manual_seed(0)
    layer = AdaptiveGroupNorm(6, 5).double()
    torch.nn.init.normal_(layer.tell.weight)
    h, e = torch.randn(3, 6, 4, 2).double(), torch.randn(3, 5).double()
    scale, shift = (e @ layer.tell.weight.T).split(6, dim=1)
    parts = h.reshape(3, 2, -1)
    normal = (parts - parts.mean(2, keepdim=True)) / (parts.var(2, unbiased=False, keepdim=True) + 1e-5).sqrt()  # fmt: skip
    expected = normal.reshape(h.shape) * (1 + scale)[:, :, None, None] + shift[:, :, None, None]
    torch.testing.assert_close(layer(h, e), expected)


@pytest.mark.parametrize("time", ["sinusoidal", "fourier"])
def test_times_are_told_apart_and_scaled(time):
    torch.manual_seed(0)
    steps, shares = TimeAndClass(8, 4, None, time), TimeAndClass(8, 4, None, time, 1000.0)
    shares.load_state_dict(steps.state_dict())
    x, t = torch.zeros(3, 2), torch.tensor([0.0, 0.3, 0.301])
    torch.testing.assert_close(shares(x, t, None), steps(x, 1000 * t, None))
    assert torch.unique(shares(x, t, None), dim=0).shape[0] == 3


def test_the_linear_path_is_linear_in_the_rows_and_not_in_the_time():
    """With the other path off, f(ax + by, t) = a f(x, t) + b f(y, t) but for the bias of the first layer."""
    torch.manual_seed(0)
    net = TimedMLP((3,), width=8, n_blocks=1).double()
    torch.nn.init.normal_(net.linear.weight)
    torch.nn.init.zeros_(net.first.bias)
    x, y = torch.randn(2, 5, 3).double()
    torch.testing.assert_close(net(2 * x - 3 * y, 40), 2 * net(x, 40) - 3 * net(y, 40))
    assert not torch.allclose(net(x, 40), net(x, 400))


def test_a_u_net_takes_random_waves_and_adaptive_normalisation():
    torch.manual_seed(0)
    net = UNet((1, 8, 8), width=8, n_classes=2, time="fourier", adaptive=True)
    again = UNet(**net.config)
    again.load_state_dict(net.state_dict())
    torch.nn.init.normal_(net.last.weight)
    net(
        torch.randn(2, 1, 8, 8), 5
    ).sum().backward()  # scales and shifts learn from the first step on
    assert net.middle1.norm2.tell.weight.grad.abs().max() > 0


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="time='clock'; pass 'sinusoidal' or 'fourier'"):
        TimedMLP((3,), time="clock")
    with pytest.raises(ValueError, match="knows no classes"):
        TimedMLP((3,), width=8)(torch.zeros(2, 3), 1, torch.tensor([0, 1]))
