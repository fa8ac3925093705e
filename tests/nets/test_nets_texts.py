"""TextCNN: windows as defined, padding of any length, phrases that a bag of words cannot see, files, wrong tokens."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import lemmata
from lemmata import LogisticRegression
from lemmata.nets import NeuralClassifier, TextCNN, pad_tokens


def phrases(n: int, seed: int):
    """Texts of 5 to 15 words, two of which are 'not' (1) and 'good' (2): the label is whether they stand in this order."""
    rng = np.random.default_rng(seed)
    texts, y = [], rng.integers(2, size=n)
    for label in y:
        text = rng.integers(3, 40, size=rng.integers(5, 16))
        at = rng.integers(len(text) - 1)
        text[at : at + 2] = (1, 2) if label else (2, 1)
        texts.append(text)
    return texts, y


def test_a_filter_answers_where_it_fits_best():
    torch.manual_seed(0)
    net = TextCNN((7,), 2, n_tokens=9, width=4, channels=3, windows=(2, 3)).eval().double()
    text = [5, 1, 8, 2]
    E = net.embedding.weight
    zeros, features = torch.zeros(2, 4, dtype=torch.float64), []
    for filters, w in zip(net.filters, (2, 3), strict=True):
        x = torch.cat([zeros[: w - 1], E[text], zeros[: w - 1]])
        seen = [(filters.weight * x[t : t + w].T).sum((1, 2)) for t in range(len(x) - w + 1)]
        features.append((torch.stack(seen).amax(0) + filters.bias).relu())
    assert_close(net.embed(torch.tensor([text]))[0], torch.cat(features))
    assert net.embedding_width() == 6


def test_padding_and_the_other_rows_of_a_batch_change_nothing():
    torch.manual_seed(0)
    net = TextCNN((20,), 3, n_tokens=40).eval().double()
    texts, _ = phrases(12, seed=1)
    whole = net(torch.from_numpy(pad_tokens(texts, 20)))
    with torch.no_grad():
        net.embedding.weight[0] = 100.0  # what stands for padding is never read
    for text, scores in zip(texts, whole, strict=True):
        for length in (len(text), len(text) + 1, 50):
            assert_close(net(torch.from_numpy(pad_tokens([text], length)))[0], scores)
    assert_close(net(torch.zeros(2, 5)), net.head[1].bias.expand(2, 3))  # a text without words


def test_it_reads_phrases_that_a_bag_of_words_cannot_see(tmp_path):
    (X, y), (X_new, y_new) = phrases(600, seed=0), phrases(300, seed=1)
    rows, new = pad_tokens(X, 16), pad_tokens(X_new, 16)
    options = {"net__width": 16, "net__channels": 16, "net__n_tokens": 40, "random_state": 0}
    model = NeuralClassifier(
        "TextCNN", max_iter=10, learning_rate=0.01, batch_size=64, **options
    ).fit(rows, y)
    bags, new_bags = (np.stack([np.bincount(t, minlength=40) for t in part]) for part in (X, X_new))
    assert model.score(new, y_new) > 0.95
    assert LogisticRegression().fit(bags, y).score(new_bags, y_new) < 0.6
    found = model.certify(rows, y)
    assert {"beats_constant", "gradients_true"} <= set(found.held)
    lemmata.save(model, tmp_path / "m.lemma")
    again = lemmata.load(tmp_path / "m.lemma")
    assert (again.predict_proba(new) == model.predict_proba(new)).all()


@pytest.mark.parametrize(
    ("x", "message"),
    [(torch.tensor([[0.5]]), "whole numbers"), (torch.tensor([[9]]), "n_tokens=9"), (torch.tensor([[-1]]), "n_tokens=9"),
     (torch.tensor([1]), "shape")],
)  # fmt: skip
def test_what_is_no_token_is_refused(x, message):
    with pytest.raises(ValueError, match=message):
        TextCNN((1,), 2, n_tokens=9)(x)


def test_sizes_are_checked_and_long_texts_are_cut():
    with pytest.raises(ValueError, match="rows of tokens"):
        TextCNN((1, 8, 8), 2, n_tokens=9)
    with pytest.raises(ValueError, match="two tokens or more"):
        TextCNN((8,), 2, n_tokens=9, windows=())
    assert pad_tokens([[1, 2, 3], [], [4]], 2).tolist() == [[1, 2], [0, 0], [4, 0]]
    with pytest.raises(ValueError, match="too large"):
        pad_tokens([[2**24]])
