"""What our loop costs per step, beside a loop of PyTorch's and SciPy's own; the same iterates on the same function."""

import warnings

import numpy as np
from scipy.optimize import minimize as scipy_minimize

import lemmata
from bench.helpers.harness import compare
from lemmata import optim

STEPS, D = 2000, 100


def problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, D))
    return optim.LeastSquares(X, X @ rng.standard_normal(D) + rng.standard_normal(500), reg=0.1)


def bare(f, eta):
    w = np.zeros(D)
    for _ in range(STEPS):
        w = w - eta * f(w)[1]
    return w


def torch_loop(f, make):
    import torch

    torch.set_num_threads(1)
    w = torch.zeros(D, dtype=torch.float64, requires_grad=True)
    optimizer = make([w])
    for _ in range(STEPS):
        w.grad = torch.from_numpy(f(w.detach().numpy())[1])  # the same gradients, without autograd
        optimizer.step()
    return w.detach().numpy()


def main():
    import torch

    f = problem()
    eta = 1 / f.L

    def ours(method, **options):
        def once():
            with lemmata.config(certificate=False):
                return optim.minimize(f, np.zeros(D), method, tol=0.0, max_iter=STEPS, **options).x

        return once

    for name, peer in (
        ("gd", lambda p: torch.optim.SGD(p, lr=eta)),
        ("adam", lambda p: torch.optim.Adam(p, lr=0.01)),
    ):
        step = eta if name == "gd" else 0.01
        systems = {
            "lemmata": ours(name, step_size=step),
            "torch.optim": lambda peer=peer: torch_loop(f, peer),
        }
        if name == "gd":
            systems["a bare for loop"] = lambda: bare(f, eta)
        compare(f"{name}: {STEPS:,} steps on 500 × {D} least squares", systems, rounds=3)

    start = np.tile([-1.2, 1.0], 50)
    rosenbrock = optim.Rosenbrock()

    def scipy_run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = {"maxiter": 2000, "gtol": 1e-9, "ftol": 0.0, "maxfun": 40_000}
            return scipy_minimize(rosenbrock, start, jac=True, method="L-BFGS-B", options=options)

    with_certificate = lambda: optim.minimize(rosenbrock, start, tol=1e-8, max_iter=2000)  # noqa: E731
    systems = {"lemmata": with_certificate, "scipy L-BFGS-B": scipy_run}
    compare("L-BFGS on 100 numbers of Rosenbrock's, ours with its certificate", systems, rounds=3)
