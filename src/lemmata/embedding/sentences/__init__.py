"""Vectors of sentences (ML "Text Representation"): means of word vectors, weighted means, vectors trained to be averaged."""
