"""Prompts: a language model as a classifier, by examples in its input (ML "GPT", in-context learning).

    P(answer | examples, query) ∝ Π_t P(token t of the answer | prompt, its tokens before)      among the answers that there are

Nothing is trained. The examples are written out by a template, one after the other, and the query like them up to its answer:

    Template("{x} is {y}.\\n")            "2 is even.\\n5 is odd.\\n4 is "  →  "even" or "odd"

Which template is best is a search on data, and has to be paid for: `choose_template` asks `trust.compare`.

>>> from lemmata import NGram
>>> model = NGram(order=8, test_fraction=0).fit(["sun is hot. ice is cold. tea is hot. snow is cold. "] * 20)
>>> prompted = Prompted(model, ["sun", "ice"], ["hot", "cold"], Template("{x} is {y}. "))
>>> prompted.prompt("tea"), prompted.predict(["tea", "snow"]).tolist()
('sun is hot. ice is cold. tea is ', ['hot', 'cold'])
>>> print(few_shot(model, ["sun", "ice"], ["hot", "cold"], ["tea", "snow"], ["hot", "cold"], Template("{x} is {y}. "), (0, 2)))
shots  right   95 %
    0   1.00   0.16 to 1.00
    2   1.00   0.16 to 1.00
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.utils.validation import check_is_fitted

from lemmata.core.loop import warn_user

Array = np.ndarray
SHOTS = (0, 1, 4, 8)
RISK = 0.05  # of each interval


@dataclass(frozen=True)
class Template:
    """The form of an example: `text` holds {x}, then {y}; `start` stands before all examples."""

    text: str = "{x}\n{y}\n\n"
    start: str = ""

    def __post_init__(self):
        once = self.text.count("{x}") == self.text.count("{y}") == 1
        if not once or self.text.index("{x}") > self.text.index("{y}"):
            raise ValueError(f"text={self.text!r}; write {{x}} once, and {{y}} once after it.")

    def write(self, x: str, y: str) -> str:
        """An example. (Braces in x and y stay as they are.)"""
        before, rest = self.text.split("{x}")
        between, after = rest.split("{y}")
        return before + x + between + y + after

    def ask(self, x: str) -> str:
        """The same up to its answer."""
        return self.write(x, "\0").split("\0")[0]


class Prompted:
    """A fitted language model with examples: predicts the likeliest answer. No further fit.

    Parameters
    ----------
    model : NGram or GPT
    X, y : texts and their answers, as many
    template : Template
    answers : list of texts, optional
        What may be predicted; by default the answers of the examples.
    """

    def __init__(
        self,
        model: Any,
        X: Sequence[str],
        y: Sequence[str],
        template: Template | str = Template(),  # noqa: B008
        answers: Iterable[str] | None = None,
    ):
        check_is_fitted(model)
        if not hasattr(model, "next_tokens"):
            raise TypeError(f"model is a {type(model).__name__}; pass a language model: NGram or GPT.")  # fmt: skip
        if len(X) != len(y):
            raise ValueError(f"{len(X):,} examples and {len(y):,} answers; pass as many.")
        self.model, self.X, self.y = model, list(X), [str(one) for one in y]
        self.template = Template(template) if isinstance(template, str) else template
        self.classes_ = np.unique([str(one) for one in (self.y if answers is None else answers)])
        if len(self.classes_) < 2:
            raise ValueError(f"the answers are {self.classes_.tolist()}: pass answers=, two and more.")  # fmt: skip

    def prompt(self, x: str) -> str:
        """All that the model reads before it answers."""
        examples = map(self.template.write, self.X, self.y)
        return self.template.start + "".join(examples) + self.template.ask(x)

    def predict_proba(self, X: Iterable[str]) -> Array:
        """(n, answers): the probability of every answer among all of them."""
        answers = [self.model.tokens_.encode(one) for one in self.classes_]
        found, cut = [], 0
        longest = getattr(getattr(self.model, "module_", None), "context", None)
        for x in X:
            prompt = self.model.tokens_.encode(self.prompt(x))
            room = None if longest is None else longest - max(map(len, answers))
            if room is not None and len(prompt) > room:
                cut += 1
                prompt = prompt[-room:]
            found.append(score_answers(self.model, prompt, answers))
        if cut:
            warn_user(
                f"{cut:,} of {len(found):,} prompts are longer than the {longest:,} tokens that the model looks back: their "
                "ends are kept.",
                UserWarning,
            )
        return softmax(np.array(found), axis=1)

    def predict(self, X: Iterable[str]) -> Array:
        """(n,): the most probable answer."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def score_answers(model: Any, prompt: Array, answers: Sequence[Array]) -> Array:
    """(answers,): ln P of each after the prompt, all of them side by side."""
    step = model._step(1)
    scores = np.repeat(step.feed(model.begin(prompt)[None]), len(answers), axis=0)
    longest = max(map(len, answers))
    table = np.zeros((len(answers), longest), np.int64)
    counted = np.zeros(table.shape, bool)
    for row, one in enumerate(answers):
        table[row, : len(one)], counted[row, : len(one)] = one, True
    found, rows = np.zeros(len(answers)), np.arange(len(answers))
    step.select(np.zeros(len(answers), np.int64))
    for t in range(longest):
        logs = log_softmax(model.only_possible(scores), axis=1)[rows, table[:, t]]
        found += np.where(counted[:, t], logs, 0.0)
        if t + 1 < longest:
            scores = step.feed(table[:, t : t + 1])
    return found


