"""Claims about minimisers, and about the points where they end."""
