"""Claims about attacks: rows made by hand, models whose worst case is a formula, and slips that pass for robustness."""

import math
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from lemmata.audit.trust import smoothed_votes, worst_case
from lemmata.audit.trust.robustness import ROBUST_CLAIMS, excess_of
from lemmata.core.certificate import Fit
from lemmata.core.certification.checking import check
from lemmata.trust.robust.smoothing import SmoothedClassifier


@dataclass(frozen=True)
class Around:
    eps: float
    norm: float = math.inf
    low: float | None = None
    high: float | None = None


def judge(model, X, y, ball, rows, **more):
    """What claims say of one attack; its statements are counted here unless they are given."""
    wrong = model.predict(rows) != y
    stated = {"clean": model.predict(X) == y, "fooled": wrong, "by_attack": {"PGD": wrong}}
    known = {"X": X, "ball": ball, "adversarial": rows, "witnesses": {"PGD": rows}, **stated}
    return check(ROBUST_CLAIMS, Fit(model, None, y, attributes=known | more), "attack")


@pytest.fixture(scope="module")
def linear():
    """Two classes along (1, 0, 0, 0), 2 apart; the classifier is the sign of the first feature."""
    rng = np.random.default_rng(0)
    y = rng.choice([-1, 1], 2000)
    X = rng.standard_normal((2000, 4)) + y[:, None] * [1, 0, 0, 0]
    model = LogisticRegression().fit(X[:200], y[:200])
    model.coef_, model.intercept_ = np.array([[2.0, 0, 0, 0]]), np.zeros(1)
    X, y = X[200:], y[200:]
    ball = Around(0.5)
    rows = X - 0.5 * y[:, None] * [1.0, 0, 0, 0]
    return model, X, y, ball, rows  # robust accuracy Φ(1 − 0.5) = 0.691


# --- the worst case ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [math.inf, 2.0, 1.0])
@pytest.mark.parametrize("box", [False, True])
def test_the_least_product_is_that_of_a_solver(norm, box):
    rng = np.random.default_rng(1)
    X, V = rng.random((6, 4)), rng.standard_normal((6, 4))
    ball = Around(0.6, norm, 0.0 if box else None, 1.0 if box else None)
    own = worst_case.least_product(V, X, ball)
    for x, v, least in zip(X, V, own, strict=True):
        # δ = p − q, p and q ≥ 0: every ball is smooth
        inside = {
            math.inf: lambda t: 0.6 - (t[:4] + t[4:]),
            2.0: lambda t: 0.36 - ((t[:4] - t[4:]) ** 2).sum(),
            1.0: lambda t: 0.6 - t.sum(),
        }[norm]
        ends = [(0, 1 - a if box else 1) for a in x] + [(0, a if box else 1) for a in x]
        found = minimize(lambda t: v @ (t[:4] - t[4:]), np.full(8, 0.01), bounds=ends,  # noqa: B023
                         constraints={"type": "ineq", "fun": inside}, tol=1e-12)  # fmt: skip
        assert least == pytest.approx(found.fun, abs=1e-6)


def test_margins_of_several_classes_are_the_least_over_the_corners():
    rng = np.random.default_rng(2)
    W, b, X = rng.standard_normal((3, 3)), rng.standard_normal(3), rng.standard_normal((20, 3))
    places = rng.integers(0, 3, 20)
    margins, error = worst_case.linear_margins(W, b, X, places, Around(0.3))
    corners = 0.3 * np.array(np.meshgrid(*3 * [[-1, 1]])).reshape(3, -1).T
    scores = (X[:, None] + corners) @ W.T + b
    true = np.take_along_axis(scores, places[:, None, None], 2)
    scores[np.arange(20), :, places] = -np.inf
    np.testing.assert_allclose(margins, (true[..., 0] - scores.max(2)).min(1), atol=1e-12)
    assert (error < 1e-12).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_point_within_the_radius_of_a_dense_net_changes_its_class():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
    net = MLPClassifier((12, 8), solver="lbfgs", max_iter=100, random_state=0).fit(X, y)
    layers = worst_case.dense_layers_of(net)
    radii = worst_case.dense_radii(layers, X, y)
    assert ((radii > 0) == (net.predict(X) == y)).all()
    step = rng.standard_normal((200, *X.shape))
    step *= radii[:, None] / np.linalg.norm(step, axis=-1, keepdims=True)
    safe = radii > 0
    for rows in X + step:
        assert (net.predict(rows)[safe] == y[safe]).all()
    # the piece is linear up to the radius: one of its borders is met there, so it is no smaller than need be
    one = [
        (np.array([[1.0], [0.0]]), np.array([0.0])),
        (np.array([[-1.0, 1.0]]), np.array([0.5, 0])),
    ]
    assert worst_case.dense_radii(one, np.array([[0.2, 7.0]]), np.array([0])) == pytest.approx(0.05)


