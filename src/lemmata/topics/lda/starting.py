"""Start of a chain on many documents: topics of the tokens drawn from two passes of online variational inference.

From topics drawn at random, Gibbs sampling needs a hundred passes to separate words; online.py does that in two. Each token
then draws its topic from θ_dj φ_jw. Another seed starts elsewhere.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.topics.lda.documents import DocumentParts, side_by_side
from lemmata.topics.lda.mixtures import mixtures_of
from lemmata.topics.lda.online import OnlineAlgorithm
from lemmata.topics.lda.tokens import Tokens
from lemmata.topics.lda.variational import as_topics

Array = np.ndarray
PASSES = 2
CHUNK = 2**21  # numbers of θφ at a time


def first_topics(
    tokens: Tokens, alpha: tuple[float, ...], beta: Array, rng: np.random.Generator
) -> Array:
    """A topic for every token, in the order of `tokens`."""
    blocks, k = Blocks.of(sp.csr_array(tokens.counts, dtype=np.float32)), len(alpha)
    documents = DocumentParts(blocks, k, PASSES, compiled=tokens.compiled)
    size = min(max(documents.shape[0] // 16, 64), 1024)
    algorithm = OnlineAlgorithm(alpha, beta, False, size, 0.6, 1.0)
    state = algorithm.init(documents, rng)
    for _ in range(PASSES):
        state = algorithm.step(state, documents)
    phi = as_topics(state.lam)
    theta = mixtures_of(blocks, phi.T, np.asarray(alpha))
    goals, topics = rng.random(len(tokens), dtype=np.float32), np.empty(len(tokens), np.int64)
    step = max(1, CHUNK // k)

    def draw(first: int) -> None:
        here = slice(first, first + step)
        edges = np.cumsum(theta[tokens.documents[here]] * phi[tokens.words[here]], axis=1)
        passed = (edges <= (goals[here] * edges[:, -1])[:, None]).sum(axis=1)
        topics[here] = np.minimum(passed, k - 1)

    side_by_side(draw, list(range(0, len(tokens), step)))
    return topics
