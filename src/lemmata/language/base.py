"""Language models: what NGram and GPT have in common. Reading texts, judging and writing them.

    score_samples(texts)   ln P of each text and its end, from a beginning that knows nothing
    perplexity(texts)      e^(nats per token), and the same per character, word and byte
    sample, next_tokens    what comes next

The last tenth of the characters is kept from training; claims about new text are checked on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.stats import t as student
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lemmata.core import common
from lemmata.core.certificate import Certificate, Fit, Statement
from lemmata.core.loop import warn_user
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, POSITIVE, SHARE, fitted, parameter
from lemmata.core.validation import Interval
from lemmata.language.corpus import Corpus, read_texts, split_texts
from lemmata.language.sampling import (
    Step,
    check_counts,
    check_sampling,
    continue_rows,
    draw_tokens,
    search_beams,
    shape_probabilities,
)
from lemmata.language.tokens import EOS, TokenCoder, as_tokens, impossible_tokens
from lemmata.nets.estimators.neural import Neural

Array = np.ndarray
PARTS, CONFIDENCE = 20, 0.95  # of the interval of a perplexity
STATED = 2**15  # tokens of the training text at most that loss_ is of

TOKENS = parameter("characters", str, TokenCoder).doc("""
    "characters", "words", "byte pairs", or `Characters()`, `Words(…)`, `BytePairs(…)`.""")
TEST_FRACTION = parameter(0.1, SHARE).doc("""
    The share of all characters, the last ones, that is kept from training and stopping; on it
    claims about new text are checked. 0: none, and `certify(X, X_test=…)` checks them.""")


@dataclass(frozen=True)
class TextPerplexity(Mapping):
    """e^(nats per unit) by unit: token, character, word, byte; `interval` has the ends of each at 95 %.

    The interval is Student's t over 20 consecutive parts; it knows how the text at hand varies, and nothing of other texts.
    """

    per: dict[str, float]
    interval: dict[str, tuple[float, float]]

    def __getitem__(self, unit: str) -> float:
        return self.per[unit]

    def __iter__(self):
        return iter(self.per)

    def __len__(self) -> int:
        return len(self.per)

    def __str__(self) -> str:
        return "\n".join(
            f"per {unit:<10} {self.per[unit]:12,.4g}   ({low:,.4g} to {high:,.4g})"
            for unit, (low, high) in self.interval.items()
        )

    @classmethod
    def of(cls, losses: Array, units: Mapping[str, int]) -> TextPerplexity:
        """From the losses of all tokens, and the numbers of units that these are."""
        parts = [part.mean() for part in np.array_split(losses, min(PARTS, len(losses)))]
        mean, values, ends = float(losses.mean()), {}, {}
        wide = np.inf
        if len(parts) > 1:
            error = np.std(parts, ddof=1) / np.sqrt(len(parts))
            wide = float(student.ppf((1 + CONFIDENCE) / 2, len(parts) - 1) * error)
        for unit, count in units.items():
            per = len(losses) / count if count else np.nan
            with np.errstate(over="ignore"):
                values[unit] = float(np.exp(mean * per))
                low, high = np.exp(max(mean - wide, 0) * per), np.exp((mean + wide) * per)
            ends[unit] = float(low), float(high)
        return cls(values, ends)


def keep_promised(claims: tuple[Statement, ...], coder: TokenCoder) -> tuple[Statement, ...]:
    """The claims of a fit: that texts are restored only where their tokens promise it."""
    return tuple(one for one in claims if coder.restores or one.name != "text_restored")


class TextModel:
    """A model that is fitted to running text. A subclass defines _token_losses."""

    def _token_losses(self: Any, corpus: Corpus) -> Array:
        """(N,): −ln P of each token of the texts, each text by itself."""
        raise TypeError(f"{type(self).__name__} does not define _token_losses.")

    def _stated_test_loss(self, kept: Corpus | None) -> dict[str, float]:
        """Nats per token of the text that was kept from training, where there is any."""
        return {} if kept is None else {"test_loss_": float(self._token_losses(kept).mean())}

    # --- input ---

    def _validate_rows(
        self: Any, X, sample_weight=None, reset: bool = True, min_samples: int | None = None
    ) -> Any:
        if sample_weight is not None:
            raise ValueError("texts have no weights; repeat them.")
        texts = read_texts(X)
        learn, kept = split_texts(texts, float(self.test_fraction))
        learn, stopping = split_texts(learn, self._stopping_share())
        if not learn:
            raise ValueError(
                f"test_fraction={self.test_fraction} leaves no text to learn from; lower it."
            )
        if reset:
            coder = as_tokens(self.tokens)
            warm = getattr(self, "warm_start", False) and hasattr(self, "tokens_")
            coder = self.tokens_ if warm else coder.learn(texts if coder.closed else learn)
            self.tokens_, self.n_features_in_ = coder, len(coder)
        parts = [Corpus.of(part, self.tokens_) if part else None for part in (kept, stopping)]
        return Corpus.of(learn, self.tokens_).with_parts(*parts)

    def _read(self: Any, X: Any) -> Corpus:
        check_is_fitted(self)
        return Corpus.of(read_texts(X), self.tokens_)

    # --- certificate ---

    def certify(
        self: Any, X, y=None, sample_weight=None, *, X_test=None, y_test=None, seconds=None
    ) -> Certificate:
        """Check every claim about this fit on X, the text that it was fitted to.

        y, sample_weight, y_test : ignored
        X_test : texts that it was not fitted to; without them, claims about new text are checked on what was kept
        seconds : float, optional
            Time limit; claims that need more stay *not checked*. By default five times the work of the fit.
        """
        check_is_fitted(self)
        data = self._validate_rows(X, sample_weight, reset=False)
        if X_test is not None:
            data = data.with_parts(self._read(X_test), data.stopping)
        claims = (*self.claims, *self.more_claims)
        return self._certificate(
            data,
            seconds=seconds,
            claims=claims,
            attributes={**self._shown_to_claims(), "test_given": X_test is not None},
        )

    def _shown_to_claims(self) -> dict[str, Any]:
        """Return more that claims of `certify` may use."""
        return {}


class TextNetwork(Neural):
    """A transformer over the tokens of texts: the parameters that all of them have."""

    width: int = parameter(128, COUNT, before="optimizer").doc("d, numbers of a token.")
    depth: int = parameter(4, COUNT, before="optimizer").doc("Blocks, one after another.")
    heads: int = parameter(4, COUNT, before="optimizer").doc("Of each block; they divide `width`.")
    context: int = parameter(128, COUNT, before="optimizer").doc("""
        Tokens of a window: as far as the model looks.""")
    tokens: Any = TOKENS
    _: KW_ONLY
    dropout: float = parameter(0.0, Interval(Real, 0, 1, closed="left"), before="optimizer").doc("""
        Share of attention weights, and of the outputs of branches, that is dropped in training.""")
    learning_rate: Any = parameter(2e-3, POSITIVE, None)
    weight_decay: float = parameter(0.01, NONNEGATIVE)
    schedule: Any = parameter("cosine", str, callable).doc("""
        The rate falls to 0 over `max_iter` epochs; see `NeuralClassifier` for others.""")
    warmup: float = parameter(0.02, NONNEGATIVE).doc("""
        The share of the run in which the rate rises from 0; from 1 on, so many updates.""")
    batch_size: Any = parameter("auto", COUNT, str).doc('Windows in an update; "auto" is 8.')
    clip: Any = parameter(1.0, POSITIVE, None)
    max_iter: int = common.max_iter(4).doc("Epochs: times that the text is read.")

    augment, input_shape, layout = None, None, "auto"
    input_shape_ = ()  # texts have none
    usual_batch: ClassVar[int] = 8
    network: ClassVar[str] = ""  # the class of `module_`
    measured: ClassVar[tuple[str, ...]] = ("test_loss_",)  # of what was kept from training
    stored: ClassVar[Mapping[str, str | type]] = {
        **{name: spec for name, spec in Neural.stored.items() if not name.startswith(("input", "validation", "best"))},
        "tokens_": TokenCoder,
        "test_loss_?": "",
    }  # fmt: skip
    tokens_: TokenCoder = fitted()

    def fit(self, X, y=None, sample_weight=None):
        """Fit the model to texts and check the claims about it.

        Parameters
        ----------
        X : list of texts, an iterable of them, or the path of a file, which is one text
        y, sample_weight : ignored

        Returns
        -------
        self : with `certificate_`, `trace_`, `stopped_`, `n_iter_` and the model's own attributes
        """
        return super().fit(X, y, sample_weight)

    def _stopping_share(self) -> float:
        return float(self.validation_fraction) if self.early_stopping else 0.0

    def _sizes(self) -> dict[str, Any]:
        """The arguments of the network that are parameters here."""
        if self.width % self.heads:
            raise ValueError(
                f"heads={self.heads} do not share a width={self.width} evenly; choose heads that divide it."
            )
        sizes = {name: int(getattr(self, name)) for name in ("width", "depth", "heads", "context")}
        return {**sizes, "dropout": float(self.dropout)}

    def _net(self) -> Any:
        """The network, ready to be used."""
        from lemmata.nets.training.devices import choose_device

        return self.module_.to(choose_device(self.device)).eval()

    def _loss(self) -> Any:
        return "module"

    def _algorithm(self, data: Any) -> Any:
        return self._training(self._network(data), self._problem(data).n)

    def _weight_rows(self, data: Any) -> Any:  # of partial_fit
        return self._problem(data)

    def _conclude(self, data: Any, attributes: dict[str, Any], *rest: Any) -> None:
        self._forget(*self.measured)
        super()._conclude(data, attributes, *rest)

    def _claims(self) -> tuple[Statement, ...]:
        return keep_promised(self.claims, self.tokens_)

    @classmethod
    def work(cls, fit: Fit) -> float:
        """Forward and backward are three passes, of a multiplication for every weight and token."""
        size = sum(weight.numel() for weight in fit.module_.parameters())
        return 3.0 * fit.get("n_iter_", 1) * fit.data.size * size / 16

    def _title(self, data: Any) -> str:
        size = sum(weight.numel() for weight in self.module_.parameters())
        rows = f"{data.extent}, " if data else ""
        return f"{type(self).__name__}  {rows}{self.network} of {size:,} weights"

    def _check_restored(self, attributes: dict[str, Any]) -> None:
        net, n = attributes["module_"], len(self.tokens_)
        config = net.config or {}
        if net.name != self.network or not config.get("n_tokens") == self.n_features_in_ == n:
            raise ValueError(f"its network is no {self.network} of its {n:,} tokens.")


class LanguageModel(TextModel):
    """A model of the next token: judges texts and writes them. A subclass defines _token_losses and _step."""

    def _step(self: Any, rows: int) -> Step:
        """A step at the beginning of so many texts, before the first [EOS]."""
        raise TypeError(f"{type(self).__name__} does not define _step.")

    def _shown_to_claims(self) -> dict[str, Any]:
        return {"sampler": self.sample}

    # --- judging texts ---

    def score_samples(self: Any, X) -> Array:
        """(n,): ln P of every text with its end, in nats; each text by itself."""
        corpus = self._read(X)
        losses = self._token_losses(corpus)
        return -np.add.reduceat(losses, np.concatenate([[0], corpus.ends[:-1]]))

    def score(self: Any, X, y=None) -> float:
        """The mean of ln P over all tokens; higher is better."""
        return -float(self._token_losses(self._read(X)).mean())

    def perplexity(self: Any, X) -> TextPerplexity:
        """e^(nats) per token, character, word and byte, each with an interval; the ends of texts are predicted, too.

        Where words are unknown, [UNK] is predicted in their place: then no number but that per token means much.
        """
        corpus = self._read(X)
        if corpus.unknown and not self.tokens_.closed:
            warn_user(
                f"{corpus.unknown:,} of {corpus.n_tokens:,} tokens are unknown words: what was predicted is [UNK].",
                UserWarning,
            )
        return TextPerplexity.of(self._token_losses(corpus), corpus.units())

    # --- writing texts ---

    def sample(
        self: Any,
        n_samples: int = 1,
        prompt: str = "",
        length: int = 100,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        stop: str | None = None,
        random_state: Any = None,
    ) -> list[str]:
        """Draw texts that begin with a prompt.

        Parameters
        ----------
        n_samples : int, default=1
        prompt : str, default=""
            Where every text begins.
        length : int, default=100
            Tokens to draw at most; a text may end before.
        temperature : float, default=1.0
            t of p ∝ e^(s/t); 0 always takes the likeliest token.
        top_k : int, optional
            Draw among the k likeliest tokens only.
        top_p : float, default=1.0
            Draw among the likeliest tokens that together have at least this probability.
        stop : str, optional
            A text ends after this.
        random_state : int, RandomState or None
            With a number the draws repeat; None is the `random_state` of the model.
        """
        check_is_fitted(self)
        check_counts(n_samples=n_samples, length=length)
        check_sampling(temperature, top_k, top_p, len(self.tokens_))
        if stop is not None and not (isinstance(stop, str) and stop):
            raise ValueError(f"stop={stop!r}; pass a text of one character and more, or None.")
        rng = check_random_state(self.random_state if random_state is None else random_state)
        first, coder = self._prompt(prompt), self.tokens_

        def choose(scores: Array) -> Array:
            P = shape_probabilities(self.only_possible(scores), temperature, top_k, top_p)
            return draw_tokens(P, rng)

        def is_done(tokens: Array) -> bool:
            return stop is not None and stop in coder.decode(tokens[-4 * len(stop) - 4 :])

        rows = np.repeat(first[None], n_samples, axis=0)
        found = continue_rows(self._step(int(n_samples)), rows, int(length), choose, is_done)
        return [self._join(prompt, first, one) for one in found]

    def complete(self: Any, prompt: str, length: int = 20, beams: int = 4) -> list[tuple[str, float]]:  # fmt: skip
        """The likeliest continuations found by beam search, each with ln P given the prompt; the best first."""
        check_is_fitted(self)
        check_counts(beams=beams, length=length)
        if beams > len(self.tokens_):
            raise ValueError(f"beams={beams} exceeds the {len(self.tokens_):,} tokens; pass fewer.")
        first, inner = self._prompt(prompt), self._step(1)

        class Possible:
            select = staticmethod(inner.select)
            feed = staticmethod(lambda tokens: self.only_possible(inner.feed(tokens)))

        found = search_beams(Possible(), first[None], int(length), int(beams))
        return [(self._join(prompt, first, one.tokens), one.log_prob) for one in found]

    def next_tokens(self: Any, prompt: str = "", n: int = 10) -> list[tuple[str, float]]:
        """The likeliest next tokens with their probabilities, the likeliest first."""
        check_is_fitted(self)
        scores = self.only_possible(self._step(1).feed(self._prompt(prompt)[None]))
        P = shape_probabilities(scores)[0]
        order = np.argsort(-P, kind="stable")[: int(n)]
        return [(self.tokens_.name(int(token)), float(P[token])) for token in order]

    def _prompt(self: Any, prompt: Any) -> Array:
        """[EOS], after which texts begin, and the tokens of a prompt."""
        if not isinstance(prompt, str):
            raise TypeError(f"prompt is a {type(prompt).__name__}; pass a text.")
        try:
            tokens = self.tokens_.encode(prompt)
        except ValueError as error:
            raise ValueError(f"prompt: {error}") from None
        return self.begin(tokens)

    @staticmethod
    def begin(tokens: Array) -> Array:
        """Tokens after [EOS], as at the beginning of a text."""
        return np.concatenate([np.array([EOS], np.int32), tokens])

    def only_possible(self: Any, scores: Array) -> Array:
        """Scores with −∞ for tokens that no text contains."""
        scores = np.array(scores, np.float64)
        scores[:, impossible_tokens(self.tokens_)] = -np.inf
        return scores

    def _join(self: Any, prompt: str, first: Array, tokens: Array) -> str:
        if self.tokens_.restores:
            return prompt + self.tokens_.decode(tokens)
        return self.tokens_.decode(np.concatenate([first, tokens]))
