"""Transformers: a block is its formula, nothing later leaks, a cache changes nothing, and words are learnt to be reversed."""

import copy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lemmata.nets import (
    ClassTokenHead,
    Decoder,
    Encoder,
    EncoderDecoder,
    MeanHead,
    TokenEmbedding,
    TransformerBlock,
    ViT,
)
from lemmata.nets.attention.transformer import END, PAD, START

EXACT = {"rtol": 1e-10, "atol": 1e-11}


def seeded(make, *arguments, seed=0, **options):
    torch.manual_seed(seed)
    return make(*arguments, **options).double()


def tokens(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def words(n=5, length=7, letters=10, seed=0):
    """Random words of 1 to length − 1 letters, END behind each, then PAD."""
    g = torch.Generator().manual_seed(seed)
    w = torch.randint(END + 1, END + 1 + letters, (n, length), generator=g)
    n_letters = torch.randint(1, length, (n, 1), generator=g)
    places = torch.arange(length)
    return w.masked_fill(places == n_letters, END).masked_fill(places > n_letters, PAD)


# --- the block --------------------------------------------------------------------------------------------------------


def test_a_block_is_torchs_pre_norm_layer():
    ours = seeded(TransformerBlock, 12, 3)
    theirs = nn.TransformerEncoderLayer(
        12, 3, 48, 0.0, "gelu", batch_first=True, norm_first=True, dtype=torch.float64
    )
    pairs = (
        (theirs.norm1, ours.norm_attention),
        (theirs.self_attn.out_proj, ours.attention.project_out),
        (theirs.norm2, ours.norm_mlp),
        (theirs.linear1, ours.mlp[0]),
        (theirs.linear2, ours.mlp[2]),
    )
    with torch.no_grad():
        for one, other in pairs:
            one.load_state_dict(other.state_dict())
        theirs.self_attn.in_proj_weight.copy_(ours.attention.project_in.weight)
        theirs.self_attn.in_proj_bias.copy_(ours.attention.project_in.bias)
    x = tokens(2, 5, 12).requires_grad_()
    torch.testing.assert_close(ours(x), theirs(x), **EXACT)
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    hidden = theirs(x, src_key_padding_mask=~real)
    torch.testing.assert_close(ours(x, padding=real)[real], hidden[real], **EXACT)


def test_a_block_reads_memory_exactly_if_built_for_it():
    x, memory = tokens(2, 5, 12), tokens(2, 4, 12, seed=2)
    block = seeded(TransformerBlock, 12, 3, cross=True)
    changed = memory.clone()
    changed[:, 3] += 1
    real = torch.tensor([[True, True, True, False]] * 2)
    assert not torch.allclose(block(x, memory), block(x, changed))
    torch.testing.assert_close(
        block(x, memory, memory_padding=real), block(x, changed, memory_padding=real), **EXACT
    )
    with pytest.raises(ValueError, match="pass the memory"):
        block(x)
    with pytest.raises(ValueError, match="build it with cross=True"):
        TransformerBlock(12, 3).double()(x, memory)


@pytest.mark.parametrize("kind", ["mean", "class"])
def test_an_encoder_without_positions_is_equivariant_and_its_heads_are_invariant(kind):
    encoder = seeded(Encoder, 12, 2, 3)
    x, order = tokens(2, 6, 12), [3, 0, 5, 1, 4, 2]
    torch.testing.assert_close(encoder(x)[:, order], encoder(x[:, order]), **EXACT)
    head = seeded(MeanHead if kind == "mean" else ClassTokenHead, 12, 4)
    results = [head(encoder(head.prepare(rows)[0])) for rows in (x, x[:, order])]
    torch.testing.assert_close(*results, **EXACT)


@pytest.mark.parametrize("kind", [MeanHead, ClassTokenHead])
def test_heads_leave_padding_out(kind):
    encoder, head = seeded(Encoder, 12, 2, 3), seeded(kind, 12, 4)
    x, real = tokens(2, 6, 12), torch.tensor([[True] * 6, [True] * 2 + [False] * 4])

    def answer(x, padding=None):
        rows, padding = head.prepare(x, padding)
        return head(encoder(rows, padding=padding), padding)

    torch.testing.assert_close(answer(x, real)[1], answer(x[1:, :2])[0], **EXACT)
    torch.testing.assert_close(answer(x, real)[0], answer(x)[0], **EXACT)


# --- causality, at every place ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("cross", [False, True])
def test_nothing_later_leaks_into_a_decoder(cross, training):
    decoder = seeded(Decoder, 12, 2, 3, dropout=0.2, cross=cross).train(training)
    x, memory = tokens(2, 7, 12), tokens(2, 4, 12, seed=2) if cross else None

    def run(x):
        torch.manual_seed(3)  # the same units are dropped
        return decoder(x, memory)

    before = run(x)
    for place in range(7):
        changed = x.clone()
        changed[:, place:] = tokens(2, 7 - place, 12, seed=9)
        after = run(changed)
        assert torch.equal(after[:, :place], before[:, :place])
        assert (after[:, place] != before[:, place]).any(dim=-1).all()


def test_gradients_of_an_output_reach_every_earlier_token_and_no_later_one():
    decoder, x = seeded(Decoder, 12, 2, 3), tokens(1, 6, 12).requires_grad_()
    for place in range(6):
        (g,) = torch.autograd.grad(decoder(x)[0, place].pow(2).sum(), x)
        reached = g[0].abs().sum(dim=1) > 0
        assert reached.tolist() == [i <= place for i in range(6)]


# --- the cache --------------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.booleans())
def test_decoding_with_a_cache_equals_recomputation(portions, cross):
    decoder = seeded(Decoder, 12, 2, 3, cross=cross).eval()
    x, memory = tokens(2, sum(portions), 12), tokens(2, 4, 12, seed=2) if cross else None
    cache = decoder.cache()
    with torch.no_grad():
        parts = [decoder(part, memory, cache=cache) for part in x.split(portions, dim=1)]
        torch.testing.assert_close(torch.cat(parts, 1), decoder(x, memory), **EXACT)


def test_padding_with_a_cache_covers_the_tokens_seen_before():
    decoder, x = seeded(Decoder, 12, 1, 3), tokens(2, 5, 12)
    real = torch.tensor([[True] * 5, [False, False, True, True, True]])  # padded on the left
    cache = decoder.cache()
    with torch.no_grad():
        for t in range(5):
            last = decoder(x[:, t : t + 1], padding=real[:, : t + 1], cache=cache)[:, 0]
        torch.testing.assert_close(last, decoder(x, padding=real)[:, -1], **EXACT)
        torch.testing.assert_close(last[1], decoder(x[1:, 2:])[0, -1], **EXACT)


@settings(max_examples=10)
@given(st.integers(0, 999))
def test_greedy_decoding_is_the_same_with_and_without_cache_and_follows_the_scores(seed):
    net = seeded(EncoderDecoder, 13, 16, 2, 2, max_length=8, seed=seed).eval()
    source = words(seed=seed)
    written = net.greedy(source)
    assert torch.equal(written, net.greedy(source, cache=False))
    start = torch.full((len(source), 1), START)
    scores = net(source, torch.cat([start, written[:, :-1]], dim=1))
    before_end = (written == END).cumsum(1) - (written == END).int() == 0
    assert torch.equal(scores.argmax(-1)[before_end], written[before_end])
    assert (written[~before_end] == PAD).all()


# --- the encoder and decoder together ---------------------------------------------------------------------------------


def test_the_loss_is_the_mean_of_minus_log_p_over_real_tokens():
    net = seeded(EncoderDecoder, 13, 16, 1, 2, max_length=8)
    source, target = words(), words(seed=1)
    total, count = 0.0, 0
    for row, answer in zip(source, target, strict=True):
        n = int((answer != PAD).sum())
        for t in range(n):
            written = torch.cat([torch.tensor([START]), answer[:t]])
            total -= F.log_softmax(net(row[None], written[None])[0, -1], -1)[answer[t]]
        count += n
    torch.testing.assert_close(net.loss(source, target).mean(), total / count, **EXACT)


def test_padding_of_the_source_changes_nothing():
    net = seeded(EncoderDecoder, 13, 16, 2, 2, max_length=12, positions="sinusoidal").eval()
    source, target = words(), words(seed=1)
    longer = F.pad(source, (0, 5), value=PAD)
    torch.testing.assert_close(
        net.loss(source, target).losses, net.loss(longer, target).losses, **EXACT
    )
    assert torch.equal(net.greedy(source), net.greedy(longer))


def test_words_are_learnt_to_be_reversed_and_new_ones_come_out_right():
    from lemmata.atlas.nets.attention import random_words, reversing_net

    net = reversing_net()
    source, target = random_words(300, seed=1_000)  # beside those it was trained on
    written = net.greedy(source, target.shape[1])
    right = (written == target).all(dim=1)
    assert right.all(), f"{int(right.sum())} of 300 words"


def test_embeddings_are_tied_and_start_with_variance_one():
    embedding = seeded(TokenEmbedding, 500, 64)
    rows = embedding(torch.arange(500)[None])
    assert rows.var().item() == pytest.approx(1, abs=0.05)  # 32,000 numbers: the deviation is 0.008
    scores = embedding.scores(F.layer_norm(tokens(1, 200, 64), (64,)))
    assert scores.var().item() == pytest.approx(1, abs=0.1)
    (gradient,) = torch.autograd.grad(embedding.scores(rows).sum(), embedding.weight)
    assert gradient.shape == (500, 64)
    assert [name for name, _ in embedding.named_parameters()] == ["weight"]


# --- the vision transformer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", ["mean", "class"])
def test_a_vit_works_on_patches(head):
    net = seeded(ViT, (2, 8, 12), 5, patch_size=4, width=12, depth=1, heads=3, head=head)
    x = tokens(3, 2, 8, 12)
    y = net(x)
    assert y.shape == (3, 5)
    patch = x[0, :, 4:8, 8:12].flatten()  # the last of the six
    embedded = net.patches.weight.flatten(1) @ patch + net.patches.bias
    torch.testing.assert_close(net.patches(x)[0].flatten(1)[:, 5], embedded, **EXACT)
    swapped = torch.cat([x[:, :, 4:], x[:, :, :4]], dim=2)  # the rows of patches change places
    assert not torch.allclose(net(swapped), y)
    with torch.no_grad():
        net.positions.weight.zero_()
    torch.testing.assert_close(net(swapped), net(x), **EXACT)


@pytest.mark.parametrize(
    "net",
    [
        ViT((1, 8, 8), 3, width=16, depth=1, heads=2),
        Encoder(16, 1, 2),
        Decoder(16, 1, 2, cross=True),
        EncoderDecoder(13, 16, 1, 2),
    ],
    ids=lambda net: type(net).__name__,
)
def test_a_net_can_be_built_again_from_its_config(net):
    again = type(net)(**net.config)
    assert {k: v.shape for k, v in again.state_dict().items()} == {
        k: v.shape for k, v in net.state_dict().items()
    }
    again.load_state_dict(copy.deepcopy(net).state_dict())


# --- bad input --------------------------------------------------------------------------------------------------------


def test_images_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="5 × 5 do not tile images of 28 × 28"):
        ViT((1, 28, 28), 10, patch_size=5)
    with pytest.raises(ValueError, match=r"input_shape=\(784,\).*channels, height, width"):
        ViT((784,), 10)
    with pytest.raises(ValueError, match="head='cls' is unknown; pass one of class, mean"):
        ViT((1, 28, 28), 10, head="cls")
    with pytest.raises(ValueError, match=r"\(2, 28, 28, 1\).*built for \(images, 1, 28, 28\)"):
        ViT((1, 28, 28), 10)(torch.zeros(2, 28, 28, 1))


def test_tokens_that_do_not_fit_are_refused():
    net = EncoderDecoder(13, 16, 1, 2, max_length=6)
    with pytest.raises(ValueError, match="tokens from 3 to 13; this network knows 0 to 12"):
        net.greedy(torch.tensor([[3, 13]]))
    with pytest.raises(ValueError, match="target has tokens from -1"):
        net(words(length=6), torch.full((5, 2), -1))
    with pytest.raises(ValueError, match="pass whole numbers"):
        net.greedy(torch.ones(1, 2))
    with pytest.raises(ValueError, match="7 tokens, the positions were built for 6"):
        net.greedy(words())
    with pytest.raises(ValueError, match=r"shape \(7,\); pass \(sequences, tokens\)"):
        net.greedy(words()[0])
    with pytest.raises(ValueError, match="n_tokens=3"):
        EncoderDecoder(3)
    with pytest.raises(ValueError, match="'rotary' is unknown; pass 'learned' or 'sinusoidal'"):
        EncoderDecoder(13, positions="rotary")
