"""Texts by their words and parts of words (Joulin et al. 2017): features, the descent over them, the estimator."""
