"""Claims about dimension reduction: PCA, kernel PCA, autoencoders, sparse codes, dictionaries."""
