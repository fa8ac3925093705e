"""Parameters of SkipGram that contradict each other."""

from __future__ import annotations

from typing import Any


def refuse_together(model: Any, alpha: float) -> None:
    """Raise ValueError where parameters contradict each other."""
    clamped, documents = isinstance(model.biases, str), model.context == "document"
    for wrong, message in (
        (
            model.min_alpha > alpha,
            f"min_alpha={model.min_alpha} exceeds alpha={alpha}, which falls to it; pass min_alpha <= alpha.",
        ),
        (
            model.tied and not model.sg,
            "tied=True is of skip-gram: CBOW's inputs are means of windows; pass sg=True.",
        ),
        (
            model.objective == "softmax" and not model.sg,
            "objective='softmax' is of skip-gram; pass sg=True, or objective='negative'.",
        ),
        (
            0 < model.max_n < model.min_n,
            f"min_n={model.min_n} exceeds max_n={model.max_n}; pass min_n <= max_n, or max_n=0 for words without parts.",
        ),
        (
            model.tied and model.max_n > 0,
            "tied=True: a word is the same as input and as output, and outputs have no parts; pass max_n=0 or tied=False.",
        ),
        (
            clamped and model.vector_size < 2,
            "biases='clamped' takes one of the numbers of a vector; pass vector_size >= 2.",
        ),
        (
            documents and not (model.sg and model.objective == "negative"),
            "context='document' predicts words by negative sampling; pass sg=True and objective='negative'.",
        ),
        (
            documents and (model.max_n > 0 or model.tied),
            "context='document' has vectors of documents as inputs; pass max_n=0 and tied=False.",
        ),
    ):
        if wrong:
            raise ValueError(message)
