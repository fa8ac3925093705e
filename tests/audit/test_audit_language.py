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
