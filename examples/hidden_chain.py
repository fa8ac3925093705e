"""A casino changes its die now and then: a hidden Markov chain, learned by `run_em` from two functions.

python examples/hidden_chain.py
"""

import numpy as np

from lemmata.mixtures import run_em


def e_step(x, theta):
    """Forward and backward sums: expected faces per die, expected changes, the first die; and ln p(x | θ)."""
    start, change, faces = theta
    n, seen = len(x), faces[:, x].T  # (n, k) p(x_t | die)
    ahead, back, scale = np.empty(seen.shape), np.ones(seen.shape), np.empty(n)
    for t in range(n):
        ahead[t] = (start if t == 0 else ahead[t - 1] @ change) * seen[t]
        scale[t] = ahead[t].sum()
        ahead[t] /= scale[t]
    for t in range(n - 2, -1, -1):
        back[t] = change @ (seen[t + 1] * back[t + 1]) / scale[t + 1]
    which = ahead * back  # p(die at t | x)
    later = (seen[1:] * back[1:]) / scale[1:, None]
    changes = change * (ahead[:-1].T @ later)
    thrown = np.array([which[x == face].sum(axis=0) for face in range(faces.shape[1])]).T
    return (which[0], changes, thrown), np.log(scale).sum()


def m_step(x, q, theta):
    start, changes, thrown = q
    return (
        start,
        changes / changes.sum(axis=1, keepdims=True),
        thrown / thrown.sum(axis=1, keepdims=True),
    )


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    loaded, x = 0, []
    for _ in range(2000):
        loaded = loaded if rng.random() < 0.95 else 1 - loaded
        x.append(5 if loaded and rng.random() < 0.7 else rng.integers(6))
    start = np.array([0.5, 0.5]), np.array([[0.8, 0.2], [0.2, 0.8]]), np.full((2, 6), 1 / 6)
    start[2][1] = [0.1, 0.1, 0.1, 0.1, 0.1, 0.5]
    found = run_em(e_step, m_step, np.array(x), start, tol=1e-6)
    print(found.certificate_)
    print(f"the loaded die shows a six in {found.theta_[2][1, 5]:.0%} of its throws")

    # one that takes every face for equally likely lowers the likelihood, and is found out
    def wrong(x, q, theta):
        return *m_step(x, q, theta)[:2], np.full((2, 6), 1 / 6)

    broken = run_em(e_step, wrong, np.array(x), found.theta_)
    print("what fails:", ", ".join(broken.certificate_.failed))
