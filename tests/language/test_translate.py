"""Translator: losses against the network one place at a time, greedy and beams, claims, files, and what is refused."""

import copy
import itertools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.nn import functional as F

import lemmata
from lemmata import Translator
from lemmata.language.translate import DecodingStep, Translations, cut_batches
from lemmata.registry import MODELS

WORDS = {"1": "i", "2": "j", "3": "v", "4": "x"}
DIGITS = ["".join(one) for one in itertools.product("1234", repeat=4)]
ORDER = np.random.default_rng(0).permutation(len(DIGITS))
Y = [DIGITS[i] for i in ORDER]
X = [" ".join(WORDS[one] for one in number) for number in Y]
SMALL = {"width": 32, "depth": 1, "heads": 2, "context": 16, "random_state": 0}
LEARNS = {**SMALL, "learning_rate": 0.01, "max_iter": 12, "test_fraction": 0.25}


@pytest.fixture(scope="module")
def model():
    return Translator(**LEARNS).fit(X, Y)


@pytest.fixture(scope="module")
def quick():
    return Translator(**SMALL, max_iter=1).fit(X[:40], Y[:40])


def test_numbers_in_words_become_digits_that_were_not_trained_on(model):
    n = round(0.25 * len(X))
    assert model.exact_match_ >= 0.9
    assert model.score(X[-n:], Y[-n:]) == pytest.approx(model.exact_match_)
    found = model.certificate_
    assert found.main == "beats_targets_alone"
    assert len(found) <= 6
    more = model.certify(X, Y, seconds=60)
    assert {"beats_targets_alone", "source_matters", "causal", "sources_unseen"} <= set(more.held)
    assert {"attributes_sound", "statements_true", "text_restored"} <= set(more.held)
    assert not more.failed


def test_scores_are_those_of_the_network_place_by_place(quick):
    x, y = (
        torch.from_numpy(np.append(quick.tokens_.encode(t), 2))[None].long() for t in (X[0], Y[0])
    )
    written, total = torch.ones((1, 1), dtype=torch.long), 0.0
    for t in range(y.shape[1]):
        with torch.no_grad():
            total += float(F.log_softmax(quick.module_(x, written)[0, -1].double(), 0)[y[0, t]])
        written = torch.cat([written, y[:, t : t + 1]], dim=1)
    together = quick.score_samples([X[0], "x i"], [Y[0], "4321"])
    assert together[0] == pytest.approx(total, rel=1e-5)
    mean = quick.perplexity([X[0]], [Y[0]])["token"]
    assert mean == pytest.approx(np.exp(-total / y.shape[1]), rel=1e-5)


def test_one_beam_is_greedy_and_many_find_what_is_at_least_as_probable(model, quick):
    data = Translations.of(X[:6], Y[:6], model.tokens_)
    greedy, beams = model.predict(X[:6]), model.predict(X[:6], beams=4)
    written = model.module_.greedy(torch.from_numpy(data.x).long()).numpy()
    assert [model.tokens_.decode(row) for row in written] == greedy.tolist()
    gains = model.score_samples(X[:6], beams) - model.score_samples(X[:6], greedy)
    assert gains.min() > -1e-5
    assert max(map(len, quick.predict(X[:2], beams=3))) <= quick.context


def test_a_step_with_a_cache_agrees_with_the_network_and_rows_can_be_chosen(quick):
    data = Translations.of(X[:3], Y[:3], quick.tokens_)
    net = copy.deepcopy(quick.module_).double()
    step = DecodingStep(net, data.x)
    step.feed(np.ones((3, 1)))
    rows = np.array([2, 0, 2])
    step.select(rows)
    found = step.feed(data.y[rows, :1])
    written = torch.from_numpy(np.hstack([np.ones((3, 1)), data.y[rows, :1]])).long()
    with torch.no_grad():
        whole = net(torch.from_numpy(data.x[rows]).long(), written)[:, -1]
    assert_allclose(found, whole, rtol=1e-10, atol=1e-12)


def test_a_model_that_was_given_shuffled_targets_ignores_its_sources():
    shuffled = [Y[i] for i in np.random.default_rng(1).permutation(len(Y))]
    model = Translator(**{**LEARNS, "max_iter": 4}).fit(X, shuffled)
    found = model.certify(X, shuffled, seconds=60)
    assert found["source_matters"].verdict != "holds"
    # it may well be better than n-grams: it has learned that targets have four letters


