"""Certify language models: a cache with a slip, test text in the training text, samples that recite.

./run py examples/certify_a_language_model.py
"""

import numpy as np
import torch

import lemmata
from lemmata import NGram
from lemmata.language import GPTNet

# A network of anybody's: the same scores token by token as all at once? `step` says how its cache is used.
torch.manual_seed(0)
net, tokens = GPTNet(50, width=32, depth=2, heads=4, context=32), torch.randint(0, 50, (4, 32))


def step(module, tokens, past):
    past = module.cache() if past is None else past
    return module(tokens, cache=past), past


def forgetful(module, tokens, past):
    """Positions of later tokens begin at 0 again: the cache is not asked how much it holds."""
    scores, past = step(module, tokens, past)
    for own, _ in past:
        own.length -= len(tokens[0]) // 2
    return scores, past


for name, one in (("step", step), ("forgetful", forgetful)):
    found = lemmata.certify(net, tokens, properties={"cached": one})
    print(f"{name}: cache_agrees {found['cache_agrees'].verdict}")

# Test text that was trained on: the perplexity is splendid, and a claim says why.
rng = np.random.default_rng(0)
words = ["".join(rng.choice(list("aeioubcdlmnrst"), rng.integers(2, 8))) for _ in range(800)]
text, test = (" ".join(rng.choice(words, 4000)) for _ in range(2))
honest, leaked = NGram(8, test_fraction=0), NGram(8, test_fraction=0)
honest.fit([text])
leaked.fit([text, test])
for name, model, train in (("honest", honest, [text]), ("leaked", leaked, [text, test])):
    found = model.certify(train, X_test=[test], seconds=60)
    print(f"{name}: {model.perplexity([test])['character']:.2f} per character, held_out_unseen", end=" ")  # fmt: skip
    print(f"{found['held_out_unseen'].verdict}")
