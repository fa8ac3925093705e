"""Claims about predictors: linear, by kernels, by neighbours."""
