"""Claims about texts: what tokens lose, what of the held-out text was seen, what samples recite.

    text_restored      decode(encode(t)) = t
    held_out_unseen    spans of the held-out text that stand in the training text, next to the same between its halves
    not_recited        the longest span that a sample shares with the training text, next to those of held-out text

A span is a run of tokens: 50 characters, or 13 words or pieces. Whether one occurs in a text is a question of equal hashes of
64 bits: among 10⁶ × 10⁶ different pairs, one is taken for equal with probability 5e-8.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.concentration import clopper_pearson
from lemmata.audit.language.ngrams import SORT, held_out

Array = np.ndarray

LETTERS, PIECES = 50, 13  # tokens of a span
SEEN = 0.01  # share of the held-out text that may stand in the training text
TIMES = 2.0  # of the share between the halves, if that is more
LADDER = (4, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200)  # lengths of spans
SAMPLES, LENGTH = 80, 200  # drawn, and tokens of each
RECITED, RISK = 0.1, 0.01  # share of samples, chance of an error
QUANTILE = 0.99


def hash_runs(tokens: Array, length: int) -> Array:
    """(T − length + 1,): a number of 64 bits for each run of so many tokens; equal runs have equal numbers."""
    table = np.random.default_rng(0).integers(0, 2**64, int(tokens.max(initial=0)) + 1, np.uint64)
    power, part = np.uint64(0x9E3779B97F4A7C15 | 1), table[tokens]
    found, done, size = None, 0, 1
    with np.errstate(over="ignore"):
        while True:
            if length & size:
                found = part if found is None else found[: len(part) - done] * power + part[done:]
                done += size
            if done == length or len(part) <= size:
                break
            part = part[:-size] * power + part[size:]
            power, size = power * power, 2 * size
    keep = len(tokens) - length + 1
    assert found is not None
    return found[: max(keep, 0)]


def mark_copies(text: Array, train: Array, length: int) -> Array:
    """(T,) bool: the places of a text that lie in a run of so many tokens that occurs in another text."""
    places = np.zeros(len(text), bool)
    if min(len(text), len(train)) < length:
        return places
    found = np.flatnonzero(np.isin(hash_runs(text, length), hash_runs(train, length)))
    counts = np.zeros(len(text) + 1, np.int64)
    np.add.at(counts, found, 1)
    np.add.at(counts, found + length, -1)
    return np.cumsum(counts[:-1]) > 0


def span_of(fit: k.Fit) -> int:
    """Tokens of a span: letters are many, words and pieces few."""
    return LETTERS if type(fit.tokens_).__name__ == "Characters" else PIECES


# --- claims -----------------------------------------------------------------------------------------------------------


@k.proved(
    "the tokens of every text, decoded, are the text",
    "ML Language Models",
    cost=lambda fit: 20.0 * fit.data.size,
)
def text_restored(fit: k.Fit) -> k.Evidence:
    """All training and held-out texts, letter by letter."""
    kept = () if fit.data.kept is None else fit.data.kept.texts
    texts = [*fit.data.texts, *kept]
    lost, where = 0, ""
    for number, text in enumerate(texts):
        back = fit.tokens_.decode(fit.tokens_.encode(text))
        if back != text:
            lost += 1
            where = where or f"text {number}: {_first_difference(text, back)}"
    advice = f"{where}; scores per character are those of another text. tokens='characters' loses nothing"  # fmt: skip
    return k.at_most(lost, 0, advice, unit="texts that differ", note=f"{len(texts):,} texts")


def _first_difference(text: str, back: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(text, back, strict=False)) if a != b), None)
    at = min(len(text), len(back)) if at is None else at
    return f"{text[at : at + 12]!r} at {at:,} becomes {back[at : at + 12]!r}"


class SharedSpans(NamedTuple):
    """Places of the held-out text that lie in spans of the training text, and the share of the same between its halves."""

    places: Array  # (T,) bool
    usual: float


@k.fact(cost=lambda fit: 3 * SORT * fit.data.size)
def overlap(fit: k.Fit) -> SharedSpans:
    text, train, span = held_out(fit).tokens, fit.data.tokens, span_of(fit)
    half = len(train) // 2
    usual = float(mark_copies(train[half:], train[:half], span).mean()) if half else 0.0
    return SharedSpans(mark_copies(text, train, span), usual)


@k.rule_of_thumb(
    "little of the held-out text stands in the training text, in spans of 50 characters or 13 words: at most 1 %, or twice "
    "what its second half shares with its first",
    "ML Self-supervised Learning",
    needs=(overlap,),
)
def held_out_unseen(fit: k.Fit) -> k.Evidence:
    """The share of places in such spans. Text that repeats itself (headings, names of speakers) does so between halves, too."""
    if len(held_out(fit).tokens) < 2 * span_of(fit):
        return k.unknown("the held-out text is shorter than two spans")
    found = overlap(fit)
    share, bound = float(found.places.mean()), max(SEEN, TIMES * found.usual)
    note = f"{int(found.places.sum()):,} of {len(found.places):,} tokens; between the halves {found.usual:.3g}"
    if bound >= 1:
        return k.unknown(f"{note}: the training text repeats itself too much to tell", share)
    advice = "held-out text was trained on: remove its copies from the training text, and judge the model on other text"
    return k.at_most(share, bound, advice, unit="share seen", note=note)


def longest_runs(pieces: list[Array], train: Array) -> Array:
    """(n,): for each piece the longest length of LADDER at which it shares a run with the training text; 0 for none."""
    longest = np.zeros(len(pieces), np.int64)
    for length in LADDER:
        going = [i for i, one in enumerate(pieces) if len(one) >= length]
        if not going or len(train) < length:
            break
        known = np.sort(hash_runs(train, length))
        found = [hash_runs(pieces[i], length) for i in going]
        joint = np.concatenate(found)
        seen = known[np.minimum(np.searchsorted(known, joint), len(known) - 1)] == joint
        ends = np.cumsum([len(one) for one in found])
        hits = np.add.reduceat(seen, np.append(0, ends[:-1]))
        longest[np.array(going)[hits > 0]] = length
        if not (longest == length).any():
            break
    return longest


def _cost_of_samples(fit: k.Fit) -> float:
    module = fit.get("module_")
    size = 1e3 if module is None else sum(p.numel() for p in module.parameters())
    return SAMPLES * LENGTH * float(size) / k.PRODUCTS * 8 + len(LADDER) * SORT * fit.data.size


@k.statistical(
    "at most one sample in ten shares a longer span with the training text than 99 % of held-out pieces of its length",
    "ML Language Models",
    confidence=1 - RISK,
    cost=_cost_of_samples,
    needs=(overlap,),
)
def not_recited(fit: k.Fit) -> k.Evidence:
    """80 samples of 200 tokens at the temperature 1, against the training text; lengths of spans in steps of a quarter."""
    sampler = fit.get("sampler")
    if sampler is None:
        raise k.NoData("run certify(X) for it")
    text, train, seen = held_out(fit).tokens, fit.data.tokens, overlap(fit)
    if seen.places.mean() > max(SEEN, TIMES * seen.usual):
        return k.unknown("the held-out text stands in the training text itself, and shows nothing")
    drawn = sampler(n_samples=SAMPLES, length=LENGTH, random_state=0)
    coder = fit.tokens_
    samples = [one for one in map(coder.encode, drawn) if len(one) >= LADDER[0]]
    if len(samples) < SAMPLES // 2:
        return k.unknown("samples end after a few tokens: there is nothing to compare")
    lengths = np.array([len(one) for one in samples])
    size = int(np.median(lengths))
    pieces = [text[i : i + size] for i in range(0, len(text) - size + 1, size)]
    if len(pieces) < 50:
        return k.unknown(f"{len(pieces)} held-out pieces of {size} tokens; 50 are needed")
    usual = float(np.quantile(longest_runs(pieces, train), QUANTILE, method="higher"))
    found = longest_runs([one[:size] for one in samples], train)
    many = int((found > usual).sum())
    low, high = clopper_pearson(many, len(samples), 2 * RISK)
    note = f"{many} of {len(samples)} samples, the longest {int(found.max())} tokens; held-out pieces {usual:.0f}"
    if low <= RECITED < high:
        return k.unknown(f"{note}: too few to tell")
    bound, unit = (low, "share at least") if low > RECITED else (high, "share at most")
    advice = "the model recites: take more text, fewer weights or epochs, or dropout"
    return k.at_most(bound, RECITED, advice, unit=unit, note=note)


TEXT_CLAIMS: tuple[Any, ...] = (text_restored, held_out_unseen)
TEXT_MORE_CLAIMS: tuple[Any, ...] = (not_recited,)
