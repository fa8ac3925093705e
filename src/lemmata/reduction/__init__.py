"""Dimension reduction (CIL 1): fewer numbers that keep what matters."""
