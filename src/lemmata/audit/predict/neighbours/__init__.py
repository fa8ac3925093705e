"""Claims about predictions by neighbours."""
