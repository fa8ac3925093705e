"""Losses of two views against the formulas, written as loops; who is in the denominator, and where gradients flow."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from lemmata.audit.selfsup import stated
from lemmata.selfsup import losses


def pair(rows=7, width=5, seed=0):
    z, z_plus = torch.randn(2, rows, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)  # fmt: skip
    return z, z_plus


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def contrast_by_hand(z, z_plus, temperature, positive_counts):
    """NT-Xent of each image, one exponential after the other."""
    views = [*z.numpy(), *z_plus.numpy()]
    n, found = len(z), np.zeros(len(z))
    for i in range(2 * n):
        partner = (i + n) % (2 * n)
        others = [j for j in range(2 * n) if j != i and (positive_counts or j != partner)]
        total = sum(np.exp(cosine(views[i], views[j]) / temperature) for j in others)
        found[i % n] += np.log(total) - cosine(views[i], views[partner]) / temperature
    return found / 2


def regularise_by_hand(z, z_plus, a, b, c):
    near = np.mean((z - z_plus) ** 2)
    hinges, covariances = 0.0, 0.0
    for one in (z, z_plus):
        n, d = one.shape
        mean = one.mean(axis=0)
        for k in range(d):
            variance = sum((one[i, k] - mean[k]) ** 2 for i in range(n)) / (n - 1)
            hinges += max(0.0, 1 - np.sqrt(variance + 1e-4)) / d / 2
            for m in range(d):
                if m != k:
                    entry = sum((one[i, k] - mean[k]) * (one[i, m] - mean[m]) for i in range(n)) / (n - 1)  # fmt: skip
                    covariances += entry**2 / d
    return a * near + b * hinges + c * covariances


def match_by_hand(u, v, scale, same):
    n, found = len(u), np.zeros(len(u))
    s = np.array([[np.exp(scale) * cosine(a, b) for b in v] for a in u])
    for i in range(n):
        for scores, equal in ((s[i], same[i]), (s[:, i], same[:, i])):
            logs = scores - np.log(np.exp(scores).sum())
            found[i] -= logs[equal].mean() / 2
    return found


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
@pytest.mark.parametrize(("loss", "positive_counts"), [(losses.contrast, True), (losses.decouple, False)])  # fmt: skip
def test_contrasts_equal_their_formulas(loss, positive_counts, temperature):
    z, z_plus = pair()
    expected = contrast_by_hand(z, z_plus, temperature, positive_counts)
    assert_allclose(loss(z, z_plus, temperature).numpy(), expected, rtol=1e-12)
    audited = stated.contrast(z.numpy(), z_plus.numpy(), temperature, positive_counts)
    assert_allclose(audited, expected.mean(), rtol=1e-12)


def test_with_the_positive_it_is_a_classification_and_without_it_is_none():
    z = torch.eye(3, dtype=torch.float64)
    assert (losses.contrast(z, z, 0.1) > 0).all()
    assert (losses.decouple(z, z, 0.1) < 0).all()  # as the notes print it
    # equal outputs: all of 2B − 1 are equally likely
    same = torch.ones(4, 3, dtype=torch.float64)
    assert_allclose(losses.contrast(same, same, 0.3).numpy(), np.log(7), rtol=1e-12)


def test_vicreg_and_clip_equal_their_formulas():
    z, z_plus = pair()
    z = z / 3  # deviations on both sides of the hinge
    for weights in ((25.0, 25.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)):
        expected = regularise_by_hand(z.numpy(), z_plus.numpy(), *weights)
        assert_allclose(float(losses.regularise(z, z_plus, *weights)), expected, rtol=1e-12)
        assert_allclose(stated.regularise(z.numpy(), z_plus.numpy(), weights), expected, rtol=1e-12)
    same = np.eye(7, dtype=bool)
    same[0, 3] = same[3, 0] = True
    expected = match_by_hand(z.numpy(), z_plus.numpy(), 1.3, same)
    assert_allclose(losses.match(z, z_plus, 1.3, torch.from_numpy(same)).numpy(), expected, rtol=1e-12)  # fmt: skip
    assert_allclose(
        losses.match(z, z_plus, 1.3).numpy(), match_by_hand(z.numpy(), z_plus.numpy(), 1.3, np.eye(7, dtype=bool)), rtol=1e-12
    )  # fmt: skip


def test_equal_captions_are_no_negatives():
    u = torch.randn(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    v = u[[0, 1, 2, 0]]  # the first and the last caption are equal
    same = torch.eye(4, dtype=torch.bool)
    same[0, 3] = same[3, 0] = True
    u = u[[0, 1, 2, 0]]
    shared, apart = (losses.match(u, v, 4.0, which)[0] for which in (same, None))
    # at best, equal captions share the probability: ln 2, whether or not they are named
    assert_allclose(float(shared), float(apart), rtol=1e-12)
    v.requires_grad_(True)
    (gradient,) = torch.autograd.grad(losses.match(u, v, 4.0, same).sum(), v)
    # an image is not pushed away from the twin of its caption
    assert_allclose(gradient[0].numpy(), gradient[3].numpy(), atol=1e-12)


def test_no_gradient_flows_into_a_target():
    p, t = pair()
    expected = [2 - 2 * cosine(a, b) for a, b in zip(p.numpy(), t.numpy(), strict=True)]
    assert_allclose(stated.bootstrap(p.numpy(), t.numpy()), np.mean(expected), rtol=1e-12)
    found = losses.predict(p.requires_grad_(True), t.requires_grad_(True))
    assert_allclose(found.detach().numpy(), expected, rtol=1e-12)
    found.sum().backward()
    assert p.grad is not None
    assert t.grad is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_losses_keep_the_type_and_have_true_gradients(dtype):
    z, z_plus = (one.to(dtype) for one in pair(4, 3))
    for loss in (losses.contrast, losses.decouple, losses.regularise):
        assert loss(z, z_plus).dtype == dtype
        if dtype == torch.float64:
            assert torch.autograd.gradcheck(loss, (z.requires_grad_(True), z_plus.requires_grad_(True)))  # fmt: skip


def test_spread_is_one_for_even_directions_and_zero_for_one():
    z = torch.randn(4000, 16, generator=torch.Generator().manual_seed(0))
    assert abs(float(losses.spread(z)) - 1) < 0.01
    assert float(losses.spread(torch.ones(10, 16))) < 1e-6
    assert abs(float(losses.spread(7 * z)) - float(losses.spread(z))) < 1e-5


def test_losses_refuse_what_they_cannot_compare():
    z, z_plus = pair()
    with pytest.raises(ValueError, match="a batch of 1"):
        losses.contrast(z[:1], z_plus[:1])
    with pytest.raises(ValueError, match=r"pass \(B, d\) of both"):
        losses.regularise(z, z_plus[:, :2])
    for temperature in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="pass τ > 0"):
            losses.contrast(z, z_plus, temperature)
