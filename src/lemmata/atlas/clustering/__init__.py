"""Clusters and mixtures, drawn: centres, trees, and expectation maximisation."""
