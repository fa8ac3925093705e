"""Claims about vectors of words whose context is a whole sentence, or a document with a vector of its own.

Pairs of these are no pairs in windows: what is claimed of windows (skipgram.py) is not claimed here.
"""

from __future__ import annotations

from lemmata.audit.embedding.skipgram import loss_fell, statement_errors
from lemmata.audit.kernel.attributes import attributes_sound, statements_true
from lemmata.audit.kernel.claims import passes


def _claims(contexts: str):
    """What is checked where `context_embedding_` has a row for each of these."""
    sound = {
        "embedding_": "d k",
        "context_embedding_": f"{contexts} k",
        "biases_": "d",
        "counts_": "d | >= 0, falling",
        "loss_": " | >= 0",
    }
    return attributes_sound(sound), statements_true(statement_errors, cost=passes(1)), loss_fell


SENTENCE_CLAIMS = _claims("d")
DOCUMENT_CLAIMS = _claims("n")
