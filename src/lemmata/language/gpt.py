"""GPT: a transformer that predicts the next token (ML "Language Models", "Self-supervised Learning").

minimise  −(1/N) Σ_t ln P(w_t | w_s … w_{t−1}),       P the softmax of a decoder's scores, in windows of `context` tokens

>>> texts = ["the cat sat on the mat", "the dog sat on the rug"] * 30
>>> settings = {"width": 32, "depth": 1, "heads": 2, "context": 16, "max_iter": 12, "learning_rate": 0.01}
>>> model = GPT(**settings, batch_size=4, random_state=0).fit(texts)
>>> model.next_tokens("the cat sat o", n=1)[0][0], bool(model.perplexity(texts)["character"] < 2)
('n', True)
>>> model.sample(prompt="the cat", length=20, temperature=0)[0].startswith("the cat ")
True
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from lemmata.audit.language.models import GPT_CLAIMS, GPT_MORE_CLAIMS
from lemmata.audit.language.texts import TEXT_CLAIMS, TEXT_MORE_CLAIMS
from lemmata.core.loop import warn_user
from lemmata.core.parameters import KW_ONLY, parameter
from lemmata.core.validation import Interval
from lemmata.language.base import STATED, TEST_FRACTION, LanguageModel, TextNetwork
from lemmata.language.corpus import Corpus
from lemmata.language.tokens import PAD
from lemmata.registry import require

Array = np.ndarray
AT_ONCE = 2**12  # tokens that are scored together


class GPT(LanguageModel, TextNetwork):
    """A transformer over the tokens of texts: predicts the next one, judges texts and writes them.

    Minimises the mean of −ln P(next token) over the text, by updates on windows of `context` tokens: drawn anew in each
    epoch, or the texts themselves where all of them have, with their ends, as many tokens.

    Attributes
    ----------
    module_ : GPTNet
        `module_(tokens)` gives the scores of the next token at every place.
    tokens_ : Characters, Words or BytePairs, with the vocabulary of the fit
    loss_ : float
        Nats per token of the training text; of more than 32,768 tokens, of the first so many.
    test_loss_ : float
        Nats per token of the text that was kept from training, where there is any.
    n_features_in_ : the number of different tokens
    history_, n_iter_, trace_, stopped_, certificate_
    """

    _: KW_ONLY
    test_fraction: float = TEST_FRACTION
    drawn: int = parameter(0, Interval(Integral, 0, None, closed="left")).doc("""
        k > 0: the loss of training is binary, "is this the next token?", of the real one and k that
        are drawn; texts are judged by the softmax of its scores all the same. 0: −ln P.""")

    claims = (*GPT_CLAIMS, *TEXT_CLAIMS)
    more_claims = (*GPT_MORE_CLAIMS, *TEXT_MORE_CLAIMS)
    network = "GPTNet"

    # --- fitting ---

    def _network(self, data: Any) -> Any:
        require("torch", "deep", what="GPT")
        from lemmata.language.networks import GPTNet

        return self._begin_with(
            partial(GPTNet, len(self.tokens_), **self._sizes(), drawn=int(self.drawn))
        )

    def _problem(self, data: Any) -> Any:
        from lemmata.nets.data.windows import Windows

        if data.n_tokens < self.context:
            raise ValueError(
                f"the text to learn from has {data.n_tokens:,} tokens, with the ends of its texts, and context={self.context}: "
                f"pass more text, or context <= {data.n_tokens}."
            )
        texts = bool((np.diff(data.ends, prepend=0) == self.context).all())
        learn = Windows(data.stream(), int(self.context), shifted=not texts)
        if not self.early_stopping or data.stopping is None:
            return learn
        held = data.stopping.stream()
        return learn.with_validation(Windows(held, min(int(self.context), len(held) - 1)))

    def _statements(self, data: Any) -> dict[str, Any]:
        return {"loss_": self._stated_loss(data), **self._stated_test_loss(data.kept)}

    def _stated_loss(self, data: Any) -> float:
        return float(self._token_losses(data, STATED).mean())

    # --- judging and writing texts ---

    def _token_losses(self, corpus: Corpus, most: int | None = None) -> Array:
        import torch
        from torch.nn import functional as F

        net, stream = self._net(), corpus.stream()
        n = corpus.n_tokens if most is None else min(most, corpus.n_tokens)
        found = np.full(n, np.nan)
        windows = np.array(sorted(cut_windows(corpus.ends, n, net.context), key=lambda one: one[1] - one[0]))  # fmt: skip
        device = next(net.parameters()).device
        rows = max(1, min(AT_ONCE, 2**23 // len(self.tokens_)) // net.context)
        for at in range(0, len(windows), rows):
            start, stop, first = windows[at : at + rows].T[..., None]
            places = start + np.arange((stop - start).max())
            inside, here = places < stop, np.minimum(places, n - 1)
            pair = (np.where(inside, one[here], PAD).astype(np.int64) for one in (stream, corpus.tokens))  # fmt: skip
            x, y = (torch.from_numpy(one).to(device) for one in pair)
            with torch.no_grad():
                scores = net(x).double().flatten(0, 1)
                losses = F.cross_entropy(scores, y.flatten(), reduction="none").view(x.shape)
            counted = inside & (places >= first)
            found[places[counted]] = losses.cpu().numpy()[counted]
        return found

    def _step(self, rows: int) -> CachedStep:
        return CachedStep(self._net())

    def _prompt(self, prompt: Any) -> Array:
        found = super()._prompt(prompt)
        if len(found) > self.module_.context:
            warn_user(
                f"the prompt has {len(found):,} tokens, the model looks back {self.module_.context}: its end is kept.",
                UserWarning,
            )
        return found


def cut_windows(ends: Array, most: int, context: int) -> Iterator[tuple[int, int, int]]:
    """Windows (start, stop, first that counts) of at most `context` tokens that score the first tokens once, text by text:
    each moves on by half of its length, so that a token follows that many others, or all that its text has."""
    begin, stride = 0, max(1, context // 2)
    for end in ends.tolist():
        end = min(end, most)
        first, start = begin, begin
        while first < end:
            stop = min(start + context, end)
            yield start, stop, first
            first, start = stop, start + stride
        begin = end


class CachedStep:
    """More tokens in each row, by a network with a cache; where that is full, it begins again with the last half."""

    def __init__(self, net: Any):
        from lemmata.language.networks import GPTNet

        self.net, self.cache = net, net.cache()
        self.device = next(net.parameters()).device
        self.fast = type(net) is GPTNet and not net.training  # a subclass may compute otherwise
        self.seen: Array | None = None  # (B, t)

    def feed(self, tokens: Array) -> Array:
        import torch

        tokens = np.asarray(tokens, np.int64)
        seen = tokens if self.seen is None else np.concatenate([self.seen, tokens], axis=1)
        if seen.shape[1] > self.net.context:
            kept = self.net.context if tokens.shape[1] > 1 else max(1, self.net.context // 2)
            seen = tokens = seen[:, -kept:]
            self.cache = self.net.cache()
        self.seen = seen
        given = torch.from_numpy(tokens).to(self.device)
        with torch.inference_mode():
            if self.fast and tokens.shape[1] == 1:
                scores = self.net.next_scores(given, self.cache)
            else:
                scores = self.net(given, cache=self.cache)[:, -1]
            return scores.double().cpu().numpy()

    def select(self, rows: Array) -> None:
        import torch

        assert self.seen is not None
        self.seen = self.seen[rows]
        with torch.inference_mode():
            for own, _ in self.cache:
                own.select(torch.from_numpy(np.asarray(rows, np.int64)).to(self.device))
