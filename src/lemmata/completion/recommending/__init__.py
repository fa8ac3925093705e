"""From predictions to lists: the best columns of a row, and rows and columns alike."""
