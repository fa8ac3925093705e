"""Heads on BERT: what they share, and classes of texts; from a fitted `BERT` or from scratch. Of words: word_heads.py.

    TextClassifier     W z̄ + b of the mean over a text's tokens         "[CLS] a [SEP]", or "[CLS] a [SEP] b [SEP]" of a pair

>>> texts = [f"{who} {what} it" for who in ("she", "he", "it") for what in ("likes", "loves", "hates", "fears")] * 4
>>> y = ["good" if "l" in text.split()[1] else "bad" for text in texts]
>>> settings = {"width": 16, "depth": 1, "heads": 2, "context": 8, "max_iter": 12, "learning_rate": 0.01}
>>> model = TextClassifier(**settings, random_state=0).fit(texts, y)
>>> model.predict(["she loves him", "he fears her"]).tolist()
['good', 'bad']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.language.heads import TEXT_HEAD_CLAIMS
from lemmata.core import common
from lemmata.core.certificate import Certificate
from lemmata.core.loop import warn_user
from lemmata.core.parameters import ANYTHING, COUNT, KW_ONLY, SHARE, choice, parameter
from lemmata.core.supervised import Classifier
from lemmata.language.base import TextNetwork
from lemmata.language.tokens import PAD, TokenCoder, as_tokens
from lemmata.registry import require
from lemmata.text.reading import as_documents

Array = np.ndarray
AT_ONCE = 2**13  # tokens that are read together
STATED = 2000  # rows at most that loss_ is of
IGNORED = -100  # label of a token that has none

PRETRAINED = parameter(None, ANYTHING, before="width").doc("""
    A fitted `BERT`, or the path of one: its tokens, sizes and weights are where the fit begins, and
    `tokens`, `width`, `depth`, `heads` and `context` are ignored. None: from scratch. Not kept in
    files.""")
TOKENS = parameter("words", str, TokenCoder).doc("""
    "characters", "words", "byte pairs", or `Characters()`, `Words(…)`, `BytePairs(…)`.""")
TEST_ROWS = parameter(0.1, SHARE).doc("""
    The share of rows, drawn by `random_state`, that is kept from training and stopping; on them
    claims about new texts are checked. 0: none, and `certify(X, y, X_test=…, y_test=…)` does.""")


@dataclass(frozen=True, eq=False)
class LabelledTexts:
    """Rows of tokens with their labels; `kept` and `stopping` are rows that were kept from training."""

    x: Array  # (n, T) int64: [CLS] a [SEP] b [SEP], then [PAD]
    segments: Array  # (n, T)
    y: Array  # (n,), (n, T) or (n, 2)
    coder: TokenCoder
    kept: LabelledTexts | None = None
    stopping: LabelledTexts | None = None

    weights = targets = None
    dtype = np.dtype(np.int64)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def shape(self) -> tuple[int, int]:
        return self.x.shape[0], self.x.shape[1]

    @property
    def size(self) -> int:
        return int((self.x != PAD).sum())

    @property
    def n_tokens(self) -> int:
        return self.size

    @property
    def source(self) -> Array:
        return np.hstack([self.x, self.y.reshape(len(self.x), -1)])

    @property
    def extent(self) -> str:
        return f"{len(self):,} texts"

    def rows(self, wanted: Any) -> LabelledTexts:
        return replace(self, x=self.x[wanted], segments=self.segments[wanted], y=self.y[wanted])


class TextRow(NamedTuple):
    """A text as a row: tokens of one or two segments, and the first and last places of the words that matter."""

    a: Array
    b: Array | None
    first: Array  # (words,), counted in the row
    last: Array


class TextHead:
    """The base of heads: reading, splitting, running the network. A subclass defines _read_texts, _row and _labels."""

    not_stored: ClassVar[tuple[str, ...]] = ("transfer", "pretrained")
    network: ClassVar[str] = "HeadNet"
    measured: ClassVar[tuple[str, ...]] = ("test_loss_", "test_score_")
    usual_batch: ClassVar[int] = 32
    reads: ClassVar[str]

    # --- input ---

    def _read_texts(self, X: Any) -> list[Any]:
        """X as a list of texts, pairs or lists of words; ValueError for anything else."""
        raise TypeError(f"{type(self).__name__} does not define _read_texts.")

    def _row(self, text: Any) -> TextRow:
        raise TypeError(f"{type(self).__name__} does not define _row.")

    def _labels(self, y: Any, texts: list[Any], rows: list[TextRow], reset: bool, width: int) -> Array:  # fmt: skip
        """Labels of rows of so many tokens as the loss takes them."""
        raise TypeError(f"{type(self).__name__} does not define _labels.")

    def _source(self: Any) -> Any:
        """The fitted BERT to begin at, or None."""
        found = self.pretrained
        if found is None or not hasattr(self, "pretrained"):
            return None
        if isinstance(found, (str, Path)):
            from lemmata.core.store import load

            found = load(found)
        if getattr(found, "network", "") != "BERTNet" or not hasattr(found, "module_"):
            raise ValueError(f"pretrained is a {type(found).__name__}; pass a fitted BERT, or the path of one.")  # fmt: skip
        return found

    def _tokenise(
        self: Any, X: Any, y: Any = None, reset: bool = False
    ) -> tuple[LabelledTexts, list[Any], list[TextRow]]:
        from lemmata.language.corruption import join_segments

        texts = self._read_texts(X)
        if not texts:
            raise ValueError("X is empty: 0 texts; pass some.")
        rows, longest = [], self._longest()
        for number, text in enumerate(texts):
            try:
                rows.append(self._row(text))
            except ValueError as error:
                raise ValueError(f"text {number}: {error}") from None
        rows = self._fit_into(rows, longest)
        x, segments = join_segments([(row.a, row.b) for row in rows])
        known = np.zeros(len(x), np.int64) if y is None else self._labels(y, texts, rows, reset, x.shape[1])  # fmt: skip
        return LabelledTexts(x, segments, known, self.tokens_), texts, rows

    def _longest(self: Any) -> int:
        if hasattr(self, "module_"):
            return int(self.module_.context)
        source = self._source()
        return int(self.context if source is None else source.module_.context)

    def _fit_into(self: Any, rows: list[TextRow], longest: int) -> list[TextRow]:
        """Rows of at most so many tokens; ValueError for one that is longer."""
        for number, row in enumerate(rows):
            size = 2 + len(row.a) + (0 if row.b is None else 1 + len(row.b))
            if size > longest:
                raise ValueError(
                    f"text {number} has {size:,} tokens with the special ones, and the network reads {longest:,}: split it, or "
                    f"fit with context >= {size}."
                )
        return rows

    def _validate_pair(
        self: Any, X, y, sample_weight=None, reset: bool = True, new_classes: bool = True
    ) -> Any:
        if sample_weight is not None:
            raise ValueError("texts have no weights; repeat them.")
        if y is None:
            raise ValueError(f"a {type(self).__name__} requires y, the labels of X, but the target y is None.")  # fmt: skip
        if reset and not (self.warm_start and hasattr(self, "tokens_")):
            source = self._source()
            if source is None:
                coder = as_tokens(self.tokens)
                self.tokens_ = coder.learn(self._plain_texts(self._read_texts(X)))
            else:
                self.tokens_ = source.tokens_
            self.n_features_in_ = len(self.tokens_)
            self._forget("module_")
        data, _, _ = self._tokenise(X, y, reset)
        n = len(data)
        seed = int(self.random_state) if isinstance(self.random_state, Integral) else 0
        order = np.random.default_rng((seed, n)).permutation(n)
        kept = round(self.test_fraction * n)
        held = round(self._stopping_share() * (n - kept))
        if n - kept - held < 2:
            raise ValueError(
                f"{n - kept - held} of {n} texts are left to learn from; pass more, or a lower test_fraction."
            )
        parts = order[:kept], order[kept : kept + held], order[kept + held :]
        one, two, learn = (data.rows(np.sort(part)) if len(part) else None for part in parts)
        assert learn is not None
        return replace(learn, kept=one, stopping=two)

    def _plain_texts(self, texts: list[Any]) -> Iterator[str]:
        for text in texts:
            yield from (text if isinstance(text, tuple) else (text,))

    # --- fitting ---

    def _n_outputs(self: Any) -> int:
        return len(self.classes_)

    def _network(self: Any, data: Any) -> Any:
        require("torch", "deep", what=type(self).__name__)
        from lemmata.language.networks import HeadNet
        from lemmata.nets.training.transfer import Transfer

        source = self._source()
        sizes = self._sizes() if source is None else {
            **{name: source.module_.config[name] for name in ("width", "depth", "heads", "context")},
            "dropout": float(self.dropout),
        }  # fmt: skip
        make = partial(HeadNet, len(self.tokens_), **sizes, n_outputs=self._n_outputs(), reads=self.reads)  # fmt: skip
        return self._begin_with(make if source is None else partial(Transfer(source).begin, make))

    def _problem(self, data: Any) -> Any:
        from lemmata.nets.data.batches import Rows

        stopping = data.stopping
        learn = Rows(data.x, data.segments, data.y)
        learn.labels = None  # of tokens some have none
        return learn if stopping is None else learn.with_validation(
            Rows(stopping.x, stopping.segments, stopping.y)
        )  # fmt: skip

    def _statements(self: Any, data: Any) -> dict[str, Any]:
        found = {"loss_": self._stated_loss(data)}
        if data.kept is not None:
            losses, right = judge(self._run(data.kept), data.kept)
            found |= {"test_loss_": float(losses.mean()), "test_score_": float(right.mean())}
        return found

    def _stated_loss(self: Any, data: Any) -> float:
        some = data.rows(slice(0, STATED))
        return float(judge(self._run(some), some)[0].mean())

    # --- output ---

    def _run(self: Any, data: LabelledTexts) -> list[Array]:
        """The scores of each row: (classes,), (T, classes) or (2, T)."""
        import torch

        net = self._net()
        device = next(net.parameters()).device
        lengths = (data.x != PAD).sum(axis=1)
        order = np.argsort(lengths, kind="stable")
        found: list[Array] = [np.empty(0)] * len(order)
        step = max(1, AT_ONCE // data.x.shape[1])
        for at in range(0, len(order), step):
            some = order[at : at + step]
            width = int(lengths[some].max())
            x, segments = (torch.from_numpy(one[some, :width]).to(device) for one in (data.x, data.segments))  # fmt: skip
            with torch.no_grad():
                scores = net(x, segments, x != PAD).double().cpu().numpy()
            for row, one in zip(some, scores, strict=True):
                cut = (slice(None), slice(0, lengths[row])) if self.reads == "span" else slice(0, lengths[row])  # fmt: skip
                found[row] = one if self.reads == "text" else one[cut]
        return found

    def certify(
        self: Any, X, y=None, sample_weight=None, *, X_test=None, y_test=None, seconds=None
    ) -> Certificate:
        """Check every claim about this fit on X and y, the texts that it was fitted to.

        X_test, y_test : texts that it was not fitted to; without them, claims about new texts are checked on what was kept
        seconds : float, optional
            Time limit; claims that need more stay *not checked*. By default five times the work of the fit.
        """
        check_is_fitted(self)
        data = self._validate_pair(X, y, sample_weight, reset=False)
        if X_test is not None:
            data = replace(data, kept=self._tokenise(X_test, y_test)[0])
        given = {"test_given": X_test is not None}
        return self._certificate(data, seconds=seconds, claims=self.claims, attributes=given)


def judge(scores: list[Array], data: LabelledTexts) -> tuple[Array, Array]:
    """(labels,): −ln P of every label, and whether it is the likeliest."""
    losses, right = [], []
    for one, y in zip(scores, data.y, strict=True):
        rows, labels = np.atleast_2d(one), np.atleast_1d(y)[: len(np.atleast_2d(one))]
        counted = labels != IGNORED
        rows, labels = rows[counted], labels[counted]
        top = rows.max(axis=1, keepdims=True)
        logs = rows - top - np.log(np.exp(rows - top).sum(axis=1, keepdims=True))
        losses.append(-logs[np.arange(len(labels)), labels])
        right.append(logs.argmax(axis=1) == labels)
    return np.concatenate(losses), np.concatenate(right)


class TextClassifier(TextHead, TextNetwork, Classifier):
    """Classes of texts, or of pairs of texts, by a transformer that reads them from both sides.

    Minimises the mean of −ln P(class | text).

    Attributes
    ----------
    module_ : HeadNet
    tokens_ : Characters, Words or BytePairs, with the vocabulary of the fit or of `pretrained`
    classes_ : (c,)
    loss_ : float
        Nats per text; of the first 2,000 that were trained on.
    test_loss_, test_score_ : float
        Of the texts that were kept from training, where there are any: nats per text, and accuracy.
    n_features_in_ : the number of different tokens
    history_, n_iter_, trace_, stopped_, certificate_
    """

    pretrained: Any = PRETRAINED
    tokens: Any = TOKENS
    _: KW_ONLY
    test_fraction: float = TEST_ROWS
    batch_size: Any = parameter("auto", COUNT, choice("auto")).doc('Texts in an update; "auto" is 32.')  # fmt: skip
    max_iter: int = common.max_iter(5).doc("Epochs: times that the texts are read.")

    reads = "text"
    claims = TEXT_HEAD_CLAIMS
    stored: ClassVar[Mapping[str, str | type]] = {**TextNetwork.stored, "test_score_?": ""}

    def _read_texts(self, X: Any) -> list[Any]:
        if isinstance(X, (list, tuple)) and X and all(isinstance(one, tuple) and len(one) == 2 for one in X):  # fmt: skip
            first, second = (list(as_documents([one[i] for one in X])) for i in (0, 1))
            return list(zip(first, second, strict=True))
        return list(as_documents(X))

    def _row(self, text: Any) -> TextRow:
        a, b = text if isinstance(text, tuple) else (text, None)
        none = np.empty(0, np.int64)
        return TextRow(self.tokens_.encode(a), None if b is None else self.tokens_.encode(b), none, none)  # fmt: skip

    def _fit_into(self, rows: list[TextRow], longest: int) -> list[TextRow]:
        """Texts that are too long keep their beginnings; of pairs both, the shorter one whole where it fits into half."""
        found, cut = [], 0
        for row in rows:
            a, b = row.a, row.b
            room = longest - 2 - (b is not None)
            if len(a) + (0 if b is None else len(b)) > room:
                cut += 1
                if b is None:
                    a = a[:room]
                else:
                    a = a[: max(room // 2, room - len(b))]
                    b = b[: room - len(a)]
            found.append(row._replace(a=a, b=b))
        if cut:
            warn_user(
                f"{cut:,} of {len(rows):,} texts exceed the {longest:,} tokens that are read: their ends are left out.",
                UserWarning,
            )
        return found

    def _labels(self, y: Any, texts: list[Any], rows: list[TextRow], reset: bool, width: int) -> Array:  # fmt: skip
        targets = self._targets(y, reset)
        if len(targets) != len(texts):
            raise ValueError(f"{len(texts):,} texts and {len(targets):,} labels; pass as many.")
        return np.asarray(targets, np.int64)

    def predict_proba(self, X) -> Array:
        """(n, classes): the probability of each class."""
        check_is_fitted(self)
        return softmax(np.array(self._run(self._tokenise(X)[0])), axis=1)

    def predict(self, X) -> Array:
        """(n,): the most probable label."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
