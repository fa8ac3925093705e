"""Windows over text: which words are dropped, how far windows reach, and the negatives."""
