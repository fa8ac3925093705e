"""Language models: ./run bench language, or python -m bench.language PART [--minutes M] [--set width=192 …]

    ngrams       nats per character of tiny Shakespeare (last tenth), perplexity per word of WikiText-2's test set: 239 in 6 s
    shakespeare  GPT in M minutes (6): 1.75 wanted; 1.60 in 60; counting has 1.517, and beats_ngrams on the way
    words        WikiText-2 per word, <eos> each line, GPT on byte pairs in M minutes (60); --peer: torch's LSTM on the same
    sampling     200 tokens, batches of 1 and 8: with cache against without (5x, 10x), and Hugging Face's generate
    overhead     an epoch of GPT against the loop by hand (≤ 3 %)

--slope judges on text kept for choosing: the end of Shakespeare's training text, WikiText-2's validation text. Nothing was
chosen on test text. Seconds and minutes are of CPU, one process; two idle cores give two in one.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from lemmata import GPT, NGram, config
from lemmata.audit.kernel.claims import Fit
from lemmata.audit.language.models import beats_ngrams
from lemmata.audit.language.ngrams import best_ngram
from lemmata.data import tiny_shakespeare, wikitext_2
from lemmata.language import BytePairs, GPTNet, Words
from lemmata.language.corpus import Corpus, split_texts
from lemmata.language.gpt import CachedStep

# updates of few windows learn more in minutes than large ones
FAST = {"context": 64, "batch_size": 12, "random_state": 0}
PIECES = {
    "tokens": BytePairs(4000), "width": 256, "context": 128, "batch_size": 8, "dropout": 0.1,
    "precision": "bfloat16", "test_fraction": 0.0, "random_state": 0,
}  # fmt: skip


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
    net = GPTNet(len(model.tokens_), model.width, model.depth, model.heads, model.context, model.dropout)  # fmt: skip
    x = torch.randint(6, len(model.tokens_), (model.batch_size, model.context))
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)

    def update():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=model.precision == "bfloat16"):
            loss = net.loss(x, x).mean()
        loss.backward()
        optimizer.step()

    update()
    begin = time.process_time()
    for _ in range(20):
        update()
    per_token = (time.process_time() - begin) / (20 * x.numel())
    print(f"  {1 / per_token:,.0f} tokens per second of CPU", flush=True)
    return max(1, round(60 * minutes / (per_token * tokens)))


class Curve:
    """Print what a run reaches after so many minutes of CPU each; the time of judging does not count."""

    def __init__(self, judge, every: float):
        self.judge, self.every, self.judging, self.due = judge, 60 * every, 0.0, 60 * every
        self.begin = time.process_time()

    @property
    def seconds(self) -> float:
        return time.process_time() - self.begin - self.judging

    def __call__(self, solution) -> None:
        if (now := self.seconds) >= self.due:
            net = getattr(solution, "attributes", {"module_": solution})["module_"]
            found, _, cpu = timed(lambda: self.judge(net))
            print(f"  {now / 60:5.1f} minutes: {found}", flush=True)
            self.judging, self.due = self.judging + cpu, self.due + self.every


def shakespeare(minutes: float = 6.0, slope: bool = False, **settings) -> None:
    text = tiny_shakespeare().texts
    text = split_texts(text, 0.1)[0] if slope else text  # judged on the end of the training text
    with config(certificate=False):
        model = GPT(**{**FAST, **settings})
        data = model._validate_rows(text)
        counted: dict = {}

        def judge(net) -> str:
            fit = Fit(None, data, attributes={"module_": net, "tokens_": model.tokens_})
            fit.facts.update(counted)
            found = beats_ngrams.check(fit)
            counted.update({best_ngram: fit.facts[best_ngram]})
            return f"beats_ngrams {found.verdict}, {found.measured:.3g}; {found.note}"

        model.set_params(max_iter=epochs_for(model, data.n_tokens, minutes))
        curve = Curve(judge, minutes / 5)
        model.set_params(callbacks=[curve])
        model.fit(text)
    print(f"Shakespeare, {model.max_iter} epochs in {curve.seconds:.0f} s of CPU: {judge(model.module_)}")  # fmt: skip


class LSTM(nn.Module):
    """torch's LSTM with a tied table, of about as many weights as the transformer."""

    def __init__(self, n_tokens: int, width: int = 400, depth: int = 2, dropout: float = 0.1):
        super().__init__()
        self.table, self.dropout = nn.Embedding(n_tokens, width), nn.Dropout(dropout)
        self.layers = nn.LSTM(width, width, depth, batch_first=True, dropout=dropout)
        nn.init.normal_(self.table.weight, std=width**-0.5)

    def forward(self, x, past=None):
        z, past = self.layers(self.dropout(self.table(x) * self.table.embedding_dim**0.5), past)
        return F.linear(self.dropout(z), self.table.weight), past


