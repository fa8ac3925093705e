"""Convolutions against their definition, torch, scipy, and the theory of CIL 4.4.1."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.signal import convolve as scipy_convolve
from torch import nn
from torch.nn import functional as F

from lemmata.nets import (
    ReceptiveField,
    ResidualBlock,
    convolve,
    correlate,
    measure_receptive_field,
    receptive_field,
    recover_kernel,
)
from lemmata.nets.images.convolution import layer, transposed_layer


def arrays(seed, *shapes):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in shapes]


SIDES = st.integers(1, 7)
SHAPES = st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=2)  # an axis: (signal, kernel)


# --- the definitions --------------------------------------------------------------------------------------------------


def test_convolution_is_the_sum_of_the_notes():
    f, h = arrays(0, 5, 3)
    padded = {t: f[t] for t in range(5)}
    taps = {t: h[t] for t in range(3)}
    by_hand = [
        sum(padded.get(t, 0) * taps.get(u - t, 0) for t in range(-9, 9)) for u in range(5 + 3 - 1)
    ]
    assert_allclose(convolve(f, h), by_hand, atol=1e-15)


def test_the_small_gaussian_of_example_4_1():
    f = np.array([0.0, 0, 16, 0, 0])
    h = np.array([1, 4, 6, 4, 1]) / 16
    assert_allclose(convolve(f, h)[2:-2], [1, 4, 6, 4, 1])


@given(SHAPES, st.integers(0, 99))
def test_convolution_commutes_and_is_that_of_scipy(axes, seed):
    f, h = arrays(seed, [n for n, _ in axes], [k for _, k in axes])
    assert_allclose(convolve(f, h), convolve(h, f), atol=1e-13)
    assert_allclose(convolve(f, h), scipy_convolve(f, h, method="direct"), atol=1e-13)


@given(SHAPES, st.integers(0, 99))
def test_convolution_is_associative(axes, seed):
    f, h, g = arrays(seed, [n for n, _ in axes], [k for _, k in axes], [2] * len(axes))
    assert_allclose(convolve(convolve(f, h), g), convolve(f, convolve(h, g)), atol=1e-12)


@given(SHAPES, st.integers(0, 99))
def test_cross_correlation_is_convolution_with_the_flipped_kernel(axes, seed):
    f, h = arrays(seed, [n for n, _ in axes], [k for _, k in axes])
    full = correlate(h, f, padding=[k - 1 for _, k in axes])  # u from −(k − 1) to n − 1
    assert_allclose(full, convolve(np.flip(h), f), atol=1e-13)  # (4.47)


def test_cross_correlation_does_not_commute():
    f, h = np.array([1.0, 0, 0]), np.array([1.0, 2, 3])
    a, b = correlate(h, f, padding=2), correlate(f, h, padding=2)
    assert_allclose(a, [3, 2, 1, 0, 0])
    assert_allclose(a, b[::-1])  # each is the other, read backwards


@given(
    axes=st.integers(1, 2),
    channels=st.integers(1, 3),
    filters=st.integers(1, 3),
    size=st.integers(4, 8),
    kernel=st.integers(1, 4),
    padding=st.integers(0, 3),
    stride=st.integers(1, 3),
    seed=st.integers(0, 99),
)
@settings(max_examples=60)
def test_a_layer_and_its_transpose_are_those_of_torch(
    axes, channels, filters, size, kernel, padding, stride, seed
):
    shape = (channels, size, size + 1)[: axes + 1]
    x, theta, bias = arrays(seed, shape, (filters, channels, *[kernel] * axes), filters)
    conv, transposed = (
        (F.conv1d, F.conv_transpose1d) if axes == 1 else (F.conv2d, F.conv_transpose2d)
    )
    X, T, B = (torch.from_numpy(a) for a in (x, theta, bias))
    z = conv(X[None], T, B, stride, padding)[0].numpy()
    assert_allclose(layer(x, theta, bias, padding, stride), z, atol=1e-12)

    (y,) = arrays(seed + 1, z.shape)
    back = transposed_layer(y, theta, shape, padding, stride)
    assert back.shape == shape
    forth = layer(x, theta, None, padding, stride)
    assert abs((forth * y).sum() - (x * back).sum()) <= 1e-13 * max(
        1, np.abs(forth).sum() * np.abs(y).max() * theta.size
    )
    if kernel > padding:  # torch wants the sizes that division lost
        lost = [(n + 2 * padding - kernel) % stride for n in shape[1:]]
        theirs = transposed(torch.from_numpy(y)[None], T, None, stride, padding, lost)[0].numpy()
        assert_allclose(back, theirs, atol=1e-12)


def test_the_gradient_of_a_layer_is_its_transpose():
    x, theta = arrays(3, (2, 6, 7), (3, 2, 3, 3))
    X = torch.from_numpy(x).requires_grad_()
    z = F.conv2d(X[None], torch.from_numpy(theta), stride=2, padding=1)[0]
    (y,) = arrays(4, tuple(z.shape))
    (slope,) = torch.autograd.grad((z * torch.from_numpy(y)).sum(), X)
    assert_allclose(transposed_layer(y, theta, x.shape, 1, 2), slope.numpy(), atol=1e-12)


def test_bad_input_is_explained():
    with pytest.raises(ValueError, match="same number of axes"):
        convolve([1.0, 2.0], [[1.0]])
    with pytest.raises(ValueError, match="a window of 4 does not fit into 3 values"):
        correlate(np.ones(4), np.ones(3))
    with pytest.raises(ValueError, match=r"theta wants \(k, 2, …window\)"):
        layer(np.ones((2, 5, 5)), np.ones((1, 3, 2, 2)))
    with pytest.raises(ValueError, match=r"y has shape \(1, 5\).*makes \(1, 4\)"):
        transposed_layer(np.ones((1, 5)), np.ones((1, 1, 2)), (1, 5))
    with pytest.raises(ValueError, match="stride=0"):
        correlate(np.ones(2), np.ones(3), stride=0)


# --- linear and shift-equivariant ⇒ a convolution ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "shape", "first"),
    [
        (lambda: nn.Conv2d(2, 3, (3, 5), padding=(1, 2)), (2, 11, 13), (-1, -2)),
        (lambda: nn.Conv2d(1, 2, 3), (1, 9, 9), (0, 0)),
        (lambda: nn.Conv1d(2, 1, 4, padding=3), (2, 12), (-3,)),
    ],
)
def test_the_weights_of_a_convolution_come_back(make, shape, first):
    torch.manual_seed(0)
    module = make()
    found = recover_kernel(module, shape)
    assert found.residual < 1e-14
    assert found.border < 1e-14
    assert found.first == first
    assert_allclose(found.weight, module.weight.detach().double(), atol=1e-15)
    assert_allclose(found.bias[0], module.bias[0].item(), rtol=1e-6)


def test_a_stack_without_nonlinearity_is_one_convolution_away_from_the_border():
    torch.manual_seed(0)
    a, b = nn.Conv1d(1, 1, 3, padding=1, bias=False), nn.Conv1d(1, 1, 5, padding=2, bias=False)
    found = recover_kernel(nn.Sequential(a, b), (1, 20))
    assert found.residual < 1e-14
    assert found.border > 1e-3  # values outside the grid are lost between the layers
    both = convolve(a.weight.detach()[0, 0], b.weight.detach()[0, 0])
    assert_allclose(found.weight[0, 0], both, atol=1e-7)
    assert found.first == (-3,)


def test_circular_shifts_are_recovered_and_the_border_tells():
    found = recover_kernel(lambda x: torch.roll(x, 2, dims=-1), (1, 9))
    assert_allclose(found.weight, [[[1.0]]])
    assert found.first == (-2,)  # z[u] = x[u − 2]
    assert found.residual == 0
    assert found.border > 0.1


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Conv1d(1, 3, 3, padding=1), nn.ReLU()),
        nn.Conv1d(1, 2, 3, stride=2, padding=1),
        nn.MaxPool1d(3, 1, 1),
    ],
    ids=["not linear", "strided", "maxima"],
)
def test_what_is_no_convolution_leaves_a_residual(module):
    torch.manual_seed(0)
    assert recover_kernel(module, (1, 16)).residual > 0.1


def test_where_the_answer_fills_the_grid_nothing_is_said():
    dense = nn.Sequential(nn.Flatten(1), nn.Linear(16, 16), nn.Unflatten(1, (1, 16)))
    with pytest.raises(ValueError, match="larger grid"):
        recover_kernel(dense, (1, 16))


def test_modules_without_a_grid_are_refused():
    module = nn.Sequential(nn.Conv1d(1, 2, 3), nn.Flatten())
    with pytest.raises(ValueError, match="keeps its 1 grid axes"):
        recover_kernel(module, (1, 9))


# --- receptive fields -------------------------------------------------------------------------------------------------


@given(
    layers=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2), st.integers(1, 2)),
        min_size=1,
        max_size=3,
    ),
    seed=st.integers(0, 99),
)
@settings(max_examples=40)
def test_the_formula_says_what_gradients_measure(layers, seed):
    torch.manual_seed(seed)
    stack = nn.Sequential(*(nn.Conv1d(1, 1, k, s, p, d) for k, s, p, d in layers))
    (field,) = receptive_field(stack)
    assert (field,) == receptive_field(layers)
    n = 3 * (field.size + field.stride + 10)
    outputs = stack(torch.zeros(1, 1, n)).shape[-1]
    u = outputs // 2
    mask = measure_receptive_field(stack, (1, n), at=[u], n_inputs=1)
    seen = np.flatnonzero(mask)
    first = u * field.stride + field.first
    assert (seen[0], seen[-1]) == (first, first + field.size - 1)


def test_maxima_and_relus_do_not_hide_what_is_seen():
    torch.manual_seed(0)
    stack = nn.Sequential(
        nn.Conv2d(1, 4, 5, 2, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, 1, 1)
    )
    assert receptive_field(stack) == (ReceptiveField(15, 4, -6),) * 2
    mask = measure_receptive_field(stack, (1, 48, 48), at=(5, 6))
    rows, columns = mask.any(1).nonzero()[0], mask.any(0).nonzero()[0]
    assert (rows[0], rows[-1], columns[0], columns[-1]) == (14, 28, 18, 32)
    assert mask.sum() == 15 * 15


def test_what_is_no_stack_is_refused_or_measured():
    with pytest.raises(ValueError, match="measure it"):
        receptive_field(ResidualBlock(2, 4, 2))
    with pytest.raises(ValueError, match="sees everything"):
        receptive_field(nn.Sequential(nn.Conv2d(1, 1, 3), nn.AdaptiveAvgPool2d(1)))
    with pytest.raises(ValueError, match="'same'"):
        receptive_field(nn.Sequential(nn.Conv2d(1, 1, 3, padding="same")))
    block = ResidualBlock(1, 2)
    nn.init.ones_(block.branch[-1][-1].weight)  # at 0 a new block sees through its projection alone
    assert measure_receptive_field(block, (1, 15, 15)).sum() == 25
