"""Coresets: a few weighted rows that stand for all, drawn in two passes, and the estimator around them."""
