"""Latent Dirichlet allocation (CIL 3.2.4; CIL20 4.4): Gibbs sampling, variational inference, priors, the estimator."""
