"""Baselines that every other completion has to beat: means, one factor, a filled matrix (CIL 2.1 to 2.3)."""
