"""Claims about predictors in the feature space of a kernel."""
