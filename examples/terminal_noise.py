"""What does the last noise level still show of the data? Schedules of diffusion models, and what their draws lose by it.

./run py examples/terminal_noise.py
"""

import numpy as np

import lemmata
from lemmata.generate import Denoiser
from lemmata.generate.diffusion import MixtureDenoiser, make_schedule, trajectory

rng = np.random.default_rng(0)
steps, columns = 1000, 16

# Bright and dark images of 16 equal pixels: what is left of them at the end is their mean, as in Stable Diffusion's schedule.
means = np.array([[1.0], [-1.0]]) * np.ones((2, columns))
covariances = 0.05 * np.eye(columns)[None].repeat(2, axis=0)
scaled = np.sqrt(np.cumprod(1 - np.linspace(0.00085**0.5, 0.012**0.5, steps) ** 2))
schedules = {"cosine": "cosine", "linear (DDPM)": "linear", "scaled linear": scaled}

print(f"{'':16}{'SNR at T':>10}   {'starts_from_noise':20}bright draws, 70 % wanted")
for name, given in schedules.items():
    schedule = make_schedule(given, steps)
    best = MixtureDenoiser(np.array([0.7, 0.3]), means, covariances, schedule)  # 70 % are bright
    X = best.draw(500, rng)
    found = lemmata.certify(Denoiser(best, schedule.alpha_bar[1:]), X)["starts_from_noise"]
    *_, (_, drawn) = trajectory(rng.normal(size=(1000, columns)), best, None, schedule, "ddim", 50)
    bright = (drawn.mean(axis=1) > 0).mean()
    print(f"{name:16}{schedule.terminal_snr:10.2g}   {found.verdict:20}{bright:.0%}")

# Where x_T still shows the data, sampling from pure noise is not where training ended: 70 % bright become fewer.
