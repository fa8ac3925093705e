"""Claims about topic models with a prior (LDA), and what documents that were not fitted to have for a probability.

    left_to_right.py, enumeration.py    p(w) by a particle filter, and by summing up
    estimates.py                        held-out perplexity from them, with its standard error
    foreign.py                          scikit-learn's, gensim's and tomotopy's models, and their documents
"""

LDA_FOREIGN_CLAIMS: tuple = ()
