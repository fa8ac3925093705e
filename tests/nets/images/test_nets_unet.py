"""The U-Net: sizes, what it starts from, what it is told, and that it learns to use it."""

import copy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata.nets import UNet
from lemmata.nets.images.unet import PixelAttention, TimedBlock


def net(shape=(1, 8, 8), seed=0, awake=True, **options):
    """A small U-Net; awake: the last convolution is not 0, as after training."""
    torch.manual_seed(seed)
    made = UNet(shape, width=8, **options)
    if awake:
        torch.nn.init.normal_(made.last.weight, std=0.1)
    return made


@settings(max_examples=12)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_any_size_divisible_by_four_comes_back(H, W, channels, out):
    made = net((channels, 8, 8), out_channels=out)
    x = torch.randn(2, channels, 4 * H, 4 * W)
    y = made(x, torch.tensor([0, 999]))
    assert y.shape == (2, out, 4 * H, 4 * W)
    assert torch.isfinite(y).all()


def test_before_training_the_answer_is_zero_and_the_last_layer_learns():
    made = net(awake=False)
    y = made(torch.randn(2, 1, 8, 8), 3.0)
    assert torch.equal(y, torch.zeros_like(y))
    F.mse_loss(y, torch.randn_like(y)).backward()
    assert made.last.weight.grad.abs().max() > 0


def test_it_hears_the_time_and_the_class():
    made = net(n_classes=3)
    x = torch.randn(1, 1, 8, 8).expand(4, -1, -1, -1)
    y = made(x, torch.tensor([0, 1, 500, 999]), torch.zeros(4, dtype=torch.long))
    assert torch.unique(y, dim=0).shape[0] == 4
    y = made(x, 5, torch.tensor([0, 1, 2, 3]))
    assert torch.unique(y, dim=0).shape[0] == 4
    torch.testing.assert_close(y[3:], made(x[:1], 5))  # no labels: the class n_classes


def test_times_are_scaled_and_one_serves_all():
    made, unit = net(), net(time_scale=1000.0)
    unit.load_state_dict(made.state_dict())
    x, t = torch.randn(3, 1, 8, 8), torch.tensor([0.1, 0.5, 0.5])
    torch.testing.assert_close(unit(x, t), made(x, 1000 * t))
    torch.testing.assert_close(made(x, 7), made(x, torch.full((3,), 7)))


def test_images_of_a_batch_do_not_mix():
    made, x, t = net().double(), torch.randn(3, 1, 8, 8, dtype=torch.float64), torch.arange(3)
    alone = torch.cat([made(x[i : i + 1], t[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(made(x, t), alone, rtol=1e-10, atol=1e-12)


def test_attention_reaches_from_corner_to_corner():
    torch.manual_seed(0)
    layer = PixelAttention(8, 2)
    layer.norm = torch.nn.Identity()  # a group norm sees the whole image too
    x = torch.randn(1, 8, 4, 6, requires_grad=True)
    (g,) = torch.autograd.grad(layer(x)[0, :, 0, 0].sum(), x)
    assert (g.abs().sum(dim=1) > 0).all()
    swapped = layer(x.flip(3)).flip(3)  # pixels are tokens, each back at its place
    torch.testing.assert_close(swapped, layer(x))


def test_channels_last_gives_the_same():
    made, x = net(), torch.randn(2, 1, 8, 8)
    last = copy.deepcopy(made).to(memory_format=torch.channels_last)
    y = last(x.contiguous(memory_format=torch.channels_last), 3)
    torch.testing.assert_close(y, made(x, 3), rtol=1e-4, atol=1e-5)


def test_a_block_is_its_formula():
    torch.manual_seed(0)
    block = TimedBlock(6, 4, 5).double()
    x, e = torch.randn(2, 6, 4, 4).double(), torch.randn(2, 5).double()
    h = block.conv1(F.silu(F.group_norm(x, 2, block.norm1.weight, block.norm1.bias)))
    h = h + (e @ block.tell.weight.T + block.tell.bias)[:, :, None, None]
    h = block.conv2(F.silu(F.group_norm(h, 4, block.norm2.weight, block.norm2.bias)))
    torch.testing.assert_close(block(x, e), F.conv2d(x, block.skip.weight, block.skip.bias) + h)


def test_it_learns_an_answer_that_depends_on_time_and_class_together():
    """The answer is +1 or −1 by "exclusive or" of the two: a net deaf to either can do no better than 0, at a loss of 1."""
    torch.manual_seed(0)
    made = UNet((1, 4, 4), width=8, n_classes=2)
    optimiser = torch.optim.Adam(made.parameters(), lr=2e-2)
    for _ in range(25):
        x, t, c = torch.randn(32, 1, 4, 4), torch.randint(2, (32,)), torch.randint(2, (32,))
        answer = (2.0 * (t ^ c) - 1)[:, None, None, None].expand_as(x)
        loss = F.mse_loss(made(x, 500 * t, c), answer)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.5


def test_it_can_be_built_again_from_its_config():
    made = net(n_classes=3, out_channels=2, dropout=0.1)
    UNet(**made.config).load_state_dict(made.state_dict())


def test_what_does_not_fit_is_refused_with_what_does():
    with pytest.raises(ValueError, match="30 × 29 cannot be halved twice; pad them to 32 × 32"):
        UNet((1, 30, 29))
    with pytest.raises(ValueError, match=r"input_shape=\(28, 28\).*channels, height, width"):
        UNet((28, 28))
    with pytest.raises(ValueError, match="width=7"):
        UNet((1, 8, 8), width=7)
    made, x = net(), torch.randn(2, 1, 8, 8)
    with pytest.raises(ValueError, match="8 × 6 cannot be halved twice; pad them to 8 × 8"):
        made(x[:, :, :, :6], 0)
    with pytest.raises(ValueError, match=r"\(2, 8, 8, 1\); this U-Net takes \(images, 1, height"):
        made(x.permute(0, 2, 3, 1), 0)
    with pytest.raises(ValueError, match=r"t has the shape \(3,\); pass one time per row \(2,\)"):
        made(x, torch.zeros(3))
    with pytest.raises(ValueError, match="knows no classes"):
        made(x, 0, torch.zeros(2, dtype=torch.long))
    classed = net(n_classes=3)
    with pytest.raises(ValueError, match="labels go from 0 to 4; pass 0 to 2, or 3 for no class"):
        classed(x, 0, torch.tensor([0, 4]))
    with pytest.raises(ValueError, match=r"pass whole numbers of shape \(2,\)"):
        classed(x, 0, torch.zeros(2))
