"""Evaluation and generalisation: scores with intervals, choices with guarantees, bias and variance (ML Generalisation)."""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "hoeffding": "bounds",
        "union_bound": "bounds",
        "samples_needed": "bounds",
        "clopper_pearson": "bounds",
        "betting": "bounds",
        "evaluate": "evaluation",
        "Evaluation": "evaluation",
        "compare": "comparison",
        "Comparison": "comparison",
        "cross_validate": "cross_validation",
        "CrossValidation": "cross_validation",
        "bias_variance": "decomposition",
        "BiasVariance": "decomposition",
        "GaussianClasses": "laws",
        "FiniteLaw": "laws",
        "RegressionLaw": "laws",
        "BayesClassifier": "laws",
    },
)
