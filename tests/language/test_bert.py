"""BERT: hidden words and pairs as drawn, losses against the network one place at a time, fill, transform, claims."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import lemmata
from lemmata.audit.language.masked import tells_next
from lemmata.core.certificate import Fit
from lemmata.language import BERT, BERTNet
from lemmata.language.corpus import Corpus
from lemmata.language.corruption import (
    MASKED,
    OTHER,
    SELECTED,
    Passages,
    cut_pieces,
    join_segments,
    mask_words,
)
from lemmata.language.tokens import CLS, FIRST, MASK, PAD, SEP

SMALL = {"width": 16, "depth": 1, "heads": 2, "context": 16, "tokens": "words", "random_state": 0}
NAMES, VERBS, THINGS = ("ann", "bob", "cid"), ("sees", "hears", "likes"), ("rain", "snow", "wind")


def draw_texts(n, seed=0):
    """Two sentences in agreement: who sees rain feels rain."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        who, verb, thing = (str(rng.choice(of)) for of in (NAMES, VERBS, THINGS))
        found.append(f"{who} {verb} {thing} and {who} knows {thing} well today")
    return found


@pytest.fixture(scope="module")
def quick():
    with lemmata.config(certificate=False):
        return BERT(**SMALL, max_iter=2).fit(draw_texts(40))


# --- what is learned from ---------------------------------------------------------------------------------------------


def test_words_are_hidden_in_the_shares_of_the_notes():
    torch.manual_seed(0)
    tokens = torch.randint(FIRST, 5000, (400, 500))
    tokens[:, 0], tokens[:, 250] = CLS, SEP
    inputs, selected = mask_words(tokens, 5000)
    n = tokens.numel()
    words = (tokens >= FIRST).sum()
    assert not selected[:, [0, 250]].any()
    assert torch.equal(inputs[~selected], tokens[~selected])
    share = selected.sum() / words
    assert abs(share - SELECTED) < 5 * (SELECTED / n) ** 0.5
    masked = (inputs == MASK)[selected].double().mean()
    same = (inputs == tokens)[selected].double().mean()
    few = 5 * 0.5 / float(selected.sum()) ** 0.5
    assert abs(masked - MASKED) < few
    assert abs(same - (1 - MASKED - OTHER)) < few  # and another word is the same once in 5,000
    assert (inputs >= FIRST)[inputs != MASK][selected[inputs != MASK]].all()


def test_pieces_cover_every_token_once_and_stay_inside_their_texts():
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes = rng.integers(0, 30, 5)
        stops = np.cumsum(sizes + 1) - 1
        starts = stops - sizes
        length = int(rng.integers(1, 9))
        begin, end = cut_pieces(starts, stops, length, int(rng.integers(length)))
        covered = np.zeros(stops[-1] + 1, int)
        for a, b in zip(begin, end, strict=True):
            assert 0 < b - a <= length
            covered[a:b] += 1
        wanted = np.zeros_like(covered)
        for a, b in zip(starts, stops, strict=True):
            wanted[a:b] = 1
        assert np.array_equal(covered, wanted)


def test_rows_are_cls_a_sep_b_sep_with_segments():
    x, segments = join_segments([(np.array([7, 8]), np.array([9])), (np.array([7]), None)])
    assert x.tolist() == [[CLS, 7, 8, SEP, 9, SEP], [CLS, 7, SEP, PAD, PAD, PAD]]
    assert segments.tolist() == [[0, 0, 0, 0, 1, 1], [0] * 6]


def passages(**more):
    tokens = np.arange(400) + FIRST
    starts = np.array([0, 150, 153])
    return Passages(tokens, starts, np.array([150, 153, 400]), **{"context": 23, **more})


def test_half_of_the_second_parts_follow_the_first():
    asked, follows, adjacent = 0, 0, 0
    for epoch in range(20):
        for batch in passages(pairs=1.0).batches(seed=0, epoch=epoch, size=4):
            for row, label in zip(batch.parts[0].numpy(), batch.parts[2].tolist(), strict=True):
                ends = np.flatnonzero(row == SEP)
                if label < 0:
                    assert len(ends) == 1
                    continue
                asked += 1
                follows += label
                if label:
                    adjacent += row[ends[0] + 1] == row[ends[0] - 1] + 1
    assert asked > 300
    assert adjacent == follows
    assert abs(follows / asked - 0.5) < 5 * 0.5 / asked**0.5


