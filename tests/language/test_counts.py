"""Kneser–Ney against a dictionary, sums of counts, sources whose entropy is known."""

import sys
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lemmata
from lemmata.language import BytePairs, Characters, KneserNey, NGram, RunCounts, Words
from lemmata.language.corpus import Corpus, split_texts
from lemmata.language.counts import discounts
from lemmata.language.tokens import EOS, FIRST, UNK


def texts_of(seed, n=60):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("abcd"), rng.integers(0, 12), p=[0.5, 0.3, 0.15, 0.05])) for _ in range(n)]  # fmt: skip


def by_dictionary(train, text, order, V):
    """The formula, run by run: texts (lists of tokens) without their [EOS]."""

    def runs(texts, k):
        for one in texts:
            padded = [EOS] * (order - 1) + [*one, EOS]
            for end in range(order, len(padded) + 1):
                yield tuple(padded[end - k : end])

    a = {}
    for k in range(1, order + 1):
        seen = Counter(runs(train, k))
        if k == order:
            a[k] = seen
            continue
        kinds = Counter(run[1:] for run in set(runs(train, k + 1)))
        a[k] = {run: seen[run] if k > 1 and run[0] == EOS else kinds[run] for run in seen}
    D = {k: discounts(np.array(list(one.values()))) for k, one in a.items()}
    possible = V - FIRST + 2

    def probability(run, k):
        if k == 0:
            return 1 / possible
        own = {w: n for w, n in a[k].items() if w[:-1] == run[-k:-1]} if k > 1 else a[k]
        lower, whole = probability(run, k - 1), sum(own.values())
        if not whole:
            return lower
        cut = lambda n: D[k][min(n, 3)]  # noqa: E731
        rest = sum(cut(n) for n in own.values()) / whole
        n = own.get(run[-k:], 0)
        return max(n - cut(n), 0) / whole + rest * lower

    return [-np.log(probability(run, order)) for run in runs(text, order)]


@pytest.mark.parametrize("order", [1, 2, 4])
def test_losses_are_those_of_the_formula(order):
    texts = texts_of(order)
    coder = Characters().learn(texts)
    train, test = texts[:50], texts[50:]
    ours = KneserNey(RunCounts.of(Corpus.of(train, coder).tokens, order, len(coder)))
    encode = lambda some: [coder.encode(one).tolist() for one in some]  # noqa: E731
    expected = by_dictionary(encode(train), encode(test), order, len(coder))
    assert_allclose(ours.losses(Corpus.of(test, coder).tokens), expected, rtol=1e-12)


def test_counts_of_parts_add_up_to_those_of_the_whole():
    texts = texts_of(7)
    coder = Characters().learn(texts)
    parts = [RunCounts.of(Corpus.of(texts[i::3], coder).tokens, 3, len(coder)) for i in range(3)]
    whole = RunCounts.of(Corpus.of(texts, coder).tokens, 3, len(coder))
    joint = parts[2] + parts[0] + parts[1]
    for name in ("sizes", "keys", "counts"):
        assert np.array_equal(getattr(joint, name), getattr(whole, name))


def test_probabilities_of_the_next_token_sum_to_one_and_are_those_of_the_losses():
    texts = texts_of(3)
    coder = Characters().learn(texts)
    tokens = Corpus.of(texts, coder).tokens
    tables = KneserNey(RunCounts.of(tokens, 4, len(coder)))
    state, losses = tables.start(1), tables.losses(tokens)
    for token, loss in zip(tokens[:80], losses, strict=False):
        P = tables.next_probabilities(state[0])
        assert_allclose(P.sum(), 1)
        assert_allclose(-np.log(P[token]), loss)
        assert P[[UNK, EOS]].min() > 0
        state = tables.move(state, np.array([token]))


@pytest.mark.parametrize("order", [1, 2])
def test_a_markov_source_is_learned_to_its_entropy(order):
    from truth.language import Source

    source = Source(order, seed=order, letters=6)
    model = NGram(order + 1, test_fraction=0.0).fit([source.draw(60_000)])
    assert -model.score([source.draw(30_000)]) == pytest.approx(source.entropy(), rel=0.02)


