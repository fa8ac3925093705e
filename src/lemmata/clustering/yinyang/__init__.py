"""Bounds that let k-means skip most distances: Hamerly's for each row, Yinyang's for each row and group of centres."""
