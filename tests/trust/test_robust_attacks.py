"""Attacks: on linear models the worst case itself, gradients of every formula, queries counted, modules left as they were."""

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC, LinearSVC
from torch import nn

import lemmata
from lemmata.trust import Ball, GaussianClasses, TwoFeatures, attack, steal
from lemmata.trust.robust.black_box import DifferencedTarget
from lemmata.trust.robust.gradient import fgsm, pgd
from lemmata.trust.robust.linear import worst_case
from lemmata.trust.robust.scores import (
    BlackBox,
    KernelTarget,
    LinearTarget,
    ModuleTarget,
    PerceptronTarget,
    margins,
    read_target,
    toward_class,
    toward_loss,
    toward_runner_up,
)  # fmt: skip

NORMS = {math.inf: 0.05, 2: 0.4, 1: 1.5}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16, y[:600], X[600:700] / 16, y[600:700]


@pytest.fixture(scope="module")
def logistic(digits):
    return LogisticRegression(max_iter=300).fit(*digits[:2])


@pytest.fixture(scope="module")
def forest(digits):
    return RandomForestClassifier(20, random_state=0).fit(*digits[:2])


class Decisions:
    """A model that says classes and nothing else."""

    def __init__(self, model):
        self.model, self.classes_, self.asked = model, model.classes_, 0

    def predict(self, X):
        self.asked += len(X)
        return self.model.predict(X)


class Scores(Decisions):
    def predict_proba(self, X):
        self.asked += len(X)
        return self.model.predict_proba(X)


# --- linear models: the closed form -----------------------------------------------------------------------------------


@pytest.mark.parametrize("box", [(0, 1), (None, None)])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("two", [False, True])
def test_pgd_fools_exactly_the_rows_of_the_closed_form(digits, logistic, norm, box, two):
    X, y = digits[2:]
    model, ball = logistic, Ball(NORMS[norm], norm=norm, low=box[0], high=box[1])
    if two:
        model, y = LinearSVC(dual=False).fit(digits[0], digits[1] > 4), y > 4
    found = attack(model, X, y, ball, "pgd-margin", restarts=1)
    exact = found.exact < 0
    np.testing.assert_array_equal(found.fooled, exact)
    assert 5 < exact.sum() < 95
    scores = read_target(model, X, (64,)).scores(found.witnesses["pgd-margin"])
    places = np.searchsorted(model.classes_, y)
    reached = margins(scores, places)[~exact]
    np.testing.assert_allclose(reached, found.exact[~exact], atol=1e-6)
    assert (ball.measure(found.adversarial - X) <= ball.eps * (1 + 1e-12)).all()


def test_the_worst_case_is_below_any_random_point_and_reached_where_it_says(digits, logistic):
    X, y = digits[2:]
    for norm, eps in NORMS.items():
        target, ball = read_target(logistic, X, (64,)), Ball(eps, norm=norm)
        least, rows = worst_case(target.W, target.b, X, y, ball)
        np.testing.assert_allclose(margins(target.scores(rows), y), least, atol=1e-12)
        drawn = ball.draw(X, np.random.default_rng(0))
        assert (margins(target.scores(drawn), y) >= least - 1e-12).all()


def test_the_ball_of_radius_zero_fools_nobody_and_the_whole_box_everybody(digits, logistic):
    X, y = digits[2:]
    none = attack(logistic, X, y, Ball(0.0), "pgd-margin", restarts=1)
    np.testing.assert_array_equal(none.fooled, ~none.clean)
    np.testing.assert_array_equal(none.adversarial, X)
    assert attack(logistic, X, y, Ball(1.0), "pgd-margin").robust_accuracy == 0


