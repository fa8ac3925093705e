"""Language models from a shell."""

import json

from cli_invoke import invoke


def test_a_text_is_fitted_certified_and_continued(tmp_path):
    corpus, saved = tmp_path / "corpus.txt", tmp_path / "m.lemma"
    corpus.write_text("the cat sat on the mat\nthe dog sat on the rug\n" * 40)
    out = invoke("fit", "ngram", corpus, "--set", "order=4", "--save", saved)
    assert out.startswith("NGram  1,")
    text = invoke("sample", saved, "--prompt", "the c", "--length", 6, "--temperature", 0)
    assert text.startswith("the c")
    assert len(text) == len("the c") + 6 + 1
    assert text == invoke("sample", saved, "--prompt", "the c", "--length", 6, "--temperature", 0)
    found = json.loads(invoke("sample", saved, "--length", 30, "--seed", 1, "--json"))
    assert len(found["text"]) <= 30
    small = [f"--set={one}" for one in ("width=8", "depth=1", "heads=2", "context=16", "max_iter=1")]  # fmt: skip
    assert invoke("fit", "gpt", corpus, *small, "--save", saved).startswith("GPT  1,")
    assert invoke("sample", saved, "--prompt", "the", "--length", 5).startswith("the")
