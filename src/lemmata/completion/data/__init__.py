"""Known entries of a matrix on their way in: from files and frames, by labels, in both orders, and out to a folder."""
