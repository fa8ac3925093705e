"""What the figures of networks on images show is no luck of a seed, and their checks can fail."""

import numpy as np
import pytest

from lemmata.atlas import NotShown
from lemmata.atlas.nets import images

LONG = (
    images.learned_filters,
    images.linear_probes,
    images.skip_connections,
    images.batch_norm_rates,
    images.small_data,
)


def test_receptive_fields_of_other_weights_show_the_same():
    assert images.receptive_fields(seed=1).axes


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("make", LONG, ids=lambda make: make.__name__)
def test_other_draws_show_the_same(make, seed):
    assert make(seed=seed).axes


def test_a_field_that_is_one_pixel_off_is_noticed(monkeypatch):
    from lemmata.nets.images import receptive_fields

    exact = receptive_fields.receptive_field

    def shifted(stack):
        return tuple(field.then(1, 1, 1) for field in exact(stack))

    monkeypatch.setattr(receptive_fields, "receptive_field", shifted)
    with pytest.raises(NotShown, match="where the formula says"):
        images.receptive_fields()


def test_smoothness_is_0_for_noise_and_1_for_constants():
    assert images._smoothness(np.ones((3, 5, 5))) == pytest.approx(1)
    noise = np.random.default_rng(0).standard_normal((2000, 5, 5))
    assert abs(images._smoothness(noise)) < 4 / np.sqrt(2000 * 40)  # of 40 pairs a filter
    board = np.indices((5, 5)).sum(axis=0) % 2 * 2.0 - 1
    assert images._smoothness(board[None]) == pytest.approx(-1)


def test_half_of_a_heap_in_the_middle_is_found_there():
    heat = np.zeros((9, 9))
    heat[2:7, 2:7] = 1.0
    heat[4, 4] = 30.0  # 30 of 54
    assert images._half_width(heat, 2, 5) == 1
    heat[4, 4] = 1.0  # 9 of 25 in the middle 3 × 3
    assert images._half_width(heat, 2, 5) == 5
