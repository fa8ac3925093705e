"""NMF of what is known: holes do not count, planted parts fill them in; batches add up, and go on from a fit."""

import numpy as np
import pytest
import scipy.sparse as sp

import lemmata
from lemmata import text
from lemmata.completion import Observed
from lemmata.topics import NMF
from lemmata.topics.nmf.batches import BatchSums
from lemmata.topics.nmf.squares import FactorPenalty

LOSSES = ("frobenius", "kullback-leibler")


@pytest.fixture(scope="module")
def whole():
    rng = np.random.default_rng(0)
    return rng.gamma(0.5, size=(60, 3)) @ rng.gamma(0.5, size=(3, 20))


@pytest.fixture(scope="module")
def holes(whole):
    return np.where(np.random.default_rng(1).random(whole.shape) < 0.3, np.nan, whole)


# --- missing values ---


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_missing_is_filled_in_where_it_is_determined(whole, holes, loss):
    model = NMF(3, beta_loss=loss, tol=0.0, max_iter=400, random_state=0).fit(holes)
    guess, missing = model.inverse_transform(model.doc_topic_), np.isnan(holes)
    assert np.linalg.norm((guess - whole)[missing]) < 0.05 * np.linalg.norm(whole[missing])
    zeros = NMF(3, beta_loss=loss, random_state=0).fit(
        np.nan_to_num(holes)
    )  # as if they were known
    wrong = zeros.inverse_transform(zeros.doc_topic_)
    assert np.linalg.norm((wrong - whole)[missing]) > 0.3 * np.linalg.norm(whole[missing])


@pytest.mark.parametrize("loss", LOSSES)
def test_arrays_entries_masks_and_blocks_are_one_fit(holes, loss):
    fit = NMF(3, beta_loss=loss, max_iter=10, tol=0.0, random_state=0).fit
    first = fit(holes)
    entries = Observed.of(holes)
    masked = np.ma.masked_invalid(holes)
    for other in (fit(entries), fit(masked), fit([holes[:25], holes[25:]])):
        np.testing.assert_allclose(other.components_, first.components_, rtol=1e-8, atol=1e-12)
        assert other.reconstruction_err_ == pytest.approx(first.reconstruction_err_, rel=1e-8)
    there, here = (first.inverse_transform(first.transform(X)) for X in (entries, holes))
    close = 1e-6 if loss == "frobenius" else 1e-2  # EM stops at 1e-4 nats a unit
    np.testing.assert_allclose(there, here, atol=close * np.nanmax(holes))
    assert first.certify(entries)["statements_true"].verdict == "holds"
    assert first.certify(holes)["statements_true"].verdict == "holds"


def test_a_known_zero_is_no_hole():
    """Stored zeros of an Observed are known; the same matrix without them is another problem."""
    rows, columns = np.divmod(np.arange(12), 4)
    values = np.where(rows == columns, 1.0, 0.0)
    known = NMF(1, random_state=0).fit(Observed.from_triplets(rows, columns, values, (3, 4)))
    ones = values > 0
    free = NMF(1, random_state=0).fit(
        Observed.from_triplets(rows[ones], columns[ones], values[ones], (3, 4))
    )
    assert known.reconstruction_err_ == pytest.approx(np.sqrt(2))  # rank one of the identity
    assert free.reconstruction_err_ < 1e-4


@pytest.mark.parametrize("loss", LOSSES)
def test_without_holes_a_mask_changes_nothing(whole, loss):
    settings = {"beta_loss": loss, "max_iter": 10, "tol": 0.0, "init": "random", "random_state": 0}
    plain, known = NMF(3, **settings).fit(whole), NMF(3, **settings).fit(Observed.of(whole))
    np.testing.assert_allclose(known.components_, plain.components_, rtol=1e-8, atol=1e-12)


