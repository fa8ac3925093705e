"""The kernel of the trusted base: what a claim, evidence and a verdict are, and every bound, written once."""