@pytest.mark.parametrize("d", [10, 300])
def test_the_risks_of_two_features_are_those_of_draws(d):
    law, n = TwoFeatures(d), 5_000
    X, y = law.sample(n, rng=0)
    risks = law.risk()[0], law.adversarial_risk(), law.adversarial_risk(0.0)
    assert law.risk()[0] == pytest.approx(GaussianClasses(law.means).risk()[0])
    assert law.adversarial_risk(0.0) == pytest.approx(law.risk()[0])
    written = (math.log(d) - 1 + law.eps) / math.sqrt(1 + math.log(d))
    assert math.erfc(-written / math.sqrt(2)) / 2 == pytest.approx(risks[1])
    for robust, asked in (
        (False, risks[:2]),
        (True, (0.158655, law.adversarial_risk(robust=True))),
    ):
        target = read_target(law.linear(robust), X[:5], (d,))
        moved = Ball(law.eps, low=None, high=None)
        m = margins(target.scores(X), (y + 1) // 2)
        least, _ = worst_case(target.W, target.b, X, (y + 1) // 2, moved)
        for wrong, risk in zip((m < 0, least < 0), asked, strict=True):
            assert abs(wrong.mean() - risk) < 5 * math.sqrt(risk * (1 - risk) / n)
    assert (law.bayes().predict(X[:500]) == law.linear().predict(X[:500])).all()
    with pytest.raises(ValueError, match="at least 2"):
        TwoFeatures(1)


# --- gradients --------------------------------------------------------------------------------------------------------


def small_net(seed=0, outputs=10):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, outputs)).double()  # fmt: skip


MODELS = {
    "linear": (LogisticRegression(max_iter=50), LinearTarget),
    "ours": (lemmata.LogisticRegression(), LinearTarget),
    "perceptron": (MLPClassifier((12,), max_iter=20, activation="tanh"), PerceptronTarget),
    "our perceptron": (lemmata.MLPClassifier((12, 8), max_iter=20, activation="gelu"), PerceptronTarget),
    "rbf": (SVC(), KernelTarget),
    "poly": (SVC(kernel="poly", coef0=0.5), KernelTarget),
    "our rbf": (lemmata.SVC(), KernelTarget),
    "sigmoid": (SVC(kernel="sigmoid", gamma=0.01), KernelTarget),
    "linear kernel": (SVC(kernel="linear"), KernelTarget),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_gradients_by_formula_are_the_differences_of_the_model_s_own_scores(name, digits):
    X, y, (model, kind) = digits[0][:200], digits[1][:200] > 4, MODELS[name]
    target = read_target(model.fit(X, y), X, (64,))
    assert type(target) is kind
    own = np.asarray(model.decision_function(X[:3])) if hasattr(model, "decision_function") else None  # fmt: skip
    if own is not None:
        np.testing.assert_allclose(np.diff(target.scores(X[:3]), axis=1)[:, 0], own, rtol=1e-6)
    _check_gradient(target, X[:3], y[:3].astype(int))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["perceptron", "our perceptron", "linear"])
def test_gradients_of_ten_classes(name, digits):
    model, kind = MODELS[name]
    target = read_target(model.fit(*digits[:2]), digits[0], (64,))
    assert type(target) is kind
    _check_gradient(target, digits[2][:3], digits[3][:3])


@pytest.mark.parametrize("outputs", [1, 10])
def test_gradients_of_a_module(digits, outputs):
    net = small_net(outputs=outputs)
    target = read_target(net, digits[2], (64,))
    assert isinstance(target, ModuleTarget)
    with target.ready():
        _check_gradient(target, digits[2][:3], np.array([0, 1, 1]))


def _check_gradient(target, X, y):
    for weigh in (toward_runner_up, toward_loss):
        scores, G = target.pull(X, y, weigh)
        v, step = weigh(scores, y), 1e-5
        for i in (10, 20, 36):
            ahead, behind = X.copy(), X.copy()
            ahead[:, i] += step
            behind[:, i] -= step
            slope = ((target.scores(ahead) - target.scores(behind)) * v).sum(axis=1) / (2 * step)
            np.testing.assert_allclose(G[:, i], slope, rtol=1e-4, atol=1e-6 * np.abs(G).max())


