"""Claims about translators: better on new pairs than counting targets, by reading the source, without looking ahead.

A target may be probable because such texts are, whatever the source says. So `beats_targets_alone` sets the losses of held-out
targets beside those of n-grams that were counted from the training targets, and `source_matters` sets them beside the losses
of the same targets when the network is given another pair's source. A pair is a draw: gains are means over its tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.held_out import beats, mean_gain
from lemmata.audit.language.models import (
    CAP,
    RISK,
    LookAhead,
    claims_of_network,
    cost_of_rows,
    cost_of_tokens,
    judge_leak,
    kept_tokens,
    look_ahead,
    mean_of_all,
    stated_losses,
)
from lemmata.audit.language.ngrams import best_ngram, held_out, stated_test
from lemmata.audit.language.texts import text_restored
from lemmata.audit.nets.changes import SAME
from lemmata.audit.nets.modules import Copy, Examples, copy_of

Array = np.ndarray

PAD, START, EOS, SPECIAL = 0, 1, 2, 6
STATED = 1000  # pairs that loss_ is of
AT_ONCE, LEAKS = 64, 2  # pairs
CLOSE = 1e-4  # of the largest score: what float32 in other batches may change
SEEN = 0.01  # share of held-out sources that may be training sources


class PairScores(NamedTuple):
    """The losses of the tokens of each target, and by how much they lead all others at the closest place."""

    losses: list[Array]
    lead: Array  # (n,); the target is what greedy decoding writes where it is above 0


def score_pairs(fit: k.Fit, x: Array, y: Array) -> PairScores:
    """Targets (n, T) given sources (n, S), by the network itself: all places at once, START before the first."""
    import torch

    net = fit.module_.eval()
    device, never = next(net.parameters()).device, [PAD, *range(EOS + 1, SPECIAL)]
    if getattr(fit.tokens_, "closed", False):
        never.append(START)
    losses, lead = [], np.empty(len(x))
    for at in range(0, len(x), AT_ONCE):
        part = slice(at, at + AT_ONCE)
        width = max(1, int((y[part] != PAD).sum(1).max()))
        some = y[part, :width].astype(np.int64)
        written = np.hstack([np.full((len(some), 1), START), some[:, :-1]])
        given = [torch.from_numpy(one.astype(np.int64)).to(device) for one in (x[part], written)]
        with torch.no_grad():
            scores = net(*given).double().cpu()
        logs, places = torch.log_softmax(scores, 2).numpy(), scores.numpy().copy()
        own = np.take_along_axis(places, some[..., None], 2)[..., 0]
        np.put_along_axis(places, some[..., None], -np.inf, 2)
        places[..., never] = -np.inf
        ahead = np.where(some == PAD, np.inf, own - places.max(axis=2))
        lead[part] = ahead.min(axis=1) / max(float(np.abs(own).max()), 1.0)
        costs = -np.take_along_axis(logs, some[..., None], 2)[..., 0]
        losses += [row[tokens != PAD] for row, tokens in zip(costs, some, strict=True)]
    return PairScores(losses, lead)


@k.fact(cost=lambda fit: cost_of_tokens(fit, kept_tokens(fit)))
def held_out_scores(fit: k.Fit) -> PairScores:
    kept = held_out(fit)
    return score_pairs(fit, kept.x, kept.y)


@k.fact(cost=lambda fit: 2 * cost_of_tokens(fit, LEAKS * float(fit.data.y.shape[1]) ** 2))
def leak_of_targets(fit: k.Fit) -> LookAhead:
    """Change everything that was written from a place on, for every place of the longest targets."""
    own: Copy = copy_of(fit)
    x, y = fit.data.x, fit.data.y
    longest = np.argsort(-(y != PAD).sum(axis=1), kind="stable")[:LEAKS]

    def rows() -> Iterator[tuple[Array, Any]]:
        import torch

        for at in longest:
            target = y[at][y[at] != PAD]
            source = torch.from_numpy(x[at][x[at] != PAD].astype(np.int64))

            def scores(written: Any, source: Any = source) -> Any:
                return own.output(Examples((source.expand(len(written), -1), written)))

            yield np.concatenate([[START], target[:-1]]).astype(np.int64), scores

    return look_ahead(rows(), len(fit.tokens_))


# --- claims -----------------------------------------------------------------------------------------------------------


def _mean_costs(losses: list[Array], cap: float) -> Array:
    return np.array([np.minimum(one, cap).mean() for one in losses])


def _refuse_leak(fit: k.Fit) -> None:
    if leak_of_targets(fit).change > SAME:
        raise k.CannotTell("its scores see the tokens that they are of: what it says are no probabilities")  # fmt: skip


@k.statistical(
    "held-out targets cost fewer nats per token, in the mean over pairs, than under interpolated Kneser–Ney at its best "
    "order up to 8, counted from the training targets",
    "ML Transformers",
    confidence=1 - RISK,
    needs=(best_ngram, held_out_scores, leak_of_targets),
)
def beats_targets_alone(fit: k.Fit) -> k.Evidence:
    """Pairs are taken as independent draws; losses are capped at 2 ln V."""
    _refuse_leak(fit)
    counted, ours = best_ngram(fit), held_out_scores(fit).losses
    ends = np.cumsum([len(one) for one in ours])[:-1]
    theirs, cap = np.split(counted.losses, ends), CAP * math.log(len(fit.tokens_))
    gains = _mean_costs(theirs, cap) - _mean_costs(ours, cap)
    means = [float(np.mean([one.mean() for one in side])) for side in (ours, theirs)]
    note = f"{means[0]:.4g} nats per token, {counted.order}-grams of targets {means[1]:.4g}; {len(gains):,} pairs"
    advice = "train longer, or on more pairs: counting targets alone is better"
    found = mean_gain(gains, RISK, -cap, cap)
    return beats(found, note, advice, unit="gain in nats", uncapped=means[1] - means[0])


@k.statistical(
    "held-out targets cost fewer nats per token given their own sources than given those of other pairs",
    "ML Transformers",
    confidence=1 - RISK,
    cost=lambda fit: cost_of_tokens(fit, kept_tokens(fit)),
    needs=(held_out_scores, leak_of_targets),
)
def source_matters(fit: k.Fit) -> k.Evidence:
    """The first half of the held-out targets, each with a source of the second half: these are independent draws."""
    _refuse_leak(fit)
    kept, ours = held_out(fit), held_out_scores(fit).losses
    half, cap = len(kept.x) // 2, CAP * math.log(len(fit.tokens_))
    if not half:
        return k.unknown("one held-out pair: there is no other source")
    others = score_pairs(fit, kept.x[half : 2 * half], kept.y[:half]).losses
    costs = _mean_costs(ours[:half], cap), _mean_costs(others, cap)
    note = f"{costs[0].mean():.4g} nats per token, with other sources {costs[1].mean():.4g}; {half:,} pairs"
    advice = "the decoder ignores the source: train longer, and check that X and y are in one order"
    found = mean_gain(costs[1] - costs[0], RISK, -cap, cap)
    return beats(found, note, advice, unit="gain in nats")


@k.rule_of_thumb(
    "no score depends on a later token of the target: at every place of two targets, all that follows is changed, to 1e-10",
    "ML Transformers",
    needs=(leak_of_targets,),
)
def causal(fit: k.Fit) -> k.Evidence:
    """In evaluation mode, in float64."""
    return judge_leak(leak_of_targets(fit), "the mask of the decoder")


@k.rule_of_thumb(
    "at most 1 % of the held-out sources are training sources",
    "ML Generalization gap",
    cost=lambda fit: 2.0 * fit.data.size,
)
def sources_unseen(fit: k.Fit) -> k.Evidence:
    """Sources that are equal token by token."""
    known = {row[row != PAD].tobytes() for row in fit.data.x}
    seen = [row[row != PAD].tobytes() in known for row in held_out(fit).x]
    advice = "keep each source on one side: what is measured on seen ones says nothing of new ones"
    return k.at_most(float(np.mean(seen)), SEEN, advice, unit="share seen", note=f"{sum(seen):,} of {len(seen):,}")  # fmt: skip


def _statement_errors(fit: k.Fit) -> Mapping[str, float | None]:
    some = score_pairs(fit, fit.data.x[:STATED], fit.data.y[:STATED])
    test = lambda: mean_of_all(held_out_scores(fit).losses)  # noqa: E731
    errors = stated_losses(fit, mean_of_all(some.losses), test)
    if stated_test(fit) is not None:
        lead = held_out_scores(fit).lead
        low, high = float((lead > CLOSE).mean()), float((lead > -CLOSE).mean())
        within = low - 1e-12 <= fit.exact_match_ <= high + 1e-12
        errors["exact_match_"] = 0.0 if within else np.inf
    return errors


TRANSLATOR_CLAIMS = claims_of_network(
    _statement_errors, cost_of_rows(STATED), held_out_scores, beats_targets_alone, source_matters, causal, sources_unseen
)  # fmt: skip
TRANSLATOR_MORE_CLAIMS: tuple[Any, ...] = (text_restored,)
