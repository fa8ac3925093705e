"""Biased factorisation by stochastic gradient steps (ML Matrix Factorization)."""