def test_the_votes_of_an_svc_are_followed_by_its_duels(digits):
    model = SVC().fit(digits[0][:200], digits[1][:200])
    X, y = digits[2][:40], digits[3][:40]
    target = read_target(model, X, (64,))
    np.testing.assert_array_equal(target.scores(X), model.decision_function(X))
    found = attack(model, X, y, Ball(0.15), ("pgd-margin", "square"), restarts=1, queries=100)
    assert found.rates["pgd-margin"] < found.accuracy - 0.1
    assert found.rates["pgd-margin"] - found.rates["square"] <= 0.05


def test_the_loss_has_a_gradient_where_a_model_is_sure():
    scores = np.array([[1e6, 0.0, -5.0]])
    v = toward_loss(scores, np.array([0]))
    np.testing.assert_allclose(v, [[-1, 1 / (1 + math.exp(-5)), 1 / (1 + math.exp(5))]])
    np.testing.assert_array_equal(toward_class(scores, np.array([[0, 2]])), [[-1, 0, 1]])


def test_differences_of_scores_are_the_gradient(digits):
    model = SVC().fit(digits[0], digits[1] > 4)
    target, X, y = read_target(model, digits[2], (64,)), digits[2][:3], np.array([0, 1, 1])
    blind = DifferencedTarget(target, Ball(1e-4))
    before = target.asked
    np.testing.assert_allclose(
        blind.pull(X, y, toward_runner_up)[1], target.pull(X, y, toward_runner_up)[1], atol=1e-3
    )
    assert target.asked - before == 3 * 65 + 3


# --- modules ----------------------------------------------------------------------------------------------------------


def test_modules_are_attacked_in_evaluation_mode_and_left_as_they_were(digits):
    net = small_net().train()
    net[1].eval()
    for one in net.parameters():
        one.grad = torch.ones_like(one)
    modes, weights = (
        [part.training for part in net.modules()],
        [w.clone() for w in net.parameters()],
    )
    X, y = torch.as_tensor(digits[2][:20]), digits[3][:20]
    found = attack(net, X, y, Ball(0.3), queries=20, at_least=0.999)
    assert [part.training for part in net.modules()] == modes
    assert all(torch.equal(a, b) for a, b in zip(weights, net.parameters(), strict=True))
    assert all((w.grad == 1).all() and w.requires_grad for w in net.parameters())
    with torch.no_grad():
        said = net.eval()(torch.as_tensor(found.adversarial)).argmax(1).numpy()
    np.testing.assert_array_equal(said != y, found.fooled)  # dropout would say something else
    claims = found.certificate_  # a module has no training rows, but a method `train`
    assert claims["robust_accuracy"].verdict == "fails"
    assert not claims.broken

    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("a bug")

    broken = Broken().train()
    with pytest.raises(RuntimeError, match="a bug"):
        attack(broken, digits[2][:2], y[:2], Ball(0.1))
    assert broken.training


def test_fooled_rows_rest(digits, logistic):
    X, y = digits[2:]
    target, ball = read_target(logistic, X, (64,)), Ball(0.2)
    found = pgd(target, X, y, ball, steps=50, restarts=10, full_steps=False)
    assert found.fooled.mean() > 0.9
    assert target.asked < 0.3 * len(X) * 50 * 10
    one = fgsm(read_target(logistic, X, (64,)), X, y, ball)
    assert (found.fooled | ~one.fooled).all()


def test_an_image_keeps_its_shape(digits):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10))
    X = digits[2][:10].reshape(-1, 1, 8, 8).astype(np.float32)
    found = attack(net, X, digits[3][:10], Ball(0.2), queries=20)
    assert found.adversarial.shape == X.shape
    assert found.adversarial.dtype == np.float32
    assert {one.shape for one in found.witnesses.values()} == {X.shape}


# --- black boxes ------------------------------------------------------------------------------------------------------


