"""Linear support vector machines (ML "SVM"): interior point, dual coordinate ascent, sub-gradients, the estimator."""
