"""From what is trained to what is shown, and back: parts of words, clamped biases, documents.

Trained are rows: inputs, outputs and biases (`SkipGramState`). Shown are vectors of words:

    parts of words      x_w = Σ of its rows / √m            embedding_, and the rows of parts as parts_
    clamped biases      ζ_w ← (1, ζ_w),  z_v ← (b_v, z_v)   one coordinate of every input is 1, so that of z_v is v's bias
    documents           outputs are the words               embedding_, and the inputs as context_embedding_

A coordinate that is clamped to 1 has no step, and the step of its counterpart is that of a bias: ∂⟨ζ, z⟩/∂z_1 = 1. So training
with a clamped coordinate is training with a bias, number for number, and the two are joined to the vectors at the end.
(CIL 3.3.4 clamps a coordinate of z, too: then ζ has a bias of its own, which p(v | w) of (3.47) does not.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lemmata.embedding.skipgram.algorithm import SkipGramState
from lemmata.embedding.skipgram.windowed import WindowedText
from lemmata.embedding.subwords import PartTable, PartVectors

Array = np.ndarray


def attributes_of(found: dict[str, Any], data: WindowedText, clamped: bool) -> dict[str, Any]:
    """Public attributes from those of a run, which are rows as they were trained."""
    inputs, outputs, biases = (
        found[name] for name in ("embedding_", "context_embedding_", "biases_")
    )
    parts: dict[str, Any] = {}
    if data.parts is not None:
        parts = {"parts_": data.parts.vectors(inputs)}
        inputs = data.parts.composed(inputs)
    if clamped:
        ones = np.ones((len(inputs), 1), inputs.dtype)
        inputs = np.concatenate([ones, inputs], axis=1)
        outputs = np.concatenate([biases[:, None], outputs], axis=1)
        biases = np.zeros_like(biases)
    if data.context == "document":
        inputs, outputs = outputs, inputs
    shown = {"embedding_": inputs, "context_embedding_": outputs, "biases_": biases}
    return {**found, **shown, **parts, "counts_": data.counts}


def state_with(
    model: Any, state: SkipGramState, data: WindowedText, places: Array, clamped: bool
) -> SkipGramState:
    """A first state with what a fitted model shows in it, its words at these places of the vocabulary."""
    inputs, outputs, biases = model.embedding_, model.context_embedding_, model.biases_
    one = outputs if data.context == "document" else inputs
    if clamped != bool((one[:, 0] == 1).all()):
        raise ValueError(
            "biases were not clamped in the fit that is to go on, or were and are not now; leave them as they were."
        )
    if data.context == "document":
        inputs, outputs = None, inputs  # the documents are new
    if clamped:
        biases, outputs = outputs[:, 0], outputs[:, 1:]
        inputs = None if inputs is None else inputs[:, 1:]
    changed: dict[str, Any] = {"biases": state.biases.copy(), "vectors": state.vectors.copy()}
    changed["biases"][places] = biases
    if inputs is not None and data.parts is None:
        changed["vectors"][places] = inputs
    elif inputs is not None and data.parts is not None:
        changed["vectors"] = _rows_with(
            vars(model).get("parts_"), inputs, state.vectors, data.parts, places
        )
    if len(state.outputs):
        changed["outputs"] = state.outputs.copy()
        changed["outputs"][places] = outputs
    return replace(state, **changed)


def _rows_with(
    known: PartVectors | None, vectors: Array, rows: Array, table: PartTable, places: Array
) -> Array:
    """Rows of words and parts: known parts keep their vectors, known words theirs, and a new word begins as its parts say."""
    v = table.n_words
    own, parts = rows[:v].copy(), rows[v:].copy()
    if known is not None:
        now = table.min_n, table.max_n, table.bucket
        if now != (known.min_n, known.max_n, known.bucket):
            raise ValueError(
                f"the fit that is to go on has parts of {known.min_n} to {known.max_n} letters in {known.bucket:,} slots; "
                f"leave min_n, max_n and bucket as they were, not {now}."
            )
        parts[np.searchsorted(table.slots, known.slots)] = known.matrix
    words = np.zeros((v, rows.shape[1]), rows.dtype)
    words[places] = vectors
    own[places] = table.decomposed(words, parts)[places]
    return np.concatenate([own, parts])
