"""The texts that figures about words are drawn from: WikiText-2 where it is found, and otherwise one generated from a plan.

A generated sentence is a word w and the company it keeps, drawn from

    p(v | w) ∝ p(v) exp(a_group(w),v + b_root(w),v + c_form(w),v)

A word has a group (animals), a root (cat) and a form (one, many). Its information about v is then a sum over what the word
is made of, so that theory knows what vectors should look like: groups stand together, and from one to many it is the same
way for all roots.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lemmata import text
from lemmata.text.encoded import EncodedText

GROUPS = {
    "animals": "cat dog horse cow goat",
    "tools": "saw drill hammer chisel lathe",
    "fruit": "apple pear plum fig lemon",
    "trees": "oak elm pine palm maple",
    "vessels": "ship boat raft canoe barge",
}
# what any reader knows to belong together, in an order that means nothing
KNOWN = {
    "april": "january february march april may june july august september october november december",
    "four": "one two three four five six seven eight nine ten eleven twelve",
    "daughter": "father mother brother sister son daughter wife husband uncle aunt cousin nephew parents",
    "blue": "red blue green yellow black white brown orange purple grey gray pink colour color colored",
    "eastern": "north south east west northern southern eastern western northeast northeastern northwest "
    "northwestern southeast southeastern southwest southwestern central",
    "guitar": "guitar guitars drums bass piano vocals keyboards violin drum percussion synthesizer keyboard instrumentation "
    "acoustic saxophone trumpet cello organ tambourine",
}  # fmt: skip
COUPLES = (
    "he she, his her, himself herself, man woman, men women, king queen, father mother, son daughter, brother sister, "
    "husband wife, boy girl, actor actress, sons daughters, male female, prince princess"
)


@dataclass(frozen=True)
class LabelledText:
    """A text with the kinds of some of its words."""

    name: str  # for titles; "generated" where WikiText-2 is not here
    encoded: EncodedText
    sets: dict[str, list[str]]  # for each word of interest, all words of its kind
    pairs: list[tuple[str, str]]  # words that differ in one thing

    @property
    def generated(self) -> bool:
        return "generated" in self.name


def corpus(seed: int = 0) -> LabelledText:
    """WikiText-2, or a generated text where its file is not found."""
    from lemmata.data import DataNotFound

    try:
        return wikitext()
    except DataNotFound:
        return generate_text(seed)


def wikitext() -> LabelledText:
    """WikiText-2; a line is a sentence."""
    from lemmata.data.sets import SOURCES

    encoded = _encode(str(SOURCES["wikitext-2"].find("train.txt.gz")))
    pairs = [tuple(pair.split()) for pair in COUPLES.split(", ")]
    here = [(a, b) for a, b in pairs if a in encoded.vocabulary and b in encoded.vocabulary]
    sets = {word: alike.split() for word, alike in KNOWN.items()}
    return LabelledText("WikiText-2", encoded, sets, here)


@lru_cache(maxsize=1)
def _encode(path: str) -> EncodedText:
    from lemmata.data import wikitext_2

    (running,) = wikitext_2("train").texts
    return text.encode(running.splitlines(), min_count=5)


def generate_text(seed: int = 0, sentences: int = 5000, contexts: int = 120) -> LabelledText:
    """Sentences of a word, two or three of its contexts on either side; words and contexts by Zipf's law."""
    rng = np.random.default_rng(seed)
    roots = [root for group in GROUPS.values() for root in group.split()]
    size = len(roots) // len(GROUPS)
    effects = [
        np.repeat(rng.normal(0, 1.5, (len(GROUPS), contexts)), 2 * size, axis=0),
        np.repeat(rng.normal(0, 0.5, (len(roots), contexts)), 2, axis=0),
        np.tile(rng.normal(0, 0.8, (2, contexts)), (len(roots), 1)),
    ]
    usual = 1 / (np.arange(contexts) + 5)
    chances = usual * np.exp(sum(effects))
    chances /= chances.sum(axis=1, keepdims=True)
    often = 1 / (rng.permutation(len(chances)) + 10)
    chosen = rng.choice(len(chances), sentences, p=often / often.sum())
    drawn = rng.random((sentences, 6, 1)) > np.cumsum(chances, axis=1)[chosen][:, None, :]
    around = np.minimum(drawn.sum(axis=2), contexts - 1)
    words = [root + form for root in roots for form in ("", "s")]
    names = [f"v{j}" for j in range(contexts)]
    lines = [
        [*(names[j] for j in row[:3]), words[w], *(names[j] for j in row[3:])]
        for w, row in zip(chosen.tolist(), around.tolist(), strict=True)
    ]
    groups = {
        group: [r + f for r in row.split() for f in ("", "s")] for group, row in GROUPS.items()
    }
    sets = {row[0]: row for row in groups.values()}
    encoded = text.encode(lines, min_count=2)
    return LabelledText("a generated text", encoded, sets, [(root, root + "s") for root in roots])
