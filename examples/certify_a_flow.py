"""Certify a flow of another library, zuko's, or, where it is not installed, a density of torch; then one that lies.

./run py examples/certify_a_flow.py
"""

import numpy as np
import torch
from torch import distributions as D

import lemmata

rng = np.random.default_rng(0)


def arc(n):
    t = rng.uniform(0, 3, n)
    return np.column_stack([np.cos(t), np.sin(t)]) + 0.1 * rng.normal(size=(n, 2))


X, new = arc(1000), arc(500)
rows = torch.from_numpy(X).float()
torch.manual_seed(0)
try:
    import zuko

    flow = zuko.flows.NSF(2, transforms=2, hidden_features=(32, 32))
    optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
    for _ in range(100):
        loss = -flow().log_prob(rows).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
except ModuleNotFoundError:
    print("zuko is not installed (pip install zuko): torch's normal density instead")
    factor = torch.linalg.cholesky(torch.cov(rows.T))
    flow = D.MultivariateNormal(rows.mean(0), scale_tril=factor)

# X is what it was fitted to; new rows decide whether it says more than independent columns.
print(lemmata.certify(flow, X, X_test=new))


class Stretch(D.Transform):
    """x = 2z, with the sign of its ln|det J| the wrong way round: a slip of one character."""

    domain = codomain = D.constraints.real_vector
    bijective = True

    def _call(self, z):
        return 2 * z

    def _inverse(self, x):
        return x / 2

    def log_abs_det_jacobian(self, z, x):
        return z.new_full(z.shape[:1], -2 * float(np.log(2)))


base = D.Independent(D.Normal(torch.zeros(2), torch.ones(2)), 1)
liar = D.TransformedDistribution(base, [Stretch()])
print(f"\nits mean ln p of new rows: {float(liar.log_prob(torch.from_numpy(new)).mean()):.2f} nats")
found = lemmata.certify(liar, X, X_test=new)
print("what fails:", ", ".join(found.failed))
assert "log_det_true" in found.failed
