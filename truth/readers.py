"""Networks that read both sides of a text, with heads, or write another: scores by hand, truth by construction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from lemmata.audit.language.heads import SPAN_CLAIMS, TEXT_HEAD_CLAIMS, TOKEN_CLAIMS
from lemmata.audit.language.masked import BERT_CLAIMS
from lemmata.audit.language.translations import TRANSLATOR_CLAIMS
from lemmata.core.certificate import Fit
from lemmata.core.certification.checking import check
from lemmata.language.corruption import join_segments
from lemmata.language.heads import LabelledTexts
from lemmata.language.tokens import EOS, FIRST, Characters
from lemmata.language.translate import Translations
from truth.harness import Case, problems
from truth.language import LETTERS, Source, corpus_of

SURE = 4.0  # score of what a network says, the others having 0


class Written(nn.Module):
    """Scores by a function of the inputs."""

    def __init__(self, scores: Callable[..., torch.Tensor], **shown: Any):
        super().__init__()
        self.scores, self.scale = scores, nn.Parameter(torch.ones(()))
        for name, value in shown.items():
            setattr(self, name, value)

    def forward(self, *inputs):
        return self.scores(*inputs) * self.scale


def judge(claims, net, data, coder, *names):
    chosen = [one for one in claims if one.name in names]
    attributes = {"module_": net, "tokens_": coder, "n_features_in_": len(coder)}
    return check(chosen, Fit(None, data, attributes=attributes), "reader")


def sure_of(answers: torch.Tensor, n: int) -> torch.Tensor:
    return SURE * nn.functional.one_hot(answers, n).double()


def labelled(rows, y, coder, held):
    x, segments = join_segments(rows)
    data = LabelledTexts(x, segments, y, coder)
    return replace(data.rows(slice(held, None)), kept=data.rows(slice(0, held)))


CODER = Characters().learn([LETTERS])


@problems(seeds=20, quick=1)
def heads(seed):
    """Classes by the order of letters, which naive Bayes cannot see, nor the usual label: read, guessed, by letters alone."""
    rng, n, held = np.random.default_rng(seed), 600, 250
    letters = FIRST + np.array([rng.permutation(12)[:8] for _ in range(n)])
    flips = rng.random(n) < 0.15
    y = (letters[:, 0] < letters[:, 1]) ^ flips
    rows = [(one, None) for one in letters]

    def case(label, claims, main, scores, data, truth):
        found = judge(claims, Written(scores), data, CODER, main, "texts_unseen")
        return Case(label, found, {main: truth, "texts_unseen": True}, easy=("texts_unseen", *[main] * truth))  # fmt: skip

    texts = labelled(rows, y.astype(np.int64), CODER, held)
    read = lambda x, *_: sure_of((x[:, 1] < x[:, 2]).long(), 2)  # noqa: E731
    guess = lambda x, *_: sure_of(x.sum(1) % 2, 2)  # noqa: E731
    yield case("texts, read", TEXT_HEAD_CLAIMS, "beats_naive_bayes", read, texts, True)
    yield case("texts, guessed", TEXT_HEAD_CLAIMS, "beats_naive_bayes", guess, texts, False)

    # of a word: whether it comes after a larger one; the usual label of a letter knows half of that
    tags = np.full((n, 10), -100)
    tags[:, 2:9] = letters[:, 1:] < letters[:, :-1]
    words = labelled(rows, tags, CODER, held)

    def after(x, *_):
        return sure_of(nn.functional.pad((x[:, 1:] < x[:, :-1]).long(), (1, 0)), 2)

    def alone(x, *_):  # the usual label of a letter, as counting finds it
        return sure_of((x < FIRST + 6).long(), 2)

    yield case("words, read", TOKEN_CLAIMS, "beats_usual_labels", after, words, True)
    yield case("words, alone", TOKEN_CLAIMS, "beats_usual_labels", alone, words, False)

    # the letter of the question, in the text
    places = rng.integers(8, size=n)
    pairs = [(row[[at]], row) for row, at in zip(letters, places, strict=True)]
    spans = labelled(pairs, np.repeat(places[:, None] + 3, 2, axis=1), CODER, held)

    def look(x, segments, *_):
        hit = ((x == x[:, 1:2]) & (segments == 1)).double()
        return SURE * torch.stack([hit, hit], 1)

    def first(x, segments, *_):
        return SURE * torch.stack([torch.eye(x.shape[1])[3].expand(x.shape)] * 2, 1).double()

    yield case("spans, found", SPAN_CLAIMS, "beats_usual_place", look, spans, True)
    yield case("spans, the first", SPAN_CLAIMS, "beats_usual_place", first, spans, False)
    for copies, truth in ((1, True), (10, False)):
        seen = texts.kept.rows(slice(0, copies))
        both = replace(texts, x=np.vstack([texts.x, seen.x]), y=np.append(texts.y, seen.y))
        found = judge(TEXT_HEAD_CLAIMS, None, both, CODER, "texts_unseen")
        yield Case(f"{copies} of {held} seen", found, {"texts_unseen": truth}, ("texts_unseen",))


@problems(seeds=20, quick=1)
def translations(seed):
    """Targets that are their sources, 15 % of letters another: copied, guessed, by looking at the target itself."""
    rng, n, held = np.random.default_rng(seed), 500, 200
    source = rng.integers(12, size=(n, 6))
    target = np.where(rng.random(source.shape) < 0.15, rng.integers(12, size=source.shape), source)
    texts = [["".join(LETTERS[i] for i in row) for row in side] for side in (source, target)]
    parts = [Translations.of(texts[0][cut], texts[1][cut], CODER) for cut in (slice(held, n), slice(0, held))]  # fmt: skip
    data, V = replace(parts[0], kept=parts[1]), len(CODER)
    names = ("beats_targets_alone", "source_matters", "causal", "sources_unseen")

    def copied(x, written):
        return sure_of(x[:, : written.shape[1]], V) + 0.1 * sure_of(written, V)

    def guessed(x, written):
        return 0.1 * sure_of(written, V) + sure_of(torch.full_like(written, EOS), V) / 9

    def ahead(x, written):
        return guessed(x, written) + sure_of(nn.functional.pad(written, (0, 1))[:, 1:], V)

    for label, scores, reads, truth in (
        ("copied", copied, True, True),
        ("guessed", guessed, False, True),
        ("looks ahead", ahead, False, False),
    ):
        found = judge(TRANSLATOR_CLAIMS, Written(scores, context=8), data, CODER, *names)
        truths = {names[0]: reads, names[1]: reads, "causal": truth, "sources_unseen": True}
        yield Case(label, found, truths, easy=names if reads else names[2:])
    for copies, truth in ((1, True), (10, False)):
        seen = data.kept.rows(slice(0, copies))
        mixed = replace(data, x=np.vstack([data.x, seen.x]), y=np.vstack([data.y, seen.y]))
        found = judge(TRANSLATOR_CLAIMS, None, mixed, CODER, "sources_unseen")
        yield Case(f"{copies} of {held} seen", found, {"sources_unseen": truth}, ("sources_unseen",))  # fmt: skip


class BothSides(nn.Module):
    """A source as a network of hidden words: P(w | left, right), or by the left one alone; [CLS] tells what follows."""

    def __init__(self, source: Source, coder: Characters, right: bool, joins: bool):
        super().__init__()
        self.logs = nn.Parameter(torch.from_numpy(np.log(source.P)))
        self.letters = torch.from_numpy(coder.points - ord("a")).long()
        self.context, self.config = 32, {"n_tokens": len(coder), "next_sentence": 1.0}
        self.right, self.joins = right, joins

    def body(self, x, segments=None, padding=None):
        known, z = x >= FIRST, self.logs.new_full((*x.shape, len(self.letters) + FIRST), -20.0)
        letter = torch.where(known, self.letters[(x - FIRST).clamp(min=0)], 0)
        before, after = (nn.functional.pad(one, (1, 1)) for one in (letter, known))
        left, right = before[:, :-2], before[:, 2:]
        scores = torch.where(after[:, :-2, None], self.logs[left], 0)
        if self.right:
            scores = scores + torch.where(after[:, 2:, None], self.logs.T[right], 0)
        z[..., FIRST:] = scores[..., self.letters]
        if segments is not None:
            at = segments.argmax(1)[
                :, None
            ]  # the first letter of b; two places before it the last one of a
            a, b = letter.gather(1, at - 2)[:, 0], letter.gather(1, at)[:, 0]
            z[:, 0, 0] = self.logs[a, b] - self.logs[:, b].exp().mean(0).log()
        return z

    def word_scores(self, z):
        return z

    def follows(self, z):
        return z[:, :1] if self.joins else z[:, :1] * 0 - 1


@problems(seeds=20, quick=1)
def hidden_words(seed):
    """Both neighbours of a hidden letter, or the left one alone; parts that are joined by their letters, or never."""
    source = Source(1, seed, letters=6)
    data = corpus_of(source.draw(40_000), 0.6)
    for right in (True, False):
        net = BothSides(source, data.coder, right, joins=right)
        truths = {"beats_left_ngrams": right, "tells_next": right}
        found = judge(BERT_CLAIMS, net, data, data.coder, *truths)
        yield Case("both sides" if right else "left side", found, truths, tuple(truths) * right)
