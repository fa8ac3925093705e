"""Claims about language models of networks: better than counting on text they have not seen, without looking ahead.

Counting reaches far: `beats_ngrams` sets the losses of held-out text beside those of interpolated Kneser–Ney at its best order,
counted in this package from the training text and chosen on the end of it. Both losses of a token are capped (a bet needs a
bound), the difference is averaged over blocks of consecutive tokens, and bets are placed on the blocks as on independent draws.
A network that sees the token it predicts beats everything: it is compared only where no leak was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.held_out import beats, mean_gain
from lemmata.audit.language import batching, caching
from lemmata.audit.language.ngrams import best_ngram, held_out, stated_test
from lemmata.audit.nets.changes import SAME, PropertyRequest, judge_change
from lemmata.audit.nets.modules import Copy, Examples, copy_of
from lemmata.audit.nets.stated import unsound_tensors

Array = np.ndarray

EOS = 2
STATED = 2**15  # tokens that loss_ is of
RISK = 0.01
CAP = 2.0  # of ln V, what a token may cost at most
BLOCK, BLOCKS = 64, 1000  # tokens of a block at least, blocks at most
AT_ONCE = 2**12  # tokens
LEAKS = 2  # windows in which every suffix is changed


def cost_of_tokens(fit: k.Fit, tokens: float) -> float:
    """So many tokens through the network."""
    size = sum(weight.numel() for weight in fit.module_.parameters())
    return tokens * size / k.PRODUCTS


def kept_tokens(fit: k.Fit) -> float:
    return 0.0 if fit.data.kept is None else float(fit.data.kept.size)


def pad_rows(rows: list[Array], at_once: int) -> Iterator[tuple[Array, Array]]:
    """The numbers of rows of like length, and these rows (B, T), filled up with 0."""
    order = np.argsort([len(one) for one in rows], kind="stable")
    for at in range(0, len(rows), at_once):
        some = order[at : at + at_once]
        x = np.zeros((len(some), len(rows[some[-1]])), np.int64)
        for row, number in zip(x, some, strict=True):
            row[: len(rows[number])] = rows[number]
        yield some, x


def token_losses(fit: k.Fit, tokens: Array) -> Array:
    """(N,): −ln P of each token of texts that end with EOS, by the network itself.

    Each text begins after EOS. It is cut into windows of the context that move on by half of it, and each token is scored in
    the first window that holds it.
    """
    import torch

    net, T = fit.module_.eval(), int(fit.module_.context)
    like, found = next(net.parameters()), np.empty(len(tokens))
    inputs = np.concatenate([[EOS], tokens[:-1]]).astype(np.int64)
    windows: list[tuple[int, int, int]] = []  # start, first that counts, stop
    begin = 0
    ends = np.append(np.flatnonzero(tokens == EOS) + 1, len(tokens))
    for end in np.unique(ends).tolist():
        done, start = begin, begin
        while done < end:
            stop = min(start + T, end)
            windows.append((start, done, stop))
            done, start = stop, start + max(1, T // 2)
        begin = end
    rows = [inputs[start:stop] for start, _, stop in windows]
    for some, x in pad_rows(rows, max(1, AT_ONCE // T)):
        with torch.no_grad():
            logs = torch.log_softmax(net(torch.from_numpy(x).to(like.device)).double(), 2).cpu()
        for row, (start, first, stop) in zip(logs, map(windows.__getitem__, some), strict=True):
            part = row[first - start : stop - start].numpy()
            found[first:stop] = -part[np.arange(stop - first), tokens[first:stop]]
    return found


# --- facts ------------------------------------------------------------------------------------------------------------


@k.fact(cost=lambda fit: cost_of_tokens(fit, 2 * kept_tokens(fit)))
def held_out_losses(fit: k.Fit) -> Array:
    return token_losses(fit, held_out(fit).tokens)


class LookAhead(NamedTuple):
    """The largest change of a score by later tokens, where, how many changes were tried, and whether earlier ones matter."""

    change: float
    place: int
    tried: int
    reaches: bool


def example_rows(fit: k.Fit, rows: int) -> Array:
    """(rows, T): evenly spaced windows of the training text."""
    tokens = fit.data.tokens
    T = max(2, min(int(fit.module_.context), len(tokens) // 2))
    starts = np.linspace(0, len(tokens) - T, rows).astype(np.int64)
    return tokens[starts[:, None] + np.arange(T)].astype(np.int64)


def look_ahead(rows: Iterable[tuple[Array, Any]], n: int) -> LookAhead:
    """Change everything from a place on, for every place of some rows of n tokens: the scores before it have to stay.

    rows : tokens (T,), each with the function that gives the scores (B, T, V) of such rows, a tensor (B, T)
    """
    import torch

    rng, worst, place, tried, reaches = np.random.default_rng(0), 0.0, 0, 0, False
    for row, scores_of in rows:
        T = len(row)
        other = (row + rng.integers(1, n, T)) % n
        changed = np.where(np.arange(T) >= np.arange(1, T)[:, None], other, row)
        scores = scores_of(torch.from_numpy(np.vstack([row, changed])))
        base, scale = scores[0], float(scores[0].abs().max())
        if scores.shape[:2] != (T, T) or not math.isfinite(scale):
            raise k.CannotTell("the network gives no finite score for every token")
        if T < 2:
            continue
        moved = ((scores[1:] - base).abs().amax(dim=2) / max(scale, 1e-300)).numpy()  # (T − 1, T)
        before = np.where(np.arange(T) < np.arange(1, T)[:, None], moved, 0.0)
        reaches = reaches or bool((moved[: T // 2, -1] > SAME).any())
        tried += T - 1
        if before.max() > worst:
            worst, place = float(before.max()), int(before.max(axis=0).argmax())
    return LookAhead(worst, place, tried, reaches)


@k.fact(cost=lambda fit: 2 * cost_of_tokens(fit, LEAKS * float(fit.module_.context) ** 2))
def leak(fit: k.Fit) -> LookAhead:
    """Return what changes of later tokens change in windows of the text."""
    own: Copy = copy_of(fit)
    rows = example_rows(fit, LEAKS)
    return look_ahead(((row, lambda tokens: own.output(Examples((tokens,)))) for row in rows), len(fit.tokens_))  # fmt: skip


# --- verdicts ---------------------------------------------------------------------------------------------------------


def judge_leak(found: LookAhead, mask: str) -> k.Evidence:
    note = f"{found.tried:,} changes tried"
    if found.change <= SAME and not found.reaches:
        return k.unknown(f"scores do not depend on the tokens before the last one: nothing could leak; {note}")  # fmt: skip
    advice = f"the score at place {found.place} sees what follows: correct {mask}"
    return judge_change(found.change, note, advice)


def judge_blocks(fit: k.Fit, ours: Array, per: str, advice: str) -> k.Evidence:
    """Losses (N,) of held-out tokens, NaN where none is, beside those of the best n-grams: capped at 2 ln V, and their mean
    gains in blocks of consecutive tokens taken as independent draws."""
    counted, scored, n = best_ngram(fit), np.isfinite(ours), len(ours)
    cap, size = CAP * math.log(len(fit.tokens_)), max(BLOCK, math.ceil(n / BLOCKS))
    gains = np.where(scored, np.minimum(counted.losses, cap) - np.minimum(ours, cap), 0.0)
    cut = n // size, size
    sums, counts = (one[: cut[0] * size].reshape(cut).sum(1) for one in (gains, scored))
    means = sums[counts > 0] / counts[counts > 0]
    if len(means) < 20:
        return k.unknown(f"the held-out text has {n:,} tokens; {20 * BLOCK:,} are needed")
    own, theirs = float(ours[scored].mean()), float(counted.losses[scored].mean())
    note = f"{own:.4g} nats per {per}, {counted.order}-grams {theirs:.4g}; {len(means):,} blocks of {size}"  # fmt: skip
    found = mean_gain(means, RISK, -cap, cap)
    return beats(found, note, advice, unit="gain in nats", uncapped=theirs - own)


def stated_losses(fit: k.Fit, loss: float, test: Callable[[], float]) -> dict[str, float | None]:
    """How far loss_ and, where it is stated, test_loss_ are from what they should be."""
    exact = 3e-5  # float32 scores of order 10, summed in other batches
    errors: dict[str, float | None] = {"loss_": discrepancy(fit.loss_, loss, 1 + loss, exact)}
    if stated_test(fit) is not None:
        errors["test_loss_"] = discrepancy(fit.test_loss_, mean := test(), 1 + mean, exact)
    return errors


# --- claims -----------------------------------------------------------------------------------------------------------


@k.rule_of_thumb(
    "no score depends on a later token: at every place of two windows of the text, all that follows is changed, to 1e-10",
    "ML Transformers",
    needs=(leak,),
)
def causal(fit: k.Fit) -> k.Evidence:
    """In evaluation mode, in float64."""
    return judge_leak(leak(fit), "the mask")


@k.statistical(
    "held-out text costs fewer nats than under interpolated Kneser–Ney at its best order up to 8, counted from the "
    "training text",
    "ML Language Models",
    confidence=1 - RISK,
    needs=(best_ngram, held_out_losses, leak),
)
def beats_ngrams(fit: k.Fit) -> k.Evidence:
    """Mean gains of blocks of consecutive tokens, taken as independent draws; losses are capped at 2 ln V."""
    if leak(fit).change > SAME:
        return k.unknown("its scores see the tokens that they are of: what it says are no probabilities")  # fmt: skip
    advice = "counting is better: train longer, or use NGram"
    return judge_blocks(fit, held_out_losses(fit), "token", advice)


def _module_fit(fit: k.Fit, name: str) -> k.Fit:
    """The network alone, on windows of the text, with a property that it declares."""
    import torch

    rows = example_rows(fit, caching.ROWS)
    declared = fit.module_.declares
    where = declared[name] if isinstance(declared, Mapping) else {}
    attributes = {"module_": fit.module_, "properties": {name: PropertyRequest(**where)}}
    return k.Fit(None, Examples((torch.from_numpy(rows),)), attributes=attributes)


def _cost_of_rows(fit: k.Fit) -> float:
    return 4 * cost_of_tokens(fit, caching.ROWS * 8.0 * caching.LONGEST)


@k.rule_of_thumb(
    "tokens of the text one by one, in portions and at once have the same scores, to 1e-10: 4 windows of up to 64 tokens",
    caching.cache_agrees.source,
    cost=_cost_of_rows,
)
def cache_agrees(fit: k.Fit) -> k.Evidence:
    """As of any module, on windows of the training text."""
    return caching.cache_agrees.check(_module_fit(fit, "cached"))


@k.rule_of_thumb(
    "a prompt has the same scores alone and among longer ones, padded on either side, to 1e-10: 4 beginnings of windows of "
    "the text, of up to 64 tokens",
    batching.batch_agrees.source,
    cost=_cost_of_rows,
)
def batch_agrees(fit: k.Fit) -> k.Evidence:
    """As of any module, on windows of the training text."""
    return batching.batch_agrees.check(_module_fit(fit, "batched"))


def _statement_errors(fit: k.Fit) -> Mapping[str, float | None]:
    loss = float(token_losses(fit, fit.data.tokens[:STATED]).mean())
    return stated_losses(fit, loss, lambda: float(held_out_losses(fit).mean()))


def mean_of_all(losses: list[Array]) -> float:
    return float(np.concatenate(losses).mean())


def unsound_network(fit: k.Fit) -> Iterator[str]:
    yield from (f"module_.{wrong}" for wrong in unsound_tensors(fit))
    known = fit.module_.config["n_tokens"]
    if not known == len(fit.tokens_) == fit.n_features_in_:
        yield f"its network knows {known:,} tokens, tokens_ {len(fit.tokens_):,}, n_features_in_ is {fit.n_features_in_:,}"


def claims_of_network(
    measure: Any, tokens: Callable[[k.Fit], float], needs: k.Fact, *others: Any
) -> tuple[Any, ...]:
    """That attributes are sound and statements true, for which so many tokens are read, and other claims."""
    cost = lambda fit: cost_of_tokens(fit, tokens(fit))  # noqa: E731
    sound = attributes_sound({"loss_": ">=0"}, unsound_network)
    return sound, statements_true(measure, cost=cost, needs=(needs,)), *others


def cost_of_rows(stated: int) -> Callable[[k.Fit], float]:
    """Tokens in the first rows of the training data."""
    return lambda fit: fit.data.size * min(1.0, stated / max(len(fit.data.x), 1))


GPT_CLAIMS = claims_of_network(
    _statement_errors, lambda fit: 2.0 * min(fit.data.size, STATED), held_out_losses, beats_ngrams, causal
)  # fmt: skip
GPT_MORE_CLAIMS: tuple[Any, ...] = (cache_agrees, batch_agrees)
