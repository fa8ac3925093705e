"""Every entry of the atlas draws its figure and shows what it says; a false statement is noticed."""

import pytest
from matplotlib.image import imread

from lemmata import atlas

LONG = ("phase-diagram",)  # thousands of completions; `./run test --all` draws it
IDS = [pytest.param(id, marks=pytest.mark.slow) if id in LONG else id for id in atlas.entries()]


@pytest.mark.parametrize("id", IDS)
def test_the_entry_draws_and_shows_what_it_says(id, tmp_path):
    path = atlas.entries()[id].draw(tmp_path)
    picture = imread(path)
    assert path.name == f"{id}.png"
    assert picture.std() > 0.02  # something is drawn


def test_ids_and_sources_are_given():
    for id, item in atlas.entries().items():
        assert id == item.id == id.lower()
        assert item.title
        assert item.source.startswith(("CIL", "ML"))


def test_a_figure_that_does_not_show_it_is_an_error():
    with pytest.raises(atlas.NotShown, match="water flows uphill"):
        atlas.show(False, "water flows uphill")
