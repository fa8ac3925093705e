"""Counting as a measure: interpolated Kneser–Ney at every order, counted here again, and claims about n-gram models.

    P_k(w|h) = max(a(hw) − D, 0)/a(h·) + γ(h) P_{k−1}(w|h'),      γ(h) = Σ_w min(D, a(hw)) / a(h·),     P_0 uniform

a are occurrences at the highest order, below it the different tokens before a run; D by the counts of counts, one value each
for a = 1, 2 and more. Runs of training text and of new text are numbered together, length by length, so that all counts are
sums over places: nothing is looked up, and no table is that of a solver. Texts end with [EOS] (the number 2), and before a text
stand [EOS] without end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true

Array = np.ndarray

EOS, FIRST, UNK = 2, 6, 1
ORDERS = 8  # the highest that is tried
TAIL = 0.1  # of the training text, by which the order is chosen
STATED = 2**15  # tokens that loss_ is of
NEAR = 1.0  # per cent above the best order
SORT = 150.0  # multiplications in the time of sorting a token


class Runs(NamedTuple):
    """The runs of one length that end at each place: their numbers, those of their contexts, and which begin before a text."""

    keys: Array  # (m,): number of the context · V + last token, rising
    number: Array  # (T,)
    context: Array  # (T,): number of the run without its last token
    suffix: Array  # (m,): number of the run without its first token, by run
    padded: Array  # (m,) bool
    n_contexts: int


def number_runs(x: Array, orders: int, n_tokens: int) -> Iterator[Runs]:
    """The runs of 1, 2, … tokens of texts (T,), each ending with EOS."""
    ends, start = x == EOS, np.zeros(1, np.int64)
    before = np.zeros(len(x), np.int64)  # the number of the context at each place
    pad, shorter, padded, m = 0, np.zeros(len(x), np.int64), np.zeros(1, bool), 1
    for length in range(1, orders + 1):
        keys, number = np.unique(
            np.append(before * n_tokens + x, pad * n_tokens + EOS), return_inverse=True
        )
        number, context, new_pad = number[:-1], before, number[-1]
        suffix = np.zeros(len(keys), np.int64)
        suffix[new_pad] = start[0]
        suffix[number] = shorter
        was = padded[keys // n_tokens]
        padded = (keys // n_tokens == pad) if length == 2 else was
        yield Runs(
            keys, number, context, suffix, padded if length > 1 else np.zeros(len(keys), bool), m
        )
        m, pad, shorter = len(keys), new_pad, number
        start = np.array([pad])
        before = np.concatenate([[pad], np.where(ends, pad, number)[:-1]])
        if length == 1:
            padded = np.zeros(len(keys), bool)


def discounts(a: Array) -> Array:
    """(4,): D of runs with a = 0, 1, 2 and more, by how many have a = 1, 2, 3, 4."""
    n1, n2, n3, n4 = (float((a == i).sum()) for i in (1, 2, 3, 4))
    D = [0.0, 0.5, 0.5, 0.5]
    if n1 and n2:
        Y = n1 / (n1 + 2 * n2)
        D[1:3] = [1 - 2 * Y * n2 / n1, 2 - 3 * Y * n3 / n2]
        D[3] = 3 - 4 * Y * n4 / n3 if n3 else 0.5
    return np.array([0.0, *np.clip(D[1:], 0.1, [1, 2, 3])])


def interpolate(lower: Array, runs: Runs, new: slice, a: Array, contexts: Array) -> Array:
    """P_k at new places, from P_{k−1} there: a by run, contexts the number of each run's context."""
    D = discounts(a[a > 0])[np.minimum(a, 3)]
    whole = np.bincount(contexts, a, minlength=runs.n_contexts)
    taken = np.bincount(contexts, np.minimum(D, a), minlength=runs.n_contexts)
    at, run = runs.context[new], runs.number[new]
    known = whole[at] > 0
    safe = np.where(known, whole[at], 1.0)
    mixed = np.maximum(a[run] - D[run], 0) / safe + taken[at] / safe * lower
    return np.where(known, mixed, lower)


def kneser_ney_losses(train: Array, text: Array, orders: int, n_tokens: int) -> list[Array]:
    """−ln P of each token of a text by counts of another, at every order from 1 on. Both consist of texts that end with EOS."""
    x = np.concatenate([train, text]).astype(np.int64)
    old, new = slice(0, len(train)), slice(len(train), len(x))
    levels = list(number_runs(x, orders, n_tokens))
    base = np.zeros(n_tokens)
    base[FIRST:], base[[UNK, EOS]] = 1.0, 1.0
    continued, found = (base / base.sum())[x[new]], []
    for length, runs in enumerate(levels, 1):
        m = len(runs.suffix)
        contexts = np.zeros(m, np.int64)
        contexts[runs.number] = runs.context
        occurrences = np.bincount(runs.number[old], minlength=m)
        found.append(-np.log(interpolate(continued, runs, new, occurrences, contexts)))
        if length < orders:
            longer = levels[length]
            occur = np.bincount(longer.number[old], minlength=len(longer.suffix)) > 0
            kinds = np.bincount(longer.suffix[occur], minlength=m)
            a = np.where(runs.padded, occurrences, kinds)
            continued = interpolate(continued, runs, new, a, contexts)
    return found


