"""Every entry of the atlas draws its figure and shows what it says; the pictures of the docs are those of today."""

import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

sys.path.insert(0, str(Path(__file__).parents[2]))  # tools/ stands beside tests/

from lemmata import atlas
from lemmata.atlas import numbers_of
from lemmata.atlas.numbers import differences, stored_in
from lemmata.core.certification.pictures import figure
from lemmata.data import DataNotFound
from tools import images

# what takes a second or more; `./run test --all` draws them. Tests of the subject ask the same theory on less data:
# of transformers, autoencoders, coresets, mixtures, flows, VAEs and approximation, and test_atlas_*.py of other draws
LONG = (
    "loss-and-counting",  # 8 s of training; loss-by-place is of the same networks
    "loss-by-place",
    "attention-reversal",
    "autoencoder-pca",
    "barron-rate",
    "bias-variance",
    "choose-k",
    "coreset-error",
    "double-descent",
    "elbo-iwae",
    "few-labels",
    "flow-grid",
    "receptive-fields",
    "schedules",
    "vae-walk",
    "diffusion-score",
    "phase-diagram",
    "coherent-spike",
    "colour-quantisation",
    "vit-convnet",
    "vit-looks",
    "linear-probes",
    "learned-filters",
    "skip-connections",
    "batch-norm-rates",
    "small-data",
    "docstring-topics",
    "words-in-two-topics",
    "held-out-prior",
    "phrase-filters",
    # 2 million words where WikiText-2 is here; without it, drawn by test_embeddings_atlas.py
    "nearest-words",
    "word-arithmetic",
    "glove-weights",
    "noise-exponent",
    "true-loss",
    "model-table",
    "robust-gradients",
    # two groups for eight in tests/generate/test_gan.py; planar maps and their determinants in test_flows.py; the variance of
    # one step in test_diffusion.py
    "gan-ring",
    "models-at-equal-time",
    "notes-algorithms",
    "planar-depth",
    "diffusion-steps",
    # trainings without labels: in truth/selfsup.py, tests/selfsup
    "collapse",
    "features-before-after",
    "labels-saved",
    "temperature",
)
# the orbit of two players differs with the last bit of a product, so with the CPU; what it shows is asserted in the entry
ORBITS = ("gan-ring", "models-at-equal-time", "notes-algorithms")
IDS = [pytest.param(id, marks=pytest.mark.slow) if id in LONG else id for id in atlas.entries()]


@pytest.mark.parametrize("id", IDS)
def test_the_entry_draws_and_shows_what_it_says_and_the_docs_have_that_picture(id, tmp_path):
    try:
        drawn = atlas.entries()[id].perform(tmp_path)
    except DataNotFound as error:
        pytest.skip(str(error))
    assert drawn.path.name == f"{id}.png"
    assert imread(drawn.path).std() > 0.02  # something is drawn
    assert drawn.shown
    here = str(stored_in(drawn.path))
    # where MovieLens is absent; of docstrings, which depend on what is installed
    if id not in ORBITS and "generated" not in here and "as installed here" not in here:
        assert images.outdated(drawn.path) == [], f"run: ./run docs-images {id}"


def test_every_picture_of_the_docs_is_one_of_the_atlas_with_its_numbers_inside():
    assert {path.stem for path in images.FOLDER.glob("*.png")} == set(atlas.entries())
    for path in images.FOLDER.glob("*.png"):
        assert stored_in(path)


def test_titles_sources_and_captions_are_given():
    for id, item in atlas.entries().items():
        assert id == item.id == id.lower()
        assert item.title
        assert item.source.startswith(("CIL", "ML"))
        assert len(item.caption) > 80, id


def test_an_id_names_one_entry():
    known = atlas.entries()["elbo-iwae"]
    atlas.entry(known.id, known.source)(known.make)  # as a module that is imported again
    with pytest.raises(ValueError, match="entry 'elbo-iwae' already, elbo_iwae: choose another id"):
        atlas.entry("elbo-iwae", "CIL 5.3")(test_titles_sources_and_captions_are_given)
    assert atlas.entries()["elbo-iwae"].make is known.make


def test_parameters_are_declared_with_bounds_around_their_default():
    for id, item in atlas.entries().items():
        for one in item.parameters:
            assert one.low <= one.default <= one.high, (id, one)
            assert one.low < one.high, (id, one)


def test_values_outside_of_the_bounds_and_unknown_ones_are_refused(tmp_path):
    seen = []

    def make(n: int = 3):
        seen.append(n)
        return figure()[0]

    slider = atlas.AtlasEntry("some", "Some", "CIL 1", make, (atlas.Slider("n", 3, 1, 9),))
    slider.perform(tmp_path, n=5.0)
    assert seen == [5]
    assert isinstance(seen[0], int)
    with pytest.raises(ValueError, match="n=10 lies outside; pass 1 to 9"):
        slider.perform(tmp_path, n=10)
    with pytest.raises(ValueError, match=r"some takes n 1 to 9 \(default 3\), not m"):
        slider.perform(tmp_path, m=1)


def test_a_figure_that_does_not_show_it_is_an_error():
    with pytest.raises(atlas.NotShown, match="water flows uphill"):
        atlas.show(False, "water flows uphill")


def test_what_was_asserted_is_told_once_and_in_order(tmp_path):
    def make():
        """Two things."""
        for _ in range(3):
            atlas.show(True, "the first")
        atlas.show(True, "the second")
        return figure()[0]

    drawn = atlas.AtlasEntry("some", "Some", "CIL 1", make).perform(tmp_path)
    assert drawn.shown == ("the first", "the second")
    assert drawn.caption == "Two things."
    assert drawn.path == tmp_path / "some.png"


# --- the numbers of a picture -----------------------------------------------------------------------------------------


def _drawn(values, title="50 rows", colour=0.5):
    drawing, ax = figure()
    ax.plot(values)
    ax.bar([0, 1], values[:2])
    ax.scatter(values[:5], values[5:10], c=[[colour] * 3] * 5)
    ax.set_title(title)
    return numbers_of(drawing)


def test_rounding_is_no_difference_and_everything_else_is():
    x = np.linspace(1, 2, 30)
    same = _drawn(x * (1 + 1e-9), "51 rows")
    assert differences(_drawn(x), same) == []
    for changed in (
        _drawn(np.where(x == x[3], 3 * x, x)),  # one value
        _drawn(x[::-1]),  # the order
        _drawn(x[:-1]),  # one value less
        _drawn(x, "50 columns"),
        _drawn(x, "60 rows"),
        _drawn(x, colour=0.9),
    ):
        assert len(differences(_drawn(x), changed)) >= 1
    assert differences(_drawn(x), []) == ["1 axes have become 0"]


def test_a_picture_from_elsewhere_is_refused(tmp_path):
    drawing, _ = figure()
    drawing.savefig(tmp_path / "other.png")
    with pytest.raises(ValueError, match="not drawn by the atlas"):
        stored_in(tmp_path / "other.png")