def test_every_row_that_a_black_box_is_asked_about_is_counted(digits, forest):
    X, y = digits[2][:30], digits[3][:30]
    beside = 2 * len(X)  # right at X? and at what was found in the end?
    for name in ("differences", "square", "transfer"):
        model = Scores(forest)
        found = attack(model, X, y, Ball(0.1), name, queries=40)
        looks = model.asked - found.queries[name] - beside
        assert looks == 2 * len(X), name  # are its scores those of its decisions?
    for name in ("boundary", "transfer"):
        model = Decisions(forest)
        found = attack(model, X, y, Ball(0.1), name, queries=100)
        assert model.asked == found.queries[name] + beside, name


def test_forests_fall_to_square_attacks_and_decisions_to_walks_along_the_border(digits, forest):
    X, y = digits[2][:30], digits[3][:30]
    assert isinstance(read_target(forest, X, (64,)), BlackBox)
    squares = attack(forest, X, y, Ball(0.2), "square", queries=150)
    assert squares.robust_accuracy < 0.5 * squares.accuracy
    walks = attack(Decisions(forest), X, y, Ball(1.5, norm=2), "boundary", queries=150)
    assert walks.robust_accuracy < 0.5 * walks.accuracy
    for found in (squares, walks):
        assert (found.ball.measure(found.adversarial - X) <= found.ball.eps * (1 + 1e-9)).all()
        np.testing.assert_array_equal(forest.predict(found.adversarial) != y, found.fooled)


@pytest.mark.parametrize("norm", [2, 1])
def test_squares_move_length_in_other_norms(digits, logistic, norm):
    X, y = digits[2][:50], digits[3][:50]
    ball = Ball(2 * NORMS[norm], norm=norm)
    found = attack(logistic, X, y, ball, "square", queries=300)
    assert found.robust_accuracy < found.accuracy - 0.3
    assert (ball.measure(found.adversarial - X) <= ball.eps * (1 + 1e-9)).all()


def test_a_stolen_model_states_its_agreement_and_its_attacks_transfer(digits, logistic):
    X, y = digits[2:]
    stolen = steal(logistic, digits[0])
    assert stolen.queries == 480 * 5 + 120
    low, high = stolen.interval
    assert low < stolen.agreement < high
    assert stolen.agreement > 0.85
    found = attack(Scores(logistic), X, y, Ball(0.15), "transfer", surrogate=stolen.model)
    assert found.robust_accuracy < 0.5 * found.accuracy
    assert found.queries["transfer"] == 2 * found.clean.sum() + found.clean.sum()
    once = LogisticRegression().fit(X, np.where(np.arange(len(X)) == 3, 1, 0))
    once.predict = lambda rows: (np.arange(len(rows)) == 3).astype(int)  # a class that is said once
    assert steal(once, X).agreement > 0.9
    with pytest.raises(ValueError, match="nothing to steal"):
        steal(DummyClassifier().fit(X, y), X)
    with pytest.raises(ValueError, match="no gradients"):
        attack(logistic, X, y, Ball(0.01), "transfer", surrogate=DummyClassifier().fit(X, y))


# --- the report -------------------------------------------------------------------------------------------------------


def test_rates_fall_along_the_attacks_and_rows_that_were_wrong_are_left_alone(digits, logistic):
    X, y = digits[2], digits[3].copy()
    y[0] = (y[0] + 1) % 10  # wrong from the start
    found = attack(logistic, X, y, Ball(0.03), ("fgsm", "pgd-loss", "pgd-margin"), restarts=1)
    rates = [found.accuracy, *found.rates.values()]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == found.robust_accuracy
    np.testing.assert_array_equal(found.adversarial[~found.clean], X[~found.clean])
    np.testing.assert_array_equal(found.fooled, ~found.clean | np.any(list(found.by_attack.values()), axis=0))  # fmt: skip
    np.testing.assert_array_equal(found.adversarial[~found.fooled], X[~found.fooled])
    assert "pgd-loss" in str(found)
    table = found.over([0.0, 0.03, 0.1])
    for eps, attacked, proved in table:  # of a linear model both are the truth
        assert attacked == proved, eps
    assert table[1][1] == found.robust_accuracy
    assert found.plot([0.0, 0.05]).get_ylabel() == "accuracy"


