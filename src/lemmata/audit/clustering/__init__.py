"""Claims about k-means and coresets."""
