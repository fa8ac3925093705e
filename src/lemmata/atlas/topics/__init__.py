"""Figures of the chapters on topic models."""
