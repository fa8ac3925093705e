"""Prediction (ML): kernels first; the models that predict with them follow."""
