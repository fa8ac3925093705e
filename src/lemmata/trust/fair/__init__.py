"""Fairness: rates by group with intervals, claims about them, and ways to meet a criterion."""
