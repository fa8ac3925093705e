"""Three models of documents, and two of another library's, judged on the same new documents by the same function.

python examples/honest_perplexity.py
"""

import warnings

import numpy as np
from sklearn.decomposition import LatentDirichletAllocation

import lemmata
from lemmata import LDA, PLSA, Mixture, data, text
from lemmata.mixtures.families import Multinomial
from lemmata.topics import perplexity, unigram

# docstrings of the installed scientific stack, long enough to have topics
found = data.docstrings(min_length=1500)
chosen = np.random.default_rng(0).permutation(len(found.texts))[:360]
counts = text.counts([found.texts[i] for i in chosen], stop_words="english", min_df=10, max_df=0.3)
train, test = counts.matrix[:300], counts.matrix[300:]
print(f"{counts}: 300 documents to learn from, 60 to be judged by")

warnings.simplefilter("ignore")  # some runs are cut short
k, priors = 10, {"doc_topic_prior": 0.1, "topic_word_prior": 0.1}
models = {
    "unigram: no topics": unigram(train),
    "mixture: a topic per document": Mixture(k, family=Multinomial(smoothing=0.1), random_state=0).fit(train),
    "pLSA: a mixture per document": PLSA(k, max_iter=60, random_state=0).fit(train),
    "LDA by Gibbs sampling": LDA(k, max_iter=80, random_state=0, **priors).fit(train),
    "scikit-learn's LDA": LatentDirichletAllocation(k, max_iter=5, random_state=0, **priors).fit(train),
}  # fmt: skip

print(f"\n{'':32}{'p(w)':>9}{'±':>6}   {'p(w² | w¹)':>10}")
for name, model in models.items():
    # pLSA has no prior: it can go on with a document, but gives none a probability
    whole = None if name.startswith("pLSA") else perplexity(model, test)
    completed = perplexity(model, test, method="completion")
    first = f"{'none':>9}{'':6}" if whole is None else f"{float(whole):9.1f}{whole.standard_error:6.1f}"  # fmt: skip
    print(f"{name:32}{first}   {float(completed):10.1f}")

theirs = models["scikit-learn's LDA"]
# its own number is a bound, which also charges the new documents for all that was learnt about the topics
print(f"\nscikit-learn's own perplexity(): {theirs.perplexity(test):.1f}, a bound")
print(lemmata.certify(theirs, train, X_test=test))