# --- facts ------------------------------------------------------------------------------------------------------------


def held_out(fit: k.Fit) -> Any:
    """The text that was kept from training. CannotTell where there is none."""
    kept = fit.data.kept
    if kept is None or not kept.n_tokens:
        raise k.CannotTell("no text was kept from training: pass certify(X, X_test=…)")
    if fit.get("warm_start"):
        raise k.CannotTell("an earlier fit, at which this one began, may have seen it: pass X_test=")  # fmt: skip
    return kept


def stated_test(fit: k.Fit) -> Any:
    """The text that `test_loss_` is of; None where there is none, or where `certify` was given another."""
    return None if fit.get("test_given") or fit.get("test_loss_") is None else fit.data.kept


class Baseline(NamedTuple):
    """The best order, chosen on the end of the training text, and its losses on the held-out text."""

    order: int
    losses: Array
    by_order: list[float]  # nats per token of the held-out text at every order


def _cost(fit: k.Fit) -> float:
    kept = 0 if fit.data.kept is None else fit.data.kept.n_tokens
    return SORT * ORDERS * (2.0 * fit.data.size + kept)


@k.fact(cost=_cost)
def best_ngram(fit: k.Fit) -> Baseline:
    """Count the training text at orders 1 to ORDERS; the order is chosen without the held-out text."""
    text, train, n = held_out(fit).tokens, fit.data.tokens, len(fit.tokens_)
    cut = len(train) - max(1, round(TAIL * len(train)))
    first = np.append(train[:cut], EOS)
    trials = [one.mean() for one in kneser_ney_losses(first, train[cut:], ORDERS, n)]
    losses = kneser_ney_losses(train, text, ORDERS, n)
    best = int(np.argmin(trials))
    return Baseline(best + 1, losses[best], [float(one.mean()) for one in losses])


# --- claims -----------------------------------------------------------------------------------------------------------


def _statement_errors(fit: k.Fit) -> Mapping[str, float | None]:
    """Both losses again by the counts here; their sums of floats differ in rounding."""
    n, order, train = len(fit.tokens_), int(fit.order), fit.data.tokens
    some, exact = train[:STATED], k.rounding(float, 2**15)
    loss = float(kneser_ney_losses(train, some, order, n)[-1].mean())
    errors: dict[str, float | None] = {"loss_": discrepancy(fit.loss_, loss, 1 + loss, exact)}
    errors["counts_"] = 0.0 if _are_counted(fit.counts_, train, order, n) else np.inf
    if (kept := stated_test(fit)) is not None:
        test = float(kneser_ney_losses(train, kept.tokens, order, n)[-1].mean())
        errors["test_loss_"] = discrepancy(fit.test_loss_, test, 1 + test, exact)
    return errors


@k.rule_of_thumb(
    "on text kept from training no Kneser–Ney order up to 8 needs a hundredth fewer nats per token",
    "ML Language Models",
    needs=(best_ngram,),
)
def near_best_order(fit: k.Fit) -> k.Evidence:
    """The order of the model beside the best on the held-out text itself: a little in favour of the others."""
    found = best_ngram(fit)
    orders, n = found.by_order, len(fit.tokens_)
    own = int(fit.order)
    if own > len(orders):
        own_loss = float(kneser_ney_losses(fit.data.tokens, held_out(fit).tokens, own, n)[-1].mean())  # fmt: skip
    else:
        own_loss = orders[own - 1]
    best = int(np.argmin(orders)) + 1
    gap = 100 * (own_loss / orders[best - 1] - 1)
    note = f"{own_loss:.4g} nats per token; order {best}: {orders[best - 1]:.4g}"
    return k.at_most(gap, NEAR, f"take order={best}", unit="gap %", note=note)


def _are_counted(stated: Any, train: Array, order: int, n_tokens: int) -> bool:
    """Whether the counts of a model are those of this text, run by run."""
    levels = list(number_runs(train.astype(np.int64), order, n_tokens))
    keys = np.concatenate([runs.keys for runs in levels])
    counts = np.concatenate([np.bincount(runs.number, minlength=len(runs.keys)) for runs in levels])
    sizes = [len(runs.keys) for runs in levels]
    pairs = ((stated.sizes, sizes), (stated.keys, keys), (stated.counts, counts))
    return all(np.array_equal(a, b) for a, b in pairs)


def _unsound(fit: k.Fit) -> Iterator[str]:
    counts = fit.counts_
    if len(fit.tokens_) != counts.n_tokens or counts.order != fit.order:
        yield "counts_ are not of its tokens and order"
    if fit.get("n_features_in_") != len(fit.tokens_):
        yield f"n_features_in_ is {fit.n_features_in_}, tokens_ has {len(fit.tokens_):,}"
    if (np.asarray(counts.counts) < 0).any():
        yield "counts_ holds negative numbers"


NGRAM_CLAIMS: tuple[Any, ...] = (
    attributes_sound({"loss_": ">=0"}, _unsound),
    statements_true(
        _statement_errors, cost=lambda fit: SORT * int(fit.order) * fit.data.size * 3.3
    ),
    near_best_order,
)
