"""What the figures of clusters and mixtures show is no luck of a seed, and their checks can fail.

That each entry draws, at its own seed, is tested with all entries.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom, norm

from lemmata.atlas import NotShown
from lemmata.atlas.clustering import centres as clustering
from lemmata.atlas.clustering import mixtures

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
QUICK = (
    clustering.voronoi,
    mixtures.five_components,
    mixtures.em_steps,
    mixtures.hard_limit,
)
LONG = (
    *(clustering.colour_quantisation, clustering.bad_start, clustering.coreset_error),
    mixtures.choose_k,
)


@pytest.mark.parametrize("make", QUICK, ids=lambda make: make.__name__)
def test_another_draw_of_the_data_shows_the_same(make):
    assert make(seed=1).axes


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("make", LONG, ids=lambda make: make.__name__)
def test_other_draws_of_the_longer_experiments_show_the_same(make, seed):
    assert make(seed=seed).axes


# --- borders ----------------------------------------------------------------------------------------------------------


def test_of_three_centres_on_a_line_the_outer_two_share_no_border():
    C = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    assert clustering._border(C, 0, 2, far=10) is None
    assert_allclose(np.sort(clustering._border(C, 0, 1, far=10), axis=0), [[0.5, -10], [0.5, 10]])


def test_the_border_ends_where_a_third_centre_becomes_nearer():
    C = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    ends = clustering._border(C, 0, 1, far=10)
    top = ends[ends[:, 1].argmax()]  # the circumcentre of the triangle
    assert_allclose(((C - top) ** 2).sum(axis=1), 25 / 16)
    assert ends[:, 1].min() == pytest.approx(-10)


def test_borders_that_are_off_half_way_are_noticed(monkeypatch):
    exact = clustering._border

    def shifted(C, i, j, far):
        ends = exact(C, i, j, far)
        return None if ends is None else ends + 0.01 * (C[j] - C[i])

    monkeypatch.setattr(clustering, "_border", shifted)
    with pytest.raises(NotShown, match="as far from one of its two centres"):
        clustering.voronoi()


# --- the others -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 5, 40])
def test_the_distance_to_the_normal_is_the_largest_on_a_fine_grid(n):
    p = 0.3
    z = np.linspace(-6, 6, 200_001)
    heads = np.floor(n * p + z * np.sqrt(n * p * (1 - p)))
    largest = np.abs(binom.cdf(heads, n, p) - norm.cdf(z)).max()
    found = mixtures._distance_to_normal(n, p)
    # between grid points Φ rises by at most (6e-5)·φ(0) < 3e-5, so that much of the supremum may be missed
    assert largest <= found + 1e-12
    assert found <= largest + 3e-5


def test_a_bound_above_the_likelihood_is_noticed(monkeypatch):
    monkeypatch.setattr(mixtures, "elbo", lambda *args: 0.0)
    with pytest.raises(NotShown, match="E closes the gap"):
        mixtures.em_steps()


def test_a_coreset_that_is_an_even_sample_is_noticed(monkeypatch):
    drawn = clustering._samples

    def even(X, m, rng):
        kinds = drawn(X, m, rng)
        return {**kinds, "lightweight coreset": kinds["even sample"]}

    trials = clustering._trials
    monkeypatch.setattr(clustering, "_samples", even)
    monkeypatch.setattr(
        clustering, "_trials", lambda X, k, sizes, draws, rng: trials(X, k, sizes, 3, rng)
    )
    with pytest.raises(NotShown):
        clustering.coreset_error()


def test_wider_components_do_not_have_the_labels_of_kmeans(monkeypatch):
    narrow = mixtures._fit_soft
    monkeypatch.setattr(
        mixtures, "_fit_soft", lambda X, start, sigma: narrow(X, start, 100 * sigma)
    )
    with pytest.raises(NotShown, match="label of k-means"):
        mixtures.hard_limit()
