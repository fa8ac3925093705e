"""Gradient methods as init/step pairs, sets to project onto, schedules, and `minimize`, whose result has a certificate.

>>> from lemmata import optim
>>> optim.minimize(optim.Rosenbrock(), [-1.2, 1.0], method="newton").certificate_.held[-2:]
['first_order', 'second_order']
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "adaptive": "AdaGrad Adam AdamCIL RMSprop SignSGD",
        "convexity": "ConvexitySearch search_nonconvexity",
        "curves": "CurveFit ellipse fit_curve fit_ellipse",
        "curvature": "condition_number hessian hessian_product pl_constant smoothness",
        "games": "DescentAscent Lagrangian saddle_point",
        "methods.backtracking": "BackoffDescent LineSearchDescent armijo wolfe",
        "methods.coordinate": "CoordinateDescent",
        "methods.descent": "Descent DescentState",
        "methods.newton": "LBFGS NewtonDirection newton_descent",
        "methods.noisy": "NoisyDescent",
        "methods.penalties": "Conditions MultiplierDescent",
        "methods.stochastic": "StochasticDescent SumOf",
        "methods.subgradient": "SubgradientDescent gap_bound",
        "minimizing": "Result certify_minimum minimize",
        "objectives": "LeastAbsolute LeastSquares Logistic Quadratic Rosenbrock",
        "planning": "METHODS",
        "projections": "Affine Ball Box L1Ball PSD RankK Simplex",
        "schedules": "Constant Cosine InverseDecay PowerDecay Schedule StepDecay",
        "steps": "SGD AveragedMomentum GradientDescent HeavyBall Nesterov OptState Optimizer Params gradient_norm",
    },
)