def test_an_epoch_begins_anywhere_as_if_it_had_not_been_stopped():
    data = passages()
    whole = list(data.batches(seed=1, epoch=2, size=4))
    assert len(whole) == data.count(4)
    assert sum(batch.rows for batch in whole) == data.n
    for again, batch in zip(data.batches(seed=1, epoch=2, size=4, start=3), whole[3:], strict=True):
        assert all(map(torch.equal, again.parts, batch.parts))
    other = next(iter(data.batches(seed=1, epoch=3, size=4)))
    assert not torch.equal(other.parts[0], whole[0].parts[0])


@pytest.mark.parametrize("cuts", [(5,), (1, 3, 6)])
def test_gradients_do_not_depend_on_how_a_batch_is_cut(cuts):
    torch.manual_seed(0)
    net = BERTNet(30, 16, 1, 2, 12).double()
    tokens = torch.randint(FIRST, 30, (8, 12))
    tokens[2, 6:] = PAD
    parts = tokens, torch.zeros_like(tokens), torch.tensor([0, 1, -100, 1, 0, 0, 1, 1])

    def gradient(pieces):
        net.zero_grad()
        total, count = 0.0, 0.0
        for piece in pieces:
            torch.manual_seed(0)  # whatever is drawn, it is drawn for all rows
            whole = mask_words(tokens, 30)
            inputs, selected = (one[piece] for one in whole)
            found = loss_of(net, inputs, selected, *(one[piece] for one in parts))
            total, count = total + found.losses.sum(), count + found.counts.sum()
        (total / count).backward()
        return torch.cat([w.grad.flatten() for w in net.parameters()])

    edges = [0, *cuts, 8]
    pieces = [slice(a, b) for a, b in itertools.pairwise(edges)]
    assert torch.allclose(gradient(pieces), gradient([slice(0, 8)]), rtol=1e-12, atol=1e-14)


def loss_of(net, inputs, selected, tokens, segments, follows):
    """BERTNet.loss with words that are hidden already."""
    import lemmata.language.networks as networks

    kept, networks.mask_words = networks.mask_words, lambda *_: (inputs, selected)
    try:
        return net.loss(tokens, segments, follows)
    finally:
        networks.mask_words = kept


def test_the_loss_is_the_mean_over_hidden_words_and_questions(quick):
    net = quick.module_
    texts = [quick.tokens_.encode(one) for one in draw_texts(3, seed=5)]
    x, segments = join_segments([(one[:4], one[4:]) for one in texts])
    x, segments = torch.from_numpy(x), torch.from_numpy(segments)
    follows = torch.tensor([1, 0, 1])
    torch.manual_seed(3)
    inputs, selected = mask_words(x, net.n_tokens)
    with torch.no_grad():
        total = 0.0
        for row in range(3):
            scores = net(inputs[row : row + 1], segments[row : row + 1])[0].double()
            logs = torch.log_softmax(scores, 1)
            total -= sum(logs[t, x[row, t]] for t in range(x.shape[1]) if selected[row, t])
            said = net.follows(net.body(inputs[row : row + 1], segments[row : row + 1])[0, 0])
            total += F.softplus(-said if follows[row] else said)[0]
        torch.manual_seed(3)
        found = net.loss(x, segments, follows)
    assert float(found.mean()) == pytest.approx(float(total / (selected.sum() + 3)), rel=1e-5)


# --- the model --------------------------------------------------------------------------------------------------------


def test_hidden_words_that_follow_from_both_sides_are_filled_in(tmp_path):
    texts = draw_texts(400)
    model = BERT(**{**SMALL, "width": 32}, learning_rate=1e-2, max_iter=16, batch_size=16).fit(
        texts
    )
    # the only clue stands behind the hidden word
    before = model.fill("ann sees [MASK] and ann knows snow well today", n=1)[0]
    assert before[0][0] == "snow"
    both = model.fill("[MASK] hears wind and cid knows [MASK] well today", n=2)
    assert [one[0][0] for one in both] == ["cid", "wind"]
    assert model.certificate_.main == "beats_left_ngrams"
    assert "beats_left_ngrams" in model.certificate_.undecided  # few texts were kept
    found = model.certify(texts, X_test=draw_texts(2000, seed=1), seconds=60)
    assert {"attributes_sound", "statements_true", "beats_left_ngrams", "batch_agrees"} <= {
        *found.held
    }
    lemmata.save(model, tmp_path / "m.lemma")
    again = lemmata.load(tmp_path / "m.lemma")
    assert np.array_equal(again.transform(texts[:3]), model.transform(texts[:3]))


