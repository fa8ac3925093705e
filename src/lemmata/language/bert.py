"""BERT: a transformer that fills in hidden words, from what stands on both sides (ML "Self-supervised Learning").

minimise  mean of −ln P(w_t | the text with some words hidden) over hidden words, and of −ln P(b follows a)

>>> texts = ["the cat sat on the mat", "the dog lay on the rug"] * 40
>>> settings = {"width": 32, "depth": 1, "heads": 2, "context": 16, "max_iter": 30, "learning_rate": 0.01}
>>> model = BERT(**settings, tokens="words", next_sentence=0, random_state=0).fit(texts)
>>> [word for word, _ in model.fill("the cat sat on the [MASK]", n=1)[0]]
['mat']
>>> model.transform(["the cat", "on the rug"]).shape
(2, 32)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.language.masked import BERT_CLAIMS, BERT_MORE_CLAIMS
from lemmata.audit.language.texts import TEXT_CLAIMS
from lemmata.core.parameters import KW_ONLY, NONNEGATIVE, parameter
from lemmata.language.base import STATED, TEST_FRACTION, TextModel, TextNetwork
from lemmata.language.corpus import Corpus
from lemmata.language.tokens import FIRST, MASK
from lemmata.registry import require

Array = np.ndarray
AT_ONCE = 2**13  # tokens that are read together
EVERY, THIRD = 7, 3  # places that are hidden together: t % 7 = 3, and in other passes 0, 1, …
BLANK = "[MASK]"


class BERT(TextModel, TextNetwork):
    """A transformer that reads texts from both sides: fills in words, and turns texts into vectors.

    Minimises the mean of −ln P over hidden words: 15 % are selected; of these 80 % become [MASK], 10 % another word, and 10 %
    stay. A row is "[CLS] a [SEP] b [SEP]" of two parts of a text, and half the time b is a part of another.

    Attributes
    ----------
    module_ : BERTNet
        `module_(tokens, segments)` gives the scores of the token at every place.
    tokens_ : Characters, Words or BytePairs, with the vocabulary of the fit
    loss_ : float
        Nats per hidden word of the training text, every seventh word being [MASK]; of the first 32,768 tokens.
    test_loss_ : float
        The same of the text that was kept from training, where there is any.
    n_features_in_ : the number of different tokens
    history_, n_iter_, trace_, stopped_, certificate_
    """

    _: KW_ONLY
    test_fraction: float = TEST_FRACTION
    next_sentence: float = parameter(1.0, NONNEGATIVE).doc("""
        How many hidden words the question counts as, whether b follows a; 0: it is not asked.""")

    claims = (*BERT_CLAIMS, *TEXT_CLAIMS)
    more_claims = BERT_MORE_CLAIMS
    network = "BERTNet"

    # --- fitting ---

    def _network(self, data: Any) -> Any:
        require("torch", "deep", what="BERT")
        from lemmata.language.networks import BERTNet

        if self.context < 7:
            raise ValueError(
                f"context={self.context} has no room for two parts; pass context >= 7."
            )
        sizes = {**self._sizes(), "next_sentence": float(self.next_sentence)}
        return self._begin_with(partial(BERTNet, len(self.tokens_), **sizes))

    def _problem(self, data: Any) -> Any:
        from lemmata.language.corruption import Passages, texts_of

        def cut(part: Corpus) -> Passages:
            pairs = 0.7 if self.next_sentence else 0.0
            return Passages(part.tokens, *texts_of(part), int(self.context), pairs)

        stopping = data.stopping if self.early_stopping else None
        return cut(data).with_validation(None if stopping is None else cut(stopping))

    def _statements(self, data: Any) -> dict[str, Any]:
        found = {"loss_": self._stated_loss(data)}
        if data.kept is not None:
            found["test_loss_"] = _mean_of_scored(self._losses(data.kept, THIRD))
        return found

    def _stated_loss(self, data: Any) -> float:
        return _mean_of_scored(self._losses(data, THIRD, STATED))

    # --- reading ---

    def _read_pieces(
        self, tokens: Array, starts: Array, stops: Array, method: str
    ) -> Iterator[tuple[Array, Any]]:
        """Yield the places (B, T) of tokens, −1 elsewhere, and the outputs of a method of the network, for pieces of texts."""
        import torch

        from lemmata.language.corruption import cut_pieces, join_segments
        from lemmata.language.networks import find_padding

        net = self._net()
        begin, end = cut_pieces(starts, stops, net.context - 2)
        order = np.argsort(end - begin, kind="stable")
        device = next(net.parameters()).device
        rows = max(1, min(AT_ONCE, 2**23 // len(self.tokens_)) // net.context)
        for at in range(0, len(order), rows):
            some = order[at : at + rows]
            x, _ = join_segments([(tokens[begin[i] : end[i]], None) for i in some])
            column = np.arange(x.shape[1]) - 1
            places = begin[some][:, None] + column
            places[(column < 0) | (places >= end[some][:, None])] = -1
            with torch.no_grad():
                given = torch.from_numpy(x).to(device)
                found = getattr(net, method)(given, padding=find_padding(given))
            yield places, found

    def _losses(self, corpus: Corpus, shift: int, most: int | None = None) -> Array:
        """(N,): −ln P of every seventh token, all of these hidden; NaN of the others."""
        import torch
        from torch.nn import functional as F

        from lemmata.language.corruption import texts_of

        n = corpus.n_tokens if most is None else min(most, corpus.n_tokens)
        hidden = (np.arange(n) % EVERY == shift) & (corpus.tokens[:n] >= FIRST)
        given, found = np.where(hidden, MASK, corpus.tokens[:n]), np.full(n, np.nan)
        starts, stops = texts_of(corpus)
        known = starts < n
        for places, z in self._read_pieces(given, starts[known], np.minimum(stops[known], n), "body"):  # fmt: skip
            here = (places >= 0) & hidden[places]
            words = corpus.tokens[places[here]].astype(np.int64)
            with torch.no_grad():
                scores = self.module_.word_scores(z[torch.from_numpy(here).to(z.device)]).double()
                losses = F.cross_entropy(scores, torch.from_numpy(words).to(z.device), reduction="none")  # fmt: skip
            found[places[here]] = losses.cpu().numpy()
        return found

    def score_samples(self, X) -> Array:
        """(n,): Σ ln P of the words of every text, in nats; each is scored once, in one of seven passes that hide a seventh."""
        corpus = self._read(X)
        whole = np.nansum([self._losses(corpus, shift) for shift in range(EVERY)], axis=0)
        return -np.add.reduceat(whole, np.concatenate([[0], corpus.ends[:-1]]))

    def score(self, X, y=None) -> float:
        """The mean of ln P over hidden words, every seventh; higher is better."""
        return -_mean_of_scored(self._losses(self._read(X), THIRD))

    def transform(self, X) -> Array:
        """(n, width): the mean of the numbers of a text's tokens; 0 of an empty text."""
        from lemmata.language.corruption import texts_of

        corpus = self._read(X)
        found = np.zeros((len(corpus), self.module_.config["width"]))
        for places, z in self._read_pieces(corpus.tokens, *texts_of(corpus), "body"):
            z = z.double().cpu().numpy() * (places >= 0)[..., None]
            np.add.at(found, np.searchsorted(corpus.ends, places.max(axis=1), "right"), z.sum(1))
        sizes = np.diff(corpus.ends, prepend=0) - 1
        return found / np.maximum(sizes, 1)[:, None]

    def fill(self, text: str, n: int = 5) -> list[list[tuple[str, float]]]:
        """For every [MASK] of a text, the likeliest tokens with their probabilities, the likeliest first."""
        check_is_fitted(self)
        if not isinstance(text, str) or BLANK not in text:
            raise ValueError(f"text={text!r} has no {BLANK}: write it where a word is to be filled in.")  # fmt: skip
        parts = [np.append(self.tokens_.encode(part), MASK) for part in text.split(BLANK)]
        tokens = np.concatenate(parts)[:-1].astype(np.int32)
        if len(tokens) > self.module_.context - 2:
            raise ValueError(
                f"the text has {len(tokens):,} tokens, and the network reads {self.module_.context - 2} at once: pass less."
            )
        whole = np.array([0]), np.array([len(tokens)])
        ((_, scores),) = self._read_pieces(tokens, *whole, "__call__")
        scores = scores[0].double().cpu().numpy()[np.flatnonzero(tokens == MASK) + 1]
        scores[:, :FIRST] = -np.inf
        found = []
        for row in softmax(scores, axis=1):
            best = np.argsort(-row, kind="stable")[: int(n)]
            found.append([(self.tokens_.name(int(one)), float(row[one])) for one in best])
        return found


def _mean_of_scored(losses: Array) -> float:
    return float(np.nanmean(losses)) if np.isfinite(losses).any() else 0.0