# --- claims -----------------------------------------------------------------------------------------------------------


def test_the_best_attack_of_a_linear_model_meets_its_closed_form(linear):
    found = judge(*linear)
    assert {"perturbations_legal", "statements_true", "worst_case_reached", "robust_accuracy"} <= set(found.held)  # fmt: skip
    assert found["robust_accuracy"].measured == pytest.approx(ndtr(0.5), abs=0.04)


@pytest.mark.parametrize(
    ("asked", "verdict"), [(0.64, "holds"), (0.74, "fails"), (float(ndtr(0.5)), "can't tell")]
)
def test_robust_accuracy_is_compared_with_what_was_asked_for(linear, asked, verdict):
    claim = judge(*linear, at_least=asked)["robust_accuracy"]
    assert claim.verdict == verdict
    assert claim.confidence == 0.95


def test_attacks_alone_prove_no_bound_from_below(linear):
    model, X, y, ball, rows = linear

    class Opaque:
        classes_ = model.classes_
        predict = staticmethod(model.predict)

    found = judge(Opaque(), X, y, ball, rows, at_least=0.5)
    assert "an attack that finds nothing proves no bound" in found["robust_accuracy"].note
    assert found["worst_case_reached"].verdict == "can't tell"
    assert judge(Opaque(), X, y, ball, rows, at_least=0.8)["robust_accuracy"].verdict == "fails"


def test_a_weak_attack_an_illegal_one_and_a_false_rate_are_found(linear):
    model, X, y, ball, rows = linear
    weak = np.where(np.arange(len(X))[:, None] % 2, rows, X)
    assert judge(model, X, y, ball, weak)["worst_case_reached"].verdict == "fails"
    far = judge(model, X, y, ball, X + 1.001 * (rows - X))
    assert far["perturbations_legal"].verdict == "fails"
    # rows beyond the ball are no evidence against the model
    assert far["robust_accuracy"].verdict != "fails"
    claim = judge(model, X, y, ball, rows, fooled=np.zeros(len(X), bool))["statements_true"]
    assert claim.verdict == "fails"
    assert claim.advice.startswith("fooled")
    boxed = replace(ball, low=-1.0, high=1.0)
    assert judge(model, X, y, boxed, rows)["perturbations_legal"].verdict == "fails"


def test_rounding_of_the_rows_is_forgiven_and_nothing_more():
    rng = np.random.default_rng(0)
    X, ball = rng.random((50, 30)).astype(np.float32), Around(0.1, 2.0, 0.0, 1.0)
    step = rng.standard_normal(X.shape)
    step *= 0.1 / np.linalg.norm(step, axis=1, keepdims=True)
    inner = np.clip(X + step.astype(np.float32), 0, 1)
    assert (excess_of(ball, X, inner) <= 1).all()
    assert (excess_of(replace(ball, eps=0.0999), X, X + step.astype(np.float32)) > 1).all()
    X[:, 0] = 0.0
    below = X - np.float32(1e-5) * (np.arange(30) == 0)
    assert (excess_of(ball, X, below) > 1).all()
    assert np.isinf(excess_of(ball, X, np.full_like(X, np.nan))).all()


@pytest.mark.parametrize("by_place", [False, True])
def test_nothing_is_claimed_where_one_input_has_two_answers(linear, by_place):
    model, X, y, ball, rows = linear
    rng = np.random.default_rng(0)

    class Noisy:
        classes_ = model.classes_

        def predict(self, X):
            noise = np.random.default_rng(0) if by_place else rng
            return model.predict(X + 0.2 * noise.standard_normal(X.shape))

    found = judge(Noisy(), X, y, ball, rows, at_least=0.5)
    for name in (
        "statements_true",
        "worst_case_reached",
        "robust_accuracy",
        "gradients_not_masked",
    ):
        assert found[name].verdict == "can't tell"
    assert "no row proves anything" in found["robust_accuracy"].note


def test_rows_of_training_say_nothing_about_new_ones(linear):
    assert judge(*linear, train=linear[1])["robust_accuracy"].verdict == "can't tell"
    model, X, y, ball, rows = linear
    again = [np.tile(part[:50], (20, 1)) for part in (X, rows)]
    copied = judge(model, again[0], np.tile(y[:50], 20), ball, again[1])
    assert "copies of others" in copied["robust_accuracy"].note


# --- votes under noise ------------------------------------------------------------------------------------------------


