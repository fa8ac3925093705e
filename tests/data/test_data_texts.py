"""The loaders of texts, on the real files where they are; skipped where they are not."""

import numpy as np
import pytest

from lemmata import data


def loaded(loader, *arguments, **options):
    try:
        return loader(*arguments, **options)
    except data.DataNotFound as error:
        pytest.skip(str(error))


def test_the_ap_corpus_has_the_counts_of_its_paper():
    corpus = loaded(data.ap_corpus)
    assert corpus.X.shape == (2246, 10473)
    assert (corpus.X.nnz, corpus.X.sum()) == (302_031, 435_838)
    assert corpus.features[:2] == ("i", "new")
    assert corpus.X.has_sorted_indices


def test_film_reviews_are_balanced_and_in_order():
    train, test = loaded(data.imdb_reviews, "train"), loaded(data.imdb_reviews, "test")
    assert (len(train), len(test)) == (25_000, 25_000)
    assert train.y.sum() == test.y.sum() == 12_500
    sentences = loaded(data.rt_polarity)
    assert np.bincount(sentences.y).tolist() == [5331, 5331]


def test_questions_have_six_kinds_of_answers_or_fifty():
    questions = loaded(data.trec_questions, "train")
    assert questions.names == ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    assert len(questions) == 5452
    assert len(loaded(data.trec_questions, "all", fine=True).names) == 50


def test_news_and_judgements_are_found():
    assert len(loaded(data.lee_news, "all")) == 350
    files = loaded(data.word_evaluation)
    assert sorted(files) == ["analogies", "simlex999", "wordsim353"]
    lines = files["wordsim353"].read_text().splitlines()
    assert sum(not line.startswith("#") for line in lines) == 353
