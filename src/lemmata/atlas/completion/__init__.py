"""Matrix completion, drawn: from one product of two numbers to when a matrix can be completed at all."""
