"""Claims about models of hidden words: better on held-out text than counting, and whether a second part follows the first.

Every seventh token of a text is hidden, and the network says what stood there. What is hidden is hidden here: nothing can leak.
Counting sees the words before; a network that reads both sides and is no better has learned little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.concentration import clopper_pearson
from lemmata.audit.language.models import (
    RISK,
    batch_agrees,
    claims_of_network,
    cost_of_tokens,
    judge_blocks,
    kept_tokens,
    pad_rows,
    stated_losses,
)
from lemmata.audit.language.ngrams import best_ngram, held_out

Array = np.ndarray

EOS, CLS, SEP, MASK, SPECIAL = 2, 3, 4, 5, 6
EVERY, THIRD, STATED = 7, 3, 2**15
AT_ONCE = 2**13  # tokens


def cut_texts(tokens: Array, length: int) -> Iterator[tuple[int, int]]:
    """The pieces of at most so many tokens of texts that end with EOS, which is left out."""
    begin = 0
    for end in [*np.flatnonzero(tokens == EOS).tolist(), len(tokens)]:
        for start in range(begin, end, length):
            yield start, min(start + length, end)
        begin = end + 1


def masked_losses(fit: k.Fit, tokens: Array) -> Array:
    """(N,): −ln P of every seventh token, all of these hidden, by the network itself; NaN of the others."""
    import torch

    net = fit.module_.eval()
    device, found = next(net.parameters()).device, np.full(len(tokens), np.nan)
    hidden = (np.arange(len(tokens)) % EVERY == THIRD) & (tokens >= SPECIAL)
    given = np.where(hidden, MASK, tokens).astype(np.int64)
    pieces = list(cut_texts(tokens, int(net.context) - 2))
    rows = [np.concatenate([[CLS], given[start:stop], [SEP]]) for start, stop in pieces]
    for some, x in pad_rows(rows, max(1, AT_ONCE // int(net.context))):
        with torch.no_grad():
            # scores of the places that count alone: all of them are a table of tokens × vocabulary
            z = net.body(torch.from_numpy(x).to(device), padding=torch.from_numpy(x != 0).to(device))  # fmt: skip
            for row, (start, stop) in enumerate(map(pieces.__getitem__, some)):
                own = np.flatnonzero(hidden[start:stop])
                if len(own):
                    logs = torch.log_softmax(net.word_scores(z[row, torch.from_numpy(own + 1)]).double(), 1)  # fmt: skip
                    found[start + own] = -logs.cpu().numpy()[np.arange(len(own)), tokens[start + own]]  # fmt: skip
    return found


@k.fact(cost=lambda fit: cost_of_tokens(fit, kept_tokens(fit)))
def held_out_masked(fit: k.Fit) -> Array:
    return masked_losses(fit, held_out(fit).tokens)


@k.statistical(
    "hidden words of held-out text, every seventh, cost fewer nats than under interpolated Kneser–Ney from the words before, "
    "at its best order up to 8, counted from the training text",
    "ML Self-supervised Learning",
    confidence=1 - RISK,
    needs=(best_ngram, held_out_masked),
)
def beats_left_ngrams(fit: k.Fit) -> k.Evidence:
    """Mean gains of blocks of consecutive tokens, taken as independent draws; losses are capped at 2 ln V."""
    advice = "counting the words before is better: train longer"
    return judge_blocks(fit, held_out_masked(fit), "hidden word", advice)


@k.statistical(
    "of held-out pairs, half of which are two parts of a text, the network tells which are better than by chance",
    "ML Self-supervised Learning",
    confidence=1 - RISK,
    cost=lambda fit: cost_of_tokens(fit, kept_tokens(fit)),
)
def tells_next(fit: k.Fit) -> k.Evidence:
    """A piece is cut in the middle; every other one gets the second part of the piece before."""
    import torch

    net, tokens = fit.module_.eval(), held_out(fit).tokens
    if not net.config["next_sentence"]:
        return k.unknown("the network was not asked in training: next_sentence=0")
    pieces = [one for one in cut_texts(tokens, int(net.context) - 3) if one[1] - one[0] >= 4]
    if len(pieces) < 50:
        return k.unknown(f"{len(pieces)} held-out pieces of 4 tokens and more; 50 are needed")
    rows = []
    for i, (start, stop) in enumerate(pieces):
        half = (start + stop) // 2
        own, other = tokens[half:stop], tokens[slice(*pieces[i - 1])]
        b = other[-len(own) :] if i % 2 else own
        rows.append(np.concatenate([[CLS], tokens[start:half], [SEP], b, [SEP]]).astype(np.int64))
    said = np.empty(len(rows), bool)
    device = next(net.parameters()).device
    for some, x in pad_rows(rows, 64):
        ends = x == SEP
        second = ((ends.cumsum(axis=1) > ends) & (x != 0)).astype(
            np.int64
        )  # behind the first [SEP]
        parts = [torch.from_numpy(one).to(device) for one in (x, second, x != 0)]
        with torch.no_grad():
            said[some] = (net.follows(net.body(*parts)[:, 0])[:, 0] > 0).cpu().numpy()
    right = int((said == (np.arange(len(rows)) % 2 == 0)).sum())
    low, high = clopper_pearson(right, len(rows), 2 * RISK)
    note = f"{right:,} of {len(rows):,}"
    if low <= 0.5 <= high:
        return k.unknown(f"{note}: too few to tell, or it cannot")
    bound, unit = (low, "accuracy at least") if low > 0.5 else (high, "accuracy at most")
    return k.at_least(bound, 0.5, "its answers are wrong: train longer", unit=unit, note=note)


def _statement_errors(fit: k.Fit) -> Mapping[str, float | None]:
    def mean(losses: Array) -> float:
        return float(np.nanmean(losses)) if np.isfinite(losses).any() else 0.0

    loss = mean(masked_losses(fit, fit.data.tokens[:STATED]))
    return stated_losses(fit, loss, lambda: mean(held_out_masked(fit)))


BERT_CLAIMS = claims_of_network(
    _statement_errors, lambda fit: 1.0 * min(fit.data.size, STATED), held_out_masked, beats_left_ngrams, tells_next
)  # fmt: skip
BERT_MORE_CLAIMS: tuple[Any, ...] = (batch_agrees,)
