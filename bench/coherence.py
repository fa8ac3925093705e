"""Coherence of topics beside gensim: ./run bench coherence

The topics are those of pLSA on the first 2,000 posts of the newsgroups; both read the same lists of words, so that cutting
texts into words is in neither time. gensim with one process, as lemmata has one thread here. Sliding windows give different
numbers where a word stands twice in one (gensim loses it), so the largest difference is printed.
"""

from __future__ import annotations

import time

import numpy as np

from lemmata import config, data, text
from lemmata.topics import PLSA
from lemmata.topics.coherence import coherence

MEASURES = {"u_mass": "u_mass", "npmi": "c_npmi", "c_v": "c_v"}


def main(n: int = 2000) -> None:
    from gensim.corpora import Dictionary
    from gensim.models import CoherenceModel

    texts = data.newsgroups("train").texts[:n]
    counts = text.counts(texts, stop_words="english", min_df=5, max_df=0.3)
    with config(certificate=False):
        topics = PLSA(20, max_iter=30, tol=0.0, random_state=0).fit(counts).top_words(10)
    words = [counts.tokenizer(one) for one in texts]
    dictionary = Dictionary(words)
    corpus = [dictionary.doc2bow(one) for one in words]
    print(f"coherence of 20 topics in {n:,} posts, {sum(map(len, words)):,} words")
    for ours, theirs in MEASURES.items():
        begin = time.perf_counter()
        found = coherence(topics, words, ours)
        mine = time.perf_counter() - begin
        begin = time.perf_counter()
        model = CoherenceModel(
            topics=topics, texts=words, corpus=corpus, dictionary=dictionary, coherence=theirs,
            processes=1, topn=10,
        )  # fmt: skip
        other = np.array(model.get_coherence_per_topic())
        taken = time.perf_counter() - begin
        apart = np.abs(found - other).max()
        print(
            f"  {ours:<7} lemmata {mine:7.2f} s   gensim {taken:7.2f} s   → {taken / mine:5.1f}x   "
            f"largest difference {apart:.2g}",
            flush=True,
        )
