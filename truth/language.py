"""Language models on texts from Markov sources of known probabilities: oracles, slips, copied text, samplers that recite."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from lemmata.audit.language.batching import batch_agrees
from lemmata.audit.language.caching import cache_agrees
from lemmata.audit.language.models import GPT_CLAIMS, GPT_MORE_CLAIMS
from lemmata.audit.language.texts import TEXT_CLAIMS, TEXT_MORE_CLAIMS
from lemmata.core.certificate import Fit
from lemmata.core.certification.checking import check
from lemmata.language import KneserNey, NGram, RunCounts, Words
from lemmata.language.corpus import Corpus, split_texts
from lemmata.language.networks import GPTNet
from lemmata.language.tokens import Characters
from truth.harness import Case, problems
from truth.modules import judged

LETTERS = "abcdefghijkl"
SOUND = ("attributes_sound", "statements_true")


class Source:
    """A Markov source: each letter depends on `order` before it. A `slow` one repeats the last letter nine times in ten."""

    def __init__(self, order: int, seed: int, letters: int = 12, slow: bool = False):
        self.rng, self.order, self.n = np.random.default_rng(seed), order, letters
        P = self.rng.dirichlet(np.full(letters, 0.3), letters**order) + 1e-3
        if slow:
            P = (
                0.1 * P / P.sum(1, keepdims=True)
                + 0.9 * np.eye(letters)[np.arange(len(P)) % letters]
            )
        self.P = P / P.sum(
            axis=1, keepdims=True
        )  # (letters^order, letters), the last letter counts ones
        self.sums = self.P.cumsum(axis=1)

    def draw(self, length: int, rng=None) -> str:
        rng, state, found = rng or self.rng, 0, []
        for u in rng.random(length):
            letter = min(int(np.searchsorted(self.sums[state], u)), self.n - 1)
            state = (state * self.n + letter) % self.n**self.order
            found.append(letter)
        return "".join(LETTERS[letter] for letter in found)

    def entropy(self) -> float:
        """h = −Σ π_i P_ij ln P_ij, nats per letter."""
        n, m = self.n, len(self.P)
        whole = np.zeros((m, m))
        for letter in range(n):
            whole[np.arange(m), (np.arange(m) * n + letter) % m] += self.P[:, letter]
        pi = np.full(m, 1 / m)
        for _ in range(2000):
            pi = pi @ whole
        return float(-(pi[:, None] * self.P * np.log(self.P)).sum())


class Oracle(nn.Module):
    """A source as a network: exact scores, or those of fewer letters; it may look ahead, or see too little."""

    def __init__(self, source: Source, coder: Characters, ahead: float = 0.0, blur: float = 0.0):
        super().__init__()
        self.context, self.order, self.n = 64, source.order, source.n
        P = (1 - blur) * source.P + blur * source.P.mean(axis=0)
        self.table = nn.Parameter(torch.from_numpy(np.log(P)))
        self.places = torch.from_numpy(coder.points - ord("a"))
        self.config, self.ahead = {"n_tokens": len(coder)}, ahead

    def forward(self, tokens):
        letters = torch.zeros_like(tokens)
        known = tokens >= 6
        letters[known] = self.places[tokens[known] - 6].to(tokens.dtype)
        state = torch.zeros_like(tokens)
        for back in range(self.order):
            moved = torch.nn.functional.pad(letters, (back, 0))[:, : tokens.shape[1]]
            state = state + moved * self.n**back
        scores = self.table.new_full((*tokens.shape, self.config["n_tokens"]), -20.0)
        scores[..., 6:] = self.table[state][..., self.places]
        scores[..., 2] = -7.0
        if self.ahead:
            nxt = torch.nn.functional.pad(tokens, (0, 1))[:, 1:]
            scores = scores + self.ahead * torch.nn.functional.one_hot(nxt, scores.shape[2])
        return scores


class Counted(nn.Module):
    """The counts of some text as a network."""

    def __init__(self, tokens: np.ndarray, order: int, n_tokens: int):
        super().__init__()
        self.tables, self.context = KneserNey(RunCounts.of(tokens, order, n_tokens)), 64
        self.zero, self.config = nn.Parameter(torch.zeros(1)), {"n_tokens": n_tokens}

    def forward(self, tokens):
        scores = np.empty((*tokens.shape, self.config["n_tokens"]))
        state = self.tables.start(len(tokens))
        for t, column in enumerate(tokens.numpy().T):
            state = self.tables.move(state, column)
            scores[:, t] = [self.tables.next_probabilities(row) for row in state]
        return torch.from_numpy(np.log(np.maximum(scores, 1e-300))) + self.zero


def corpus_of(text: str, fraction: float = 0.2) -> Corpus:
    learn, kept = split_texts([text], fraction)
    coder = Characters().learn([text])
    return Corpus.of(learn, coder).with_parts(Corpus.of(kept, coder))


def certify_network(net, data: Corpus, claims):
    """The claims about a network on a text, as of a fit."""
    attributes = {"module_": net, "tokens_": data.coder, "n_features_in_": len(data.coder)}
    return check(claims, Fit(None, data, attributes=attributes), "language model")


NAMED = {one.name: one for one in (*GPT_CLAIMS, *GPT_MORE_CLAIMS, *TEXT_CLAIMS, *TEXT_MORE_CLAIMS)}


@problems(seeds=30, quick=2)
def oracles(seed):
    """The source itself, fewer letters of it, blurred, a network that sees what follows; sources of order 1 to 3, slow ones."""
    order = 1 + seed % 3
    source = Source(order, seed, slow=seed % 4 == 3)
    data = corpus_of(source.draw(30_000), 0.7)
    claims = NAMED["beats_ngrams"], NAMED["causal"]

    def case(label, net, beats, easy=True):
        found = certify_network(net, data, claims)
        truths = {"beats_ngrams": beats, "causal": True}
        return Case(label, found, truths, ("beats_ngrams", "causal") if easy else ("causal",))

    # counting 9,000 letters finds out nearly all about few contexts, and little about many
    yield case("the source", Oracle(source, data.coder), True, easy=order == 3)
    if order < 3:
        yield case("blurred", Oracle(source, data.coder, blur=0.7), False)
    for ahead in (5.0, 0.5):  # with 5, its loss is far below the entropy rate
        found = certify_network(Oracle(source, data.coder, ahead=ahead), data, claims)
        truths = {"beats_ngrams": False, "causal": False}
        yield Case(f"looks ahead {ahead}", found, truths, easy=("causal",))


@problems(seeds=20, quick=1)
def against_itself(seed):
    """The counts of the training text as a network: the n-gram against itself; and those of a text twenty times as long."""
    order, name = 1 + seed % 2, "beats_ngrams"
    source = Source(order, seed, letters=6)
    data, n = corpus_of(source.draw(4000), 0.5), 12
    more = data.coder.encode(source.draw(40_000))
    claims = NAMED[name], NAMED["causal"]
    for label, tokens, beats in (
        ("itself", data.tokens, False),
        ("of more", np.append(more, 2), True),
    ):
        found = certify_network(Counted(tokens, order + 1, n), data, claims)
        yield Case(label, found, {name: beats, "causal": True}, easy=("causal",))


class Slip(GPTNet):
    """A GPT with one slip in what it remembers."""

    def __init__(self, slip: str, **sizes):
        super().__init__(**sizes)
        self.slip = slip

    def forward(self, tokens, padding=None, cache=None):
        start = cache[0][0].length if cache else 0
        if start and self.slip == "places begin again":
            start = 0
        if start and self.slip == "off by one":
            start = start - 1
        if start >= 5 and self.slip == "off at 5":
            start = start + 1
        if padding is not None and self.slip != "shifted by padding":
            start = start - (~padding).int().cumprod(dim=1).sum(dim=1)
        x = self.positions(self.embedding(tokens), start)
        if cache and cache[0][0].length == 1 and self.slip == "first forgotten":
            for own, _ in cache:
                own._buffer[1][:, :, :1] = 0
        seen = None if self.slip == "padding seen" else padding
        return self.embedding.scores(self.decoder(x, padding=seen, cache=cache))


SIZES = {"n_tokens": 20, "width": 16, "depth": 2, "heads": 2, "context": 16}


def step_of(net, tokens, past):
    """As of a library whose caches are made by the first call."""
    past = net.cache() if past is None else past
    return net(tokens, cache=past), past


@problems(seeds=20, quick=1)
def caches(seed):
    """Right ones, of learned and other places; places that begin again, are off by one or from the fifth on; a lost token."""
    torch.manual_seed(seed)
    X = torch.randint(0, 20, (3, 12))
    name = "cache_agrees"
    asked = {"cached": step_of} if seed % 2 else ("cached",)
    for kind in ("learned", "sinusoidal"):
        found = judged(GPTNet(**SIZES, positions=kind), X, cache_agrees, asked)
        yield Case(kind, found, {name: True}, easy=(name,))
    for slip in ("places begin again", "off by one", "off at 5", "first forgotten"):
        found = judged(Slip(slip, **SIZES), X, cache_agrees, asked)
        yield Case(slip, found, {name: False}, easy=(name,))


@problems(seeds=20, quick=1)
def batches(seed):
    """Prompts among longer ones: right, places shifted by the padding before them, padding that is read as tokens."""
    torch.manual_seed(seed)
    X, name = torch.randint(0, 20, (4, 12)), "batch_agrees"
    for slip, truth in (("none", True), ("shifted by padding", False), ("padding seen", False)):
        found = judged(Slip(slip, **SIZES), X, batch_agrees, ("batched",))
        yield Case(f"slip {slip}", found, {name: truth}, easy=(name,))


@problems(seeds=20, quick=1)
def caches_of_fits(seed):
    """As `cache_agrees` and `batch_agrees` of a fit: on windows of its text."""
    torch.manual_seed(seed)
    names = ("cache_agrees", "batch_agrees")
    data = corpus_of(Source(1, seed).draw(2000))
    for slip in ("none", "off by one", "shifted by padding"):
        net = Slip(slip, **{**SIZES, "n_tokens": len(data.coder)})
        found = certify_network(net, data, [NAMED[name] for name in names])
        truths = dict(zip(names, (slip != "off by one", slip != "shifted by padding"), strict=True))
        yield Case(f"of a fit, slip {slip}", found, truths, easy=names)


@dataclass(frozen=True, eq=False)
class Lowering(Characters):
    """Characters that lower-case."""

    def encode(self, text):
        return super().encode(text.lower())

    def learn(self, texts):
        return Lowering(Characters().learn(text.lower() for text in texts).points)


@problems(seeds=20, quick=1)
def tokens(seed):
    """Characters, and words a space apart, come back; lower case, unknown words, two spaces do not."""
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(list(LETTERS), rng.integers(1, 5))) for _ in range(40)]
    text, name = " ".join(rng.choice(words, 400)), "text_restored"
    capital = text[:50].replace("a", "A").replace("b", "B") + "A" + text[50:]

    def case(label, truth, text, coder):
        learned = coder.learn([text])
        data = Corpus.of([text], learned)
        found = check((NAMED[name],), Fit(None, data, attributes={"tokens_": learned}), "tokens")
        return Case(label, found, {name: truth}, easy=(name,))

    yield case("letters", True, capital, Characters())
    yield case("words", True, text, Words())
    yield case("lines of words", True, text[:100].strip() + "\n" + text[100:].strip(), Words())
    yield case("lower case", False, capital, Lowering())
    yield case("rare words", False, text + " unseen", Words(min_count=2))
    yield case("two spaces", False, text + "  end", Words())


@problems(seeds=20, quick=1)
def copies(seed):
    """None, 0.1, 0.5, 2, 10 and 100 per cent of the held-out text put into the training text; the claim bears 1."""
    source, name = Source(2, seed), "held_out_unseen"
    learn, kept = source.draw(20_000), source.draw(50_000)
    rng = np.random.default_rng(seed)
    coder = Characters().learn([learn, kept])
    for share in (0, 0.001, 0.005, 0.02, 0.1, 1):
        size = len(kept) if share == 1 else 50
        parts = [learn]
        for at in rng.permutation(len(kept) // size)[: round(share * len(kept) / size)]:
            parts += [kept[at * size : (at + 1) * size], source.draw(100)]
        data = Corpus.of(["".join(parts)], coder).with_parts(Corpus.of([kept], coder))
        found = check((NAMED[name],), Fit(None, data, attributes={"tokens_": coder}), "text")
        yield Case(f"{share} of it", found, {name: share < 0.01}, easy=(name,))


@problems(seeds=20, quick=1)
def samplers(seed):
    """Fresh draws of the source; training text; a third, or one in thirty, of the samples from it."""
    source, name, rng = Source(2, seed), "not_recited", np.random.default_rng(1000 + seed)
    data = corpus_of(source.draw(60_000))
    train = data.texts[0]

    def sampler(share):
        def sample(n_samples, length, random_state):
            found = []
            for number in range(n_samples):
                at = int(rng.integers(len(train) - length))
                copied = number < share * n_samples
                found.append(train[at : at + length] if copied else source.draw(length, rng))
            return found

        return sample

    for share, truth in ((0, True), (1 / 30, True), (1 / 3, False), (1, False)):
        attributes = {"tokens_": data.coder, "sampler": sampler(share)}
        found = check((NAMED[name],), Fit(None, data, attributes=attributes), "samples")
        yield Case(
            f"{share:.2g} recited", found, {name: truth}, easy=(name,) if share in (0, 1) else ()
        )


@problems(seeds=20, quick=1)
def counts(seed):
    """NGram of the right order and of a poor one, with counts, losses or sizes that were altered."""
    order = 1 + seed % 3
    source = Source(order, seed, letters=8)
    text = [source.draw(12_000)]
    model = NGram(order + 1, test_fraction=0.2).fit(text)
    honest = model.certify(text, seconds=60)
    truths = {**dict.fromkeys(SOUND, True), "near_best_order": True}
    yield Case("honest", honest, truths, easy=truths)
    poor = NGram(order, test_fraction=0.2).fit(text)
    yield Case(
        "one letter less",
        poor.certify(text, seconds=60),
        {"near_best_order": False},
        ("near_best_order",),
    )
    for label, change in (
        ("loss", lambda m: setattr(m, "loss_", m.loss_ * 0.99)),
        ("test loss", lambda m: setattr(m, "test_loss_", m.test_loss_ * 0.99)),
        ("counts", lambda m: m.counts_.counts.__setitem__(5, m.counts_.counts[5] + 1)),
    ):
        other = copy.deepcopy(model)
        change(other)
        found = other.certify(text, seconds=60)
        yield Case(f"altered {label}", found, {"statements_true": False}, ("statements_true",))
    other = copy.deepcopy(model)
    other.n_features_in_ += 1
    yield Case(
        "altered size", other.certify(text), {"attributes_sound": False}, ("attributes_sound",)
    )


@problems(seeds=10, quick=1)
def networks(seed):
    """A small GPT: honest, with an altered loss, with weights that are not numbers."""
    from lemmata.language import GPT

    text = [Source(1, seed, letters=6).draw(3000)]
    sizes = {"width": 8, "depth": 1, "heads": 2, "context": 32}
    model = GPT(**sizes, max_iter=1, random_state=seed).fit(text)
    truths = dict.fromkeys((*SOUND, "causal"), True)
    yield Case("honest", model.certify(text, seconds=60), truths, easy=truths)
    other = copy.deepcopy(model)
    other.loss_ *= 1.001
    yield Case(
        "loss", other.certify(text, seconds=60), {"statements_true": False}, ("statements_true",)
    )
    other = copy.deepcopy(model)
    other.test_loss_ -= 0.01
    yield Case(
        "test loss",
        other.certify(text, seconds=60),
        {"statements_true": False},
        ("statements_true",),
    )
    other = copy.deepcopy(model)
    next(other.module_.parameters()).data[0, 0] = float("nan")
    yield Case("NaN", other.certify(text), {"attributes_sound": False}, ("attributes_sound",))
