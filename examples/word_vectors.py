"""Learn vectors of words from a text, ask them for neighbours, go on with more text, and exchange them with other tools.

python examples/word_vectors.py
"""

import tempfile
from pathlib import Path

from lemmata import data
from lemmata.embedding import SkipGram, WordVectors

docstrings = data.docstrings().texts
first, more = docstrings[::12], docstrings[1::48]

model = SkipGram(
    vector_size=24, window=4, min_count=10, max_vocab_size=800, epochs=4, alpha=0.05,
    negatives_per="window", deterministic=True, random_state=0,
).fit(first)  # fmt: skip
print(model.vectors_)
print("loss of every epoch:", " ".join(f"{loss:.3f}" for loss in model.trace_.objective))

for word in ("array", "matrix", "string"):
    print(f"{word}: {', '.join(near for near, _ in model.vectors_.nearest(word, 5))}")
print("first is to last as start is to:", model.vectors_.analogy("first", "last", "start", n=3))

words = len(model.vectors_)
model.set_params(epochs=1).partial_fit(more)
print(f"after more text: {words} words became {len(model.vectors_)}")

with tempfile.TemporaryDirectory() as folder:
    for name in ("vectors.bin", "vectors.txt", "vectors.safetensors"):
        model.vectors_.write(Path(folder) / name)
    back = WordVectors.read(Path(folder) / "vectors.bin")
    same = back.nearest("array", 1)[0][0] == model.vectors_.nearest("array", 1)[0][0]
    print(f"written and read by word2vec's formats: the same neighbours: {same}")

print("what is certified:", ", ".join(model.certificate_.held))