def test_rows_of_which_nothing_is_known_are_zero(holes):
    gone = holes.copy()
    gone[7] = np.nan
    model = NMF(3, tol=0.0, max_iter=20, random_state=0).fit(gone)
    assert (model.doc_topic_[7] == 0).all()
    with pytest.raises(ValueError, match="NaN only"):
        NMF(1).fit(np.full((4, 3), np.nan))
    with pytest.raises(ValueError, match=r"nndsvd.*values are missing"):
        NMF(3, init="nndsvd").fit(holes)
    with pytest.raises(ValueError, match="Negative values"):
        NMF(1).fit(Observed.of(np.array([[1.0, np.nan], [-2.0, 1.0]])))


# --- batches ---


@pytest.mark.parametrize("loss", LOSSES)
def test_batches_add_up_to_the_whole(whole, holes, loss):
    for data in (whole, sp.csr_array(whole), holes):
        model = NMF(3, beta_loss=loss, init="random", max_iter=3, tol=0.0, random_state=0).fit(data)
        V = np.ascontiguousarray(model.components_.T)

        def sums(part, W, model=model, V=V):
            table = model._problem(model._validate_rows(part, reset=False))
            return BatchSums.of(table, W, V, FactorPenalty())

        parts = sum(
            (sums(data[at], model.doc_topic_[at]) for at in (slice(0, 17), slice(17, 60))),
            BatchSums(),
        )
        assert parts.loss(V, FactorPenalty()) == pytest.approx(
            model.sums_.loss(V, FactorPenalty()), rel=1e-9
        )
        for name in ("counts", "slopes", "size", "weight"):
            np.testing.assert_allclose(getattr(parts, name), getattr(model.sums_, name), rtol=1e-9)
        np.testing.assert_allclose(parts.products.gram, model.sums_.products.gram, rtol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_batches_come_near_a_fit_of_the_whole(whole, loss, tmp_path):
    model = NMF(3, beta_loss=loss, init="random", random_state=0)
    errors = []
    for _ in range(6):
        for at in range(0, 60, 20):
            model.partial_fit(whole[at : at + 20])
        errors.append(np.linalg.norm(whole - model.inverse_transform(model.transform(whole))))
    # shares of early batches weigh on the divergence: it comes nearer more slowly
    assert errors[-1] < (0.1 if loss == "frobenius" else 0.25) * np.linalg.norm(whole)
    assert errors[-1] < errors[0]
    assert model.n_iter_ == 18
    assert model.stopped_ == "batches"
    found = model.certify(whole)
    assert "never_rose" in found.undecided
    lemmata.save(model, tmp_path / "m.lemma")
    back = lemmata.load(tmp_path / "m.lemma").partial_fit(whole[:20])
    np.testing.assert_array_equal(back.components_, model.partial_fit(whole[:20]).components_)


def test_a_fit_goes_on_with_batches(whole, holes):
    model = NMF(3, tol=0.0, max_iter=100).fit(whole[:40])
    before = model.components_.copy()
    model.partial_fit(whole[40:])
    assert not hasattr(model, "doc_topic_")
    assert np.abs(model.components_ - before).max() < 0.1 * before.max()  # it knew them already
    assert model.sums_.weight == 60
    model.partial_fit(holes)  # sums of (k, k) and of (m, k, k) add up too
    assert model.sums_.products.gram.shape == (20, 3, 3)
    with pytest.raises(ValueError, match="there are 3 to continue from"):
        model.set_params(n_components=4).partial_fit(whole)


# --- words ---


def test_words_come_along_with_counts():
    counts = text.counts(["cat dog cat", "dog cat pet", "loss risk fit", "fit loss loss"])
    model = NMF(2, random_state=0).fit(counts)
    assert sorted(map(sorted, model.top_words(2))) == [["cat", "dog"], ["fit", "loss"]]
    animals = [words[0] in ("cat", "dog") for words in model.top_words(1)].index(True)
    assert {document for document, *_ in model.documents_of(animals, 2)} == {0, 1}
    before = model._shares()
    model.components_, model.doc_topic_ = 10 * model.components_, model.doc_topic_ / 10
    np.testing.assert_allclose(model._shares(), before)  # no scale of the components changes them
