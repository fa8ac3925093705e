"""Claims about decisions on people in groups."""
