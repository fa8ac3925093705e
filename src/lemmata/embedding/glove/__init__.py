"""Word vectors by weighted factorisation of log-counts (CIL 3.3.4; CIL20 5.4): counts, steps, estimator."""
