"""Shared by the benchmarks: timing in turns, and data to measure on."""
