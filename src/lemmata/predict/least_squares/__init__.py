"""Least squares and ridge: sums over rows, their solution, and what it is worth."""
