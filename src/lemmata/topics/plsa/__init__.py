"""Probabilistic latent semantic analysis (CIL 3.2): counts in parts, EM over them, the estimator."""
