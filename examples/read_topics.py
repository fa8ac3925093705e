"""Find topics in texts, read them, and learn how far to trust them.

python examples/read_topics.py
"""

from lemmata import data, text
from lemmata.topics import PLSA

docstrings = data.docstrings()
texts, rest = docstrings.texts[::8], docstrings.texts[1::8]

counts = text.counts(
    texts, stop_words="english", token_pattern="[a-z]{3,}", min_df=5, max_df=0.3, max_features=1500
)
model = PLSA(8, max_iter=200, tol=1e-4, random_state=0).fit(counts)

print(model.table(counts, n=7))
print(f"diversity {model.diversity(10):.2f}")

print("\nwords of several topics:")
for word, topics, _ in list(model.words_in_several_topics(10))[:3]:
    print(f"  {word}: topics {', '.join(map(str, topics))}")

largest = model.table()[0].topic
first = model.documents_of(largest, n=1)[0]
print(f"\nmost of topic {largest}: {texts[first.document].splitlines()[0]!r}")

print("\na text in the colours of its topics (numbers below its words):")
print(model.show("Read the samples from a file and fit a distribution to each sparse matrix."))

print("\nnew documents, one batch after the other:")
for start in range(0, 300, 100):
    model.partial_fit(model.encode(rest[start : start + 100]))
print(f"after {model.n_iter_} batches: {' '.join(model.top_words(6)[largest])}")

print("\nwhat is certified of the first fit:")
certificate = PLSA(8, max_iter=200, tol=1e-4, random_state=0).fit(counts).certify(counts)
print("held:", ", ".join(certificate.held))
print("failed:", ", ".join(certificate.failed) or "nothing")
