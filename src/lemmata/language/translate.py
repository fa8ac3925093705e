"""Translator: from one text to another (ML "Transformers", encoders and decoders).

    minimise  −(1/N) Σ_pairs Σ_t ln P(y_t | y_1 … y_{t−1}, x),      N the tokens of all targets, their ends included

An encoder reads the source x, a causal decoder writes the target y. One table of tokens serves both, and the scores. In the
decoder's input, the number of [UNK] at place 0 is the start.

>>> words = {"1": "one", "2": "two", "3": "three"}
>>> digits = [f"{a}{b}{c}" for a in "123" for b in "123" for c in "123"] * 8
>>> spoken = [" ".join(words[one] for one in number) for number in digits]
>>> settings = {"width": 32, "depth": 1, "heads": 2, "context": 20, "learning_rate": 0.01, "max_iter": 12}
>>> model = Translator(**settings, random_state=0).fit(spoken, digits)
>>> model.predict(["two one three", "three three one"]).tolist()
['213', '331']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.language.translations import TRANSLATOR_CLAIMS, TRANSLATOR_MORE_CLAIMS
from lemmata.core import common
from lemmata.core.certificate import Certificate
from lemmata.core.parameters import COUNT, KW_ONLY, SHARE, choice, parameter
from lemmata.language.base import TextNetwork, TextPerplexity
from lemmata.language.corpus import Corpus
from lemmata.language.sampling import continue_rows, search_beams
from lemmata.language.tokens import EOS, PAD, UNK, TokenCoder, as_tokens, impossible_tokens
from lemmata.registry import require
from lemmata.text.reading import as_documents

Array = np.ndarray
AT_ONCE = 2**13  # tokens that are read or written together
STATED_PAIRS = 1000  # pairs at most that loss_ is of


@dataclass(frozen=True, eq=False)
class Translations:
    """Pairs of texts with their tokens; `kept` and `stopping` are pairs that were kept from training."""

    sources: tuple[str, ...]
    targets_: tuple[str, ...]
    x: Array  # (n, S) int32: tokens of the sources, an [EOS], then [PAD]
    y: Array  # (n, T): of the targets
    coder: TokenCoder
    kept: Translations | None = None
    stopping: Translations | None = None

    weights = targets = None
    dtype = np.dtype(np.int32)

    @classmethod
    def of(cls, sources: Sequence[str], targets: Sequence[str], coder: TokenCoder) -> Translations:
        x, y = pad_texts("source", sources, coder), pad_texts("target", targets, coder)
        return cls(tuple(sources), tuple(targets), x, y, coder)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def texts(self) -> tuple[str, ...]:
        return (*self.sources, *self.targets_)

    @cached_property
    def tokens(self) -> Array:
        """(N,): the tokens of the targets, an [EOS] after each, as of a text."""
        return self.y[self.y != PAD]

    @property
    def n_tokens(self) -> int:
        return len(self.tokens)

    @property
    def extent(self) -> str:
        return f"{len(self):,} pairs"

    @property
    def size(self) -> int:
        return int((self.x != PAD).sum()) + self.n_tokens

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.x), self.x.shape[1] + self.y.shape[1]

    @property
    def source(self) -> Array:
        return np.hstack([self.x, self.y])

    def rows(self, wanted: Any) -> Translations:
        return replace(self, x=self.x[wanted], y=self.y[wanted])


def pad_texts(name: str, texts: Sequence[str], coder: TokenCoder) -> Array:
    """(n, longest) int32: the tokens of each text and an [EOS], filled up with [PAD]."""
    rows = []
    for number, text in enumerate(texts):
        try:
            rows.append(np.append(coder.encode(text), np.int32(EOS)))
        except ValueError as error:
            raise ValueError(f"{name} {number}: {error}") from None
    found = np.full((len(rows), max(map(len, rows), default=1)), PAD, np.int32)
    for row, tokens in zip(found, rows, strict=True):
        row[: len(tokens)] = tokens
    return found


def read_pairs(sources: Any, targets: Any) -> tuple[list[str], list[str]]:
    """Texts and their translations; of a path, a text a line."""
    if targets is None:
        raise ValueError("a Translator requires y, the translations of X, but the target y is None.")  # fmt: skip
    pair = [list(as_documents(one)) for one in (sources, targets)]
    if len(pair[0]) != len(pair[1]):
        raise ValueError(f"{len(pair[0]):,} sources and {len(pair[1]):,} targets; pass as many.")
    for name, texts in zip(("sources", "targets"), pair, strict=True):
        if not any(text.strip() for text in texts):
            raise ValueError(f"the {len(texts):,} {name} hold no word; pass texts.")
    return pair[0], pair[1]


class Translator(TextNetwork):
    """An encoder and a decoder: reads a text, writes another.

    Minimises the mean of −ln P(next token of the target | source, the tokens before) over all tokens of the targets.

    Attributes
    ----------
    module_ : EncoderDecoder
        `module_(source, written)` gives the scores of the next token at every place.
    tokens_ : Characters, Words or BytePairs, of sources and targets together
    loss_ : float
        Nats per token of the training targets; of the first 1,000 pairs.
    test_loss_, exact_match_ : float
        Of the pairs that were kept from training, where there are any: nats per token, and the share of sources whose
        translation by `predict` is the target, token by token.
    n_features_in_ : the number of different tokens
    history_, n_iter_, trace_, stopped_, certificate_
    """

    depth: int = parameter(2, COUNT, before="optimizer").doc("Blocks of encoder and of decoder.")
    context: int = parameter(128, COUNT, before="optimizer").doc("""
        The longest source or target, in tokens, with its end.""")
    _: KW_ONLY
    test_fraction: float = parameter(
        0.1, SHARE
    ).doc("""
        The share of pairs, the last ones, that is kept from training and stopping; on them claims
        about new texts are checked. 0: none, and `certify(X, y, X_test=…, y_test=…)` checks them.""")
    batch_size: Any = parameter("auto", COUNT, choice("auto")).doc('Pairs in an update; "auto" is 32.')  # fmt: skip
    max_iter: int = common.max_iter(10).doc("Epochs: times that the pairs are read.")

    usual_batch: ClassVar[int] = 32
    claims = TRANSLATOR_CLAIMS
    more_claims = TRANSLATOR_MORE_CLAIMS
    network = "EncoderDecoder"
    measured = ("test_loss_", "exact_match_")
    stored: ClassVar[Mapping[str, str | type]] = {**TextNetwork.stored, "exact_match_?": ""}

    # --- fitting ---

    def fit(self, X, y=None, sample_weight=None):
        """Fit the model to texts and their translations, and check the claims about it.

        Parameters
        ----------
        X, y : lists of as many texts, or paths of files with a text a line
        sample_weight : not accepted

        Returns
        -------
        self : with `certificate_`, `trace_`, `stopped_`, `n_iter_` and the model's own attributes
        """
        return super().fit(X, y, sample_weight)

    def _validate_pair(self, X, y, sample_weight=None, reset: bool = True) -> Any:
        if sample_weight is not None:
            raise ValueError("pairs of texts have no weights; repeat them.")
        pairs = read_pairs(X, y)
        n = len(pairs[0])
        kept = round(self.test_fraction * n)
        stopping = round(self.validation_fraction * (n - kept)) if self.early_stopping else 0
        learn = n - kept - stopping
        if learn < 2:
            raise ValueError(
                f"{learn} of {n} pairs are left to learn from; pass more, or lower test_fraction={self.test_fraction}."
            )
        if reset:
            coder = as_tokens(self.tokens)
            warm = self.warm_start and hasattr(self, "tokens_")
            of = [text for side in pairs for text in (side if coder.closed else side[:learn])]
            self.tokens_ = self.tokens_ if warm else coder.learn(of)
            self.n_features_in_ = len(self.tokens_)
        cuts = slice(0, learn), slice(n - kept, n), slice(learn, n - kept)
        parts = [self._fitting(pairs[0][cut], pairs[1][cut]) if cut.stop > cut.start else None for cut in cuts]  # fmt: skip
        assert parts[0] is not None
        return replace(parts[0], kept=parts[1], stopping=parts[2])

    def _fitting(self, sources: Sequence[str], targets: Sequence[str]) -> Translations:
        """Pairs with their tokens, none of them too long."""
        found = Translations.of(sources, targets, self.tokens_)
        for name, side in (("source", found.x), ("target", found.y)):
            if side.shape[1] > self.context:
                number = int((side != PAD).sum(1).argmax())
                raise ValueError(
                    f"{name} {number} has {side.shape[1]:,} tokens, with its end, and context={self.context}: "
                    f"leave it out, or fit with context >= {side.shape[1]}."
                )
        return found

    def _network(self, data: Any) -> Any:
        require("torch", "deep", what="Translator")
        from lemmata.nets.attention.transformer import EncoderDecoder

        sizes = self._sizes()
        longest = {"max_length": sizes.pop("context")}
        return self._begin_with(partial(EncoderDecoder, len(self.tokens_), **sizes, **longest))

    def _problem(self, data: Any) -> Any:
        from lemmata.nets.data.batches import Rows

        learn, stopping = Rows(data.x, data.y), data.stopping
        return learn if stopping is None else learn.with_validation(Rows(stopping.x, stopping.y))

    def _statements(self, data: Any) -> dict[str, Any]:
        learned, _ = self._judge(data.rows(slice(0, STATED_PAIRS)))
        found = {"loss_": mean_of_tokens(learned)}
        if data.kept is not None:
            losses, exact = self._judge(data.kept)
            found |= {"test_loss_": mean_of_tokens(losses), "exact_match_": float(exact.mean())}
        return found

    def _stated_loss(self, data: Any) -> float:
        return self._statements(replace(data, kept=None))["loss_"]

    # --- judging and writing translations ---

    def _judge(self, data: Translations) -> tuple[list[Array], Array]:
        """−ln P of each token of every target, and whether the likeliest token is the target's at every place: then it is
        what greedy decoding writes."""
        import torch
        from torch.nn import functional as F

        net = self._net()
        device, never = next(net.parameters()).device, impossible_tokens(self.tokens_)
        losses: list[Array] = [np.empty(0)] * len(data)
        exact = np.empty(len(data), bool)
        for some in cut_batches(data.x, data.y):
            x, y = (trim(side[some]) for side in (data.x, data.y))
            start = np.full((len(y), 1), UNK, y.dtype)
            sides = x, np.hstack([start, y[:, :-1]]), y
            given = [torch.from_numpy(one.astype(np.int64)).to(device) for one in sides]
            with torch.no_grad():
                scores = net(given[0], given[1]).double()
                found = F.cross_entropy(scores.mT, given[2], reduction="none").cpu().numpy()
                scores[..., never] = -torch.inf
                right = (scores.argmax(2) == given[2]).cpu().numpy() | (y == PAD)
            exact[some] = right.all(axis=1)
            for at, row, tokens in zip(some, found, y, strict=True):
                losses[at] = row[tokens != PAD]
        return losses, exact

    def score_samples(self, X, y) -> Array:
        """(n,): ln P of every target with its end, given its source, in nats."""
        return -np.array([one.sum() for one in self._judge(self._read_pairs(X, y))[0]])

    def perplexity(self, X, y) -> TextPerplexity:
        """e^(nats) per token, character, word and byte of the targets, given their sources, each with an interval."""
        data = self._read_pairs(X, y)
        units = Corpus.of(data.targets_, self.tokens_).units()
        return TextPerplexity.of(np.concatenate(self._judge(data)[0]), units)

    def score(self, X, y) -> float:
        """The share of texts whose translation is the target, letter by letter."""
        sources, targets = read_pairs(X, y)
        return float(np.mean(self.predict(sources) == np.array(targets, object)))

    def predict(self, X, beams: int = 1) -> Array:
        """(n,) of texts: the translations, of the likeliest token at every place, or, with more beams, the likeliest text
        that a search of so many finds."""
        check_is_fitted(self)
        if not isinstance(beams, Integral) or not 1 <= beams <= len(self.tokens_):
            most = f"{len(self.tokens_):,}, the number of tokens"
            raise ValueError(f"beams={beams!r}; pass a whole number from 1 to {most}.")
        texts = list(as_documents(X))
        data = self._fitting(texts, [""] * len(texts))
        found = np.full(len(texts), "", object)
        first, length = np.full((1, 1), UNK), int(self.context)
        for some in cut_batches(data.x, data.x) if beams == 1 else np.arange(len(texts))[:, None]:
            step = DecodingStep(self._net(), trim(data.x[some]), impossible_tokens(self.tokens_))
            if beams > 1:
                written = [search_beams(step, first, length, int(beams))[0].tokens]
            else:
                rows = np.repeat(first, len(some), axis=0)
                choose, never_done = (lambda scores: scores.argmax(axis=1)), (lambda tokens: False)
                written = continue_rows(step, rows, length, choose, never_done)
            found[some] = [self.tokens_.decode(one) for one in written]
        return found

    def _read_pairs(self, X: Any, y: Any) -> Translations:
        check_is_fitted(self)
        return self._fitting(*read_pairs(X, y))

    # --- certificate ---

    def certify(
        self, X, y=None, sample_weight=None, *, X_test=None, y_test=None, seconds=None
    ) -> Certificate:
        """Check every claim about this fit on X and y, the texts that it was fitted to.

        X_test, y_test : pairs that it was not fitted to; without them, claims about new texts are checked on what was kept
        seconds : float, optional
            Time limit; claims that need more stay *not checked*. By default five times the work of the fit.
        """
        check_is_fitted(self)
        data = self._validate_pair(X, y, sample_weight, reset=False)
        if X_test is not None:
            data = replace(data, kept=self._read_pairs(X_test, y_test))
        claims, given = (*self.claims, *self.more_claims), {"test_given": X_test is not None}
        return self._certificate(data, seconds=seconds, claims=claims, attributes=given)


def mean_of_tokens(losses: Sequence[Array]) -> float:
    return float(np.concatenate(losses).mean())


def trim(rows: Array) -> Array:
    """Rows without the columns at the end that hold nothing but [PAD]."""
    return rows[:, : max(1, int((rows != PAD).sum(axis=1).max(initial=1)))]


def cut_batches(x: Array, y: Array) -> Iterator[Array]:
    """The numbers of rows in batches of some AT_ONCE tokens, rows of like length together."""
    lengths = (x != PAD).sum(axis=1) + (y != PAD).sum(axis=1)
    order = np.argsort(lengths, kind="stable")
    at = 0
    while at < len(order):
        rows = max(1, AT_ONCE // int(lengths[order[min(at + 255, len(order) - 1)]]))
        yield order[at : at + min(rows, 256)]
        at += min(rows, 256)


class DecodingStep:
    """More tokens of each translation, by a decoder with a cache that reads the output of the encoder."""

    def __init__(self, net: Any, x: Array, never: Sequence[int] = ()):
        import torch

        self.net, self.cache, self.never = net, net.decoder.cache(), list(never)
        self.device = next(net.parameters()).device
        with torch.no_grad():
            self.memory, self.real = net.encode(torch.from_numpy(x.astype(np.int64)).to(self.device))  # fmt: skip

    def feed(self, tokens: Array) -> Array:
        import torch

        net, written = self.net, torch.from_numpy(np.asarray(tokens, np.int64)).to(self.device)
        with torch.no_grad():
            z = net.target_positions(net.embedding(written), self.cache[0][0].length)
            z = net.decoder(z, self.memory, memory_padding=self.real, cache=self.cache)[:, -1]
            scores = net.embedding.scores(z).double().cpu().numpy()
        scores[:, self.never] = -np.inf
        return scores

    def select(self, rows: Array) -> None:
        import torch

        at = torch.from_numpy(np.asarray(rows, np.int64)).to(self.device)
        self.memory, self.real = self.memory[at], self.real[at]
        for own, read in self.cache:
            own.select(at)
            read.select(at)
