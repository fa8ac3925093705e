"""Windows over text: which words are dropped, how far a word looks, and which words it is told apart from."""
