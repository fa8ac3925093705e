"""Diffusion: schedules of noise, what a denoiser predicts, and samplers (CIL 5.5; ML "Diffusion models")."""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "schedules": "NoiseSchedule make_schedule",
        "samplers": "SAMPLERS trajectory",
        "exact": "MixtureDenoiser",
        "denoisers": "Denoiser",
        "network": "DiffusionNet Denoising",
        "estimator": "Diffusion",
        "latent": "Latent",
        "cascade": "Cascade",
    },
)
