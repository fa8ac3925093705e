"""Approximation by networks: constructions with their error, in NumPy (CIL 4.1.2, 4.2.4; ML "Deep Learning").

layers      a net as a list of matrices; linear nets collapse to one; a ReLU net at a point is its pruned linear net
piecewise   every continuous piecewise-linear function of one number is a ReLU net with one hidden layer, exactly
rectangles  Riemann sums as sigmoid nets: one hidden layer for f(x), two with a threshold for f(x₁, x₂)
barron      one hidden layer in any dimension: the mean squared error falls like 1/width

>>> from lemmata.nets import approximation
>>> net = approximation.piecewise_linear_net([0, 1, 2], [0, 1, 0])        # a tent
>>> net([[-1.0], [0.5], [1.0], [3.0]]).ravel()
array([-1. ,  0.5,  1. , -1. ])
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "layers": "Layers LinearRegion collapse linear_region most_regions pruned",
        "piecewise": "interpolation_bound piecewise_linear_net",
        "rectangles": "Approximation rectangle_net rectangle_net_2d",
        "barron": "Cosines barron_net fitted_rate sample_ball",
    },
    extra=("torch", "deep"),
)
