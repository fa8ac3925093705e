"""GPT: teacher forcing, caches, windows, files, warm starts, claims, and what is refused."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.nn import functional as F

import lemmata
from lemmata import GPT, NGram
from lemmata.language.gpt import CachedStep, cut_windows
from lemmata.language.networks import GPTNet, tell_drawn
from lemmata.nets.data.windows import Windows

TEXTS = ["the cat sat on the mat", "the dog sat on the rug", "a cat and a dog"] * 25
SMALL = {"width": 16, "depth": 1, "heads": 2, "context": 16, "max_iter": 2, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return GPT(**SMALL).fit(TEXTS)


@pytest.fixture
def net():
    torch.manual_seed(0)
    return GPTNet(20, width=16, depth=2, heads=2, context=12).double()


def test_all_places_at_once_are_places_one_by_one(net):
    tokens = torch.randint(0, 20, (3, 10))
    terms = net.loss(tokens[:, :-1], tokens[:, 1:])
    each = torch.stack(
        [F.cross_entropy(net(tokens[:, : t + 1])[:, -1], tokens[:, t + 1], reduction="none") for t in range(9)]
    )  # fmt: skip
    assert_allclose(terms.losses.detach(), each.sum(0).detach(), rtol=1e-12)
    assert terms.counts.tolist() == [9, 9, 9]


def test_tokens_marked_as_known_do_not_count(net):
    tokens = torch.randint(0, 20, (2, 10))
    y = tokens[:, 1:].clone()
    y[0, :5] = -100
    terms = net.loss(tokens[:, :-1], y)
    assert terms.counts.tolist() == [4, 9]
    assert terms.losses[0] < net.loss(tokens[:, :-1], tokens[:, 1:]).losses[0]


def test_padding_before_a_prompt_moves_its_places_back(net):
    tokens = torch.randint(1, 20, (2, 6))
    padded = F.pad(tokens, (3, 0))
    real = torch.arange(9) >= 3
    found = net(padded, padding=real.expand(2, 9))[:, 3:]
    assert_allclose(found.detach(), net(tokens).detach(), rtol=1e-10)
    cache = net.cache()
    net_eval = net.eval()
    with torch.no_grad():
        net_eval(padded[:, :7], padding=real.expand(2, 9)[:, :7], cache=cache)
        rest = net_eval(padded[:, 7:], padding=real.expand(2, 9), cache=cache)
    assert_allclose(rest, found[:, 4:].detach(), rtol=1e-10)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_rows_may_be_chosen_and_repeated_in_a_cache(positions):
    torch.manual_seed(1)
    net = GPTNet(20, width=16, depth=2, heads=2, context=12, positions=positions).double().eval()
    tokens = np.random.default_rng(0).integers(0, 20, (3, 7))
    step = CachedStep(net)
    step.feed(tokens[:, :4])
    step.select(np.array([2, 0, 2, 1]))
    found = step.feed(tokens[[2, 0, 2, 1], 4:])
    with torch.no_grad():
        whole = net(torch.from_numpy(tokens[[2, 0, 2, 1]]))[:, -1]
    assert_allclose(found, whole, rtol=1e-10)


def test_a_full_context_begins_again_with_its_last_half(net):
    tokens, step = np.random.default_rng(0).integers(0, 20, (1, 20)), CachedStep(net.eval())
    scores = [step.feed(tokens[:, t : t + 1]) for t in range(20)]
    with torch.no_grad():
        assert_allclose(scores[11], net(torch.from_numpy(tokens[:, :12]))[:, -1], rtol=1e-10)
        assert_allclose(scores[12], net(torch.from_numpy(tokens[:, 7:13]))[:, -1], rtol=1e-10)
        assert_allclose(scores[18], net(torch.from_numpy(tokens[:, 7:19]))[:, -1], rtol=1e-10)


# --- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "length", "stride"), [(50, 8, 4), (50, 8, 8), (9, 8, 1), (41, 8, 3)])
def test_in_measuring_each_token_counts_once_after_enough_others(n, length, stride):
    counted = np.zeros(n, int)
    for batch in Windows(np.arange(n), length, stride).in_order(3):
        x, y = (part.numpy() for part in batch.parts)
        for row in range(len(x)):
            places = np.flatnonzero(y[row] != -100)
            assert (y[row][places] == x[row][places] + 1).all()
            counted[y[row][places]] += 1
            if x[row][0] > 0:  # x is its own number
                assert places.min() >= length - stride
    assert counted.tolist() == [0, *[1] * (n - 1)]


def test_an_epoch_of_windows_follows_from_its_seed_and_can_begin_anywhere():
    data = Windows(np.arange(100), 8)
    whole = [batch.parts[0] for batch in data.batches(1, 2, 4)]
    assert len(whole) == data.count(4)
    later = [batch.parts[0] for batch in data.batches(1, 2, 4, start=1)]
    assert all(torch.equal(a, b) for a, b in zip(whole[1:], later, strict=True))
    starts = torch.cat(whole)[:, 0]
    assert len(set(starts.tolist())) == data.n
    assert len({int(s) % 8 for s in starts}) == 1
    others = torch.cat([batch.parts[0] for batch in data.batches(1, 3, 4)])[:, 0]
    assert {int(s) % 8 for s in others} != {int(s) % 8 for s in starts}


def test_texts_that_fill_a_window_each_are_the_windows():
    texts = ["abcd", "bcda", "cdab"]
    model = GPT(context=5, test_fraction=0.0)
    found = model._problem(model._validate_rows(texts))
    rows = torch.cat([batch.parts[1] for batch in found.batches(seed=3, epoch=1, size=2)])
    assert sorted(model.tokens_.decode(row[:-1]) for row in rows) == texts
    shifted = model.set_params(context=4)._problem(model._validate_rows(texts))
    assert not found.shifted
    assert (shifted.shifted, shifted.n) == (True, 3)
    assert found.fingerprint() != Windows(found.tokens, 5).fingerprint()


def test_windows_of_a_file_that_was_cut_short_are_noticed(tmp_path):
    np.save(tmp_path / "t.npy", np.arange(50_000, dtype=np.uint16))
    mapped = np.load(tmp_path / "t.npy", mmap_mode="r")
    data = Windows(mapped, 8)
    assert next(data.batches(0, 0, 2)).parts[0].dtype == torch.int64
    with open(tmp_path / "t.npy", "r+b") as file:
        file.truncate(20_000)
    with pytest.raises(ValueError, match=r"shrank|shorter|truncated|bytes"):
        list(data.batches(0, 0, 2))


def test_texts_are_scored_in_windows_that_never_cross_their_ends():
    ends = np.array([5, 30, 31])
    windows = list(cut_windows(ends, 31, 8))
    counted = np.zeros(31, int)
    for start, stop, first in windows:
        assert start <= first < stop <= start + 8
        assert not any(start < end < stop for end in ends)
        counted[first:stop] += 1
    assert (counted == 1).all()


# --- the estimator ----------------------------------------------------------------------------------------------------


def test_scores_of_texts_are_those_of_the_network(model):
    text = "the cat"
    tokens = torch.from_numpy(np.concatenate([[2], model.tokens_.encode(text), [2]])).long()[None]
    with torch.no_grad():
        log = F.log_softmax(model.module_(tokens[:, :-1]).double(), 2)
    expected = float(log[0].gather(1, tokens[0, 1:, None]).sum())
    assert model.score_samples([text])[0] == pytest.approx(expected, rel=1e-6)
    both = model.score_samples([text, "a dog and a cat sat on the rug"])
    assert both[0] == pytest.approx(expected, rel=1e-6)


def test_the_certificate_sets_it_beside_counting(model):
    found = model.certificate_
    assert found.main == "beats_ngrams"
    assert len(found) <= 6
    assert {"causal", "text_restored", "attributes_sound"} <= set(found.held)
    more = model.certify(TEXTS, seconds=60)
    assert "cache_agrees" in more.held
    assert "statements_true" in more.held


def test_a_network_that_trained_for_a_second_is_worse_than_counting():
    from truth.language import Source

    text = [Source(2, 0, letters=6).draw(20_000)]
    model = GPT(**{**SMALL, "max_iter": 1}, test_fraction=0.5).fit(text)
    found = model.certify(text, seconds=60)
    assert found["beats_ngrams"].verdict == "fails"
    assert "counting is better" in found["beats_ngrams"].advice


def test_a_warm_start_goes_on_with_the_same_tokens(model):
    import copy

    other = copy.deepcopy(model).set_params(warm_start=True, max_iter=1, learning_rate=1e-9)
    other.fit(["the dog sat", "a rug"] * 40)
    assert len(other.tokens_) == len(model.tokens_)
    assert_allclose(other.score_samples(["the cat"]), model.score_samples(["the cat"]), rtol=1e-3)
    claim = other.certify(["the dog sat", "a rug"] * 40)["beats_ngrams"]
    assert "pass X_test" in claim.note
    with pytest.raises(ValueError, match="character 'z'"):
        other.fit(["zebra " * 30])


def test_partial_fit_trains_an_epoch_more(model):
    import copy

    other = copy.deepcopy(model)
    before = other.score(TEXTS)
    for _ in range(3):
        other.partial_fit(TEXTS)
    assert other.score(TEXTS) > before
    assert not hasattr(other, "test_loss_")


def test_early_stopping_holds_more_text_back():
    model = GPT(**{**SMALL, "early_stopping": True, "context": 8}).fit(TEXTS)
    assert np.isfinite(model.history_["validation_loss"]).all()


def test_a_forged_network_of_other_tokens_is_refused(model, tmp_path):
    import copy

    other = copy.deepcopy(model)
    other.module_ = GPTNet(5, width=16, depth=1, heads=2, context=16)
    lemmata.save(other, tmp_path / "m")
    with pytest.raises(ValueError, match="no GPTNet of its"):
        lemmata.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("X", "settings", "message"),
    [
        ([], {}, "0 texts hold no word"),
        (["", "  "], {}, "hold no word"),
        (["short"], {}, r"has \d tokens.*context <= \d"),
        ("no file of this name", {}, "documents is one text"),
        (TEXTS, {"heads": 3}, "heads=3"),
        (TEXTS, {"tokens": "syllables"}, "tokens='syllables'"),
        (["a text\0"], {}, "zero bytes"),
        (TEXTS, {"test_fraction": 1.0}, "test_fraction=1.0"),
    ],
)
def test_bad_input_is_named(X, settings, message):
    model = GPT(**{**SMALL, **settings})
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X)
    assert not hasattr(model, "tokens_")


def test_bytes_that_are_no_text_are_named(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("ein Käse".encode("latin-1") * 9)
    with pytest.raises(ValueError, match="byte 0xe4 at position 5"):
        GPT(**SMALL).fit(path)


def test_the_end_of_a_long_prompt_is_kept_and_said(model):
    with pytest.warns(UserWarning, match="looks back 16: its end is kept"):
        found = model.next_tokens("the dog sat on the rug and the cat sat")
    assert sum(p for _, p in found) <= 1 + 1e-9


def test_a_token_more_has_the_scores_of_the_whole():
    torch.manual_seed(0)
    net = GPTNet(40, 32, 3, 4, 64).double().eval()
    tokens = torch.randint(6, 40, (3, 50))
    with torch.inference_mode():
        whole, cache = net(tokens), net.cache()
        net(tokens[:, :1], cache=cache)
        for t in range(1, 50):
            assert torch.allclose(
                net.next_scores(tokens[:, t : t + 1], cache), whole[:, t], atol=1e-12
            )


def test_the_least_loss_of_telling_real_from_drawn_tokens_is_at_their_log_probabilities():
    torch.manual_seed(0)
    P = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
    scores = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([scores], lr=0.05)
    for step in range(600):
        for group in optimizer.param_groups:
            group["lr"] = 0.05 * (1 - step / 600)
        y = torch.multinomial(P, 4096, replacement=True)
        optimizer.zero_grad()
        tell_drawn(scores.expand(len(y), 4), y, 4).mean().backward()
        optimizer.step()
    assert torch.allclose(scores.detach().exp(), P, atol=0.02)
    assert float(tell_drawn(scores[None].detach(), torch.tensor([-100]), 4)) == 0


def test_a_binary_language_model_learns_what_comes_next_and_is_saved(tmp_path):
    settings = {**SMALL, "max_iter": 40, "learning_rate": 0.01, "batch_size": 4}
    with lemmata.config(certificate=False):
        model = GPT(**settings, drawn=4).fit(TEXTS)
        threes = NGram(order=3).fit(TEXTS)
    assert model.next_tokens("the cat sat o", n=1)[0][0] == "n"
    assert model.loss_ < threes.loss_
    lemmata.save(model, tmp_path / "m.lemma")
    again = lemmata.load(tmp_path / "m.lemma")
    assert again.drawn == again.module_.drawn == 4
    assert again.score(TEXTS[:3]) == model.score(TEXTS[:3])
