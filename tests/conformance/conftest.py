"""The toys of tests/core, and the small models of tests/reliability, are used here as well."""

import inspect
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("core", "reliability")]


@pytest.fixture(
    autouse=True, scope="module"
)  # no longer: tests elsewhere may follow in the same process
def few_steps_of_the_flow():
    """Diffusion states ln p after 6 steps and its claim follows 12: what is promised here holds of any number of them, and
    tests/generate has the 50 and 100 of users."""
    from lemmata.audit.generate import denoiser_density
    from lemmata.generate import Diffusion

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(denoiser_density, "SOLVED", 12)
        for method in (Diffusion.score_samples, Diffusion.estimate_density):
            method = inspect.unwrap(method)
            usual = method.__defaults__
            patch.setattr(method, "__defaults__", tuple(6 if one == 50 else one for one in usual))
        yield
