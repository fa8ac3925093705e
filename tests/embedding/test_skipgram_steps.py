"""The steps of skip-gram and CBOW: kernels equal a slow twin with the same draws, batches go along the gradient."""

from dataclasses import replace

import numpy as np
import pytest

from lemmata import text
from lemmata.embedding.skipgram import _kernels as kernels
from lemmata.embedding.skipgram import _twins as twins
from lemmata.embedding.skipgram.algorithm import CompiledTrainer, SkipGramAlgorithm
from lemmata.embedding.skipgram.contexts import CONTEXTS, WindowedText
from lemmata.embedding.subwords import PartTable
from lemmata.embedding.windows.sampling import AliasTable, keep_probabilities, noise

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    chances = 1 / np.arange(1, 13)
    chances /= chances.sum()
    sentences = [[f"w{i}" for i in rng.choice(12, size, p=chances)] for size in (9, 0, 1, 14, 7)]
    encoded = text.encode(sentences)
    return WindowedText(encoded, encoded.vocabulary.counts, window=3, sample=0.05)


def with_parts(data):
    """The same text, whose words consist of letters: "w10" has the parts "<w", "w1", … and shares them."""
    return replace(data, parts=PartTable.of(data.text.vocabulary.words.tolist(), 2, 3, 1000))


