"""Claims about codes and learnt atoms: each holds once and fails once, on fits of ours and of scikit-learn."""

import numpy as np
import pytest
from sklearn.decomposition import (
    DictionaryLearning,
    MiniBatchDictionaryLearning,
    SparseCoder,
)
from sklearn.linear_model import OrthogonalMatchingPursuit

import lemmata
from lemmata.audit.reduction.coded_rows import dual_values
from lemmata.audit.reduction.sparse_codes import babel
from lemmata.reduction.sparse_coding import dct_dictionary, random_dictionary, witness

BASES = np.concatenate([np.eye(32), dct_dictionary(32)])  # μ = √(2/32) = ¼


def exact(D, s, n=8, seed=0):
    rng = np.random.default_rng(seed)
    Z = np.zeros((n, len(D)))
    for z in Z:
        z[rng.choice(len(D), s, replace=False)] = rng.choice([-1.0, 1.0], s)
    return Z @ D


def test_the_babel_function_is_the_largest_sum_over_sets_of_atoms():
    D = random_dictionary(6, 7, random_state=0)
    G = D @ D.T
    off = np.sort(np.abs(G - np.eye(7)), axis=1)[:, ::-1]
    found = babel(G.copy(), 6)
    assert found[0] == 0
    for m in range(1, 7):
        assert found[m] == pytest.approx(off[:, :m].sum(axis=1).max())
    assert (found <= np.arange(7) * np.abs(G - np.eye(7)).max() + 1e-12).all()


def test_a_dual_value_is_below_every_primal():
    rng = np.random.default_rng(0)
    D, x, alpha = random_dictionary(8, 15, random_state=0), rng.normal(size=8), 0.3
    for _ in range(50):
        z, other = rng.normal(size=(2, 15)) * (rng.random((2, 15)) < 0.3)
        r = x - z @ D
        low = dual_values(*(np.array([v]) for v in (r @ r, x @ r, np.abs(D @ r).max())), alpha)[0]
        q = x - other @ D
        assert low <= 0.5 * q @ q + alpha * np.abs(other).sum() + 1e-12


def test_scikit_learns_codes_are_proved_unique_below_the_bound():
    X = exact(BASES, 2)
    found = lemmata.certify(SparseCoder(BASES, transform_n_nonzero_coefs=2), X)
    assert {"fitted_on_support", "unique_sparsest", "exact_recovery", "atoms_apart"} <= set(
        found.held
    )


def test_a_code_of_as_many_atoms_as_numbers_is_shown_not_to_be_the_only_one():
    D = random_dictionary(4, 9, random_state=0)
    found = lemmata.certify(SparseCoder(D, transform_n_nonzero_coefs=4), exact(D, 4))
    assert {"unique_sparsest", "exact_recovery"} <= set(found.failed)


