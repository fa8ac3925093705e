"""Latent variables: k-means, seeding, coresets, EM and mixtures."""