def mixed(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


class SlowTwin:
    """One token after the other in plain Python: the kernel's draws, exact σ, float64."""

    def __init__(self, algorithm, data, state):
        self.a, self.data = algorithm, data
        self.X = state.vectors.astype(float)
        self.Z = self.X if algorithm.tied else state.outputs.astype(float)
        self.b, self.seed, self.epoch = state.biases.astype(float), state.seed, state.epoch

    def bits(self):
        self.state = (self.state + GOLDEN) & MASK
        return mixed(self.state)

    def negatives(self):
        cut, other = self.data.table.cut.tolist(), self.data.table.other.tolist()
        out = []
        for _ in range(self.a.negative):
            bits = self.bits()
            place = ((bits >> 32) * len(cut)) >> 32
            out.append(place if (bits & 0xFFFFFFFF) < cut[place] else other[place])
        return out

    def near(self, kept, t):
        R, others = self.data.window, len(kept) - 1
        if self.data.context.name == "window":
            reach = R - (self.bits() >> 32) % R
            return kept[max(0, t - reach) : t] + kept[t + 1 : t + reach + 1]
        rest = kept[:t] + kept[t + 1 :]
        if others <= 2 * R:
            return rest
        return [rest[((self.bits() >> 32) * others) >> 32] for _ in range(2 * R)]

    def train(self, rates):
        a, place, loss, pairs = self.a, self.epoch * self.data.text.n_tokens, 0.0, 0
        for unit, ids in enumerate(self.data.text.sentences()):
            self.state, rate = mixed((self.seed + place * GOLDEN) & MASK), rates(place)
            place += len(ids)
            kept = [w for w in ids if (self.bits() >> 32) < int(self.data.keep_bits[w])]
            for t, w in enumerate(kept):
                if self.data.context.name == "document":
                    pairs += 1
                    loss += self.group([unit], [w], self.negatives(), 1, rate)
                    continue
                near = self.near(kept, t)
                pairs += len(near) if a.sg else bool(near)
                if not near:
                    continue
                if not a.sg:
                    loss += self.group(near, [w], self.negatives(), 1, rate)
                elif a.shared == "pair":
                    groups = [([v], self.negatives()) for v in near]
                    loss += sum(self.group([w], v, u, 1, rate) for v, u in groups)
                else:
                    weight = len(near) if a.shared == "window" else 1
                    loss += self.group([w], near, self.negatives(), weight, rate)
        return loss, pairs

    def group(self, inputs, positives, negatives, weight, rate):
        share = np.full(len(inputs), 1 / len(inputs) if self.a.mean else 1.0)
        if self.data.parts is not None:
            rows = [self.data.parts.rows_of(w) for w in inputs]
            sizes = [len(one) for one in rows]
            share = np.repeat(share / np.sqrt(sizes), sizes)
            inputs = np.concatenate(rows)
        x = share @ self.X[inputs]
        targets, y = positives + negatives, [1] * len(positives) + [0] * len(negatives)
        c = np.array([1] * len(positives) + [weight] * len(negatives))
        scores = self.Z[targets] @ x + self.a.biases * self.b[targets]
        g = rate * c * (y - 1 / (1 + np.exp(-scores)))
        change = np.zeros_like(x)
        for j, v in enumerate(targets):
            change += g[j] * self.Z[v]
            self.Z[v] = self.Z[v] + g[j] * x
            self.b[v] += self.a.biases * g[j]
        np.add.at(self.X, inputs, np.outer(share, change))
        return float(c @ np.logaddexp(0, np.where(y, -scores, scores)))


def started(algorithm, data):
    """A state with vectors of some size: from zeros most of the formulas cannot be told apart."""
    rng = np.random.default_rng(1)
    state = algorithm.init(data, rng)
    arrays = {name: rng.normal(0, 0.5, getattr(state, name).shape).astype(np.float32)
              for name in ("vectors", "outputs", "biases")}  # fmt: skip
    return replace(state, **arrays, epoch=1)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"shared": "window", "biases": True},
        {"shared": "occurrence"},
        {"tied": True},
        {"sg": False, "biases": True},
        {"sg": False, "mean": False},
        {"parts": True},
        {"parts": True, "shared": "window", "biases": True},
        {"parts": True, "sg": False},
        {"context": "sentence"},
        {"context": "document", "biases": True},
    ],
    ids=str,
)
def test_kernels_make_the_steps_of_the_slow_twin(data, settings):
    """With parts, too, although the kernel puts a word together once for an occurrence and the twin for every pair."""
    settings = dict(settings)
    data = with_parts(data) if settings.pop("parts", False) else data
    data = replace(data, context=CONTEXTS[settings.pop("context", "window")])
    algorithm = SkipGramAlgorithm(
        5, 3, negative=2, alpha=0.1, min_alpha=0.01, deterministic=True, **settings
    )
    state = started(algorithm, data)
    fast, slow = CompiledTrainer(algorithm, data, state), SlowTwin(algorithm, data, state)
    n = data.text.n_tokens
    found = fast.epoch()
    expected = slow.train(lambda place: 0.1 - 0.09 * place / (3 * n))
    assert found[1] == expected[1] > 20
    assert found[0] == pytest.approx(expected[0], rel=1e-4)
    vectors, outputs, biases = fast.result()
    # a duplicate in a group, or a word that is its own negative, is seen half a step later by the kernel: γ² ≈ 0.01
    tolerance = {"rtol": 0, "atol": 2e-2 if algorithm.tied else 1e-4}
    np.testing.assert_allclose(vectors, slow.X, **tolerance)
    np.testing.assert_allclose(outputs, slow.Z, **tolerance)
    np.testing.assert_allclose(biases, slow.b, **tolerance)
    before = fast.result()
    fast.measure()
    assert all(np.array_equal(a, b) for a, b in zip(before, fast.result(), strict=True))


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("sg", [True, False])
def test_a_batch_goes_down_the_gradient_of_its_loss(data, sg, parts):
    rng = np.random.default_rng(2)
    data = with_parts(data) if parts else data
    v, k = len(data.counts), 4
    X, Z, b = rng.normal(size=(data.n_inputs, k)), rng.normal(size=(v, k)), rng.normal(size=v)
    ids, starts = next(iter(data.text))
    shares = data.parts.shares.astype(float) if parts else None

    def loss_and_change(X, Z, b, rate):
        arrays = X.copy(), Z.copy(), b.copy()
        batches = twins.BatchSteps(*arrays, data.table, 2, np.random.default_rng(3), shares=shares)
        draws = np.random.default_rng(4)
        kept = twins.keep_words(ids, starts, data.keep, draws)
        found = twins.draw_windows(kept, 3, True, draws)
        # one batch: all gradients at the same point
        size = twins.SMALLEST
        twins.SMALLEST = twins.LARGEST = 10**6
        try:
            run = batches.skipgram if sg else batches.cbow
            loss, _ = run(found, "pair" if sg else True, lambda share: rate)
        finally:
            twins.SMALLEST, twins.LARGEST = size, 512
        return loss, arrays

    rate = 1e-6  # small enough for the bound on a word's steps to stay away
    _, after = loss_and_change(X, Z, b, rate)
    for which, array in enumerate((X, Z, b)):
        direction = rng.normal(size=array.shape)
        near = []
        for sign in (1, -1):
            moved = [one.copy() for one in (X, Z, b)]
            moved[which] = array + sign * 1e-5 * direction
            near.append(loss_and_change(*moved, 0.0)[0])
        slope = (near[0] - near[1]) / 2e-5
        change = ((after[which] - array) * direction).sum() / rate
        assert -change == pytest.approx(slope, rel=1e-5)


