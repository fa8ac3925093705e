"""Claims about word embeddings: what was counted is true of the text, and training lowered its loss."""

from __future__ import annotations

import numpy as np

from lemmata.audit.attributes import attributes_sound, statements_true
from lemmata.core.certificate import RULE_OF_THUMB, at_most, claim, passes, unknown


def statement_errors(fit):
    """Words counted in the text beside what the model says; one that is off by one is off."""
    counts = np.asarray(fit.counts_)
    found = np.zeros(len(counts), np.int64)
    for ids, _ in fit.data:
        found += np.bincount(ids, minlength=len(counts))
    return {"counts_": float(np.abs(found - counts).max(initial=0)) * 2}


@claim(
    "the loss fell in every epoch",
    kind=RULE_OF_THUMB,
    source="CIL 3.3.2",
    about="run",
)
def loss_fell(fit):
    """The largest rise from one epoch to the next, as a share of the largest loss; steps are noisy, so 1 % is let pass."""
    if len(fit.trace) < 2:
        return unknown("no epoch was made")
    return at_most(
        100 * fit.trace.largest_rise, 1, "lower alpha, or train fewer epochs", unit="largest rise %"
    )


SKIPGRAM_CLAIMS = (
    attributes_sound(
        {
            "embedding_": "d k",
            "context_embedding_": "d k",
            "biases_": "d",
            "counts_": "d | >= 0, falling",
            "loss_": " | >= 0",
        }
    ),
    statements_true(statement_errors, cost=passes(1)),
    loss_fell,
)
