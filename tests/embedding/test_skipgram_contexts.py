"""What a word meets (windows, whole sentences, documents), and biases as clamped coordinates."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import lemmata
from lemmata import text
from lemmata.embedding import SkipGram
from lemmata.embedding.skipgram.contexts import SentenceContext, WindowedText

SMALL = {"vector_size": 8, "min_count": 1, "sample": 0, "alpha": 0.05, "epochs": 10, "random_state": 0}  # fmt: skip


def far_apart(n=200, seed=0):
    """Two words of one topic stand at the ends of a sentence, with twelve that say nothing in between."""
    rng = np.random.default_rng(seed)
    out = []
    for topic in rng.integers(0, 4, n):
        between = [f"x{i}" for i in rng.integers(0, 8, 12)]
        first, last = rng.integers(0, 3, 2)
        out.append([f"t{topic}a{first}", *between, f"t{topic}b{last}"])
    return out


def partners(model):
    """How often the nearest of the words that stand at ends has the same topic; the chance is 2/11 or so."""
    vectors = model.vectors_
    ends = [word for word in vectors.words if word.startswith("t")]
    score = lambda w, u: vectors.similarity(w, u)  # noqa: E731
    best = {w: max((u for u in ends if u != w), key=lambda u, w=w: score(w, u)) for w in ends}
    return np.mean([w[1] == u[1] for w, u in best.items()])


def test_a_sentence_as_context_joins_what_no_window_does():
    settings = {**SMALL, "epochs": 30}
    with lemmata.config(compile="always"):
        assert partners(SkipGram(window=2, **settings).fit(far_apart())) < 0.7
        assert partners(SkipGram(window=20, context="sentence", **settings).fit(far_apart())) > 0.9
        assert partners(SkipGram(window=3, context="sentence", **settings).fit(far_apart())) > 0.9


def test_pairs_of_whole_sentences_are_counted_as_they_are_drawn():
    sentences = [["a", "b", "a"], ["c"], [], ["a", "b", "c", "d", "e", "f", "a"]]
    encoded = text.encode(sentences)
    data = WindowedText(encoded, encoded.vocabulary.counts, window=2, context=SentenceContext())
    N = np.zeros((6, 6))
    for ids in encoded.sentences():
        weight = min(1, 4 / max(len(ids) - 1, 1))
        for i, w in enumerate(ids):
            for j, v in enumerate(ids):
                N[w, v] += weight * (i != j)
    np.testing.assert_allclose(data.pair_counts(True), N)


def test_windows_as_wide_as_sentences_are_the_sentence():
    sentences = far_apart(30)
    settings = {**SMALL, "objective": "softmax", "window": 20, "shrink_windows": False, "epochs": 2}
    wide = SkipGram(**settings).fit(sentences)
    whole = SkipGram(**settings, context="sentence").fit(sentences)
    assert whole.loss_ == pytest.approx(wide.loss_, rel=1e-4)


@pytest.mark.parametrize(("compile", "length"), [("never", 300), ("always", 3000)])
def test_documents_get_vectors_that_reach_the_optimum(compile, length):
    """ln[N_dv / (r N_d q_v)] is the best score of a document and a word; here nothing stands in its way."""
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.full(4, 3.0), 3)
    documents = [[f"w{i}" for i in rng.choice(4, length, p=p)] for p in chances] + [[]]
    model = SkipGram(
        6, context="document", min_count=1, sample=0, negative=2, epochs=30, alpha=0.05, min_alpha=1e-3, biases=True,
        random_state=0,
    )  # fmt: skip
    with lemmata.config(compile=compile):
        model.fit(documents)
    assert model.context_embedding_.shape == (4, 6)
    words = model.feature_names_in_.tolist()
    N = np.array([[one.count(word) for word in words] for one in documents[:3]])
    q = model.counts_**0.75 / (model.counts_**0.75).sum()
    best = np.log(N / (2 * N.sum(axis=1, keepdims=True) * q))
    scores = model.context_embedding_[:3] @ model.embedding_.T + model.biases_
    assert np.abs(scores - best).max() < 0.15
    assert model.certificate_["attributes_sound"].verdict == "holds"
    assert model.certify(documents).holds


def test_documents_are_neither_cut_nor_mixed_up(monkeypatch, tmp_path):
    long = [["p", "q"] * 6000, ["r", "s"] * 40, [], ["p", "r"] * 30]
    settings = {**SMALL, "context": "document", "epochs": 3, "deterministic": True}
    with lemmata.config(compile="always"):
        model = SkipGram(**settings).fit(long)
        assert len(model.context_embedding_) == 4
        monkeypatch.setattr("lemmata.text.encoded.BLOCK", 50)  # one block for each, as it happens
        blocks = SkipGram(**settings).fit(long)
    assert np.array_equal(model.context_embedding_, blocks.context_embedding_)
    lemmata.save(model, tmp_path / "m")
    assert np.array_equal(lemmata.load(tmp_path / "m").context_embedding_, model.context_embedding_)
    old = model.context_embedding_
    model.partial_fit([["p", "q", "r"] * 9, ["new", "s"] * 9])
    assert np.array_equal(model.context_embedding_[:4], old)
    assert len(model.context_embedding_) == 6
    assert "new" in model.vectors_


# --- biases by clamping -----------------------------------------------------------------------------------------------


def chain(seed=3, n=200):
    rng = np.random.default_rng(seed)
    step, words = rng.dirichlet(np.full(5, 2.0), 5), [0]
    for _ in range(n):
        words.append(int(rng.choice(5, p=step[words[-1]])))
    return [[f"w{i}" for i in words]]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("compile", ["never", "always"])
def test_a_clamped_coordinate_is_a_bias(tied, compile):
    """Of k numbers one is 1 in every ζ: the same run as one of k − 1 numbers and a bias, bit for bit."""
    settings = {**SMALL, "deterministic": True, "epochs": 2, "tied": tied}
    with lemmata.config(compile=compile):
        apart = SkipGram(**{**settings, "vector_size": 3}, biases=True).fit(chain())
        joined = SkipGram(**{**settings, "vector_size": 4}, biases="clamped").fit(chain())
    assert (joined.embedding_[:, 0] == 1).all()
    assert np.array_equal(joined.context_embedding_[:, 0], apart.biases_)
    assert np.array_equal(joined.embedding_[:, 1:], apart.embedding_)
    assert (joined.biases_ == 0).all()
    assert joined.loss_ == apart.loss_
    S = apart.embedding_ @ apart.context_embedding_.T + apart.biases_
    np.testing.assert_allclose(joined.embedding_ @ joined.context_embedding_.T, S, rtol=1e-5)
    assert joined.vectors_.vector_size == 3
    joined.partial_fit(chain(4))
    assert (joined.embedding_[:, 0] == 1).all()
    with pytest.raises(ValueError, match="clamped"):
        joined.set_params(biases=True).partial_fit(chain(4))


@pytest.mark.parametrize("tied", [False, True])
def test_clamping_and_biases_have_one_optimum(tied):
    """By descent on the expected loss of negative sampling, written again here: with a mask, and with biases."""
    encoded = text.encode(chain())
    N = WindowedText(encoded, encoded.vocabulary.counts, window=2).pair_counts(False)
    v, k = len(N), 2
    q = encoded.vocabulary.counts**0.75 / (encoded.vocabulary.counts**0.75).sum()
    M = 2 * N.sum(axis=1, keepdims=True) * q

    def clamped(x):
        X, Z = x.reshape(2, v, k + 1)
        Z = np.concatenate([Z[:, :1], X[:, 1:]], axis=1) if tied else Z
        S = X @ Z.T
        D = M * expit(S) - N * expit(-S)
        dX, dZ = D @ Z, D.T @ X
        if tied:
            dX[:, 1:] += dZ[:, 1:]
            dZ[:, 1:] = 0
        dX[:, 0] = 0  # clamped
        return (N * np.logaddexp(0, -S) + M * np.logaddexp(0, S)).sum(), np.stack([dX, dZ]).ravel()

    def biased(x):
        X, Z, b = x[: v * k].reshape(v, k), x[v * k : 2 * v * k].reshape(v, k), x[2 * v * k :]
        Z = X if tied else Z
        S = X @ Z.T + b
        D = M * expit(S) - N * expit(-S)
        dX, dZ = D @ Z, D.T @ X
        parts = (dX + dZ, 0 * dZ, D.sum(axis=0)) if tied else (dX, dZ, D.sum(axis=0))
        loss = (N * np.logaddexp(0, -S) + M * np.logaddexp(0, S)).sum()
        return loss, np.concatenate([part.ravel() for part in parts])

    rng = np.random.default_rng(0)
    E, Z, b = rng.normal(size=(v, k)), rng.normal(size=(v, k)), rng.normal(size=v)
    one = np.stack([np.c_[np.ones(v), E], np.c_[b, E if tied else Z]]).ravel()
    other = np.concatenate([E.ravel(), Z.ravel(), b])
    assert clamped(one)[0] == pytest.approx(biased(other)[0], rel=1e-12)
    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
    ends = [
        minimize(f, x, jac=True, method="L-BFGS-B", options=options)
        for f, x in ((clamped, one), (biased, other))
    ]
    assert (ends[0].x.reshape(2, v, k + 1)[0, :, 0] == 1).all()
    assert ends[0].fun == pytest.approx(ends[1].fun, rel=1e-6)
    assert ends[0].fun < 0.999 * clamped(one)[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"biases": "clamped", "vector_size": 1}, "vector_size >= 2"),
        ({"biases": "yes"}, "biases"),
        ({"context": "paragraph"}, "context"),
        ({"context": "document", "sg": False}, "document"),
        ({"context": "document", "max_n": 3}, "document"),
        ({"context": "document", "tied": True}, "document"),
        ({"context": "document", "objective": "softmax"}, "document"),
    ],
)
def test_contexts_and_biases_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SkipGram(**{**SMALL, **settings}).fit(chain())
