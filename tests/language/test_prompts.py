"""Prompts: answers by the model's own probabilities, shots, templates that are paid for, and what is refused."""

import numpy as np
import pytest

from lemmata import NGram
from lemmata.language import Prompted, Template, choose_template, few_shot

FACTS = {"sun": "hot", "ice": "cold", "tea": "hot", "snow": "cold"}
LINE = Template("{x} is {y}. ")


@pytest.fixture(scope="module")
def model():
    text = "".join(LINE.write(x, y) for x, y in FACTS.items())
    return NGram(order=10, test_fraction=0).fit([text * 20])


def test_answers_are_scored_by_the_probabilities_of_their_letters(model):
    prompted = Prompted(model, ["sun", "ice"], ["hot", "cold"], LINE)
    n = len(model.tokens_)
    for query in ("tea", "snow"):
        prompt, logs = prompted.prompt(query), np.zeros(2)
        for i, answer in enumerate(prompted.classes_):
            for at, letter in enumerate(answer):
                logs[i] += np.log(dict(model.next_tokens(prompt + answer[:at], n))[letter])
        P = np.exp(logs) / np.sum(np.exp(logs))
        assert np.allclose(prompted.predict_proba([query])[0], P, rtol=1e-9)


def test_known_facts_are_answered_with_and_without_examples(model):
    X, y = list(FACTS), list(FACTS.values())
    found = few_shot(model, X, y, X * 5, y * 5, LINE, shots=(0, 1, 2))
    assert dict(found) == {0: 1.0, 1: 1.0, 2: 1.0}
    low, high = found.interval[1]
    assert low == pytest.approx(0.025 ** (1 / 20))
    assert high == 1
    assert "shots  right   95 %" in str(found)


def test_what_the_model_cannot_know_is_answered_by_chance(model):
    rng = np.random.default_rng(0)
    queries = [str(x) for x in rng.choice(list(FACTS), 60)]
    coins = [str(y) for y in rng.choice(["hot", "cold"], 60)]
    low, high = few_shot(model, queries, coins, queries, coins, LINE, shots=(2,)).interval[2]
    assert low < 0.5 < high


def test_templates_are_chosen_on_other_texts_at_a_price(model):
    rng = np.random.default_rng(1)
    X = [str(x) for x in rng.choice(["tea", "snow"], 80)]
    y = [FACTS[x] for x in X]
    found = choose_template(
        model, ["sun", "ice"], ["hot", "cold"], X, y, {"said": LINE, "bare": "{x}{y}"}
    )
    assert found.chosen == "said"
    assert found.eps > 0


@pytest.mark.parametrize("text", ["{x}", "{y} {x}", "{x} {x} {y}", "a b"])
def test_a_template_shows_each_side_once(text):
    with pytest.raises(ValueError, match="once"):
        Template(text)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: Prompted(m, ["a"], ["b", "c"]), "1 examples and 2 answers"),
        (lambda m: Prompted(m, ["sun"], ["hot"], LINE), "two and more"),
        (lambda m: few_shot(m, ["sun"], ["hot"], ["tea"], ["hot"], LINE, (3,)), "from 0 to 1"),
        (lambda m: few_shot(m, ["sun"], ["hot"], [], [], LINE), "one or more"),
        (lambda m: Prompted(m, ["sun", "q!"], ["hot", "cold"], LINE).predict(["tea"]), "'q'"),
    ],
)
def test_bad_input_is_refused(model, call, message):
    with pytest.raises(ValueError, match=message):
        call(model)
