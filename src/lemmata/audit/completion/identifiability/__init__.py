"""Claims about which places are known: whether they can determine a matrix."""
