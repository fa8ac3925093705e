"""Word vectors by factorising pointwise mutual information (CIL 3.3.3; CIL20 5.4): the matrix, the estimator."""
