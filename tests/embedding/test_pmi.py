"""PMI: the information of pairs, its best factorisation, and what may be passed in."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lemmata
from lemmata.embedding import PMI, CoOccurrence
from lemmata.embedding.pmi.matrix import information
from lemmata.text import encode


def groups(seed: int = 0, sentences: int = 400):
    """Sentences of eight words, each of one of four groups of ten words."""
    rng = np.random.default_rng(seed)
    which = rng.integers(4, size=sentences)
    return [[f"g{g}w{j}" for j in rng.integers(10, size=8)] for g in which]


def test_information_is_the_logarithm_of_observed_over_expected():
    N = CoOccurrence.of(encode(groups()), 3).matrix
    p = N.toarray() / N.sum()
    with np.errstate(divide="ignore"):
        wanted = np.log(p / np.multiply.outer(p.sum(axis=1), p.sum(axis=0)))
    assert_allclose(information(N).toarray(), np.maximum(wanted, 0), atol=1e-12)
    signed = information(N, shift=0.7, positive=False).toarray()
    assert_allclose(signed[N.toarray() > 0], wanted[N.toarray() > 0] - 0.7, atol=1e-12)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_factors_are_those_of_the_singular_value_decomposition(power):
    text = encode(groups())
    model = PMI(4, window=3, weighting="flat", power=power, min_count=1, random_state=0).fit(text)
    M = information(CoOccurrence.of(text, 3).matrix, exponent=0.75).toarray()
    U, s, Vt = np.linalg.svd(M)
    assert_allclose(model.singular_values_, s[:4], rtol=1e-4)
    best = (U[:, :4] * s[:4]) @ Vt[:4]
    assert_allclose(model.embedding_ @ model.context_embedding_.T, best, atol=2e-3)
    assert model.certify(text).failed == []


def test_words_of_a_group_are_neighbours():
    model = PMI(8, min_count=1, random_state=0).fit(groups())
    for word in ("g0w3", "g2w7"):
        near = [other for other, _ in model.vectors_.nearest(word, n=5)]
        assert all(other[:2] == word[:2] for other in near)


def test_a_turned_component_is_found_out_and_a_saved_model_is_the_same(tmp_path):
    text = encode(groups())
    model = PMI(5, min_count=1, random_state=0).fit(text)
    lemmata.save(model, tmp_path / "v.lemma")
    assert_allclose(lemmata.load(tmp_path / "v.lemma").embedding_, model.embedding_, atol=0)
    model.components_ = model.components_.copy()
    model.components_[0, 0] += 0.5
    assert "orthonormal_basis" in model.certify(text).failed


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="vector_size=100 for 40 words"):
        PMI(min_count=1).fit(groups())
    with pytest.raises(ValueError, match="shift=50"):
        PMI(3, shift=50.0, min_count=1).fit(groups())
    with pytest.raises(ValueError, match="no word"):
        PMI(3).fit([""])


def test_few_words_are_decomposed_whatever_n_iter_is():
    """Equal sentences of six words: no product was made with n_iter=0, so that vectors had no numbers and claims stumbled."""
    texts = [["a", "b", "c", "d", "e", "f"]] * 10
    none, some = (
        PMI(vector_size=3, min_count=1, n_iter=n_iter, random_state=0).fit(texts)
        for n_iter in (0, 5)
    )
    np.testing.assert_array_equal(none.embedding_, some.embedding_)
    assert none.embedding_.shape == (6, 3)
    assert not [claim.name for claim in none.certify(texts).claims if claim.verdict == "broken"]
