"""Claims about a completion on entries that it was not trained on."""
