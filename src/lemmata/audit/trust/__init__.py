"""Claims about models on rows that they have not seen."""
