"""Vectors of words: the result of every embedding. Search, analogies, judging, files, a picture."""