@dataclass(frozen=True)
class FewShot(Mapping):
    """The share of right answers by number of examples, with intervals at 95 % each (Clopper–Pearson)."""

    right: Mapping[int, float]
    interval: Mapping[int, tuple[float, float]]

    def __getitem__(self, shots: int) -> float:
        return self.right[shots]

    def __iter__(self):
        return iter(self.right)

    def __len__(self) -> int:
        return len(self.right)

    def __str__(self) -> str:
        rows = (f"{k:5}  {self[k]:5.2f}   {low:.2f} to {high:.2f}" for k, (low, high) in self.interval.items())  # fmt: skip
        return "\n".join(["shots  right   95 %", *rows])


def few_shot(
    model: Any,
    examples: Sequence[str],
    labels: Sequence[str],
    queries: Sequence[str],
    answers: Sequence[str],
    template: Template | str = Template(),  # noqa: B008
    shots: Sequence[int] = SHOTS,
    random_state: int = 0,
) -> FewShot:
    """Ask a language model with 0, 1, … examples before each query, drawn anew for each, and count right answers.

    Parameters
    ----------
    model : NGram or GPT
    examples, labels : texts to draw from, with their answers
    queries, answers : texts to ask, and what is right
    template : Template, or its text
    shots : numbers of examples
    """
    from lemmata.audit.kernel.concentration import clopper_pearson

    if len(queries) != len(answers) or not len(queries):
        raise ValueError(f"{len(queries):,} queries and {len(answers):,} answers; pass as many, one or more.")  # fmt: skip
    for k in shots:
        if not isinstance(k, Integral) or not 0 <= k <= len(examples):
            raise ValueError(f"shots={tuple(shots)}; pass whole numbers from 0 to {len(examples)}, the examples.")  # fmt: skip
    known = sorted({str(one) for one in [*labels, *answers]})
    right, interval = {}, {}
    for k in shots:
        rng, hits = np.random.default_rng((random_state, k)), 0
        for query, answer in zip(queries, answers, strict=True):
            some = rng.permutation(len(examples))[:k]
            chosen = [examples[i] for i in some], [labels[i] for i in some]
            hits += Prompted(model, *chosen, template, known).predict([query])[0] == str(answer)
        right[int(k)] = hits / len(queries)
        interval[int(k)] = clopper_pearson(int(hits), len(queries), RISK)
    return FewShot(right, interval)


def choose_template(
    model: Any,
    X: Sequence[str],
    y: Sequence[str],
    X_val: Sequence[str],
    y_val: Sequence[str],
    templates: Mapping[Any, Any] | Iterable[Template | str],
    delta: float = 0.05,
) -> Any:
    """Compare templates by how often their prompts, with the examples X and y, are right about other texts.

    Returns a `trust.Comparison`, which pays the price of the search."""
    from lemmata.trust import compare

    if not isinstance(templates, Mapping):
        templates = {getattr(one, "text", one): one for one in templates}
    known = sorted({str(one) for one in [*y, *y_val]})
    models = {name: Prompted(model, X, y, one, known) for name, one in templates.items()}
    # the examples stand in the prompts: they are what these models were trained on
    return compare(models, list(X_val), np.array([str(one) for one in y_val]), delta, train=list(X))  # fmt: skip
