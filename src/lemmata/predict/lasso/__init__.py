"""Lasso and elastic net: one λ, the whole path, cross-validation, each with its duality gap."""
