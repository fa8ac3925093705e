"""Figures of the chapters on networks."""
