"""Figures of the chapters on prediction and generalisation."""
