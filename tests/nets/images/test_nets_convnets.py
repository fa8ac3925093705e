"""Networks for images and sounds: published sizes, shapes, symmetries, residuals, what they refuse."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lemmata.nets import VGG, AlexNet, ConvNet, ResidualBlock, ResNet, SoundNet, receptive_field

IMAGES = {
    "ConvNet": lambda shape: ConvNet(shape, 5, widths=(4, 8), convs=(1, 2)),
    "ConvNet, strides": lambda shape: ConvNet(
        shape, 5, widths=(4, 8), pool="stride", stem_kernel=5
    ),
    "ConvNet, means": lambda shape: ConvNet(shape, 5, widths=(4, 8), pool="mean", norm=False),
    "AlexNet": lambda shape: AlexNet(shape, 5, width=4, hidden=16),
    "VGG": lambda shape: VGG(shape, 5, widths=(4, 8), hidden=16),
    "ResNet": lambda shape: ResNet(shape, 5, widths=(4, 8), blocks=(1, 2)),
    "ResNet, plain": lambda shape: ResNet(shape, 5, widths=(4, 8), skip=False, stem="stride"),
}


def count(net):
    return sum(p.numel() for p in net.parameters())


def inputs(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).float()


# --- as published -----------------------------------------------------------------------------------------------------


def test_alexnet_vgg_and_resnets_have_the_published_numbers_of_weights():
    with torch.device("meta"):  # sizes alone
        assert count(AlexNet((3, 224, 224), 1000, width=64, hidden=4096)) == 61_100_840
        wide = {"widths": (64, 128, 256, 512, 512), "convs": (2, 2, 3, 3, 3), "hidden": 4096}
        assert count(VGG((3, 224, 224), 1000, **wide, norm=False)) == 138_357_544  # VGG-16
        assert count(VGG((3, 224, 224), 1000, **wide)) == 138_365_992  # VGG-16 with batch norm
        wide["convs"] = (1, 1, 2, 2, 2)
        assert count(VGG((3, 224, 224), 1000, **wide, norm=False)) == 132_863_336  # VGG-11
        resnet_18 = ResNet((3, 32, 32), 10, widths=(64, 128, 256, 512), blocks=2)
    assert count(resnet_18) == 11_173_962


def test_two_small_windows_see_as_far_as_one_large_one():
    (small, _), (large, _) = (
        receptive_field(nn.Sequential(*(nn.Conv2d(1, 1, k) for k in kernels)))
        for kernels in ((3, 3), (5,))
    )
    assert small == large
    net = ConvNet((1, 28, 28), 10, widths=(4, 8), convs=2)
    assert receptive_field(net.features)[0].size == 16  # 1 + 2 + 2 + 1, then (2 + 2)·2 + 1·2


# --- shapes and conventions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (2, 15, 33)])
def test_images_become_scores_and_the_same_net_can_be_built_again(name, shape):
    torch.manual_seed(0)
    net = IMAGES[name](shape).eval()
    x = inputs(3, *shape)
    scores = net(x)
    assert scores.shape == (3, 5)
    assert net.config["input_shape"] == shape
    twin = type(net)(**net.config).eval()
    twin.load_state_dict(net.state_dict())
    assert torch.equal(twin(x), scores)
    assert_close(net(x.to(memory_format=torch.channels_last)), scores)
    double = copy.deepcopy(net).double()(x.double())
    assert double.dtype == torch.float64
    assert_close(double.float(), scores, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", IMAGES)
def test_every_weight_has_a_gradient_and_torchs_seed_decides_it_all(name):
    nets = []
    for _ in range(2):
        torch.manual_seed(3)
        nets.append(IMAGES[name]((1, 16, 16)))
    for a, b in zip(*(net.parameters() for net in nets), strict=True):
        assert torch.equal(a, b)
    net = nets[0]
    for module in net.modules():
        if isinstance(module, ResidualBlock) and module.skip:  # at 0 nothing gets behind it
            nn.init.ones_(module.branch[-1][-1].weight)
    (net(inputs(8, 1, 16, 16)) ** 2).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())


def test_torch_func_differentiates_for_each_example():
    from torch.func import functional_call, grad, vmap

    net = ConvNet((1, 8, 8), 3, widths=(4,), norm=False).double()
    weights = {name: p.detach() for name, p in net.named_parameters()}
    x = inputs(4, 1, 8, 8).double()

    def loss(w, one):
        return functional_call(net, w, (one[None],)).square().sum()

    each = vmap(grad(loss), (None, 0))(weights, x)
    net(x).square().sum().backward()
    for name, p in net.named_parameters():
        assert_close(each[name].sum(0), p.grad)


# --- symmetries -------------------------------------------------------------------------------------------------------


def test_the_answer_does_not_depend_on_where_a_picture_stands_if_it_is_not_cut():
    torch.manual_seed(0)
    net = ConvNet((1, 32, 32), 4, widths=(4, 8), norm=False).eval().double()
    for module in net.modules():
        if isinstance(module, nn.Conv2d):  # so that nothing but the picture answers
            nn.init.zeros_(module.bias)
    x = torch.zeros(2, 1, 32, 32, dtype=torch.float64)
    shape = inputs(1, 8, 8).double()
    x[0, :, 8:16, 8:16] = shape
    x[1, :, 12:20, 16:24] = shape  # shifted by multiples of 4, the product of the strides
    a, b = net(x)
    assert_close(a, b)
    x[1] = 0
    x[1, :, 9:17, 8:16] = shape  # by one
    a, b = net(x)
    assert (a - b).abs().max() > 1e-6


def test_a_sound_may_begin_whenever():
    torch.manual_seed(0)
    net = SoundNet((1, 2048), 3, widths=(4, 4)).eval().double()
    for module in net.modules():
        if isinstance(module, nn.Conv1d):
            assert module.bias is None
    x = torch.zeros(2, 1, 2048, dtype=torch.float64)
    sound = inputs(300).double()
    x[0, 0, 400:700] = sound
    x[1, 0, 912:1212] = sound  # 512 = 16 · 32, a multiple of the product of the strides
    a, b = net(x)
    assert_close(a, b)


# --- residual blocks --------------------------------------------------------------------------------------------------


def test_a_block_is_the_sum_of_its_branch_and_its_input():
    torch.manual_seed(0)
    block = ResidualBlock(3, 3).eval()
    nn.init.ones_(block.branch[-1][-1].weight)
    x = inputs(2, 3, 8, 8)
    assert_close(block(x), (block.branch(x) + x).relu())
    assert isinstance(block.projection, nn.Identity)
    block.skip = False
    assert_close(block(x), block.branch(x).relu())


def test_where_sizes_differ_the_input_is_projected():
    block = ResidualBlock(3, 6, stride=2).eval()
    x = inputs(2, 3, 9, 8)
    assert block(x).shape == (2, 6, 5, 4)
    convolution = block.projection[0]
    assert convolution.weight.shape == (6, 3, 1, 1)
    assert convolution.stride == (2, 2)
    assert_close(block(x), (block.branch(x) + block.projection(x)).relu())


def test_a_new_block_passes_its_input_on_whatever_the_depth():
    torch.manual_seed(0)
    net = ResNet((1, 16, 16), 2, widths=(4,), blocks=20).train()
    x = inputs(4, 1, 16, 16)
    stem = net.stem(x)
    assert torch.equal(net.stages(stem), stem)
    slopes = []
    for scores in (net(x), net.head(net.stem(x))):  # with 40 convolutions between them and without
        slopes.append(torch.autograd.grad(scores.sum(), net.stem[0].weight)[0])
    assert_close(*slopes)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ConvNet((28, 28), 10), r"For grey images pass \(1, 28, 28\)"),
        (lambda: ResNet((32, 32, 3), 10), r"looks like \(height, width, channels\).*\(3, 32, 32\)"),
        (lambda: ConvNet((1, 7, 9), 10), "3 stages halve a grid of 7 × 9 to nothing; pass at most 2"),
        (lambda: AlexNet((1, 12, 20), 10), "at least 15 × 15; got 12 × 20"),
        (lambda: ConvNet((1, 28, 28), 10, pool="median"), "pool='median'; pass one of 'max'"),
        (lambda: ConvNet((1, 28, 28), 10, convs=(1, 2)), "as many numbers of convolutions"),
        (lambda: ConvNet((1, 28, 28), 10, kernel_size=4), "kernel_size=4: pass an odd window"),
        (lambda: VGG((1, 28, 28), 10, widths=()), "one or more widths"),
        (lambda: ResNet((1, 28, 28), 10, blocks=(1,)), "as many numbers of blocks"),
        (lambda: ResNet((1, 28, 28), 10, stem="half"), "stem='half'; pass one of 'full'"),
        (lambda: SoundNet((8000,), 10), r"For mono pass \(1, 8000\)"),
        (lambda: SoundNet((1, 100), 10), "which needs 512; pad the sounds"),
        (lambda: SoundNet((1, 8000), 10, filter_length=4), "at least as long as their stride"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_what_to_do(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ((2, 16, 16, 3), r"channels stand last: x.permute\(0, 3, 1, 2\)"),
        ((3, 16, 16), r"the axis of examples is missing"),
        ((2, 3, 16, 15), r"\(2, 3, 16, 15\) where \(B, 3, 16, 16\)"),
    ],
)
def test_inputs_of_another_shape_are_told_which_axis_is_wrong(found, message):
    net = ConvNet((3, 16, 16), 2, widths=(4,))
    with pytest.raises(ValueError, match=message):
        net(torch.zeros(found))
    with pytest.raises(ValueError, match=r"the axis of channels is missing: x\[:, None\]"):
        ResNet((1, 16, 16), 2, widths=(4,))(torch.zeros(5, 16, 16))
