"""Subspaces, drawn: what a projection loses, how axes are found, codes with few atoms."""
