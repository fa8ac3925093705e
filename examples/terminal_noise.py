"""What does the last noise level still show of the data? Schedules of diffusion models, and what their draws lose by it.

./run py examples/terminal_noise.py
"""

import numpy as np

import lemmata
from lemmata.generate import Denoiser
from lemmata.generate.diffusion import MixtureDenoiser, make_schedule, trajectory

rng = np.random.default_rng(0)
steps, pixels, bright, spread = 1000, 16, 2.0, 0.5

# Bright images. Stable Diffusion's schedule ends before they are drowned, so its x_T is a little bright, and pure noise is not.
scaled = np.sqrt(np.cumprod(1 - np.linspace(0.00085**0.5, 0.012**0.5, steps) ** 2))
schedules = {"cosine": "cosine", "linear (DDPM)": "linear", "scaled linear": scaled}
mean, covariance = np.full((1, pixels), bright), spread**2 * np.eye(pixels)[None]

print(f"{'':16}{'SNR at T':>10}   {'starts_from_noise':20}brightness of draws, off by")
for name, given in schedules.items():
    schedule = make_schedule(given, steps)
    best = MixtureDenoiser(np.ones(1), mean, covariance, schedule)  # no training, no excuse
    X = best.draw(500, rng)
    found = lemmata.certify(Denoiser(best, schedule.alpha_bar[1:]), X)["starts_from_noise"]
    noise = rng.normal(size=(1000, pixels))
    *_, (_, drawn) = trajectory(noise, best, np.zeros_like, schedule, "heun", 30)
    off = (drawn.mean() - bright) / (spread / np.sqrt(pixels))
    print(
        f"{name:16}{schedule.terminal_snr:10.2g}   {found.verdict:20}{off:+.2f} of their deviation"
    )

print("\n" + found.advice)
