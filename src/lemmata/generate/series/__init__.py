"""Series of numbers: autoregressive processes."""
