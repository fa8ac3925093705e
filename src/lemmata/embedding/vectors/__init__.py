"""Vectors of words: what every embedding gives, whoever trained it. Search, analogies, judging, files, a picture."""