def train_lstm(
    stream, n_tokens, seconds, curve, rate: float, length: int = 64, rows: int = 16
) -> LSTM:
    """As many rows of consecutive text side by side, which keep their state from update to update."""
    torch.manual_seed(0)
    net, rng = LSTM(n_tokens), np.random.default_rng(0)
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=0.01, fused=True)
    print(f"  {sum(w.numel() for w in net.parameters()):,} weights in the LSTM", flush=True)
    at = size = 0
    while (done := curve.seconds / seconds) < 1:
        if at + length >= size:  # another epoch, cut elsewhere
            rolled = np.roll(stream, rng.integers(len(stream)))
            side = torch.from_numpy(rolled[: len(rolled) // rows * rows].reshape(rows, -1)).long()
            at, size, past = 0, side.shape[1], None
        for group in optimizer.param_groups:
            group["lr"] = rate * min(done / 0.02, 0.5 * (1 + math.cos(math.pi * done)))
        x, y = side[:, at : at + length], side[:, at + 1 : at + length + 1]
        with torch.autocast("cpu", torch.bfloat16):
            scores, past = net(x, past)
        past = tuple(one.detach() for one in past)
        loss = F.cross_entropy(scores.float().flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        at += length
        curve(net)
    return net.eval()


def lstm_nats(net: LSTM, stream, rows: int = 64, before: int = 128) -> float:
    """Sum of −ln P of a text: pieces side by side, each after so many tokens that do not count."""
    size = -(-(len(stream) - 1) // rows)
    full = np.concatenate([np.full(before, stream[0]), stream, np.full(rows * size + 1 - len(stream), -100)])  # fmt: skip
    side = torch.from_numpy(full[np.arange(rows)[:, None] * size + np.arange(before + size + 1)]).long()  # fmt: skip
    net.eval()
    total, past = 0.0, None
    with torch.no_grad():
        for at in range(0, before + size, 128):
            x, y = side[:, at : min(at + 128, before + size)], side[:, at + 1 : at + 129]
            scores, past = net(x.clamp_min(0), past)
            skip = min(max(before - at, 0), x.shape[1])
            scores, y = scores[:, skip:].flatten(0, 1), y[:, skip:].flatten()
            total += float(F.cross_entropy(scores, y, reduction="sum", ignore_index=-100))
    net.train()
    return total


def words(minutes: float = 60.0, slope: bool = False, peer: bool = False, **settings) -> None:
    """Pieces of words predict each other; nats of all pieces, divided by words and line ends, are those per word."""
    train, held, test = (wikitext_2(part).texts for part in ("train", "valid", "test"))
    held = (held[0][: len(held[0]) // 4],)  # judging costs time
    count = {part: len(Words().learn(part).encode(part[0])) + 1 for part in (held, test)}
    with config(certificate=False):
        model = GPT(**{**PIECES, **settings})
        data = model._validate_rows(train)
    corpora = {part: Corpus.of(part, model.tokens_) for part in (held, test)}

    def judge(net, part=held) -> str:
        if peer:
            nats = lstm_nats(net, corpora[part].stream())
        else:
            judging = copy.copy(model)
            judging.module_ = net
            nats = float(judging._token_losses(corpora[part]).sum())
        return f"perplexity {math.exp(nats / count[part]):.1f} per word"

    curve = Curve(judge, minutes / 5)
    if peer:
        net = train_lstm(
            data.stream(), len(model.tokens_), 60 * minutes, curve, model.learning_rate
        )
    else:
        model.set_params(max_iter=epochs_for(model, data.n_tokens, minutes), callbacks=[curve])
        with config(certificate=False):
            curve.begin = time.process_time()
            net = model.fit(train).module_
        print(f"  {sum(w.numel() for w in net.parameters()):,} weights, {model.max_iter} epochs")
    name, cpu = "torch's LSTM" if peer else "GPT", curve.seconds
    print(f"WikiText-2, {name}, {cpu:.0f} s of CPU: validation {judge(net)}", flush=True)
    if not slope:
        print(f"WikiText-2, {name}: test {judge(net, test)}")


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
TIMED = "shakespeare", "words"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.language", description=__doc__)
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="by default all but words")
    parser.add_argument("--minutes", type=float, help="of training")
    parser.add_argument("--slope", action="store_true", help="judge on text kept for choosing")
    parser.add_argument("--peer", action="store_true", help="words: torch's LSTM instead")
    parser.add_argument("--set", nargs="*", default=[], help="parameters of GPT, width=192")
    asked = parser.parse_args([] if arguments is None else arguments)
    options = {name: json.loads(value) for name, value in (one.split("=") for one in asked.set)}
    options |= {name: given for name in ("minutes", "slope", "peer") if (given := getattr(asked, name))}  # fmt: skip
    for name in asked.part or [one for one in PARTS if one != "words"]:
        PARTS[name](**(options if name in TIMED else {}))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
