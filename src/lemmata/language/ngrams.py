"""NGram: the model to beat, and a model (ML "Language Models").

P(text) = Π_t P(w_t | w_{t−n+1} … w_{t−1}),       each factor by interpolated Kneser–Ney from counts (counts.py)

>>> texts = ["the cat sat", "the cat ran", "a dog sat"] * 20
>>> model = NGram(order=4, random_state=0).fit(texts)
>>> model.next_tokens("the ca", n=1)[0][0], model.sample(prompt="the c", length=2, temperature=0)
('t', ['the cat'])
>>> bool(model.perplexity(["the dog ran"])["character"] < 5)
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.language.ngrams import NGRAM_CLAIMS
from lemmata.audit.language.texts import TEXT_CLAIMS, TEXT_MORE_CLAIMS
from lemmata.core import common
from lemmata.core.certificate import Fit, Statement
from lemmata.core.estimator import Model
from lemmata.core.files.encoding import storable
from lemmata.core.loop import Never, Stop
from lemmata.core.parameters import COUNT, KW_ONLY, fitted, parameter
from lemmata.language.base import STATED, TEST_FRACTION, TOKENS, LanguageModel, keep_promised
from lemmata.language.corpus import Corpus
from lemmata.language.counts import KneserNey, RunCounts
from lemmata.language.tokens import TokenCoder

Array = np.ndarray
BLOCK = 2**22  # tokens that are counted together


@storable
@dataclass(frozen=True)
class CountingState:
    counts: RunCounts
    blocks: int  # that were counted
    all: int  # blocks
    loss: float  # nats per token of the first STATED tokens by these counts


@dataclass(frozen=True)
class CountingAlgorithm:
    """Add up the counts of blocks of texts, one in each step."""

    order: int
    n_tokens: int

    draws: ClassVar[bool] = False

    def init(self, data: Corpus, rng: Any) -> CountingState:
        return self._at(RunCounts.of(data.tokens[:0], self.order, self.n_tokens), 0, data)

    def finished(self, state: CountingState) -> bool:
        return state.blocks == state.all

    def step(self, state: CountingState, data: Corpus) -> CountingState:
        block = cut_blocks(data)[state.blocks]
        counts = RunCounts.of(data.tokens[block], self.order, self.n_tokens)
        whole = state.counts + counts if state.blocks else counts
        return self._at(whole, state.blocks + 1, data)

    def _at(self, counts: RunCounts, blocks: int, data: Corpus) -> CountingState:
        loss = float(KneserNey(counts).losses(data.tokens[:STATED]).mean()) if blocks else np.log(self.n_tokens)  # fmt: skip
        return CountingState(counts, blocks, len(cut_blocks(data)), float(loss))

    def check_state(self, state: CountingState, data: Corpus) -> None:
        if (state.counts.order, state.counts.n_tokens) != (self.order, self.n_tokens):
            raise ValueError("its counts are of runs of another length, or of other tokens.")
        state.counts.levels()

    def objective(self, state: CountingState) -> float:
        return state.loss

    def attributes(self, state: CountingState) -> dict[str, Any]:
        return {"counts_": state.counts, "loss_": state.loss}


def cut_blocks(data: Corpus) -> list[slice]:
    """The texts in blocks of some BLOCK tokens."""
    ends, cuts = data.ends, [0]
    while cuts[-1] < ends[-1]:
        cuts.append(int(ends[min(int(np.searchsorted(ends, cuts[-1] + BLOCK)), len(ends) - 1)]))
    return list(map(slice, cuts[:-1], cuts[1:]))


class NGram(LanguageModel, Model):
    """The next token from counts of the last ones, by interpolated Kneser–Ney.

    Attributes
    ----------
    tokens_ : Characters, Words or BytePairs, with the vocabulary of the fit
    counts_ : RunCounts
    loss_ : float
        Nats per token of the training text; of more than 32,768 tokens, of the first so many.
    test_loss_ : float
        Nats per token of the text that was kept from training, where there is any.
    n_features_in_ : the number of different tokens
    n_iter_, trace_, stopped_, certificate_
    """

    order: int = parameter(5, COUNT).doc("n: each token is predicted from the n − 1 before it.")
    _: KW_ONLY
    tokens: Any = TOKENS
    test_fraction: float = TEST_FRACTION
    random_state: Any = common.random_state().doc("Of `sample`; the fit draws nothing.")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = (*NGRAM_CLAIMS, *TEXT_CLAIMS)
    more_claims = TEXT_MORE_CLAIMS
    stored: ClassVar[Mapping[str, str | type]] = {
        "tokens_": TokenCoder,
        "counts_": RunCounts,
        "loss_": "audited",
        "test_loss_?": "",
    }
    tol = 0.0
    max_iter = 1
    tokens_: TokenCoder = fitted()
    counts_: RunCounts = fitted()

    def _algorithm(self, data: Any) -> CountingAlgorithm:
        return CountingAlgorithm(int(self.order), len(self.tokens_))

    def _stop(self) -> Stop:
        return self._within_time(Never())

    def _claims(self) -> tuple[Statement, ...]:
        return keep_promised(self.claims, self.tokens_)

    def _conclude(self, data: Any, attributes: dict[str, Any], *rest: Any) -> None:
        self._forget("_probabilities", "test_loss_")
        self.counts_ = attributes["counts_"]
        stated = {} if data is None else self._stated_test_loss(data.kept)
        super()._conclude(data, {**attributes, **stated}, *rest)

    def _stopping_share(self) -> float:
        return 0.0

    def _title(self, data: Any) -> str:
        return f"NGram  {data.extent}" if data else "NGram"

    @classmethod
    def work(cls, fit: Fit) -> float:
        """Sorting of the tokens at every length."""
        return 150.0 * fit.data.size * fit.counts_.order

    @cached_property
    def _probabilities(self) -> KneserNey:
        return KneserNey(self.counts_)

    def __getstate__(self):
        return {
            key: value for key, value in super().__getstate__().items() if key != "_probabilities"
        }

    def _token_losses(self, corpus: Corpus) -> Array:
        return self._probabilities.losses(corpus.tokens)

    def _step(self, rows: int) -> CountedStep:
        return CountedStep(self._probabilities, rows)

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Model:
        """A model from a file, whose counts have to be of its tokens."""
        model: Any = super().restored(parameters, attributes)
        if not model.n_features_in_ == len(model.tokens_) == model.counts_.n_tokens:
            raise ValueError("its counts are not of its tokens.")
        _ = model._probabilities  # ValueError where counts are no counts of runs
        return model


class CountedStep:
    """One more token in each row, by counts."""

    def __init__(self, tables: KneserNey, rows: int):
        self.tables, self.state = tables, tables.start(rows)

    def feed(self, tokens: Array) -> Array:
        for column in np.asarray(tokens, np.int64).T:
            self.state = self.tables.move(self.state, column)
        with np.errstate(divide="ignore"):
            return np.log([self.tables.next_probabilities(row) for row in self.state])

    def select(self, rows: Array) -> None:
        self.state = self.state[rows]
