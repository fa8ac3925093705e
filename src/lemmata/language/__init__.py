"""Language models: texts as tokens, the next token from those before it, and what a text tells about another.

tokens.py, corpus.py    characters, words, byte pairs; texts as one array
counts.py, ngrams.py    interpolated Kneser–Ney: the model to beat
networks.py, gpt.py     GPT
corruption.py, bert.py  BERT: hidden words, and whether one part of a text follows another
heads.py, word_heads.py classes of texts; labels of words, spans that answer a question
prompts.py              a language model as a classifier, by examples in its input
translate.py            Translator: an encoder reads a text, a decoder writes another
base.py, sampling.py    what all have in common: perplexities, and drawing of texts
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "tokens": "Characters Words BytePairs",
        "corpus": "Corpus",
        "ngrams": "NGram",
        "counts": "KneserNey RunCounts",
        "gpt": "GPT",
        "bert": "BERT",
        "heads": "TextClassifier",
        "word_heads": "TokenClassifier SpanFinder",
        "translate": "Translator",
        "prompts": "Template Prompted FewShot few_shot choose_template",
        "networks": "GPTNet BERTNet HeadNet",
        "base": "TextPerplexity",
        "sampling": "shape_probabilities",
    },
    extra=("torch", "deep"),
)
