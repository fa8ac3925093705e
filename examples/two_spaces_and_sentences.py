"""Bring two embeddings into one space, translate words, and compare sentences.

python examples/two_spaces_and_sentences.py
"""

from lemmata import data
from lemmata.embedding import PMI, SentenceEmbedding, SentenceVectors, align

docstrings = data.docstrings().texts[:5000]

# Two trainings on different texts: each has a space of its own, as two languages would.
first, second = (
    PMI(vector_size=30, min_count=30, random_state=seed).fit(docstrings[seed::2]).vectors_
    for seed in (0, 1)
)
shared = [word for word in first.words.tolist() if word in second]
given, held_out = ([(word, word) for word in shared[part::4]] for part in (0, 1))
found = align(first, second, given)
print(found)
print("held out:", found.precision(held_out))
for word in ("array", "matrix", "string"):
    if word in first:
        print(f"{word}: {', '.join(near for near, _ in found.translate(word, 4))}")
print(found.certify(held_out))

# Sentences: the weighted mean of their words, or of vectors that were trained to be averaged.
sentences = (" ".join(line.split()) for text in docstrings[::8] for line in text.split(". "))
lines = [line for line in sentences if 40 < len(line) < 120]
weighted = SentenceVectors(second).fit(lines)
trained = SentenceEmbedding(vector_size=20, min_count=5, epochs=10, random_state=0).fit(lines)
query = "Return the mean of the array elements along an axis"
averaged = SentenceVectors(trained.vectors_).fit(lines)
for name, model in (("SIF of PMI", weighted), ("SIF of words trained for it", averaged)):
    near, cosine = model.nearest(query, lines, n=1)[0]
    print(f"{name}, nearest to {query!r}: {near!r} ({cosine:.2f})")
print("what is certified:", ", ".join(weighted.certificate_.held))
