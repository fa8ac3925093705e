"""Claims about vectors of words from anywhere, and what gensim's Word2Vec says besides them.

By skip-gram and negative sampling the scores are known too, ⟨wv.vectors_w, syn1neg_v⟩. Pairs are symmetric on average, so it
does not matter that gensim lets the neighbour predict the word in the middle. It keeps an occurrence with probability
`sample_int`/2³², draws reaches evenly from 1 … window, and leaves a negative out that is the word itself:
M_wv = r q_v (N_w − N_wv).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.audit.embedding import skipgram
from lemmata.audit.embedding.geometry import GEOMETRY_CLAIMS
from lemmata.audit.kernel.attributes import attributes_sound

SOUND = attributes_sound(
    {"embedding_": "d k", "context_embedding_?": "d k", "biases_?": "d", "counts_?": "d >=0"}
)
ABOUT_PAIRS = (skipgram.beats_frequencies, skipgram.follows_information)
VECTORS_CLAIMS = (SOUND, *GEOMETRY_CLAIMS)
COUNTED_VECTORS_CLAIMS = (SOUND, skipgram.TRUE, *GEOMETRY_CLAIMS)
WORD2VEC_CLAIMS = (SOUND, skipgram.TRUE, *ABOUT_PAIRS, *GEOMETRY_CLAIMS)


def word2vec_of(model: Any) -> dict[str, Any]:
    """Return what the claims about pairs read of a Word2Vec; {} where it was not trained by negative sampling."""
    if model.hs or not model.negative > 0 or not hasattr(model, "syn1neg"):
        return {}
    found = {
        "context_embedding_": np.asarray(model.syn1neg),
        "biases_": np.zeros(len(model.wv.index_to_key)),
        "objective": "negative",
        "negatives_per": "pair",
        "negatives_differ_": True,
        "sample": float(model.sample or 0.0),
        "sg": bool(model.sg),
        "claims": WORD2VEC_CLAIMS if model.sg else COUNTED_VECTORS_CLAIMS,
    }
    keep = model.wv.expandos.get("sample_int") if model.sample else None
    return found if keep is None else {**found, "keep_": (np.asarray(keep, np.float64) + 1) / 2**32}
