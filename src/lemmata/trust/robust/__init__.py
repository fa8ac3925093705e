"""Adversarial robustness: small perturbations that fool a classifier, training against them, proofs that there are none."""
