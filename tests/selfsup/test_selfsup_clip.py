"""Images and captions: who finds whom, classes by name, claims on shuffled captions, files, and what is refused."""

import copy
import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

import lemmata
from lemmata import CLIP
from lemmata.selfsup import probe

DATA = load_digits()
IMAGES, Y = (DATA.images[:, None] / 16).astype("float32"), DATA.target
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
TEMPLATES = ("a photo of a {}", "handwritten {}", "the digit {}", "somebody wrote {}")
CAPTIONS = [TEMPLATES[i % 3].format(NAMES[k]) for i, k in enumerate(Y)]
SMALL = {"regions": 2, "net_options": {"widths": (16, 32)}, "hidden": 32, "batch_size": 100, "random_state": 0}  # fmt: skip
TRAIN, TEST = slice(0, 1300), slice(1300, None)


@pytest.fixture(scope="module")
def model():
    return CLIP(**SMALL, max_iter=6).fit(IMAGES[TRAIN], CAPTIONS[TRAIN])


@pytest.fixture(scope="module")
def shuffled():
    captions = np.random.default_rng(0).permutation(CAPTIONS[TRAIN]).tolist()
    return CLIP(**SMALL, max_iter=2).fit(IMAGES[TRAIN], captions)


def test_images_find_their_captions_and_captions_their_images(model):
    assert "captions_found" in model.certificate_.held
    texts = [f"handwritten {name}" for name in NAMES]
    found = model.retrieve(texts, IMAGES[TEST], k=5)
    assert np.mean(Y[TEST][found] == np.arange(10)[:, None]) > 0.8
    back = model.retrieve(IMAGES[TEST], texts, k=1)[:, 0]
    assert np.mean(back == Y[TEST]) > 0.8
    u, v = model.embed(images=IMAGES[:3]), model.embed(texts=texts)
    assert_allclose(np.linalg.norm(u, axis=1), 1, rtol=1e-6)
    assert_array_equal(np.argmax(model.embed(IMAGES[TEST]) @ v.T, axis=1), back)


def test_classes_need_only_names_also_in_a_template_that_was_never_seen(model):
    digits = model.classifier(NAMES, template="somebody has handwritten {} here")
    names = np.array(NAMES)[Y[TEST]]
    assert digits.score(IMAGES[TEST], names) > 0.8
    p = digits.predict_proba(IMAGES[TEST])
    assert_allclose(p.sum(axis=1), 1)
    assert_array_equal(digits.classes_[p.argmax(axis=1)], digits.predict(IMAGES[TEST]))
    assert digits.certify(IMAGES[TEST], names)["zero_shot_beats_chance"].verdict == "holds"
    strangers = np.random.default_rng(0).permutation(names)
    assert digits.certify(IMAGES[TEST], strangers)["zero_shot_beats_chance"].verdict != "holds"
    # of images that are nearly all nines, that answer is hard to beat
    nines = np.flatnonzero(Y[TEST] == 9)
    found = digits.certify(IMAGES[TEST][nines], names[nines])["zero_shot_beats_chance"]
    assert found.verdict != "holds"


def test_order_and_case_of_words_do_not_count(model):
    pair = model.embed(texts=["the digit SIX", "six digit, the"])
    assert_array_equal(pair[0], pair[1])


def test_shuffled_captions_are_not_found(shuffled):
    found = shuffled.certify(IMAGES[TRAIN], CAPTIONS[TRAIN], X_test=IMAGES[TEST], y_test=CAPTIONS[TEST])  # fmt: skip
    assert found["captions_found"].verdict != "holds"
    names = np.array(NAMES)[Y[TEST]]
    assert shuffled.classifier(NAMES).certify(IMAGES[TEST], names)["zero_shot_beats_chance"].verdict != "holds"  # fmt: skip


