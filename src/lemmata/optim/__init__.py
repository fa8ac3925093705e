"""Gradient methods as init/step pairs, sets to project onto, schedules, and `minimize`, whose result has a certificate.

>>> from lemmata import optim
>>> optim.minimize(optim.Rosenbrock(), [-1.2, 1.0], method="newton").certificate_.held[-2:]
['first_order', 'second_order']
"""

from lemmata.optim.adaptive import AdaGrad, Adam, AdamCIL, RMSprop, SignSGD
from lemmata.optim.methods.descent import Descent, DescentState
from lemmata.optim.schedules import Constant, Cosine, InverseDecay, PowerDecay, Schedule, StepDecay
from lemmata.optim.steps import (
    SGD,
    AveragedMomentum,
    GradientDescent,
    HeavyBall,
    Nesterov,
    Optimizer,
    OptState,
    Params,
    gradient_norm,
)
from lemmata.registry import lazily

# steps are small; what needs SciPy or the audit is imported on first use
__getattr__, _, _lazy = lazily(
    __name__,
    {
        **dict.fromkeys(["Affine", "Ball", "Box", "L1Ball", "PSD", "RankK", "Simplex"], "projections"),
        **dict.fromkeys(["LeastAbsolute", "LeastSquares", "Logistic", "Quadratic", "Rosenbrock"], "objectives"),
        **dict.fromkeys(["condition_number", "hessian", "hessian_product", "pl_constant", "smoothness"], "curvature"),
        **dict.fromkeys(["StochasticDescent", "SumOf"], "methods.stochastic"),
        **dict.fromkeys(["SubgradientDescent", "gap_bound"], "methods.subgradient"),
        **dict.fromkeys(["BackoffDescent", "LineSearchDescent", "armijo", "wolfe"], "methods.backtracking"),
        **dict.fromkeys(["LBFGS", "NewtonDirection", "newton_descent"], "methods.newton"),
        **dict.fromkeys(["CoordinateDescent"], "methods.coordinate"),
        **dict.fromkeys(["DescentAscent", "Lagrangian", "saddle_point"], "games"),
        **dict.fromkeys(["NoisyDescent"], "methods.noisy"),
        **dict.fromkeys(["Conditions", "MultiplierDescent"], "methods.penalties"),
        **dict.fromkeys(["METHODS"], "planning"),
        **dict.fromkeys(["Result"], "minimizing"),
        **dict.fromkeys(["certify_minimum", "minimize"], "minimizing"),
    },
)  # fmt: skip

__all__ = [
    "SGD", "AdaGrad", "Adam", "AdamCIL", "AveragedMomentum", "Constant", "Cosine", "Descent", "DescentState",
    "GradientDescent", "HeavyBall", "InverseDecay", "Nesterov", "OptState", "Optimizer", "Params", "PowerDecay", "RMSprop",
    "Schedule", "SignSGD", "StepDecay", "gradient_norm", *_lazy,
]  # fmt: skip


def __dir__():
    return __all__
