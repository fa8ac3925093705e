"""EM from two functions: the likelihood rises, also with half an M-step; a bound that is not tight is found out."""

import itertools
import runpy
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lemmata import GaussianMixture
from lemmata.mixtures import run_em

CHAIN = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "hidden_chain.py"))
X = np.random.default_rng(0).normal(size=(80, 1)) + 3 * (np.arange(80) % 2)[:, None]
START = np.array([0.4, 0.6]), np.array([-1.0, 1.0]), np.array([1.0, 1.0])


def joint(X, theta):
    weights, means, variances = theta
    return np.log(weights) - 0.5 * ((X - means) ** 2 / variances + np.log(2 * np.pi * variances))


def e_step(X, theta):
    logs = joint(X, theta)
    total = np.logaddexp.reduce(logs, axis=1)
    return np.exp(logs - total[:, None]), total.sum()


def m_step(X, q, theta):
    n = q.sum(axis=0)
    means = (q * X).sum(axis=0) / n
    return n / len(X), means, (q * (X - means) ** 2).sum(axis=0) / n


def bound(X, q, theta):
    """E_q ln p(x, z | θ) + H(q)."""
    return float((q * (joint(X, theta) - np.log(np.maximum(q, 1e-300)))).sum())


def test_a_mixture_by_its_steps_is_our_mixture():
    found = run_em(e_step, m_step, X, START, bound=bound, tol=1e-13, max_iter=5000)
    ours = GaussianMixture(2, reg_covar=0, tol=1e-12, max_iter=2000, random_state=0).fit(X)
    assert found.log_likelihood_ / len(X) == pytest.approx(ours.score(X), abs=1e-6)
    assert_allclose(np.sort(found.theta_[1]), np.sort(ours.means_.ravel()), atol=1e-2)
    assert found.certificate_.held == ["likelihood_never_fell", "bound_is_tight"]


def test_half_an_m_step_still_climbs_to_the_same_place():
    def only_means(X, q, theta):
        return theta[0], m_step(X, q, theta)[1], theta[2]

    def in_turns(
        X, q, theta
    ):  # half of the way to the means, or the variances for the means there are
        in_turns.t += 1
        weights, means, _ = m_step(X, q, theta)
        if in_turns.t % 2:
            return weights, 0.5 * (theta[1] + means), theta[2]
        return weights, theta[1], (q * (X - theta[1]) ** 2).sum(axis=0) / q.sum(axis=0)

    in_turns.t = 0
    whole = run_em(e_step, m_step, X, START, tol=1e-13, max_iter=5000)
    half = run_em(e_step, in_turns, X, START, tol=0, max_iter=3000)
    assert half.certificate_["likelihood_never_fell"].verdict == "holds"
    assert half.log_likelihood_ == pytest.approx(whole.log_likelihood_, abs=1e-4)
    part = run_em(e_step, only_means, X, START)
    assert part.certificate_["likelihood_never_fell"].verdict == "holds"
    assert part.log_likelihood_ < whole.log_likelihood_


def test_an_m_step_that_lowers_the_bound_is_named_with_its_step():
    def worse(X, q, theta):
        worse.t += 1
        return m_step(X, q, theta) if worse.t != 3 else (theta[0], theta[1] + 5, theta[2])

    worse.t = 0
    with pytest.warns(UserWarning, match=r"in 1 of \d+ steps, most in step 3"):
        found = run_em(e_step, worse, X, START)
    assert found.certificate_.failed == ["likelihood_never_fell"]
    assert "step 3" in found.certificate_["likelihood_never_fell"].advice


def test_a_posterior_that_is_none_leaves_a_gap():
    def hard(X, theta):
        q, value = e_step(X, theta)
        return np.eye(2)[q.argmax(axis=1)], value

    found = run_em(hard, m_step, X, START, bound=bound, max_iter=3)
    gap = found.certificate_["bound_is_tight"]
    assert gap.verdict == "fails"
    q, soft = found.q_, e_step(X, found.theta_)[0]
    kl = -np.log((q * soft).sum(axis=1)).sum()  # KL(q ‖ p) of a hard q
    assert gap.measured == pytest.approx(kl)


def test_the_forward_sums_of_a_chain_are_the_sum_over_all_paths():
    rng = np.random.default_rng(1)
    x = rng.integers(3, size=7)
    draw = lambda *shape: rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])  # noqa: E731
    theta = draw(1, 2)[0], draw(2, 2), draw(2, 3)

    def enumerated(x, theta):
        start, change, faces = theta
        total = 0.0
        for path in itertools.product(range(2), repeat=len(x)):
            p = start[path[0]] * np.prod([change[a, b] for a, b in itertools.pairwise(path)])
            total += p * np.prod([faces[z, face] for z, face in zip(path, x, strict=True)])
        return np.log(total)

    found = run_em(
        CHAIN["e_step"], CHAIN["m_step"], x, theta, log_likelihood=enumerated, max_iter=20
    )
    assert found.certificate_.held == ["likelihood_never_fell", "bound_is_tight"]
    assert found.log_likelihood_ > enumerated(x, theta)


@pytest.mark.parametrize(("e", "m"), [(3, m_step), (e_step, None), (lambda X, theta: 1.0, m_step)])
def test_steps_that_are_none_are_refused(e, m):
    with pytest.raises(TypeError, match=r"pass a function|\(q, value\)"):
        run_em(e, m, X, START)
