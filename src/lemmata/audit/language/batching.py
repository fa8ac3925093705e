"""Whether a prompt has the same scores alone and among longer ones, where it is padded on one side.

Padding on the left moves a prompt to later places, on the right it puts others behind it; a mask that is forgotten in one
layer, places that count padding, or a normalisation over the batch show in no loss. A difference is a counterexample;
agreement is about what was tried.

The module is called with its tokens and a mask, which is True at real tokens where it is called padding or attention_mask and
True at padding where it is key_padding_mask. Where more is needed, ``properties={"batched": call}`` gives the function
``call(module, tokens, real) → scores``; ``{"batched": {"sides": ("right",)}}`` is of modules that are padded on one side.
"""

from __future__ import annotations

import inspect
from typing import Any

from lemmata.audit.kernel import claims as k
from lemmata.audit.language.caching import LONGEST, ROWS
from lemmata.audit.nets.changes import difference_from, judge_change, other_content
from lemmata.audit.nets.modules import Copy, Examples, copy_of, examples_of, forwards

# of real tokens; of padding
MASKS = "padding", "attention_mask", "key_padding_mask", "src_key_padding_mask"
SIDES = ("left", "right")


def find_mask(module: Any, asked: str) -> str:
    """The name of the argument that says which tokens are real."""
    names = inspect.signature(module.forward).parameters
    found = next((name for name in ([asked] if asked else MASKS) if name in names), None)
    if found is None:
        raise k.CannotTell(
            f"forward takes no {asked or 'mask of real tokens (' + ', '.join(MASKS) + ')'}: "
            "pass properties={'batched': call} with call(module, tokens, real)"
        )
    return found


class Prompts:
    """Calls a module on tokens of which some are real."""

    def __init__(self, own: Copy, examples: Examples, key: int | str, asked: Any):
        self.own, self.examples, self.key, self.step = own, examples, key, asked.step
        self.mask = "" if self.step else find_mask(own.module, asked.mask)

    def scores(self, tokens: Any, real: Any) -> Any:
        """The first output, (B, T, …) or of whole rows (B, …)."""
        import torch

        from lemmata.audit.nets.modules import floats_in, in_double

        if self.step is None:
            mask = ~real if self.mask.endswith("key_padding_mask") else real
            few = self.examples.rows(torch.zeros(len(tokens), dtype=torch.long))
            return self.own.output(few.swap(self.key, tokens).swap(self.mask, mask))
        self.own.reset()
        self.own.module.eval()
        with torch.no_grad(), in_double(0):
            try:
                return floats_in(self.step(self.own.module, tokens.clone(), real))[0].double()
            except Exception as error:
                raise k.CannotTell(f"the call fails: {type(error).__name__}: {error}") from error


def pad_prompts(tokens: Any, lengths: list[int], side: str) -> tuple[Any, Any]:
    """Rows (B, T) of which the first so many tokens are at one side, other tokens at the rest; and where they are (B, T)."""
    import torch

    T = tokens.shape[1]
    padded, real = other_content(tokens, 1), torch.zeros(tokens.shape, dtype=torch.bool)
    for row, length in enumerate(lengths):
        place = slice(T - length, T) if side == "left" else slice(0, length)
        padded[row, place], real[row, place] = tokens[row, :length], True
    return padded, real


@k.rule_of_thumb(
    "a prompt has the same scores alone and among longer ones, padded on either side, to 1e-10: prompts of up to 4 lengths "
    "and 64 tokens",
    "ML Transformers",
    cost=forwards(8, ROWS),
)
def batch_agrees(fit: k.Fit) -> k.Evidence:
    """In evaluation mode and float64, at the real tokens; other tokens stand where there is padding."""
    import torch

    own, asked = copy_of(fit), fit.properties["batched"]
    examples = examples_of(fit, ROWS)
    key, _ = asked.find(examples, 1)
    tokens = examples[key][:, :LONGEST]
    B, T = tokens.shape[:2]
    if B < 2 or T < 2:
        return k.unknown("one row, or rows of one token: nothing is padded")
    calls = Prompts(own, examples, key, asked)
    lengths = [T - row * T // B for row in range(B)]  # the first row is whole
    worst, where = 0.0, ""
    for side in asked.sides or SIDES:
        padded, real = pad_prompts(tokens, lengths, side)
        among = calls.scores(padded, real)
        for row, length in enumerate(lengths):
            prompt = tokens[row : row + 1, :length]
            alone = calls.scores(prompt, torch.ones_like(prompt, dtype=torch.bool))
            mine = among[row : row + 1]
            if tuple(mine.shape[:2]) == (1, T) and tuple(alone.shape[:2]) == (1, length):
                mine = mine[:, real[row]]
            change = difference_from(alone, mine, alone)
            if change > worst:
                worst = change
                where = f"a prompt of {length} tokens among {T}, padded on the {side}"
    note = f"{B} prompts of {lengths[-1]} to {T} tokens, padded on the {' and the '.join(asked.sides or SIDES)}"
    advice = f"{where}: pass the mask to every layer that mixes places, and count places from the first real token"
    return judge_change(worst, note, advice)