def test_spikes_that_add_up_to_a_comb_have_two_codes():
    """√d spikes at equal distances and their cosines: the coherence bound is nearly sharp. Here D has two equal sums."""
    D = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, -1, 0]])
    X = np.array([[2.0, 0.5, 0.0]])  # of two spikes, or of their sum and difference
    found = lemmata.certify(
        SparseCoder(D / np.linalg.norm(D, axis=1)[:, None], transform_n_nonzero_coefs=2), X
    )
    assert "unique_sparsest" in found.failed


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_searches_are_checked_and_what_they_find_travels(monkeypatch):
    """Without searches nothing is refuted; a search that lies refutes nothing; an honest one shows its code."""
    D = random_dictionary(10, 20, random_state=0)
    X = exact(D, 3)
    short = SparseCoder(
        D, transform_algorithm="lasso_cd", transform_alpha=0.01, transform_max_iter=1
    )
    four = SparseCoder(D[:9, :4], transform_n_nonzero_coefs=4)
    found = lemmata.certify(short, X)["near_optimum"].witness
    code, x = found["code"], X[found["row"]]
    losses = [
        0.5 * np.sum((x - z @ D) ** 2) + 0.01 * np.abs(z).sum()
        for z in (code, short.transform(X)[found["row"]])
    ]
    assert losses[0] < losses[1] - 1e-3 * 0.5 * x @ x
    found = lemmata.certify(four, X[:, :4])["unique_sparsest"].witness
    assert np.count_nonzero(found["code"]) <= 4
    np.testing.assert_allclose(found["code"] @ D[:9, :4], X[found["row"], :4], atol=1e-12)
    with lemmata.config(searches=False):
        assert "near_optimum" in lemmata.certify(short, X).undecided
        assert "unique_sparsest" in lemmata.certify(four, X[:, :4]).undecided
    monkeypatch.setattr(witness, "better_codes", lambda fit, X, D, *_: (X @ D.T * 99, X * np.nan))
    monkeypatch.setattr(witness, "other_codes", lambda fit, X, D, Z, close: Z + 1)
    assert "near_optimum" in lemmata.certify(short, X).undecided
    assert "unique_sparsest" in lemmata.certify(four, X[:, :4]).undecided


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learns_penalised_codes_are_near_the_optimum_unless_cut_short():
    D = random_dictionary(16, 40, random_state=0)
    X = exact(D, 3)
    done = SparseCoder(D, transform_algorithm="lasso_cd", transform_alpha=0.1)
    assert "near_optimum" in lemmata.certify(done, X).held
    short = SparseCoder(
        D, transform_algorithm="lasso_cd", transform_alpha=0.001, transform_max_iter=1
    )
    assert "near_optimum" in lemmata.certify(short, X).failed


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [DictionaryLearning, MiniBatchDictionaryLearning])
def test_scikit_learns_dictionaries_are_certified(kind):
    X = exact(random_dictionary(8, 10, random_state=0), 2, n=80)
    model = kind(
        6, alpha=0.1, max_iter=3, fit_algorithm="cd", transform_n_nonzero_coefs=2, random_state=0
    )
    found = lemmata.certify(model.fit(X), X)
    assert not found.broken
    assert found["fitted_on_support"].verdict == "holds"
    model.components_ = 2 * model.components_
    assert "atoms_normalised" in lemmata.certify(model, X).failed


def test_scikit_learns_pursuit_is_one_code():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    y = X[:, 2] - 2 * X[:, 5] + 7
    model = OrthogonalMatchingPursuit(n_nonzero_coefs=2).fit(X, y)
    assert {"fitted_on_support", "unique_sparsest", "exact_recovery"} <= set(
        lemmata.certify(model, X, y).held
    )
    model.coef_ = model.coef_ + 0.1 * (model.coef_ != 0)
    assert "fitted_on_support" in lemmata.certify(model, X, y).failed
    with pytest.raises(ValueError, match="one target"):
        lemmata.certify(
            OrthogonalMatchingPursuit(n_nonzero_coefs=2).fit(X, np.c_[y, y]), X, np.c_[y, y]
        )


def test_holes_are_not_called_unique():
    X = exact(BASES, 2)
    X[0, 3] = np.nan
    found = lemmata.SparseCoder(BASES, n_nonzero=2).fit(X).certify(X)
    assert {"unique_sparsest", "exact_recovery"} <= set(found.undecided)
    assert "fitted_on_support" in found.held


@pytest.mark.parametrize("factor", [1e-150, 1e150])
def test_claims_survive_extreme_units(factor):
    X = factor * exact(BASES, 2)
    found = lemmata.SparseCoder(BASES, n_nonzero=2).fit(X).certify(X)
    assert {"unique_sparsest", "exact_recovery", "fitted_on_support"} <= set(found.held)


def test_float32_codes_are_proved_to_their_own_rounding():
    X = exact(BASES, 2).astype(np.float32)
    found = lemmata.SparseCoder(BASES, n_nonzero=2).fit(X).certify(X)
    assert {"unique_sparsest", "statements_true", "fitted_on_support"} <= set(found.held)


def test_a_doubled_atom_of_a_learnt_dictionary_is_found():
    X = np.random.default_rng(0).normal(size=(60, 8))
    model = lemmata.DictionaryLearning(6, max_iter=5, tol=0.0, random_state=0).fit(X)
    assert "atoms_distinct" in model.certify(X).held
    model.components_ = model.components_.copy()
    model.components_[1] = -model.components_[0]
    assert "atoms_distinct" in model.certify(X).failed
