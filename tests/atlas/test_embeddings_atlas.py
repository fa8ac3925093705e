"""Figures about words where WikiText-2 is absent, and the formulas they draw; with it they are drawn with all other entries."""

import numpy as np
import pytest

from lemmata import atlas
from lemmata.atlas.embeddings import information, reading, texts

READ_TEXT = ("nearest-words", "word-arithmetic", "glove-weights", "true-loss", "noise-exponent")


@pytest.fixture
def without_data(monkeypatch, tmp_path):
    for name in ("LEMMATA_DATA", "LEMMATA_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))


@pytest.mark.parametrize("id", READ_TEXT)
def test_without_wikitext_the_figure_is_that_of_a_generated_text_and_says_so(
    id, without_data, tmp_path
):
    drawn = atlas.entries()[id].perform(tmp_path)
    assert drawn.shown
    assert "generated" in str(atlas.numbers.stored_in(drawn.path))


def test_words_of_the_made_text_keep_the_company_that_its_plan_gives_them():
    """From one to many changes the information of all roots alike: a sum has no interaction, up to what counts allow."""
    found = texts.generate_text(0, sentences=30_000, contexts=12)
    vocabulary = found.encoded.vocabulary
    N = np.zeros((len(vocabulary), len(vocabulary)))
    for ids in found.encoded.sentences():
        others = np.delete(ids, 3)
        np.add.at(N, (np.full(6, ids[3]), others), 1)
    contexts = vocabulary.encode([f"v{j}" for j in range(12)])
    one, many = (vocabulary.encode([pair[i] for pair in found.pairs]) for i in (0, 1))
    ways = np.log((N[many][:, contexts] + 0.5) / (N[one][:, contexts] + 0.5))
    ways -= ways.mean(axis=1, keepdims=True)  # the normaliser of each word
    apart = ways - ways.mean(axis=0)
    noise = 1 / (N[many][:, contexts] + 0.5) + 1 / (N[one][:, contexts] + 0.5)
    assert ways.mean(axis=0).std() > 0.5
    assert (apart**2).mean() < 1.3 * noise.mean()


def test_ways_of_parallelograms_are_parallel():
    rng = np.random.default_rng(0)
    one, way = rng.normal(size=(8, 5)), rng.normal(size=5)
    assert reading.parallel(one, one + way) == pytest.approx(1)
    assert reading.right_side(one, one + way) == 1
    assert reading.parallel(one, one[::-1] + way) < 0.9
    opposite = one + np.where(np.arange(8) < 1, -1, 1)[:, None] * way
    assert reading.right_side(one, opposite) == 7 / 8


def test_the_optimum_of_negative_sampling_is_that_of_the_formula():
    N = np.array([[2.0, 6.0], [6.0, 0.0]])
    best = information.optimum(N, np.array([16, 1]), negative=2)
    q = np.array([8, 1]) / 9  # 16^¾ = 8
    assert best[0] == pytest.approx(np.log([2 / (2 * 8 * q[0]), 6 / (2 * 8 * q[1])]))
    assert best[1, 1] == -np.inf
