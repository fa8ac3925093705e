"""lemmata sample: rows drawn from a saved model become pictures, arrays and tables."""

import numpy as np
import pytest
from cli_invoke import invoke
from sklearn.datasets import load_digits

import lemmata
from lemmata import AR, PCA, cli

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A VAE of images with classes, fitted by the command line, and a process."""
    folder = tmp_path_factory.mktemp("drawn")
    digits = load_digits()
    images = (digits.images > 7).astype(np.float32)
    np.savez(folder / "x.npz", X=images[:500], label=digits.target[:500])
    settings = (
        "-s",
        "n_components=2",
        "-s",
        "layers=(8,)",
        "-s",
        "max_iter=2",
        "-s",
        "random_state=0",
    )
    invoke(
        "fit", "vae", folder / "x.npz", "--target", "label", *settings, "--save", folder / "m.lemma"
    )
    lemmata.save(AR(2).fit(np.sin(np.arange(200.0)) + images[:200, 3, 3]), folder / "ar.lemma")
    lemmata.save(PCA(1).fit(images.reshape(-1, 64)), folder / "pca.lemma")
    return folder


def test_images_become_a_grid_an_array_or_rows(folder):
    from matplotlib.image import imread

    invoke("sample", folder / "m.lemma", "-n", 6, "--out", folder / "grid.png")
    grid = imread(folder / "grid.png")
    assert grid.shape[1] > 1.4 * grid.shape[0]  # three by two
    model = lemmata.load(folder / "m.lemma")
    for name in ("a.npy", "a.npz"):
        invoke(
            "sample", folder / "m.lemma", "-n", 5, "--seed", 3, "--class", 4, "--out", folder / name
        )
        found = np.load(folder / name)
        found = found if name == "a.npy" else found["X"]
        np.testing.assert_array_equal(found, model.sample(5, 4, random_state=3))
    lines = invoke("sample", folder / "m.lemma", "-n", 3).splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("x0,x1,")
    assert lines[1].count(",") == 63


def test_series_are_drawn(folder):
    invoke("sample", folder / "ar.lemma", "-n", 2, "--length", 50, "--out", folder / "s.csv")
    assert np.loadtxt(folder / "s.csv", delimiter=",", skiprows=1).shape == (2, 50)
    invoke("sample", folder / "ar.lemma", "-n", 2, "--out", folder / "s.png")
    assert (folder / "s.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("m.lemma", "--class", "12"), "there is no class '12'; it knows 0"),
        (("m.lemma", "--length", "9"), "--length is of series"),
        (("m.lemma", "--out", "x.jpg"), ".png, .npy, .npz, .csv"),
        (("m.lemma", "-n", "999", "--out", "x.png"), "up to 400"),
        (("ar.lemma", "--class", "1"), "without classes"),
        (("pca.lemma",), "a PCA draws no rows"),
        (("x.npz",), "x.npz"),
    ],
)
def test_what_cannot_be_drawn_is_refused(folder, arguments, words):
    assert words in invoke("sample", folder / arguments[0], *arguments[1:], code=cli.BAD_INPUT)


def test_diffusion_takes_steps_a_sampler_and_guidance(folder):
    images = load_digits().images[:60, None] / 16
    model = lemmata.generate.Diffusion(width=8, max_iter=1, steps=20, random_state=0)
    lemmata.save(model.fit(images, load_digits().target[:60]), folder / "d.lemma")
    options = ("--steps", 4, "--sampler", "ddim", "--guidance", 1, "--class", 3, "--seed", 5)
    invoke("sample", folder / "d.lemma", "-n", 3, *options, "--out", folder / "d.npy")
    asked = {"y": 3, "steps": 4, "sampler": "ddim", "guidance": 1.0, "random_state": 5}
    drawn = lemmata.load(folder / "d.lemma").sample(3, **asked)
    np.testing.assert_array_equal(np.load(folder / "d.npy"), drawn)
    said = invoke("sample", folder / "m.lemma", "--steps", 4, code=1)
    assert "--steps is of diffusion models; this is a VAE" in said


def test_samples_of_anybody_are_certified(folder):
    rng = np.random.default_rng(0)
    for name in ("x", "new", "honest"):
        np.save(folder / f"{name}.npy", rng.normal(size=(600, 2)))
    np.savez(folder / "copies.npz", X=np.load(folder / "x.npy"))
    command = ("certify", "--samples", folder / "honest.npy", folder / "x.npy")
    said = invoke(*command, "--test", folder / "new.npy")
    assert "holds       passes_for_data" in said
    command = ("certify", "--samples", folder / "copies.npz", folder / "x.npy")
    assert "fails" in invoke(*command, "--test", folder / "new.npy", code=3)
    said = invoke(*command, "--test", folder / "none.npy", code=1)
    assert "none.npy does not exist" in said
