"""Gradient methods as init/step pairs, sets to project onto, schedules, and `minimize`, whose result has a certificate.

>>> from lemmata import optim
>>> optim.minimize(optim.Rosenbrock(), [-1.2, 1.0], method="newton").certificate_.held[-2:]
['first_order', 'second_order']
"""

from lemmata.lazy import lazily

_HOMES = {
    **dict.fromkeys(["Descent", "DescentState"], "descent"),
    **dict.fromkeys(
        [
            "SGD", "AveragedMomentum", "GradientDescent", "HeavyBall", "Nesterov", "OptState", "Optimizer", "Params",
            "gradient_norm",
        ],
        "steps",
    ),
    **dict.fromkeys(["AdaGrad", "Adam", "AdamCIL", "RMSprop", "SignSGD"], "adaptive"),
    **dict.fromkeys(["Constant", "Cosine", "InverseDecay", "PowerDecay", "Schedule", "StepDecay"], "schedules"),
    **dict.fromkeys(["Affine", "Ball", "Box", "L1Ball", "PSD", "RankK", "Simplex"], "projections"),
    **dict.fromkeys(["LeastAbsolute", "LeastSquares", "Logistic", "Quadratic", "Rosenbrock"], "objectives"),
    **dict.fromkeys(["condition_number", "hessian", "hessian_product", "pl_constant", "smoothness"], "curvature"),
    **dict.fromkeys(["StochasticDescent", "SumOf"], "stochastic"),
    **dict.fromkeys(["SubgradientDescent", "gap_bound"], "subgradient"),
    **dict.fromkeys(["BackoffDescent", "LineSearchDescent", "armijo", "wolfe"], "backtracking"),
    **dict.fromkeys(["LBFGS", "NewtonDirection", "newton_descent"], "newton"),
    **dict.fromkeys(["CoordinateDescent"], "coordinate"),
    **dict.fromkeys(["DescentAscent", "Lagrangian", "saddle_point"], "games"),
    **dict.fromkeys(["NoisyDescent"], "noisy"),
    **dict.fromkeys(["Conditions", "MultiplierDescent"], "penalties"),
    **dict.fromkeys(["METHODS"], "planning"),
    **dict.fromkeys(["Result"], "result"),
    **dict.fromkeys(["certify_minimum", "minimize"], "minimizing"),
}  # fmt: skip

__getattr__, __dir__, __all__ = lazily(__name__, _HOMES)
