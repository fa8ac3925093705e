"""Word embeddings, drawn (CIL 3.3): the texts, reading vectors, what they approximate, and how they are trained."""
