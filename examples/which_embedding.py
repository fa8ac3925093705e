"""Which embedding for a small corpus? Models of the same text, judged by what nobody told them: plurals.

python examples/which_embedding.py

Singular and plural ("array", "arrays") stand in nearly the same company, so good vectors have them near each other. The
pairs are found by spelling, the vectors only by company: a test without labels, for any text of yours. (Not for parts of
words, `SkipGram(max_n=6)`, which see the spelling.)
"""

import time

import numpy as np

from lemmata import data, text
from lemmata.embedding import PMI, GloVe, SkipGram, WordVectors

encoded = text.encode(data.docstrings().texts[::4], min_count=20, max_vocab_size=3000)
words = encoded.vocabulary
print(f"{encoded.n_tokens:,} words of docstrings, {len(words):,} different ones")

plurals = [(word, f"{word}s") for word in words if len(word) > 3 and f"{word}s" in words]
print(f"{len(plurals)} pairs such as {plurals[0]}; by chance {10 / len(words):.1%} are found")


def found(vectors: WordVectors) -> float:
    """How many plurals are among the ten words nearest to their singular."""
    return float(np.mean([many in dict(vectors.nearest(one, 10)) for one, many in plurals]))


brief = {"vector_size": 50, "window": 4, "random_state": 0}
models = {
    "PMI": PMI(**brief),
    "GloVe": GloVe(**brief),
    "SkipGram, 5 epochs": SkipGram(**brief, negatives_per="window"),
    "SkipGram, 15 epochs": SkipGram(**brief, negatives_per="window", epochs=15),
}
for name, model in models.items():
    begin = time.perf_counter()
    vectors = model.fit(encoded).vectors_
    seconds = time.perf_counter() - begin
    near = ", ".join(word for word, _ in vectors.nearest("matrix", 4))
    print(
        f"{name:<20} {seconds:4.1f} s, {found(vectors):4.0%} of the plurals; near “matrix”: {near}"
    )
    print(f"{'':<20} what fails: {', '.join(model.certificate_.failed) or 'nothing'}")
print("counts first: PMI needs one pass; steps need more of them to reach it")
