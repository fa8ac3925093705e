"""Claims about linear predictors."""
