"""Claims about mixtures fitted by EM."""