def test_inside_the_proved_radius_of_a_dense_net_no_attack_succeeds(digits):
    model = MLPClassifier((10, 10), max_iter=40, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(*digits[:2])
    X, y = digits[2][:30], digits[3][:30]
    found = attack(model, X, y, Ball(0.5, norm=2), "pgd-margin", restarts=1)
    radius = found.radius
    assert (radius[~found.clean] == 0).all()
    assert (radius[found.clean] > 0).all()
    moved = found.ball.measure(found.adversarial - X)
    assert (moved >= radius)[found.fooled & found.clean].all()
    least = np.median(radius[found.clean])
    within = attack(
        model, X[radius > least], y[radius > least], Ball(least, norm=2), restarts=1, queries=50
    )
    assert within.robust_accuracy == 1
    first, *rest = (nn.Linear(d, 10) for d in (64, 10, 10))
    sequential = nn.Sequential(first, nn.ReLU(), rest[0], nn.ReLU(), rest[1]).double()
    for layer, W, b in zip(sequential[::2], model.coefs_, model.intercepts_, strict=True):
        layer.weight.data, layer.bias.data = torch.as_tensor(W.T.copy()), torch.as_tensor(b)
    same = attack(sequential, X, y, Ball(0.5, norm=2), "pgd-margin", restarts=1)
    np.testing.assert_allclose(same.radius, radius, rtol=1e-9, atol=1e-12)
    assert attack(SVC().fit(X, y), X, y, Ball(0.1), "fgsm").radius is None


def test_fooled_images_can_be_shown(digits, logistic):
    class Flat(Decisions):
        def predict(self, X):
            return self.model.predict(X.reshape(len(X), -1))

    X = digits[2][:20].reshape(-1, 8, 8)
    found = attack(Flat(logistic), X, digits[3][:20], Ball(3.0, norm=2), queries=60)
    assert found.adversarial.shape == X.shape
    assert found.show(4).images
    with pytest.raises(ValueError, match="only images"):
        attack(logistic, digits[2], digits[3], Ball(0.1), "fgsm").show()


# --- bad input --------------------------------------------------------------------------------------------------------


def test_bad_input_is_refused_with_what_to_do(digits, logistic):
    X, y = digits[2][:10], digits[3][:10]
    ball = Ball(0.1)
    for arguments, error, message in (
        ((logistic, X * 16, y, ball), ValueError, "outside of the box"),
        ((logistic, X, y, 0.1), TypeError, "pass Ball"),
        ((logistic, X, y[:5], ball), ValueError, "inconsistent numbers"),
        ((logistic, X, y + 20, ball), ValueError, "which the model does not know"),
        ((LogisticRegression(), X, y, ball), NotFittedError, "not fitted"),
        ((LogisticRegression, X, y, ball), TypeError, "fitted classifier"),
        ((LinearRegression().fit(X, y), X, y, ball), TypeError, "pass a classifier"),
        ((DummyClassifier().fit(X, np.zeros(10)), X, np.zeros(10), ball), ValueError, "one class only"),
        ((nn.Flatten(0), X, y, ball), ValueError, "score per class"),
        ((logistic, X, y, ball, "pdg"), ValueError, "'pdg' is not known"),
        ((DummyClassifier().fit(X, y), X, y, ball, "pgd-loss"), ValueError, "needs gradients"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            attack(*arguments)
    for option in ({"restarts": 0}, {"queries": 1.5}, {"at_least": 2}):
        with pytest.raises(ValueError, match="=".join(map(str, *option.items()))):
            attack(logistic, X, y, ball, **option)


def test_a_constant_model_is_not_fooled_and_scores_that_are_not_finite_are_refused(digits):
    X, y = digits[2][:30], digits[3][:30]
    found = attack(DummyClassifier().fit(X, y), X, y, Ball(1.0), queries=50)
    np.testing.assert_array_equal(found.fooled, ~found.clean)

    class Infinite(nn.Module):
        def forward(self, x):
            return x[:, :10] / 0

    with pytest.raises(ValueError, match="not finite"):
        attack(Infinite(), X, y, Ball(0.1))
