"""select: how many components there are."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture as Theirs

from lemmata import GaussianMixture, Mixture
from lemmata.mixtures import select


def planted(k, n=100, seed=0):
    """k clusters on a circle whose neighbours are 8 apart; as in CIL20 Fig. 6.7, narrower on the left than on the right."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(k) / k
    centres = 4 / np.sin(np.pi / k) * np.column_stack([np.cos(angles), np.sin(angles)])
    widths = np.interp(centres[:, 0], [centres[:, 0].min(), centres[:, 0].max()], [0.4, 1.0])
    return np.concatenate(
        [rng.normal(size=(n, 2)) * s + c for c, s in zip(centres, widths, strict=True)]
    )


@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("seed", range(1))
def test_bic_finds_the_planted_number(k, seed):
    X = planted(k, seed=seed)
    path = select(X, range(1, 8), random_state=0)
    assert path.best_k == k
    assert path.best.n_components == k
    assert path.best is path.models[path.index]
    assert path.criterion == "bic"


def test_the_table_is_made_of_the_models_own_numbers():
    X = planted(3)
    path = select(
        X,
        [4, 1, 2, 2],
        model=GaussianMixture(covariance_type="diag"),
        criterion="aic",
        random_state=1,
    )
    assert path.k.tolist() == [1, 2, 4]
    for i, model in enumerate(path.models):
        assert path.log_likelihood[i] == pytest.approx(model.score(X) * len(X))
        assert path.aic[i] == pytest.approx(model.aic(X))
        assert path.bic[i] == pytest.approx(model.bic(X))
        assert path.n_parameters[i] == model._n_parameters()
    assert path.best_k == path.k[np.argmin(path.aic)]
    assert list(path.table) == ["k", "log_likelihood", "n_parameters", "aic", "bic"]
    assert "best by AIC" in str(path)
    assert len(str(path).splitlines()) == 4


def test_the_scale_of_the_notes_is_half_of_ours():
    """CIL20 6.4: AIC = −ℓ + κ and BIC = −ℓ + ½ κ ln n."""
    X = planted(3)
    path = select(X, [2, 3], random_state=0)
    assert_allclose(path.aic / 2, -path.log_likelihood + path.n_parameters)
    assert_allclose(path.bic / 2, -path.log_likelihood + path.n_parameters * np.log(len(X)) / 2)


def test_scikit_learns_mixture_can_be_selected_too():
    X = planted(3)
    path = select(X, range(1, 5), model=Theirs(), random_state=0)
    assert path.best_k == 3
    assert_allclose(path.bic, [model.bic(X) for model in path.models])


def test_weights_count_rows():
    X = planted(3, n=40)
    w = np.random.default_rng(0).integers(1, 4, size=len(X))
    weighted = select(
        X, [2], sample_weight=w, random_state=0, model=GaussianMixture(tol=1e-10, max_iter=1000)
    )
    model = weighted.best
    assert weighted.bic[0] == pytest.approx(model.bic(np.repeat(X, w, axis=0)), rel=1e-9)


def test_other_families_and_the_model_itself_stays_as_it_was():
    rng = np.random.default_rng(0)
    X = np.concatenate(
        [rng.poisson([2.0, 20.0], size=(100, 2)), rng.poisson([20.0, 2.0], size=(100, 2))]
    )
    model = Mixture(7, "poisson", n_init=2)
    assert select(X, range(1, 4), model=model, random_state=0).best_k == 2
    assert model.n_components == 7
    assert not hasattr(model, "weights_")


def test_the_picture_marks_both_minima_and_says_where_they_are():
    path = select(planted(3), range(1, 5), random_state=0)
    ax = path.plot()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [
        f"{name.upper()}, least at k = {path.k[np.argmin(getattr(path, name))]}"
        for name in ("aic", "bic")
    ]
    assert "components" in ax.get_xlabel()
    assert path.plot(ax) is ax
    select(planted(3), [2], random_state=0).plot()  # one number of components is a picture too


@pytest.mark.parametrize("components", [[], [0], [-1], [1.5], [True]], ids=str)
def test_numbers_of_components_that_make_no_sense_are_refused(components):
    with pytest.raises(ValueError, match="components"):
        select(planted(3), components)


def test_unknown_criteria_are_refused():
    with pytest.raises(ValueError, match="criterion"):
        select(planted(3), [1], criterion="mdl")


def test_models_without_a_likelihood_are_refused():
    with pytest.raises(TypeError, match="no likelihood"):
        select(planted(3), [2], model=KMeans())


def test_rows_of_which_nothing_is_known_do_not_count_and_blocks_are_taken():
    X = planted(3)
    longer = np.vstack([X, np.full((50, X.shape[1]), np.nan)])
    plain = select(X, [1, 3], random_state=0, model=GaussianMixture(tol=1e-9, max_iter=1000))
    for other in (longer, [longer[:100], longer[100:]]):
        path = select(other, [1, 3], random_state=0, model=GaussianMixture(tol=1e-9, max_iter=1000))
        assert_allclose(path.bic, plain.bic, rtol=1e-6)
        assert_allclose(path.bic, [model.bic(other) for model in path.models])
