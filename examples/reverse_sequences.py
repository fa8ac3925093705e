"""A transformer learns to write words backwards: teacher forcing, greedy decoding, and where it looks.

./run py examples/reverse_sequences.py
"""

from functools import partial

import numpy as np
import torch

from lemmata.nets import EncoderDecoder, Training, attention_maps, objective, train
from lemmata.nets.attention.transformer import END, PAD, START

LONGEST, LETTERS = 5, 8


def words(n, seed):
    """Words of one to five letters, and the same ones backwards; END behind each, then PAD."""
    rng, place = np.random.default_rng(seed), np.arange(LONGEST + 1)
    letters = rng.integers(END + 1, END + 1 + LETTERS, (n, LONGEST + 1))
    size = rng.integers(1, LONGEST + 1, (n, 1))
    rest = np.where(place == size, END, PAD)
    backwards = np.take_along_axis(letters, np.maximum(size - 1 - place, 0), axis=1)
    return np.where(place < size, letters, rest), np.where(place < size, backwards, rest)


def spelled(tokens):
    return "".join("_^$abcdefgh"[token] for token in tokens).rstrip("_")


@objective
def teacher_forcing(net, batch, rng):
    return net.loss(*batch)


net = partial(
    EncoderDecoder,
    END + 1 + LETTERS,
    width=64,
    depth=1,
    heads=4,
    hidden=128,
    max_length=LONGEST + 1,
)
training = Training(
    net,
    teacher_forcing,
    learning_rate=4e-3,
    schedule="one_cycle",
    epochs=1,
    batch_size=64,
    clip=1.0,
)
solution = train(training, words(64 * 200, seed=0), epochs=1, rng=0)
net = solution.attributes["module_"]
print(f"{sum(p.numel() for p in net.parameters()):,} weights, {solution.trace.elapsed:.1f} s")

source, target = map(torch.as_tensor, words(1000, seed=1))
written = net.greedy(source, LONGEST + 1)
for word, answer in zip(source[:3], written, strict=False):
    print(f"{spelled(word):>9} → {spelled(answer)}")
right = int((written == target).all(dim=1).sum())
print(f"{right:,} of 1,000 new words are reversed without a mistake")
print(
    f"the same without a cache: {torch.equal(written, net.greedy(source, LONGEST + 1, cache=False))}"
)

start = torch.full_like(target[:1, :1], START)
maps = attention_maps(net, source[:1], torch.cat([start, target[:1, :-1]], dim=1))
looked_at = maps["decoder.blocks.0.cross"].mean(dim=1)[0].argmax(dim=-1)
print(f"places it looked at for {spelled(source[0])}: {looked_at.tolist()}")
