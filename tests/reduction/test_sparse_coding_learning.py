"""Learning dictionaries: planted atoms are found, statistics add up, K-SVD never rises, bad input is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lemmata
from lemmata import DictionaryLearning
from lemmata.core.engine import COMPILE
from lemmata.reduction.sparse_coding import _twins, random_dictionary
from lemmata.reduction.sparse_coding.coding import AtomSums, Coder, TrainingRows
from lemmata.reduction.sparse_coding.ksvd import KSVDAlgorithm
from lemmata.reduction.sparse_coding.mod import best_atoms

METHODS = {
    "ksvd": {"method": "ksvd", "n_nonzero": 2},
    "mod": {"method": "mod", "n_nonzero": 2},
    "online": {"method": "online", "alpha": 0.2, "batch_size": 100},
}
MOST = {"ksvd": 40, "mod": 40, "online": 12}


def planted(n=600, d=12, k=16, s=2, seed=0):
    """Rows of s atoms each, exactly."""
    rng = np.random.default_rng(seed)
    D = random_dictionary(d, k, random_state=seed)
    Z = np.zeros((n, k))
    for z in Z:
        z[rng.choice(k, s, replace=False)] = rng.uniform(0.5, 2, s) * rng.choice([-1, 1], s)
    return Z @ D, D


def found(model, D):
    """The share of planted atoms that some learnt atom has within 8 degrees."""
    return float((np.abs(model.components_ @ D.T).max(axis=0) > 0.99).mean())


@pytest.mark.parametrize("name", METHODS)
def test_planted_atoms_are_found(name):
    X, D = planted()
    model = DictionaryLearning(16, **METHODS[name], random_state=0, max_iter=MOST[name], tol=0.0)
    with lemmata.config(certificate=False):
        model.fit(X)
    assert found(model, D) >= 0.8
    assert np.abs(np.linalg.norm(model.components_, axis=1) - 1).max() < 1e-12


@pytest.mark.parametrize("name", METHODS)
def test_planted_atoms_are_found_through_holes(name):
    X, D = planted()
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    model = DictionaryLearning(16, **METHODS[name], random_state=0, max_iter=MOST[name], tol=0.0)
    with lemmata.config(certificate=False):
        assert found(model.fit(X), D) >= 0.7
    filled = model.inverse_transform(model.transform(X))
    truth = planted()[0]
    assert (
        np.square(filled - truth)[np.isnan(X)].mean() < 0.5 * np.square(truth)[np.isnan(X)].mean()
    )


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_step_of_ksvd_never_raises_the_error(holes, weighted):
    X, _ = planted(n=150)
    rng = np.random.default_rng(2)
    X = X + 0.3 * rng.normal(size=X.shape)
    if holes:
        X[rng.random(X.shape) < 0.2] = np.nan
    data = TrainingRows(X, rng.uniform(0, 3, 150) if weighted else None, compiled=False)
    algorithm = KSVDAlgorithm(20, Coder("omp", 3))
    state = algorithm.init(data, rng)
    for _ in range(12):
        after = algorithm.step(state, data)
        assert after.loss <= state.loss * (1 + 1e-12)
        state = after


def test_what_rows_teach_adds_up_in_any_cuts():
    X, D = planted(n=90)
    weights = np.random.default_rng(0).uniform(0, 2, 90)
    coder = Coder("lasso_cd", alpha=0.1)
    whole = AtomSums.of(X, weights, D, coder)
    for cuts in ([30, 60], [1, 2, 89]):
        parts = sum(
            (AtomSums.of(x, w, D, coder) for x, w in zip(np.split(X, cuts), np.split(weights, cuts), strict=True)),
            AtomSums.none(D),
        )  # fmt: skip
        assert_allclose(parts.A, whole.A, atol=1e-12)
        assert_allclose(parts.B, whole.B, atol=1e-12)
        assert_allclose(parts.costs.loss, whole.costs.loss)
        assert (parts.worst == whole.worst).all()


def test_a_row_of_weight_two_is_that_row_twice():
    X, D = planted(n=40)
    coder = Coder("omp", 2)
    one = AtomSums.of(X, np.full(40, 2.0), D, coder)
    two = AtomSums.of(np.concatenate([X, X]), None, D, coder)
    assert_allclose(one.A, two.A)
    assert_allclose(one.B, two.B)
    assert one.costs.mean_loss == pytest.approx(two.costs.mean_loss, abs=1e-15)


def test_mods_atoms_are_the_least_squares_fit_to_the_codes():
    X, _ = planted(n=200)
    D = random_dictionary(12, 16, random_state=5)
    coder = Coder("omp", 3)
    new = best_atoms(AtomSums.of(X, None, D, coder), D)
    plain = np.linalg.lstsq(coder.codes(X, D), X, rcond=None)[0]
    assert_allclose(new, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-6)


def test_a_sweep_over_the_atoms_never_raises_the_quadratic_and_kernel_and_twin_agree():
    from lemmata.reduction.sparse_coding._kernels import improve_atoms_into

    X, _ = planted(n=200)
    D = random_dictionary(12, 16, random_state=5)
    sums = AtomSums.of(X, None, D, Coder("lasso_cd", alpha=0.1))
    value = lambda D: 0.5 * np.trace(D.T @ sums.A @ D) - np.trace(D.T @ sums.B)  # noqa: E731
    one, two = D.copy(), D.copy()
    for _ in range(5):
        before = value(one)
        _twins.improve_atoms_into(one, sums.A, sums.B, 0.0)
        assert value(one) <= before + 1e-9
        improve_atoms_into(two, sums.A, sums.B, 0.0)
        assert_allclose(one, two, atol=1e-10)


def test_partial_fit_keeps_sums_over_all_rows_and_learns():
    X, _ = planted(n=640)
    model, losses = DictionaryLearning(16, alpha=0.05, random_state=0), []
    for batch in np.array_split(np.concatenate([X, X]), 20):
        losses.append(model.partial_fit(batch).loss_)
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    assert model.stopped_ == "batches"
    assert "statements_true" in model.certificate_.not_checked
    # a batch adds its own products and takes none away
    more = lemmata.reduction.sparse_coding.coding.AtomSums.of(
        X[:64], None, model.components_, model._fit_coder(16, 12)
    )
    before = model.sums_
    model.partial_fit(X[:64])
    assert_allclose(model.sums_.A, before.A + more.A, atol=1e-9)
    assert_allclose(model.sums_.B, before.B + more.B, atol=1e-9)


def test_results_do_not_depend_on_threads(monkeypatch):
    X, _ = planted(n=300)
    fits = []
    for threads in ("1", "8"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        monkeypatch.setenv(COMPILE, "always")
        model = DictionaryLearning(
            16, alpha=0.05, batch_size=100, max_iter=2, tol=0.0, random_state=0
        )
        fits.append(model.fit(X).components_.tobytes())
    assert fits[0] == fits[1]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 700}, "n_components"),
        ({"n_nonzero": 3}, "takes alpha"),
        ({"method": "ksvd", "n_nonzero": 17}, "17 atoms of 16"),
        ({"method": "ksvd", "positive_code": True}, "positive_code"),
        ({"dict_init": np.zeros((16, 12))}, "zero"),
        ({"dict_init": np.eye(12)}, "dict_init"),
        ({"transform_algorithm": "omp", "transform_n_nonzero_coefs": 40}, "40 atoms"),
    ],
)
def test_bad_parameters_are_refused_before_the_work(parameters, message):
    X, _ = planted(n=60)
    with pytest.raises(ValueError, match=message):
        DictionaryLearning(**{"n_components": 16, **parameters}).fit(X)


def test_bad_rows_are_refused():
    model = DictionaryLearning(4, random_state=0, max_iter=1, tol=0.0)
    with pytest.raises(ValueError, match="NaN only"):
        model.fit(np.full((20, 4), np.nan))


def test_constant_and_empty_rows_leave_a_dictionary():
    for X in (np.zeros((20, 4)), np.ones((20, 4))):
        for name in METHODS:
            model = DictionaryLearning(
                3, **{**METHODS[name], "n_nonzero": None}, random_state=0, max_iter=3, tol=0.0
            )
            model.fit(X)
            assert np.isfinite(model.components_).all()
            assert not model.certificate_.broken
