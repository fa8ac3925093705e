"""Claims about properties that a network is asked to have."""