def test_of_a_linear_model_the_radius_is_the_distance_to_the_hyperplane(linear):
    model, X, *_ = linear
    smooth = SmoothedClassifier(model, sigma=0.5, n=4000)
    classes, radii = smooth.predict_radius(X[:60])
    distance = np.abs(X[:60, 0])
    assert (classes[radii > 0] == np.sign(X[:60, 0])[radii > 0]).all()
    assert (radii <= distance).all()
    # σΦ⁻¹(p̲) of so many draws: the estimate less some standard errors, each 0.5·√(p(1 − p)/n)/φ(Φ⁻¹(p))
    near = (distance > 0.1) & (distance < 0.8)
    assert (radii[near] > distance[near] - 0.1).all()
    assert smooth.certify(X[:60]).held == ["radius_certified"]


def test_one_input_has_one_answer_in_any_company_and_abstains_at_the_border(linear):
    model, X, *_ = linear
    smooth = SmoothedClassifier(model, sigma=1.0, n=200)
    X = np.vstack([X[:30], [[0.001, 0, 0, 0]]])
    answers = smooth.predict(X)
    assert answers[-1] == -2  # −1 is a class
    assert (smooth.predict(X[::-1])[::-1] == answers).all()
    assert (smooth.predict(X[:1]) == answers[:1]).all()
    words = LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"])
    assert SmoothedClassifier(words, 5.0, 100).predict([[0.5]]).tolist() == [""]


@pytest.mark.parametrize("slip", ["twice σ", "beyond the distance"])
def test_radii_that_are_too_large_are_refuted(linear, slip):
    model, X, *_ = linear
    smooth = SmoothedClassifier(model, sigma=0.5, n=500)
    radii = smooth.predict_radius(X[:40])[1]
    X, radii = X[:40][radii > 0], radii[radii > 0]
    stated = 2 * radii if slip == "twice σ" else 1.5 * np.abs(X[:, 0])
    fit = Fit(smooth, attributes={"X": X, "radius": stated})
    claim = check(ROBUST_CLAIMS[-1:], fit, "radii")["radius_certified"]
    assert claim.verdict == "fails"
    assert claim.confidence == 0.999


def test_a_smoothed_classifier_is_proved_right_on_new_rows(linear):
    model, X, y, *_ = linear
    smooth = SmoothedClassifier(model, sigma=0.5, n=300)
    X, y = X[:150], y[:150]
    ball = Around(0.25, 2.0)
    rows = X - 0.25 * y[:, None] * [1.0, 0, 0, 0]
    known = {"witnesses": {"by hand": rows}, "by_attack": {}}
    claim = judge(smooth, X, y, ball, rows, at_least=0.4, **known)["robust_accuracy"]
    assert claim.verdict == "holds"  # Φ(0.75) = 0.77 in truth
    assert claim.measured < ndtr(0.75)


def test_noise_on_whole_numbers_is_not_rounded(linear):
    model = copy(linear[0])
    model.intercept_ = np.array([-1.0])  # the border is where the first feature is a half
    smooth = SmoothedClassifier(model, sigma=0.9, n=2000)
    radii = smoothed_votes.certify_again(smooth, np.ones((5, 4), int), np.ones(5))
    assert (radii < 0.5).all()  # rounded noise would prove 0.8
    assert (radii > 0.3).all()


def test_fit_trains_on_noisy_rows(linear):
    _, X, y, *_ = linear
    smooth = SmoothedClassifier(LogisticRegression(), sigma=1.0, n=100).fit(X[:500], y[:500])
    assert smooth.score(X[500:600], y[500:600]) > 0.6
    assert smooth.base_.coef_[0, 0] < LogisticRegression().fit(X[:500], y[:500]).coef_[0, 0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sigma": 0}, "sigma=0"),
        ({"n": 3}, "n=3"),
        ({"alpha": 0.7}, "alpha=0.7"),
        ({"abstention": 1}, "abstention=1"),
    ],
)
def test_bad_parameters_of_smoothing_are_named(linear, parameters, message):
    with pytest.raises(ValueError, match=message):
        SmoothedClassifier(linear[0], **parameters).predict(linear[1][:1])


def test_what_cannot_be_smoothed_is_named(linear):
    with pytest.raises(ValueError, match="is not fitted"):
        SmoothedClassifier(LogisticRegression()).predict(linear[1][:1])
    with pytest.raises(TypeError, match="has no predict"):
        SmoothedClassifier(object()).predict(linear[1][:1])
    with pytest.raises(ValueError, match="NaN or infinity"):
        SmoothedClassifier(linear[0]).predict([[np.nan, 0, 0, 0]])
