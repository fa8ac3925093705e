"""Claims about generative models: series, images, flows, bounds on likelihoods."""
