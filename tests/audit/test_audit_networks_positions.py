"""Causality, padding, permutations and shifts: every planted leak is a proof, every healthy module holds."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import lemmata  # noqa: E402
from lemmata.audit.nets.dependence import PROPERTIES  # noqa: E402
from lemmata.audit.nets.modules import Examples  # noqa: E402
from lemmata.core import Fit  # noqa: E402
from lemmata.nets import Decoder, EncoderDecoder, MultiHeadAttention  # noqa: E402
from lemmata.nets.certifying import requested_properties  # noqa: E402

T = 7
TOKENS = torch.randn(3, T, 8, generator=torch.Generator().manual_seed(0))
MASK = torch.ones(T, T, dtype=torch.bool).triu(1)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


class Masked(nn.Module):
    def __init__(self, mask, in_training=None):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.masks = mask, mask if in_training is None else in_training

    def forward(self, x):
        return self.layer(x, src_mask=self.masks[self.training])


def judged(net, X, properties, name=None):
    """The claim about one property, without the others."""
    name = name or properties
    (claim,) = (one for one in PROPERTIES.values() if one.name == name)
    if not isinstance(X, Examples):
        X = (
            Examples((), X)
            if isinstance(X, dict)
            else Examples(X if isinstance(X, tuple) else (X,))
        )
    requested = requested_properties(net, X, properties)
    fit = Fit(SimpleNamespace(), X, attributes={"module_": net, "properties": requested})
    return claim(fit)


def verdict(net, X, properties, name=None):
    found = judged(net, X, properties, name)
    assert found.kind == ("proved" if found.verdict == "fails" else "rule of thumb")
    return found.verdict


def leaking(at):
    mask = MASK.clone()
    mask[at, at + 1] = False
    return mask


@pytest.mark.parametrize("at", [0, 3, T - 2])
def test_a_leak_at_one_position_is_found_in_either_mode(at):
    assert verdict(Masked(leaking(at)), TOKENS, "causal") == "fails"
    assert verdict(Masked(MASK, in_training=leaking(at)), TOKENS, "causal") == "fails"
    assert verdict(Masked(leaking(at), in_training=MASK), TOKENS, "causal") == "fails"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_triangle_holds_and_says_how_much_was_tried(dtype):
    found = judged(Masked(MASK).to(dtype), TOKENS, ("causal",), "causal")
    assert found.verdict == "holds"
    assert found.note == f"{2 * 2 * (T - 1)} changes tried, all {T} positions, {len(TOKENS)} rows"


def test_our_decoder_is_causal_and_attention_is_if_it_is_told_so():
    assert verdict(Decoder(8, 1, 2), TOKENS, None, "causal") == "holds"  # the class declares it
    layer = MultiHeadAttention(8, 2)
    assert verdict(layer, TOKENS, "causal") == "fails"
    declared = {"x": TOKENS, "causal": True}  # by the call
    assert verdict(layer, declared, None, "causal") == "holds"


def test_the_argument_that_positions_belong_to_can_be_named():
    source, written = torch.randint(3, 9, (3, 5)), torch.randint(3, 9, (3, T))
    net = EncoderDecoder(9, width=8, depth=1, heads=2)
    asked = {"causal": {"argument": 1}}
    assert verdict(net, (source, written), asked, "causal") == "holds"
    with pytest.raises(KeyError, match="causal"):
        lemmata.certify(net, (source, written))["causal"]


def test_modules_declare_what_they_are():
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 2)

        def forward(self, x):
            return self.linear(x + x.mean(dim=1, keepdim=True))

    net = Mean()
    net.declares = ("causal",)
    assert lemmata.certify(net, TOKENS)["causal"].verdict == "fails"


@pytest.mark.parametrize(
    ("net", "X", "why"),
    [
        (nn.Linear(8, 4), TOKENS, "nothing could leak yet"),
        (nn.Sequential(nn.Flatten(), nn.Linear(8 * T, 2)), TOKENS, "no axis 1 of the 7 positions"),
        (nn.Embedding(5, 8), torch.zeros(3, T, dtype=torch.long), "nothing could leak yet"),
        (nn.Embedding(1, 8), torch.zeros(3, T, dtype=torch.long), "at least two different ones"),
    ],
)
def test_what_could_not_show_a_leak_is_not_called_causal(net, X, why):
    found = judged(net, X, "causal")
    assert found.verdict == "can't tell"
    assert why in found.note


def test_zero_weights_do_not_hide_a_leak():
    net = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    gru = nn.GRU(8, 8, batch_first=True)
    nn.init.zeros_(net.self_attn.out_proj.weight)

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.gru = net, gru

        def forward(self, x):
            return self.gru(self.net(x))[0]

    found = judged(Both(), TOKENS, "causal")
    assert found.verdict == "can't tell"
    assert "out_proj.weight are learned" in found.note


def test_batch_norm_over_positions_leaks_in_training_mode():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru, self.norm = nn.GRU(8, 8, batch_first=True), nn.BatchNorm1d(8)

        def forward(self, x):
            return self.norm(self.gru(x)[0].transpose(1, 2)).transpose(1, 2)

    found = judged(Normed(), TOKENS, "causal")
    assert found.verdict == "fails"
    assert "in training mode" in found.advice


def test_padding_stays_out_if_every_layer_is_told_of_it():
    real = torch.arange(T) < torch.tensor([[3], [5], [T]])
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    assert verdict(layer, {"src": TOKENS, "src_key_padding_mask": ~real}, "padding", "padding_ignored") == "holds"  # fmt: skip
    own = MultiHeadAttention(8, 2)
    assert verdict(own, {"x": TOKENS, "padding": real}, "padding", "padding_ignored") == "holds"

    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x, padding):
            return self.layer(x, src_key_padding_mask=~padding).mean(1)

    assert verdict(Mean(), {"x": TOKENS, "padding": real}, "padding", "padding_ignored") == "fails"
    found = judged(layer, TOKENS, "padding", "padding_ignored")
    assert found.verdict == "can't tell"


def test_attention_has_no_order_and_a_recurrent_network_has():
    name = "permutation_equivariant"
    assert verdict(MultiHeadAttention(8, 2), TOKENS, name) == "holds"
    assert verdict(nn.GRU(8, 8, batch_first=True), TOKENS, name) == "fails"
    assert verdict(Masked(MASK), TOKENS, name) == "fails"


def test_convolutions_shift_and_dense_layers_do_not():
    name, X = "shift_equivariant", torch.randn(2, 1, 16, 16)
    stack = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 2, 3, padding=1))  # fmt: skip
    assert verdict(stack, X, name) == "holds"
    assert verdict(nn.Conv1d(1, 2, 5), torch.randn(3, 1, 20), name) == "holds"
    dense = nn.Sequential(nn.Flatten(), nn.Linear(256, 256), nn.Unflatten(1, (1, 16, 16)))
    assert judged(dense, X, name).verdict == "can't tell"

    class Place(nn.Module):
        def forward(self, x):
            return x * torch.arange(16, dtype=x.dtype)

    assert verdict(Place(), X, name) == "fails"


def test_states_and_caches_as_long_as_the_rows_are_no_leak():
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRU(8, 8, batch_first=True)

        def forward(self, x):
            h, state = self.cell(x)
            return h, state, h.repeat_interleave(T, 2).unflatten(2, (8, T)).permute(0, 3, 1, 2)

    assert judged(Cached(), torch.randn(T, T, 8), ("causal",), "causal").verdict == "holds"
