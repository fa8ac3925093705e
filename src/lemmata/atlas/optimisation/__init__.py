"""Optimisation, drawn: steps that are too long, momentum, saddles, and sets that bind."""
