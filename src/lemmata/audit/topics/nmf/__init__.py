"""Claims about non-negative matrix factorisation."""
