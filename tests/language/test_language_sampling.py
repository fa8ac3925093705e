"""How tokens are chosen: frequencies against softmax, settings that narrow, beams against all continuations."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax
from scipy.stats import chisquare

from lemmata.language import NGram, shape_probabilities
from lemmata.language.sampling import draw_tokens

SCORES = np.array([[2.0, 1.0, 0.0, -1.0, 1.0]])
TEXTS = ["abracadabra", "abacab", "cabbage"] * 10


def test_temperature_divides_scores_and_zero_takes_the_largest():
    assert_allclose(shape_probabilities(SCORES, 0.5), softmax(SCORES / 0.5, axis=1))
    for t in (0, 1e-300):
        assert shape_probabilities(SCORES, t).tolist() == [[1, 0, 0, 0, 0]]


def test_top_k_and_top_p_keep_the_likeliest():
    P = shape_probabilities(SCORES, top_k=2)
    assert np.flatnonzero(P).tolist() == [0, 1]  # of equal ones the first
    p = softmax(SCORES)[0]
    assert np.flatnonzero(shape_probabilities(SCORES, top_p=p[0] - 0.01)).tolist() == [0]
    kept = np.flatnonzero(shape_probabilities(SCORES, top_p=p[0] + 0.01))
    assert kept.tolist() == [0, 1]
    assert_allclose(shape_probabilities(SCORES, top_p=1.0), [p])


def test_drawn_frequencies_are_the_probabilities():
    P = np.repeat(softmax(SCORES), 20_000, axis=0)
    drawn = np.bincount(draw_tokens(P, np.random.RandomState(0)), minlength=5)
    assert chisquare(drawn, 20_000 * P[0]).pvalue > 1e-4


def test_sampled_texts_begin_with_the_prompt_repeat_by_seed_and_stop():
    model = NGram(3, test_fraction=0).fit(TEXTS)
    first = model.sample(5, prompt="ab", length=6, random_state=3)
    assert first == model.sample(5, prompt="ab", length=6, random_state=3)
    assert all(one.startswith("ab") and len(one) <= 8 for one in first)
    stopped = model.sample(20, prompt="", length=30, stop="a", random_state=0)
    assert all("a" not in one[:-1] for one in stopped)


def test_frequencies_of_samples_are_those_of_the_model():
    model = NGram(2, test_fraction=0).fit(TEXTS)
    P = dict(model.next_tokens("a", n=99))
    drawn = model.sample(4000, prompt="a", length=1, random_state=1)
    for letter in "bcd":
        share = sum(one == "a" + letter for one in drawn) / 4000
        assert share == pytest.approx(P[letter], abs=5 * np.sqrt(0.25 / 4000))


def test_many_beams_find_the_likeliest_of_all_continuations():
    model = NGram(3, test_fraction=0).fit(TEXTS)
    letters = sorted(set("".join(TEXTS)))
    whole = {}
    for size in range(1, 4):
        for run in itertools.product(letters, repeat=size):
            text = "".join(run)
            total, seen = 0.0, "ab"
            for letter in text:
                total += np.log(dict(model.next_tokens(seen, n=99)).get(letter, 0) or 1e-300)
                seen += letter
            if size < 3:  # it has ended
                total += np.log(dict(model.next_tokens(seen, n=99))["[EOS]"])
            whole["ab" + text] = total
    whole["ab"] = np.log(dict(model.next_tokens("ab", n=99))["[EOS]"])
    best = sorted(whole, key=lambda text: -whole[text])[:3]
    found = model.complete("ab", length=3, beams=len(model.tokens_))
    assert [text for text, _ in found[:3]] == best
    assert_allclose([log for _, log in found[:3]], [whole[text] for text in best], rtol=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -1}, "temperature=-1"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"top_p": 0}, "top_p=0"),
        ({"top_p": 1.5}, "top_p=1.5"),
        ({"top_k": 0}, "top_k=0"),
        ({"n_samples": 0}, "n_samples=0"),
        ({"length": 2.5}, "length=2.5"),
        ({"stop": ""}, "stop=''"),
        ({"prompt": 7}, "prompt is a int"),
    ],
)
def test_settings_that_choose_nothing_are_refused(settings, message):
    model = NGram(2).fit(TEXTS)
    with pytest.raises((ValueError, TypeError), match=message):
        model.sample(**settings)


def test_more_beams_than_tokens_are_refused():
    with pytest.raises(ValueError, match="beams=99 exceeds the 13 tokens"):
        NGram(2).fit(TEXTS).complete("a", beams=99)
