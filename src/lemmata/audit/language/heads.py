"""Claims about heads on texts: right more often on held-out texts than counting.

What is counted, from the training rows: for texts, the tokens of each class (naive Bayes); for words, the most frequent label
of each token; for spans, the most frequent place. A network that reads whole texts and is no better has learned nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import discrepancy
from lemmata.audit.kernel.held_out import beats, mean_gain
from lemmata.audit.language.models import (
    RISK,
    claims_of_network,
    cost_of_rows,
    cost_of_tokens,
    kept_tokens,
    mean_of_all,
    stated_losses,
)
from lemmata.audit.language.ngrams import held_out, stated_test
from lemmata.audit.language.translations import sources_unseen

Array = np.ndarray
PAD, SPECIAL, IGNORED = 0, 6, -100
STATED, AT_ONCE = 2000, 64


class Answers(NamedTuple):
    """The losses of the labels of each row, and the labels that were likeliest."""

    losses: list[Array]
    likeliest: list[Array]


def answer_rows(fit: k.Fit, x: Array, segments: Array, y: Array) -> Answers:
    """Run the network itself on rows of tokens."""
    import torch

    net = fit.module_.eval()
    device, losses, likeliest = next(net.parameters()).device, [], []
    for at in range(0, len(x), AT_ONCE):
        part = slice(at, at + AT_ONCE)
        width = int((x[part] != PAD).sum(1).max(initial=1))
        given = [torch.from_numpy(np.ascontiguousarray(one[part, :width])).to(device) for one in (x, segments)]  # fmt: skip
        with torch.no_grad():
            logs = torch.log_softmax(net(*given, given[0] != PAD).double(), -1).cpu().numpy()
        for row, labels in zip(logs, y[part], strict=True):
            table = row.reshape(-1, row.shape[-1])
            labels = np.atleast_1d(labels)[: len(table)]
            own, known = table[labels != IGNORED], labels[labels != IGNORED]
            losses.append(-own[np.arange(len(known)), known])
            likeliest.append(own.argmax(axis=1))
    return Answers(losses, likeliest)


@k.fact(cost=lambda fit: cost_of_tokens(fit, kept_tokens(fit)))
def held_out_answers(fit: k.Fit) -> Answers:
    kept = held_out(fit)
    return answer_rows(fit, kept.x, kept.segments, kept.y)


# --- counting ---------------------------------------------------------------------------------------------------------


def by_naive_bayes(train: Any, new: Any) -> list[Array]:
    """argmax_c ln P(c) + Σ_tokens ln P(token | c), with one more of each token in each class."""
    n, c = int(max(train.x.max(), new.x.max())) + 1, int(train.y.max()) + 1
    counts = np.ones((c, n))
    for label in range(c):
        counts[label] += np.bincount(train.x[train.y == label].ravel(), minlength=n)
    logs = np.log(counts / counts.sum(axis=1, keepdims=True))
    logs[:, :SPECIAL] = 0
    prior = np.log(np.bincount(train.y, minlength=c) + 1.0)
    return [np.array([(prior + logs[:, row].sum(axis=1)).argmax()]) for row in new.x]


def by_token(train: Any, new: Any) -> list[Array]:
    """The most frequent label of each token; of tokens that were not seen, that of all."""
    known = train.y != IGNORED
    n, c = int(max(train.x.max(), new.x.max())) + 1, int(train.y.max()) + 1
    counts = np.bincount(train.x[known] * c + train.y[known], minlength=n * c).reshape(n, c)
    usual = np.where(counts.any(axis=1), counts.argmax(axis=1), counts.sum(axis=0).argmax())
    return [usual[tokens[labels != IGNORED]] for tokens, labels in zip(new.x, new.y, strict=True)]


def by_place(train: Any, new: Any) -> list[Array]:
    """The most frequent first and last places, counted from the beginning of the text."""
    begin = [one.segments.argmax(axis=1) for one in (train, new)]
    spans, often = np.unique(train.y - begin[0][:, None], axis=0, return_counts=True)
    return list(spans[often.argmax()] + begin[1][:, None])


def _compare(fit: k.Fit, counted: Callable[[Any, Any], list[Array]], name: str) -> k.Evidence:
    kept, found = held_out(fit), held_out_answers(fit)
    labels = [np.atleast_1d(one)[np.atleast_1d(one) != IGNORED] for one in kept.y]
    known = [i for i, one in enumerate(labels) if len(one)]
    whole = kept.y.ndim == 2 and kept.y.shape[1] == 2  # a span is right if both ends are
    share = (lambda right: float(right.all())) if whole else (lambda right: float(right.mean()))
    ours, theirs = (
        np.array([share(said[i] == labels[i]) for i in known])
        for said in (found.likeliest, counted(fit.data, kept))
    )
    if len(known) < 20:
        return k.unknown(f"{len(known)} held-out texts with labels; 20 are needed")
    note = f"{ours.mean():.4g} right, {name} {theirs.mean():.4g}; {len(known):,} texts"
    advice = f"{name} is as good: train longer, begin at a BERT, or use the simpler model"
    return beats(mean_gain(ours - theirs, RISK), note, advice, unit="gain in accuracy")


def _claim(sentence: str) -> Any:
    return k.statistical(
        sentence,
        "ML Self-supervised Learning",
        confidence=1 - RISK,
        cost=lambda fit: 20.0 * fit.data.size,
        needs=(held_out_answers,),
    )


@_claim(
    "held-out texts get the right class more often than by naive Bayes on the training texts' tokens"
)
def beats_naive_bayes(fit: k.Fit) -> k.Evidence:
    """Texts are taken as independent draws."""
    return _compare(fit, by_naive_bayes, "naive Bayes")


@_claim(
    "words of held-out texts get the right label more often, in the mean over texts, than by the most frequent label of "
    "each token"
)
def beats_usual_labels(fit: k.Fit) -> k.Evidence:
    """Texts are taken as independent draws."""
    return _compare(fit, by_token, "the usual label of each token")


@_claim("spans of held-out texts are found more often than by the most frequent place")
def beats_usual_place(fit: k.Fit) -> k.Evidence:
    """Texts are taken as independent draws; first and last token are each the likeliest."""
    return _compare(fit, by_place, "the usual place")


@k.rule_of_thumb(
    "at most 1 % of the held-out texts are training texts",
    "ML Generalization gap",
    cost=lambda fit: 2.0 * fit.data.size,
)
def texts_unseen(fit: k.Fit) -> k.Evidence:
    """Texts that are equal token by token."""
    return sources_unseen.check(fit)


def _statement_errors(fit: k.Fit) -> Mapping[str, float | None]:
    data, test = fit.data, lambda: mean_of_all(held_out_answers(fit).losses)
    some = answer_rows(fit, data.x[:STATED], data.segments[:STATED], data.y[:STATED])
    errors = stated_losses(fit, mean_of_all(some.losses), test)
    if stated_test(fit) is not None:
        said, labels = np.concatenate(held_out_answers(fit).likeliest), data.kept.y.ravel()
        right = float((said == labels[labels != IGNORED]).mean())
        # two classes of equal score may change places in another batch
        errors["test_score_"] = discrepancy(fit.test_score_, right, 1.0, 1e-3)
    return errors


TEXT_HEAD_CLAIMS, TOKEN_CLAIMS, SPAN_CLAIMS = (
    claims_of_network(_statement_errors, cost_of_rows(STATED), held_out_answers, main, texts_unseen)
    for main in (beats_naive_bayes, beats_usual_labels, beats_usual_place)
)
