"""Did somebody else's encoder collapse? Its loss says no, its rank says no; where its features point says yes.

./run py examples/did_it_collapse.py
"""

import copy

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cosine_similarity

import lemmata

X = torch.tensor(load_digits().images[:, None] / 16, dtype=torch.float32)
X, new = X[:1300], X[1300:]


def augment(batch, generator):
    """Noise, and up to a third of the pixels left out."""
    kept = torch.rand(batch.shape, generator=generator) > 0.3 * torch.rand(1, generator=generator)
    return kept * batch + 0.1 * torch.randn(batch.shape, generator=generator)


def train(careful: bool, updates: int = 300):
    """A loop by hand: predict what the network says of another view. Careful: a slow target, and no gradient into it."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
    predictor = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
    target, rng = copy.deepcopy(net), torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam([*net.parameters(), *predictor.parameters()], 2e-3)
    for _ in range(updates):
        batch = X[torch.randint(len(X), (128,), generator=rng)]
        a, b = augment(batch, rng), augment(batch, rng)
        z, z_plus = net(a), net(b)
        t, t_plus = (target(a).detach(), target(b).detach()) if careful else (z, z_plus)
        loss = 2 - cosine_similarity(predictor(z), t_plus) - cosine_similarity(predictor(z_plus), t)
        optimizer.zero_grad()
        loss.mean().backward()
        optimizer.step()
        with torch.no_grad():
            for slow, weight in zip(target.parameters(), net.parameters(), strict=True):
                slow.lerp_(weight, 0.02)
    return net, loss.mean().item()


for name, careful in (("slow target, stopped gradient", True), ("neither", False)):
    net, loss = train(careful)
    # digits that the loop never saw, and what a view is: all that a certificate needs
    found = lemmata.certify(net, new, properties={"views": augment})
    print(f"--- {name}: loss {loss:.4f}")
    print(f"not_collapsed {found['not_collapsed'].verdict}:", *found["not_collapsed"].remarks)
    print(f"views_found {found['views_found'].verdict}\n")
assert found["not_collapsed"].verdict == "fails"
