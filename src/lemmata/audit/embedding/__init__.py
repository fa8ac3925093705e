"""Claims about vectors of words, sentences and texts."""
