"""What the entries of chapter 2 do where the ratings are absent; that each draws and shows it is tested with all entries."""

from lemmata import atlas
from lemmata.atlas.completion import recovery as completion


def test_without_movielens_the_means_are_those_of_generated_ratings_and_the_title_says_so(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("LEMMATA_DATA", str(tmp_path))
    monkeypatch.setenv("LEMMATA_CACHE", str(tmp_path))
    ratings, name = completion._ratings()
    assert "generated" in name
    assert 0.5 <= ratings.values.min() <= ratings.values.max() <= 5
    drawing = atlas.entries()["mean-ratings"].make()
    assert "generated" in drawing.axes[0].get_title()
