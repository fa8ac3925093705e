"""The loaders, on the real files where they are; skipped where they are not."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from lemmata import data
from lemmata.data.sets import SOURCES


def loaded(loader, *arguments):
    try:
        return loader(*arguments)
    except data.DataNotFound as error:
        pytest.skip(str(error))


def test_fashion_mnist_has_balanced_classes_and_pixels_from_0_to_1():
    test = loaded(data.fashion_mnist, "test")
    assert test.X.shape == (10_000, 784)
    assert test.X.dtype == np.float32
    assert (test.X.min(), test.X.max()) == (0, 1)
    assert (np.bincount(test.y) == 1000).all()
    whole = loaded(data.fashion_mnist)
    assert whole.X.shape == (70_000, 784)
    assert np.array_equal(whole.X[60_000:], test.X)
    assert np.array_equal(whole.y[60_000:], test.y)


def test_olivetti_has_ten_faces_of_each_person():
    faces = loaded(data.olivetti_faces)
    assert faces.X.shape == (400, 64 * 64)
    assert faces.X.dtype == np.float32
    assert 0.5 < faces.X.max() <= 1
    assert np.array_equal(faces.y, np.repeat(np.arange(40), 10))


def test_spoken_digits_are_padded_recordings_of_every_speaker():
    train, test, whole = (loaded(data.spoken_digits, part) for part in ("train", "test", "all"))
    assert (train.X.shape, test.X.shape, whole.X.shape) == ((240, 8000), (60, 8000), (300, 8000))
    assert whole.X.dtype == np.float32
    assert 0.5 < np.abs(whole.X).max() <= 1
    assert (np.bincount(whole.y) == 30).all()
    assert (np.bincount(test.y) == 6).all()
    assert np.array_equal(np.concatenate([train.X, test.X]), whole.X)
    short = loaded(lambda: data.spoken_digits("test", samples=1000))
    assert np.array_equal(short.X, test.X[:, :1000])
    assert (np.abs(test.X[:, -1]) == 0).mean() > 0.9  # most end in silence


def test_a9a_is_sparse_and_of_one_width():
    train, test, whole = (loaded(data.a9a, part) for part in ("train", "test", "all"))
    assert train.X.shape == (32_561, 123)
    assert test.X.shape == (16_281, 123)
    assert sp.issparse(whole.X)
    assert (train.X.nnz, test.X.nnz, whole.X.nnz) == (451_592, 225_731, 677_323)
    assert ((train.y == 1).sum(), (test.y == 1).sum()) == (7_841, 3_846)
    assert set(whole.y) == {-1, 1}


def test_spambase_has_57_features_and_1813_spams():
    mails = loaded(data.spambase)
    assert mails.X.shape == (4601, 57)
    assert mails.y.sum() == 1813
    assert mails.X.max() == 15841


def test_california_housing_has_eight_features_and_a_target():
    houses = loaded(data.california_housing)
    assert houses.X.shape == (20_640, 8)
    assert houses.features[0] == "longitude"
    assert houses.y.max() == 500_001
    assert np.isfinite(houses.X).all()


def test_movielens_small_translates_ids_and_titles():
    ratings = loaded(data.movielens_small)
    assert ratings.shape == (610, 9_724)
    assert len(ratings) == 100_836
    assert set(np.unique(ratings.rating)) == set(np.arange(1, 11) / 2)
    first = ratings.user_ids[ratings.user[0]], ratings.item_ids[ratings.item[0]], ratings.rating[0]
    assert first == (1, 1, 4.0)
    assert ratings.titles[ratings.item[0]] == "Toy Story (1995)"
    assert "Comedy" in ratings.genres[ratings.item[0]]
    assert ratings.timestamp[0] == 964982703


def test_movietweetings_are_in_other_units_and_have_times():
    ratings = loaded(data.movietweetings)
    assert ratings.shape == (16_554, 10_506)
    assert len(ratings) == 100_000
    assert set(np.unique(ratings.rating)) == set(range(11))
    assert ratings.timestamp[0] == 1365029107  # April 2013
    assert ratings.titles[0] == "Fantômas - À l'ombre de la guillotine (1913)"


def test_of_filmtrust_the_later_of_two_ratings_of_a_pair_counts():
    ratings = loaded(data.filmtrust)
    assert ratings.shape == (1_508, 2_071)
    assert len(ratings) == 35_494  # 35,497 in the file, three of them given twice
    assert len(np.unique(np.column_stack([ratings.user, ratings.item]), axis=0)) == len(ratings)
    assert (ratings.rating.min(), ratings.rating.max()) == (0.5, 4.0)


def test_movielens_1m_has_its_known_histogram():
    ratings = loaded(data.movielens_1m)
    assert ratings.shape == (6_040, 3_706)
    assert np.bincount(ratings.rating.astype(int))[1:].tolist() == [
        56174,
        107557,
        261197,
        348971,
        226310,
    ]
    assert ratings.timestamp is None
    assert len(np.unique(ratings.user.astype(np.int64) * 3_706 + ratings.item)) == len(ratings)


def test_newsgroups_have_twenty_classes_in_both_parts():
    train, test = loaded(data.newsgroups, "train"), loaded(data.newsgroups, "test")
    assert (len(train), len(test)) == (11_293, 7_528)
    assert train.names == test.names
    assert len(train.names) == 20
    assert all(train.texts[:100])


def test_running_texts_have_their_known_length():
    assert len(loaded(data.tiny_shakespeare).texts[0]) == 1_115_394
    assert len(loaded(data.wikitext_2, "valid").texts[0].split()) == 213_886


@pytest.mark.parametrize(
    ("name", "shape", "first"),
    [
        ("sunspots-yearly", (309, 1), 5), ("monthly-sunspots", (2820, 1), 58), ("airline-passengers", (144, 1), 112),
        ("daily-min-temperatures", (3650, 1), 20.7), ("co2-weekly", (2284, 1), 316.1), ("nile", (100, 1), 1120),
        ("macrodata", (203, 12), 2710.349), ("elnino", (732, 1), 23.11),
    ],
)  # fmt: skip
def test_series_are_in_order_of_time_with_holes_where_values_are_missing(name, shape, first):
    found = loaded(data.time_series, name)
    assert found.X.shape == shape
    assert found.X[0, 0] == first
    assert np.isnan(found.X).sum() == (59 if name == "co2-weekly" else 0)
    assert len(found.features) == shape[1]


def test_an_unknown_series_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="one of airline-passengers, co2-weekly"):
        data.time_series("stocks")


def test_an_unknown_part_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="'train', 'test', 'all'"):
        data.a9a("valid")
    with pytest.raises(ValueError, match="'train', 'valid', 'test'"):
        data.wikitext_2("all")


def test_every_loader_explains_absence(monkeypatch, tmp_path):
    monkeypatch.setenv("LEMMATA_DATA", str(tmp_path))
    monkeypatch.setenv("LEMMATA_CACHE", str(tmp_path))
    loaders = (
        data.fashion_mnist, data.olivetti_faces, data.a9a, data.california_housing, data.spambase, data.movielens_small,
        data.movielens_1m, data.movietweetings, data.filmtrust, data.newsgroups, data.tiny_shakespeare, data.wikitext_2,
        data.spoken_digits,
    )  # fmt: skip
    for loader in loaders:
        with pytest.raises(data.DataNotFound, match="LEMMATA_DATA"):
            loader()


def test_every_source_is_described_and_has_sums():
    for folder, source in SOURCES.items():
        assert source.folder == folder
        assert source.terms
        assert source.origin
        assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in source.files)
        assert all(file.url is None or file.url.startswith("https://") for file in source.files)
