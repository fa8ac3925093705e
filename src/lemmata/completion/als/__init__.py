"""Alternating least squares (CIL 2.4): the algorithm, the choice of its penalty, a cluster to run it on."""
