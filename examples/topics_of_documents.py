"""Topics with priors: fit them three ways, call a topic by a word, learn from a stream, draw new documents.

python examples/topics_of_documents.py
"""

from lemmata import data, text
from lemmata.topics import LDA

texts = data.docstrings().texts[::20]
counts = text.counts(
    texts, stop_words="english", token_pattern="[a-z]{3,}", min_df=5, max_df=0.3, max_features=800
)
train = counts.matrix

print(f"{train.shape[0]} documents, {train.sum():,} tokens")
for method, passes in (("batch", 30), ("online", 10)):
    model = LDA(6, learning_method=method, max_iter=passes, tol=1e-4, random_state=0).fit(train)
    print(f"{method}: {model.top_words(5, counts.words)[0]}")

print("\na topic that is called by a word, and an α that is learnt:")
model = LDA(
    6, learning_method="batch", seed_words={0: ["matrix", "sparse"]}, doc_topic_prior="auto",
    max_iter=30, tol=1e-4, random_state=0,
).fit(counts)  # fmt: skip
print(" ".join(model.top_words(6)[0]))
print("α:", ", ".join(f"{a:.2f}" for a in model.doc_topic_prior_))

print("\na stream of documents:")
stream = LDA(6, learning_method="online", total_samples=len(texts), random_state=0)
for start in range(0, len(texts), 100):
    stream.partial_fit(counts.encode(texts[start : start + 100]))
print(f"after {stream.n_iter_} batches: {' '.join(stream.top_words(6)[0])}")

print(
    "\na new document is a mixture:",
    model.transform(counts.encode(texts[-1:])).round(2).tolist()[0],
)
drawn = model.sample(1, length=12, random_state=0)
words = [
    word for word, n in zip(drawn.words, drawn.matrix.toarray()[0], strict=True) for _ in range(n)
]
print("a document that nobody wrote:", " ".join(words))
print("held:", ", ".join(model.certify(counts).held))
