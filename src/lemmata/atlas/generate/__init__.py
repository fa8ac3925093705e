"""Figures of the chapter on generative models."""
