"""Searches for what the claims about linear predictors ask for: dual points, better weights, separating directions."""