def test_scores_are_those_of_the_network_with_every_seventh_word_hidden(quick):
    text = draw_texts(1, seed=9)[0]
    tokens = quick.tokens_.encode(text).astype(np.int64)
    total = 0.0
    for shift in range(7):
        hidden = np.arange(len(tokens)) % 7 == shift
        row = np.concatenate([[CLS], np.where(hidden, MASK, tokens), [SEP]])
        with torch.no_grad():
            logs = torch.log_softmax(quick.module_(torch.from_numpy(row)[None])[0].double(), 1)
        total += sum(float(logs[t + 1, tokens[t]]) for t in np.flatnonzero(hidden))
    # the places are counted through all texts: the text stands first here
    assert quick.score_samples([text, "ann sees rain"])[0] == pytest.approx(total, rel=1e-6)


def test_vectors_of_texts_do_not_depend_on_those_beside_them(quick):
    texts = [
        "ann sees rain",
        "",
        "bob knows snow and cid knows wind and ann sees rain well and bob knows wind",
    ]
    together = quick.transform(texts)
    for row, text in zip(together, texts, strict=True):
        assert np.allclose(quick.transform([text, "rain"])[0], row, atol=1e-6)
    assert not together[1].any()


def test_a_stopped_fit_goes_on_to_the_same_bits(tmp_path):
    texts = draw_texts(30)
    with lemmata.config(certificate=False):
        path = tmp_path / "c"
        BERT(**SMALL, max_iter=1, schedule="constant", warmup=0, checkpoint=path).fit(texts)
        more = BERT(**SMALL, max_iter=3, schedule="constant", warmup=0, checkpoint=path).fit(texts)
        plain = BERT(**SMALL, max_iter=3, schedule="constant", warmup=0).fit(texts)
    assert np.array_equal(more.transform(texts), plain.transform(texts))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.fill("she drinks her coffee"), r"no \[MASK\]"),
        (lambda m: m.fill(["[MASK]"]), r"no \[MASK\]"),
        (lambda m: m.fill("ann " * 20 + "[MASK]"), "reads 14 at once"),
        (lambda m: m.transform("one text"), "is one text"),
        (lambda m: BERT(**{**SMALL, "context": 5}).fit(draw_texts(9)), "no room for two parts"),
        (lambda m: BERT(**{**SMALL, "heads": 3}).fit(draw_texts(9)), "do not share a width"),
        (lambda m: BERT(**SMALL, next_sentence=-1).fit(draw_texts(9)), "next_sentence"),
    ],
)
def test_bad_input_is_refused(quick, call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(quick)


# --- claims -----------------------------------------------------------------------------------------------------------


def test_a_network_that_learned_nothing_is_no_better_than_counting():
    texts = draw_texts(300)
    model = BERT(**SMALL, max_iter=1, learning_rate=1e-9).fit(texts)
    found = model.certify(texts, X_test=draw_texts(300, seed=1))
    assert "beats_left_ngrams" in found.failed
    assert "tells_next" not in found.held


def test_a_false_statement_is_noticed(quick):
    texts = draw_texts(40)
    assert "statements_true" in quick.certify(texts).held
    kept, quick.loss_ = quick.loss_, 0.9 * quick.loss_
    try:
        assert "statements_true" in quick.certify(texts).failed
    finally:
        quick.loss_ = kept


class CountingUp(torch.nn.Module):
    """Says that b follows a where its first token is the next number; wrong in some rows."""

    context = 16

    def __init__(self, wrong):
        super().__init__()
        self.config, self.wrong = {"next_sentence": 1.0}, wrong
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def body(self, x, segments, real):
        b = segments.argmax(1)
        rows = torch.arange(len(x))
        said = (x[rows, b] == x[rows, b - 2] + 1).double() * 2 - 1
        return torch.where(x[:, 1] % 10 < self.wrong, -said, said)[:, None, None]

    def follows(self, z):
        return z


@pytest.mark.parametrize(("wrong", "verdict"), [(0, "holds"), (5, "can't tell"), (10, "fails")])
def test_pairs_are_told_by_a_network_that_can(wrong, verdict):
    starts = np.random.default_rng(0).permutation(200) * 13 + FIRST
    tokens = np.concatenate([np.append(np.arange(s, s + 12), 2) for s in starts])
    kept = Corpus(("",) * 200, tokens.astype(np.int32), None)
    fit = Fit(None, kept.with_parts(kept), attributes={"module_": CountingUp(wrong)})
    assert tells_next.check(fit).verdict == verdict
