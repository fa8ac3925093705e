"""Regression that outliers cannot turn: absolute, Huber, Tukey."""