def test_batches_hold_every_row_once():
    data = Translations.of(X, Y, lemmata.language.Characters().learn([*X, *Y]))
    rows = np.concatenate(list(cut_batches(data.x, data.y)))
    assert sorted(rows.tolist()) == list(range(len(X)))


def test_files_checkpoints_warm_starts_and_early_stopping(quick, tmp_path):
    lemmata.save(quick, tmp_path / "m")
    back = lemmata.load(tmp_path / "m")
    assert back.predict(X[:5]).tolist() == quick.predict(X[:5]).tolist()
    assert str(back.certify(X[:40], Y[:40])) == str(quick.certify(X[:40], Y[:40]))
    settings = {**SMALL, "max_iter": 2, "checkpoint": tmp_path / "c"}
    one, two = (Translator(**settings).fit(X[:40], Y[:40]) for _ in range(2))
    assert_allclose(one.score_samples(X[:5], Y[:5]), two.score_samples(X[:5], Y[:5]), rtol=0)
    warm = copy.deepcopy(quick).set_params(warm_start=True, learning_rate=1e-9)
    before = quick.score_samples(X[:5], Y[:5])
    assert_allclose(warm.fit(X[:20], Y[:20]).score_samples(X[:5], Y[:5]), before, rtol=1e-3)
    claims = warm.certify(X[:20], Y[:20])
    assert claims["beats_targets_alone"].verdict == "can't tell"
    stopped = Translator(**SMALL, max_iter=1, early_stopping=True).fit(X[:40], Y[:40])
    assert np.isfinite(stopped.history_["validation_loss"]).all()
    stopped.partial_fit(X[:40], Y[:40])
    assert not hasattr(stopped, "exact_match_")
    assert MODELS["Translator"].module == "lemmata.language.translate"


def test_a_file_with_a_network_of_other_tokens_is_refused(quick, tmp_path):
    from lemmata.nets.attention import EncoderDecoder

    other = copy.deepcopy(quick)
    other.module_ = EncoderDecoder(9, width=32, depth=1, heads=2, max_length=16)
    lemmata.save(other, tmp_path / "m")
    with pytest.raises(ValueError, match="no EncoderDecoder of its"):
        lemmata.load(tmp_path / "m")


def test_a_loss_that_was_altered_and_a_match_that_was_not_are_noticed(quick):
    data = quick._validate_pair(X[:40], Y[:40], reset=False)
    for name, change in (("loss_", 0.01), ("test_loss_", -0.01), ("exact_match_", 0.5)):
        other = copy.deepcopy(quick)
        setattr(other, name, getattr(other, name) + change)
        found = other._certificate(data, seconds=60)
        assert found["statements_true"].verdict == "fails", name


@pytest.mark.parametrize(
    ("x", "y", "settings", "message"),
    [
        (X[:5], Y[:4], {}, "5 sources and 4 targets"),
        (X[:5], None, {}, "requires y"),
        (["", " "], ["a", "b"], {}, "2 sources hold no word"),
        (X[:1], Y[:1], {}, "1 of 1 pairs are left"),
        (["one text", 3], ["a", "b"], {}, "document 1 is a int"),
        ("one text", ["a"], {}, "documents is one text"),
        (X[:5], Y[:5], {"context": 6}, r"source \d has \d+ tokens, with its end, and context=6"),
        (X[:5], ["1" * 40] * 5, {}, "target 0 has 41 tokens"),
        (X[:5], Y[:5], {"heads": 3}, "heads=3"),
    ],
)  # fmt: skip
def test_bad_pairs_are_named(x, y, settings, message):
    model = Translator(**{**SMALL, **settings})
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(x, y)
    assert not hasattr(model, "tokens_")


def test_bad_requests_are_named(quick):
    with pytest.raises(ValueError, match="source 1: the character 'z'"):
        quick.predict(["x i", "z"])
    with pytest.raises(ValueError, match="source 0 has 41 tokens"):
        quick.predict(["i" * 40])
    for beams in (0, 99, 1.5):
        with pytest.raises(ValueError, match="beams="):
            quick.predict(["x"], beams=beams)
    with pytest.raises(ValueError, match="no weights"):
        quick.fit(X, Y, np.ones(len(X)))
