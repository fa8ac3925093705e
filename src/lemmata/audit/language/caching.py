"""Whether a network that remembers its past gives the same scores: tokens one by one, in portions, and all at once.

A slip in a mask, in the places of later tokens, or in what is remembered shows in no loss, since training sees whole rows. A
difference is a counterexample; agreement is about what was tried.

The module is called as ``module(tokens, cache=cache)`` with a cache from ``module.cache()``; of other libraries,
``properties={"cached": step}`` gives the function ``step(module, tokens, past) → (scores, past)``, past being None at first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lemmata.audit.kernel import claims as k
from lemmata.audit.nets.changes import difference_from, judge_change
from lemmata.audit.nets.modules import Copy, copy_of, examples_of, forwards, in_double

ROWS, LONGEST = 4, 64  # rows and places that are tried


def own_step(module: Any, tokens: Any, past: Any) -> tuple[Any, Any]:
    """A step of a network that has `cache()`."""
    past = module.cache() if past is None else past
    return module(tokens, cache=past), past


def cuts(T: int) -> Iterator[tuple[str, list[int]]]:
    """Where rows of T tokens are cut: one by one, in halves, and in portions of 1, 2, 3 … tokens."""
    yield "one by one", [1] * T
    yield "in halves", [T // 2, T - T // 2]
    size, portions = 1, list[int]()
    while sum(portions) < T:
        portions.append(min(size, T - sum(portions)))
        size += 1
    yield "in portions", portions


def scores_in_portions(own: Copy, step: Any, tokens: Any, portions: list[int]) -> Any:
    """The scores (B, T, V) of tokens that come in portions."""
    import torch

    own.reset()
    own.module.eval()
    found, past, at = [], None, 0
    with torch.no_grad(), in_double(0):
        for size in portions:
            try:
                scores, past = step(own.module, tokens[:, at : at + size].clone(), past)
            except Exception as error:
                why = f"the step fails after {at} tokens: {type(error).__name__}: {error}"
                raise k.CannotTell(why) from error
            if scores.shape[:2] != (len(tokens), size):
                raise k.CannotTell(f"the step gives shape {tuple(scores.shape)} for {size} tokens")
            found.append(scores.double())
            at += size
    return torch.cat(found, dim=1)


@k.rule_of_thumb(
    "tokens one by one, in portions and at once give the same scores, to 1e-10: on up to 4 rows of up to 64 tokens",
    "ML Transformers",
    cost=forwards(lambda fit: 2.0 * LONGEST, ROWS),
)
def cache_agrees(fit: k.Fit) -> k.Evidence:
    """In evaluation mode and float64; at once means the module itself, without a cache."""
    own, asked = copy_of(fit), fit.properties["cached"]
    step = asked.step
    if step is None:
        if not callable(getattr(own.module, "cache", None)):
            raise k.CannotTell("the module has no cache(): pass properties={'cached': step}")
        step = own_step
    examples = examples_of(fit, ROWS)
    key, _ = asked.find(examples, 1)
    tokens = examples[key][:, :LONGEST]
    own.require_repeatable(examples, False)
    whole = own.output(examples.swap(key, tokens))
    T, worst, where = tokens.shape[1], 0.0, ""
    if T < 2:
        return k.unknown("rows of one token have no past")
    for name, portions in cuts(T):
        found = scores_in_portions(own, step, tokens, portions)
        if found.shape != whole.shape:
            shapes = f"{tuple(found.shape)} and {tuple(whole.shape)}"
            return k.unknown(f"scores in portions and at once have shapes {shapes}")
        change = difference_from(whole, found, whole)
        if change > worst:
            places = (whole - found).abs().flatten(2).amax(dim=2).amax(dim=0)
            first = int((places > places.max() * 1e-6).nonzero()[0])
            worst, where = change, f"{name}, from place {first} on"
    note = f"{len(tokens)} rows of {T} tokens, cut in 3 ways"
    advice = f"{where}: look at the places of later tokens, the mask, and what the cache keeps"
    return judge_change(worst, note, advice)
