"""Evaluation and generalisation: scores with intervals, choices with guarantees, bias and variance (ML Generalization gap)."""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "bounds": "hoeffding union_bound samples_needed clopper_pearson betting",
        "evaluation": "evaluate Evaluation",
        "comparison": "compare Comparison",
        "cross_validation": "cross_validate CrossValidation",
        "decomposition": "bias_variance BiasVariance",
        "fair.report": "fairness Fairness",
        "fair.thresholds": "FairThresholds certify_thresholds",
        "fair.logistic": "FairLogisticRegression",
        "fair.weights": "reweigh",
        "fair.representation": "Decorrelate FairAutoencoder",
        "fair.criteria": "demographic_parity_difference demographic_parity_ratio equalized_odds_difference"
        " equalized_odds_ratio equal_opportunity_difference equal_opportunity_ratio rates_by_group",
        "robust.ball": "Ball",
        "robust.report": "attack Robustness",
        "robust.transfer": "steal StolenModel",
        "robust.training": "AdversarialTraining",
        "robust.smoothing": "SmoothedClassifier",
        "laws": "GaussianClasses FiniteLaw RegressionLaw BayesClassifier SmoothClasses TwoFeatures",
        "nearest": "NeighbourBound neighbour_bound",
    },
)
