"""Batch and layer normalisation: equal to torch's in numbers, gradients and running statistics; what they do not change."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from lemmata.nets import BatchNorm, LayerNorm

THEIRS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}
SHAPES = [(6, 3), (5, 3, 7), (4, 3, 5, 2)]


def draw(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).normal(2, 3, shape))


def both(shape, seed=0, **options):
    """Ours and torch's with the same γ and β."""
    ours = BatchNorm(shape[1], **options).double()
    theirs = THEIRS[len(shape)](shape[1], **options).double()
    if ours.weight is not None:
        with torch.no_grad():
            ours.weight.copy_(draw(seed, shape[1]))
            ours.bias.copy_(draw(seed + 1, shape[1]))
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("momentum", [0.1, None, 1.0])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_is_torchs_in_training_and_at_inference(shape, momentum, affine):
    ours, theirs = both(shape, momentum=momentum, affine=affine)
    for step in range(3):
        z = draw(step, *shape)
        a, b = (z.clone().requires_grad_() for _ in range(2))
        x, y = ours(a), theirs(b)
        assert_close(x, y)
        slope = draw(9, *shape)
        (x * slope).sum().backward()
        (y * slope).sum().backward()
        assert_close(a.grad, b.grad)
        assert_close(ours.state_dict(), theirs.state_dict())
    if affine:
        assert_close(ours.weight.grad, theirs.weight.grad)
    z = draw(7, *shape)
    assert_close(ours.eval()(z), theirs.eval()(z))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_training_batch_has_mean_0_and_variance_1_in_every_channel(shape):
    z = BatchNorm(3, eps=0, affine=False).double()(draw(0, *shape))
    over = (0, *range(2, z.ndim))
    assert_close(z.mean(over), torch.zeros(3, dtype=torch.float64))
    assert_close(z.var(over, unbiased=False), torch.ones(3, dtype=torch.float64))


@given(st.integers(0, 999), st.floats(-6, 6), st.floats(-100, 100))
@settings(max_examples=40)
def test_scales_and_shifts_of_a_channel_change_nothing(seed, power, shift):
    z = draw(seed, 8, 3, 4)
    norm = BatchNorm(3, eps=0).double()
    a = torch.tensor([10.0**power, 1, 2], dtype=torch.float64).view(1, 3, 1)
    # a·z + b keeps 16 − log10(|b|/a) digits of z
    assert_close(norm(a * z + shift), norm(z), atol=1e-13 * (1 + 300 * 10**-power), rtol=0)


def test_the_length_of_weights_before_it_does_not_matter_and_their_gradient_is_orthogonal_to_them():
    torch.manual_seed(0)
    linear, norm = nn.Linear(5, 4, bias=False).double(), BatchNorm(4, eps=0).double()
    x, target = draw(0, 16, 5), draw(1, 16, 4)
    W = linear.weight
    loss = ((norm(linear(x)) - target) ** 2).sum()
    (slope,) = torch.autograd.grad(loss, W)
    assert_close((slope * W).sum(1), torch.zeros(4, dtype=torch.float64), atol=1e-10, rtol=0)
    with torch.no_grad():
        W *= 3
    longer = ((norm(linear(x)) - target) ** 2).sum()
    assert_close(longer, loss)
    assert_close(torch.autograd.grad(longer, W)[0], slope / 3)  # so the same step turns them less


def test_running_statistics_tend_to_those_of_the_distribution():
    norm = BatchNorm(2, momentum=None).double()
    rng = np.random.default_rng(0)
    for _ in range(200):
        norm(torch.from_numpy(rng.normal([1, -2], [3, 0.5], (4, 2))))
    # 800 rows: σ/√n = 0.11, and the variance of 9 has a standard deviation of 9·√(2/600)
    assert abs(norm.running_mean[0] - 1) < 4 * 3 / np.sqrt(800)
    assert abs(norm.running_var[0] - 9) < 4 * 9 * np.sqrt(2 / 600)
    # with σ² divided by N instead of N − 1 it would tend to 9·3/4
    assert norm.running_var[0] > 9 * 0.85


def test_at_inference_an_example_does_not_depend_on_the_others():
    norm = BatchNorm(3).double()
    norm(draw(0, 8, 3))
    z = draw(1, 5, 3)
    assert not torch.equal(norm(z)[:1], norm(z[[0, 1]])[:1])
    norm.eval()
    assert torch.equal(norm(z)[:1], norm(z[:1]))


@pytest.mark.parametrize("size", [4, (4,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm_is_torchs(size, affine):
    ours = LayerNorm(size, affine=affine).double()
    theirs = nn.LayerNorm(size, elementwise_affine=affine).double()
    if affine:
        with torch.no_grad():
            ours.weight.copy_(draw(0, *ours.shape))
            ours.bias.copy_(draw(1, *ours.shape))
    theirs.load_state_dict(ours.state_dict())
    a, b = (draw(2, 5, 2, 3, 4).requires_grad_() for _ in range(2))
    slope = draw(3, 5, 2, 3, 4)
    x, y = ours(a), theirs(b)
    assert_close(x, y)
    (x * slope).sum().backward()
    (y * slope).sum().backward()
    assert_close(a.grad, b.grad)
    assert torch.equal(ours.eval()(a), x)  # the same in training and at inference


def test_layer_norm_ignores_the_scale_of_each_example():
    z, norm = draw(0, 6, 10), LayerNorm(10, eps=0).double()
    scales = torch.logspace(-3, 3, 6, dtype=torch.float64)[:, None]
    assert_close(norm(z * scales), norm(z))


def test_bad_input_is_explained():
    with pytest.raises(ValueError, match=r"3 channels got \(2, 4\)"):
        BatchNorm(3)(torch.ones(2, 4))
    with pytest.raises(ValueError, match="two examples or more"):
        BatchNorm(3)(torch.ones(1, 3))
    with pytest.raises(ValueError, match=r"last axes have to be \(4,\)"):
        LayerNorm(4)(torch.ones(2, 3))
