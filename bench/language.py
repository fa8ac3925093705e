"""Language models: ./run bench language, or python -m bench.language PART [--minutes M]

    ngrams       nats per character of tiny Shakespeare (last tenth), perplexity per word of WikiText-2's test set: 239 in 6 s
    shakespeare  GPT 4 × 128 in M minutes (6): 1.75 wanted; 1.60 in 60; counting has 1.517
    words        WikiText-2 per word, <eos> each line, GPT in M minutes (60), and torch's LSTM of equal size and time
    sampling     200 tokens, batches of 1 and 8: with cache against without (5x, 10x), and Hugging Face's generate
    overhead     an epoch of GPT against the loop by hand (≤ 3 %)

Settings were chosen on training text alone. Seconds and minutes are of CPU, one process; two idle cores give two in one.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from lemmata import GPT, NGram, config
from lemmata.data import tiny_shakespeare, wikitext_2
from lemmata.language import GPTNet, Words
from lemmata.language.corpus import Corpus
from lemmata.language.gpt import CachedStep

# updates of few windows learn more in minutes than large ones
FAST = {"context": 64, "batch_size": 12, "random_state": 0}


def timed(work):
    """What some work gives, its seconds and its CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    return work(), time.perf_counter() - wall, time.process_time() - cpu


def ngrams() -> None:
    text = tiny_shakespeare().texts
    with config(certificate=False):
        for order in (5, 6, 7):
            model, _, cpu = timed(lambda order=order: NGram(order).fit(text))
            print(f"Shakespeare, {order}-grams: {model.test_loss_:.4f} nats per character, {cpu:.1f} s of CPU")  # fmt: skip
        words = NGram(5, tokens=Words(), test_fraction=0)
        _, _, cpu = timed(lambda: words.fit(wikitext_2().texts))
        found, _, more = timed(lambda: words.perplexity(wikitext_2("test").texts))
    print(f"WikiText-2, 5-grams: {found['token']:.1f} per word; {cpu:.1f} s of CPU, {more:.1f} to judge")  # fmt: skip


def epochs_for(model: GPT, tokens: int, minutes: float) -> int:
    """The number of epochs that fit into some minutes of CPU, by the time of 20 updates."""
    net = GPTNet(len(model.tokens_), model.width, model.depth, model.heads, model.context)
    x = torch.randint(6, len(model.tokens_), (model.batch_size, model.context))
    optimizer = torch.optim.AdamW(net.parameters())

    def update():
        optimizer.zero_grad()
        net.loss(x, x).mean().backward()
        optimizer.step()

    update()
    begin = time.process_time()
    for _ in range(20):
        update()
    per_token = (time.process_time() - begin) / (20 * x.numel())
    print(f"  {1 / per_token:,.0f} tokens per second of CPU")
    return max(1, int(60 * minutes / (per_token * tokens)))


def shakespeare(minutes: float = 6.0) -> None:
    text = tiny_shakespeare().texts
    with config(certificate=False):
        model = GPT(**FAST)
        data = model._validate_rows(text)
        model.set_params(max_iter=epochs_for(model, data.n_tokens, minutes))
        _, _, cpu = timed(lambda: model.fit(text))
    print(f"Shakespeare, {model.max_iter} epochs in {cpu:.0f} s of CPU: {model.test_loss_:.3f} nats", flush=True)  # fmt: skip
    claim = model.certify(text, seconds=600)["beats_ngrams"]
    print(f"  beats_ngrams {claim.verdict}: {claim.numbers} ({claim.note})")


class LSTM(nn.Module):
    """torch's LSTM with a tied table, of about as many weights as the transformer."""

    def __init__(self, n_tokens: int, width: int, depth: int):
        super().__init__()
        self.table = nn.Embedding(n_tokens, width)
        self.layers = nn.LSTM(width, width, depth, batch_first=True)
        nn.init.normal_(self.table.weight, std=width**-0.5)

    def forward(self, x):
        return F.linear(self.layers(self.table(x) * self.table.embedding_dim**0.5)[0], self.table.weight)  # fmt: skip


