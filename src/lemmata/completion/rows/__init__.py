"""Ridge regressions, one per row: what ALS, folding in and several others solve, with its kernels."""
