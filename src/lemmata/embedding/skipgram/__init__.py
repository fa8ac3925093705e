"""Skip-gram and CBOW: words that predict the words around them."""
