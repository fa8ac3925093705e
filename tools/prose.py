"""Plain English, counted: sentences of at most 40 words, 18 on average, lines of at most 120 columns, no words that few use.

    python -m tools.prose [PAGE…]     complaints with file and line; all hand-written pages without names
    python -m tools.prose --count     the words of each page, generated parts left out

Code, formulas and generated parts are left out. A table row may be wide, since Markdown cannot break one.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).parents[1]
LONGEST, USUAL, WIDEST = 40, 18, 120
# pages that a program writes; of the others, the parts that it writes stand between comments
GENERATED = {"from-scikit-learn.md", "models.md", "atlas.md"}
INSTEAD = {
    r"dear(er|est)?": "expensive", "learnt": "learned", "costly": "expensive", "anew": "again",
    "mend(s|ed)?": "fix", "whilst": "while", "thereby": "so", "hence": "so", "thus": "so",
    "wherein": "in which", "thereof": "of it", "herein": "here", "amongst": "among",
    "utili[sz]e[sd]?": "use", "is told": "is given, or reads", "are told": "are given, or read",
    "told apart": "distinguished", "'s clothes": "interface", "of late": "recently",
    "stands? beside": "stands next to", "set beside": "compared with", "held beside": "compared with",
}  # fmt: skip
DISLIKED = re.compile(rf"\b({'|'.join(INSTEAD)})\b", re.I)


def pages() -> list[Path]:
    """Every page that is written by hand."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if path.name not in GENERATED]


def blank_out(text: str) -> str:
    """The text with code and generated parts as empty lines: what remains keeps its line."""
    for pattern in (
        r"^<!-- (\w+)[^\n]*generated.*?^<!-- /\1 -->",
        r"^( *)(```|:::)\{?(?:toctree|list-table).*?^\1\2",
        r"^( *)```.*?^\1```",
        r"(?<=\n)\n(?: {4,}[^\n]*\n)+",
    ):
        text = re.sub(pattern, lambda m: "\n" * m[0].count("\n"), text, flags=re.S | re.M)
    return re.sub(r"<[^<>\n]{3,}>", " ", text)


def read_pieces(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, list items, headings and cells of tables, each with its line."""
    begin, piece = 0, ""
    for number, line in enumerate([*blank_out(text).split("\n"), ""], 1):
        line = line.rstrip()
        starts = re.match(r"\s*([-*] |\d+\. |#+ |:::|\|)", line)
        if piece and (not line or starts):
            yield begin, piece
            piece = ""
        if line.lstrip().startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line):
                yield number, cell
        elif line.startswith("#"):
            yield number, line.strip("# ")
        elif line and not line.startswith(":::"):
            begin = begin if piece else number
            piece += " " + re.sub(r"^\s*([-*]|\d+\.) ", "", line)


def read_sentences(text: str) -> Iterator[tuple[int, str]]:
    """Sentences, each with the line where its paragraph begins; code and links are one word."""
    for number, piece in read_pieces(text):
        piece = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", piece)
        piece = re.sub(r"`[^`]*`", "Code", piece).replace("*", "")
        piece = re.sub(r"\b(e\.g|i\.e|cf|etc|vs|Ex|Thm|Prop|Cor|al|s|no)\. ", r"\1 ", piece)
        for sentence in re.split(r"(?<=[.?!])[)”\"]?\s+(?=[^a-z\s])", piece):
            if len(count_words(sentence)) > 1:
                yield number, " ".join(sentence.split())


def count_words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_][\w’'-]*", text)


def complain(text: str, where: str) -> Iterator[str]:
    """What is hard to read in a text, with its lines."""
    lengths = []
    for number, sentence in read_sentences(text):
        lengths.append(len(count_words(sentence)))
        if lengths[-1] > LONGEST:
            yield f"{where}:{number}: a sentence of {lengths[-1]} words: {sentence[:60]} …"
    full = [length for length in lengths if length > 3]  # cells and headings are no sentences
    if full and mean(full) > USUAL:
        yield f"{where}:1: {mean(full):.1f} words a sentence on average"
    for number, line in enumerate(blank_out(text).split("\n"), 1):
        if len(line) > WIDEST and not line.lstrip().startswith("|"):
            yield f"{where}:{number}: {len(line)} columns"
        for found in DISLIKED.finditer(re.sub(r"`[^`]*`|\"[^\"]*\"", "", line)):
            meant = next(new for old, new in INSTEAD.items() if re.fullmatch(old, found[0], re.I))
            yield f"{where}:{number}: {found[0]}: write {meant}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.prose", description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--count", action="store_true", help="count words instead")
    asked = parser.parse_args()
    total = 0
    for path in asked.pages or pages():
        text, name = path.read_text(), str(path.resolve().relative_to(ROOT))
        if asked.count:
            words = len(re.sub(r"(?s)<!-- (\w+)[^\n]*generated.*?<!-- /\1 -->", "", text).split())
            total += words
            print(f"{words:6,} {name}")
        else:
            found = list(complain(text, name))
            total += len(found)
            print(*found, sep="\n", end="\n" * bool(found))
    print(f"{total:,} {'words' if asked.count else 'complaints'}", file=sys.stderr)
    return 1 if total and not asked.count else 0


if __name__ == "__main__":
    sys.exit(main())