def train_lstm(corpus: Corpus, seconds: float, length: int = 64, rows: int = 12) -> LSTM:
    torch.manual_seed(0)
    net, rng = LSTM(len(corpus.coder), 128, 6), np.random.default_rng(0)
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.01)
    begin, stream = time.process_time(), corpus.stream()
    while (done := (time.process_time() - begin) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * 0.5 * (1 + math.cos(math.pi * done))
        at = rng.integers(len(stream) - length - 1, size=rows)
        windows = torch.from_numpy(stream[at[:, None] + np.arange(length + 1)]).long()
        loss = F.cross_entropy(net(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    return net.eval()


def words(minutes: float = 60.0) -> None:
    train, test = wikitext_2().texts, wikitext_2("test").texts
    with config(certificate=False):
        model = GPT(**FAST, tokens=Words(), test_fraction=0.0, dropout=0.1)
        data = model._validate_rows(train)
        model.set_params(max_iter=epochs_for(model, data.n_tokens, minutes))
        _, _, cpu = timed(lambda: model.fit(train))
    found = model.perplexity(test)
    print(f"WikiText-2, GPT, {model.max_iter} epochs in {cpu:.0f} s of CPU: {found['token']:.1f} per word")  # fmt: skip
    net, corpus = train_lstm(data, cpu), Corpus.of(test, model.tokens_)
    stream, total = torch.from_numpy(corpus.stream()).long(), 0.0
    with torch.no_grad():
        for at in range(0, len(stream) - 1, 512):
            part = stream[max(0, at - 64) : at + 513]
            counted = min(512, len(stream) - 1 - at)
            scores = net(part[None, :-1])[0, -counted:]
            total += float(F.cross_entropy(scores, part[-counted:], reduction="sum"))
    print(f"WikiText-2, torch's LSTM of as long: {math.exp(total / (len(stream) - 1)):.1f} per word")  # fmt: skip


def draw_cached(net, tokens) -> None:
    step = CachedStep(net)
    for _ in range(200):
        tokens = step.feed(tokens).argmax(axis=1)[:, None]


def draw_without(net, tokens) -> None:
    seen = torch.from_numpy(tokens)
    with torch.no_grad():
        for _ in range(200):
            seen = torch.cat([seen, net(seen)[:, -1].argmax(1)[:, None]], dim=1)


def sampling() -> None:
    torch.manual_seed(0)
    net = GPTNet(71, context=256).eval()
    for rows in (1, 8):
        tokens = np.full((rows, 1), 2)
        times = [
            [timed(lambda f=f, t=tokens: f(net, t))[2] for f in (draw_cached, draw_without)]
            for _ in range(3)
        ]  # fmt: skip
        ours, naive = np.min(times, axis=0)
        print(f"200 tokens, batch {rows}: {ours:.2f} s of CPU, {naive / ours:.1f}x faster than without cache")  # fmt: skip
        generate(rows, ours)


def generate(rows: int, ours: float) -> None:
    """Hugging Face's generate, where it is installed."""
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ModuleNotFoundError:
        return print("  transformers is not installed: no generate to compare with")
    sizes = GPT2Config(vocab_size=71, n_positions=256, n_embd=128, n_layer=4, n_head=4)
    theirs = GPT2LMHeadModel(sizes).eval()
    first = torch.full((rows, 1), 2)
    options = {"max_new_tokens": 200, "do_sample": False, "min_new_tokens": 200, "pad_token_id": 0}
    cpu = min(timed(lambda: theirs.generate(first, **options))[2] for _ in range(3))
    print(f"  {cpu / ours:.1f}x faster than generate")


def overhead(tokens: int = 200_000) -> None:
    text = [tiny_shakespeare().texts[0][:tokens]]
    model = GPT(**FAST, max_iter=1, test_fraction=0.0)
    ratios = []
    for _ in range(3):
        with config(certificate=False):
            _, _, fit = timed(lambda: model.fit(text))
            _, _, judged = timed(lambda: model._token_losses(model._read(text), 2**15))
        _, _, hand = timed(lambda: by_hand(model, text))
        ratios.append((fit - judged) / hand)
    more = 100 * (np.median(ratios) - 1)
    print(f"an epoch of {tokens:,} characters against the loop by hand: {more:+.1f} % of CPU")


def by_hand(model: GPT, text: list[str]) -> None:
    stream = Corpus.of(text, model.tokens_).stream()
    torch.manual_seed(0)
    net = GPTNet(len(model.tokens_), context=64)
    decayed = [p for p in net.parameters() if p.dim() > 1]
    others = [p for p in net.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}], lr=2e-3
    )  # fmt: skip
    order = np.random.default_rng(0).permutation((len(stream) - 64) // 64) * 64
    for at in range(0, len(order), 12):
        some = torch.from_numpy(stream[order[at : at + 12, None] + np.arange(65)]).long()
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(some[:, :-1]).flatten(0, 1), some[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        loss.item()


PARTS = {"ngrams": ngrams, "shakespeare": shakespeare, "words": words, "sampling": sampling, "overhead": overhead}  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.language", description=__doc__)
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="by default all but words")
    parser.add_argument("--minutes", type=float, help="of training")
    asked = parser.parse_args([] if arguments is None else arguments)
    for name in asked.part or [one for one in PARTS if one != "words"]:
        timed_part = name in ("shakespeare", "words") and asked.minutes is not None
        PARTS[name](asked.minutes) if timed_part else PARTS[name]()


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