def listed(found):
    return [(int(found.centre[o]), int(c)) for o, c in zip(found.owner, found.context, strict=True)]


def test_windows_hold_each_pair_of_a_sentence_and_no_other():
    ids, starts = np.array([0, 1, 2, 3, 4], np.int32), np.array([0, 3, 3, 5])
    rng = np.random.default_rng(0)
    kept = twins.keep_words(ids, starts, np.ones(5), rng)
    near = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (3, 4), (4, 3)]
    found = twins.draw_windows(kept, 2, False, rng)
    assert sorted(listed(found)) == near
    assert found.sizes.tolist() == [2, 2, 2, 1, 1]
    assert sorted(listed(twins.draw_sentences(kept, 2, rng))) == near
    documents = listed(twins.draw_documents(kept, 10))
    assert documents == [(10, 0), (10, 1), (10, 2), (12, 3), (12, 4)]


def test_of_a_long_sentence_every_other_word_is_as_likely():
    ids, starts = np.arange(9, dtype=np.int32), np.array([0, 9])
    rng = np.random.default_rng(0)
    kept, pairs = twins.keep_words(ids, starts, np.ones(9), rng), np.zeros((9, 9))
    for _ in range(2000):
        found = twins.draw_sentences(kept, 4, rng)
        assert (found.sizes == 4).all()
        np.add.at(pairs, tuple(np.array(listed(found)).T), 1)
    assert (np.diag(pairs) == 0).all()
    others = pairs[~np.eye(9, dtype=bool)] / 2000  # 4 draws of 8 words: 0.5 each
    assert np.abs(others - 0.5).max() < 5 * np.sqrt(0.5 / 2000)


def test_the_alias_table_draws_what_it_should():
    rng = np.random.default_rng(5)
    for n in (1, 2, 7, 100):
        weights = rng.pareto(1.0, n) * (rng.random(n) < 0.8) + (np.arange(n) == 0)
        table = AliasTable.of(weights)
        np.testing.assert_allclose(table.probabilities, weights / weights.sum(), atol=2**-31)
    drawn = np.bincount(AliasTable.of(np.array([1.0, 2, 5])).draw(rng, 80_000), minlength=3)
    assert np.abs(drawn / 80_000 - [0.125, 0.25, 0.625]).max() < 4 * np.sqrt(0.25 / 80_000)
    with pytest.raises(ValueError, match="finite"):
        AliasTable.of(np.zeros(3))


def test_frequent_words_are_kept_as_gensim_keeps_them():
    gensim = pytest.importorskip("gensim.models")
    counts = np.array([5000, 900, 300, 20, 5])
    words = {f"w{i}": int(count) for i, count in enumerate(counts)}
    model = gensim.Word2Vec(min_count=1, sample=0.01)
    model.build_vocab_from_freq(words)
    theirs = np.array([model.wv.get_vecattr(word, "sample_int") for word in words]) / (2**32 - 1)
    np.testing.assert_allclose(keep_probabilities(counts, 0.01), theirs, rtol=1e-6)
    assert (keep_probabilities(counts, 0) == 1).all()
    np.testing.assert_allclose(noise(counts, 0.75), counts**0.75 / (counts**0.75).sum())


def test_numbers_that_are_none_do_not_lead_outside_of_the_table():
    assert kernels.place_of(np.float32(np.nan), 8) == (0, 0)
    assert kernels.place_of(np.float32(np.inf), 8) == (7, 1)
    assert kernels.place_of(np.float32(-np.inf), 8) == (0, 0)
    assert kernels.place_of(np.float32(0.0), 8) == (4, 0)
