"""What claims about language models compute: hashes of runs, spans, blocks, other libraries' caches."""

import numpy as np
import pytest
import torch

import lemmata
from lemmata.audit.language.models import token_losses
from lemmata.audit.language.texts import hash_runs, longest_runs, mark_copies
from lemmata.core.certificate import Fit
from lemmata.language import GPTNet


def by_hand(text, train, length):
    known = {tuple(train[i : i + length]) for i in range(len(train) - length + 1)}
    marked = np.zeros(len(text), bool)
    for i in range(len(text) - length + 1):
        if tuple(text[i : i + length]) in known:
            marked[i : i + length] = True
    return marked


@pytest.mark.parametrize("length", [1, 2, 3, 5, 13])
def test_marked_places_are_those_of_runs_that_occur(length):
    rng = np.random.default_rng(length)
    train, text = rng.integers(0, 3, 400), rng.integers(0, 3, 200)
    text[50:80] = train[100:130]
    assert np.array_equal(mark_copies(text, train, length), by_hand(text, train, length))
    hashes = hash_runs(train, length)
    assert len(hashes) == 400 - length + 1
    runs = {tuple(train[i : i + length]) for i in range(len(hashes))}
    assert len(set(hashes.tolist())) == len(runs)


def test_longest_shared_runs_are_found_up_to_the_ladder():
    rng = np.random.default_rng(0)
    train = rng.integers(0, 50, 3000)
    pieces = [rng.integers(0, 50, 200), train[10:70].copy(), train[:7].copy()]
    found = longest_runs(pieces, train)
    assert found[0] <= 6
    assert found[1:].tolist() == [50, 6]


def test_losses_of_tokens_are_those_of_whole_texts_within_the_context():
    torch.manual_seed(0)
    net = GPTNet(20, width=16, depth=1, heads=2, context=12).double()
    tokens = np.array([7, 8, 9, 2, 10, 2, 2, *range(6, 16), 2])
    found = token_losses(Fit(None, None, attributes={"module_": net}), tokens)
    start = 0
    for end in np.flatnonzero(tokens == 2) + 1:
        x = torch.from_numpy(np.concatenate([[2], tokens[start : end - 1]]))[None]
        with torch.no_grad():
            logs = torch.log_softmax(net(x), 2)[0].numpy()
        assert np.allclose(found[start:end], -logs[np.arange(end - start), tokens[start:end]])
        start = end


class Other(torch.nn.Module):
    """In the manner of Hugging Face: it returns what it remembers."""

    def __init__(self):
        super().__init__()
        self.embed, self.cell = torch.nn.Embedding(9, 8), torch.nn.GRU(8, 8, batch_first=True)

    def forward(self, tokens, past=None):
        h, past = self.cell(self.embed(tokens), past)
        return {"logits": h, "past": past}


def test_other_libraries_say_how_they_remember():
    net, tokens = Other(), torch.randint(0, 9, (3, 8))

    def step(module, tokens, past):
        found = module(tokens, past)
        return found["logits"], found["past"]

    def forgetful(module, tokens, past):
        return step(module, tokens, None)

    for one, verdict in ((step, "holds"), (forgetful, "fails")):
        found = lemmata.certify(net, tokens, properties={"cached": one})["cache_agrees"]
        assert found.verdict == verdict
        assert found.kind == ("proved" if verdict == "fails" else "rule of thumb")
    found = lemmata.certify(net, tokens, properties=("cached",))["cache_agrees"]
    assert "has no cache()" in found.note


class LikeHuggingFace(torch.nn.Module):
    """GPT-2's interface: masks and places are arguments, caches come back beside the scores."""

    def __init__(self):
        super().__init__()
        self.net = GPTNet(20, width=16, depth=2, heads=2, context=32)

    def forward(self, input_ids, attention_mask=None, position_ids=None, past_key_values=None, use_cache=False):  # fmt: skip
        cache = past_key_values or (self.net.cache() if use_cache else None)
        start = cache[0][0].length if cache else 0
        places = start + torch.arange(input_ids.shape[1])
        places = places.expand(input_ids.shape) if position_ids is None else position_ids
        x = self.net.embedding(input_ids) + self.net.positions.weight[places]
        x = self.net.decoder(x, padding=None if attention_mask is None else attention_mask.bool(), cache=cache)  # fmt: skip
        return Output(self.net.embedding.scores(x), cache)


class Output(dict):
    """As of transformers: names and a mapping."""

    def __init__(self, logits, past_key_values):
        super().__init__(logits=logits)
        self.logits, self.past_key_values = logits, past_key_values


def hugging_face_step(module, tokens, past):
    out = module(tokens, past_key_values=past, use_cache=True)
    return out.logits, out.past_key_values


def hugging_face_call(module, tokens, real):
    places = (real.long().cumsum(1) - 1).clamp(min=0)
    return module(tokens, attention_mask=real, position_ids=places).logits


def test_models_of_hugging_face_are_certified_by_their_steps_and_calls():
    torch.manual_seed(0)
    net, tokens = LikeHuggingFace().eval(), torch.randint(0, 20, (4, 12))
    asked = {"causal": {}, "cached": hugging_face_step, "batched": hugging_face_call}
    found = lemmata.certify(net, tokens, properties=asked)
    assert {"causal", "cache_agrees", "batch_agrees"} <= set(found.held)
    # its own mask alone does not move the places of a prompt that is padded on the left
    found = lemmata.certify(net, tokens, properties=("batched",))["batch_agrees"]
    assert (found.verdict, found.kind) == ("fails", "proved")
    assert "on the left" in found.advice
    right = {"batched": {"sides": ("right",), "mask": "attention_mask"}}
    assert lemmata.certify(net, tokens, properties=right)["batch_agrees"].verdict == "holds"


class Batchwise(torch.nn.Module):
    """Normalises over the batch."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(9, 8)

    def forward(self, tokens, padding=None):
        x = self.embed(tokens)
        return x - x.mean(dim=(0, 1))


def test_batches_that_change_their_rows_are_found_and_modules_without_a_mask_named():
    tokens = torch.randint(0, 9, (3, 8))
    found = lemmata.certify(Batchwise(), tokens, properties=("batched",))["batch_agrees"]
    assert found.verdict == "fails"
    found = lemmata.certify(torch.nn.Embedding(9, 8), tokens, properties=("batched",))
    assert "takes no mask of real tokens" in found["batch_agrees"].note
    net = GPTNet(20, width=16, depth=1, heads=2, context=12)
    assert lemmata.certify(net, tokens)["batch_agrees"].verdict == "holds"
    assert lemmata.certify(net, tokens[:1], properties=("batched",))["batch_agrees"].verdict == "can't tell"  # fmt: skip
    with pytest.raises(ValueError, match=r"pass argument=.* sides="):
        lemmata.certify(net, tokens, properties={"batched": {"side": "left"}})
