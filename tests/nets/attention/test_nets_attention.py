"""Attention is its formula; masks hide what they say; without positions it knows no order; with them it can convolve."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lemmata.nets import (
    AttentionConvolution,
    Decoder,
    KeyValues,
    LearnedPositions,
    MultiHeadAttention,
    SinusoidalPositions,
    attention_by_definition,
    attention_maps,
    sinusoidal,
)
from lemmata.nets.attention.as_convolution import stray_weight
from lemmata.nets.attention.heads import combine_masks

EXACT = {"rtol": 1e-11, "atol": 1e-12}  # float64: sums of a few dozen products


def layer(width=12, heads=3, seed=0, **options):
    torch.manual_seed(seed)
    return MultiHeadAttention(width, heads, **options).double()


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- the formula ------------------------------------------------------------------------------------------------------


@st.composite
def calls(draw):
    """An attention layer and a call of it: any sizes, self or cross, any of the masks."""
    B, T, S = (draw(st.integers(1, 4)) for _ in range(3))
    heads, head_width = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    width = heads * head_width
    cross = draw(st.booleans())
    S = S if cross else T
    x = torch.randn(B, T, width, dtype=torch.float64, generator=generator)
    context = torch.randn(B, S, width, dtype=torch.float64, generator=generator) if cross else None
    masks = {"causal": draw(st.booleans())}
    if draw(st.booleans()):
        masks["padding"] = torch.rand(B, S, generator=generator) < 0.6
    kind = draw(st.sampled_from([None, "bool", "float"]))
    if kind:
        shape = draw(st.sampled_from([(T, S), (B, T, S), (B, 1, T, S), (B, heads, T, S)]))
        noise = torch.rand(shape, generator=generator, dtype=torch.float64)
        masks["mask"] = noise < 0.6 if kind == "bool" else noise
    return heads, x, context, masks


@settings(max_examples=40)
@given(calls())
def test_the_fast_layer_is_the_written_out_formula_for_any_masks_with_its_gradients(call):
    heads, x, context, masks = call
    attention = layer(x.shape[2], heads)
    x.requires_grad_()
    fast = attention(x, context, **masks)
    slow, P = attention.by_definition(x, context, **masks)
    torch.testing.assert_close(fast, slow, **EXACT)
    sums = P.sum(dim=-1)
    torch.testing.assert_close(sums, sums.round(), **EXACT)  # 1, or 0 where nothing may be seen
    assert (P >= 0).all()
    G = torch.randn_like(fast)
    (fast_gradient,) = torch.autograd.grad((fast * G).sum(), x)
    (slow_gradient,) = torch.autograd.grad((slow * G).sum(), x)
    torch.testing.assert_close(fast_gradient, slow_gradient, **EXACT)


@pytest.mark.parametrize("causal", [False, True])
def test_it_agrees_with_nn_multihead_attention(causal):
    ours, theirs = layer(), nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.project_in.weight)
        theirs.in_proj_bias.copy_(ours.project_in.bias)
        theirs.out_proj.load_state_dict(ours.project_out.state_dict())
    x, context = tokens(2, 5, 12), tokens(2, 7, 12, seed=2)
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    expected, P = theirs(x, x, x, attn_mask=hidden, average_attn_weights=False)
    torch.testing.assert_close(ours(x, causal=causal), expected, **EXACT)
    torch.testing.assert_close(ours.weights(x, causal=causal), P, **EXACT)
    torch.testing.assert_close(ours(x, context), theirs(x, context, context)[0], **EXACT)


def test_huge_scores_do_not_overflow_and_pick_one_key():
    q, k, v = 1e4 * torch.eye(3)[None], 1e4 * torch.eye(3)[None], tokens(1, 3, 2).float()
    z, P = attention_by_definition(q, k, v)
    assert torch.equal(P[0], torch.eye(3))
    torch.testing.assert_close(z, v)


def test_scores_of_random_tokens_have_variance_one_at_any_width():
    for d in (4, 400):
        q, k = tokens(2000, 1, d), tokens(2000, 1, d, seed=2)
        scores = (q * k).sum(-1) / math.sqrt(d)
        # kurtosis of a product of normals is at most 9: the deviation of the variance is √(8/2000) = 0.063
        assert scores.var() == pytest.approx(1, abs=4 * 0.063)


# --- masks ------------------------------------------------------------------------------------------------------------


def test_a_token_that_may_look_at_nothing_gets_zero_and_finite_gradients():
    attention = layer(bias=False)
    x = tokens(2, 4, 12).requires_grad_()
    padding = torch.tensor([[True] * 4, [False] * 4])
    z = attention(x, padding=padding)
    assert torch.equal(z[1], torch.zeros(4, 12, dtype=torch.float64))
    z.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert attention.weights(x, padding=padding)[1].abs().sum() == 0


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(0, 5), st.booleans(), st.integers(0, 99))
def test_no_output_depends_on_later_tokens(T, place, training, seed):
    place = min(place, T - 1)
    attention = layer(dropout=0.3 if training else 0.0).train(training)
    x = tokens(2, T, 12, seed=seed)
    changed = x.clone()
    changed[:, place:] += 1
    torch.manual_seed(seed)
    before = attention(x, causal=True)
    torch.manual_seed(seed)
    after = attention(changed, causal=True)
    assert torch.equal(before[:, :place], after[:, :place])
    assert not torch.equal(before[:, place:], after[:, place:])


def test_no_output_depends_on_padding():
    attention = layer()
    x, real = tokens(3, 6, 12), torch.tensor([6, 2, 4])[:, None] > torch.arange(6)
    other = torch.where(real[:, :, None], x, 1e6)
    z, z_other = attention(x, padding=real), attention(other, padding=real)
    torch.testing.assert_close(z[real], z_other[real], **EXACT)
    torch.testing.assert_close(
        z[1, :2], attention(x[1:2, :2])[0], **EXACT
    )  # as if it were not there


def test_queries_that_are_the_last_places_see_all_earlier_keys():
    joint = combine_masks(2, 5, causal=True)
    assert joint.tolist() == [[True] * 4 + [False], [True] * 5]


def test_dropout_drops_weights_in_training_only():
    attention = layer(dropout=0.5)
    x = tokens(1, 6, 12)
    assert not torch.equal(attention(x), attention(x))
    attention.eval()
    torch.testing.assert_close(attention(x), attention.by_definition(x)[0], **EXACT)


# --- order ------------------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.permutations(range(6)))
def test_permuted_tokens_give_permuted_outputs_unless_they_know_their_place(order):
    attention, x = layer(), tokens(2, 6, 12)
    torch.testing.assert_close(attention(x)[:, order], attention(x[:, order]), **EXACT)
    placed = SinusoidalPositions(12)
    if list(order) != sorted(order):
        z = attention(placed(x))[:, order]
        assert (z - attention(placed(x[:, order]))).abs().max() > 1e-3


@settings(max_examples=25)
@given(st.floats(-50, 50), st.floats(0, 50))
def test_a_step_of_sinusoidal_positions_is_a_rotation_that_does_not_depend_on_the_place(s, t):
    p = sinusoidal(torch.tensor([0.0, s, t, t + s], dtype=torch.float64), 8)
    frequencies = 10_000.0 ** (-torch.arange(4, dtype=torch.float64) / 4)
    c, d = torch.cos(frequencies * s).diag(), torch.sin(frequencies * s).diag()
    R = torch.cat([torch.cat([c, d], 1), torch.cat([-d, c], 1)])
    torch.testing.assert_close(R @ p[2], p[3], rtol=0, atol=1e-12)
    torch.testing.assert_close(p[2] @ p[3], p[0] @ p[1], rtol=0, atol=1e-12)


def test_positions_go_on_where_the_cache_ended():
    x = torch.zeros(1, 6, 8)
    for places in (SinusoidalPositions(8), LearnedPositions(6, 8)):
        torch.testing.assert_close(places(x)[:, 4:], places(x[:, 4:], start=4))
        assert places(x)[0].unique(dim=0).shape[0] == 6
    with pytest.raises(ValueError, match=r"7 tokens.*built for 6"):
        LearnedPositions(6, 8)(torch.zeros(1, 3, 8), start=4)
    with pytest.raises(ValueError, match="even width"):
        sinusoidal(torch.arange(3), 5)
    fine = SinusoidalPositions(8)(torch.zeros(1, 400, 8, dtype=torch.bfloat16))
    assert not torch.equal(fine[0, 398], fine[0, 399])


# --- memory -----------------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_tokens_by_portions_with_a_cache_are_the_same_as_all_at_once(portions):
    attention, x = layer(), tokens(2, sum(portions), 12)
    cache = KeyValues()
    with torch.no_grad():
        parts = [attention(part, causal=True, cache=cache) for part in x.split(portions, dim=1)]
        torch.testing.assert_close(torch.cat(parts, 1), attention(x, causal=True), **EXACT)
    assert cache.length == sum(portions)


def test_a_cache_refuses_gradients_and_another_number_of_sequences():
    attention, cache = layer(), KeyValues()
    with pytest.raises(RuntimeError, match="no_grad"):
        attention(tokens(2, 3, 12), cache=cache)
    with torch.no_grad():
        attention(tokens(2, 3, 12), causal=True, cache=cache)
        for other in (1, 3):
            with pytest.raises(ValueError, match=f"holds 2 sequences, the input {other}"):
                attention(tokens(other, 1, 12), causal=True, cache=cache)


def test_maps_are_the_weights_of_every_layer_and_leave_no_hooks():
    net = Decoder(12, 2, 3).double()
    x = tokens(2, 5, 12)
    maps = attention_maps(net, x)
    assert list(maps) == ["blocks.0.attention", "blocks.1.attention"]
    first = net.blocks[0]
    torch.testing.assert_close(
        maps["blocks.0.attention"], first.attention.weights(first.norm_attention(x), causal=True)
    )
    assert not any(module._forward_pre_hooks for module in net.modules())


# --- attention as a convolution ---------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(
    st.integers(1, 5), st.integers(1, 9), st.sampled_from([1, 3, 5]), st.integers(1, 8),
    st.integers(1, 8), st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_attention_is_the_convolution_to_rounding(n_in, n_out, k, H, W, bias, seed):
    torch.manual_seed(seed)
    conv = nn.Conv2d(n_in, n_out, k, padding=k // 2, bias=bias, dtype=torch.float64)
    x = torch.randn(2, n_in, H, W, dtype=torch.float64)
    torch.testing.assert_close(AttentionConvolution(conv)(x), conv(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("sharpness", [1.0, 3.0, 10.0])
def test_at_finite_sharpness_the_error_is_below_the_bound_and_not_zero(sharpness):
    torch.manual_seed(0)
    conv = nn.Conv2d(2, 3, 3, padding=1, dtype=torch.float64)
    x = torch.randn(2, 2, 9, 9, dtype=torch.float64)
    blurred = AttentionConvolution(conv, sharpness)
    error = float((blurred(x) - conv(x)).abs().max().detach())
    assert 0.001 * blurred.error_bound(x) < error <= blurred.error_bound(x)
    P = blurred.attention.weights(blurred.tokens(x))  # (2, 9 heads, 121, 121)
    stray = 1 - P.amax(dim=-1)[0, 4]  # of the head that looks at its own pixel
    assert stray.max() <= stray_weight(sharpness)


def test_the_stray_weight_is_the_sum_over_the_whole_grid():
    k = torch.arange(-30, 31, dtype=torch.float64)
    grid = torch.exp(-0.7 * (k[:, None] ** 2 + k**2)).sum() - 1
    assert stray_weight(0.7) == pytest.approx(float(grid), rel=1e-12)


def test_convolutions_that_it_cannot_write_are_refused():
    for options in ({"stride": 2, "padding": 1}, {}, {"padding": 1, "padding_mode": "circular"}):
        with pytest.raises(ValueError, match="stride 1, zero padding"):
            AttentionConvolution(nn.Conv2d(1, 1, 3, **options))


# --- bad input, other precisions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": (5, 12)}, r"x has the shape \(5, 12\); attention takes \(sequences, tokens, 12\)"),
        ({"x": (2, 5, 11)}, r"takes \(sequences, tokens, 12\)"),
        ({"context": (2, 5, 9)}, "context has the shape"),
        ({"context": (3, 5, 12)}, "x has 2 sequences, context 3"),
    ],
)
def test_tokens_of_the_wrong_shape_are_answered_with_the_right_one(arguments, message):
    given = {"x": tokens(2, 5, 12)} | {name: tokens(*shape) for name, shape in arguments.items()}
    with pytest.raises(ValueError, match=message):
        layer()(**given)


def test_masks_of_the_wrong_shape_or_type_are_answered_with_the_right_one():
    x = tokens(2, 5, 12)
    with pytest.raises(ValueError, match=r"pass bool of shape \(2, 5\), True at real tokens"):
        layer()(x, padding=torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"padding is torch\.float32"):
        layer()(x, padding=torch.ones(2, 5))
    with pytest.raises(ValueError, match=r"mask has the shape \(4, 5\).*\(5, 5\)"):
        layer()(x, mask=torch.ones(4, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"mask is torch\.int64"):
        layer()(x, mask=torch.ones(5, 5, dtype=torch.long))


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="heads=5 do not share a width of 12"):
        MultiHeadAttention(12, 5)
    with pytest.raises(ValueError, match="dropout=1"):
        MultiHeadAttention(12, 3, dropout=1)


def test_it_works_under_autocast_with_a_float_mask():
    attention = layer().float()
    bias = torch.zeros(5, 5)
    with torch.autocast("cpu", torch.bfloat16):
        z = attention(tokens(2, 5, 12).float(), mask=bias, causal=True)
    exact = attention(tokens(2, 5, 12).float(), causal=True)
    torch.testing.assert_close(z.float(), exact, rtol=0, atol=0.03)  # bfloat16 has 8 bits


def test_a_copy_and_a_functional_call_give_the_same():
    attention, x = layer(), tokens(2, 5, 12)
    z = attention(x)
    assert torch.equal(copy.deepcopy(attention)(x), z)
    weights = dict(attention.named_parameters())
    assert torch.equal(torch.func.functional_call(attention, weights, (x,)), z)
    loss = F.mse_loss(torch.func.functional_call(attention, weights, (x,)), x)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, list(weights.values())))
