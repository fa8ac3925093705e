"""Two embeddings in one space: the rotation between them, retrieval, self-learning (CIL20 5.5)."""