def test_texts_do_not_know_of_each_other():
    texts = texts_of(5)
    model = NGram(4, test_fraction=0).fit(texts)
    alone = [model.score_samples([one])[0] for one in texts if one.strip()]
    assert_allclose(model.score_samples([one for one in texts if one.strip()]), alone)


def test_a_file_is_refused_that_is_no_table_of_counts(tmp_path):
    model = NGram(3).fit(texts_of(1))
    model.counts_.keys[[0, 1]] = model.counts_.keys[[1, 0]]
    lemmata.save(model, tmp_path / "m")
    with pytest.raises(ValueError, match="not those of runs"):
        lemmata.load(tmp_path / "m")


def test_words_and_line_ends_are_tokens_and_rare_words_unknown():
    coder = Words(min_count=2).learn(["a b\nb  a c"])
    names = [coder.name(token) for token in coder.encode("a\nb c")]
    assert names == ["a", "[UNK]", "b", "[UNK]"]  # the line end occurs once
    assert (
        Words().learn(["a b\nb a"]).decode(Words().learn(["a b\nb a"]).encode("b\na a")) == "b\na a"
    )


def test_special_words_in_a_text_stay_text():
    for coder in (Characters(), Words()):
        learned = coder.learn(["say [EOS] now"])
        assert (learned.encode("[EOS]") >= FIRST).all()
        assert learned.decode(learned.encode("say [EOS]")) == "say [EOS]"


def test_unknown_characters_are_named_with_their_place():
    model = NGram(2).fit(["abc abc", "cba"])
    with pytest.raises(ValueError, match=r"text 1: the character 'é' \(U\+00E9\) at position 2"):
        model.score_samples(["ab", "abé"])
    with pytest.raises(ValueError, match=r"prompt: the character 'x'"):
        model.sample(prompt="x")


def test_texts_are_cut_at_the_share_of_their_characters():
    assert split_texts(["abcdefghij"], 0.3) == (["abcdefg"], ["hij"])
    assert split_texts(["abc", "def"], 0.0) == (["abc", "def"], [])
    with pytest.raises(ValueError, match="leaves no text"):
        NGram(2, test_fraction=1.0).fit(["abc"])


def test_byte_pairs_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ModuleNotFoundError, match=r"lemmata\[language\]"):
        NGram(2, tokens="byte pairs").fit(["some text"])


def test_byte_pairs_give_every_text_back_and_stand_in_the_file(tmp_path):
    pytest.importorskip("tokenizers")
    model = NGram(3, tokens=BytePairs(270), test_fraction=0).fit(["some text, ünusual"] * 9)
    lemmata.save(model, tmp_path / "m.lemma")
    coder = lemmata.load(tmp_path / "m.lemma").tokens_
    assert len(coder) == 6 + 270
    for text in ("text é 😀", " two  spaces\r\n\n\tx ", "[EOS] [MASK]", "", "e\u0301 \u00a0\0"):
        assert coder.decode(coder.encode(text)) == text
        assert coder.encode(text).tolist() == model.tokens_.encode(text).tolist()
    with pytest.raises(ValueError, match=r"U\+D83D at position 1"):
        coder.encode("a\ud83d")
    for pieces, merges in ((coder.pieces[1:], coder.merges), (coder.pieces, [*coder.merges, "zz q"])):  # fmt: skip
        with pytest.raises(ValueError, match="not those of byte pairs"):
            BytePairs(270, pieces, np.array(merges, object)).encode("x")


def test_perplexities_fit_each_other_and_have_intervals():
    model = NGram(3, tokens="words").fit(["a rose is a rose", "is a rose red"] * 20)
    found, text = model.perplexity(["a rose is red"] * 30), "a rose is red"
    assert found["token"] ** 5 == pytest.approx(found["word"] ** 4)
    assert found["character"] ** len(text) == pytest.approx(found["token"] ** 5)
    low, high = found.interval["token"]
    assert 1 <= low <= found["token"] <= high
    assert "per byte" in str(found)
    with pytest.warns(UserWarning, match="1 of 3 tokens are unknown"):
        model.perplexity(["a tulip"])