def test_statements_are_true_and_cannot_be_forged(model):
    found = model.certify(IMAGES[TRAIN], CAPTIONS[TRAIN])
    assert found["statements_true"].verdict == "holds", found["statements_true"]
    assert found["captions_found"].verdict == "holds"
    for name in ("loss_", "temperature_"):
        liar = copy.copy(model)
        setattr(liar, name, getattr(model, name) * 1.05)
        assert liar.certify(IMAGES[TRAIN], CAPTIONS[TRAIN])["statements_true"].verdict == "fails"
    again = model.certify(IMAGES[TRAIN], CAPTIONS[TRAIN], X_test=IMAGES[:300], y_test=CAPTIONS[:300])  # fmt: skip
    assert again["captions_found"].verdict == "can't tell"  # they were trained on


def test_the_temperature_is_learned_and_bounded():
    from lemmata.nets import ConvNet
    from lemmata.selfsup import FeatureNet, ImagesAndWords

    net = ImagesAndWords(FeatureNet(ConvNet((1, 8, 8), 1, widths=(4,)), 1), 3, hidden=8, n_words=4)
    with torch.no_grad():
        net.log_scale.fill_(9.0)
    assert_allclose(net.scale().exp().item(), 100, rtol=1e-6)
    padded = net.eval().read(torch.tensor([[0, 0, 2, 3], [0, 0, 0, 2]]))
    assert_allclose(padded[1].detach().numpy(), net.read(torch.tensor([[2]]))[0].detach().numpy(), rtol=1e-5)  # fmt: skip


def test_files_probes_and_resuming(tmp_path, model):
    lemmata.save(model, tmp_path / "c.lemma")
    loaded = lemmata.load(tmp_path / "c.lemma")
    assert_array_equal(loaded.embed(texts=CAPTIONS[:5]), model.embed(texts=CAPTIONS[:5]))
    assert_array_equal(loaded.transform(IMAGES[:5]), model.transform(IMAGES[:5]))
    few = probe(model, IMAGES[TRAIN], Y[TRAIN], IMAGES[TEST], Y[TEST], labels=100)
    assert few.rows[0].accuracy > few.rows[2].accuracy  # few-shot, above the untrained network


BAD = {
    "captions are missing": lambda: CLIP().fit(IMAGES[:100], None),
    "99 captions for 100 images": lambda: CLIP().fit(IMAGES[:100], CAPTIONS[:99]),
    "caption 3 is '  '": lambda: CLIP().fit(IMAGES[:5], ["one", "two", "one", "  ", "two"]),
    "caption 0 is a int": lambda: CLIP().fit(IMAGES[:5], [1, 2, 3, 4, 5]),
    "compares the rows of a batch": lambda: CLIP(**SMALL, accumulate=2).fit(IMAGES[:200], CAPTIONS[:200]),
    "exceeds the 90 rows": lambda: CLIP(**{**SMALL, "batch_size": 500}).fit(IMAGES[:100], CAPTIONS[:100]),
}  # fmt: skip
ASKED = {
    "0 places for a name": lambda m: m.classifier(NAMES, template="a photo"),
    "2 places for a name": lambda m: m.classifier(NAMES, template="{} {}"),
    "had 'dragon', of the name": lambda m: m.classifier(["one", "dragon"]),
    "two different ones": lambda m: m.classifier(["one", "one"]),
    "has no word that the captions": lambda m: m.embed(texts=["green dragons"]),
    "pass images or texts": lambda m: m.embed(),
    "pass a number from 1 to 2": lambda m: m.retrieve(IMAGES[:3], CAPTIONS[:2], k=3),
    "pass X_test and y_test together": lambda m: m.certify(IMAGES[:9], CAPTIONS[:9], X_test=IMAGES[9:20]),
    "for 3 images; pass one of": lambda m: m.classifier(NAMES).certify(IMAGES[:3], ["eleven"] * 3),
}  # fmt: skip


@pytest.mark.parametrize("words", BAD)
def test_bad_pairs_are_refused_in_words(words):
    with pytest.raises((ValueError, TypeError), match=words):
        BAD[words]()


@pytest.mark.parametrize("words", ASKED)
def test_bad_questions_are_answered_in_words(model, words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=words):
            ASKED[words](model)


def test_unknown_words_beside_known_ones_are_left_out_and_named(model):
    with pytest.warns(UserWarning, match="left out: 'green'"):
        found = model.embed(texts=["green seven"])
    assert_array_equal(found, model.embed(texts=["seven"]))
