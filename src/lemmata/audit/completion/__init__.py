"""Claims about completed matrices and recommenders."""
